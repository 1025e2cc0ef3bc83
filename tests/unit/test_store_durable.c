/* The LMDB store in its durable mode: that of every store, and what a disk adds. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check_main.h"
#include "common/layout.h"
#include "store_lmdb_kit.h"
#include "store_suite.h"

#define OK(call) ck_assert_int_eq((call), PS_OK)

static void
setup(void)
{
    kit_setup(true);
}

static struct store *
make(void)
{
    return kit_make(true);
}

/* ---- Opening ---- */

static const char *
data_path(void)
{
    static char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/data.mdb", kit_dir);
    return path;
}

START_TEST(blocks_are_there_after_a_restart)
{
    struct store *s = kit_open(0);
    struct store_dir_report report;
    struct ps_error e;

    for (uint32_t i = 0; i < 30; i++)
        OK(kit_update(s, i % 3, i, (int)(i % 3), i));
    s->ops->close(s);
    OK(kit_try_open(0, &s, &report, &e));
    ck_assert(report.existed);
    ck_assert_uint_eq(report.limit_bytes, STORE_LMDB_DURABLE_BYTES);
    for (uint32_t i = 0; i < 30; i++)
        kit_check(s, i % 3, i, i);
    ck_assert(!store_lmdb_untrusted(s));
    ck_assert_str_eq(store_lmdb_why(s), "");
    s->ops->close(s);
}
END_TEST

START_TEST(messages_name_the_durable_directory_and_its_option)
{
    struct store *s = kit_open(0);

    kit_refused(0, PS_ERR_BUSY, "has the durable directory");
    s->ops->close(s);
    kit_refused(MIB, PS_ERR_FULL, "--durable-dir");
    snprintf(kit_dir, sizeof kit_dir, "%s/no/durable", kit_base);
    kit_refused(0, PS_ERR_IO, "cannot create the durable directory");
}
END_TEST

START_TEST(unwritable_directory_is_refused)
{
    ck_assert_int_eq(mkdir(kit_dir, 0500), 0);
    ck_assert_int_eq(chmod(kit_base, 0755), 0);
    if (geteuid() == 0)
        ck_assert_int_eq(seteuid(65534), 0);
    kit_refused(0, PS_ERR_IO, "cannot write in the durable directory");
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

/* ---- Set aside ---- */

static struct store *
open_set_aside(uint32_t number)
{
    struct store_lmdb_options o = {.dir = kit_dir, .durable = true, .set_aside = true};
    struct store_dir_report report;
    struct store *s = NULL;
    struct ps_error e = {0};

    ck_assert_msg(store_lmdb_open(&o, &s, &report, &e) == PS_OK, "%s", e.text);
    ck_assert_uint_eq(report.set_aside, number);
    ck_assert(!report.existed);
    return s;
}

static bool
bad_file_is_there(uint32_t number)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/data.mdb.bad-%" PRIu32, kit_dir, number);
    return access(path, F_OK) == 0;
}

START_TEST(bad_file_is_set_aside_and_the_newest_two_are_kept)
{
    struct store *s = open_set_aside(0); /* there is none */
    char path[PATH_MAX];

    for (uint32_t n = 1; n <= 4; n++) {
        OK(kit_update(s, 1, n, 0, n));
        s->ops->close(s);
        s = open_set_aside(n);
        ck_assert_int_eq(kit_update(s, 1, n, 0, 2), PS_OK);
        for (uint32_t i = 1; i <= n; i++)
            ck_assert_int_eq(bad_file_is_there(i), i + STORE_DIR_BAD_KEPT > n);
    }
    s->ops->close(s);
    snprintf(path, sizeof path, "%s/data.mdb.bad-4", kit_dir);
    ck_assert_int_eq(rename(path, data_path()), 0); /* it is whole: what it held can be looked at */
    s = kit_open(0);
    kit_check(s, 1, 4, 4);
    s->ops->close(s);
}
END_TEST

static Suite *
make_suite(void)
{
    static const struct store_maker maker = {make, kit_crash, kit_unmake, true};
    Suite *suite = suite_create("store_durable");
    TCase *tc = tcase_create("store_durable");

    suite_add_tcase(suite, store_suite_case(&maker));
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, kit_teardown);
    tcase_add_test(tc, blocks_are_there_after_a_restart);
    tcase_add_test(tc, messages_name_the_durable_directory_and_its_option);
    tcase_add_test(tc, unwritable_directory_is_refused);
    tcase_add_test(tc, bad_file_is_set_aside_and_the_newest_two_are_kept);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
