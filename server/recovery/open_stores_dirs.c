/* Finds and opens the directories of a start, and checks whether their data belongs together. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "server/lmdb/store_lmdb.h"
#include "server/process/log.h"
#include "server/process/options_limits.h"
#include "server/recovery/live_dir.h"
#include "server/recovery/open_stores.h"

static_assert(STORE_DIR_BYTES_MIN == OPTIONS_LIMITS_DATA_MIN, "a memory limit leaves as much as a directory needs");

/* ---- Directories ---- */

static enum ps_err
copy_path(const char *option, const char *path, char out[PATH_MAX], struct ps_error *e)
{
    if (strlen(path) + 32 > PATH_MAX) /* with the files' names in it */
        return ps_fail(e, PS_ERR_CONFIG, "%s: the path is too long", option);
    strcpy(out, path);
    return PS_OK;
}

static enum ps_err
find_live_dir(struct open_stores *s, struct ps_error *e)
{
    const struct options *o = s->options;

    if (o->live_dir == NULL)
        return live_dir_default(o->cluster, o->shard, s->live_dir, sizeof s->live_dir, e);
    return copy_path("--live-dir", o->live_dir, s->live_dir, e);
}

/* *path stays "" when there is none. */
static enum ps_err
find_durable_dir(struct open_stores *s, struct ps_error *e)
{
    const char *given = s->options->durable_dir;

    if (given == NULL) {
        (void)durable_dir_default(s->durable.path, sizeof s->durable.path);
        return PS_OK;
    }
    return strcmp(given, "none") == 0 ? PS_OK : copy_path("--durable-dir", given, s->durable.path, e);
}

/* Whether both paths are the same directory, whatever their names. */
static bool
is_same_dir(const char *one, const char *other)
{
    struct stat a, b;

    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static enum ps_err
open_durable(struct open_stores *s, struct ps_error *e)
{
    enum ps_err err;

    s->durable.cluster = s->options->cluster;
    s->durable.shard = (uint32_t)s->options->shard;
    s->durable.shards = (uint32_t)s->options->shards;
    if ((err = find_durable_dir(s, e)) != PS_OK || *s->durable.path == '\0')
        return err;
    if ((err = durable_dir_open(&s->durable, false, e)) != PS_OK)
        return err;
    if (is_same_dir(s->durable.path, s->live_dir))
        return ps_fail(e, PS_ERR_CONFIG, "--durable-dir and --live-dir are the same directory: %s", s->live_dir);
    return PS_OK;
}

/* What a killed start leaves is known by its mark, so that is there first. */
static enum ps_err
mark_new(void *arg, const char *dir, struct ps_error *e)
{
    const struct open_stores *s = arg;
    bool rebuilds = open_stores_is_durable(s) && durable_dir_holds(&s->durable);

    return live_dir_mark(dir, rebuilds ? LIVE_DIR_MAKING : LIVE_DIR_EMPTY, e);
}

static enum ps_err
open_live(struct open_stores *s, struct ps_error *e)
{
    struct store_lmdb_options o = {
        .dir = s->live_dir,
        .max_bytes = s->options->memory,
        .most_bytes = s->options->memory_most,
        .sharers = s->options->shards_here,
        .before_new = mark_new,
        .before_new_arg = s,
    };
    bool discard = s->options->discard_stale || (open_stores_is_durable(s) && durable_dir_holds(&s->durable)),
         discarded;
    enum ps_err err;

    if ((err = live_dir_check(s->live_dir, discard, &discarded, e)) != PS_OK)
        return err;
    if (discarded)
        log_line(LOG_LEVEL_WARNING, "discarded what another boot left unsynced live_dir=%s", s->live_dir);
    if ((err = store_lmdb_open(&o, &s->store, &s->report, e)) != PS_OK)
        return err;
    s->data = s->report.existed ? DATA_KEPT : DATA_NEW;
    /* "synced" ends before anything is written: after a power loss from here on the data may be torn. */
    return s->data == DATA_KEPT ? live_dir_mark(s->live_dir, LIVE_DIR_OPEN, e) : PS_OK;
}

static enum ps_err
close_and_discard_live(struct open_stores *s, struct ps_error *e)
{
    s->store->ops->close(s->store);
    s->store = NULL;
    return live_dir_discard(s->live_dir, e);
}

/* ---- Whether the two belong together ---- */

static enum ps_err
write_pair(struct store *store, const struct env_pair *pair, const char *dir, struct ps_error *e)
{
    enum ps_err err = env_pair_write(store, pair);

    return err == PS_OK ? PS_OK : ps_fail(e, err, "cannot write in %s: %s", dir, ps_strerror(err));
}

/* Updates without a durable directory: a durable directory that is given again later will have missed them. */
static enum ps_err
leave_durable_behind(struct open_stores *s, struct env_pair *live, struct ps_error *e)
{
    if (live->id == 0 || live->behind)
        return PS_OK;
    live->behind = true;
    return write_pair(s->store, live, s->live_dir, e);
}

static enum ps_err
refuse_pair(const struct open_stores *s, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_CONFIG,
                   "the live directory %s and the durable directory %s do not belong together: name the right one, or "
                   "move the one away whose data is not wanted",
                   s->live_dir, s->durable.path);
}

