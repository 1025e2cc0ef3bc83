#include "server/recovery/open_stores.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "common/system/trace_file.h"
#include "server/lmdb/store_lmdb.h"
#include "server/process/cpu_cache.h"
#include "server/process/log.h"
#include "server/process/sd_notify.h"
#include "server/recovery/live_dir.h"

#define TELL_NS          UINT64_C(1000000000)
#define STREAM_MIN_BYTES (8 * MIB) /* however small the last cache */

/* ---- Rebuilding ---- */

static volatile sig_atomic_t stop_asked;

static void
on_stop(int number)
{
    (void)number;
    stop_asked = 1;
}

static void
listen_to_signals(bool on)
{
    struct sigaction action = {.sa_handler = on ? on_stop : SIG_DFL};

    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
}

struct stores_rebuild {
    struct open_stores *s;
    const char *what;
    uint64_t began_ns, reported_ns;
    uint64_t pieces;
    struct ps_error *e;
    enum ps_err err;
};

static bool
tell_progress(void *arg, uint64_t blocks, uint64_t of)
{
    struct stores_rebuild *r = arg;
    uint64_t now = uv_hrtime();
    char text[96];

    if (now - r->reported_ns >= TELL_NS) {
        r->reported_ns = now;
        snprintf(text, sizeof text, "%s, %" PRIu64 " %%", r->what, of > 0 ? blocks * 100 / of : 100);
        sd_notify_busy(text);
        log_line(LOG_LEVEL_INFO, "%s done=%" PRIu64 " of=%" PRIu64 " percent=%" PRIu64 " seconds=%.1f", r->what, blocks,
                 of, of > 0 ? blocks * 100 / of : 100, (double)(now - r->began_ns) / 1e9);
    }
    return stop_asked == 0;
}

enum ps_err
open_stores_stopped(struct ps_error *e)
{
    return stop_asked == 0 ? PS_OK : ps_fail(e, PS_ERR_CANCELLED, "stopped by a signal before it served");
}

/* A save or a log that is damaged is not served: the operator chooses from what to continue. */
static enum ps_err
say_way_out(const struct open_stores *s, enum ps_err err, struct ps_error *e)
{
    const char *why = store_lmdb_why(s->durable.store);
    struct ps_error what = *e;

    if (err != PS_ERR_IO)
        return err;
    if (*why != '\0')
        return ps_fail(e, err, "%.180s: %.200s. Move that file away, and start with --restore CHECKPOINT", what.text,
                       why);
    return ps_fail(e, err, "%.240s. Move %.200s/data.mdb away, and start with --restore CHECKPOINT", what.text,
                   s->durable.path);
}

static enum ps_err
open_stores_rebuild(struct open_stores *s, struct stores_rebuild *r, uint64_t boot, struct ps_error *e)
{
    enum ps_err err;

    r->what = "rebuilding from the durable directory";
    if (s->durable.durable.manifest.save == 0)
        return PS_OK;
    err = durable_rebuild(&s->durable.durable, s->store, boot, tell_progress, r, e);
    return err == PS_ERR_CANCELLED ? open_stores_stopped(e) : say_way_out(s, err, e);
}

static bool
replay_piece(void *arg, const struct store_key *key, struct span piece)
{
    struct stores_rebuild *r = arg;
    const struct durable *d = &r->s->durable.durable;

    if (key->generation != STORE_GENERATION_REDO)
        return true;
    if ((r->err = d->store->ops->fetch(d->store, piece)) != PS_OK) {
        (void)ps_fail(r->e, r->err, "piece %" PRIu64 " of the redo log is lost", store_redo_number(key));
        return false;
    }
    r->err = shard_replay_piece(r->s->shard, piece, r->e);
    r->pieces++;
    if (r->err == PS_OK && !tell_progress(r, r->pieces, d->redo_next - d->redo_first))
        r->err = open_stores_stopped(r->e);
    return r->err == PS_OK;
}

