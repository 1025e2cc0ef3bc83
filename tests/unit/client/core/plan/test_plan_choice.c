/* Which schedule is chosen, and how it reads. */
#include <string.h>

#include "client/core/plan/plan.h"
#include "tests/unit/kits/check_main.h"

static struct plan_request
ask_for(enum plan_op op, uint32_t ranks, size_t bytes)
{
    return (struct plan_request){.op = op, .ranks = ranks, .count = bytes / 4, .size = 4};
}

static void
check_choice(struct plan_request ask, enum ps_algorithm algorithm)
{
    enum ps_algorithm chosen = plan_choose(&ask);
    struct plan_plan p;

    ck_assert_msg(chosen == algorithm, "operation %d of %zu elements, %u ranks: %d, not %d", ask.op, ask.count,
                  ask.ranks, chosen, algorithm);
    ck_assert_int_eq(plan_make(&ask, &p, NULL), PS_OK);
    ck_assert_int_eq(p.algorithm, algorithm);
    ck_assert_uint_eq(p.segment_bytes, plan_choose_segment(&ask, algorithm));
    plan_finish(&p);
}

START_TEST(little_goes_to_all_at_once_and_much_round_the_ring)
{
    check_choice(ask_for(PLAN_ALL_REDUCE, 4, 4), PS_ALGORITHM_DIRECT);
    check_choice(ask_for(PLAN_ALL_REDUCE, 2, 64 << 10), PS_ALGORITHM_DIRECT);
    check_choice(ask_for(PLAN_ALL_REDUCE, 2, 4 << 20), PS_ALGORITHM_RING);
    check_choice(ask_for(PLAN_ALL_REDUCE, 8, 64 << 10), PS_ALGORITHM_HALVING);
    check_choice(ask_for(PLAN_ALL_REDUCE, 8, 100 << 20), PS_ALGORITHM_RING);
    check_choice(ask_for(PLAN_ALL_REDUCE, 64, 4), PS_ALGORITHM_HALVING);
    check_choice(ask_for(PLAN_BROADCAST, 64, 4 << 20), PS_ALGORITHM_RING);
    check_choice(ask_for(PLAN_BARRIER, 3, 0), PS_ALGORITHM_DIRECT);
    check_choice(ask_for(PLAN_BARRIER, 40, 0), PS_ALGORITHM_HALVING);
    check_choice(ask_for(PLAN_ALL_REDUCE, 1, 4 << 20), PS_ALGORITHM_DIRECT);
}
END_TEST

START_TEST(several_ranks_on_several_hosts_go_in_levels)
{
    static const uint32_t pairs[] = {7, 7, 9, 9}, alone[] = {1, 2, 3, 4}, together[] = {5, 5, 5, 5};
    struct plan_request ask = ask_for(PLAN_ALL_REDUCE, 4, 4 << 20);

    ask.host = pairs;
    check_choice(ask, PS_ALGORITHM_HIERARCHICAL);
    ask.host = alone;
    check_choice(ask, PS_ALGORITHM_RING);
    ask.host = together;
    check_choice(ask, PS_ALGORITHM_RING);
    ask.count = 1000;
    check_choice(ask, PS_ALGORITHM_HALVING); /* fewer messages for the processors that they share, */
    ask.host = alone;
    check_choice(ask, PS_ALGORITHM_DIRECT); /* fewer ways between hosts */
}
END_TEST

START_TEST(every_rank_chooses_the_same)
{
    struct test_rng r = {test_seed()};
    uint32_t host[64];

    for (int i = 0; i < 2000; i++) {
        uint32_t n = 1 + (uint32_t)test_below(&r, 64);
        struct plan_request a = ask_for((enum plan_op)test_below(&r, PLAN_BARRIER + 1), n,
                                        test_below(&r, 1u << (2 + i % 28))),
                            b;

        for (uint32_t k = 0; k < n; k++)
            host[k] = (uint32_t)test_below(&r, 4);
        a.host = host;
        a.shared_memory = test_below(&r, 2) == 0;
        b = a;
        b.rank = (uint32_t)test_below(&r, n);
        b.in_place = !a.in_place;
        ck_assert_int_eq(plan_choose(&a), plan_choose(&b));
        ck_assert_uint_eq(plan_choose_segment(&a, plan_choose(&a)), plan_choose_segment(&b, plan_choose(&b)));
    }
}
END_TEST

