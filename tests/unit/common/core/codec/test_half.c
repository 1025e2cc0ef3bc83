/* 16-bit floats against arithmetic in double, on every instruction set that this machine has. */
#include "common/core/codec/half.h"

#include <math.h>

#include "common/core/codec/half_isa.h"
#include "tests/unit/kits/check_main.h"

#define HALVES 65536
#define CHUNK  4096 /* floats that are looked at together */

/* As ck_assert_msg(), which writes to a file each time: for millions. */
#define HOLD(condition, ...)                                                                                           \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            ck_abort_msg(__VA_ARGS__);                                                                                 \
    } while (0)

/* A 16-bit float's layout: bits of fraction, and the exponent of its least normal number. */
struct format {
    int fraction, least;
    uint16_t (*from)(float x);
    float (*to)(uint16_t h);
};

static const struct format half = {10, -14, half_from_float, half_to_float};
static const struct format bfloat = {7, -126, bfloat_from_float, bfloat_to_float};

static void
from_floats(const struct format *f, enum isa isa, size_t n, const float *x, uint16_t *h)
{
    const struct half_kernels *k = half_kernels_of(isa);

    (f == &half ? k->half_from_floats : k->bfloat_from_floats)(n, x, h);
}

static void
to_floats(const struct format *f, enum isa isa, size_t n, const uint16_t *h, float *x)
{
    const struct half_kernels *k = half_kernels_of(isa);

    (f == &half ? k->half_to_floats : k->bfloat_to_floats)(n, h, x);
}

/* The value of h; NaN for NaN. */
static double
value_of(const struct format *f, uint16_t h)
{
    int exponents = 15 - f->fraction, exponent = (h & 0x7fff) >> f->fraction, fraction = h & ((1 << f->fraction) - 1);
    double size;

    if (exponent == (1 << exponents) - 1)
        size = fraction != 0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        size = ldexp(fraction, f->least - f->fraction);
    else
        size = ldexp(fraction + (1 << f->fraction), f->least - f->fraction + exponent - 1);
    return (h & 0x8000) != 0 ? -size : size;
}

/* x rounded to the format's grid at its size, ties to even, as nearbyint() does it; infinite past the largest. */
static double
half_rounded(const struct format *f, float x)
{
    double largest = ldexp(2 - ldexp(1, -f->fraction), f->fraction == 10 ? 15 : 127), unit, size = fabs((double)x);
    int exponent;

    if (!isfinite(x) || x == 0)
        return (double)x;
    exponent = ilogb(size);
    unit = ldexp(1, MAX(exponent, f->least) - f->fraction);
    size = nearbyint(size / unit) * unit;
    return copysign(size > largest ? (double)INFINITY : size, (double)x);
}

static void
check_one(const struct format *f, float x, uint16_t h)
{
    double is = value_of(f, h), want = half_rounded(f, x);

    if (isnan(x))
        HOLD(isnan(is) && (h >> (f->fraction - 1) & 1) == 1 && (h >> 15) == (half_bits(x) >> 31) &&
                 (h & ((1 << (f->fraction - 1)) - 1)) ==
                     (half_bits(x) >> (23 - f->fraction) & ((1 << (f->fraction - 1)) - 1)),
             "NaN 0x%08x became 0x%04x", half_bits(x), h);
    else
        HOLD(is == want && (h >> 15) == (half_bits(x) >> 31), "%.9g (0x%08x) became %.9g (0x%04x), not %.9g", (double)x,
             half_bits(x), is, h, want);
}

/* n <= CHUNK floats through the scalar and every kernel. */
static void
check_floats(const struct format *f, size_t n, const float *x)
{
    static uint16_t h[CHUNK];

    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_supported((enum isa)isa))
            continue;
        memset(h, 0xee, sizeof h);
        from_floats(f, (enum isa)isa, n, x, h);
        for (size_t i = 0; i < n; i++) {
            if (isa == ISA_PLAIN)
                check_one(f, x[i], f->from(x[i]));
            HOLD(h[i] == f->from(x[i]), "%s: 0x%08x became 0x%04x, not 0x%04x", isa_name((enum isa)isa),
                 half_bits(x[i]), h[i], f->from(x[i]));
        }
    }
}

