/* What a program may say of a job and of variables that a SET has changed: each setting as it was declared or as it is.
 * And what the reports show of both. */
#include "tests/unit/kits/shard_fixture.h"

#include <string.h>

/* ---- Changes ---- */

static void
declared_set(Psd__Set *m)
{
    kit_observe(&k, 9);
    m->job = (char *)"train";
    kit_frame(&k, 9, MSG_SET, 500, &m->base, NULL, 0);
    kit_expected(&k, 9, MSG_SET_DONE);
    kit_close(&k, 9);
}

static void
declared_set_bound(uint32_t clocks)
{
    Psd__Set m = PSD__SET__INIT;
    Psd__Bound bound = PSD__BOUND__INIT;

    bound.clocks = clocks;
    m.bound = &bound;
    declared_set(&m);
}

static void
declared_set_age(Psd__AgeKind kind)
{
    Psd__Set m = PSD__SET__INIT;
    Psd__AgePolicy age = PSD__AGE_POLICY__INIT;

    age.kind = kind;
    m.age = &age;
    declared_set(&m);
}

static void
declared_set_rate(double rate)
{
    Psd__Set m = PSD__SET__INIT;
    Psd__Parameter parameter = PSD__PARAMETER__INIT, *list = &parameter;

    parameter.name = (char *)"learning_rate";
    parameter.value = rate;
    m.variables = (char *)"*";
    m.n_parameter = 1;
    m.parameter = &list;
    declared_set(&m);
}

static void
declared_set_clip(enum ps_clip_kind kind, double limit)
{
    Psd__Set m = PSD__SET__INIT;
    Psd__Clip clip;

    wire_clip_message(&(struct ps_clip){kind, limit}, &clip);
    m.variables = (char *)"*";
    m.clip = &clip;
    declared_set(&m);
}

/* ---- Programs ---- */

/* Worker 1 comes with these options; its sentence is to contain both parts, or it is welcomed. */
static void
declared_hello(uint32_t bound, Psd__AgeKind age, const char *says, const char *and)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, 2);
    struct kit_answer *a;

    job->bound = bound;
    job->age->kind = age;
    kit_hello(&k, 2, &(struct kit_hello){.job = job, .task = 1});
    a = kit_expect(&k, 2, says != NULL ? MSG_ERROR : MSG_WELCOME);
    if (says != NULL) {
        ck_assert_int_eq((int)a->msg.u.error->code, PS_ERR_MISMATCH);
        ck_assert_msg(strstr(a->msg.u.error->text, says) != NULL && strstr(a->msg.u.error->text, and) != NULL, "%s",
                      a->msg.u.error->text);
    } else {
        kit_close(&k, 2);
    }
    kit_answer_free(a);
}

/* Worker 0 declares the variable; its sentence is to be this, or it is answered. */
static void
declared_again(const struct ps_optimizer *optimizer, const char *sentence)
{
    Psd__Declare m = PSD__DECLARE__INIT;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    struct wire_optimizer room;
    uint64_t dims[] = {4};
    struct kit_answer *a;

    init.kind = PSD__INIT_KIND__ZEROS;
    init.seed = 5;
    m.name = (char *)"w";
    m.dims = dims;
    m.n_dims = 1;
    m.init = &init;
    m.optimizer = wire_optimizer_message(optimizer, &room);
    kit_frame(&k, 1, MSG_DECLARE, 700, &m.base, NULL, 0);
    a = kit_expect(&k, 1, sentence != NULL ? MSG_ERROR : MSG_DECLARED);
    if (sentence != NULL) {
        ck_assert_int_eq((int)a->msg.u.error->code, PS_ERR_MISMATCH);
        ck_assert_msg(strstr(a->msg.u.error->text, sentence) != NULL, "%s", a->msg.u.error->text);
    }
    kit_answer_free(a);
}

static struct ps_optimizer
declared_sgd(double rate, enum ps_clip_kind clip, double limit)
{
    struct ps_optimizer o = kit_optimizer(PS_SGD);

    o.learning_rate = rate;
    o.clip = (struct ps_clip){clip, limit};
    return o;
}

/* ---- Tests ---- */

