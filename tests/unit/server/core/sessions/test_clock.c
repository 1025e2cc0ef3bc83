/* Clocks and the pulls that wait for them: SSP's bound, sync's steps, cancel, lapses. */
#include "tests/unit/kits/shard_fixture.h"

#include <string.h>
#include <time.h>

static const float ones[4] = {1, 1, 1, 1};

static Psd__Job *
clock_ssp(uint32_t workers, uint32_t bound)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, workers);

    job->bound = bound;
    return job;
}

static uint64_t
served_clock(uint64_t conn)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_DATA);
    uint64_t clock = a->msg.u.data->clock;

    kit_answer_free(a);
    return clock;
}

START_TEST(pull_waits_for_slowest_worker)
{
    uint32_t var;

    kit_join(&k, 1, clock_ssp(3, 2), 0);
    kit_join(&k, 2, clock_ssp(3, 2), 1);
    kit_join(&k, 3, clock_ssp(3, 2), 2);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_ticked(&k, 1, 1, 2);
    kit_pull(&k, 1, var, 0, 2);
    ck_assert_uint_eq(served_clock(1), 0);
    kit_ticked(&k, 1, 2, 4);
    kit_pull(&k, 1, var, 0, 4);
    kit_expect_nothing(&k, 1);
    kit_ticked(&k, 2, 1, 2);
    kit_expect_nothing(&k, 1); /* the third is still at 0 */
    kit_ticked(&k, 3, 1, 1);
    kit_expect_nothing(&k, 1);
    kit_ticked(&k, 3, 2, 3);
    ck_assert_uint_eq(served_clock(1), 2);
    kit_expect_nothing(&k, 1);
}
END_TEST

START_TEST(async_pull_never_waits)
{
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_join(&k, 2, kit_job("train", PSD__MODE__ASYNC, 2), 1);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_ticked(&k, 1, 1, 1000);
    kit_pull(&k, 1, var, 0, 1000);
    ck_assert_uint_eq(served_clock(1), 0);
}
END_TEST

START_TEST(pull_now_does_not_wait)
{
    float out[4];
    uint32_t var = kit_start(&k, clock_ssp(2, 0));

    kit_ticked(&k, 1, 1, 1);
    kit_pull(&k, 1, var, 0, 1);
    kit_expect_nothing(&k, 1);
    ck_assert_uint_eq(kit_read(&k, 1, var, 0, out, 4), 0);
}
END_TEST

START_TEST(worker_that_lapsed_or_finished_holds_nobody_back)
{
    uint32_t var;

    kit_join(&k, 1, clock_ssp(3, 0), 0);
    kit_join(&k, 2, clock_ssp(3, 0), 1);
    kit_join(&k, 3, clock_ssp(3, 0), 2);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_ticked(&k, 1, 1, 5);
    kit_pull(&k, 1, var, 0, 5);
    kit_close(&k, 2);
    kit_pass(&k, 5000);
    kit_expected(&k, 1, MSG_EVENT);
    kit_expect_nothing(&k, 1);
    kit_goodbye(&k, 3, true);
    ck_assert_uint_eq(served_clock(1), 5);
}
END_TEST

START_TEST(lapse_fails_parked_pulls_when_the_job_says_so)
{
    Psd__Job *job = clock_ssp(2, 0);
    struct kit_answer *a;
    uint64_t request;
    uint32_t var;

    job->lapse = PSD__LAPSE__FAIL;
    kit_join(&k, 1, job, 0);
    kit_join(&k, 2, job, 1);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_ticked(&k, 1, 1, 5);
    request = kit_pull(&k, 1, var, 0, 5);
    kit_close(&k, 2);
    kit_pass(&k, 5000);
    a = kit_expect(&k, 1, MSG_ERROR);
    ck_assert_uint_eq(a->msg.request, request);
    ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_STEP_FAILED);
    ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "worker 1")); /* the worker that was lost */
    kit_answer_free(a);
    kit_expected(&k, 1, MSG_EVENT);
}
END_TEST

