/* The frame reader against streams cut in every way. A stream is made of frames whose bytes follow from their number;
 * the reader side knows the list and checks each frame as it comes out. */
#include "common/core/wire/frame.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

/* One frame of a stream, and the receiver's treatment of it. */
struct frame_shape {
    uint32_t meta_len;
    uint64_t payload_len;
    enum { LEND, DIRECT, DISCARD } what;
};

#define STREAM_MAX (2 * MIB)
#define INTO_MAX   (64 * KIB) /* the longest directed payload */

struct frame_stream {
    uint8_t *bytes;
    size_t len;
    const struct frame_shape *shapes;
    size_t n;
};

static uint8_t
meta_byte(size_t frame, size_t i)
{
    return (uint8_t)(frame * 31 + i * 7 + 1);
}

static uint8_t
payload_byte(size_t frame, size_t i)
{
    return (uint8_t)(frame * 17 + i * 3 + (i >> 8) + 2);
}

static void
stream_make(struct frame_stream *s, const struct frame_shape *shapes, size_t n)
{
    *s = (struct frame_stream){.bytes = calloc(1, STREAM_MAX), .shapes = shapes, .n = n};
    for (size_t f = 0; f < n; f++) {
        struct frame_head head = {.version = FRAME_VERSION,
                                  .type = MSG_PUSH,
                                  .meta_len = shapes[f].meta_len,
                                  .payload_len = shapes[f].payload_len,
                                  .request = f + 1};

        frame_head_encode(&head, s->bytes + s->len);
        s->len += FRAME_HEAD_SIZE;
        for (size_t i = 0; i < shapes[f].meta_len; i++)
            s->bytes[s->len++] = meta_byte(f, i);
        s->len += frame_pad(shapes[f].meta_len);
        for (size_t i = 0; i < shapes[f].payload_len; i++)
            s->bytes[s->len++] = payload_byte(f, i);
        s->len += frame_pad(shapes[f].payload_len);
        ck_assert_uint_eq(s->len % FRAME_ALIGN, 0);
        ck_assert_uint_lt(s->len, STREAM_MAX);
    }
}

/* A receiver: reader, the list it expects, and memory for directed payloads in three uneven parts. */
struct receiver {
    struct frame_reader reader;
    const struct frame_stream *stream;
    size_t frames; /* that came out whole */
    size_t metas;
    uint8_t *into;
    struct frame_part parts[5];
    size_t copied; /* payloads that were lent from the fed bytes are not counted */
};

static void
receiver_init(struct receiver *rx, const struct frame_stream *s)
{
    *rx = (struct receiver){.stream = s, .into = malloc(INTO_MAX)};
    frame_reader_init(&rx->reader);
}

static void
receiver_finish(struct receiver *rx)
{
    frame_reader_finish(&rx->reader);
    free(rx->into);
}

static void
check_head_and_meta(const struct receiver *rx)
{
    const struct frame_reader *r = &rx->reader;
    const struct frame_shape *shape = &rx->stream->shapes[rx->frames];

    ck_assert_uint_lt(rx->frames, rx->stream->n);
    ck_assert_uint_eq(r->head.type, MSG_PUSH);
    ck_assert_uint_eq(r->head.request, rx->frames + 1);
    ck_assert_uint_eq(r->head.meta_len, shape->meta_len);
    ck_assert_uint_eq(r->head.payload_len, shape->payload_len);
    for (size_t i = 0; i < shape->meta_len; i++)
        if (r->meta[i] != meta_byte(rx->frames, i))
            ck_abort_msg("metadata of frame %zu differs at %zu", rx->frames, i);
}

static void
on_meta(struct receiver *rx)
{
    const struct frame_shape *shape = &rx->stream->shapes[rx->frames];
    size_t len = shape->payload_len, a = len / 3, b = len / 2;

    check_head_and_meta(rx);
    ck_assert_uint_gt(len, 0);
    rx->metas++;
    if (shape->what == DISCARD)
        frame_discard(&rx->reader);
    if (shape->what != DIRECT)
        return;
    memset(rx->into, 0xee, len);
    rx->parts[0] = (struct frame_part){NULL, 0};
    rx->parts[1] = (struct frame_part){rx->into, a};
    rx->parts[2] = (struct frame_part){rx->into + a, b - a};
    rx->parts[3] = (struct frame_part){rx->into, 0};
    rx->parts[4] = (struct frame_part){rx->into + b, len - b};
    frame_direct(&rx->reader, rx->parts, 5);
}

