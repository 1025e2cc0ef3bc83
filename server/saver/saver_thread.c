/* The thread: does what is due (saver_wait.c), one transaction after the other, and reports it. Live values are copied
 * first (saver_read.c); saver_errors.c handles errors. */
#include <string.h>

#include "server/core/journal/redo_record.h"
#include "server/saver/saver_state.h"

#define ROOM_MIN       (1 * MIB) /* reserved with each transaction; more is reserved as it is needed */
#define REPORTED_BYTES (4 * MIB) /* a save's progress is reported at least this often */
#define CUT_NS         (UINT64_C(1000000000) / 20)

/* A transaction: what is due, and how much of it was done. */
struct saver_work {
    struct saver_due due;
    uint64_t next; /* piece, after it */
    uint64_t piece_bytes;
    uint64_t read_bytes, written; /* of blocks */
    bool gap;                     /* a piece is missing in the live store */
    enum ps_err unread;           /* the live store cannot be read */
};

static struct durable *
saver_thread_store(const struct saver *s)
{
    return &s->config.dir->durable;
}

/* ---- Reports ---- */

void
saver_end_job(struct saver *s, enum ps_err err, const char *why)
{
    struct saver_job *job = s->own;

    if (job == NULL)
        return;
    uv_mutex_lock(&s->lock);
    s->own = NULL;
    if (job->abandoned) {
        saver_job_free(job);
    } else {
        if (err != PS_OK)
            (void)ps_fail(&job->error, err, "%s", why);
        job->ended = true;
    }
    uv_mutex_unlock(&s->lock);
    uv_async_send(&s->async);
}

static void
saver_thread_failed(struct saver *s, const struct saver_work *w, enum ps_err err)
{
    saver_failed(s, err, w->due.begin || w->due.blocks || w->due.finish, w->due.pieces && !w->due.blocks);
}

/* ---- A transaction ---- */

/* A record's pieces belong in one transaction: the first one holds their total size. */
static bool
saver_thread_fits(const struct saver_work *w, struct span piece)
{
    struct redo_head head;

    memcpy(&head, piece.data, sizeof head);
    return head.piece != 0 || w->piece_bytes == 0 ||
           w->piece_bytes + head.payload_len + head.meta_len + MIB <= SAVER_CHUNK;
}

static enum ps_err
put_pieces(struct saver *s, struct saver_work *w)
{
    enum ps_err err = PS_OK;

    for (; err == PS_OK && w->next < w->due.redo_to; w->next++) {
        struct store_key key = store_redo_key(w->next);
        struct span piece;

        if ((w->unread = saver_read(s, &key, &piece)) != PS_OK || !saver_thread_fits(w, piece))
            break;
        err = durable_redo(saver_thread_store(s), w->next, piece);
        w->piece_bytes += piece.len;
    }
    w->gap = w->unread == PS_ERR_NOT_FOUND;
    return err;
}

bool
saver_next_block(struct saver *s, uint64_t read_bytes, uint64_t redo_to, struct shard_save_block *out)
{
    struct saver_job *job = s->own;
    bool ok;

    uv_mutex_lock(&s->lock);
    ok = !job->abandoned && !s->stopping && job->len > 0;
    if (read_bytes >= SAVER_CHUNK_SMALL && s->redo_to > redo_to && saver_pieces_wait(s))
        ok = false;
    if (ok) {
        *out = job->ring[job->first];
        job->first = (job->first + 1) % SAVER_AHEAD;
        job->len--;
    }
    uv_mutex_unlock(&s->lock);
    return ok;
}

void
saver_block_was_read(struct saver *s, size_t len)
{
    bool more;

    uv_mutex_lock(&s->lock);
    s->own->read++;
    more = s->own->len <= SAVER_AHEAD / 2 && !s->own->all;
    uv_mutex_unlock(&s->lock);
    s->unreported += len;
    if (s->unreported < REPORTED_BYTES && !more)
        return;
    s->unreported = 0;
    uv_async_send(&s->async);
}

