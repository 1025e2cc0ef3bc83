/* sim_group: run the simulator of groups for one seed or many.
 *
 *     sim_group --runs 1000 --faults all          find a seed that fails
 *     sim_group --for 28800 --seed 1000000        the same for a night
 *     sim_group --fresh 20                        all faults in turn, new seeds
 *     sim_group --seed 77 --faults cuts --trace   look at one run
 *
 * sim_group_mutated is the same over cores with bugs in them: --plant GROUP_.... */
#include <inttypes.h>
#include <stdio.h>

#include "common/core/base/mutation.h"
#include "tests/sim/command.h"
#include "tests/sim/group/world.h"

static const char *const fault_names[] = {"none", "delays", "cuts", "crashes", "lies", "all", NULL};

static const char *const mutation_names[] = {"NONE",
#define X(name, text) #name,
                                             MUTATION_LIST(X) MUTATION_GROUP_LIST(X)
#undef X
                                                 NULL};

struct plan_of_runs {
    struct group_options o;
    struct command_runs runs;
};

static const char usage[] = "usage: sim_group [options]\n"
                            "  --seed N         the first seed (1)\n"
                            "  --runs N         how many seeds, from the first on (1)\n"
                            "  --for SECONDS    as many seeds as there is time for\n"
                            "  --fresh SECONDS  the same from a seed by the clock, or PSD_TEST_SEED, with all\n"
                            "                   faults in turn\n"
                            "  --faults F       none, delays, cuts, crashes, lies, all (all)\n"
                            "  --members N      workers (drawn: 2 to 6)\n"
                            "  --steps N        steps to train for (drawn: 2 to 10)\n"
                            "  --heavy          large messages over slow links\n"
                            "  --max-faults N   faults at most (drawn: 1 to 10)\n"
#ifdef PSD_MUTATION
                            "  --plant BUG      one of common/core/base/planted.h's\n"
#endif
                            "  --trace          print every line of the run; PS_TRACE=1 does the same\n";

static void
group_main_parse(int argc, char **argv, struct plan_of_runs *p)
{
    static const struct option options[] = {
        COMMAND_OPTIONS,
        {"faults", 1, NULL, 'f'},
        {"members", 1, NULL, 'm'},
        {"steps", 1, NULL, 'n'},
        {"max-faults", 1, NULL, 'x'},
        {"heavy", 0, NULL, 'H'},
        {0},
    };
    struct group_options *o = &p->o;
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (command_option(&p->runs, c))
            continue;
        if (c == 'f')
            o->faults = (enum group_faults)command_index(fault_names, optarg);
        else if (c == 'm')
            o->members = (uint32_t)command_number(optarg, WORLD_MEMBERS_MAX);
        else if (c == 'n')
            o->steps = (uint32_t)command_number(optarg, 200);
        else if (c == 'x')
            o->faults_max = (uint32_t)command_number(optarg, 50);
        else if (c == 'H')
            o->heavy = true;
        else
            command_usage(false);
    }
    o->seed = p->runs.seed;
    o->trace = p->runs.trace;
}

static void
say_again(const struct group_options *o)
{
    command_again_begin(o->seed);
    command_again_word("faults", fault_names[o->faults]);
    command_again_number("members", o->members);
    command_again_number("steps", o->steps);
    command_again_flag("heavy", o->heavy);
    command_again_number("max-faults", o->faults_max);
    command_again_end();
}

static void
draw_fresh(struct group_options *o, uint64_t i)
{
    o->faults = (enum group_faults)(GROUP_FAULTS_DELAYS + i % (GROUP_FAULTS_LEVELS - 1));
    o->heavy = i / (GROUP_FAULTS_LEVELS - 1) % 4 == 3;
}

static void
group_main_add(struct group_report *sum, const struct group_report *r)
{
    sum->virtual_ms += r->virtual_ms;
    sum->good += r->good;
    sum->bad += r->bad;
    sum->groups += r->groups;
    sum->steps += r->steps;
    sum->kills += r->kills;
    sum->cuts += r->cuts;
    sum->silences += r->silences;
    sum->stalls += r->stalls;
    sum->nonsense += r->nonsense;
    sum->others += r->others;
}

static void
say_sum(const struct group_report *s, uint64_t passed, uint64_t failed)
{
    printf("%" PRIu64 " operations ended well and %" PRIu64 " did not, %" PRIu64 " steps, %" PRIu64
           " times in a group, %" PRIu64 " members killed and %" PRIu64 " stopped, %" PRIu64 " links cut and %" PRIu64
           " silent, %" PRIu64 " times nonsense and %" PRIu64 " another operation, %" PRIu64 " virtual seconds\n",
           s->good, s->bad, s->steps, s->groups, s->kills, s->stalls, s->cuts, s->silences, s->nonsense, s->others,
           s->virtual_ms / 1000);
    printf("%" PRIu64 " passed, %" PRIu64 " failed\n", passed, failed);
}

int
main(int argc, char **argv)
{
    struct plan_of_runs p = {.o = {.faults = GROUP_FAULTS_ALL}};
    struct group_report sum = {0}, r;
    uint64_t passed = 0, failed = 0;

    command_begin(&p.runs, argv[0], usage, mutation_names);
    group_main_parse(argc, argv, &p);
    command_watch(&p.runs);
    for (uint64_t i = 0; command_goes_on(&p.runs, i); i++, p.o.seed++) {
        if (p.runs.fresh)
            draw_fresh(&p.o, i);
        say_again(&p.o);
        group_run(&p.o, &r);
        group_main_add(&sum, &r);
        passed += !r.failed;
        failed += r.failed;
        if (r.failed)
            printf("seed %" PRIu64 " failed %s\n%s", p.o.seed, r.failure, command_again());
        fflush(stdout);
    }
    say_sum(&sum, passed, failed);
    return failed == 0 ? 0 : 1;
}
