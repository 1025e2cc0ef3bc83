/* A prepare handle is called between the timers and the poll, and a loop that is stopped does not sleep in it. */
#include "common/net/loop_wakeup.h"

static void
before_poll(uv_prepare_t *prepare)
{
    struct loop_wakeup *n = prepare->data;

    if (n->comes(n->arg))
        uv_stop(prepare->loop);
}

void
loop_wakeup_init(struct loop_wakeup *n, uv_loop_t *loop, bool (*comes)(void *arg), void *arg)
{
    n->comes = comes;
    n->arg = arg;
    uv_prepare_init(loop, &n->prepare);
    n->prepare.data = n;
    uv_prepare_start(&n->prepare, before_poll);
    uv_unref((uv_handle_t *)&n->prepare);
}

void
loop_wakeup_close(struct loop_wakeup *n)
{
    uv_close((uv_handle_t *)&n->prepare, NULL);
}
