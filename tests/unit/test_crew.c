/* A crew: every member does every round once, nobody passes a meeting before all are there, and what one wrote the
 * others see. */
#include <pthread.h>
#include <string.h>

#include "client/strategy/crew.h"
#include "tests/unit/kits/check_main.h"

enum { MEMBERS_MAX = 8, ROUNDS = 200 };

struct board {
    struct crew *crew;
    uint32_t members;
    uint64_t did[MEMBERS_MAX]; /* each writes its own */
    uint64_t saw[MEMBERS_MAX]; /* sum of all, after the meeting */
    pthread_t thread[MEMBERS_MAX];
};

static void
work(void *arg, uint32_t member)
{
    struct board *b = arg;
    uint64_t sum = 0;

    b->thread[member] = pthread_self();
    b->did[member]++;
    crew_meet(b->crew);
    for (uint32_t i = 0; i < b->members; i++)
        sum += b->did[i];
    crew_meet(b->crew); /* all have read before the next round writes */
    b->saw[member] = sum;
}

/* _i: members, 1 to 8. */
START_TEST(every_member_does_every_round_and_sees_what_the_others_did)
{
    struct board b = {.members = (uint32_t)_i};

    ck_assert_int_eq(crew_new(b.members, &b.crew, NULL), PS_OK);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        crew_run(b.crew, work, &b);
        for (uint32_t i = 0; i < b.members; i++) {
            ck_assert_uint_eq(b.did[i], round);
            ck_assert_uint_eq(b.saw[i], round * b.members);
        }
    }
    ck_assert(pthread_equal(b.thread[0], pthread_self()));
    for (uint32_t i = 1; i < b.members; i++)
        ck_assert(!pthread_equal(b.thread[i], b.thread[i - 1]));
    crew_free(b.crew);
}
END_TEST

START_TEST(a_crew_that_never_worked_is_freed)
{
    struct crew *crew;

    for (uint32_t members = 1; members <= MEMBERS_MAX; members++) {
        ck_assert_int_eq(crew_new(members, &crew, NULL), PS_OK);
        crew_free(crew);
    }
    crew_free(NULL);
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
