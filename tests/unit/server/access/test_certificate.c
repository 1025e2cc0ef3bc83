#include "server/access/certificate.h"

#include "tests/unit/kits/check_main.h"

#define DAY_S UINT64_C(86400)
#define ENDS  UINT64_C(1767268800)

static const struct {
    uint64_t left;
    const char *text; /* NULL: nothing */
} ends[] = {
    {CERTIFICATE_SOON_DAYS * DAY_S, NULL},
    {CERTIFICATE_SOON_DAYS * DAY_S - 1, "ends within 14 days"},
    {2 * DAY_S, "ends within 2 days"},
    {DAY_S + 1, "ends within 2 days"},
    {DAY_S, "ends within a day"},
    {1, "ends within a day"},
    {0, "has expired"},
};

START_TEST(an_end_that_is_near_is_warned_of)
{
    char text[64] = "";

    ck_assert_int_eq(certificate_warning(ENDS, ENDS - ends[_i].left, text, sizeof text), ends[_i].text != NULL);
    ck_assert_str_eq(text, ends[_i].text != NULL ? ends[_i].text : "");
}
END_TEST

START_TEST(so_is_one_that_has_passed_for_long)
{
    char text[64];

    ck_assert(certificate_warning(ENDS, ENDS + 400 * DAY_S, text, sizeof text));
    ck_assert_str_eq(text, "has expired");
}
END_TEST

START_TEST(who_has_none_is_not_warned)
{
    char text[64];

    ck_assert(!certificate_warning(0, ENDS, text, sizeof text));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("certificate");
    TCase *t = tcase_create("certificate");

    tcase_add_loop_test(t, an_end_that_is_near_is_warned_of, 0, ARRAY_LEN(ends));
    tcase_add_test(t, so_is_one_that_has_passed_for_long);
    tcase_add_test(t, who_has_none_is_not_warned);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
