/* The optimizers: by hand, against references in double precision, every instruction set that this machine has against
 * the plain one bit for bit, in place against out of place against streamed, NaN and Inf found in every lane, nothing
 * touched outside the arrays, and the table's checks. */
#include "common/optimizer.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "check_main.h"
#include "common/optimizer_isa.h"

/* Lengths around the vectors' widths, and a large odd one. */
static const size_t lengths[] = {1, 7, 15, 16, 17, 31, 33, 64, 65, 4097};

#define STEPS 7
#define FENCE 16 /* floats before and after each array that must not change */

/* A gradient or one state (weights and slots) on the heap, each array with fences around it. */
struct state {
    float *memory;
    struct optimizer_arrays arrays;
    size_t n;
};

static size_t
array_floats(size_t n)
{
    return round_up(n, 16) + 2 * FENCE;
}

static struct state
state_new(size_t n)
{
    size_t size = (1 + LAYOUT_SLOTS_MAX) * array_floats(n);
    struct state s = {.memory = aligned_alloc(LAYOUT_ALIGN, size * sizeof(float)), .n = n};

    ck_assert_ptr_nonnull(s.memory);
    for (size_t i = 0; i < size; i++)
        s.memory[i] = -12345;
    s.arrays.weights = s.memory + FENCE;
    for (size_t k = 0; k < LAYOUT_SLOTS_MAX; k++)
        s.arrays.slot[k] = s.memory + (k + 1) * array_floats(n) + FENCE;
    return s;
}

static float *
state_array(const struct state *s, size_t i)
{
    return i == 0 ? s->arrays.weights : s->arrays.slot[i - 1];
}

static void
check_fences(const struct state *s)
{
    for (size_t a = 0; a <= LAYOUT_SLOTS_MAX; a++)
        for (size_t i = 0; i < array_floats(s->n); i++)
            if ((i < FENCE || i >= FENCE + s->n) && s->memory[a * array_floats(s->n) + i] != -12345)
                ck_abort_msg("array %zu of %zu elements was written at %zd", a, s->n, (ssize_t)i - FENCE);
}

static void
check_same(const struct state *a, const struct state *b, uint32_t slots, const char *what)
{
    for (uint32_t k = 0; k <= slots; k++)
        ck_assert_msg(memcmp(state_array(a, k), state_array(b, k), a->n * sizeof(float)) == 0,
                      "%s: array %u of %zu elements differs", what, k, a->n);
}

static struct ps_optimizer
by_name(const char *name)
{
    struct ps_optimizer o;

    ck_assert_int_eq(ps_optimizer_by_name(name, &o, NULL), PS_OK);
    return o;
}

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
example(int i)
{
    struct ps_optimizer o;
    struct ps_error e = {0};

    ck_assert_msg(ps_optimizer_parse(examples[i], &o, &e) == PS_OK, "%s: %s", examples[i], e.text);
    return o;
}

static void
start(const struct ps_optimizer *o, const struct state *s, struct test_rng *r)
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

static double
nadam_mu(const struct ps_optimizer *o, double t)
{
    return o->beta1 * (1 - 0.5 * pow(0.96, t / 250));
}

static double
nadam_product(const struct ps_optimizer *o, double t)
{
    double product = 1;

    for (double i = 1; i <= t; i++)
        product *= nadam_mu(o, i);
    return product;
}

static void
adam_means(const struct ps_optimizer *o, double g, double a[1 + LAYOUT_SLOTS_MAX])
{
    a[1] = o->beta1 * a[1] + (1 - o->beta1) * g;
    a[2] = o->beta2 * a[2] + (1 - o->beta2) * g * g;
}

static void
rmsprop(const struct ps_optimizer *o, double lr, double g, double a[1 + LAYOUT_SLOTS_MAX])
{
    a[1] = o->rho * a[1] + (1 - o->rho) * g * g;
    if (o->momentum == 0) {
        a[0] -= lr * g / sqrt(a[1] + o->epsilon);
        return;
    }
    a[2] = o->momentum * a[2] + lr * g / sqrt(a[1] + o->epsilon);
    a[0] -= a[2];
}

static void
adadelta(const struct ps_optimizer *o, double lr, double g, double a[1 + LAYOUT_SLOTS_MAX])
{
    double move;

    a[1] = o->rho * a[1] + (1 - o->rho) * g * g;
    move = sqrt(a[2] + o->epsilon) / sqrt(a[1] + o->epsilon) * g;
    a[2] = o->rho * a[2] + (1 - o->rho) * move * move;
    a[0] -= lr * move;
}

static void
nadam(const struct ps_optimizer *o, double lr, double t, double g, double a[1 + LAYOUT_SLOTS_MAX])
{
    double mean, square;

    adam_means(o, g, a);
    mean = nadam_mu(o, t + 1) * a[1] / (1 - nadam_product(o, t + 1)) +
           (1 - nadam_mu(o, t)) * g / (1 - nadam_product(o, t));
    square = a[2] / (1 - pow(o->beta2, t));
    a[0] -= lr * mean / (sqrt(square) + o->epsilon);
}

