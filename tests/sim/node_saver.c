/* The saver. Reports to the core may end turns, and with them the process: the caller checks node->core after each. */
#include "tests/sim/node_saver.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/core/journal/redo_record.h"
#include "server/core/store/store_mem.h"
#include "server/core/turn/row.h"
#include "tests/sim/node_shard.h"

#define STORE_BYTES   GIB
#define AGAIN_US      SIM_SECOND /* a full disk is tried again */
#define UNIX_START_MS UINT64_C(1767225600000)

static uint64_t
unix_ms(const struct node_saver *v)
{
    return UNIX_START_MS + v->sim->now_us / SIM_MS;
}

static bool
node_saver_alive(const struct node_saver *v)
{
    return v->node->core != NULL;
}

/* False: the process did not survive it. */
static bool
node_saver_report(struct node_saver *v, struct shard_event event)
{
    node_shard_event(v->node, &event);
    return node_saver_alive(v);
}

static bool
pieces_wait(const struct node_saver *v)
{
    return !v->remaking && v->redo_next < v->redo_live;
}

/* Blocks are to be read, or the final records to be written. */
static bool
save_waits(const struct node_saver *v)
{
    return v->save != NULL && (!v->all_read || v->closing);
}

/* Only a full save makes pushes durable again, and none runs: it is asked for until one succeeds. */
static bool
save_is_wanted(const struct node_saver *v)
{
    return v->remaking && v->save == NULL;
}

static void
node_saver_plan(struct node_saver *v)
{
    if (v->state != SAVER_IDLE || v->timer.place != 0)
        return;
    if (save_waits(v) || pieces_wait(v))
        sim_in(v->sim, &v->timer, sim_below(v->sim, v->profile.read_us_max + 1));
    else if (save_is_wanted(v))
        sim_in(v->sim, &v->timer, AGAIN_US);
}

/* ---- A save's beginning and end ---- */

static void
drop_save(struct node_saver *v)
{
    shard_save_free(v->save);
    v->save = NULL;
    v->prepared = v->closing = v->all_read = false;
    v->blocks_len = v->blocks_at = 0;
    v->passed = v->written = 0;
}

static void
begin_save(struct node_saver *v, struct shard_save *save)
{
    if (v->save != NULL)
        sim_fail(v->sim, "s%u begins a save while another runs", v->node->index);
    sim_trace(v->sim, "s%u save %" PRIu64 " begins: %" PRIu64 " blocks", v->node->index, save->number, save->blocks);
    v->save = save;
}

static bool
end_save(struct node_saver *v, enum ps_err code)
{
    struct ps_error e = {.code = code};
    struct shard_event event = {.kind = SHARD_SAVE_ENDED, .bytes = v->written};

    if (code != PS_OK) {
        snprintf(e.text, sizeof e.text, "the disk says %s", ps_err_name(code));
        event.error = &e;
        v->failures++;
    }
    sim_trace(v->sim, "s%u save ends: %s", v->node->index, ps_err_name(code));
    drop_save(v);
    return node_saver_report(v, event);
}

/* ---- Failures ---- */

static bool
tell_not_durable(struct node_saver *v, enum ps_err code)
{
    struct ps_error e = {.code = code};

    if (v->said_not_durable)
        return true;
    v->said_not_durable = true;
    ledger_disk_failed(v->node->ledger);
    snprintf(e.text, sizeof e.text, "the disk says %s", ps_err_name(code));
    return node_saver_report(v, (struct shard_event){.kind = SHARD_NOT_DURABLE, .error = &e});
}

/* No room: waiting pieces stay, and so may a save. */
static void
no_room(struct node_saver *v)
{
    sim_trace(v->sim, "s%u disk is full", v->node->index);
    v->state = SAVER_IDLE;
    if (pieces_wait(v) && !tell_not_durable(v, PS_ERR_FULL))
        return;
    if (v->save != NULL && sim_chance(v->sim, 500) && !end_save(v, PS_ERR_FULL))
        return;
    sim_in(v->sim, &v->timer, AGAIN_US);
}

static void
new_store(struct node_saver *v)
{
    if (v->store != NULL) {
        store_mem_crash(v->store);
        v->store->ops->close(v->store);
    }
    v->store = store_mem_new(STORE_BYTES);
    ps_assert(v->store != NULL);
}

static void
open_durable(struct node_saver *v)
{
    const struct sim_model *m = v->node->model;
    uint64_t id = sim_rand(v->sim) | 1;
    struct ps_error e;

    durable_close(&v->durable);
    if (durable_open(&v->durable, v->store, m->cluster, v->node->index, m->shards, id, &e) != PS_OK)
        sim_fail(v->sim, "s%u cannot open its durable store: %s", v->node->index, e.text);
}

