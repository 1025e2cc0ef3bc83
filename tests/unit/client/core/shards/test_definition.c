/* What a worker says it trains: the message, when it is said again, and what a shard's answers do. */
#include "client/core/shards/definition.h"

#include "common/core/base/utf8.h"
#include "tests/unit/client/core/shards/core_harness.h"

static struct harness h;
static struct core_var *v;

/* Another incarnation, which both shards have welcomed. */
static void
definition_join(uint64_t incarnation, struct welcome first, struct welcome second)
{
    core_rejoin(h.core, incarnation, h.now);
    harness_perform(&h);
    for (uint32_t i = 0; i < 2; i++)
        while (core_expect(&h, i, MSG_HELLO).u.hello->incarnation != incarnation)
            ;
    tell_welcome(&h, 0, first);
    tell_welcome(&h, 1, second);
    ck_assert(core_joined(h.core));
}

static void
definition_setup(void)
{
    harness_start(&h, 2, PS_ASYNC);
    v = harness_var(&h, "w", 8);
    definition_join(70, (struct welcome){.defines = true, .begins = true}, (struct welcome){.begins = true});
    ck_assert(core_defines(h.core));
}

static void
definition_teardown(void)
{
    harness_stop(&h);
}

static struct core_op *
definition_start(const char *name, const char *value)
{
    struct ps_definition field = {name, value};
    struct core_op *op;
    struct ps_error e;

    ck_assert_msg(core_define(h.core, 1, &field, &op, &e) == PS_OK, "%s", e.text);
    harness_perform(&h);
    return op;
}

/* The next DEFINE to shard 0 has these fields: "batch=96 rows=10". Returns its request. */
static uint64_t
definition_sent(const char *want, bool again)
{
    struct wire_msg msg = core_expect(&h, 0, MSG_DEFINE);
    const Psd__Define *m = msg.u.define;
    char text[2048] = "";

    for (size_t i = 0; i < m->n_field; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s=%s", i > 0 ? " " : "", m->field[i]->name,
                 m->field[i]->value);
    ck_assert_str_eq(text, want);
    ck_assert_int_eq(m->again, again);
    return msg.request;
}

static void
definition_answer(uint64_t request, uint64_t round, uint64_t clock)
{
    Psd__Begins begins = PSD__BEGINS__INIT;
    Psd__Defined m = PSD__DEFINED__INIT;

    begins.clock = clock;
    m.round = round;
    m.begins = &begins;
    to_client(&h, 0, MSG_DEFINED, request, &m.base, NULL, 0);
}

static void
definition_refuse(uint64_t request)
{
    Psd__Error e = PSD__ERROR__INIT;

    e.code = PS_ERR_MISMATCH;
    e.text = (char *)"worker 1 has batch '48'";
    to_client(&h, 0, MSG_ERROR, request, &e.base, NULL, 0);
}

static void
definition_agreed(const char *name, const char *value, const char *sent, bool again)
{
    struct core_op *op = definition_start(name, value);

    definition_answer(definition_sent(sent, again), 0, 0);
    ck_assert(core_op_done(op));
    ck_assert_int_eq(core_op_result(op, NULL), PS_OK);
    core_op_free(h.core, op);
}

START_TEST(what_was_agreed_is_said_again_to_a_new_session)
{
    definition_agreed("batch", "96", "batch=96", false);
    definition_agreed("rows", "10", "batch=96 rows=10", false);
    definition_agreed("rows", "11", "batch=96 rows=11", false); /* the new value */
    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_welcome(&h, 0, (struct welcome){.defines = true, .begins = true}); /* the session goes on */
    definition_join(71, (struct welcome){.defines = true, .begins = true}, (struct welcome){.begins = true});
    definition_answer(definition_sent("batch=96 rows=11", true), 0, 0);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_OK);
}
END_TEST

START_TEST(a_shard_that_lost_its_data_is_told_again)
{
    definition_agreed("batch", "96", "batch=96", false);
    harness_cut(&h, 0);
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_welcome(&h, 0, (struct welcome){.defines = true, .begins = true, .boot = 7});
    definition_sent("batch=96", true);
    harness_cut(&h, 0); /* and once more, as it was not answered */
    harness_pass(&h, 1000);
    core_expect(&h, 0, MSG_HELLO);
    tell_welcome(&h, 0, (struct welcome){.defines = true, .begins = true, .boot = 7});
    definition_answer(definition_sent("batch=96", true), 0, 0);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_OK);
}
END_TEST

START_TEST(a_refusal_ends_the_operation_and_later_the_session)
{
    struct core_op *op = definition_start("batch", "96");
    struct ps_error e;

    definition_refuse(definition_sent("batch=96", false));
    ck_assert_int_eq(core_op_result(op, &e), PS_ERR_MISMATCH);
    ck_assert_str_eq(e.text, "worker 1 has batch '48'");
    core_op_free(h.core, op);
    ck_assert_int_eq(core_fatal(h.core, NULL), PS_OK);
    definition_agreed("batch", "48", "batch=48", false); /* nothing was kept of it */
    definition_join(71, (struct welcome){.defines = true, .begins = true}, (struct welcome){.begins = true});
    definition_refuse(definition_sent("batch=48", true));
    ck_assert_int_eq(core_fatal(h.core, &e), PS_ERR_MISMATCH);
}
END_TEST

