/* The shards and workers of a run: their names, their starts on this machine or another, their ends in words, and their
 * restarts. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/tools/psrun/exit_status.h"
#include "client/tools/psrun/host_setup.h"
#include "client/tools/psrun/run.h"
#include "client/tools/psrun/run_state.h"
#include "common/core/base/units.h"

#define TAG_COLOUR_SHARD  90
#define CONNECTING_MAX    6 /* to one machine at a time: sshd's own limit is 10 (MaxStartups) */
#define SSH_STATUS_FAILED 255

/* ---- names ---- */

struct run_process *
run_process_of(struct process *p)
{
    return CONTAINER_OF(p, struct run_process, process);
}

bool
run_process_is_shard(const struct run_process *m)
{
    return m->task->job == TF_PS;
}

uint32_t
run_process_index(const struct psrun_run *r, const struct run_process *m)
{
    return (uint32_t)(m - r->processes) - (run_process_is_shard(m) ? 0 : r->shards);
}

static void
run_process_init(struct psrun_run *r, struct run_process *m, const struct process_events *events)
{
    static const int colours[] = {36, 33, 32, 34, 96, 93, 92, 94};
    struct process *p = &m->process;

    m->task = &r->plan->assigned.tasks[(size_t)(m - r->processes) + r->plan->assigned.shards - r->shards];
    p->loop = &r->loop;
    p->events = events;
    p->buffer = r->buffer;
    p->tag.colour = run_process_is_shard(m) ? TAG_COLOUR_SHARD : colours[run_process_index(r, m) % ARRAY_LEN(colours)];
    assign_hosts_name(m->task, p->tag.text, sizeof p->tag.text);
    r->screen.tag_width = MAX(r->screen.tag_width, (int)strlen(p->tag.text));
}

void
run_processes_init(struct psrun_run *r, const struct process_events *events)
{
    for (uint32_t i = 0; i < r->shards + r->workers; i++)
        run_process_init(r, &r->processes[i], events);
}

/* ---- starting ---- */

static enum ps_err
run_process_start_shard(struct psrun_run *r, struct run_process *m, struct ps_error *e)
{
    struct strlist argv = {0}, env = {0}, dirs = {0};
    char remove_dir[LAUNCH_PLAN_PATH_MAX], log[LAUNCH_PLAN_PATH_MAX + 8];
    bool keep = r->plan->settings->keep_servers;
    uint32_t shard = run_process_index(r, m);
    enum ps_err err;

    launch_plan_shard_dirs(r->plan, shard, &dirs, remove_dir, sizeof remove_dir);
    snprintf(log, sizeof log, "%s/log", remove_dir);
    launch_plan_shard_argv(r->plan, shard, SUPERVISOR_READY_FD, &argv);
    launch_plan_shard_env(r->plan, run_process_index(r, m), environ, &env);
    if ((err = host_setup_dirs(&dirs, e)) == PS_OK) {
        host_setup_memory(&argv, dirs.text[dirs.len - 1], launch_plan_memory_shards(r->plan, shard));
        err = process_start(&m->process,
                            &(struct process_start){.exe = r->exe,
                                                    .argv = argv.text,
                                                    .env = env.text,
                                                    .remove_dir = remove_dir,
                                                    .log = keep ? log : NULL,
                                                    .ready = true,
                                                    .releasable = keep,
                                                    .hold = r->plan->settings->restart_shards > 0},
                            e);
    }
    strlist_free(&argv);
    strlist_free(&env);
    strlist_free(&dirs);
    return err;
}

static enum ps_err
run_process_start_worker(struct psrun_run *r, struct run_process *m, struct ps_error *e)
{
    struct strlist env = {0};
    enum ps_err err;

    launch_plan_worker_env(r->plan, run_process_index(r, m), screen_columns(&r->screen), environ, &env);
    err = process_start(
        &m->process,
        &(struct process_start){
            .exe = r->exe, .argv = r->plan->program, .env = env.text, .remove_dir = "", .dir = r->plan->work_dir},
        e);
    strlist_free(&env);
    return err;
}

