/* The happy path: run_prepare() makes the directory and reserves ports; run_start() starts the shards; each says where
 * it listens; then the workers start; run_gone() hears of each end and run_advance() moves the run on. Failures go
 * through run_fail(), which keeps the first one's status and has everything stopped. */
#include "run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fate.h"
#include "process.h"
#include "common/units.h"

#define STATUS_NOT_STARTED 1
#define STATUS_LATE        124         /* as timeout(1) */
#define RUN_SHARD_BYTES    (128 * MIB) /* that a shard should find in memory; it refuses to start in less than 80 */
#define TAG_COLOUR_SHARD   90
#define TAG_COLOUR_PSRUN   35

enum run_state { RUN_STARTING, RUN_WORKING, RUN_ENDING, RUN_CLOSING, RUN_DONE };

struct run {
    struct plan *plan;
    const char *exe;
    uv_loop_t loop;
    uv_async_t wake; /* a signal came */
    uv_timer_t ready, grace, timeout;
    struct screen screen;
    struct screen_tag tag;
    enum run_state state;
    struct process *processes; /* shards, then workers */
    uint32_t shards, workers;
    int *port_fds; /* [workers] hold the ports */
    int64_t restarts_left;
    bool interrupted; /* by a signal, the timeout or a closed output: nothing is kept */
    bool failed, releasing;
    int signals_seen, status;
    char dir[64];
    char *buffer;
};

/* What a signal handler may touch. */
static volatile sig_atomic_t run_signal, run_signals;
static uv_async_t *run_wake;

static void run_advance(struct run *r);

/* ---- saying ---- */

PS_PRINTF(2, 3)
static void
run_say(struct run *r, const char *format, ...)
{
    char text[2048];
    va_list args;
    int len = r->screen.prefix ? 0 : snprintf(text, sizeof text, "psrun: ");

    va_start(args, format);
    vsnprintf(text + len, sizeof text - (size_t)len, format, args);
    va_end(args);
    screen_line(&r->screen, SCREEN_ERR, &r->tag, text, strlen(text));
}

/* The first failure decides the exit status; the run then goes towards its end. */
static void
run_fail(struct run *r, int status)
{
    if (!r->failed)
        r->status = status;
    r->failed = true;
    run_advance(r);
}

static void
run_interrupt(struct run *r, int status)
{
    r->interrupted = true;
    run_fail(r, status);
}

/* ---- which processes ---- */

static bool
run_is_worker(const struct run *r, const struct process *p)
{
    return p >= r->processes + r->shards;
}

static uint32_t
run_index(const struct run *r, const struct process *p)
{
    return (uint32_t)(p - r->processes) - (run_is_worker(r, p) ? r->shards : 0);
}

static uint32_t
run_alive(const struct run *r, uint32_t from, uint32_t to)
{
    uint32_t n = 0;

    for (uint32_t i = from; i < to; i++)
        n += r->processes[i].alive;
    return n;
}

static uint32_t
run_shards_alive(const struct run *r)
{
    return run_alive(r, 0, r->shards);
}

static uint32_t
run_workers_alive(const struct run *r)
{
    return run_alive(r, r->shards, r->shards + r->workers);
}

static bool
run_all_listen(const struct run *r)
{
    for (uint32_t i = 0; i < r->shards; i++)
        if (!r->processes[i].alive || !r->processes[i].listens)
            return false;
    return true;
}

/* ---- starting ---- */

static void
run_start_shard(struct run *r, uint32_t shard)
{
    struct words argv = {0}, env = {0};
    bool keep = r->plan->settings->keep_servers;
    char dir[128], log[160];
    struct ps_error e;

    plan_shard_dir(r->plan, shard, dir, sizeof dir);
    snprintf(log, sizeof log, "%s/log", dir);
    plan_shard_argv(r->plan, shard, KEEP_READY_FD, &argv);
    plan_shard_env(r->plan, environ, &env);
    if (process_start(&r->processes[shard],
                      &(struct process_start){.exe = r->exe,
                                              .argv = argv.text,
                                              .env = env.text,
                                              .remove_dir = dir,
                                              .log = keep ? log : NULL,
                                              .ready = true,
                                              .keepable = keep},
                      &e) != PS_OK) {
        run_say(r, "%s", e.text);
        run_fail(r, STATUS_NOT_STARTED);
    }
    words_free(&argv);
    words_free(&env);
}