static size_t
segment_for(const uint32_t *host, bool shared_memory, size_t bytes)
{
    struct plan_request ask = ask_for(PLAN_ALL_REDUCE, 2, bytes);

    ask.host = host;
    ask.shared_memory = shared_memory;
    return plan_choose_segment(&ask, plan_choose(&ask));
}

START_TEST(messages_between_ranks_of_one_host_are_larger)
{
    static const uint32_t alone[] = {1, 2}, together[] = {5, 5};

    ck_assert_uint_eq(segment_for(alone, false, 4 << 20), 256 << 10);
    ck_assert_uint_eq(segment_for(NULL, false, 4 << 20), 256 << 10);
    ck_assert_uint_eq(segment_for(together, false, 4 << 20), 1 << 20); /* two of a piece */
    ck_assert_uint_eq(segment_for(together, false, (4 << 20) + 8), 512 << 10);
    ck_assert_uint_eq(segment_for(together, false, 1 << 20), 512 << 10);
    ck_assert_uint_eq(segment_for(together, false, 100 << 20), 512 << 10);
    ck_assert_uint_eq(segment_for(together, true, 4 << 20), 128 << 10);
}
END_TEST

START_TEST(what_is_chosen_for_very_much_has_not_too_many_steps)
{
    for (int op = PLAN_ALL_REDUCE; op <= PLAN_REDUCE; op += PLAN_REDUCE - PLAN_ALL_REDUCE)
        for (int algorithm = 0; algorithm <= PS_ALGORITHM_HIERARCHICAL; algorithm++) {
            struct plan_request ask = ask_for((enum plan_op)op, 16, (size_t)1 << 40);
            struct ps_error e = {0};
            struct plan_plan p;

            ask.algorithm = (enum ps_algorithm)algorithm;
            ask.rank = 5;
            ck_assert_msg(plan_make(&ask, &p, &e) == PS_OK, "%s", e.text);
            ck_assert(p.steps <= PLAN_STEPS_MAX / 2);
            plan_finish(&p);
        }
}
END_TEST

START_TEST(more_steps_than_the_limit_are_refused)
{
    struct plan_request ask = ask_for(PLAN_ALL_REDUCE, 4, 64 << 20);
    struct ps_error e = {0};
    struct plan_plan p;

    ask.algorithm = (enum ps_algorithm)_i;
    ask.segment_bytes = 64;
    ck_assert_int_eq(plan_make(&ask, &p, &e), PS_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(e.text, "messages of 64 bytes"));
    ck_assert_ptr_null(p.step);
    ask.count = SIZE_MAX / 4; /* nothing is allocated for an impossible size */
    ck_assert_int_eq(plan_make(&ask, &p, &e), PS_ERR_LIMIT);
    plan_finish(&p);
    plan_finish(&(struct plan_plan){0});
}
END_TEST

static void
check_text(const struct plan_request *ask, const char *want)
{
    struct plan_plan p;
    char *text;

    ck_assert_int_eq(plan_make(ask, &p, NULL), PS_OK);
    text = plan_text(ask, &p);
    ck_assert_str_eq(text, want);
    free(text);
    plan_finish(&p);
}

