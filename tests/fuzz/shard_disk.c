#include "tests/fuzz/shard_disk.h"

#include "tests/fuzz/shard_world.h"

static void
shard_disk_report(struct shard_world *w, struct shard_event event)
{
    world_event(w, &event);
}

/* ---- A transaction ---- */

static bool
shard_disk_begin(struct shard_world *w)
{
    return durable_begin(&w->disk.durable, DURABLE_TXN_MAX) == PS_OK;
}

static void
shard_disk_commit(struct shard_world *w)
{
    ps_assert(durable_commit(&w->disk.durable) == PS_OK);
}

/* All pieces that wait: records are whole. */
static void
write_pieces(struct shard_world *w)
{
    struct fuzz_disk *d = &w->disk;
    uint64_t number = d->durable.redo_next;
    struct span piece;

    if (number >= d->redo_live || !shard_disk_begin(w))
        return;
    for (; number < d->redo_live; number++) {
        struct store_key key = store_redo_key(number);

        ps_assert(w->store->ops->reader_get(d->reader, &key, &piece) == PS_OK);
        ps_assert(durable_redo(&d->durable, number, piece) == PS_OK);
        w->store->ops->reader_done(d->reader);
    }
    shard_disk_commit(w);
    shard_disk_report(w, (struct shard_event){.kind = SHARD_DURABLE, .number = number});
}

/* False: there are none. */
static bool
write_blocks(struct shard_world *w)
{
    struct fuzz_disk *d = &w->disk;
    struct shard_save_block blocks[DISK_BLOCKS];
    size_t n = d->save != NULL ? shard_save_next(w->shard, MIB, blocks, DISK_BLOCKS) : 0, written;
    struct span value;

    if (n == 0)
        return false;
    ps_assert(shard_disk_begin(w));
    for (size_t i = 0; i < n; i++) {
        ps_assert(w->store->ops->reader_get(d->reader, &blocks[i].key, &value) == PS_OK);
        ps_assert(value.len == blocks[i].size);
        ps_assert(durable_stage(&d->durable, &blocks[i].key, value, &written) == PS_OK);
        w->store->ops->reader_done(d->reader);
    }
    shard_disk_commit(w);
    shard_disk_report(w, (struct shard_event){.kind = SHARD_SAVE_PASSED, .count = n});
    return true;
}

/* ---- Saves ---- */

static void
drop_save(struct fuzz_disk *d)
{
    shard_save_free(d->save);
    d->save = NULL;
    d->closing = false;
}

static void
begin_save(struct shard_world *w, struct shard_save *save)
{
    struct fuzz_disk *d = &w->disk;
    bool more = true;

    ps_assert(d->save == NULL && save->checkpoint == NULL);
    d->save = save;
    while (more)
        ps_assert(durable_begin_save(&d->durable, save->boot, &more) == PS_OK);
    for (more = true; more;)
        ps_assert(durable_sweep(&d->durable, save, &more) == PS_OK);
}

static void
finish_save(struct shard_world *w)
{
    struct fuzz_disk *d = &w->disk;
    bool more = true;

    if (!d->closing)
        return;
    ps_assert(shard_disk_begin(w));
    ps_assert(durable_finish(&d->durable, d->save, 1) == PS_OK);
    shard_disk_commit(w);
    drop_save(d);
    shard_disk_report(w, (struct shard_event){.kind = SHARD_SAVE_ENDED, .bytes = 1});
    while (more)
        ps_assert(durable_cut(&d->durable, &more) == PS_OK);
}

static void
fail_save(struct shard_world *w)
{
    struct ps_error e;

    if (w->disk.save == NULL)
        return;
    drop_save(&w->disk);
    ps_fail(&e, PS_ERR_IO, "the disk is broken");
    shard_disk_report(w, (struct shard_event){.kind = SHARD_SAVE_ENDED, .error = &e});
}

