/* The progress thread: it drives a group's loop all the time, so that communication overlaps with what the caller
 * computes.
 *
 * The thread holds the group's mutex but while it sleeps in poll() on the loop's descriptor; callers hold it during
 * their calls and wait on a condition. So the loop, the links and the core are only ever touched by who holds the
 * mutex.
 *
 * What a caller changed may concern the sleeping thread: a socket that is full and must be watched, a deadline that
 * comes sooner. group_leave() then wakes it through uv_async_send(). Descriptors that were added to the loop since its
 * last turn are known to the kernel only after another one: the thread runs the loop until a turn brings nothing new.
 */
#include <poll.h>

#include "client/group/group_state.h"
#include "client/monotonic.h"
#include "common/thread.h"

static void
async_came(uv_async_t *async)
{
    ps_group *g = async->data;

    g->activity++;
}

static void
run_loop(ps_group *g)
{
    uint64_t before;

    do {
        before = g->activity;
        group_turn(g);
    } while (g->activity != before);
    if (g->told != group_core_changes(g->core)) {
        g->told = group_core_changes(g->core);
        pthread_cond_broadcast(&g->changed);
    }
}

/* How long the thread may sleep, ms. */
static int
sleep_ms(ps_group *g)
{
    uint64_t now = uv_now(&g->loop), next = group_core_next_time(g->core), ms = 60000;
    int loop_ms = uv_backend_timeout(&g->loop);

    if (next != UINT64_MAX)
        ms = MIN(ms, next > now ? next - now : 0);
    if (loop_ms >= 0)
        ms = MIN(ms, (uint64_t)loop_ms);
    g->next_poll_ms = now + ms;
    return (int)ms;
}

static void *
thread_main(void *arg)
{
    ps_group *g = arg;
    struct pollfd fd = {.events = POLLIN};
    bool quiet;
    int ms;

    pthread_mutex_lock(&g->mutex);
    fd.fd = uv_backend_fd(&g->loop);
    while (!g->stop) {
        run_loop(g);
        quiet = group_sleep(g);
        ms = quiet ? sleep_ms(g) : 0;
        pthread_mutex_unlock(&g->mutex);
        if (quiet)
            (void)poll(&fd, 1, ms);
        pthread_mutex_lock(&g->mutex);
        group_wake(g);
    }
    pthread_mutex_unlock(&g->mutex);
    return NULL;
}

enum ps_err
group_thread_start(ps_group *g, struct ps_error *e)
{
    int rc;

    if (uv_async_init(&g->loop, &g->async, async_came) != 0)
        return ps_fail(e, PS_ERR_IO, "cannot start the progress thread: too many open files?");
    g->async.data = g;
    uv_timer_stop(&g->timer);
    g->timer_due_ms = 0;
    g->stop = false;
    g->told = group_core_changes(g->core);
    monotonic_cond_init(&g->changed);
    pthread_mutex_init(&g->mutex, NULL);
    g->threaded = true;
    if ((rc = thread_start(&g->thread, thread_main, g)) == 0)
        return PS_OK;
    g->threaded = false;
    pthread_mutex_destroy(&g->mutex);
    pthread_cond_destroy(&g->changed);
    uv_close((uv_handle_t *)&g->async, NULL);
    return ps_fail(e, PS_ERR_NOMEM, "cannot start the progress thread (error %d)", rc);
}

void
group_thread_stop(ps_group *g)
{
    if (!g->threaded)
        return;
    pthread_mutex_lock(&g->mutex);
    g->stop = true;
    uv_async_send(&g->async);
    pthread_mutex_unlock(&g->mutex);
    pthread_join(g->thread, NULL);
    g->threaded = false;
    pthread_mutex_destroy(&g->mutex);
    pthread_cond_destroy(&g->changed);
    uv_close((uv_handle_t *)&g->async, NULL);
}

bool
group_thread_wait(ps_group *g, const struct ps_work *work, uint64_t timeout_ms)
{
    struct timespec end = monotonic_in(timeout_ms);

    /* What the caller started must be known to the thread before the caller sleeps. */
    if (g->outs > 0 || group_core_next_time(g->core) < g->next_poll_ms)
        uv_async_send(&g->async);
    while (work->core != NULL && !group_work_done(work->core))
        if (timeout_ms == 0 || pthread_cond_timedwait(&g->changed, &g->mutex, &end) != 0)
            return work->core == NULL || group_work_done(work->core);
    return true;
}
