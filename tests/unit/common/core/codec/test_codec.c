/* Encodings of gradients, and the residuals that they leave. */
#include "common/core/codec/codec.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/core/codec/codec_isa.h"
#include "common/core/codec/half.h"
#include "tests/unit/kits/check_main.h"

#define N_MAX 70001

/* As ck_assert_msg(), which writes to a file each time: for many. */
#define HOLD(condition, ...)                                                                                           \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            ck_abort_msg(__VA_ARGS__);                                                                                 \
    } while (0)

static const size_t lengths[] = {1, 2, 3, 7, 64, 65, 255, 256, 257, 1008, N_MAX};

static const struct ps_compress codecs[] = {{.kind = PS_COMPRESS_FLOAT16},
                                            {.kind = PS_COMPRESS_BFLOAT16},
                                            {.kind = PS_COMPRESS_INT8},
                                            {.kind = PS_COMPRESS_TOP_K},
                                            {.kind = PS_COMPRESS_TOP_K, .fraction = 0.25},
                                            {.kind = PS_COMPRESS_TOP_K, .fraction = 1}};

static float gradient[N_MAX], residual[N_MAX], before[N_MAX], decoded[N_MAX];
static uint8_t encoding[8 * N_MAX + 8] __attribute__((aligned(8)));

/* A possible gradient: sizes over many orders of magnitude. */
static void
codec_draw(struct test_rng *r, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = ldexpf(test_float(r), (int)test_below(r, 20) - 15);
}

/* Numbers of few digits: every sum and difference of some of them is exact. */
static void
draw_exact(struct test_rng *r, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((int)test_below(r, 4001) - 2000) / 64;
}

static size_t
codec_encode_all(const struct ps_compress *how, size_t n, float *rest)
{
    size_t size = codec_size_max(how, n), used, bytes;
    struct ps_error e;

    memset(encoding, 0xee, size + 4);
    used = codec_encode(how, n, gradient, rest, encoding);
    HOLD(used <= size && used % 4 == 0, "%zu of %zu bytes", used, size);
    HOLD(encoding[size] == 0xee, "behind its end");
    HOLD(codec_measure(how->kind, n, encoding, used, &bytes, &e) == PS_OK && bytes == used, "%s", e.text);
    codec_decode(how->kind, n, encoding, decoded);
    return used;
}

/* gradient + before, as it is to be encoded. */
static float
codec_fed(size_t i)
{
    float e = gradient[i] + before[i];

    return fminf(fmaxf(e, -0x1p127f), 0x1p127f);
}

START_TEST(what_is_decoded_and_what_is_left_make_up_the_gradient)
{
    struct test_rng r = {test_seed()};

    for (size_t c = 0; c < ARRAY_LEN(codecs); c++)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
            size_t n = lengths[l];

            codec_draw(&r, n, residual);
            for (int step = 0; step < 3; step++) {
                codec_draw(&r, n, gradient);
                memcpy(before, residual, sizeof before);
                codec_encode_all(&codecs[c], n, residual);
                for (size_t i = 0; i < n; i++)
                    HOLD((double)decoded[i] + (double)residual[i] == (double)codec_fed(i),
                         "codec %zu, %zu elements, %zu: %.9g and %.9g, not %.9g", c, n, i, (double)decoded[i],
                         (double)residual[i], (double)codec_fed(i));
            }
        }
}
END_TEST

/* The same bytes, and the same residual, in another place; without a residual as with one of zeros. */
START_TEST(what_is_left_can_go_elsewhere)
{
    static float left[N_MAX];
    static uint8_t apart[8 * N_MAX + 8] __attribute__((aligned(8)));
    struct test_rng r = {test_seed()};

    for (size_t c = 0; c < ARRAY_LEN(codecs); c++)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++)
            for (int with = 0; with < 2; with++) {
                size_t n = lengths[l], bytes, used;

                codec_draw(&r, n, gradient);
                memset(residual, 0, sizeof residual);
                if (with)
                    codec_draw(&r, n, residual);
                memcpy(before, residual, sizeof before);
                used = codec_encode_apart(&codecs[c], n, gradient, with ? residual : NULL, left, apart);
                HOLD(memcmp(before, residual, sizeof before) == 0, "codec %zu: the residual was written to", c);
                bytes = codec_encode_all(&codecs[c], n, residual);
                HOLD(used == bytes && memcmp(apart, encoding, used) == 0, "codec %zu, %zu elements: bytes", c, n);
                for (size_t i = 0; i < n; i++) /* whatever the sign of 0 */
                    HOLD(left[i] == residual[i], "codec %zu, %zu elements, %zu: %.9g", c, n, i, (double)left[i]);
            }
}
END_TEST

