/* Definitions of jobs at shard 0: which workers agree, which are refused and told what and by whom, and what becomes of
 * a definition when those that had it are gone, the shard is killed or loses its power. */
#include <string.h>

#include "server/core/shard_state.h"
#include "tests/unit/kits/power_kit.h"
#include "tests/unit/kits/shard_fixture.h"

static uint64_t define_incarnation;

static Psd__Job *
define_job(void)
{
    return kit_job("train", PSD__MODE__ASYNC, 3);
}

static void
define_joins(uint64_t conn, uint32_t task)
{
    char agent[16];

    snprintf(agent, sizeof agent, "host:%u", task);
    kit_hello(&k, conn,
              &(struct kit_hello){
                  .job = define_job(), .task = task, .incarnation = 9000 + ++define_incarnation, .agent = agent});
    kit_expected(&k, conn, MSG_WELCOME);
    for (uint64_t other = 0; other < KIT_CONNS; other++)
        kit_drop_answers(&k, other); /* that it is back */
}

#define FIELDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* fields: "name=value", up to a NULL. */
static void
define_send(uint64_t conn, const char *const *fields, bool again)
{
    Psd__Define m = PSD__DEFINE__INIT;
    Psd__DefinitionField field[WIRE_FIELDS_MAX + 1], *list[WIRE_FIELDS_MAX + 1];
    char text[WIRE_FIELDS_MAX + 1][256];

    for (; fields[m.n_field] != NULL; m.n_field++) {
        char *at = strcpy(text[m.n_field], fields[m.n_field]), *value = strchr(at, '=');

        *value++ = '\0';
        psd__definition_field__init(&field[m.n_field]);
        field[m.n_field].name = at;
        field[m.n_field].value = value;
        field[m.n_field].task = 77; /* means nothing */
        list[m.n_field] = &field[m.n_field];
    }
    m.field = list;
    m.again = again;
    kit_frame(&k, conn, MSG_DEFINE, 500 + conn, &m.base, NULL, 0);
}

/* Returns the round. */
static uint64_t
define_agrees(uint64_t conn, const char *const *fields)
{
    struct kit_answer *a;
    uint64_t round;

    define_send(conn, fields, false);
    a = kit_expect(&k, conn, MSG_DEFINED);
    ck_assert_uint_eq(a->msg.request, 500 + conn);
    round = a->msg.u.defined->round;
    kit_answer_free(a);
    return round;
}

/* The connection goes on. */
static void
define_is_refused(uint64_t conn, const char *const *fields, const char *says)
{
    struct kit_answer *a;

    define_send(conn, fields, false);
    a = kit_expect(&k, conn, MSG_ERROR);
    ck_assert_uint_eq(a->msg.request, 500 + conn);
    ck_assert_int_eq(a->msg.u.error->code, PS_ERR_MISMATCH);
    ck_assert_str_eq(a->msg.u.error->text, says);
    kit_answer_free(a);
    ck_assert(!k.closed[conn]);
}

/* "batch=96@0 rows=10@1": with the tasks that gave them. */
static void
define_is(const char *want)
{
    const struct definition_fields *d = &k.shard->jobs_by_id[1]->definition;
    char text[4096] = "";

    for (size_t i = 0; i < d->len; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s=%s@%u", i > 0 ? " " : "", d->field[i]->name,
                 d->field[i]->value, d->field[i]->task);
    ck_assert_str_eq(text, want);
}