static void
run_start_worker(struct run *r, uint32_t worker)
{
    struct words env = {0};
    struct ps_error e;

    plan_worker_env(r->plan, worker, screen_columns(&r->screen), environ, &env);
    if (process_start(
            &r->processes[r->shards + worker],
            &(struct process_start){.exe = r->exe, .argv = r->plan->program, .env = env.text, .remove_dir = ""},
            &e) != PS_OK) {
        run_say(r, "%s", e.text);
        run_fail(r, STATUS_NOT_STARTED);
    }
    words_free(&env);
}

/* ---- ending ---- */

static void
run_each(struct run *r, uint32_t from, uint32_t to, void (*act)(struct process *p))
{
    for (uint32_t i = from; i < to; i++)
        act(&r->processes[i]);
}

static void
run_kill_all(struct run *r)
{
    run_each(r, 0, r->shards + r->workers, process_kill);
}

/* The grace is over: those that are being stopped are killed; in RUN_ENDING the shards have not been asked yet. */
static void
run_grace_over(uv_timer_t *timer)
{
    struct run *r = timer->data;
    uint32_t from = r->state == RUN_ENDING ? r->shards : 0;

    for (uint32_t i = from; i < r->shards + r->workers; i++)
        if (r->processes[i].alive)
            run_say(r, "%s did not stop within %.3g s: killed", r->processes[i].tag.text,
                    (double)r->plan->settings->grace_ms / 1000);
    run_each(r, from, r->shards + r->workers, process_kill);
    (void)screen_flush(&r->screen);
}

static void
run_ask_to_stop(struct run *r, uint32_t from, uint32_t to)
{
    run_each(r, from, to, process_stop);
    uv_timer_start(&r->grace, run_grace_over, (uint64_t)r->plan->settings->grace_ms, 0);
}

/* --keep-servers: say how to go on and how to end it. */
static void
run_release(struct run *r)
{
    char pids[PLAN_SHARDS_MAX * 12] = "";
    char *list = plan_shard_list(r->plan);
    bool temporary = r->plan->settings->live_dir == NULL;

    r->releasing = true;
    for (uint32_t i = 0; i < r->shards; i++)
        snprintf(pids + strlen(pids), sizeof pids - strlen(pids), " %d", (int)r->processes[i].pid);
    run_say(r, "the shards go on running; to reach them:");
    run_say(r, "  export PSD_SHARDS=%s PSD_CLUSTER=%s", list, r->plan->settings->cluster);
    run_say(r, "their logs: %s/shard-*/log; to stop them%s:", r->dir, temporary ? " and drop their data" : "");
    run_say(r, "  kill%s; rm -r %s", pids, r->dir);
    run_each(r, 0, r->shards, process_release);
    free(list);
}

static void
run_close(struct run *r)
{
    bool keep = r->plan->settings->keep_servers && !r->interrupted && run_all_listen(r);

    r->state = RUN_CLOSING;
    if (keep)
        run_release(r);
    else
        run_ask_to_stop(r, 0, r->shards);
}

/* While a run lasts, signals wake its loop; before that they do what they always do, after it nothing. A HUP that nohup
 * has switched off stays off. */
static void
run_take_signals(void (*handler)(int signal))
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action = {.sa_handler = handler}, before;

    for (size_t i = 0; i < ARRAY_LEN(taken); i++)
        if (taken[i] != SIGHUP || (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN))
            sigaction(taken[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void
run_done(struct run *r)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&r->wake, (uv_handle_t *)&r->ready, (uv_handle_t *)&r->grace,
                              (uv_handle_t *)&r->timeout};

    r->state = RUN_DONE;
    run_take_signals(SIG_IGN);
    for (size_t i = 0; i < ARRAY_LEN(handles); i++)
        uv_close(handles[i], NULL);
}

/* ---- moving on ---- */

static void
run_work(struct run *r)
{
    char *list = plan_shard_list(r->plan);
    uint32_t threads = plan_threads(r->plan);

    uv_timer_stop(&r->ready);
    r->state = RUN_WORKING;
    run_say(r, "%u shard%s at %s; %u worker%s, %u thread%s each", r->shards, r->shards == 1 ? "" : "s", list,
            r->workers, r->workers == 1 ? "" : "s", threads, threads == 1 ? "" : "s");
    free(list);
    for (uint32_t i = 0; i < r->workers && r->state == RUN_WORKING; i++)
        run_start_worker(r, i);
}

/* Take every step that can be taken now. */
static void
run_advance(struct run *r)
{
    if ((r->state == RUN_STARTING || r->state == RUN_WORKING) && r->failed) {
        r->state = RUN_ENDING;
        run_ask_to_stop(r, r->shards, r->shards + r->workers);
    }
    if (r->state == RUN_STARTING && run_all_listen(r))
        run_work(r);
    else if ((r->state == RUN_WORKING || r->state == RUN_ENDING) && run_workers_alive(r) == 0)
        run_close(r);
    if (r->state == RUN_CLOSING && run_shards_alive(r) == 0)
        run_done(r);
}

