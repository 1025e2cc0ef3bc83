/* A loop that does not sleep when a timer's callback has produced a result. Before version 1.45 libuv runs timers first
 * and polls then: with UV_RUN_ONCE it would sleep although the awaited thing has happened, or something has to be done
 * outside the loop.
 *
 *     loop_wakeup_init(&n, loop, comes, arg);
 *     uv_run(loop, UV_RUN_ONCE);            // polls without sleeping when comes(arg) after the timers
 *     loop_wakeup_close(&n);                // with the loop's other handles; gone when the loop has run once more
 *
 * comes() is called in every iteration: it must be cheap and change nothing. One thread. */
#ifndef COMMON_NET_LOOP_WAKEUP_H
#define COMMON_NET_LOOP_WAKEUP_H

#include <stdbool.h>

#include <uv.h>

struct loop_wakeup {
    bool (*comes)(void *arg);
    void *arg;

    /* private */
    uv_prepare_t prepare;
};

void loop_wakeup_init(struct loop_wakeup *n, uv_loop_t *loop, bool (*comes)(void *arg), void *arg);
void loop_wakeup_close(struct loop_wakeup *n);

#endif
