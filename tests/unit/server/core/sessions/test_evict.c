/* Evictions: a session ended by an administrator, the effects for the others and for its own worker, and which roles
 * may evict. */
#include <string.h>

#include "server/core/sessions/session.h"
#include "server/core/shard_state.h"
#include "tests/unit/kits/power_kit.h"
#include "tests/unit/kits/shard_fixture.h"

#define WATCHER 9 /* the administrator's connection */

static void
evict_setup(void)
{
    kit_init(&k, &kit_durable_config);
    kit_observe(&k, WATCHER);
}

static uint64_t
evict_ask(uint64_t conn, const char *job, uint32_t task)
{
    Psd__Evict m = PSD__EVICT__INIT;

    m.job = (char *)job;
    m.task = task;
    kit_frame(&k, conn, MSG_EVICT, ++k.next_request, &m.base, NULL, 0);
    return k.next_request;
}

/* The answer to it. */
static void
evict_worker(uint32_t task, bool found, bool live, uint64_t clock)
{
    uint64_t request = evict_ask(WATCHER, "train", task);
    struct kit_answer *a = kit_expect(&k, WATCHER, MSG_EVICTED);

    ck_assert_uint_eq(a->msg.request, request);
    ck_assert_int_eq(a->msg.u.evicted->found, found);
    ck_assert_int_eq(a->msg.u.evicted->live, live);
    ck_assert_uint_eq(a->msg.u.evicted->clock, clock);
    kit_answer_free(a);
}

static Psd__Job *
join_all(Psd__Mode mode, uint32_t workers)
{
    Psd__Job *job = kit_job("train", mode, workers);

    for (uint32_t task = 0; task < workers; task++)
        kit_join(&k, task + 1, job, task);
    return job;
}

static void
resume_is_fenced(const Psd__Job *job, uint64_t conn, uint32_t task)
{
    struct kit_answer *a;

    kit_hello(&k, conn, &(struct kit_hello){.job = job, .task = task, .resume = true});
    a = kit_expect(&k, conn, MSG_ERROR);
    ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_FENCED);
    ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "was evicted at clock"));
    kit_answer_free(a);
    ck_assert(k.closed[conn]);
}

/* ---- Evicted workers ---- */

START_TEST(an_evicted_worker_and_the_others_are_told)
{
    Psd__Ping ping = PSD__PING__INIT;
    struct kit_answer *a;

    kit_hello(&k, 2, &(struct kit_hello){.job = kit_job("train", PSD__MODE__ASYNC, 2), .task = 1, .agent = "beta:7"});
    kit_answer_free(kit_expect(&k, 2, MSG_WELCOME));
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_tick(&k, 2, 1, 4);
    kit_ack(&k, 2, 1, PS_OK);
    evict_ask(WATCHER, "train", 1);
    a = kit_expect(&k, WATCHER, MSG_EVICTED);
    ck_assert(a->msg.u.evicted->found && a->msg.u.evicted->live && a->msg.u.evicted->clock == 4);
    ck_assert_str_eq(a->msg.u.evicted->agent, "beta:7");
    kit_answer_free(a);
    a = kit_expect(&k, 2, MSG_ERROR);
    ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_FENCED);
    ck_assert_uint_eq(a->msg.request, 0);
    ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "worker 1 of job 'train' (beta:7) was evicted at clock 4 by "));
    kit_answer_free(a);
    ck_assert(k.closed[2] && !k.closed[1]);
    a = kit_expect(&k, 1, MSG_EVENT);
    ck_assert_int_eq(a->msg.u.event->kind, PSD__EVENT_KIND__EVENT_LEASE_LAPSED);
    ck_assert_uint_eq(a->msg.u.event->task, 1);
    ck_assert_ptr_nonnull(strstr(a->msg.u.event->text, "was evicted"));
    kit_answer_free(a);
    kit_frame(&k, WATCHER, MSG_PING, 77, &ping.base, NULL, 0); /* the administrator's connection goes on */
    kit_answer_free(kit_expect(&k, WATCHER, MSG_PONG));
    ck_assert_uint_eq(k.shard->stats.evictions, 1);
    ck_assert_uint_eq(k.shard->stats.lease_lapses, 0);
}
END_TEST

