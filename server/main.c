/* psd: options, the live environment, the shard, the daemon; then all of it back.
 *
 * Every failure on the way is one line and an exit status that --help lists. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base.h"
#include "common/cli/streams.h"
#include "daemon.h"
#include "live_dir.h"
#include "log.h"
#include "notify.h"
#include "options.h"
#include "shard.h"
#include "store_lmdb.h"

#ifndef PSD_VERSION
#define PSD_VERSION "unknown"
#endif

/* What reload() needs: the command line stays as it was. */
static int main_argc;
static char **main_argv;

struct server {
    struct options options;
    char live_dir[PATH_MAX];
    struct store_dir_report report;
    struct store *store;
    struct shard *shard;
    struct daemon daemon;
    bool undone; /* it could not start, and what it had made is gone */
};

static enum ps_err
load_options(struct options *o, struct ps_error *e)
{
    const char *tf_config = getenv("TF_CONFIG");
    enum ps_err err = options_parse(o, main_argc, main_argv, e);

    if (err != PS_OK || o->line.asked != COMMAND_RUN || o->sample_config)
        return err;
    if (tf_config != NULL)
        return options_apply_tf_config(o, tf_config, e);
    return options_apply_shards(o, getenv("PSD_SHARDS"), e);
}

static enum ps_err
check_ready_fd(const struct options *o, struct ps_error *e)
{
    if (o->ready_fd != 0 && fcntl((int)o->ready_fd, F_GETFD) < 0)
        return ps_fail(e, PS_ERR_CONFIG, "--ready-fd: descriptor %" PRIu64 " is not open", o->ready_fd);
    return PS_OK;
}

/* ---- Starting ---- */

/* A connection is a descriptor; the usual limit of 1024 is for programs that use select(). */
static void
raise_descriptors(const struct options *o)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < o->connections_max + 32)
        log_line(LOG_LEVEL_WARNING, "the limit of open files is below --connections-max limit=%" PRIu64 " max=%" PRIu64,
                 (uint64_t)limit.rlim_cur, o->connections_max);
}

static enum ps_err
find_live_dir(struct server *s, struct ps_error *e)
{
    const struct options *o = &s->options;

    if (o->live_dir == NULL)
        return live_dir_default(o->cluster, o->shard, s->live_dir, sizeof s->live_dir, e);
    if (strlen(o->live_dir) + 32 > sizeof s->live_dir) /* with the files' names in it */
        return ps_fail(e, PS_ERR_CONFIG, "--live-dir: the path is too long");
    snprintf(s->live_dir, sizeof s->live_dir, "%s", o->live_dir);
    return PS_OK;
}

static void
warn_about_live_dir(const struct server *s)
{
    if (s->report.on_disk)
        log_line(LOG_LEVEL_WARNING,
                 "the live directory is on a disk: updates will run at its speed once the page cache is full of them; "
                 "use a directory on tmpfs live_dir=%s filesystem=%s",
                 s->live_dir, s->report.fs_name);
}

static enum ps_err
open_store(struct server *s, struct ps_error *e)
{
    struct store_lmdb_options o = {.dir = s->live_dir, .max_bytes = s->options.memory};
    bool discarded;
    enum ps_err err;

    if ((err = find_live_dir(s, e)) != PS_OK ||
        (err = live_dir_check(s->live_dir, s->options.discard_stale, &discarded, e)) != PS_OK)
        return err;
    if (discarded)
        log_line(LOG_LEVEL_WARNING, "discarded what another boot left unsynced live_dir=%s", s->live_dir);
    if ((err = store_lmdb_open(&o, &s->store, &s->report, e)) != PS_OK)
        return err;
    warn_about_live_dir(s);
    return live_dir_mark(s->live_dir, false, e);
}

static enum ps_err
open_shard(struct server *s, struct ps_error *e)
{
    const struct options *o = &s->options;
    struct shard_config config = {
        .cluster = o->cluster,
        .shard = (uint32_t)o->shard,
        .shards = (uint32_t)o->shards,
        .grace_ms = (uint32_t)o->grace_ms,
        .gather_bytes_max = o->gather_memory,
        .connections_max = (uint32_t)o->connections_max,
        .jobs_max = (uint32_t)o->jobs_max,
        .variables_max = (uint32_t)o->variables_max,
        .sessions_max = (uint32_t)o->sessions_max,
        .barriers_max = (uint32_t)o->barriers_max,
        .parked_max = (uint32_t)o->parked_max,
        .parked_bytes_max = o->parked_bytes_max,
        .hello_ms = (uint32_t)o->hello_ms,
        .in_flight_bytes_max = o->in_flight,
        .version = PSD_VERSION,
        .live_dir = s->live_dir,
        .pid = (uint64_t)getpid(),
    };

    if (getrandom(&config.boot, sizeof config.boot, 0) != sizeof config.boot)
        return ps_fail(e, PS_ERR_IO, "cannot get random bytes: %s", strerror(errno));
    return shard_new(&config, s->store, uv_hrtime() / 1000000, &s->shard, e);
}

