/* First values: Philox's published vectors, any cut gives the same bits, moments, bounds, fans and hand-computed
 * numbers. */
#include "common/core/model/initializer.h"
#include "common/core/model/philox.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"

static const uint64_t dims_2d[] = {300, 100};

/* The known-answer vectors that the authors distribute with Random123 (tests/kat_vectors, philox4x32 10). */
START_TEST(philox_gives_its_authors_vectors)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
        uint32_t out[4];

        philox_4x32(vectors[i].counter, vectors[i].key, out);
        ck_assert_mem_eq(out, vectors[i].out, sizeof out);
    }
}
END_TEST

START_TEST(names_are_known)
{
    ck_assert_str_eq(initializer_name(INIT_GLOROT_UNIFORM), "glorot_uniform");
    for (int kind = 0; kind < INIT_KIND_MAX; kind++)
        ck_assert_ptr_nonnull(initializer_name(kind));
    ck_assert_ptr_null(initializer_name(-1));
    ck_assert_ptr_null(initializer_name(INIT_KIND_MAX));
}
END_TEST

START_TEST(check_refuses_what_is_out_of_range)
{
    static const struct initializer good[] = {
        {INIT_ZEROS, 0, 0, 0},
        {INIT_GLOROT_UNIFORM, NAN, NAN, 1},
        {INIT_CONSTANT, -3, NAN, 0},
        {INIT_UNIFORM, 2, 2, 0},
        {INIT_UNIFORM, -(double)FLT_MAX, FLT_MAX, 0},
        {INIT_NORMAL, 5, 0, 0},
        {INIT_TRUNCATED_NORMAL, 0, 1, 0},
    };
    static const struct initializer bad[] = {
        {INIT_CONSTANT, NAN, 0, 0},     {INIT_CONSTANT, 1e39, 0, 0},
        {INIT_UNIFORM, 1, 0, 0},        {INIT_UNIFORM, NAN, 0, 0},
        {INIT_UNIFORM, 0, INFINITY, 0}, {INIT_NORMAL, 0, -1, 0},
        {INIT_NORMAL, NAN, 1, 0},       {INIT_NORMAL, 0, NAN, 0},
        {INIT_NORMAL, 0, 1e38, 0},      {INIT_TRUNCATED_NORMAL, INFINITY, 1, 0},
        {INIT_KIND_MAX, 0, 0, 0},       {(enum initializer_kind)77, 0, 0, 0},
    };

    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        ck_assert_msg(initializer_check(&good[i], NULL) == PS_OK, "good[%zu] refused", i);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct ps_error e = {0};

        ck_assert_msg(initializer_check(&bad[i], &e) == PS_ERR_INVALID, "bad[%zu] passed", i);
        ck_assert_uint_gt(strlen(e.text), 10);
    }
}
END_TEST

START_TEST(constants_are_themselves)
{
    static const struct {
        struct initializer init;
        float value;
    } cases[] = {{{INIT_ZEROS, 9, 9, 9}, 0}, {{INIT_ONES, 9, 9, 9}, 1}, {{INIT_CONSTANT, -2.5, 9, 9}, -2.5f}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        float x[37];

        initializer_fill(&cases[i].init, dims_2d, 2, 11, ARRAY_LEN(x), x);
        for (size_t k = 0; k < ARRAY_LEN(x); k++)
            ck_assert(x[k] == cases[i].value);
    }
}
END_TEST

