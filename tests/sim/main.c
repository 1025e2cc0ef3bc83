/* sim: run the simulator for one seed or many.
 *
 *     sim --runs 1000 --mode mixed --faults all          find a seed that fails
 *     sim --for 28800 --seed 1000000                     the same for a night: until so many seconds have passed
 *     sim --fresh 90                                     as in CI: all modes and faults, new seeds
 *     sim --seed 77 --mode ssp --faults cuts --trace     look at one run
 *     sim --seed 77 --mode ssp --faults cuts --shrink    and at a smaller one that fails the same way
 *
 * sim_mutated is the same over cores with bugs in them: --plant RESENT_AS_NEW. */
#include <inttypes.h>
#include <stdio.h>

#include "common/core/base/mutation.h"
#include "tests/sim/command.h"
#include "tests/sim/run.h"
#include "tests/sim/shrink.h"

static const char *const mode_names[] = {"async", "ssp", "sync", "mixed", NULL};
static const char *const fault_names[] = {"none", "delays", "cuts", "crashes", "all", NULL};

static const char *const mutation_names[] = {"NONE",
#define X(name, text) #name,
                                             MUTATION_LIST(X)
#undef X
                                                 NULL};

/* The command line's options. */
struct sim_plan {
    struct run_options o;
    struct command_runs runs;
    bool small; /* look for a smaller run */
};

static const char usage[] = "usage: sim [options]\n"
                            "  --seed N       the first seed (1)\n"
                            "  --runs N       how many seeds, from the first on (1)\n"
                            "  --for SECONDS  as many seeds as there is time for\n"
                            "  --fresh SECONDS  the same from a seed by the clock, or PSD_TEST_SEED, with all\n"
                            "                 modes and faults in turn\n"
                            "  --mode M       async, ssp, sync, or mixed: drawn by the seed (mixed)\n"
                            "  --faults F     none, delays, cuts, crashes, all (all)\n"
                            "  --shards N     shards (drawn: 1 to 3)\n"
                            "  --workers N    workers (drawn: 1 to 4)\n"
                            "  --steps N      clocks to train for (drawn: 3 to 24)\n"
                            "  --vars N       variables at most (drawn: 1 to 4)\n"
                            "  --max-faults N faults at most (drawn: 1 to 15)\n"
                            "  --shrink       look for a smaller run that fails as the seed does, and print it\n"
#ifdef PSD_MUTATION
                            "  --plant BUG    one of common/core/base/planted.h's\n"
#endif
                            "  --trace        print every line of the run; PS_TRACE=1 does the same\n";

/* All pairs in turn; without faults, and without more than delays, there is little left to find. */
static void
draw_fresh(struct run_options *o, uint64_t i)
{
    static const enum sim_faults levels[] = {FAULTS_ALL, FAULTS_CRASHES, FAULTS_CUTS, FAULTS_ALL, FAULTS_DELAYS};

    o->mode = (enum run_mode)(i % RUN_MIXED);
    o->faults = levels[i / RUN_MIXED % ARRAY_LEN(levels)];
}