static void
fail_pieces(struct shard_world *w)
{
    struct ps_error e;

    ps_fail(&e, PS_ERR_FULL, "the disk is full");
    shard_disk_report(w, (struct shard_event){.kind = SHARD_NOT_DURABLE, .error = &e});
}

void
disk_action(struct shard_world *w, const struct shard_action *a)
{
    struct fuzz_disk *d = &w->disk;

    ps_assert(d->store != NULL);
    if (a->kind == SHARD_SAVE_BEGUN)
        begin_save(w, a->save);
    else if (a->kind == SHARD_SAVE_CLOSE)
        d->closing = d->save != NULL;
    else if (a->kind == SHARD_SAVE_ABANDONED)
        drop_save(d);
    else
        d->redo_live = MAX(d->redo_live, a->number);
}

static void
do_all(struct shard_world *w)
{
    write_pieces(w);
    world_turn(w);
    while (write_blocks(w))
        world_turn(w);
    finish_save(w);
}

void
disk_step(struct shard_world *w, uint8_t how)
{
    if (w->disk.store == NULL)
        return;
    switch (how % 8) {
    case 0:
    case 1:
        shard_disk_report(w, (struct shard_event){.kind = SHARD_SAVE});
        break;
    case 2:
        write_pieces(w);
        break;
    case 3:
        (void)write_blocks(w);
        break;
    case 4:
        finish_save(w);
        break;
    case 5:
        how < 128 ? fail_pieces(w) : fail_save(w);
        break;
    default:
        do_all(w);
        break;
    }
}

/* ---- Lives ---- */

static void
open_durable(struct shard_world *w)
{
    struct ps_error e;

    durable_close(&w->disk.durable);
    ps_assert(durable_open(&w->disk.durable, w->disk.store, w->config.cluster, w->config.shard, w->config.shards, 9,
                           &e) == PS_OK);
    w->config.saved = w->disk.durable.manifest.save;
    w->config.redo_next = w->disk.durable.redo_next;
}

void
disk_start(struct shard_world *w, uint64_t bytes)
{
    w->config.durable = true;
    w->disk.store = store_mem_new(bytes);
    ps_assert(w->disk.store != NULL);
    open_durable(w);
}

void
disk_attach(struct shard_world *w)
{
    if (w->disk.store != NULL)
        ps_assert(w->store->ops->reader_open(w->store, &w->disk.reader) == PS_OK);
}

void
disk_detach(struct shard_world *w)
{
    struct fuzz_disk *d = &w->disk;

    if (d->store == NULL)
        return;
    drop_save(d);
    d->redo_live = 0;
    w->store->ops->reader_close(d->reader);
    open_durable(w);
}

void
disk_end(struct shard_world *w)
{
    if (w->disk.store == NULL)
        return;
    disk_detach(w);
    durable_close(&w->disk.durable);
    w->disk.store->ops->close(w->disk.store);
}

void
disk_rebuild(struct shard_world *w, uint64_t boot)
{
    struct ps_error e;

    if (w->disk.durable.manifest.save > 0)
        ps_assert(durable_rebuild(&w->disk.durable, w->store, boot, NULL, NULL, &e) == PS_OK);
}

static bool
replay_piece(void *arg, const struct store_key *key, struct span piece)
{
    struct shard_world *w = arg;
    struct ps_error e;

    if (key->generation > STORE_GENERATION_REDO)
        return false;
    ps_assert(key->generation == STORE_GENERATION_REDO);
    ps_assert(shard_replay_piece(w->shard, piece, &e) == PS_OK);
    return true;
}

void
disk_replay(struct shard_world *w)
{
    const struct durable *d = &w->disk.durable;
    struct store_key from = store_redo_key(d->redo_first);
    uint64_t records;
    struct ps_error e;

    if (d->redo_first >= d->redo_next)
        return;
    ps_assert(w->disk.store->ops->each_block_from(w->disk.store, &from, replay_piece, w) == PS_OK);
    ps_assert(shard_replay_end(w->shard, &records, &e) == PS_OK);
}
