/* An optimizer over plain arrays: the bits of a shard's update for every optimizer, size and clip, weights wherever
 * they lie; nothing changes when a step is refused. */
#include <math.h>

#include "client/core/shards/local_optimizer.h"
#include "common/core/optimizer/optimizer.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/optimizer_kit.h"

/* Either side of a block's capacity, for 0 to 3 slots, and several of the largest. */
static const size_t sizes[] = {1, 7, 64, 65, 1007, 1009, 16385, 131073, 600011};

static struct ps_optimizer
local_optimizer_parsed(const char *text)
{
    struct ps_optimizer o;

    ck_assert_int_eq(ps_optimizer_parse(text, &o, NULL), PS_OK);
    return o;
}

static void
local_optimizer_fill(struct test_rng *rng, size_t n, float *x)
{
    for (size_t i = 0; i < n; i++)
        x[i] = test_float(rng);
}

/* As shards do: each block has arrays of its own and is updated out of place. */
static void
shards_update(const struct ps_optimizer *o, const struct optimizer_when *when, float scale,
              struct optimizer_kit_state *s, const float *grad)
{
    struct layout cut;

    layout_init(&cut, s->n, optimizer_slots(o));
    for (uint64_t i = 0; i < cut.blocks; i++) {
        struct layout_block b = layout_block(&cut, i);
        struct optimizer_kit_state from = state_new(b.len), to = state_new(b.len);

        for (uint32_t k = 0; k <= cut.slots; k++)
            memcpy(state_array(&from, k), state_array(s, k) + b.first, b.len * sizeof(float));
        ck_assert(optimizer_apply(o, when, scale, b.len, grad + b.first, &from.arrays, &to.arrays, true));
        for (uint32_t k = 0; k <= cut.slots; k++)
            memcpy(state_array(s, k) + b.first, state_array(&to, k), b.len * sizeof(float));
        free(from.memory);
        free(to.memory);
    }
}

/* Three steps of n elements with weights `off` floats behind a boundary. */
static void
check_same_bits(const struct ps_optimizer *o, size_t n, size_t off)
{
    struct test_rng rng = {n * 31 + o->kind};
    struct local_optimizer l, *list[] = {&l};
    struct optimizer_kit_state want = state_new(n);
    float *memory = aligned_alloc(LAYOUT_ALIGN, (array_floats(n) + 64) * sizeof(float)), *weights = memory + 32 + off;
    float *grad = malloc((n + 1) * sizeof(float));

    ck_assert(memory != NULL && grad != NULL);
    ck_assert_int_eq(local_optimizer_init(&l, o, n, NULL), PS_OK);
    local_optimizer_fill(&rng, n + 64, memory);
    memory[31 + off] = memory[32 + off + n] = -12345;
    memcpy(want.arrays.weights, weights, n * sizeof(float));
    optimizer_start(o, n, &want.arrays);
    for (uint64_t t = 0; t < 3; t++) {
        struct local_step step = {.clock = 5 * t, .scale = t == 1 ? 0.25f : 1};

        local_optimizer_fill(&rng, n, grad + (t == 2));
        ck_assert_int_eq(local_optimizer_step(1, list, &step, &weights, (const float *[]){grad + (t == 2)}, NULL),
                         PS_OK);
        shards_update(o, &(struct optimizer_when){t + 1, 5 * t}, step.scale, &want, grad + (t == 2));
    }
    ck_assert_uint_eq(l.version, 3);
    ck_assert_mem_eq(weights, want.arrays.weights, n * sizeof(float));
    for (uint32_t k = 0; k < l.slots; k++)
        ck_assert_mem_eq(l.slot[k], want.arrays.slot[k], n * sizeof(float));
    ck_assert(memory[31 + off] == -12345 && memory[32 + off + n] == -12345);
    check_fences(&want);
    local_optimizer_finish(&l);
    free(want.memory);
    free(memory);
    free(grad);
}

