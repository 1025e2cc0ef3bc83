/* The optimizers' kernels: against references in double precision, every instruction set that this machine has against
 * the plain one bit for bit, in place against out of place against streamed, NaN and Inf found in every lane, nothing
 * touched outside the arrays. */
#include <float.h>

#include "common/core/codec/half.h"
#include "tests/unit/kits/optimizer_kit.h"

/* Lengths around the vectors' widths, and a large odd one. */
static const size_t lengths[] = {1, 7, 15, 16, 17, 31, 33, 64, 65, 4097};

#define STEPS 7

/* Every optimizer with an epsilon and a rate that show; then what takes other ways through a kernel: slots that depend
 * on parameters, powers, and all that is done before a rule. */
static const char *const examples[] = {
    "sgd:learning_rate=0.03",
    "momentum:learning_rate=0.03",
    "nesterov:learning_rate=0.03",
    "adagrad:learning_rate=0.03,epsilon=1e-3",
    "adam:learning_rate=3e-3,epsilon=1e-3",
    "rmsprop:learning_rate=3e-3,epsilon=1e-3",
    "adamw:learning_rate=3e-3,epsilon=1e-3",
    "adadelta:learning_rate=0.3,epsilon=1e-3",
    "nadam:learning_rate=3e-3,epsilon=1e-3",
    "ftrl:learning_rate=0.05,l1=0.1,l2=0.01,beta=1",
    "rmsprop:learning_rate=3e-3,epsilon=1e-3,momentum=0.9",
    "ftrl:learning_rate=0.05,learning_rate_power=-0.3",
    "ftrl:learning_rate=0.05,learning_rate_power=0,clip=value,limit=0.1",
    "sgd:learning_rate=0.03,l2=0.1",
    "sgd:learning_rate=0.03,weight_decay=0.1,l2=0.2",
    "nesterov:learning_rate=0.03,weight_decay=0.1,clip=value,limit=0.1",
    "adagrad:learning_rate=0.03,epsilon=1e-3,clip=value,limit=0.01",
    "adamw:learning_rate=3e-3,epsilon=1e-3,weight_decay=0.5,l2=0.01,clip=value,limit=0.3",
    "rmsprop:learning_rate=3e-3,epsilon=1e-3,momentum=0.5,l2=0.5",
};

static struct ps_optimizer
optimizer_example(int i)
{
    struct ps_optimizer o;
    struct ps_error e = {0};

    ck_assert_msg(ps_optimizer_parse(examples[i], &o, &e) == PS_OK, "%s: %s", examples[i], e.text);
    return o;
}

static void
optimizer_start_state(const struct ps_optimizer *o, const struct optimizer_kit_state *s, struct test_rng *r)
{
    for (size_t i = 0; i < s->n; i++)
        s->arrays.weights[i] = test_float(r);
    optimizer_start(o, s->n, &s->arrays);
}

static void
random_grad(struct test_rng *r, size_t n, float *grad)
{
    for (size_t i = 0; i < n; i++)
        grad[i] = test_float(r) * ldexpf(1, (int)test_below(r, 12) - 9);
}

/* One update by one instruction set. */
static bool
optimizer_update(const struct optimizer_kernels *k, const struct ps_optimizer *o, uint64_t step, float scale,
                 const float *grad, const struct optimizer_kit_state *from, const struct optimizer_kit_state *to,
                 bool stream)
{
    struct optimizer_step s;

    optimizer_prepare(o, &(struct optimizer_when){.version = step}, scale, &s);
    return k->update[o->kind](&s, from->n, grad, &from->arrays, &to->arrays, stream);
}

