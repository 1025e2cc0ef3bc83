/* The reductions of collectives: every type, operation and instruction set against a reference one element at a time in
 * wider arithmetic, bit for bit; both operands alike; in place of either; nothing touched outside the arrays. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "client/core/reduce/reduce_isa.h"
#include "common/core/codec/half.h"
#include "tests/unit/kits/check_main.h"

/* Around the vectors' widths, and a large odd one. */
static const size_t lengths[] = {0, 1, 7, 15, 16, 17, 31, 33, 64, 65, 1037};

#define FENCE 64 /* bytes around an array that must not change */

/* [n] elements with fences, `shift` elements off a cache line. */
struct array {
    unsigned char *memory, *data;
    size_t bytes;
};

static struct array
array_new(size_t n, size_t size, size_t shift)
{
    struct array a = {.bytes = n * size};
    size_t all = round_up(a.bytes + 3 * FENCE + shift * size, 64);

    a.memory = aligned_alloc(64, all);
    ck_assert_ptr_nonnull(a.memory);
    memset(a.memory, 0xa5, all);
    a.data = a.memory + FENCE + shift * size;
    return a;
}

static void
array_free(struct array *a)
{
    for (size_t i = 0; i < FENCE; i++)
        ck_assert_msg(a->data[-1 - (ptrdiff_t)i] == 0xa5 && a->data[a->bytes + i] == 0xa5,
                      "%zu bytes were written past", a->bytes);
    free(a->memory);
}

/* ---- One element, by the book ---- */

union element {
    float f32;
    double f64;
    uint16_t half;
    int32_t i32;
    int64_t i64;
    uint64_t bits;
};

/* Of floats: exact sums and products of two float32 fit into no double, but rounding them to double first does no harm
 * (53 >= 2 * 24 + 2: Figueroa, 1995). float64 is the language's own. */
static double
by_the_book(enum ps_reduce op, double a, double b)
{
    if (isnan(a) || isnan(b))
        return NAN;
    switch (op) {
    case PS_SUM:
    case PS_MEAN:
        return a + b;
    case PS_MIN:
        return a < b || (a == b && signbit(a)) ? a : b;
    case PS_MAX:
        return a > b || (a == b && !signbit(a)) ? a : b;
    case PS_PRODUCT:
        return a * b;
    }
    return 0;
}

static uint64_t
integer_by_the_book(enum ps_reduce op, int64_t a, int64_t b)
{
    switch (op) {
    case PS_SUM:
    case PS_MEAN:
        return (uint64_t)a + (uint64_t)b;
    case PS_MIN:
        return (uint64_t)(a < b ? a : b);
    case PS_MAX:
        return (uint64_t)(a > b ? a : b);
    case PS_PRODUCT:
        return (uint64_t)a * (uint64_t)b;
    }
    return 0;
}

static union element
element_at(const void *array, size_t i, size_t size)
{
    union element e = {.bits = 0};

    memcpy(&e, (const char *)array + i * size, size);
    return e;
}

static double
as_double(enum ps_dtype dtype, union element e)
{
    switch (dtype) {
    case PS_F32:
        return (double)e.f32;
    case PS_F64:
        return e.f64;
    case PS_F16:
        return (double)half_to_float(e.half);
    default:
        return (double)bfloat_to_float(e.half);
    }
}

/* The one NaN, or the value rounded (half types by way of float32). */
static union element
from_double(enum ps_dtype dtype, double x)
{
    union element e = {.bits = 0};

    switch (dtype) {
    case PS_F32:
        e.f32 = (float)x;
        if (isnan(x))
            e.bits = 0x7fc00000;
        break;
    case PS_F64:
        e.f64 = x;
        if (isnan(x))
            e.bits = 0x7ff8000000000000;
        break;
    case PS_F16:
        e.half = isnan(x) ? 0x7e00 : half_from_float((float)x);
        break;
    default:
        e.half = isnan(x) ? 0x7fc0 : bfloat_from_float((float)x);
        break;
    }
    return e;
}

static bool
is_integer(enum ps_dtype dtype)
{
    return dtype == PS_I32 || dtype == PS_I64;
}

static union element
reduce_expected(enum ps_dtype dtype, enum ps_reduce op, union element a, union element b)
{
    union element e = {.bits = 0};

    if (dtype == PS_I32)
        e.i32 = (int32_t)(uint32_t)integer_by_the_book(op, a.i32, b.i32);
    else if (dtype == PS_I64)
        e.bits = integer_by_the_book(op, a.i64, b.i64);
    else
        e = from_double(dtype, by_the_book(op, as_double(dtype, a), as_double(dtype, b)));
    return e;
}