START_TEST(every_optimizer_has_the_bits_of_a_shard)
{
    struct ps_optimizer o = by_name(ps_optimizer_name(_i));

    for (size_t s = 0; s < ARRAY_LEN(sizes); s++)
        check_same_bits(&o, sizes[s], s % 2 == 0 ? 0 : s);
}
END_TEST

static const char *const texts[] = {
    "sgd:schedule=linear,warmup=3,steps=20,floor=0,by=clock",
    "adam:schedule=cosine,warmup=2,steps=7,floor=1e-5,by=version",
    "momentum:clip=block_norm,limit=0.5",
    "nesterov:learning_rate=0.7,clip=value,limit=0.25,l2=0.01,weight_decay=0.1",
    "rmsprop:momentum=0.5,clip=block_norm,limit=2",
    "adagrad:initial_accumulator=0.25",
};

START_TEST(schedules_penalties_and_block_norms_are_those_of_a_shard)
{
    struct ps_optimizer o = local_optimizer_parsed(texts[_i]);

    for (size_t s = 0; s < ARRAY_LEN(sizes); s++)
        for (size_t off = 0; off < 2; off++)
            check_same_bits(&o, sizes[s], off);
}
END_TEST

/* ---- Several arrays ---- */

struct local_optimizer_pair {
    struct local_optimizer l[2], *list[2];
    float a[3], b[2], grad_a[3], grad_b[2], *weights[2];
    const float *grads[2];
};

static void
pair_start(struct local_optimizer_pair *p, const char *first, const char *second)
{
    struct ps_optimizer o[2] = {local_optimizer_parsed(first), local_optimizer_parsed(second)};

    *p = (struct local_optimizer_pair){.a = {1, 2, 3}, .b = {4, 5}, .grad_a = {3, 0, 0}, .grad_b = {0, 4}};
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(local_optimizer_init(&p->l[i], &o[i], i == 0 ? 3 : 2, NULL), PS_OK);
        p->list[i] = &p->l[i];
    }
    p->weights[0] = p->a;
    p->weights[1] = p->b;
    p->grads[0] = p->grad_a;
    p->grads[1] = p->grad_b;
}

static void
pair_end(struct local_optimizer_pair *p)
{
    for (size_t i = 0; i < 2; i++)
        local_optimizer_finish(&p->l[i]);
}

/* Norm 5, limit 2.5: halved; with a scale of 2, norm 10: each gradient ends the same. */
START_TEST(the_norm_is_that_of_all_gradients_of_the_step)
{
    struct local_step step = {.scale = _i == 0 ? 1 : 2, .norm = _i == 2 ? 20 : 0};
    float halved = _i == 2 ? 0.25f : 0.5f;
    struct local_optimizer_pair p;

    pair_start(&p, "sgd:learning_rate=1,clip=given_norm,limit=2.5", "sgd:learning_rate=1,clip=given_norm,limit=2.5");
    ck_assert_int_eq(local_optimizer_step(2, p.list, &step, p.weights, p.grads, NULL), PS_OK);
    ck_assert_float_eq(p.a[0], 1 - 3 * halved);
    ck_assert_float_eq(p.a[1], 2);
    ck_assert_float_eq(p.b[1], 5 - 4 * halved);
    pair_end(&p);
}
END_TEST

START_TEST(one_that_does_not_clip_is_left_alone_by_the_norm)
{
    struct local_step step = {.scale = 1};
    struct local_optimizer_pair p;

    pair_start(&p, "sgd:learning_rate=1", "sgd:learning_rate=1,clip=given_norm,limit=2.5");
    ck_assert_int_eq(local_optimizer_step(2, p.list, &step, p.weights, p.grads, NULL), PS_OK);
    ck_assert_float_eq(p.a[0], -2);
    ck_assert_float_eq(p.b[1], 3);
    pair_end(&p);
}
END_TEST