static void
check_reference(const struct optimizer_kernels *k, const struct ps_optimizer *o, size_t n, struct test_rng *r)
{
    uint32_t slots = optimizer_slots(o);
    double(*expected)[1 + LAYOUT_SLOTS_MAX] = calloc(n, sizeof *expected);
    float *grad = malloc(n * sizeof *grad), scale = 0.75f;
    struct optimizer_kit_state s = state_new(n);

    optimizer_start_state(o, &s, r);
    for (size_t i = 0; i < n; i++)
        for (uint32_t a = 0; a <= slots; a++)
            expected[i][a] = state_array(&s, a)[i];
    for (uint64_t step = 1; step <= STEPS; step++) {
        random_grad(r, n, grad);
        ck_assert(optimizer_update(k, o, step, scale, grad, &s, &s, false));
        for (size_t i = 0; i < n; i++)
            optimizer_reference(o, (double)step, o->learning_rate, (double)scale * grad[i], expected[i]);
    }
    for (size_t i = 0; i < n; i++)
        for (uint32_t a = 0; a <= slots; a++) {
            /* FTRL's z is weights over the rate: so are its roundings. */
            double unit = a == 0 ? 1 : o->kind == PS_FTRL && a == 2 ? 1 / o->learning_rate : 0.25;
            double x = state_array(&s, a)[i], error = 4e-7 * (fabs(expected[i][a]) + unit);

            if (!(fabs(x - expected[i][a]) <= error))
                ck_abort_msg("%s, %s, n %zu: array %u element %zu is %.9g, not %.9g", k->name,
                             ps_optimizer_name(o->kind), n, a, i, x, expected[i][a]);
        }
    check_fences(&s);
    free(expected);
    free(grad);
    free(s.memory);
}

START_TEST(every_isa_agrees_with_a_double_precision_reference)
{
    struct test_rng r = {test_seed()};
    const struct optimizer_kernels *k;
    struct ps_optimizer o = optimizer_example(_i);

    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++)
            check_reference(k, &o, lengths[l], &r);
}
END_TEST

enum optimizer_path { IN_PLACE, COPY, STREAM, STREAM_IN_PLACE, WAYS };

/* The same gradients through plain in place and through k in a way; out of place, two states take turns. The gradient
 * lies `shift` floats off a cache line. */
static void
check_same_bits(const struct optimizer_kernels *k, const struct ps_optimizer *o, size_t n, enum optimizer_path way,
                size_t shift, struct test_rng *r)
{
    uint32_t slots = optimizer_slots(o);
    float *memory = aligned_alloc(LAYOUT_ALIGN, round_up(n + 16, 16) * sizeof(float)), *grad = memory + shift;
    struct optimizer_kit_state plain = state_new(n), from = state_new(n), other = state_new(n);
    bool in_place = way == IN_PLACE || way == STREAM_IN_PLACE, stream = way == STREAM || way == STREAM_IN_PLACE;

    optimizer_start_state(o, &plain, r);
    for (uint32_t a = 0; a <= slots; a++)
        memcpy(state_array(&from, a), state_array(&plain, a), n * sizeof(float));
    for (uint64_t step = 1; step <= STEPS; step++) {
        struct optimizer_kit_state to = in_place ? from : other;

        random_grad(r, n, grad);
        ck_assert(optimizer_update(&optimizer_kernels_plain, o, step, 0.3f, grad, &plain, &plain, false));
        ck_assert(optimizer_update(k, o, step, 0.3f, grad, &from, &to, stream));
        other = in_place ? other : from;
        from = to;
        check_same(&plain, &from, slots, k->name);
    }
    check_fences(&from);
    check_fences(&other);
    free(memory);
    free(plain.memory);
    free(from.memory);
    free(other.memory);
}

START_TEST(isas_and_ways_give_the_same_bits)
{
    struct test_rng r = {test_seed()};
    const struct optimizer_kernels *k;
    struct ps_optimizer o = optimizer_example(_i);

    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++)
            for (size_t shift = 0; shift < 16; shift += 5)
                for (enum optimizer_path way = IN_PLACE; way < WAYS; way++)
                    check_same_bits(k, &o, lengths[l], way, shift, &r);
}
END_TEST

/* 1 - rate * g where the product's rounding matters: (1 + 2^-23) (1 + k 2^-23) loses k 2^-46, which is more than half
 * of the difference's last bit for k >= 2. Written with volatile, so that the test itself is not fused. */
