/* ps_client_checkpoint(): ask every shard what the job and its variables are; make the files; ask every shard to fill
 * in its blocks; compare their answers with what there should be; give the checkpoint its name. The shards' sides run
 * at the same time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/api/broadcast_query.h"
#include "client/checkpoint/checkpoint_dir_writer.h"
#include "client/checkpoint/job_definition.h"
#include "common/system/now.h"

/* A checkpoint while it is taken. */
struct taking {
    struct call_deadline limit;
    const char *job;
    struct checkpoint manifest;
    struct job_definition is;
    bool at_clock;
    uint64_t clock;
    uint64_t left_out; /* variables that a shard has and the files have not */
};

/* In sync all is of one clock. If the caller names none, that is the next one that no worker has passed; with no live
 * workers it is where they stopped. */
static enum ps_err
choose_clock(struct taking *t, const struct ps_checkpoint_options *options, struct ps_error *e)
{
    Psd__Mode mode = t->manifest.declared->mode;

    if (options->at_clock && mode == PSD__MODE__ASYNC)
        return ps_fail(e, PS_ERR_INVALID,
                       "job '%.64s' is async: it has no clocks to wait for, and no checkpoint at one of them", t->job);
    t->at_clock = options->at_clock != 0;
    t->clock = t->at_clock ? options->clock : t->is.slowest;
    if (!t->at_clock && mode == PSD__MODE__SYNC && t->is.live > 0) {
        t->at_clock = true;
        t->clock = t->is.fastest + 1;
    }
    return PS_OK;
}

/* ---- Filling it ---- */

static enum ps_err
take_share(void *arg, uint32_t shard, struct span answer, struct ps_error *e)
{
    Psd__CheckpointDone *m = psd__checkpoint_done__unpack(NULL, answer.len, answer.data);
    struct taking *t = arg;

    if (m == NULL)
        return broadcast_query_unreadable(shard, e);
    t->left_out = MAX(t->left_out, m->left_out);
    t->manifest.shares[shard] = (struct checkpoint_share){.clock = m->clock, .blocks = m->blocks, .bytes = m->bytes};
    psd__checkpoint_done__free_unpacked(m, NULL);
    return PS_OK;
}

/* Every block was written by one shard. */
static enum ps_err
check_shares(struct taking *t, struct ps_error *e)
{
    struct checkpoint *c = &t->manifest;
    uint64_t blocks = 0, all = checkpoint_blocks(c);
    bool one_clock = c->declared->mode == PSD__MODE__SYNC;

    c->clock = c->shares[0].clock;
    for (uint32_t i = 0; i < c->shares_len; i++) {
        blocks += c->shares[i].blocks;
        one_clock = one_clock && c->shares[i].clock == c->shares[0].clock;
        c->clock = MIN(c->clock, c->shares[i].clock);
    }
    c->at_clock = one_clock;
    if (t->left_out > 0)
        return ps_fail(e, PS_ERR_BUSY, "variables of job '%.64s' were declared while it was taken: take it again",
                       t->job);
    if (blocks != all)
        return ps_fail(e, PS_ERR_IO, "the shards wrote %" PRIu64 " of %" PRIu64 " blocks of job '%.64s'", blocks, all,
                       t->job);
    return PS_OK;
}

/* A shard's error is about a file, or about time: add which directory that is in, or what it waits for. */
static enum ps_err
checkpoint_explain_error(const struct taking *t, const char *dir, enum ps_err err, struct ps_error *e)
{
    char text[PS_ERROR_TEXT_MAX];

    if (e == NULL || err == PS_OK || err == PS_ERR_CANCELLED)
        return err;
    if (err == PS_ERR_TIMEOUT && t->at_clock)
        snprintf(text, sizeof text,
                 "%.350s; it waits for clock %" PRIu64 ", the job was between %" PRIu64 " and %" PRIu64, e->text,
                 t->clock, t->is.slowest, t->is.fastest);
    else
        snprintf(text, sizeof text, "%.300s (in %.190s)", e->text, dir);
    memcpy(e->text, text, sizeof text);
    return err;
}

