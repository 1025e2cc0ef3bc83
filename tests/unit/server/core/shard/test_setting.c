/* Changing a running job: the checks, when it takes effect, that it outlives the process, and that a failed turn
 * changes nothing; the norm of a push; draining by message. */
#include "tests/unit/kits/shard_fixture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- Asking ---- */

/* The change that a test requests; omitted fields: not requested. */
struct wish {
    const char *job, *variables; /* job NULL: "train" */
    const char *name;            /* of a parameter */
    double value;
    const struct ps_schedule *schedule;
    const struct ps_clip *clip;
    const struct age_policy *age;
    const uint32_t *bound;
    bool begin_now, careful;
};

static void
setting_ask(uint64_t conn, const struct wish *w)
{
    Psd__Set m = PSD__SET__INIT;
    Psd__Parameter parameter = PSD__PARAMETER__INIT, *list = &parameter;
    Psd__AgePolicy age = PSD__AGE_POLICY__INIT;
    Psd__Bound bound = PSD__BOUND__INIT;
    Psd__Schedule schedule;
    Psd__Clip clip;

    m.job = (char *)(w->job != NULL ? w->job : "train");
    m.variables = (char *)(w->variables != NULL ? w->variables : "");
    m.begin_now = w->begin_now;
    m.careful = w->careful;
    if (w->name != NULL) {
        parameter.name = (char *)w->name;
        parameter.value = w->value;
        m.n_parameter = 1;
        m.parameter = &list;
    }
    if (w->schedule != NULL) {
        wire_schedule_message(w->schedule, &schedule);
        m.schedule = &schedule;
    }
    if (w->clip != NULL) {
        wire_clip_message(w->clip, &clip);
        m.clip = &clip;
    }
    if (w->age != NULL) {
        age.kind = (Psd__AgeKind)w->age->kind;
        age.parameter = w->age->parameter;
        m.age = &age;
    }
    if (w->bound != NULL) {
        bound.clocks = *w->bound;
        m.bound = &bound;
    }
    kit_frame(&k, conn, MSG_SET, 500, &m.base, NULL, 0);
}

/* It is done, and names so many variables. */
static void
setting_done(uint64_t conn, uint64_t variables)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_SET_DONE);

    ck_assert_uint_eq(a->msg.request, 500);
    ck_assert_uint_eq(a->msg.u.set_done->variables, variables);
    kit_answer_free(a);
}

static void
setting_refused(uint64_t conn, enum ps_err code, const char *says)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_ERROR);

    ck_assert_uint_eq(a->msg.request, 500);
    ck_assert_int_eq((int)a->msg.u.error->code, code);
    ck_assert_msg(strstr(a->msg.u.error->text, says) != NULL, "'%s' does not say '%s'", a->msg.u.error->text, says);
    kit_answer_free(a);
    kit_expect_nothing(&k, conn);
}

static void
set_rate(uint64_t conn, const char *variables, double rate, uint64_t named)
{
    setting_ask(conn, &(struct wish){.variables = variables, .name = "learning_rate", .value = rate});
    setting_done(conn, named);
}

static const struct ps_clip clip_none = {PS_CLIP_NONE, 0}, clip_norm = {PS_CLIP_GIVEN_NORM, 1};

static uint32_t
declare_clipped(uint64_t conn, const char *name, const struct ps_clip *clip)
{
    struct ps_optimizer sgd = kit_optimizer(PS_SGD);

    sgd.clip = *clip;
    return kit_declare_with(&k, conn, name, 4, &sgd);
}

/* Push four equal elements with a norm (NULL: none); the answer is this code. */
static void
push_norm(uint64_t conn, uint64_t seq, uint64_t clock, uint32_t var, float g, const double *norm, enum ps_err code)
{
    float gradient[4] = {g, g, g, g};

    kit_push(&k, conn,
             &(struct kit_push){.seq = seq, .clock = clock, .var = var, .gradient = gradient, .len = 4, .norm = norm});
    kit_ack(&k, conn, seq, code);
}

/* ---- Optimizers ---- */

