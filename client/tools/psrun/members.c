/* The shards and workers of a run: their names, their starts, on this machine or another, their ends in words, and
 * their further lives. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/tools/psrun/fate.h"
#include "client/tools/psrun/prepare.h"
#include "client/tools/psrun/run.h"
#include "client/tools/psrun/run_state.h"
#include "common/core/base/units.h"

#define TAG_COLOUR_SHARD  90
#define CONNECTING_MAX    6 /* to one machine at a time: sshd's own limit is 10 (MaxStartups) */
#define SSH_STATUS_FAILED 255

/* ---- who ---- */

struct member *
member_of(struct process *p)
{
    return CONTAINER_OF(p, struct member, process);
}

bool
member_is_shard(const struct member *m)
{
    return m->task->job == TF_PS;
}

uint32_t
member_index(const struct run *r, const struct member *m)
{
    return (uint32_t)(m - r->members) - (member_is_shard(m) ? 0 : r->shards);
}

static void
member_init(struct run *r, struct member *m, const struct process_events *events)
{
    static const int colours[] = {36, 33, 32, 34, 96, 93, 92, 94};
    struct process *p = &m->process;

    m->task = &r->plan->deal.tasks[(size_t)(m - r->members) + r->plan->deal.shards - r->shards];
    p->loop = &r->loop;
    p->events = events;
    p->buffer = r->buffer;
    p->tag.colour = member_is_shard(m) ? TAG_COLOUR_SHARD : colours[member_index(r, m) % ARRAY_LEN(colours)];
    deal_name(m->task, p->tag.text, sizeof p->tag.text);
    r->screen.tag_width = MAX(r->screen.tag_width, (int)strlen(p->tag.text));
}

void
members_init(struct run *r, const struct process_events *events)
{
    for (uint32_t i = 0; i < r->shards + r->workers; i++)
        member_init(r, &r->members[i], events);
}

/* ---- starting ---- */

static enum ps_err
member_start_shard(struct run *r, struct member *m, struct ps_error *e)
{
    struct words argv = {0}, env = {0}, dirs = {0};
    char remove_dir[PLAN_PATH_MAX], log[PLAN_PATH_MAX + 8];
    bool keep = r->plan->settings->keep_servers;
    uint32_t shard = member_index(r, m);
    enum ps_err err;

    plan_shard_dirs(r->plan, shard, &dirs, remove_dir, sizeof remove_dir);
    snprintf(log, sizeof log, "%s/log", remove_dir);
    plan_shard_argv(r->plan, shard, KEEP_READY_FD, &argv);
    plan_shard_env(r->plan, member_index(r, m), environ, &env);
    if ((err = prepare_dirs(&dirs, e)) == PS_OK) {
        prepare_memory(&argv, dirs.text[dirs.len - 1], plan_memory_shards(r->plan, shard));
        err = process_start(&m->process,
                            &(struct process_start){.exe = r->exe,
                                                    .argv = argv.text,
                                                    .env = env.text,
                                                    .remove_dir = remove_dir,
                                                    .log = keep ? log : NULL,
                                                    .ready = true,
                                                    .keepable = keep,
                                                    .hold = r->plan->settings->restart_shards > 0},
                            e);
    }
    words_free(&argv);
    words_free(&env);
    words_free(&dirs);
    return err;
}

static enum ps_err
member_start_worker(struct run *r, struct member *m, struct ps_error *e)
{
    struct words env = {0};
    enum ps_err err;

    plan_worker_env(r->plan, member_index(r, m), screen_columns(&r->screen), environ, &env);
    err = process_start(
        &m->process,
        &(struct process_start){
            .exe = r->exe, .argv = r->plan->program, .env = env.text, .remove_dir = "", .dir = r->plan->work_dir},
        e);
    words_free(&env);
    return err;
}

static enum ps_err
member_start_remote(struct run *r, struct member *m, struct ps_error *e)
{
    struct remote_order order;
    struct words argv = {0};
    enum ps_err err;

    if (member_is_shard(m))
        plan_shard_order(r->plan, member_index(r, m), KEEP_READY_FD, &order);
    else
        plan_worker_order(r->plan, member_index(r, m), screen_columns(&r->screen), &order);
    plan_ssh_argv(r->plan, m->task, &argv);
    err = process_start(
        &m->process,
        &(struct process_start){.exe = r->exe, .argv = argv.text, .env = environ, .remove_dir = "", .order = &order},
        e);
    words_free(&argv);
    remote_order_finish(&order);
    return err;
}

/* Those whose connection to the same machine is being made. */
static uint32_t
member_connecting(const struct run *r, const struct member *m)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < r->shards + r->workers; i++) {
        const struct member *other = &r->members[i];

        n += other->process.alive && !other->process.began && other->task->remote &&
             strcmp(other->task->host.name, m->task->host.name) == 0;
    }
    return n;
}

void
member_start(struct run *r, struct member *m)
{
    struct ps_error e;
    enum ps_err err;

    m->waiting = false;
    if (m->task->remote && member_connecting(r, m) >= CONNECTING_MAX) {
        r->queued += !m->queued;
        m->queued = true;
        return;
    }
    r->queued -= m->queued;
    m->queued = false;
    if (m->task->remote)
        err = member_start_remote(r, m, &e);
    else if (member_is_shard(m))
        err = member_start_shard(r, m, &e);
    else
        err = member_start_worker(r, m, &e);
    if (err == PS_OK)
        return;
    run_say(r, "%s", e.text);
    run_fail(r, STATUS_NOT_STARTED);
}

