/* Encoded pushes at a shard: the update is that of an uncompressed push, bit by bit, in every mode and after a power
 * loss; and no bytes do any harm. */
#include "tests/unit/kits/shard_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/codec/codec.h"
#include "tests/unit/kits/power_kit.h"

#define LARGE 65536 /* elements of the largest block */

static float gradient[LARGE], plain[LARGE];
static uint32_t encoded[2 * LARGE + 4];

static const struct ps_compress codecs[] = {
    {.kind = PS_COMPRESS_FLOAT16},
    {.kind = PS_COMPRESS_BFLOAT16},
    {.kind = PS_COMPRESS_INT8},
    {.kind = PS_COMPRESS_TOP_K, .fraction = 0.1},
};

static void
push_encoded_draw(struct test_rng *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gradient[i] = test_float(r);
}

struct encoded_push {
    uint64_t conn, seq, clock;
    uint32_t var, encoding;
    const void *payload;
    size_t bytes;
    bool durable;
};

static void
push_bytes(const struct encoded_push *p)
{
    struct kit_push_message m;

    kit_push_message(&(struct kit_push){.seq = p->seq, .clock = p->clock, .var = p->var, .durable = p->durable}, &m);
    m.push.encoding = p->encoding;
    kit_frame(&k, p->conn, MSG_PUSH, k.next_request++, &m.push.base, p->payload, p->bytes);
}

/* n elements of `gradient`, encoded; the decoded values are then in `plain`. */
static void
push_encoded(struct encoded_push p, const struct ps_compress *how, size_t n)
{
    p.encoding = how->kind;
    p.payload = encoded;
    p.bytes = codec_encode(how, n, gradient, NULL, encoded);
    codec_decode(how->kind, n, encoded, plain);
    push_bytes(&p);
}

static void
push_plain(struct encoded_push p, size_t n)
{
    p.payload = plain;
    p.bytes = n * sizeof *plain;
    push_bytes(&p);
}

/* Both variables have one block with the same values. */
static void
expect_same(uint64_t conn, uint32_t a, uint32_t b, size_t n, uint64_t version)
{
    float *x = malloc(2 * n * sizeof *x);

    ck_assert_uint_eq(kit_read(&k, conn, a, 0, x, n), version);
    ck_assert_uint_eq(kit_read(&k, conn, b, 0, x + n, n), version);
    ck_assert_mem_eq(x, x + n, n * sizeof *x);
    free(x);
}

START_TEST(encoded_gradient_is_applied_as_what_it_decodes_to)
{
    static const size_t lengths[] = {1, 7, 255, 1008, LARGE};
    struct test_rng r = {test_seed()};
    uint64_t seq = 1;
    char name[16];

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    for (size_t c = 0; c < ARRAY_LEN(codecs); c++)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
            size_t n = lengths[l];
            uint32_t a, b;

            snprintf(name, sizeof name, "a%zu-%zu", c, l);
            a = kit_declare(&k, 1, name, n, PS_SGD);
            name[0] = 'b';
            b = kit_declare(&k, 1, name, n, PS_SGD);
            for (int step = 0; step < 4; step++) {
                k.hold = step % 2 == 0; /* two in one turn: out of place, and in place */
                push_encoded_draw(&r, n);
                push_encoded((struct encoded_push){.conn = 1, .seq = seq++, .var = a}, &codecs[c], n);
                push_plain((struct encoded_push){.conn = 1, .seq = seq++, .var = b}, n);
            }
            kit_drop_answers(&k, 1);
            expect_same(1, a, b, n, 4);
        }
}
END_TEST