START_TEST(workers_agree_field_by_field)
{
    for (uint32_t task = 0; task < 3; task++)
        define_joins(task + 1, task);
    ck_assert_uint_eq(define_agrees(1, FIELDS("batch=96", "rows=1000")), 0);
    define_agrees(2, FIELDS("rows=1000", "seed=", "batch=96"));
    define_agrees(3, FIELDS("rows=1000"));
    define_agrees(1, FIELDS("epochs=3")); /* more of it */
    define_is("batch=96@0 rows=1000@0 seed=@1 epochs=3@0");
    define_is_refused(2, FIELDS("rows=1000", "epochs=4"),
                      "worker 1 was started with epochs '4', worker 0 (host:0) with epochs '3': all workers of job "
                      "'train' must be started with the same");
    define_is_refused(
        3, FIELDS("seed=1", "rows=1000", "batch=8", "epochs=2"),
        "worker 2 was started with seed '1', worker 1 (host:1) with seed ''; other values, too, of batch, "
        "epochs: all workers of job 'train' must be started with the same");
    define_is("batch=96@0 rows=1000@0 seed=@1 epochs=3@0");
}
END_TEST

/* Whoever gave a field may be gone: one that agreed to it is named. */
START_TEST(live_workers_and_those_that_finished_hold_to_it)
{
    for (uint32_t task = 0; task < 3; task++)
        define_joins(task + 1, task);
    define_agrees(1, FIELDS("batch=96"));
    define_agrees(2, FIELDS("batch=96"));
    kit_close(&k, 1);
    kit_turn(&k);
    kit_pass(&k, 60000); /* it lapses */
    kit_drop_answers(&k, 2);
    kit_drop_answers(&k, 3);
    define_is_refused(3, FIELDS("batch=8"),
                      "worker 2 was started with batch '8', worker 1 (host:1) with batch '96': all workers of job "
                      "'train' must be started with the same");
    define_joins(1, 0); /* its new process, started otherwise */
    define_is_refused(1, FIELDS("batch=8"),
                      "worker 0 was started with batch '8', worker 1 (host:1) with batch '96': all workers of job "
                      "'train' must be started with the same");
    kit_close(&k, 2);
    kit_pass(&k, 40);
    define_is_refused(3, FIELDS("batch=8"),
                      "worker 2 was started with batch '8', worker 1 (host:1, cut off 40 ms ago, its place is kept for "
                      "5000 ms) with batch '96': all workers of job 'train' must be started with the same");
    define_joins(2, 1);
    define_agrees(2, FIELDS("batch=96"));
    kit_goodbye(&k, 2, true);
    kit_turn(&k);
    define_is_refused(3, FIELDS("batch=8"),
                      "worker 2 was started with batch '8', worker 1 (host:1, which has finished) with batch '96': all "
                      "workers of job 'train' must be started with the same");
}
END_TEST

/* The place in its data was cut by the old definition, so a round begins, which the worker is told. */
START_TEST(when_all_who_had_it_are_lost_another_begins_a_round)
{
    struct kit_answer *a;

    define_joins(1, 0);
    define_joins(2, 1);
    define_agrees(1, FIELDS("batch=96", "rows=10"));
    kit_tick_at(&k, 1, 1, 5, 50);
    kit_drop_answers(&k, 1);
    kit_close(&k, 1);
    define_joins(3, 0); /* worker 1 has defined nothing: it holds to nothing */
    define_send(3, FIELDS("batch=8"), false);
    a = kit_expect(&k, 3, MSG_DEFINED);
    ck_assert_uint_eq(a->msg.u.defined->round, 1);
    ck_assert_uint_eq(a->msg.u.defined->begins->clock, k.shard->jobs_by_id[1]->sessions[0]->clock);
    kit_answer_free(a);
    define_is("batch=8@0");
    ck_assert_uint_eq(k.shard->jobs_by_id[1]->round, 1);
    ck_assert(data_cursor_none(k.shard->jobs_by_id[1]->sessions[0]->steps.at));
    kit_crash(&k);
    define_is("batch=8@0");
    ck_assert_uint_eq(k.shard->jobs_by_id[1]->sessions[0]->round, 1);
    define_joins(4, 0); /* the same again begins none */
    ck_assert_uint_eq(define_agrees(4, FIELDS("batch=8", "rows=11")), 1);
}
END_TEST