START_TEST(products_and_sums_are_not_fused)
{
    struct ps_optimizer o = {.kind = PS_SGD, .learning_rate = 1 + 0x1p-23};
    struct optimizer_kit_state s = state_new(64);
    volatile float product;
    float grad[64];
    const struct optimizer_kernels *k;

    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++) {
        for (int j = 0; j < 64; j++) {
            grad[j] = 1 + 0x1p-23f * (float)(j + 2);
            s.arrays.weights[j] = 1;
        }
        ck_assert(optimizer_update(k, &o, 1, 1, grad, &s, &s, false));
        for (int j = 0; j < 64; j++) {
            product = (float)o.learning_rate * grad[j];
            ck_assert_msg(s.arrays.weights[j] == 1 - product, "%s fuses: build it with -ffp-contract=off", k->name);
            ck_assert(fmaf(-(float)o.learning_rate, grad[j], 1) != 1 - product); /* the case tells them apart */
        }
    }
    free(s.memory);
}
END_TEST

START_TEST(norm_has_the_same_bits_everywhere)
{
    struct test_rng r = {test_seed()};
    const struct optimizer_kernels *k;
    float *memory = malloc(4098 * sizeof(float)), *x = memory + 1; /* 4-byte aligned only */

    for (size_t l = 0; l < ARRAY_LEN(lengths); l++) {
        size_t n = lengths[l];
        double plain, exact = 0;

        random_grad(&r, n, x);
        for (size_t i = 0; i < n; i++)
            exact += (double)x[i] * (double)x[i];
        plain = optimizer_kernels_plain.square_sum(n, x);
        ck_assert_double_eq_tol(plain, exact, 1e-13 * exact);
        ck_assert(optimizer_norm(n, x) == sqrt(plain));
        for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++)
            ck_assert_msg(k->square_sum(n, x) == plain, "%s, n %zu", k->name, n);
    }
    free(memory);
}
END_TEST

START_TEST(nan_and_inf_are_found_in_every_lane)
{
    static const float poison[] = {NAN, -NAN, INFINITY, -INFINITY};
    static const size_t ns[] = {1, 7, 16, 33, 65};
    const struct optimizer_kernels *k;
    struct ps_optimizer o = optimizer_example(_i);
    struct test_rng r = {test_seed()};

    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++)
        for (size_t l = 0; l < ARRAY_LEN(ns); l++) {
            struct optimizer_kit_state from = state_new(ns[l]), to = state_new(ns[l]);
            float grad[65];

            optimizer_start_state(&o, &from, &r);
            random_grad(&r, ns[l], grad);
            for (size_t at = 0; at < ns[l]; at++)
                for (size_t p = 0; p < ARRAY_LEN(poison); p++) {
                    float before = grad[at];

                    grad[at] = poison[p];
                    if (optimizer_update(k, &o, 1, 1, grad, &from, &to, p % 2 == 0) ||
                        k->below(ns[l], grad, OPTIMIZER_CARRY_INF))
                        ck_abort_msg("%s: %f at %zu of %zu passed", k->name, (double)poison[p], at, ns[l]);
                    grad[at] = before;
                }
            ck_assert(optimizer_update(k, &o, 1, 1, grad, &from, &to, false) &&
                      k->below(ns[l], grad, OPTIMIZER_CARRY_INF));
            check_fences(&to);
            free(from.memory);
            free(to.memory);
        }
}
END_TEST

/* In passing, from any address of a half; what lies around it is NaN. */
static void
check_halves(const struct optimizer_kernels *k, const struct ps_optimizer *o, size_t n, size_t shift, bool stream,
             struct test_rng *r)
{
    uint16_t *memory = malloc((shift + n + 1) * sizeof *memory), *halves = memory + shift;
    float *decoded = malloc(n * sizeof *decoded);
    struct optimizer_kit_state from = state_new(n), expected = state_new(n), got = state_new(n), chosen = state_new(n);
    struct optimizer_when when = {.version = 1};
    struct optimizer_step s;
    size_t at = test_below(r, n);

