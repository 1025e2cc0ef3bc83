/* The thread: waits until something is due, does one transaction of it, says so.
 *
 * Pieces first: somebody waits for them. Blocks as the write rate lets them, in chunks that are small while durable
 * pushes are about, since the next piece waits for the sync that is under way. Live values are
 * copied first (saver_read.c).
 *
 * What fails is saver_trouble.c's. */
#include <inttypes.h>
#include <string.h>

#include "redo.h"
#include "saver_state.h"

#define CHUNK             (DURABLE_TXN_MAX - 2 * MIB) /* what a transaction stages; the last block may pass it */
#define CHUNK_SMALL       (4 * MIB)                   /* while durable pushes are about */
#define CHUNK_MIN         (1 * MIB)
#define CHUNKS_PER_SAVE   16        /* at least, of a save that is not small: see chunk() */
#define CHUNKS_PER_SECOND 4         /* a rate is kept in steps that are no shorter */
#define ROOM_MIN          (1 * MIB) /* asked for with each transaction; what takes more gets it as it goes */
#define TOLD_BYTES        (4 * MIB) /* the shard hears at least so often how far a save is */
#define SECOND            UINT64_C(1000000000)
#define ABOUT_NS          SECOND /* so long after a piece durable pushes are about */
#define CUT_NS            (SECOND / 20)
#define NEVER             UINT64_MAX

/* What is due, and what one transaction does of it. */
struct work {
    bool anew, pieces;
    bool begin, blocks, finish; /* of a save */
    bool checkpoint, closing;   /* a part of one, or its end */
    uint64_t redo_to;           /* pieces before this one */
    uint64_t most;              /* bytes of blocks */
    uint64_t next;              /* piece, after it */
    uint64_t piece_bytes;
    uint64_t read_bytes, written; /* of blocks */
    bool gap;                     /* a piece is missing in the live store */
    enum ps_err unread;           /* the live store cannot be read */
};

static struct durable *
durable(const struct saver *s)
{
    return &s->config.dir->durable;
}

/* ---- What is due, under the lock ---- */

/* What LMDB frees in one transaction is used again by the next but one, so that the file holds two chunks besides the
 * saves: a sixteenth of a save each keeps it below 2.2 times the data. */
static uint64_t
chunk(const struct saver *s, uint64_t now)
{
    uint64_t most = s->pieces_at != 0 && now - s->pieces_at < ABOUT_NS ? CHUNK_SMALL : CHUNK;

    if (s->own != NULL)
        most = MIN(most, MAX(s->own->save->bytes / CHUNKS_PER_SAVE, CHUNK_SMALL));
    return s->rate == 0 ? most : MIN(MAX(s->rate / CHUNKS_PER_SECOND, CHUNK_MIN), most);
}

/* A token bucket: it holds one chunk. */
static uint64_t
tokens_due(struct saver *s, uint64_t now)
{
    double full = (double)chunk(s, now);

    if (s->rate == 0)
        return 0;
    s->tokens = MIN(full, s->tokens + (double)s->rate * (double)(now - s->tokens_at) / 1e9);
    s->tokens_at = now;
    return s->tokens >= full ? 0 : now + (uint64_t)((full - s->tokens) * 1e9 / (double)s->rate) + 1;
}

static bool
save_waits(const struct saver *s)
{
    return s->own != NULL && s->own->save->checkpoint == NULL && !s->begun;
}

static uint64_t
job_due(struct saver *s, uint64_t now)
{
    const struct saver_job *job = s->own;

    if (job->abandoned || job->closing || save_waits(s))
        return 0;
    return job->len == 0 ? NEVER : tokens_due(s, now);
}

static bool
pieces_wait(const struct saver *s)
{
    return (s->side == SIDE_GOOD || s->side == SIDE_FULL) && s->redo_next < s->redo_to;
}

/* Leftovers of the redo log go by and by; at once when a save is to begin, which is staged in their pages: else the
 * file would hold both. */
static uint64_t
cut_at(const struct saver *s)
{
    return save_waits(s) ? 0 : s->cut_at;
}

static uint64_t
due(struct saver *s, uint64_t now)
{
    uint64_t at = s->look ? 0 : NEVER;

    if (s->side == SIDE_GONE)
        at = MIN(at, s->retry_at);
    if (pieces_wait(s))
        at = s->side == SIDE_FULL ? MIN(at, s->retry_at) : 0;
    if (s->own != NULL)
        at = MIN(at, job_due(s, now));
    if (s->cut && s->side != SIDE_GONE)
        at = MIN(at, cut_at(s));
    return at;
}

