/* Cursors: where a worker's data goes on, and the cursors in its pushes. */
#include "tests/unit/client/core/shards/core_harness.h"

static struct harness h;
static struct core_var *v;
static uint32_t shard; /* that holds v */

static void
step_cursor_setup(void)
{
    harness_start(&h, 2, PS_ASYNC);
    v = harness_var(&h, "w", 8);
    shard = v->shard[0].blocks > 0 ? 0 : 1;
}

static void
step_cursor_teardown(void)
{
    harness_stop(&h);
}

/* One push of the step whose data ends here; the result is that of its start. */
static enum ps_err
push_to(uint64_t epoch, uint64_t position, struct ps_error *e)
{
    struct ps_cursor cursor = {epoch, position};
    struct ps_push_options options = {.flags = PS_PUSH_COPY, .cursor = &cursor};
    const float grad[8] = {1}, *grads[1] = {grad};
    struct core_op *op;
    enum ps_err err = core_push(h.core, 1, &v, grads, NULL, &options, &op, e);

    if (err != PS_OK)
        return err;
    harness_perform(&h);
    core_op_free(h.core, op); /* it goes on as a skip, or was sent */
    return PS_OK;
}

static void
step_cursor_tick_both(void)
{
    core_op_free(h.core, start_tick(&h));
}

static void
check_place(uint64_t epoch, uint64_t position)
{
    struct ps_cursor at = core_cursor(h.core);

    ck_assert_uint_eq(at.epoch, epoch);
    ck_assert_uint_eq(at.position, position);
}

/* The next push that the core sent has this data. */
static void
check_sent(uint64_t from_epoch, uint64_t from, uint64_t epoch, uint64_t position)
{
    const Psd__Push *m = core_expect(&h, shard, MSG_PUSH).u.push;

    ck_assert_ptr_nonnull(m->cursor);
    ck_assert_uint_eq(m->cursor_from->epoch, from_epoch);
    ck_assert_uint_eq(m->cursor_from->position, from);
    ck_assert_uint_eq(m->cursor->epoch, epoch);
    ck_assert_uint_eq(m->cursor->position, position);
}

START_TEST(steps_join_without_a_gap)
{
    struct ps_error e;

    check_place(0, 0);
    ck_assert_int_eq(push_to(0, 32, &e), PS_OK);
    ck_assert_int_eq(push_to(0, 32, &e), PS_OK); /* another variable's, say */
    check_sent(0, 0, 0, 32);
    check_sent(0, 0, 0, 32);
    check_place(0, 0);
    step_cursor_tick_both();
    for (uint32_t i = 0; i < 2; i++) /* also to the shard that none of its pushes went to */
        ck_assert_uint_eq(core_expect(&h, i, MSG_TICK).u.tick->cursor->position, 32);
    check_place(0, 32);
    step_cursor_tick_both(); /* a step without pushes */
    ck_assert_ptr_null(core_expect(&h, shard, MSG_TICK).u.tick->cursor);
    check_place(0, 32);
    ck_assert_int_eq(push_to(1, 0, &e), PS_OK);
    check_sent(0, 32, 1, 0);
}
END_TEST

