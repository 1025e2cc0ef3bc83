/* A loop that does not fall asleep on news. Before version 1.45 libuv lets timers ring first and polls then: with
 * UV_RUN_ONCE it would sleep although what a timer's callback did is all that was waited for, or asks for something to
 * be done outside the loop.
 *
 *     loop_wakeup_init(&n, loop, comes, arg);
 *     uv_run(loop, UV_RUN_ONCE);            // polls without sleeping when comes(arg) after the timers
 *     loop_wakeup_close(&n);                // with the loop's other handles; gone when the loop has run once more
 *
 * comes() is asked in every turn: it is cheap and changes nothing. One thread. */
#ifndef COMMON_LOOP_WAKEUP_H
#define COMMON_LOOP_WAKEUP_H

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