static void
run_listening(struct process *p)
{
    struct run *r = p->loop->data;
    uint32_t shard = run_index(r, p);
    struct address address;
    struct ps_error e;

    p->ready[strcspn(p->ready, " ")] = '\0';
    if (address_parse(p->ready, &address, &e) != PS_OK) {
        run_say(r, "%s said something else than where it listens: %s", p->tag.text, e.text);
        run_fail(r, STATUS_NOT_STARTED);
        return;
    }
    r->plan->addresses[shard] = p->ready;
    run_advance(r);
}

/* Its end was wanted: everything is being stopped, or it is a worker that is done. */
static bool
run_end_expected(const struct run *r, const struct process *p)
{
    if (run_is_worker(r, p))
        return (p->ended && p->status == 0) || r->state == RUN_ENDING || r->state == RUN_CLOSING;
    return r->state == RUN_CLOSING;
}

/* Say who died and why; the status to exit with. */
static int
run_say_end(struct run *r, const struct process *p)
{
    char fate[FATE_TEXT_MAX];
    struct units after;

    if (p->failure != 0) {
        run_say(r, "%s could not be started: %s: %s", p->tag.text,
                run_is_worker(r, p) ? r->plan->program[0] : r->plan->psd, strerror(p->failure));
        return p->failure == ENOENT ? 127 : 126;
    }
    run_say(r, "%s (pid %d) %s after %s", p->tag.text, (int)p->pid, fate_text(p->status, fate),
            units_duration(uv_now(p->loop) - p->started_ms, &after));
    if (!run_is_worker(r, p) && !p->listens)
        run_say(r, "%s never listened; what it printed says why%s%s%s", p->tag.text,
                r->plan->settings->keep_servers ? ": see " : "", r->plan->settings->keep_servers ? r->dir : "",
                r->plan->settings->keep_servers ? "/shard-*/log" : "");
    return fate_code(p->status);
}

static void
run_gone(struct process *p)
{
    struct run *r = p->loop->data;
    int status;

    if (!run_end_expected(r, p)) {
        status = run_say_end(r, p);
        if (run_is_worker(r, p) && r->restarts_left > 0 && p->failure == 0 && !r->failed) {
            r->restarts_left--;
            run_say(r, "%s is started again; %lld restart%s left", p->tag.text, (long long)r->restarts_left,
                    r->restarts_left == 1 ? "" : "s");
            run_start_worker(r, run_index(r, p));
        } else {
            /* A shard may not end before the workers, however well it ends. */
            run_fail(r, status != 0 ? status : STATUS_NOT_STARTED);
        }
    }
    run_advance(r);
    (void)screen_flush(&r->screen);
}

static void
run_output(struct process *p, enum screen_stream stream, enum lines_kind kind, const char *text, size_t len)
{
    struct run *r = p->loop->data;

    if (kind == LINES_WHOLE)
        screen_line(&r->screen, stream, &p->tag, text, len);
    else
        screen_live(&r->screen, stream, &p->tag, text, len);
}

static void
run_drained(struct process *p)
{
    struct run *r = p->loop->data;

    /* Nobody reads our output any more (`psrun ... | head`): end as a program would. */
    if (screen_flush(&r->screen) != PS_OK && !r->interrupted)
        run_interrupt(r, 128 + SIGPIPE);
}

/* ---- signals and times ---- */

static void
run_on_signal(int signal)
{
    run_signal = signal;
    run_signals++;
    uv_async_send(run_wake); /* safe in a handler */
}

static void
run_woken(uv_async_t *wake)
{
    struct run *r = wake->data;
    bool first = r->signals_seen == 0;
    int signal = run_signal;

    if (run_signals == r->signals_seen || r->state == RUN_DONE)
        return;
    r->signals_seen = run_signals;
    if (first) {
        run_say(r, "stopping all on %s; once more kills them", fate_signal(signal));
        run_interrupt(r, 128 + signal);
    } else {
        run_say(r, "killing all");
        run_kill_all(r);
    }
    (void)screen_flush(&r->screen);
}

static void
run_too_late(uv_timer_t *timer)
{
    struct run *r = timer->data;

    run_say(r, "stopping all: not done within %.3g s (--timeout)", (double)r->plan->settings->timeout_ms / 1000);
    run_interrupt(r, STATUS_LATE);
    (void)screen_flush(&r->screen);
}