START_TEST(learning_rate_holds_from_the_next_update)
{
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_push_four(&k, 1, 1, 0, var, 1);
    kit_ack(&k, 1, 1, PS_OK);
    set_rate(1, "w", 0.25, 1);
    ck_assert_float_eq(kit_value_four(&k, 1, var, 1), -1);
    kit_push_four(&k, 1, 2, 0, var, 1);
    kit_ack(&k, 1, 2, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 1, var, 2), -1.25f);
}
END_TEST

START_TEST(within_a_turn_each_push_has_the_rate_of_its_time)
{
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    k.hold = true;
    kit_push_four(&k, 1, 1, 0, var, 1);
    setting_ask(1, &(struct wish){.variables = "*", .name = "learning_rate", .value = 0.5});
    kit_push_four(&k, 1, 2, 0, var, 1);
    kit_turn(&k);
    k.hold = false;
    kit_drop_answers(&k, 1);
    ck_assert_float_eq(kit_value_four(&k, 1, var, 2), -1.5f);
}
END_TEST

START_TEST(pattern_names_the_variables_that_change)
{
    static const char *const names[] = {"layer1/w", "layer2/w", "layer2/b", "out"};
    uint32_t vars[4];

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    for (int i = 0; i < 4; i++)
        vars[i] = kit_declare(&k, 1, names[i], 4, PS_SGD);
    set_rate(1, "layer?/w", 0.5, 2);
    set_rate(1, "nothing*", 0.125, 0);
    for (int i = 0; i < 4; i++) {
        kit_push_four(&k, 1, (uint64_t)i + 1, 0, vars[i], 1);
        kit_ack(&k, 1, (uint64_t)i + 1, PS_OK);
        ck_assert_float_eq(kit_value_four(&k, 1, vars[i], 1), i < 2 ? -0.5f : -1);
    }
}
END_TEST

/* One of several does not have the parameter: none of them changes, and the job neither. */
START_TEST(set_is_checked_whole_before_it_is_done)
{
    struct age_policy age = {AGE_CUTOFF, 0};
    uint32_t momentum, sgd;
    uint64_t state, from = 0;
    float g[4] = {1, 1, 1, 1};

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    momentum = kit_declare(&k, 1, "a", 4, PS_MOMENTUM);
    sgd = kit_declare(&k, 1, "b", 4, PS_SGD);
    state = kit_state(&k);
    setting_ask(1, &(struct wish){.variables = "*", .name = "momentum", .value = 0.75, .age = &age});
    setting_refused(1, PS_ERR_INVALID, "variable 'b'");
    setting_ask(1, &(struct wish){.variables = "*", .name = "learning_rate", .value = -1});
    setting_refused(1, PS_ERR_INVALID, "variable 'a'");
    setting_ask(1, &(struct wish){.variables = "a", .name = "learnin_rate", .value = 1});
    setting_refused(1, PS_ERR_INVALID, "learnin_rate");
    setting_ask(1, &(struct wish){.variables = "b", .clip = &(struct ps_clip){PS_CLIP_VALUE, -1}});
    setting_refused(1, PS_ERR_INVALID, "variable 'b'");
    setting_ask(1, &(struct wish){.variables = "b", .schedule = &(struct ps_schedule){.kind = PS_SCHEDULE_STEP}});
    setting_refused(1, PS_ERR_INVALID, "variable 'b'");
    ck_assert_uint_eq(kit_state(&k), state);
    for (uint64_t seq = 1; seq <= 2; seq++) { /* the second is of age 1: no cutoff came into force */
        kit_push(&k, 1,
                 &(struct kit_push){.seq = seq, .var = momentum, .gradient = g, .len = 4, .from_version = &from});
        kit_ack(&k, 1, seq, PS_OK);
    }
    ck_assert_float_eq(kit_value_four(&k, 1, momentum, 2), -2.5f); /* v = 1, then 0.5 + 1 */
    kit_push_four(&k, 1, 3, 0, sgd, 1);
    kit_ack(&k, 1, 3, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 1, sgd, 1), -1);
}
END_TEST

