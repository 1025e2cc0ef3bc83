/* The frame reader: a state machine over three pieces (head, body, tail), fed with bytes from the socket, however many.
 *
 * Where bytes end up: the head is copied (32 bytes). Metadata and payload are lent from the caller's bytes when the
 * rest of the frame is all there; else metadata is copied aside and the payload goes to its final place, which for
 * large ones is where the caller's read() already put it. */
#include "common/core/wire/frame.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/base/little_endian.h"

#define META_OWN_MIN 256u
#define META_KEEP    4096u /* a copy of metadata up to this size is kept by an idle reader */

/* ---- Header ---- */

enum { AT_MAGIC = 0, AT_VERSION = 4, AT_TYPE = 6, AT_META_LEN = 8, AT_ZERO = 12, AT_PAYLOAD_LEN = 16, AT_REQUEST = 24 };
static_assert(AT_REQUEST + 8 == FRAME_HEAD_SIZE, "the header has no holes");

void
frame_head_encode(const struct frame_head *head, void *out)
{
    uint8_t *at = out;

    ps_assert(head->meta_len <= FRAME_META_MAX && head->payload_len <= FRAME_PAYLOAD_MAX);
    ps_assert(head->payload_len % 4 == 0);
    put_le(at + AT_MAGIC, FRAME_MAGIC, 4);
    put_le(at + AT_VERSION, head->version, 2);
    put_le(at + AT_TYPE, head->type, 2);
    put_le(at + AT_META_LEN, head->meta_len, 4);
    put_le(at + AT_ZERO, 0, 4);
    put_le(at + AT_PAYLOAD_LEN, head->payload_len, 8);
    put_le(at + AT_REQUEST, head->request, 8);
}

/* The first bytes of other protocols, so that the error can name them. */
static const struct {
    const char *start;
    const char *name;
} strangers[] = {
    {"GET ", "HTTP"}, {"POST", "HTTP"}, {"PUT ", "HTTP"}, {"HEAD", "HTTP"}, {"DELE", "HTTP"}, {"OPTI", "HTTP"},
    {"PATC", "HTTP"}, {"CONN", "HTTP"}, {"TRAC", "HTTP"}, {"HTTP", "HTTP"}, {"PRI ", "HTTP"}, {"SSH-", "SSH"},
};

/* in: the first 4 bytes. */
static enum ps_err
magic_check(const uint8_t *in, struct ps_error *e)
{
    if (get_le(in, 4) == FRAME_MAGIC)
        return PS_OK;
    for (size_t i = 0; i < ARRAY_LEN(strangers); i++)
        if (memcmp(in, strangers[i].start, 4) == 0)
            return ps_fail(e, PS_ERR_PROTOCOL, "this looks like %s: the peer does not speak psd's protocol",
                           strangers[i].name);
    if (in[0] == 0x16 && in[1] == 3 && in[2] <= 4) /* TLS record: handshake, version 3.x */
        return ps_fail(
            e, PS_ERR_PROTOCOL,
            "this looks like TLS, which is not spoken here (psd --tls-cert, or PSD_TLS_CA of the other side)");
    return ps_fail(e, PS_ERR_PROTOCOL, "bytes %02x %02x %02x %02x do not start a frame of psd's protocol", in[0], in[1],
                   in[2], in[3]);
}

static bool
type_known(uint16_t type)
{
    return (type > MSG_NONE && type < MSG_TYPE_MAX) || (type >= MSG_GROUP_HELLO && type < MSG_GROUP_END) ||
           (type >= MSG_SHARE && type < MSG_END);
}