static void
run_not_ready(uv_timer_t *timer)
{
    struct run *r = timer->data;

    for (uint32_t i = 0; i < r->shards; i++)
        if (!r->processes[i].listens)
            run_say(r, "%s does not listen after %d s", r->processes[i].tag.text, RUN_READY_MS / 1000);
    run_fail(r, STATUS_NOT_STARTED);
    (void)screen_flush(&r->screen);
}

/* ---- preparing ---- */

/* A free port of 127.0.0.1, held by a socket that does not listen: nobody else is given it, and a worker that wants to
 * listen on its address still can (SO_REUSEADDR on both sides). */
static enum ps_err
run_reserve_port(int *fd, uint16_t *port, struct ps_error *e)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int on = 1;

    if ((*fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0 ||
        setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(*fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(*fd, (struct sockaddr *)&address, &len) != 0)
        return ps_fail(e, PS_ERR_IO, "no free port on 127.0.0.1: %s", strerror(errno));
    *port = ntohs(address.sin_port);
    return PS_OK;
}

static enum ps_err
run_reserve_ports(struct run *r, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (uint32_t i = 0; i < r->workers; i++)
        r->port_fds[i] = -1;
    for (uint32_t i = 0; err == PS_OK && i < r->workers; i++)
        err = run_reserve_port(&r->port_fds[i], &r->plan->ports[i], e);
    return err;
}

/* mkdir -p for the last two levels: DIR of --live-dir may be new. */
static enum ps_err
run_make_dir(const char *path, struct ps_error *e)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return ps_fail(e, PS_ERR_IO, "%s: the directory cannot be made: %s", path, strerror(errno));
    return PS_OK;
}

static enum ps_err
run_make_shard_dirs(struct run *r, uint32_t shard, struct ps_error *e)
{
    char path[4096];
    enum ps_err err;

    plan_shard_dir(r->plan, shard, path, sizeof path);
    if ((err = run_make_dir(path, e)) != PS_OK)
        return err;
    plan_live_dir(r->plan, shard, path, sizeof path);
    return run_make_dir(path, e);
}

/* True when the directory is there and has room for all shards to begin with: containers often have a /dev/shm of
 * 64 MiB. */
static bool
run_has_room(const struct run *r, const char *dir)
{
    struct statvfs fs;

    return statvfs(dir, &fs) == 0 && (uint64_t)fs.f_bavail * fs.f_frsize >= r->shards * RUN_SHARD_BYTES;
}

/* Memory where there is enough; a live directory on a disk works, and psd warns about it. */
static enum ps_err
run_make_run_dir(struct run *r, struct ps_error *e)
{
    const char *temporary = getenv("TMPDIR");

    if (temporary == NULL || *temporary == '\0' || strlen(temporary) > 32) /* a socket's path is short */
        temporary = "/tmp";
    snprintf(r->dir, sizeof r->dir, "/dev/shm/psrun-XXXXXX");
    if ((r->plan->settings->live_dir != NULL || run_has_room(r, "/dev/shm")) && mkdtemp(r->dir) != NULL)
        return PS_OK;
    snprintf(r->dir, sizeof r->dir, "%s/psrun-XXXXXX", temporary);
    if (mkdtemp(r->dir) == NULL) {
        r->dir[0] = '\0';
        return ps_fail(e, PS_ERR_IO, "neither /dev/shm nor %s can be used: %s", temporary, strerror(errno));
    }
    if (r->plan->settings->live_dir == NULL)
        run_say(r, "/dev/shm has no room for %u shard%s (%u MiB): the data goes to %s, which is slower", r->shards,
                r->shards == 1 ? "" : "s", (unsigned)(r->shards * RUN_SHARD_BYTES / MIB), r->dir);
    return PS_OK;
}

static enum ps_err
run_make_dirs(struct run *r, struct ps_error *e)
{
    enum ps_err err = run_make_run_dir(r, e);

    r->plan->dir = r->dir;
    if (err == PS_OK && r->plan->settings->live_dir != NULL)
        err = run_make_dir(r->plan->settings->live_dir, e);
    for (uint32_t i = 0; err == PS_OK && i < r->shards; i++)
        err = run_make_shard_dirs(r, i, e);
    return err;
}

static const struct process_events run_events = {
    .output = run_output, .drained = run_drained, .listening = run_listening, .gone = run_gone};

