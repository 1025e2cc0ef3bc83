/* The happy path: agent_read() gathers the order; agent_begin() prepares the machine and starts the process; its events
 * leave as frames; agent_gone() sends its end, and when the last frame is written, all handles close. */
#include "client/tools/psrun/agent.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/tools/psrun/host_setup.h"
#include "client/tools/psrun/launch_plan.h"
#include "client/tools/psrun/process.h"
#include "common/system/cgroup.h"

#define AGENT_ORDER_MS   60000 /* within which the order must come */
#define AGENT_UNSENT_MAX (4 * MIB)

struct agent {
    const char *exe;
    uv_loop_t loop;
    uv_pipe_t in, out;
    uv_timer_t silence;
    struct process process;
    struct remote_order order;
    char *bytes; /* of the order, until it is whole */
    size_t len;
    bool ordered;
    bool released; /* the directory of its process is for its next start */
    bool lost;     /* psrun does not read any more */
    bool done;     /* all has been sent */
    char read_buffer[4096], process_buffer[PROCESS_READ_SIZE];
};

struct agent_write {
    uv_write_t req;
    struct agent *agent;
    char bytes[];
};

/* ---- ending ---- */

/* Close when there is nothing left to run or to send. */
static void
agent_advance(struct agent *a)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&a->in, (uv_handle_t *)&a->out, (uv_handle_t *)&a->silence};

    if (!a->done || (!a->lost && uv_stream_get_write_queue_size((uv_stream_t *)&a->out) > 0))
        return;
    for (size_t i = 0; i < ARRAY_LEN(handles); i++)
        if (!uv_is_closing(handles[i]))
            uv_close(handles[i], NULL);
}

static void
agent_lose(struct agent *a)
{
    a->lost = true;
    process_pause(&a->process, false);
    if (a->process.alive)
        process_kill(&a->process);
    else
        a->done = true;
    agent_advance(a);
}

/* ---- sending ---- */

static void
agent_sent(uv_write_t *req, int status)
{
    struct agent_write *w = CONTAINER_OF(req, struct agent_write, req);
    struct agent *a = w->agent;

    free(w);
    if (status != 0 && !a->lost)
        agent_lose(a);
    if (a->process.paused && uv_stream_get_write_queue_size((uv_stream_t *)&a->out) < AGENT_UNSENT_MAX / 2)
        process_pause(&a->process, false);
    agent_advance(a);
}

static void
agent_send_bytes(struct agent *a, const void *head, size_t head_len, const void *body, size_t len)
{
    struct agent_write *w;
    uv_buf_t buf;

    if (a->lost)
        return;
    w = strlist_alloc(NULL, 1, sizeof *w + head_len + len);
    w->agent = a;
    memcpy(w->bytes, head, head_len);
    if (len > 0)
        memcpy(w->bytes + head_len, body, len);
    buf = uv_buf_init(w->bytes, (unsigned)(head_len + len));
    if (uv_write(&w->req, (uv_stream_t *)&a->out, &buf, 1, agent_sent) != 0) {
        free(w);
        agent_lose(a);
    }
}

static void
agent_send(struct agent *a, struct remote_header header, const void *body)
{
    uint8_t head[REMOTE_HEADER_SIZE];

    remote_header_pack(&header, head);
    agent_send_bytes(a, head, sizeof head, body, header.len);
}

static void
agent_refuse(struct agent *a, const char *why)
{
    agent_send(a, (struct remote_header){.kind = REMOTE_FAILED, .len = (uint32_t)strlen(why)}, why);
    a->done = true;
    agent_advance(a);
}

static void
agent_send_end(struct agent *a, bool held)
{
    const struct process *p = &a->process;
    uint8_t body[REMOTE_END_SIZE];

    remote_end_pack(&(struct remote_end){.pid = p->pid, .status = p->status, .failure = p->failure}, body);
    agent_send(a, (struct remote_header){.kind = REMOTE_ENDED, .a = held, .len = sizeof body}, body);
}

/* ---- the process ---- */

