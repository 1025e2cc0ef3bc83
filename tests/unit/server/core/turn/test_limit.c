/* Limits that an operator sets: at the limit it works, past it comes LIMIT with a sentence that names the limit and its
 * option, the others are served, and what was refused is counted; below it there is service again. And connections that
 * never send a hello. */
#include <string.h>

#include "server/core/turn/limit.h"
#include "tests/unit/kits/shard_fixture.h"

static void
limit_setup(void)
{
    struct shard_config config = {.cluster = "test",
                                  .shards = 1,
                                  .boot = 1,
                                  .connections_max = 4,
                                  .jobs_max = 1,
                                  .variables_max = 2,
                                  .sessions_max = 2,
                                  .barriers_max = 2,
                                  .parked_max = 2,
                                  .parked_bytes_max = 1 * MIB,
                                  .hello_ms = 3000,
                                  .in_flight_bytes_max = 100};

    kit_init(&k, &config);
}

static Psd__Job *
limit_job(uint32_t workers)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, workers);

    job->bound = 0;
    return job;
}

/* ERROR of this request; 0: of the connection, which ends. */
static void
expect_limit(uint64_t conn, uint64_t request, const char *option)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_ERROR);
    const char *text = a->msg.u.error->text;

    ck_assert_uint_eq(a->msg.request, request);
    ck_assert_int_eq(a->msg.u.error->code, PS_ERR_LIMIT);
    ck_assert_msg(strstr(text, option) != NULL, "'%s' does not name %s", text, option);
    kit_answer_free(a);
}

static Psd__LimitReport
limit_reported(uint64_t conn, enum limit limit)
{
    struct kit_answer *a = kit_ask(&k, conn, PSD__QUERY_KIND__STATS, NULL);
    Psd__LimitReport found;

    ck_assert_uint_eq(a->msg.u.report->stats->n_limit, LIMITS);
    found = *a->msg.u.report->stats->limit[limit];
    ck_assert_str_eq(found.name, limit_texts[limit].name);
    ck_assert_str_eq(found.option, limit_texts[limit].option != NULL ? limit_texts[limit].option : "");
    kit_answer_free(a);
    return found;
}

static void
expect_report(uint64_t conn, enum limit limit, uint64_t now, uint64_t max, uint64_t refused)
{
    Psd__LimitReport m = limit_reported(conn, limit);

    ck_assert_uint_eq(m.now, now);
    ck_assert_uint_eq(m.max, max);
    ck_assert_uint_eq(m.refused, refused);
}

START_TEST(connections_past_the_limit_are_told_which)
{
    kit_observe(&k, 1);
    for (uint64_t conn = 2; conn <= 4; conn++)
        kit_observe(&k, conn);
    expect_report(1, LIMIT_CONNECTIONS, 4, 4, 0);
    kit_open(&k, 5);
    expect_limit(5, 0, "--connections-max");
    ck_assert(k.closed[5]);
    expect_report(1, LIMIT_CONNECTIONS, 4, 4, 1);
    kit_close(&k, 2);
    kit_observe(&k, 6);
    expect_report(6, LIMIT_CONNECTIONS, 4, 4, 1);
}
END_TEST

START_TEST(jobs_past_the_limit_are_told_which)
{
    kit_join(&k, 1, limit_job(2), 0);
    kit_hello(&k, 2, &(struct kit_hello){.job = kit_job("other", PSD__MODE__ASYNC, 1)});
    expect_limit(2, 0, "--jobs-max");
    kit_join(&k, 3, limit_job(2), 1);
    expect_report(1, LIMIT_JOBS, 1, 1, 1);
}
END_TEST

/* How far the only job that this shard takes was used: not at all; its worker is there; it has ticked, or a variable.
 */
enum limit_use { USE_NONE, USE_LIVE, USE_TICK, USE_VARIABLE, USES };

static void
limit_use_job(enum limit_use use)
{
    kit_join(&k, 1, limit_job(1), 0);
    if (use == USE_TICK)
        kit_tick(&k, 1, 1, 1);
    if (use == USE_VARIABLE)
        (void)kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_drop_answers(&k, 1);
    if (use == USE_LIVE)
        return;
    kit_close(&k, 1);
    kit_pass(&k, 5000); /* and it lapses */
}

START_TEST(a_job_that_was_never_used_makes_room)
{
    limit_use_job((enum limit_use)_i);
    if (_i > 0) {
        kit_hello(&k, 2, &(struct kit_hello){.job = kit_job("other", PSD__MODE__ASYNC, 1)});
        expect_limit(2, 0, "--jobs-max");
        return;
    }
    kit_join(&k, 2, kit_job("other", PSD__MODE__ASYNC, 1), 0);
    kit_hello(&k, 3, &(struct kit_hello){.job = limit_job(1), .resume = true, .boot = 1});
    kit_expect_closed(&k, 3, PS_ERR_DROPPED); /* the old worker, should it come after all */
    kit_crash(&k);
    kit_hello(&k, 1, &(struct kit_hello){.job = limit_job(1)});
    expect_limit(1, 0, "--jobs-max"); /* the other one is there and may come again: it is live */
}
END_TEST

