/* The system's errors about a file, as a ps_error. */
#include "common/system/file_error.h"

#include "tests/unit/kits/check_main.h"

START_TEST(a_disk_or_a_quota_that_is_full_is_full)
{
    ck_assert_int_eq(file_error_code(ENOSPC), PS_ERR_FULL);
    ck_assert_int_eq(file_error_code(EDQUOT), PS_ERR_FULL);
    ck_assert_int_eq(file_error_code(EIO), PS_ERR_IO);
    ck_assert_int_eq(file_error_code(EACCES), PS_ERR_IO);
}
END_TEST

START_TEST(a_failure_names_the_file_and_the_reason)
{
    struct ps_error e;

    errno = EDQUOT;
    ck_assert_int_eq(file_failed(&e, "write", "/var/lib/psd/x"), PS_ERR_FULL);
    ck_assert_ptr_nonnull(strstr(e.text, "cannot write /var/lib/psd/x: "));
    ck_assert_ptr_nonnull(strstr(e.text, strerror(EDQUOT)));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("file_error");
    TCase *t = tcase_create("errors");

    tcase_add_test(t, a_disk_or_a_quota_that_is_full_is_full);
    tcase_add_test(t, a_failure_names_the_file_and_the_reason);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