START_TEST(a_new_round_may_have_another)
{
    define_joins(1, 0);
    define_joins(2, 1);
    define_agrees(1, FIELDS("batch=96", "rows=10"));
    define_agrees(2, FIELDS("batch=96"));
    kit_goodbye(&k, 1, true);
    kit_turn(&k);
    define_joins(3, 0); /* worker 1 is still in the old round, and live */
    define_is_refused(3, FIELDS("batch=8"),
                      "worker 0 was started with batch '8', worker 1 (host:1) with batch '96': all workers of job "
                      "'train' must be started with the same");
    kit_goodbye(&k, 2, true);
    kit_turn(&k);
    ck_assert_uint_eq(define_agrees(3, FIELDS("batch=8")), 1); /* the round that its hello began */
    define_is("batch=8@0");
    define_joins(4, 1);
    define_is_refused(4, FIELDS("batch=96"),
                      "worker 1 was started with batch '96', worker 0 (host:0) with batch '8': all workers of job "
                      "'train' must be started with the same");
}
END_TEST

/* One that has trained, or is told again, does not begin a round in the midst of what it does. */
START_TEST(a_worker_that_trains_begins_no_round)
{
    uint32_t var;

    define_joins(1, 0);
    define_agrees(1, FIELDS("batch=96"));
    kit_close(&k, 1);
    define_joins(2, 0);
    if (_i == 0) {
        var = kit_declare(&k, 2, "w", 4, PS_SGD);
        kit_push_four(&k, 2, 1, 0, var, 1);
        kit_drop_answers(&k, 2);
    }
    define_send(2, FIELDS("batch=8"), _i == 1);
    kit_expected(&k, 2, MSG_DEFINED);
    define_is("batch=8@0");
    ck_assert_uint_eq(k.shard->jobs_by_id[1]->round, 0);
}
END_TEST

/* Worker 1 was lost at 0:40 of its data, comes again when worker 0 has finished, and this one comes, too: both are in
 * round 1. It is on connection 3. */
static const struct session *
define_takes_along(void)
{
    const struct session *session;

    define_joins(1, 0);
    define_joins(2, 1);
    kit_tick_at(&k, 2, 1, 1, 40);
    kit_close(&k, 2);
    kit_turn(&k);
    kit_pass(&k, 60000);
    kit_goodbye(&k, 1, true);
    kit_turn(&k);
    define_joins(3, 1);
    session = k.shard->jobs_by_id[1]->sessions[1];
    ck_assert_uint_eq(session->round, 0);
    define_joins(4, 0);
    ck_assert_uint_eq(session->round, 1);
    return session;
}

/* A tick to the clock that it has says that it knows this round. */
static void
define_knows_round(uint64_t conn, uint64_t seq, uint64_t round)
{
    Psd__Tick m = PSD__TICK__INIT;

    m.seq = seq;
    m.round = round;
    m.clock = k.shard->jobs_by_id[1]->sessions[1]->clock;
    kit_frame(&k, conn, MSG_TICK, 900, &m.base, NULL, 0);
    kit_ack(&k, conn, seq, PS_OK);
}

/* Its place in the data is of the round before, and stays so until it knows of the new one: whatever is killed
 * meanwhile, and however often DEFINED says so. */
START_TEST(data_of_a_worker_that_is_taken_along_begins_anew_when_it_knows)
{
    const struct session *session = define_takes_along();
    struct kit_answer *a;

    ck_assert_uint_eq(session->steps.at.position, 40);
    kit_crash(&k);
    for (uint64_t conn = 5; conn < 7; conn++) {
        kit_hello(&k, conn,
                  &(struct kit_hello){
                      .job = define_job(), .task = 1, .incarnation = 9000 + define_incarnation - 1, .resume = true});
        a = kit_expect(&k, conn, MSG_WELCOME);
        ck_assert_uint_eq(a->msg.u.welcome->round, 0);
        ck_assert_uint_eq(a->msg.u.welcome->cursor->position, 40);
        kit_answer_free(a);
        define_send(conn, FIELDS("batch=8"), false);
        a = kit_expect(&k, conn, MSG_DEFINED);
        ck_assert_uint_eq(a->msg.u.defined->round, 1);
        ck_assert_ptr_null(a->msg.u.defined->begins->others);
        kit_answer_free(a);
    }
    session = k.shard->jobs_by_id[1]->sessions[1];
    ck_assert_uint_eq(session->steps.at.position, 40);
    define_knows_round(6, 1, 1);
    ck_assert(data_cursor_none(session->steps.at));
    kit_tick_at(&k, 6, 2, session->clock + 1, 3);
    kit_ack(&k, 6, 2, PS_OK);
    ck_assert_uint_eq(session->steps.at.position, 3);
    define_knows_round(6, 3, 1); /* it knew that */
    ck_assert_uint_eq(session->steps.at.position, 3);
}
END_TEST

