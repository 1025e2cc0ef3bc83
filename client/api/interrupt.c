/* See interrupt.h. The eventfd is made once for the process and stays: a handler may run at any time. */
#include "client/api/interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/include/psclient/ps_client.h"

atomic_bool interrupt_flag;

static atomic_int interrupt_fd = -1;
static pthread_mutex_t interrupt_making = PTHREAD_MUTEX_INITIALIZER;

/* Async-signal-safe. A write fails only where the eventfd's count is full: it is readable then. */
static void
interrupt_signal(void)
{
    static const uint64_t one = 1;
    int fd = atomic_load(&interrupt_fd), saved = errno;

    if (fd >= 0 && write(fd, &one, sizeof one) < 0)
        errno = saved;
}

/* An eventfd that nobody has written to is not readable. It may have been written between the look at the flag and the
 * read here: then it is written again. */
static void
interrupt_drain(void)
{
    int fd = atomic_load(&interrupt_fd);
    uint64_t count;

    if (fd >= 0 && read(fd, &count, sizeof count) < 0 && errno != EAGAIN)
        return;
    if (interrupt_pending())
        interrupt_signal();
}

static int
interrupt_make_fd(void)
{
    int fd;

    pthread_mutex_lock(&interrupt_making);
    fd = atomic_load(&interrupt_fd);
    if (fd < 0 && (fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) >= 0) {
        atomic_store(&interrupt_fd, fd);
        if (interrupt_pending())
            interrupt_signal();
    }
    pthread_mutex_unlock(&interrupt_making);
    return fd;
}

/* ---- The process ---- */

void
ps_interrupt(void)
{
    atomic_store(&interrupt_flag, true);
    interrupt_signal();
}

void
ps_interrupt_clear(void)
{
    atomic_store(&interrupt_flag, false);
    interrupt_drain();
}

int
ps_interrupted(void)
{
    return interrupt_pending();
}

/* ---- One loop ---- */

static void
interrupt_found(uv_poll_t *poll, int status, int events)
{
    struct interrupt_watch *w = poll->data;

    (void)status;
    (void)events;
    if (!interrupt_pending()) { /* cleared meanwhile, or a child of fork() has written */
        interrupt_drain();
        return;
    }
    uv_poll_stop(poll);
    w->watching = false;
    w->found(w->arg);
}

enum ps_err
interrupt_watch_open(struct interrupt_watch *w, uv_loop_t *loop, void (*found)(void *arg), void *arg)
{
    int fd = interrupt_make_fd();

    *w = (struct interrupt_watch){.found = found, .arg = arg};
    if (fd < 0 || uv_poll_init(loop, &w->poll, fd) != 0)
        return PS_ERR_IO;
    w->poll.data = w;
    w->open = true;
    w->watching = true;
    uv_poll_start(&w->poll, UV_READABLE, interrupt_found);
    uv_unref((uv_handle_t *)&w->poll);
    return PS_OK;
}

bool
interrupt_watch_again(struct interrupt_watch *w)
{
    if (w->watching || !w->open || interrupt_pending())
        return false;
    w->watching = true;
    uv_poll_start(&w->poll, UV_READABLE, interrupt_found);
    return true;
}

void
interrupt_watch_close(struct interrupt_watch *w)
{
    if (w->open)
        uv_close((uv_handle_t *)&w->poll, NULL);
    w->open = false;
}
