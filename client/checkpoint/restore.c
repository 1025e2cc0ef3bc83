/* ps_client_restore(): check the files against their checksums here, ask every shard whether it could, then tell every
 * shard to. A shard that sees the same files, as it does on a filesystem that all share, does not read them all again;
 * one that has copies of its own does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/api/broadcast_query.h"
#include "client/checkpoint/checkpoint_dir_writer.h"

static enum ps_err
take_restored(void *arg, uint32_t shard, struct span answer, struct ps_error *e)
{
    (void)arg;
    (void)shard;
    (void)answer;
    (void)e;
    return PS_OK;
}

static enum ps_err
ask_restore(const struct call_deadline *limit, const char *dir, const char *job, struct checkpoint_stamps *verified,
            bool check, struct ps_error *e)
{
    Psd__Restore message = PSD__RESTORE__INIT;
    struct broadcast_query a = {.limit = limit, .type = MSG_RESTORE, .message = &message.base, .take = take_restored};

    message.dir = (char *)dir;
    message.job = (char *)(job != NULL ? job : "");
    message.check = check;
    message.n_verified = ARRAY_LEN(verified->of);
    message.verified = verified->of;
    return broadcast_query_run(&a, 0, limit->client->shards, e);
}

/* The caller may have named the directory that checkpoints are in: add the newest one's path. */
static enum ps_err
restore_explain_latest(enum ps_err err, const char *dir, struct ps_error *e)
{
    char inside[WIRE_PATH_MAX + 64], text[PS_ERROR_TEXT_MAX];

    snprintf(inside, sizeof inside, "%s/" CHECKPOINT_LATEST "/" CHECKPOINT_MANIFEST, dir);
    if (err != PS_ERR_DATA || e == NULL || access(inside, F_OK) != 0)
        return err;
    snprintf(text, sizeof text, "%.300s; the newest one in it is %.150s/" CHECKPOINT_LATEST, e->text, dir);
    memcpy(e->text, text, sizeof text);
    return err;
}

/* A restore that ended in the middle: add what has become of the shards' data. */
static enum ps_err
restore_explain_state(enum ps_err err, const char *what, struct ps_error *e)
{
    char text[PS_ERROR_TEXT_MAX];

    if (err == PS_OK || e == NULL)
        return err;
    snprintf(text, sizeof text, "%.400s; %s", e->text, what);
    memcpy(e->text, text, sizeof text);
    return err;
}

/* Check that the bytes are those that were written. */
static enum ps_err
restore_verify(struct call_deadline *limit, const char *dir, struct checkpoint_stamps *stamps, struct ps_error *e)
{
    const struct checkpoint_patience patience = call_deadline_for_checksums(limit);
    struct checkpoint_source source;
    enum ps_err err = restore_explain_latest(checkpoint_source_open(dir, NULL, &source, e), dir, e);

    /* Stamps first: a file that changes meanwhile has others. */
    if (err == PS_OK && (err = checkpoint_source_stamps(&source, stamps, e)) == PS_OK)
        err = checkpoint_source_verify(dir, &source, &patience, e);
    checkpoint_source_close(&source);
    return err;
}

enum ps_err
ps_client_restore(ps_client *c, const char *path, const char *job, int timeout_ms, struct ps_error *error)
{
    struct checkpoint_stamps verified;
    struct call_deadline limit;
    char *dir;
    enum ps_err err;

    if ((err = call_need(c, path, error)) != PS_OK || (err = dir_writer_resolve(path, &dir, error)) != PS_OK)
        return err;
    limit = call_deadline_of(c, timeout_ms);
    if ((err = restore_verify(&limit, dir, &verified, error)) == PS_OK)
        err = ask_restore(&limit, dir, job, &verified, true, error);
    if (err != PS_OK)
        err = restore_explain_state(err, "nothing has changed", error);
    else if ((err = ask_restore(&limit, dir, job, &verified, false, error)) == PS_ERR_TIMEOUT ||
             err == PS_ERR_CANCELLED)
        err = restore_explain_state(err, "the shards go on with it", error);
    free(dir);
    return err;
}
