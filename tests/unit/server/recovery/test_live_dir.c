#include "server/recovery/live_dir.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/lmdb/store_dir.h"
#include "tests/unit/kits/check_main.h"

static char dir[64];
static struct ps_error e;
static bool discarded;

#define OK(call) ck_assert_msg((call) == PS_OK, "%s", e.text)

static void
path_of(const char *name, char *out)
{
    snprintf(out, PATH_MAX, "%s/%s", dir, name);
}

static void
live_dir_setup(void)
{
    snprintf(dir, sizeof dir, "/var/tmp/psd-live-XXXXXX"); /* on a disk, as a rule */
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void
live_dir_teardown(void)
{
    static const char *const names[] = {"boot", "boot.new", "data.mdb", "lock.mdb", "other", "psd.lock"};
    char path[PATH_MAX];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        path_of(names[i], path);
        unlink(path);
    }
    ck_assert_int_eq(rmdir(dir), 0);
}

static void
live_dir_put(const char *name, const char *text)
{
    char path[PATH_MAX];
    int fd;

    path_of(name, path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static bool
live_dir_there(const char *name)
{
    char path[PATH_MAX];

    path_of(name, path);
    return access(path, F_OK) == 0;
}

START_TEST(directory_of_this_boot_is_believed)
{
    OK(live_dir_check(dir, false, &discarded, &e)); /* empty */
    OK(live_dir_mark(dir, LIVE_DIR_OPEN, &e));
    OK(live_dir_check(dir, false, &discarded, &e)); /* after a kill -9, say */
    ck_assert(!discarded);
    OK(live_dir_mark(dir, LIVE_DIR_SYNCED, &e));
    OK(live_dir_check(dir, false, &discarded, &e));
}
END_TEST

/* A psd that rebuilds has marked the directory as not to be trusted; no other may empty it for that. */
START_TEST(what_another_psd_is_making_is_not_thrown_away)
{
    char path[PATH_MAX];
    int fd;

    OK(live_dir_mark(dir, LIVE_DIR_MAKING, &e));
    live_dir_put("data.mdb", "half of it");
    live_dir_put("psd.lock", "123\n");
    path_of("psd.lock", path);
    fd = open(path, O_RDWR);
    ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
    ck_assert_int_eq(live_dir_check(dir, true, &discarded, &e), PS_ERR_BUSY);
    ck_assert_ptr_nonnull(strstr(e.text, "process 123"));
    ck_assert(live_dir_there("data.mdb") && live_dir_there("boot"));
    close(fd);
    OK(live_dir_check(dir, true, &discarded, &e));
    ck_assert(discarded && !live_dir_there("data.mdb"));
}
END_TEST

START_TEST(unsynced_data_of_another_boot_is_refused)
{
    live_dir_put("boot", "11111111-2222-3333-4444-555555555555 open\n");
    live_dir_put("data.mdb", "data");
    ck_assert_int_eq(live_dir_check(dir, false, &discarded, &e), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(e.text, dir));
    ck_assert_ptr_nonnull(strstr(e.text, "--discard-stale"));
    ck_assert(live_dir_there("data.mdb"));
}
END_TEST

START_TEST(synced_data_of_another_boot_is_believed)
{
    live_dir_put("boot", "11111111-2222-3333-4444-555555555555 synced\n");
    OK(live_dir_check(dir, false, &discarded, &e));
    ck_assert(!discarded);
}
END_TEST

/* In a container without that file, say. */
START_TEST(on_a_disk_nothing_is_believed_where_no_boot_is_known)
{
    const char *kernels = live_dir_boot_id;

    live_dir_boot_id = "/no/such/file";
    OK(live_dir_mark(dir, LIVE_DIR_OPEN, &e));
    live_dir_put("data.mdb", "data");
    ck_assert_int_eq(live_dir_check(dir, false, &discarded, &e), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(e.text, dir));
    live_dir_boot_id = kernels; /* nor where it is known again */
    ck_assert_int_eq(live_dir_check(dir, false, &discarded, &e), PS_ERR_IO);
    live_dir_put("boot", "11111111-2222-3333-4444-555555555555 open\n");
    live_dir_boot_id = "/no/such/file";
    ck_assert_int_eq(live_dir_check(dir, false, &discarded, &e), PS_ERR_IO);
    OK(live_dir_mark(dir, LIVE_DIR_SYNCED, &e)); /* a clean stop is good in any boot */
    OK(live_dir_check(dir, false, &discarded, &e));
    OK(live_dir_mark(dir, LIVE_DIR_OPEN, &e));
    OK(live_dir_check(dir, true, &discarded, &e));
    ck_assert(discarded && !live_dir_there("data.mdb"));
}
END_TEST

/* Memory ends with its boot, so what is in it is of this one. */
START_TEST(in_memory_data_is_believed_where_no_boot_is_known)
{
    const char *kernels = live_dir_boot_id;
    char memory[] = "/dev/shm/psd-live-XXXXXX", file[64];

    ck_assert_ptr_nonnull(mkdtemp(memory));
    ck_assert(store_dir_in_memory(memory) && !store_dir_in_memory(dir));
    live_dir_boot_id = "/no/such/file";
    OK(live_dir_mark(memory, LIVE_DIR_OPEN, &e));
    OK(live_dir_check(memory, false, &discarded, &e));
    live_dir_boot_id = kernels;
    OK(live_dir_check(memory, false, &discarded, &e));
    OK(live_dir_mark(memory, LIVE_DIR_MAKING, &e));
    ck_assert_int_eq(live_dir_check(memory, false, &discarded, &e), PS_ERR_IO);
    snprintf(file, sizeof file, "%s/boot", memory);
    unlink(file);
    ck_assert_int_eq(rmdir(memory), 0);
}
END_TEST

START_TEST(damaged_boot_file_is_not_believed)
{
    live_dir_put("boot", "garbage");
    ck_assert_int_eq(live_dir_check(dir, false, &discarded, &e), PS_ERR_IO);
}
END_TEST

START_TEST(boot_file_that_cannot_be_read_is_not_believed)
{
    char path[PATH_MAX];

    live_dir_put("data.mdb", "");
    path_of("boot", path);
    ck_assert_int_eq(mkdir(path, 0700), 0); /* it can be opened, nothing else */
    ck_assert_int_eq(live_dir_check(dir, false, &discarded, &e), PS_ERR_IO);
    ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

START_TEST(what_was_half_rebuilt_is_not_believed_in_the_same_boot_either)
{
    OK(live_dir_mark(dir, LIVE_DIR_MAKING, &e));
    live_dir_put("data.mdb", "half of it");
    ck_assert_int_eq(live_dir_check(dir, false, &discarded, &e), PS_ERR_IO);
    ck_assert(live_dir_there("data.mdb"));
    OK(live_dir_check(dir, true, &discarded, &e));
    ck_assert(discarded && !live_dir_there("data.mdb"));
    OK(live_dir_mark(dir, LIVE_DIR_MAKING, &e));
    OK(live_dir_mark(dir, LIVE_DIR_OPEN, &e));
    OK(live_dir_check(dir, false, &discarded, &e));
}
END_TEST

START_TEST(discard_removes_the_data_and_nothing_else)
{
    live_dir_put("boot", "11111111-2222-3333-4444-555555555555 open\n");
    live_dir_put("data.mdb", "data");
    live_dir_put("lock.mdb", "lock");
    live_dir_put("other", "mine");
    OK(live_dir_check(dir, true, &discarded, &e));
    ck_assert(discarded);
    ck_assert(!live_dir_there("data.mdb") && !live_dir_there("lock.mdb") && !live_dir_there("boot") &&
              live_dir_there("other"));
    OK(live_dir_mark(dir, LIVE_DIR_OPEN, &e));
    OK(live_dir_check(dir, true, &discarded, &e)); /* of this boot: kept */
    ck_assert(!discarded);
}
END_TEST

START_TEST(what_another_program_put_there_is_refused)
{
    char path[PATH_MAX];

    path_of("lost+found", path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    OK(live_dir_check(dir, false, &discarded, &e)); /* the top of a filesystem, as mkfs leaves it */
    ck_assert_int_eq(rmdir(path), 0);
    live_dir_put("other", "mine");
    ck_assert_int_eq(live_dir_check(dir, true, &discarded, &e), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(e.text, "it holds other"));
    live_dir_put("data.mdb", "of a program that uses LMDB, too");
    ck_assert_int_eq(live_dir_check(dir, true, &discarded, &e), PS_ERR_IO);
    live_dir_put("psd.lock", "77");
    OK(live_dir_check(dir, false, &discarded, &e));
    ck_assert(live_dir_there("other") && live_dir_there("data.mdb"));
}
END_TEST

/* Nothing was ever served from it: it needs nobody's leave to go. */
START_TEST(what_a_killed_start_left_empty_is_removed)
{
    OK(live_dir_mark(dir, LIVE_DIR_EMPTY, &e));
    live_dir_put("data.mdb", "half of it");
    live_dir_put("boot.new", "half of it");
    OK(live_dir_check(dir, false, &discarded, &e));
    ck_assert(!discarded && !live_dir_there("data.mdb") && !live_dir_there("boot") && !live_dir_there("boot.new"));
    OK(live_dir_mark(dir, LIVE_DIR_EMPTY, &e));
    live_dir_put("data.mdb", "all of it");
    OK(live_dir_mark(dir, LIVE_DIR_OPEN, &e));
    OK(live_dir_check(dir, false, &discarded, &e));
    ck_assert(live_dir_there("data.mdb"));
}
END_TEST

/* ---- Whose it is ---- */

static void
live_dir_is_refused(const char *because)
{
    ck_assert_int_eq(live_dir_check(dir, true, &discarded, &e), PS_ERR_CONFIG);
    ck_assert_msg(strstr(e.text, because) != NULL && strstr(e.text, dir) != NULL, "%s", e.text);
}

START_TEST(where_others_may_write_is_no_live_directory)
{
    static const mode_t refused[] = {0770, 0777, 01777, 0707, 02770}, fine[] = {0700, 0750, 0755};

    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        ck_assert_int_eq(chmod(dir, refused[i]), 0);
        live_dir_is_refused("chmod go-w");
    }
    for (size_t i = 0; i < ARRAY_LEN(fine); i++) {
        ck_assert_int_eq(chmod(dir, fine[i]), 0);
        OK(live_dir_check(dir, false, &discarded, &e));
    }
}
END_TEST

/* Its names are those that psd writes, and where they lead is anybody's file. */
START_TEST(no_link_in_it_is_followed)
{
    static const char *const names[] = {"data.mdb", "lock.mdb", "psd.lock", "boot", "boot.new"};
    char path[PATH_MAX];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        path_of(names[i], path);
        ck_assert_int_eq(symlink("/nowhere/at/all", path), 0);
        live_dir_is_refused(names[i]);
        ck_assert_int_eq(unlink(path), 0);
    }
    OK(live_dir_check(dir, false, &discarded, &e));
}
END_TEST

START_TEST(a_link_to_it_is_followed_when_it_is_ones_own)
{
    char link[PATH_MAX + 8];

    snprintf(link, sizeof link, "%s.link", dir);
    ck_assert_int_eq(symlink(dir, link), 0);
    OK(live_dir_check(link, false, &discarded, &e));
    if (geteuid() == 0) {
        ck_assert_int_eq(lchown(link, 65534, 65534), 0);
        ck_assert_int_eq(live_dir_check(link, false, &discarded, &e), PS_ERR_CONFIG);
        ck_assert_ptr_nonnull(strstr(e.text, "is a link of user 65534"));
    }
    ck_assert_int_eq(unlink(link), 0);
}
END_TEST

START_TEST(another_users_is_no_live_directory)
{
    if (geteuid() != 0) {
        fprintf(stderr, "# skipped: only root gives directories away\n");
        return;
    }
    ck_assert_int_eq(chown(dir, 65534, 65534), 0);
    live_dir_is_refused("is of user 65534");
    ck_assert_int_eq(chown(dir, 0, 0), 0);
    ck_assert_int_eq(seteuid(65534), 0);
    ck_assert_int_eq(live_dir_check(dir, true, &discarded, &e), PS_ERR_IO); /* root's, and not to be read */
    ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

START_TEST(systemd_says_where)
{
    char path[PATH_MAX];

    setenv("RUNTIME_DIRECTORY", "/run/psd:/run/other", 1);
    OK(live_dir_default("blue", 3, path, sizeof path, &e));
    ck_assert_str_eq(path, "/run/psd/live");
}
END_TEST

START_TEST(otherwise_it_is_private_and_named_after_cluster_and_shard)
{
    char path[PATH_MAX], want[PATH_MAX], *end;
    struct stat st;

    unsetenv("RUNTIME_DIRECTORY");
    snprintf(want, sizeof want, "/dev/shm/psd-%lu/__blue-3", (unsigned long)geteuid());
    OK(live_dir_default("./blue", 3, path, sizeof path, &e));
    ck_assert_str_eq(path, want);
    end = strrchr(path, '/');
    *end = '\0';
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0700);
    rmdir(path); /* unless a psd of this user is there */
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("live_dir");
    TCase *tc = tcase_create("live_dir");

    tcase_add_checked_fixture(tc, live_dir_setup, live_dir_teardown);
    tcase_add_test(tc, directory_of_this_boot_is_believed);
    tcase_add_test(tc, what_another_psd_is_making_is_not_thrown_away);
    tcase_add_test(tc, unsynced_data_of_another_boot_is_refused);
    tcase_add_test(tc, synced_data_of_another_boot_is_believed);
    tcase_add_test(tc, on_a_disk_nothing_is_believed_where_no_boot_is_known);
    tcase_add_test(tc, in_memory_data_is_believed_where_no_boot_is_known);
    tcase_add_test(tc, damaged_boot_file_is_not_believed);
    tcase_add_test(tc, boot_file_that_cannot_be_read_is_not_believed);
    tcase_add_test(tc, what_was_half_rebuilt_is_not_believed_in_the_same_boot_either);
    tcase_add_test(tc, discard_removes_the_data_and_nothing_else);
    tcase_add_test(tc, what_another_program_put_there_is_refused);
    tcase_add_test(tc, what_a_killed_start_left_empty_is_removed);
    tcase_add_test(tc, where_others_may_write_is_no_live_directory);
    tcase_add_test(tc, no_link_in_it_is_followed);
    tcase_add_test(tc, a_link_to_it_is_followed_when_it_is_ones_own);
    tcase_add_test(tc, another_users_is_no_live_directory);
    tcase_add_test(tc, systemd_says_where);
    tcase_add_test(tc, otherwise_it_is_private_and_named_after_cluster_and_shard);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
