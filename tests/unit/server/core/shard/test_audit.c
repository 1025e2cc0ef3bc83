/* Lines of the log about what administrators ask for. */
#include "tests/unit/kits/shard_fixture.h"

#include <string.h>

static Psd__Job *
audit_job(void)
{
    return kit_job("train", PSD__MODE__ASYNC, 3);
}

START_TEST(who_asked_for_what_is_in_the_log)
{
    Psd__Evict evict = PSD__EVICT__INIT;
    Psd__Drop drop = PSD__DROP__INIT;
    Psd__Set set = PSD__SET__INIT;

    kit_join(&k, 1, audit_job(), 0);
    kit_observe(&k, 2);
    k.token = "alice";
    evict.job = drop.job = set.job = (char *)(uintptr_t) "train";
    evict.task = 2;
    kit_frame(&k, 2, MSG_EVICT, 7, &evict.base, NULL, 0);
    ck_assert_str_eq(k.audit, "audit evict token=alice peer=127.0.0.1:9 job=\"train\" task=2");
    set.workers = 4;
    kit_frame(&k, 2, MSG_SET, 8, &set.base, NULL, 0);
    ck_assert_str_eq(k.audit, "audit set token=alice peer=127.0.0.1:9 job=\"train\" workers=4");
    k.token = NULL;
    drop.force = drop.check = true;
    kit_frame(&k, 2, MSG_DROP, 9, &drop.base, NULL, 0);
    ck_assert_str_eq(k.audit, "audit drop token=- peer=127.0.0.1:9 job=\"train\" force check");
}
END_TEST

START_TEST(training_is_not)
{
    uint32_t var;

    kit_join(&k, 1, audit_job(), 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    kit_push_four(&k, 1, 1, 0, var, 1);
    kit_tick(&k, 1, 2, 1);
    kit_drop_answers(&k, 1);
    ck_assert_str_eq(k.audit, "");
}
END_TEST

/* It was not done: the counter of denials, and the peer's answer, say so. */
START_TEST(neither_is_what_was_denied)
{
    Psd__Evict evict = PSD__EVICT__INIT;

    kit_join(&k, 1, audit_job(), 0);
    kit_observe(&k, 2);
    k.role = ROLE_TRAIN;
    evict.job = (char *)(uintptr_t) "train";
    kit_frame(&k, 2, MSG_EVICT, 7, &evict.base, NULL, 0);
    ck_assert_str_eq(k.audit, "");
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("audit");
    TCase *tc = tcase_create("audit");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_add_test(tc, who_asked_for_what_is_in_the_log);
    tcase_add_test(tc, training_is_not);
    tcase_add_test(tc, neither_is_what_was_denied);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