void
members_start_queued(struct run *r)
{
    for (uint32_t i = 0; r->queued > 0 && !r->failed && i < r->shards + r->workers; i++)
        if (r->members[i].queued)
            member_start(r, &r->members[i]);
}

bool
member_busy(const struct member *m)
{
    return m->process.alive || m->waiting || m->queued;
}

/* ---- again ---- */

static void members_due(uv_timer_t *timer);

/* Set the timer for the next that is due. */
static void
members_schedule(struct run *r)
{
    uint64_t due_ms = UINT64_MAX, now_ms = uv_now(&r->loop);

    for (uint32_t i = 0; i < r->shards + r->workers; i++)
        if (r->members[i].waiting)
            due_ms = MIN(due_ms, r->members[i].due_ms);
    if (due_ms == UINT64_MAX)
        uv_timer_stop(&r->again);
    else
        uv_timer_start(&r->again, members_due, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

/* One that is held lets its directory go first, and is started when it is gone. */
static void
members_due(uv_timer_t *timer)
{
    struct run *r = timer->data;

    for (uint32_t i = 0; i < r->shards + r->workers; i++) {
        struct member *m = &r->members[i];

        if (!m->waiting || m->due_ms > uv_now(&r->loop))
            continue;
        if (m->process.held)
            process_release(&m->process);
        else
            member_start(r, m);
        m->waiting = m->process.held;
        m->due_ms = UINT64_MAX; /* its keeper's end is what it waits for now */
    }
    members_schedule(r);
    (void)screen_flush(&r->screen);
}

/* Not one that never ran: its machine or its arguments are at fault, and stay so. Nor a shard whose data went with the
 * connection to its machine. */
static bool
member_may_run_again(const struct run *r, const struct member *m)
{
    const struct process *p = &m->process;

    if (!m->reached || p->failure != 0 || r->failed)
        return false;
    return !member_is_shard(m) || !p->remote || p->ended || r->plan->settings->live_dir != NULL;
}

bool
member_again(struct run *r, struct member *m, int status)
{
    const struct plan_settings *s = r->plan->settings;
    struct restart_policy policy = {.starts_max =
                                        (uint64_t)(member_is_shard(m) ? s->restart_shards : s->restart_workers),
                                    .delay_ms = (uint64_t)s->restart_delay_ms,
                                    .delay_ms_max = (uint64_t)s->restart_delay_ms_max,
                                    .reset_ms = (uint64_t)s->restart_reset_ms};
    uint64_t now_ms = uv_now(&r->loop), delay_ms, left;
    struct units delay;

    if (!member_may_run_again(r, m) ||
        !restart_next(&m->restart, &policy, now_ms - m->process.started_ms, status, &delay_ms))
        return false;
    left = policy.starts_max - m->restart.starts;
    run_say(r, "%s is started again in %s; %llu restart%s left", m->process.tag.text, units_duration(delay_ms, &delay),
            (unsigned long long)left, left == 1 ? "" : "s");
    m->waiting = true;
    m->due_ms = now_ms + delay_ms;
    members_schedule(r);
    return true;
}

void
members_forget(struct run *r, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        r->queued -= r->members[i].queued;
        r->members[i].queued = r->members[i].waiting = false;
    }
    members_schedule(r);
}

/* ---- ends in words ---- */

/* The agent never said how its program ended: what ssh said is all there is. */
int
member_say_lost(struct run *r, const struct member *m)
{
    const struct process *p = &m->process;
    const char *name = p->tag.text, *host = m->task->host.login;
    int status = fate_code(p->link_status);

    if (p->refused)
        run_say(r, "%s could not be started on host %s: %s", name, host, p->said);
    else if (p->began)
        run_say(r, "%s: the connection to host %s was lost: %s", name, host,
                p->said[0] != '\0' ? p->said : "ssh did not say why");
    else if (status == SSH_STATUS_FAILED)
        run_say(r, "%s: host %s cannot be reached: %s", name, host,
                p->said[0] != '\0' ? p->said : "ssh did not say why");
    else if (status == 126 || status == 127)
        run_say(r,
                "%s: host %s has no psrun that could be run, or ssh is not there: %s; --remote-psrun and --ssh name "
                "them",
                name, host, p->said);
    else
        run_say(r, "%s: no psrun answered on host %s (ssh ended with status %d): %s", name, host, status, p->said);
    return STATUS_NOT_STARTED;
}

static const char *
member_program(const struct run *r, const struct member *m)
{
    const struct plan_settings *s = r->plan->settings;

    if (!member_is_shard(m))
        return r->plan->program[0];
    if (m->task->remote)
        return s->remote_psd != NULL ? s->remote_psd : "psd";
    return r->plan->psd;
}

int
member_say_end(struct run *r, const struct member *m)
{
    const struct process *p = &m->process;
    bool logged = member_is_shard(m) && r->plan->settings->keep_servers;
    char fate[FATE_TEXT_MAX];
    struct units after;

    if (p->failure != 0) {
        run_say(r, "%s could not be started: %s: %s", p->tag.text, member_program(r, m), strerror(p->failure));
        return p->failure == ENOENT ? 127 : 126;
    }
    if (p->remote && !p->ended)
        return member_say_lost(r, m);
    run_say(r, "%s (pid %d) %s after %s", p->tag.text, (int)p->pid, fate_text(p->status, fate),
            units_duration(uv_now(p->loop) - p->started_ms, &after));
    if (member_is_shard(m) && !p->listens)
        run_say(r, "%s never listened; what it printed says why%s%s%s", p->tag.text, logged ? ": see " : "",
                logged ? r->dir : "", logged ? "/shard-*/log" : "");
    return fate_code(p->status);
}
