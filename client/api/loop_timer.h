/* A timer that ends a loop's sleep at a given time. It is set again only when it must fire sooner, since firing early
 * does no harm; and it repeats, since uv_run() may fire it before going to sleep, and must not sleep without it then.
 *
 *     loop_timer_init(&a, &loop);
 *     loop_timer_set(&a, due_ms);  uv_run(&loop, UV_RUN_ONCE);
 *     loop_timer_close(&a);         // and a turn of the loop */
#ifndef CLIENT_API_LOOP_TIMER_H
#define CLIENT_API_LOOP_TIMER_H

#include <uv.h>

struct loop_timer {
    uv_timer_t timer;
    uint64_t due_ms; /* 0: not set, or it fired */
};

void loop_timer_init(struct loop_timer *a, uv_loop_t *loop);
void loop_timer_set(struct loop_timer *a, uint64_t due_ms); /* in the loop's time */
void loop_timer_stop(struct loop_timer *a);
void loop_timer_close(struct loop_timer *a);

#endif
