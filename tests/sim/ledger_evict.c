/* Evictions. From the moment a shard answers EVICTED for an incarnation that was live:
 *
 *   - that incarnation's session is over there, and no later commit shows it live again;
 *   - none of its later pushes is counted; earlier ones are, where a step still waits for others in sync;
 *   - its hellos are answered with FENCED, never a welcome, nor LEASE_LAPSED, which would let it join again by itself.
 *
 * A killed process keeps all of that. A shard that comes back older knows the evictions of its last save, and may know
 * more from its log; after a restore, or without its disk, it knows none. Which incarnation was evicted follows from
 * the rows that were committed before the EVICT came: another process that took the index between then and the answer
 * has ended that incarnation, too. */
#include <string.h>

#include "server/core/sessions/session.h"
#include "tests/sim/ledger_state.h"

static bool
is_over(const struct ledger *l, uint32_t shard, uint64_t incarnation)
{
    for (size_t i = 0; i < l->over_len[shard]; i++)
        if (l->over[shard][i].incarnation == incarnation)
            return true;
    return false;
}

/* ---- Rows ---- */

struct seats_visit {
    struct ledger *l;
    uint32_t shard;
};

static bool
visit_seat(void *arg, struct span key, struct span value)
{
    const struct seats_visit *v = arg;
    struct ledger *l = v->l;
    uint32_t task;
    Psd__SessionRow *row;

    if (!ledger_of_job(l, v->shard, key))
        return true;
    row = ledger_session_row(key, value, &task);
    l->live[v->shard][task] = row->state == SESSION_LIVE ? row->incarnation : 0;
    if (row->state != SESSION_LAPSED && is_over(l, v->shard, row->incarnation))
        sim_fail(l->sim, "s%u has w%u's session, which was evicted, as if it were not", v->shard, task);
    psd__session_row__free_unpacked(row, NULL);
    return !l->sim->failed;
}

void
ledger_evict_look(struct ledger *l, uint32_t shard, struct store *store)
{
    struct seats_visit v = {l, shard};
    enum ps_err err;

    memset(l->live[shard], 0, sizeof l->live[shard]);
    err = store->ops->each_row(store, STORE_SESSIONS, visit_seat, &v);
    ps_assert(err == PS_OK);
}

uint64_t
ledger_live(const struct ledger *l, uint32_t shard, uint32_t task)
{
    return l->live[shard][task];
}

/* ---- The answer ---- */

void
ledger_evicted(struct ledger *l, uint32_t shard, uint32_t task, uint64_t incarnation)
{
    struct over *over;

    if (incarnation == 0)
        return; /* it came and went between two commits */
    if (l->live[shard][task] == incarnation) {
        sim_fail(l->sim, "s%u answered that w%u is evicted, and its session is live", shard, task);
        return;
    }
    l->counts.evictions++;
    if (is_over(l, shard, incarnation))
        return;
    l->over[shard] = sim_grow(l->over[shard], &l->over_room[shard], l->over_len[shard], sizeof *over);
    over = &l->over[shard][l->over_len[shard]++];
    *over = (struct over){.incarnation = incarnation};
}

/* ---- What follows from it ---- */

/* TASK_TAKEN is no answer to the incarnation that has the session: its process may have joined anew before a hello that
 * the evicted one had sent comes. */
void
ledger_greeted(struct ledger *l, uint32_t shard, uint32_t task, uint64_t incarnation, enum ps_err code)
{
    if (!is_over(l, shard, incarnation))
        return;
    if (code == PS_OK || code == PS_ERR_LEASE_LAPSED || code == PS_ERR_NOT_FOUND)
        sim_fail(l->sim, "s%u has evicted w%u, and answers its hello with %s", shard, task, ps_err_name(code));
    l->counts.fenced += code == PS_ERR_FENCED;
}

static const struct ledger_life *
life_of(const struct ledger *l, const struct ledger_push *p)
{
    return &l->lives[p->life];
}

void
ledger_check_evicted(struct ledger *l, const struct block_state *b, uint64_t number)
{
    uint32_t id = l->vars[b->var].pushes[number];
    char name[128];

    if (l->over_len[b->shard] == 0 || !is_over(l, b->shard, life_of(l, &l->pushes[id])->incarnation))
        return;
    if (l->model->mode == PS_SYNC && ledger_block_came(b, number))
        return;
    sim_fail(l->sim, "%s counts %s, whose worker had been evicted", ledger_block_name(l, b),
             ledger_push_name(l, id, name, sizeof name));
}

/* In sync a push's clock is its worker's. */
void
ledger_push_came(struct ledger *l, uint32_t shard, uint64_t incarnation, uint32_t id, uint32_t block, uint64_t clock)
{
    struct ledger_place at;

    if (l->model->mode != PS_SYNC || is_over(l, shard, incarnation) || !ledger_place(l, shard, id, block, &at))
        return;
    for (size_t i = l->vars[at.var].pushes_len; i > 0; i--) {
        const struct ledger_push *p = &l->pushes[l->vars[at.var].pushes[i - 1]];

        if (p->clock != clock || life_of(l, p)->incarnation != incarnation)
            continue;
        ledger_block_note_came(&l->vars[at.var].blocks[at.block], p->number);
        return;
    }
}

/* ---- What survives ---- */

void
ledger_evict_instant(struct ledger *l, uint32_t shard)
{
    for (size_t i = 0; i < l->over_len[shard]; i++)
        l->over[shard][i].pending = true;
}

void
ledger_evict_saved(struct ledger *l, uint32_t shard)
{
    for (size_t i = 0; i < l->over_len[shard]; i++)
        l->over[shard][i].saved = l->over[shard][i].pending;
}

void
ledger_evict_lost(struct ledger *l, uint32_t shard)
{
    size_t kept = 0;

    for (size_t i = 0; i < l->over_len[shard]; i++)
        if (l->over[shard][i].saved)
            l->over[shard][kept++] = l->over[shard][i];
    l->over_len[shard] = kept;
}

void
ledger_evict_forgotten(struct ledger *l, uint32_t shard)
{
    l->over_len[shard] = 0;
    memset(l->live[shard], 0, sizeof l->live[shard]);
}
