/* Sessions: which process may hold a worker index, sequences and their repeats, leases, and the state that a restart
 * keeps. */
#include "tests/unit/kits/shard_fixture.h"

#include <math.h>
#include <string.h>

static const float ones[4] = {1, 1, 1, 1};

static Psd__Job *
session_job(void)
{
    return kit_job("train", PSD__MODE__ASYNC, 3);
}

static void
session_push(uint64_t conn, uint64_t seq, uint32_t var)
{
    kit_push(&k, conn, &(struct kit_push){.seq = seq, .var = var, .gradient = ones, .len = 4});
}

static float
session_value(uint64_t conn, uint32_t var)
{
    float out[4];

    kit_read(&k, conn, var, 0, out, 4);
    return out[0];
}

/* ---- Holders of an index ---- */

START_TEST(task_of_a_live_process_is_taken)
{
    struct kit_answer *a;

    kit_hello(&k, 1, &(struct kit_hello){.job = session_job(), .task = 1, .agent = "alpha:77"});
    kit_answer_free(kit_expect(&k, 1, MSG_WELCOME));
    kit_hello(&k, 2, &(struct kit_hello){.job = session_job(), .task = 1, .incarnation = 5});
    a = kit_expect(&k, 2, MSG_ERROR);
    ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_TASK_TAKEN);
    ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "alpha:77")); /* the holder */
    ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "127.0.0.1:9"));
    kit_answer_free(a);
    ck_assert(k.closed[2] && !k.closed[1]);
}
END_TEST

START_TEST(newcomer_replaces_a_worker_whose_connection_is_lost)
{
    struct kit_answer *a;

    kit_join(&k, 1, session_job(), 1);
    kit_join(&k, 9, session_job(), 0);
    kit_close(&k, 1);
    kit_hello(&k, 2, &(struct kit_hello){.job = session_job(), .task = 1, .incarnation = 5});
    kit_answer_free(kit_expect(&k, 2, MSG_WELCOME));
    a = kit_expect(&k, 9, MSG_EVENT);
    ck_assert_int_eq(a->msg.u.event->kind, PSD__EVENT_KIND__EVENT_REJOINED);
    ck_assert_uint_eq(a->msg.u.event->task, 1);
    kit_answer_free(a);
    kit_expect_nothing(&k, 2);
    /* The old incarnation is fenced, now and while the new one is away. */
    kit_hello(&k, 3, &(struct kit_hello){.job = session_job(), .task = 1, .resume = true});
    kit_expect_closed(&k, 3, PS_ERR_FENCED);
    kit_close(&k, 2);
    kit_hello(&k, 4, &(struct kit_hello){.job = session_job(), .task = 1, .resume = true});
    kit_expect_closed(&k, 4, PS_ERR_FENCED);
}
END_TEST

/* An incarnation is a secret, and where tokens are proven it is not enough, after a restart of the shard either. */
START_TEST(a_session_is_of_the_token_that_it_was_installed_with)
{
    uint32_t var;

    k.token = "alice";
    kit_join(&k, 1, session_job(), 1);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    for (int times = 0; times < 2; times++) {
        k.token = times == 0 ? "mallory" : NULL;
        kit_hello(&k, 2, &(struct kit_hello){.job = session_job(), .task = 1, .resume = true});
        kit_expect_closed(&k, 2, PS_ERR_DENIED);
        kit_hello(&k, 3, &(struct kit_hello){.job = session_job(), .task = 1}); /* the same incarnation */
        kit_expect_closed(&k, 3, PS_ERR_DENIED);
        k.token = "alice";
        ck_assert(!k.closed[1]);
        session_push(1, (uint64_t)times + 1, var);
        kit_ack(&k, 1, (uint64_t)times + 1, PS_OK);
        kit_crash(&k);
        ck_assert_uint_eq(kit_resume(&k, 1, session_job(), 1, 0), (uint64_t)times + 1);
    }
    kit_close(&k, 1);
    k.token = "mallory";
    kit_hello(&k, 4, &(struct kit_hello){.job = session_job(), .task = 1, .incarnation = 5});
    kit_expect_closed(&k, 4, PS_ERR_TASK_TAKEN); /* the holder may come back within its grace */
    k.token = "alice";
    ck_assert_uint_eq(kit_resume(&k, 5, session_job(), 1, 0), 2);
    ck_assert(session_value(5, var) == -2);
    kit_close(&k, 5);
    kit_pass(&k, 6000);
    k.token = "bob"; /* a token that was rotated */
    kit_hello(&k, 6, &(struct kit_hello){.job = session_job(), .task = 1, .incarnation = 6});
    kit_answer_free(kit_expect(&k, 6, MSG_WELCOME));
    kit_close(&k, 6);
    kit_hello(&k, 7, &(struct kit_hello){.job = session_job(), .task = 1, .incarnation = 6, .resume = true});
    kit_answer_free(kit_expect(&k, 7, MSG_WELCOME));
}
END_TEST