static void
agent_output(struct process *p, enum screen_stream stream, enum lines_kind kind, const char *text, size_t len)
{
    struct agent *a = p->loop->data;

    agent_send(
        a,
        (struct remote_header){.kind = REMOTE_OUTPUT, .a = (uint8_t)stream, .b = (uint8_t)kind, .len = (uint32_t)len},
        text);
}

static void
agent_drained(struct process *p)
{
    struct agent *a = p->loop->data;

    if (!p->paused && !a->lost && uv_stream_get_write_queue_size((uv_stream_t *)&a->out) > AGENT_UNSENT_MAX)
        process_pause(p, true);
}

static void
agent_listening(struct process *p)
{
    agent_send(p->loop->data, (struct remote_header){.kind = REMOTE_READY, .len = (uint32_t)strlen(p->ready)},
               p->ready);
}

static void
agent_held(struct process *p)
{
    agent_send_end(p->loop->data, true);
}

static void
agent_gone(struct process *p)
{
    struct agent *a = p->loop->data;

    if (p->ended || p->failure != 0)
        agent_send_end(a, false);
    a->done = true;
    agent_advance(a);
}

static const struct process_events agent_events = {.output = agent_output,
                                                   .drained = agent_drained,
                                                   .listening = agent_listening,
                                                   .dir_held = agent_held,
                                                   .gone = agent_gone};

/* ---- beginning ---- */

/* psd as psrun would find it here. */
static enum ps_err
agent_find_psd(struct agent *a, struct strlist *argv, struct ps_error *e)
{
    struct strlist candidates = {0};
    size_t i = 0;

    if (!a->order.shard || argv->text[0][0] != '\0')
        return PS_OK;
    launch_plan_psd_candidates(NULL, getenv("PSD_BIN"), a->exe, getenv("PATH"), &candidates);
    while (i < candidates.len && access(candidates.text[i], X_OK) != 0)
        i++;
    if (i < candidates.len) {
        free(argv->text[0]);
        argv->text[0] = strlist_need(strdup(candidates.text[i]));
    }
    strlist_free(&candidates);
    if (argv->text[0][0] == '\0')
        return ps_fail(e, PS_ERR_NOT_FOUND, "the server psd is not found there; --remote-psd PATH names it");
    return PS_OK;
}

static void
agent_make_env(const struct agent *a, struct strlist *env)
{
    launch_plan_env_base(environ, env);
    for (size_t i = 0; i < a->order.env.len; i++)
        strlist_put_env(env, a->order.env.text[i]);
    if (a->order.workers > 0)
        launch_plan_set_threads(env, MAX((uint32_t)cgroup_cores() / a->order.workers, 1U), false);
}

static enum ps_err
agent_prepare(struct agent *a, struct ps_error *e)
{
    struct remote_order *o = &a->order;
    struct ps_error why;
    enum ps_err err;

    if (chdir(o->dir) != 0)
        return ps_fail(e, PS_ERR_IO, "the directory %s cannot be entered there: %s; --chdir names another", o->dir,
                       strerror(errno));
    if ((err = agent_find_psd(a, &o->argv, e)) != PS_OK)
        return err;
    host_setup_move_to_disk(&o->dirs, &o->argv, &o->remove_dir, o->memory_shards);
    if ((err = host_setup_dirs(&o->dirs, &why)) != PS_OK)
        return ps_fail(e, err, "%s; --live-dir names another place", why.text);
    if (o->dirs.len > 0)
        host_setup_memory(&o->argv, o->dirs.text[o->dirs.len - 1], o->memory_shards);
    return PS_OK;
}

static void
agent_begin(struct agent *a)
{
    struct strlist env = {0};
    struct ps_error e;

    if (agent_prepare(a, &e) != PS_OK) {
        agent_refuse(a, e.text);
        return;
    }
    agent_make_env(a, &env);
    a->process.loop = &a->loop;
    a->process.events = &agent_events;
    a->process.buffer = a->process_buffer;
    snprintf(a->process.tag.text, sizeof a->process.tag.text, "%s", a->order.argv.text[0]);
    /* A process that cannot be spawned ends at once, and reports why then. */
    (void)!process_start(&a->process,
                         &(struct process_start){.exe = a->exe,
                                                 .argv = a->order.argv.text,
                                                 .env = env.text,
                                                 .remove_dir = a->order.remove_dir,
                                                 .ready = a->order.shard,
                                                 .hold = a->order.hold},
                         &e);
    strlist_free(&env);
}

