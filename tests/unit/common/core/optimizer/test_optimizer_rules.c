/* Each optimizer's rule and what comes before it: by hand, beside a framework's figures, at their corners; defaults and
 * ranges. */
#include <float.h>

#include "tests/unit/kits/optimizer_kit.h"

static void
apply_one(const struct ps_optimizer *o, uint64_t step, float g, struct optimizer_kit_state *s)
{
    ck_assert(optimizer_apply(o, &(struct optimizer_when){.version = step}, 1, 1, &g, &s->arrays, &s->arrays, false));
}

START_TEST(sgd_by_hand)
{
    struct ps_optimizer o = {.kind = PS_SGD, .learning_rate = 0.5};
    struct optimizer_kit_state s = state_new(1);
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
    struct optimizer_kit_state s = state_new(1);

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
    struct optimizer_kit_state s = state_new(1);

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
    struct optimizer_kit_state s = state_new(1);

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
    struct optimizer_kit_state s = state_new(1);

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
        struct optimizer_kit_state s = state_new(1);

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
        struct optimizer_kit_state s = state_new(1);
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
        struct optimizer_kit_state s = state_new(3);
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
    struct optimizer_kit_state s = state_new(1);
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

/* (3, 4) has norm 5; scaled by 2 it is 10 and is brought to 2.5: (1.5, 2). */
START_TEST(block_norm_is_that_of_the_scaled_gradient)
{
    struct ps_optimizer o = {.learning_rate = 1, .clip = {PS_CLIP_BLOCK_NORM, 2.5}};
    struct optimizer_when when = {.version = 1};
    struct optimizer_kit_state s = state_new(2);
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
    struct optimizer_kit_state s = state_new(1);
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
        double a[1 + LAYOUT_SLOTS_MAX] = {0, 0, 1, 0};
        struct optimizer_kit_state s = state_new(1);

        s.arrays.weights[0] = s.arrays.slot[0][0] = 0;
        s.arrays.slot[1][0] = 1;
        apply_one(&o, versions[i], 2, &s);
        optimizer_reference(&o, (double)versions[i], 1, 2, a);
        ck_assert_double_eq_tol(s.arrays.weights[0], a[0], fabs(a[0]) * 4e-7);
        free(s.memory);
    }
}
END_TEST

START_TEST(ftrl_makes_weights_exactly_0)
{
    struct ps_optimizer o;
    struct optimizer_kit_state s = state_new(2);
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

START_TEST(start_leaves_weights_alone)
{
    struct ps_optimizer o = by_name(ps_optimizer_name((enum ps_optimizer_kind)_i));
    struct optimizer_kit_state s = state_new(20);

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
        {"ftrl", {.initial_accumulator = 1e-60}, "one of initial_accumulator, beta and l2 must be above 0"},
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
    Suite *s = suite_create("optimizer_rules");
    TCase *t = tcase_create("optimizer_rules");

    tcase_set_timeout(t, 60);
    tcase_add_test(t, sgd_by_hand);
    tcase_add_test(t, momentum_by_hand);
    tcase_add_test(t, nesterov_by_hand);
    tcase_add_test(t, adagrad_by_hand);
    tcase_add_test(t, adam_by_hand);
    tcase_add_test(t, adam_starts_with_a_full_step);
    tcase_add_test(t, adam_correction_fades_over_long_runs);
    tcase_add_test(t, three_updates_are_those_of_keras);
    tcase_add_test(t, what_comes_before_the_rule_by_hand);
    tcase_add_test(t, block_norm_is_that_of_the_scaled_gradient);
    tcase_add_test(t, rate_follows_its_schedule_by_version_or_clock);
    tcase_add_test(t, nadam_knows_its_momenta_at_any_version);
    tcase_add_test(t, ftrl_makes_weights_exactly_0);
    tcase_add_test(t, rmsprop_keeps_a_velocity_only_when_it_has_momentum);
    tcase_add_loop_test(t, start_leaves_weights_alone, 0, PS_OPTIMIZER_KINDS);
    tcase_add_test(t, names_and_defaults_are_those_of_the_large_frameworks);
    tcase_add_test(t, check_refuses_what_is_out_of_range);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