START_TEST(a_gradient_that_is_not_finite_changes_no_array)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct local_step step = {.scale = 1};
    struct ps_error error;
    struct local_optimizer_pair p;

    pair_start(&p, "adam", "momentum");
    ck_assert_int_eq(local_optimizer_step(2, p.list, &step, p.weights, p.grads, NULL), PS_OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct local_optimizer_pair before = p;
        float slots[2] = {p.l[0].slot[1][0], p.l[1].slot[0][1]};

        p.grad_b[1] = bad[i];
        ck_assert_int_eq(local_optimizer_step(2, p.list, &step, p.weights, p.grads, &error), PS_ERR_NONFINITE);
        ck_assert_msg(strstr(error.text, "array 1") != NULL && strstr(error.text, "element 1") != NULL, "%s",
                      error.text);
        ck_assert_mem_eq(p.a, before.a, sizeof p.a);
        ck_assert_mem_eq(p.b, before.b, sizeof p.b);
        ck_assert(p.l[0].version == 1 && p.l[1].version == 1);
        ck_assert(p.l[0].slot[1][0] == slots[0] && p.l[1].slot[0][1] == slots[1]);
    }
    p.l[1].allow_nonfinite = true;
    ck_assert_int_eq(local_optimizer_step(2, p.list, &step, p.weights, p.grads, NULL), PS_OK);
    ck_assert(!isfinite(p.b[1]) && p.l[0].version == 2);
    pair_end(&p);
}
END_TEST

/* The square of 1e20 is Inf in float32; 3e38 * 1000 is as well. */
START_TEST(a_finite_gradient_that_overflows_changes_no_array)
{
    static const char *const second[] = {"adam", "adagrad", "ftrl", "sgd:learning_rate=1000"};
    struct local_step step = {.scale = 1};
    struct local_optimizer_pair p, before;
    struct ps_error error;
    float slot;

    pair_start(&p, "adam", second[_i]);
    ck_assert_int_eq(local_optimizer_step(2, p.list, &step, p.weights, p.grads, NULL), PS_OK);
    before = p;
    slot = p.l[0].slot[1][0];
    p.grad_b[1] = _i == 3 ? 3e38f : 1e20f;
    ck_assert_int_eq(local_optimizer_step(2, p.list, &step, p.weights, p.grads, &error), PS_ERR_NONFINITE);
    ck_assert_msg(strstr(error.text, "array 1") != NULL && strstr(error.text, "overflow") != NULL, "%s", error.text);
    ck_assert_mem_eq(p.a, before.a, sizeof p.a);
    ck_assert_mem_eq(p.b, before.b, sizeof p.b);
    ck_assert(p.l[0].version == 1 && p.l[1].version == 1 && p.l[0].slot[1][0] == slot);
    p.grad_b[1] = 1;
    ck_assert_int_eq(local_optimizer_step(2, p.list, &step, p.weights, p.grads, NULL), PS_OK);
    ck_assert(isfinite(p.b[1]));
    pair_end(&p);
}
END_TEST

START_TEST(a_norm_that_is_not_finite_changes_no_array)
{
    struct local_step step = {.scale = 1, .norm = _i == 0 ? INFINITY : 0};
    struct local_optimizer_pair p;

    pair_start(&p, "sgd", "sgd:clip=given_norm,limit=1");
    p.l[1].allow_nonfinite = true;
    if (_i == 1)
        p.grad_b[0] = NAN;
    ck_assert_int_eq(local_optimizer_step(2, p.list, &step, p.weights, p.grads, NULL), PS_ERR_NONFINITE);
    ck_assert(p.a[0] == 1 && p.b[0] == 4 && p.l[0].version == 0);
    pair_end(&p);
}
END_TEST

/* ---- Life ---- */