START_TEST(a_cursor_that_does_not_rise_is_invalid)
{
    struct ps_error e;

    ck_assert_int_eq(push_to(0, 0, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "push: the cursor 0:0 does not rise: this step begins at 0:0");
    ck_assert_int_eq(push_to(3, 5, &e), PS_OK);
    ck_assert_int_eq(push_to(3, 6, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "push: the cursor 3:6 is not that of this step's earlier pushes, 3:5; tick between steps");
    step_cursor_tick_both();
    ck_assert_int_eq(push_to(3, 5, &e), PS_ERR_INVALID);
    ck_assert_int_eq(push_to(2, 9, &e), PS_ERR_INVALID);
    ck_assert_int_eq(push_to(3, 6, &e), PS_OK);
}
END_TEST

START_TEST(a_push_without_a_cursor_has_none)
{
    float grad[8] = {1};
    struct core_op *op = start_push(&h, v, grad);
    const Psd__Push *m = core_expect(&h, shard, MSG_PUSH).u.push;

    ck_assert_ptr_null(m->cursor);
    ck_assert_ptr_null(m->cursor_from);
    core_op_free(h.core, op);
    harness_perform(&h);
}
END_TEST

static const struct {
    struct ps_cursor had[2], begins;
    uint64_t round[2];
} joins[] = {
    {{{1, 5}, {1, 3}}, {0, 0}, {4, 3}}, /* the second shard has missed that a round began: it counts nothing in it */
    {{{1, 5}, {2, 0}}, {0, 0}, {3, 4}}, {{{0, 0}, {0, 0}}, {0, 0}, {0, 0}}, {{{1, 5}, {1, 3}}, {1, 3}, {0, 0}},
    {{{1, 5}, {2, 0}}, {1, 5}, {2, 2}}, {{{0, 7}, {0, 0}}, {0, 0}, {0, 0}}};

START_TEST(who_joins_begins_at_the_smallest_place_of_all_shards)
{
    struct ps_error e;

    core_rejoin(h.core, 78, h.now);
    harness_perform(&h);
    for (uint32_t i = 0; i < 2; i++)
        while (core_expect(&h, i, MSG_HELLO).u.hello->incarnation != 78)
            ;
    tell_welcome(&h, 0, (struct welcome){.cursor = joins[_i].had[0], .round = joins[_i].round[0]});
    tell_welcome(&h, 1, (struct welcome){.cursor = joins[_i].had[1], .round = joins[_i].round[1]});
    ck_assert(core_joined(h.core));
    check_place(joins[_i].begins.epoch, joins[_i].begins.position);
    if (joins[_i].round[shard] < joins[_i].round[!shard])
        ck_assert_uint_eq(core_expect(&h, shard, MSG_TICK).u.tick->round, joins[_i].round[!shard]);
    ck_assert_int_eq(push_to(9, 1, &e), PS_OK);
    check_sent(joins[_i].begins.epoch, joins[_i].begins.position, 9, 1);
}
END_TEST

/* The welcomes of two shards, and where a worker begins then whose first process began at 1:clock. */
static const struct {
    struct welcome with[2];
    uint64_t clock;
    struct ps_cursor begins;
} starts[] = {
    /* A new job; a late worker that the shards do not say more of; a shard of an older version says its clock. */
    {{{.begins = true}, {.begins = true}}, 0, {1, 0}},
    {{{.begins = true, .begins_clock = 4}, {.begins = true, .begins_clock = 5}}, 5, {1, 5}},
    {{{.clock = 4}, {.begins = true, .begins_clock = 3}}, 4, {1, 4}},
    /* The slowest of the others, on the shard that has it further. */
    {{{.begins = true, .others = {1, 7}}, {.begins = true, .others = {1, 8}, .begins_clock = 5}}, 5, {1, 8}},
    {{{.begins = true, .others = {1, 7}}, {.begins = true}}, 0, {1, 7}},
    /* Killed before all shards had its first step: the others have gone on, and its data begins where it did. */
    {{{.begins = true, .clock = 9, .cursor = {1, 1}}, {.begins = true, .clock = 9}}, 0, {1, 0}},
    {{{.begins = true, .clock = 9, .cursor = {1, 9}, .others = {1, 8}}, {.begins = true, .others = {1, 7}}}, 0, {1, 8}},
    /* Later the smallest place. */
    {{{.begins = true, .cursor = {1, 5}, .others = {1, 2}}, {.begins = true, .cursor = {1, 4}}}, 0, {1, 4}},
    /* A shard that has missed the beginning of the round knows neither place nor clock of it. */
    {{{.begins = true, .round = 3, .begins_clock = 6},
      {.begins = true, .round = 2, .begins_clock = 8, .cursor = {1, 9}, .others = {1, 9}}},
     6,
     {1, 6}},
};

START_TEST(a_worker_begins_where_the_first_of_its_index_did)
{
    struct ps_cursor first, at;
    struct ps_error e;

    core_rejoin(h.core, 78, h.now);
    harness_perform(&h);
    for (uint32_t i = 0; i < 2; i++)
        while (core_expect(&h, i, MSG_HELLO).u.hello->incarnation != 78)
            ;
    for (uint32_t i = 0; i < 2; i++)
        tell_welcome(&h, i, starts[_i].with[i]);
    ck_assert(core_joined(h.core));
    ck_assert_uint_eq(core_start_clock(h.core), starts[_i].clock);
    first = (struct ps_cursor){1, core_start_clock(h.core)};
    at = core_start_cursor(h.core, &first);
    ck_assert_int_eq(step_cursor_compare(&at, &starts[_i].begins), 0);
    check_place(at.epoch, at.position);
    ck_assert_int_eq(push_to(9, 1, &e), PS_OK);
    check_sent(at.epoch, at.position, 9, 1);
    step_cursor_tick_both();
    core_start_cursor(h.core, &first); /* too late */
    check_place(9, 1);
}
END_TEST

/* A reconnect does not ask where the data goes on: this side knows. */
START_TEST(a_push_that_is_sent_again_keeps_its_place)
{
    struct ps_error e;
    struct ps_cursor cursor = {0, 32};
    struct ps_push_options options = {.cursor = &cursor};
    const float grad[8] = {1}, *grads[1] = {grad};
    struct core_op *op;

    ck_assert_int_eq(core_push(h.core, 1, &v, grads, NULL, &options, &op, &e), PS_OK);
    harness_perform(&h);
    check_sent(0, 0, 0, 32);
    step_cursor_tick_both();
    core_expect(&h, shard, MSG_TICK);
    harness_cut(&h, shard);
    harness_pass(&h, 1000);
    core_expect(&h, shard, MSG_HELLO);
    tell_welcome(&h, shard, (struct welcome){.cursor = {0, 16}});
    check_sent(0, 0, 0, 32);
    check_place(0, 32);
    core_op_free(h.core, op);
    harness_perform(&h);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("place");
    TCase *tc = tcase_create("place");

    tcase_add_checked_fixture(tc, step_cursor_setup, step_cursor_teardown);
    tcase_add_test(tc, steps_join_without_a_gap);
    tcase_add_test(tc, a_cursor_that_does_not_rise_is_invalid);
    tcase_add_test(tc, a_push_without_a_cursor_has_none);
    tcase_add_loop_test(tc, who_joins_begins_at_the_smallest_place_of_all_shards, 0, (int)ARRAY_LEN(joins));
    tcase_add_loop_test(tc, a_worker_begins_where_the_first_of_its_index_did, 0, (int)ARRAY_LEN(starts));
    tcase_add_test(tc, a_push_that_is_sent_again_keeps_its_place);
    suite_add_tcase(s, tc);
    return s;
}

CHECK_MAIN(make_suite)