START_TEST(a_change_that_would_need_other_slots_is_refused)
{
    struct ps_optimizer rmsprop = kit_optimizer(PS_RMSPROP);

    rmsprop.momentum = 0;
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_declare_with(&k, 1, "w", 4, &rmsprop);
    setting_ask(1, &(struct wish){.variables = "w", .name = "momentum", .value = 0.5});
    setting_refused(1, PS_ERR_INVALID, "slots");
    set_rate(1, "w", 0.5, 1);
}
END_TEST

/* Blocks that are made later would begin differently from those that are there. */
START_TEST(how_slots_began_cannot_be_changed)
{
    struct ps_optimizer adagrad = kit_optimizer(PS_ADAGRAD);

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_declare_with(&k, 1, "w", 4, &adagrad);
    setting_ask(1, &(struct wish){.variables = "w", .name = "initial_accumulator", .value = 3});
    setting_refused(1, PS_ERR_INVALID, "initial_accumulator");
    setting_ask(1,
                &(struct wish){.variables = "w", .name = "initial_accumulator", .value = adagrad.initial_accumulator});
    setting_done(1, 1);
}
END_TEST

START_TEST(schedule_and_clip_hold_from_the_next_update)
{
    struct ps_schedule halves = {.kind = PS_SCHEDULE_STEP, .steps = 1, .factor = 0.5};
    struct ps_clip quarter = {PS_CLIP_VALUE, 0.25};
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    setting_ask(1, &(struct wish){.variables = "w", .schedule = &halves});
    setting_done(1, 1);
    for (uint64_t seq = 1; seq <= 2; seq++) {
        kit_push_four(&k, 1, seq, 0, var, 1);
        kit_ack(&k, 1, seq, PS_OK);
    }
    ck_assert_float_eq(kit_value_four(&k, 1, var, 2), -1.5f); /* at versions 0 and 1: 1 and 1/2 */
    setting_ask(1, &(struct wish){.variables = "w", .clip = &quarter});
    setting_done(1, 1);
    kit_push_four(&k, 1, 3, 0, var, 8);
    kit_ack(&k, 1, 3, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 1, var, 3), -1.5625f);
}
END_TEST

/* One push to a variable of four elements at rate 1: the value falls by this rate. */
static float
setting_rate(uint64_t conn, uint64_t seq, uint64_t clock, uint32_t var)
{
    float before = kit_value_four(&k, conn, var, seq - 1), rate;

    kit_push_four(&k, conn, seq, clock, var, 1);
    kit_ack(&k, conn, seq, PS_OK);
    rate = before - kit_value_four(&k, conn, var, seq);
    return rate;
}

static const struct ps_schedule quarters = {.kind = PS_SCHEDULE_LINEAR, .steps = 4};

/* Of a variable that is past its steps: none is left of them when they count from 0, all when they count from now; and
 * so it stays after a crash. */
START_TEST(a_schedule_that_begins_now_has_all_its_steps_before_it)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 1);
    uint32_t var, other;

    kit_join(&k, 1, job, 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    for (uint64_t seq = 1; seq <= 6; seq++) {
        kit_push_four(&k, 1, seq, 0, var, 0);
        kit_ack(&k, 1, seq, PS_OK);
    }
    other = kit_declare(&k, 1, "v", 4, PS_SGD);
    setting_ask(1, &(struct wish){.variables = "*", .schedule = &quarters, .begin_now = true, .careful = true});
    setting_done(1, 2);
    ck_assert_float_eq(setting_rate(1, 7, 0, var), 1);
    ck_assert_float_eq(setting_rate(1, 8, 0, var), 0.75f);
    kit_crash(&k);
    kit_resume(&k, 2, job, 0, 8);
    ck_assert_float_eq(setting_rate(2, 9, 0, var), 0.5f);
    kit_push_four(&k, 2, 10, 0, other, 1); /* which has a version of its own */
    kit_ack(&k, 2, 10, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 2, other, 1), -1);
    setting_ask(2, &(struct wish){.variables = "w", .schedule = &quarters});
    setting_done(2, 1); /* as clients asked before there were beginnings */
    kit_push_four(&k, 2, 11, 0, var, 1);
    kit_ack(&k, 2, 11, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 2, var, 10), -2.25f);
}
END_TEST

