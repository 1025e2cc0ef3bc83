/* Sets and drains from the client's side: to which shards, again after a reconnect, and the caller's result; the norm
 * that a push carries. */
#include "tests/unit/client/core/shards/core_harness.h"

#include <math.h>

static struct harness h;

static void
core_setting_setup(void)
{
    harness_start(&h, 3, PS_ASYNC);
}

static void
core_setting_teardown(void)
{
    harness_stop(&h);
}

static const struct ps_parameter slower = {"learning_rate", 0.5};
static const struct ps_setting setting = {.variables = "w*", .parameters = 1, .parameter = &slower};

static struct core_op *
start_set(const struct ps_setting *s)
{
    struct core_op *op;
    struct ps_error e = {0};

    ck_assert_msg(core_set(h.core, s, &op, &e) == PS_OK, "%s", e.text);
    harness_perform(&h);
    return op;
}

static void
answer_set(uint32_t shard, uint64_t request, uint64_t variables)
{
    Psd__SetDone m = PSD__SET_DONE__INIT;

    m.variables = variables;
    m.changed = variables > 0;
    to_client(&h, shard, MSG_SET_DONE, request, &m.base, NULL, 0);
}

static void
refuse_set(uint32_t shard, uint64_t request, enum ps_err code, const char *text)
{
    Psd__Error m = PSD__ERROR__INIT;

    m.code = (uint32_t)code;
    m.text = (char *)text;
    to_client(&h, shard, MSG_ERROR, request, &m.base, NULL, 0);
}

static void
core_setting_lose(uint32_t shard)
{
    struct ps_error why;

    ps_fail(&why, PS_ERR_CLOSED, "the peer closed the connection");
    harness_drop_connection(&h, shard);
    core_disconnected(h.core, shard, &why, h.now);
}

/* Connect a lost link again, by hand. */
static void
come_back(uint32_t shard)
{
    harness_pass(&h, 2000);
    harness_perform(&h);
    core_expect(&h, shard, MSG_HELLO);
    tell_welcome(&h, shard, (struct welcome){0});
    harness_perform(&h);
}

/* ---- Sets ---- */

START_TEST(set_goes_to_every_shard_as_it_was_asked)
{
    struct ps_schedule schedule = {.kind = PS_SCHEDULE_COSINE, .warmup_steps = 3, .steps = 9, .floor = 0.25};
    struct ps_clip clip = {PS_CLIP_VALUE, 2};
    struct ps_age_policy age = {PS_AGE_CUTOFF, 4};
    uint32_t bound = 7;
    struct ps_setting all = {.job = "other",
                             .variables = "w*",
                             .parameters = 1,
                             .parameter = &slower,
                             .schedule = &schedule,
                             .clip = &clip,
                             .age = &age,
                             .bound = &bound,
                             .workers = 5};
    struct core_op *op = start_set(&all);

    for (uint32_t shard = 0; shard < 3; shard++) {
        struct wire_msg m = core_expect(&h, shard, MSG_SET);
        const Psd__Set *s = m.u.set;

        ck_assert_str_eq(s->job, "other");
        ck_assert_str_eq(s->variables, "w*");
        ck_assert_uint_eq(s->n_parameter, 1);
        ck_assert_str_eq(s->parameter[0]->name, "learning_rate");
        ck_assert_double_eq(s->parameter[0]->value, 0.5);
        ck_assert_int_eq(s->schedule->kind, PSD__SCHEDULE_KIND__SCHEDULE_COSINE);
        ck_assert_uint_eq(s->schedule->warmup_steps, 3);
        ck_assert_double_eq(s->clip->limit, 2);
        ck_assert_int_eq(s->age->kind, PSD__AGE_KIND__AGE_CUTOFF);
        ck_assert_uint_eq(s->bound->clocks, 7);
        ck_assert_uint_eq(s->workers, 5);
        ck_assert(!core_op_done(op));
        answer_set(shard, m.request, shard);
    }
    ck_assert(core_op_done(op));
    ck_assert_uint_eq(core_op_variables(op), 0 + 1 + 2);
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(a_schedule_begins_now_unless_its_setting_says_where)
{
    struct ps_schedule schedule = {.kind = PS_SCHEDULE_COSINE, .steps = 9}, later = schedule;
    const struct {
        const struct ps_schedule *schedule;
        int from_start, force;
        bool begin_now, careful;
    } all[] = {{&schedule, 0, 0, true, true}, {&schedule, 1, 0, false, true}, {&later, 0, 1, false, false}};

    later.begin = 7;
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        struct core_op *op = start_set(&(struct ps_setting){
            .variables = "w*", .schedule = all[i].schedule, .from_start = all[i].from_start, .force = all[i].force});

        for (uint32_t shard = 0; shard < 3; shard++) {
            struct wire_msg m = core_expect(&h, shard, MSG_SET);

            ck_assert_uint_eq(m.u.set->schedule->begin, all[i].schedule->begin);
            ck_assert(m.u.set->begin_now == all[i].begin_now && m.u.set->careful == all[i].careful);
            answer_set(shard, m.request, 1);
        }
        end_op(&h, op, PS_OK);
    }
}
END_TEST