static void
ftrl(const struct ps_optimizer *o, double lr, double g, double a[1 + LAYOUT_SLOTS_MAX])
{
    double before = pow(a[1], -o->learning_rate_power), after;

    a[1] += g * g;
    after = pow(a[1], -o->learning_rate_power);
    a[2] += g - (after - before) / lr * a[0];
    a[0] = fabs(a[2]) <= o->l1 ? 0 : (copysign(o->l1, a[2]) - a[2]) / ((o->beta + after) / lr + 2 * o->l2);
}

/* The textbook's formulas, one element in double; g is scaled and, for norms, clipped. a: weight, slots. */
static void
reference(const struct ps_optimizer *o, double t, double lr, double g, double a[1 + LAYOUT_SLOTS_MAX])
{
    if (o->clip.kind == PS_CLIP_VALUE)
        g = fmin(fmax(g, -o->clip.limit), o->clip.limit);
    if (o->kind != PS_FTRL) {
        g += o->l2 * a[0];
        a[0] -= lr * o->weight_decay * a[0];
    }
    switch (o->kind) {
    case PS_SGD:
        a[0] -= lr * g;
        break;
    case PS_MOMENTUM:
        a[1] = o->momentum * a[1] - lr * g;
        a[0] += a[1];
        break;
    case PS_NESTEROV:
        a[1] = o->momentum * a[1] - lr * g;
        a[0] += o->momentum * a[1] - lr * g;
        break;
    case PS_ADAGRAD:
        a[1] += g * g;
        a[0] -= lr * g / (sqrt(a[1]) + o->epsilon);
        break;
    case PS_ADAM:
    case PS_ADAMW:
        adam_means(o, g, a);
        a[0] -= lr * sqrt(1 - pow(o->beta2, t)) / (1 - pow(o->beta1, t)) * a[1] / (sqrt(a[2]) + o->epsilon);
        break;
    case PS_RMSPROP:
        rmsprop(o, lr, g, a);
        break;
    case PS_ADADELTA:
        adadelta(o, lr, g, a);
        break;
    case PS_NADAM:
        nadam(o, lr, t, g, a);
        break;
    case PS_FTRL:
        ftrl(o, lr, g, a);
        break;
    case PS_OPTIMIZER_KINDS:
        ck_abort();
    }
}

/* One update by one instruction set. */
static bool
update(const struct optimizer_kernels *k, const struct ps_optimizer *o, uint64_t step, float scale, const float *grad,
       const struct state *from, const struct state *to, bool stream)
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
    struct state s = state_new(n);

    start(o, &s, r);
    for (size_t i = 0; i < n; i++)
        for (uint32_t a = 0; a <= slots; a++)
            expected[i][a] = state_array(&s, a)[i];
    for (uint64_t step = 1; step <= STEPS; step++) {
        random_grad(r, n, grad);
        ck_assert(update(k, o, step, scale, grad, &s, &s, false));
        for (size_t i = 0; i < n; i++)
            reference(o, (double)step, o->learning_rate, (double)scale * grad[i], expected[i]);
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
    struct ps_optimizer o = example(_i);

    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++)
            check_reference(k, &o, lengths[l], &r);
}
END_TEST

enum way { IN_PLACE, COPY, STREAM, STREAM_IN_PLACE, WAYS };

/* The same gradients through plain in place and through k in a way; out of place, two states take turns. The gradient
 * lies `shift` floats off a cache line. */
static void
check_same_bits(const struct optimizer_kernels *k, const struct ps_optimizer *o, size_t n, enum way way, size_t shift,
                struct test_rng *r)
{
    uint32_t slots = optimizer_slots(o);
    float *memory = aligned_alloc(LAYOUT_ALIGN, round_up(n + 16, 16) * sizeof(float)), *grad = memory + shift;
    struct state plain = state_new(n), from = state_new(n), other = state_new(n);
    bool in_place = way == IN_PLACE || way == STREAM_IN_PLACE, stream = way == STREAM || way == STREAM_IN_PLACE;

    start(o, &plain, r);
    for (uint32_t a = 0; a <= slots; a++)
        memcpy(state_array(&from, a), state_array(&plain, a), n * sizeof(float));
    for (uint64_t step = 1; step <= STEPS; step++) {
        struct state to = in_place ? from : other;

        random_grad(r, n, grad);
        ck_assert(update(&optimizer_kernels_plain, o, step, 0.3f, grad, &plain, &plain, false));
        ck_assert(update(k, o, step, 0.3f, grad, &from, &to, stream));
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
    struct ps_optimizer o = example(_i);

    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++)
        for (size_t l = 0; l < ARRAY_LEN(lengths); l++)
            for (size_t shift = 0; shift < 16; shift += 5)
                for (enum way way = IN_PLACE; way < WAYS; way++)
                    check_same_bits(k, &o, lengths[l], way, shift, &r);
}
END_TEST