static enum ps_err
run_process_start_remote(struct psrun_run *r, struct run_process *m, struct ps_error *e)
{
    struct remote_order order;
    struct strlist argv = {0};
    enum ps_err err;

    if (run_process_is_shard(m))
        launch_plan_shard_order(r->plan, run_process_index(r, m), SUPERVISOR_READY_FD, &order);
    else
        launch_plan_worker_order(r->plan, run_process_index(r, m), screen_columns(&r->screen), &order);
    launch_plan_ssh_argv(r->plan, m->task, &argv);
    err = process_start(
        &m->process,
        &(struct process_start){.exe = r->exe, .argv = argv.text, .env = environ, .remove_dir = "", .order = &order},
        e);
    strlist_free(&argv);
    remote_order_finish(&order);
    return err;
}

/* Those whose connection to the same machine is being made. */
static uint32_t
run_process_connecting(const struct psrun_run *r, const struct run_process *m)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->shards + r->workers; i++) {
        const struct run_process *other = &r->processes[i];

        n += other->process.alive && !other->process.began && other->task->remote &&
             strcmp(other->task->host.name, m->task->host.name) == 0;
    }
    return n;
}

void
run_process_start(struct psrun_run *r, struct run_process *m)
{
    struct ps_error e;
    enum ps_err err;

    m->waiting = false;
    if (m->task->remote && run_process_connecting(r, m) >= CONNECTING_MAX) {
        r->queued += !m->queued;
        m->queued = true;
        return;
    }
    r->queued -= m->queued;
    m->queued = false;
    if (m->task->remote)
        err = run_process_start_remote(r, m, &e);
    else if (run_process_is_shard(m))
        err = run_process_start_shard(r, m, &e);
    else
        err = run_process_start_worker(r, m, &e);
    if (err == PS_OK)
        return;
    run_print(r, "%s", e.text);
    run_fail(r, STATUS_NOT_STARTED);
}

void
run_processes_start_queued(struct psrun_run *r)
{
    for (uint32_t i = 0; r->queued > 0 && !r->failed && i < r->shards + r->workers; i++)
        if (r->processes[i].queued)
            run_process_start(r, &r->processes[i]);
}

bool
run_process_busy(const struct run_process *m)
{
    return m->process.alive || m->waiting || m->queued;
}

/* ---- again ---- */

static void run_processes_due(uv_timer_t *timer);

