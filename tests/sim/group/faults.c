/* The faults, and whether one of them explains an error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/group/world.h"

#define STALL_US_MAX   (12 * SIM_SECOND)
#define RESTART_US_MAX (4 * SIM_SECOND)

/* ---- What comes ---- */

static struct group_fault *
group_faults_note(struct group_world *w, enum fault_kind kind, uint32_t a, uint32_t b, uint64_t until_us)
{
    struct group_chaos *c = &w->chaos;

    c->counts[kind]++;
    if (c->came_len == FAULTS_MOST) {
        sim_fail(&w->sim, "more faults than there is room for");
        return &c->came[0];
    }
    c->came[c->came_len] =
        (struct group_fault){.kind = kind, .a = a, .b = b, .at_us = w->sim.now_us, .until_us = until_us};
    return &c->came[c->came_len++];
}

void
chaos_other(struct group_world *w, uint32_t task, bool pair)
{
    group_faults_note(w, FAULT_OTHER, task, WORLD_NOBODY, w->sim.now_us)->pair = pair;
}

static uint32_t
group_faults_alive(const struct group_world *w)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->members; i++)
        n += w->member[i].state != MEMBER_DEAD || w->member[i].restarts;
    return n;
}

/* For good only as long as the others are enough for a group. */
static void
kill_one(struct group_world *w, struct world_member *m)
{
    bool power = sim_chance(&w->sim, 300);

    m->restarts = true;
    group_faults_note(w, FAULT_KILL, m->task, WORLD_NOBODY, w->sim.now_us);
    member_kill(m, power);
    m->restarts = w->ranks_min == 0 || group_faults_alive(w) - 1 < MAX(w->ranks_min, 2u) || sim_chance(&w->sim, 600);
    if (m->restarts)
        sim_in(&w->sim, &m->back, sim_below(&w->sim, RESTART_US_MAX));
}

static void
cut_one(struct group_world *w, struct world_member *m, bool silence)
{
    struct epoch *e = m->now;
    uint32_t r = e != NULL ? (uint32_t)sim_below(&w->sim, e->ranks) : 0;
    uint64_t directions = 1 + sim_below(&w->sim, 3);
    struct net_end *end;

    if (e == NULL || r == e->rank || (end = epoch_end_of(e, r)) == NULL)
        return;
    group_faults_note(w, silence ? FAULT_SILENCE : FAULT_CUT, m->task, e->tasks[r], w->sim.now_us);
    sim_trace(&w->sim, "t%u and t%u: %s", m->task, e->tasks[r], silence ? "silence" : "cut");
    if (silence)
        net_silence(end->conn, (unsigned)directions);
    else
        net_cut(end->conn);
}

static void
stall_one(struct group_world *w, struct world_member *m)
{
    uint64_t most = sim_chance(&w->sim, 500) ? SIM_SECOND : STALL_US_MAX,
             until = w->sim.now_us + sim_below(&w->sim, most);

    group_faults_note(w, FAULT_STALL, m->task, WORLD_NOBODY, until);
    sim_trace(&w->sim, "t%u is stopped until %llu ms", m->task, (unsigned long long)(until / SIM_MS));
    member_hold(m, until);
}

static void
nonsense_from(struct group_world *w, struct world_member *m)
{
    uint32_t r = m->state == MEMBER_TRAINS ? (uint32_t)sim_below(&w->sim, m->now->ranks) : 0;

    if (m->state != MEMBER_TRAINS || r == m->now->rank || m->held_us > w->sim.now_us || !epoch_garbage(m->now, r))
        return;
    group_faults_note(w, FAULT_NONSENSE, m->task, WORLD_NOBODY, w->sim.now_us);
    sim_trace(&w->sim, "t%u sends nonsense to t%u", m->task, m->now->tasks[r]);
}

static bool
group_faults_comes(const struct group_world *w, enum fault_kind kind)
{
    static const unsigned levels[GROUP_FAULTS_LEVELS] = {[GROUP_FAULTS_CUTS] =
                                                             1u << FAULT_CUT | 1u << FAULT_SILENCE | 1u << FAULT_STALL,
                                                         [GROUP_FAULTS_CRASHES] = 1u << FAULT_KILL,
                                                         [GROUP_FAULTS_LIES] = 1u << FAULT_NONSENSE | 1u << FAULT_OTHER,
                                                         [GROUP_FAULTS_ALL] = (1u << FAULT_KINDS) - 1};

    return (levels[w->options->faults] & 1u << kind) != 0;
}

static void
fault_comes(struct sim_timer *t)
{
    struct group_chaos *c = CONTAINER_OF(t, struct group_chaos, timer);
    struct group_world *w = c->world;
    struct world_member *m = &w->member[sim_below(&w->sim, w->members)];
    enum fault_kind kind = (enum fault_kind)sim_below(&w->sim, FAULT_KINDS);

    if (w->over || c->left == 0)
        return;
    sim_in(&w->sim, t, sim_below(&w->sim, 2 * c->every_us) + 1);
    if (!group_faults_comes(w, kind) || m->state == MEMBER_DEAD || m->state == MEMBER_OVER)
        return;
    c->left--;
    if (kind == FAULT_KILL)
        kill_one(w, m);
    else if (kind == FAULT_CUT || kind == FAULT_SILENCE)
        cut_one(w, m, kind == FAULT_SILENCE);
    else if (kind == FAULT_STALL)
        stall_one(w, m);
    else if (kind == FAULT_NONSENSE)
        nonsense_from(w, m);
    else
        m->other = true;
}