/* Take what has come, drop what is not wanted. */
static void
take(struct saver *s)
{
    if (s->own != NULL && s->own->abandoned) {
        saver_checkpoint_drop(s);
        saver_job_free(s->own);
        s->own = NULL;
    }
    if (s->own == NULL && s->incoming != NULL) {
        s->own = s->incoming;
        s->incoming = NULL;
        s->begun = false;
    }
}

/* False: the thread ends. Pieces that wait are written before that, if they can be. */
static bool
wait_for_work(struct saver *s)
{
    uint64_t now, at;

    for (;;) {
        take(s);
        now = uv_hrtime();
        at = due(s, now);
        if (s->stopping && !(pieces_wait(s) && s->side == SIDE_GOOD))
            return false;
        if (at <= now)
            return true;
        if (at == NEVER)
            uv_cond_wait(&s->wake, &s->lock);
        else
            uv_cond_timedwait(&s->wake, &s->lock, at - now);
    }
}

/* ---- What is said ---- */

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
failed(struct saver *s, const struct work *w, enum ps_err err)
{
    saver_failed(s, err, w->begin || w->blocks || w->finish, w->pieces && !w->blocks);
}

/* ---- A transaction ---- */

/* A record's pieces belong into one transaction: the first says how much comes. */
static bool
fits(const struct work *w, struct span piece)
{
    struct redo_head head;

    memcpy(&head, piece.data, sizeof head);
    return head.piece != 0 || w->piece_bytes == 0 || w->piece_bytes + head.payload_len + head.meta_len + MIB <= CHUNK;
}

