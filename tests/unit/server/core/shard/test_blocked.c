/* Waits for the shard's own work, as BLOCKED reports them: declares and attaches, durable pushes, saves, checkpoints.
 * (test_report.c has those for other workers.) */
#include <string.h>

#include "tests/unit/kits/shard_fixture.h"

enum { WORKER = 1, OBSERVER = 2, OTHER = 3 };

static void
blocked_setup(void)
{
    struct shard_config config = {.cluster = "test", .shards = 1, .boot = 1, .durable = true, .durable_dir = "/d"};

    kit_init(&k, &config);
    kit_join(&k, WORKER, kit_job("train", PSD__MODE__ASYNC, 2), 0);
    kit_observe(&k, OBSERVER);
    kit_join(&k, OTHER, kit_job("train", PSD__MODE__ASYNC, 2), 1);
}

/* The report, requested by the other worker; only_job "": all. The caller frees it. */
static struct kit_answer *
blocked_ask(const char *only_job, size_t n)
{
    struct kit_answer *a;

    kit_drop_answers(&k, OTHER);
    a = kit_ask(&k, OTHER, PSD__QUERY_KIND__BLOCKED, only_job);
    ck_assert_uint_eq(a->msg.u.report->n_blocked, n);
    return a;
}

static void
blocked_expect(const Psd__BlockedReport *m, const char *what, const char *who, const char *on, uint64_t waited_ms)
{
    ck_assert_str_eq(m->what, what);
    ck_assert_str_eq(m->who, who);
    ck_assert_msg(strstr(m->on, on) != NULL, "'%s' does not say '%s'", m->on, on);
    ck_assert_uint_eq(m->waited_ms, waited_ms);
    ck_assert_uint_eq(m->n_on_task, 0);
}

START_TEST(declares_and_attaches_wait_for_blocks)
{
    Psd__Attach attach = PSD__ATTACH__INIT;
    uint64_t elements = 4 * 1008;
    struct kit_answer *a;

    kit_declare_as(&k, WORKER, 5, "w", &elements, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    attach.job = (char *)(uintptr_t) "train";
    attach.name = (char *)(uintptr_t) "w";
    kit_frame(&k, OBSERVER, MSG_ATTACH, 6, &attach.base, NULL, 0);
    kit_pass(&k, 40);
    a = blocked_ask("train", 2);
    blocked_expect(a->msg.u.report->blocked[0], "declare", "", "0 of 4 blocks are made", 40);
    ck_assert_str_eq(a->msg.u.report->blocked[0]->job, "train");
    ck_assert_str_eq(a->msg.u.report->blocked[0]->variable, "w");
    ck_assert_str_eq(a->msg.u.report->blocked[1]->what, "attach");
    ck_assert_str_ne(a->msg.u.report->blocked[1]->who, "");
    kit_answer_free(a);
    kit_work(&k);
    kit_answer_free(blocked_ask("", 0));
}
END_TEST

START_TEST(durable_pushes_wait_for_the_disk)
{
    float g[4] = {1, 1, 1, 1};
    uint32_t var = kit_declare(&k, WORKER, "w", 4, PS_SGD);
    struct kit_answer *a;

    kit_durable(&k, k.redo);
    kit_push(&k, WORKER, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4, .durable = true});
    kit_expect_nothing(&k, WORKER);
    kit_pass(&k, 15);
    a = blocked_ask("train", 1);
    blocked_expect(a->msg.u.report->blocked[0], "durable push", "", "the disk: 1 pieces of the redo log", 15);
    ck_assert_uint_eq(a->msg.u.report->blocked[0]->task, 0);
    kit_answer_free(a);
    kit_answer_free(blocked_ask("elsewhere", 0));
    kit_durable(&k, k.redo);
    kit_ack(&k, WORKER, 1, PS_OK);
    kit_answer_free(blocked_ask("", 0));
}
END_TEST

static void
ask_save(uint64_t conn, uint64_t request)
{
    Psd__Save m = PSD__SAVE__INIT;

    kit_frame(&k, conn, MSG_SAVE, request, &m.base, NULL, 0);
}

START_TEST(saves_and_checkpoints_wait_for_the_one_that_runs)
{
    Psd__Checkpoint checkpoint = PSD__CHECKPOINT__INIT;
    struct kit_answer *a;

    kit_declare(&k, WORKER, "w", 4 * 1008, PS_SGD);
    ask_save(OBSERVER, 8);
    ck_assert_ptr_nonnull(k.save);
    kit_pass(&k, 7);
    ask_save(WORKER, 9);
    checkpoint.job = (char *)(uintptr_t) "train";
    checkpoint.dir = (char *)(uintptr_t) "/c";
    kit_frame(&k, WORKER, MSG_CHECKPOINT, 10, &checkpoint.base, NULL, 0);
    a = blocked_ask("", 3);
    ck_assert_str_eq(a->msg.u.report->blocked[0]->what, "save");
    ck_assert_str_eq(a->msg.u.report->blocked[0]->on, "0 of 4 blocks are read");
    ck_assert_uint_eq(a->msg.u.report->blocked[0]->waited_ms, 7);
    blocked_expect(a->msg.u.report->blocked[1], "save", "", "the save that runs", 0);
    blocked_expect(a->msg.u.report->blocked[2], "checkpoint", "", "the save that runs", 0);
    ck_assert_str_eq(a->msg.u.report->blocked[2]->job, "train");
    kit_answer_free(a);
    a = blocked_ask("train", 1); /* a save belongs to no job */
    blocked_expect(a->msg.u.report->blocked[0], "checkpoint", "", "the save that runs", 0);
    kit_answer_free(a);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("blocked");
    TCase *tc = tcase_create("blocked");

    tcase_add_checked_fixture(tc, blocked_setup, shard_teardown);
    tcase_add_test(tc, declares_and_attaches_wait_for_blocks);
    tcase_add_test(tc, durable_pushes_wait_for_the_disk);
    tcase_add_test(tc, saves_and_checkpoints_wait_for_the_one_that_runs);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
