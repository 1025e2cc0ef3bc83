/* Directories beside a live directory: which count as those of running shards. */
#include "server/lmdb/store_neighbours.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/remove_tree.h"
#include "tests/unit/kits/check_main.h"

#define LOCK "psd.lock"

static char root[64], own[80];

static void
store_neighbours_setup(void)
{
    snprintf(root, sizeof root, "/tmp/psd-beside-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(own, sizeof own, "%s/own", root);
    ck_assert_int_eq(mkdir(own, 0700), 0);
}

static void
store_neighbours_teardown(void)
{
    remove_tree(root);
}

/* A directory with a lock's file, which is locked as long as the descriptor is open. */
static int
make_shard(const char *name, bool locked)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "%s/%s", root, name);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/" LOCK, root, name);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    if (locked)
        ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
    return fd;
}

START_TEST(locked_directories_beside_count)
{
    int one, two, other, mine = make_shard("own", true);

    ck_assert_uint_eq(store_neighbours(own, LOCK), 0);
    one = make_shard("one", true);
    two = make_shard("two", true);
    other = make_shard("stopped", false);
    ck_assert_uint_eq(store_neighbours(own, LOCK), 2);
    close(two);
    ck_assert_uint_eq(store_neighbours(own, LOCK), 1);
    close(one);
    close(other);
    close(mine);
    ck_assert_uint_eq(store_neighbours(own, LOCK), 0);
}
END_TEST

START_TEST(links_and_files_do_not_count)
{
    char path[128], link[128];
    int one = make_shard("one", true);

    snprintf(path, sizeof path, "%s/one", root);
    snprintf(link, sizeof link, "%s/link", root);
    ck_assert_int_eq(symlink(path, link), 0);
    snprintf(link, sizeof link, "%s/file", root);
    close(open(link, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    snprintf(link, sizeof link, "%s/linked", root);
    ck_assert_int_eq(mkdir(link, 0700), 0);
    snprintf(path, sizeof path, "%s/one/" LOCK, root);
    snprintf(link, sizeof link, "%s/linked/" LOCK, root);
    ck_assert_int_eq(symlink(path, link), 0);
    ck_assert_uint_eq(store_neighbours(own, LOCK), 1);
    close(one);
}
END_TEST

START_TEST(what_is_not_there_has_none_beside)
{
    ck_assert_uint_eq(store_neighbours("/nonexistent/psd", LOCK), 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("store_neighbours");
    TCase *t = tcase_create("beside");

    tcase_add_checked_fixture(t, store_neighbours_setup, store_neighbours_teardown);
    tcase_add_test(t, locked_directories_beside_count);
    tcase_add_test(t, links_and_files_do_not_count);
    tcase_add_test(t, what_is_not_there_has_none_beside);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