/* Data that was not synced may be lost although it reads well: start over. */
static void
disk_failed(struct node_saver *v)
{
    sim_trace(v->sim, "s%u sync failed: a new durable store", v->node->index);
    v->state = SAVER_IDLE;
    v->sync_fails = 0;
    v->remaking = true;
    new_store(v);
    open_durable(v);
    ledger_disk_lost(v->node->ledger, v->node->index);
    if (!tell_not_durable(v, PS_ERR_IO) || (v->save != NULL && !end_save(v, PS_ERR_IO)))
        return;
    (void)node_saver_report(v, (struct shard_event){.kind = SHARD_SAVE});
}

/* ---- A transaction ---- */

/* Blocks that another boot has staged are erased first. */
static void
node_saver_prepare(struct node_saver *v)
{
    bool more = true;

    while (more)
        if (durable_begin_save(&v->durable, v->save->boot, &more) != PS_OK)
            sim_fail(v->sim, "s%u cannot begin to save", v->node->index);
    for (more = true; more;)
        if (durable_sweep(&v->durable, v->save, &more) != PS_OK)
            sim_fail(v->sim, "s%u cannot erase what was dropped", v->node->index);
    v->prepared = true;
}

static void
node_saver_begin(struct node_saver *v)
{
    v->txn_bytes = 0;
    v->record_left = 0;
    v->finishing = false;
    if (v->save != NULL && !v->prepared)
        node_saver_prepare(v);
    if (v->sim->now_us < v->full_until_us || durable_begin(&v->durable, DURABLE_TXN_MAX) != PS_OK) {
        no_room(v);
        return;
    }
    v->state = SAVER_READING;
    sim_in(v->sim, &v->timer, sim_below(v->sim, v->profile.read_us_max + 1));
}

static void
read_piece(struct node_saver *v)
{
    const struct store_ops *ops = v->node->store->ops;
    struct store_key key = store_redo_key(v->redo_next);
    struct redo_head head;
    struct span piece;
    enum ps_err err;

    if ((err = ops->reader_get(v->reader, &key, &piece)) != PS_OK) {
        sim_fail(v->sim, "s%u: piece %" PRIu64 " of the redo log is not there: %s", v->node->index, v->redo_next,
                 ps_err_name(err));
        return;
    }
    if ((err = durable_redo(&v->durable, v->redo_next, piece)) != PS_OK)
        sim_fail(v->sim, "s%u cannot write a piece: %s", v->node->index, ps_err_name(err));
    memcpy(&head, piece.data, sizeof head);
    v->record_left = head.pieces - head.piece - 1;
    ops->reader_done(v->reader);
    v->txn_bytes += piece.len;
    v->redo_next++;
}

static void
report_passed(struct node_saver *v)
{
    uint64_t count = v->passed;

    v->passed = 0;
    if (count > 0)
        (void)node_saver_report(v, (struct shard_event){.kind = SHARD_SAVE_PASSED, .count = count});
}

/* False: all were read. */
static bool
more_blocks(struct node_saver *v)
{
    if (v->blocks_at < v->blocks_len)
        return true;
    v->blocks_at = 0;
    v->blocks_len = shard_save_next(v->node->core, v->profile.chunk, v->blocks, NODE_SAVER_BLOCKS);
    v->all_read = v->blocks_len == 0;
    return !v->all_read;
}

/* Where bits flip saves verify as well; what is only read for that takes no part of a transaction here, so that runs
 * are the same with it and without. */
static enum ps_err
node_saver_stage(struct node_saver *v, const struct store_key *key, struct span value, size_t *written)
{
    uint64_t read = v->durable.verified.bytes;
    enum ps_err err;

    if (!v->node->rot.on)
        return durable_stage(&v->durable, key, value, written);
    err = durable_stage_verified(&v->durable, key, value, written);
    *written -= v->durable.verified.bytes - read;
    return err;
}

static void
read_block(struct node_saver *v)
{
    const struct store_ops *ops = v->node->store->ops;
    const struct shard_save_block *b;
    struct span value;
    size_t written = 0;
    enum ps_err err;

    if (!more_blocks(v))
        return;
    b = &v->blocks[v->blocks_at++];
    if ((err = ops->reader_get(v->reader, &b->key, &value)) != PS_OK) {
        sim_fail(v->sim, "s%u: variable %u block %u is not there for the save: %s", v->node->index, b->key.var,
                 b->key.block, ps_err_name(err));
        return;
    }
    if (value.len != b->size)
        sim_fail(v->sim, "s%u: a block to be saved has %zu bytes, not %zu", v->node->index, value.len, b->size);
    err = node_saver_stage(v, &b->key, value, &written);
    if (err != PS_OK)
        sim_fail(v->sim, "s%u cannot stage a block: %s", v->node->index, ps_err_name(err));
    if (v->durable.verified.mended + v->durable.verified.differ > 0)
        sim_fail(v->sim, "s%u finds damage where there is none", v->node->index);
    ops->reader_done(v->reader);
    v->txn_bytes += written;
    v->written += written;
    v->passed++;
    if (v->profile.passed_at_once)
        report_passed(v);
}