/* The other shard learns of it by a tick, and the data begins at the clock that the answer has. */
START_TEST(an_answer_of_a_later_round_begins_it)
{
    struct ps_cursor first = {0, 9}, at;
    struct core_op *op;
    const Psd__Tick *tick;

    definition_join(71, (struct welcome){.defines = true, .begins = true, .clock = 4, .cursor = {0, 40}, .round = 2},
                    (struct welcome){.begins = true, .clock = 4, .cursor = {0, 40}, .round = 2});
    ck_assert_uint_eq(core_cursor(h.core).position, 40);
    op = definition_start("batch", "96");
    definition_answer(definition_sent("batch=96", false), 3, 4);
    ck_assert_int_eq(core_op_result(op, NULL), PS_OK);
    core_op_free(h.core, op);
    for (uint32_t i = 0; i < 2; i++) { /* shard 0 as well: an answer may be lost */
        tick = core_expect(&h, i, MSG_TICK).u.tick;
        ck_assert(tick->round == 3 && tick->clock == 4);
    }
    ck_assert_uint_eq(core_round(h.core), 3);
    ck_assert_uint_eq(core_cursor(h.core).position, 0);
    ck_assert_uint_eq(core_start_clock(h.core), 4);
    at = core_start_cursor(h.core, &first);
    ck_assert_uint_eq(at.position, 9);
}
END_TEST

/* The worker knows the round from the other shard, and has begun it. */
START_TEST(an_answer_of_the_round_that_is_known_begins_none)
{
    struct ps_cursor at = {0, 3};
    struct core_op *op, *push, *tick;

    definition_join(71, (struct welcome){.defines = true, .begins = true},
                    (struct welcome){.begins = true, .round = 1});
    core_expect(&h, 0, MSG_TICK);
    ck_assert_uint_eq(core_round(h.core), 1);
    ck_assert_int_eq(core_push(h.core, 1, &v, (const float *const[]){(float[8]){0}}, NULL,
                               &(struct ps_push_options){.flags = PS_PUSH_COPY, .cursor = &at}, &push, NULL),
                     PS_OK);
    tick = start_tick(&h);
    op = definition_start("batch", "96");
    while (h.link[0].up.first->head.type != MSG_DEFINE)
        flight_free(flights_take(&h.link[0].up));
    definition_answer(definition_sent("batch=96", false), 1, 0);
    ck_assert_int_eq(core_op_result(op, NULL), PS_OK);
    ck_assert_uint_eq(core_cursor(h.core).position, 3);
    core_op_free(h.core, op);
    core_op_free(h.core, push);
    core_op_free(h.core, tick);
}
END_TEST

START_TEST(a_shard_of_an_older_version_is_not_told)
{
    definition_agreed("batch", "96", "batch=96", false);
    definition_join(71, (struct welcome){.clock = 1}, (struct welcome){.clock = 1});
    ck_assert(!core_defines(h.core));
}
END_TEST

START_TEST(what_cannot_be_said_is_invalid)
{
    struct ps_definition fields[PS_DEFINITION_MAX + 1];
    char names[PS_DEFINITION_MAX + 1][8];
    struct core_op *op;
    struct ps_error e;

    for (size_t i = 0; i <= PS_DEFINITION_MAX; i++) {
        snprintf(names[i], sizeof names[i], "f%zu", i);
        fields[i] = (struct ps_definition){names[i], "1"};
    }
    ck_assert_int_eq(core_define(h.core, 0, fields, &op, &e), PS_ERR_INVALID);
    ck_assert_int_eq(core_define(h.core, PS_DEFINITION_MAX + 1, fields, &op, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "a worker defines more than 32 fields");
    fields[1].value = NULL;
    ck_assert_int_eq(core_define(h.core, 2, fields, &op, &e), PS_ERR_INVALID);
    fields[1] = (struct ps_definition){"", "1"};
    ck_assert_int_eq(core_define(h.core, 2, fields, &op, &e), PS_ERR_INVALID);
    fields[1] = (struct ps_definition){"a", "\x1b"};
    ck_assert_int_eq(core_define(h.core, 2, fields, &op, &e), PS_ERR_INVALID);
}
END_TEST

/* Its beginning and a hash: two that differ at the end differ. */
START_TEST(a_long_value_is_shortened)
{
    char long_value[600], one[WIRE_FIELD_VALUE_MAX + 1], other[WIRE_FIELD_VALUE_MAX + 1];

    for (size_t len = 0; len < sizeof long_value; len++) {
        for (size_t i = 0; i < len; i++)
            long_value[i] = "\xc3\xa9"[i % 2]; /* two bytes each */
        long_value[len & ~(size_t)1] = '\0';
        definition_shorten(long_value, one);
        ck_assert_uint_le(strlen(one), WIRE_FIELD_VALUE_MAX);
        ck_assert(utf8_is_printable(one, strlen(one)));
        if (strlen(long_value) <= WIRE_FIELD_VALUE_MAX) {
            ck_assert_str_eq(one, long_value);
            continue;
        }
        long_value[strlen(long_value) - 1] = '\xa8';
        definition_shorten(long_value, other);
        ck_assert_str_ne(one, other);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("definition");
    TCase *tc = tcase_create("definition");

    tcase_add_checked_fixture(tc, definition_setup, definition_teardown);
    tcase_add_test(tc, what_was_agreed_is_said_again_to_a_new_session);
    tcase_add_test(tc, a_shard_that_lost_its_data_is_told_again);
    tcase_add_test(tc, a_refusal_ends_the_operation_and_later_the_session);
    tcase_add_test(tc, an_answer_of_a_later_round_begins_it);
    tcase_add_test(tc, an_answer_of_the_round_that_is_known_begins_none);
    tcase_add_test(tc, a_shard_of_an_older_version_is_not_told);
    tcase_add_test(tc, what_cannot_be_said_is_invalid);
    tcase_add_test(tc, a_long_value_is_shortened);
    suite_add_tcase(s, tc);
    return s;
}

CHECK_MAIN(make_suite)