START_TEST(blocks_of_many_variables_share_an_encoded_frame)
{
    enum { VARS = 5, LEN = 100 };
    static float all[VARS][LEN];
    struct test_rng r = {test_seed()};
    Psd__Push m = PSD__PUSH__INIT;
    uint32_t vars[VARS], blocks[VARS] = {0};
    float out[LEN];
    char name[16];

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    for (int v = 0; v < VARS; v++) {
        snprintf(name, sizeof name, "w%d", v);
        vars[v] = kit_declare(&k, 1, name, LEN, PS_SGD);
    }
    m.n_var = m.n_block = VARS;
    m.var = vars;
    m.block = blocks;
    for (size_t c = 0; c < ARRAY_LEN(codecs); c++) {
        size_t bytes = 0;

        m.seq = c + 1;
        m.encoding = codecs[c].kind;
        for (int v = 0; v < VARS; v++) {
            push_encoded_draw(&r, LEN);
            bytes += codec_encode(&codecs[c], LEN, gradient, NULL, encoded + bytes / 4);
        }
        kit_frame(&k, 1, MSG_PUSH, k.next_request++, &m.base, encoded, bytes);
        kit_ack(&k, 1, m.seq, PS_OK);
        bytes = 0;
        for (int v = 0; v < VARS; v++) {
            size_t used;

            ck_assert_int_eq(codec_measure(codecs[c].kind, LEN, encoded + bytes / 4, sizeof encoded, &used, NULL),
                             PS_OK);
            codec_decode(codecs[c].kind, LEN, encoded + bytes / 4, plain);
            bytes += used;
            for (int i = 0; i < LEN; i++)
                all[v][i] -= plain[i]; /* SGD with a rate of 1 */
            ck_assert_uint_eq(kit_read(&k, 1, vars[v], 0, out, LEN), c + 1);
            ck_assert_mem_eq(out, all[v], sizeof out);
        }
    }
}
END_TEST

START_TEST(steps_of_sync_take_encoded_and_plain_gradients_together)
{
    enum { LEN = 336 };
    static float first[LEN];
    struct test_rng r = {test_seed()};
    Psd__Job job = *kit_job("train", PSD__MODE__SYNC, 2);
    uint64_t seq = 1;
    uint32_t a, b;

    kit_join(&k, 1, &job, 0);
    kit_join(&k, 2, &job, 1);
    a = kit_declare(&k, 1, "a", LEN, PS_ADAM);
    b = kit_declare(&k, 1, "b", LEN, PS_ADAM);
    for (uint64_t step = 0; step < ARRAY_LEN(codecs); step++) {
        push_encoded_draw(&r, LEN);
        memcpy(first, gradient, sizeof first);
        push_encoded((struct encoded_push){.conn = 1, .seq = seq, .clock = step, .var = a}, &codecs[step], LEN);
        push_plain((struct encoded_push){.conn = 1, .seq = seq + 1, .clock = step, .var = b}, LEN);
        push_encoded_draw(&r, LEN); /* the second closes the sync step: it is summed from where it was decoded */
        push_encoded((struct encoded_push){.conn = 2, .seq = seq, .clock = step, .var = a},
                     &codecs[(step + 1) % ARRAY_LEN(codecs)], LEN);
        push_plain((struct encoded_push){.conn = 2, .seq = seq + 1, .clock = step, .var = b}, LEN);
        kit_tick(&k, 1, seq + 2, step + 1);
        kit_tick(&k, 2, seq + 2, step + 1);
        kit_drop_answers(&k, 1);
        kit_drop_answers(&k, 2);
        seq += 3;
        expect_same(1, a, b, LEN, step + 1);
    }
}
END_TEST

