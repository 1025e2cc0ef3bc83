/* ps_group_admit(): the ranks meet while their group stays formed, exchange the outcome through it, and give it up only
 * for a table that all of them have. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/group/group_state.h"
#include "client/group/rendezvous/rendezvous.h"
#include "client/group/tagged.h"

#define SETTLE_PART 4 /* of the time for meeting: no more is spent on waiting for others to come along */

/* The outcome of each rank's meeting. */
struct admit_outcome {
    int64_t code;      /* PS_OK: it has a table; these are known: */
    int64_t id, epoch; /* else 0 */
};
#define OUTCOME_WORDS (sizeof(struct admit_outcome) / sizeof(int64_t))

static enum ps_err
admit_meet(ps_group *g, uint64_t timeout_ms, struct group_membership *t, struct ps_error *e)
{
    struct rendezvous_ask ask = {.ranks_min = g->table.ranks,
                                 .settle_ms = (uint32_t)MIN(g->options.settle_ms, timeout_ms / SETTLE_PART),
                                 .epoch = MAX(g->epoch, g->passed),
                                 .once = true};

    uv_update_time(&g->loop);
    ask.deadline_ms = uv_now(&g->loop) + timeout_ms;
    return form_meet(g, &ask, t, e);
}

/* Whether all have the table that rank 0 has. */
static bool
all_have_one(const struct admit_outcome *all, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++)
        if (all[r].code != PS_OK || all[r].id != all[0].id || all[r].epoch != all[0].epoch)
            return false;
    return true;
}

/* Why the ranks do not have one table; this rank has one. */
static enum ps_err
admit_explain(const ps_group *g, const struct admit_outcome *all, struct ps_error *e)
{
    struct ps_error why = {0};
    uint32_t r = 0;

    while (r < g->table.ranks && all[r].code == PS_OK)
        r++;
    if (r == g->table.ranks) {
        ps_error_set(&why, PS_ERR_CANCELLED, "the ranks come from different rendezvous");
    } else {
        ps_error_set(&why, all[r].code > 0 && all[r].code < PS_ERR_COUNT ? (enum ps_err)all[r].code : PS_ERR_PROTOCOL,
                     "rank %" PRIu32 " did not get to meet the others", r);
        group_membership_name(&g->table, r, why.peer, sizeof why.peer);
    }
    if (e != NULL)
        *e = why;
    return why.code;
}

/* No table up to the newest of these will form anything. */
static void
admit_pass_epochs(ps_group *g, const struct admit_outcome *all)
{
    for (uint32_t r = 0; r < g->table.ranks; r++)
        if (all[r].code == PS_OK && all[r].epoch > 0)
            g->passed = MAX(g->passed, (uint64_t)all[r].epoch);
    mesh_pass(g);
}

static bool
same_members(const struct group_membership *a, const struct group_membership *b)
{
    if (a->ranks != b->ranks)
        return false;
    for (uint32_t r = 0; r < a->ranks; r++)
        if (a->members[r].task != b->members[r].task || a->members[r].incarnation != b->members[r].incarnation)
            return false;
    return true;
}

/* *agreed: all ranks have this table, and it has a new member. */
static enum ps_err
admit_compare(ps_group *g, enum ps_err met, const struct group_membership *t, bool *agreed, struct ps_error *e)
{
    struct admit_outcome mine = {.code = met}, *all = calloc(g->table.ranks, sizeof *all);
    struct ps_error why = {0};
    enum ps_err err;

    if (all == NULL) { /* the others wait for this rank's outcome */
        ps_error_set(&why, PS_ERR_NOMEM, "no memory for %" PRIu32 " ranks", g->table.ranks);
        group_core_blame(g->core, g->table.rank, &why);
        group_perform(g);
        return group_core_state(g->core, e);
    }
    if (met == PS_OK) {
        mine.id = (int64_t)t->id;
        mine.epoch = (int64_t)t->epoch;
    }
    err = group_tagged_all_gather(g, GROUP_TAG_ADMIT, &mine, all, g->table.ranks * OUTCOME_WORDS, PS_I64, NULL, &why);
    if (err != PS_OK) {
        if (e != NULL)
            *e = why;
    } else if (!all_have_one(all, g->table.ranks)) {
        admit_pass_epochs(g, all);
        err = met == PS_OK ? admit_explain(g, all, e) : met;
    } else if (same_members(t, &g->table)) {
        admit_pass_epochs(g, all);
    } else {
        *agreed = true;
    }
    free(all);
    return err;
}

/* The group stays as it is. */
static enum ps_err
go_on(ps_group *g, bool threaded, enum ps_err err, struct ps_error *e)
{
    struct ps_error why = {0};

    if (!threaded || group_core_state(g->core, NULL) != PS_OK || group_progress(g, &why) == PS_OK)
        return err;
    group_core_blame(g->core, g->table.rank, &why);
    group_perform(g);
    return group_core_state(g->core, e);
}

enum ps_err
ps_group_admit(ps_group *g, int timeout_ms, int *formed, struct ps_error *error)
{
    uint64_t patience_ms;
    struct group_membership table = {0};
    bool threaded, agreed = false;
    enum ps_err err;

    if (g == NULL || formed == NULL)
        return ps_fail(error, PS_ERR_INVALID, "admitting workers needs a group and a pointer for the answer");
    *formed = 0;
    if ((err = ps_group_state(g, error)) != PS_OK)
        return err;
    patience_ms = timeout_ms < 0 ? (uint64_t)g->options.timeout_ms : (uint64_t)timeout_ms;
    threaded = g->progress.runs;
    progress_stop(&g->progress);
    group_turn(g); /* the thread's handle is closed, and may be opened again */
    err = admit_meet(g, patience_ms, &table, error);
    if (group_core_state(g->core, NULL) == PS_OK)
        err = admit_compare(g, err, &table, &agreed, error);
    if (!agreed) {
        group_membership_finish(&table);
        return go_on(g, threaded, err, error);
    }
    *formed = 1;
    group_unform(g);
    uv_update_time(&g->loop);
    return group_form(g, &table, uv_now(&g->loop) + patience_ms, error);
}