    optimizer_start_state(o, &from, r);
    for (size_t i = 0; i < shift + n + 1; i++)
        memory[i] = 0x7c01;
    for (size_t i = 0; i < n; i++)
        halves[i] = (uint16_t)(test_below(r, 0x7c00) | test_below(r, 2) << 15);
    half_to_floats(n, halves, decoded);
    optimizer_prepare(o, &when, 0.3f, &s);
    ck_assert(k->update[o->kind](&s, n, decoded, &from.arrays, &expected.arrays, stream));
    ck_assert(k->update_half[o->kind](&s, n, halves, &from.arrays, &got.arrays, stream));
    ck_assert(optimizer_apply_half(o, &when, 0.3f, n, halves, &from.arrays, &chosen.arrays, stream));
    check_same(&expected, &got, optimizer_slots(o), k->name);
    check_same(&expected, &chosen, optimizer_slots(o), "chosen");
    check_fences(&got);
    halves[at] = (uint16_t)(0x7c00 | test_below(r, 0x400) | test_below(r, 2) << 15);
    if (k->update_half[o->kind](&s, n, halves, &from.arrays, &got.arrays, stream))
        ck_abort_msg("%s: %#x at %zu of %zu passed", k->name, halves[at], at, n);
    free(memory);
    free(decoded);
    free(from.memory);
    free(expected.memory);
    free(got.memory);
    free(chosen.memory);
}

START_TEST(halves_are_taken_as_what_they_decode_to)
{
    struct test_rng r = {test_seed()};
    const struct optimizer_kernels *k;
    struct ps_optimizer o = optimizer_example(_i);

    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++)
            for (size_t shift = 1; shift < 16; shift += 5)
                for (int stream = 0; stream < 2; stream++)
                    check_halves(k, &o, lengths[l], shift, stream, &r);
}
END_TEST

START_TEST(large_and_tiny_numbers_are_finite)
{
    static const float numbers[] = {FLT_MAX, -FLT_MAX, FLT_MIN, 0x1p-149f, -0x1p-149f, 0.0f, -0.0f};
    const struct optimizer_kernels *k;
    float x[37];

    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++)
        for (size_t n = 0; n < ARRAY_LEN(x); n++) {
            for (size_t j = 0; j < n; j++)
                x[j] = numbers[(j + n) % ARRAY_LEN(numbers)];
            ck_assert(k->below(n, x, OPTIMIZER_CARRY_INF));
        }
}
END_TEST

/* Element `at` of n gets this gradient; whether the update is calm, finite, or neither. */
static enum optimizer_magnitude
magnitude_after(const struct ps_optimizer *o, size_t n, size_t at, float g, float weight)
{
    struct optimizer_kit_state s = state_new(n);
    enum optimizer_magnitude m;
    float grad[65];

    optimizer_start(o, n, &s.arrays);
    for (size_t i = 0; i < n; i++) {
        s.arrays.weights[i] = 1;
        grad[i] = 0.5f;
    }
    s.arrays.weights[at] = weight;
    grad[at] = g;
    m = optimizer_apply(o, &(struct optimizer_when){.version = 1}, 1, n, grad, &s.arrays, &s.arrays, false);
    check_fences(&s);
    free(s.memory);
    return m;
}