enum ps_err
frame_head_decode(const void *in, struct frame_head *head, struct ps_error *e)
{
    const uint8_t *at = in;
    enum ps_err err;

    if ((err = magic_check(at, e)) != PS_OK)
        return err;
    *head = (struct frame_head){
        .version = (uint16_t)get_le(at + AT_VERSION, 2),
        .type = (uint16_t)get_le(at + AT_TYPE, 2),
        .meta_len = (uint32_t)get_le(at + AT_META_LEN, 4),
        .payload_len = get_le(at + AT_PAYLOAD_LEN, 8),
        .request = get_le(at + AT_REQUEST, 8),
    };
    if (head->version != FRAME_VERSION)
        return ps_fail(e, PS_ERR_VERSION, "the peer speaks protocol version %u, this program speaks version %u",
                       head->version, FRAME_VERSION);
    if (get_le(at + AT_ZERO, 4) != 0)
        return ps_fail(e, PS_ERR_PROTOCOL, "header bytes 12 to 15 are not zero");
    if (!type_known(head->type))
        return ps_fail(e, PS_ERR_PROTOCOL, "message type %u is not known", head->type);
    if (head->meta_len > FRAME_META_MAX)
        return ps_fail(e, PS_ERR_PROTOCOL, "a frame with %u bytes of metadata; the limit is %llu", head->meta_len,
                       (unsigned long long)FRAME_META_MAX);
    if (head->payload_len > FRAME_PAYLOAD_MAX || head->payload_len % 4 != 0)
        return ps_fail(e, PS_ERR_PROTOCOL, "a frame with %llu bytes of payload; the limit is %llu, in multiples of 4",
                       (unsigned long long)head->payload_len, (unsigned long long)FRAME_PAYLOAD_MAX);
    return PS_OK;
}

/* ---- Reader ---- */

/* Bytes that were fed and are not used yet. */
struct frame_input {
    const uint8_t *data;
    size_t left;
};

static void
frame_consume(struct frame_reader *r, struct frame_input *in, size_t n)
{
    in->data += n;
    in->left -= n;
    r->offset += n;
}

static size_t
body_size(const struct frame_reader *r)
{
    return r->head.meta_len + frame_pad(r->head.meta_len);
}

static size_t
tail_size(const struct frame_reader *r)
{
    return (size_t)r->head.payload_len + frame_pad(r->head.payload_len);
}

void
frame_reader_init(struct frame_reader *r)
{
    *r = (struct frame_reader){.state = FRAME_HEAD};
}

static void
payload_give(struct frame_reader *r)
{
    buffer_pool_give(r->buffers, r->payload_own, r->payload_own_size);
    r->payload_own = NULL;
    r->payload_own_size = 0;
}

static void
meta_give(struct frame_reader *r)
{
    free(r->meta_own);
    r->meta_own = NULL;
    r->meta_own_size = 0;
}

void
frame_reader_finish(struct frame_reader *r)
{
    payload_give(r);
    meta_give(r);
    *r = (struct frame_reader){.state = FRAME_BROKEN, .error = {.code = PS_ERR_CLOSED}};
}

static bool
payload_room(struct frame_reader *r)
{
    if (r->payload_own != NULL && r->payload_own_size >= tail_size(r))
        return true;
    payload_give(r);
    r->payload_own = buffer_pool_take(r->buffers, tail_size(r), &r->payload_own_size);
    if (r->payload_own == NULL)
        r->payload_own_size = 0;
    return r->payload_own != NULL;
}

static bool
meta_room(struct frame_reader *r)
{
    size_t size = MAX(body_size(r), META_OWN_MIN);

    if (r->meta_own_size >= size)
        return true;
    free(r->meta_own);
    r->meta_own = malloc(size);
    r->meta_own_size = r->meta_own != NULL ? size : 0;
    return r->meta_own != NULL;
}

/* Go past parts that are full or empty. */
static void
parts_settle(struct frame_reader *r)
{
    while (r->part_at < r->parts_len && r->part_got == r->parts[r->part_at].len) {
        r->part_at++;
        r->part_got = 0;
    }
}

static void
parts_put(struct frame_reader *r, const uint8_t *data, size_t n)
{
    for (size_t m; n > 0; data += m, n -= m) {
        const struct frame_part *part = &r->parts[r->part_at];
        uint8_t *to = (uint8_t *)part->data + r->part_got;

        m = MIN(n, part->len - r->part_got);
        if (to != data)
            memcpy(to, data, m);
        r->part_got += m;
        parts_settle(r);
    }
}

/* n bytes of the tail go to their place, unless they were read there. */
static void
tail_put(struct frame_reader *r, const uint8_t *data, size_t n)
{
    if (r->discarding)
        return;
    if (r->directed) {
        size_t missing = r->got < r->head.payload_len ? (size_t)r->head.payload_len - r->got : 0;

        parts_put(r, data, MIN(n, missing)); /* what is left is the pad */
    } else if (data != r->payload_own + r->got) {
        memcpy(r->payload_own + r->got, data, n);
    }
}

