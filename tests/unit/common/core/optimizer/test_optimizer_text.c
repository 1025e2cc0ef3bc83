/* Optimizers as text: every key, there and back, and each way to write it wrongly. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "common/core/optimizer/optimizer.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/comma_locale.h"

START_TEST(all_keys_are_read)
{
    struct ps_optimizer o, expected;
    struct ps_error e = {0};

    ck_assert_msg(ps_optimizer_parse("adam:learning_rate=3e-4,beta1=0.8,schedule=cosine,warmup=500,steps=20000,"
                                     "floor=1e-5,by=clock,clip=given_norm,limit=1",
                                     &o, &e) == PS_OK,
                  "%s", e.text);
    ck_assert_int_eq(ps_optimizer_by_name("adam", &expected, NULL), PS_OK);
    expected.learning_rate = 3e-4;
    expected.beta1 = 0.8;
    expected.schedule = (struct ps_schedule){PS_SCHEDULE_COSINE, PS_BY_CLOCK, 500, 20000, 0, 1e-5, 0};
    expected.clip = (struct ps_clip){PS_CLIP_GIVEN_NORM, 1};
    ck_assert(optimizer_equal(&o, &expected));
    ck_assert_int_eq(ps_optimizer_parse("sgd:schedule=exponential,factor=0.9,steps=7", &o, NULL), PS_OK);
    ck_assert(o.kind == PS_SGD && o.learning_rate == 0.01 && o.schedule.factor == 0.9 && o.schedule.steps == 7);
    ck_assert_int_eq(ps_optimizer_parse("ftrl", &o, NULL), PS_OK);
    ck_assert(o.kind == PS_FTRL && o.learning_rate_power == -0.5);
}
END_TEST

/* The learning rate always, the rest where it is not the default. */
START_TEST(text_says_what_differs)
{
    char text[PS_OPTIMIZER_TEXT_MAX];
    struct ps_optimizer o;

    ck_assert_int_eq(ps_optimizer_by_name("adamw", &o, NULL), PS_OK);
    ps_optimizer_describe(&o, text, sizeof text);
    ck_assert_str_eq(text, "adamw:learning_rate=0.001");
    o.weight_decay = 0;
    o.rho = 0.5; /* not AdamW's */
    o.schedule = (struct ps_schedule){PS_SCHEDULE_STEP, PS_BY_CLOCK, 10, 100, 0.1 + 0.2, 0, 7000};
    o.clip = (struct ps_clip){PS_CLIP_BLOCK_NORM, 5};
    ps_optimizer_describe(&o, text, sizeof text);
    ck_assert_str_eq(text, "adamw:learning_rate=0.001,weight_decay=0,schedule=step,warmup=10,steps=100,"
                           "factor=0.30000000000000004,by=clock,begin=7000,clip=block_norm,limit=5");
    ps_optimizer_describe(&o, text, 12);
    ck_assert_str_eq(text, "adamw:learn");
    o.kind = PS_OPTIMIZER_KINDS;
    ps_optimizer_describe(&o, text, sizeof text);
    ck_assert_str_eq(text, "unknown optimizer");
}
END_TEST

static double
optimizer_text_draw(struct test_rng *r, double low, double high)
{
    return low + (high - low) * fabs((double)test_float(r));
}

