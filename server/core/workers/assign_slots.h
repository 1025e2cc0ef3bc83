/* Assigns of a job (training/assign.h), as plain values: which numbers were given out, which are done, and the slots of
 * those whose values wait in the store.
 *
 *                BEGIN or OPEN             PREPARE                 it is known to be done
 *     ASSIGN_FREE ──────────► ASSIGN_STAGING ────► ASSIGN_PREPARED ───────► ASSIGN_COMMITTED
 *          ▲                      │    └────── shard 0: COMMIT ─────────────────▲  │
 *          │                      │ given up          │ known to be given up       │ in all of its blocks here
 *          └── all erased ── ASSIGN_OVER ◄────────────┴────────────────────────────┘
 *
 * Where shard 0 has a redo log, its COMMIT makes a slot PREPARED and deciding: nobody may learn that an assign is done
 * before that is on disk, since others act on it.
 *
 * At most one is undecided (STAGING or PREPARED): shard 0 gives the next number when the last one is decided, and every
 * other shard learns by OPEN what became of the one before. */
#ifndef SERVER_CORE_WORKERS_ASSIGN_SLOTS_H
#define SERVER_CORE_WORKERS_ASSIGN_SLOTS_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/store.pb-c.h"

#define ASSIGN_SLOTS 8 /* of a job: one that is undecided, others that wait for their clock or to be erased */

enum assign_state { ASSIGN_FREE, ASSIGN_STAGING, ASSIGN_PREPARED, ASSIGN_COMMITTED, ASSIGN_OVER, ASSIGN_STATES };

struct assign_slot {
    enum assign_state state;
    uint64_t number;
    uint32_t task; /* the worker that gives the values: */
    uint64_t incarnation, attempt;
    uint64_t clock;  /* once prepared: sync with all workers: a block takes its values at this clock, not before */
    uint64_t blocks; /* that have a value in the store; of one that was committed: when it was */
    bool reset_slots, durable, first, nonfinite;
    bool deciding; /* PREPARED, of shard 0: done as soon as that is on disk */

    /* Not in its row. */
    uint64_t until;     /* deciding: all pieces of the redo log before this one must be; 0: those of this record */
    bool in_save;       /* OVER: since before the instant of the save that runs, which needs nothing of it */
    bool done;          /* OVER: it was committed, */
    uint64_t over_turn; /* and this turn erases nothing: until it is committed, blocks are sent as they were before */
    bool all_due;       /* COMMITTED: the slowest worker has come to its clock */
    uint64_t left;      /* COMMITTED: blocks that have not taken their values */
    uint32_t *vars;     /* [vars_len] ids of variables with values in the store */
    uint32_t vars_len, vars_size;
    bool look;       /* there may be background work, from here on: */
    uint32_t at_var; /* index into vars */
    uint64_t at_block;
};

struct assigns {
    uint64_t assigned;                       /* number of the last one that is done here */
    uint64_t assigned_before, assigned_turn; /* what it was before this turn changed it */
    uint64_t begun;                          /* of shard 0: the last number that was given out; else: that is known */
    uint64_t given_up;                       /* of shard 0: the last that was given up, as far as that is on disk; */
    uint64_t giving_up, giving_up_until;     /* the same that is not, as a slot's until; 0: there is none */
    uint64_t clock;                          /* of shard 0: of the last one that was done, and whose it was: */
    uint32_t task;
    uint64_t incarnation, attempt;
    uint8_t committed; /* a bit for each slot that is COMMITTED */
    uint8_t done;      /* the same of those that are OVER and were committed */
    struct assign_slot slot[ASSIGN_SLOTS];
};

static inline uint32_t
assign_slot_index(const struct assigns *a, const struct assign_slot *slot)
{
    return (uint32_t)(slot - a->slot);
}

/* The one that is STAGING or PREPARED; NULL: there is none. */
struct assign_slot *assigns_undecided(const struct assigns *a);

/* The one of this number that is not over; NULL. */
struct assign_slot *assigns_find(struct assigns *a, uint64_t number);

/* One that is free; NULL: none is. */
struct assign_slot *assigns_free(struct assigns *a);

/* Change its state. */
void assigns_move(struct assigns *a, struct assign_slot *slot, enum assign_state state);

/* The next state of a slot that is over and erased. */
void assigns_release(struct assigns *a, struct assign_slot *slot);

/* This number is done here, as of this turn. */
void assigns_raise(struct assigns *a, uint64_t number, uint64_t turn);

/* The highest clock of those that are done: none that comes later is of an earlier one. */
uint64_t assigns_clock(const struct assigns *a);

/* The last number that was done when the turn before this one ended. */
static inline uint64_t
assigns_before(const struct assigns *a, uint64_t turn)
{
    return a->assigned_turn == turn ? a->assigned_before : a->assigned;
}

/* It has values of this variable as well, which is not in the list yet. False: out of memory. */
bool assign_slot_add_var(struct assign_slot *slot, uint32_t var) PS_MUST_USE;

/* Background work is to look at all of its blocks again. */
static inline void
assign_slot_look(struct assign_slot *slot)
{
    slot->look = true;
    slot->at_var = 0;
    slot->at_block = 0;
}

void assigns_finish(struct assigns *a);

/* ---- Rows ---- */

/* What the message points to. */
struct assigns_parts {
    Psd__AssignsRow row;
    Psd__AssignRow slot[ASSIGN_SLOTS], *list[ASSIGN_SLOTS];
};

/* NULL: there was no assign. */
Psd__AssignsRow *assigns_message(const struct assigns *a, struct assigns_parts *parts);

/* row may be NULL. False: its contents are impossible. */
bool assigns_take(struct assigns *a, const Psd__AssignsRow *row) PS_MUST_USE;

#endif
