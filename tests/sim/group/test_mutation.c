/* Checks the checker: every bug of common/core/base/mutation.h's list for groups, planted in the core, is found by the
 * simulator within a few seeds, and the same seeds are clean without it. By hand:
 *
 *     sim_group_mutated --plant GROUP_NOT_CUT --faults lies --heavy --runs 100
 */
#include "tests/unit/kits/check_main.h"

#include "common/core/base/mutation.h"
#include "tests/sim/group/world.h"

enum mutation mutation;

static const char *const names[] = {
#define X(name, text) [MUTATION_##name - MUTATION_BUGS] = #name,
    MUTATION_GROUP_LIST(X)
#undef X
};

/* Where the bug can be met, and how many seeds it takes at most: ten times what it took when this was written. */
struct group_mutation_reach {
    enum mutation bug;
    enum group_faults faults;
    bool heavy;
    uint32_t seeds;
};

static const struct group_mutation_reach reach[] = {
    {MUTATION_GROUP_ANY_OPERATION, GROUP_FAULTS_LIES, false, 40},
    {MUTATION_GROUP_EARLY_LOST, GROUP_FAULTS_DELAYS, false, 20},
    {MUTATION_GROUP_TELLER_GUILTY, GROUP_FAULTS_CRASHES, false, 40},
    {MUTATION_GROUP_ENDS_WELL, GROUP_FAULTS_CRASHES, false, 40},
    {MUTATION_GROUP_NEVER_LATE, GROUP_FAULTS_CUTS, false, 60},
    {MUTATION_GROUP_PONG_DEAF, GROUP_FAULTS_CUTS, false, 400},
    {MUTATION_GROUP_NOT_CUT, GROUP_FAULTS_LIES, true, 400},
    {MUTATION_GROUP_TAKEN_IS_SENT, GROUP_FAULTS_DELAYS, true, 20},
    {MUTATION_GROUP_ENDS_UNHEARD, GROUP_FAULTS_DELAYS, false, 20},
    {MUTATION_GROUP_ENDS_EARLY, GROUP_FAULTS_DELAYS, false, 20},
};

static_assert(ARRAY_LEN(reach) == MUTATION_GROUP_BUGS - MUTATION_BUGS, "each can be met somewhere");

static void
run_seed(enum mutation bug, const struct group_mutation_reach *where, uint64_t seed, struct group_report *r)
{
    struct group_options o = {.seed = seed, .faults = where->faults, .heavy = where->heavy};

    mutation = bug;
    group_run(&o, r);
    mutation = MUTATION_NONE;
}

START_TEST(mutation_is_found)
{
    const struct group_mutation_reach *where = &reach[_i];
    const char *name = names[where->bug - MUTATION_BUGS];
    struct group_report r = {0};
    uint64_t seed = 0;

    while (!r.failed && seed < where->seeds)
        run_seed(where->bug, where, ++seed, &r);
    ck_assert_msg(r.failed, "not found in %u seeds: %s", where->seeds, name);
    fprintf(stderr, "# %s: seed %" PRIu64 ": %s\n", name, seed, r.failure);
    for (uint64_t s = 1; s <= seed; s++) {
        run_seed(MUTATION_NONE, where, s, &r);
        ck_assert_msg(!r.failed, "seed %" PRIu64 " fails without %s as well: %s", s, name, r.failure);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("mutation_group");
    TCase *tc = tcase_create("bugs");

    tcase_set_timeout(tc, 240);
    tcase_add_loop_test(tc, mutation_is_found, 0, (int)ARRAY_LEN(reach));
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