/* 1 - rate * g where the product's rounding matters: (1 + 2^-23) (1 + k 2^-23) loses k 2^-46, which is more than half
 * of the difference's last bit for k >= 2. Written with volatile, so that the test itself is not fused. */
START_TEST(products_and_sums_are_not_fused)
{
    struct ps_optimizer o = {.kind = PS_SGD, .learning_rate = 1 + 0x1p-23};
    struct state s = state_new(64);
    volatile float product;
    float grad[64];
    const struct optimizer_kernels *k;

    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++) {
        for (int j = 0; j < 64; j++) {
            grad[j] = 1 + 0x1p-23f * (float)(j + 2);
            s.arrays.weights[j] = 1;
        }
        ck_assert(update(k, &o, 1, 1, grad, &s, &s, false));
        for (int j = 0; j < 64; j++) {
            product = (float)o.learning_rate * grad[j];
            ck_assert_msg(s.arrays.weights[j] == 1 - product, "%s fuses: build it with -ffp-contract=off", k->name);
            ck_assert(fmaf(-(float)o.learning_rate, grad[j], 1) != 1 - product); /* the case tells them apart */
        }
    }
    free(s.memory);
}
END_TEST

static void
apply_one(const struct ps_optimizer *o, uint64_t step, float g, struct state *s)
{
    ck_assert(optimizer_apply(o, &(struct optimizer_when){.version = step}, 1, 1, &g, &s->arrays, &s->arrays, false));
}

START_TEST(sgd_by_hand)
{
    struct ps_optimizer o = {.kind = PS_SGD, .learning_rate = 0.5};
    struct state s = state_new(1);
    float g = 4;

    s.arrays.weights[0] = 1;
    apply_one(&o, 1, 4, &s);
    ck_assert(s.arrays.weights[0] == -1);
    ck_assert(optimizer_apply(&o, &(struct optimizer_when){.version = 2}, 0.25f, 1, &g, &s.arrays, &s.arrays,
                              false)); /* scaled first */
    ck_assert(s.arrays.weights[0] == -1.5f);
    free(s.memory);
}
END_TEST

START_TEST(momentum_by_hand)
{
    struct ps_optimizer o = {.kind = PS_MOMENTUM, .learning_rate = 0.5, .momentum = 0.5};
    struct state s = state_new(1);

    s.arrays.weights[0] = 1;
    optimizer_start(&o, 1, &s.arrays);
    apply_one(&o, 1, 2, &s); /* v = -1, w = 0 */
    ck_assert(s.arrays.slot[0][0] == -1 && s.arrays.weights[0] == 0);
    apply_one(&o, 2, 2, &s); /* v = -0.5 - 1 = -1.5 */
    ck_assert(s.arrays.slot[0][0] == -1.5f && s.arrays.weights[0] == -1.5f);
    free(s.memory);
}
END_TEST

START_TEST(nesterov_by_hand)
{
    struct ps_optimizer o = {.kind = PS_NESTEROV, .learning_rate = 0.5, .momentum = 0.5};
    struct state s = state_new(1);

    s.arrays.weights[0] = 1;
    optimizer_start(&o, 1, &s.arrays);
    apply_one(&o, 1, 2, &s); /* v = -1, w += -0.5 - 1 */
    ck_assert(s.arrays.slot[0][0] == -1 && s.arrays.weights[0] == -0.5f);
    apply_one(&o, 2, 2, &s); /* v = -1.5, w += -0.75 - 1 */
    ck_assert(s.arrays.slot[0][0] == -1.5f && s.arrays.weights[0] == -2.25f);
    free(s.memory);
}
END_TEST

START_TEST(adagrad_by_hand)
{
    struct ps_optimizer o = {.kind = PS_ADAGRAD, .learning_rate = 1, .initial_accumulator = 7, .epsilon = 1};
    struct state s = state_new(1);

    s.arrays.weights[0] = 2;
    optimizer_start(&o, 1, &s.arrays);
    ck_assert(s.arrays.slot[0][0] == 7);
    apply_one(&o, 1, 3, &s); /* a = 16, w -= 3 / (4 + 1) */
    ck_assert(s.arrays.slot[0][0] == 16 && s.arrays.weights[0] == 2 - 0.6f);
    free(s.memory);
}
END_TEST

START_TEST(adam_by_hand)
{
    struct ps_optimizer o = {.kind = PS_ADAM, .learning_rate = 1, .beta1 = 0.5, .beta2 = 0.75, .epsilon = 1};
    struct state s = state_new(1);

    s.arrays.weights[0] = 3;
    optimizer_start(&o, 1, &s.arrays);
    /* m = 2, v = 4; rate = sqrt(1/4) / (1/2) = 1; w -= 2 / (2 + 1). */
    apply_one(&o, 1, 4, &s);
    ck_assert(s.arrays.slot[0][0] == 2 && s.arrays.slot[1][0] == 4);
    ck_assert(s.arrays.weights[0] == 3 - 2.0f / 3.0f);
    free(s.memory);
}
END_TEST