static void
each_half(const struct format *f)
{
    static uint16_t h[HALVES], back[HALVES];
    static float x[HALVES];

    for (int i = 0; i < HALVES; i++)
        h[i] = (uint16_t)i;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_supported((enum isa)isa))
            continue;
        to_floats(f, (enum isa)isa, HALVES, h, x);
        from_floats(f, (enum isa)isa, HALVES, x, back);
        for (int i = 0; i < HALVES; i++) {
            double want = value_of(f, h[i]);
            bool nan = isnan(want);

            HOLD(half_bits(x[i]) == half_bits(f->to(h[i])), "%s: 0x%04x became 0x%08x, not 0x%08x",
                 isa_name((enum isa)isa), h[i], half_bits(x[i]), half_bits(f->to(h[i])));
            HOLD(nan ? isnan(x[i]) : (double)x[i] == want && !signbit(x[i]) == !signbit(want),
                 "0x%04x became %.9g, not %.9g", h[i], (double)x[i], want);
            HOLD(back[i] == (nan ? h[i] | 1 << (f->fraction - 1) : h[i]), "0x%04x came back as 0x%04x", h[i], back[i]);
        }
    }
}

START_TEST(each_float16_is_its_float32_and_comes_back)
{
    each_half(&half);
}
END_TEST

START_TEST(each_bfloat16_is_its_float32_and_comes_back)
{
    each_half(&bfloat);
}
END_TEST

/* Between any two neighbours: the middle, and the floats beside it. */
static void
each_middle(const struct format *f)
{
    static float x[CHUNK];
    uint32_t last = f->fraction == 10 ? 0x7bff : 0x7f7f; /* the largest: past it the middle to a next value */
    size_t n = 0;

    for (uint32_t h = 0; h <= last; h++) {
        float size = f->to((uint16_t)h);
        double unit = ldexp(1, MAX(h == 0 ? -1000 : ilogb((double)size), f->least) - f->fraction);
        float middle =
            (float)((double)size + unit / 2); /* exact: a float has bits to spare, also below its own least */
        float all[] = {size, nextafterf(size, INFINITY), nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};

        HOLD((double)middle == (double)size + unit / 2, "the middle behind 0x%04x is not a float", h);
        for (size_t i = 0; i < ARRAY_LEN(all); i++) {
            x[n++] = all[i];
            x[n++] = -all[i];
        }
        if (n + 2 * ARRAY_LEN(all) > CHUNK || h == last) {
            check_floats(f, n, x);
            n = 0;
        }
    }
}

START_TEST(float16_rounds_to_nearest_and_ties_to_even)
{
    each_middle(&half);
}
END_TEST

START_TEST(bfloat16_rounds_to_nearest_and_ties_to_even)
{
    each_middle(&bfloat);
}
END_TEST

/* Bits from end to end of what a float can be, NaN, infinities and subnormals among them, and bits drawn at random. */
START_TEST(floats_of_all_sizes_are_rounded_alike_by_every_instruction_set)
{
    static float x[CHUNK];
    struct test_rng r = {test_seed()};

    for (uint32_t chunk = 0; chunk < 256; chunk++) {
        for (uint32_t i = 0; i < CHUNK; i++)
            x[i] = half_float((i % 2 == 0) ? (uint32_t)test_rand(&r)
                                           : (chunk * CHUNK + i) * 4096u + (uint32_t)test_below(&r, 4096));
        check_floats(&half, CHUNK, x);
        check_floats(&bfloat, CHUNK, x);
    }
}
END_TEST