/* The square of 1e20 is Inf in float32. */
START_TEST(a_finite_gradient_that_overflows_weights_or_slots_is_found)
{
    static const size_t ns[] = {1, 7, 16, 33, 65};
    struct ps_optimizer o = optimizer_example(_i);
    bool squares = optimizer_slots(&o) > 0 && o.kind != PS_MOMENTUM && o.kind != PS_NESTEROV;

    for (size_t l = 0; l < ARRAY_LEN(ns); l++)
        for (size_t at = 0; at < ns[l]; at += 1 + ns[l] / 5) {
            ck_assert_int_eq(magnitude_after(&o, ns[l], at, 1, 1), OPTIMIZER_CALM);
            ck_assert_int_eq(magnitude_after(&o, ns[l], at, 1, 1e30f), OPTIMIZER_LARGE);
            if (squares)
                ck_assert_int_eq(magnitude_after(&o, ns[l], at, 1e20f, 1), OPTIMIZER_NONFINITE);
            o.learning_rate = 1000;
            ck_assert_int_eq(magnitude_after(&o, ns[l], at, 3e38f, 1), OPTIMIZER_NONFINITE);
            o.learning_rate = optimizer_example(_i).learning_rate;
        }
}
END_TEST

/* Where optimizer_keeps_finite() says so, the largest calm numbers stay finite. */
START_TEST(calm_numbers_stay_finite_where_it_is_said)
{
    static const float gradients[] = {0x1p19f, -0x1.fffffep19f, 0x1p-149f, 0};
    static const float states[] = {0x1.fffffep39f, -0x1.fffffep39f, 1};
    struct ps_optimizer o = optimizer_example(_i);
    struct optimizer_when when = {.version = 1};
    struct optimizer_kit_state s = state_new(1);

    o.learning_rate = 0x1p10;
    o.epsilon = 0x1p-34;
    if (!optimizer_keeps_finite(&o, &when)) {
        ck_assert(o.kind == PS_FTRL || o.kind == PS_ADADELTA);
        free(s.memory);
        return;
    }
    for (size_t g = 0; g < ARRAY_LEN(gradients); g++)
        for (size_t w = 0; w < ARRAY_LEN(states); w++)
            for (int filled = 0; filled < 2; filled++) {
                optimizer_start(&o, 1, &s.arrays);
                s.arrays.weights[0] = states[w];
                for (uint32_t k = 0; k < optimizer_slots(&o) && filled; k++)
                    s.arrays.slot[k][0] = 0x1.fffffep39f;
                ck_assert_int_ne(optimizer_apply(&o, &when, 1, 1, &gradients[g], &s.arrays, &s.arrays, false),
                                 OPTIMIZER_NONFINITE);
            }
    free(s.memory);
}
END_TEST

/* What lies next to the gradient does not count. */
START_TEST(neighbours_of_the_gradient_are_not_looked_at)
{
    const struct optimizer_kernels *k;
    struct ps_optimizer o = optimizer_example(PS_SGD);
    struct optimizer_kit_state s = state_new(5);
    float grad[7] = {NAN, 1, 2, 3, 4, 5, INFINITY};

    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++) {
        ck_assert(k->below(5, grad + 1, OPTIMIZER_CARRY_INF));
        ck_assert(optimizer_update(k, &o, 1, 1, grad + 1, &s, &s, false));
    }
    free(s.memory);
}
END_TEST

START_TEST(sum_adds_in_order_with_the_same_bits)
{
    static const size_t ks[] = {1, 2, 3, 9}, ns[] = {0, 1, 7, 64, 65, 2048, 4097};
    struct test_rng r = {test_seed()};
    const struct optimizer_kernels *k;
    float *x[9], *expected = malloc(4097 * sizeof(float)), *sum = malloc(4098 * sizeof(float));

    for (size_t j = 0; j < ARRAY_LEN(x); j++) {
        x[j] = malloc(4098 * sizeof(float));
        x[j]++; /* 4-byte aligned only */
        random_grad(&r, 4097, x[j]);
    }
    for (size_t a = 0; a < ARRAY_LEN(ks); a++)
        for (size_t b = 0; b < ARRAY_LEN(ns); b++) {
            memcpy(expected, x[0], ns[b] * sizeof(float));
            for (size_t j = 1; j < ks[a]; j++)
                for (size_t i = 0; i < ns[b]; i++)
                    expected[i] += x[j][i];
            for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++) {
                sum[ns[b]] = 99;
                k->sum(ns[b], ks[a], (const float *const *)x, sum);
                ck_assert(memcmp(sum, expected, ns[b] * sizeof(float)) == 0 && sum[ns[b]] == 99);
            }
        }
    memcpy(expected, x[0], 4097 * sizeof(float));
    for (size_t i = 0; i < 4097; i++)
        expected[i] += x[1][i];
    optimizer_sum(4097, 2, (const float *const *)x, x[0]); /* into the first */
    ck_assert(memcmp(x[0], expected, 4097 * sizeof(float)) == 0);
    for (size_t j = 0; j < ARRAY_LEN(x); j++)
        free(x[j] - 1);
    free(expected);
    free(sum);
}
END_TEST