START_TEST(cancelled_pull_is_answered)
{
    uint64_t first, second;
    uint32_t var = kit_start(&k, clock_ssp(2, 0));

    kit_ticked(&k, 1, 1, 1);
    first = kit_pull(&k, 1, var, 0, 1);
    second = kit_pull(&k, 1, var, 0, 1);
    kit_cancel(&k, 1, first);
    kit_expect_error(&k, 1, first, PS_ERR_CANCELLED);
    kit_cancel(&k, 1, first); /* there is nothing more to take back */
    kit_expect_nothing(&k, 1);
    kit_ticked(&k, 2, 1, 1);
    kit_expected(&k, 1, MSG_DATA);
    kit_cancel(&k, 1, second); /* too late */
    kit_expect_nothing(&k, 1);
}
END_TEST

START_TEST(parked_pulls_of_a_lost_connection_are_forgotten)
{
    uint32_t var = kit_start(&k, clock_ssp(2, 0));

    kit_ticked(&k, 1, 1, 1);
    for (int i = 0; i < 10; i++)
        kit_pull(&k, 1, var, 0, 1);
    kit_close(&k, 1);
    kit_resume(&k, 1, clock_ssp(2, 0), 0, 1);
    kit_ticked(&k, 2, 1, 1);
    kit_expect_nothing(&k, 1);
}
END_TEST

START_TEST(parked_pulls_have_a_limit)
{
    uint32_t var = kit_start(&k, clock_ssp(2, 0));

    kit_ticked(&k, 1, 1, 1);
    for (uint32_t i = 0; i < SHARD_PARKED; i++)
        kit_pull(&k, 1, var, 0, 1);
    kit_expect_nothing(&k, 1);
    kit_expect_error(&k, 1, kit_pull(&k, 1, var, 0, 1), PS_ERR_LIMIT);
    kit_ticked(&k, 2, 1, 1);
    for (uint32_t i = 0; i < SHARD_PARKED; i++)
        kit_expected(&k, 1, MSG_DATA);
    kit_expect_nothing(&k, 1);
}
END_TEST

START_TEST(only_newer_blocks_are_sent)
{
    Psd__Pull m = PSD__PULL__INIT;
    uint32_t var[2], block[2] = {0, 0};
    uint64_t newer[2] = {0, 0};
    struct kit_answer *a;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    var[0] = kit_declare(&k, 1, "a", 4, PS_SGD);
    var[1] = kit_declare(&k, 1, "b", 2, PS_SGD);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var[1], .gradient = ones, .len = 2});
    kit_ack(&k, 1, 1, PS_OK);
    m.n_var = m.n_block = m.n_newer_than = 2;
    m.var = var;
    m.block = block;
    m.newer_than = newer;
    kit_frame(&k, 1, MSG_PULL, 8, &m.base, NULL, 0);
    a = kit_expect(&k, 1, MSG_DATA);
    ck_assert_uint_eq(a->msg.request, 8);
    ck_assert_uint_eq(a->payload_len, 2); /* b alone */
    ck_assert(a->payload[0] == -1);
    ck_assert_uint_eq(a->msg.u.data->version[0], 0);
    ck_assert_uint_eq(a->msg.u.data->version[1], 1);
    kit_answer_free(a);
    newer[1] = 1;
    kit_frame(&k, 1, MSG_PULL, 9, &m.base, NULL, 0);
    a = kit_expect(&k, 1, MSG_DATA);
    ck_assert_uint_eq(a->payload_len, 0);
    ck_assert_uint_eq(a->msg.u.data->n_version, 2);
    kit_answer_free(a);
}
END_TEST