START_TEST(the_error_is_within_its_bound)
{
    struct test_rng r = {test_seed()};

    for (size_t c = 0; c < 3; c++)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
            codec_draw(&r, lengths[l], gradient);
            codec_encode_all(&codecs[c], lengths[l], NULL);
            for (size_t i = 0; i < lengths[l]; i++) {
                float largest = 0, bound;

                for (size_t j = i - i % CODEC_RUN; j < MIN(lengths[l], i - i % CODEC_RUN + CODEC_RUN); j++)
                    largest = fmaxf(largest, fabsf(gradient[j]));
                bound = codecs[c].kind == PS_COMPRESS_FLOAT16    ? fabsf(gradient[i]) * 0x1p-11f + 0x1p-25f
                        : codecs[c].kind == PS_COMPRESS_BFLOAT16 ? fabsf(gradient[i]) * 0x1p-8f
                                                                 : largest / 254 * 1.0001f;
                HOLD(fabsf(decoded[i] - gradient[i]) <= bound, "codec %zu: %.9g became %.9g", c, (double)gradient[i],
                     (double)decoded[i]);
            }
        }
}
END_TEST

/* How many come before element i: larger ones, and equal ones at a lower index. */
static size_t
rank_of(size_t n, size_t i)
{
    size_t rank = 0;

    for (size_t j = 0; j < n; j++)
        rank += fabsf(gradient[j]) > fabsf(gradient[i]) || (fabsf(gradient[j]) == fabsf(gradient[i]) && j < i);
    return rank;
}

START_TEST(top_k_takes_the_largest_and_of_equal_ones_the_first)
{
    struct test_rng r = {test_seed()};
    struct ps_compress how = {.kind = PS_COMPRESS_TOP_K};

    for (int run = 0; run < 60; run++) {
        size_t n = 1 + test_below(&r, 700), k;

        how.fraction = (double)(1 + test_below(&r, 1000)) / 1000;
        k = (size_t)ceil(how.fraction * (double)n);
        for (size_t i = 0; i < n; i++) /* in odd runs with many that are equal, or 0 */
            gradient[i] = run % 2 == 0 ? test_float(&r) : (float)((int)test_below(&r, 9) - 4) * 0.125f;
        codec_encode_all(&how, n, NULL);
        for (size_t i = 0; i < n; i++)
            HOLD(decoded[i] == (rank_of(n, i) < k ? gradient[i] : 0), "run %d: element %zu of %zu, k = %zu", run, i, n,
                 k);
    }
    memset(gradient, 0, sizeof gradient);
    ck_assert_uint_eq(codec_encode_all(&how, 100, NULL), 4); /* nothing but zeros: no element at all */
}
END_TEST

/* Magnitudes that share their upper bits, down to the last one, and subnormal ones. */
START_TEST(top_k_tells_neighbours_apart)
{
    struct ps_compress how = {.kind = PS_COMPRESS_TOP_K, .fraction = 0.5};
    static const float starts[] = {1, 0x1p-140f, 0x1.fffp-3f, 0};

    for (size_t s = 0; s < ARRAY_LEN(starts); s++) {
        gradient[0] = starts[s];
        for (int i = 1; i < 1000; i++)
            gradient[i] = -nextafterf(fabsf(gradient[i - 1]), 1000);
        codec_encode_all(&how, 1000, NULL);
        for (int i = 0; i < 1000; i++)
            HOLD(decoded[i] == (i < 500 ? 0 : gradient[i]), "from %g: element %d", (double)starts[s], i);
    }
}
END_TEST