START_TEST(a_schedule_by_clock_begins_at_the_step_that_is_next)
{
    struct ps_schedule by_clock = quarters;
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 1);
    float value = 0;
    uint32_t var;

    by_clock.by = PS_BY_CLOCK;
    kit_join(&k, 1, job, 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    for (uint64_t step = 0; step < 9; step++) {
        if (step == 6) {
            setting_ask(1, &(struct wish){.variables = "w", .schedule = &by_clock, .begin_now = true});
            setting_done(1, 1);
        }
        kit_push_four(&k, 1, 2 * step + 1, step, var, 1);
        kit_ack(&k, 1, 2 * step + 1, PS_OK);
        kit_ticked(&k, 1, 2 * step + 2, step + 1);
        value -= step < 6 ? 1 : 1 - 0.25f * (float)(step - 6);
        ck_assert_float_eq(kit_value_four(&k, 1, var, step + 1), value);
    }
}
END_TEST

/* From now on by itself, and all the same with more decay than there is weight. */
START_TEST(a_rate_that_a_schedule_makes_0_is_set_only_without_care)
{
    struct ps_optimizer adamw = kit_optimizer(PS_ADAMW);
    struct ps_schedule later = quarters;
    struct ps_clip clip = {PS_CLIP_VALUE, 1};
    uint32_t var;

    adamw.weight_decay = 0.25;
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    var = kit_declare_with(&k, 1, "w", 4, &adamw);
    for (uint64_t seq = 1; seq <= 5; seq++) {
        kit_push_four(&k, 1, seq, 0, var, 0);
        kit_ack(&k, 1, seq, PS_OK);
    }
    setting_ask(1, &(struct wish){.variables = "w", .schedule = &quarters, .careful = true});
    setting_refused(1, PS_ERR_INVALID,
                    "variable 'w': at version 5, where it is, the schedule makes its learning rate 0");
    later.begin = 2;
    setting_ask(1, &(struct wish){.variables = "w", .schedule = &later, .careful = true});
    setting_done(1, 1);
    setting_ask(1, &(struct wish){.variables = "w", .schedule = &quarters});
    setting_done(1, 1); /* now it is 0 */
    setting_ask(1, &(struct wish){.variables = "w", .name = "learning_rate", .value = 2, .careful = true});
    setting_refused(1, PS_ERR_INVALID, "the schedule makes its learning rate 0");
    setting_ask(1, &(struct wish){.variables = "w", .clip = &clip, .careful = true});
    setting_done(1, 1); /* says nothing of rates */
    later = (struct ps_schedule){0};
    setting_ask(1, &(struct wish){.variables = "w", .schedule = &later, .careful = true});
    setting_done(1, 1);
    setting_ask(1, &(struct wish){.variables = "w", .name = "learning_rate", .value = 4, .careful = true});
    setting_refused(1, PS_ERR_INVALID, "a learning rate of 4 with a weight_decay of 0.25");
    setting_ask(1, &(struct wish){.variables = "w", .name = "learning_rate", .value = 4});
    setting_done(1, 1);
    setting_ask(1, &(struct wish){.variables = "w", .name = "learning_rate", .value = 0, .careful = true});
    setting_done(1, 1); /* 0 itself is how a variable is frozen */
    later.begin = 1;
    setting_ask(1, &(struct wish){.variables = "w", .schedule = &later, .begin_now = true});
    setting_refused(1, PS_ERR_INVALID, "begins elsewhere");
    setting_ask(1, &(struct wish){.variables = "w", .clip = &clip, .begin_now = true});
    setting_refused(1, PS_ERR_INVALID, "there is none");
}
END_TEST

/* ---- The job ---- */

