/* Quotas of tokens: what is held is counted by token, over drops, restarts and other numbers of workers; more than a
 * quota is refused with a sentence, and others are served. */
#include <string.h>

#include "server/core/turn/quota.h"
#include "tests/unit/kits/shard_fixture.h"

static struct quota_row quota;

/* alice may hold so many of these, and as much as there is of all else. */
static void
quota_set(enum quota what, uint64_t most)
{
    quota = (struct quota_row){.name = "alice"};
    for (enum quota q = 0; q < QUOTAS; q++)
        quota.most[q] = QUOTA_NONE;
    quota.most[what] = most;
    ck_assert(shard_set_quotas(k.shard, &quota, 1));
}

static void
quota_setup(void)
{
    kit_init(&k, &kit_durable_config);
    k.token = "alice";
}

static void
quota_expect(uint64_t conn, const char *has, const char *most)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_ERROR);
    const char *text = a->msg.u.error->text;

    ck_assert_int_eq(a->msg.u.error->code, PS_ERR_LIMIT);
    ck_assert_msg(strstr(text, "token 'alice' holds") != NULL && strstr(text, "--quota") != NULL, "%s", text);
    ck_assert_msg(strstr(text, has) != NULL && strstr(text, most) != NULL, "%s", text);
    kit_answer_free(a);
}

