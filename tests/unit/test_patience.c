/* Polling before sleeping: it is done where it pays, given up where it does not, and taken up again. */
#include "common/core/base/patience.h"

#include "tests/unit/check_main.h"

#define US UINT64_C(1000)

START_TEST(a_new_one_polls_and_goes_on_while_waits_are_short)
{
    struct patience p;

    patience_init(&p, 50 * US);
    for (int i = 0; i < 1000; i++) {
        ck_assert_uint_eq(patience_now(&p), 50 * US);
        patience_learn(&p, 50 * US, false);
    }
}
END_TEST

START_TEST(long_waits_end_it_and_short_ones_begin_it_again)
{
    struct patience p;
    int waits = 0;

    patience_init(&p, 50 * US);
    for (int i = 0; i < 100; i++) /* as patient as can be */
        patience_learn(&p, 1 * US, false);
    for (; patience_now(&p) > 0; waits++)
        patience_learn(&p, 50 * US + 1, false);
    ck_assert_int_le(waits, 5);
    for (int i = 0; i < 1000; i++)
        patience_learn(&p, 1000 * US, true);
    ck_assert_uint_eq(patience_now(&p), 0);
    for (waits = 0; patience_now(&p) == 0; waits++)
        patience_learn(&p, 70 * US, true); /* most of it is being woken */
    ck_assert_int_le(waits, PATIENCE_FULL);
}
END_TEST

/* Of waits that are as often long as short, each that is polled in vain costs most_ns: that does not pay. */
START_TEST(what_pays_every_other_time_is_slept_through_mostly)
{
    struct patience p;
    int polls = 0;

    patience_init(&p, 50 * US);
    for (int i = 0; i < 1000; i++) {
        polls += patience_now(&p) > 0;
        patience_learn(&p, i % 2 == 0 ? 10 * US : 5000 * US, patience_now(&p) == 0);
    }
    ck_assert_int_le(polls, 20);
}
END_TEST

START_TEST(an_option_means_what_its_comment_says)
{
    ck_assert_uint_eq(patience_ns(0, 2), 50 * US);
    ck_assert_uint_eq(patience_ns(0, 1), 0);
    ck_assert_uint_eq(patience_ns(7, 1), 7 * US);
    ck_assert_uint_eq(patience_ns(PATIENCE_NONE, 8), 0);
}
END_TEST

START_TEST(who_may_not_poll_never_does)
{
    struct patience p;

    patience_init(&p, 0);
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_eq(patience_now(&p), 0);
        patience_learn(&p, 1, true);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("patience");
    TCase *tc = tcase_create("patience");

    tcase_add_test(tc, a_new_one_polls_and_goes_on_while_waits_are_short);
    tcase_add_test(tc, long_waits_end_it_and_short_ones_begin_it_again);
    tcase_add_test(tc, what_pays_every_other_time_is_slept_through_mostly);
    tcase_add_test(tc, an_option_means_what_its_comment_says);
    tcase_add_test(tc, who_may_not_poll_never_does);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