START_TEST(larger_bound_lets_parked_pulls_go_at_once)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, 2);
    uint32_t bound = 2, var;

    kit_join(&k, 1, job, 0);
    kit_join(&k, 2, job, 1);
    kit_observe(&k, 3);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_ticked(&k, 1, 1, 1);
    kit_ticked(&k, 1, 2, 2);
    kit_pull(&k, 1, var, 0, 2);
    kit_expect_nothing(&k, 1);
    bound = 1;
    setting_ask(3, &(struct wish){.bound = &bound});
    setting_done(3, 0);
    kit_expect_nothing(&k, 1);
    bound = 2;
    setting_ask(3, &(struct wish){.bound = &bound});
    setting_done(3, 0);
    kit_answer_free(kit_expect(&k, 1, MSG_DATA));
    bound = 0;
    setting_ask(3, &(struct wish){.bound = &bound});
    setting_done(3, 0);
    kit_pull(&k, 1, var, 0, 2);
    kit_expect_nothing(&k, 1);
}
END_TEST

START_TEST(age_policy_holds_for_the_next_push)
{
    struct age_policy cutoff = {AGE_CUTOFF, 0}, none = {AGE_NONE, 0};
    float g[4] = {1, 1, 1, 1};
    uint64_t from = 0;
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_push_four(&k, 1, 1, 0, var, 1);
    kit_ack(&k, 1, 1, PS_OK);
    setting_ask(1, &(struct wish){.age = &cutoff});
    setting_done(1, 0);
    kit_push(&k, 1, &(struct kit_push){.seq = 2, .var = var, .gradient = g, .len = 4, .from_version = &from});
    kit_ack(&k, 1, 2, PS_ERR_STALE);
    setting_ask(1, &(struct wish){.age = &none});
    setting_done(1, 0);
    kit_push(&k, 1, &(struct kit_push){.seq = 3, .var = var, .gradient = g, .len = 4, .from_version = &from});
    kit_ack(&k, 1, 3, PS_OK);
}
END_TEST

START_TEST(what_is_not_there_is_not_found)
{
    uint32_t bound = 3;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    setting_ask(1, &(struct wish){.job = "other", .bound = &bound});
    setting_refused(1, PS_ERR_NOT_FOUND, "other");
    setting_ask(1, &(struct wish){.bound = &bound});
    setting_refused(1, PS_ERR_INVALID, "not ssp");
    setting_ask(1, &(struct wish){0});
    setting_refused(1, PS_ERR_INVALID, "nothing is to change");
}
END_TEST

START_TEST(nobody_sets_before_hello)
{
    uint32_t bound = 3;

    kit_open(&k, 1);
    setting_ask(1, &(struct wish){.bound = &bound});
    kit_expect_closed(&k, 1, PS_ERR_PROTOCOL);
}
END_TEST

/* ---- Lasting ---- */

START_TEST(a_set_outlives_the_process_and_the_old_options_still_match)
{
    struct ps_schedule halves = {.kind = PS_SCHEDULE_EXPONENTIAL, .steps = 1, .factor = 0.5};
    struct age_policy inverse = {AGE_INVERSE, 0};
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, 2);
    uint32_t bound = 3, var;
    uint64_t from = 0;
    float g[4] = {8, 8, 8, 8};

    kit_join(&k, 1, job, 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_push_four(&k, 1, 1, 0, var, 1);
    kit_ack(&k, 1, 1, PS_OK);
    setting_ask(1, &(struct wish){.variables = "w",
                                  .name = "learning_rate",
                                  .value = 0.5,
                                  .schedule = &halves,
                                  .clip = &(struct ps_clip){PS_CLIP_VALUE, 4},
                                  .age = &inverse,
                                  .bound = &bound});
    setting_done(1, 1);
    for (int life = 0; life < 2; life++) {
        kit_crash(&k);
        kit_resume(&k, 2 + (uint64_t)life, job, 0, 1);
    }
    ck_assert_uint_eq(kit_declare(&k, 3, "w", 4, PS_SGD), var);
    kit_join(&k, 4, job, 1);
    kit_push(
        &k, 3,
        &(struct kit_push){.seq = 2, .acked_through = 1, .var = var, .gradient = g, .len = 4, .from_version = &from});
    kit_ack(&k, 3, 2, PS_OK);
    /* 8 / (1 + 1) = 4, within the limit; the rate at version 1: 0.5 * 0.5 */
    ck_assert_float_eq(kit_value_four(&k, 3, var, 2), -2);
    for (uint64_t clock = 1; clock <= 3; clock++)
        kit_ticked(&k, 3, clock + 2, clock);
    kit_pull(&k, 3, var, 0, 3);
    kit_answer_free(kit_expect(&k, 3, MSG_DATA));
}
END_TEST

