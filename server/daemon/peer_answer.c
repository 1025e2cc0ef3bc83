/* Answers are queued during the turn and written at its end. One with blocks is built only when it is first in line,
 * from a snapshot of the newest commit that is held until the bytes were sent or copied. A peer that does not fetch its
 * answers is not read until it does. */
#include <stdlib.h>

#include "server/daemon/peer.h"
#include "server/process/log.h"

/* A frame that waits to be sent: bytes of the shard's, or blocks. */
struct peer_answer {
    struct conn_out out;
    struct peer *peer;
    uint64_t counted; /* in the memory cap */
    uint64_t values;  /* the same, since it was made */
    uint8_t *bytes;
    struct shard_data *data;
    struct store_snapshot *snapshot;
};

void
peer_check_stuffed(struct peer *p)
{
    bool stuffed = p->admitted == 0 && in_flight_stuffed(&p->daemon->in_flight, &p->part);

    if (stuffed == p->paused_stuffed)
        return;
    p->paused_stuffed = stuffed;
    if (!stuffed) {
        peer_resume(p);
        return;
    }
    p->daemon->in_flight.part_waits++;
    conn_read_pause(&p->conn);
}

static void
answer_count(struct peer_answer *a, uint64_t bytes)
{
    in_flight_queue(&a->peer->daemon->in_flight, &a->peer->part, bytes);
    a->counted += bytes;
}

static void
answer_release(struct conn_out *out)
{
    struct peer_answer *a = CONTAINER_OF(out, struct peer_answer, out);
    struct store *store = a->peer->daemon->store;

    if (a->snapshot != NULL)
        store->ops->snapshot_unref(store, a->snapshot);
    a->snapshot = NULL;
}

static bool
answer_may_prepare(struct conn_out *out)
{
    struct peer_answer *a = CONTAINER_OF(out, struct peer_answer, out);
    struct peer *p = a->peer;

    return in_flight_answer(&p->daemon->in_flight, &p->part, shard_data_most(a->data));
}

static void
answer_made(struct peer_answer *a, uint64_t bytes)
{
    struct peer *p = a->peer;

    in_flight_values(&p->daemon->in_flight, &p->part, bytes);
    a->values = bytes;
}

static void
answer_uncount(struct peer_answer *a)
{
    struct peer *p = a->peer;

    in_flight_sent(&p->daemon->in_flight, &p->part, a->counted);
    in_flight_values_sent(&p->daemon->in_flight, &p->part, a->values);
}

static enum ps_err
answer_prepare(struct conn_out *out)
{
    struct peer_answer *a = CONTAINER_OF(out, struct peer_answer, out);
    struct daemon *d = a->peer->daemon;
    struct shard_reply reply;
    enum ps_err err;

    if ((err = d->store->ops->snapshot_ref(d->store, &a->snapshot)) != PS_OK)
        return err;
    if ((err = shard_data_open(d->shard, a->data, a->snapshot, &reply)) != PS_OK) {
        answer_release(out);
        return err;
    }
    out->head = reply.head;
    out->head_len = reply.head_len;
    out->parts = reply.parts;
    out->parts_len = reply.parts_len;
    answer_made(a, reply.payload_len); /* if the peer is slow, this much may be copied */
    return PS_OK;
}

static void
answer_done(struct conn_out *out, enum ps_err result)
{
    struct peer_answer *a = CONTAINER_OF(out, struct peer_answer, out);
    struct peer *p = a->peer;

    answer_release(out);
    answer_uncount(a);
    p->sent++;
    shard_data_free(a->data);
    free(a->bytes);
    free(a);
    if (result == PS_ERR_CLOSED)
        return;
    if (result == PS_OK) {
        peer_check_stuffed(p);
        peers_admit(p->daemon);
        return;
    }
    log_line(LOG_LEVEL_ERROR, "cannot answer: %s peer=%s", ps_strerror(result), p->conn.peer);
    conn_close(&p->conn, peer_closed); /* one answer is missing: the worker reconnects and asks again */
}

static struct peer_answer *
answer_new(struct peer *p)
{
    struct peer_answer *a = calloc(1, sizeof *a);

    if (a == NULL)
        return NULL;
    a->peer = p;
    a->out.done = answer_done;
    return a;
}

static void
answer_queue(struct peer_answer *a, uint64_t bytes)
{
    struct peer *p = a->peer;
    struct daemon *d = p->daemon;

    answer_count(a, bytes + sizeof *a);
    conn_send(&p->conn, &a->out, true);
    peer_check_stuffed(p);
    if (p->flushing)
        return;
    p->flushing = true;
    p->flush_next = d->flush_first;
    d->flush_first = p;
}

/* Without memory for an answer the connection is closed: the worker reconnects and asks again. */
static void
out_of_memory(struct peer *p)
{
    log_line(LOG_LEVEL_ERROR, "out of memory for an answer peer=%s", p->conn.peer);
    peer_close(p);
}

void
peer_send(struct peer *p, uint8_t *bytes, size_t len)
{
    struct peer_answer *a = answer_new(p);

    if (a == NULL) {
        free(bytes);
        out_of_memory(p);
        return;
    }
    a->bytes = bytes;
    a->out.head = bytes;
    a->out.head_len = len;
    answer_queue(a, len);
}

void
peer_send_data(struct peer *p, struct shard_data *data)
{
    struct peer_answer *a = answer_new(p);

    if (a == NULL) {
        shard_data_free(data);
        out_of_memory(p);
        return;
    }
    a->data = data;
    a->out.prepare = answer_prepare;
    a->out.may_prepare = answer_may_prepare;
    a->out.release = answer_release;
    a->out.pinned = true;
    p->values = true;
    answer_queue(a, shard_data_bytes(data));
}

/* Shared memory costs the same per byte however much is sent at once. */
static bool
values_are_batched(struct peer *p, uint64_t updated)
{
    p->waited += updated;
    return p->values && p->waited < PEER_BATCH_BYTES && p->conn.u.handle.type == UV_TCP && !conn_shares(&p->conn);
}

void
peers_flush(struct daemon *d, uint64_t speaker, uint64_t updated)
{
    struct peer **at = &d->flush_first, *p;

    while ((p = *at) != NULL) {
        if (p->id == speaker && values_are_batched(p, updated)) {
            at = &p->flush_next;
            continue;
        }
        *at = p->flush_next;
        p->flushing = false;
        p->values = false;
        p->waited = 0;
        conn_flush(&p->conn);
    }
}
