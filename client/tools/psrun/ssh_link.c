#include "client/tools/psrun/ssh_link.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/system/now.h"

struct ssh_link_write {
    uv_write_t req;
    char *bytes;
};

/* A failed write means that ssh is gone, which its supervisor reports. */
static void
ssh_link_written(uv_write_t *req, int status)
{
    struct ssh_link_write *w = CONTAINER_OF(req, struct ssh_link_write, req);

    (void)status;
    free(w->bytes);
    free(w);
}

/* Takes bytes. */
static void
ssh_link_write(struct ssh_link *l, char *bytes, size_t len)
{
    struct ssh_link_write *w = strlist_alloc(NULL, 1, sizeof *w);
    uv_buf_t buf = uv_buf_init(bytes, (unsigned)len);

    w->bytes = bytes;
    if (uv_write(&w->req, (uv_stream_t *)&l->pipe, &buf, 1, ssh_link_written) != 0)
        ssh_link_written(&w->req, 0);
}

void
ssh_link_beat(struct ssh_link *l)
{
    if (!l->open || monotonic_ms() - l->beaten_ms < l->beat_ms)
        return;
    l->beaten_ms = monotonic_ms();
    /* One that waits in the pipe is as good as two. */
    if (uv_stream_get_write_queue_size((uv_stream_t *)&l->pipe) == 0)
        ssh_link_send(l, REMOTE_BEAT);
}

static void
ssh_link_on_time(uv_timer_t *beat)
{
    ssh_link_beat(CONTAINER_OF(beat, struct ssh_link, beat));
}

int
ssh_link_open(struct ssh_link *l, uv_loop_t *loop, void *data, const struct remote_order *order, int *child)
{
    uv_file ends[2];
    size_t len;
    char *bytes;
    int err;

    *child = -1;
    uv_pipe_init(loop, &l->pipe, 0);
    uv_timer_init(loop, &l->beat);
    l->pipe.data = l->beat.data = data;
    l->open = true;
    l->beat_ms = MAX(order->silence_ms / REMOTE_BEATS, 2U) / 2; /* looked for twice as often as one must come */
    l->beaten_ms = monotonic_ms();
    if ((err = uv_pipe(ends, 0, UV_NONBLOCK_PIPE)) != 0)
        return err;
    *child = ends[0];
    if ((err = uv_pipe_open(&l->pipe, ends[1])) != 0) {
        close(ends[1]);
        return err;
    }
    bytes = remote_order_pack(order, &len);
    ssh_link_write(l, bytes, len);
    return uv_timer_start(&l->beat, ssh_link_on_time, l->beat_ms, l->beat_ms);
}

void
ssh_link_send(struct ssh_link *l, enum remote_command command)
{
    char *byte;

    if (!l->open)
        return;
    byte = strlist_alloc(NULL, 1, 1);
    *byte = (char)command;
    ssh_link_write(l, byte, 1);
}

void
ssh_link_close(struct ssh_link *l, uv_close_cb closed)
{
    if (!l->open)
        return;
    l->open = false;
    uv_close((uv_handle_t *)&l->pipe, closed);
    uv_close((uv_handle_t *)&l->beat, closed);
}