static enum ps_err
match_kept(struct open_stores *s, struct ps_error *e)
{
    struct env_pair *disk = &s->durable.pair, live;
    enum ps_err err = env_pair_read(s->store, &live);

    if (err != PS_OK)
        return ps_fail(e, err, "the live directory %s cannot be read: %s", s->live_dir, ps_strerror(err));
    if (!open_stores_is_durable(s))
        return leave_durable_behind(s, &live, e);
    if (disk->id != 0 && live.id == disk->id && live.life == disk->life) {
        s->needs_full_save = disk->behind || live.behind;
        return PS_OK;
    }
    if (!durable_dir_holds(&s->durable)) { /* new, or of a start that ended before it wrote the pair to both */
        *disk = (struct env_pair){0};
        s->needs_full_save = true;
        return PS_OK;
    }
    if (live.id != disk->id)
        return refuse_pair(s, e);
    log_line(LOG_LEVEL_WARNING,
             "discarded an older copy of the data: the durable directory went on with another "
             "live_dir=%s durable_dir=%s",
             s->live_dir, s->durable.path);
    if ((err = close_and_discard_live(s, e)) != PS_OK)
        return err;
    return open_live(s, e);
}

/* The disk failed, and then the memory was lost, before a save was in the new file: the last one is in the old file,
 * and the operator must decide whether to begin without it. */
static enum ps_err
refuse_to_forget(const struct open_stores *s, struct ps_error *e)
{
    uint32_t bad = open_stores_is_durable(s) ? store_dir_bad(s->durable.path) : 0;

    if (bad == 0 || s->data != DATA_NEW || durable_dir_holds(&s->durable))
        return PS_OK;
    return ps_fail(e, PS_ERR_IO,
                   "there is no data in the live directory %s, and in the durable directory %s all of it may be in "
                   "data.mdb.bad-%" PRIu32 ", which was set aside when its disk failed: rename that to data.mdb to go "
                   "on from its last save, or move it away to begin empty",
                   s->live_dir, s->durable.path, bad);
}

/* ---- Opening both ---- */

static void
warn_about_dirs(const struct open_stores *s)
{
    if (s->report.on_disk)
        log_line(LOG_LEVEL_WARNING,
                 "the live directory is on a disk: updates will run at its speed once the page cache is full of them; "
                 "use a directory on tmpfs live_dir=%s filesystem=%s",
                 s->live_dir, s->report.fs_name);
    if (open_stores_is_durable(s) && s->durable.in_memory)
        log_line(LOG_LEVEL_WARNING,
                 "the durable directory is in memory: a reboot takes it away; use one on a disk durable_dir=%s",
                 s->durable.path);
}

enum ps_err
open_stores_dirs(struct open_stores *s, struct ps_error *e)
{
    enum ps_err err;

    if ((err = find_live_dir(s, e)) != PS_OK || (err = open_durable(s, e)) != PS_OK || (err = open_live(s, e)) != PS_OK)
        return err;
    if ((s->data == DATA_KEPT && (err = match_kept(s, e)) != PS_OK) || (err = refuse_to_forget(s, e)) != PS_OK)
        return err;
    warn_about_dirs(s);
    return PS_OK;
}

static bool
is_same_pair(const struct env_pair *a, const struct env_pair *b)
{
    return a->id == b->id && a->life == b->life && a->behind == b->behind;
}

/* Only what changes is written: a start that goes on as before needs no room. The durable environment first: a live one
 * that it does not know yet is discarded by the next start. */
enum ps_err
open_stores_join(struct open_stores *s, struct ps_error *e)
{
    struct env_pair *disk = &s->durable.pair, was = *disk, live, live_was;
    bool anew = s->data != DATA_KEPT || disk->id == 0;
    enum ps_err err = PS_OK;

    if (!open_stores_is_durable(s))
        return PS_OK;
    if ((err = env_pair_read(s->store, &live_was)) != PS_OK)
        return ps_fail(e, err, "the live directory %s cannot be read: %s", s->live_dir, ps_strerror(err));
    disk->id = s->durable.durable.id;
    if (anew && (err = env_pair_random(&disk->life)) != PS_OK)
        return ps_fail(e, err, "cannot get random bytes: %s", strerror(errno));
    disk->behind = s->needs_full_save;
    live = *disk;
    live.behind = false;
    if (!is_same_pair(disk, &was) && (err = write_pair(s->durable.store, disk, s->durable.path, e)) != PS_OK)
        return err;
    return is_same_pair(&live, &live_was) ? PS_OK : write_pair(s->store, &live, s->live_dir, e);
}