static void
on_whole(struct receiver *rx)
{
    const struct frame_shape *shape = &rx->stream->shapes[rx->frames];
    const uint8_t *payload = rx->reader.payload;

    check_head_and_meta(rx);
    if (shape->what != LEND || shape->payload_len == 0)
        ck_assert_ptr_null(payload);
    if (shape->what == LEND && shape->payload_len > 0) {
        ck_assert_ptr_nonnull(payload);
        ck_assert_uint_eq((uintptr_t)payload % sizeof(float), 0);
    }
    if (shape->what == DIRECT)
        payload = rx->into;
    for (size_t i = 0; shape->what != DISCARD && i < shape->payload_len; i++)
        if (payload[i] != payload_byte(rx->frames, i))
            ck_abort_msg("payload of frame %zu differs at %zu", rx->frames, i);
    rx->frames++;
}

/* Feed n bytes that lie at data. */
static void
frame_feed_bytes(struct receiver *rx, const uint8_t *data, size_t n)
{
    while (n > 0) {
        size_t used = 0;
        enum frame_event event = frame_feed(&rx->reader, data, n, &used);

        ck_assert_uint_le(used, n);
        if (event == FRAME_BAD)
            ck_abort_msg("after frame %zu: %s", rx->frames, rx->reader.error.text);
        if (event == FRAME_META)
            on_meta(rx);
        if (event == FRAME_WHOLE)
            on_whole(rx);
        if (event == FRAME_MORE)
            ck_assert_uint_eq(used, n);
        data += used;
        n -= used;
    }
}

/* The next n bytes of the stream come out of one read(): into the place that the reader wants, else into scratch of
 * their own (so that address checkers see what is kept too long). */
static void
read_some(struct receiver *rx, size_t at, size_t n)
{
    while (n > 0) {
        void *place;
        size_t len, m;

        frame_want(&rx->reader, &place, &len);
        ck_assert_uint_ge(len, 1);
        ck_assert_uint_eq(frame_offset(&rx->reader), at % FRAME_ALIGN);
        m = MIN(len, n);
        if (place != NULL) {
            memcpy(place, rx->stream->bytes + at, m);
            frame_feed_bytes(rx, place, m);
        } else {
            uint8_t *scratch = aligned_alloc(FRAME_ALIGN, round_up(m + FRAME_ALIGN, FRAME_ALIGN));

            memcpy(scratch + at % FRAME_ALIGN, rx->stream->bytes + at, m);
            frame_feed_bytes(rx, scratch + at % FRAME_ALIGN, m);
            free(scratch);
        }
        at += m;
        n -= m;
    }
}

static void
expect_all(const struct receiver *rx)
{
    size_t with_payload = 0;

    for (size_t f = 0; f < rx->stream->n; f++)
        with_payload += rx->stream->shapes[f].payload_len > 0;
    ck_assert_uint_eq(rx->frames, rx->stream->n);
    ck_assert_uint_eq(rx->metas, with_payload);
}

static const struct frame_shape short_shapes[] = {
    {0, 0, LEND}, {5, 0, LEND}, {8, 4, LEND}, {3, 12, DIRECT}, {1, 20, DISCARD}, {9, 16, LEND}, {0, 4, DIRECT},
};

/* For every pair of splits: a lent, a directed and a discarded payload, each followed by something. */
static const struct frame_shape few_shapes[] = {{5, 12, LEND}, {0, 4, DIRECT}, {1, 8, DISCARD}};

static const struct frame_shape long_shapes[] = {
    {300, 40000, LEND}, {0, 0, LEND}, {7, 40004, DIRECT}, {5000, 36, LEND}, {1, 50000, DISCARD}, {2, 17000, LEND},
};

