/* Attempts at tokens: what a proof waits, by wrong ones before it, of whom, and for how long that is remembered. */
#include <arpa/inet.h>
#include <stdio.h>

#include "server/access/access_attempts.h"
#include "tests/unit/kits/check_main.h"

static struct access_attempts all;
static uint64_t now_ms;

static void
attempts_setup(void)
{
    all = (struct access_attempts){0};
    now_ms = 1000000;
}

static void
attempts_teardown(void)
{
    access_attempts_finish(&all);
}

static struct access_attempts_at
attempts_at(const char *address, const char *name)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockname_host host;

    ck_assert_int_eq(inet_pton(AF_INET, address, &in.sin_addr), 1);
    host = sockname_host((struct sockaddr *)&in);
    return access_attempts_at(&host, name);
}

/* What a proof waits, after which it is looked at. */
static uint32_t
attempts_try(const char *address, const char *name, bool wrong)
{
    struct access_attempts_at at = attempts_at(address, name);
    struct ps_error e;
    uint32_t ms;

    ck_assert_int_eq(access_attempts_begin(&all, &at, now_ms, &ms, &e), PS_OK);
    access_attempts_end(&all, &at, wrong, now_ms);
    return ms;
}

static void
attempts_wrong(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        (void)attempts_try("10.0.0.1", "w", true);
}

START_TEST(each_wrong_proof_doubles_what_the_next_waits)
{
    static const uint32_t waits[] = {100, 200, 400, 800, 1600, 2000, 2000};

    for (int i = 0; i < ACCESS_ATTEMPTS_FREE; i++)
        ck_assert_uint_eq(attempts_try("10.0.0.1", "w", true), 0);
    attempts_wrong(1);
    for (size_t i = 0; i < ARRAY_LEN(waits); i++)
        ck_assert_uint_eq(attempts_try("10.0.0.1", "w", true), waits[i]);
    ck_assert_uint_eq(attempts_try("10.0.0.1", "w", false), ACCESS_ATTEMPTS_HOLD_MAX_MS); /* also a right one */
}
END_TEST

START_TEST(others_wait_for_nobody)
{
    attempts_wrong(100);
    ck_assert_uint_eq(attempts_try("10.0.0.1", "x", false), 0);
    ck_assert_uint_eq(attempts_try("10.0.0.2", "w", false), 0);
}
END_TEST

START_TEST(wrong_proofs_are_forgotten)
{
    attempts_wrong(ACCESS_ATTEMPTS_FREE + 3);
    now_ms += ACCESS_ATTEMPTS_FORGET_MS - 1;
    ck_assert_uint_eq(attempts_try("10.0.0.1", "w", false), 400);
    now_ms += 1;
    ck_assert_uint_eq(attempts_try("10.0.0.1", "w", false), 200);
    now_ms += 2 * ACCESS_ATTEMPTS_FORGET_MS;
    ck_assert_uint_eq(attempts_try("10.0.0.1", "w", false), 0);
    now_ms += ACCESS_ATTEMPTS_FREE * ACCESS_ATTEMPTS_FORGET_MS;
    ck_assert_uint_eq(attempts_try("10.0.0.1", "w", false), 0);
    ck_assert_ptr_null(all.all);
}
END_TEST

START_TEST(right_proofs_leave_nothing_behind)
{
    ck_assert_uint_eq(attempts_try("10.0.0.1", "w", false), 0);
    ck_assert_ptr_null(all.all);
}
END_TEST

START_TEST(few_wait_at_once)
{
    struct access_attempts_at at = attempts_at("10.0.0.1", "w");
    struct ps_error e;
    uint32_t ms;

    for (int i = 0; i < 2 * ACCESS_ATTEMPTS_HELD; i++) /* none waits: all are looked at */
        ck_assert_int_eq(access_attempts_begin(&all, &at, now_ms, &ms, &e), PS_OK);
    for (int i = 0; i < 2 * ACCESS_ATTEMPTS_HELD; i++)
        access_attempts_end(&all, &at, true, now_ms);
    for (int i = 0; i < ACCESS_ATTEMPTS_HELD; i++)
        ck_assert_int_eq(access_attempts_begin(&all, &at, now_ms, &ms, &e), PS_OK);
    ck_assert_int_eq(access_attempts_begin(&all, &at, now_ms, &ms, &e), PS_ERR_LIMIT);
    access_attempts_end(&all, &at, false, now_ms);
    ck_assert_int_eq(access_attempts_begin(&all, &at, now_ms, &ms, &e), PS_OK);
}
END_TEST

START_TEST(those_who_are_counted_are_not_many)
{
    char address[32];

    for (int i = 0; i < 2 * ACCESS_ATTEMPTS_MAX; i++) {
        snprintf(address, sizeof address, "10.1.%d.%d", i / 256, i % 256);
        (void)attempts_try(address, "w", true);
    }
    ck_assert_uint_eq(HASH_COUNT(all.all), ACCESS_ATTEMPTS_MAX);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("access_attempts");
    TCase *t = tcase_create("access_attempts");

    tcase_add_checked_fixture(t, attempts_setup, attempts_teardown);
    tcase_add_test(t, each_wrong_proof_doubles_what_the_next_waits);
    tcase_add_test(t, others_wait_for_nobody);
    tcase_add_test(t, wrong_proofs_are_forgotten);
    tcase_add_test(t, right_proofs_leave_nothing_behind);
    tcase_add_test(t, few_wait_at_once);
    tcase_add_test(t, those_who_are_counted_are_not_many);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
