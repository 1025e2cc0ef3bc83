/* Frames: the unit of the wire. Pure: turns a byte stream into frames at any split point, and a header into bytes.
 *
 * A frame is   header (32 bytes) | metadata | pad to 8 | payload | pad to 8   with all numbers little-endian, so that
 * every frame, every metadata and every payload starts at a multiple of 8 bytes in the stream. PROTOCOL.md specifies
 * it.
 *
 * Reading, without copying large payloads:
 *
 *     for (;;) {
 *         frame_want(r, &at, &len);         // where the next bytes should go; at == NULL: scratch of your own
 *         n = read(..., at or scratch, at most len)
 *         while (n > 0) {
 *             what = frame_feed(r, data, n, &used);   // data == at means the bytes are already in place
 *             FRAME_HEADED:  only where r->heads is set: the header is whole, the rest is not all there, and no memory
 *                            was taken for it yet.
 *             FRAME_META:    header and metadata of a frame with a payload are whole: r->head, r->meta. Say where the
 *                            payload goes with frame_direct() (scatter into your buffers), frame_discard(), or nothing
 *                            (the reader lends a 64-byte-aligned buffer of its own, or the scratch bytes themselves
 *                            when all are there). Frames without a payload skip this event.
 *             FRAME_WHOLE:   the frame is whole: r->head, r->meta, r->payload (NULL when there is none, when directed
 *                            or discarded). Valid until the next call.
 *             FRAME_MORE:    all bytes were used.
 *             FRAME_BAD:     r->error says why; close the connection. The reader stays bad.
 *             data += used; n -= used;
 *         }
 *     }
 *
 * Bytes that one call did not use must be given to the next: between FRAME_META and FRAME_WHOLE metadata and payload
 * may be lent from them.
 *
 *                    32 bytes             meta_len + pad            payload_len + pad
 *     ┌─► FRAME_HEAD ─────────► FRAME_BODY ─────────► FRAME_TAIL ─────────────────────┐
 *     │       │ bad magic, version, type, lengths                                     │
 *     │       └────────────────► FRAME_BROKEN (final)                                 │
 *     └───────────────────────────────────────────────────────────────────────────────┘
 *
 * Scratch should start at an address that is congruent to the stream's offset modulo 8 (frame_offset() says how much to
 * shift), so that payloads found inside it are aligned for float and need no copy. */
#ifndef COMMON_CORE_WIRE_FRAME_H
#define COMMON_CORE_WIRE_FRAME_H

#include "common/core/base/base.h"
#include "common/core/base/buffer_pool.h"
#include "common/core/wire/message_list.h"
#include "common/include/psclient/ps_err.h"

#define FRAME_MAGIC       0x31445350u /* "PSD1" */
#define FRAME_VERSION     7
#define FRAME_HEAD_SIZE   32
#define FRAME_ALIGN       8
#define FRAME_META_MAX    (256 * KIB) /* bytes of metadata in one frame */
#define FRAME_PAYLOAD_MAX (4 * MIB)   /* bytes of payload in one frame */
#define FRAME_DIRECT_MIN  (16 * KIB)  /* a payload that lacks at least this many bytes is read in place */

struct frame_head {
    uint16_t version;
    uint16_t type;        /* enum msg_type */
    uint32_t meta_len;    /* bytes, at most FRAME_META_MAX */
    uint64_t payload_len; /* bytes, at most FRAME_PAYLOAD_MAX, multiple of 4 */
    uint64_t request;     /* chosen by the requester, repeated in the answer; 0: no answer belongs to it */
};

/* Layout, little-endian: magic u32, version u16, type u16, meta_len u32, zero u32, payload_len u64, request u64.
 * out: FRAME_HEAD_SIZE bytes. */
void frame_head_encode(const struct frame_head *head, void *out);

/* in: FRAME_HEAD_SIZE bytes. PS_ERR_PROTOCOL (magic, type, lengths) or PS_ERR_VERSION; *e says what was found. The
 * magic is checked first, so that a peer that speaks HTTP or TLS is named as such. */
