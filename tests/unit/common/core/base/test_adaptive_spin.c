/* Polling before sleeping: it is done where it pays, given up where it does not, and taken up again. */
#include "common/core/base/adaptive_spin.h"

#include "tests/unit/kits/check_main.h"

#define US UINT64_C(1000)

START_TEST(a_new_one_polls_and_goes_on_while_waits_are_short)
{
    struct adaptive_spin p;

    adaptive_spin_init(&p, 50 * US);
    for (int i = 0; i < 1000; i++) {
        ck_assert_uint_eq(adaptive_spin_now(&p), 50 * US);
        adaptive_spin_learn(&p, 50 * US, false);
    }
}
END_TEST

START_TEST(long_waits_end_it_and_short_ones_begin_it_again)
{
    struct adaptive_spin p;
    int waits = 0;

    adaptive_spin_init(&p, 50 * US);
    for (int i = 0; i < 100; i++) /* the longest spin time */
        adaptive_spin_learn(&p, 1 * US, false);
    for (; adaptive_spin_now(&p) > 0; waits++)
        adaptive_spin_learn(&p, 50 * US + 1, false);
    ck_assert_int_le(waits, 5);
    for (int i = 0; i < 1000; i++)
        adaptive_spin_learn(&p, 1000 * US, true);
    ck_assert_uint_eq(adaptive_spin_now(&p), 0);
    for (waits = 0; adaptive_spin_now(&p) == 0; waits++)
        adaptive_spin_learn(&p, 70 * US, true); /* most of it is being woken */
    ck_assert_int_le(waits, ADAPTIVE_SPIN_FULL);
}
END_TEST

/* Of waits that are as often long as short, each that is polled in vain costs most_ns: that does not pay. */
START_TEST(what_pays_every_other_time_is_slept_through_mostly)
{
    struct adaptive_spin p;
    int polls = 0;

    adaptive_spin_init(&p, 50 * US);
    for (int i = 0; i < 1000; i++) {
        polls += adaptive_spin_now(&p) > 0;
        adaptive_spin_learn(&p, i % 2 == 0 ? 10 * US : 5000 * US, adaptive_spin_now(&p) == 0);
    }
    ck_assert_int_le(polls, 20);
}
END_TEST

START_TEST(an_option_means_what_its_comment_says)
{
    ck_assert_uint_eq(adaptive_spin_ns(0, 2), 50 * US);
    ck_assert_uint_eq(adaptive_spin_ns(0, 1), 0);
    ck_assert_uint_eq(adaptive_spin_ns(7, 1), 7 * US);
    ck_assert_uint_eq(adaptive_spin_ns(ADAPTIVE_SPIN_NEVER, 8), 0);
}
END_TEST

START_TEST(who_may_not_poll_never_does)
{
    struct adaptive_spin p;

    adaptive_spin_init(&p, 0);
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_eq(adaptive_spin_now(&p), 0);
        adaptive_spin_learn(&p, 1, true);
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
