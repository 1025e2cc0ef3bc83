/* A simulated psd's lives: starts over the state that the last one left, and ends.
 *
 *     kill -9, drain           the live store stays: the next core loads it
 *     power loss               it is gone: durable_rebuild() and a replay of the redo log rebuild it, under a
 *                              new boot
 *     power loss, disk gone    both are: an empty shard
 *
 * A rebuild may be killed on the way, too; then the next one begins with nothing again. */
#include <inttypes.h>
#include <stdio.h>

#include "server/core/turn/limit.h"
#include "server/core/turn/quota.h"
#include "tests/sim/node_shard.h"

#define REBUILD_STEPS_MAX 40 /* a rebuild that is killed gets so far at most */

/* ---- Ends ---- */

static void
new_live_store(struct node_shard *n)
{
    n->store->ops->close(n->store);
    n->store = store_mem_new(n->profile.store_bytes_max);
    ps_assert(n->store != NULL);
}

void
node_shard_die(struct node_shard *n)
{
    node_shard_hang_up(n);
    sim_cancel(n->sim, &n->turn);
    sim_cancel(n->sim, &n->time);
    sim_cancel(n->sim, &n->work);
    if (n->profile.durable)
        node_saver_die(&n->saver);
    shard_free(n->core);
    n->core = NULL;
    n->share = (struct shard_share){0};
    n->turn_open = n->kill_planned = false;
    n->state = SHARD_DOWN;
    store_mem_crash(n->store);
    for (int what = 0; what < STORE_MEM_FAILS; what++)
        store_mem_fail_at(n->store, (enum store_mem_fail)what, 0);
    if (n->loss != LOSS_NONE)
        new_live_store(n);
    if (n->loss == LOSS_ALL) {
        node_saver_wipe(&n->saver);
        ledger_disk_lost(n->ledger, n->index);
    }
    if (!n->stays_down)
        sim_in(n->sim, &n->restart, n->down_us);
}

/* Not at the end, when no worker comes to check the result; and a kill that was planned before a worker began to leave,
 * or before the failure of the disk that knew which had left, would make the shard forget it, and the others wait. */
static bool
may_lose(const struct node_shard *n)
{
    bool forgets = n->saver.remaking || ledger_anybody_leaves(n->ledger);

    return !n->stays_down && !n->restoring && (n->kill_when == KILL_NOW || !forgets);
}

void
node_shard_killed(struct node_shard *n, const char *when)
{
    static const char *const losses[] = {"", ", with its machine", ", with its machine and its disk"};

    n->loss = may_lose(n) ? n->kill_loss : LOSS_NONE;
    sim_trace(n->sim, "s%u killed %s%s", n->index, when, losses[n->loss]);
    n->kills++;
    n->power_losses += n->loss != LOSS_NONE;
    ledger_crashed(n->ledger, n->index);
    node_shard_die(n);
}

bool
node_shard_strikes(const struct node_shard *n, enum node_shard_kill when)
{
    return n->kill_planned && n->kill_when == when;
}

bool
node_shard_kill(struct node_shard *n, enum node_shard_kill when, enum node_shard_loss loss, uint64_t down_us)
{
    if (n->core == NULL || n->kill_planned)
        return false;
    n->down_us = down_us;
    n->kill_loss = n->profile.durable ? loss : LOSS_NONE;
    n->rebuild_deaths = n->kill_loss != LOSS_NONE && sim_chance(n->sim, 300) ? (uint32_t)sim_between(n->sim, 1, 2) : 0;
    n->kill_planned = true;
    n->kill_when = when;
    if (when == KILL_NOW)
        node_shard_killed(n, "now");
    return true;
}

void
node_shard_kill_anyway(struct node_shard *n, enum node_shard_kill when)
{
    if (!node_shard_strikes(n, KILL_WHEN_LOGGED))
        return;
    n->kill_when = when;
    sim_trace(n->sim, "s%u logs nothing, and is killed all the same", n->index);
    if (when == KILL_NOW)
        node_shard_killed(n, "now");
}

