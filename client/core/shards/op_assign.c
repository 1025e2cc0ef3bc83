/* The phases of an assign. op_values.c starts them. */
#include "client/core/shards/op_assign.h"

#include "client/core/shards/shard_link.h"

/* ---- Blocks ---- */

/* Values go to this variable's blocks on the shard. */
static bool
op_assign_concerns(const struct core_op *op, size_t i, uint32_t shard)
{
    const struct var_shard *on = &op->vars[i]->shard[shard];

    return op->grads[i] != NULL && on->blocks > 0 && (!op->assign.first || on->awaits);
}

/* Blocks that get values there. */
static uint64_t
op_assign_blocks(const struct core_op *op, uint32_t shard)
{
    uint64_t n = 0;

    for (size_t i = 0; i < op->n; i++)
        if (op_assign_concerns(op, i, shard))
            n += op->vars[i]->shard[shard].blocks;
    return n;
}

/* Some of its variables await the values. */
static bool
op_assign_awaited(const struct core_op *op)
{
    for (uint32_t i = 0; i < op->lanes_n; i++)
        if (op_assign_blocks(op, op->lanes[i].shard) > 0)
            return true;
    return false;
}

/* Every shard knows all of its variables. */
static bool
op_assign_all_known(const struct core_op *op)
{
    for (size_t i = 0; op->assign.first && i < op->n; i++)
        for (uint32_t j = 0; j < op->lanes_n; j++)
            if (op->vars[i]->shard[op->lanes[j].shard].blocks > 0 && !op->vars[i]->shard[op->lanes[j].shard].known)
                return false;
    return true;
}

/* ---- Asking ---- */

static enum ps_err
op_assign_ask(struct core *c, struct core_op *op, uint32_t shard, enum request_kind kind, struct core_var *v)
{
    return op_ask_on_lane(c, op, &op->lanes[shard], kind, v);
}

/* The variables for which this worker has values, or the others. */
static enum ps_err
op_assign_declare(struct core *c, struct core_op *op, bool with_values)
{
    for (size_t i = 0; i < op->n; i++)
        for (uint32_t shard = 0; shard < op->lanes_n && (op->grads[i] != NULL) == with_values; shard++)
            if (op->vars[i]->shard[shard].blocks > 0 &&
                op_assign_ask(c, op, shard, REQUEST_DECLARE, op->vars[i]) != PS_OK)
                return PS_ERR_NOMEM;
    return PS_OK;
}

static enum ps_err
op_assign_ask_others(struct core *c, struct core_op *op)
{
    for (uint32_t shard = 1; shard < op->lanes_n; shard++)
        if (op_assign_ask(c, op, shard, REQUEST_ASSIGN, NULL) != PS_OK)
            return PS_ERR_NOMEM;
    return PS_OK;
}

static void
op_assign_stage(struct core *c, struct core_op *op)
{
    for (uint32_t shard = 0; shard < op->lanes_n; shard++) {
        op->lanes[shard].at = (struct block_cursor){0};
        if (op_assign_blocks(op, shard) > 0)
            shard_link_queue_lane(&c->links[shard], &op->lanes[shard]);
    }
}

/* In sync with all workers steps are of one clock on all shards: the values are of this one, or of the next if this
 * worker has pushed for this one already. No earlier than those of the assign before. */
static void
op_assign_settle_clock(const struct core *c, struct core_op *op)
{
    bool next = op->assign.next_step || c->assigns.pushed > c->clock;

    if (c->config.mode != PS_SYNC || c->config.quorum != c->config.workers)
        op->assign.clock = 0;
    else
        op->assign.clock = MAX(op->assign.clock, c->clock + next);
}

static void
op_assign_begin(struct core *c, struct core_op *op)
{
    op->assign.attempt = ++c->assigns.attempt;
    op->assign.lost = op->assign.again = op->assign.decided = false;
    error_none(&op->result);
}

/* What a phase asks. */
static enum ps_err
op_assign_ask_phase(struct core *c, struct core_op *op)
{
    switch (op->assign.phase) {
    case ASSIGN_DECLARE:
        op->assign.lost = false;
        return op_assign_declare(c, op, true);
    case ASSIGN_LOOK:
        return op_assign_declare(c, op, true);
    case ASSIGN_BEGIN:
        op_assign_begin(c, op);
        return op_assign_ask(c, op, 0, REQUEST_ASSIGN, NULL);
    case ASSIGN_PREPARE:
        op_assign_settle_clock(c, op);
        return op_assign_ask_others(c, op);
    case ASSIGN_OPEN:
    case ASSIGN_TELL:
        return op_assign_ask_others(c, op);
    case ASSIGN_STAGE:
        op_assign_stage(c, op);
        return PS_OK;
    case ASSIGN_DECIDE:
        return op_assign_ask(c, op, 0, REQUEST_ASSIGN, NULL);
    default:
        return op_assign_declare(c, op, false);
    }
}