START_TEST(a_set_in_a_turn_that_failed_did_not_happen)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, 1);
    uint32_t bound = 9, var;
    uint64_t state;

    for (int what = 0; what < STORE_MEM_FAILS; what++) {
        uint64_t conn = 1 + 2 * (uint64_t)what, asks = conn + 1;
        char name[8];

        if (what == STORE_MEM_FAIL_RESERVE)
            continue; /* a set reserves no block */
        snprintf(name, sizeof name, "w%d", what);
        job->name = name;
        kit_join(&k, conn, job, 0);
        var = kit_declare(&k, conn, "w", 4, PS_SGD);
        state = kit_state(&k);
        kit_observe(&k, asks);
        store_mem_fail_at(k.store, (enum store_mem_fail)what, 1);
        setting_ask(asks, &(struct wish){
                              .job = name, .variables = "w", .name = "learning_rate", .value = 0.5, .bound = &bound});
        ck_assert(k.closed[asks]); /* not answered: the client finds out by asking again */
        ck_assert_uint_eq(kit_state(&k), state);
        kit_push_four(&k, conn, 1, 0, var, 1);
        kit_ack(&k, conn, 1, PS_OK);
        ck_assert_float_eq(kit_value_four(&k, conn, var, 1), -1);
    }
}
END_TEST

/* Rows that a turn has no room for any more wait for the next one; a job of thousands of variables is one turn. */
START_TEST(a_set_of_many_variables_has_a_turn_of_its_own)
{
    enum { MANY = 600 };
    uint32_t var = 0;
    char name[16];

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "v%d", i);
        var = kit_declare(&k, 1, name, 4, PS_SGD);
    }
    k.hold = true;
    kit_push_four(&k, 1, 1, 0, var, 1);
    ck_assert_ptr_null(k.answers[1]);
    setting_ask(1, &(struct wish){.variables = "v*", .name = "learning_rate", .value = 0.5});
    kit_ack(&k, 1, 1, PS_OK); /* the turn with the push has ended */
    kit_turn(&k);
    k.hold = false;
    setting_done(1, MANY);
    kit_crash(&k);
    kit_resume(&k, 2, kit_job("train", PSD__MODE__ASYNC, 1), 0, 1);
    kit_push_four(&k, 2, 2, 0, var, 1);
    kit_ack(&k, 2, 2, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 2, var, 2), -1.5f);
}
END_TEST

/* Its rows are not begun when there may be no room for all of them: that would end the turn for all. */
START_TEST(a_set_without_room_for_its_rows_is_refused)
{
    enum { MANY = 2000 }; /* 55 MiB at worst */
    uint32_t var = 0;
    char name[16];

    kit_finish(&k);
    kit_init_size(&k, NULL, 56 * MIB);
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "v%d", i);
        var = kit_declare(&k, 1, name, 4, PS_SGD);
    }
    k.hold = true;
    kit_push_four(&k, 1, 1, 0, var, 1);
    setting_ask(1, &(struct wish){.variables = "*", .name = "learning_rate", .value = 0.5});
    kit_turn(&k);
    k.hold = false;
    kit_ack(&k, 1, 1, PS_OK);
    setting_refused(1, PS_ERR_FULL, "2000 variables");
    set_rate(1, "v1?", 0.5, 10);
}
END_TEST

