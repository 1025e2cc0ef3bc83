/* Slots are walked job by job; a slot's variables are in its list. */
#include "server/core/durability/save_staged.h"

#include "server/core/shard_state.h"

static bool
save_staged_any(const struct shard *s)
{
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        for (uint32_t i = 0; s->jobs_by_id[id] != NULL && i < ASSIGN_SLOTS; i++) {
            const struct assign_slot *slot = &s->jobs_by_id[id]->assigns.slot[i];

            if (slot->state != ASSIGN_FREE && slot->state != ASSIGN_OVER && slot->blocks > 0)
                return true;
        }
    return false;
}

static void
save_staged_rewind(struct save_staged *x)
{
    x->logged = false;
    x->until = 0;
    x->job = 1;
    x->slot = x->at_var = 0;
    x->at_block = 0;
}

/* With the save and what is logged from here on, the log has all of these assigns, also if it had not before. */
static void
save_staged_trust(struct shard *s)
{
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        for (uint32_t i = 0; s->jobs_by_id[id] != NULL && i < ASSIGN_SLOTS; i++)
            s->jobs_by_id[id]->assigns.slot[i].durable = true;
}

/* What is over is in the save's blocks, or was given up: it goes while the save runs, for the next save may begin as
 * soon as this one ends. */
static void
save_staged_leave(struct shard *s, struct assign_slot *slot)
{
    if (slot->state != ASSIGN_OVER)
        return;
    slot->in_save = true;
    assign_slot_look(slot);
    s->assigns_look = true;
}

void
save_staged_begin(struct shard *s)
{
    struct save_staged *x = &s->save.staged;

    save_staged_rewind(x);
    x->logs = s->redo.on && save_staged_any(s) && !MUTATION(STAGED_NOT_LOGGED);
    if (!x->logs)
        return;
    save_staged_trust(s);
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        for (uint32_t i = 0; s->jobs_by_id[id] != NULL && i < ASSIGN_SLOTS; i++)
            save_staged_leave(s, &s->jobs_by_id[id]->assigns.slot[i]);
}

void
save_staged_end(struct shard *s)
{
    if (!s->save.staged.logs)
        return;
    s->save.staged.logs = false;
    for (uint32_t id = 1; id <= s->jobs_len; id++)
        for (uint32_t i = 0; s->jobs_by_id[id] != NULL && i < ASSIGN_SLOTS; i++)
            if (s->jobs_by_id[id]->assigns.slot[i].state == ASSIGN_OVER)
                assign_slot_look(&s->jobs_by_id[id]->assigns.slot[i]);
    s->assigns_look = true;
}

/* Half of the log's room is for updates. */
static bool
save_staged_has_room(const struct shard *s)
{
    return s->redo.bytes + s->redo.turn_bytes < s->config.redo_bytes_max / 2;
}

void
save_staged_turn_over(struct shard *s, bool committed)
{
    struct save_staged *x = &s->save.staged;

    if (!x->logs)
        return;
    if (!committed && x->until == 0)
        save_staged_rewind(x);
    else if (x->logged && x->until == 0)
        x->until = s->redo.committed;
    if (redo_failed(s) && !x->logged && !save_staged_has_room(s))
        save_staged_end(s); /* nothing makes room before this save is done */
}

bool
save_staged_done(const struct shard *s)
{
    const struct save_staged *x = &s->save.staged;

    if (!x->logs)
        return true;
    return x->logged && x->until != 0 && (redo_failed(s) || s->redo.durable >= x->until);
}

bool
save_staged_busy(const struct shard *s)
{
    const struct save_staged *x = &s->save.staged;

    return x->logs && !x->logged && save_staged_has_room(s);
}

/* The next slot with values; false: there is none. */
static bool
save_staged_next_slot(const struct shard *s, struct save_staged *x)
{
    for (; x->job <= s->jobs_len; x->job++, x->slot = 0)
        for (; s->jobs_by_id[x->job] != NULL && x->slot < ASSIGN_SLOTS; x->slot++, x->at_var = 0, x->at_block = 0)
            if (!s->jobs_by_id[x->job]->assigns.slot[x->slot].in_save &&
                x->at_var < s->jobs_by_id[x->job]->assigns.slot[x->slot].vars_len)
                return true;
    return false;
}

/* The next block with a value. */
static bool
save_staged_next(struct shard *s, struct save_staged *x, struct block_ref *ref)
{
    while (save_staged_next_slot(s, x)) {
        const struct assigns *a = &s->jobs_by_id[x->job]->assigns;
        struct variable *v = staged_variable(s, a, &a->slot[x->slot], x->at_var);

        for (; v != NULL && x->at_block < v->count; x->at_block++) {
            if ((v->blocks[x->at_block].staged >> x->slot & 1) == 0)
                continue;
            *ref = v->kind->nth(s, v, x->at_block);
            return true;
        }
        x->at_var++;
        x->at_block = 0;
    }
    return false;
}

bool
save_staged_work(struct shard *s, enum ps_err *err)
{
    struct save_staged *x = &s->save.staged;
    struct block_ref ref;
    const struct block_head *value;
    uint64_t bytes = 0;

    *err = PS_OK;
    while (bytes < SHARD_WORK_BYTES && s->turn.failed == PS_OK) {
        const struct assign_slot *slot;

        if (!save_staged_next(s, x, &ref)) {
            x->logged = true;
            return true;
        }
        slot = &s->jobs_by_id[x->job]->assigns.slot[x->slot];
        switch (turn_room(s, redo_room(s, 1, 0, block_gradient_bytes(&ref)), err)) {
        case TURN_WAIT:
            return bytes > 0;
        case TURN_REFUSED:
            return true;
        case TURN_READY:
            break;
        }
        if (staged_get(s, &ref, slot, &value) != PS_OK)
            return true;
        redo_staged(s, &ref, slot->number, value->rate, (const float *)(value + 1));
        turn_mark_job(s, s->jobs_by_id[x->job]); /* its slots are trusted */
        bytes += block_gradient_bytes(&ref);
        x->at_block++;
    }
    return true;
}