START_TEST(pull_larger_than_a_frame_is_refused)
{
    Psd__Pull m = PSD__PULL__INIT;
    enum { FIT = FRAME_PAYLOAD_MAX / (256 * KIB) };
    uint64_t dims = (FIT + 1) * 65536;
    uint32_t var[FIT + 1], block[FIT + 1];

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    kit_declare_as(&k, 1, 7, "w", &dims, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    kit_work(&k);
    kit_drop_answers(&k, 1);
    for (uint32_t i = 0; i <= FIT; i++) {
        var[i] = 1;
        block[i] = i;
    }
    m.n_var = m.n_block = FIT + 1;
    m.var = var;
    m.block = block;
    kit_frame(&k, 1, MSG_PULL, 8, &m.base, NULL, 0);
    kit_expect_error(&k, 1, 8, PS_ERR_LIMIT);
    m.n_var = m.n_block = FIT;
    kit_frame(&k, 1, MSG_PULL, 9, &m.base, NULL, 0);
    kit_expected(&k, 1, MSG_DATA);
}
END_TEST

START_TEST(ids_out_of_range_are_not_found)
{
    uint32_t var;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    kit_expect_error(&k, 1, kit_pull(&k, 1, 1, 0, 0), PS_ERR_NOT_FOUND); /* before it is declared */
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_expect_error(&k, 1, kit_pull(&k, 1, 0, 0, 0), PS_ERR_NOT_FOUND);
    kit_expect_error(&k, 1, kit_pull(&k, 1, var + 1, 0, 0), PS_ERR_NOT_FOUND);
    kit_expect_error(&k, 1, kit_pull(&k, 1, UINT32_MAX, 0, 0), PS_ERR_NOT_FOUND);
    kit_expect_error(&k, 1, kit_pull(&k, 1, var, 1, 0), PS_ERR_NOT_FOUND);
    kit_expect_error(&k, 1, kit_pull(&k, 1, var, UINT32_MAX, 0), PS_ERR_NOT_FOUND);
}
END_TEST

/* ---- Together ---- */

/* The other of two workers is notified that this one is back. */
static void
expect_rejoined(uint64_t conn)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_EVENT);

    ck_assert_int_eq(a->msg.u.event->kind, PSD__EVENT_KIND__EVENT_REJOINED);
    kit_answer_free(a);
}

/* A new process of the task; returns the clock at which it begins. */
static uint64_t
join_anew(uint64_t conn, const Psd__Job *job, uint32_t task, uint64_t incarnation)
{
    struct kit_answer *a;
    uint64_t clock;

    if (k.open[conn])
        kit_close(&k, conn);
    kit_hello(&k, conn, &(struct kit_hello){.job = job, .task = task, .incarnation = incarnation});
    a = kit_expect(&k, conn, MSG_WELCOME);
    clock = a->msg.u.welcome->clock;
    kit_answer_free(a);
    return clock;
}

/* Two workers that have trained up to a clock together, then said goodbye in this order; `crash`: and the shard was
 * killed. Returns the variable. */
static uint32_t
run_once(Psd__Job *job, uint64_t to, bool crash)
{
    uint32_t var;

    kit_join(&k, 1, job, 0);
    kit_join(&k, 2, job, 1);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_ticked(&k, 1, 1, to);
    kit_ticked(&k, 2, 1, to);
    kit_goodbye(&k, 1, true);
    kit_goodbye(&k, 2, true);
    if (crash)
        kit_crash(&k);
    return var;
}

