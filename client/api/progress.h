/* The progress thread: it drives the loop of a client, or of a group, all the time, so that communication overlaps with
 * what the caller computes.
 *
 *     if ((err = progress_start(&p, &loop, &user, owner, e)) != PS_OK) ...
 *     progress_enter(&p);  ... a call ...  progress_leave(&p, stand(owner));
 *     progress_enter(&p);  ... progress_wait(&p, ready, arg, &until) ...  progress_leave(&p, stand(owner));
 *     progress_stop(&p);
 *
 * The thread holds a mutex except while it sleeps in poll() on the loop's descriptor; callers hold it during their
 * calls and wait on a condition. So the owner, its loop and its core are only ever touched by the holder of the mutex.
 * A progress thread that is zeroed, or was stopped, does not run: entering and leaving do nothing, and the caller
 * drives the loop itself.
 *
 * A caller's change may concern the sleeping thread: a socket that is full and must be watched, a time that comes
 * sooner. progress_leave() and progress_wake_thread() then wake it. Descriptors that were added to the loop since its
 * last turn are known to the kernel only after another one: the thread runs the loop until a turn brings nothing new.
 */
#ifndef CLIENT_API_PROGRESS_H
#define CLIENT_API_PROGRESS_H

#include <pthread.h>
#include <time.h>
#include <uv.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* The state of its owner. */
struct progress_status {
    bool news;        /* the loop is to turn soon */
    uint64_t next_ms; /* it is to turn then, in its own time; UINT64_MAX: the core waits for nothing */
    uint64_t changes; /* how often what waiters look at has changed */
};

/* What the thread drives; all are called within the mutex. */
struct progress_user {
    struct progress_status (*turn)(void *owner); /* of the loop, without waiting, and the core */
    bool (*sleep)(void *owner);                  /* the thread is about to; false: something is there already */
    void (*wake)(void *owner);                   /* it has slept, or sleep() returned false */
};

struct progress_progress {
    const struct progress_user *user;
    void *owner;
    uv_loop_t *loop;
    bool runs; /* for its owner to look at */

    bool stop, woken;
    uint64_t notified; /* changes that waiters know of */
    uint64_t next_ms;  /* when the thread's sleep ends by itself */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uv_async_t async;
};

/* Borrows the loop and the user until progress_stop(). When it fails, it does not run. A handle of the loop is closed
 * by progress_stop(), and by a failure: the loop is to turn once more before it starts again, or ends. */
enum ps_err progress_start(struct progress_progress *p, uv_loop_t *loop, const struct progress_user *user, void *owner,
                           struct ps_error *e) PS_MUST_USE;
void progress_stop(struct progress_progress *p); /* accepts one that does not run */

void progress_enter(struct progress_progress *p);
void progress_leave(struct progress_progress *p, struct progress_status now);

/* Within: waiters are to look again. */
void progress_notify(struct progress_progress *p);

/* Within, while it runs: wake the thread if that is needed, as leaving does. */
void progress_wake_thread(struct progress_progress *p, struct progress_status now);

/* Within, while it runs: until ready(arg) or a time of monotonic_in(); false: the time came. */
bool progress_wait(struct progress_progress *p, bool (*ready)(void *arg), void *arg, const struct timespec *until);

#endif
