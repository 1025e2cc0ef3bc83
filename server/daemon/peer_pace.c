#include "server/daemon/peer_pace.h"

static void
peer_pace_begin(struct peer_pace *p, const struct peer_pace_now *now, uint64_t timeout_ms)
{
    p->item = now->item;
    p->bytes = now->bytes;
    p->due_ms = now->ms + timeout_ms;
}

static void
peer_pace_mark(struct peer_pace *p, const struct peer_pace_now *now)
{
    p->mark_bytes = now->bytes;
    p->mark_ms = now->ms;
}

/* Bytes that moved put the end off, but never further than timeout_ms from now. */
static void
peer_pace_credit(struct peer_pace *p, const struct peer_pace_now *now, uint64_t timeout_ms)
{
    uint64_t moved = now->bytes - p->bytes;

    p->bytes = now->bytes;
    p->due_ms = MIN(p->due_ms + moved * 1000 / PEER_PACE_RATE, now->ms + timeout_ms);
}

enum peer_pace_verdict
peer_pace_look(struct peer_pace *p, const struct peer_pace_now *now, uint64_t timeout_ms)
{
    bool began = now->awaited && !p->awaited;

    p->awaited = now->awaited;
    if (!now->awaited)
        return PEER_PACE_FAIR;
    if (began || now->bytes - p->mark_bytes >= PEER_PACE_STALL_BYTES)
        peer_pace_mark(p, now);
    if (began || now->item != p->item)
        peer_pace_begin(p, now, timeout_ms);
    else
        peer_pace_credit(p, now, timeout_ms);
    if (now->ms >= p->due_ms)
        return PEER_PACE_LATE;
    return now->ms - p->mark_ms >= PEER_PACE_STALL_MS ? PEER_PACE_STALLED : PEER_PACE_FAIR;
}
