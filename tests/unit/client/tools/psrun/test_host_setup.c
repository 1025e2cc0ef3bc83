/* Where a run's data go: into memory, as long as that has room. The test provides the system's answers about both. */
#include "client/tools/psrun/host_setup.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#include "common/system/cgroup.h"
#include "tests/unit/kits/check_main.h"

#define SHM "/dev/shm/"

static struct statvfs shm;
static uint64_t free_ram;

int __wrap_statvfs(const char *path, struct statvfs *out);
int __wrap_statvfs64(const char *path, struct statvfs *out);
int __wrap_sysinfo(struct sysinfo *out);
void __wrap_cgroup_limits_read(const char *root, struct cgroup_limits *out);

int
__wrap_statvfs(const char *path, struct statvfs *out)
{
    (void)path;
    *out = shm;
    return 0;
}

/* Which of the two a call becomes is up to the C library. */
int
__wrap_statvfs64(const char *path, struct statvfs *out)
{
    return __wrap_statvfs(path, out);
}

int
__wrap_sysinfo(struct sysinfo *out)
{
    *out = (struct sysinfo){.freeram = free_ram / 4096, .mem_unit = 4096};
    return 0;
}

static void
say_sizes(uint64_t size, uint64_t available, uint64_t ram)
{
    shm = (struct statvfs){.f_blocks = size / 4096, .f_bavail = available / 4096, .f_frsize = 4096};
    free_ram = ram;
}

#define SHARDS 4 /* 128 MiB each */

static const struct {
    uint64_t size, available, ram;
    bool need, disk;
} rooms[] = {
    {GIB, GIB, 0, true, false},
    {GIB, 512 * MIB, 0, true, false},
    {GIB, 511 * MIB, GIB, true, true},
    {64 * MIB, 64 * MIB, GIB, true, true}, /* a container's */
    {64 * MIB, 64 * MIB, GIB, false, false},
    {0, 0, GIB, true, false}, /* a tmpfs without a limit */
    {0, 0, 511 * MIB, true, true},
};

START_TEST(a_run_is_in_memory_where_that_has_room)
{
    struct ps_error e;
    char dir[256];
    bool disk;

    say_sizes(rooms[_i].size, rooms[_i].available, rooms[_i].ram);
    ck_assert_int_eq(host_setup_run_dir(SHARDS, rooms[_i].need, dir, sizeof dir, &disk, &e), PS_OK);
    ck_assert_int_eq(disk, rooms[_i].disk);
    ck_assert_int_eq(strncmp(dir, SHM, strlen(SHM)) == 0, !disk);
    host_setup_remove(dir);
}
END_TEST

/* On another machine psrun cannot check the directory that it names. */
START_TEST(a_shard_goes_to_disk_where_memory_has_no_room)
{
    struct strlist dirs = {0}, argv = {0};
    char *remove_dir = strdup(SHM "psd-test-of-prepare/shard-0");

    say_sizes(rooms[_i].size, rooms[_i].available, rooms[_i].ram);
    strlist_add(&dirs, SHM "psd-test-of-prepare");
    strlist_add(&argv, "--live-dir=" SHM "psd-test-of-prepare/shard-0");
    host_setup_move_to_disk(&dirs, &argv, &remove_dir, SHARDS);
    ck_assert_int_eq(strncmp(dirs.text[0], SHM, strlen(SHM)) != 0, rooms[_i].disk || !rooms[_i].need);
    ck_assert_int_eq(strcmp(argv.text[0] + strlen("--live-dir="), remove_dir), 0);
    strlist_free(&dirs);
    strlist_free(&argv);
    free(remove_dir);
}
END_TEST

static struct cgroup_limits limits;

void
__wrap_cgroup_limits_read(const char *root, struct cgroup_limits *out)
{
    (void)root;
    *out = limits;
}

START_TEST(shards_are_given_no_more_than_half_of_a_memory_limit)
{
    struct strlist argv = {0};

    limits.memory_bytes = 400 * MIB;
    say_sizes(8 * GIB, 8 * GIB, 0);
    host_setup_memory(&argv, "/dev/shm", 2);
    say_sizes(100 * MIB, 100 * MIB, 0);
    host_setup_memory(&argv, "/dev/shm", 1);
    ck_assert_str_eq(argv.text[0], "--memory=104857600");
    ck_assert_str_eq(argv.text[1], "--memory=83886080");
    strlist_free(&argv);
}
END_TEST

START_TEST(a_shard_is_given_its_part_of_what_is_free)
{
    struct strlist argv = {0};

    limits.memory_bytes = CGROUP_NO_LIMIT;
    say_sizes(GIB, 500 * MIB, 0);
    host_setup_memory(&argv, "/dev/shm", 2);
    say_sizes(0, 0, 1000 * MIB);
    host_setup_memory(&argv, "/dev/shm", 1);
    host_setup_memory(&argv, "/dev/shm", 0);
    ck_assert_uint_eq(argv.len, 2);
    ck_assert_str_eq(argv.text[0], "--memory=209715200");
    ck_assert_str_eq(argv.text[1], "--memory=838860800");
    strlist_free(&argv);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("prepare");
    TCase *tc = tcase_create("prepare");

    tcase_add_loop_test(tc, a_run_is_in_memory_where_that_has_room, 0, (int)ARRAY_LEN(rooms));
    tcase_add_loop_test(tc, a_shard_goes_to_disk_where_memory_has_no_room, 0, (int)ARRAY_LEN(rooms));
    tcase_add_test(tc, a_shard_is_given_its_part_of_what_is_free);
    tcase_add_test(tc, shards_are_given_no_more_than_half_of_a_memory_limit);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