/* ---- What goes in ---- */

/* Now and then a special value: both zeros, infinities, NaNs with payloads and signs, the least and the largest, and
 * random bits. */
static union element
random_element(enum ps_dtype dtype, struct test_rng *r)
{
    static const double awkward[] = {0, -0.0, INFINITY, -INFINITY, 1, -1, 65504, 3e38, 1e-45, 6e-8, 1e308, 5e-324};
    union element e = {.bits = test_rand(r)};
    uint64_t which = test_below(r, 16);

    if (is_integer(dtype) || which == 0)
        return which == 1 ? (union element){.bits = 0} : e;
    if (which <= 3)
        return from_double(dtype, awkward[test_below(r, ARRAY_LEN(awkward))]);
    if (which == 4) { /* a NaN of any kind */
        e = from_double(dtype, NAN);
        e.bits ^= (test_rand(r) & 0x3f) | (uint64_t)(test_below(r, 2) << (8 * ps_dtype_size(dtype) - 1));
        return e;
    }
    return from_double(dtype, (double)test_float(r) * ldexp(1, (int)test_below(r, 20) - 10));
}

static void
reduce_fill(struct array *a, enum ps_dtype dtype, struct test_rng *r)
{
    size_t size = ps_dtype_size(dtype);

    for (size_t i = 0; i < a->bytes / size; i++) {
        union element e = random_element(dtype, r);

        memcpy(a->data + i * size, &e, size);
    }
}

/* ---- Tests ---- */

enum reduce_way { APART, INTO_FIRST, INTO_SECOND, STREAMED, WAYS };

typedef void (*reduction)(size_t n, void *out, const void *a, const void *b);

static void
check_reduction(reduction f, enum ps_dtype dtype, enum ps_reduce op, enum reduce_way way, size_t n, struct test_rng *r)
{
    size_t size = ps_dtype_size(dtype);
    struct array a = array_new(n, size, test_below(r, 3)), b = array_new(n, size, test_below(r, 3)),
                 out = array_new(n, size, test_below(r, 3));
    unsigned char *to = way == INTO_FIRST ? a.data : way == INTO_SECOND ? b.data : out.data;
    union element *want = malloc((n + 1) * sizeof *want);

    reduce_fill(&a, dtype, r);
    reduce_fill(&b, dtype, r);
    for (size_t i = 0; i < n; i++) {
        want[i] = reduce_expected(dtype, op, element_at(a.data, i, size), element_at(b.data, i, size));
        ck_assert(want[i].bits ==
                  reduce_expected(dtype, op, element_at(b.data, i, size), element_at(a.data, i, size)).bits);
    }
    f(n, to, a.data, b.data);
    for (size_t i = 0; i < n; i++) {
        union element is = element_at(to, i, size);

        if (memcmp(&is, &want[i], size) != 0)
            ck_abort_msg("%s, operation %d, way %d, n %zu: element %zu is %" PRIx64 ", not %" PRIx64,
                         ps_dtype_name(dtype), op, way, n, i, is.bits, want[i].bits);
    }
    free(want);
    array_free(&a);
    array_free(&b);
    array_free(&out);
}

START_TEST(every_isa_type_and_operation_agrees_with_the_book)
{
    enum ps_dtype dtype = (enum ps_dtype)_i;
    struct test_rng r = {test_seed()};

    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const struct reduce_kernels *k = isa_supported((enum isa)isa) ? reduce_kernels_of((enum isa)isa) : NULL;

        for (int op = 0; k != NULL && op < REDUCE_OPS; op++)
            for (int way = 0; way < WAYS; way++)
                for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
                    reduction f = way == STREAMED ? k->reduce_streamed[dtype][op] : k->reduce[dtype][op];

                    if (f != NULL)
                        check_reduction(f, dtype, (enum ps_reduce)op, (enum reduce_way)way, lengths[l], &r);
                }
    }
}
END_TEST

/* ---- Means ---- */

static double
largest_of(enum ps_dtype dtype)
{
    return dtype == PS_F64 ? DBL_MAX : dtype == PS_F32 ? (double)FLT_MAX : dtype == PS_F16 ? 65504 : 0x1.fep127;
}

static bool
is_finite_element(enum ps_dtype dtype, union element e)
{
    return fabs(as_double(dtype, e)) <= largest_of(dtype);
}