START_TEST(a_set_names_at_most_so_many_variables)
{
    char name[16];

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    for (int i = 0; i <= SHARD_SET_MAX; i++) {
        snprintf(name, sizeof name, "v%d", i);
        kit_declare(&k, 1, name, 4, PS_SGD);
    }
    setting_ask(1, &(struct wish){.variables = "*", .name = "learning_rate", .value = 0.5});
    setting_refused(1, PS_ERR_LIMIT, "4097 variables");
    set_rate(1, "v?*?", 0.5, SHARD_SET_MAX + 1 - 10);
}
END_TEST

/* ---- The norm of a push ---- */

START_TEST(given_norm_scales_the_gradient)
{
    const double two = 2, zero = 0, small = 0.5;
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    var = declare_clipped(1, "w", &clip_norm);
    push_norm(1, 1, 0, var, 1, &two, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 1, var, 1), -0.5f);
    push_norm(1, 2, 0, var, 1, &small, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 1, var, 2), -1.5f);
    push_norm(1, 3, 0, var, 1, &zero, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 1, var, 3), -2.5f);
    push_norm(1, 4, 0, var, 1, NULL, PS_ERR_INVALID);
    ck_assert_float_eq(kit_value_four(&k, 1, var, 3), -2.5f);
}
END_TEST

START_TEST(norm_of_a_push_is_no_matter_to_other_variables)
{
    const double two = 2;
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    push_norm(1, 1, 0, var, 1, &two, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 1, var, 1), -1);
}
END_TEST

START_TEST(norm_and_age_scale_together)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 2);
    float g[4] = {1, 1, 1, 1};
    const double eight = 8;
    uint64_t from = 0;
    uint32_t var;

    job->age->kind = PSD__AGE_KIND__AGE_INVERSE;
    kit_join(&k, 1, job, 0);
    job->age->kind = PSD__AGE_KIND__AGE_NONE;
    var = declare_clipped(1, "w", &clip_norm);
    for (uint64_t seq = 1; seq <= 2; seq++) {
        kit_push(
            &k, 1,
            &(struct kit_push){.seq = seq, .var = var, .gradient = g, .len = 4, .from_version = &from, .norm = &eight});
        kit_ack(&k, 1, seq, PS_OK);
    }
    ck_assert_float_eq(kit_value_four(&k, 1, var, 2), -0.125f - 0.0625f);
}
END_TEST

/* In sync each worker's gradient is clipped by its own norm as it joins; the mean is taken of what is left. */
START_TEST(in_sync_each_gradient_is_clipped_as_it_joins)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 2);
    const double two = 2, four = 4;
    float g[4] = {1, 1, 1, 1};
    uint32_t var;

    kit_join(&k, 1, job, 0);
    kit_join(&k, 2, job, 1);
    var = declare_clipped(1, "w", &clip_norm);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4, .norm = &two});
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4, .norm = &four});
    kit_ack(&k, 1, 1, PS_OK);
    kit_ack(&k, 2, 1, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 1, var, 1), -(0.5f + 0.25f) / 2);
    push_norm(1, 2, 0, var, 1, NULL, PS_ERR_INVALID);
}
END_TEST

/* A variable that was declared to clip by a given norm may stop and begin again, since its workers always give one; no
 * other may. */
START_TEST(only_who_was_declared_to_clips_by_a_given_norm)
{
    const double two = 2;
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    var = declare_clipped(1, "w", &clip_norm);
    kit_declare(&k, 1, "plain", 4, PS_SGD);
    setting_ask(1, &(struct wish){.variables = "*", .clip = &clip_norm});
    setting_refused(1, PS_ERR_INVALID, "variable 'plain'");
    setting_ask(1, &(struct wish){.variables = "w", .clip = &clip_none});
    setting_done(1, 1);
    push_norm(1, 1, 0, var, 1, &two, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 1, var, 1), -1);
    push_norm(1, 2, 0, var, 1, NULL, PS_OK);
    setting_ask(1, &(struct wish){.variables = "w", .clip = &(struct ps_clip){PS_CLIP_GIVEN_NORM, 0.5}});
    setting_done(1, 1);
    push_norm(1, 3, 0, var, 1, &two, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 1, var, 3), -2.25f);
}
END_TEST

