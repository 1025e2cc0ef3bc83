#include "client/api/loop_alarm.h"

static void
rang(uv_timer_t *timer)
{
    struct loop_alarm *a = timer->data;

    a->due_ms = 0;
}

void
loop_alarm_init(struct loop_alarm *a, uv_loop_t *loop)
{
    uv_timer_init(loop, &a->timer);
    a->timer.data = a;
    a->due_ms = 0;
}

void
loop_alarm_set(struct loop_alarm *a, uint64_t due_ms)
{
    uint64_t now = uv_now(a->timer.loop);

    if (a->due_ms > now && due_ms >= a->due_ms)
        return;
    a->due_ms = due_ms;
    uv_timer_start(&a->timer, rang, due_ms > now ? due_ms - now : 0, 1);
}

void
loop_alarm_stop(struct loop_alarm *a)
{
    uv_timer_stop(&a->timer);
    a->due_ms = 0;
}

void
loop_alarm_close(struct loop_alarm *a)
{
    uv_close((uv_handle_t *)&a->timer, NULL);
}
