/* A worker's process: to the rendezvous, into a group, through the steps, and back to the rendezvous when the group has
 * failed. The part of a caller of ps_group.h runs in turns of its own, never from within the core's or the network's
 * calls. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/group/world.h"

#define AWAY_US_MAX  (50 * SIM_MS)
#define RETRY_US_MAX (2 * SIM_SECOND)

static struct sim *
sim_of(const struct world_member *m)
{
    return &m->world->sim;
}

void
member_look(struct world_member *m)
{
    if (m->turn.place == 0)
        sim_in(sim_of(m), &m->turn, sim_below(sim_of(m), 300));
}

static bool
still_held(struct world_member *m, struct sim_timer *t)
{
    if (m->held_us <= sim_of(m)->now_us)
        return false;
    sim_at(sim_of(m), t, m->held_us);
    return true;
}

static void
go_away(struct world_member *m, uint64_t within_us)
{
    if (m->now != NULL)
        epoch_leave(m->now);
    m->now = NULL;
    m->state = MEMBER_AWAY;
    m->came_us = sim_of(m)->now_us;
    sim_in(sim_of(m), &m->start, sim_below(sim_of(m), within_us));
}

static void
be_over(struct world_member *m)
{
    sim_trace(sim_of(m), "t%u is over", m->task);
    if (m->now != NULL)
        epoch_leave(m->now);
    m->now = NULL;
    m->state = MEMBER_OVER;
    m->listener.up = false;
    sim_cancel(sim_of(m), &m->start);
    incoming_drop_all(m, false);
}

/* The group has failed: checks that the error has a reason. */
static void
group_member_failed(struct world_member *m, struct ps_error *e)
{
    const char *wrong;

    if (m->world->options->lie == GROUP_LIE_BLAME)
        snprintf(e->peer, sizeof e->peer, "task %u", m->world->members);
    sim_trace(sim_of(m), "t%u group %llu failed: %s: %s (%s)", m->task, (unsigned long long)m->now->number,
              ps_err_name(e->code), e->text, e->peer);
    if ((wrong = chaos_excuse(m->world, m->now, e)) != NULL)
        sim_fail(sim_of(m), "t%u: %s: %s: %s (%s)", m->task, wrong, ps_err_name(e->code), e->text, e->peer);
    if (m->state == MEMBER_TRAINS && m->phase == SCRIPT_CLOSE)
        m->world->over = true; /* all steps were done by all */
    if (m->world->over)
        be_over(m);
    else
        go_away(m, AWAY_US_MAX);
}

static void
turn_comes(struct sim_timer *t)
{
    struct world_member *m = CONTAINER_OF(t, struct world_member, turn);
    struct ps_error e;

    if (m->state == MEMBER_DEAD || m->state == MEMBER_OVER) {
        epochs_sweep(m);
        return;
    }
    if (still_held(m, t))
        return;
    if (m->state == MEMBER_JOINS && group_core_state(m->now->core, &e) != PS_OK) {
        group_member_failed(m, &e);
    } else if (m->state == MEMBER_JOINS && m->now->whole) {
        sim_trace(sim_of(m), "t%u has joined group %llu of %u", m->task, (unsigned long long)m->now->number,
                  m->now->ranks);
        sim_cancel(sim_of(m), &m->now->deadline);
        m->state = MEMBER_TRAINS;
        ledger_joins(m->now->ledger);
        m->world->groups++;
        script_begin(m);
    } else if (m->state == MEMBER_TRAINS && !script_turn(m, &e)) {
        group_member_failed(m, &e);
    } else if (m->state == MEMBER_TRAINS && m->leaving) {
        m->leaving = false;
        go_away(m, AWAY_US_MAX);
    } else if (m->state == MEMBER_TRAINS && m->closed) {
        m->world->over = true;
        be_over(m);
    }
    epochs_sweep(m);
}

static void
start_comes(struct sim_timer *t)
{
    struct world_member *m = CONTAINER_OF(t, struct world_member, start);

    if (still_held(m, t))
        return;
    if (m->state == MEMBER_AWAY && m->world->over)
        be_over(m);
    else if (m->state == MEMBER_AWAY) {
        m->state = MEMBER_WAITS;
        group_rendezvous_come(m);
    } else if (m->state == MEMBER_TRAINS)
        script_start_next(m);
}

void
group_member_answered(struct world_member *m, const struct rendezvous_answer *a)
{
    if (m->state != MEMBER_WAITS)
        return;
    if (m->world->over) {
        be_over(m);
        return;
    }
    if (a->table == NULL) {
        sim_trace(sim_of(m), "t%u is told %s: %s", m->task, ps_err_name(a->error.code), a->error.text);
        go_away(m, RETRY_US_MAX);
        return;
    }
    if (a->table->epoch <= m->epoch_seen)
        sim_fail(sim_of(m), "t%u: group %llu after group %llu", m->task, (unsigned long long)a->table->epoch,
                 (unsigned long long)m->epoch_seen);
    m->epoch_seen = a->table->epoch;
    m->state = MEMBER_JOINS;
    m->now = epoch_new(m, a->table);
    incoming_look_all(m);
    member_look(m);
}

static void
comes_back(struct sim_timer *t)
{
    struct world_member *m = CONTAINER_OF(t, struct world_member, back);

    if (!m->world->over)
        member_begin(m);
}

void
member_init(struct world_member *m, struct group_world *w, uint32_t task)
{
    *m = (struct world_member){.world = w, .task = task, .state = MEMBER_DEAD};
    m->turn.run = turn_comes;
    m->start.run = start_comes;
    m->back.run = comes_back;
    m->listener.accept = epoch_accept;
}

void
member_begin(struct world_member *m)
{
    sim_trace(sim_of(m), "t%u begins", m->task);
    m->incarnation = sim_rand(sim_of(m)) | 1;
    m->attempt = 0;
    m->epoch_seen = 0;
    m->trained = 0;
    m->step = INT64_MAX;
    m->held_us = 0;
    m->other = false;
    m->listener.up = true;
    m->listener.hidden_us = 0;
    m->now = NULL;
    go_away(m, AWAY_US_MAX);
}

void
member_kill(struct world_member *m, bool power)
{
    sim_trace(sim_of(m), "t%u dies%s", m->task, power ? " without a word" : "");
    group_rendezvous_gone(m);
    m->state = MEMBER_DEAD;
    m->now = NULL;
    m->listener.up = false;
    if (power)
        m->listener.hidden_us = UINT64_MAX;
    incoming_drop_all(m, power);
    for (struct epoch *e = m->epochs; e != NULL; e = e->next)
        epoch_kill(e, power);
    script_drop(m);
    sim_cancel(sim_of(m), &m->start);
    epochs_sweep(m);
    member_look(m);
}

void
member_hold(struct world_member *m, uint64_t until_us)
{
    m->held_us = MAX(m->held_us, until_us);
    epochs_hold(m);
}

/* The run is over: the network has ended. */
void
member_finish(struct world_member *m)
{
    for (struct epoch *e = m->epochs; e != NULL; e = e->next)
        epoch_end(e);
    script_finish(m);
    epochs_sweep(m);
    if (m->epochs != NULL)
        sim_fail(sim_of(m), "t%u: frames of a group were not given back", m->task);
}