/* ---- receiving ---- */

static void
agent_command(struct agent *a, char command)
{
    switch (command) {
    case REMOTE_STOP:
        process_stop(&a->process);
        break;
    case REMOTE_KILL:
        process_kill(&a->process);
        break;
    case REMOTE_RELEASE:
        a->released = true;
        process_release(&a->process);
        break;
    default: /* a beat */
        break;
    }
}

/* Gather the order; what follows it are commands. */
static void
agent_take(struct agent *a, const char *bytes, size_t len)
{
    struct ps_error e;
    size_t used;

    for (size_t i = 0; a->ordered && i < len; i++)
        agent_command(a, bytes[i]);
    if (a->ordered || a->done)
        return;
    a->bytes = strlist_alloc(a->bytes, a->len + len, 1);
    memcpy(a->bytes + a->len, bytes, len);
    a->len += len;
    if (remote_order_unpack(a->bytes, a->len, &a->order, &used, &e) != PS_OK) {
        agent_refuse(a, e.text);
        return;
    }
    if (used == 0)
        return;
    a->ordered = true;
    uv_timer_set_repeat(&a->silence, a->order.silence_ms);
    agent_begin(a);
    agent_take(a, a->bytes + used, a->len - used);
}

static void
agent_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct agent *a = handle->data;

    (void)suggested;
    *buf = uv_buf_init(a->read_buffer, sizeof a->read_buffer);
}

static void
agent_read(uv_stream_t *in, ssize_t n, const uv_buf_t *buf)
{
    struct agent *a = in->data;

    if (n > 0)
        agent_take(a, buf->base, (size_t)n);
    if (n < 0) {
        uv_read_stop(in);
        agent_lose(a);
    }
    if (!uv_is_closing((uv_handle_t *)&a->silence))
        uv_timer_again(&a->silence);
}

static void
agent_silent(uv_timer_t *silence)
{
    agent_lose(silence->data);
}

/* ---- all together ---- */

static int
agent_open(struct agent *a)
{
    int err;

    if ((err = uv_loop_init(&a->loop)) != 0)
        return err;
    a->loop.data = a;
    uv_pipe_init(&a->loop, &a->in, 0);
    uv_pipe_init(&a->loop, &a->out, 0);
    uv_timer_init(&a->loop, &a->silence);
    a->in.data = a->out.data = a->silence.data = a;
    if ((err = uv_pipe_open(&a->in, STDIN_FILENO)) != 0 || (err = uv_pipe_open(&a->out, STDOUT_FILENO)) != 0)
        return err;
    uv_timer_start(&a->silence, agent_silent, AGENT_ORDER_MS, AGENT_ORDER_MS);
    return uv_read_start((uv_stream_t *)&a->in, agent_alloc, agent_read);
}

int
agent_main(const char *exe)
{
    static struct agent a;
    int err;

    a.exe = exe;
    if (uv_guess_handle(STDIN_FILENO) != UV_NAMED_PIPE || uv_guess_handle(STDOUT_FILENO) != UV_NAMED_PIPE) {
        fprintf(stderr, "psrun: " REMOTE_ARG " is psrun's own, for ssh; run psrun --help\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    if ((err = agent_open(&a)) != 0) {
        fprintf(stderr, "psrun: no event loop: %s\n", uv_strerror(err));
        return EXIT_FAILURE;
    }
    agent_send_bytes(&a, REMOTE_HELLO, strlen(REMOTE_HELLO), NULL, 0);
    uv_run(&a.loop, UV_RUN_DEFAULT);
    if (a.ordered && !a.released) /* a supervisor that was killed, or never started, has not */
        host_setup_remove_shard(a.order.remove_dir);
    remote_order_finish(&a.order);
    free(a.bytes);
    return EXIT_SUCCESS;
}