START_TEST(each_instruction_set_makes_the_same_bytes)
{
    static float first[N_MAX], start[N_MAX];
    static uint8_t bytes[sizeof encoding];
    struct test_rng r = {test_seed()};

    for (size_t c = 0; c < ARRAY_LEN(codecs); c++)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
            size_t n = lengths[l], used = 0;

            codec_draw(&r, n, gradient);
            codec_draw(&r, n, start);
            for (int isa = 0; isa < ISA_COUNT; isa++) {
                if (!isa_supported((enum isa)isa))
                    continue;
                codec_use((enum isa)isa);
                memcpy(residual, start, sizeof residual);
                if (isa == ISA_PLAIN) {
                    used = codec_encode_all(&codecs[c], n, residual);
                    memcpy(bytes, encoding, used);
                    memcpy(first, residual, n * sizeof *first);
                    memcpy(before, decoded, n * sizeof *before);
                    continue;
                }
                HOLD(codec_encode_all(&codecs[c], n, residual) == used && memcmp(bytes, encoding, used) == 0 &&
                         memcmp(first, residual, n * sizeof *first) == 0 &&
                         memcmp(before, decoded, n * sizeof *before) == 0,
                     "codec %zu, %zu elements: %s is not plain", c, n, isa_name((enum isa)isa));
                codec_undo(codecs[c].kind, n, encoding, gradient, residual);
            }
        }
}
END_TEST

/* Three gradients, of which the second is taken back when the third has been encoded: the residual then makes up for
 * the first and the third alone. */
static void
draw_not_finite(struct test_rng *r, size_t n, float *x)
{
    codec_draw(r, n, x);
    for (size_t i = 0; i < n; i++)
        if (test_below(r, 5) == 0)
            x[i] = half_float((uint32_t)test_below(r, 2) << 31 | 0x7f800000 |
                              (test_below(r, 3) == 0 ? 0 : (uint32_t)test_below(r, 0x800000)));
}

/* [n] of float32, or of the upper bits of one. */
static void
hold_one_nan(const char *where, size_t n, const float *x)
{
    for (size_t i = 0; i < n; i++)
        HOLD(x[i] == x[i] || half_bits(x[i]) == HALF_NAN, "%s, %zu: 0x%08x", where, i, half_bits(x[i]));
}

START_TEST(every_nan_is_encoded_as_one_on_each_instruction_set)
{
    static float left[N_MAX], left_there[N_MAX];
    static uint8_t there[8 * N_MAX + 8] __attribute__((aligned(8)));
    struct test_rng r = {test_seed()};

    for (size_t c = 0; c < ARRAY_LEN(codecs); c++)
        for (size_t l = 0; l + 1 < ARRAY_LEN(lengths); l++)
            for (int with = 0; with < 2; with++) {
                size_t n = lengths[l], bytes;

                draw_not_finite(&r, n, gradient);
                draw_not_finite(&r, n, residual);
                codec_use(ISA_PLAIN);
                bytes = codec_encode_apart(&codecs[c], n, gradient, with ? residual : NULL, left, encoding);
                hold_one_nan("left", n, left);
                codec_decode(codecs[c].kind, n, encoding, decoded);
                if (codecs[c].kind != PS_COMPRESS_INT8)
                    hold_one_nan("decoded", n, decoded);
                else
                    hold_one_nan("scale", (n + CODEC_RUN - 1) / CODEC_RUN, (const float *)(const void *)encoding);
                for (int isa = ISA_PLAIN + 1; isa < ISA_COUNT; isa++) {
                    if (!isa_supported((enum isa)isa))
                        continue;
                    codec_use((enum isa)isa);
                    HOLD(codec_encode_apart(&codecs[c], n, gradient, with ? residual : NULL, left_there, there) ==
                                 bytes &&
                             memcmp(there, encoding, bytes) == 0 && memcmp(left_there, left, n * sizeof *left) == 0,
                         "codec %zu, %zu elements, isa %d: other bytes", c, n, isa);
                }
            }
}
END_TEST

