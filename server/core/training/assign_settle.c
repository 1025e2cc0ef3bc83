/* Blocks take the values of assigns that are done: when a gradient is about to be applied, when a step of sync ends,
 * and else in the background, where pulls that ask for them wait. */
#include "server/core/shard_state.h"
#include "server/core/training/assign.h"

#define ASSIGN_ERASE_MAX 64    /* values that one go of background work erases */
#define ASSIGN_LOOK_MAX  65536 /* blocks that it looks at */

/* ---- Which ---- */

/* Slots whose values a block at this clock is to have. */
static uint8_t
assign_due(const struct job *job, const struct block *b, uint64_t clock)
{
    uint8_t unsettled = staged_unsettled(job, b), due = 0;

    for (uint32_t i = 0; unsettled >> i != 0; i++)
        if ((unsettled >> i & 1) != 0 && job->assigns.slot[i].clock <= clock)
            due |= (uint8_t)(1u << i);
    return due;
}

/* The same of the clock that it is at. */
static uint8_t
assign_due_now(const struct job *job, const struct block *b)
{
    if (staged_unsettled(job, b) == 0)
        return 0;
    return assign_due(job, b, job_is_full_sync(job) ? clock_of_block(job, b, CLOCK_FOR_PULL) : 0);
}

/* Of these slots the one whose number comes first. */
static struct assign_slot *
assign_first_of(struct job *job, uint8_t slots)
{
    struct assign_slot *first = NULL;

    for (uint32_t i = 0; slots >> i != 0; i++)
        if ((slots >> i & 1) != 0 && (first == NULL || job->assigns.slot[i].number < first->number))
            first = &job->assigns.slot[i];
    return first;
}

bool
assign_lets_pull(const struct shard *s, const struct job *job, const struct block_ref *ref, uint64_t with_assign)
{
    uint8_t unsettled = staged_unsettled(job, ref->block);

    (void)s;
    if (unsettled == 0)
        return true;
    for (uint32_t i = 0; unsettled >> i != 0; i++)
        if ((unsettled >> i & 1) != 0 && job->assigns.slot[i].number <= with_assign)
            return false;
    return assign_due_now(job, ref->block) == 0;
}

uint64_t
assign_in_value(const struct shard *s, const struct job *job, const struct block_ref *ref, uint64_t newest_assign)
{
    const struct assigns *a = &job->assigns;
    uint8_t slots = (uint8_t)(ref->block->staged & (a->committed | a->done));
    uint64_t number = assigns_before(a, s->turn.number);

    for (uint32_t i = 0; slots >> i != 0; i++)
        if ((slots >> i & 1) != 0 && a->slot[i].number > newest_assign)
            number = MIN(number, a->slot[i].number - 1);
    return number;
}

bool
assign_settling(const struct shard *s, const struct job *job)
{
    (void)s;
    for (uint32_t i = 0; i < ASSIGN_SLOTS; i++) {
        const struct assign_slot *slot = &job->assigns.slot[i];

        if (slot->state == ASSIGN_COMMITTED && slot->left > 0 && slot->clock <= job->slowest)
            return true;
    }
    return false;
}

/* ---- When a gradient comes ---- */

uint64_t
assign_log_room(const struct shard *s, const struct block_ref *ref)
{
    uint8_t unsettled = staged_unsettled(ref->variable->job, ref->block);
    uint64_t n = 0;

    if (!s->save.staged.logs || unsettled == 0)
        return 0;
    for (; unsettled != 0; unsettled &= (uint8_t)(unsettled - 1))
        n++;
    return redo_room(s, n, 0, n * block_gradient_bytes(ref));
}

static enum ps_err
assign_log_value(struct shard *s, const struct block_ref *ref, const struct assign_slot *slot)
{
    const struct block_head *value;
    enum ps_err err;

    if (!s->save.staged.logs)
        return PS_OK;
    if ((err = staged_get(s, ref, slot, &value)) == PS_OK)
        redo_staged(s, ref, slot->number, value->rate, (const float *)(value + 1));
    return err;
}