/* ---- Draining ---- */

static void
setting_drain(uint64_t conn)
{
    Psd__Drain m = PSD__DRAIN__INIT;

    kit_frame(&k, conn, MSG_DRAIN, 0, &m.base, NULL, 0);
}

static void
expect_draining(uint64_t conn)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_EVENT);

    ck_assert_int_eq(a->msg.u.event->kind, PSD__EVENT_KIND__EVENT_DRAINING);
    kit_answer_free(a);
    ck_assert(k.closed[conn] || !k.open[conn]);
}

START_TEST(a_peer_may_ask_the_shard_to_drain)
{
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_push_four(&k, 1, 1, 0, var, 1);
    kit_ack(&k, 1, 1, PS_OK);
    if (_i == 0)
        kit_observe(&k, 2);
    setting_drain(_i == 0 ? 2 : 1);
    expect_draining(1);
    if (_i == 0)
        expect_draining(2);
    kit_turn(&k);
    ck_assert(k.draining && k.stopped);
    kit_crash(&k); /* started again */
    ck_assert_uint_eq(kit_resume(&k, 3, kit_job("train", PSD__MODE__ASYNC, 1), 0, 1), 1);
    ck_assert_float_eq(kit_value_four(&k, 3, var, 1), -1);
}
END_TEST

/* The turn in which it was asked is taken back, draining is not: all clients must still be notified. */
START_TEST(draining_goes_on_when_its_turn_fails)
{
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_observe(&k, 2);
    k.hold = true;
    kit_push_four(&k, 1, 1, 0, var, 1);
    setting_drain(2);
    store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1);
    kit_turn(&k);
    k.hold = false;
    ck_assert(k.draining && k.stopped);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("setting");
    TCase *tc = tcase_create("setting");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, learning_rate_holds_from_the_next_update);
    tcase_add_test(tc, within_a_turn_each_push_has_the_rate_of_its_time);
    tcase_add_test(tc, pattern_names_the_variables_that_change);
    tcase_add_test(tc, set_is_checked_whole_before_it_is_done);
    tcase_add_test(tc, a_change_that_would_need_other_slots_is_refused);
    tcase_add_test(tc, how_slots_began_cannot_be_changed);
    tcase_add_test(tc, schedule_and_clip_hold_from_the_next_update);
    tcase_add_test(tc, a_schedule_that_begins_now_has_all_its_steps_before_it);
    tcase_add_test(tc, a_schedule_by_clock_begins_at_the_step_that_is_next);
    tcase_add_test(tc, a_rate_that_a_schedule_makes_0_is_set_only_without_care);
    tcase_add_test(tc, larger_bound_lets_parked_pulls_go_at_once);
    tcase_add_test(tc, age_policy_holds_for_the_next_push);
    tcase_add_test(tc, what_is_not_there_is_not_found);
    tcase_add_test(tc, nobody_sets_before_hello);
    tcase_add_test(tc, a_set_outlives_the_process_and_the_old_options_still_match);
    tcase_add_test(tc, a_set_in_a_turn_that_failed_did_not_happen);
    tcase_add_test(tc, a_set_of_many_variables_has_a_turn_of_its_own);
    tcase_add_test(tc, a_set_without_room_for_its_rows_is_refused);
    tcase_add_test(tc, a_set_names_at_most_so_many_variables);
    tcase_add_test(tc, given_norm_scales_the_gradient);
    tcase_add_test(tc, norm_of_a_push_is_no_matter_to_other_variables);
    tcase_add_test(tc, norm_and_age_scale_together);
    tcase_add_test(tc, in_sync_each_gradient_is_clipped_as_it_joins);
    tcase_add_test(tc, only_who_was_declared_to_clips_by_a_given_norm);
    tcase_add_loop_test(tc, a_peer_may_ask_the_shard_to_drain, 0, 2);
    tcase_add_test(tc, draining_goes_on_when_its_turn_fails);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
