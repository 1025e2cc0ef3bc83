/* Replica threads: every thread does every round once, none passes a barrier before all are there, and the others see
 * all that one wrote. */
#include <pthread.h>
#include <string.h>

#include "client/strategy/replica_threads.h"
#include "tests/unit/kits/check_main.h"

enum { MEMBERS_MAX = 8, ROUNDS = 200 };

struct threads_board {
    struct replica_threads *crew;
    uint32_t members;
    uint64_t did[MEMBERS_MAX]; /* each writes its own */
    uint64_t saw[MEMBERS_MAX]; /* sum of all, after the meeting */
    pthread_t thread[MEMBERS_MAX];
};

static void
threads_work(void *arg, uint32_t member)
{
    struct threads_board *b = arg;
    uint64_t sum = 0;

    b->thread[member] = pthread_self();
    b->did[member]++;
    replica_threads_barrier(b->crew);
    for (uint32_t i = 0; i < b->members; i++)
        sum += b->did[i];
    replica_threads_barrier(b->crew); /* all have read before the next round writes */
    b->saw[member] = sum;
}

/* _i: members, 1 to 8. */
START_TEST(every_member_does_every_round_and_sees_what_the_others_did)
{
    struct threads_board b = {.members = (uint32_t)_i};

    ck_assert_int_eq(replica_threads_new(b.members, &b.crew, NULL), PS_OK);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        replica_threads_run(b.crew, threads_work, &b);
        for (uint32_t i = 0; i < b.members; i++) {
            ck_assert_uint_eq(b.did[i], round);
            ck_assert_uint_eq(b.saw[i], round * b.members);
        }
    }
    ck_assert(pthread_equal(b.thread[0], pthread_self()));
    for (uint32_t i = 1; i < b.members; i++)
        ck_assert(!pthread_equal(b.thread[i], b.thread[i - 1]));
    replica_threads_free(b.crew);
}
END_TEST

START_TEST(a_crew_that_never_worked_is_freed)
{
    struct replica_threads *crew;

    for (uint32_t members = 1; members <= MEMBERS_MAX; members++) {
        ck_assert_int_eq(replica_threads_new(members, &crew, NULL), PS_OK);
        replica_threads_free(crew);
    }
    replica_threads_free(NULL);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("crew");
    TCase *tc = tcase_create("crew");

    tcase_add_loop_test(tc, every_member_does_every_round_and_sees_what_the_others_did, 1, MEMBERS_MAX + 1);
    tcase_add_test(tc, a_crew_that_never_worked_is_freed);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