static enum ps_err
assign_settle_some(struct shard *s, struct block_ref *ref, uint8_t slots)
{
    struct job *job = ref->variable->job;
    struct assign_slot *slot;
    enum ps_err err;

    for (; slots != 0; slots &= (uint8_t) ~(1u << assign_slot_index(&job->assigns, slot))) {
        slot = assign_first_of(job, slots);
        if ((err = staged_settle(s, ref, slot)) != PS_OK || (err = assign_log_value(s, ref, slot)) != PS_OK)
            return err;
        if (slot->left == 0)
            assign_slot_look(slot);
    }
    s->assigns_look = true;
    turn_wake_pulls(s, job);
    return PS_OK;
}

enum ps_err
assign_settle_block(struct shard *s, struct block_ref *ref, uint64_t clock)
{
    uint8_t due = ref->variable->job->assigns.committed != 0 ? assign_due(ref->variable->job, ref->block, clock) : 0;

    return due != 0 ? assign_settle_some(s, ref, due) : PS_OK;
}

bool
assign_settle_pushed(struct shard *s, struct job *job, const Psd__Push *m, enum ps_err *err)
{
    struct block_ref ref;
    struct ps_error e;
    uint64_t room = 0;

    *err = PS_OK;
    if (job->assigns.committed == 0 || job_is_sync(job))
        return true;
    for (size_t i = 0; i < m->n_var; i++)
        if (block_find(s, job, m->var[i], m->block[i], &ref, &e) == PS_OK && staged_unsettled(job, ref.block) != 0)
            room += ref.variable->kind->room(s, &ref) + assign_log_room(s, &ref);
    switch (turn_room(s, room, err)) {
    case TURN_WAIT:
        return false;
    case TURN_REFUSED:
        return true;
    case TURN_READY:
        break;
    }
    for (size_t i = 0; i < m->n_var && *err == PS_OK; i++)
        if (block_find(s, job, m->var[i], m->block[i], &ref, &e) == PS_OK)
            *err = assign_settle_block(s, &ref, 0);
    return true;
}

/* ---- In the background ---- */

/* The slot's next block with a value, from where it was looked last. False: there is none, or (*more) enough was looked
 * at. */
static bool
assign_next_block(struct shard *s, struct job *job, struct assign_slot *slot, uint32_t *looked, struct block_ref *ref)
{
    uint8_t bit = (uint8_t)(1u << assign_slot_index(&job->assigns, slot));

    for (; slot->at_var < slot->vars_len; slot->at_var++, slot->at_block = 0) {
        struct variable *v = staged_variable(s, &job->assigns, slot, slot->at_var);

        for (; v != NULL && slot->at_block < v->count; slot->at_block++) {
            if (++*looked > ASSIGN_LOOK_MAX)
                return false;
            if ((v->blocks[slot->at_block].staged & bit) == 0)
                continue;
            *ref = v->kind->nth(s, v, slot->at_block);
            return true;
        }
    }
    return false;
}

/* It is in all of its blocks, or in all that it can be in. */
static void
assign_settled(struct shard *s, struct job *job, struct assign_slot *slot)
{
    assigns_move(&job->assigns, slot, ASSIGN_OVER);
    slot->over_turn = s->turn.number;
    turn_mark_job(s, job);
    s->assigns_look = true;
}

enum assign_went { ASSIGN_WENT_ON, ASSIGN_WENT_TO_END, ASSIGN_NO_ROOM, ASSIGN_NEXT_TURN };

/* One block takes its values. whatever: also one that has not come to the clock. */
static enum assign_went
assign_settle_next(struct shard *s, struct job *job, struct assign_slot *slot, uint32_t *looked, bool whatever,
                   uint64_t *done)
{
    struct block_ref ref;
    enum ps_err err;
    uint8_t due;

    if (!assign_next_block(s, job, slot, looked, &ref))
        return slot->at_var < slot->vars_len ? ASSIGN_WENT_ON : ASSIGN_WENT_TO_END;
    due = whatever ? staged_unsettled(job, ref.block) : assign_due_now(job, ref.block);
    if (due == 0) {
        slot->at_block++;
        return ASSIGN_WENT_ON;
    }
    switch (turn_room(s, ref.variable->kind->room(s, &ref) + assign_log_room(s, &ref), &err)) {
    case TURN_WAIT:
        return ASSIGN_NEXT_TURN;
    case TURN_REFUSED:
        return ASSIGN_NO_ROOM;
    case TURN_READY:
        break;
    }
    if (assign_settle_some(s, &ref, due) != PS_OK)
        return s->turn.failed != PS_OK ? ASSIGN_NEXT_TURN : ASSIGN_NO_ROOM;
    *done += ref.size;
    slot->at_block++;
    return ASSIGN_WENT_ON;
}

