#include "client/tools/psctl/assignment.h"

#include <string.h>

#include "common/core/base/base.h"
#include "tests/unit/kits/check_main.h"

#define WORDS_MAX 16

/* Words of a line, separated by blanks. */
static enum ps_err
assignment_parse(const char *line, const char *variables, struct assignments *out, struct ps_error *e)
{
    static char text[1024];
    char *words[WORDS_MAX];
    int n = 0;

    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " "))
        words[n++] = word;
    return assignments_parse(words, n, variables, out, e);
}

START_TEST(every_kind_of_value_is_read)
{
    struct assignments a;
    struct ps_error e;

    ck_assert_int_eq(
        assignment_parse("learning_rate=0.01 beta1=8e-1 schedule=cosine:steps=1000,warmup=50 clip=block_norm:1.5 "
                         "age=exponential:0.9 bound=8 workers=65536",
                         NULL, &a, &e),
        PS_OK);
    ck_assert_uint_eq(a.setting.parameters, 2);
    ck_assert_str_eq(a.setting.parameter[0].name, "learning_rate");
    ck_assert_double_eq(a.setting.parameter[0].value, 0.01);
    ck_assert_str_eq(a.setting.parameter[1].name, "beta1");
    ck_assert_double_eq(a.setting.parameter[1].value, 0.8);
    ck_assert_int_eq(a.setting.schedule->kind, PS_SCHEDULE_COSINE);
    ck_assert_uint_eq(a.setting.schedule->steps, 1000);
    ck_assert_uint_eq(a.setting.schedule->warmup_steps, 50);
    ck_assert_int_eq(a.setting.clip->kind, PS_CLIP_BLOCK_NORM);
    ck_assert_double_eq(a.setting.clip->limit, 1.5);
    ck_assert_int_eq(a.setting.age->kind, PS_AGE_EXPONENTIAL);
    ck_assert_double_eq(a.setting.age->parameter, 0.9);
    ck_assert_uint_eq(*a.setting.bound, 8);
    ck_assert_uint_eq(a.setting.workers, 65536);
    ck_assert_str_eq(a.setting.variables, "*");
}
END_TEST

START_TEST(what_is_not_named_stays_as_it_is)
{
    struct assignments a;
    struct ps_error e;

    ck_assert_int_eq(assignment_parse("learning_rate=0", "dense*", &a, &e), PS_OK);
    ck_assert_str_eq(a.setting.variables, "dense*");
    ck_assert(a.setting.schedule == NULL && a.setting.clip == NULL && a.setting.age == NULL && a.setting.bound == NULL);
    ck_assert_uint_eq(a.setting.workers, 0);
    ck_assert_int_eq(assignment_parse("bound=0", NULL, &a, &e), PS_OK);
    ck_assert_uint_eq(*a.setting.bound, 0);
    ck_assert_ptr_null(a.setting.variables);
    ck_assert_uint_eq(a.setting.parameters, 0);
}
END_TEST

/* As psctl variables prints it, after the optimizer's name. */
START_TEST(one_word_may_hold_all_that_an_optimizer_is)
{
    struct ps_optimizer o = {0};
    char text[PS_OPTIMIZER_TEXT_MAX];
    struct assignments a;
    struct ps_error e;

    ck_assert_int_eq(ps_optimizer_by_name("adam", &o, &e), PS_OK);
    o.beta1 = 0.5;
    o.schedule = (struct ps_schedule){PS_SCHEDULE_COSINE, PS_BY_CLOCK, 5, 10, 0, 1e-5, 30};
    o.clip = (struct ps_clip){PS_CLIP_BLOCK_NORM, 2};
    ps_optimizer_describe(&o, text, sizeof text);
    ck_assert_int_eq(assignment_parse(text, NULL, &a, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "'adam': a variable keeps the optimizer it was declared with; leave its name out");
    ck_assert_msg(assignment_parse(strchr(text, ':') + 1, NULL, &a, &e) == PS_OK, "%s", e.text);
    ck_assert_uint_eq(a.setting.parameters, 2);
    ck_assert_str_eq(a.setting.parameter[1].name, "beta1");
    ck_assert_double_eq(a.setting.parameter[1].value, 0.5);
    ck_assert_mem_eq(a.setting.schedule, &o.schedule, sizeof o.schedule);
    ck_assert_mem_eq(a.setting.clip, &o.clip, sizeof o.clip);
}
END_TEST

START_TEST(a_schedule_begins_now_unless_a_number_says_where)
{
    static const struct {
        const char *word;
        uint64_t begin;
        int from_start;
    } all[] = {{"schedule=linear:steps=5", 0, 0},
               {"schedule=linear:steps=5,begin=now", 0, 0},
               {"schedule=linear,begin=now,steps=5,warmup=3", 0, 0},
               {"schedule=linear:begin=0,steps=5", 0, 1},
               {"schedule=constant,warmup=5,begin=7", 7, 1}};
    struct assignments a;
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        ck_assert_int_eq(assignment_parse(all[i].word, NULL, &a, &e), PS_OK);
        ck_assert_uint_eq(a.setting.schedule->begin, all[i].begin);
        ck_assert_int_eq(a.setting.from_start, all[i].from_start);
    }
}
END_TEST