START_TEST(a_program_says_a_jobs_settings_as_they_were_or_as_they_are)
{
    static const char *const both = "mode ssp(bound 0), 2 workers, or ssp(bound 3), 2 workers since psctl set, not ssp("
                                    "bound 7), 2 workers";

    kit_join(&k, 1, kit_job("train", PSD__MODE__SSP, 2), 0);
    declared_set_bound(3);
    declared_set_age(PSD__AGE_KIND__AGE_INVERSE);
    for (int restarted = 0; restarted < 2; restarted++) {
        declared_hello(0, PSD__AGE_KIND__AGE_NONE, NULL, NULL);
        declared_hello(3, PSD__AGE_KIND__AGE_INVERSE, NULL, NULL);
        declared_hello(3, PSD__AGE_KIND__AGE_NONE, NULL, NULL);
        declared_hello(0, PSD__AGE_KIND__AGE_INVERSE, NULL, NULL);
        declared_hello(7, PSD__AGE_KIND__AGE_NONE, both, "job 'train' was opened with");
        kit_crash(&k);
    }
}
END_TEST

START_TEST(a_program_declares_a_variable_as_it_was_or_as_it_is)
{
    struct ps_optimizer was = declared_sgd(0.1, PS_CLIP_NONE, 0), now = declared_sgd(0.05, PS_CLIP_VALUE, 2),
                        rate = declared_sgd(0.05, PS_CLIP_NONE, 0), clip = declared_sgd(0.1, PS_CLIP_VALUE, 2),
                        neither = declared_sgd(0.3, PS_CLIP_NONE, 0);
    const Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 1);

    kit_join(&k, 1, job, 0);
    kit_declare_with(&k, 1, "w", 4, &was);
    declared_again(&rate, "optimizer sgd:learning_rate=0.1, not sgd:learning_rate=0.05");
    declared_set_rate(0.05);
    declared_set_clip(PS_CLIP_VALUE, 2);
    for (int restarted = 0; restarted < 2; restarted++) {
        declared_again(&was, NULL);
        declared_again(&now, NULL);
        declared_again(&rate, NULL);
        declared_again(&clip, NULL);
        declared_again(&neither, "variable 'w' was declared with optimizer sgd:learning_rate=0.1, or sgd:"
                                 "learning_rate=0.05,clip=value,limit=2 since psctl set, not sgd:learning_rate=0.3");
        kit_crash(&k);
        kit_resume(&k, 1, job, 0, 0);
    }
}
END_TEST

/* A worker that declares no given norm gives none, and a later SET may ask for it again. */
START_TEST(who_gives_norms_stays_as_declared)
{
    struct ps_optimizer was = declared_sgd(1, PS_CLIP_GIVEN_NORM, 4), now = declared_sgd(1, PS_CLIP_NONE, 0);

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    kit_declare_with(&k, 1, "w", 4, &was);
    declared_set_clip(PS_CLIP_NONE, 0);
    declared_again(&was, NULL);
    declared_again(&now, "clip=given_norm");
}
END_TEST

START_TEST(reports_show_what_was_declared_and_what_holds)
{
    struct ps_optimizer was = declared_sgd(0.1, PS_CLIP_NONE, 0);
    const Psd__JobReport *job;
    const Psd__VariableReport *variable;
    struct kit_answer *a;

    kit_join(&k, 1, kit_job("train", PSD__MODE__SSP, 2), 0);
    kit_declare_with(&k, 1, "w", 4, &was);
    a = kit_look(&k, PSD__QUERY_KIND__JOBS, "train");
    ck_assert_str_eq(a->msg.u.report->job[0]->declared, "");
    kit_answer_free(a);
    a = kit_look(&k, PSD__QUERY_KIND__VARIABLES, "train");
    ck_assert_str_eq(a->msg.u.report->variable[0]->declared, "");
    kit_answer_free(a);
    declared_set_bound(3);
    declared_set_rate(0.05);
    a = kit_look(&k, PSD__QUERY_KIND__JOBS, "train");
    job = a->msg.u.report->job[0];
    ck_assert_str_eq(job->options, "ssp(bound 3), 2 workers, lapse shrink, age none");
    ck_assert_str_eq(job->declared, "ssp(bound 0), 2 workers, lapse shrink, age none");
    kit_answer_free(a);
    a = kit_look(&k, PSD__QUERY_KIND__VARIABLES, "train");
    variable = a->msg.u.report->variable[0];
    ck_assert_str_eq(variable->optimizer, "sgd:learning_rate=0.05");
    ck_assert_str_eq(variable->declared, "sgd:learning_rate=0.1");
    kit_answer_free(a);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("setting_declared");
    TCase *tc = tcase_create("setting_declared");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_add_test(tc, a_program_says_a_jobs_settings_as_they_were_or_as_they_are);
    tcase_add_test(tc, a_program_declares_a_variable_as_it_was_or_as_it_is);
    tcase_add_test(tc, who_gives_norms_stays_as_declared);
    tcase_add_test(tc, reports_show_what_was_declared_and_what_holds);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
