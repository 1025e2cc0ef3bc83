/* The progress thread: it drives a client's loop all the time, so that communication overlaps with what the caller
 * computes.
 *
 * The thread holds the client's mutex but while it sleeps in poll() on the loop's descriptor; callers hold it during
 * their calls and wait on a condition. So the loop and the core are only ever touched by who holds the mutex.
 *
 * What a caller changed may concern the sleeping thread: a socket that is full and must be watched, a timer that rings
 * sooner. client_leave() then wakes it through uv_async_send(). Descriptors that were added to the loop since its last
 * turn are known to the kernel only after another one: the thread runs the loop until a turn brings nothing new. */
#include <poll.h>
#include <stdlib.h>

#include "client/client_state.h"
#include "client/monotonic.h"
#include "common/thread.h"

static void
async_done(uv_async_t *async)
{
    ps_client *c = async->data;

    c->activity++;
}

static void
run_loop(ps_client *c)
{
    uint64_t before;

    do {
        before = c->activity;
        c->wake = false;
        uv_run(&c->loop, UV_RUN_NOWAIT);
        core_time(c->core, uv_now(&c->loop));
        client_perform(c);
    } while (c->activity != before || c->wake);
    if (c->told != core_changes(c->core)) {
        c->told = core_changes(c->core);
        pthread_cond_broadcast(&c->changed);
    }
}

/* How long the thread may sleep, ms; -1: until something comes. */
static int
sleep_ms(ps_client *c)
{
    uint64_t now = uv_now(&c->loop), next = core_next_time(c->core);
    int loop_ms = uv_backend_timeout(&c->loop);
    uint64_t ms = next == UINT64_MAX ? UINT64_MAX : next > now ? next - now : 0;

    if (loop_ms >= 0)
        ms = MIN(ms, (uint64_t)loop_ms);
    c->next_poll_ms = ms == UINT64_MAX ? UINT64_MAX : now + ms;
    return ms > 60000 ? 60000 : (int)ms;
}

static void *
progress_main(void *arg)
{
    ps_client *c = arg;
    struct pollfd fd = {.events = POLLIN};
    int ms;

    pthread_mutex_lock(&c->mutex);
    fd.fd = uv_backend_fd(&c->loop);
    c->pool.sleeps = false; /* in its own poll alone */
    while (!c->stop) {
        run_loop(c);
        ms = sleep_ms(c);
        if (!conn_pool_doze(&c->pool))
            continue;
        pthread_mutex_unlock(&c->mutex);
        (void)poll(&fd, 1, ms);
        pthread_mutex_lock(&c->mutex);
        conn_pool_wake(&c->pool);
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

enum ps_err
progress_start(ps_client *c, struct ps_error *e)
{
    int rc;

    if (uv_async_init(&c->loop, &c->async, async_done) != 0)
        return ps_fail(e, PS_ERR_IO, "cannot start the progress thread: too many open files?");
    c->async.data = c;
    uv_timer_stop(&c->timer);
    c->timer_due_ms = 0;
    monotonic_cond_init(&c->changed);
    pthread_mutex_init(&c->mutex, NULL);
    c->threaded = true;
    if ((rc = thread_start(&c->thread, progress_main, c)) == 0)
        return PS_OK;
    c->threaded = false;
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->changed);
    uv_close((uv_handle_t *)&c->async, NULL);
    return ps_fail(e, PS_ERR_NOMEM, "cannot start the progress thread (error %d)", rc);
}

void
progress_stop(ps_client *c)
{
    if (!c->threaded)
        return;
    pthread_mutex_lock(&c->mutex);
    c->stop = true;
    uv_async_send(&c->async);
    pthread_mutex_unlock(&c->mutex);
    pthread_join(c->thread, NULL);
    c->threaded = false;
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->changed);
    uv_close((uv_handle_t *)&c->async, NULL);
}

/* Within the mutex. Wait until ready() or a time; false: the time came. */
static bool
wait_until(ps_client *c, const struct client_wait *w, const struct timespec *until)
{
    while (!w->ready(w->arg))
        if (pthread_cond_timedwait(&c->changed, &c->mutex, until) != 0)
            return w->ready(w->arg);
    return true;
}

bool
progress_wait(ps_client *c, const struct client_wait *w, uint64_t timeout_ms)
{
    uint64_t near = MIN(250, timeout_ms / 4);
    struct timespec end = monotonic_in(timeout_ms), soon = monotonic_in(timeout_ms - near);

    /* What the caller started must be known to the thread before the caller sleeps. */
    if (c->wake || core_next_time(c->core) < c->next_poll_ms) {
        c->wake = false;
        uv_async_send(&c->async);
    }
    if (w->near == NULL || timeout_ms < 4)
        return wait_until(c, w, &end);
    if (wait_until(c, w, &soon))
        return true;
    w->near(w->arg);
    client_perform(c);
    uv_async_send(&c->async);
    return wait_until(c, w, &end);
}