START_TEST(frames_come_out_at_every_split)
{
    struct frame_stream s;

    stream_make(&s, short_shapes, ARRAY_LEN(short_shapes));
    for (size_t split = 0; split <= s.len; split++) {
        struct receiver rx;

        receiver_init(&rx, &s);
        read_some(&rx, 0, split);
        read_some(&rx, split, s.len - split);
        expect_all(&rx);
        receiver_finish(&rx);
    }
    free(s.bytes);
}
END_TEST

START_TEST(frames_come_out_at_every_pair_of_splits)
{
    struct frame_stream s;

    stream_make(&s, few_shapes, ARRAY_LEN(few_shapes));
    for (size_t a = 0; a <= s.len; a++) {
        for (size_t b = a; b <= s.len; b++) {
            struct receiver rx;

            receiver_init(&rx, &s);
            read_some(&rx, 0, a);
            read_some(&rx, a, b - a);
            read_some(&rx, b, s.len - b);
            expect_all(&rx);
            receiver_finish(&rx);
        }
    }
    free(s.bytes);
}
END_TEST

START_TEST(frames_come_out_byte_by_byte)
{
    struct receiver rx;
    struct frame_stream s;

    stream_make(&s, long_shapes, ARRAY_LEN(long_shapes));
    receiver_init(&rx, &s);
    for (size_t at = 0; at < s.len; at++)
        read_some(&rx, at, 1);
    expect_all(&rx);
    receiver_finish(&rx);
    free(s.bytes);
}
END_TEST

START_TEST(long_frames_come_out_at_random_splits)
{
    struct test_rng rng = {test_seed()};
    struct buffer_pool pool = {0};
    struct frame_stream s;

    stream_make(&s, long_shapes, ARRAY_LEN(long_shapes));
    for (int round = 0; round < 50; round++) {
        struct receiver rx;

        receiver_init(&rx, &s);
        rx.reader.buffers = round % 2 == 0 ? &pool : NULL;
        for (size_t at = 0, n; at < s.len; at += n) {
            n = 1 + (size_t)test_below(&rng, round % 3 == 0 ? 200 : 70000);
            n = MIN(n, s.len - at);
            read_some(&rx, at, n);
            if (test_below(&rng, 4) == 0)
                frame_reader_trim(&rx.reader);
        }
        expect_all(&rx);
        receiver_finish(&rx);
    }
    buffer_pool_finish(&pool);
    free(s.bytes);
}
END_TEST

START_TEST(bytes_at_odd_addresses_are_read_right)
{
    struct frame_stream s;

    stream_make(&s, short_shapes, ARRAY_LEN(short_shapes));
    for (size_t shift = 0; shift < FRAME_ALIGN; shift++) {
        uint8_t *copy = aligned_alloc(FRAME_ALIGN, round_up(s.len + shift, FRAME_ALIGN));
        struct receiver rx;

        memcpy(copy + shift, s.bytes, s.len);
        receiver_init(&rx, &s);
        frame_feed_bytes(&rx, copy + shift, s.len);
        expect_all(&rx);
        receiver_finish(&rx);
        free(copy);
    }
    free(s.bytes);
}
END_TEST

START_TEST(a_whole_frame_is_lent_from_the_bytes_it_came_in)
{
    static const struct frame_shape one[] = {{11, 20000, LEND}};
    struct frame_reader r;
    struct frame_stream s;
    size_t used;

    stream_make(&s, one, 1);
    frame_reader_init(&r);
    ck_assert_int_eq(frame_feed(&r, s.bytes, s.len, &used), FRAME_META);
    ck_assert_uint_eq(used, 32 + 16);
    ck_assert_ptr_eq(r.meta, s.bytes + 32);
    ck_assert_int_eq(frame_feed(&r, s.bytes + used, s.len - used, &used), FRAME_WHOLE);
    ck_assert_ptr_eq(r.payload, s.bytes + 48);
    ck_assert_ptr_eq(r.meta, s.bytes + 32);
    ck_assert_uint_eq(frame_reader_bytes(&r), 0);
    frame_reader_finish(&r);
    free(s.bytes);
}
END_TEST