/* The core requests its end. */
static void
last_words(struct node_saver *v)
{
    enum ps_err err = durable_finish(&v->durable, v->save, unix_ms(v));

    if (err != PS_OK)
        sim_fail(v->sim, "s%u cannot finish a save: %s", v->node->index, ps_err_name(err));
    v->finishing = true;
}

static void
sync_soon(struct node_saver *v)
{
    uint64_t done_us = v->sim->now_us + sim_below(v->sim, v->profile.sync_us_max + 1);

    v->state = SAVER_SYNCING;
    sim_at(v->sim, &v->timer, MAX(done_us, v->slow_until_us));
}

static void
read_on(struct node_saver *v)
{
    bool full = v->txn_bytes >= v->profile.chunk;

    if (pieces_wait(v) && (!full || v->record_left > 0))
        read_piece(v);
    else if (!full && v->prepared && !v->all_read)
        read_block(v);
    else if (v->closing && v->prepared && !v->finishing)
        last_words(v);
    else
        sync_soon(v);
    if (node_saver_alive(v) && v->state == SAVER_READING && !v->sim->failed)
        sim_in(v->sim, &v->timer, sim_below(v->sim, v->profile.read_us_max + 1));
}

struct saver_rows {
    struct node_saver *saver;
    uint32_t vars[256], vars_len;
};

static bool
saver_add_variable(void *arg, struct span key, struct span value)
{
    struct saver_rows *x = arg;

    (void)value;
    ps_assert(x->vars_len < ARRAY_LEN(x->vars));
    x->vars[x->vars_len++] = row_id(key);
    return true;
}

static bool
saver_check_block(void *arg, const struct store_key *key, struct span value)
{
    const struct saver_rows *x = arg;
    uint32_t i = 0;

    (void)value;
    while (i < x->vars_len && x->vars[i] != key->var)
        i++;
    if (i == x->vars_len && key->generation < STORE_GENERATION_REDO)
        sim_fail(x->saver->sim, "s%u still has block %u of variable %u on its disk, which was dropped",
                 x->saver->node->index, key->block, key->var);
    return !x->saver->sim->failed;
}

/* Nothing is left of what was dropped before the save. */
static void
saver_check_blocks(struct node_saver *v)
{
    struct saver_rows x = {.saver = v};
    enum ps_err err;

    err = v->store->ops->each_row(v->store, STORE_VARS, saver_add_variable, &x);
    ps_assert(err == PS_OK);
    err = v->store->ops->each_block(v->store, saver_check_block, &x);
    ps_assert(err == PS_OK);
}

/* Erase what the save has made needless, perhaps not all at once. */
static void
node_saver_cut(struct node_saver *v)
{
    bool more = true;

    while (more && sim_chance(v->sim, 700))
        if (durable_cut(&v->durable, &more) != PS_OK)
            sim_fail(v->sim, "s%u cannot cut its redo log", v->node->index);
    if (!more && !v->durable.saving)
        saver_check_blocks(v);
}

/* It is on disk. */
static bool
node_saver_commit(struct node_saver *v)
{
    if (durable_commit(&v->durable) != PS_OK)
        return false;
    if (v->finishing) {
        v->saves++;
        v->remaking = false;
        v->redo_next = MAX(v->redo_next, v->durable.redo_next);
        ledger_saved(v->node->ledger, v->node->index, v->store, v->durable.manifest.generation);
    }
    return true;
}

static void
node_saver_synced(struct node_saver *v)
{
    if ((v->sync_fails > 0 && --v->sync_fails == 0)) {
        durable_abort(&v->durable);
        disk_failed(v);
        return;
    }
    if (!node_saver_commit(v)) {
        disk_failed(v);
        return;
    }
    v->state = SAVER_IDLE;
    if (!v->remaking) {
        v->said_not_durable = false;
        if (!node_saver_report(v, (struct shard_event){.kind = SHARD_DURABLE, .number = v->redo_next}))
            return;
    }
    if (v->finishing) {
        v->finishing = false;
        if (!end_save(v, PS_OK))
            return;
        node_saver_cut(v);
    } else {
        report_passed(v);
    }
    if (node_saver_alive(v))
        node_saver_plan(v);
}