static void
log_start(const struct server *s)
{
    const struct options *o = &s->options;
    struct store_usage usage;

    s->store->ops->usage(s->store, &usage);
    log_line(LOG_LEVEL_INFO,
             "psd " PSD_VERSION " serves cluster=%s shard=%" PRIu64 "/%" PRIu64 " live_dir=%s data=%s used_mib=%" PRIu64
             " max_mib=%" PRIu64 "%s%s",
             o->cluster, o->shard, o->shards, s->live_dir, s->report.existed ? "kept" : "new",
             (uint64_t)(usage.used_bytes / MIB), (uint64_t)(usage.max_bytes / MIB),
             o->advertise != NULL ? " advertise=" : "", o->advertise != NULL ? o->advertise : "");
}

static enum ps_err
start(struct server *s, struct ps_error *e)
{
    enum ps_err err;

    if ((err = open_store(s, e)) != PS_OK || (err = open_shard(s, e)) != PS_OK)
        return err;
    s->daemon.options = &s->options;
    s->daemon.store = s->store;
    s->daemon.shard = s->shard;
    s->daemon.live_dir = s->live_dir;
    s->daemon.reload = load_options;
    if ((err = daemon_start(&s->daemon, e)) != PS_OK)
        return err;
    log_start(s);
    return notify_ready(&s->daemon, e);
}

/* ---- Stopping ---- */

/* What lies on a disk outlives this boot, so it is made whole; on tmpfs there is nothing to do. */
static void
sync_if_on_disk(struct server *s)
{
    struct ps_error e;

    if (!s->report.on_disk)
        return;
    if (store_lmdb_sync(s->store) != PS_OK)
        log_line(LOG_LEVEL_ERROR, "cannot sync: %s live_dir=%s", strerror(errno), s->live_dir);
    else if (live_dir_mark(s->live_dir, true, &e) != PS_OK)
        log_line(LOG_LEVEL_ERROR, "%s", e.text);
}

/* A psd that could not start leaves no new live directory behind. */
static void
undo(struct server *s)
{
    s->undone = s->store != NULL && !s->report.existed;
    if (!s->undone)
        return;
    live_dir_unmark(s->live_dir);
    store_lmdb_undo(s->store);
}

static void
stop(struct server *s)
{
    daemon_finish(&s->daemon);
    shard_free(s->shard);
    if (s->store == NULL)
        return;
    if (!s->undone)
        sync_if_on_disk(s);
    s->store->ops->close(s->store);
}

static int
serve(struct server *s)
{
    struct ps_error e = {0};
    enum ps_err err = start(s, &e);

    if (err == PS_OK) {
        daemon_run(&s->daemon);
    } else {
        log_line(LOG_LEVEL_ERROR, "%s", e.text);
        undo(s);
    }
    stop(s);
    if (err == PS_OK)
        log_line(LOG_LEVEL_INFO, "stopped");
    return err == PS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int
run(struct server *s)
{
    struct ps_error e = {0};

    if (load_options(&s->options, &e) != PS_OK || check_ready_fd(&s->options, &e) != PS_OK) {
        fprintf(stderr, "psd: %s\n", e.text);
        return EXIT_USAGE;
    }
    if (s->options.line.asked != COMMAND_RUN)
        return command_answer(&psd_command, &s->options.line, stdout);
    if (s->options.sample_config || s->options.check) {
        if (s->options.sample_config)
            options_sample(stdout);
        else
            puts("psd: the options are valid");
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    log_open(s->options.log_level);
    raise_descriptors(&s->options);
    return serve(s);
}

int
main(int argc, char **argv)
{
    struct server *s;
    int status;

    streams_open();
    if ((s = calloc(1, sizeof *s)) == NULL)
        return EXIT_FAILURE;
    main_argc = argc;
    main_argv = argv;
    status = run(s);
    options_finish(&s->options);
    free(s);
    return status;
}
