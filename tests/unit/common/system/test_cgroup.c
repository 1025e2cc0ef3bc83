/* Limits of control groups, read from trees of files as both versions show them. */
#include "common/system/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/core/base/base.h"
#include "tests/remove_tree.h"
#include "tests/unit/kits/check_main.h"

#define V2_LINE   "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define V1_MEMORY "31 23 0:27 / /sys/fs/cgroup/memory rw shared:5 - cgroup cgroup rw,memory\n"
#define V1_CPU    "32 23 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
#define V1_NONE   "9223372036854771712\n" /* as version 1 writes that there is no limit */

static char root[64];
static struct cgroup_limits limits;

static void
cgroup_setup(void)
{
    snprintf(root, sizeof root, "/tmp/psd-cgroup-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void
cgroup_teardown(void)
{
    remove_tree(root);
}

/* A file below root, and the directories on the way. */
static void
write_file(const char *path, const char *text)
{
    char whole[512];
    FILE *f;

    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        (void)mkdir(whole, 0700);
        *slash = '/';
    }
    ck_assert_ptr_nonnull(f = fopen(whole, "w"));
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static void
read_limits(const char *mounts, const char *groups)
{
    write_file("/proc/self/mountinfo", mounts);
    write_file("/proc/self/cgroup", groups);
    cgroup_limits_read(root, &limits);
}

START_TEST(nothing_that_can_be_read_limits_nothing)
{
    cgroup_limits_read(root, &limits);
    ck_assert_uint_eq(limits.memory_bytes, CGROUP_NO_LIMIT);
    ck_assert_uint_eq(limits.cpu_millis, CGROUP_NO_LIMIT);
    read_limits("", "");
    ck_assert_uint_eq(limits.memory_bytes, CGROUP_NO_LIMIT);
    read_limits("garbage\n - \n1 2 3\n" V2_LINE, "garbage\n0:\n0::\n::::\n0::/../../x\n");
    ck_assert_uint_eq(limits.memory_bytes, CGROUP_NO_LIMIT);
    ck_assert_str_eq(limits.memory_file, "");
}
END_TEST

START_TEST(version_2_takes_the_smallest_on_the_way_up)
{
    write_file("/sys/fs/cgroup/a/b/memory.max", "max\n");
    write_file("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    write_file("/sys/fs/cgroup/a/memory.max", "419430400\n");
    write_file("/sys/fs/cgroup/a/memory.high", "314572800\n");
    write_file("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    read_limits(V2_LINE, "0::/a/b\n");
    ck_assert_uint_eq(limits.memory_bytes, 300 * MIB);
    ck_assert_str_eq(limits.memory_file, "/sys/fs/cgroup/a/memory.high");
    ck_assert_uint_eq(limits.cpu_millis, 2500);
    ck_assert_str_eq(limits.cpu_file, "/sys/fs/cgroup/a/cpu.max");
}
END_TEST

/* A container without a cgroup namespace, and one with. */
START_TEST(a_container_sees_its_own_limit_at_the_root_of_its_mount)
{
    write_file("/sys/fs/cgroup/memory.max", "104857600\n");
    read_limits("30 23 0:26 /docker/1f /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/1f\n");
    ck_assert_uint_eq(limits.memory_bytes, 100 * MIB);
    read_limits(V2_LINE, "0::/\n");
    ck_assert_uint_eq(limits.memory_bytes, 100 * MIB);
    read_limits("30 23 0:26 /docker/1f /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/\n");
    ck_assert_uint_eq(limits.memory_bytes, 100 * MIB);
    read_limits("30 23 0:26 /docker/1f /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/1f5/deep\n");
    ck_assert_uint_eq(limits.memory_bytes, 100 * MIB);
}
END_TEST

START_TEST(version_1_is_read_at_the_mount_of_each_controller)
{
    write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", V1_NONE);
    write_file("/sys/fs/cgroup/memory/try/memory.limit_in_bytes", "419430400\n");
    write_file("/sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_quota_us", "50000\n");
    write_file("/sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_period_us", "100000\n");
    write_file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    write_file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    read_limits(V1_MEMORY V1_CPU, "5:memory:/try\n4:cpu,cpuacct:/slice\n3:cpuset:/\n1:name=systemd:/x\n");
    ck_assert_uint_eq(limits.memory_bytes, 400 * MIB);
    ck_assert_str_eq(limits.memory_file, "/sys/fs/cgroup/memory/try/memory.limit_in_bytes");
    ck_assert_uint_eq(limits.cpu_millis, 500);
    read_limits(V1_MEMORY V1_CPU, "5:memory:/other\n4:cpuset:/slice\n");
    ck_assert_uint_eq(limits.memory_bytes, CGROUP_NO_LIMIT);
    ck_assert_uint_eq(limits.cpu_millis, CGROUP_NO_LIMIT);
}
END_TEST

START_TEST(a_hybrid_system_has_limits_in_both)
{
    write_file("/sys/fs/cgroup/memory/try/memory.limit_in_bytes", "419430400\n");
    write_file("/sys/fs/cgroup/unified/u/cpu.max", "300000 100000\n");
    read_limits(V1_MEMORY "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "5:memory:/try\n0::/u\n");
    ck_assert_uint_eq(limits.memory_bytes, 400 * MIB);
    ck_assert_uint_eq(limits.cpu_millis, 3000);
}
END_TEST

START_TEST(there_is_always_a_core)
{
    ck_assert_uint_ge(cgroup_cores(), 1);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("cgroup");
    TCase *t = tcase_create("limits");

    tcase_add_checked_fixture(t, cgroup_setup, cgroup_teardown);
    tcase_add_test(t, nothing_that_can_be_read_limits_nothing);
    tcase_add_test(t, version_2_takes_the_smallest_on_the_way_up);
    tcase_add_test(t, a_container_sees_its_own_limit_at_the_root_of_its_mount);
    tcase_add_test(t, version_1_is_read_at_the_mount_of_each_controller);
    tcase_add_test(t, a_hybrid_system_has_limits_in_both);
    tcase_add_test(t, there_is_always_a_core);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