/* What is read to be verified counts as written: the disk is as busy with it. */
static enum ps_err
verify_block(struct saver *s, struct saver_work *w, const struct store_key *key)
{
    struct span value;
    size_t took = 0;
    enum ps_err err = PS_OK;

    if ((w->unread = saver_read(s, key, &value)) == PS_OK)
        err = durable_stage_verified(saver_thread_store(s), key, value, &took);
    if (w->unread != PS_OK || err != PS_OK)
        return err;
    w->written += took;
    w->read_bytes += value.len;
    saver_block_was_read(s, value.len);
    return PS_OK;
}

/* Most blocks of a large model may be unchanged: those are not copied. */
static enum ps_err
put_block(struct saver *s, struct saver_work *w, const struct store_key *key)
{
    struct span value;
    size_t written = 0;
    bool same = false;
    enum ps_err err = PS_OK;

    if ((w->unread = saver_read_head(s, key, &value)) == PS_OK)
        err = durable_stage_same(saver_thread_store(s), key, value, &same);
    if (w->unread == PS_OK && err == PS_OK && !same && (w->unread = saver_read(s, key, &value)) == PS_OK)
        err = durable_stage(saver_thread_store(s), key, value, &written);
    if (w->unread != PS_OK || err != PS_OK)
        return err;
    w->written += written;
    w->read_bytes += value.len;
    saver_block_was_read(s, value.len);
    return PS_OK;
}

static enum ps_err
put_blocks(struct saver *s, struct saver_work *w, uint64_t bytes)
{
    struct shard_save_block block;
    enum ps_err err = PS_OK;

    while (err == PS_OK && w->unread == PS_OK && w->written < bytes &&
           saver_next_block(s, w->read_bytes, w->due.redo_to, &block))
        err = s->own->save->verify ? verify_block(s, w, &block.key) : put_block(s, w, &block.key);
    uv_async_send(&s->async);
    return err;
}

/* Pieces are tried again after a pause, or the thread would do nothing else. */
static void
saver_thread_unreadable(struct saver *s, const struct saver_work *w)
{
    struct ps_error e;

    if (s->own != NULL)
        saver_end_job(s, w->unread, "the live store cannot be read");
    if (!w->due.pieces || w->next == w->due.redo_to)
        return;
    (void)ps_fail(&e, w->unread, "the live store cannot be read: %s", ps_strerror(w->unread));
    s->retry_at = uv_hrtime() + SAVER_RETRY_NS;
    saver_set_durable_state(s, DURABLE_FULL, &e);
}

static void
saver_thread_committed(struct saver *s, const struct saver_work *w)
{
    struct ps_error e;

    s->tokens -= (double)w->written;
    if (s->own != NULL)
        s->own->written += w->written;
    if (w->next > s->redo_next) {
        s->redo_next = w->next;
        s->pieces_at = uv_hrtime();
        if (!w->gap)
            saver_set_durable_state(s, DURABLE_OK, NULL);
    }
    if (w->gap) {
        (void)ps_fail(&e, PS_ERR_IO, "the redo log in %s misses a piece and waits for a full save",
                      s->config.dir->path);
        saver_set_durable_state(s, DURABLE_NEEDS_SAVE, &e);
    } else if (w->unread != PS_OK) {
        saver_thread_unreadable(s, w);
    }
}

static bool
in_txn(struct saver *s, enum ps_err err, const struct saver_work *w)
{
    if (err == PS_OK)
        err = durable_commit(saver_thread_store(s));
    else
        durable_abort(saver_thread_store(s));
    if (err != PS_OK)
        saver_thread_failed(s, w, err);
    return err == PS_OK && !saver_vanished(s);
}

