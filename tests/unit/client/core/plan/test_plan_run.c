/* Schedules of collectives, carried out without sockets: every operation by every algorithm between 1 to 64 ranks, with
 * messages that arrive in any order. */
#include <string.h>

#include "tests/unit/client/core/plan/plan_kit.h"

static const uint32_t few[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17}, many[] = {24, 31, 32, 33, 48, 63, 64};

/* Which rank is on which host: each its own; all on one; in blocks; dealt in turn; by chance. */
enum plan_run_layout { ALONE, TOGETHER, BLOCKS, DEALT, CHANCE, LAYOUTS };

static const uint32_t *
lay_out(enum plan_run_layout layout, uint32_t n, struct test_rng *r, uint32_t *host)
{
    uint32_t hosts = 1 + (uint32_t)test_below(r, n), block = (n + hosts - 1) / hosts;

    for (uint32_t k = 0; k < n; k++)
        host[k] = 100 - (layout == TOGETHER ? 0
                         : layout == BLOCKS ? k / block
                         : layout == DEALT  ? k % hosts
                                            : (uint32_t)test_below(r, hosts));
    return layout == ALONE ? NULL : host;
}

static void
check_case(const struct plan_request *ask, struct test_rng *r)
{
    static const enum ps_reduce reductions[] = {PS_SUM, PS_MEAN, PS_MAX};
    enum ps_dtype dtype = test_below(r, 2) == 0 ? PS_I32 : PS_F32;
    struct machine m;

    machine_init(&m, ask, dtype, reductions[test_below(r, 3)], r);
    machine_check_plans(&m);
    machine_run(&m, test_below(r, 2) == 0, r);
    machine_check_results(&m);
    machine_finish(&m);
}

/* None, one, fewer than ranks, around one each, odd, and many in messages of different sizes; `some` of them, the first
 * by chance. */
static void
check_counts(enum plan_op op, enum ps_algorithm algorithm, uint32_t n, size_t some, struct test_rng *r)
{
    const struct {
        size_t count, segment_bytes;
    } sizes[] = {{0, 4}, {1, 1000}, {n - 1, 8}, {n, 1}, {n + 1, 1u << 20}, {97, 32}, {5 * n + 3, 64}, {1021, 256}};
    size_t first = test_below(r, ARRAY_LEN(sizes));
    uint32_t host[64];

    for (size_t k = 0; k < some; k++) {
        size_t i = (first + k) % ARRAY_LEN(sizes);
        struct plan_request ask = {.op = op,
                                   .ranks = n,
                                   .root = (uint32_t)test_below(r, n),
                                   .host = lay_out((enum plan_run_layout)test_below(r, LAYOUTS), n, r, host),
                                   .count = sizes[i].count,
                                   .size = MACHINE_SIZE,
                                   .algorithm = algorithm,
                                   .segment_bytes = sizes[i].segment_bytes};

        check_case(&ask, r);
    }
}

/* The loop's number is an operation and an algorithm. */
#define COMBINATIONS ((PLAN_BARRIER + 1) * (PS_ALGORITHM_HIERARCHICAL + 1))

static void
check_combination(int combination, const uint32_t *ranks, size_t len, size_t some)
{
    struct test_rng r = {test_seed() + (uint64_t)combination};
    enum plan_op op = (enum plan_op)(combination / (PS_ALGORITHM_HIERARCHICAL + 1));
    enum ps_algorithm algorithm = (enum ps_algorithm)(combination % (PS_ALGORITHM_HIERARCHICAL + 1));

    for (size_t i = 0; i < len; i++)
        check_counts(op, algorithm, ranks[i], some, &r);
}

START_TEST(every_schedule_of_a_few_ranks_gives_the_same_right_bits_everywhere)
{
    check_combination(_i, few, ARRAY_LEN(few), 8);
}
END_TEST