START_TEST(worker_that_never_joined_holds_back_by_the_bound)
{
    struct kit_answer *a;
    uint32_t var;

    kit_join(&k, 1, clock_ssp(2, 2), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_ticked(&k, 1, 1, 2);
    kit_pull(&k, 1, var, 0, 2);
    ck_assert_uint_eq(served_clock(1), 0);
    kit_ticked(&k, 1, 2, 3);
    kit_pull(&k, 1, var, 0, 3);
    kit_expect_nothing(&k, 1);
    a = kit_ask(&k, 1, PSD__QUERY_KIND__BLOCKED, NULL);
    ck_assert_uint_eq(a->msg.u.report->n_blocked, 1);
    ck_assert_uint_eq(a->msg.u.report->blocked[0]->n_on_task, 1);
    ck_assert_uint_eq(a->msg.u.report->blocked[0]->on_task[0], 1);
    kit_answer_free(a);
    ck_assert_uint_eq(join_anew(2, clock_ssp(2, 2), 1, 5), 0);
    kit_expect_nothing(&k, 1); /* there, and as slow */
    kit_ticked(&k, 2, 1, 1);
    ck_assert_uint_eq(served_clock(1), 1);
}
END_TEST

/* _i: the shard is killed in between. */
START_TEST(job_that_runs_again_waits_for_all_again)
{
    uint32_t var = run_once(clock_ssp(2, 1), 5, _i);

    ck_assert_uint_eq(join_anew(1, clock_ssp(2, 1), 0, 5), 5);
    if (_i) {
        kit_crash(&k);
        kit_hello(&k, 1, &(struct kit_hello){.job = clock_ssp(2, 1), .task = 1, .resume = true, .incarnation = 1001});
        kit_expect_closed(&k, 1, PS_ERR_FENCED); /* its first process is over, whatever the round */
        ck_assert_uint_eq(join_anew(1, clock_ssp(2, 1), 0, 6), 5);
    }
    kit_barrier(&k, 1, 1, "begin");
    kit_expect_nothing(&k, 1);
    kit_ticked(&k, 1, 2, 7);
    kit_pull(&k, 1, var, 0, 7);
    kit_expect_nothing(&k, 1);
    ck_assert_uint_eq(join_anew(2, clock_ssp(2, 1), 1, 5), 5);
    expect_rejoined(1);
    kit_barrier(&k, 2, 1, "begin");
    kit_ack(&k, 2, 1, PS_OK);
    kit_ack(&k, 1, 1, PS_OK);
    kit_expect_nothing(&k, 1);
    kit_ticked(&k, 2, 2, 6);
    ck_assert_uint_eq(served_clock(1), 6);
}
END_TEST

START_TEST(step_of_sync_waits_for_all_when_the_job_runs_again)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 2);
    uint32_t var = run_once(job, 1, false);

    join_anew(1, job, 0, 5);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .clock = 1, .var = var, .gradient = ones, .len = 4});
    kit_expect_nothing(&k, 1);
    join_anew(2, job, 1, 5);
    expect_rejoined(1);
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .clock = 1, .var = var, .gradient = ones, .len = 4});
    kit_ack(&k, 2, 1, PS_OK);
    kit_ack(&k, 1, 1, PS_OK);
}
END_TEST

/* On one shard the hello overtakes the other worker's goodbye, on another it does not: the result is the same. */
START_TEST(goodbye_of_the_old_round_is_not_one_of_the_new)
{
    uint32_t var = kit_start(&k, clock_ssp(2, 0));

    kit_ticked(&k, 1, 1, 5);
    kit_ticked(&k, 2, 1, 5);
    kit_goodbye(&k, 1, true);
    join_anew(1, clock_ssp(2, 0), 0, 5);
    expect_rejoined(2);
    kit_goodbye(&k, 2, true);
    kit_ticked(&k, 1, 1, 6);
    kit_pull(&k, 1, var, 0, 6);
    kit_expect_nothing(&k, 1);
    ck_assert_uint_eq(join_anew(2, clock_ssp(2, 0), 1, 5), 5);
    expect_rejoined(1);
    kit_ticked(&k, 2, 1, 6);
    ck_assert_uint_eq(served_clock(1), 6);
    kit_goodbye(&k, 2, true); /* and this one is of the new round */
    kit_ticked(&k, 1, 2, 9);
    kit_pull(&k, 1, var, 0, 9);
    ck_assert_uint_eq(served_clock(1), 9);
}
END_TEST

/* This shard lost the goodbyes; another did not, and the worker reports it. */
START_TEST(round_is_heard_of_from_another_shard)
{
    Psd__Tick tick = PSD__TICK__INIT;
    uint32_t var = kit_start(&k, clock_ssp(2, 0));

    kit_close(&k, 1);
    kit_close(&k, 2);
    kit_pass(&k, 6000); /* both lapse */
    ck_assert_uint_eq(join_anew(1, clock_ssp(2, 0), 0, 5), 0);
    kit_ticked(&k, 1, 1, 5);
    kit_pull(&k, 1, var, 0, 5);
    ck_assert_uint_eq(served_clock(1), 5); /* the rest of the old round */
    tick.seq = 2;
    tick.clock = 5;
    tick.round = 1;
    kit_frame(&k, 1, MSG_TICK, 99, &tick.base, NULL, 0);
    kit_ack(&k, 1, 2, PS_OK);
    kit_crash(&k);
    kit_hello(&k, 1, &(struct kit_hello){.job = clock_ssp(2, 0), .incarnation = 5, .resume = true, .acked_through = 2});
    kit_expected(&k, 1, MSG_WELCOME);
    kit_ticked(&k, 1, 3, 6);
    kit_pull(&k, 1, var, 0, 6);
    kit_expect_nothing(&k, 1);
    ck_assert_uint_eq(join_anew(2, clock_ssp(2, 0), 1, 5), 5);
    expect_rejoined(1);
    kit_ticked(&k, 2, 1, 6);
    ck_assert_uint_eq(served_clock(1), 6);
}
END_TEST

