#include "server/recovery/durable_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/core/durability/identity.h"
#include "server/lmdb/store_lmdb.h"

bool
durable_dir_default(char *out, size_t size)
{
    const char *state = getenv("STATE_DIRECTORY");

    if (state == NULL || *state == '\0')
        return false;
    snprintf(out, size, "%.*s/durable", (int)strcspn(state, ":"), state); /* several are separated by colons */
    return true;
}

/* A directory of another user, or of another psd, is refused, never removed. */
static enum ps_err
durable_dir_refuse(const struct durable_dir *d, enum ps_err err, const struct ps_error *why, struct ps_error *e)
{
    return ps_fail(e, err, "the durable directory %s cannot be used: %s; to begin without what is in it, move it away",
                   d->path, why->text);
}

enum ps_err
durable_dir_open(struct durable_dir *d, bool set_aside, struct ps_error *e)
{
    struct store_lmdb_options options = {.dir = d->path, .durable = true, .set_aside = set_aside};
    struct store_dir_report report;
    struct ps_error why = {0};
    uint64_t id = d->pair.id; /* a new file of a pair keeps the id of the previous one */
    enum ps_err err;

    if (id == 0 && env_pair_random(&id) != PS_OK)
        return ps_fail(e, PS_ERR_IO, "cannot get random bytes");
    err = store_lmdb_open(&options, &d->store, &report, e);
    if (report.set_aside != 0) /* whether or not there is a new one */
        d->aside = report.set_aside;
    if (err != PS_OK)
        return err;
    d->in_memory = !report.on_disk;
    if ((err = durable_open(&d->durable, d->store, d->cluster, d->shard, d->shards, id, &why)) == PS_OK &&
        (err = env_pair_read(d->store, &d->pair)) != PS_OK)
        ps_fail(&why, err, "%s", err == PS_ERR_IO ? "its row 'pair' is damaged, or cannot be read" : ps_strerror(err));
    if (err == PS_OK && d->pair.id == 0 && durable_dir_holds(d))
        err = ps_fail(&why, PS_ERR_IO, "its row 'pair' is missing");
    if (err == PS_OK)
        return PS_OK;
    if (set_aside)
        store_lmdb_undo(d->store); /* or the next try would set this one aside, and finally remove the first */
    durable_dir_close(d);
    return durable_dir_refuse(d, err, &why, e);
}

/* Reads cluster and shard from the environment itself. */
static enum ps_err
open_as_it_is(struct durable_dir *d, struct ps_error *e)
{
    Psd__ShardRow *row;
    enum ps_err err = identity_get(d->store, identity_durable, &row);

    if (err != PS_OK)
        return ps_fail(e, err, "%s",
                       err == PS_ERR_IO ? "its row 'durable' is damaged, or cannot be read" : ps_strerror(err));
    if (row == NULL)
        return ps_fail(e, PS_ERR_NOT_FOUND, "it is no durable environment");
    d->shard = row->shard;
    d->shards = row->shards;
    err = durable_open(&d->durable, d->store, row->cluster, row->shard, row->shards, row->boot, e);
    psd__shard_row__free_unpacked(row, NULL);
    d->cluster = d->durable.cluster;
    return err;
}

enum ps_err
durable_dir_open_there(struct durable_dir *d, const char *path, struct ps_error *e)
{
    struct store_lmdb_options options = {.dir = path, .durable = true, .anyones = true}; /* root may look at it */
    struct store_dir_report report;
    struct ps_error why;
    char file[PATH_MAX + 16];
    enum ps_err err;

    if (strlen(path) + 32 > sizeof d->path)
        return ps_fail(e, PS_ERR_CONFIG, "the path is too long: %.64s...", path);
    strcpy(d->path, path);
    snprintf(file, sizeof file, "%s/data.mdb", path);
    if (access(file, F_OK) != 0)
        return ps_fail(e, PS_ERR_NOT_FOUND, "there is no durable directory %s", path);
    if ((err = store_lmdb_open(&options, &d->store, &report, e)) != PS_OK)
        return err;
    if ((err = open_as_it_is(d, &why)) == PS_OK)
        return PS_OK;
    durable_dir_close(d);
    return ps_fail(e, err, "the durable directory %s cannot be used: %s", path, why.text);
}

void
durable_dir_close(struct durable_dir *d)
{
    if (d->store != NULL)
        d->store->ops->close(d->store);
    durable_close(&d->durable);
    d->store = NULL;
}

bool
durable_dir_still_there(const struct durable_dir *d)
{
    return store_lmdb_still_there(d->store);
}

bool
durable_dir_holds(const struct durable_dir *d)
{
    return d->durable.manifest.save != 0 || d->durable.redo_next > 1;
}