START_TEST(a_large_payload_is_read_in_place)
{
    static const struct frame_shape one[] = {{8, MIB, LEND}};
    struct frame_reader r;
    struct frame_stream s;
    size_t used, len;
    void *at;

    stream_make(&s, one, 1);
    frame_reader_init(&r);
    frame_want(&r, &at, &len);
    ck_assert_ptr_null(at);
    ck_assert_uint_eq(len, SIZE_MAX);
    ck_assert_int_eq(frame_feed(&r, s.bytes, 36, &used), FRAME_MORE);
    frame_want(&r, &at, &len);
    ck_assert_ptr_null(at);
    ck_assert_uint_eq(len, 4); /* the rest of the metadata, nothing of the payload */
    ck_assert_int_eq(frame_feed(&r, s.bytes + 36, 4, &used), FRAME_META);
    frame_want(&r, &at, &len);
    ck_assert_ptr_nonnull(at);
    ck_assert_uint_eq(len, MIB);
    ck_assert_uint_eq((uintptr_t)at % 64, 0);
    memcpy(at, s.bytes + 40, MIB);
    ck_assert_int_eq(frame_feed(&r, at, MIB, &used), FRAME_WHOLE);
    ck_assert_ptr_eq(r.payload, at);
    frame_want(&r, &at, &len);
    ck_assert_ptr_null(at);
    ck_assert_uint_eq(len, 40); /* a header and as much metadata as the last frame had */
    frame_reader_finish(&r);
    free(s.bytes);
}
END_TEST

/* Only where that is asked for, and only while the rest has yet to come. */
START_TEST(a_head_is_announced_before_memory_is_taken)
{
    static const struct frame_shape two[] = {{3000, 100000, LEND}, {8, 16, LEND}};
    struct frame_reader r;
    struct frame_stream s;
    size_t used, at = 0;

    stream_make(&s, two, 2);
    frame_reader_init(&r);
    r.heads = true;
    ck_assert_int_eq(frame_feed(&r, s.bytes, 31, &used), FRAME_MORE);
    ck_assert_int_eq(frame_feed(&r, s.bytes + 31, 100, &used), FRAME_HEADED);
    ck_assert_uint_eq(used, 1);
    ck_assert_uint_eq(r.head.payload_len, 100000);
    ck_assert_uint_eq(frame_reader_bytes(&r), 0);
    at = FRAME_HEAD_SIZE;
    ck_assert_int_eq(frame_feed(&r, s.bytes + at, 3000, &used), FRAME_META);
    at += used;
    ck_assert_int_eq(frame_feed(&r, s.bytes + at, 100000, &used), FRAME_WHOLE);
    at += used;
    ck_assert_int_eq(frame_feed(&r, s.bytes + at, s.len - at, &used), FRAME_META); /* all of it is there */
    at += used;
    ck_assert_int_eq(frame_feed(&r, s.bytes + at, s.len - at, &used), FRAME_WHOLE);
    frame_reader_finish(&r);
    free(s.bytes);
}
END_TEST

START_TEST(a_directed_payload_is_read_where_it_belongs)
{
    static const struct frame_shape one[] = {{0, 100000, LEND}};
    struct frame_part parts[2];
    struct frame_reader r;
    uint8_t *into = malloc(100000);
    struct frame_stream s;
    size_t used, len;
    void *at;

    stream_make(&s, one, 1);
    frame_reader_init(&r);
    ck_assert_int_eq(frame_feed(&r, s.bytes, 32, &used), FRAME_META);
    parts[0] = (struct frame_part){into, 20000};
    parts[1] = (struct frame_part){into + 20000, 80000};
    frame_direct(&r, parts, 2);
    frame_want(&r, &at, &len);
    ck_assert_ptr_eq(at, into);
    ck_assert_uint_eq(len, 20000);
    memcpy(at, s.bytes + 32, 5000);
    ck_assert_int_eq(frame_feed(&r, at, 5000, &used), FRAME_MORE);
    frame_want(&r, &at, &len); /* 15000 are missing in this part: too few to be worth a read of their own */
    ck_assert_ptr_null(at);
    ck_assert_int_eq(frame_feed(&r, s.bytes + 32 + 5000, 15000, &used), FRAME_MORE);
    frame_want(&r, &at, &len);
    ck_assert_ptr_eq(at, into + 20000);
    ck_assert_uint_eq(len, 80000);
    memcpy(at, s.bytes + 32 + 20000, 80000);
    ck_assert_int_eq(frame_feed(&r, at, 80000, &used), FRAME_WHOLE);
    ck_assert_ptr_null(r.payload);
    ck_assert_int_eq(memcmp(into, s.bytes + 32, 100000), 0);
    ck_assert_ptr_null(r.payload_own);
    frame_reader_finish(&r);
    free(into);
    free(s.bytes);
}
END_TEST

