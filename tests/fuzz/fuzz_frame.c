/* Bytes from a stranger through the frame reader and wire_decode(), cut at points that the input chooses.
 *
 *     clang -fsanitize=fuzzer,address,undefined ...     libFuzzer calls LLVMFuzzerTestOneInput()
 *     cc -DFUZZ_STANDALONE ...                          main() makes inputs of its own: random messages, then damage
 *
 * Standalone: fuzz_frame [iterations] [seed]; PSD_TEST_SEED is the default seed. Prints what it did; a crash or an
 * assertion is the failure.
 *
 * What must hold: every byte is consumed, lent memory is readable, a message that was accepted is accepted again after
 * it was encoded again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/wire/frame.h"
#include "common/core/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fuzz_counts {
    uint64_t inputs, frames, accepted, refused, broken;
} counts;

/* ---- One input ---- */

/* The cuts, from the input's first bytes (xorshift). */
static uint64_t
fuzz_frame_next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

struct fuzz_target {
    struct frame_reader reader;
    struct arena arena;
    struct buffer_pool buffers;
    uint64_t cuts;
    uint8_t *into;
    struct frame_part parts[3];
    uint64_t sum; /* of what was lent, so that it is read */
};

static void
fuzz_frame_touch(struct fuzz_target *t, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; bytes != NULL && i < n; i++)
        t->sum += bytes[i];
}

static void
accept_again(struct fuzz_target *t, const struct wire_msg *msg)
{
    size_t len;
    struct frame_head head;
    struct wire_msg again;
    struct ps_error e;
    uint8_t *bytes;

    len = wire_size(msg->u.base);
    if (len > FRAME_META_MAX) /* parts that were filled in made it too long */
        return;
    bytes = malloc(len);
    ps_assert(bytes != NULL);
    wire_encode(msg->type, msg->request, msg->u.base, msg->payload_len, bytes);
    ps_assert(frame_head_decode(bytes, &head, &e) == PS_OK);
    if (wire_decode(&head, bytes + FRAME_HEAD_SIZE, &t->arena, &again, &e) != PS_OK)
        ps_assert(e.code == PS_ERR_LIMIT); /* both together do not fit the arena */
    free(bytes);
}

static void
fuzz_frame_decode(struct fuzz_target *t)
{
    struct frame_reader *r = &t->reader;
    struct wire_msg msg;
    struct ps_error e = {0};

    fuzz_frame_touch(t, r->meta, r->head.meta_len);
    if (wire_decode(&r->head, r->meta, &t->arena, &msg, &e) == PS_OK) {
        counts.accepted++;
        accept_again(t, &msg);
    } else {
        ps_assert(e.code != PS_OK && e.text[0] != '\0');
        counts.refused++;
    }
    arena_reset(&t->arena);
}

/* Where the payload goes is the owner's choice. */
static void
fuzz_frame_place(struct fuzz_target *t)
{
    size_t len = t->reader.head.payload_len, a = fuzz_frame_next(&t->cuts) % (len + 1),
           b = a + fuzz_frame_next(&t->cuts) % (len - a + 1);

    fuzz_frame_touch(t, t->reader.meta, t->reader.head.meta_len);
    if (fuzz_frame_next(&t->cuts) % 4 == 0)
        frame_discard(&t->reader);
    else if (fuzz_frame_next(&t->cuts) % 2 == 0) {
        free(t->into);
        t->into = malloc(len);
        ps_assert(t->into != NULL);
        t->parts[0] = (struct frame_part){t->into, a};
        t->parts[1] = (struct frame_part){t->into + a, b - a};
        t->parts[2] = (struct frame_part){t->into + b, len - b};
        frame_direct(&t->reader, t->parts, 3);
    }
}

/* One read()'s worth. False when the stream is broken. */
static bool
fuzz_frame_feed(struct fuzz_target *t, const uint8_t *data, size_t n)
{
    size_t used;

    for (; n > 0; data += used, n -= used) {
        switch (frame_feed(&t->reader, data, n, &used)) {
        case FRAME_MORE:
            ps_assert(used == n);
            break;
        case FRAME_HEADED: /* before memory is taken: at most what an idle reader keeps of metadata */
            ps_assert(t->reader.heads && frame_reader_bytes(&t->reader) <= 4 * KIB);
            break;
        case FRAME_META:
            fuzz_frame_place(t);
            break;
        case FRAME_WHOLE:
            counts.frames++;
            fuzz_frame_touch(t, t->reader.payload, t->reader.head.payload_len);
            ps_assert((uintptr_t)t->reader.payload % sizeof(float) == 0);
            fuzz_frame_decode(t);
            break;
        case FRAME_BAD:
            ps_assert(t->reader.error.code != PS_OK && t->reader.error.text[0] != '\0');
            counts.broken++;
            return false;
        }
    }
    if (fuzz_frame_next(&t->cuts) % 8 == 0)
        frame_reader_trim(&t->reader);
    return true;
}

