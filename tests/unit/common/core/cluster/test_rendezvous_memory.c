/* The rendezvous when memory runs out: the new request is refused, all else is unchanged, and nothing leaks. */
#include "tests/unit/kits/counted_memory.h"

#include "common/core/cluster/rendezvous_core.h"
#include "tests/unit/kits/check_main.h"

/* Come as worker `task` with each allocation failing in turn, until none does. */
static void
rendezvous_memory_retry(struct rendezvous_core *m, uint32_t task, uint32_t attempt)
{
    struct rendezvous_request g = {.conn_id = task + 100 * attempt,
                                   .name = "group",
                                   .workers = 3,
                                   .task = task,
                                   .timeout_ms = 1000,
                                   .incarnation = 7,
                                   .attempt = attempt,
                                   .address = "127.0.0.1:1",
                                   .host = "here"};
    uint32_t before = m->requests_len;
    struct ps_error e;
    enum ps_err err;
    size_t nth = 0;

    do {
        fail_in = ++nth;
        err = rendezvous_core_join(m, &g, 0, &e);
        fail_in = 0;
        ck_assert(err == PS_OK || err == PS_ERR_NOMEM);
        ck_assert_uint_eq(m->requests_len, before + (err == PS_OK));
        ck_assert_uint_eq(rendezvous_core_present(m, "group"),
                          MIN(before + (err == PS_OK), 3u) - (err == PS_OK && attempt > 1));
    } while (err != PS_OK);
#ifndef SANITIZED
    ck_assert_uint_gt(nth, 1);
#endif
}

START_TEST(who_finds_no_memory_is_refused_and_changes_nothing)
{
    size_t before = taken - given;
    struct rendezvous_answer a;
    struct rendezvous_core m;

    rendezvous_core_init(&m, "here", RENDEZVOUS_NO_COORDINATOR, 1);
    rendezvous_memory_retry(&m, 0, 1);
    rendezvous_memory_retry(&m, 1, 1);
    rendezvous_memory_retry(&m, 1, 2); /* in its own place */
    ck_assert(rendezvous_core_next(&m, 0, &a) && a.table == NULL && a.conn_id == 101);
    ck_assert(!rendezvous_core_next(&m, 0, &a));
    rendezvous_memory_retry(&m, 2, 1);
    fail_in = 1; /* answers need none */
    for (int i = 0; i < 3; i++)
        ck_assert(rendezvous_core_next(&m, 0, &a) && a.table != NULL && a.table->ranks == 3);
    ck_assert(!rendezvous_core_next(&m, 0, &a));
    fail_in = 0;
    rendezvous_core_finish(&m);
    ck_assert_uint_eq(taken - given, before);
}
END_TEST

START_TEST(who_still_waits_at_the_end_is_freed)
{
    size_t before = taken - given;
    struct rendezvous_core m;

    rendezvous_core_init(&m, "here", RENDEZVOUS_NO_COORDINATOR, 1);
    rendezvous_memory_retry(&m, 0, 1);
    rendezvous_memory_retry(&m, 1, 1);
    rendezvous_memory_retry(&m, 1, 2);
    rendezvous_core_finish(&m);
    ck_assert_uint_eq(taken - given, before);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("meet_memory");
    TCase *tc = tcase_create("meet_memory");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, who_finds_no_memory_is_refused_and_changes_nothing);
    tcase_add_test(tc, who_still_waits_at_the_end_is_freed);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