static void
run_name(struct run *r, struct process *p)
{
    static const int colours[] = {36, 33, 32, 34, 96, 93, 92, 94};
    bool worker = run_is_worker(r, p);
    uint32_t index = run_index(r, p);
    int len;

    p->loop = &r->loop;
    p->events = &run_events;
    p->buffer = r->buffer;
    p->tag.colour = worker ? colours[index % ARRAY_LEN(colours)] : TAG_COLOUR_SHARD;
    len = snprintf(p->tag.text, sizeof p->tag.text, "%s %u", worker ? "worker" : "shard", index);
    r->screen.tag_width = MAX(r->screen.tag_width, len);
}

static void
run_init_timer(struct run *r, uv_timer_t *timer)
{
    uv_timer_init(&r->loop, timer);
    timer->data = r;
}

static enum ps_err
run_init(struct run *r, struct ps_error *e)
{
    uint32_t n = r->shards + r->workers;
    int err;

    screen_init(&r->screen, &run_signals);
    r->screen.prefix = !r->plan->settings->no_prefix;
    r->screen.tag_width = (int)strlen("psrun");
    r->tag = (struct screen_tag){.text = "psrun", .colour = TAG_COLOUR_PSRUN};
    r->processes = calloc(n, sizeof *r->processes);
    r->port_fds = calloc(r->workers, sizeof *r->port_fds);
    r->plan->ports = calloc(r->workers, sizeof *r->plan->ports);
    r->plan->addresses = calloc(r->shards, sizeof *r->plan->addresses);
    r->buffer = malloc(PROCESS_READ_SIZE);
    if (r->processes == NULL || r->port_fds == NULL || r->plan->ports == NULL || r->plan->addresses == NULL ||
        r->buffer == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    if ((err = uv_loop_init(&r->loop)) != 0)
        return ps_fail(e, PS_ERR_IO, "no event loop: %s", uv_strerror(err));
    r->loop.data = r;
    for (uint32_t i = 0; i < n; i++)
        run_name(r, &r->processes[i]);
    return PS_OK;
}

static enum ps_err
run_prepare(struct run *r, struct ps_error *e)
{
    enum ps_err err;

    if ((err = run_reserve_ports(r, e)) != PS_OK)
        return err;
    return run_make_dirs(r, e);
}

static void
run_start(struct run *r)
{
    uv_async_init(&r->loop, &r->wake, run_woken);
    r->wake.data = r;
    run_init_timer(r, &r->ready);
    run_init_timer(r, &r->grace);
    run_init_timer(r, &r->timeout);
    run_wake = &r->wake;
    run_take_signals(run_on_signal);
    uv_timer_start(&r->ready, run_not_ready, RUN_READY_MS, 0);
    if (r->plan->settings->timeout_ms > 0)
        uv_timer_start(&r->timeout, run_too_late, (uint64_t)r->plan->settings->timeout_ms, 0);
    for (uint32_t i = 0; i < r->shards && !r->failed; i++)
        run_start_shard(r, i);
}

/* What the keepers have not removed: directories of shards that were never started. */
static void
run_remove_dirs(struct run *r)
{
    char path[4096];

    if (r->dir[0] == '\0' || r->releasing)
        return;
    for (uint32_t i = 0; i < r->shards; i++) {
        if (r->plan->settings->live_dir == NULL) {
            plan_live_dir(r->plan, i, path, sizeof path);
            rmdir(path);
        }
        plan_shard_dir(r->plan, i, path, sizeof path);
        rmdir(path);
    }
    rmdir(r->dir);
}

static void
run_finish(struct run *r)
{
    screen_finish(&r->screen);
    for (uint32_t i = 0; r->port_fds != NULL && i < r->workers; i++)
        if (r->port_fds[i] > 0)
            close(r->port_fds[i]);
    free(r->processes);
    free(r->port_fds);
    free(r->plan->ports);
    free(r->plan->addresses);
    free(r->buffer);
}

int
run_plan(struct plan *plan, const char *exe)
{
    struct run r = {.plan = plan,
                    .exe = exe,
                    .shards = (uint32_t)plan->settings->shards,
                    .workers = (uint32_t)plan->settings->workers,
                    .restarts_left = plan->settings->restart_workers};
    struct ps_error e;

    if (run_init(&r, &e) != PS_OK) {
        fprintf(stderr, "psrun: %s\n", e.text);
        run_finish(&r);
        return STATUS_NOT_STARTED;
    }
    if (run_prepare(&r, &e) == PS_OK) {
        run_start(&r);
        uv_run(&r.loop, UV_RUN_DEFAULT);
        ps_assert(r.state == RUN_DONE);
    } else {
        run_say(&r, "%s", e.text);
        r.status = STATUS_NOT_STARTED;
    }
    run_remove_dirs(&r);
    ps_assert(uv_loop_close(&r.loop) == 0);
    run_finish(&r);
    return r.status;
}