START_TEST(a_gradient_that_is_taken_back_was_never_there)
{
    static uint8_t second[sizeof encoding] __attribute__((aligned(8)));
    static float gradients[3][N_MAX], sum[N_MAX];
    struct test_rng r = {test_seed()};

    for (size_t c = 0; c < ARRAY_LEN(codecs); c++)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
            size_t n = lengths[l];

            draw_exact(&r, n, residual);
            memcpy(sum, residual, sizeof sum);
            for (int step = 0; step < 3; step++) {
                draw_exact(&r, n, gradients[step]);
                memcpy(gradient, gradients[step], sizeof gradient);
                codec_encode_all(&codecs[c], n, residual);
                if (step == 1)
                    memcpy(second, encoding, sizeof second);
                for (size_t i = 0; step != 1 && i < n; i++)
                    sum[i] += gradient[i] - decoded[i];
            }
            codec_undo(codecs[c].kind, n, second, gradients[1], residual);
            for (size_t i = 0; i < n; i++) /* scales of int8 have all digits */
                HOLD(fabsf(residual[i] - sum[i]) <= (codecs[c].kind == PS_COMPRESS_INT8 ? 1e-4f : 0),
                     "codec %zu, %zu elements, %zu: %.9g left, not %.9g", c, n, i, (double)residual[i], (double)sum[i]);
        }
}
END_TEST

/* The point of error feedback: what was left out comes later, so the mean of what arrives is the gradient's. */
START_TEST(a_steady_gradient_arrives_whole)
{
    static double arrived[1008];
    const size_t n = ARRAY_LEN(arrived);
    const int steps = 4000;
    struct test_rng r = {test_seed()};

    for (size_t c = 0; c < ARRAY_LEN(codecs); c++) {
        double largest = 0;

        memset(arrived, 0, sizeof arrived);
        memset(residual, 0, sizeof residual);
        for (size_t i = 0; i < n; i++)
            gradient[i] = test_float(&r);
        for (int step = 0; step < steps; step++) {
            codec_encode_all(&codecs[c], n, residual);
            for (size_t i = 0; i < n; i++)
                arrived[i] += (double)decoded[i];
        }
        for (size_t i = 0; i < n; i++)
            largest = fmax(largest, fabs(arrived[i] / steps - (double)gradient[i]));
        HOLD(largest < 0.04, "codec %zu: an element is wrong by %g on average", c, largest);
    }
}
END_TEST

START_TEST(what_is_too_large_is_cut_off_and_comes_later)
{
    struct ps_compress half = {.kind = PS_COMPRESS_FLOAT16};

    memset(residual, 0, sizeof residual);
    gradient[0] = 150000;
    gradient[1] = -65510;
    codec_encode_all(&half, 2, residual);
    ck_assert(decoded[0] == 65504 && residual[0] == 84496 && decoded[1] == -65504 && residual[1] == -6);
    gradient[0] = gradient[1] = 0;
    codec_encode_all(&half, 2, residual);
    ck_assert(decoded[0] == 65504 && residual[0] == 18992 && decoded[1] == -6 && residual[1] == 0);
    for (size_t c = 0; c < ARRAY_LEN(codecs); c++) {
        memset(residual, 0, sizeof residual);
        for (int step = 0; step < 5; step++) {
            for (size_t i = 0; i < 300; i++)
                gradient[i] = i % 2 == 0 ? FLT_MAX : -FLT_MAX;
            codec_encode_all(&codecs[c], 300, residual);
            for (size_t i = 0; i < 300; i++)
                HOLD(isfinite(decoded[i]) && isfinite(residual[i]), "codec %zu: %g and %g", c, (double)decoded[i],
                     (double)residual[i]);
            codec_undo(codecs[c].kind, 300, encoding, gradient, residual);
            for (size_t i = 0; i < 300; i++)
                HOLD(isfinite(residual[i]), "codec %zu: %g", c, (double)residual[i]);
        }
    }
}
END_TEST

START_TEST(what_is_tiny_stays_behind_until_there_is_more_of_it)
{
    struct ps_compress int8 = {.kind = PS_COMPRESS_INT8};

    memset(residual, 0, sizeof residual);
    for (size_t i = 0; i < 300; i++)
        gradient[i] = 0x1p-149f;
    codec_encode_all(&int8, 300, residual); /* 1/127 of it is 0: there is no scale */
    for (size_t i = 0; i < 300; i++)
        ck_assert(decoded[i] == 0 && residual[i] == 0x1p-149f);
    gradient[0] = 1;
    codec_encode_all(&int8, 300, residual);
    ck_assert(decoded[0] == 1 && decoded[299] == 0 && residual[299] == 0x1p-148f);
}
END_TEST

