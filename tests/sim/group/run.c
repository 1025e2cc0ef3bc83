/* A run: draw a world, let time pass until all members are over, check. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/group/world.h"

#define WATCH_US    (10 * SIM_SECOND)
#define HANG_US     (150 * SIM_SECOND) /* nothing ends for so long: it hangs */
#define SAME_US_MAX 1000000            /* events at one moment: the run stands still */

static void
draw_net(struct group_world *w, struct net_profile *out)
{
    struct sim *s = &w->sim;
    bool even = w->options->faults == GROUP_FAULTS_NONE;

    *out = (struct net_profile){.latency_min_us = 50, .latency_max_us = 500, .chunk_max = 65536, .window_max = 262144};
    if (even)
        return;
    out->latency_max_us = sim_between(s, 100, 40 * SIM_MS);
    out->chunk_max = (size_t)sim_between(s, 500, 65536);
    out->window_max = (size_t)sim_between(s, 4000, 262144);
    if (w->options->heavy || sim_chance(s, 400)) /* large messages take long */
        out->window_max = out->chunk_max = 3000;
}

static void
group_run_draw(struct group_world *w)
{
    static const enum ps_algorithm algorithms[] = {PS_ALGORITHM_AUTO, PS_ALGORITHM_DIRECT,  PS_ALGORITHM_RING,
                                                   PS_ALGORITHM_RING, PS_ALGORITHM_HALVING, PS_ALGORITHM_HIERARCHICAL};
    static const size_t segments[] = {0, 256, 4096, 30000, 65536};
    const struct group_options *o = w->options;
    struct sim *s = &w->sim;

    w->members = (uint32_t)sim_between(s, 2, 6);
    w->steps = (int64_t)sim_between(s, 2, 10);
    if (o->members != 0)
        w->members = o->members;
    if (o->steps != 0)
        w->steps = o->steps;
    w->jobs_seed = sim_rand(s);
    w->ranks_min = sim_chance(s, 500) ? 1 + w->members / 2 : 0;
    w->settle_ms = (uint32_t)sim_between(s, 200, 3000);
    w->timeout_ms = (uint32_t)sim_between(s, 2000, 9000);
    w->algorithm = algorithms[sim_below(s, ARRAY_LEN(algorithms))];
    w->segment_bytes = segments[sim_below(s, ARRAY_LEN(segments))];
    w->hosts = (uint32_t)sim_between(s, 1, w->members);
    w->count_max = sim_chance(s, 500) ? 20000 : 1500;
    if (w->segment_bytes == 256)
        w->count_max = 1500;
    w->think_us = sim_below(s, 100 * SIM_MS);
    if (o->heavy) {
        w->count_max = 30000;
        w->segment_bytes = 65536;
        w->think_us = 500;
    }
}

static bool
all_over(const struct group_world *w)
{
    for (uint32_t i = 0; i < w->members; i++)
        if (w->member[i].state != MEMBER_OVER && w->member[i].state != MEMBER_DEAD)
            return false;
    return true;
}

static void
group_run_watch(struct sim_timer *t)
{
    struct group_world *w = CONTAINER_OF(t, struct group_world, watch);
    uint64_t ended = w->good + w->bad + w->groups;

    if (ended == w->seen) {
        char what[400];
        int n = 0;

        for (uint32_t i = 0; i < w->members; i++)
            n += snprintf(what + n, sizeof what - (size_t)n, " t%u state %d phase %d step %lld jobs %u;", i,
                          w->member[i].state, w->member[i].phase, (long long)w->member[i].step, w->member[i].jobs);
        sim_fail(&w->sim, "nothing has ended for %llu s:%s", (unsigned long long)(HANG_US / SIM_SECOND), what);
    }
    w->seen = ended;
    sim_in(&w->sim, t, HANG_US);
}

/* Until all is over; then a little longer, for what is on its way. */
static void
pass_time(struct group_world *w)
{
    uint64_t moment = 0, events = 0, until = UINT64_MAX;

    while (w->sim.now_us < until && sim_step(&w->sim)) {
        if (until == UINT64_MAX && w->over && all_over(w)) {
            until = w->sim.now_us + WATCH_US;
            sim_cancel(&w->sim, &w->watch);
            chaos_stop(&w->chaos);
        }
        events = w->sim.now_us == moment ? events + 1 : 0;
        moment = w->sim.now_us;
        if (events > SAME_US_MAX)
            sim_fail(&w->sim, "time stands still");
    }
    if (!w->sim.failed && !all_over(w))
        sim_fail(&w->sim, "nothing is left to come, and not all are over");
}

static void
group_run_report(struct group_world *w, struct group_report *out)
{
    const uint64_t *c = w->chaos.counts;

    *out = (struct group_report){.options = *w->options,
                                 .failed = w->sim.failed,
                                 .hash = w->sim.hash,
                                 .lines = w->sim.lines,
                                 .virtual_ms = w->sim.now_us / SIM_MS,
                                 .good = w->good,
                                 .bad = w->bad,
                                 .groups = w->groups,
                                 .steps = w->steps_done,
                                 .kills = c[FAULT_KILL],
                                 .cuts = c[FAULT_CUT],
                                 .silences = c[FAULT_SILENCE],
                                 .stalls = c[FAULT_STALL],
                                 .nonsense = c[FAULT_NONSENSE],
                                 .others = c[FAULT_OTHER]};
    out->options.members = w->members;
    out->options.steps = (uint32_t)w->steps;
    memcpy(out->failure, w->sim.failure, sizeof out->failure);
}

void
group_run(const struct group_options *o, struct group_report *out)
{
    struct group_world *w = sim_alloc(sizeof *w);
    struct net_profile profile;

    w->options = o;
    sim_init(&w->sim, o->seed, o->trace);
    group_run_draw(w);
    draw_net(w, &profile);
    net_init(&w->net, &w->sim, &profile);
    group_rendezvous_init(&w->rendezvous, w, sim_rand(&w->sim));
    w->watch.run = group_run_watch;
    sim_in(&w->sim, &w->watch, HANG_US);
    for (uint32_t i = 0; i < w->members; i++)
        member_init(&w->member[i], w, i);
    for (uint32_t i = 0; i < w->members; i++)
        member_begin(&w->member[i]);
    chaos_begin(&w->chaos, w);
    pass_time(w);
    net_finish(&w->net);
    for (uint32_t i = 0; i < w->members; i++)
        member_finish(&w->member[i]);
    group_run_report(w, out);
    ledger_finish(w);
    group_rendezvous_finish(&w->rendezvous);
    sim_finish(&w->sim);
    free(w);
}