static enum ps_err
open_stores_replay(struct open_stores *s, struct stores_rebuild *r, uint64_t *records, struct ps_error *e)
{
    struct store *store = s->durable.store;
    struct store_key from = store_redo_key(s->durable.durable.redo_first);
    enum ps_err err;

    r->what = "replaying the redo log";
    r->e = e;
    err = store->ops->each_block_from(store, &from, replay_piece, r);
    if (err != PS_OK)
        return ps_fail(e, err, "the redo log in %s cannot be read: %s", s->durable.path, ps_strerror(err));
    if (r->err == PS_OK)
        r->err = shard_replay_end(s->shard, records, e);
    return say_way_out(s, r->err, e);
}

static void
say_rebuilt(const struct open_stores *s, const struct stores_rebuild *r, uint64_t records)
{
    const struct durable_manifest *m = &s->durable.durable.manifest;
    time_t at = (time_t)(m->unix_ms / 1000);
    char when[32] = "never";
    struct tm tm;

    if (!durable_dir_holds(&s->durable)) {
        log_line(LOG_LEVEL_WARNING,
                 "there is no data in the live directory and none in the durable one: this shard begins empty "
                 "live_dir=%s durable_dir=%s",
                 s->live_dir, s->durable.path);
        return;
    }
    if (m->save != 0)
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &tm));
    if (s->durable.durable.mended > 0)
        log_line(
            LOG_LEVEL_WARNING,
            "blocks of the save did not have their checksums, and were taken from the save before it, which has the "
            "same: is the disk well? first=\"%s\" blocks=%" PRIu64 " save=%" PRIu64 " durable_dir=%s",
            s->durable.durable.first_mended, s->durable.durable.mended, m->save, s->durable.path);
    log_line(LOG_LEVEL_INFO,
             "rebuilt from the durable directory save=%" PRIu64 " saved_at=%s blocks=%" PRIu64 " mib=%" PRIu64
             " replayed=%" PRIu64 " seconds=%.2f durable_dir=%s",
             m->save, when, m->blocks, (uint64_t)(m->bytes / MIB), records, (double)(uv_hrtime() - r->began_ns) / 1e9,
             s->durable.path);
}

/* ---- The shard ---- */

/* Blocks are written past the caches when what the shard holds does not stay in them. The last one is shared by several
 * cores, and often by other machines on the same host: the shard counts on a quarter of it. */
static uint64_t
stream_min(void)
{
    return MAX(cpu_cache_bytes(CPU_CACHE_DIR) / 4, STREAM_MIN_BYTES);
}

static enum ps_err
make_shard(struct open_stores *s, uint64_t boot, struct ps_error *e)
{
    const struct options *o = s->options;
    char machine[TRACE_MACHINE_MAX];
    struct shard_config config = {
        .machine = machine,
        .cluster = o->cluster,
        .shard = (uint32_t)o->shard,
        .shards = (uint32_t)o->shards,
        .boot = boot,
        .grace_ms = (uint32_t)o->grace_ms,
        .gather_bytes_max = o->gather_memory,
        .connections_max = (uint32_t)o->connections_max,
        .jobs_max = (uint32_t)o->jobs_max,
        .variables_max = (uint32_t)o->variables_max,
        .sessions_max = (uint32_t)o->sessions_max,
        .barriers_max = (uint32_t)o->barriers_max,
        .parked_max = (uint32_t)o->parked_max,
        .timeline = timeline_len(o->timeline),
        .parked_bytes_max = o->parked_bytes_max,
        .parked_all_max = o->in_flight / SHARD_PARKED_PART,
        .hello_ms = (uint32_t)o->hello_ms,
        .observer_ms = (uint32_t)o->observer_ms,
        .in_flight_bytes_max = o->in_flight,
        .version = PSD_VERSION,
        .live_dir = s->live_dir,
        .pid = (uint64_t)getpid(),
        .redo_bytes_max = o->redo_backlog,
        .stream_min_bytes = stream_min(),
    };

    trace_machine(machine);
    if (open_stores_is_durable(s)) {
        config.durable = true;
        config.durable_dir = s->durable.path;
        config.saved = s->durable.durable.manifest.save;
        config.redo_next = s->durable.durable.redo_next;
        config.redo_bytes = s->durable.durable.redo_bytes;
    }
    return shard_new(&config, s->store, uv_hrtime() / 1000000, &s->shard, e);
}

