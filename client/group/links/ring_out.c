#include "client/group/links/ring_out.h"

#include <string.h>

void
ring_out_init(struct ring_out *r, struct frame_ring *ring, struct bell *bell, struct copy_policy *copying,
              const uv_loop_t *loop)
{
    *r = (struct ring_out){.ring = ring, .bell = bell, .copy_policy = copying, .loop = loop};
}

/* Into the ring, behind what was put: the way is chosen by where that ends. */
static void
ring_out_copy(void *arg, void *to, const void *from, size_t n)
{
    struct ring_out *r = arg;
    enum copy_mode way;
    uint64_t begin;

    if (n < COPY_POLICY_BYTES_MIN) {
        memcpy(to, from, n);
        return;
    }
    way = copy_policy_mode(r->copy_policy, r->ring->shm.put);
    begin = uv_hrtime();
    if (way == COPY_STREAMED)
        copy_policy_streamed(to, from, n);
    else
        memcpy(to, from, n);
    copy_policy_note(r->copy_policy, way, COPY_IN, n, uv_hrtime() - begin);
}

/* Bytes that may be put into the ring. */
static size_t
room_for(struct ring_out *r, size_t wanted)
{
    size_t room = frame_ring_room(r->ring, wanted);

    if (room != SIZE_MAX)
        return room;
    r->mute = true;
    return 0;
}

void
ring_out_flush(struct ring_out *r)
{
    if (!r->unrung)
        return;
    r->unrung = false;
    bell_ring(r->bell, SHM_RING_DATA);
}

bool
ring_out_write(struct ring_out *r)
{
    bool moved = false;

    if (r->writing || r->mute)
        return false;
    r->writing = true;
    while (r->queue.first != NULL) {
        size_t room = room_for(r, r->ring->shm.ring_bytes / 2), bytes;

        if (room == 0)
            break;
        conn_queue_prepare(&r->queue, r->loop);
        bytes = frame_ring_fill(r->ring, &r->queue, room, ring_out_copy, r);
        r->unrung = true;
        ring_out_flush(r);
        conn_queue_take(&r->queue, bytes);
        moved = true;
    }
    r->writing = false;
    return moved;
}

bool
ring_out_at_once(struct ring_out *r, const struct rank_link_out *out)
{
    size_t payload = 0, at = out->head_len, pad;
    uint8_t *to;

    if (r->queue.first != NULL || r->writing)
        return false;
    for (size_t i = 0; i < out->parts_len; i++)
        payload += out->parts[i].len;
    pad = frame_pad(payload);
    if (room_for(r, out->head_len + payload + pad) < out->head_len + payload + pad)
        return false;
    to = shm_ring_in(&r->ring->shm);
    ring_out_copy(r, to, out->head, out->head_len);
    for (size_t i = 0; i < out->parts_len; at += out->parts[i++].len)
        ring_out_copy(r, to + at, out->parts[i].data, out->parts[i].len);
    memset(to + at, 0, pad);
    frame_ring_put(r->ring, out->head_len + payload + pad);
    r->unrung = true;
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