/* A copy of exactly these bytes: reading past them is seen by a sanitizer. */
static enum ps_err
codec_measure_error(enum ps_compress_kind kind, size_t n, const void *data, size_t size)
{
    void *copy = malloc(size + (size == 0));
    struct ps_error e;
    size_t bytes;
    enum ps_err err;

    memcpy(copy, data, size);
    err = codec_measure(kind, n, copy, size, &bytes, &e);
    if (err == PS_OK)
        codec_decode(kind, n, copy, decoded);
    else
        ck_assert(e.code == err && e.text[0] != '\0');
    free(copy);
    return err;
}

START_TEST(what_no_encoder_makes_is_refused)
{
    uint32_t top[] = {3, 1, 4, 9, 0x3f800000, 0x40000000, 0x40400000};
    float scaled[3 + 75] = {1, 0, 0.5f};

    for (size_t c = 0; c < ARRAY_LEN(codecs); c++)
        for (size_t l = 0; l < ARRAY_LEN(lengths) - 1; l++) {
            size_t used;

            for (size_t i = 0; i < lengths[l]; i++)
                gradient[i] = (float)i + 1;
            used = codec_encode_all(&codecs[c], lengths[l], NULL);
            ck_assert_int_eq(codec_measure_error(codecs[c].kind, lengths[l], encoding, used), PS_OK);
            ck_assert_int_eq(codec_measure_error(codecs[c].kind, lengths[l], encoding, used - 4), PS_ERR_SHAPE);
            ck_assert_int_eq(codec_measure_error(codecs[c].kind, lengths[l], encoding, 0), PS_ERR_SHAPE);
        }
    ck_assert_int_eq(codec_measure_error(PS_COMPRESS_TOP_K, 10, top, sizeof top), PS_OK);
    ck_assert(decoded[1] == 1 && decoded[4] == 2 && decoded[9] == 3 && decoded[0] == 0);
    ck_assert_int_eq(codec_measure_error(PS_COMPRESS_TOP_K, 9, top, sizeof top),
                     PS_ERR_INVALID); /* 9 is none of them */
    ck_assert_int_eq(codec_measure_error(PS_COMPRESS_TOP_K, 2, top, sizeof top), PS_ERR_SHAPE);
    top[2] = 1;
    ck_assert_int_eq(codec_measure_error(PS_COMPRESS_TOP_K, 10, top, sizeof top), PS_ERR_INVALID); /* twice */
    top[2] = 0;
    ck_assert_int_eq(codec_measure_error(PS_COMPRESS_TOP_K, 10, top, sizeof top), PS_ERR_INVALID); /* back */
    top[0] = UINT32_MAX;
    ck_assert_int_eq(codec_measure_error(PS_COMPRESS_TOP_K, 10, top, sizeof top), PS_ERR_SHAPE);
    ck_assert_int_eq(codec_measure_error(PS_COMPRESS_INT8, 300, scaled, sizeof scaled),
                     PS_OK); /* 2 scales, then 300 bytes */
    scaled[1] = -1;
    ck_assert_int_eq(codec_measure_error(PS_COMPRESS_INT8, 300, scaled, sizeof scaled), PS_ERR_INVALID);
    scaled[1] = INFINITY;
    ck_assert_int_eq(codec_measure_error(PS_COMPRESS_INT8, 300, scaled, sizeof scaled), PS_ERR_INVALID);
    scaled[1] = NAN;
    ck_assert_int_eq(codec_measure_error(PS_COMPRESS_INT8, 300, scaled, sizeof scaled), PS_ERR_INVALID);
}
END_TEST

START_TEST(any_bytes_are_measured_and_decoded_or_refused)
{
    struct test_rng r = {test_seed()};
    uint32_t bytes[64];

    for (int run = 0; run < 20000; run++) {
        size_t n = 1 + test_below(&r, 100);

        for (size_t i = 0; i < ARRAY_LEN(bytes); i++)
            bytes[i] = (uint32_t)test_rand(&r) >> test_below(&r, 32);
        (void)codec_measure_error((enum ps_compress_kind)test_below(&r, PS_COMPRESS_KINDS), n, bytes,
                                  4 * test_below(&r, 65));
    }
}
END_TEST