static void
timer_comes(struct sim_timer *t)
{
    struct node_saver *v = CONTAINER_OF(t, struct node_saver, timer);

    if (v->state == SAVER_SYNCING)
        node_saver_synced(v);
    else if (v->state == SAVER_READING)
        read_on(v);
    else if (save_waits(v) || pieces_wait(v))
        node_saver_begin(v);
    else if (save_is_wanted(v) && node_saver_report(v, (struct shard_event){.kind = SHARD_SAVE}))
        node_saver_plan(v);
}

static void
every_comes(struct sim_timer *t)
{
    struct node_saver *v = CONTAINER_OF(t, struct node_saver, every);

    sim_in(v->sim, t, sim_below(v->sim, 2 * v->profile.every_us + 1));
    (void)node_saver_report(v, (struct shard_event){.kind = SHARD_SAVE});
}

/* Restored data is to be on disk before any worker is let in: a save that failed is made again. */
void
node_saver_look(struct node_saver *v)
{
    if (v->save == NULL && node_saver_alive(v) && shard_save_awaited(v->node->core))
        (void)node_saver_report(v, (struct shard_event){.kind = SHARD_SAVE});
}

/* ---- What the core wants ---- */

void
node_saver_action(struct node_saver *v, const struct shard_action *a)
{
    if (a->kind == SHARD_REDO) {
        v->redo_live = MAX(v->redo_live, a->number);
    } else if (a->kind == SHARD_SAVE_BEGUN) {
        begin_save(v, a->save);
    } else if (a->kind == SHARD_SAVE_CLOSE) {
        v->closing = v->save != NULL;
    } else if (v->save != NULL) {
        sim_trace(v->sim, "s%u save is abandoned", v->node->index);
        if (v->finishing)
            sim_fail(v->sim, "s%u abandons a save whose blocks have all been passed", v->node->index);
        drop_save(v);
    }
    node_saver_plan(v);
}

/* ---- Lives ---- */

void
node_saver_open(struct node_saver *v)
{
    open_durable(v);
    v->redo_next = MAX(v->durable.redo_next, 1);
    v->redo_live = 0;
    v->said_not_durable = false;
}

void
node_saver_start(struct node_saver *v)
{
    const struct store_ops *ops = v->node->store->ops;
    enum ps_err err = ops->reader_open(v->node->store, &v->reader);

    ps_assert(err == PS_OK);
    if (v->profile.every_us > 0)
        sim_in(v->sim, &v->every, sim_below(v->sim, 2 * v->profile.every_us + 1));
    if (v->remaking &&
        (!tell_not_durable(v, PS_ERR_IO) || !node_saver_report(v, (struct shard_event){.kind = SHARD_SAVE})))
        return;
    node_saver_plan(v);
}

void
node_saver_die(struct node_saver *v)
{
    sim_cancel(v->sim, &v->timer);
    sim_cancel(v->sim, &v->every);
    if (v->state == SAVER_SYNCING && sim_chance(v->sim, 500) && v->sim->now_us > v->slow_until_us) {
        sim_trace(v->sim, "s%u what it was syncing is on disk", v->node->index);
        (void)node_saver_commit(v);
    }
    v->state = SAVER_IDLE;
    v->finishing = false;
    drop_save(v);
    store_mem_crash(v->store);
    if (v->reader != NULL)
        v->node->store->ops->reader_close(v->reader);
    v->reader = NULL;
}

void
node_saver_wipe(struct node_saver *v)
{
    new_store(v);
    v->remaking = false;
    v->full_until_us = v->slow_until_us = v->sync_fails = 0;
}

void
node_saver_fill(struct node_saver *v, uint64_t for_us)
{
    v->full_until_us = v->sim->now_us + for_us;
}

void
node_saver_slow(struct node_saver *v, uint64_t for_us)
{
    v->slow_until_us = v->sim->now_us + for_us;
}

void
node_saver_fail_sync(struct node_saver *v, uint64_t nth)
{
    v->sync_fails = nth;
}

void
node_saver_init(struct node_saver *v, struct node_shard *n, const struct node_saver_profile *p)
{
    *v = (struct node_saver){.node = n, .sim = n->sim, .profile = *p};
    v->timer.run = timer_comes;
    v->every.run = every_comes;
    new_store(v);
}

void
node_saver_finish(struct node_saver *v)
{
    sim_cancel(v->sim, &v->timer);
    sim_cancel(v->sim, &v->every);
    durable_close(&v->durable);
    if (v->store != NULL)
        v->store->ops->close(v->store);
    v->store = NULL;
}