/* In the type's arithmetic, that of half types in float32. */
static union element
weighed_expected(enum ps_dtype dtype, union element a, union element b, float by_a, float by_b)
{
    float x = (float)as_double(dtype, a) * by_a, y = (float)as_double(dtype, b) * by_b, most = (float)largest_of(dtype);
    double sum = dtype == PS_F64 ? a.f64 * (double)by_a + b.f64 * (double)by_b : (double)(x + y);
    double limit = dtype == PS_F64 ? DBL_MAX : (double)most;

    if (is_finite_element(dtype, a) && is_finite_element(dtype, b) && fabs(sum) > limit)
        sum = copysign(limit, sum);
    return from_double(dtype, sum);
}

static void
check_weigh(void (*f)(size_t n, void *out, const void *a, const void *b, float by_a, float by_b), enum ps_dtype dtype,
            enum reduce_way way, size_t n, struct test_rng *r)
{
    static const float weights[][2] = {{0.5f, 0.5f}, {1, 0.25f}, {0.5f, 0.125f}, {2 / 3.0f, 1 / 3.0f}, {1, 1}};
    const float *by = weights[test_below(r, ARRAY_LEN(weights))];
    size_t size = ps_dtype_size(dtype);
    struct array a = array_new(n, size, test_below(r, 3)), b = array_new(n, size, test_below(r, 3)),
                 out = array_new(n, size, test_below(r, 3));
    unsigned char *to = way == INTO_FIRST ? a.data : way == INTO_SECOND ? b.data : out.data;
    union element *want = malloc((n + 1) * sizeof *want);

    reduce_fill(&a, dtype, r);
    reduce_fill(&b, dtype, r);
    for (size_t i = 0; i < n; i++) {
        want[i] = weighed_expected(dtype, element_at(a.data, i, size), element_at(b.data, i, size), by[0], by[1]);
        ck_assert(want[i].bits ==
                  weighed_expected(dtype, element_at(b.data, i, size), element_at(a.data, i, size), by[1], by[0]).bits);
    }
    f(n, to, a.data, b.data, by[0], by[1]);
    for (size_t i = 0; i < n; i++) {
        union element is = element_at(to, i, size);

        if (memcmp(&is, &want[i], size) != 0)
            ck_abort_msg("%s, weights %g and %g, way %d, n %zu: element %zu is %" PRIx64 ", not %" PRIx64,
                         ps_dtype_name(dtype), (double)by[0], (double)by[1], way, n, i, is.bits, want[i].bits);
    }
    free(want);
    array_free(&a);
    array_free(&b);
    array_free(&out);
}

START_TEST(every_isa_and_type_weighs_as_the_book_does)
{
    struct test_rng r = {test_seed()};

    for (int isa = 0; isa < ISA_COUNT; isa++) {
        const struct reduce_kernels *k = isa_supported((enum isa)isa) ? reduce_kernels_of((enum isa)isa) : NULL;

        for (int way = 0; k != NULL && way < WAYS; way++)
            for (size_t l = 0; l < 3 * ARRAY_LEN(lengths); l++)
                if ((way == STREAMED ? k->weigh_streamed[_i] : k->weigh[_i]) != NULL)
                    check_weigh(way == STREAMED ? k->weigh_streamed[_i] : k->weigh[_i], (enum ps_dtype)_i,
                                (enum reduce_way)way, lengths[l / 3], &r);
    }
}
END_TEST

static void
check_divide(const struct reduce_kernels *k, enum ps_dtype dtype, float by, size_t n, struct test_rng *r)
{
    size_t size = ps_dtype_size(dtype);
    struct array x = array_new(n, size, test_below(r, 3)), before = array_new(n, size, 0);

    reduce_fill(&x, dtype, r);
    memcpy(before.data, x.data, n * size);
    k->divide[dtype](n, x.data, by);
    for (size_t i = 0; i < n; i++) {
        union element was = element_at(before.data, i, size), is = element_at(x.data, i, size), want;
        double quotient = dtype == PS_F64 ? was.f64 / (double)by : (double)(was.f32 / by);

        if (is_finite_element(dtype, was) && fabs(quotient) > largest_of(dtype))
            quotient = copysign(largest_of(dtype), quotient);
        want = from_double(dtype, quotient);
        if (memcmp(&is, &want, size) != 0)
            ck_abort_msg("%s by %g, n %zu: element %zu was %" PRIx64 " and is %" PRIx64 ", not %" PRIx64,
                         ps_dtype_name(dtype), (double)by, n, i, was.bits, is.bits, want.bits);
    }
    array_free(&x);
    array_free(&before);
}