/* Set the timer for the next that is due. */
static void
run_processes_schedule(struct psrun_run *r)
{
    uint64_t due_ms = UINT64_MAX, now_ms = uv_now(&r->loop);

    for (uint32_t i = 0; i < r->shards + r->workers; i++)
        if (r->processes[i].waiting)
            due_ms = MIN(due_ms, r->processes[i].due_ms);
    if (due_ms == UINT64_MAX)
        uv_timer_stop(&r->again);
    else
        uv_timer_start(&r->again, run_processes_due, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

/* One that is held releases its directory first, and is started when it is gone. */
static void
run_processes_due(uv_timer_t *timer)
{
    struct psrun_run *r = timer->data;

    for (uint32_t i = 0; i < r->shards + r->workers; i++) {
        struct run_process *m = &r->processes[i];

        if (!m->waiting || m->due_ms > uv_now(&r->loop))
            continue;
        if (m->process.dir_held)
            process_release(&m->process);
        else
            run_process_start(r, m);
        m->waiting = m->process.dir_held;
        m->due_ms = UINT64_MAX; /* its supervisor's end is what it waits for now */
    }
    run_processes_schedule(r);
    (void)screen_flush(&r->screen);
}

/* Not one that never ran: its machine or its arguments are at fault, and would be again. Nor a shard whose data was
 * lost with the connection to its machine. */
static bool
run_process_may_run_again(const struct psrun_run *r, const struct run_process *m)
{
    const struct process *p = &m->process;

    if (!m->reached || p->failure != 0 || r->failed)
        return false;
    return !run_process_is_shard(m) || !p->remote || p->ended || r->plan->settings->live_dir != NULL;
}

bool
run_process_restart(struct psrun_run *r, struct run_process *m, int status)
{
    const struct psrun_options *s = r->plan->settings;
    struct restart_policy policy = {.starts_max =
                                        (uint64_t)(run_process_is_shard(m) ? s->restart_shards : s->restart_workers),
                                    .delay_ms = (uint64_t)s->restart_delay_ms,
                                    .delay_ms_max = (uint64_t)s->restart_delay_ms_max,
                                    .reset_ms = (uint64_t)s->restart_reset_ms};
    uint64_t now_ms = uv_now(&r->loop), delay_ms, left;
    struct units delay;

    if (!run_process_may_run_again(r, m) ||
        !restart_next(&m->restart, &policy, now_ms - m->process.started_ms, status, &delay_ms))
        return false;
    left = policy.starts_max - m->restart.starts;
    run_print(r, "%s is started again in %s; %llu restart%s left", m->process.tag.text,
              units_duration(delay_ms, &delay), (unsigned long long)left, left == 1 ? "" : "s");
    m->waiting = true;
    m->due_ms = now_ms + delay_ms;
    run_processes_schedule(r);
    return true;
}

void
run_processes_forget(struct psrun_run *r, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        r->queued -= r->processes[i].queued;
        r->processes[i].queued = r->processes[i].waiting = false;
    }
    run_processes_schedule(r);
}

/* ---- ends in words ---- */

/* The agent never reported how its program ended: the output of ssh is all there is. */
int
run_process_report_lost(struct psrun_run *r, const struct run_process *m)
{
    const struct process *p = &m->process;
    const char *name = p->tag.text, *host = m->task->host.login;
    int status = exit_status_code(p->link_status);

    if (p->refused)
        run_print(r, "%s could not be started on host %s: %s", name, host, p->last_line);
    else if (p->began)
        run_print(r, "%s: the connection to host %s was lost: %s", name, host,
                  p->last_line[0] != '\0' ? p->last_line : "ssh did not say why");
    else if (status == SSH_STATUS_FAILED)
        run_print(r, "%s: host %s cannot be reached: %s", name, host,
                  p->last_line[0] != '\0' ? p->last_line : "ssh did not say why");
    else if (status == 126 || status == 127)
        run_print(r,
                  "%s: host %s has no psrun that could be run, or ssh is not there: %s; --remote-psrun and --ssh name "
                  "them",
                  name, host, p->last_line);
    else
        run_print(r, "%s: no psrun answered on host %s (ssh ended with status %d): %s", name, host, status,
                  p->last_line);
    return STATUS_NOT_STARTED;
}

static const char *
run_process_program(const struct psrun_run *r, const struct run_process *m)
{
    const struct psrun_options *s = r->plan->settings;

    if (!run_process_is_shard(m))
        return r->plan->program[0];
    if (m->task->remote)
        return s->remote_psd != NULL ? s->remote_psd : "psd";
    return r->plan->psd;
}

int
run_process_report_end(struct psrun_run *r, const struct run_process *m)
{
    const struct process *p = &m->process;
    bool logged = run_process_is_shard(m) && r->plan->settings->keep_servers;
    char fate[EXIT_STATUS_TEXT_MAX];
    struct units after;

    if (p->failure != 0) {
        run_print(r, "%s could not be started: %s: %s", p->tag.text, run_process_program(r, m), strerror(p->failure));
        return p->failure == ENOENT ? 127 : 126;
    }
    if (p->remote && !p->ended)
        return run_process_report_lost(r, m);
    exit_status_text(p->status, fate);
    units_duration(uv_now(p->loop) - p->started_ms, &after);
    if (run_process_is_shard(m) && !p->listens)
        run_print(r, "%s (pid %d) %s after %s: %s never listened; what it printed says why%s%s%s", p->tag.text,
                  (int)p->pid, fate, after.text, p->tag.text, logged ? ": see " : "", logged ? r->dir : "",
                  logged ? "/shard-*/log" : "");
    else
        run_print(r, "%s (pid %d) %s after %s", p->tag.text, (int)p->pid, fate, after.text);
    return exit_status_code(p->status);
}