START_TEST(it_is_fenced_until_another_takes_its_place_whatever_dies)
{
    Psd__Job *job = join_all(PSD__MODE__ASYNC, 2);
    struct kit_answer *a;

    evict_worker(1, true, true, 0);
    resume_is_fenced(job, 3, 1);
    kit_hello(&k, 4, &(struct kit_hello){.job = job, .task = 1}); /* it claims that its welcome was lost */
    kit_expect_closed(&k, 4, PS_ERR_FENCED);
    kit_crash(&k);
    resume_is_fenced(job, 5, 1);
    kit_hello(&k, 6, &(struct kit_hello){.job = job, .task = 1, .incarnation = 5});
    a = kit_expect(&k, 6, MSG_WELCOME);
    ck_assert_uint_eq(a->msg.u.welcome->last_seq, 0);
    kit_answer_free(a);
    kit_crash(&k);
    kit_hello(&k, 7, &(struct kit_hello){.job = job, .task = 1, .incarnation = 5, .resume = true});
    kit_answer_free(kit_expect(&k, 7, MSG_WELCOME)); /* nothing of the eviction is its */
    kit_hello(&k, 8, &(struct kit_hello){.job = job, .task = 1, .resume = true});
    kit_expect_closed(&k, 8, PS_ERR_FENCED);
}
END_TEST

START_TEST(one_whose_connection_is_lost_can_be_evicted)
{
    Psd__Job *job = join_all(PSD__MODE__ASYNC, 2);

    kit_close(&k, 2);
    evict_worker(1, true, true, 0);
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT));
    resume_is_fenced(job, 3, 1);
}
END_TEST

START_TEST(evicting_twice_or_nobody_is_no_error)
{
    join_all(PSD__MODE__ASYNC, 2);
    evict_worker(0, true, true, 0);
    evict_worker(0, true, false, 0);
    kit_goodbye(&k, 2, true);
    evict_worker(1, true, false, 0);
    evict_worker(2, false, false, 0);     /* the job has none of this number */
    evict_worker(65535, false, false, 0); /* nor may any have */
    evict_ask(WATCHER, "other", 0);
    kit_answer_free(kit_expect(&k, WATCHER, MSG_EVICTED));
    ck_assert_uint_eq(k.shard->stats.evictions, 1);
}
END_TEST

START_TEST(a_lapse_is_no_eviction)
{
    Psd__Job *job = join_all(PSD__MODE__ASYNC, 1);

    kit_close(&k, 1);
    kit_pass(&k, 6000);
    evict_worker(0, true, false, 0);
    kit_hello(&k, 2, &(struct kit_hello){.job = job, .resume = true});
    kit_expect_closed(&k, 2, PS_ERR_LEASE_LAPSED); /* as before: it may join again by itself */
}
END_TEST

START_TEST(the_last_worker_can_be_evicted_and_followed)
{
    Psd__Job *job = join_all(PSD__MODE__SYNC, 1);
    struct kit_answer *a;

    kit_tick(&k, 1, 1, 7);
    kit_ack(&k, 1, 1, PS_OK);
    evict_worker(0, true, true, 7);
    kit_crash(&k);
    kit_hello(&k, 2, &(struct kit_hello){.job = job, .incarnation = 5});
    a = kit_expect(&k, 2, MSG_WELCOME);
    ck_assert_uint_eq(a->msg.u.welcome->clock, 7); /* where the last one stood */
    kit_answer_free(a);
}
END_TEST

/* ---- Waiting workers ---- */

