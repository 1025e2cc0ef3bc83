/* How a plan is put together: an algorithm says in order what this rank sends, receives and adds, as if each step ended
 * before the next began, and the builder finds out which steps need which. Internal to plan*.c.
 *
 * Algorithms name cells of a grid (plan_grid.h). For each cell the builder knows where this rank's latest value of it
 * lies, and for each place which step wrote it last and which read it since; a step needs the writer of what it reads,
 * and all that touched what it writes.
 *
 * Running out of memory or steps is remembered and makes all that follows do nothing. */
#ifndef CLIENT_CORE_PLAN_PLAN_BUILD_H
#define CLIENT_CORE_PLAN_PLAN_BUILD_H

#include "client/core/plan/plan_grid.h"
#include "client/core/plan/plan_team.h"

struct plan_build {
    const struct plan_request *ask;
    struct plan_plan *plan;
    enum ps_err err;
    struct plan_grid grid;

    struct build_place *at;       /* [cells] */
    struct build_touch *touch[3]; /* by buffer: [cells], and [slots] of scratch */
    struct build_reader *reader;  /* lists in one array */
    uint32_t readers, readers_max, steps_max;
    uint32_t slots, slot_next; /* of scratch; 0 slots: scratch is laid out as the whole is */
    size_t slot_len;
};

/* A grid of `pieces` equal parts (ps_group_part()). b is zeroed but for ask and plan, whose segment is known. */
void build_grid(struct plan_build *b, uint32_t pieces);
void build_finish(struct plan_build *b);

/* Scratch holds `slots` cells that are used in turn, not as many as there are. */
void build_window(struct plan_build *b, uint32_t slots);

/* Cells of the pieces [from, to). */
struct grid_run build_pieces(const struct plan_build *b, uint32_t from, uint32_t to);

/* The first message of a run: what is left of it stays in *rest. False when nothing is left. */
bool build_next(const struct plan_build *b, struct grid_run *rest, struct grid_run *message);

/* Messages of a run, sent from where its cells are; received, they are in `to` afterwards. RECEIVE_REDUCE adds them to
 * where they are. sum: how many ranks' elements the peer has added up in what comes; the builder knows it of this
 * rank's own. Not that of all, where build_receive() is not the last word on a cell. */
void build_send(struct plan_build *b, uint32_t peer, struct grid_run r);
void build_receive(struct plan_build *b, uint32_t peer, struct grid_run r, enum plan_buffer to);
void build_receive_sum(struct plan_build *b, uint32_t peer, struct grid_run r, enum plan_buffer to, uint32_t sum);
void build_receive_reduce(struct plan_build *b, uint32_t peer, struct grid_run r, enum plan_buffer to, uint32_t sum);

/* They are in `to` afterwards; nothing happens where that is the same memory. */
void build_copy(struct plan_build *b, struct grid_run r, enum plan_buffer to);

/* Where they are is that memory; in place, PLAN_IN and PLAN_OUT are one. */
bool build_lies_in(const struct plan_build *b, struct grid_run r, enum plan_buffer where);

/* What `source` holds of them, this rank's own, is added to where they are. */
void build_reduce_local(struct plan_build *b, struct grid_run r, enum plan_buffer source);

/* What is kept of all becomes the mean where it is, if one is asked for. */
void build_scale(struct plan_build *b, struct grid_run r);

/* An empty message, SEND or RECEIVE, after the step `need` (PLAN_NONE: at once). Returns its step. */
uint32_t build_signal(struct plan_build *b, enum plan_kind kind, uint32_t peer, uint32_t need);

/* ---- Algorithms: plan_direct.c, plan_ring.c, plan_halving.c, plan_tree.c, plan_hierarchical.c ---- */

/* Where sums of others' parts are kept on the way: nowhere that the caller sees. */
enum plan_buffer build_aside(const struct plan_build *b);

void plan_direct(struct plan_build *b);
void plan_ring(struct plan_build *b);
void plan_halving(struct plan_build *b);
void plan_hierarchical(struct plan_build *b);

/* Over a grid of team->n pieces: piece i whole at member i, in `final`, by way of `partial`; and every piece to all. */
void ring_reduce_scatter(struct plan_build *b, const struct plan_team *t, enum plan_buffer partial,
                         enum plan_buffer final);
void ring_all_gather(struct plan_build *b, const struct plan_team *t);

/* Over a grid of halving_pieces(team->n) pieces: all of them reduced and divided, in PLAN_OUT of all members. */
#define HALVING_EXCHANGE_BYTES (16 * KIB) /* up to here a round costs more than bytes, if they fit a message */
uint32_t halving_pieces(uint32_t n);
void halving_all_reduce(struct plan_build *b, const struct plan_team *t);

/* A run from member 0 to all, or reduced from all to member 0: along a chain, or a binomial tree. Other members keep
 * sums in `partial`. */
#define TREE_WINDOW 8 /* slots of scratch for such sums */
enum tree_shape { TREE_BINOMIAL, TREE_CHAIN };
void tree_broadcast(struct plan_build *b, const struct plan_team *t, enum tree_shape shape, struct grid_run r);
void tree_reduce(struct plan_build *b, const struct plan_team *t, enum tree_shape shape, struct grid_run r,
                 enum plan_buffer partial, enum plan_buffer final);

/* A broadcast or reduce among all ranks that way. */
void tree_rooted(struct plan_build *b, enum tree_shape shape);

/* Log2 n rounds of empty messages (Hensgen, Finkel and Manber, 1988) after `need`; the last step, or PLAN_NONE. */
uint32_t dissemination(struct plan_build *b, const struct plan_team *t, uint32_t need);

#endif