static void
quota_declare(uint64_t conn, const char *name, uint64_t elements)
{
    uint64_t dims[] = {elements};

    kit_declare_as(&k, conn, k.next_request++, name, dims, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    kit_work(&k);
}

static void
quota_drop(uint64_t conn, const char *job, const char *variables)
{
    Psd__Drop m = PSD__DROP__INIT;

    m.job = (char *)(uintptr_t)job;
    m.variables = (char *)(uintptr_t)variables;
    m.force = true;
    kit_observe(&k, conn);
    kit_frame(&k, conn, MSG_DROP, 1, &m.base, NULL, 0);
    kit_work(&k);
    kit_expected(&k, conn, MSG_DROPPED);
    kit_close(&k, conn);
}

static Psd__Job *
quota_job(const char *name)
{
    return kit_job(name, PSD__MODE__ASYNC, 4);
}

/* kill -9, and the quotas of the new process. */
static void
quota_crash(void)
{
    kit_crash(&k);
    ck_assert(shard_set_quotas(k.shard, &quota, 1));
}

START_TEST(jobs_are_of_the_token_that_opened_them)
{
    quota_set(QUOTA_JOBS, 2);
    kit_join(&k, 1, quota_job("a"), 0);
    kit_join(&k, 2, quota_job("b"), 0);
    quota_crash();
    kit_hello(&k, 3, &(struct kit_hello){.job = quota_job("c")});
    quota_expect(3, "2 jobs", "quota is 2");
    ck_assert(k.closed[3]);
    k.token = "bob";
    kit_join(&k, 4, quota_job("c"), 0);
    k.token = NULL;
    kit_join(&k, 5, quota_job("d"), 0);
    k.token = "alice";
    quota_drop(6, "a", "");
    kit_join(&k, 7, quota_job("e"), 0);
}
END_TEST

START_TEST(sessions_are_of_the_token_that_has_them)
{
    quota_set(QUOTA_SESSIONS, 2);
    k.token = "bob";
    kit_join(&k, 1, quota_job("a"), 0);
    k.token = "alice";
    kit_join(&k, 2, quota_job("a"), 1);
    kit_join(&k, 3, quota_job("a"), 2);
    quota_crash();
    kit_hello(&k, 4, &(struct kit_hello){.job = quota_job("a"), .task = 3});
    quota_expect(4, "2 sessions", "quota is 2");
    kit_resume(&k, 5, quota_job("a"), 2, 0); /* it has that one */
    kit_pass(&k, 600000);
    kit_hello(&k, 6, &(struct kit_hello){.job = quota_job("a"), .task = 0, .incarnation = 7}); /* bob's, who is gone */
    quota_expect(6, "2 sessions", "quota is 2");
    k.token = "bob";
    kit_hello(&k, 7, &(struct kit_hello){.job = quota_job("a"), .task = 1, .incarnation = 7});
    kit_expected(&k, 7, MSG_WELCOME);
    k.token = "alice"; /* who has one less */
    kit_hello(&k, 8, &(struct kit_hello){.job = quota_job("a"), .task = 3});
    kit_expected(&k, 8, MSG_WELCOME);
}
END_TEST

START_TEST(variables_are_of_their_jobs_token)
{
    quota_set(QUOTA_VARIABLES, 2);
    kit_join(&k, 1, quota_job("a"), 0);
    (void)kit_declare(&k, 1, "v", 4, PS_SGD);
    (void)kit_declare(&k, 1, "w", 4, PS_SGD);
    quota_declare(1, "x", 4);
    quota_expect(1, "2 variables", "quota is 2");
    (void)kit_declare(&k, 1, "w", 4, PS_SGD); /* that one is there */
    quota_crash();
    quota_drop(2, "a", "v");
    kit_join(&k, 3, quota_job("a"), 1);
    (void)kit_declare(&k, 3, "x", 4, PS_SGD);
    quota_declare(3, "y", 4);
    quota_expect(3, "2 variables", "quota is 2");
    k.token = "bob";
    kit_join(&k, 4, quota_job("b"), 0);
    (void)kit_declare(&k, 4, "y", 4, PS_SGD);
}
END_TEST

START_TEST(bytes_of_variables_have_a_quota)
{
    quota_set(QUOTA_BYTES, MIB);
    kit_join(&k, 1, quota_job("a"), 0);
    quota_declare(1, "large", MIB);
    quota_expect(1, "0 B", "1.00 MiB");
    (void)kit_declare(&k, 1, "small", 4, PS_SGD);
    ck_assert(shard_set_quotas(k.shard, NULL, 0));
    (void)kit_declare(&k, 1, "large", MIB, PS_SGD);
    quota_set(QUOTA_BYTES, MIB); /* what is there stays */
    quota_declare(1, "more", 4);
    quota_expect(1, "MiB", "1.00 MiB");
}
END_TEST

START_TEST(gradients_that_wait_have_a_quota)
{
    quota_set(QUOTA_GATHER, MIB);
    kit_join(&k, 1, kit_job("a", PSD__MODE__SYNC, 2), 0);
    quota_declare(1, "large", 256 * KIB);
    quota_expect(1, "0 B for gradients", "1.00 MiB");
    (void)kit_declare(&k, 1, "small", 16 * KIB, PS_SGD);
    quota_drop(2, "a", "small");
    kit_join(&k, 3, kit_job("a", PSD__MODE__SYNC, 2), 1);
    (void)kit_declare(&k, 3, "small", 16 * KIB, PS_SGD);
}
END_TEST

START_TEST(all_others_have_that_of_the_star)
{
    struct quota_row rows[2];

    quota_set(QUOTA_JOBS, 1);
    rows[0] = rows[1] = quota;
    strcpy(rows[1].name, "*");
    rows[1].most[QUOTA_JOBS] = 0;
    ck_assert(shard_set_quotas(k.shard, rows, 2));
    kit_join(&k, 1, quota_job("a"), 0);
    k.token = "bob";
    kit_hello(&k, 2, &(struct kit_hello){.job = quota_job("b")});
    kit_expect_closed(&k, 2, PS_ERR_LIMIT);
    k.token = NULL;
    kit_join(&k, 3, quota_job("b"), 0);
}
END_TEST

START_TEST(what_is_refused_is_counted)
{
    struct kit_answer *a;

    quota_set(QUOTA_JOBS, 0);
    kit_hello(&k, 1, &(struct kit_hello){.job = quota_job("a")});
    kit_expect_closed(&k, 1, PS_ERR_LIMIT);
    a = kit_look(&k, PSD__QUERY_KIND__STATS, NULL);
    ck_assert_uint_eq(a->msg.u.report->stats->over_quota, 1);
    kit_answer_free(a);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("quota");
    TCase *tc = tcase_create("quota");

    tcase_add_checked_fixture(tc, quota_setup, shard_teardown);
    tcase_add_test(tc, jobs_are_of_the_token_that_opened_them);
    tcase_add_test(tc, sessions_are_of_the_token_that_has_them);
    tcase_add_test(tc, variables_are_of_their_jobs_token);
    tcase_add_test(tc, bytes_of_variables_have_a_quota);
    tcase_add_test(tc, gradients_that_wait_have_a_quota);
    tcase_add_test(tc, all_others_have_that_of_the_star);
    tcase_add_test(tc, what_is_refused_is_counted);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