START_TEST(what_its_author_may_not_have_meant_is_said)
{
    static const struct {
        const char *words, *says;
    } all[] = {{"learning_rate=0", "learning_rate=0: these variables stand still"},
               {"beta1=0.5 learning_rate=1e-60", "stand still"}, /* which is 0 in float32 */
               {"age=cutoff:0", "age=cutoff:0"}};
    struct assignments a;
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        ck_assert_int_eq(assignment_parse(all[i].words, NULL, &a, &e), PS_OK);
        ck_assert_ptr_nonnull(assignments_warning(&a));
        ck_assert_ptr_nonnull(strstr(assignments_warning(&a), all[i].says));
    }
    ck_assert_int_eq(assignment_parse("learning_rate=1e-9 beta1=0 age=cutoff:1 bound=0 clip=value:1e-9", NULL, &a, &e),
                     PS_OK);
    ck_assert_ptr_null(assignments_warning(&a));
}
END_TEST

START_TEST(clips_and_ages_have_short_forms)
{
    static const struct {
        const char *word;
        enum ps_clip_kind kind;
        double limit;
    } clips[] = {{"clip=none", PS_CLIP_NONE, 0},
                 {"clip=value:limit=5", PS_CLIP_VALUE, 5},
                 {"clip=value,limit=5", PS_CLIP_VALUE, 5},
                 {"clip=value:5", PS_CLIP_VALUE, 5},
                 {"clip=given_norm:0.5", PS_CLIP_GIVEN_NORM, 0.5}};
    static const struct {
        const char *word;
        enum ps_age kind;
        double parameter;
    } ages[] = {{"age=none", PS_AGE_NONE, 0}, {"age=inverse", PS_AGE_INVERSE, 0}, {"age=cutoff:8", PS_AGE_CUTOFF, 8}};
    struct assignments a;
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(clips); i++) {
        ck_assert_int_eq(assignment_parse(clips[i].word, NULL, &a, &e), PS_OK);
        ck_assert_int_eq(a.setting.clip->kind, clips[i].kind);
        ck_assert_double_eq(a.setting.clip->limit, clips[i].limit);
    }
    for (size_t i = 0; i < ARRAY_LEN(ages); i++) {
        ck_assert_int_eq(assignment_parse(ages[i].word, NULL, &a, &e), PS_OK);
        ck_assert_int_eq(a.setting.age->kind, ages[i].kind);
        ck_assert_double_eq(a.setting.age->parameter, ages[i].parameter);
    }
}
END_TEST

START_TEST(mistakes_are_refused_with_what_was_expected)
{
    static const struct {
        const char *line, *variables, *says;
    } all[] = {
        {"", NULL, "expected what to change"},
        {"learning_rate", NULL, "expected NAME=VALUE, got 'learning_rate'"},
        {"learning_rate=", NULL, "learning_rate=: expected a value"},
        {"learning_rate=fast", NULL, "learning_rate=fast: expected a number"},
        {"learning_rate=nan", NULL, "learning_rate=nan: expected a number"},
        {"learning_rate=1x", NULL, "learning_rate=1x: expected a number"},
        {"learning=1", NULL, "unknown name 'learning': it is one of learning_rate, momentum, "},
        {"=1", NULL, "unknown name ''"},
        {"beta1=0.1 beta1=0.2", NULL, "beta1 stands there twice"},
        {"beta1=0.1,beta1=0.2", NULL, "beta1 stands there twice"},
        {"beta1=0.1,beta2", NULL, "beta1=0.1,beta2: expected a number"},
        {"beta1=,beta2=0.1", NULL, "beta1=: expected a value"},
        {"schedule=constant,steps=5", NULL, "steps has no effect without schedule=step"},
        {"bound=1 bound=1", NULL, "bound stands there twice"},
        {"age=none age=inverse", NULL, "age stands there twice"},
        {"clip=none clip=none", NULL, "clip stands there twice"},
        {"schedule=constant schedule=constant", NULL, "schedule stands there twice"},
        {"schedule=sine", NULL, "sine"},
        {"clip=value:0x", NULL, "0x"},
        {"clip=block_norm", NULL, "limit"},
        {"age=cutoff", NULL, "age=cutoff: expected none, inverse, exponential:BASE or cutoff:AGE"},
        {"age=inverse:2", NULL, "age=inverse:2: expected none"},
        {"age=old", NULL, "age=old: expected none"},
        {"bound=-1", NULL, "bound=-1: expected a whole number"},
        {"bound=4294967296", NULL, "bound=4294967296: expected a whole number"},
        {"workers=0", NULL, "workers=0: expected how many workers"},
        {"workers=two", NULL, "workers=two: expected how many workers"},
        {"workers=1,workers=2", NULL, "workers stands there twice"},
        {"bound=1", "w*", "--variables w*: nothing is to change"},
    };
    struct assignments a;
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        ck_assert_int_eq(assignment_parse(all[i].line, all[i].variables, &a, &e), PS_ERR_INVALID);
        ck_assert_msg(strstr(e.text, all[i].says) != NULL, "'%s' says: %s", all[i].line, e.text);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("assignment");
    TCase *t = tcase_create("assignment");

    tcase_add_test(t, every_kind_of_value_is_read);
    tcase_add_test(t, what_is_not_named_stays_as_it_is);
    tcase_add_test(t, one_word_may_hold_all_that_an_optimizer_is);
    tcase_add_test(t, a_schedule_begins_now_unless_a_number_says_where);
    tcase_add_test(t, what_its_author_may_not_have_meant_is_said);
    tcase_add_test(t, clips_and_ages_have_short_forms);
    tcase_add_test(t, mistakes_are_refused_with_what_was_expected);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
