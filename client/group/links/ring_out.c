#include "client/group/links/ring_out.h"

#include <string.h>

void
ring_out_init(struct ring_out *r, struct share *share, struct bell *bell, struct copying *copying,
              const uv_loop_t *loop)
{
    *r = (struct ring_out){.share = share, .bell = bell, .copying = copying, .loop = loop};
}

/* Into the ring, where it is `at` bytes past what was put. */
static void
copy(struct ring_out *r, size_t at, const void *from, size_t n)
{
    uint8_t *to = share_in(r->share) + at;
    enum copying_way way;
    uint64_t begin;

    if (n < COPYING_BYTES_MIN) {
        memcpy(to, from, n);
        return;
    }
    way = copying_way(r->copying, r->share->put);
    begin = uv_hrtime();
    if (way == COPYING_STREAMED)
        copying_streamed(to, from, n);
    else
        memcpy(to, from, n);
    copying_note(r->copying, way, COPYING_IN, n, uv_hrtime() - begin);
}

static size_t
copy_in(struct ring_out *r, size_t room)
{
    uv_buf_t bufs[CONN_QUEUE_BUFS];
    size_t bytes, at = 0;
    unsigned n;

    bytes = (size_t)conn_queue_gather(&r->queue, bufs, &n, room);
    for (unsigned i = 0; i < n; at += bufs[i++].len)
        copy(r, at, bufs[i].base, bufs[i].len);
    return bytes;
}

/* Bytes that may be put into the ring, all of them looked for if what is known is less than wanted. */
static size_t
room_for(struct ring_out *r, size_t wanted)
{
    if (r->room < wanted)
        r->room = share_room(r->share);
    if (r->room == SIZE_MAX) {
        r->room = 0;
        r->mute = true;
    }
    return r->room;
}

static void
put(struct ring_out *r, size_t bytes)
{
    share_put(r->share, bytes);
    r->room -= bytes;
    r->unrung = true;
}

void
ring_out_flush(struct ring_out *r)
{
    if (!r->unrung)
        return;
    r->unrung = false;
    bell_ring(r->bell, SHARE_DATA);
}

bool
ring_out_write(struct ring_out *r)
{
    bool moved = false;

    if (r->writing || r->mute)
        return false;
    r->writing = true;
    while (r->queue.first != NULL) {
        size_t room = room_for(r, r->share->ring_bytes / 2), bytes;

        if (room == 0)
            break;
        conn_queue_prepare(&r->queue, r->loop);
        bytes = copy_in(r, room);
        put(r, bytes);
        ring_out_flush(r);
        conn_queue_take(&r->queue, bytes);
        moved = true;
    }
    r->writing = false;
    return moved;
}

bool
ring_out_at_once(struct ring_out *r, const struct link_out *out)
{
    size_t payload = 0, at = out->head_len, pad;

    if (r->queue.first != NULL || r->writing)
        return false;
    for (size_t i = 0; i < out->parts_len; i++)
        payload += out->parts[i].len;
    pad = frame_pad(payload);
    if (room_for(r, out->head_len + payload + pad) < out->head_len + payload + pad)
        return false;
    copy(r, 0, out->head, out->head_len);
    for (size_t i = 0; i < out->parts_len; at += out->parts[i++].len)
        copy(r, at, out->parts[i].data, out->parts[i].len);
    memset(share_in(r->share) + at, 0, pad);
    put(r, out->head_len + payload + pad);
    return true;
}

bool
ring_out_cut(struct ring_out *r)
{
    r->writing = true; /* what done() sends comes after the rest of what has begun */
    if (!conn_queue_cut(&r->queue))
        r->mute = true;
    r->writing = false;
    return !r->mute;
}