static enum ps_err
make_data(struct open_stores *s, bool rebuilds, struct ps_error *e)
{
    struct stores_rebuild r = {.s = s, .began_ns = uv_hrtime(), .reported_ns = uv_hrtime()};
    uint64_t boot, records = 0;
    enum ps_err err;

    if (env_pair_random(&boot) != PS_OK)
        return ps_fail(e, PS_ERR_IO, "cannot get random bytes: %s", strerror(errno));
    if (rebuilds && (err = open_stores_rebuild(s, &r, boot, e)) != PS_OK)
        return err;
    if ((err = make_shard(s, boot, e)) != PS_OK)
        return err;
    if (!rebuilds)
        return PS_OK;
    if ((err = open_stores_replay(s, &r, &records, e)) != PS_OK)
        return err;
    s->data = DATA_REBUILT;
    say_rebuilt(s, &r, records);
    return PS_OK;
}

static bool
count_piece(void *arg, const struct store_key *key, struct span piece)
{
    struct open_stores *s = arg;

    (void)piece;
    if (key->generation == STORE_GENERATION_REDO)
        s->redo_to = store_redo_number(key) + 1;
    return true;
}

/* Pieces that were committed in the live store and may not be on the disk yet. */
static enum ps_err
find_pieces(struct open_stores *s, struct ps_error *e)
{
    struct store_key from;
    enum ps_err err;

    if (!open_stores_is_durable(s))
        return PS_OK;
    s->redo_to = s->durable.durable.redo_next;
    from = store_redo_key(s->redo_to);
    err = s->store->ops->each_block_from(s->store, &from, count_piece, s);
    return err == PS_OK ? PS_OK
                        : ps_fail(e, err, "the live directory %s cannot be read: %s", s->live_dir, ps_strerror(err));
}

static enum ps_err
open_all(struct open_stores *s, struct ps_error *e)
{
    bool rebuilds;
    enum ps_err err;

    if ((err = open_stores_dirs(s, e)) != PS_OK)
        return err;
    rebuilds = s->data == DATA_NEW && open_stores_is_durable(s) && s->durable.pair.id != 0;
    if ((err = make_data(s, rebuilds, e)) != PS_OK || (err = open_stores_join(s, e)) != PS_OK ||
        (err = find_pieces(s, e)) != PS_OK)
        return err;
    return live_dir_mark(s->live_dir, LIVE_DIR_OPEN, e);
}

enum ps_err
open_stores_begin(struct open_stores *s, struct ps_error *e)
{
    enum ps_err err;

    listen_to_signals(true);
    err = open_all(s, e);
    if (err == PS_OK)
        err = open_stores_stopped(e);
    if (err != PS_OK)
        listen_to_signals(false);
    return err;
}

/* ---- Ending ---- */

/* A rebuilt live directory stays: it is complete, and rebuilding it again would take as long. */
void
open_stores_undo(struct open_stores *s)
{
    if (s->data != DATA_NEW)
        return;
    if (open_stores_is_durable(s))
        store_lmdb_undo(s->durable.store);
    s->undone = s->store != NULL;
    if (!s->undone)
        return;
    store_lmdb_undo(s->store);
}

/* A live directory on a disk outlives this boot, so it is synced; on tmpfs there is nothing to do. */
static void
sync_if_on_disk(struct open_stores *s)
{
    struct ps_error e;

    if (!s->report.on_disk)
        return;
    if (store_lmdb_sync(s->store) != PS_OK)
        log_line(LOG_LEVEL_ERROR, "cannot sync: %s live_dir=%s", strerror(errno), s->live_dir);
    else if (live_dir_mark(s->live_dir, LIVE_DIR_SYNCED, &e) != PS_OK)
        log_line(LOG_LEVEL_ERROR, "%s", e.text);
}

void
open_stores_close(struct open_stores *s)
{
    shard_free(s->shard);
    durable_dir_close(&s->durable);
    if (s->store == NULL)
        return;
    if (!s->undone)
        sync_if_on_disk(s);
    s->store->ops->close(s->store);
}