START_TEST(set_of_no_job_is_of_the_clients_own)
{
    uint32_t bound = 2;
    struct core_op *op = start_set(&(struct ps_setting){.bound = &bound});
    const Psd__Set *s = core_expect(&h, 0, MSG_SET).u.set;

    ck_assert_str_eq(s->job, "job");
    ck_assert_str_eq(s->variables, "");
    ck_assert(s->age == NULL && s->schedule == NULL && s->clip == NULL && s->n_parameter == 0);
    cancel_op(&h, op, PS_ERR_CANCELLED);
}
END_TEST

START_TEST(set_that_makes_no_sense_is_not_sent)
{
    struct ps_parameter nan = {"learning_rate", NAN}, nameless = {NULL, 1};
    struct ps_setting bad[] = {
        {0},
        {.variables = "w"},
        {.parameters = 1, .parameter = &slower},
        {.variables = "w", .parameters = 1},
        {.variables = "w", .parameters = 1, .parameter = &nan},
        {.variables = "w", .parameters = 1, .parameter = &nameless},
        {.variables = "w", .parameters = 1000, .parameter = &slower},
        {.variables = "\xff", .parameters = 1, .parameter = &slower},
        {.age = &(struct ps_age_policy){PS_AGE_EXPONENTIAL, 2}},
    };
    struct core_op *op;
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_int_eq(core_set(h.core, &bad[i], &op, &e), PS_ERR_INVALID);
        ck_assert_str_ne(e.text, "");
    }
    harness_perform(&h);
    ck_assert_ptr_null(h.link[0].up.first);
}
END_TEST

