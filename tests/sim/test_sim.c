/* The simulator as a test: some seeds for every mode and level of faults, the same seed twice, and lies that the ledger
 * must find. PSD_TEST_SEED moves the seeds; `sim` itself runs as many as one likes. */
#include "tests/unit/check_main.h"

#include <string.h>

#include "run.h"

#define SEEDS 8

static const char *const mode_names[] = {"async", "ssp", "sync"};
static const char *const fault_names[] = {"none", "delays", "cuts", "crashes", "all"};

/* One case for each pair of mode and faults. */
START_TEST(nothing_is_lost_doubled_or_torn)
{
    struct run_options o = {.mode = (enum run_mode)(_i / FAULTS_LEVELS),
                            .faults = (enum sim_faults)(_i % FAULTS_LEVELS)};
    uint64_t first = test_seed();

    for (uint64_t i = 0; i < SEEDS; i++) {
        struct run_report report;

        o.seed = first + i;
        run_one(&o, &report);
        ck_assert_msg(!report.failed, "sim --seed %" PRIu64 " --mode %s --faults %s --trace: %s", o.seed,
                      mode_names[o.mode], fault_names[o.faults], report.failure);
        ck_assert_uint_gt(report.ledger.pulls, 0);
    }
}
END_TEST

/* Faults happen: what the runs above survive is not nothing. */
START_TEST(faults_do_happen)
{
    struct run_options o = {.mode = RUN_MIXED, .faults = FAULTS_ALL};
    uint64_t first = test_seed(), kills = 0, crashes = 0, rejoins = 0, failed_commits = 0;

    for (uint64_t i = 0; i < 2 * SEEDS; i++) {
        struct run_report report;

        o.seed = first + i;
        run_one(&o, &report);
        kills += report.kills;
        crashes += report.crashes;
        rejoins += report.rejoins;
        failed_commits += report.failed_commits;
    }
    ck_assert_uint_gt(kills, 0);
    ck_assert_uint_gt(crashes, 0);
    ck_assert_uint_gt(rejoins, 0);
    ck_assert_uint_gt(failed_commits, 0);
}
END_TEST

START_TEST(same_seed_is_the_same_run)
{
    struct run_options o = {.mode = RUN_MIXED, .faults = FAULTS_ALL};
    uint64_t first = test_seed();

    for (uint64_t i = 0; i < SEEDS; i++) {
        struct run_report once, twice;

        o.seed = first + i;
        run_one(&o, &once);
        run_one(&o, &twice);
        ck_assert_uint_eq(once.hash, twice.hash);
        ck_assert_uint_eq(once.lines, twice.lines);
    }
}
END_TEST

START_TEST(other_seed_is_another_run)
{
    struct run_options o = {.mode = RUN_MIXED, .faults = FAULTS_DELAYS, .seed = test_seed()};
    struct run_report one, other;

    run_one(&o, &one);
    o.seed++;
    run_one(&o, &other);
    ck_assert_uint_ne(one.hash, other.hash);
}
END_TEST

/* ---- Lies ---- */

struct lie_case {
    enum sim_lie lie;
    enum run_mode mode;
    const char *found; /* in the failure's sentence */
};

static const struct lie_case lies[] = {
    {LIE_FORGED_ACK, RUN_ASYNC, "a gradient with NaN was accepted"},
    {LIE_TORN_PULL, RUN_ASYNC, "pulled"},
    {LIE_TORN_PULL, RUN_SYNC, "torn block"},
    {LIE_STALE_PULL, RUN_SSP, "older than version"},
    {LIE_APPLY_TWICE, RUN_ASYNC, "2 times"},
    {LIE_APPLY_TWICE, RUN_SYNC, "in one commit"},
    {LIE_LOST_UPDATE, RUN_SSP, "went back"},
    {LIE_AHEAD, RUN_SSP, "lacks push"},
};

START_TEST(lie_is_found)
{
    const struct lie_case *c = &lies[_i];
    struct run_options o = {
        .mode = c->mode, .faults = FAULTS_DELAYS, .workers = 3, .shards = 1, .steps = 20, .lie = c->lie};
    uint64_t first = test_seed();
    bool found = false;

    /* A run may have no occasion for the lie: a block of one element cannot be torn. */
    for (uint64_t i = 0; i < SEEDS && !found; i++) {
        struct run_report report;

        o.seed = first + i;
        run_one(&o, &report);
        found = report.failed && strstr(report.failure, c->found) != NULL;
        ck_assert_msg(found || !report.failed, "seed %" PRIu64 ": %s", o.seed, report.failure);
    }
    ck_assert_msg(found, "lie %d was believed", (int)c->lie);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("sim");
    TCase *tc = tcase_create("seeds");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, nothing_is_lost_doubled_or_torn, 0, RUN_MIXED * FAULTS_LEVELS);
    tcase_add_test(tc, faults_do_happen);
    tcase_add_test(tc, same_seed_is_the_same_run);
    tcase_add_test(tc, other_seed_is_another_run);
    suite_add_tcase(suite, tc);
    tc = tcase_create("lies");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, lie_is_found, 0, (int)ARRAY_LEN(lies));
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