void
node_shard_follow(struct node_shard *n, struct sim_timer *t, uint64_t in_us)
{
    n->follow = t;
    n->follow_us = in_us;
}

void
node_shard_drain(struct node_shard *n, uint64_t down_us)
{
    struct shard_event event = {.kind = SHARD_DRAIN};

    if (n->core == NULL || n->state == SHARD_DRAINING)
        return;
    sim_trace(n->sim, "s%u drains", n->index);
    n->state = SHARD_DRAINING;
    n->down_us = down_us;
    node_shard_event(n, &event);
}

void
node_shard_fail_store(struct node_shard *n, enum store_mem_fail what, uint64_t nth)
{
    static const char *const names[] = {"begin", "reserve", "commit"};

    if (n->core == NULL)
        return;
    sim_trace(n->sim, "s%u: %s %" PRIu64 " from now fails", n->index, names[what], nth);
    store_mem_fail_at(n->store, what, nth);
}

void
node_shard_stop(struct node_shard *n)
{
    n->stays_down = true;
    n->loss = LOSS_NONE;
    if (n->core != NULL)
        node_shard_die(n);
    sim_cancel(n->sim, &n->restart);
}

/* ---- Rebuilding ---- */

/* How far a rebuild gets. */
struct node_replay_limit {
    uint64_t left; /* steps; UINT64_MAX: all the way */
};

static bool
node_life_step(struct node_replay_limit *w)
{
    return w->left == UINT64_MAX || w->left-- > 0;
}

static bool
node_life_progress(void *arg, uint64_t blocks, uint64_t of)
{
    (void)blocks;
    (void)of;
    return node_life_step(arg);
}

struct replaying {
    struct node_shard *n;
    struct node_replay_limit *way;
    uint64_t next;
    bool stopped;
};

static bool
replay_piece(void *arg, const struct store_key *key, struct span piece)
{
    struct replaying *r = arg;
    struct ps_error e;

    if (key->generation != STORE_GENERATION_REDO || store_redo_number(key) < r->n->saver.durable.redo_first)
        return true;
    if (!node_life_step(r->way)) {
        r->stopped = true;
        return false;
    }
    if (store_redo_number(key) != r->next)
        sim_fail(r->n->sim, "s%u: the redo log goes from piece %" PRIu64 " to %" PRIu64, r->n->index, r->next,
                 store_redo_number(key));
    r->next++;
    if (shard_replay_piece(r->n->core, piece, &e) != PS_OK)
        sim_fail(r->n->sim, "s%u cannot replay: %s", r->n->index, e.text);
    return !r->n->sim->failed;
}

/* False: stopped on the way. */
static bool
node_life_replay(struct node_shard *n, struct node_replay_limit *way)
{
    const struct durable *d = &n->saver.durable;
    struct replaying r = {.n = n, .way = way, .next = d->redo_first};
    struct store_key first = store_redo_key(d->redo_first);
    uint64_t records = 0;
    struct ps_error e;

    if (d->redo_first >= d->redo_next)
        return true;
    (void)n->saver.store->ops->each_block_from(n->saver.store, &first, replay_piece, &r);
    if (r.stopped || n->sim->failed)
        return false;
    if (shard_replay_end(n->core, &records, &e) != PS_OK)
        sim_fail(n->sim, "s%u cannot end its replay: %s", n->index, e.text);
    sim_trace(n->sim, "s%u replayed %" PRIu64 " records", n->index, records);
    return !n->sim->failed;
}

/* ---- Starts ---- */

/* All workers have one token, which their sessions are of. */
static bool
node_life_holders_fit(struct node_shard *n)
{
    uint64_t held = quota_held(n->core, NODE_SHARD_TOKEN, QUOTA_SESSIONS),
             all = limit_now(n->core, LIMIT_SESSIONS, NULL);

    if (held != all)
        sim_fail(n->sim, "s%u has %" PRIu64 " sessions, and their token holds %" PRIu64, n->index, all, held);
    return held == all;
}