/* The first step of Adam is the rate, whatever the gradient's size (epsilon apart). */
START_TEST(adam_starts_with_a_full_step)
{
    static const float grads[] = {1e-3f, 1, 1e3f, -5};
    struct ps_optimizer o = by_name("adam");

    for (size_t i = 0; i < ARRAY_LEN(grads); i++) {
        struct state s = state_new(1);

        s.arrays.weights[0] = 0;
        optimizer_start(&o, 1, &s.arrays);
        apply_one(&o, 1, grads[i], &s);
        ck_assert_double_eq_tol(fabs(s.arrays.weights[0]), 0.001, 5e-6);
        ck_assert((s.arrays.weights[0] < 0) == (grads[i] > 0));
        free(s.memory);
    }
}
END_TEST

START_TEST(adam_correction_fades_over_long_runs)
{
    static const uint64_t steps[] = {1, 2, 10, 1000, 1000000, 1ull << 40, UINT64_MAX};
    struct ps_optimizer o = by_name("adam");

    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        struct state s = state_new(1);
        float g = 0;
        long double t = (long double)steps[i];
        double expected = (double)(0.001L * sqrtl(1 - powl(0.999L, t)) / (1 - powl(0.9L, t)));

        /* No gradient: w = -rate beta1 / (sqrt(beta2) + epsilon) */
        s.arrays.weights[0] = 0;
        s.arrays.slot[0][0] = s.arrays.slot[1][0] = 1;
        apply_one(&o, steps[i], g, &s);
        ck_assert_double_eq_tol(-s.arrays.weights[0] / 0.9 * (sqrt(0.999) + 1e-7), expected, expected * 4e-7);
        free(s.memory);
    }
}
END_TEST

/* rate 0.1 (Adadelta: 1), three gradients for three weights. Figures of Keras 3.15.1 (NumPy backend, float32) with the
 * same parameters, its Nadam with 0.96^(1/250) put for 0.96 (nadam.h). */
START_TEST(three_updates_are_those_of_keras)
{
    static const float grads[3][3] = {{0.5f, -1, 0.25f}, {-0.25f, 2, 1}, {1.5f, 0.125f, -0.5f}};
    static const struct {
        const char *optimizer;
        double weights[3];
    } rows[] = {
        {"sgd:learning_rate=0.1", {0.8249999284744263, -2.112499952316284, 0.42500001192092896}},
        {"momentum:learning_rate=0.1", {0.7620000243186951, -2.121500015258789, 0.29225000739097595}},
        {"nesterov:learning_rate=0.1", {0.61080002784729, -2.2218499183654785, 0.2380250096321106}},
        {"adagrad:learning_rate=0.1", {0.8624818325042725, -1.9987419843673706, 0.38730520009994507}},
        {"adam:learning_rate=0.1", {0.8063183426856995, -1.96843421459198, 0.2779557406902313}},
        {"rmsprop:learning_rate=0.1", {0.5317382216453552, -1.9882763624191284, 0.02038256824016571}},
        {"rmsprop:learning_rate=0.1,momentum=0.9", {0.12368732690811157, -1.7046699523925781, -0.7972854375839233}},
        {"adamw:learning_rate=0.1", {0.8052094578742981, -1.9661003351211548, 0.27747130393981934}},
        {"adadelta:learning_rate=1", {0.9974489808082581, -2.000537395477295, 0.4978785216808319}},
        {"nadam:learning_rate=0.1", {0.8287856578826904, -1.9949089288711548, 0.33289575576782227}},
        {"ftrl:learning_rate=0.1,l1=0.5,l2=0.25,beta=0.5", {0.10584098100662231, -0.8982512354850769, 0}},
        {"ftrl:learning_rate=0.1,learning_rate_power=-0.3",
         {0.16556192934513092, -1.0590355396270752, -0.02585403248667717}},
        {"adam:learning_rate=0.1,clip=value,limit=0.3", {0.8549172878265381, -1.927233338356018, 0.2775554656982422}},
        {"sgd:learning_rate=0.1,clip=block_norm,limit=1", {0.872894287109375, -2.0094828605651855, 0.4652581810951233}},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct state s = state_new(3);
        struct ps_optimizer o;

        ck_assert_int_eq(ps_optimizer_parse(rows[i].optimizer, &o, NULL), PS_OK);
        memcpy(s.arrays.weights, (float[]){1, -2, 0.5f}, 3 * sizeof(float));
        optimizer_start(&o, 3, &s.arrays);
        for (uint64_t t = 1; t <= 3; t++)
            ck_assert(optimizer_apply(&o, &(struct optimizer_when){.version = t}, 1, 3, grads[t - 1], &s.arrays,
                                      &s.arrays, false));
        for (int j = 0; j < 3; j++)
            ck_assert_msg(fabs(s.arrays.weights[j] - rows[i].weights[j]) < 3e-6, "%s: weight %d is %.9g, not %.9g",
                          rows[i].optimizer, j, (double)s.arrays.weights[j], rows[i].weights[j]);
        free(s.memory);
    }
}
END_TEST