START_TEST(every_isa_divides_as_the_book_does)
{
    static const float divisors[] = {0.75f, 0.625f, 7 / 8.0f, 255 / 256.0f, 129 / 256.0f};
    struct test_rng r = {test_seed()};

    for (int isa = 0; isa < ISA_COUNT; isa++)
        for (size_t d = 0; isa_supported((enum isa)isa) && d < ARRAY_LEN(divisors); d++)
            for (size_t l = 0; l < ARRAY_LEN(lengths); l++)
                check_divide(reduce_kernels_of((enum isa)isa), (enum ps_dtype)_i, divisors[d], lengths[l], &r);
}
END_TEST

/* The mean of x[from] to x[to - 1], in the order of a tree that is drawn. */
static union element
mean_of(enum ps_dtype dtype, const union element *x, uint32_t from, uint32_t to, struct test_rng *r)
{
    uint32_t middle = from + 1 + (to - from > 1 ? (uint32_t)test_below(r, to - from - 1) : 0);
    struct reduce_counts of = {(uint16_t)(middle - from), (uint16_t)(to - middle)};
    union element a, b, out = {.bits = 0};

    if (to - from == 1)
        return x[from];
    a = mean_of(dtype, x, from, middle, r);
    b = mean_of(dtype, x, middle, to, r);
    reduce_mean(dtype, 1, &out, &a, &b, of);
    return out;
}

static union element
whole_mean(enum ps_dtype dtype, const union element *x, uint32_t n, struct test_rng *r)
{
    union element m = mean_of(dtype, x, 0, n, r);

    reduce_mean_end(dtype, 1, &m, n);
    return m;
}

/* Of the largest numbers, of some that are nearly as large, and of the least that there are. */
START_TEST(a_mean_lies_between_the_least_and_the_largest_element)
{
    enum ps_dtype dtype = (enum ps_dtype)_i;
    double most = largest_of(dtype);
    double scales[] = {most, most * 0.9, most * 0.3, 1, dtype == PS_F64 ? 1e-300 : dtype == PS_F16 ? 1e-4 : 1e-30};
    struct test_rng r = {test_seed() + (uint64_t)_i};
    union element x[256];

    for (uint32_t n = 1; n <= ARRAY_LEN(x); n += 1 + n / 9)
        for (size_t s = 0; s < ARRAY_LEN(scales); s++) {
            union element m;
            double low = INFINITY, high = -INFINITY, is;

            for (uint32_t k = 0; k < n; k++)
                x[k] = from_double(dtype, scales[s]);
            m = whole_mean(dtype, x, n, &r);
            is = as_double(dtype, m);
            if (dtype == PS_F16 || dtype == PS_BF16) /* equal elements */
                ck_assert_msg(m.bits == x[0].bits, "%u times %g: %g", n, scales[s], is);
            ck_assert_msg(fabs(is / as_double(dtype, x[0]) - 1) < 1e-4, "%u times %g: %g", n, scales[s], is);
            for (uint32_t k = 0; k < n; k++) {
                x[k] = from_double(dtype, (test_float(&r) < 0 ? 0.5 : 1) * scales[s]);
                low = fmin(low, as_double(dtype, x[k]));
                high = fmax(high, as_double(dtype, x[k]));
            }
            is = as_double(dtype, whole_mean(dtype, x, n, &r));
            ck_assert_msg(is >= low * (1 - 1e-4) && is <= high * (1 + 1e-4) && isfinite(is), "of %u: %g", n, is);
        }
}
END_TEST

/* Means of float32 and float64 have the bits of the sum of all, divided once. */
START_TEST(a_mean_is_the_sum_divided_once)
{
    struct test_rng r = {test_seed()};

    for (uint32_t n = 1; n <= 256; n++)
        for (int k = 0; k < 30; k++) {
            float x, sum = 0, mean = 0;

            for (uint32_t i = 0; i < n; i++) {
                x = ldexpf(test_float(&r), (int)test_below(&r, 60) - 30);
                sum += x;
                if (i == 0)
                    mean = x;
                else
                    reduce_mean(PS_F32, 1, &mean, &mean, &x, (struct reduce_counts){(uint16_t)i, 1});
            }
            reduce_mean_end(PS_F32, 1, &mean, n);
            ck_assert_msg(mean == sum / (float)n, "of %u: %a, not %a", n, (double)mean, (double)(sum / (float)n));
        }
}
END_TEST