/* ---- From phase to phase ---- */

/* What was sent to shards before this phase must not stay there. Of an attempt that is done all of it does, whatever
 * was lost meanwhile: a second one would be done once more. */
static bool
op_assign_must_restart(const struct op_assign *a)
{
    if (a->again)
        return a->phase <= ASSIGN_DECIDE;
    return a->lost && a->phase != ASSIGN_BEGIN && a->phase <= ASSIGN_DECIDE && !a->decided;
}

static enum assign_phase
op_assign_first_phase(const struct core_op *op)
{
    return op->assign.first ? ASSIGN_DECLARE : ASSIGN_BEGIN;
}

static void
op_assign_note_given(struct core_op *op)
{
    for (size_t i = 0; op->assign.given != NULL && i < op->n; i++)
        for (uint32_t shard = 0; shard < op->lanes_n; shard++)
            op->assign.given[i] |= op_assign_concerns(op, i, shard);
}

/* The phase that follows; ASSIGN_QUEUED: none does. */
static enum assign_phase
op_assign_following(struct core *c, struct core_op *op)
{
    struct op_assign *a = &op->assign;

    switch (a->phase) {
    case ASSIGN_DECLARE:
        return op_assign_awaited(op) ? ASSIGN_BEGIN : ASSIGN_WAIT;
    case ASSIGN_BEGIN:
        return ASSIGN_OPEN;
    case ASSIGN_OPEN:
        return a->first ? ASSIGN_LOOK : ASSIGN_STAGE;
    case ASSIGN_LOOK:
        if (op_assign_awaited(op))
            return ASSIGN_STAGE;
        op_assign_abandon(c, op, false);
        return ASSIGN_WAIT;
    case ASSIGN_DECIDE:
        op_assign_known(c, a->number);
        op_assign_note_given(op);
        return ASSIGN_TELL;
    case ASSIGN_TELL:
        return a->first ? ASSIGN_DECLARE : ASSIGN_QUEUED;
    case ASSIGN_WAIT:
        return op_assign_all_known(op) ? ASSIGN_QUEUED : ASSIGN_DECLARE;
    default:
        return a->phase + 1;
    }
}

/* From this phase on, past those that ask nothing, to one that does, or to the end. */
static void
op_assign_enter(struct core *c, struct core_op *op, enum assign_phase phase)
{
    struct ps_error e;

    for (; phase != ASSIGN_QUEUED; phase = op_assign_following(c, op)) {
        op->assign.phase = phase;
        if (op_assign_ask_phase(c, op) != PS_OK) {
            ps_fail(&e, PS_ERR_NOMEM, "no memory to go on with an assign");
            op_give_up(c, op, &e);
            return;
        }
        if (op->left > 0) {
            op_pump(c, op);
            return;
        }
    }
    op_end(c, op, &op->result);
}

void
op_assign_next(struct core *c, struct core_op *op)
{
    if (op_assign_must_restart(&op->assign))
        op_assign_enter(c, op, op_assign_first_phase(op));
    else
        op_assign_enter(c, op, op_assign_following(c, op));
}

void
op_assign_note_answer(struct core_op *op, const struct ps_error *error)
{
    if (op->assign.phase == ASSIGN_DECIDE && !op->assign.again)
        op->assign.decided = error == NULL || error->code == PS_ERR_NOT_DURABLE;
}

bool
op_assign_ends(const struct core_op *op, const struct ps_error *error)
{
    return error->code != PS_ERR_NOT_DURABLE && op->assign.phase != ASSIGN_TELL && !op_assign_must_restart(&op->assign);
}

bool
op_assign_counts(const struct core_op *op, const struct ps_error *error)
{
    return error->code == PS_ERR_NOT_DURABLE ? op->durable : op->assign.phase == ASSIGN_TELL;
}

/* ---- One after the other ---- */

static void
op_assign_go(struct core *c, struct core_op *op)
{
    c->assigns.running = op;
    for (size_t i = 0; i < op->n; i++) {
        if (op->assign.given != NULL)
            op->assign.given[i] = 0;
        for (uint32_t shard = 0; shard < op->lanes_n; shard++)
            op->vars[i]->shard[shard].awaits = false;
    }
    op_assign_enter(c, op, op_assign_first_phase(op));
}

void
op_assign_start(struct core *c, struct core_op *op)
{
    struct core_op **at = &c->assigns.running;

    if (*at == NULL) {
        op_assign_go(c, op);
        return;
    }
    while (*at != NULL)
        at = &(*at)->assign.next;
    *at = op;
}

void
op_assign_over(struct core *c, struct core_op *op)
{
    struct core_op **at = &c->assigns.running;
    bool ran = *at == op;

    while (*at != NULL && *at != op)
        at = &(*at)->assign.next;
    if (*at == NULL)
        return;
    *at = op->assign.next;
    op->assign.next = NULL;
    if (ran && *at != NULL)
        op_assign_go(c, *at);
}