/* Scale, clip, penalty, decay, rule, in that order; all numbers are exact in float32. */
START_TEST(what_comes_before_the_rule_by_hand)
{
    struct ps_optimizer o = {.learning_rate = 0.25, .l2 = 0.5, .weight_decay = 0.5, .clip = {PS_CLIP_VALUE, 1}};
    struct state s = state_new(1);
    float g = 4;

    /* g = 0.5 * 4 = 2, clipped 1, + 0.5 * 2 = 2; w = 2 - 0.25 * 0.5 * 2 = 1.75, - 0.25 * 2 = 1.25 */
    s.arrays.weights[0] = 2;
    ck_assert(optimizer_apply(&o, &(struct optimizer_when){.version = 1}, 0.5f, 1, &g, &s.arrays, &s.arrays, false));
    ck_assert(s.arrays.weights[0] == 1.25f);
    /* The same with g = -2: clipped -1, + 1 = 0. */
    s.arrays.weights[0] = 2;
    g = -4;
    ck_assert(optimizer_apply(&o, &(struct optimizer_when){.version = 1}, 0.5f, 1, &g, &s.arrays, &s.arrays, false));
    ck_assert(s.arrays.weights[0] == 1.75f);
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

/* (3, 4) has norm 5; scaled by 2 it is 10 and is brought to 2.5: (1.5, 2). */
START_TEST(block_norm_is_that_of_the_scaled_gradient)
{
    struct ps_optimizer o = {.learning_rate = 1, .clip = {PS_CLIP_BLOCK_NORM, 2.5}};
    struct optimizer_when when = {.version = 1};
    struct state s = state_new(2);
    float g[2] = {3, 4}, zero[2] = {0};

    s.arrays.weights[0] = s.arrays.weights[1] = 0;
    ck_assert(optimizer_apply(&o, &when, 2, 2, g, &s.arrays, &s.arrays, false));
    ck_assert(s.arrays.weights[0] == -1.5f && s.arrays.weights[1] == -2);
    ck_assert(optimizer_apply(&o, &when, 0.5f, 2, g, &s.arrays, &s.arrays, false)); /* 2.5: as it is */
    ck_assert(s.arrays.weights[0] == -3 && s.arrays.weights[1] == -4);
    ck_assert(optimizer_apply(&o, &when, 1, 2, zero, &s.arrays, &s.arrays, false));
    ck_assert(s.arrays.weights[0] == -3 && s.arrays.weights[1] == -4);
    g[0] = FLT_MAX; /* its square is past float32 */
    ck_assert(optimizer_apply(&o, &when, 1, 2, g, &s.arrays, &s.arrays, false));
    ck_assert(s.arrays.weights[0] == -5.5f);
    g[0] = INFINITY;
    ck_assert(!optimizer_apply(&o, &when, 1, 2, g, &s.arrays, &s.arrays, false));
    g[0] = NAN;
    ck_assert(!optimizer_apply(&o, &when, 1, 2, g, &s.arrays, &s.arrays, false));
    free(s.memory);
}
END_TEST

/* 1, 3/4, 1/2, 1/4, 0, by what t counts. */
START_TEST(rate_follows_its_schedule_by_version_or_clock)
{
    struct ps_optimizer o = {.learning_rate = 1, .schedule = {.kind = PS_SCHEDULE_LINEAR, .steps = 4}};
    struct state s = state_new(1);
    float g = 1;

    s.arrays.weights[0] = 0;
    ck_assert(optimizer_apply(&o, &(struct optimizer_when){3, 99}, 1, 1, &g, &s.arrays, &s.arrays, false));
    ck_assert(s.arrays.weights[0] == -0.5f);
    o.schedule.by = PS_BY_CLOCK;
    ck_assert(optimizer_apply(&o, &(struct optimizer_when){99, 3}, 1, 1, &g, &s.arrays, &s.arrays, false));
    ck_assert(s.arrays.weights[0] == -0.75f);
    ck_assert(optimizer_apply(&o, &(struct optimizer_when){99, 4}, 1, 1, &g, &s.arrays, &s.arrays, false));
    ck_assert(s.arrays.weights[0] == -0.75f);
    ck_assert(optimizer_rate(&o, &(struct optimizer_when){1, 1}) == 0.75);
    free(s.memory);
}
END_TEST

/* The product of momenta is computed from the version alone: a long run has the bits of one that starts late. */
START_TEST(nadam_knows_its_momenta_at_any_version)
{
    static const uint64_t versions[] = {1, 2, 30, 70, 500, 100000, 1ull << 50};
    struct ps_optimizer o = by_name("nadam");

    o.learning_rate = 1;
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        double t = (double)versions[i], few = fmin(t, 2000), a[1 + LAYOUT_SLOTS_MAX] = {0, 0, 1, 0}, mean;
        struct state s = state_new(1);

        s.arrays.weights[0] = s.arrays.slot[0][0] = 0;
        s.arrays.slot[1][0] = 1;
        apply_one(&o, versions[i], 2, &s);
        adam_means(&o, 2, a);
        mean = nadam_mu(&o, t + 1) * a[1] / (1 - nadam_product(&o, few + 1)) +
               (1 - nadam_mu(&o, t)) * 2 / (1 - nadam_product(&o, few));
        mean /= sqrt(a[2] / (1 - pow(o.beta2, t))) + o.epsilon;
        ck_assert_double_eq_tol(-s.arrays.weights[0], mean, mean * 4e-7);
        free(s.memory);
    }
}
END_TEST

