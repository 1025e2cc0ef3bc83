/* A link: the way of frames between this rank and one other, independent of what carries them. TCP is one (link_tcp.h);
 * others stand beside it and are chosen per pair of ranks when the mesh is joined (mesh.c).
 *
 *     out->head, parts, done = ...
 *     l->ops->send(l, out);                // any number of them
 *     l->ops->flush(l);                    // now they move
 *     l->events->dest(), ->frame()         // what the other rank sent, from within poll() or the loop
 *
 * The contract, which group.c relies on; tests/system/test_group.c and test_group_failure.c go over each
 * implementation:
 *
 * - Frames arrive whole, once, and in the order of send(); bytes are those of common/core/wire/frame.h, so that a frame
 *   may be handed through TCP as it is. A frame is a header with metadata and pad (head), then the payload (parts).
 * - send() borrows out and what it points to until out->done(), which comes exactly once for each: PS_OK when the
 *   bytes were copied elsewhere (a socket, shared memory, the other rank's buffer), an error when they never will be.
 *   done() may come from within send(), flush(), poll(), cut(), close() or the loop, and may free or reuse out.
 *   A payload is not copied aside to make done() come sooner.
 * - dest() comes when a frame with a payload begins: the owner may say where the payload goes (parts that stay valid
 *   until frame()), or that it is dropped, or nothing: then frame() lends it. A link that has the payload in memory
 *   already (shared memory) may call frame() alone with it, without dest(); the owner copies or reduces out of it.
 * - frame() comes when it is whole. Metadata and payload are valid during the call; payload is NULL when there was
 *   none, or when it was placed or dropped. The payload is aligned to 8 bytes where the sender's parts allow it, to 4
 *   always.
 * - From within any callback the owner may call send() and flush() of any link, cut(), finish() and close() of this
 *   one. No frame(), dest() or done() comes from within send(): a send never calls back into the owner but for done().
 * - ended() comes once when the other side is gone or broke the protocol; no frame comes after it. It does not come
 *   after finish() or close(). All that the other rank sent before its end comes first.
 * - cut(): the group failed. What was sent and has not begun to move is dropped; of what has begun, the rest is copied
 *   aside, with the true bytes, so that the stream stays in step and a last frame can follow. done() has come for every
 *   frame when cut() returns (it is not called from within done()); a placed payload is no longer written to from then
 *   on. Without memory for the copy the link closes itself towards the other rank. Afterwards send() works as before.
 * - finish(): send what is queued, notify the other side, and end when it can have all of that whatever this one does,
 *   or has ended itself, within patience_ms (RANK_LINK_LINGER_MS); close(): end now. closed() then comes from the loop,
 *   once, and may destroy() the link. No byte of a queued frame or of a placed payload is touched after close(), or
 *   after finish() for what is placed.
 *
 * Waiting. The thread that drives the group does
 *
 *     while (nothing happened) {
 *         spinning:  for every link: poll(l)               // may find frames without a system call
 *         sleeping:  for every link: if (!sleep(l)) awake  // false: something is there already
 *                    uv_run(loop, UV_RUN_ONCE)             // the link must make the loop return when something comes
 *                    for every link: wake(l)
 *     }
 *
 * sleep() and wake() may be NULL (TCP: the loop always watches the socket). While a link sleeps, its other side must
 * wake it through a descriptor that the loop watches; between wake() and sleep() it need not.
 *
 * All of it runs on the thread that holds the group (group_enter()). */
#ifndef CLIENT_GROUP_LINKS_RANK_LINK_H
#define CLIENT_GROUP_LINKS_RANK_LINK_H

#include "common/core/base/base.h"
#include "common/core/wire/frame.h"
#include "common/net/conn_queue.h"

#define RANK_LINK_LINGER_MS 2000 /* for one whose owner is owed something */
#define RANK_LINK_PART_MS   100  /* for one whose owner is why the group failed */
#define RANK_LINK_PARTS_MAX 2
#define RANK_LINK_HEAD_MAX  (FRAME_HEAD_SIZE + 64) /* header and metadata of all frames but hellos and aborts */

struct rank_link;
struct rank_link_out;

/* One outgoing frame, zeroed but for what the sender sets: head, parts, done. */
struct rank_link_out {
    void (*done)(struct rank_link_out *out, enum ps_err result);
    const void *head; /* frame header, metadata and its pad */
    size_t head_len;
    const struct span *parts; /* payload, without its pad */
    size_t parts_len;

    /* of the link that has it */
    struct rank_link *link;
    union {
        struct conn_out conn;
        struct {
            struct rank_link_out *next;
            size_t at; /* bytes that have moved */
        } queue;
    } u;
};

/* Where a payload goes. Zeroed by the link: nothing said. */
struct rank_link_dest {
    const struct frame_part *parts;
    size_t parts_len;
    bool discard;
};

struct rank_link_events {
    void (*dest)(struct rank_link *l, const struct frame_head *head, const void *meta, struct rank_link_dest *dest);
    void (*frame)(struct rank_link *l, const struct frame_head *head, const void *meta, const void *payload);
    void (*ended)(struct rank_link *l, const struct ps_error *why);
};

struct rank_link_ops {
    const char *name; /* "tcp", "shm": ps_group_transport() */
    void (*send)(struct rank_link *l, struct rank_link_out *out);
    void (*flush)(struct rank_link *l);
    bool (*poll)(struct rank_link *l);  /* look, do not wait; true: something moved */
    bool (*sleep)(struct rank_link *l); /* NULL: nothing to do */
    void (*wake)(struct rank_link *l);  /* NULL: nothing to do */
    void (*cut)(struct rank_link *l);
    void (*finish)(struct rank_link *l, uint32_t patience_ms, void (*closed)(struct rank_link *l));
    void (*close)(struct rank_link *l, void (*closed)(struct rank_link *l)); /* the first closed() is kept */
    void (*destroy)(struct rank_link *l);                                    /* free it, when closed() has come */
};

/* Embedded in each implementation's own struct. */
struct rank_link {
    const struct rank_link_ops *ops;
    const struct rank_link_events *events; /* set by the owner before the first frame */
    void *arg;                             /* the owner's */
    uint32_t rank;                         /* of the other side */
};

#endif
