/* Where this worker's data goes on: the cursors of its steps. Pure.
 *
 *     joined: the smallest cursor among the shards' welcomes        tick
 *          begins ─────────── a step's pushes give: ends ───────────► begins
 *
 * A worker that begins elsewhere than at the beginning of its data says so first (core_start_cursor()): it joins
 * others, or its clock says how far the job was.
 *
 * Each push of a step carries both ends of the step's data, so that a block that has counted it in an earlier life of
 * the worker can tell. */
#ifndef CLIENT_CORE_SHARDS_STEP_CURSOR_H
#define CLIENT_CORE_SHARDS_STEP_CURSOR_H

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "proto/psd.pb-c.h"

struct core;
struct core_op;

/* What a shard's welcome says of where this worker index began in the round. */
struct step_begins {
    uint64_t clock;
    struct ps_cursor others; /* {0, 0}: not known */
};

struct step_cursor {
    struct ps_cursor begins; /* of this step's data: where the step before ended */
    struct ps_cursor ends;   /* when a push of this step gave it */
    bool given;
    bool moved; /* a push or tick of this incarnation has had a cursor */
};

/* Negative: a is before b; positive: behind it. */
int step_cursor_compare(const struct ps_cursor *a, const struct ps_cursor *b);

/* As a shard has it; NULL: {0, 0}. */
struct ps_cursor step_cursor_welcomed(const Psd__Cursor *m);

struct step_begins step_begins_of(const Psd__Begins *m, uint64_t clock); /* m: NULL: the worker's clock there */

/* Every shard has welcomed this incarnation, c->round is known. */
void step_cursor_join(struct core *c);

/* Whether a push of this step may give it; NULL: gives none. */
enum ps_err step_cursor_check(const struct core *c, const struct ps_cursor *cursor, struct ps_error *e) PS_MUST_USE;

/* A push of this step gives it. NULL: gives none. */
void step_cursor_give(struct core *c, const struct ps_cursor *cursor);

/* A push that gave it starts. */
void step_cursor_push(const struct core *c, struct core_op *op);

/* The step is over with this tick. */
void step_cursor_tick(struct core *c, struct core_op *op);

#endif