START_TEST(apply_is_prepare_and_the_chosen_kernel)
{
    struct test_rng r = {test_seed()};
    struct ps_optimizer o = optimizer_example(_i);
    struct optimizer_kit_state from = state_new(333), a = state_new(333), b = state_new(333);
    float grad[333];

    optimizer_start_state(&o, &from, &r);
    random_grad(&r, 333, grad);
    ck_assert(
        optimizer_apply(&o, &(struct optimizer_when){.version = 5}, 0.5f, 333, grad, &from.arrays, &a.arrays, false));
    ck_assert(optimizer_update(optimizer_kernels_choose(optimizer_isa()), &o, 5, 0.5f, grad, &from, &b, false));
    check_same(&a, &b, optimizer_slots(&o), "apply");
    grad[332] = NAN;
    ck_assert(
        !optimizer_apply(&o, &(struct optimizer_when){.version = 5}, 0.5f, 333, grad, &from.arrays, &a.arrays, true));
    ck_assert(!optimizer_finite(333, grad) && optimizer_finite(332, grad));
    free(from.memory);
    free(a.memory);
    free(b.memory);
}
END_TEST

START_TEST(isa_is_chosen_by_name_or_else_the_widest)
{
    const struct optimizer_kernels *k, *last = NULL;

    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++) {
        ck_assert_ptr_eq(optimizer_kernels_choose(k->name), k);
        last = k;
    }
    ck_assert_ptr_eq(last, &optimizer_kernels_plain);
    ck_assert_ptr_eq(optimizer_kernels_choose(NULL), optimizer_kernels_at(0));
    ck_assert_ptr_eq(optimizer_kernels_choose(""), optimizer_kernels_at(0));
    ck_assert_ptr_eq(optimizer_kernels_choose("mmx"), optimizer_kernels_at(0));
    ck_assert_str_eq(optimizer_isa(), optimizer_kernels_choose(getenv("PSD_ISA"))->name);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("optimizer");
    TCase *t = tcase_create("optimizer");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, every_isa_agrees_with_a_double_precision_reference, 0, ARRAY_LEN(examples));
    tcase_add_loop_test(t, isas_and_ways_give_the_same_bits, 0, ARRAY_LEN(examples));
    tcase_add_test(t, products_and_sums_are_not_fused);
    tcase_add_test(t, norm_has_the_same_bits_everywhere);
    tcase_add_loop_test(t, nan_and_inf_are_found_in_every_lane, 0, ARRAY_LEN(examples));
    tcase_add_loop_test(t, a_finite_gradient_that_overflows_weights_or_slots_is_found, 0, PS_OPTIMIZER_KINDS);
    tcase_add_loop_test(t, calm_numbers_stay_finite_where_it_is_said, 0, ARRAY_LEN(examples));
    tcase_add_loop_test(t, halves_are_taken_as_what_they_decode_to, 0, ARRAY_LEN(examples));
    tcase_add_test(t, large_and_tiny_numbers_are_finite);
    tcase_add_test(t, neighbours_of_the_gradient_are_not_looked_at);
    tcase_add_test(t, sum_adds_in_order_with_the_same_bits);
    tcase_add_loop_test(t, apply_is_prepare_and_the_chosen_kernel, 0, ARRAY_LEN(examples));
    tcase_add_test(t, isa_is_chosen_by_name_or_else_the_widest);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
