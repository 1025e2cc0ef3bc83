/* Reading. The usual way: read_alloc() offers what the frame reader wants, read_done() feeds it, events go out. Then
 * the failures: bytes that are no frame and the end of the stream both stop reading and are reported once (conn_end()).
 *
 * A pause ends conn_feed() at a frame's end. What was read behind it is kept in c->rest; when it may continue, the
 * connection is in pool->kept until the loop's next iteration hands the rest out (never from within conn_read_resume(),
 * which is called from anywhere). Only then is more read. */
#include "common/net/conn_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
conn_read_place(struct conn *c, void **at, size_t *len)
{
    size_t most;

    *at = NULL;
    *len = CONN_SCRATCH;
    if (!c->ended && !c->finishing)
        frame_want(&c->reader, at, len);
    if (*at != NULL)
        return;
    *at = c->pool->scratch + frame_offset(&c->reader);
    most = c->read_max != 0 && c->pool->read_max != 0 ? MIN(c->read_max, c->pool->read_max)
                                                      : MAX(c->read_max, c->pool->read_max);
    *len = MIN(*len, most != 0 ? MIN(most + frame_missing(&c->reader), CONN_SCRATCH) : CONN_SCRATCH);
}

static void
read_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    struct conn *c = handle->data;
    size_t len;
    void *at;

    (void)suggested;
    c->transport->place(c, &at, &len);
    *buf = (uv_buf_t){.base = at, .len = len};
}

void
conn_kept_remove(struct conn *c)
{
    struct conn_pool *p = c->pool;

    if (c->kept_before == NULL)
        return;
    *c->kept_before = c->kept_next;
    if (c->kept_next != NULL)
        c->kept_next->kept_before = c->kept_before;
    c->kept_before = NULL;
    if (p->kept == NULL)
        uv_idle_stop(p->idle);
}

void
conn_rest_drop(struct conn *c)
{
    conn_kept_remove(c);
    free(c->rest);
    c->rest = NULL;
    c->pool->kept_bytes -= c->rest_size;
    c->rest_at = c->rest_len = c->rest_size = 0;
}

/* Asks the owner whether the frame may come. True: reading stops before the rest of it. */
static bool
head_stops(struct conn *c)
{
    struct ps_error e;

    if (c->auth != NULL && conn_auth_expects(c, &c->reader.head))
        return false;
    if (c->events->head(c, &c->reader.head, &e) == PS_OK)
        return c->paused;
    if (!c->closing)
        conn_end(c, &e);
    return true;
}

/* Keep these bytes until reading continues. False: no memory. */
static bool
rest_keep(struct conn *c, const uint8_t *data, size_t n)
{
    uint8_t *copy;

    if (c->rest == NULL) {
        if ((copy = malloc(n + FRAME_ALIGN)) == NULL)
            return false;
        c->rest = copy;
        c->rest_size = n + FRAME_ALIGN;
        c->pool->kept_bytes += c->rest_size;
        data = memcpy(c->rest + frame_offset(&c->reader), data, n);
    }
    c->rest_at = (size_t)(data - c->rest);
    c->rest_len = n;
    return true;
}

void
conn_feed(struct conn *c, const uint8_t *data, size_t n)
{
    struct frame_reader *r = &c->reader;
    bool stop = false;
    size_t used;

    for (; n > 0 && !c->closing && !c->ended && !stop; data += used, n -= used) {
        switch (frame_feed(r, data, n, &used)) {
        case FRAME_MORE:
            break;
        case FRAME_HEADED:
            stop = head_stops(c) && n > used && !c->closing && !c->ended && rest_keep(c, data + used, n - used);
            break;
        case FRAME_META: /* has a payload: authentication takes none */
            if (c->auth != NULL && conn_auth_takes(c, &r->head, r->meta))
                break;
            if (c->events->meta != NULL)
                c->events->meta(c, &r->head, r->meta);
            break;
        case FRAME_WHOLE:
            if (c->auth == NULL || !conn_auth_takes(c, &r->head, r->meta))
                c->events->frame(c, &r->head, r->meta, r->payload);
            stop = c->paused && n > used && !c->closing && !c->ended && rest_keep(c, data + used, n - used);
            break;
        case FRAME_BAD:
            if (c->auth != NULL)
                conn_auth_broken(c, &r->error);
            else
                conn_end(c, &r->error);
            break;
        }
    }
    if (!c->closing)
        frame_reader_trim(r);
}

