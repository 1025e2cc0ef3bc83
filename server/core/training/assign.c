/* The worker's steps. Each may come again after a lost connection, and is answered as the first time. */
#include "server/core/training/assign.h"

#include <inttypes.h>

#include "common/core/cluster/placement.h"
#include "server/core/shard_state.h"

#define ASSIGN_NUMBER_BITS 20 /* of a number that tell its attempt from others */

/* ---- Answers ---- */

/* Wherever there is a disk, what an assign does is on it before it is answered: updates that are in the log build on
 * it. While the disk fails, only for workers that ask for it: that is an error, then. */
static bool
assign_waits_for_disk(const struct shard *s, const Psd__Assign *m)
{
    return m->durable || (s->redo.on && !redo_failed(s));
}

/* The piece that an answer waits for: what is to be on disk is in the record that is being made, or before it. */
static uint64_t
assign_until(const struct shard *s, const Psd__Assign *m)
{
    if (!assign_waits_for_disk(s, m))
        return DURABLE_ACKS_NONE;
    if (redo_waits(s))
        return DURABLE_ACKS_RECORD;
    return s->redo.next > s->redo.durable ? s->redo.next : DURABLE_ACKS_NONE;
}

static void
assign_answer(struct shard *s, struct connection *c, uint64_t request, uint64_t number, uint64_t until)
{
    Psd__Assigned m = PSD__ASSIGNED__INIT;

    m.number = number;
    durable_acks_send_message(s, c, until, MSG_ASSIGNED, request, &m.base);
}

/* The attempt is not known here; its next number must be above this one. */
static void
assign_answer_again(struct shard *s, struct connection *c, uint64_t request, uint64_t newest)
{
    Psd__Assigned m = PSD__ASSIGNED__INIT;

    m.again = true;
    m.newest = newest;
    actions_send(s, c, MSG_ASSIGNED, request, &m.base);
}

static void
assign_refuse(struct shard *s, struct connection *c, uint64_t request, const struct ps_error *e)
{
    actions_error(s, c, request, e->code, e->text);
}

/* ---- Beginning ---- */

static bool
assign_is_of(const struct assign_slot *slot, const struct session *session)
{
    return slot->task == session->task && slot->incarnation == session->incarnation;
}

static bool
assign_is_attempt(const struct assign_slot *slot, const struct session *session, const Psd__Assign *m)
{
    return assign_is_of(slot, session) && slot->attempt == m->attempt;
}

/* All slots hold values that wait for a clock, which nobody but the workers moves on. */
static enum ps_err
assign_check_slots(const struct shard *s, const struct job *job, struct ps_error *e)
{
    uint64_t clock = 0;

    for (uint32_t i = 0; i < ASSIGN_SLOTS; i++) {
        const struct assign_slot *slot = &job->assigns.slot[i];

        if (slot->state != ASSIGN_COMMITTED || slot->clock <= job->slowest)
            return PS_OK;
        clock = MAX(clock, slot->clock);
    }
    return ps_fail(e, PS_ERR_LIMIT,
                   "shard %u holds the values of %d assigns of job '%.64s' that wait for clock %" PRIu64
                   ", which is as many as it holds: give all values of a step in one call, or tick first",
                   s->config.shard, ASSIGN_SLOTS, job->name, clock);
}

static enum ps_err
assign_check_durable(struct shard *s, const Psd__Assign *m, struct ps_error *e)
{
    return m->durable ? redo_check(s, 0, e) : PS_OK;
}

static struct assign_slot *
assign_slot_open(struct shard *s, struct job *job, const struct session *session, const Psd__Assign *m, uint64_t number)
{
    struct assign_slot *slot = assigns_free(&job->assigns);

    slot->number = number;
    slot->task = session->task;
    slot->incarnation = session->incarnation;
    slot->attempt = m->attempt;
    slot->reset_slots = m->reset_slots;
    slot->durable = s->redo.on;
    slot->first = m->first;
    slot->nonfinite = m->nonfinite;
    assigns_move(&job->assigns, slot, ASSIGN_STAGING);
    assign_changed(s, job, slot);
    return slot;
}

