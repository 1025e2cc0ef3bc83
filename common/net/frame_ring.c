#include "common/net/frame_ring.h"

#include <string.h>

#define TAKEN_PART 8 /* of a ring is read before the other side is notified */

void
frame_ring_init(struct frame_ring *r, struct shm_ring *share)
{
    *r = (struct frame_ring){.shm = *share};
    *share = (struct shm_ring){0};
    shm_ring_offered(&r->shm);
}

void
frame_ring_finish(struct frame_ring *r)
{
    shm_ring_finish(&r->shm);
}

/* ---- Out ---- */

size_t
frame_ring_room(struct frame_ring *r, size_t wanted)
{
    size_t room = r->room;

    if (room < wanted)
        room = shm_ring_space(&r->shm);
    r->room = room != SIZE_MAX ? room : 0;
    return room;
}

void
frame_ring_put(struct frame_ring *r, size_t n)
{
    shm_ring_put(&r->shm, n);
    r->room -= n;
}

size_t
frame_ring_fill(struct frame_ring *r, const struct conn_queue *q, size_t room, frame_ring_copy *copy, void *arg)
{
    uint8_t *to = shm_ring_in(&r->shm);
    uv_buf_t bufs[CONN_QUEUE_BUFS];
    unsigned n;
    size_t bytes = (size_t)conn_queue_gather(q, bufs, &n, room);

    for (unsigned i = 0; i < n; to += bufs[i++].len)
        if (copy != NULL)
            copy(arg, to, bufs[i].base, bufs[i].len);
        else
            memcpy(to, bufs[i].base, bufs[i].len);
    frame_ring_put(r, bytes);
    return bytes;
}

/* ---- In ---- */

/* A head that is not valid goes to the reader, which reports the error. */
static struct frame_ripe
frame_ring_look(const struct frame_ring *r, const struct frame_reader *reader, size_t filled)
{
    size_t missing = frame_missing(reader);
    struct frame_ripe ripe = {0};
    uint64_t bytes;

    if (missing > 0 || filled < FRAME_HEAD_SIZE) {
        ripe.n = MIN(filled, missing);
        return ripe;
    }
    ripe.n = FRAME_HEAD_SIZE;
    if (frame_head_decode(shm_ring_out(&r->shm), &ripe.head, NULL) != PS_OK)
        return ripe;
    bytes = FRAME_HEAD_SIZE + ripe.head.meta_len + frame_pad(ripe.head.meta_len) + ripe.head.payload_len +
            frame_pad(ripe.head.payload_len);
    ripe.whole = bytes <= r->shm.ring_bytes / 2;
    if (ripe.whole)
        ripe.n = filled >= bytes ? (size_t)bytes : 0;
    else if (!reader->heads)
        ripe.n = (size_t)MIN(filled, bytes);
    return ripe;
}

size_t
frame_ring_next(const struct frame_ring *r, const struct frame_reader *reader, struct frame_ripe *ripe)
{
    size_t filled = shm_ring_filled(&r->shm);

    if (filled == SIZE_MAX || filled == 0)
        return filled;
    *ripe = frame_ring_look(r, reader, filled);
    return ripe->n;
}

bool
frame_ring_taken(struct frame_ring *r, size_t n)
{
    shm_ring_skip(&r->shm, n);
    r->unsaid += n;
    if (r->unsaid < r->shm.ring_bytes / TAKEN_PART)
        return false;
    r->unsaid = 0;
    shm_ring_take(&r->shm, 0);
    return true;
}

bool
frame_ring_drop(struct frame_ring *r)
{
    size_t filled = shm_ring_filled(&r->shm);

    if (filled == SIZE_MAX || filled + r->unsaid == 0)
        return false;
    r->unsaid = 0;
    shm_ring_take(&r->shm, filled);
    return true;
}

bool
frame_ring_sleep(struct frame_ring *r, const struct frame_reader *reader, unsigned wants)
{
    size_t filled = 0;

    if ((wants & SHM_RING_DATA) != 0) {
        filled = shm_ring_filled(&r->shm);
        if (filled == SIZE_MAX || frame_ring_look(r, reader, filled).n > 0)
            return false;
    }
    return shm_ring_sleep(&r->shm, wants, filled);
}