START_TEST(set_is_sent_again_after_a_reconnect)
{
    struct core_op *op = start_set(&setting);

    for (uint32_t shard = 0; shard < 3; shard++) {
        struct wire_msg m = core_expect(&h, shard, MSG_SET);

        if (shard != 1)
            answer_set(shard, m.request, 1);
    }
    core_setting_lose(1);
    ck_assert(!core_op_done(op));
    come_back(1);
    answer_set(1, core_expect(&h, 1, MSG_SET).request, 1);
    ck_assert_uint_eq(core_op_variables(op), 3);
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(refusal_says_which_shards_have_changed)
{
    struct core_op *op = start_set(&setting);
    struct ps_error e;

    for (uint32_t shard = 0; shard < 3; shard++) {
        struct wire_msg m = core_expect(&h, shard, MSG_SET);

        if (shard == 1)
            refuse_set(shard, m.request, PS_ERR_INVALID, "variable 'w2': it does not like that");
        else
            answer_set(shard, m.request, 1);
    }
    ck_assert_int_eq(core_op_result(op, &e), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(e.text, "shard 1 at"));
    ck_assert_ptr_nonnull(strstr(e.text, "it does not like that; changed on shards 0 and 2"));
    end_op(&h, op, PS_ERR_INVALID);
    op = start_set(&setting);
    refuse_set(0, core_expect(&h, 0, MSG_SET).request, PS_ERR_INVALID, "it does not like that");
    answer_set(1, core_expect(&h, 1, MSG_SET).request, 1);
    answer_set(2, core_expect(&h, 2, MSG_SET).request, 0); /* none of the variables has a block there */
    ck_assert_int_eq(core_op_result(op, &e), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(e.text, "; changed on shard 1"));
    ck_assert_ptr_null(strstr(e.text, "shard 1 and"));
    end_op(&h, op, PS_ERR_INVALID);
    op = start_set(&setting);
    for (uint32_t shard = 0; shard < 3; shard++)
        refuse_set(shard, core_expect(&h, shard, MSG_SET).request, PS_ERR_NOT_FOUND, "no such job");
    ck_assert_int_eq(core_op_result(op, &e), PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(e.text, "changed on no shard"));
    end_op(&h, op, PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(long_list_of_shards_is_cut_off_once)
{
    const char *shards, *more;
    struct ps_error e;
    struct core_op *op;

    harness_stop(&h);
    harness_start(&h, HARNESS_SHARDS, PS_ASYNC);
    op = start_set(&setting);
    for (uint32_t shard = 0; shard < HARNESS_SHARDS; shard++)
        if (shard == 1)
            refuse_set(shard, core_expect(&h, shard, MSG_SET).request, PS_ERR_INVALID, "no");
        else
            answer_set(shard, core_expect(&h, shard, MSG_SET).request, 1);
    core_op_result(op, &e);
    shards = strstr(e.text, "changed on shards 0, 2, 3, ");
    ck_assert_msg(shards != NULL, "%s", e.text);
    more = strstr(shards, " and more");
    ck_assert(more != NULL && more[strlen(" and more")] == '\0');
    end_op(&h, op, PS_ERR_INVALID);
}
END_TEST

START_TEST(pattern_is_not_found_when_no_shard_knows_it)
{
    struct ps_age_policy age = {PS_AGE_NONE, 0};

    for (int named = 0; named < 2; named++) {
        struct core_op *op = start_set(&setting);
        struct ps_error e;

        for (uint32_t shard = 0; shard < 3; shard++)
            answer_set(shard, core_expect(&h, shard, MSG_SET).request, shard == 2 && named == 1);
        core_op_result(op, &e);
        ck_assert(named == 1 || strstr(e.text, "fits 'w*'") != NULL);
        end_op(&h, op, named == 1 ? PS_OK : PS_ERR_NOT_FOUND);
    }
    struct core_op *op = start_set(&(struct ps_setting){.age = &age}); /* no pattern, no variables */
    for (uint32_t shard = 0; shard < 3; shard++)
        answer_set(shard, core_expect(&h, shard, MSG_SET).request, 0);
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(set_that_waits_says_who_is_done)
{
    struct core_op *op = start_set(&setting);
    struct ps_error e;

    answer_set(0, core_expect(&h, 0, MSG_SET).request, 1);
    answer_set(2, core_expect(&h, 2, MSG_SET).request, 1);
    ck_assert_int_eq(core_op_waiting(h.core, op, 300, &e), PS_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(e.text, "for shard 1 at"));
    ck_assert_ptr_nonnull(strstr(e.text, "changed on shards 0 and 2 so far"));
    cancel_op(&h, op, PS_ERR_CANCELLED);
    answer_set(1, core_expect(&h, 1, MSG_SET).request, 1); /* no call waits for it any more */
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_OK);
}
END_TEST

START_TEST(set_done_that_was_not_asked_for_is_final)
{
    answer_set(1, 99, 1);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_ERR_PROTOCOL);
}
END_TEST

/* ---- Drains ---- */

static struct core_op *
start_drain(uint32_t shard)
{
    struct core_op *op;

    ck_assert_int_eq(core_drain(h.core, shard, &op, NULL), PS_OK);
    harness_perform(&h);
    return op;
}

static void
tell_draining(uint32_t shard)
{
    Psd__Event m = PSD__EVENT__INIT;

    m.kind = PSD__EVENT_KIND__EVENT_DRAINING;
    to_client(&h, shard, MSG_EVENT, 0, &m.base, NULL, 0);
}

START_TEST(drain_is_done_when_the_shard_has_closed)
{
    struct core_op *op = start_drain(1);

    core_expect(&h, 1, MSG_DRAIN);
    ck_assert_ptr_null(h.link[0].up.first);
    tell_draining(1);
    ck_assert(!core_op_done(op));
    core_setting_lose(1);
    end_op(&h, op, PS_OK);
    harness_perform(&h);
}
END_TEST

/* The connection was cut before the shard answered: it may not have received the drain. */
START_TEST(drain_is_asked_again_when_the_connection_was_cut)
{
    struct core_op *op = start_drain(1);

    core_expect(&h, 1, MSG_DRAIN);
    core_setting_lose(1);
    ck_assert(!core_op_done(op));
    come_back(1);
    core_expect(&h, 1, MSG_DRAIN);
    tell_draining(1);
    core_setting_lose(1);
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(drain_of_a_shard_that_refuses_newcomers_is_done)
{
    struct core_op *op = start_drain(1);

    core_expect(&h, 1, MSG_DRAIN);
    core_setting_lose(1);
    harness_pass(&h, 2000);
    harness_perform(&h);
    core_expect(&h, 1, MSG_HELLO);
    refuse_set(1, 0, PS_ERR_DRAINING, "shard 1 is shutting down");
    end_op(&h, op, PS_OK);
}
END_TEST

START_TEST(drain_of_no_shard_is_refused)
{
    struct core_op *op;

    ck_assert_int_eq(core_drain(h.core, 3, &op, NULL), PS_ERR_INVALID);
}
END_TEST

/* ---- The norm of a push ---- */

static struct core_var *
var_clipped(const char *name, enum ps_clip_kind clip)
{
    struct ps_var_spec spec = {.name = name,
                               .rank = 1,
                               .dims = {3},
                               .optimizer = {.learning_rate = 0.1, .clip = {clip, clip != PS_CLIP_NONE}}};
    struct core_var *v;
    struct core_op *op;

    ck_assert_int_eq(core_declare(h.core, &spec, &v, &op, NULL), PS_OK);
    harness_run(&h);
    end_op(&h, op, PS_OK);
    return v;
}

/* The norm of the next push that any shard got; negative: it has none. */
static double
norm_sent(void)
{
    for (uint32_t shard = 0; shard < 3; shard++)
        if (h.link[shard].up.first != NULL) {
            const Psd__Push *m = core_expect(&h, shard, MSG_PUSH).u.push;

            return m->norm != NULL ? m->norm->l2 : -1;
        }
    ck_abort_msg("no push was sent");
}

static enum ps_err
push_both(struct core_var *const vars[2], const float *const grads[2], double norm, struct core_op **op)
{
    enum ps_err err = core_push(h.core, 2, vars, grads, NULL, &(struct ps_push_options){.norm = norm}, op, NULL);

    harness_perform(&h);
    return err;
}

START_TEST(norm_is_that_of_all_gradients_of_the_call_or_as_given)
{
    struct core_var *vars[2] = {var_clipped("plain", PS_CLIP_VALUE), var_clipped("clipped", PS_CLIP_GIVEN_NORM)};
    const float a[3] = {1, 2, 2}, b[3] = {0, 0, 4}, bad[3] = {0, NAN, 0};
    struct core_op *op;

    ck_assert_int_eq(push_both(vars, (const float *const[]){a, b}, 0, &op), PS_OK);
    ck_assert_double_eq(norm_sent(), 5);
    cancel_op(&h, op, PS_ERR_UNKNOWN_OUTCOME);
    core_setting_teardown();
    core_setting_setup();
    vars[0] = var_clipped("plain", PS_CLIP_VALUE);
    vars[1] = var_clipped("clipped", PS_CLIP_GIVEN_NORM);
    ck_assert_int_eq(push_both(vars, (const float *const[]){a, b}, 12.5, &op), PS_OK);
    ck_assert_double_eq(norm_sent(), 12.5);
    ck_assert_int_eq(push_both(vars, (const float *const[]){a, bad}, 0, &op), PS_ERR_NONFINITE);
    ck_assert_int_eq(push_both(vars, (const float *const[]){a, b}, -1, &op), PS_ERR_INVALID);
    ck_assert_int_eq(push_both(vars, (const float *const[]){a, b}, NAN, &op), PS_ERR_INVALID);
}
END_TEST

START_TEST(step_whose_gradient_has_no_norm_takes_its_place_in_the_data)
{
    struct core_var *vars[1] = {var_clipped("clipped", PS_CLIP_GIVEN_NORM)};
    const float bad[3] = {0, NAN, 0}, *const grads[1] = {bad};
    struct ps_cursor cursor = {0, 32};
    struct ps_push_options options = {.cursor = &cursor};
    struct core_op *op;
    struct ps_error e;

    ck_assert_int_eq(core_push(h.core, 1, vars, grads, NULL, &options, &op, &e), PS_ERR_NONFINITE);
    core_op_free(h.core, start_tick(&h));
    ck_assert_uint_eq(core_cursor(h.core).position, 32); /* the next step does not read it again */
}
END_TEST

START_TEST(no_norm_is_computed_for_nobody)
{
    struct core_var *vars[2] = {var_clipped("a", PS_CLIP_NONE), var_clipped("b", PS_CLIP_BLOCK_NORM)};
    const float a[3] = {1, 2, 2}, bad[3] = {0, NAN, 0};
    struct core_op *op;

    ck_assert_int_eq(push_both(vars, (const float *const[]){a, bad}, 0, &op), PS_OK); /* the shard's to refuse */
    ck_assert_double_eq(norm_sent(), -1);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("core_setting");
    TCase *tc = tcase_create("core_setting");

    tcase_add_checked_fixture(tc, core_setting_setup, core_setting_teardown);
    tcase_add_test(tc, set_goes_to_every_shard_as_it_was_asked);
    tcase_add_test(tc, a_schedule_begins_now_unless_its_setting_says_where);
    tcase_add_test(tc, set_of_no_job_is_of_the_clients_own);
    tcase_add_test(tc, set_that_makes_no_sense_is_not_sent);
    tcase_add_test(tc, set_is_sent_again_after_a_reconnect);
    tcase_add_test(tc, refusal_says_which_shards_have_changed);
    tcase_add_test(tc, long_list_of_shards_is_cut_off_once);
    tcase_add_test(tc, pattern_is_not_found_when_no_shard_knows_it);
    tcase_add_test(tc, set_that_waits_says_who_is_done);
    tcase_add_test(tc, set_done_that_was_not_asked_for_is_final);
    tcase_add_test(tc, drain_is_done_when_the_shard_has_closed);
    tcase_add_test(tc, drain_is_asked_again_when_the_connection_was_cut);
    tcase_add_test(tc, drain_of_a_shard_that_refuses_newcomers_is_done);
    tcase_add_test(tc, drain_of_no_shard_is_refused);
    tcase_add_test(tc, norm_is_that_of_all_gradients_of_the_call_or_as_given);
    tcase_add_test(tc, step_whose_gradient_has_no_norm_takes_its_place_in_the_data);
    tcase_add_test(tc, no_norm_is_computed_for_nobody);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