/* The next bytes in memory of exactly their length. Returns how many, 0 when the stream is broken. */
static size_t
read_some(struct fuzz_target *t, const uint8_t *data, size_t n)
{
    size_t cut = 1 + fuzz_frame_next(&t->cuts) % (fuzz_frame_next(&t->cuts) % 4 == 0 ? 40 : 20000), len;
    uint8_t *scratch;
    bool good;
    void *at;

    frame_want(&t->reader, &at, &len);
    n = MIN(MIN(n, cut), len);
    if (at != NULL) {
        memcpy(at, data, n);
        return fuzz_frame_feed(t, at, n) ? n : 0;
    }
    scratch = malloc(n + frame_offset(&t->reader));
    ps_assert(scratch != NULL);
    at = scratch + frame_offset(&t->reader);
    memcpy(at, data, n);
    good = fuzz_frame_feed(t, at, n);
    free(scratch);
    return good ? n : 0;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_target t = {.cuts = 0x9e3779b97f4a7c15u};

    counts.inputs++;
    if (size < 4)
        return 0;
    memcpy(&t.cuts, data, 4);
    frame_reader_init(&t.reader);
    t.reader.buffers = &t.buffers;
    t.reader.heads = size % 2 == 0;
    for (size_t at = 4, n = 1; at < size && n > 0; at += n)
        n = read_some(&t, data + at, size - at);
    frame_reader_finish(&t.reader);
    buffer_pool_finish(&t.buffers);
    arena_finish(&t.arena);
    free(t.into);
    return 0;
}

/* ---- Inputs of our own ---- */

#ifdef FUZZ_STANDALONE

static uint64_t state = 1;

static uint64_t
fuzz_frame_below(uint64_t n)
{
    return fuzz_frame_next(&state) % n;
}

/* Mostly small, sometimes any. */
static uint64_t
some_number(void)
{
    return fuzz_frame_below(8) == 0 ? fuzz_frame_next(&state) : fuzz_frame_below(6);
}

static char *
some_text(struct arena *arena)
{
    static const char *const texts[] = {"",         "a",    "train",  "w/1",
                                        "\xc3\xa4", "\xff", "line\n", "a long name of a variable"};
    const char *text = texts[fuzz_frame_below(ARRAY_LEN(texts))];
    char *copy = arena_alloc(arena, strlen(text) + 1);

    return strcpy(copy, text);
}

static ProtobufCMessage *some_message(struct arena *arena, const ProtobufCMessageDescriptor *descriptor);

static size_t
value_size(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return 8;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE:
        return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    default:
        return 4; /* uint32, bool and enumerations */
    }
}

static void
some_value(struct arena *arena, const ProtobufCFieldDescriptor *field, void *at)
{
    uint64_t number = some_number();
    double real = fuzz_frame_below(4) == 0 ? (double)number : (double)fuzz_frame_below(100) / 100;
    ProtobufCBinaryData bytes;
    void *pointer;

    switch (field->type) {
    case PROTOBUF_C_TYPE_DOUBLE:
        memcpy(at, &real, sizeof real);
        return;
    case PROTOBUF_C_TYPE_STRING:
        pointer = some_text(arena);
        memcpy(at, &pointer, sizeof pointer);
        return;
    case PROTOBUF_C_TYPE_BYTES:
        bytes.len = fuzz_frame_below(50);
        bytes.data = arena_alloc(arena, bytes.len + 1);
        for (size_t i = 0; i < bytes.len; i++)
            bytes.data[i] = (uint8_t)fuzz_frame_below(256);
        memcpy(at, &bytes, sizeof bytes);
        return;
    case PROTOBUF_C_TYPE_MESSAGE:
        pointer = some_message(arena, field->descriptor);
        memcpy(at, &pointer, sizeof pointer);
        return;
    case PROTOBUF_C_TYPE_BOOL:
        number &= 1;
        break;
    default:
        break;
    }
    memcpy(at, &number, value_size(field)); /* little-endian machines only: a test */
}