START_TEST(durable_encoded_pushes_are_replayed_bit_by_bit)
{
    static const Psd__Mode modes[] = {PSD__MODE__ASYNC, PSD__MODE__SYNC};
    struct test_rng r = {test_seed()};

    for (size_t mode = 0; mode < ARRAY_LEN(modes); mode++) {
        struct power_disk disk = {0};
        uint64_t was;
        uint32_t var;

        kit_finish(&k);
        kit_init(&k, &kit_durable_config);
        kit_join(&k, 1, kit_job("train", modes[mode], 1), 0);
        var = kit_declare(&k, 1, "w", 3000, PS_MOMENTUM); /* several blocks: the first of them */
        disk_save(&disk, &k);
        for (uint64_t step = 0; step < ARRAY_LEN(codecs); step++) {
            push_encoded_draw(&r, 496);
            push_encoded(
                (struct encoded_push){.conn = 1, .seq = 2 * step + 1, .clock = step, .var = var, .durable = true},
                &codecs[step], 496);
            kit_tick(&k, 1, 2 * step + 2, step + 1);
        }
        was = blocks_hash(k.store);
        disk_take(&disk, &k, k.redo);
        kit_durable(&k, k.redo);
        ck_assert_uint_ge(power_loss(&disk, &k, 7), ARRAY_LEN(codecs));
        ck_assert_uint_eq(blocks_hash(k.store), was);
        disk_finish(&disk);
    }
}
END_TEST