static enum ps_err
ask_shares(struct taking *t, const char *dir, struct ps_error *e)
{
    Psd__Checkpoint message = PSD__CHECKPOINT__INIT;
    struct broadcast_query a = {
        .limit = &t->limit, .type = MSG_CHECKPOINT, .message = &message.base, .take = take_share, .arg = t};
    uint32_t shards = t->limit.client->shards;
    enum ps_err err;

    message.job = (char *)t->job;
    message.dir = (char *)dir;
    message.at_clock = t->at_clock;
    message.clock = t->at_clock ? t->clock : 0;
    if ((t->manifest.shares = calloc(shards, sizeof *t->manifest.shares)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a checkpoint");
    t->manifest.shares_len = shards;
    err = checkpoint_explain_error(t, dir, broadcast_query_run(&a, 0, shards, e), e);
    return err == PS_OK ? check_shares(t, e) : err;
}

/* ---- A checkpoint ---- */

/* The default name of a checkpoint. */
static const char *
usual_name(const struct taking *t, uint64_t clock, char out[64])
{
    if (t->manifest.declared->mode == PSD__MODE__ASYNC)
        snprintf(out, 64, "unix-%" PRIu64, t->manifest.unix_ms);
    else
        snprintf(out, 64, "clock-%" PRIu64, clock);
    return out;
}

static enum ps_err
checkpoint_write_begin(const struct taking *t, struct dir_writer *m, const char *dir, const char *name,
                       struct ps_error *e)
{
    char usual[64];

    return dir_writer_begin(m, dir, name != NULL ? name : usual_name(t, t->clock, usual), name == NULL, e);
}

/* The clock that was waited for may have passed: the checkpoint is named by the one that it has. */
static enum ps_err
checkpoint_write_end(struct taking *t, struct dir_writer *m, const char *name, struct ps_error *e)
{
    const struct checkpoint_patience patience = call_deadline_for_checksums(&t->limit);
    char usual[64];
    enum ps_err err = PS_OK;

    if (name == NULL && t->manifest.clock != t->clock)
        err = dir_writer_name(m, usual_name(t, t->manifest.clock, usual), true, e);
    return err == PS_OK ? dir_writer_end(m, &t->manifest, &patience, e) : err;
}

static enum ps_err
checkpoint_write_all(struct taking *t, struct dir_writer *m, const char *dir,
                     const struct ps_checkpoint_options *options, struct ps_error *e)
{
    enum ps_err err;

    if ((err = job_definition_query(&t->limit, t->job, &t->manifest, &t->is, e)) != PS_OK ||
        (err = choose_clock(t, options, e)) != PS_OK ||
        (err = checkpoint_write_begin(t, m, dir, options->name, e)) != PS_OK ||
        (err = dir_writer_files(m, &t->manifest, e)) != PS_OK || (err = ask_shares(t, m->partial, e)) != PS_OK ||
        (err = checkpoint_write_end(t, m, options->name, e)) != PS_OK)
        return err;
    return options->keep > 0 ? dir_writer_prune(m, options->keep, e) : PS_OK;
}

enum ps_err
ps_client_checkpoint(ps_client *c, const char *dir, const struct ps_checkpoint_options *options, int timeout_ms,
                     char **name, struct ps_error *error)
{
    static const struct ps_checkpoint_options usual;
    struct dir_writer m = {.fd = -1, .dir_fd = -1};
    struct taking t = {0};
    enum ps_err err;

    if (name != NULL)
        *name = NULL;
    if ((err = call_need(c, dir, error)) != PS_OK)
        return err;
    options = options != NULL ? options : &usual;
    t.job = options->job != NULL ? options->job : c->options.job;
    t.limit = call_deadline_of(c, timeout_ms);
    t.manifest.unix_ms = unix_ms();
    if ((t.manifest.version = strdup(PSD_VERSION)) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "no memory for a checkpoint");
    err = checkpoint_write_all(&t, &m, dir, options, error);
    if (m.whole && name != NULL && (*name = strdup(m.name)) == NULL)
        err = ps_fail(error, PS_ERR_NOMEM, "no memory for the name of a checkpoint");
    dir_writer_close(&m);
    checkpoint_finish(&t.manifest);
    return err;
}