/* Worker 1 comes back after worker 0's goodbye: it finishes alone. If worker 0 comes again meanwhile, they are in one
 * round, whose end both may reach. */
START_TEST(who_comes_back_late_finishes_alone_or_is_taken_along)
{
    uint32_t var = kit_start(&k, clock_ssp(2, 0));

    kit_ticked(&k, 1, 1, 3);
    kit_goodbye(&k, 1, true);
    kit_close(&k, 2);
    kit_pass(&k, 6000);
    join_anew(2, clock_ssp(2, 0), 1, 5);
    kit_ticked(&k, 2, 1, 8);
    kit_pull(&k, 2, var, 0, 8);
    ck_assert_uint_eq(served_clock(2), 8);
    ck_assert_uint_eq(join_anew(1, clock_ssp(2, 0), 0, 5), 8);
    expect_rejoined(2);
    kit_goodbye(&k, 2, true);
    kit_ticked(&k, 1, 1, 9);
    kit_pull(&k, 1, var, 0, 9);
    ck_assert_uint_eq(served_clock(1), 9);
}
END_TEST

/* Random workers, restarts, goodbyes and lapses: no pull at clock c is served while a worker that is waited for stands
 * below c - bound, and none is held back without reason. The model knows only hellos, ticks and the workers that are
 * gone: a worker that is neither live nor gone in the newest round stands where the slowest was seen last. */
START_TEST(staleness_bound_is_never_broken_under_random_schedules)
{
    struct test_rng rng = {test_seed()};
    enum { N = 5 };
    struct {
        bool live, waits, finished, late;
        uint64_t seq, clock, pulled, round; /* UINT64_MAX: never joined */
    } w[N];
    const uint32_t bound = 2;
    uint64_t incarnation = 1, round = 0, slowest = 0;
    uint32_t var = 0;

    memset(w, 0, sizeof w);
    for (int j = 0; j < N; j++)
        w[j].round = UINT64_MAX;

    for (int i = 0; i < 20000; i++) {
        uint32_t task = (uint32_t)test_below(&rng, N);
        uint64_t conn = task + 1, least = UINT64_MAX;
        bool someone_missing = false, someone_finished = false;
        struct kit_answer *a;

        if (!w[task].live) {
            if (k.open[conn])
                kit_close(&k, conn);
            kit_hello(&k, conn,
                      &(struct kit_hello){.job = clock_ssp(N, bound),
                                          .task = task,
                                          .incarnation = incarnation++,
                                          .lease_ms = WIRE_LEASE_MS_MAX});
            a = kit_expect(&k, conn, MSG_WELCOME);
            ck_assert_uint_eq(a->msg.u.welcome->clock, slowest);
            if (w[task].finished && w[task].round == round) {
                round++;
                for (int j = 0; j < N; j++)
                    if (w[j].live && w[j].late) {
                        w[j].round = round;
                        w[j].late = false;
                    }
            }
            for (int j = 0; j < N; j++)
                someone_finished = someone_finished || (j != (int)task && w[j].finished && w[j].round == round);
            w[task].late = someone_finished;
            w[task].round = round;
            w[task].live = true;
            w[task].waits = w[task].finished = false;
            w[task].seq = 1;
            w[task].clock = a->msg.u.welcome->clock;
            kit_answer_free(a);
            if (var == 0)
                var = kit_declare(&k, conn, "w", 4, PS_SGD);
        } else if (w[task].waits) {
            if (test_below(&rng, 100) == 0) { /* the worker dies, and lapses */
                kit_close(&k, conn);
                kit_pass(&k, 5000);
                w[task].live = false;
            }
        } else if (test_below(&rng, 200) == 0) {
            kit_goodbye(&k, conn, true);
            w[task].live = false;
            w[task].finished = true;
        } else if (test_below(&rng, 2) == 0) {
            w[task].clock += 1 + test_below(&rng, 2);
            kit_tick(&k, conn, w[task].seq++, w[task].clock);
        } else {
            w[task].pulled = w[task].clock;
            w[task].waits = true;
            kit_pull(&k, conn, var, 0, w[task].clock);
        }
        for (int j = 0; j < N; j++) {
            if (w[j].live)
                least = MIN(least, w[j].clock);
            someone_missing = someone_missing || (!w[j].live && w[j].round != round);
        }
        if (least != UINT64_MAX && !someone_missing)
            slowest = least;
        for (int j = 0; j < N; j++) {
            bool data = false;

            while ((a = kit_take(&k, (uint64_t)j + 1)) != NULL) {
                data = data || a->msg.type == MSG_DATA;
                kit_answer_free(a);
            }
            if (!w[j].live || !w[j].waits)
                continue;
            ck_assert_msg(data == (w[j].pulled <= bound || slowest >= w[j].pulled - bound),
                          "step %d: worker %d pulled at %d, slowest %d", i, j, (int)w[j].pulled, (int)slowest);
            w[j].waits = !data;
        }
    }
    ck_assert_uint_gt(w[0].clock, 100);
}
END_TEST