static enum assign_went
assign_erase_next(struct shard *s, struct job *job, struct assign_slot *slot, uint32_t *looked, uint64_t *done)
{
    struct block_ref ref;
    enum ps_err err;

    if (!assign_next_block(s, job, slot, looked, &ref))
        return slot->at_var < slot->vars_len ? ASSIGN_WENT_ON : ASSIGN_WENT_TO_END;
    if (!s->turn.begun || s->turn.used + STORE_ROW_ROOM > s->turn.granted)
        switch (turn_room(s, ASSIGN_ERASE_MAX * STORE_ROW_ROOM, &err)) {
        case TURN_WAIT:
            return ASSIGN_NEXT_TURN;
        case TURN_REFUSED:
            return ASSIGN_NO_ROOM;
        case TURN_READY:
            break;
        }
    turn_take_rows(s, 1);
    if (staged_erase(s, &ref, slot) != PS_OK)
        return s->turn.failed != PS_OK ? ASSIGN_NEXT_TURN : ASSIGN_NO_ROOM;
    *done += SHARD_WORK_BYTES / ASSIGN_ERASE_MAX;
    slot->at_block++;
    return ASSIGN_WENT_ON;
}

/* The slot's values are gone. */
static void
assign_erased(struct shard *s, struct job *job, struct assign_slot *slot)
{
    uint8_t bit = (uint8_t)(1u << assign_slot_index(&job->assigns, slot));

    for (uint32_t i = 0; i < slot->vars_len; i++) {
        struct variable *v = staged_variable(s, &job->assigns, slot, i);

        if (v != NULL)
            v->staged &= (uint8_t)~bit;
    }
    assigns_release(&job->assigns, slot);
    assign_wake(s, job);
}

static enum assign_went
assign_work_next(struct shard *s, struct job *job, struct assign_slot *slot, uint32_t *looked, uint64_t *done)
{
    enum assign_went went;

    if (slot->state == ASSIGN_OVER) {
        if (s->save.staged.logs && !slot->in_save) {
            slot->look = false; /* until the save has logged them */
            return ASSIGN_WENT_ON;
        }
        if (slot->over_turn == s->turn.number)
            return ASSIGN_NEXT_TURN;
        went = assign_erase_next(s, job, slot, looked, done);
        if (went == ASSIGN_WENT_TO_END)
            assign_erased(s, job, slot);
        return went;
    }
    if (slot->state == ASSIGN_COMMITTED && slot->left > 0)
        went = assign_settle_next(s, job, slot, looked, false, done);
    else
        went = ASSIGN_WENT_TO_END;
    if (went == ASSIGN_WENT_TO_END && slot->state == ASSIGN_COMMITTED && slot->left == 0)
        assign_settled(s, job, slot);
    else if (went == ASSIGN_WENT_TO_END)
        slot->look = false; /* until clocks move on */
    return went;
}

static struct assign_slot *
assign_next_slot(const struct shard *s, struct job **job)
{
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        for (uint32_t i = 0; s->jobs_by_id[id] != NULL && i < ASSIGN_SLOTS; i++)
            if (s->jobs_by_id[id]->assigns.slot[i].look) {
                *job = s->jobs_by_id[id];
                return &s->jobs_by_id[id]->assigns.slot[i];
            }
    return NULL;
}

bool
assign_busy(const struct shard *s)
{
    return (s->assigns_unsure && !redo_waits(s)) || (s->assigns_look && !s->assigns_starved);
}