START_TEST(what_is_not_finite_has_a_mean_that_is_not)
{
    for (int dtype = 0; dtype < PS_I32; dtype++) {
        union element inf = from_double((enum ps_dtype)dtype, INFINITY), one = from_double((enum ps_dtype)dtype, 1),
                      minus = from_double((enum ps_dtype)dtype, -INFINITY), out = {.bits = 0};
        struct reduce_counts of = {2, 1};

        reduce_mean((enum ps_dtype)dtype, 1, &out, &one, &inf, of);
        ck_assert(as_double((enum ps_dtype)dtype, out) == INFINITY);
        reduce_mean_end((enum ps_dtype)dtype, 1, &out, 3);
        ck_assert(as_double((enum ps_dtype)dtype, out) == INFINITY);
        reduce_mean((enum ps_dtype)dtype, 1, &out, &minus, &inf, of);
        ck_assert(out.bits == from_double((enum ps_dtype)dtype, NAN).bits);
    }
}
END_TEST

START_TEST(sums_of_integers_wrap)
{
    int32_t low[3] = {INT32_MIN, INT32_MAX, -1}, one[3] = {-1, 1, 1};

    reduce(PS_I32, PS_SUM, 3, low, low, one);
    ck_assert(low[0] == INT32_MAX && low[1] == INT32_MIN && low[2] == 0);
}
END_TEST

/* More than any cache holds: through reduce(), which then streams. */
START_TEST(large_arrays_are_reduced_as_small_ones_are)
{
    size_t n = 4 * MIB + 3;
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *out = malloc((n + 1) * sizeof *out);

    ck_assert(a != NULL && b != NULL && out != NULL);
    for (size_t i = 0; i < n; i++) {
        a[i] = (float)(i % 1000003);
        b[i] = (float)(i % 65537) * 0.5f;
    }
    reduce(PS_F32, PS_SUM, n, out + 1, a, b);
    for (size_t i = 0; i < n; i++)
        if (out[i + 1] != a[i] + b[i])
            ck_abort_msg("element %zu is %.9g, not %.9g", i, (double)out[i + 1], (double)(a[i] + b[i]));
    free(a);
    free(b);
    free(out);
}
END_TEST

START_TEST(types_know_their_names_and_sizes)
{
    ck_assert_str_eq(ps_dtype_name(PS_BF16), "bfloat16");
    ck_assert_uint_eq(ps_dtype_size(PS_I64), 8);
    ck_assert_ptr_null(ps_dtype_name(PS_DTYPES));
    ck_assert_uint_eq(ps_dtype_size((enum ps_dtype) - 1), 0);
}
END_TEST

START_TEST(parts_are_alike_but_for_one_element_and_cover_the_whole)
{
    for (uint32_t ranks = 1; ranks <= 70; ranks++)
        for (size_t count = 0; count < 200; count += 1 + count / 20) {
            size_t offset = 0;

            for (uint32_t r = 0; r < ranks; r++) {
                size_t part = ps_group_part(count, ranks, r);

                ck_assert(part == count / ranks || (part == count / ranks + 1 && r < count % ranks));
                ck_assert_uint_eq(ps_group_part_offset(count, ranks, r), offset);
                offset += part;
            }
            ck_assert_uint_eq(offset, count);
            ck_assert_uint_eq(ps_group_part_offset(count, ranks, ranks), count);
        }
    ck_assert_uint_eq(ps_group_part(5, 0, 0) + ps_group_part(5, 2, 2) + ps_group_part_offset(5, 2, 3), 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("reduce");
    TCase *tc = tcase_create("reduce");

    tcase_add_loop_test(tc, every_isa_type_and_operation_agrees_with_the_book, 0, PS_DTYPES);
    tcase_add_loop_test(tc, every_isa_and_type_weighs_as_the_book_does, 0, PS_I32);
    tcase_add_loop_test(tc, every_isa_divides_as_the_book_does, 0, PS_F64 + 1);
    tcase_add_loop_test(tc, a_mean_lies_between_the_least_and_the_largest_element, 0, PS_I32);
    tcase_add_test(tc, a_mean_is_the_sum_divided_once);
    tcase_add_test(tc, what_is_not_finite_has_a_mean_that_is_not);
    tcase_add_test(tc, sums_of_integers_wrap);
    tcase_add_test(tc, large_arrays_are_reduced_as_small_ones_are);
    tcase_add_test(tc, types_know_their_names_and_sizes);
    tcase_add_test(tc, parts_are_alike_but_for_one_element_and_cover_the_whole);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