enum ps_err frame_head_decode(const void *in, struct frame_head *head, struct ps_error *e) PS_MUST_USE;

/* Bytes after metadata or payload of this length up to the next multiple of FRAME_ALIGN. */
static inline size_t
frame_pad(uint64_t len)
{
    return (size_t)(-len & (FRAME_ALIGN - 1));
}

enum frame_state { FRAME_HEAD, FRAME_BODY, FRAME_TAIL, FRAME_BROKEN };

enum frame_event { FRAME_MORE, FRAME_HEADED, FRAME_META, FRAME_WHOLE, FRAME_BAD };

/* A place for payload bytes. */
struct frame_part {
    void *data;
    size_t len;
};

struct frame_reader {
    struct frame_head head;
    const uint8_t *meta;    /* head.meta_len bytes, from FRAME_META until the next frame_feed() after FRAME_WHOLE */
    const uint8_t *payload; /* head.payload_len bytes at FRAME_WHOLE, at least 4-byte aligned */
    struct ps_error error;
    struct buffer_pool *buffers; /* where payload buffers come from; set after init, may stay NULL; borrowed */
    uint32_t meta_max;           /* set after init: a frame with more metadata, or with a payload, is refused; 0: not */
    bool heads;                  /* set after init: FRAME_HEADED is wanted */

    /* private */
    enum frame_state state;
    uint64_t offset; /* bytes of the stream consumed so far */
    uint8_t head_bytes[FRAME_HEAD_SIZE];
    size_t got;        /* bytes of the current state's piece */
    uint8_t *meta_own; /* copy of metadata that outlives the bytes it came in */
    size_t meta_own_size;
    uint8_t *payload_own; /* from buffers */
    size_t payload_own_size;
    const struct frame_part *parts; /* directed payload: borrowed from the owner until FRAME_WHOLE */
    size_t parts_len, part_at, part_got;
    bool directed, discarding;
    bool large;    /* the last frame was read in place: the next one may be as well */
    bool unstable; /* set after init: bytes may change while they are looked at, so metadata is copied before that */
};

void frame_reader_init(struct frame_reader *r);
void frame_reader_finish(struct frame_reader *r); /* accepts zeroed and finished readers */

/* Where the next bytes of the stream should be read to, and how many at most. A place in the payload's final buffer
 * when at least FRAME_DIRECT_MIN bytes are missing there; else *at = NULL: the caller reads at most *len bytes
 * (SIZE_MAX: as many as it has space for) into scratch. The limit keeps the next large payload out of scratch. */
void frame_want(struct frame_reader *r, void **at, size_t *len);

/* Bytes that the frame lacks whose head was read; 0: none was. */
size_t frame_missing(const struct frame_reader *r);

/* How far into an 8-byte-aligned scratch buffer the next read should start (0 to 7). */
size_t frame_offset(const struct frame_reader *r);

/* Take n bytes of the stream, n >= 1. *used says how many were consumed before the event; call again with the rest. */
enum frame_event frame_feed(struct frame_reader *r, const void *data, size_t n, size_t *used);

/* At FRAME_META: the payload goes into these parts, in order; their lengths must sum to head.payload_len. The array
 * and the memory stay valid until FRAME_WHOLE, frame_discard() or the reader's end. */
void frame_direct(struct frame_reader *r, const struct frame_part *parts, size_t n);

/* Drop the rest of the payload that is being read; the parts are free at once. Nothing happens between payloads. */
void frame_discard(struct frame_reader *r);

/* Bytes of heap memory that the reader holds now, for the caller's accounting. */
size_t frame_reader_bytes(const struct frame_reader *r);

/* Give back buffers that are not in use, so that an idle connection costs only its struct. Ends the validity of r->meta
 * and r->payload of a whole frame. */
void frame_reader_trim(struct frame_reader *r);

#endif