START_TEST(ftrl_makes_weights_exactly_0)
{
    struct ps_optimizer o;
    struct state s = state_new(2);
    float g[2] = {0.5f, 2};

    ck_assert_int_eq(ps_optimizer_parse("ftrl:learning_rate=1,l1=1,initial_accumulator=1", &o, NULL), PS_OK);
    s.arrays.weights[0] = s.arrays.weights[1] = 0;
    optimizer_start(&o, 2, &s.arrays);
    ck_assert(optimizer_apply(&o, &(struct optimizer_when){.version = 1}, 1, 2, g, &s.arrays, &s.arrays, false));
    ck_assert(s.arrays.weights[0] == 0);                               /* |z| = 0.5 <= 1 */
    ck_assert_float_eq_tol(s.arrays.weights[1], -1 / sqrtf(5), 1e-7f); /* (1 - 2) / sqrt(1 + 4) */
    free(s.memory);
}
END_TEST

START_TEST(rmsprop_keeps_a_velocity_only_when_it_has_momentum)
{
    struct ps_optimizer o = by_name("rmsprop");

    ck_assert_uint_eq(optimizer_slots(&o), 1);
    o.momentum = 0.5;
    ck_assert_uint_eq(optimizer_slots(&o), 2);
}
END_TEST

START_TEST(nan_and_inf_are_found_in_every_lane)
{
    static const float poison[] = {NAN, -NAN, INFINITY, -INFINITY};
    static const size_t ns[] = {1, 7, 16, 33, 65};
    const struct optimizer_kernels *k;
    struct ps_optimizer o = example(_i);
    struct test_rng r = {test_seed()};

    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++)
        for (size_t l = 0; l < ARRAY_LEN(ns); l++) {
            struct state from = state_new(ns[l]), to = state_new(ns[l]);
            float grad[65];

            start(&o, &from, &r);
            random_grad(&r, ns[l], grad);
            for (size_t at = 0; at < ns[l]; at++)
                for (size_t p = 0; p < ARRAY_LEN(poison); p++) {
                    float before = grad[at];

                    grad[at] = poison[p];
                    if (update(k, &o, 1, 1, grad, &from, &to, p % 2 == 0) || k->finite(ns[l], grad))
                        ck_abort_msg("%s: %f at %zu of %zu passed", k->name, (double)poison[p], at, ns[l]);
                    grad[at] = before;
                }
            ck_assert(update(k, &o, 1, 1, grad, &from, &to, false) && k->finite(ns[l], grad));
            check_fences(&to);
            free(from.memory);
            free(to.memory);
        }
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
            ck_assert(k->finite(n, x));
        }
}
END_TEST