START_TEST(a_barrier_opens_without_the_evicted)
{
    join_all(PSD__MODE__SYNC, 3);
    kit_barrier(&k, 1, 1, "start");
    kit_barrier(&k, 2, 1, "start");
    evict_worker(1, true, true, 0); /* it waits there itself */
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT));
    kit_expect_nothing(&k, 1); /* worker 2 has not come */
    kit_expect_closed(&k, 2, PS_ERR_FENCED);
    evict_worker(2, true, true, 0);
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT));
    kit_ack(&k, 1, 1, PS_OK);
}
END_TEST

START_TEST(a_step_is_done_without_the_evicted)
{
    uint32_t var;

    join_all(PSD__MODE__SYNC, 3);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_push_four(&k, 1, 1, 0, var, 3);
    kit_push_four(&k, 3, 1, 0, var, 6);
    kit_pull(&k, 1, var, 0, 1);
    kit_expect_nothing(&k, 1);
    evict_worker(1, true, true, 0);
    kit_work(&k);
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT));
    kit_answer_free(kit_expect(&k, 1, MSG_DATA));
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -4.5F);
}
END_TEST

START_TEST(what_an_evicted_worker_pushed_counts_once)
{
    Psd__Job *job;
    uint32_t var;

    job = join_all(PSD__MODE__SYNC, 2);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_push_four(&k, 2, 1, 0, var, 6); /* it waits for worker 0 */
    evict_worker(1, true, true, 0);
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT));
    kit_push_four(&k, 1, 1, 0, var, 3);
    kit_work(&k);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -4.5F);
    kit_tick(&k, 1, 2, 1);
    kit_ack(&k, 1, 2, PS_OK);
    kit_hello(&k, 3, &(struct kit_hello){.job = job, .task = 1, .incarnation = 5});
    kit_answer_free(kit_expect(&k, 3, MSG_WELCOME));
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT)); /* it is back */
    kit_push_four(&k, 3, 1, 1, var, 1);            /* the same number, and another message */
    kit_push_four(&k, 1, 3, 1, var, 1);
    kit_work(&k);
    kit_ack(&k, 3, 1, PS_OK);
    kit_ack(&k, 1, 3, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 2) == -5.5F);
}
END_TEST

START_TEST(the_bound_lets_go_of_who_waited_for_the_evicted)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SSP, 2);
    uint32_t var;

    job->bound = 1;
    kit_join(&k, 1, job, 0);
    kit_join(&k, 2, job, 1);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_ticked(&k, 1, 1, 5);
    kit_pull(&k, 1, var, 0, 5);
    kit_expect_nothing(&k, 1);
    evict_worker(1, true, true, 0);
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT));
    kit_answer_free(kit_expect(&k, 1, MSG_DATA));
}
END_TEST

START_TEST(where_a_lapse_fails_the_step_so_does_an_eviction)
{
    Psd__Job *job = kit_job("train", PSD__MODE__SYNC, 2);
    struct kit_answer *a;
    uint32_t var;

    job->lapse = PSD__LAPSE__FAIL;
    kit_join(&k, 1, job, 0);
    kit_join(&k, 2, job, 1);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_push_four(&k, 1, 1, 0, var, 2);
    evict_worker(1, true, true, 0);
    kit_answer_free(kit_expect(&k, 1, MSG_EVENT));
    a = kit_expect(&k, 1, MSG_ACK);
    ck_assert_uint_eq(a->msg.u.ack->code[0], PS_ERR_STEP_FAILED);
    ck_assert_ptr_nonnull(strstr(a->msg.u.ack->error[0]->text, "worker 1 of job 'train'"));
    ck_assert_ptr_nonnull(strstr(a->msg.u.ack->error[0]->text, "evicted"));
    kit_answer_free(a);
    ck_assert(kit_value_four(&k, 1, var, 0) == 0);
}
END_TEST

/* ---- What is left of it ---- */

