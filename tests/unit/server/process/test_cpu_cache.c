/* The last cache: the highest level counts, whatever the order, and a processor without the information is not an
 * error. */
#include "tests/unit/kits/check_main.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/process/cpu_cache.h"

static char dir[] = "/tmp/psd-last-cache-XXXXXX";

static void
cpu_cache_write_file(unsigned index, const char *name, const char *text)
{
    char path[128];
    FILE *f;

    snprintf(path, sizeof path, "%s/index%u", dir, index);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/index%u/%s", dir, index, name);
    ck_assert_ptr_nonnull(f = fopen(path, "w"));
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static void
has_cache(unsigned index, const char *level, const char *size)
{
    cpu_cache_write_file(index, "level", level);
    cpu_cache_write_file(index, "size", size);
}

static void
make_dir(void)
{
    snprintf(dir, sizeof dir, "/tmp/psd-last-cache-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void
remove_dir(void)
{
    static const char *const names[] = {"level", "size"};
    char path[128];

    for (unsigned i = 0; i < 16; i++) {
        for (size_t k = 0; k < ARRAY_LEN(names); k++) {
            snprintf(path, sizeof path, "%s/index%u/%s", dir, i, names[k]);
            unlink(path);
        }
        snprintf(path, sizeof path, "%s/index%u", dir, i);
        rmdir(path);
    }
    ck_assert_int_eq(rmdir(dir), 0);
}

START_TEST(highest_level_counts_in_whatever_order)
{
    has_cache(0, "1\n", "32K\n");
    has_cache(1, "3\n", "32768K\n");
    has_cache(2, "2\n", "1024K\n");
    ck_assert_uint_eq(cpu_cache_bytes(dir), 32 * MIB);
    has_cache(3, "4\n", "64M\n");
    ck_assert_uint_eq(cpu_cache_bytes(dir), 64 * MIB);
}
END_TEST

START_TEST(what_is_not_whole_is_passed_over)
{
    has_cache(0, "2\n", "1024K\n");
    cpu_cache_write_file(1, "level", "3\n"); /* without a size */
    has_cache(2, "many\n", "32768K\n");
    has_cache(5, "3\n", "large\n");
    ck_assert_uint_eq(cpu_cache_bytes(dir), MIB);
    has_cache(4, "3\n", "4096\n"); /* bytes */
    ck_assert_uint_eq(cpu_cache_bytes(dir), 4096);
}
END_TEST

/* It may report 0 as well, where the size is unknown. */
START_TEST(library_is_asked_where_no_cache_is_described)
{
    long third = sysconf(_SC_LEVEL3_CACHE_SIZE);

    ck_assert_uint_eq(cpu_cache_bytes(dir), third > 0 ? (uint64_t)third : 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("last_cache");
    TCase *tc = tcase_create("last_cache");

    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, highest_level_counts_in_whatever_order);
    tcase_add_test(tc, what_is_not_whole_is_passed_over);
    tcase_add_test(tc, library_is_asked_where_no_cache_is_described);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