START_TEST(each_name_is_read_and_others_are_refused)
{
    static const char *const bad[] = {"",           "int9",    "INT8",           "int8:fraction=0.1", "top_k:",
                                      "top_k:nan",  "top_k:0", "top_k:fraction", "top_k:fraction=2",  "top_k:-0.1",
                                      "float16:0.1"};
    struct ps_compress how = {PS_COMPRESS_INT8, 0.5}, same = how;
    struct ps_error e;

    for (int kind = 0; kind < PS_COMPRESS_KINDS; kind++) {
        ck_assert_int_eq(ps_compress_parse(ps_compress_name((enum ps_compress_kind)kind), &how, &e), PS_OK);
        ck_assert(how.kind == (enum ps_compress_kind)kind && how.fraction == 0);
    }
    ck_assert(ps_compress_name((enum ps_compress_kind)99) == NULL);
    ck_assert_int_eq(ps_compress_parse("top_k:0.05", &how, &e), PS_OK);
    ck_assert(how.kind == PS_COMPRESS_TOP_K && how.fraction == 0.05);
    ck_assert_int_eq(ps_compress_parse("top_k:fraction=1", &how, &e), PS_OK);
    ck_assert(how.fraction == 1);
    how = same;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_msg(ps_compress_parse(bad[i], &how, &e) == PS_ERR_INVALID, "'%s' was taken", bad[i]);
        ck_assert(memcmp(&how, &same, sizeof how) == 0);
    }
    how = (struct ps_compress){(enum ps_compress_kind)17, 0};
    ck_assert_int_eq(codec_check(&how, &e), PS_ERR_INVALID);
    how = (struct ps_compress){PS_COMPRESS_TOP_K, (double)NAN};
    ck_assert_int_eq(codec_check(&how, &e), PS_ERR_INVALID);
}
END_TEST

START_TEST(a_refusal_names_the_encoding_that_was_meant_or_what_a_fraction_may_be)
{
    static const struct {
        const char *text, *want;
    } bad[] = {{"INT8", "'INT8' is not known; there are none, float16, bfloat16, int8, top_k; did you mean int8?"},
               {"topk:0.1", "'topk' is not known"},
               {"topk", "; did you mean top_k?"},
               {"flota16", "; did you mean float16?"},
               {"int8:0.1", "'int8:0.1': only top_k has a parameter"},
               {"top_k:0", "'top_k:0': the fraction must be a number above 0 and at most 1"},
               {"top_k:few", "'top_k:few': the fraction must be a number above 0"},
               {"top_k:2", "a fraction of 2; it must be above 0 and at most 1"}};
    struct ps_compress how;
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_int_eq(ps_compress_parse(bad[i].text, &how, &e), PS_ERR_INVALID);
        ck_assert_msg(strstr(e.text, bad[i].want) != NULL, "\"%s\" lacks \"%s\"", e.text, bad[i].want);
    }
}
END_TEST

static Suite *
codec_suite(void)
{
    Suite *s = suite_create("codec");
    TCase *t = tcase_create("codec");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, what_is_decoded_and_what_is_left_make_up_the_gradient);
    tcase_add_test(t, what_is_left_can_go_elsewhere);
    tcase_add_test(t, the_error_is_within_its_bound);
    tcase_add_test(t, top_k_takes_the_largest_and_of_equal_ones_the_first);
    tcase_add_test(t, top_k_tells_neighbours_apart);
    tcase_add_test(t, each_instruction_set_makes_the_same_bytes);
    tcase_add_test(t, every_nan_is_encoded_as_one_on_each_instruction_set);
    tcase_add_test(t, a_gradient_that_is_taken_back_was_never_there);
    tcase_add_test(t, a_steady_gradient_arrives_whole);
    tcase_add_test(t, what_is_too_large_is_cut_off_and_comes_later);
    tcase_add_test(t, what_is_tiny_stays_behind_until_there_is_more_of_it);
    tcase_add_test(t, what_no_encoder_makes_is_refused);
    tcase_add_test(t, any_bytes_are_measured_and_decoded_or_refused);
    tcase_add_test(t, each_name_is_read_and_others_are_refused);
    tcase_add_test(t, a_refusal_names_the_encoding_that_was_meant_or_what_a_fraction_may_be);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(codec_suite)