static bool
read_pending(const struct conn *c)
{
    return c->transport->pending != NULL && c->transport->pending(c);
}

/* Hand out the kept bytes, and read on after them: first what the transport has read already. */
static void
rest_feed(struct conn *c)
{
    size_t n = c->rest_len;
    int status;

    c->rest_len = 0;
    if (n > 0)
        conn_feed(c, c->rest + c->rest_at, n);
    if (c->rest_len > 0 || c->closing)
        return;
    conn_rest_drop(c);
    if (!c->paused && !c->ended && (status = conn_read_start(c)) < 0)
        conn_broke(c, status);
    if (read_pending(c))
        (void)c->transport->read(c);
    conn_timeouts_update(c);
}

/* Each connection once: one that keeps bytes back again waits for the next iteration. */
static void
idle_comes(uv_idle_t *idle)
{
    struct conn_pool *p = idle->data;
    struct conn *list = p->kept, *c;

    p->kept = NULL;
    uv_idle_stop(idle);
    if (list != NULL)
        list->kept_before = &list;
    while ((c = list) != NULL) {
        conn_kept_remove(c);
        rest_feed(c);
    }
}

void
conn_over(struct conn *c, int status)
{
    if (c->shut || (c->finishing && status != UV_EOF))
        conn_close(c, NULL);
    else if (!c->finishing)
        conn_end_uv(c, status);
}

static void
read_done(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    struct conn *c = stream->data;

    if (nread == 0 || c->closing)
        return;
    if (nread == UV_ENOBUFS && c->transport->read != NULL) {
        (void)c->transport->read(c);
        conn_timeouts_update(c);
        return;
    }
    if (nread < 0) {
        c->eof = true;
        c->eof_status = (int)nread;
        uv_read_stop(stream);
        c->reading = false;
    }
    c->transport->came(c, buf->base, nread);
}

int
conn_read_start(struct conn *c)
{
    int status;

    if (c->reading || c->eof)
        return 0;
    status = uv_read_start(&c->u.stream, read_alloc, read_done);
    c->reading = status == 0;
    return status;
}

bool
conn_poll(struct conn *c)
{
    uv_buf_t buf;
    ssize_t n;

    if (!c->reading || c->closing)
        return false;
    read_alloc(&c->u.handle, 0, &buf);
    if (buf.len == 0)
        return c->transport->read(c);
    n = read(c->fd, buf.base, buf.len);
    if (n > 0 || n == 0)
        read_done(&c->u.stream, n > 0 ? n : UV_EOF, &buf);
    else if (errno != EAGAIN && errno != EINTR)
        read_done(&c->u.stream, uv_translate_sys_error(errno), &buf);
    else
        return false;
    return true;
}

void
conn_read_pause(struct conn *c)
{
    c->paused = true;
    conn_kept_remove(c);
    if (c->reading && !c->closing && !c->finishing && !c->transport->is_memory) {
        uv_read_stop(&c->u.stream);
        c->reading = false;
    }
}

void
conn_read_at_most(struct conn *c, size_t bytes)
{
    c->read_max = bytes;
}

static void
kept_add(struct conn *c)
{
    struct conn_pool *p = c->pool;

    if (c->kept_before != NULL)
        return;
    c->kept_before = &p->kept;
    c->kept_next = p->kept;
    if (c->kept_next != NULL)
        c->kept_next->kept_before = &c->kept_next;
    p->kept = c;
    uv_idle_start(p->idle, idle_comes);
}

void
conn_read_resume(struct conn *c)
{
    int status;

    c->paused = false;
    if (!c->started || c->ended || c->closing)
        return;
    if (c->rest_len > 0 || read_pending(c))
        kept_add(c);
    else if ((status = conn_read_start(c)) < 0)
        conn_broke(c, status);
    conn_timeouts_update(c);
}