START_TEST(a_schedule_reads_as_what_it_does)
{
    static const uint32_t host[] = {0, 1, 0};

    check_text(&(struct plan_request){.op = PLAN_ALL_REDUCE,
                                      .ranks = 3,
                                      .rank = 1,
                                      .count = 9,
                                      .size = 4,
                                      .mean = true,
                                      .algorithm = PS_ALGORITHM_RING,
                                      .segment_bytes = 8},
               "ring, rank 1 of 3, all-reduce of 9 elements of 4 bytes, messages of up to 8 bytes\n"
               "    0  send [0 2) of in to 2\n"
               "    1  receive and reduce [6 8) of out from 0 and [6 8) of in\n"
               "    2  send [2 3) of in to 2\n"
               "    3  receive and reduce [8 9) of out from 0 and [8 9) of in\n"
               "    4  send [6 8) of out to 2; after 1\n"
               "    5  receive and reduce [3 5) of out from 0 and [3 5) of in\n"
               "    6  make the mean of 3 of [3 5) of out; after 5\n"
               "    7  send [8 9) of out to 2; after 3\n"
               "    8  receive and reduce [5 6) of out from 0 and [5 6) of in\n"
               "    9  make the mean of 3 of [5 6) of out; after 8\n"
               "   10  send [3 5) of out to 2; after 6\n"
               "   11  receive [0 2) of out from 0\n"
               "   12  send [5 6) of out to 2; after 9\n"
               "   13  receive [2 3) of out from 0\n"
               "   14  send [0 2) of out to 2; after 11\n"
               "   15  receive [6 8) of out from 0; after 4\n"
               "   16  send [2 3) of out to 2; after 13\n"
               "   17  receive [8 9) of out from 0; after 7\n");
    check_text(&(struct plan_request){.op = PLAN_ALL_REDUCE,
                                      .ranks = 3,
                                      .rank = 2,
                                      .count = 5,
                                      .size = 8,
                                      .in_place = true,
                                      .algorithm = PS_ALGORITHM_DIRECT,
                                      .segment_bytes = 1024},
               "direct, rank 2 of 3, all-reduce of 5 elements of 8 bytes, messages of up to 1024 bytes\n"
               "    0  copy [0 5) of scratch from [0 5) of in\n"
               "    1  send [0 5) of scratch to 0; after 0\n"
               "    2  send [0 5) of scratch to 1; after 0\n"
               "    3  receive [0 5) of out from 0; after 0\n"
               "    4  receive and reduce [0 5) of out from 1 and [0 5) of out; after 3\n"
               "    5  reduce [0 5) of out and [0 5) of scratch; after 0, 4\n");
    check_text(&(struct plan_request){.op = PLAN_BROADCAST,
                                      .ranks = 3,
                                      .root = 2,
                                      .host = host,
                                      .count = 4,
                                      .size = 2,
                                      .rank = 2,
                                      .algorithm = PS_ALGORITHM_HIERARCHICAL,
                                      .segment_bytes = 1024},
               "hierarchical, rank 2 of 3, broadcast of 4 elements of 2 bytes from 2, messages of up to 1024 bytes\n"
               "    0  send [0 4) of buffer to 1\n"
               "    1  send [0 4) of buffer to 0\n"
               "    2  send [0 0) of buffer to 0\n"
               "    3  receive [0 0) of buffer from 1\n"
               "    4  send [0 0) of buffer to 1; after 3\n"
               "    5  receive [0 0) of buffer from 0; after 3\n");
    check_text(&(struct plan_request){.op = PLAN_BARRIER, .ranks = 3, .size = 1, .algorithm = PS_ALGORITHM_RING},
               "ring, rank 0 of 3, barrier\n"
               "    0  send [0 0) of out to 1\n"
               "    1  receive [0 0) of out from 2; after 0\n"
               "    2  send [0 0) of out to 1; after 1\n");
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("plan_choice");
    TCase *tc = tcase_create("plan_choice");

    tcase_add_test(tc, little_goes_to_all_at_once_and_much_round_the_ring);
    tcase_add_test(tc, several_ranks_on_several_hosts_go_in_levels);
    tcase_add_test(tc, every_rank_chooses_the_same);
    tcase_add_test(tc, messages_between_ranks_of_one_host_are_larger);
    tcase_add_test(tc, what_is_chosen_for_very_much_has_not_too_many_steps);
    tcase_add_loop_test(tc, more_steps_than_the_limit_are_refused, PS_ALGORITHM_DIRECT, PS_ALGORITHM_HIERARCHICAL + 1);
    tcase_add_test(tc, a_schedule_reads_as_what_it_does);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
