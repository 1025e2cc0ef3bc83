/* Slots are few: they are searched one after the other. */
#include "server/core/workers/assign_slots.h"

#include <stdlib.h>

#include "common/core/wire/wire.h"

static bool
assign_slot_undecided(const struct assign_slot *slot)
{
    return slot->state == ASSIGN_STAGING || slot->state == ASSIGN_PREPARED;
}

struct assign_slot *
assigns_undecided(const struct assigns *a)
{
    for (uint32_t i = 0; i < ASSIGN_SLOTS; i++)
        if (assign_slot_undecided(&a->slot[i]))
            return (struct assign_slot *)&a->slot[i];
    return NULL;
}

struct assign_slot *
assigns_find(struct assigns *a, uint64_t number)
{
    for (uint32_t i = 0; i < ASSIGN_SLOTS; i++)
        if (a->slot[i].number == number && a->slot[i].state != ASSIGN_FREE && a->slot[i].state != ASSIGN_OVER)
            return &a->slot[i];
    return NULL;
}

struct assign_slot *
assigns_free(struct assigns *a)
{
    for (uint32_t i = 0; i < ASSIGN_SLOTS; i++)
        if (a->slot[i].state == ASSIGN_FREE)
            return &a->slot[i];
    return NULL;
}

void
assigns_move(struct assigns *a, struct assign_slot *slot, enum assign_state state)
{
    uint8_t bit = (uint8_t)(1u << assign_slot_index(a, slot));
    bool was_committed = slot->state == ASSIGN_COMMITTED;

    slot->state = state;
    slot->deciding = false;
    slot->done = state == ASSIGN_OVER && was_committed;
    slot->all_due = slot->in_save = false;
    a->committed = (uint8_t)(state == ASSIGN_COMMITTED ? a->committed | bit : a->committed & ~bit);
    a->done = (uint8_t)(slot->done ? a->done | bit : a->done & ~bit);
    assign_slot_look(slot);
}

void
assigns_release(struct assigns *a, struct assign_slot *slot)
{
    ps_assert(slot->state == ASSIGN_OVER);
    assigns_move(a, slot, ASSIGN_FREE);
    free(slot->vars);
    *slot = (struct assign_slot){.state = ASSIGN_FREE};
}

void
assigns_raise(struct assigns *a, uint64_t number, uint64_t turn)
{
    if (number <= a->assigned)
        return;
    if (a->assigned_turn != turn)
        a->assigned_before = a->assigned;
    a->assigned_turn = turn;
    a->assigned = number;
    a->begun = MAX(a->begun, number);
}

uint64_t
assigns_clock(const struct assigns *a)
{
    uint64_t clock = a->clock;

    for (uint32_t i = 0; i < ASSIGN_SLOTS; i++)
        if (a->slot[i].state == ASSIGN_COMMITTED)
            clock = MAX(clock, a->slot[i].clock);
    return clock;
}

bool
assign_slot_add_var(struct assign_slot *slot, uint32_t var)
{
    uint32_t size = MAX(slot->vars_size * 2, 8u);
    uint32_t *bigger;

    if (slot->vars_len < slot->vars_size) {
        slot->vars[slot->vars_len++] = var;
        return true;
    }
    if ((bigger = realloc(slot->vars, size * sizeof *bigger)) == NULL)
        return false;
    slot->vars = bigger;
    slot->vars_size = size;
    slot->vars[slot->vars_len++] = var;
    return true;
}

void
assigns_finish(struct assigns *a)
{
    for (uint32_t i = 0; i < ASSIGN_SLOTS; i++)
        free(a->slot[i].vars);
    *a = (struct assigns){0};
}

/* ---- Rows ---- */

static void
assign_slot_message(const struct assigns *a, const struct assign_slot *slot, Psd__AssignRow *m)
{
    psd__assign_row__init(m);
    m->slot = assign_slot_index(a, slot);
    m->number = slot->number;
    m->state = slot->state;
    m->task = slot->task;
    m->incarnation = slot->incarnation;
    m->attempt = slot->attempt;
    m->clock = slot->clock;
    m->blocks = slot->blocks;
    m->reset_slots = slot->reset_slots;
    m->durable = slot->durable;
    m->first = slot->first;
    m->nonfinite = slot->nonfinite;
    m->deciding = slot->deciding;
}

Psd__AssignsRow *
assigns_message(const struct assigns *a, struct assigns_parts *parts)
{
    Psd__AssignsRow *row = &parts->row;

    psd__assigns_row__init(row);
    row->assigned = a->assigned;
    row->begun = a->begun;
    row->given_up = MAX(a->given_up, a->giving_up);
    row->clock = a->clock;
    row->task = a->task;
    row->incarnation = a->incarnation;
    row->attempt = a->attempt;
    row->slot = parts->list;
    for (uint32_t i = 0; i < ASSIGN_SLOTS; i++) {
        if (a->slot[i].state == ASSIGN_FREE || a->slot[i].state == ASSIGN_OVER)
            continue;
        parts->list[row->n_slot] = &parts->slot[row->n_slot];
        assign_slot_message(a, &a->slot[i], &parts->slot[row->n_slot++]);
    }
    return a->begun > 0 || row->n_slot > 0 ? row : NULL;
}

static bool
assign_slot_take(struct assigns *a, const Psd__AssignRow *m)
{
    struct assign_slot *slot = m->slot < ASSIGN_SLOTS ? &a->slot[m->slot] : NULL;

    if (slot == NULL || slot->state != ASSIGN_FREE || m->number == 0 || m->number > WIRE_ASSIGN_MAX ||
        m->state <= ASSIGN_FREE || m->state >= ASSIGN_OVER)
        return false;
    *slot = (struct assign_slot){.number = m->number,
                                 .task = m->task,
                                 .incarnation = m->incarnation,
                                 .attempt = m->attempt,
                                 .clock = m->clock,
                                 .blocks = m->blocks,
                                 .reset_slots = m->reset_slots,
                                 .durable = m->durable,
                                 .first = m->first,
                                 .nonfinite = m->nonfinite};
    if (m->state != ASSIGN_COMMITTED && assigns_undecided(a) != NULL)
        return false;
    assigns_move(a, slot, (enum assign_state)m->state);
    slot->deciding = m->deciding && slot->state == ASSIGN_PREPARED;
    return true;
}

bool
assigns_take(struct assigns *a, const Psd__AssignsRow *row)
{
    if (row == NULL)
        return true;
    if (row->assigned > WIRE_ASSIGN_MAX || row->begun > WIRE_ASSIGN_MAX || row->given_up > WIRE_ASSIGN_MAX)
        return false;
    a->assigned = row->assigned;
    a->begun = MAX(row->begun, row->assigned);
    a->giving_up = row->given_up; /* perhaps not on disk */
    a->clock = row->clock;
    a->task = row->task;
    a->incarnation = row->incarnation;
    a->attempt = row->attempt;
    for (size_t i = 0; i < row->n_slot; i++)
        if (!assign_slot_take(a, row->slot[i]))
            return false;
    return true;
}
