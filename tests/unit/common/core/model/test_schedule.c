/* Learning rates over time: figures by hand for each kind, where the pieces meet, the ends, and what is refused. */
#include "common/core/model/schedule.h"

#include <math.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"

#define RATE 0.1

static void
check_rate(const struct ps_schedule *s, uint64_t t, double expected)
{
    double rate;

    ck_assert_int_eq(schedule_check(s, RATE, NULL), PS_OK);
    rate = schedule_rate(s, RATE, t);
    ck_assert_msg(fabs(rate - expected) <= 1e-16 + 1e-15 * expected, "at %llu the rate is %.17g, not %.17g",
                  (unsigned long long)t, rate, expected);
}

START_TEST(constant_stays)
{
    struct ps_schedule s = {0};

    check_rate(&s, 0, RATE);
    check_rate(&s, UINT64_MAX, RATE);
    ck_assert(!schedule_moves(&s));
    ck_assert(schedule_rate(&s, 0, 7) == 0);
}
END_TEST

/* 1/4, 2/4, 3/4, 4/4 of the rate, and on with the schedule from its beginning. */
START_TEST(warmup_rises_linearly_and_hands_over)
{
    struct ps_schedule s = {.warmup_steps = 4};

    ck_assert(schedule_moves(&s));
    for (uint64_t t = 0; t < 4; t++)
        check_rate(&s, t, RATE * (double)(t + 1) / 4);
    check_rate(&s, 4, RATE);
    s.kind = PS_SCHEDULE_STEP;
    s.steps = 2;
    s.factor = 0.5;
    check_rate(&s, 1, RATE / 2);
    check_rate(&s, 4, RATE);
    check_rate(&s, 5, RATE);
    check_rate(&s, 6, RATE / 2);
}
END_TEST

START_TEST(step_falls_at_multiples)
{
    struct ps_schedule s = {.kind = PS_SCHEDULE_STEP, .steps = 10, .factor = 0.5, .floor = 0.02};

    check_rate(&s, 0, 0.1);
    check_rate(&s, 9, 0.1);
    check_rate(&s, 10, 0.05);
    check_rate(&s, 19, 0.05);
    check_rate(&s, 20, 0.025);
    check_rate(&s, 30, 0.02); /* not 0.0125 */
    check_rate(&s, UINT64_MAX, 0.02);
}
END_TEST

START_TEST(exponential_passes_through_the_steps)
{
    struct ps_schedule s = {.kind = PS_SCHEDULE_EXPONENTIAL, .steps = 10, .factor = 0.25};

    check_rate(&s, 0, 0.1);
    check_rate(&s, 5, 0.05);
    check_rate(&s, 10, 0.025);
    check_rate(&s, 15, 0.0125);
    check_rate(&s, 1, 0.1 * pow(0.25, 0.1));
    check_rate(&s, 1ull << 40, 0);
    s.floor = 0.03;
    check_rate(&s, 10, 0.03);
    s.factor = 1;
    check_rate(&s, 12345, 0.1);
}
END_TEST

/* (1 + cos 0) / 2 = 1, (1 + cos pi/3) / 2 = 3/4, 1/2, (1 + cos 2pi/3) / 2 = 1/4, 0 of the way from rate to floor. */
START_TEST(cosine_falls_to_its_floor)
{
    struct ps_schedule s = {.kind = PS_SCHEDULE_COSINE, .steps = 12, .floor = 0.02};

    check_rate(&s, 0, 0.1);
    check_rate(&s, 4, 0.02 + 0.08 * 0.75);
    check_rate(&s, 6, 0.06);
    check_rate(&s, 8, 0.02 + 0.08 * 0.25);
    check_rate(&s, 12, 0.02);
    check_rate(&s, UINT64_MAX, 0.02);
    s.warmup_steps = 100;
    check_rate(&s, 106, 0.06);
}
END_TEST

START_TEST(linear_falls_to_its_floor)
{
    struct ps_schedule s = {.kind = PS_SCHEDULE_LINEAR, .steps = 4};

    check_rate(&s, 0, 0.1);
    check_rate(&s, 1, 0.075);
    check_rate(&s, 2, 0.05);
    check_rate(&s, 4, 0);
    check_rate(&s, 5, 0);
    s.floor = 0.1;
    check_rate(&s, 3, 0.1);
}
END_TEST