/* What this shard knows of the assign before is settled; true: nothing is in the way of this one. */
static bool
assign_may_begin(struct shard *s, struct connection *c, uint64_t request, const Psd__Assign *m)
{
    struct job *job = c->session->job;
    struct ps_error e;

    if (assigns_undecided(&job->assigns) != NULL) {
        assign_wait(s, c, request, m);
    } else if (assign_check_durable(s, m, &e) != PS_OK) {
        assign_refuse(s, c, request, &e);
    } else if (assigns_free(&job->assigns) != NULL) {
        return true;
    } else if (assign_check_slots(s, job, &e) != PS_OK) {
        assign_refuse(s, c, request, &e);
    } else {
        assign_wait(s, c, request, m);
    }
    return false;
}

/* Above all that were given out, and never that of another attempt, whatever this shard has forgotten since. */
static uint64_t
assign_number(const struct assigns *a, const struct session *session, const Psd__Assign *m)
{
    const uint64_t attempt[] = {session->task, session->incarnation, m->attempt};
    uint64_t newest = MAX(MAX(a->begun, a->assigned), m->number);
    uint64_t own = placement_hash(attempt, sizeof attempt, 0) & ((1ull << ASSIGN_NUMBER_BITS) - 1);

    return ((newest >> ASSIGN_NUMBER_BITS) + 1) << ASSIGN_NUMBER_BITS | own;
}

static enum ps_err
assign_check_number(uint64_t number, struct ps_error *e)
{
    if (number <= WIRE_ASSIGN_MAX)
        return PS_OK;
    return ps_fail(e, PS_ERR_LIMIT, "there is no number of an assign above %" PRIu64, (uint64_t)WIRE_ASSIGN_MAX);
}

/* At shard 0. */
static void
assign_begin_first(struct shard *s, struct connection *c, uint64_t request, const Psd__Assign *m)
{
    struct job *job = c->session->job;
    struct assigns *a = &job->assigns;
    struct assign_slot *slot = assigns_undecided(a);
    Psd__Assigned answer = PSD__ASSIGNED__INIT;
    uint64_t number = assign_number(a, c->session, m);
    struct ps_error e;

    if (slot != NULL && assign_is_of(slot, c->session) && slot->attempt < m->attempt && !slot->deciding) {
        assign_give_up(s, job, slot); /* what its client has left */
        slot = NULL;
    }
    if (m->attempt <= c->session->assigned ||
        (slot != NULL && assign_is_of(slot, c->session) && slot->attempt > m->attempt)) {
        assign_answer_again(s, c, request, a->begun);
        return;
    }
    if (slot == NULL || !assign_is_attempt(slot, c->session, m)) {
        if (!assign_may_begin(s, c, request, m))
            return;
        if (assign_check_number(number, &e) != PS_OK) {
            assign_refuse(s, c, request, &e);
            return;
        }
        a->begun = number;
        slot = assign_slot_open(s, job, c->session, m, number);
    }
    answer.number = slot->number;
    answer.committed = a->assigned;
    answer.clock = assigns_clock(a);
    actions_send(s, c, MSG_ASSIGNED, request, &answer.base);
}

/* Shard 0 has given this number, so all before it are decided, and it says what was the last one that is done. */
static void
assign_end_older(struct shard *s, struct job *job, const Psd__Assign *m)
{
    struct assign_slot *slot = assigns_undecided(&job->assigns);

    assign_resolve(s, job, m->committed, 0);
    if (slot != NULL && slot->number < m->number && assigns_undecided(&job->assigns) == slot)
        assign_give_up(s, job, slot);
}

/* Values that wait here are of a clock that shard 0 may have lost: those of this assign must not come before them. */
static void
assign_answer_open(struct shard *s, struct connection *c, uint64_t request, uint64_t number)
{
    Psd__Assigned m = PSD__ASSIGNED__INIT;

    m.number = number;
    m.clock = assigns_clock(&c->session->job->assigns);
    actions_send(s, c, MSG_ASSIGNED, request, &m.base);
}