static ProtobufCMessage *
some_message(struct arena *arena, const ProtobufCMessageDescriptor *descriptor)
{
    uint8_t *message = arena_alloc(arena, descriptor->sizeof_message);
    size_t same = fuzz_frame_below(4); /* arrays run in parallel, mostly */

    descriptor->message_init((ProtobufCMessage *)message);
    for (unsigned i = 0; i < descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &descriptor->fields[i];
        size_t n = fuzz_frame_below(8) == 0 ? fuzz_frame_below(50) : same;
        uint8_t *values;

        if (field->label != PROTOBUF_C_LABEL_REPEATED) {
            if (fuzz_frame_below(8) != 0)
                some_value(arena, field, message + field->offset);
            continue;
        }
        values = arena_alloc(arena, n * value_size(field));
        for (size_t k = 0; k < n; k++)
            some_value(arena, field, values + k * value_size(field));
        memcpy(message + field->offset, &values, sizeof values);
        memcpy(message + field->quantifier_offset, &n, sizeof n);
    }
    return (ProtobufCMessage *)message;
}

static const ProtobufCMessageDescriptor *const descriptors[MSG_TYPE_MAX] = {
#define X(id, number, name, ...) [MSG_##id] = &psd__##name##__descriptor,
    MESSAGE_LIST(X)
#undef X
};

/* Append a random frame; returns its length, 0 when there is no room. */
static size_t
some_frame(struct arena *arena, uint8_t *out, size_t room)
{
    enum msg_type type = (enum msg_type)(1 + fuzz_frame_below(MSG_TYPE_MAX - 1));
    bool payload = type == MSG_PUSH || type == MSG_DATA || type == MSG_ASSIGN;
    uint64_t payload_len = payload ? 4 * fuzz_frame_below(fuzz_frame_below(4) == 0 ? 10000 : 20) : 0;
    ProtobufCMessage *message = some_message(arena, descriptors[type]);
    size_t len = wire_size(message), total = len + payload_len + frame_pad(payload_len);

    if (total > room || len > FRAME_META_MAX)
        return 0;
    wire_encode(type, some_number(), message, payload_len, out);
    memset(out + len, 7, total - len);
    return total;
}

static size_t
some_input(uint8_t *out, size_t room)
{
    struct arena arena = {0};
    uint32_t cuts = (uint32_t)fuzz_frame_next(&state) | 1;
    size_t len = 4, n;

    memcpy(out, &cuts, 4);
    for (uint64_t frames = 1 + fuzz_frame_below(6); frames > 0 && (n = some_frame(&arena, out + len, room - len)) > 0;
         frames--)
        len += n;
    arena_finish(&arena);
    if (fuzz_frame_below(2) == 0)
        for (uint64_t hits = 1 + fuzz_frame_below(4); hits > 0; hits--)
            out[4 + fuzz_frame_below(len - 4)] ^= (uint8_t)(1 << fuzz_frame_below(8));
    return fuzz_frame_below(8) == 0 ? 4 + fuzz_frame_below(len - 3) : len; /* cut off */
}

#define INPUT_MAX (512 * KIB)

int
main(int argc, char **argv)
{
    const char *seed_text = argc > 2 ? argv[2] : getenv("PSD_TEST_SEED");
    uint64_t iterations = argc > 1 ? strtoull(argv[1], NULL, 0) : 100000;
    uint64_t seed = seed_text != NULL ? strtoull(seed_text, NULL, 0) : 20260101;
    uint8_t *input = malloc(INPUT_MAX);

    ps_assert(input != NULL);
    state = seed * 0x9e3779b97f4a7c15u | 1;
    for (uint64_t i = 0; i < iterations; i++) {
        size_t size = some_input(input, INPUT_MAX);
        uint8_t *exact = malloc(size);

        ps_assert(exact != NULL);
        memcpy(exact, input, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    free(input);
    printf("seed %" PRIu64 ": %" PRIu64 " inputs, %" PRIu64 " frames, %" PRIu64 " accepted, %" PRIu64
           " refused, %" PRIu64 " streams broken\n",
           seed, counts.inputs, counts.frames, counts.accepted, counts.refused, counts.broken);
    /* Inputs that are all refused, or all accepted, would test nothing. */
    return iterations < 1000 || (counts.accepted > 0 && counts.refused > 0 && counts.broken > 0) ? 0 : 1;
}

#endif