/* Any optimizer within its ranges is read back as the same. */
START_TEST(text_reads_back_as_the_same)
{
    struct test_rng r = {test_seed()};

    for (int i = 0; i < 2000; i++) {
        char text[PS_OPTIMIZER_TEXT_MAX];
        struct ps_optimizer o, back;
        struct ps_error e = {0};

        ck_assert_int_eq(ps_optimizer_by_name(ps_optimizer_name((enum ps_optimizer_kind)_i), &o, NULL), PS_OK);
        for (enum optimizer_parameter p = 0; p < OPTIMIZER_PARAMETERS; p++)
            if (test_below(&r, 2) == 0)
                *optimizer_parameter(&o, p) = p == PARAMETER_learning_rate_power ? -optimizer_text_draw(&r, 0, 1)
                                                                                 : optimizer_text_draw(&r, 1e-9, 1);
        if (_i != PS_FTRL)
            o.schedule = (struct ps_schedule){(enum ps_schedule_kind)test_below(&r, 5),
                                              (enum ps_schedule_by)test_below(&r, 2),
                                              test_below(&r, 3),
                                              UINT64_MAX - test_below(&r, 3),
                                              optimizer_text_draw(&r, 1e-9, 1),
                                              o.learning_rate * optimizer_text_draw(&r, 0, 1),
                                              UINT64_MAX - test_below(&r, 3)};
        o.clip = (struct ps_clip){(enum ps_clip_kind)test_below(&r, 4), optimizer_text_draw(&r, 1e-9, 9)};
        ps_optimizer_describe(&o, text, sizeof text);
        ck_assert_uint_lt(strlen(text), sizeof text - 1); /* and not cut off */
        ck_assert_msg(ps_optimizer_parse(text, &back, &e) == PS_OK, "%s: %s", text, e.text);
        ck_assert_msg(optimizer_equal(&o, &back), "%s", text);
    }
}
END_TEST

START_TEST(mistakes_are_named_and_change_nothing)
{
    static const struct {
        const char *text, *sentence;
    } bad[] = {
        {NULL, "an optimizer is written NAME:key=value"},
        {"",
         "optimizer \"\" is not one of sgd, momentum, nesterov, adagrad, adam, rmsprop, adamw, adadelta, nadam, ftrl"},
        {"adma", "optimizer \"adma\" is not one of sgd"},
        {"adam:", "something is missing at the end: key=value, or no colon or comma"},
        {"adam:beta1=0.5,,beta2=0.5", "something is missing before \",beta2=0.5\": key=value"},
        {"adam:beta1=0.5,beta2=0.5,beta1=0.6", "beta1 is given twice"},
        {"adam:clip=value:1,limit=2", "limit is given twice"},
        {"adam:limit=1", "limit has no effect without clip=value, block_norm or given_norm"},
        {"adam:clip=none,limit=1", "limit has no effect without"},
        {"adam:by=clock", "by has no effect without a schedule or a warmup"},
        {"adam:begin=7", "begin has no effect without a schedule or a warmup"},
        {"adam:warmup=5,begin=soon", "begin: \"soon\" is neither a whole number nor now"},
        {"adam:warmup=5,begin=-1", "begin: \"-1\" is neither a whole number nor now"},
        {"adam:warmup=5,steps=5", "steps has no effect without schedule=step, exponential, cosine or linear"},
        {"adam:floor=0.1", "floor has no effect without schedule="},
        {"adam:schedule=linear,steps=5,factor=0.5", "factor has no effect without schedule=step or exponential"},
        {"adam:beta1", "\"beta1\" is not key=value"},
        {"adam:beta1=", "beta1: \"\" is not a number"},
        {"adam:beta1=0.5,", "something is missing at the end"},
        {"adam:1", "\"1\" is not key=value"},
        {"adam:beta1=x", "beta1: \"x\" is not a number"},
        {"adam:beta1=0.5x", "beta1: \"0.5x\" is not a number"},
        {"adam:beta1=1", "optimizer adam: beta1 must be at least 0 and less than 1, not 1"},
        {"adam:beta1=nan", "beta1: \"nan\" is not a number"},
        {"adam:beta1=1e999", "optimizer adam: beta1 must be"},
        {"adam:rho=0.5", "optimizer adam has no parameter \"rho\"; it has learning_rate, beta1, beta2, epsilon, l2, "
                         "weight_decay"},
        {"adam:learning_rat=1", "weight_decay; did you mean learning_rate?"},
        {"adma", "ftrl; did you mean adam?"},
        {"adam:schedule=spiral", "schedule \"spiral\" is not one of constant, step, exponential, cosine, linear"},
        {"adam:schedule=cosine", "schedule: steps must be at least 1"},
        {"adam:schedule=cosine,steps=0", "steps: \"0\" is not a whole number from 1 to 18446744073709551615"},
        {"adam:warmpu=5", "; did you mean warmup?"},
        {"adam:schedul=cosine", "; did you mean schedule?"},
        {"adam:by=luck", "by \"luck\" is not one of version, clock"},
        {"adam:warmup=-1", "warmup: \"-1\" is not a whole number"},
        {"adam:steps=1e3", "steps: \"1e3\" is not a whole number"},
        {"adam:steps=99999999999999999999",
         "steps: \"99999999999999999999\" is not a whole number from 1 to 18446744073709551615"},
        {"adam:warmup=99999999999999999999", "warmup: \"99999999999999999999\" is not a whole number from 0 to"},
        {"adam:warmup=5,begin=99999999999999999999", "nor now, and a whole number is at most 18446744073709551615"},
        {"adam:clip=hair", "clip \"hair\" is not one of none, value, block_norm, given_norm"},
        {"adam:clip=value", "clip: limit must be greater than 0"},
        {"ftrl:schedule=linear,steps=5", "optimizer ftrl takes no schedule"},
        {"a-name-that-is-far-longer-than-any-name-of-an-optimizer-could-ever-become", "an optimizer is written"},
    };
    struct ps_optimizer o = {.kind = PS_ADAM, .momentum = 42};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct ps_error e = {0};

        ck_assert_int_eq(ps_optimizer_parse(bad[i].text, &o, &e), PS_ERR_INVALID);
        ck_assert_msg(strstr(e.text, bad[i].sentence) != NULL, "%s: %s", bad[i].text, e.text);
        ck_assert(o.kind == PS_ADAM && o.momentum == 42);
    }
    ck_assert_int_eq(ps_optimizer_by_name(NULL, &o, NULL), PS_ERR_INVALID);
    ck_assert_int_eq(ps_optimizer_by_name("sgd", NULL, NULL), PS_ERR_INVALID);
}
END_TEST