/* Philox's words for key 0, counter 0 are published, so the first uniforms and normals can be computed by hand. */
START_TEST(first_values_follow_from_published_words)
{
    static const uint32_t w[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    struct initializer uniform = {INIT_UNIFORM, -1, 3, 0}, normal = {INIT_NORMAL, 10, 2, 0};
    float x[4];

    initializer_fill(&uniform, dims_2d, 2, 0, 4, x);
    for (int i = 0; i < 4; i++)
        ck_assert(x[i] == (float)(-1 + 4 * ((double)w[i] / 4294967296.0)));
    initializer_fill(&normal, dims_2d, 2, 0, 4, x);
    for (int i = 0; i < 4; i += 2) {
        double radius = sqrt(-2 * log(((double)w[i] + 1) / 4294967296.0));
        double angle = 2 * M_PI * ((double)w[i + 1] / 4294967296.0);

        ck_assert_double_eq_tol(x[i], 10 + 2 * radius * cos(angle), 2e-6);
        ck_assert_double_eq_tol(x[i + 1], 10 + 2 * radius * sin(angle), 2e-6);
    }
}
END_TEST

/* The same over many words, corners included: the logarithm, sine and cosine of initializer.c against libm's. */
START_TEST(normals_agree_with_libm)
{
    struct initializer init = {INIT_NORMAL, 0, 1, 12345};
    enum { n = 100000 };
    static float x[n];

    initializer_fill(&init, dims_2d, 2, 0, n, x);
    for (uint32_t group = 0; group < n / 4; group++) {
        const uint32_t counter[4] = {group, 0, 0, 0}, key[2] = {12345, 0};
        uint32_t w[4];

        philox_4x32(counter, key, w);
        for (int i = 0; i < 4; i += 2) {
            double radius = sqrt(-2 * log(((double)w[i] + 1) / 4294967296.0));
            double angle = 2 * M_PI * ((double)w[i + 1] / 4294967296.0);

            if (!(fabs(x[4 * group + i] - radius * cos(angle)) < 5e-7) ||
                !(fabs(x[4 * group + i + 1] - radius * sin(angle)) < 5e-7))
                ck_abort_msg("words %08x, %08x", w[i], w[i + 1]);
        }
    }
}
END_TEST

static struct initializer
initializer_example(int kind, uint64_t seed)
{
    struct initializer init = {.kind = (enum initializer_kind)kind, .a = -0.5, .b = 2, .seed = seed};

    ck_assert_int_eq(initializer_check(&init, NULL), PS_OK);
    return init;
}

START_TEST(any_cut_gives_the_same_bits)
{
    struct initializer init = initializer_example(_i, 0x123456789abcdef0u);
    struct test_rng r = {test_seed()};
    enum { n = 4099 };
    static float whole[n], parts[n];
    uint64_t base = (uint64_t)_i << 33; /* past 32 bits of counter too */

    initializer_fill(&init, dims_2d, 2, base, n, whole);
    for (int round = 0; round < 50; round++) {
        memset(parts, 0xff, sizeof parts);
        for (size_t i = 0; i < n;) {
            size_t len = test_below(&r, round % 2 == 0 ? 9 : 700);

            len = MIN(len, n - i);
            initializer_fill(&init, dims_2d, 2, base + i, len, parts + i);
            i += len;
        }
        ck_assert_mem_eq(whole, parts, sizeof whole);
    }
}
END_TEST

START_TEST(nothing_is_written_past_the_end)
{
    struct initializer init = initializer_example(_i, 5);

    for (size_t first = 0; first < 6; first++)
        for (size_t n = 0; n < 12; n++) {
            float x[16];

            for (size_t i = 0; i < 16; i++)
                x[i] = 99;
            initializer_fill(&init, dims_2d, 2, first, n, x + 1);
            ck_assert(x[0] == 99);
            for (size_t i = n + 1; i < 16; i++)
                ck_assert(x[i] == 99);
        }
}
END_TEST

START_TEST(seeds_and_far_elements_differ)
{
    static const uint64_t firsts[] = {0, 4, 1ull << 34, 1ull << 40};
    float x[8][4];
    size_t count = 0;

    for (int high = 0; high < 2; high++)
        for (size_t i = 0; i < ARRAY_LEN(firsts); i++) {
            struct initializer init = {INIT_UNIFORM, 0, 1, 7 + ((uint64_t)high << 32)};

            initializer_fill(&init, dims_2d, 2, firsts[i], 4, x[count++]);
        }
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            ck_assert_mem_ne(x[i], x[k], sizeof x[i]);
}
END_TEST

#define SAMPLE 400000

struct moments {
    double mean, deviation, skewness, kurtosis, low, high, neighbours;
};

static struct moments
initializer_sample(const struct initializer *init, const uint64_t *dims, size_t rank)
{
    static float x[SAMPLE];
    struct moments m = {.low = INFINITY, .high = -INFINITY};

    initializer_fill(init, dims, rank, 3, SAMPLE, x);
    for (size_t i = 0; i < SAMPLE; i++) {
        m.mean += x[i] / (double)SAMPLE;
        m.low = MIN(m.low, (double)x[i]);
        m.high = MAX(m.high, (double)x[i]);
    }
    for (size_t i = 0; i < SAMPLE; i++)
        m.deviation += (x[i] - m.mean) * (x[i] - m.mean) / SAMPLE;
    m.deviation = sqrt(m.deviation);
    for (size_t i = 0; i < SAMPLE; i++) {
        double z = (x[i] - m.mean) / m.deviation;

        m.skewness += z * z * z / SAMPLE;
        m.kurtosis += z * z * z * z / SAMPLE;
        if (i > 0)
            m.neighbours += z * (x[i - 1] - m.mean) / m.deviation / SAMPLE;
    }
    return m;
}

/* Five standard errors; the sample is fixed, so it does not flicker. */
static void
check_moments(struct moments m, double mean, double deviation, double kurtosis)
{
    double error = 5 / sqrt(SAMPLE);

    ck_assert_double_eq_tol(m.mean, mean, deviation * error);
    ck_assert_double_eq_tol(m.deviation, deviation, deviation * error * sqrt((kurtosis - 1) / 4));
    ck_assert_double_eq_tol(m.skewness, 0, error * 2.5);
    ck_assert_double_eq_tol(m.kurtosis, kurtosis, error * 10);
    ck_assert_double_eq_tol(m.neighbours, 0, error);
}

START_TEST(uniform_has_its_moments_and_bounds)
{
    struct initializer init = {INIT_UNIFORM, -1, 5, 99};
    struct moments m = initializer_sample(&init, dims_2d, 2);

    check_moments(m, 2, 6 / sqrt(12), 1.8);
    ck_assert(m.low >= -1 && m.low < -0.999);
    ck_assert(m.high <= 5 && m.high > 4.999);
}
END_TEST

START_TEST(normal_has_its_moments_and_tails)
{
    struct initializer init = {INIT_NORMAL, -3, 0.25, 99};
    struct moments m = initializer_sample(&init, dims_2d, 2);

    check_moments(m, -3, 0.25, 3);
    ck_assert(m.low < -3 - 4 * 0.25 && m.low > -3 - 6.7 * 0.25);
    ck_assert(m.high > -3 + 4 * 0.25 && m.high < -3 + 6.7 * 0.25);
}
END_TEST

START_TEST(truncated_normal_stays_within_two_deviations)
{
    struct initializer init = {INIT_TRUNCATED_NORMAL, 1, 2, 99};
    struct moments m = initializer_sample(&init, dims_2d, 2);
    /* Of a standard normal within +-2: variance 1 - 4 phi(2) / (2 Phi(2) - 1) = 0.7737413; its fourth moment follows
     * from E z^4 = 3 E z^2 - 2 * 2^3 phi(2) / (2 Phi(2) - 1). */
    double phi = exp(-2) / sqrt(2 * M_PI), mass = erf(sqrt(2));
    double variance = 1 - 4 * phi / mass, fourth = 3 * variance - 16 * phi / mass;

    ck_assert_double_eq_tol(variance, 0.7737413, 1e-6);
    check_moments(m, 1, 2 * sqrt(variance), fourth / (variance * variance));
    ck_assert(m.low >= -3 && m.low < -2.99);
    ck_assert(m.high <= 5 && m.high > 4.99);
}
END_TEST

START_TEST(truncated_normal_is_the_normal_where_that_is_inside)
{
    struct initializer normal = {INIT_NORMAL, 0, 1, 3}, truncated = {INIT_TRUNCATED_NORMAL, 0, 1, 3};
    enum { n = 10000 };
    static float x[n], y[n];
    int redrawn = 0;

    initializer_fill(&normal, dims_2d, 2, 0, n, x);
    initializer_fill(&truncated, dims_2d, 2, 0, n, y);
    for (int i = 0; i < n; i++) {
        if (fabsf(x[i]) <= 2)
            ck_assert(x[i] == y[i]);
        else
            redrawn++;
    }
    ck_assert_int_gt(redrawn, 380); /* 455 expected, deviation 21 */
    ck_assert_int_lt(redrawn, 530);
}
END_TEST

/* dims, fan in, fan out */
static const struct {
    uint64_t dims[4];
    size_t rank;
    double in, out;
} shapes[] = {
    {{0}, 0, 1, 1}, {{50}, 1, 50, 50}, {{300, 100}, 2, 300, 100}, {{3, 3, 16, 32}, 4, 144, 288}, {{5, 8, 4}, 3, 40, 20},
};

START_TEST(scaled_kinds_follow_their_papers_and_fans)
{
    double in = shapes[_i].in, out = shapes[_i].out;
    const struct {
        enum initializer_kind kind;
        double variance;
        bool normal;
    } cases[] = {
        {INIT_GLOROT_UNIFORM, 2 / (in + out), false},
        {INIT_GLOROT_NORMAL, 2 / (in + out), true},
        {INIT_HE_UNIFORM, 2 / in, false},
        {INIT_HE_NORMAL, 2 / in, true},
        {INIT_LECUN_UNIFORM, 1 / in, false},
        {INIT_LECUN_NORMAL, 1 / in, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct initializer init = {.kind = cases[i].kind, .seed = 17};
        struct moments m = initializer_sample(&init, shapes[_i].dims, shapes[_i].rank);
        double limit = sqrt(3 * cases[i].variance);

        check_moments(m, 0, sqrt(cases[i].variance), cases[i].normal ? 3 : 1.8);
        if (!cases[i].normal)
            ck_assert(m.low >= -limit * 1.0000001 && m.high <= limit * 1.0000001);
    }
}
END_TEST

START_TEST(degenerate_ranges_are_constants)
{
    struct initializer uniform = {INIT_UNIFORM, 0.7, 0.7, 1}, normal = {INIT_NORMAL, 0.7, 0, 1};
    float x[8];

    initializer_fill(&uniform, dims_2d, 2, 0, 8, x);
    for (int i = 0; i < 8; i++)
        ck_assert(x[i] == 0.7f);
    initializer_fill(&normal, dims_2d, 2, 0, 8, x);
    for (int i = 0; i < 8; i++)
        ck_assert(x[i] == 0.7f);
}
END_TEST

/* A model's first weights may change neither between releases nor between machines: FNV-1a of the first 1,000 elements'
 * bits. */
START_TEST(bits_are_those_of_every_release)
{
    static const uint64_t expected[INIT_KIND_MAX] = {
        0x94eb5aa73e186ba5, 0x7a788ced68bf5565, 0xd6b5a8210a155765, 0xea1dd63df6f05935, 0xb2f8eb75c8e51a8c,
        0xaa7025d4a0cdd010, 0x48fd2bdf116230b0, 0xe4a66900d7f5fa93, 0xe277071bd2f0c16e, 0x39e5334598c48786,
        0x797c97479f626a86, 0xf975c19b7266a126, 0x94eb5aa73e186ba5};
    struct initializer init = initializer_example(_i, 42);
    uint64_t h = 0xcbf29ce484222325u;
    static float x[1000];

    initializer_fill(&init, dims_2d, 2, 1, ARRAY_LEN(x), x);
    for (size_t i = 0; i < sizeof x; i++)
        h = (h ^ ((const uint8_t *)x)[i]) * 0x100000001b3u;
    ck_assert_msg(h == expected[_i], "%s: 0x%016" PRIx64, initializer_name(_i), h);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("initializer");
    TCase *t = tcase_create("initializer");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, philox_gives_its_authors_vectors);
    tcase_add_test(t, names_are_known);
    tcase_add_test(t, check_refuses_what_is_out_of_range);
    tcase_add_test(t, constants_are_themselves);
    tcase_add_test(t, first_values_follow_from_published_words);
    tcase_add_test(t, normals_agree_with_libm);
    tcase_add_loop_test(t, any_cut_gives_the_same_bits, 0, INIT_KIND_MAX);
    tcase_add_loop_test(t, nothing_is_written_past_the_end, 0, INIT_KIND_MAX);
    tcase_add_test(t, seeds_and_far_elements_differ);
    tcase_add_test(t, uniform_has_its_moments_and_bounds);
    tcase_add_test(t, normal_has_its_moments_and_tails);
    tcase_add_test(t, truncated_normal_stays_within_two_deviations);
    tcase_add_test(t, truncated_normal_is_the_normal_where_that_is_inside);
    tcase_add_loop_test(t, scaled_kinds_follow_their_papers_and_fans, 0, (int)ARRAY_LEN(shapes));
    tcase_add_test(t, degenerate_ranges_are_constants);
    tcase_add_loop_test(t, bits_are_those_of_every_release, 0, INIT_KIND_MAX);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
