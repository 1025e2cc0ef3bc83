/* The whole of a collective, cut: into pieces (one for each rank, say), and those into cells of at most a segment. A
 * run of cells goes as messages of whole cells that are at most a segment long, the same for all ranks with the same
 * grid.
 *
 *     plan_grid_make(&g, count, pieces, segment)
 *     rest = plan_grid_run(&g, 0, g.pieces);
 *     while (plan_grid_next(&g, &rest, &message)) ...
 *     plan_grid_finish(&g) */
#ifndef CLIENT_CORE_PLAN_PLAN_GRID_H
#define CLIENT_CORE_PLAN_PLAN_GRID_H

#include "client/core/plan/plan.h"

/* A run of cells: [from, to). */
struct grid_run {
    uint32_t from, to;
};

/* Zeroed: there is none. */
struct plan_grid {
    size_t segment; /* elements */
    uint32_t pieces, cells;
    uint32_t *first; /* [pieces + 1] cell at which a piece begins */
    size_t *edge;    /* [cells + 1] element at which a cell begins */
};

/* `pieces` equal parts (ps_group_part()) of count elements. Errors: PS_ERR_LIMIT (a plan of it would have too many
 * steps), PS_ERR_NOMEM. What there is after an error is for plan_grid_finish(). */
enum ps_err plan_grid_make(struct plan_grid *g, size_t count, uint32_t pieces, size_t segment) PS_MUST_USE;
void plan_grid_finish(struct plan_grid *g);

/* Cells of the pieces [from, to). */
struct grid_run plan_grid_run(const struct plan_grid *g, uint32_t from, uint32_t to);

/* The first message of a run: what is left of it stays in *rest. False when nothing is left. */
bool plan_grid_next(const struct plan_grid *g, struct grid_run *rest, struct grid_run *message);

size_t plan_grid_len(const struct plan_grid *g, struct grid_run r); /* elements */
size_t plan_grid_widest(const struct plan_grid *g);                 /* of the longest cell */

#endif