static void
pieces_and_blocks(struct saver *s, struct saver_work *w)
{
    enum ps_err err = durable_begin(saver_thread_store(s), (w->due.blocks ? w->due.most : 0) + ROOM_MIN);

    if (err != PS_OK) {
        saver_thread_failed(s, w, err);
        return;
    }
    if (w->due.pieces)
        err = put_pieces(s, w);
    if (err == PS_OK && w->due.blocks && w->unread == PS_OK && w->piece_bytes < SAVER_CHUNK)
        err = put_blocks(s, w, MIN(w->due.most, SAVER_CHUNK - w->piece_bytes));
    if (in_txn(s, err, w))
        saver_thread_committed(s, w);
}

/* The pieces that were missing are in the save. */
static enum ps_err
catch_up(struct saver *s)
{
    struct durable_dir *dir = s->config.dir;
    struct env_pair pair = dir->pair;
    enum ps_err err = PS_OK;

    pair.behind = false;
    if (dir->pair.behind && (err = env_pair_write(dir->store, &pair)) == PS_OK)
        dir->pair = pair;
    return err;
}

static void
saver_thread_finish(struct saver *s)
{
    const struct saver_work w = {.due.finish = true};
    const struct saver_job *job = s->own;
    enum ps_err err = durable_begin(saver_thread_store(s), ROOM_MIN);

    if (err != PS_OK) {
        saver_thread_failed(s, &w, err);
        return;
    }
    if (!in_txn(s, durable_finish(saver_thread_store(s), job->save, job->unix_ms), &w))
        return;
    s->own->verified = saver_thread_store(s)->verified;
    s->own->written -= s->own->verified.bytes;
    s->redo_next = MAX(s->redo_next, job->save->redo);
    s->cut = true;
    if ((err = catch_up(s)) != PS_OK) {
        saver_thread_failed(s, &w, err);
        return;
    }
    saver_end_job(s, PS_OK, NULL);
    saver_set_durable_state(s, DURABLE_OK, NULL);
}

/* Blocks that another boot has staged are erased first, and those of variables that were dropped. */
static void
begin_save(struct saver *s)
{
    const struct saver_work w = {.due.begin = true};
    bool more;
    enum ps_err err = durable_begin_save(saver_thread_store(s), s->own->save->boot, &more);

    if (err == PS_OK && !more)
        err = durable_sweep(saver_thread_store(s), s->own->save, &more);
    if (err != PS_OK)
        saver_thread_failed(s, &w, err);
    else
        s->begun = !more;
}

static void
saver_thread_cut(struct saver *s)
{
    const struct saver_work w = {.due.begin = saver_save_waits(s)};
    bool more;
    enum ps_err err = durable_cut(saver_thread_store(s), &more);

    s->cut = err != PS_OK || more;
    s->cut_at = uv_hrtime() + CUT_NS;
    if (err != PS_OK)
        saver_thread_failed(s, &w, err);
}

/* ---- The loop ---- */

static void
saver_thread_work(struct saver *s, struct saver_work *w)
{
    if (saver_vanished(s))
        return;
    if (w->due.anew) {
        saver_make_anew(s);
        return;
    }
    if (w->due.pieces || w->due.blocks)
        pieces_and_blocks(s, w);
    if (w->due.begin && s->own != NULL)
        begin_save(s);
    if (w->due.finish && s->own != NULL)
        saver_thread_finish(s);
    if (w->due.checkpoint)
        saver_checkpoint_go_on(s, w->due.closing, w->due.most, w->due.redo_to);
    if (saver_cut_is_due(s))
        saver_thread_cut(s);
}

void *
saver_thread(void *arg)
{
    struct saver *s = arg;
    struct saver_due due;

    uv_mutex_lock(&s->lock);
    while (saver_wait(s, &due)) {
        uv_mutex_unlock(&s->lock);
        saver_thread_work(s, &(struct saver_work){.due = due, .next = s->redo_next});
        uv_mutex_lock(&s->lock);
    }
    uv_mutex_unlock(&s->lock);
    return NULL;
}
