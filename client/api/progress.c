#include "client/api/progress.h"

#include <poll.h>

#include "common/system/now.h"
#include "common/system/thread.h"

#define SLEEP_MS 60000

static void
async_woken(uv_async_t *async)
{
    struct progress_progress *p = async->data;

    p->woken = true;
}

static void
notify_changes(struct progress_progress *p, uint64_t changes)
{
    if (p->notified == changes)
        return;
    p->notified = changes;
    progress_notify(p);
}

/* Returns when the core wants its next turn. */
static uint64_t
run_loop(struct progress_progress *p)
{
    struct progress_status now;

    do {
        p->woken = false;
        now = p->user->turn(p->owner);
    } while (now.news || p->woken);
    notify_changes(p, now.changes);
    return now.next_ms;
}

/* How long the thread may sleep, ms. */
static int
sleep_ms(struct progress_progress *p, uint64_t next)
{
    uint64_t now = uv_now(p->loop), ms = SLEEP_MS;
    int loop_ms = uv_backend_timeout(p->loop);

    if (next != UINT64_MAX)
        ms = MIN(ms, next > now ? next - now : 0);
    if (loop_ms >= 0)
        ms = MIN(ms, (uint64_t)loop_ms);
    p->next_ms = now + ms;
    return (int)ms;
}

static void *
progress_main(void *arg)
{
    struct progress_progress *p = arg;
    struct pollfd fd = {.events = POLLIN};
    uint64_t next;
    bool quiet;
    int ms;

    pthread_mutex_lock(&p->mutex);
    fd.fd = uv_backend_fd(p->loop);
    while (!p->stop) {
        next = run_loop(p);
        quiet = p->user->sleep(p->owner);
        ms = quiet ? sleep_ms(p, next) : 0;
        pthread_mutex_unlock(&p->mutex);
        if (quiet)
            (void)poll(&fd, 1, ms);
        pthread_mutex_lock(&p->mutex);
        p->user->wake(p->owner);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* The thread did not start, or has ended. */
static void
take_down(struct progress_progress *p)
{
    p->runs = false;
    pthread_mutex_destroy(&p->mutex);
    pthread_cond_destroy(&p->changed);
    uv_close((uv_handle_t *)&p->async, NULL);
}

enum ps_err
progress_start(struct progress_progress *p, uv_loop_t *loop, const struct progress_user *user, void *owner,
               struct ps_error *e)
{
    int rc;

    *p = (struct progress_progress){.user = user, .owner = owner, .loop = loop};
    if (uv_async_init(loop, &p->async, async_woken) != 0)
        return ps_fail(e, PS_ERR_IO, "cannot start the progress thread: too many open files?");
    p->async.data = p;
    monotonic_cond_init(&p->changed);
    pthread_mutex_init(&p->mutex, NULL);
    p->runs = true;
    if ((rc = thread_start(&p->thread, progress_main, p)) == 0)
        return PS_OK;
    take_down(p);
    return ps_fail(e, PS_ERR_NOMEM, "cannot start the progress thread (error %d)", rc);
}

void
progress_stop(struct progress_progress *p)
{
    if (!p->runs)
        return;
    pthread_mutex_lock(&p->mutex);
    p->stop = true;
    uv_async_send(&p->async);
    pthread_mutex_unlock(&p->mutex);
    pthread_join(p->thread, NULL);
    take_down(p);
}

void
progress_enter(struct progress_progress *p)
{
    if (p->runs)
        pthread_mutex_lock(&p->mutex);
}

void
progress_leave(struct progress_progress *p, struct progress_status now)
{
    if (!p->runs)
        return;
    notify_changes(p, now.changes);
    progress_wake_thread(p, now);
    pthread_mutex_unlock(&p->mutex);
}

void
progress_notify(struct progress_progress *p)
{
    if (p->runs)
        pthread_cond_broadcast(&p->changed);
}

void
progress_wake_thread(struct progress_progress *p, struct progress_status now)
{
    if (now.news || now.next_ms < p->next_ms)
        uv_async_send(&p->async);
}

bool
progress_wait(struct progress_progress *p, bool (*ready)(void *arg), void *arg, const struct timespec *until)
{
    while (!ready(arg))
        if (pthread_cond_timedwait(&p->changed, &p->mutex, until) != 0)
            return ready(arg);
    return true;
}