START_TEST(one_that_trains_on_goes_on_in_the_data_that_it_has)
{
    const struct session *session = define_takes_along();
    uint32_t var = kit_declare(&k, 3, "w", 4, PS_SGD);

    kit_push_four(&k, 3, 1, session->clock, var, 1);
    kit_drop_answers(&k, 3);
    ck_assert_uint_eq(define_agrees(3, FIELDS("batch=8")), 0);
    kit_tick_at(&k, 3, 2, session->clock + 1, 41);
    kit_ack(&k, 3, 2, PS_OK);
    ck_assert_uint_eq(session->steps.at.position, 41);
}
END_TEST

START_TEST(the_next_process_begins_the_round_from_nowhere)
{
    const struct session *session = define_takes_along();
    struct kit_answer *a;

    kit_close(&k, 3);
    kit_turn(&k);
    kit_hello(&k, 5, &(struct kit_hello){.job = define_job(), .task = 1, .incarnation = 9900});
    a = kit_expect(&k, 5, MSG_WELCOME);
    ck_assert_uint_eq(a->msg.u.welcome->round, 1);
    ck_assert_ptr_null(a->msg.u.welcome->cursor);
    kit_answer_free(a);
    ck_assert(data_cursor_none(session->steps.at));
}
END_TEST

START_TEST(a_kill_forgets_nothing_and_a_power_loss_what_is_told_again)
{
    struct power_disk disk = {0};

    define_joins(1, 0);
    define_agrees(1, FIELDS("batch=96"));
    disk_save(&disk, &k);
    define_agrees(1, FIELDS("rows=10"));
    kit_crash(&k);
    define_is("batch=96@0 rows=10@0");
    define_joins(2, 1);
    define_is_refused(2, FIELDS("rows=11"),
                      "worker 1 was started with rows '11', worker 0 (host:0, cut off 0 ms ago, its place is kept for "
                      "5000 ms) with rows '10': all workers of job 'train' must be started with the same");
    power_loss(&disk, &k, 99);
    define_is("batch=96@0");
    disk_finish(&disk);
}
END_TEST

START_TEST(durable_pushes_take_it_to_the_disk)
{
    struct power_disk disk = {0};
    float g[4] = {1, 1, 1, 1};
    uint32_t var;

    define_joins(1, 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    disk_save(&disk, &k);
    define_agrees(1, FIELDS("batch=96"));
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4, .durable = true});
    disk_take(&disk, &k, k.redo);
    power_loss(&disk, &k, 99);
    define_is("batch=96@0");
    ck_assert(k.shard->jobs_by_id[1]->sessions[0]->defined);
    disk_finish(&disk);
}
END_TEST

START_TEST(what_is_not_committed_did_not_happen)
{
    define_joins(1, 0);
    define_agrees(1, FIELDS("batch=96"));
    store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1);
    define_send(1, FIELDS("rows=10"), false);
    define_is("batch=96@0");
}
END_TEST