START_TEST(sessions_of_a_job_that_was_never_used_make_room)
{
    struct shard_config config = k.config;

    config.jobs_max = 2;
    kit_finish(&k);
    kit_init(&k, &config);
    kit_join(&k, 1, limit_job(2), 0);
    kit_join(&k, 2, limit_job(2), 1);
    kit_close(&k, 1);
    kit_close(&k, 2);
    kit_pass(&k, 5000);
    kit_join(&k, 3, kit_job("other", PSD__MODE__ASYNC, 2), 0);
    kit_join(&k, 4, kit_job("other", PSD__MODE__ASYNC, 2), 1);
    expect_report(3, LIMIT_SESSIONS, 2, 2, 0);
}
END_TEST

START_TEST(variables_past_the_limit_are_told_which)
{
    uint64_t n = 4;

    kit_join(&k, 1, limit_job(2), 0);
    kit_declare(&k, 1, "a", n, PS_SGD);
    kit_declare(&k, 1, "b", n, PS_SGD);
    kit_declare_as(&k, 1, 9, "c", &n, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    expect_limit(1, 9, "--variables-max");
    ck_assert_uint_eq(kit_declare(&k, 1, "b", n, PS_SGD), 2);
    expect_report(1, LIMIT_VARIABLES, 2, 2, 1);
}
END_TEST

START_TEST(sessions_past_the_limit_are_told_which)
{
    kit_join(&k, 1, limit_job(3), 0);
    kit_join(&k, 2, limit_job(3), 1);
    kit_hello(&k, 3, &(struct kit_hello){.job = limit_job(3), .task = 2});
    expect_limit(3, 0, "--sessions-max");
    kit_close(&k, 2);
    kit_resume(&k, 4, limit_job(3), 1, 0);
    expect_report(1, LIMIT_SESSIONS, 2, 2, 1);
}
END_TEST

START_TEST(barriers_past_the_limit_are_told_which)
{
    struct kit_answer *a;

    kit_join(&k, 1, limit_job(3), 0);
    kit_join(&k, 2, limit_job(3), 1);
    kit_barrier(&k, 1, 1, "a");
    kit_barrier(&k, 1, 2, "b");
    kit_barrier(&k, 2, 1, "c");
    a = kit_expect(&k, 2, MSG_ACK);
    ck_assert_int_eq(a->msg.u.ack->code[0], PS_ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(a->msg.u.ack->error[0]->text, "--barriers-max"));
    kit_answer_free(a);
    expect_report(1, LIMIT_BARRIERS, 2, 2, 1);
    kit_barrier(&k, 2, 2, "a"); /* that one is open */
    kit_expect_nothing(&k, 2);
    kit_goodbye(&k, 1, true);
    kit_barrier(&k, 2, 3, "c");
    kit_expect_nothing(&k, 2);
    expect_report(2, LIMIT_BARRIERS, 2, 2, 1);
}
END_TEST

START_TEST(parked_pulls_past_the_limit_are_told_which)
{
    uint64_t request;
    uint32_t var;

    kit_join(&k, 1, limit_job(2), 0);
    kit_join(&k, 2, limit_job(2), 1);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_ticked(&k, 1, 1, 1);
    kit_pull(&k, 1, var, 0, 1);
    kit_pull(&k, 1, var, 0, 1);
    request = kit_pull(&k, 1, var, 0, 1);
    expect_limit(1, request, "--parked-max");
    expect_report(1, LIMIT_PARKED, 2, 2, 1);
    kit_pull(&k, 2, var, 0, 0); /* another worker's is answered */
    kit_answer_free(kit_expect(&k, 2, MSG_DATA));
    kit_ticked(&k, 2, 1, 1);
    kit_answer_free(kit_expect(&k, 1, MSG_DATA));
    kit_answer_free(kit_expect(&k, 1, MSG_DATA));
    kit_ticked(&k, 1, 2, 2);
    kit_pull(&k, 1, var, 0, 2); /* there is room again */
    kit_expect_nothing(&k, 1);
    expect_report(1, LIMIT_PARKED, 1, 2, 1);
}
END_TEST

/* The memory of a pull of many blocks counts, too. */
START_TEST(bytes_of_parked_pulls_have_a_limit)
{
    struct shard_config config = {
        .cluster = "test", .shards = 1, .boot = 1, .parked_bytes_max = 40 * KIB, .parked_max = 1000};
    Psd__Pull m = PSD__PULL__INIT;
    uint32_t vars[256], blocks[256] = {0}, asked = 0;

    kit_finish(&k);
    kit_init(&k, &config);
    kit_join(&k, 1, limit_job(2), 0);
    kit_join(&k, 2, limit_job(2), 1);
    vars[0] = kit_declare(&k, 1, "w", 4, PS_SGD);
    for (size_t i = 1; i < ARRAY_LEN(vars); i++)
        vars[i] = vars[0];
    kit_ticked(&k, 1, 1, 1);
    m.n_var = m.n_block = ARRAY_LEN(vars);
    m.var = vars;
    m.block = blocks;
    m.clock = 1;
    do {
        kit_frame(&k, 1, MSG_PULL, 100 + ++asked, &m.base, NULL, 0);
        ck_assert_uint_lt(asked, 1000);
    } while (limit_reported(2, LIMIT_PARKED_BYTES).refused == 0);
    ck_assert_uint_gt(asked, 2);
    expect_limit(1, 100 + asked, "--parked-bytes-max");
    ck_assert_uint_le(limit_reported(2, LIMIT_PARKED_BYTES).now, 40 * KIB);
}
END_TEST

/* Pulls that wait, of 128 KiB each, until one is refused. Returns how many do. */
static int
limit_park(uint64_t conn, uint32_t var)
{
    static uint32_t vars[WIRE_BLOCKS_MAX], blocks[WIRE_BLOCKS_MAX];
    struct kit_answer *refused;
    Psd__Pull m = PSD__PULL__INIT;
    int n = 0;

    for (size_t i = 0; i < ARRAY_LEN(vars); i++)
        vars[i] = var;
    m.n_var = m.n_block = ARRAY_LEN(vars);
    m.var = vars;
    m.block = blocks;
    m.clock = 1;
    for (;; n++) {
        kit_frame(&k, conn, MSG_PULL, 100, &m.base, NULL, 0);
        if ((refused = kit_take(&k, conn)) != NULL)
            break;
        ck_assert_int_lt(n, 1000);
    }
    ck_assert_int_eq(refused->msg.u.error->code, PS_ERR_LIMIT);
    ck_assert_msg(strstr(refused->msg.u.error->text, "bytes of parked pulls of all connections") != NULL, "%s",
                  refused->msg.u.error->text);
    kit_answer_free(refused);
    return n;
}

/* One identity's connections have half of it together, so that they leave half to others; each of the shares says what
 * its connections hold. */
START_TEST(bytes_of_all_parked_pulls_have_a_limit)
{
    enum { ALL = 2 * MIB };
    struct shard_config config = {.cluster = "test", .shards = 1, .boot = 1, .parked_all_max = ALL};
    struct shard_share one = {0}, other = {0};
    uint32_t var;

    kit_finish(&k);
    kit_init(&k, &config);
    k.share = &one;
    kit_join(&k, 1, limit_job(4), 0);
    kit_join(&k, 2, limit_job(4), 1);
    k.share = &other;
    kit_join(&k, 3, limit_job(4), 2);
    kit_join(&k, 4, limit_job(4), 3);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    for (uint64_t conn = 1; conn <= 3; conn++)
        kit_ticked(&k, conn, 1, 1);
    ck_assert_int_gt(limit_park(1, var), 2);
    ck_assert_uint_le(one.parked_bytes, ALL / 2);
    ck_assert_int_eq(limit_park(2, var), 0);
    ck_assert_int_gt(limit_park(3, var), 2);
    ck_assert_uint_eq(shard_waiting_bytes(k.shard), one.parked_bytes + other.parked_bytes);
    ck_assert_uint_eq(shard_connection_waiting_bytes(k.shard, 1), one.parked_bytes);
    expect_report(4, LIMIT_PARKED_ALL, one.parked_bytes + other.parked_bytes, ALL, 3);
    kit_close(&k, 1);
    ck_assert_uint_eq(one.parked_bytes, 0);
    ck_assert_int_gt(limit_park(2, var), 2);
    shard_set_in_flight(k.shard, SHARD_PARKED_PART * MIB);
    expect_report(4, LIMIT_PARKED_ALL, one.parked_bytes + other.parked_bytes, 1 * MIB, 4);
    kit_ticked(&k, 4, 1, 1);
    ck_assert_uint_eq(shard_waiting_bytes(k.shard), 0);
    ck_assert_uint_eq(one.parked_bytes + other.parked_bytes, 0);
    kit_drop_answers(&k, 2);
    kit_drop_answers(&k, 3);
}
END_TEST

START_TEST(the_glue_tells_its_own_figures)
{
    struct shard_figures figures = {.in_flight_max = 1000,
                                    .in_flight_waits = 3,
                                    .in_flight_connection = 7,
                                    .in_flight_connection_max = 500,
                                    .in_flight_connection_waits = 2,
                                    .descriptors = 12,
                                    .descriptors_max = 1024,
                                    .descriptors_refused = 5};
    Psd__Query m = PSD__QUERY__INIT;
    struct frame_head head = {.type = MSG_QUERY, .request = 1};
    const Psd__StatsReport *stats;
    struct kit_answer *a;
    uint8_t meta[32];

    kit_observe(&k, 1);
    m.kind = PSD__QUERY_KIND__STATS;
    head.meta_len = (uint32_t)psd__query__pack(&m, meta);
    kit_event(&k, &(struct shard_event){.kind = SHARD_FRAME,
                                        .conn = 1,
                                        .role = ROLE_ADMIN,
                                        .head = &head,
                                        .meta = meta,
                                        .in_flight_bytes = 123,
                                        .figures = &figures});
    a = kit_expect(&k, 1, MSG_REPORT);
    stats = a->msg.u.report->stats;
    ck_assert_uint_eq(stats->limit[LIMIT_IN_FLIGHT]->now, 123);
    ck_assert_uint_eq(stats->limit[LIMIT_IN_FLIGHT]->max, 1000);
    ck_assert_uint_eq(stats->limit[LIMIT_IN_FLIGHT]->refused, 3);
    ck_assert_uint_eq(stats->limit[LIMIT_IN_FLIGHT_CONNECTION]->now, 7);
    ck_assert_uint_eq(stats->limit[LIMIT_IN_FLIGHT_CONNECTION]->refused, 2);
    ck_assert_uint_eq(stats->limit[LIMIT_DESCRIPTORS]->now, 12);
    ck_assert_uint_eq(stats->limit[LIMIT_DESCRIPTORS]->refused, 5);
    kit_answer_free(a);
}
END_TEST

/* ---- Connections without a hello ---- */

START_TEST(a_connection_without_hello_is_closed_in_time)
{
    struct kit_answer *a;

    kit_open(&k, 1);
    kit_pass(&k, 1000);
    kit_open(&k, 2);
    kit_observe(&k, 3);
    kit_pass(&k, 1999);
    kit_expect_nothing(&k, 1);
    kit_pass(&k, 1);
    a = kit_expect(&k, 1, MSG_ERROR);
    ck_assert_int_eq(a->msg.u.error->code, PS_ERR_TIMEOUT);
    ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "--hello-timeout"));
    kit_answer_free(a);
    ck_assert(k.closed[1] && !k.closed[2]);
    kit_pass(&k, 1000);
    kit_expect_closed(&k, 2, PS_ERR_TIMEOUT);
    kit_pass(&k, 100000);
    ck_assert(!k.closed[3]);
    a = kit_ask(&k, 3, PSD__QUERY_KIND__STATS, NULL);
    ck_assert_uint_eq(a->msg.u.report->stats->hello_timeouts, 2);
    ck_assert_uint_eq(a->msg.u.report->stats->bad_peers, 0);
    kit_answer_free(a);
}
END_TEST