START_TEST(a_payload_may_be_discarded_half_way)
{
    static const struct frame_shape two[] = {{0, 100000, LEND}, {4, 8, LEND}};
    struct frame_part part;
    struct frame_reader r;
    uint8_t *into;
    struct frame_stream s;
    size_t used;

    stream_make(&s, two, 2);
    for (int directed = 0; directed < 2; directed++) {
        frame_reader_init(&r);
        frame_discard(&r); /* nothing to discard: nothing happens */
        ck_assert_int_eq(frame_feed(&r, s.bytes, 32, &used), FRAME_META);
        into = malloc(100000);
        part = (struct frame_part){into, 100000};
        if (directed)
            frame_direct(&r, &part, 1);
        ck_assert_int_eq(frame_feed(&r, s.bytes + 32, 50000, &used), FRAME_MORE);
        frame_discard(&r);
        free(into); /* no longer touched */
        frame_reader_trim(&r);
        ck_assert_uint_lt(frame_reader_bytes(&r), 1000);
        ck_assert_int_eq(frame_feed(&r, s.bytes + 50032, 50000, &used), FRAME_WHOLE);
        ck_assert_ptr_null(r.payload);
        ck_assert_int_eq(frame_feed(&r, s.bytes + 100032, s.len - 100032, &used), FRAME_META);
        ck_assert_int_eq(frame_feed(&r, s.bytes + 100032 + used, 8, &used), FRAME_WHOLE);
        ck_assert_ptr_nonnull(r.payload);
        frame_reader_finish(&r);
    }
    free(s.bytes);
}
END_TEST

START_TEST(an_idle_reader_holds_nothing)
{
    static const struct frame_shape one[] = {{200000, MIB, LEND}};
    struct buffer_pool pool = {0};
    struct frame_reader r;
    struct frame_stream s;
    size_t used;

    stream_make(&s, one, 1);
    frame_reader_init(&r);
    r.buffers = &pool;
    ck_assert_int_eq(frame_feed(&r, s.bytes, 200032, &used), FRAME_META);
    ck_assert_int_eq(frame_feed(&r, s.bytes + used, 1000, &used), FRAME_MORE);
    frame_reader_trim(&r); /* all of it is in use */
    ck_assert_uint_ge(frame_reader_bytes(&r), 200000 + MIB);
    ck_assert_int_eq(frame_feed(&r, s.bytes + 201032, s.len - 201032, &used), FRAME_WHOLE);
    frame_reader_trim(&r);
    ck_assert_uint_eq(frame_reader_bytes(&r), 0);
    ck_assert_uint_eq(pool.kept, MIB);
    frame_reader_finish(&r);
    frame_reader_finish(&r);
    buffer_pool_finish(&pool);
    free(s.bytes);
}
END_TEST

/* ---- Headers ---- */

START_TEST(a_header_is_32_bytes_in_this_order)
{
    static const uint8_t expected[FRAME_HEAD_SIZE] = {'P', 'S', 'D',  '1',  7,    0,    7,    0,    0x04, 0x03, 0x02,
                                                      0,   0,   0,    0,    0,    0x18, 0x17, 0x16, 0,    0,    0,
                                                      0,   0,   0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21};
    struct frame_head head = {7, MSG_PUSH, 0x020304, 0x161718, 0x2122232425262728}, back;
    uint8_t bytes[FRAME_HEAD_SIZE];

    frame_head_encode(&head, bytes);
    ck_assert_mem_eq(bytes, expected, FRAME_HEAD_SIZE);
    ck_assert_int_eq(frame_head_decode(bytes, &back, NULL), PS_OK);
    ck_assert_uint_eq(back.version, 7);
    ck_assert_uint_eq(back.type, MSG_PUSH);
    ck_assert_uint_eq(back.meta_len, head.meta_len);
    ck_assert_uint_eq(back.payload_len, head.payload_len);
    ck_assert_uint_eq(back.request, head.request);
}
END_TEST

