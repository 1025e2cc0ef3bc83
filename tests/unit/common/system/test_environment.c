/* Values of the environment: without the line end of a file, and set to nothing is not set. */
#include "common/system/environment.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/base/base.h"
#include "tests/unit/kits/check_main.h"

#define NAME "PSD_TEST_ENVIRONMENT"

START_TEST(what_a_file_has_around_a_value_is_not_part_of_it)
{
    static const char *const same[] = {"a b", "a b\n", "a b\r\n", "a b \t\n\n", " a b", "\357\273\277a b\r\n"},
                             *const none[] = {"", "\n", " \r\n", "\357\273\277\n"};
    struct ps_error e;
    char *value;

    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        setenv(NAME, same[i], 1);
        ck_assert_int_eq(environment_read(NAME, &value, &e), PS_OK);
        ck_assert_str_eq(value, "a b");
        ck_assert(environment_is(NAME, "a b") && !environment_is(NAME, "a") && !environment_is(NAME, "a b c"));
        ck_assert(environment_has(NAME));
        free(value);
    }
    for (size_t i = 0; i < ARRAY_LEN(none); i++) {
        setenv(NAME, none[i], 1);
        ck_assert_int_eq(environment_read(NAME, &value, &e), PS_OK);
        ck_assert_ptr_null(value);
        ck_assert(!environment_has(NAME));
    }
    unsetenv(NAME);
    ck_assert_int_eq(environment_read(NAME, &value, &e), PS_OK);
    ck_assert(value == NULL && !environment_has(NAME) && !environment_is(NAME, ""));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("environment");
    TCase *tc = tcase_create("environment");

    tcase_add_test(tc, what_a_file_has_around_a_value_is_not_part_of_it);
    suite_add_tcase(s, tc);
    return s;
}

CHECK_MAIN(make_suite)
