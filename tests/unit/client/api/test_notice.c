/* When a wait says that it goes on. */
#include "client/api/notice.h"

#include "tests/unit/kits/check_main.h"

START_TEST(a_wait_says_so_after_2_seconds_4_8_until_its_end)
{
    struct notice_wait w;

    notice_wait_begin(&w, 1000, 10000);
    ck_assert_uint_eq(notice_wait_until(&w), 3000);
    ck_assert(notice_wait_goes_on(&w, 3000));
    ck_assert_uint_eq(notice_wait_until(&w), 5000);
    ck_assert(notice_wait_goes_on(&w, 5001));
    ck_assert_uint_eq(notice_wait_until(&w), 9002);
    ck_assert(notice_wait_goes_on(&w, 9002));
    ck_assert_uint_eq(notice_wait_until(&w), 11000);
    ck_assert(!notice_wait_goes_on(&w, 11000));
}
END_TEST

START_TEST(a_short_wait_says_nothing)
{
    struct notice_wait w;

    notice_wait_begin(&w, 7, 0);
    ck_assert_uint_eq(notice_wait_until(&w), 7);
    ck_assert(!notice_wait_goes_on(&w, 7));
    notice_wait_begin(&w, 7, NOTICE_FIRST_MS);
    ck_assert_uint_eq(notice_wait_until(&w), 7 + NOTICE_FIRST_MS);
    ck_assert(!notice_wait_goes_on(&w, 7 + NOTICE_FIRST_MS));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("notice");
    TCase *t = tcase_create("waits");

    tcase_add_test(t, a_wait_says_so_after_2_seconds_4_8_until_its_end);
    tcase_add_test(t, a_short_wait_says_nothing);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