/* A good header with up to 8 bytes replaced, and the error that must be reported. */
static const struct bad_head {
    size_t at, n;
    uint8_t bytes[8];
    enum ps_err code;
    const char *says;
} bad_heads[] = {
    {0, 4, {'G', 'E', 'T', ' '}, PS_ERR_PROTOCOL, "HTTP"},
    {0, 4, {'P', 'O', 'S', 'T'}, PS_ERR_PROTOCOL, "HTTP"},
    {0, 4, {'H', 'T', 'T', 'P'}, PS_ERR_PROTOCOL, "HTTP"},
    {0, 4, {'P', 'R', 'I', ' '}, PS_ERR_PROTOCOL, "HTTP"},
    {0, 4, {'S', 'S', 'H', '-'}, PS_ERR_PROTOCOL, "SSH"},
    {0, 4, {0x16, 3, 1, 2}, PS_ERR_PROTOCOL, "TLS"},
    {0, 4, {1, 2, 3, 4}, PS_ERR_PROTOCOL, "01 02 03 04"},
    {0, 4, {'1', 'D', 'S', 'P'}, PS_ERR_PROTOCOL, "do not start a frame"},
    {4, 2, {2, 0}, PS_ERR_VERSION, "version 2"},
    {4, 2, {3, 0}, PS_ERR_VERSION, "version 3"},
    {4, 2, {4, 0}, PS_ERR_VERSION, "version 4"},
    {4, 2, {5, 0}, PS_ERR_VERSION, "version 5"},
    {4, 2, {6, 0}, PS_ERR_VERSION, "version 6"},
    {4, 2, {8, 0}, PS_ERR_VERSION, "version 8"},
    {4, 2, {0, 0}, PS_ERR_VERSION, "version 0"},
    {4, 2, {1, 1}, PS_ERR_VERSION, "version 257"},
    {6, 2, {0, 0}, PS_ERR_PROTOCOL, "type 0"},
    {6, 2, {MSG_TYPE_MAX, 0}, PS_ERR_PROTOCOL, "is not known"},
    {6, 2, {255, 255}, PS_ERR_PROTOCOL, "type 65535"},
    {8, 4, {1, 0, 4, 0}, PS_ERR_PROTOCOL, "262145 bytes of metadata"},
    {8, 4, {255, 255, 255, 255}, PS_ERR_PROTOCOL, "4294967295 bytes of metadata"},
    {12, 4, {0, 0, 1, 0}, PS_ERR_PROTOCOL, "not zero"},
    {16, 8, {4, 0, 0x40}, PS_ERR_PROTOCOL, "4194308 bytes of payload"},
    {16, 8, {255, 255, 255, 255, 255, 255, 255, 255}, PS_ERR_PROTOCOL, "bytes of payload"},
    {16, 8, {6}, PS_ERR_PROTOCOL, "multiples of 4"},
};

static void
bad_head_make(const struct bad_head *bad, uint8_t *bytes)
{
    struct frame_head head = {.version = FRAME_VERSION, .type = MSG_PUSH, .meta_len = 8, .payload_len = 8};

    frame_head_encode(&head, bytes);
    memcpy(bytes + bad->at, bad->bytes, bad->n);
}

START_TEST(a_bad_header_is_named)
{
    const struct bad_head *bad = &bad_heads[_i];
    uint8_t bytes[FRAME_HEAD_SIZE];
    struct ps_error e = {0};
    struct frame_head head;

    bad_head_make(bad, bytes);
    ck_assert_int_eq(frame_head_decode(bytes, &head, &e), bad->code);
    ck_assert_int_eq(e.code, bad->code);
    ck_assert_msg(strstr(e.text, bad->says) != NULL, "'%s' does not say '%s'", e.text, bad->says);
}
END_TEST