START_TEST(after_a_reset_it_goes_as_from_the_start)
{
    struct local_step step = {.scale = 1};
    struct local_optimizer_pair p, fresh;

    pair_start(&p, "adagrad:initial_accumulator=0.5", "ftrl");
    pair_start(&fresh, "adagrad:initial_accumulator=0.5", "ftrl");
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(local_optimizer_step(2, p.list, &step, p.weights, p.grads, NULL), PS_OK);
    for (size_t i = 0; i < 2; i++)
        local_optimizer_reset(&p.l[i]);
    memcpy(p.a, fresh.a, sizeof p.a);
    memcpy(p.b, fresh.b, sizeof p.b);
    ck_assert_int_eq(local_optimizer_step(2, p.list, &step, p.weights, p.grads, NULL), PS_OK);
    ck_assert_int_eq(local_optimizer_step(2, fresh.list, &step, fresh.weights, fresh.grads, NULL), PS_OK);
    ck_assert_mem_eq(p.a, fresh.a, sizeof p.a);
    ck_assert_mem_eq(p.b, fresh.b, sizeof p.b);
    ck_assert_uint_eq(p.l[0].version, 1);
    pair_end(&p);
    pair_end(&fresh);
}
END_TEST

START_TEST(what_it_keeps_can_be_carried_to_another_worker)
{
    struct local_step step = {.clock = 1, .scale = 1};
    struct local_optimizer_pair p, other;

    pair_start(&p, "adam", "nadam");
    pair_start(&other, "adam", "nadam");
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(local_optimizer_step(2, p.list, &step, p.weights, p.grads, NULL), PS_OK);
    for (size_t i = 0; i < 2; i++) {
        other.l[i].version = p.l[i].version;
        memcpy(other.weights[i], p.weights[i], (3 - i) * sizeof(float));
        for (uint32_t k = 0; k < p.l[i].slots; k++)
            memcpy(other.l[i].slot[k], p.l[i].slot[k], (3 - i) * sizeof(float));
    }
    ck_assert_int_eq(local_optimizer_step(2, p.list, &step, p.weights, p.grads, NULL), PS_OK);
    ck_assert_int_eq(local_optimizer_step(2, other.list, &step, other.weights, other.grads, NULL), PS_OK);
    ck_assert_mem_eq(p.a, other.a, sizeof p.a);
    ck_assert_mem_eq(p.b, other.b, sizeof p.b);
    pair_end(&p);
    pair_end(&other);
}
END_TEST

START_TEST(what_a_shard_would_refuse_is_refused)
{
    struct ps_optimizer o = by_name("adam");
    struct local_optimizer l;
    struct ps_error error;

    ck_assert_int_eq(local_optimizer_init(&l, &o, 0, &error), PS_ERR_INVALID);
    ck_assert_int_eq(local_optimizer_init(&l, &o, UINT64_MAX, &error), PS_ERR_INVALID);
    o.beta1 = 1;
    ck_assert_int_eq(local_optimizer_init(&l, &o, 1, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "beta1"));
    local_optimizer_finish(&l);
    local_optimizer_finish(NULL);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("local_optimizer");
    TCase *tc = tcase_create("local_optimizer");

    tcase_add_loop_test(tc, every_optimizer_has_the_bits_of_a_shard, 0, PS_OPTIMIZER_KINDS);
    tcase_add_loop_test(tc, schedules_penalties_and_block_norms_are_those_of_a_shard, 0, ARRAY_LEN(texts));
    tcase_add_loop_test(tc, the_norm_is_that_of_all_gradients_of_the_step, 0, 3);
    tcase_add_test(tc, one_that_does_not_clip_is_left_alone_by_the_norm);
    tcase_add_test(tc, a_gradient_that_is_not_finite_changes_no_array);
    tcase_add_loop_test(tc, a_finite_gradient_that_overflows_changes_no_array, 0, 4);
    tcase_add_loop_test(tc, a_norm_that_is_not_finite_changes_no_array, 0, 2);
    tcase_add_test(tc, after_a_reset_it_goes_as_from_the_start);
    tcase_add_test(tc, what_it_keeps_can_be_carried_to_another_worker);
    tcase_add_test(tc, what_a_shard_would_refuse_is_refused);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