void
chaos_begin(struct group_chaos *c, struct group_world *w)
{
    struct sim *s = &w->sim;
    uint32_t most = w->options->faults_max != 0 ? w->options->faults_max : 10;

    *c = (struct group_chaos){.world = w, .left = 1 + (uint32_t)sim_below(s, most)};
    c->every_us = sim_between(s, 2 * SIM_MS, 300 * SIM_MS);
    c->timer.run = fault_comes;
    sim_in(s, &c->timer, sim_below(s, 500 * SIM_MS));
}

void
chaos_stop(struct group_chaos *c)
{
    sim_cancel(&c->world->sim, &c->timer);
}

/* ---- Reasons ---- */

uint64_t
chaos_stalled_us(const struct group_world *w, uint32_t task, uint64_t from_us, uint64_t to_us)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < w->chaos.came_len; i++) {
        const struct group_fault *f = &w->chaos.came[i];
        uint64_t low = MAX(f->at_us, from_us), high = MIN(f->until_us, to_us);

        if (f->kind == FAULT_STALL && f->a == task && low < high)
            sum += high - low;
    }
    return sum;
}

/* Whether the fault could show in this group: it happened after the first of its members set out for it, or went on
 * into it. */
static bool
faults_in_group(const struct epoch *e, const struct group_fault *f)
{
    return f->until_us >= e->came_us && (f->b == WORLD_NOBODY || epoch_rank_of(e, f->b) != WORLD_NOBODY) &&
           epoch_rank_of(e, f->a) != WORLD_NOBODY;
}

/* The faults in this group. */
static uint32_t
faults_within(const struct group_world *w, const struct epoch *e)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->chaos.came_len; i++)
        n += faults_in_group(e, &w->chaos.came[i]);
    return n;
}

/* While a group is forming, a member that gives up may not be connected to all others yet, and cannot send them the
 * reason: they see it disconnect. */
static bool
group_faults_forming(const struct epoch *e, enum ps_err code)
{
    return ledger_joined(e->ledger) < e->ranks &&
           (code == PS_ERR_CLOSED || code == PS_ERR_TIMEOUT || code == PS_ERR_UNREACHABLE);
}

static bool
group_faults_explains(const struct group_world *w, const struct epoch *e, const struct group_fault *f, enum ps_err code,
                      uint32_t guilty)
{
    bool named = f->a == guilty || f->b == guilty;

    switch (f->kind) {
    case FAULT_KILL:
        return named && (code == PS_ERR_CLOSED || code == PS_ERR_TIMEOUT || code == PS_ERR_UNREACHABLE);
    case FAULT_CUT:
        return named && (code == PS_ERR_CLOSED || code == PS_ERR_TIMEOUT);
    case FAULT_SILENCE: /* a member that waits for one behind the silence cannot know the reason */
        return code == PS_ERR_TIMEOUT || (named && code == PS_ERR_CLOSED);
    case FAULT_STALL: /* a member that was stopped may have missed the report of the guilty one */
        return (named && (code == PS_ERR_TIMEOUT || code == PS_ERR_CLOSED)) || f->a == e->member->task;
    case FAULT_NONSENSE: /* the receiver closes, and the sender may be the first to report that */
        return (named && code == PS_ERR_PROTOCOL) || code == PS_ERR_CLOSED;
    case FAULT_OTHER: /* of at least three members with a vote, one of which is wrong, it is named; else nobody is */
        if (code != PS_ERR_MISMATCH || faults_within(w, e) > 1)
            return code == PS_ERR_MISMATCH;
        return e->ranks < 3 || f->pair ? guilty == WORLD_NOBODY : named;
    case FAULT_KINDS:
        break;
    }
    return false;
}

const char *
chaos_excuse(const struct group_world *w, const struct epoch *e, const struct ps_error *error)
{
    unsigned guilty;

    if (error->code == PS_ERR_MISMATCH && error->peer[0] == '\0')
        guilty = WORLD_NOBODY;
    else if (sscanf(error->peer, "task %u", &guilty) != 1 || epoch_rank_of(e, guilty) == WORLD_NOBODY)
        return "an error names nobody of the group";
    if (w->over && error->code != PS_ERR_PROTOCOL && error->code != PS_ERR_MISMATCH)
        return NULL; /* the others have finished and left */
    for (uint32_t i = 0; i < w->chaos.came_len; i++)
        if (faults_in_group(e, &w->chaos.came[i]) &&
            (group_faults_forming(e, error->code) ||
             group_faults_explains(w, e, &w->chaos.came[i], error->code, guilty)))
            return NULL;
    return "nothing happened that explains the error";
}