START_TEST(bad_ones_are_answered_and_change_nothing)
{
    char many[WIRE_FIELDS_MAX + 1][8], value[WIRE_FIELD_VALUE_MAX + 8];
    const char *list[WIRE_FIELDS_MAX + 2] = {NULL};

    define_joins(1, 0);
    define_agrees(1, FIELDS("batch=96"));
    define_send(1, FIELDS("a=1", "a=1"), false);
    kit_expect_error(&k, 1, 501, PS_ERR_INVALID);
    define_send(1, FIELDS("=1"), false);
    kit_expect_error(&k, 1, 501, PS_ERR_INVALID);
    define_send(1, FIELDS("a=\n"), false);
    kit_expect_error(&k, 1, 501, PS_ERR_INVALID);
    memset(value, 'x', sizeof value);
    value[1] = '=';
    value[WIRE_FIELD_VALUE_MAX + 3] = '\0';
    define_send(1, FIELDS(value), false);
    kit_expect_error(&k, 1, 501, PS_ERR_INVALID);
    for (size_t i = 0; i <= WIRE_FIELDS_MAX; i++) {
        snprintf(many[i], sizeof many[i], "f%zu=1", i);
        list[i] = many[i];
    }
    define_send(1, list, false);
    kit_expect_error(&k, 1, 501, PS_ERR_LIMIT);
    list[WIRE_FIELDS_MAX] = NULL; /* as many as there may be, and one is there already */
    define_send(1, list, false);
    kit_expect_error(&k, 1, 501, PS_ERR_LIMIT);
    define_is("batch=96@0");
}
END_TEST

START_TEST(the_largest_one_has_space_in_its_row)
{
    char text[WIRE_FIELDS_MAX][WIRE_FIELD_NAME_MAX + WIRE_FIELD_VALUE_MAX + 2];
    const char *list[WIRE_FIELDS_MAX + 1] = {NULL};

    for (size_t i = 0; i < WIRE_FIELDS_MAX; i++) {
        memset(text[i], 'a', sizeof text[i] - 1);
        text[i][0] = (char)('A' + i % 26);
        text[i][1] = (char)('A' + i / 26);
        text[i][WIRE_FIELD_NAME_MAX] = '=';
        text[i][sizeof text[i] - 1] = '\0';
        list[i] = text[i];
    }
    define_joins(1, 0);
    define_agrees(1, list);
    kit_crash(&k);
    ck_assert_uint_eq(k.shard->jobs_by_id[1]->definition.len, WIRE_FIELDS_MAX);
}
END_TEST

START_TEST(a_row_with_a_bad_one_is_not_loaded)
{
    Psd__JobRow row = PSD__JOB_ROW__INIT;
    Psd__DefinitionField field = PSD__DEFINITION_FIELD__INIT, *list[2] = {&field, &field};

    define_joins(1, 0);
    row.id = 1;
    row.options = define_job();
    field.name = (char *)"batch";
    row.definition = list;
    row.n_definition = 2;
    kit_job_row_is_damaged(&k, &row);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("define");
    TCase *tc = tcase_create("define");

    tcase_add_checked_fixture(tc, shard_setup_durable, shard_teardown);
    tcase_add_test(tc, workers_agree_field_by_field);
    tcase_add_test(tc, live_workers_and_those_that_finished_hold_to_it);
    tcase_add_test(tc, when_all_who_had_it_are_lost_another_begins_a_round);
    tcase_add_test(tc, a_new_round_may_have_another);
    tcase_add_loop_test(tc, a_worker_that_trains_begins_no_round, 0, 2);
    tcase_add_test(tc, data_of_a_worker_that_is_taken_along_begins_anew_when_it_knows);
    tcase_add_test(tc, one_that_trains_on_goes_on_in_the_data_that_it_has);
    tcase_add_test(tc, the_next_process_begins_the_round_from_nowhere);
    tcase_add_test(tc, a_kill_forgets_nothing_and_a_power_loss_what_is_told_again);
    tcase_add_test(tc, durable_pushes_take_it_to_the_disk);
    tcase_add_test(tc, what_is_not_committed_did_not_happen);
    tcase_add_test(tc, bad_ones_are_answered_and_change_nothing);
    tcase_add_test(tc, the_largest_one_has_space_in_its_row);
    tcase_add_test(tc, a_row_with_a_bad_one_is_not_loaded);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