static bool
new_core(struct node_shard *n, uint64_t boot)
{
    const struct durable *d = &n->saver.durable;
    struct shard_config config = {
        .cluster = n->model->cluster,
        .shard = n->index,
        .shards = n->model->shards,
        .boot = boot,
        .grace_ms = n->profile.grace_ms,
        .gather_bytes_max = GIB,
        .connections_max = 4096,
        .observer_ms = 3000, /* an observer that pauses is closed, and connects again */
        .in_flight_bytes_max = 64 * MIB,
        .version = "sim",
        .live_dir = "memory",
        .save_looks = 1, /* so that all else comes between the pieces of a save's begin */
        .stream_min_bytes = sim_chance(n->sim, 500) ? 1 : 64 * MIB,
        .durable = n->profile.durable,
        .durable_dir = "other memory",
        .saved = n->profile.durable ? d->manifest.save : 0,
        .redo_next = n->profile.durable ? d->redo_next : 0,
    };
    struct ps_error e;

    if (shard_new(&config, n->store, node_shard_ms(n), &n->core, &e) == PS_OK)
        return node_life_holders_fit(n);
    sim_fail(n->sim, "s%u does not start: %s", n->index, e.text);
    return false;
}

/* Over the state that a power loss has left. False: killed on the way, or failed. */
static bool
node_life_rebuild(struct node_shard *n, uint64_t boot)
{
    struct node_replay_limit way = {.left = n->rebuild_deaths > 0 ? sim_below(n->sim, REBUILD_STEPS_MAX) : UINT64_MAX};
    struct durable *d = &n->saver.durable;
    struct ps_error e = {0};
    enum ps_err err = PS_OK;

    if (d->manifest.save > 0)
        err = durable_rebuild(d, n->store, boot, node_life_progress, &way, &e);
    if (err != PS_OK && err != PS_ERR_CANCELLED)
        sim_fail(n->sim, "s%u cannot rebuild: %s", n->index, e.text);
    if (err == PS_OK && new_core(n, boot) && node_life_replay(n, &way))
        return true;
    shard_free(n->core);
    n->core = NULL;
    store_mem_crash(n->store);
    return false;
}

static void
killed_while_rebuilding(struct node_shard *n)
{
    sim_trace(n->sim, "s%u killed while it rebuilds", n->index);
    n->rebuild_deaths -= n->rebuild_deaths > 0;
    new_live_store(n);
    sim_in(n->sim, &n->restart, sim_below(n->sim, 100 * SIM_MS));
}

/* The events that were planned for after a start. */
static void
begin_follow(struct node_shard *n)
{
    if (n->follow == NULL)
        return;
    sim_in(n->sim, n->follow, n->follow_us);
    if (n->profile.durable)
        node_saver_slow(&n->saver, n->follow_us);
    n->follow = NULL;
}

void
node_shard_start(struct node_shard *n)
{
    uint64_t boot = sim_rand(n->sim) | 1;

    if (n->profile.durable && n->loss == LOSS_LIVE)
        node_rot_try(n);
    if (n->profile.durable)
        node_saver_open(&n->saver);
    if (n->loss == LOSS_NONE ? !new_core(n, boot) : !node_life_rebuild(n, boot)) {
        if (!n->sim->failed)
            killed_while_rebuilding(n);
        return;
    }
    sim_trace(n->sim, "s%u starts", n->index);
    if (n->loss != LOSS_NONE)
        ledger_lost(n->ledger, n->index, n->store);
    n->loss = LOSS_NONE;
    n->state = SHARD_UP;
    n->stopped = false;
    n->listener.up = true;
    begin_follow(n);
    if (n->profile.durable)
        node_saver_start(&n->saver);
    if (n->core != NULL)
        node_shard_end_turn(n); /* the actions that loading produced */
}