START_TEST(a_bad_header_breaks_the_reader_for_good)
{
    const struct bad_head *bad = &bad_heads[_i];

    for (size_t split = 1; split <= FRAME_HEAD_SIZE; split++) {
        uint8_t bytes[FRAME_HEAD_SIZE + 8] = {0};
        enum frame_event event;
        struct frame_reader r;
        size_t used, len;
        void *at;

        bad_head_make(bad, bytes);
        frame_reader_init(&r);
        event = frame_feed(&r, bytes, split, &used);
        /* A wrong magic is known after 4 bytes: a stranger may be waiting and send no more. */
        ck_assert_int_eq(event, split >= (bad->at == 0 ? 4 : FRAME_HEAD_SIZE) ? FRAME_BAD : FRAME_MORE);
        if (event == FRAME_MORE)
            event = frame_feed(&r, bytes + split, sizeof bytes - split, &used);
        ck_assert_int_eq(event, FRAME_BAD);
        ck_assert_int_eq(r.error.code, bad->code);
        ck_assert_int_eq(frame_feed(&r, bytes, sizeof bytes, &used), FRAME_BAD);
        ck_assert_uint_eq(used, sizeof bytes);
        ck_assert_int_eq(r.error.code, bad->code);
        frame_want(&r, &at, &len);
        ck_assert_ptr_null(at);
        frame_reader_finish(&r);
    }
}
END_TEST

START_TEST(random_bytes_never_crash_the_reader)
{
    struct test_rng rng = {test_seed()};
    struct frame_stream s;
    uint8_t *bytes;

    stream_make(&s, short_shapes, ARRAY_LEN(short_shapes));
    bytes = malloc(s.len);
    for (int round = 0; round < 20000; round++) {
        struct frame_reader r;
        size_t used, at = 0;
        enum frame_event event = FRAME_MORE;

        memcpy(bytes, s.bytes, s.len);
        for (uint64_t i = test_below(&rng, 8); i > 0; i--)
            bytes[test_below(&rng, s.len)] = (uint8_t)test_rand(&rng);
        frame_reader_init(&r);
        while (at < s.len && event != FRAME_BAD) {
            event = frame_feed(&r, bytes + at, 1 + (size_t)test_below(&rng, s.len - at), &used);
            at += used;
        }
        frame_reader_finish(&r);
    }
    free(bytes);
    free(s.bytes);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("frame");
    TCase *reader = tcase_create("reader"), *head = tcase_create("head");

    tcase_set_timeout(reader, 60);
    tcase_add_test(reader, frames_come_out_at_every_split);
    tcase_add_test(reader, frames_come_out_at_every_pair_of_splits);
    tcase_add_test(reader, frames_come_out_byte_by_byte);
    tcase_add_test(reader, long_frames_come_out_at_random_splits);
    tcase_add_test(reader, bytes_at_odd_addresses_are_read_right);
    tcase_add_test(reader, a_whole_frame_is_lent_from_the_bytes_it_came_in);
    tcase_add_test(reader, a_large_payload_is_read_in_place);
    tcase_add_test(reader, a_directed_payload_is_read_where_it_belongs);
    tcase_add_test(reader, a_payload_may_be_discarded_half_way);
    tcase_add_test(reader, a_head_is_announced_before_memory_is_taken);
    tcase_add_test(reader, an_idle_reader_holds_nothing);
    tcase_add_test(reader, random_bytes_never_crash_the_reader);
    suite_add_tcase(s, reader);
    tcase_add_test(head, a_header_is_32_bytes_in_this_order);
    tcase_add_loop_test(head, a_bad_header_is_named, 0, ARRAY_LEN(bad_heads));
    tcase_add_loop_test(head, a_bad_header_breaks_the_reader_for_good, 0, ARRAY_LEN(bad_heads));
    suite_add_tcase(s, head);
    return s;
}

CHECK_MAIN(make_suite)