static enum ps_err
put_pieces(struct saver *s, struct work *w)
{
    enum ps_err err = PS_OK;

    for (; err == PS_OK && w->next < w->redo_to; w->next++) {
        struct store_key key = store_redo_key(w->next);
        struct span piece;

        if ((w->unread = saver_read(s, &key, &piece)) != PS_OK || !fits(w, piece))
            break;
        err = durable_redo(durable(s), w->next, piece);
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
    if (read_bytes >= CHUNK_SMALL && s->redo_to > redo_to && pieces_wait(s))
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
    s->untold += len;
    if (s->untold < TOLD_BYTES && !more)
        return;
    s->untold = 0;
    uv_async_send(&s->async);
}

/* Most blocks of a large model may be as they were: those are not copied. */
static enum ps_err
put_block(struct saver *s, struct work *w, const struct store_key *key)
{
    struct span value;
    size_t written = 0;
    bool same = false;
    enum ps_err err = PS_OK;

    if ((w->unread = saver_read_head(s, key, &value)) == PS_OK)
        err = durable_stage_same(durable(s), key, value, &same);
    if (w->unread == PS_OK && err == PS_OK && !same && (w->unread = saver_read(s, key, &value)) == PS_OK)
        err = durable_stage(durable(s), key, value, &written);
    if (w->unread != PS_OK || err != PS_OK)
        return err;
    w->written += written;
    w->read_bytes += value.len;
    saver_block_was_read(s, value.len);
    return PS_OK;
}

static enum ps_err
put_blocks(struct saver *s, struct work *w, uint64_t bytes)
{
    struct shard_save_block block;
    enum ps_err err = PS_OK;

    while (err == PS_OK && w->unread == PS_OK && w->written < bytes &&
           saver_next_block(s, w->read_bytes, w->redo_to, &block))
        err = put_block(s, w, &block.key);
    uv_async_send(&s->async);
    return err;
}

/* Pieces are tried again by and by, or the thread would do nothing else. */
static void
unreadable(struct saver *s, const struct work *w)
{
    struct ps_error e;

    if (s->own != NULL)
        saver_end_job(s, w->unread, "the live store cannot be read");
    if (!w->pieces || w->next == w->redo_to)
        return;
    (void)ps_fail(&e, w->unread, "the live store cannot be read: %s", ps_strerror(w->unread));
    s->retry_at = uv_hrtime() + SAVER_RETRY_NS;
    saver_set_side(s, SIDE_FULL, &e);
}

static void
committed(struct saver *s, const struct work *w)
{
    struct ps_error e;

    s->tokens -= (double)w->written;
    if (s->own != NULL)
        s->own->written += w->written;
    if (w->next > s->redo_next) {
        s->redo_next = w->next;
        s->pieces_at = uv_hrtime();
        if (!w->gap)
            saver_set_side(s, SIDE_GOOD, NULL);
    }
    if (w->gap) {
        (void)ps_fail(&e, PS_ERR_IO, "the redo log in %s misses a piece and waits for a whole save",
                      s->config.dir->path);
        saver_set_side(s, SIDE_WHOLE, &e);
    } else if (w->unread != PS_OK) {
        unreadable(s, w);
    }
}

static bool
in_txn(struct saver *s, enum ps_err err, const struct work *w)
{
    if (err == PS_OK)
        err = durable_commit(durable(s));
    else
        durable_abort(durable(s));
    if (err != PS_OK)
        failed(s, w, err);
    return err == PS_OK && !saver_vanished(s);
}

static void
pieces_and_blocks(struct saver *s, struct work *w)
{
    enum ps_err err = durable_begin(durable(s), (w->blocks ? w->most : 0) + ROOM_MIN);

    if (err != PS_OK) {
        failed(s, w, err);
        return;
    }
    if (w->pieces)
        err = put_pieces(s, w);
    if (err == PS_OK && w->blocks && w->unread == PS_OK && w->piece_bytes < CHUNK)
        err = put_blocks(s, w, MIN(w->most, CHUNK - w->piece_bytes));
    if (in_txn(s, err, w))
        committed(s, w);
}

/* What was missing is in the save. */
static enum ps_err
catch_up(struct saver *s)
{
    struct durable_dir *dir = s->config.dir;
    struct pair pair = dir->pair;
    enum ps_err err = PS_OK;

    pair.behind = false;
    if (dir->pair.behind && (err = pair_write(dir->store, &pair)) == PS_OK)
        dir->pair = pair;
    return err;
}

static void
finish(struct saver *s)
{
    const struct work w = {.finish = true};
    const struct saver_job *job = s->own;
    enum ps_err err = durable_begin(durable(s), ROOM_MIN);

    if (err != PS_OK) {
        failed(s, &w, err);
        return;
    }
    if (!in_txn(s, durable_finish(durable(s), job->save, job->unix_ms), &w))
        return;
    s->redo_next = MAX(s->redo_next, job->save->redo);
    s->cut = true;
    if ((err = catch_up(s)) != PS_OK) {
        failed(s, &w, err);
        return;
    }
    saver_end_job(s, PS_OK, NULL);
    saver_set_side(s, SIDE_GOOD, NULL);
}

/* What another boot has staged goes first. */
static void
begin_save(struct saver *s)
{
    const struct work w = {.begin = true};
    bool more;
    enum ps_err err = durable_begin_save(durable(s), s->own->save->boot, &more);

    if (err != PS_OK)
        failed(s, &w, err);
    else
        s->begun = !more;
}

static void
cut(struct saver *s)
{
    const struct work w = {.begin = save_waits(s)};
    bool more;
    enum ps_err err = durable_cut(durable(s), &more);

    s->cut = err != PS_OK || more;
    s->cut_at = uv_hrtime() + CUT_NS;
    if (err != PS_OK)
        failed(s, &w, err);
}

/* ---- The loop ---- */

static void
look(struct saver *s, struct work *w)
{
    uint64_t now = uv_hrtime();
    struct saver_job *job = s->own;

    s->look = false;
    *w = (struct work){.redo_to = s->redo_to, .next = s->redo_next, .most = chunk(s, now)};
    w->pieces = pieces_wait(s) && (s->side == SIDE_GOOD || s->retry_at <= now);
    w->anew = s->side == SIDE_GONE && s->retry_at <= now;
    if (job == NULL || job->abandoned)
        return;
    w->closing = job->closing;
    w->blocks = !w->closing && job->len > 0 && tokens_due(s, now) <= now;
    if (job->save->checkpoint != NULL) {
        w->checkpoint = w->closing || w->blocks;
        w->blocks = false;
    } else if (s->side == SIDE_GONE) {
        w->anew = true; /* it ends with what comes of that */
    } else {
        w->begin = !s->begun && !s->cut;
        w->finish = s->begun && w->closing;
        w->blocks = s->begun && w->blocks;
    }
}

static void
work(struct saver *s, struct work *w)
{
    if (saver_vanished(s))
        return;
    if (w->anew) {
        saver_make_anew(s);
        return;
    }
    if (w->pieces || w->blocks)
        pieces_and_blocks(s, w);
    if (w->begin && s->own != NULL)
        begin_save(s);
    if (w->finish && s->own != NULL)
        finish(s);
    if (w->checkpoint)
        saver_checkpoint_go_on(s, w->closing, w->most, w->redo_to);
    if (s->cut && s->side != SIDE_GONE && cut_at(s) <= uv_hrtime())
        cut(s);
}

void
saver_thread(void *arg)
{
    struct saver *s = arg;
    struct work w;

    uv_mutex_lock(&s->lock);
    while (wait_for_work(s)) {
        look(s, &w);
        uv_mutex_unlock(&s->lock);
        work(s, &w);
        uv_mutex_lock(&s->lock);
    }
    take(s);
    uv_mutex_unlock(&s->lock);
}