static void
main_parse(int argc, char **argv, struct sim_plan *p)
{
    struct run_options *o = &p->o;
    static const struct option options[] = {
        COMMAND_OPTIONS,           {"mode", 1, NULL, 'm'},
        {"faults", 1, NULL, 'f'},  {"shards", 1, NULL, 'S'},
        {"workers", 1, NULL, 'W'}, {"steps", 1, NULL, 'n'},
        {"vars", 1, NULL, 'v'},    {"max-faults", 1, NULL, 'x'},
        {"shrink", 0, NULL, 'k'},  {0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (command_option(&p->runs, c))
            continue;
        if (c == 'm')
            o->mode = (enum run_mode)command_index(mode_names, optarg);
        else if (c == 'f')
            o->faults = (enum sim_faults)command_index(fault_names, optarg);
        else if (c == 'S')
            o->shards = (uint32_t)command_number(optarg, MODEL_SHARDS_MAX);
        else if (c == 'W')
            o->workers = (uint32_t)command_number(optarg, MODEL_WORKERS_MAX);
        else if (c == 'n')
            o->steps = (uint32_t)command_number(optarg, 200);
        else if (c == 'v')
            o->vars = (uint32_t)command_number(optarg, MODEL_VARS_MAX);
        else if (c == 'x')
            o->faults_max = (uint32_t)command_number(optarg, 100);
        else if (c == 'k')
            p->small = true;
        else
            command_usage(false);
    }
    o->seed = p->runs.seed;
    o->trace = p->runs.trace;
}

static void
say_again(const struct run_options *o)
{
    command_again_begin(o->seed);
    command_again_word("mode", mode_names[o->mode]);
    command_again_word("faults", fault_names[o->faults]);
    command_again_number("shards", o->shards);
    command_again_number("workers", o->workers);
    command_again_number("steps", o->steps);
    command_again_number("vars", o->vars);
    command_again_number("max-faults", o->faults_max);
    command_again_end();
}

struct totals {
    uint64_t passed, failed, pushes, applied, unknown, pulls, sets, assigns, saves, restores, lost, evictions, fenced,
        kills, power_losses, crashes, rejoins, virtual_ms;
};

static void
main_add(struct totals *t, const struct run_report *r)
{
    t->passed += !r->failed;
    t->failed += r->failed;
    t->pushes += r->ledger.pushes;
    t->applied += r->ledger.applied;
    t->unknown += r->ledger.unknown;
    t->pulls += r->ledger.pulls;
    t->sets += r->ledger.sets;
    t->assigns += r->ledger.assigns;
    t->saves += r->ledger.saves;
    t->restores += r->ledger.restores;
    t->lost += r->ledger.lost;
    t->evictions += r->ledger.evictions;
    t->fenced += r->ledger.fenced;
    t->power_losses += r->power_losses;
    t->kills += r->kills;
    t->crashes += r->crashes;
    t->rejoins += r->rejoins;
    t->virtual_ms += r->virtual_ms;
}

/* The smallest run that fails as this one does, with its trace. */
static void
run_small(const struct run_options *o, struct run_report *r)
{
    run_apart(o, r);
    if (!r->failed)
        return;
    shrink(r, SHRINK_SEEDS);
    say_again(&r->options);
    r->options.trace = true;
    run_apart(&r->options, r);
}

static void
run_next(struct sim_plan *p, struct totals *t)
{
    struct run_report r;

    say_again(&p->o);
    if (p->small)
        run_small(&p->o, &r);
    else
        run_one(&p->o, &r);
    main_add(t, &r);
    if (r.failed)
        printf("seed %" PRIu64 " failed %s\n%s", r.options.seed, r.failure, command_again());
    fflush(stdout);
}

static void
say_totals(const struct totals *t)
{
    printf("%" PRIu64 " pushes (%" PRIu64 " block updates, %" PRIu64 " of unknown outcome), %" PRIu64 " pulls, %" PRIu64
           " sets, %" PRIu64 " assigns, %" PRIu64 " saves, %" PRIu64 " restores, %" PRIu64 " evictions (%" PRIu64
           " hellos fenced), %" PRIu64 " shards killed, %" PRIu64 " of them with their power (%" PRIu64
           " block updates lost), %" PRIu64 " workers crashed, %" PRIu64 " rejoined, %" PRIu64 " virtual seconds\n",
           t->pushes, t->applied, t->unknown, t->pulls, t->sets, t->assigns, t->saves, t->restores, t->evictions,
           t->fenced, t->kills, t->power_losses, t->lost, t->crashes, t->rejoins, t->virtual_ms / 1000);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", t->passed, t->failed);
}

int
main(int argc, char **argv)
{
    struct sim_plan p = {.o = {.mode = RUN_MIXED, .faults = FAULTS_ALL}};
    struct totals t = {0};

    command_begin(&p.runs, argv[0], usage, mutation_names);
    main_parse(argc, argv, &p);
    command_watch(&p.runs);
    for (uint64_t i = 0; command_goes_on(&p.runs, i); i++, p.o.seed++) {
        if (p.runs.fresh)
            draw_fresh(&p.o, i);
        run_next(&p, &t);
    }
    say_totals(&t);
    return t.failed == 0 ? 0 : 1;
}