START_TEST(and_so_does_every_schedule_of_many)
{
    check_combination(_i, many, ARRAY_LEN(many), 2);
}
END_TEST

/* The same layout with all sizes of hosts, and every root. */
START_TEST(levels_are_right_for_every_layout_and_root)
{
    struct test_rng r = {test_seed()};
    uint32_t host[64];

    for (int op = 0; op <= PLAN_BARRIER; op++)
        for (int layout = 0; layout < LAYOUTS; layout++)
            for (uint32_t n = 1; n <= 9; n++)
                for (uint32_t root = 0; root < n; root += 1 + (op != PLAN_BROADCAST && op != PLAN_REDUCE) * n)
                    check_case(&(struct plan_request){.op = (enum plan_op)op,
                                                      .ranks = n,
                                                      .root = root,
                                                      .host = lay_out((enum plan_run_layout)layout, n, &r, host),
                                                      .count = test_below(&r, 120),
                                                      .size = MACHINE_SIZE,
                                                      .algorithm = PS_ALGORITHM_HIERARCHICAL,
                                                      .segment_bytes = 1 + test_below(&r, 100)},
                               &r);
}
END_TEST

/* Without rank `held` no rank has done all of its steps; of a group of two that exchanges anything, the announcements
 * of the two do the rest (test_group_core.c). */
static void
check_held(const struct plan_request *ask, struct test_rng *r)
{
    uint32_t left[64];
    struct machine m;

    machine_init(&m, ask, PS_I32, PS_SUM, r);
    m.held = (uint32_t)test_below(r, ask->ranks);
    machine_run_held(&m, r, left);
    for (uint32_t k = 0; k < ask->ranks; k++)
        ck_assert_msg(left[k] > 0 || (ask->ranks == 2 && ask->count > 0), "%s: rank %u ended without rank %u", m.what,
                      k, m.held);
    machine_finish(&m);
}

START_TEST(no_rank_ends_before_all_have_begun_whatever_the_operation_and_its_size)
{
    struct test_rng r = {test_seed() + (uint64_t)_i};
    uint32_t host[64];

    for (int algorithm = 0; algorithm <= PS_ALGORITHM_HIERARCHICAL; algorithm++)
        for (uint32_t n = 2; n <= 64; n += 1 + n / 5) {
            const size_t counts[] = {0, 1, n - 1, n, 300};

            for (size_t i = 0; i < ARRAY_LEN(counts); i++)
                check_held(
                    &(struct plan_request){.op = (enum plan_op)_i,
                                           .ranks = n,
                                           .root = (uint32_t)test_below(&r, n),
                                           .host = lay_out((enum plan_run_layout)test_below(&r, LAYOUTS), n, &r, host),
                                           .count = _i == PLAN_BARRIER ? 0 : counts[i],
                                           .size = MACHINE_SIZE,
                                           .algorithm = (enum ps_algorithm)algorithm,
                                           .segment_bytes = 256},
                    &r);
        }
}
END_TEST

/* ---- How much is sent ---- */

static size_t
sent_by(const struct machine_rank *x)
{
    size_t sent = 0;

    for (uint32_t i = 0; i < x->plan.steps; i++)
        if (x->plan.step[i].kind == PLAN_SEND)
            sent += x->plan.step[i].len;
    return sent;
}

/* By theory, of count elements that n divides; all ranks alike, but for root and last of trees and chains. */
static size_t
plan_run_theory(enum plan_op op, enum ps_algorithm algorithm, uint32_t n, size_t count, uint32_t from_root)
{
    bool direct = algorithm == PS_ALGORITHM_DIRECT;
    uint32_t children = 0;

    switch (op) {
    case PLAN_ALL_REDUCE:
        return direct ? (n - 1) * count : 2 * (n - 1) * (count / n);
    case PLAN_REDUCE_SCATTER:
    case PLAN_ALL_GATHER:
        return (n - 1) * (count / n);
    case PLAN_BROADCAST:
        if (direct)
            return from_root == 0 ? (n - 1) * count : 0;
        if (algorithm == PS_ALGORITHM_RING)
            return from_root == n - 1 ? 0 : count;
        for (uint32_t bit = 1; (from_root & bit) == 0 && from_root + bit < n; bit *= 2)
            children++;
        return children * count;
    case PLAN_REDUCE:
        return from_root == 0 ? 0 : count;
    case PLAN_BARRIER:
        break;
    }
    return 0;
}

