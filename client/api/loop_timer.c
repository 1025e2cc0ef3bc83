#include "client/api/loop_timer.h"

static void
loop_timer_fired(uv_timer_t *timer)
{
    struct loop_timer *a = timer->data;

    a->due_ms = 0;
}

void
loop_timer_init(struct loop_timer *a, uv_loop_t *loop)
{
    uv_timer_init(loop, &a->timer);
    a->timer.data = a;
    a->due_ms = 0;
}

void
loop_timer_set(struct loop_timer *a, uint64_t due_ms)
{
    uint64_t now = uv_now(a->timer.loop);

    if (a->due_ms > now && due_ms >= a->due_ms)
        return;
    a->due_ms = due_ms;
    uv_timer_start(&a->timer, loop_timer_fired, due_ms > now ? due_ms - now : 0, 1);
}

void
loop_timer_stop(struct loop_timer *a)
{
    uv_timer_stop(&a->timer);
    a->due_ms = 0;
}

void
loop_timer_close(struct loop_timer *a)
{
    uv_close((uv_handle_t *)&a->timer, NULL);
}
