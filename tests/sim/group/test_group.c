/* The simulator of groups as a test: some seeds for every level of faults, the same seed twice, and lies that the
 * ledger must find. PSD_TEST_SEED moves the seeds; `sim_group` itself runs as many as one likes. */
#include "tests/unit/kits/check_main.h"

#include <string.h>

#include "tests/sim/group/world.h"

#define SEEDS 12

static const char *const fault_names[] = {"none", "delays", "cuts", "crashes", "lies", "all"};

static void
run_seed(uint64_t seed, struct group_options o, struct group_report *r)
{
    o.seed = seed;
    group_run(&o, r);
}

START_TEST(all_who_say_that_it_went_well_hold_the_right_bits_and_errors_name_the_guilty)
{
    struct group_options o = {.faults = (enum group_faults)_i};
    uint64_t first = test_seed();
    struct group_report r;

    for (uint64_t i = 0; i < SEEDS; i++) {
        run_seed(first + i, o, &r);
        ck_assert_msg(!r.failed, "sim_group --seed %" PRIu64 " --faults %s --trace: %s", first + i, fault_names[_i],
                      r.failure);
        ck_assert_uint_gt(r.good, 0);
        ck_assert_uint_gt(r.steps, 0);
    }
}
END_TEST

/* The runs above do contain faults. */
START_TEST(faults_do_happen)
{
    struct group_options o = {.faults = GROUP_FAULTS_ALL};
    struct group_report r, sum = {0};
    uint64_t first = test_seed();

    for (uint64_t i = 0; i < 3 * SEEDS; i++) {
        run_seed(first + i, o, &r);
        sum.bad += r.bad;
        sum.kills += r.kills;
        sum.cuts += r.cuts;
        sum.silences += r.silences;
        sum.stalls += r.stalls;
        sum.nonsense += r.nonsense;
        sum.others += r.others;
    }
    ck_assert(sum.bad > 0 && sum.kills > 0 && sum.cuts > 0 && sum.silences > 0);
    ck_assert(sum.stalls > 0 && sum.nonsense > 0 && sum.others > 0);
}
END_TEST

START_TEST(without_faults_no_operation_fails)
{
    struct group_options o = {.faults = GROUP_FAULTS_DELAYS};
    uint64_t first = test_seed();
    struct group_report r;

    for (uint64_t i = 0; i < SEEDS; i++) {
        run_seed(first + i, o, &r);
        ck_assert_uint_eq(r.bad, 0);
    }
}
END_TEST

START_TEST(same_seed_is_the_same_run)
{
    struct group_options o = {.faults = GROUP_FAULTS_ALL};
    struct group_report once, twice;
    uint64_t first = test_seed();

    for (uint64_t i = 0; i < SEEDS; i++) {
        run_seed(first + i, o, &once);
        run_seed(first + i, o, &twice);
        ck_assert_uint_eq(once.hash, twice.hash);
        ck_assert_uint_eq(once.lines, twice.lines);
    }
}
END_TEST

struct group_lie_case {
    enum group_lie lie;
    enum group_faults faults;
    bool heavy;
    uint32_t seeds;    /* ten times what it took when this was written */
    const char *found; /* in the failure's sentence */
};

static const struct group_lie_case lies[] = {
    {GROUP_LIE_ZEROS, GROUP_FAULTS_LIES, true, 1000, " got "},
    {GROUP_LIE_LATE_WORD, GROUP_FAULTS_NONE, false, 5, "an operation ended"},
    {GROUP_LIE_BLAME, GROUP_FAULTS_CRASHES, false, 20, "names nobody"},
    {GROUP_LIE_STALE, GROUP_FAULTS_NONE, false, 20, " got "},
};

START_TEST(lie_is_found)
{
    const struct group_lie_case *c = &lies[_i];
    struct group_options o = {.faults = c->faults, .lie = c->lie, .heavy = c->heavy};
    uint64_t first = test_seed();
    struct group_report r;

    for (uint64_t i = 0; i < c->seeds; i++) {
        run_seed(first + i, o, &r);
        if (r.failed && strstr(r.failure, c->found) != NULL) {
            fprintf(stderr, "# lie %d: seed %" PRIu64 " of %u: %s\n", (int)c->lie, i, c->seeds, r.failure);
            return;
        }
        ck_assert_msg(!r.failed, "seed %" PRIu64 ": %s", first + i, r.failure);
    }
    ck_abort_msg("lie %d was believed", (int)c->lie);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("sim_group");
    TCase *tc = tcase_create("seeds");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, all_who_say_that_it_went_well_hold_the_right_bits_and_errors_name_the_guilty, 0,
                        GROUP_FAULTS_LEVELS);
    tcase_add_test(tc, faults_do_happen);
    tcase_add_test(tc, without_faults_no_operation_fails);
    tcase_add_test(tc, same_seed_is_the_same_run);
    suite_add_tcase(suite, tc);
    tc = tcase_create("lies");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, lie_is_found, 0, (int)ARRAY_LEN(lies));
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