bool
assign_work(struct shard *s)
{
    struct assign_slot *slot = NULL;
    struct job *job = NULL;
    uint32_t looked = 0;
    uint64_t done = 0;

    if (s->assigns_unsure && !redo_waits(s)) {
        assign_loaded(s);
        return true;
    }
    while (done < SHARD_WORK_BYTES && looked < ASSIGN_LOOK_MAX && s->turn.failed == PS_OK) {
        if ((slot == NULL || !slot->look) && (slot = assign_next_slot(s, &job)) == NULL) {
            s->assigns_look = false;
            return true;
        }
        switch (assign_work_next(s, job, slot, &looked, &done)) {
        case ASSIGN_NEXT_TURN:
            return done > 0 || s->turn.failed != PS_OK;
        case ASSIGN_NO_ROOM:
            s->assigns_starved = true;
            return true;
        default:
            break;
        }
    }
    return true;
}

void
assign_turn_over(struct shard *s)
{
    s->assigns_starved = false;
}

void
assign_clock_moved(struct shard *s, struct job *job)
{
    for (uint32_t i = 0; i < ASSIGN_SLOTS && job->assigns.committed != 0; i++) {
        struct assign_slot *slot = &job->assigns.slot[i];

        if (slot->state != ASSIGN_COMMITTED || slot->all_due || slot->clock > job->slowest)
            continue;
        slot->all_due = true;
        assign_slot_look(slot);
        s->assigns_look = true;
    }
}

void
assign_step_gone(struct shard *s, struct job *job, const struct block *b)
{
    uint8_t unsettled = staged_unsettled(job, b);

    for (uint32_t i = 0; unsettled >> i != 0; i++)
        if ((unsettled >> i & 1) != 0)
            assign_slot_look(&job->assigns.slot[i]);
    s->assigns_look |= unsettled != 0;
}

/* Of any clock. */
static void
assign_slot_hurry(struct shard *s, struct job *job, struct assign_slot *slot)
{
    slot->clock = 0;
    assign_slot_look(slot);
    assign_changed(s, job, slot);
}

void
assign_hurry(struct shard *s, struct job *job, uint64_t clock, uint64_t with_assign)
{
    for (uint32_t i = 0; i < ASSIGN_SLOTS; i++) {
        struct assign_slot *slot = &job->assigns.slot[i];

        if (slot->state == ASSIGN_COMMITTED && slot->number <= with_assign && slot->clock > clock)
            assign_slot_hurry(s, job, slot);
    }
}

void
assign_resized(struct shard *s, struct job *job)
{
    for (uint32_t i = 0; i < ASSIGN_SLOTS && !job_is_full_sync(job); i++)
        if (job->assigns.slot[i].state == ASSIGN_COMMITTED && job->assigns.slot[i].clock > 0)
            assign_slot_hurry(s, job, &job->assigns.slot[i]);
}

/* The slot's next step to its end, which all of its blocks take, whatever their clocks. */
static enum assign_went
assign_end_next(struct shard *s, struct job *job, struct assign_slot *slot)
{
    uint32_t looked = 0;
    uint64_t done = 0;
    enum assign_went went;

    if (slot->state == ASSIGN_COMMITTED && slot->left > 0)
        return assign_settle_next(s, job, slot, &looked, true, &done);
    if (slot->state != ASSIGN_OVER) {
        assigns_move(&job->assigns, slot, ASSIGN_OVER);
        return ASSIGN_WENT_ON;
    }
    went = assign_erase_next(s, job, slot, &looked, &done);
    if (went == ASSIGN_WENT_TO_END)
        assign_erased(s, job, slot);
    return went;
}

bool
assign_end_slot(struct shard *s, struct job *job, struct assign_slot *slot, enum ps_err *err)
{
    while (slot->state != ASSIGN_FREE && s->turn.failed == PS_OK)
        switch (assign_end_next(s, job, slot)) {
        case ASSIGN_NEXT_TURN:
            *err = s->turn.failed;
            return s->turn.failed != PS_OK;
        case ASSIGN_NO_ROOM:
            *err = PS_ERR_FULL;
            return true;
        default:
            break;
        }
    *err = s->turn.failed;
    return true;
}
