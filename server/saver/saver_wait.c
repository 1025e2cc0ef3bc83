/* Decides what is due, and when.
 *
 * Pieces first: pushes wait for them. Blocks as the write rate lets them, in chunks that are small while durable pushes
 * are about, since the next piece waits for the sync that is under way. */
#include "server/saver/saver_state.h"

#define CHUNK_MIN         (1 * MIB)
#define CHUNKS_PER_SAVE   16                   /* at least, of a save that is not small: see saver_chunk_bytes() */
#define CHUNKS_PER_SECOND 4                    /* a rate is kept in steps that are no shorter */
#define ABOUT_NS          UINT64_C(1000000000) /* so long after a piece durable pushes are about */
#define NEVER             UINT64_MAX

/* What LMDB frees in one transaction is used again by the next but one, so that the file holds two chunks besides the
 * saves: a sixteenth of a save each keeps it below 2.2 times the data. */
static uint64_t
saver_chunk_bytes(const struct saver *s, uint64_t now)
{
    uint64_t most = s->pieces_at != 0 && now - s->pieces_at < ABOUT_NS ? SAVER_CHUNK_SMALL : SAVER_CHUNK;

    if (s->own != NULL)
        most = MIN(most, MAX(s->own->save->bytes / CHUNKS_PER_SAVE, SAVER_CHUNK_SMALL));
    return s->rate == 0 ? most : MIN(MAX(s->rate / CHUNKS_PER_SECOND, CHUNK_MIN), most);
}

/* A token bucket: it holds one chunk. */
static uint64_t
tokens_due(struct saver *s, uint64_t now)
{
    double full = (double)saver_chunk_bytes(s, now);

    if (s->rate == 0)
        return 0;
    s->tokens = MIN(full, s->tokens + (double)s->rate * (double)(now - s->tokens_at) / 1e9);
    s->tokens_at = now;
    return s->tokens >= full ? 0 : now + (uint64_t)((full - s->tokens) * 1e9 / (double)s->rate) + 1;
}

bool
saver_save_waits(const struct saver *s)
{
    return s->own != NULL && s->own->save->checkpoint == NULL && !s->begun;
}

static uint64_t
job_due(struct saver *s, uint64_t now)
{
    const struct saver_job *job = s->own;

    if (job->abandoned || job->closing || saver_save_waits(s))
        return 0;
    return job->len == 0 ? NEVER : tokens_due(s, now);
}

bool
saver_pieces_wait(const struct saver *s)
{
    return (s->durable_state == DURABLE_OK || s->durable_state == DURABLE_FULL) && s->redo_next < s->redo_to;
}

/* Leftovers of the redo log are removed in small steps; at once when a save is to begin, which is staged in their
 * pages: else the file would hold both. */
static uint64_t
cut_at(const struct saver *s)
{
    return saver_save_waits(s) ? 0 : s->cut_at;
}

bool
saver_cut_is_due(const struct saver *s)
{
    return s->cut && s->durable_state != DURABLE_LOST && cut_at(s) <= uv_hrtime();
}

static uint64_t
due_at(struct saver *s, uint64_t now)
{
    uint64_t at = s->look ? 0 : NEVER;

    if (s->durable_state == DURABLE_LOST)
        at = MIN(at, s->retry_at);
    if (saver_pieces_wait(s))
        at = s->durable_state == DURABLE_FULL ? MIN(at, s->retry_at) : 0;
    if (s->own != NULL)
        at = MIN(at, job_due(s, now));
    if (s->cut && s->durable_state != DURABLE_LOST)
        at = MIN(at, cut_at(s));
    return at;
}

/* Take the save that has come, drop one that is abandoned. */
static void
saver_take_incoming(struct saver *s)
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

/* The kind and the state of the current job. */
enum due_state {
    DUE_NO_JOB, /* or abandoned */
    DUE_CHECKPOINT,
    DUE_FILE_GONE, /* a save, and the durable file is gone: it ends with what comes of making another */
    DUE_CUT_FIRST, /* a save that may not begin before leftovers of the redo log are cut off */
    DUE_BEGIN,
    DUE_STAGE /* a save that has begun */
};

static enum due_state
due_state(const struct saver *s)
{
    if (s->own == NULL || s->own->abandoned)
        return DUE_NO_JOB;
    if (s->own->save->checkpoint != NULL)
        return DUE_CHECKPOINT;
    if (s->durable_state == DURABLE_LOST)
        return DUE_FILE_GONE;
    if (s->begun)
        return DUE_STAGE;
    return s->cut ? DUE_CUT_FIRST : DUE_BEGIN;
}

/* What is due of a job, by its state: at once, when blocks of it may be written, and when it is closing. */
/* clang-format off */
static const struct due_row {
    bool anew, begin;
    bool blocks, part; /* blocks may be written: of a save, of a checkpoint */
    bool finish, end;  /* it is closing: a save, a checkpoint */
} due_rows[] = {
    /*                   anew   begin  blocks part   finish end */
    [DUE_NO_JOB]     = {false, false, false, false, false, false},
    [DUE_CHECKPOINT] = {false, false, false, true,  false, true},
    [DUE_FILE_GONE]  = {true,  false, false, false, false, false},
    [DUE_CUT_FIRST]  = {false, false, false, false, false, false},
    [DUE_BEGIN]      = {false, true,  false, false, false, false},
    [DUE_STAGE]      = {false, false, true,  false, true,  false},
};
/* clang-format on */

static void
due_of_job(struct saver *s, uint64_t now, struct saver_due *due)
{
    enum due_state state = due_state(s);
    const struct due_row *row = &due_rows[state];
    bool closing = state != DUE_NO_JOB && s->own->closing;
    bool blocks = state != DUE_NO_JOB && !closing && s->own->len > 0 && tokens_due(s, now) <= now;

    due->closing = closing;
    due->anew |= row->anew;
    due->begin = row->begin;
    due->blocks = row->blocks && blocks;
    due->finish = row->finish && closing;
    due->checkpoint = (row->part && blocks) || (row->end && closing);
}

static void
saver_find_due(struct saver *s, struct saver_due *due)
{
    uint64_t now = uv_hrtime();

    s->look = false;
    *due = (struct saver_due){.redo_to = s->redo_to, .most = saver_chunk_bytes(s, now)};
    due->pieces = saver_pieces_wait(s) && (s->durable_state == DURABLE_OK || s->retry_at <= now);
    due->anew = s->durable_state == DURABLE_LOST && s->retry_at <= now;
    due_of_job(s, now, due);
}

bool
saver_wait(struct saver *s, struct saver_due *due)
{
    uint64_t now, at;

    for (;;) {
        saver_take_incoming(s);
        now = uv_hrtime();
        at = due_at(s, now);
        if (s->stopping && !(saver_pieces_wait(s) && s->durable_state == DURABLE_OK)) {
            saver_take_incoming(s); /* a save that was abandoned before it was taken */
            return false;
        }
        if (at <= now) {
            saver_find_due(s, due);
            return true;
        }
        if (at == NEVER)
            uv_cond_wait(&s->wake, &s->lock);
        else
            uv_cond_timedwait(&s->wake, &s->lock, at - now);
    }
}