START_TEST(encoded_push_that_comes_again_is_not_applied_again)
{
    Psd__Job job = *kit_job("train", PSD__MODE__ASYNC, 1);
    float out[4];
    uint32_t var;

    kit_join(&k, 1, &job, 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    for (int i = 0; i < 4; i++)
        gradient[i] = (float)i;
    push_encoded((struct encoded_push){.conn = 1, .seq = 1, .var = var}, &codecs[0], 4);
    kit_ack(&k, 1, 1, PS_OK);
    kit_close(&k, 1);
    ck_assert_uint_eq(kit_resume(&k, 2, &job, 0, 0), 1);
    push_encoded((struct encoded_push){.conn = 2, .seq = 1, .var = var}, &codecs[0], 4);
    kit_ack(&k, 2, 1, PS_OK);
    ck_assert_uint_eq(kit_read(&k, 2, var, 0, out, 4), 1);
    ck_assert(out[3] == -3);
}
END_TEST

/* The blocks are as they were, and the connection goes on. */
static void
expect_refused(const struct encoded_push *p, enum ps_err code)
{
    uint64_t was = blocks_hash(k.store);

    push_bytes(p);
    kit_ack(&k, p->conn, p->seq, code);
    ck_assert_uint_eq(blocks_hash(k.store), was);
}

START_TEST(what_cannot_be_decoded_is_refused_whole)
{
    enum { LEN = 300 };
    struct test_rng r = {test_seed()};
    struct encoded_push p = {.conn = 1, .seq = 1, .payload = encoded};
    float *scales = (float *)encoded;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    p.var = kit_declare(&k, 1, "w", LEN, PS_SGD);
    push_encoded_draw(&r, LEN);
    for (size_t c = 0; c < ARRAY_LEN(codecs); c++) {
        size_t bytes = codec_encode(&codecs[c], LEN, gradient, NULL, encoded);
        const size_t wrong[] = {0, bytes - 4, bytes + 4, LEN * sizeof(float)};

        p.encoding = codecs[c].kind;
        for (size_t i = 0; i < ARRAY_LEN(wrong); i++, p.seq++) {
            p.bytes = wrong[i];
            expect_refused(&p, PS_ERR_SHAPE);
        }
    }
    p.bytes = 4 + 8 * 30; /* as the last of them was, of top-k */
    p.encoding = PS_COMPRESS_KINDS;
    expect_refused(&p, PS_ERR_UNSUPPORTED);
    p.seq++;
    p.encoding = UINT32_MAX;
    expect_refused(&p, PS_ERR_UNSUPPORTED);
    p.seq++;
    p.encoding = PS_COMPRESS_TOP_K;
    encoded[2] = encoded[1]; /* an index twice */
    expect_refused(&p, PS_ERR_INVALID);
    p.seq++;
    p.encoding = PS_COMPRESS_INT8;
    p.bytes = codec_encode(&(struct ps_compress){.kind = PS_COMPRESS_INT8}, LEN, gradient, NULL, encoded);
    scales[1] = -scales[1];
    expect_refused(&p, PS_ERR_INVALID);
    p.seq++;
    scales[1] = 0x1p127f; /* times 127: infinite */
    expect_refused(&p, PS_ERR_NONFINITE);
    p.seq++;
    gradient[200] = (float)NAN;
    p.encoding = PS_COMPRESS_FLOAT16;
    p.bytes = codec_encode(&codecs[0], LEN, gradient, NULL, encoded);
    expect_refused(&p, PS_ERR_NONFINITE);
}
END_TEST

/* Five bytes of top-k for each million of zeros: the work that a frame makes is bounded by what float32 allows. */
START_TEST(few_bytes_cannot_name_more_than_a_frame_of_floats)
{
    enum { FIT = FRAME_PAYLOAD_MAX / 4 / LARGE };
    uint32_t vars[FIT + 1], blocks[FIT + 1], nothing[FIT + 1] = {0};
    Psd__Push m = PSD__PUSH__INIT;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    vars[0] = kit_declare(&k, 1, "w", (FIT + 1) * LARGE, PS_SGD);
    for (uint32_t i = 0; i <= FIT; i++) {
        vars[i] = vars[0];
        blocks[i] = i;
    }
    m.var = vars;
    m.block = blocks;
    m.encoding = PS_COMPRESS_TOP_K;
    m.seq = 1;
    m.n_var = m.n_block = FIT + 1;
    kit_frame(&k, 1, MSG_PUSH, k.next_request++, &m.base, nothing, (FIT + 1) * 4);
    kit_ack(&k, 1, 1, PS_ERR_LIMIT);
    m.seq = 2;
    m.n_var = m.n_block = FIT;
    kit_frame(&k, 1, MSG_PUSH, k.next_request++, &m.base, nothing, FIT * 4);
    kit_ack(&k, 1, 2, PS_OK);
}
END_TEST

START_TEST(any_bytes_under_any_encoding_are_answered)
{
    struct test_rng r = {test_seed()};
    uint32_t var, bytes[160];

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    var = kit_declare(&k, 1, "w", 37, PS_SGD);
    for (uint64_t seq = 1; seq <= 5000; seq++) {
        struct encoded_push p = {.conn = 1, .seq = seq, .var = var, .payload = bytes};
        struct kit_answer *answer;

        p.encoding = (uint32_t)test_below(&r, PS_COMPRESS_KINDS + 1);
        p.bytes = 4 * test_below(&r, test_below(&r, 2) == 0 ? 12 : ARRAY_LEN(bytes));
        for (size_t i = 0; i < ARRAY_LEN(bytes); i++)
            bytes[i] = (uint32_t)test_rand(&r) >> test_below(&r, 32);
        push_bytes(&p);
        answer = kit_expect(&k, 1, MSG_ACK);
        ck_assert_uint_eq(answer->msg.u.ack->seq[0], seq);
        kit_answer_free(answer);
    }
}
END_TEST

static Suite *
push_encoded_suite(void)
{
    Suite *s = suite_create("push_encoded");
    TCase *t = tcase_create("push_encoded");

    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, shard_setup, shard_teardown);
    tcase_add_test(t, encoded_gradient_is_applied_as_what_it_decodes_to);
    tcase_add_test(t, blocks_of_many_variables_share_an_encoded_frame);
    tcase_add_test(t, steps_of_sync_take_encoded_and_plain_gradients_together);
    tcase_add_test(t, durable_encoded_pushes_are_replayed_bit_by_bit);
    tcase_add_test(t, encoded_push_that_comes_again_is_not_applied_again);
    tcase_add_test(t, what_cannot_be_decoded_is_refused_whole);
    tcase_add_test(t, few_bytes_cannot_name_more_than_a_frame_of_floats);
    tcase_add_test(t, any_bytes_under_any_encoding_are_answered);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(push_encoded_suite)