/* The takers below each take what belongs to one piece. True: the piece is whole and the next state goes on with what
 * is left; false: *event is to be reported. */

static bool
frame_broken(struct frame_reader *r, enum frame_event *event)
{
    r->state = FRAME_BROKEN;
    r->meta = r->payload = NULL;
    *event = FRAME_BAD;
    return false;
}

static bool
out_of_memory(struct frame_reader *r, enum frame_event *event)
{
    ps_fail(&r->error, PS_ERR_NOMEM, "no memory for a frame with %u bytes of metadata and %llu of payload",
            r->head.meta_len, (unsigned long long)r->head.payload_len);
    return frame_broken(r, event);
}

static bool
frame_whole(struct frame_reader *r, const uint8_t *payload, enum frame_event *event)
{
    r->payload = payload;
    r->large = r->head.payload_len >= FRAME_DIRECT_MIN;
    r->parts = NULL;
    r->state = FRAME_HEAD;
    r->got = 0;
    *event = FRAME_WHOLE;
    return false;
}

/* Checks the limits for a peer that is not authenticated yet. */
static enum ps_err
size_check(struct frame_reader *r)
{
    if (r->meta_max == 0 || (r->head.meta_len <= r->meta_max && r->head.payload_len == 0))
        return PS_OK;
    return ps_fail(&r->error, PS_ERR_PROTOCOL,
                   "a frame with %u bytes of metadata and %llu of payload; here the limit is %u and none",
                   r->head.meta_len, (unsigned long long)r->head.payload_len, r->meta_max);
}

static bool
take_head(struct frame_reader *r, struct frame_input *in, enum frame_event *event)
{
    size_t n = MIN(in->left, FRAME_HEAD_SIZE - r->got);

    memcpy(r->head_bytes + r->got, in->data, n);
    r->got += n;
    frame_consume(r, in, n);
    /* A peer of another protocol may never send 32 bytes: 4 are enough to recognise it. */
    if (r->got >= AT_VERSION && magic_check(r->head_bytes, &r->error) != PS_OK)
        return frame_broken(r, event);
    if (r->got < FRAME_HEAD_SIZE) {
        *event = FRAME_MORE;
        return false;
    }
    if (frame_head_decode(r->head_bytes, &r->head, &r->error) != PS_OK || size_check(r) != PS_OK)
        return frame_broken(r, event);
    r->got = 0;
    if (!r->heads || in->left >= body_size(r) + tail_size(r)) {
        r->state = FRAME_BODY;
        return true;
    }
    frame_reader_trim(r); /* what the last frame took, which is handed out no more */
    r->state = FRAME_BODY;
    *event = FRAME_HEADED;
    return false;
}

static bool
take_body(struct frame_reader *r, struct frame_input *in, enum frame_event *event)
{
    size_t size = body_size(r), n = MIN(in->left, size - r->got);

    if (r->got == 0 && in->left >= size + tail_size(r) && !r->unstable) {
        r->meta = in->data;
    } else {
        if (!meta_room(r))
            return out_of_memory(r, event);
        memcpy(r->meta_own + r->got, in->data, n);
        r->meta = r->meta_own;
    }
    r->got += n;
    frame_consume(r, in, n);
    if (r->got < size) {
        *event = FRAME_MORE;
        return false;
    }
    if (r->head.payload_len == 0)
        return frame_whole(r, NULL, event);
    r->state = FRAME_TAIL;
    r->got = 0;
    r->directed = r->discarding = false;
    *event = FRAME_META;
    return false;
}

static bool
take_tail(struct frame_reader *r, struct frame_input *in, enum frame_event *event)
{
    size_t size = tail_size(r), n = MIN(in->left, size - r->got);
    bool mine = !r->directed && !r->discarding;

    if (mine && n == size && (uintptr_t)in->data % sizeof(float) == 0) {
        frame_consume(r, in, n);
        return frame_whole(r, in->data - n, event);
    }
    if (mine && !payload_room(r))
        return out_of_memory(r, event);
    tail_put(r, in->data, n);
    r->got += n;
    frame_consume(r, in, n);
    if (r->got < size) {
        *event = FRAME_MORE;
        return false;
    }
    return frame_whole(r, mine ? r->payload_own : NULL, event);
}