START_TEST(an_eviction_is_in_the_log_of_durable_pushes)
{
    struct power_disk disk = {0};
    float g[4] = {1, 1, 1, 1};
    Psd__Job *job;
    uint32_t var;

    job = join_all(PSD__MODE__ASYNC, 2);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    disk_save(&disk, &k);
    kit_push(&k, 2, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4, .durable = true});
    evict_worker(1, true, true, 0);
    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4, .durable = true});
    disk_take(&disk, &k, k.redo);
    power_loss(&disk, &k, 78);
    resume_is_fenced(job, 3, 1);
    kit_resume(&k, 4, job, 0, 0);
    ck_assert(kit_value_four(&k, 4, var, 2) == -2); /* its own push, too */
    disk_finish(&disk);
}
END_TEST

START_TEST(an_eviction_that_is_not_committed_did_not_happen)
{
    join_all(PSD__MODE__ASYNC, 2);
    store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1);
    evict_ask(WATCHER, "train", 1);
    ck_assert(k.closed[WATCHER]); /* it asks again */
    kit_expect_nothing(&k, WATCHER);
    ck_assert_int_eq(k.shard->jobs_by_id[1]->sessions[1]->state, SESSION_LIVE);
    ck_assert(!k.shard->jobs_by_id[1]->sessions[1]->evicted);
    kit_observe(&k, WATCHER);
    evict_worker(1, true, true, 0);
}
END_TEST

/* ---- Permissions ---- */

START_TEST(a_worker_may_not_evict)
{
    join_all(PSD__MODE__ASYNC, 2);
    evict_ask(1, "train", 1);
    kit_expect_closed(&k, 1, PS_ERR_PROTOCOL);
    evict_worker(1, true, true, 0);
}
END_TEST

START_TEST(it_takes_the_role_of_an_administrator)
{
    uint64_t request;

    join_all(PSD__MODE__ASYNC, 2);
    k.role = ROLE_TRAIN;
    request = evict_ask(WATCHER, "train", 1);
    kit_expect_error(&k, WATCHER, request, PS_ERR_DENIED);
    k.role = ROLE_ADMIN;
    evict_worker(1, true, true, 0);
}
END_TEST

START_TEST(one_that_makes_no_sense_is_refused_and_the_connection_goes_on)
{
    uint64_t request;

    join_all(PSD__MODE__ASYNC, 1);
    request = evict_ask(WATCHER, "", 0);
    kit_expect_error(&k, WATCHER, request, PS_ERR_INVALID);
    request = evict_ask(WATCHER, "train", WIRE_WORKERS_MAX);
    kit_expect_error(&k, WATCHER, request, PS_ERR_LIMIT);
    evict_worker(0, true, true, 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("evict");
    TCase *t = tcase_create("evict");

    tcase_add_checked_fixture(t, evict_setup, shard_teardown);
    tcase_add_test(t, an_evicted_worker_and_the_others_are_told);
    tcase_add_test(t, it_is_fenced_until_another_takes_its_place_whatever_dies);
    tcase_add_test(t, one_whose_connection_is_lost_can_be_evicted);
    tcase_add_test(t, evicting_twice_or_nobody_is_no_error);
    tcase_add_test(t, a_lapse_is_no_eviction);
    tcase_add_test(t, the_last_worker_can_be_evicted_and_followed);
    tcase_add_test(t, a_barrier_opens_without_the_evicted);
    tcase_add_test(t, a_step_is_done_without_the_evicted);
    tcase_add_test(t, what_an_evicted_worker_pushed_counts_once);
    tcase_add_test(t, the_bound_lets_go_of_who_waited_for_the_evicted);
    tcase_add_test(t, where_a_lapse_fails_the_step_so_does_an_eviction);
    tcase_add_test(t, an_eviction_is_in_the_log_of_durable_pushes);
    tcase_add_test(t, an_eviction_that_is_not_committed_did_not_happen);
    tcase_add_test(t, a_worker_may_not_evict);
    tcase_add_test(t, it_takes_the_role_of_an_administrator);
    tcase_add_test(t, one_that_makes_no_sense_is_refused_and_the_connection_goes_on);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