/* Who proves no token has sessions, too: these are anybody's who knows the incarnation. */
START_TEST(a_session_without_a_token_asks_for_none)
{
    kit_join(&k, 1, session_job(), 1);
    k.token = "alice";
    kit_resume(&k, 2, session_job(), 1, 0);
    kit_close(&k, 2);
    k.token = NULL;
    kit_resume(&k, 3, session_job(), 1, 0);
}
END_TEST

START_TEST(resume_goes_on_with_the_session)
{
    uint32_t var;

    kit_join(&k, 1, session_job(), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    session_push(1, 1, var);
    kit_ack(&k, 1, 1, PS_OK);
    kit_close(&k, 1);
    ck_assert_uint_eq(kit_resume(&k, 2, session_job(), 0, 1), 1);
    session_push(2, 2, var);
    kit_ack(&k, 2, 2, PS_OK);
    ck_assert(session_value(2, var) == -2);
}
END_TEST

START_TEST(resume_closes_the_older_connection)
{
    kit_join(&k, 1, session_job(), 0);
    kit_resume(&k, 2, session_job(), 0, 0);
    ck_assert(k.closed[1] && !k.closed[2]);
    kit_tick(&k, 2, 1, 1);
    kit_ack(&k, 2, 1, PS_OK);
}
END_TEST

START_TEST(resume_forgets_the_pulls_of_the_older_connection)
{
    Psd__Job *sync = kit_job("train", PSD__MODE__SYNC, 2);
    uint32_t var;

    kit_join(&k, 1, sync, 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_pull(&k, 1, var, 0, 1);
    kit_resume(&k, 2, sync, 0, 0);
    ck_assert(k.closed[1]);
    kit_expect_nothing(&k, 1);
    kit_pull(&k, 2, var, 0, 0);
    kit_answer_free(kit_expect(&k, 2, MSG_DATA));
}
END_TEST

START_TEST(new_hello_of_the_same_incarnation_resumes)
{
    kit_join(&k, 1, session_job(), 0);
    kit_tick(&k, 1, 1, 4);
    kit_ack(&k, 1, 1, PS_OK);
    kit_close(&k, 1);
    ck_assert_uint_eq(kit_join(&k, 2, session_job(), 0), 1);
}
END_TEST

START_TEST(resume_without_a_session_is_not_found)
{
    kit_hello(&k, 1, &(struct kit_hello){.job = session_job(), .resume = true});
    kit_expect_closed(&k, 1, PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(newcomer_begins_where_the_slowest_stands)
{
    struct kit_answer *a;

    kit_join(&k, 1, session_job(), 0);
    kit_join(&k, 2, session_job(), 1);
    kit_tick(&k, 1, 1, 7);
    kit_tick(&k, 2, 1, 5);
    kit_hello(&k, 3, &(struct kit_hello){.job = session_job(), .task = 2});
    a = kit_expect(&k, 3, MSG_WELCOME);
    ck_assert_uint_eq(a->msg.u.welcome->clock, 5);
    ck_assert_uint_eq(a->msg.u.welcome->slowest_clock, 5);
    kit_answer_free(a);
}
END_TEST

START_TEST(last_worker_begins_again_where_it_stood)
{
    struct kit_answer *a;

    kit_join(&k, 1, session_job(), 0);
    kit_tick(&k, 1, 1, 7);
    kit_close(&k, 1);
    kit_pass(&k, 6000); /* it lapses, no worker is live */
    kit_crash(&k);
    kit_hello(&k, 2, &(struct kit_hello){.job = session_job(), .task = 0, .incarnation = 5});
    a = kit_expect(&k, 2, MSG_WELCOME);
    ck_assert_uint_eq(a->msg.u.welcome->clock, 7);
    ck_assert_uint_eq(a->msg.u.welcome->last_seq, 0);
    kit_answer_free(a);
}
END_TEST

START_TEST(finished_worker_may_be_followed)
{
    struct kit_answer *a;

    kit_join(&k, 1, session_job(), 0);
    kit_tick(&k, 1, 1, 3);
    kit_goodbye(&k, 1, true);
    kit_hello(&k, 2, &(struct kit_hello){.job = session_job(), .resume = true});
    kit_expect_closed(&k, 2, PS_ERR_FENCED);
    kit_hello(&k, 3, &(struct kit_hello){.job = session_job(), .incarnation = 5});
    a = kit_expect(&k, 3, MSG_WELCOME);
    ck_assert_uint_eq(a->msg.u.welcome->clock, 3);
    kit_answer_free(a);
}
END_TEST

/* ---- Leases ---- */

START_TEST(lost_connection_lapses_after_the_grace)
{
    struct kit_answer *a;

    kit_join(&k, 1, session_job(), 0);
    kit_join(&k, 2, session_job(), 1);
    kit_close(&k, 1);
    kit_pass(&k, 4999);
    kit_expect_nothing(&k, 2);
    kit_pass(&k, 2);
    a = kit_expect(&k, 2, MSG_EVENT);
    ck_assert_int_eq(a->msg.u.event->kind, PSD__EVENT_KIND__EVENT_LEASE_LAPSED);
    ck_assert_uint_eq(a->msg.u.event->task, 0);
    kit_answer_free(a);
    kit_hello(&k, 3, &(struct kit_hello){.job = session_job(), .resume = true});
    kit_expect_closed(&k, 3, PS_ERR_LEASE_LAPSED);
    kit_crash(&k); /* and it stays so */
    kit_hello(&k, 3, &(struct kit_hello){.job = session_job(), .resume = true});
    kit_expect_closed(&k, 3, PS_ERR_LEASE_LAPSED);
    kit_hello(&k, 4, &(struct kit_hello){.job = session_job(), .incarnation = 5});
    kit_answer_free(kit_expect(&k, 4, MSG_WELCOME));
}
END_TEST

START_TEST(coming_back_within_the_grace_keeps_the_lease)
{
    kit_join(&k, 1, session_job(), 0);
    kit_close(&k, 1);
    kit_pass(&k, 4000);
    kit_resume(&k, 2, session_job(), 0, 0);
    kit_pass(&k, 4000);
    kit_tick(&k, 2, 1, 1);
    kit_ack(&k, 2, 1, PS_OK);
}
END_TEST

START_TEST(silence_on_an_open_connection_lapses_after_the_lease)
{
    Psd__Ping m = PSD__PING__INIT;

    kit_hello(&k, 1, &(struct kit_hello){.job = session_job(), .lease_ms = 20000});
    kit_answer_free(kit_expect(&k, 1, MSG_WELCOME));
    kit_pass(&k, 19000);
    kit_frame(&k, 1, MSG_PING, 3, &m.base, NULL, 0); /* a sign of life */
    kit_answer_free(kit_expect(&k, 1, MSG_PONG));
    kit_pass(&k, 19000);
    kit_expect_nothing(&k, 1);
    kit_pass(&k, 1001);
    kit_expect_closed(&k, 1, PS_ERR_LEASE_LAPSED);
}
END_TEST

START_TEST(lease_is_five_minutes_unless_asked_for)
{
    kit_join(&k, 1, session_job(), 0);
    kit_pass(&k, 299999);
    kit_expect_nothing(&k, 1);
    kit_pass(&k, 1);
    kit_expect_closed(&k, 1, PS_ERR_LEASE_LAPSED);
    ck_assert_uint_eq(shard_next_time(k.shard), UINT64_MAX);
}
END_TEST

START_TEST(after_a_restart_all_have_the_grace_to_come_back)
{
    kit_join(&k, 1, session_job(), 0);
    kit_join(&k, 2, session_job(), 1);
    kit_crash(&k);
    kit_pass(&k, 4000);
    kit_resume(&k, 1, session_job(), 0, 0);
    kit_pass(&k, 1001);
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT));
    kit_hello(&k, 2, &(struct kit_hello){.job = session_job(), .task = 1, .resume = true});
    kit_expect_closed(&k, 2, PS_ERR_LEASE_LAPSED);
}
END_TEST

/* ---- Sequences ---- */

START_TEST(skipped_sequence_breaks_the_connection)
{
    uint32_t var;

    kit_join(&k, 1, session_job(), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    session_push(1, 2, var);
    kit_expect_closed(&k, 1, PS_ERR_SEQUENCE);
    kit_resume(&k, 2, session_job(), 0, 0);
    ck_assert(session_value(2, var) == 0);
    kit_tick(&k, 2, 3, 1);
    kit_expect_closed(&k, 2, PS_ERR_SEQUENCE);
}
END_TEST

START_TEST(repeated_push_is_answered_and_not_applied)
{
    uint32_t var;

    kit_join(&k, 1, session_job(), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    session_push(1, 1, var);
    kit_ack(&k, 1, 1, PS_OK);
    session_push(1, 1, var);
    kit_ack(&k, 1, 1, PS_OK);
    kit_crash(&k);
    kit_resume(&k, 1, session_job(), 0, 0);
    session_push(1, 1, var);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert(session_value(1, var) == -1);
}
END_TEST

START_TEST(refused_push_is_remembered_until_it_is_acked)
{
    uint32_t var;

    kit_join(&k, 1, session_job(), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var, .gradient = ones, .len = 3});
    kit_ack(&k, 1, 1, PS_ERR_SHAPE);
    kit_crash(&k);
    ck_assert_uint_eq(kit_resume(&k, 1, session_job(), 0, 0), 1);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var, .gradient = ones, .len = 4});
    kit_ack(&k, 1, 1, PS_ERR_SHAPE); /* what it was the first time */
    kit_push(&k, 1, &(struct kit_push){.seq = 2, .acked_through = 1, .var = var, .gradient = ones, .len = 4});
    kit_ack(&k, 1, 2, PS_OK);
    session_push(1, 1, var);
    kit_ack(&k, 1, 1, PS_OK); /* the worker has acknowledged the answer; it cannot ask for it again */
    ck_assert(session_value(1, var) == -1);
}
END_TEST

START_TEST(forgotten_outcomes_are_unknown)
{
    uint32_t var;

    kit_join(&k, 1, session_job(), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    for (uint64_t seq = 1; seq <= SHARD_OUTCOMES_MAX + 2; seq++) {
        kit_push(&k, 1, &(struct kit_push){.seq = seq, .var = var, .gradient = ones, .len = 3});
        kit_ack(&k, 1, seq, PS_ERR_SHAPE);
    }
    kit_crash(&k);
    kit_resume(&k, 1, session_job(), 0, 0);
    session_push(1, 2, var);
    kit_ack(&k, 1, 2, PS_ERR_UNKNOWN_OUTCOME);
    session_push(1, 3, var);
    kit_ack(&k, 1, 3, PS_ERR_SHAPE);
}
END_TEST

START_TEST(skip_uses_a_sequence_up)
{
    uint32_t var;

    kit_join(&k, 1, session_job(), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_skip(&k, 1, 1);
    kit_ack(&k, 1, 1, PS_OK);
    session_push(1, 1, var); /* too late: it was given up */
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert(session_value(1, var) == 0);
    session_push(1, 2, var);
    kit_ack(&k, 1, 2, PS_OK);
    kit_skip(&k, 1, 2); /* of one that was applied */
    kit_ack(&k, 1, 2, PS_OK);
}
END_TEST

/* Welcome.pushes of a worker that resumes. */
static uint64_t
pushes_of(uint64_t conn, const Psd__Job *job, uint32_t task)
{
    struct kit_answer *a;
    uint64_t pushes;

    kit_hello(&k, conn, &(struct kit_hello){.job = job, .task = task, .resume = true});
    a = kit_expect(&k, conn, MSG_WELCOME);
    pushes = a->msg.u.welcome->pushes;
    kit_answer_free(a);
    return pushes;
}

/* The client counts them when they are answered; both must find the same number after a rollback. */
START_TEST(skip_that_stands_for_a_push_is_counted_once_as_one)
{
    Psd__Job *pair = kit_job("train", PSD__MODE__SSP, 2);
    uint32_t var;

    kit_join(&k, 1, pair, 0);
    kit_join(&k, 9, pair, 1);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_barrier(&k, 1, 1, "all");
    session_push(1, 2, var);
    kit_ack(&k, 1, 2, PS_OK);
    for (uint64_t conn = 2; conn <= 3; conn++) { /* what is ahead of the barrier comes again after each crash */
        kit_crash(&k);
        ck_assert_uint_eq(pushes_of(conn, pair, 0), conn - 1); /* the second time with the skip that stands for one */
        kit_barrier(&k, conn, 1, "all");
        kit_skip_push(&k, conn, 2); /* it was applied, and counted then */
        kit_ack(&k, conn, 2, PS_OK);
        kit_skip_push(&k, conn, 3); /* it never came */
        kit_ack(&k, conn, 3, PS_OK);
        kit_skip(&k, conn, 4); /* a tick's, say */
        kit_ack(&k, conn, 4, PS_OK);
    }
    ck_assert_uint_eq(kit_resume(&k, 10, pair, 1, 0), 0);
    kit_barrier(&k, 10, 1, "all");
    kit_ack(&k, 10, 1, PS_OK);
    kit_ack(&k, 3, 1, PS_OK);
    kit_skip_push(&k, 3, 5); /* nothing waits */
    kit_ack(&k, 3, 5, PS_OK);
    kit_skip_push(&k, 3, 5);
    kit_ack(&k, 3, 5, PS_OK);
    kit_crash(&k);
    ck_assert_uint_eq(pushes_of(4, pair, 0), 3);
}
END_TEST

START_TEST(clock_that_goes_back_is_refused)
{
    kit_join(&k, 1, session_job(), 0);
    kit_tick(&k, 1, 1, 3);
    kit_ack(&k, 1, 1, PS_OK);
    kit_tick(&k, 1, 2, 2);
    kit_ack(&k, 1, 2, PS_ERR_CLOCK);
    kit_tick(&k, 1, 3, 3); /* the same again: a resend after a crash */
    kit_ack(&k, 1, 3, PS_OK);
    kit_tick(&k, 1, 4, UINT64_MAX);
    kit_ack(&k, 1, 4, PS_ERR_CLOCK);
    kit_tick(&k, 1, 5, 4);
    kit_ack(&k, 1, 5, PS_OK);
}
END_TEST

/* Random schedules of pushes, losses before or after the answer, crashes and failing commits. The worker sends
 * unanswered messages again. A ledger says what each block must hold at the end: every push counted once. */
struct ledger_worker {
    uint64_t conn, next_seq, acked;
    struct {
        uint32_t var;
        float gradient;
        bool bad, done;
    } sent[512];
};

static struct ledger_worker workers[3];
static float ledger[2];

static void
ledger_send(struct ledger_worker *w, uint64_t seq)
{
    float g[4];

    for (int i = 0; i < 4; i++)
        g[i] = w->sent[seq].gradient;
    kit_push(&k, w->conn,
             &(struct kit_push){.seq = seq,
                                .acked_through = w->acked,
                                .var = w->sent[seq].var,
                                .gradient = g,
                                .len = w->sent[seq].bad ? 3 : 4});
}

static void
ledger_hear(struct ledger_worker *w)
{
    struct kit_answer *a;

    while ((a = kit_take(&k, w->conn)) != NULL) {
        const Psd__Ack *m = a->msg.u.ack;

        for (size_t i = 0; a->msg.type == MSG_ACK && i < m->n_seq; i++) {
            enum ps_err code = m->n_code > 0 ? (enum ps_err)m->code[i] : PS_OK;

            ck_assert_int_eq(code, w->sent[m->seq[i]].bad ? PS_ERR_SHAPE : PS_OK);
            w->sent[m->seq[i]].done = true;
        }
        kit_answer_free(a);
    }
    while (w->acked + 1 < w->next_seq && w->sent[w->acked + 1].done)
        w->acked++;
}

static void
ledger_reconnect(struct ledger_worker *w, uint32_t task)
{
    struct kit_answer *a;

    do {
        if (k.open[w->conn])
            kit_close(&k, w->conn);
        kit_hello(&k, w->conn,
                  &(struct kit_hello){.job = session_job(), .task = task, .resume = true, .acked_through = w->acked});
        a = kit_take(&k, w->conn);
        if (a != NULL && a->msg.type == MSG_WELCOME)
            ck_assert_uint_ge(a->msg.u.welcome->last_seq, w->acked); /* never back behind what was acked */
        kit_answer_free(a);
    } while (!k.open[w->conn]);
    for (uint64_t seq = w->acked + 1; seq < w->next_seq && k.open[w->conn]; seq++)
        ledger_send(w, seq);
}

static void
ledger_step(struct test_rng *rng, uint32_t task)
{
    struct ledger_worker *w = &workers[task];

    if (!k.open[w->conn]) {
        ledger_reconnect(w, task);
    } else if (w->next_seq < 400 && w->next_seq - w->acked < 12) {
        uint64_t seq = w->next_seq++;

        w->sent[seq].var = 1 + (uint32_t)test_below(rng, 2);
        w->sent[seq].gradient = (float)(1 + test_below(rng, 9));
        w->sent[seq].bad = test_below(rng, 10) == 0;
        if (!w->sent[seq].bad)
            ledger[w->sent[seq].var - 1] += w->sent[seq].gradient;
        ledger_send(w, seq);
    }
}

static void
ledger_mishap(struct test_rng *rng)
{
    uint32_t task = (uint32_t)test_below(rng, 3);

    switch (test_below(rng, 8)) {
    case 0: /* the connection is lost before the answer is read */
        if (k.open[workers[task].conn])
            kit_close(&k, workers[task].conn);
        break;
    case 1:
        kit_crash(&k);
        break;
    case 2:
        store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1 + test_below(rng, 3));
        break;
    case 3:
        store_mem_fail_at(k.store, STORE_MEM_FAIL_RESERVE, 1 + test_below(rng, 3));
        break;
    default: /* the answer is read */
        ledger_hear(&workers[task]);
    }
}

START_TEST(every_push_counts_exactly_once_under_random_resends_and_crashes)
{
    struct test_rng rng = {test_seed()};

    for (uint32_t task = 0; task < 3; task++) {
        workers[task] = (struct ledger_worker){.conn = task + 1, .next_seq = 1};
        kit_join(&k, task + 1, session_job(), task);
    }
    kit_declare(&k, 1, "a", 4, PS_SGD);
    kit_declare(&k, 1, "b", 4, PS_SGD);
    for (int i = 0; i < 6000; i++) {
        k.hold = test_below(&rng, 3) == 0;
        ledger_step(&rng, (uint32_t)test_below(&rng, 3));
        if (test_below(&rng, 4) == 0)
            ledger_mishap(&rng);
    }
    k.hold = false;
    for (int stage = STORE_MEM_FAIL_BEGIN; stage < STORE_MEM_FAILS; stage++)
        store_mem_fail_at(k.store, (enum store_mem_fail)stage, 0);
    kit_turn(&k);
    for (uint32_t task = 0; task < 3; task++)
        for (int tries = 0; workers[task].acked + 1 < workers[task].next_seq; tries++) {
            ck_assert_int_lt(tries, 3);
            ledger_reconnect(&workers[task], task);
            ledger_hear(&workers[task]);
        }
    ck_assert(workers[0].next_seq > 200); /* not all attempts failed */
    ledger_reconnect(&workers[0], 0);
    kit_drop_answers(&k, 1);
    for (uint32_t var = 1; var <= 2; var++)
        ck_assert(session_value(1, var) == -ledger[var - 1]);
}
END_TEST

/* In async and ssp a push does not wait for a barrier before it; a crash loses the barrier, and with it what last_seq
 * would have said. */
START_TEST(push_ahead_of_a_barrier_counts_once_over_a_crash)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, 2);
    float g[4] = {1, 1, 1, 1}, nan[4] = {NAN, 1, 1, 1};
    struct kit_answer *a;
    uint32_t var;

    kit_join(&k, 1, job, 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_barrier(&k, 1, 1, "all");
    kit_push(&k, 1, &(struct kit_push){.seq = 2, .var = var, .gradient = g, .len = 4});
    kit_ack(&k, 1, 2, PS_OK);
    kit_push(&k, 1, &(struct kit_push){.seq = 3, .var = var, .gradient = nan, .len = 4});
    kit_ack(&k, 1, 3, PS_ERR_NONFINITE);
    kit_push(&k, 1, &(struct kit_push){.seq = 4, .var = var, .gradient = g, .len = 4});
    kit_ack(&k, 1, 4, PS_OK);
    for (uint64_t life = 2; life <= 3; life++) {
        kit_crash(&k);
        ck_assert_uint_eq(kit_resume(&k, life, job, 0, 0), 0);
        kit_barrier(&k, life, 1, "all");
        kit_push(&k, life, &(struct kit_push){.seq = 2, .var = var, .gradient = g, .len = 4});
        kit_ack(&k, life, 2, PS_OK);
        kit_push(&k, life, &(struct kit_push){.seq = 3, .var = var, .gradient = nan, .len = 4});
        kit_ack(&k, life, 3, PS_ERR_NONFINITE);
        kit_push(&k, life, &(struct kit_push){.seq = 4, .var = var, .gradient = g, .len = 4, .want_value = true});
        a = kit_expect(&k, life, MSG_DATA);
        ck_assert_uint_eq(a->msg.u.data->version[0], 2);
        ck_assert_float_eq(a->payload[0], -2);
        kit_answer_free(a);
    }
    kit_push(&k, 3, &(struct kit_push){.seq = 5, .var = var, .gradient = g, .len = 4});
    kit_ack(&k, 3, 5, PS_OK);
    ck_assert_float_eq(kit_value_four(&k, 3, var, 3), -3);
}
END_TEST

/* The shard has closed the connections itself, and some peers take their time to close theirs. */
/* Each writes rows, and to the redo log, whose records have an end. */
START_TEST(a_crowd_that_is_lost_at_once_lapses_in_bounded_turns)
{
    enum { MANY = 1500 };
    Psd__Job *crowd = kit_job("crowd", PSD__MODE__ASYNC, MANY);

    for (uint32_t task = 0; task < MANY; task++) {
        kit_join(&k, 1, crowd, task);
        kit_close(&k, 1);
    }
    k.now_ms += 5000;
    kit_event(&k, &(struct shard_event){.kind = SHARD_TIME});
    ck_assert_uint_le(shard_next_time(k.shard), k.now_ms); /* not all of them */
    kit_event(&k, &(struct shard_event){.kind = SHARD_TIME});
    ck_assert_uint_eq(shard_next_time(k.shard), UINT64_MAX);
    kit_hello(&k, 2, &(struct kit_hello){.job = crowd, .task = MANY - 1, .resume = true});
    kit_expect_closed(&k, 2, PS_ERR_LEASE_LAPSED);
}
END_TEST

START_TEST(nobody_lapses_while_the_shard_drains)
{
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    k.hold = true;
    kit_event(&k, &(struct shard_event){.kind = SHARD_DRAIN});
    ck_assert_uint_eq(shard_next_time(k.shard), UINT64_MAX);
    k.now_ms += 60000;
    kit_event(&k, &(struct shard_event){.kind = SHARD_TIME});
    k.hold = false;
    kit_turn(&k);
    kit_crash(&k);
    kit_resume(&k, 2, kit_job("train", PSD__MODE__ASYNC, 1), 0, 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("session");
    TCase *tc = tcase_create("session");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, task_of_a_live_process_is_taken);
    tcase_add_test(tc, newcomer_replaces_a_worker_whose_connection_is_lost);
    tcase_add_test(tc, a_session_is_of_the_token_that_it_was_installed_with);
    tcase_add_test(tc, a_session_without_a_token_asks_for_none);
    tcase_add_test(tc, resume_goes_on_with_the_session);
    tcase_add_test(tc, resume_closes_the_older_connection);
    tcase_add_test(tc, resume_forgets_the_pulls_of_the_older_connection);
    tcase_add_test(tc, new_hello_of_the_same_incarnation_resumes);
    tcase_add_test(tc, resume_without_a_session_is_not_found);
    tcase_add_test(tc, newcomer_begins_where_the_slowest_stands);
    tcase_add_test(tc, last_worker_begins_again_where_it_stood);
    tcase_add_test(tc, finished_worker_may_be_followed);
    tcase_add_test(tc, lost_connection_lapses_after_the_grace);
    tcase_add_test(tc, coming_back_within_the_grace_keeps_the_lease);
    tcase_add_test(tc, silence_on_an_open_connection_lapses_after_the_lease);
    tcase_add_test(tc, lease_is_five_minutes_unless_asked_for);
    tcase_add_test(tc, after_a_restart_all_have_the_grace_to_come_back);
    tcase_add_test(tc, skipped_sequence_breaks_the_connection);
    tcase_add_test(tc, repeated_push_is_answered_and_not_applied);
    tcase_add_test(tc, refused_push_is_remembered_until_it_is_acked);
    tcase_add_test(tc, forgotten_outcomes_are_unknown);
    tcase_add_test(tc, skip_uses_a_sequence_up);
    tcase_add_test(tc, skip_that_stands_for_a_push_is_counted_once_as_one);
    tcase_add_test(tc, clock_that_goes_back_is_refused);
    tcase_add_test(tc, every_push_counts_exactly_once_under_random_resends_and_crashes);
    tcase_add_test(tc, push_ahead_of_a_barrier_counts_once_over_a_crash);
    tcase_add_test(tc, a_crowd_that_is_lost_at_once_lapses_in_bounded_turns);
    tcase_add_test(tc, nobody_lapses_while_the_shard_drains);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