/* At another shard. */
static void
assign_begin_other(struct shard *s, struct connection *c, uint64_t request, const Psd__Assign *m)
{
    struct job *job = c->session->job;
    struct assigns *a = &job->assigns;
    struct assign_slot *slot;

    assign_end_older(s, job, m);
    slot = assigns_undecided(a);
    if (slot != NULL && slot->number == m->number && assign_is_attempt(slot, c->session, m)) {
        assign_answer_open(s, c, request, m->number);
        return;
    }
    if (slot != NULL || m->number <= a->assigned) {
        assign_answer_again(s, c, request, slot != NULL ? slot->number : a->assigned);
        return;
    }
    if (!assign_may_begin(s, c, request, m))
        return;
    (void)assign_slot_open(s, job, c->session, m, m->number);
    assign_answer_open(s, c, request, m->number);
}

void
assign_begin(struct shard *s, struct connection *c, uint64_t request, const Psd__Assign *asked)
{
    if (asked->step == PSD__ASSIGN_STEP__BEGIN)
        assign_begin_first(s, c, request, asked);
    else
        assign_begin_other(s, c, request, asked);
}

/* ---- The end ---- */

/* Everything that was sent is there. */
static enum ps_err
assign_check_whole(const struct shard *s, const struct assign_slot *slot, const Psd__Assign *m, struct ps_error *e)
{
    if (slot->blocks == m->blocks)
        return PS_OK;
    return ps_fail(e, PS_ERR_INVALID,
                   "assign %" PRIu64 " has values for %" PRIu64 " blocks on shard %u, and its worker has sent %" PRIu64,
                   slot->number, slot->blocks, s->config.shard, m->blocks);
}

static void
assign_prepare(struct shard *s, struct connection *c, uint64_t request, const Psd__Assign *m, struct assign_slot *slot)
{
    struct job *job = c->session->job;
    struct ps_error e;

    if (assign_check_whole(s, slot, m, &e) != PS_OK) {
        assign_refuse(s, c, request, &e);
        return;
    }
    if (slot->state == ASSIGN_STAGING) {
        slot->clock = m->clock;
        assigns_move(&job->assigns, slot, ASSIGN_PREPARED);
        assign_changed(s, job, slot);
    }
    assign_answer(s, c, request, m->number, assign_until(s, m));
}

/* It was done before, by this attempt. */
static bool
assign_was_done(const struct session *session, const Psd__Assign *m)
{
    const struct assigns *a = &session->job->assigns;

    return session->assigned == m->attempt ||
           (a->incarnation == session->incarnation && a->task == session->task && a->attempt == m->attempt);
}

/* At shard 0: this decides. */
static void
assign_commit_first(struct shard *s, struct connection *c, uint64_t request, const Psd__Assign *m,
                    struct assign_slot *slot)
{
    struct session *session = c->session;
    struct assigns *a = &session->job->assigns;
    struct ps_error e;

    if (assign_check_whole(s, slot, m, &e) != PS_OK) {
        assign_refuse(s, c, request, &e);
        return;
    }
    a->clock = MAX(a->clock, m->clock);
    a->task = session->task;
    a->incarnation = session->incarnation;
    a->attempt = session->assigned = m->attempt;
    turn_mark_session(s, session);
    if (slot->durable)
        redo_assigned(s, session);
    assign_decide(s, session->job, slot, m->clock);
    assign_answer(s, c, request, m->number, assign_until(s, m));
    assign_wake(s, session->job);
}

/* At another shard, which knows it as done already, has prepared it, or has lost what it had. */
static void
assign_commit_other(struct shard *s, struct connection *c, uint64_t request, const Psd__Assign *m)
{
    struct job *job = c->session->job;
    struct assign_slot *slot = assigns_find(&job->assigns, m->number);
    bool lost = slot != NULL ? slot->state == ASSIGN_STAGING : job->assigns.assigned < m->number;

    if (slot != NULL && lost)
        assign_give_up(s, job, slot);
    assign_resolve(s, job, m->number, 0);
    if (lost)
        assign_answer_again(s, c, request, m->number);
    else
        assign_answer(s, c, request, m->number, assign_until(s, m));
}