START_TEST(the_edges_are_where_they_should_be)
{
    static const struct {
        float x;
        uint16_t half, bfloat;
    } edges[] = {
        {0.0f, 0, 0},
        {-0.0f, 0x8000, 0x8000},
        {1.0f, 0x3c00, 0x3f80},
        {-2.0f, 0xc000, 0xc000},
        {65504.0f, 0x7bff, 0x4780},
        {65519.0f, 0x7bff, 0x4780},
        {65520.0f, 0x7c00, 0x4780},
        {0x1p-24f, 0x0001, 0x3380},
        {0x1p-25f, 0x0000, 0x3300},
        {0x1.000002p-25f, 0x0001, 0x3300},
        {0x1p-14f, 0x0400, 0x3880},
        {0x1.fffffep127f, 0x7c00, 0x7f80},
        {0x1p-149f, 0x0000, 0x0000},
        {INFINITY, 0x7c00, 0x7f80},
        {-INFINITY, 0xfc00, 0xff80},
    };

    for (size_t i = 0; i < ARRAY_LEN(edges); i++) {
        ck_assert_uint_eq(half_from_float(edges[i].x), edges[i].half);
        ck_assert_uint_eq(bfloat_from_float(edges[i].x), edges[i].bfloat);
    }
    ck_assert_uint_eq(half_from_float(half_float(0x7f800001)), 0x7e00); /* the least payload: still NaN, now quiet */
    ck_assert_uint_eq(bfloat_from_float(half_float(0xff800001)), 0xffc0);
}
END_TEST

/* From any address that is aligned for its elements; nothing beside the n elements is touched. */
START_TEST(any_length_at_any_place)
{
    float x[80], y[80];
    uint16_t h[80];

    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (size_t n = 0; n < 70 && isa_supported((enum isa)isa); n++)
            for (size_t at = 0; at < 4; at++)
                for (const struct format *f = &half; f != NULL; f = f == &half ? &bfloat : NULL) {
                    for (size_t i = 0; i < ARRAY_LEN(x); i++)
                        x[i] = y[i] = (float)i + 0.3f;
                    memset(h, 0xee, sizeof h);
                    from_floats(f, (enum isa)isa, n, x + at, h + at);
                    for (size_t i = 0; i < ARRAY_LEN(h); i++)
                        HOLD(h[i] == (i >= at && i < at + n ? f->from(x[i]) : 0xeeee), "%zu at %zu: element %zu", n, at,
                             i);
                    to_floats(f, (enum isa)isa, n, h + at, y + at);
                    for (size_t i = 0; i < ARRAY_LEN(y); i++)
                        HOLD(y[i] == (i >= at && i < at + n ? f->to(h[i]) : x[i]), "%zu at %zu: element %zu", n, at, i);
                }
}
END_TEST

START_TEST(the_environment_chooses_among_what_the_machine_has)
{
    ck_assert_int_eq(isa_choose("plain"), ISA_PLAIN);
    ck_assert(isa_supported(ISA_PLAIN) && isa_supported(isa_choose(NULL)));
    ck_assert_int_eq(isa_choose("abacus"), isa_choose(NULL));
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        ck_assert(!isa_supported((enum isa)isa) || isa_choose(isa_name((enum isa)isa)) == (enum isa)isa);
        ck_assert(!isa_supported((enum isa)isa) || isa_choose(NULL) >= (enum isa)isa);
    }
    setenv("PSD_ISA", "plain", 1);
    ck_assert_int_eq(isa_chosen(), ISA_PLAIN);
    setenv("PSD_ISA", "avx2", 1);
    ck_assert_int_eq(isa_chosen(), ISA_PLAIN); /* once */
}
END_TEST

static Suite *
half_suite(void)
{
    Suite *s = suite_create("half");
    TCase *t = tcase_create("half");

    tcase_set_timeout(t, 120);
    tcase_add_test(t, each_float16_is_its_float32_and_comes_back);
    tcase_add_test(t, each_bfloat16_is_its_float32_and_comes_back);
    tcase_add_test(t, float16_rounds_to_nearest_and_ties_to_even);
    tcase_add_test(t, bfloat16_rounds_to_nearest_and_ties_to_even);
    tcase_add_test(t, floats_of_all_sizes_are_rounded_alike_by_every_instruction_set);
    tcase_add_test(t, the_edges_are_where_they_should_be);
    tcase_add_test(t, any_length_at_any_place);
    tcase_add_test(t, the_environment_chooses_among_what_the_machine_has);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(half_suite)