START_TEST(steps_count_from_where_it_begins)
{
    struct ps_schedule s = {.kind = PS_SCHEDULE_LINEAR, .steps = 4, .begin = 1000}, other = s;

    check_rate(&s, 1000, 0.1);
    check_rate(&s, 1001, 0.075);
    check_rate(&s, 1004, 0);
    check_rate(&s, 0, 0.1); /* and before, as there */
    s.warmup_steps = 2;
    check_rate(&s, 7, 0.05);
    check_rate(&s, 1000, 0.05);
    check_rate(&s, 1001, 0.1);
    check_rate(&s, 1003, 0.075);
    s.begin = UINT64_MAX;
    check_rate(&s, UINT64_MAX - 1, 0.05);
    check_rate(&s, UINT64_MAX, 0.05);
    ck_assert(!schedule_equal(&s, &other));
    s = other;
    ck_assert(schedule_equal(&s, &other));
    s.begin++;
    ck_assert(!schedule_equal(&s, &other));
    s.kind = other.kind = PS_SCHEDULE_CONSTANT;
    ck_assert(schedule_equal(&s, &other)); /* which has no use for it */
}
END_TEST

/* On one machine as on another: the bits, where no C library is asked. */
START_TEST(bits_are_fixed)
{
    struct ps_schedule cosine = {.kind = PS_SCHEDULE_COSINE, .steps = 1000},
                       exponential = {.kind = PS_SCHEDULE_EXPONENTIAL, .steps = 1000, .factor = 0.96};

    ck_assert(schedule_rate(&cosine, 3e-4, 123) == 0x1.2ef9b42b6fe7p-12);
    ck_assert(schedule_rate(&exponential, 3e-4, 1234) == 0x1.2b1e70e2d1fa6p-12);
}
END_TEST

START_TEST(check_names_what_is_wrong)
{
    static const struct {
        struct ps_schedule s;
        const char *text;
    } bad[] = {
        {{.kind = (enum ps_schedule_kind)5, .steps = 1}, "schedule 5 is not known"},
        {{.by = (enum ps_schedule_by)2}, "a schedule by 2 is not known"},
        {{.kind = PS_SCHEDULE_LINEAR}, "schedule: steps must be at least 1"},
        {{.kind = PS_SCHEDULE_STEP, .steps = 1}, "factor must be greater than 0 and at most 1, not 0"},
        {{.kind = PS_SCHEDULE_STEP, .steps = 1, .factor = 1.5}, "factor must be greater than 0 and at most 1, not 1.5"},
        {{.kind = PS_SCHEDULE_EXPONENTIAL, .steps = 1, .factor = NAN}, "factor must be"},
        {{.kind = PS_SCHEDULE_COSINE, .steps = 1, .floor = 0.2}, "at most the learning rate (0.1), not 0.2"},
        {{.kind = PS_SCHEDULE_COSINE, .steps = 1, .floor = -1}, "floor must be"},
        {{.kind = PS_SCHEDULE_LINEAR, .steps = 1, .floor = NAN}, "floor must be"},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct ps_error e = {0};

        ck_assert_int_eq(schedule_check(&bad[i].s, RATE, &e), PS_ERR_INVALID);
        ck_assert_msg(strstr(e.text, bad[i].text) != NULL, "%s", e.text);
    }
}
END_TEST

START_TEST(what_is_not_used_is_dropped)
{
    struct ps_schedule all = {PS_SCHEDULE_CONSTANT, PS_BY_CLOCK, 0, 5, 0.5, 0.01, 9}, used = schedule_used(&all);

    ck_assert(used.by == PS_BY_VERSION && used.steps == 0 && used.factor == 0 && used.floor == 0);
    all.kind = PS_SCHEDULE_COSINE;
    used = schedule_used(&all);
    ck_assert(used.by == PS_BY_CLOCK && used.steps == 5 && used.factor == 0 && used.floor == 0.01);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("schedule");
    TCase *t = tcase_create("schedule");

    tcase_add_test(t, constant_stays);
    tcase_add_test(t, warmup_rises_linearly_and_hands_over);
    tcase_add_test(t, step_falls_at_multiples);
    tcase_add_test(t, exponential_passes_through_the_steps);
    tcase_add_test(t, cosine_falls_to_its_floor);
    tcase_add_test(t, linear_falls_to_its_floor);
    tcase_add_test(t, steps_count_from_where_it_begins);
    tcase_add_test(t, bits_are_fixed);
    tcase_add_test(t, check_names_what_is_wrong);
    tcase_add_test(t, what_is_not_used_is_dropped);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