START_TEST(schedules_and_clips_are_read_alone)
{
    struct ps_schedule s = {.steps = 1};
    struct ps_clip c = {.limit = 1};
    struct ps_error e;

    ck_assert_int_eq(ps_schedule_parse("linear:warmup=5,steps=20,floor=2", &s, NULL), PS_OK);
    ck_assert(s.kind == PS_SCHEDULE_LINEAR && s.warmup_steps == 5 && s.steps == 20 && s.floor == 2);
    ck_assert_int_eq(ps_schedule_parse("linear:warmup=5,steps=20,begin=1000", &s, NULL), PS_OK);
    ck_assert_uint_eq(s.begin, 1000);
    ck_assert_int_eq(ps_schedule_parse("linear:begin=now,steps=20", &s, NULL), PS_OK);
    ck_assert_uint_eq(s.begin, 0);
    ck_assert_int_eq(ps_schedule_parse("constant", &s, NULL), PS_OK);
    ck_assert(s.kind == PS_SCHEDULE_CONSTANT && s.steps == 0);
    ck_assert_int_eq(ps_clip_parse("value:limit=0.5", &c, NULL), PS_OK);
    ck_assert(c.kind == PS_CLIP_VALUE && c.limit == 0.5);
    ck_assert_int_eq(ps_schedule_parse("linear,steps=20,schedule=cosine", &s, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "schedule is given twice");
    ck_assert_int_eq(ps_schedule_parse("linear:beta1=5,steps=20", &s, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "\"beta1\" is not a key of a schedule: by, begin, warmup, steps, factor, floor");
    ck_assert_int_eq(ps_schedule_parse("linear:stpes=20", &s, &e), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(e.text, "warmup, steps, factor, floor; did you mean steps?"));
    ck_assert_int_eq(ps_clip_parse("value:limt=5", &c, &e), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(e.text, "clip: limit; did you mean limit?"));
    ck_assert_int_eq(ps_schedule_parse("linear:steps=20,floor=inf", &s, &e), PS_ERR_INVALID);
    ck_assert_int_eq(ps_clip_parse("value:steps=5", &c, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "\"steps\" is not a key of a clip: limit");
    ck_assert_int_eq(ps_clip_parse("value", &c, &e), PS_ERR_INVALID);
    ck_assert_int_eq(ps_clip_parse(NULL, &c, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "a clip is written NAME:key=value,key=value");
    ck_assert(s.kind == PS_SCHEDULE_CONSTANT && c.limit == 0.5);
}
END_TEST

/* Commas and colons, with and without the first key: what one place prints, every other takes. */
START_TEST(schedules_and_clips_are_written_alike_everywhere)
{
    static const char *const schedules[] = {"cosine:steps=10,warmup=5", "cosine,steps=10,warmup=5",
                                            "schedule=cosine,warmup=5,steps=10", "cosine:warmup=5:steps=10"};
    static const char *const clips[] = {"block_norm:0.5", "block_norm:limit=0.5", "block_norm,limit=0.5",
                                        "clip=block_norm,limit=0.5"};
    struct ps_optimizer o;
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(schedules); i++) {
        struct ps_schedule s;
        struct ps_clip c;
        char text[256];

        ck_assert_msg(ps_schedule_parse(schedules[i], &s, &e) == PS_OK, "%s: %s", schedules[i], e.text);
        ck_assert(s.kind == PS_SCHEDULE_COSINE && s.steps == 10 && s.warmup_steps == 5);
        ck_assert_msg(ps_clip_parse(clips[i], &c, &e) == PS_OK, "%s: %s", clips[i], e.text);
        ck_assert(c.kind == PS_CLIP_BLOCK_NORM && c.limit == 0.5);
        snprintf(text, sizeof text, "adam:%s%s,%s%s,beta1=0.5",
                 strncmp(schedules[i], "sched", 5) == 0 ? "" : "schedule=", schedules[i],
                 strncmp(clips[i], "clip=", 5) == 0 ? "" : "clip=", clips[i]);
        ck_assert_msg(ps_optimizer_parse(text, &o, &e) == PS_OK, "%s: %s", text, e.text);
        ck_assert(o.schedule.steps == 10 && o.clip.limit == 0.5 && o.beta1 == 0.5);
    }
}
END_TEST

START_TEST(set_takes_one_parameter)
{
    struct ps_optimizer o, unknown = {.kind = (enum ps_optimizer_kind)77};
    struct ps_error e;

    ck_assert_int_eq(ps_optimizer_by_name("momentum", &o, NULL), PS_OK);
    ck_assert_int_eq(ps_optimizer_set(&o, "learning_rate", 0, NULL), PS_OK);
    ck_assert_int_eq(ps_optimizer_set(&o, "momentum", 0.5, NULL), PS_OK);
    ck_assert(o.learning_rate == 0 && o.momentum == 0.5);
    ck_assert_int_eq(ps_optimizer_set(&o, "momentum", 1, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "optimizer momentum: momentum must be at least 0 and less than 1, not 1");
    ck_assert_int_eq(ps_optimizer_set(&o, "beta1", 0.5, &e), PS_ERR_INVALID);
    ck_assert(o.momentum == 0.5 && o.beta1 == 0);
    ck_assert_int_eq(ps_optimizer_set(&unknown, "beta1", 0.5, &e), PS_ERR_INVALID);
}
END_TEST

START_TEST(a_decimal_comma_changes_nothing)
{
    static const char text[] = "adam:learning_rate=0.5,beta1=0.25,schedule=step,steps=3,factor=0.125";
    char described[PS_OPTIMIZER_TEXT_MAX];
    struct ps_optimizer o;
    struct ps_error e = {0};

    if (!comma_locale())
        return;
    ck_assert_msg(ps_optimizer_parse(text, &o, &e) == PS_OK, "%s", e.text);
    ck_assert(o.learning_rate == 0.5 && o.beta1 == 0.25 && o.schedule.factor == 0.125);
    ps_optimizer_describe(&o, described, sizeof described);
    ck_assert_str_eq(described, text);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("optimizer_text");
    TCase *t = tcase_create("optimizer_text");

    tcase_add_test(t, all_keys_are_read);
    tcase_add_test(t, text_says_what_differs);
    tcase_add_loop_test(t, text_reads_back_as_the_same, 0, PS_OPTIMIZER_KINDS);
    tcase_add_test(t, mistakes_are_named_and_change_nothing);
    tcase_add_test(t, schedules_and_clips_are_read_alone);
    tcase_add_test(t, schedules_and_clips_are_written_alike_everywhere);
    tcase_add_test(t, set_takes_one_parameter);
    tcase_add_test(t, a_decimal_comma_changes_nothing);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
