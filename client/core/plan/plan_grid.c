#include "client/core/plan/plan_grid.h"

#include <stdlib.h>

/* Pieces without elements have no cells. */
static uint32_t
cells_of(size_t count, uint32_t pieces, size_t segment)
{
    uint32_t cells = 0;

    for (uint32_t p = 0; p < pieces; p++)
        cells += (uint32_t)((ps_group_part(count, pieces, p) + segment - 1) / segment);
    return cells;
}

static void
grid_fill(struct plan_grid *g, size_t count)
{
    uint32_t cell = 0;

    for (uint32_t p = 0; p < g->pieces; p++) {
        size_t end = ps_group_part_offset(count, g->pieces, p + 1);

        g->first[p] = cell;
        for (size_t at = ps_group_part_offset(count, g->pieces, p); at < end; at += g->segment)
            g->edge[cell++] = at;
    }
    g->first[g->pieces] = cell;
    g->edge[cell] = count;
}

enum ps_err
plan_grid_make(struct plan_grid *g, size_t count, uint32_t pieces, size_t segment)
{
    g->segment = segment;
    g->pieces = pieces; /* whatever comes of it: algorithms count modulo the pieces before they look for an error */
    /* A send and a receive of each cell are the least that there is. */
    if (count / segment > PLAN_STEPS_MAX)
        return PS_ERR_LIMIT;
    g->cells = cells_of(count, pieces, segment);
    g->first = malloc((pieces + 1) * sizeof *g->first);
    g->edge = malloc((g->cells + 1) * sizeof *g->edge);
    if (g->first == NULL || g->edge == NULL)
        return PS_ERR_NOMEM;
    grid_fill(g, count);
    return PS_OK;
}

void
plan_grid_finish(struct plan_grid *g)
{
    free(g->first);
    free(g->edge);
    *g = (struct plan_grid){0};
}

struct grid_run
plan_grid_run(const struct plan_grid *g, uint32_t from, uint32_t to)
{
    return (struct grid_run){g->first[from], g->first[to]};
}

bool
plan_grid_next(const struct plan_grid *g, struct grid_run *rest, struct grid_run *message)
{
    *message = (struct grid_run){rest->from, rest->from};
    if (rest->from >= rest->to)
        return false;
    do
        message->to++;
    while (message->to < rest->to && g->edge[message->to + 1] - g->edge[message->from] <= g->segment);
    rest->from = message->to;
    return true;
}

size_t
plan_grid_len(const struct plan_grid *g, struct grid_run r)
{
    return g->edge[r.to] - g->edge[r.from];
}

size_t
plan_grid_widest(const struct plan_grid *g)
{
    size_t widest = 0;

    for (uint32_t c = 0; c < g->cells; c++)
        widest = MAX(widest, plan_grid_len(g, (struct grid_run){c, c + 1}));
    return widest;
}