/* ---- Dispatch ---- */

/* The slot of a step after the first. NULL: none, and it is answered so. */
static struct assign_slot *
assign_slot_of(struct shard *s, struct connection *c, uint64_t request, const Psd__Assign *m)
{
    struct assigns *a = &c->session->job->assigns;
    struct assign_slot *slot = assigns_undecided(a);

    if (slot != NULL && slot->number == m->number && assign_is_attempt(slot, c->session, m))
        return slot;
    assign_answer_again(s, c, request, MAX(a->begun, slot != NULL ? slot->number : 0));
    return NULL;
}

/* At shard 0 an attempt before it, too: its client had left that one, and what was to begin the next one did not come.
 * Another shard may have prepared that one, and shard 0 may have decided that it is done. */
static bool
assign_ends_with(const struct shard *s, const struct assign_slot *slot, const struct session *session,
                 const Psd__Assign *m)
{
    if (slot->deciding || !assign_is_of(slot, session))
        return false;
    return slot->attempt == m->attempt || (slot->attempt < m->attempt && s->config.shard == 0);
}

static void
assign_take_give_up(struct shard *s, struct connection *c, uint64_t request, const Psd__Assign *m)
{
    struct job *job = c->session->job;
    struct assign_slot *slot = assigns_undecided(&job->assigns);

    if (slot != NULL && assign_ends_with(s, slot, c->session, m))
        assign_give_up(s, job, slot);
    assign_answer(s, c, request, m->number, DURABLE_ACKS_NONE);
    assign_wake(s, job);
}

/* BEGIN goes to shard 0, OPEN and PREPARE to the others. */
static bool
assign_belongs_here(const struct shard *s, Psd__AssignStep step)
{
    switch (step) {
    case PSD__ASSIGN_STEP__BEGIN:
        return s->config.shard == 0;
    case PSD__ASSIGN_STEP__OPEN:
    case PSD__ASSIGN_STEP__PREPARE:
        return s->config.shard != 0;
    default:
        return true;
    }
}

static void
assign_take_commit(struct shard *s, struct connection *c, uint64_t request, const Psd__Assign *m)
{
    struct assign_slot *slot;

    if (s->config.shard != 0) {
        assign_commit_other(s, c, request, m);
    } else if (assign_was_done(c->session, m)) {
        assign_answer(s, c, request, m->number, assign_until(s, m));
    } else if ((slot = assign_slot_of(s, c, request, m)) != NULL) {
        assign_commit_first(s, c, request, m, slot);
    }
}

enum shard_result
assign_take(struct shard *s, struct connection *c, const struct wire_msg *msg, struct event_context *ctx)
{
    const Psd__Assign *m = msg->u.assign;
    struct assign_slot *slot;
    struct ps_error e;

    if (!assign_belongs_here(s, m->step)) {
        (void)ps_fail(&e, PS_ERR_INVALID, "assign.step %d does not go to shard %u", (int)m->step, s->config.shard);
        assign_refuse(s, c, msg->request, &e);
        return SHARD_TAKEN;
    }
    switch (m->step) {
    case PSD__ASSIGN_STEP__BEGIN:
    case PSD__ASSIGN_STEP__OPEN:
        assign_begin(s, c, msg->request, m);
        break;
    case PSD__ASSIGN_STEP__STAGE:
        if ((slot = assign_slot_of(s, c, msg->request, m)) != NULL)
            return assign_stage(s, slot, c, msg, ctx);
        break;
    case PSD__ASSIGN_STEP__PREPARE:
        if ((slot = assign_slot_of(s, c, msg->request, m)) != NULL)
            assign_prepare(s, c, msg->request, m, slot);
        break;
    case PSD__ASSIGN_STEP__COMMIT:
        assign_take_commit(s, c, msg->request, m);
        break;
    default:
        assign_take_give_up(s, c, msg->request, m);
        break;
    }
    return SHARD_TAKEN;
}