START_TEST(each_rank_sends_as_many_bytes_as_the_theory_says)
{
    static const uint32_t ranks[] = {2, 4, 8, 16, 64, 3, 6, 13, 31};
    struct test_rng r = {test_seed()};

    for (size_t i = 0; i < ARRAY_LEN(ranks); i++)
        for (int op = 0; op < PLAN_BARRIER; op++)
            for (int algorithm = PS_ALGORITHM_DIRECT; algorithm <= PS_ALGORITHM_HALVING; algorithm++) {
                uint32_t n = ranks[i];
                struct plan_request ask = {.op = (enum plan_op)op,
                                           .ranks = n,
                                           .root = n / 3,
                                           .count = 24 * n,
                                           .algorithm = (enum ps_algorithm)algorithm,
                                           .segment_bytes = 40};
                struct machine m;

                if (algorithm == PS_ALGORITHM_HALVING && (n & (n - 1)) != 0 && op < PLAN_BROADCAST)
                    continue; /* pairs send more */
                machine_init(&m, &ask, PS_I32, PS_SUM, &r);
                for (uint32_t k = 0; k < n; k++)
                    ck_assert_msg(sent_by(&m.rank[k]) ==
                                      plan_run_theory(ask.op, ask.algorithm, n, ask.count, (k + n - ask.root) % n),
                                  "%s: rank %u sends %zu", m.what, k, sent_by(&m.rank[k]));
                machine_finish(&m);
            }
}
END_TEST

/* As many bytes cross hosts as if there were one rank on each. */
/* One message for each round, on every rank. */
START_TEST(few_bytes_are_not_halved)
{
    for (uint32_t n = 2; n <= 64; n *= 2)
        for (int in_place = 0; in_place < 2; in_place++) {
            struct plan_request ask = {.op = PLAN_ALL_REDUCE,
                                       .ranks = n,
                                       .rank = n - 1,
                                       .count = 1000,
                                       .size = 4,
                                       .in_place = in_place == 1,
                                       .algorithm = PS_ALGORITHM_HALVING};
            struct plan_plan p;
            uint32_t sends = 0;

            ck_assert_int_eq(plan_make(&ask, &p, NULL), PS_OK);
            for (uint32_t i = 0; i < p.steps; i++)
                sends += p.step[i].kind == PLAN_SEND;
            ck_assert_uint_eq(1u << sends, n);
            plan_finish(&p);
        }
}
END_TEST

/* Whatever the size, only a few messages wait between two rounds: a rank that adds has the values that it added last in
 * its cache. */
START_TEST(a_ring_keeps_no_more_sums_than_are_under_way)
{
    struct plan_request ask = {.op = PLAN_REDUCE_SCATTER,
                               .ranks = 4,
                               .count = 1 << 20,
                               .size = 4,
                               .algorithm = PS_ALGORITHM_RING,
                               .segment_bytes = 4096};
    size_t scratch[2];

    for (int i = 0; i < 2; i++, ask.count *= 16) {
        struct plan_plan p;

        ck_assert_int_eq(plan_make(&ask, &p, NULL), PS_OK);
        scratch[i] = p.scratch;
        plan_finish(&p);
    }
    ck_assert_uint_eq(scratch[0], scratch[1]);
    ck_assert_uint_lt(scratch[0], ask.count / 256);
}
END_TEST