START_TEST(one_that_is_gone_is_not_waited_for)
{
    kit_open(&k, 1);
    kit_open(&k, 2);
    kit_close(&k, 1);
    kit_pass(&k, 3000);
    kit_expect_closed(&k, 2, PS_ERR_TIMEOUT);
    kit_join(&k, 3, limit_job(2), 0);
    kit_pass(&k, 10000);
    ck_assert(!k.closed[3]);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("limit");
    TCase *tc = tcase_create("limit");

    tcase_add_checked_fixture(tc, limit_setup, shard_teardown);
    tcase_add_test(tc, connections_past_the_limit_are_told_which);
    tcase_add_test(tc, jobs_past_the_limit_are_told_which);
    tcase_add_loop_test(tc, a_job_that_was_never_used_makes_room, 0, USES);
    tcase_add_test(tc, sessions_of_a_job_that_was_never_used_make_room);
    tcase_add_test(tc, variables_past_the_limit_are_told_which);
    tcase_add_test(tc, sessions_past_the_limit_are_told_which);
    tcase_add_test(tc, barriers_past_the_limit_are_told_which);
    tcase_add_test(tc, parked_pulls_past_the_limit_are_told_which);
    tcase_add_test(tc, bytes_of_parked_pulls_have_a_limit);
    tcase_add_test(tc, bytes_of_all_parked_pulls_have_a_limit);
    tcase_add_test(tc, the_glue_tells_its_own_figures);
    tcase_add_test(tc, a_connection_without_hello_is_closed_in_time);
    tcase_add_test(tc, one_that_is_gone_is_not_waited_for);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