static bool
take_nothing(struct frame_reader *r, struct frame_input *in, enum frame_event *event)
{
    frame_consume(r, in, in->left);
    return frame_broken(r, event);
}

enum frame_event
frame_feed(struct frame_reader *r, const void *data, size_t n, size_t *used)
{
    static bool (*const take[])(struct frame_reader *, struct frame_input *, enum frame_event *) = {
        [FRAME_HEAD] = take_head, [FRAME_BODY] = take_body, [FRAME_TAIL] = take_tail, [FRAME_BROKEN] = take_nothing};
    struct frame_input in = {data, n};
    enum frame_event event;

    ps_assert(n >= 1);
    while (take[r->state](r, &in, &event))
        continue;
    *used = n - in.left;
    return event;
}

/* At most this much into scratch: all that is there, or, when a large frame is expected, nothing of its payload: then
 * all of it is read in place, at the alignment of that place, which copies from the kernel faster. The next frame is
 * expected to be like the last. */
static size_t
scratch_limit(const struct frame_reader *r)
{
    size_t next = FRAME_HEAD_SIZE + body_size(r);

    switch (r->state) {
    case FRAME_HEAD:
        return r->large ? next - r->got : SIZE_MAX;
    case FRAME_BODY:
        return r->head.payload_len >= FRAME_DIRECT_MIN ? body_size(r) - r->got : SIZE_MAX;
    case FRAME_TAIL:
        return r->head.payload_len >= FRAME_DIRECT_MIN ? tail_size(r) - r->got + next : SIZE_MAX;
    case FRAME_BROKEN:
        break;
    }
    return SIZE_MAX;
}

void
frame_want(struct frame_reader *r, void **at, size_t *len)
{
    size_t missing;

    *at = NULL;
    *len = scratch_limit(r);
    if (r->state != FRAME_TAIL || r->discarding)
        return;
    if (r->directed) {
        const struct frame_part *part = &r->parts[r->part_at];

        if (r->part_at == r->parts_len || (missing = part->len - r->part_got) < FRAME_DIRECT_MIN)
            return;
        *at = (uint8_t *)part->data + r->part_got;
        *len = missing;
        return;
    }
    missing = tail_size(r) - r->got;
    if (missing < FRAME_DIRECT_MIN || !payload_room(r)) /* without memory the next frame_feed() reports it */
        return;
    *at = r->payload_own + r->got;
    *len = missing;
}

size_t
frame_missing(const struct frame_reader *r)
{
    switch (r->state) {
    case FRAME_BODY:
        return body_size(r) + tail_size(r) - r->got;
    case FRAME_TAIL:
        return tail_size(r) - r->got;
    default:
        return 0;
    }
}

size_t
frame_offset(const struct frame_reader *r)
{
    return (size_t)(r->offset % FRAME_ALIGN);
}

void
frame_direct(struct frame_reader *r, const struct frame_part *parts, size_t n)
{
    uint64_t sum = 0;

    ps_assert(r->state == FRAME_TAIL && r->got == 0 && !r->discarding);
    for (size_t i = 0; i < n; i++)
        sum += parts[i].len;
    ps_assert(sum == r->head.payload_len);
    r->parts = parts;
    r->parts_len = n;
    r->part_at = r->part_got = 0;
    r->directed = true;
    parts_settle(r);
}

void
frame_discard(struct frame_reader *r)
{
    if (r->state != FRAME_TAIL)
        return;
    r->discarding = true;
    r->directed = false;
    r->parts = NULL;
}

size_t
frame_reader_bytes(const struct frame_reader *r)
{
    return r->meta_own_size + r->payload_own_size;
}

void
frame_reader_trim(struct frame_reader *r)
{
    bool payload_used = r->state == FRAME_TAIL && !r->directed && !r->discarding;
    bool meta_used = r->state == FRAME_BODY || r->state == FRAME_TAIL;

    if (!payload_used)
        payload_give(r);
    if (!meta_used && r->meta_own_size > META_KEEP)
        meta_give(r);
}