START_TEST(hierarchical_sends_between_hosts_what_a_ring_of_hosts_would)
{
    struct test_rng r = {test_seed()};
    uint32_t host[24];

    for (uint32_t hosts = 2; hosts <= 6; hosts++) {
        struct plan_request ask = {.op = PLAN_ALL_REDUCE,
                                   .ranks = 24,
                                   .host = host,
                                   .count = 240000,
                                   .algorithm = PS_ALGORITHM_HIERARCHICAL,
                                   .segment_bytes = 65536};
        struct machine m;
        size_t between = 0;

        for (uint32_t k = 0; k < 24; k++)
            host[k] = k % hosts;
        machine_init(&m, &ask, PS_I32, PS_SUM, &r);
        for (uint32_t k = 0; k < 24; k++)
            for (uint32_t i = 0; i < m.rank[k].plan.steps; i++) {
                const struct plan_step *s = &m.rank[k].plan.step[i];

                if (s->kind == PLAN_SEND && host[s->peer] != host[k])
                    between += s->len;
            }
        ck_assert_uint_eq(between, 2 * (hosts - 1) * ask.count);
        machine_finish(&m);
    }
}
END_TEST

/* Messages, and so their order, depend only on numbers that all ranks know, not on in_place. */
START_TEST(messages_do_not_depend_on_being_in_place)
{
    for (int op = 0; op < PLAN_BARRIER; op++)
        for (int algorithm = 0; algorithm <= PS_ALGORITHM_HIERARCHICAL; algorithm++)
            for (uint32_t rank = 0; rank < 7; rank++) {
                struct plan_request ask = {.op = (enum plan_op)op,
                                           .ranks = 7,
                                           .rank = rank,
                                           .count = 1000,
                                           .size = 4,
                                           .algorithm = (enum ps_algorithm)algorithm,
                                           .segment_bytes = 128};
                struct plan_plan p[2];
                uint32_t at[2] = {0, 0};

                for (int i = 0; i < 2; i++) {
                    ask.in_place = i == 1;
                    ck_assert_int_eq(plan_make(&ask, &p[i], NULL), PS_OK);
                }
                for (;;) {
                    for (int i = 0; i < 2; i++)
                        while (at[i] < p[i].steps && p[i].step[at[i]].peer == PLAN_NONE)
                            at[i]++;
                    if (at[0] == p[0].steps || at[1] == p[1].steps)
                        break;
                    ck_assert_int_eq(p[0].step[at[0]].kind, p[1].step[at[1]].kind);
                    ck_assert_uint_eq(p[0].step[at[0]].peer, p[1].step[at[1]].peer);
                    ck_assert_uint_eq(p[0].step[at[0]++].len, p[1].step[at[1]++].len);
                }
                ck_assert(at[0] == p[0].steps && at[1] == p[1].steps);
                plan_finish(&p[0]);
                plan_finish(&p[1]);
            }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("plan_run");
    TCase *tc = tcase_create("plan_run");

    tcase_add_loop_test(tc, every_schedule_of_a_few_ranks_gives_the_same_right_bits_everywhere, 0, COMBINATIONS);
    tcase_add_loop_test(tc, and_so_does_every_schedule_of_many, 0, COMBINATIONS);
    tcase_add_test(tc, levels_are_right_for_every_layout_and_root);
    tcase_add_loop_test(tc, no_rank_ends_before_all_have_begun_whatever_the_operation_and_its_size, 0,
                        PLAN_BARRIER + 1);
    tcase_add_test(tc, each_rank_sends_as_many_bytes_as_the_theory_says);
    tcase_add_test(tc, few_bytes_are_not_halved);
    tcase_add_test(tc, a_ring_keeps_no_more_sums_than_are_under_way);
    tcase_add_test(tc, hierarchical_sends_between_hosts_what_a_ring_of_hosts_would);
    tcase_add_test(tc, messages_do_not_depend_on_being_in_place);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