void
op_assign_drop(struct core *c)
{
    c->assigns.running = NULL;
}

/* ---- Giving up ---- */

bool
op_assign_unknown(const struct core_op *op, bool asked)
{
    return op->assign.phase == ASSIGN_TELL || (op->assign.phase == ASSIGN_DECIDE && asked);
}

static void
op_assign_abandon_at(struct core *c, const struct core_op *op, uint32_t shard)
{
    struct request *p = request_new_own(c, REQUEST_ABANDON);

    if (p == NULL)
        return; /* the shards get over it when this worker's next one begins, or when it leaves */
    p->attempt = op->assign.attempt;
    shard_link_queue_control(&c->links[shard], p);
    shard_link_pump(c, &c->links[shard]);
}

/* Once shard 0 has been asked to decide, the others may not act before it is known how it has. */
void
op_assign_abandon(struct core *c, const struct core_op *op, bool asked)
{
    enum assign_phase phase = op->assign.phase;

    if (phase < ASSIGN_BEGIN || phase > ASSIGN_DECIDE)
        return;
    op_assign_abandon_at(c, op, 0);
    for (uint32_t shard = 1; phase >= ASSIGN_OPEN && !(phase == ASSIGN_DECIDE && asked) && shard < c->config.shards;
         shard++)
        op_assign_abandon_at(c, op, shard);
}

/* ---- A shard that lost data ---- */

void
op_assign_lost(struct core *c)
{
    if (c->assigns.running != NULL)
        c->assigns.running->assign.lost = true;
}

/* The attempt is left as it is: the next one's steps end it at the shards. */
void
op_assign_resume(struct core *c)
{
    struct core_op *op = c->assigns.running;

    if (op == NULL || !op->assign.lost || op->assign.phase == ASSIGN_DECIDE || !op_assign_must_restart(&op->assign))
        return;
    op_take_back(c, op);
    op_assign_enter(c, op, op_assign_first_phase(op));
}

/* ---- Messages ---- */

static Psd__AssignStep
op_assign_step(const struct request *p)
{
    static const Psd__AssignStep step[] = {
        [ASSIGN_BEGIN] = PSD__ASSIGN_STEP__BEGIN,   [ASSIGN_OPEN] = PSD__ASSIGN_STEP__OPEN,
        [ASSIGN_STAGE] = PSD__ASSIGN_STEP__STAGE,   [ASSIGN_PREPARE] = PSD__ASSIGN_STEP__PREPARE,
        [ASSIGN_DECIDE] = PSD__ASSIGN_STEP__COMMIT, [ASSIGN_TELL] = PSD__ASSIGN_STEP__COMMIT,
    };

    return p->kind == REQUEST_ABANDON ? PSD__ASSIGN_STEP__GIVE_UP : step[p->op->assign.phase];
}

void
op_assign_message(const struct core *c, const struct shard_link *l, const struct request *p, Psd__Assign *m)
{
    const struct op_assign *a;

    psd__assign__init(m);
    m->step = op_assign_step(p);
    m->attempt = p->attempt;
    if (p->kind == REQUEST_ABANDON)
        return;
    a = &p->op->assign;
    m->attempt = a->attempt;
    m->number =
        a->phase != ASSIGN_BEGIN ? a->number : MAX(MAX(c->assigns.done, c->assigns.given_up), c->assigns.newest);
    m->durable = p->op->durable;
    m->reset_slots = a->reset_slots;
    m->first = a->first;
    m->nonfinite = a->nonfinite;
    if (a->phase == ASSIGN_OPEN)
        m->committed = a->committed;
    if (a->phase < ASSIGN_PREPARE)
        return;
    m->blocks = op_assign_blocks(p->op, l->shard);
    m->clock = a->clock;
}

static void
op_assign_begun(struct op_assign *a, const Psd__Assigned *m)
{
    a->number = m->number;
    a->committed = m->committed;
    a->clock = m->clock;
}

void
op_assign_answered(struct core *c, struct shard_link *l, struct request *p, const Psd__Assigned *m,
                   struct ps_error *error)
{
    struct op_assign *a;

    op_assign_known(c, m->committed);
    if (m->again)
        c->assigns.newest = MAX(c->assigns.newest, m->newest);
    if (p->op == NULL)
        return;
    a = &p->op->assign;
    if (!m->again && a->phase == ASSIGN_BEGIN)
        op_assign_begun(a, m);
    else if (!m->again && a->phase == ASSIGN_OPEN)
        a->clock = MAX(a->clock, m->clock);
    else if (m->again && a->phase == ASSIGN_TELL && !a->first)
        core_error_set(c, l, error, PS_ERR_ROLLED_BACK,
                       "lost its part of the values, which the others have: assign again");
    else if (m->again)
        a->again = true;
}

void
op_assign_known(struct core *c, uint64_t number)
{
    c->assigns.done = MAX(c->assigns.done, number);
}