/* Only the gradient as sent counts: what is wrong in the weights or next to the gradient is not this push's fault. */
START_TEST(neighbours_of_the_gradient_are_not_looked_at)
{
    const struct optimizer_kernels *k;
    struct ps_optimizer o = example(PS_SGD);
    struct state s = state_new(5);
    float grad[7] = {NAN, 1, 2, 3, 4, 5, INFINITY};

    for (size_t i = 0; (k = optimizer_kernels_at(i)) != NULL; i++) {
        s.arrays.weights[2] = NAN;
        ck_assert(k->finite(5, grad + 1));
        ck_assert(update(k, &o, 1, 1, grad + 1, &s, &s, false));
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
    struct ps_optimizer o = example(_i);
    struct state from = state_new(333), a = state_new(333), b = state_new(333);
    float grad[333];

    start(&o, &from, &r);
    random_grad(&r, 333, grad);
    ck_assert(
        optimizer_apply(&o, &(struct optimizer_when){.version = 5}, 0.5f, 333, grad, &from.arrays, &a.arrays, false));
    ck_assert(update(optimizer_kernels_choose(optimizer_isa()), &o, 5, 0.5f, grad, &from, &b, false));
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

START_TEST(start_leaves_weights_alone)
{
    struct ps_optimizer o = example(_i);
    struct state s = state_new(20);

    for (size_t i = 0; i < 20; i++)
        s.arrays.weights[i] = (float)i;
    optimizer_start(&o, 20, &s.arrays);
    for (size_t i = 0; i < 20; i++) {
        ck_assert(s.arrays.weights[i] == (float)i);
        for (uint32_t k = 0; k < optimizer_slots(&o); k++)
            ck_assert(s.arrays.slot[k][i] == (k == 0 && (o.kind == PS_ADAGRAD || o.kind == PS_FTRL) ? 0.1f : 0));
    }
    check_fences(&s);
    free(s.memory);
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

START_TEST(names_and_defaults_are_those_of_the_large_frameworks)
{
    static const struct {
        const char *name;
        struct ps_optimizer o;
        uint32_t slots;
    } rows[] = {
        {"sgd", {.learning_rate = 0.01}, 0},
        {"momentum", {.learning_rate = 0.01, .momentum = 0.9}, 1},
        {"nesterov", {.learning_rate = 0.01, .momentum = 0.9}, 1},
        {"adagrad", {.learning_rate = 0.01, .initial_accumulator = 0.1, .epsilon = 1e-7}, 1},
        {"adam", {.learning_rate = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-7}, 2},
        {"rmsprop", {.learning_rate = 0.001, .rho = 0.9, .epsilon = 1e-7}, 1},
        {"adamw", {.learning_rate = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-7, .weight_decay = 0.004}, 2},
        {"adadelta", {.learning_rate = 0.001, .rho = 0.95, .epsilon = 1e-7}, 2},
        {"nadam", {.learning_rate = 0.001, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-7}, 2},
        {"ftrl", {.learning_rate = 0.001, .learning_rate_power = -0.5, .initial_accumulator = 0.1}, 2},
    };

    ck_assert_uint_eq(ARRAY_LEN(rows), PS_OPTIMIZER_KINDS);
    for (int i = 0; i < PS_OPTIMIZER_KINDS; i++) {
        struct ps_optimizer found = by_name(rows[i].name), expected = rows[i].o;

        expected.kind = (enum ps_optimizer_kind)i;
        ck_assert_str_eq(ps_optimizer_name((enum ps_optimizer_kind)i), rows[i].name);
        ck_assert_uint_eq(optimizer_slots(&found), rows[i].slots);
        ck_assert_uint_gt(strlen(optimizer_row((enum ps_optimizer_kind)i)->source), 10);
        ck_assert_msg(optimizer_equal(&found, &expected), "%s", rows[i].name);
        ck_assert_int_eq(optimizer_check(&found, NULL), PS_OK);
    }
    ck_assert_ptr_null(ps_optimizer_name((enum ps_optimizer_kind) - 1));
    ck_assert_ptr_null(ps_optimizer_name(PS_OPTIMIZER_KINDS));
    ck_assert_ptr_null(optimizer_row(PS_OPTIMIZER_KINDS));
}
END_TEST

START_TEST(check_refuses_what_is_out_of_range)
{
    static const struct {
        const char *base;
        struct ps_optimizer o; /* what is not 0 here replaces what base has; -0.0 stands for 0 */
        const char *text;
    } bad[] = {
        {"sgd", {.learning_rate = -1}, "optimizer sgd: learning_rate must be at least 0 and finite, not -1"},
        {"sgd", {.learning_rate = NAN}, "learning_rate must be at least 0"},
        {"sgd", {.learning_rate = INFINITY}, "learning_rate must be at least 0"},
        {"sgd", {.learning_rate = 1e39}, "learning_rate must be at least 0"},
        {"sgd", {.l2 = -1}, "optimizer sgd: l2 must be at least 0 and finite, not -1"},
        {"momentum", {.weight_decay = NAN}, "weight_decay must be at least 0"},
        {"momentum", {.momentum = 1}, "optimizer momentum: momentum must be at least 0 and less than 1, not 1"},
        {"momentum", {.momentum = -0.1}, "momentum must be"},
        {"nesterov", {.momentum = NAN}, "momentum must be"},
        {"adagrad", {.epsilon = -0.0}, "optimizer adagrad: epsilon must be greater than 0 and finite, not"},
        {"adagrad", {.epsilon = 1e-60}, "epsilon must be"},
        {"adagrad", {.initial_accumulator = -1}, "initial_accumulator must be at least 0"},
        {"adagrad", {.initial_accumulator = NAN}, "initial_accumulator must be at least 0"},
        {"adam", {.beta1 = 1}, "beta1 must be at least 0 and less than 1"},
        {"adam", {.beta2 = 1.5}, "beta2 must be at least 0 and less than 1"},
        {"adam", {.epsilon = -1}, "epsilon must be"},
        {"rmsprop", {.rho = 1}, "optimizer rmsprop: rho must be at least 0 and less than 1, not 1"},
        {"rmsprop", {.momentum = 2}, "momentum must be"},
        {"adamw", {.weight_decay = -1}, "optimizer adamw: weight_decay must be at least 0 and finite, not -1"},
        {"adadelta", {.rho = -1}, "rho must be"},
        {"nadam", {.beta2 = NAN}, "beta2 must be"},
        {"ftrl", {.learning_rate = -0.0}, "optimizer ftrl: learning_rate must be greater than 0 and finite, not"},
        {"ftrl", {.learning_rate_power = 0.5}, "learning_rate_power must be at most 0 and finite, not 0.5"},
        {"ftrl", {.l1 = -1}, "l1 must be"},
        {"ftrl", {.beta = NAN}, "beta must be"},
        {"ftrl", {.initial_accumulator = -0.0}, "one of initial_accumulator, beta and l2 must be above 0"},
        {"ftrl", {.schedule = {.warmup_steps = 1}}, "optimizer ftrl takes no schedule"},
        {"sgd", {.schedule = {.kind = PS_SCHEDULE_COSINE}}, "schedule: steps must be at least 1"},
        {"sgd", {.clip = {.kind = PS_CLIP_VALUE}}, "clip: limit must be greater than 0 and finite, not 0"},
        {"sgd", {.clip = {.kind = PS_CLIP_GIVEN_NORM, .limit = INFINITY}}, "clip: limit must be"},
        {"sgd", {.clip = {.kind = (enum ps_clip_kind)4, .limit = 1}}, "clip 4 is not known"},
    };
    struct ps_optimizer o = by_name("adam"), unknown = {.kind = (enum ps_optimizer_kind)77};
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct ps_optimizer changed = by_name(bad[i].base), change = bad[i].o;

        for (enum optimizer_parameter p = 0; p < OPTIMIZER_PARAMETERS; p++)
            if (*optimizer_parameter(&change, p) != 0 || signbit(*optimizer_parameter(&change, p)))
                *optimizer_parameter(&changed, p) = *optimizer_parameter(&change, p);
        changed.schedule = change.schedule;
        changed.clip = change.clip;
        e.text[0] = '\0';
        ck_assert_msg(optimizer_check(&changed, &e) == PS_ERR_INVALID, "bad[%zu] passed", i);
        ck_assert_msg(strstr(e.text, bad[i].text) != NULL, "bad[%zu]: %s", i, e.text);
    }
    ck_assert_int_eq(optimizer_check(&unknown, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "optimizer 77 is not known");
    o.beta1 = o.beta2 = 0; /* allowed: no memory */
    o.learning_rate = 0;   /* allowed: frozen */
    ck_assert_int_eq(optimizer_check(&o, NULL), PS_OK);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("optimizer");
    TCase *t = tcase_create("optimizer");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, sgd_by_hand);
    tcase_add_test(t, momentum_by_hand);
    tcase_add_test(t, nesterov_by_hand);
    tcase_add_test(t, adagrad_by_hand);
    tcase_add_test(t, adam_by_hand);
    tcase_add_test(t, adam_starts_with_a_full_step);
    tcase_add_test(t, adam_correction_fades_over_long_runs);
    tcase_add_loop_test(t, every_isa_agrees_with_a_double_precision_reference, 0, ARRAY_LEN(examples));
    tcase_add_loop_test(t, isas_and_ways_give_the_same_bits, 0, ARRAY_LEN(examples));
    tcase_add_test(t, three_updates_are_those_of_keras);
    tcase_add_test(t, what_comes_before_the_rule_by_hand);
    tcase_add_test(t, norm_has_the_same_bits_everywhere);
    tcase_add_test(t, block_norm_is_that_of_the_scaled_gradient);
    tcase_add_test(t, rate_follows_its_schedule_by_version_or_clock);
    tcase_add_test(t, nadam_knows_its_momenta_at_any_version);
    tcase_add_test(t, ftrl_makes_weights_exactly_0);
    tcase_add_test(t, rmsprop_keeps_a_velocity_only_when_it_has_momentum);
    tcase_add_test(t, products_and_sums_are_not_fused);
    tcase_add_loop_test(t, nan_and_inf_are_found_in_every_lane, 0, ARRAY_LEN(examples));
    tcase_add_test(t, large_and_tiny_numbers_are_finite);
    tcase_add_test(t, neighbours_of_the_gradient_are_not_looked_at);
    tcase_add_test(t, sum_adds_in_order_with_the_same_bits);
    tcase_add_loop_test(t, apply_is_prepare_and_the_chosen_kernel, 0, ARRAY_LEN(examples));
    tcase_add_loop_test(t, start_leaves_weights_alone, 0, ARRAY_LEN(examples));
    tcase_add_test(t, isa_is_chosen_by_name_or_else_the_widest);
    tcase_add_test(t, names_and_defaults_are_those_of_the_large_frameworks);
    tcase_add_test(t, check_refuses_what_is_out_of_range);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