static double
cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Of workers that come one after another; each stays live without a connection. */
static double
seconds_to_join(Psd__Job *job, uint32_t first, uint32_t n)
{
    double began = cpu_seconds();

    for (uint32_t task = first; task < first + n; task++) {
        kit_join(&k, 1, job, task);
        kit_close(&k, 1);
    }
    return cpu_seconds() - began;
}

/* When all of a large cluster starts at once, a shard must let them all in before the first lease is over. */
START_TEST(the_last_of_many_workers_joins_as_fast_as_the_first)
{
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 40000);
    double first, last;

    (void)seconds_to_join(job, 0, 1000); /* caches are warm, arrays have grown */
    first = seconds_to_join(job, 1000, 1000);
    (void)seconds_to_join(job, 2000, 36000);
    last = seconds_to_join(job, 38000, 1000);
    ck_assert_msg(last < 3 * first, "the first thousand took %.4f s, the last %.4f s", first, last);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("clock");
    TCase *tc = tcase_create("clock");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, pull_waits_for_slowest_worker);
    tcase_add_test(tc, async_pull_never_waits);
    tcase_add_test(tc, pull_now_does_not_wait);
    tcase_add_test(tc, worker_that_lapsed_or_finished_holds_nobody_back);
    tcase_add_test(tc, lapse_fails_parked_pulls_when_the_job_says_so);
    tcase_add_test(tc, cancelled_pull_is_answered);
    tcase_add_test(tc, parked_pulls_of_a_lost_connection_are_forgotten);
    tcase_add_test(tc, parked_pulls_have_a_limit);
    tcase_add_test(tc, only_newer_blocks_are_sent);
    tcase_add_test(tc, pull_larger_than_a_frame_is_refused);
    tcase_add_test(tc, ids_out_of_range_are_not_found);
    tcase_add_test(tc, worker_that_never_joined_holds_back_by_the_bound);
    tcase_add_loop_test(tc, job_that_runs_again_waits_for_all_again, 0, 2);
    tcase_add_test(tc, step_of_sync_waits_for_all_when_the_job_runs_again);
    tcase_add_test(tc, goodbye_of_the_old_round_is_not_one_of_the_new);
    tcase_add_test(tc, round_is_heard_of_from_another_shard);
    tcase_add_test(tc, who_comes_back_late_finishes_alone_or_is_taken_along);
    tcase_add_test(tc, staleness_bound_is_never_broken_under_random_schedules);
    tcase_add_test(tc, the_last_of_many_workers_joins_as_fast_as_the_first);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
