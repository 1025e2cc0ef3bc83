#include "client/checkpoint/checkpoint_dir_writer.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/kits/check_main.h"

#define MAKERS 4
#define ROUNDS 40

static char dir[64];

static void
dir_writer_setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/psd-make-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void
dir_writer_teardown(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -r '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static const char *
dir_writer_path(const char *name, char out[160])
{
    snprintf(out, 160, "%s/%s", dir, name);
    return out;
}

static bool
is_there(const char *name)
{
    char room[160];

    return access(dir_writer_path(name, room), F_OK) == 0;
}

/* A job without variables: its files have headers alone. */
static void
dir_writer_fill(struct checkpoint *c)
{
    Psd__Job job = PSD__JOB__INIT;

    *c = (struct checkpoint){.version = strdup("1"), .unix_ms = (uint64_t)time(NULL) * 1000, .shares_len = 1};
    c->shares = calloc(1, sizeof *c->shares);
    job.name = (char *)"train";
    job.workers = 1;
    ck_assert_int_eq(checkpoint_set_job(c, &job, &job, NULL), PS_OK);
}

static enum ps_err
dir_writer_make(const char *name)
{
    struct checkpoint c;
    struct dir_writer m;
    struct ps_error e;
    enum ps_err err;

    dir_writer_fill(&c);
    if ((err = dir_writer_begin(&m, dir, name, false, &e)) == PS_OK && (err = dir_writer_files(&m, &c, &e)) == PS_OK)
        err = dir_writer_end(&m, &c, NULL, &e);
    if (err != PS_OK && err != PS_ERR_BUSY)
        fprintf(stderr, "# %s\n", e.text);
    dir_writer_close(&m);
    checkpoint_finish(&c);
    return err;
}

/* ---- At the same time ---- */

struct maker {
    pthread_barrier_t *begin;
    char own[32]; /* "": all of one name */
    enum ps_err err[ROUNDS];
};

static void *
make_all(void *arg)
{
    struct maker *a = arg;
    char name[64];

    for (int round = 0; round < ROUNDS; round++) {
        snprintf(name, sizeof name, "c%d%s", round, a->own);
        pthread_barrier_wait(a->begin);
        do
            a->err[round] = dir_writer_make(name);
        while (a->err[round] == PS_ERR_BUSY && !is_there(name));
    }
    return NULL;
}

static void
run_makers(struct maker makers[MAKERS])
{
    pthread_barrier_t begin;
    pthread_t threads[MAKERS];

    pthread_barrier_init(&begin, NULL, MAKERS);
    for (int i = 0; i < MAKERS; i++) {
        makers[i].begin = &begin;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, make_all, &makers[i]), 0);
    }
    for (int i = 0; i < MAKERS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&begin);
}

START_TEST(of_many_that_make_one_checkpoint_one_does_and_nobody_harms_it)
{
    static struct maker makers[MAKERS];
    char name[64];

    run_makers(makers);
    for (int round = 0; round < ROUNDS; round++) {
        int made = 0;

        for (int i = 0; i < MAKERS; i++) {
            ck_assert_msg(makers[i].err[round] == PS_OK || makers[i].err[round] == PS_ERR_BUSY, "round %d: %s", round,
                          ps_err_name(makers[i].err[round]));
            made += makers[i].err[round] == PS_OK;
        }
        ck_assert_int_eq(made, 1);
        snprintf(name, sizeof name, "c%d/" CHECKPOINT_MANIFEST, round);
        ck_assert_msg(is_there(name), "round %d: it was emptied", round);
    }
}
END_TEST

START_TEST(checkpoints_of_different_names_do_not_meet_at_latest)
{
    static struct maker makers[MAKERS];

    for (int i = 0; i < MAKERS; i++)
        snprintf(makers[i].own, sizeof makers[i].own, "-of-%d", i);
    run_makers(makers);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < MAKERS; i++)
            ck_assert_int_eq(makers[i].err[round], PS_OK);
    ck_assert(is_there(CHECKPOINT_LATEST "/" CHECKPOINT_MANIFEST));
}
END_TEST

/* ---- Names ---- */

/* A directory with one file, made so many seconds ago. */
static void
dir_writer_leave(const char *name, time_t age)
{
    struct timespec times[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
    char room[160], file[64];
    int fd;

    ck_assert_int_eq(mkdir(dir_writer_path(name, room), 0777), 0);
    snprintf(file, sizeof file, "%s/weights.safetensors", name);
    fd = open(dir_writer_path(file, room), O_WRONLY | O_CREAT, 0666);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(futimens(fd, times), 0);
    close(fd);
    ck_assert_int_eq(utimensat(AT_FDCWD, dir_writer_path(name, room), times, 0), 0);
}

static void
expect_sequel(const char *name, const char *want)
{
    struct dir_writer m;
    struct ps_error e;

    ck_assert_int_eq(dir_writer_begin(&m, dir, name, true, &e), PS_OK);
    ck_assert_str_eq(m.name, want);
    dir_writer_close(&m);
}

START_TEST(a_sequel_has_the_number_after_the_last)
{
    static const char *const others[] = {"c-7-2", "c-70", "cc", "c-x", "c-07", "c-99999999999999999999", "c-8.partial"};

    expect_sequel("c", "c");
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        dir_writer_leave(others[i], 0);
    expect_sequel("c-7", "c-7-3");
    ck_assert_int_eq(dir_writer_make("c"), PS_OK);
    expect_sequel("c", "c-71");
    dir_writer_leave("d-2", 0);
    expect_sequel("d", "d-3");
}
END_TEST

/* ---- Patience ---- */

static enum ps_err
end_at_the_second(void *arg, const char *file, struct ps_error *e)
{
    int *asked = arg;

    ck_assert_str_eq(file, checkpoint_file_name((enum checkpoint_file) * asked));
    return (*asked)++ == 0 ? PS_OK : ps_fail(e, PS_ERR_TIMEOUT, "enough");
}

START_TEST(one_whose_checksums_take_too_long_is_removed)
{
    int asked = 0;
    const struct checkpoint_patience patience = {end_at_the_second, &asked};
    struct checkpoint c;
    struct dir_writer m;
    struct ps_error e;

    dir_writer_fill(&c);
    ck_assert_int_eq(dir_writer_begin(&m, dir, "slow", false, &e), PS_OK);
    ck_assert_int_eq(dir_writer_files(&m, &c, &e), PS_OK);
    ck_assert_int_eq(dir_writer_end(&m, &c, &patience, &e), PS_ERR_TIMEOUT);
    ck_assert_str_eq(e.text, "enough");
    ck_assert_int_eq(asked, 2);
    dir_writer_close(&m);
    ck_assert(!is_there("slow") && !is_there("slow.partial") && !is_there(CHECKPOINT_LATEST));
    checkpoint_finish(&c);
}
END_TEST

/* ---- What the killed leave ---- */

START_TEST(what_killed_makers_left_goes_a_day_later)
{
    dir_writer_leave("old.partial", 25 * 3600);
    dir_writer_leave("new.partial", 23 * 3600);
    dir_writer_leave("old", 25 * 3600);
    ck_assert_int_eq(dir_writer_make("another"), PS_OK);
    ck_assert(!is_there("old.partial"));
    ck_assert(is_there("new.partial/weights.safetensors"));
    ck_assert(is_there("old/weights.safetensors"));
    ck_assert_int_eq(dir_writer_make("new"), PS_OK); /* of its own name, at once */
    ck_assert(!is_there("new.partial") && is_there("new/" CHECKPOINT_MANIFEST));
}
END_TEST

static void
keep_one(const char *name)
{
    struct checkpoint c;
    struct dir_writer m;
    struct ps_error e;

    dir_writer_fill(&c);
    ck_assert_int_eq(dir_writer_begin(&m, dir, name, false, &e), PS_OK);
    ck_assert_int_eq(dir_writer_files(&m, &c, &e), PS_OK);
    ck_assert_int_eq(dir_writer_end(&m, &c, NULL, &e), PS_OK);
    ck_assert_int_eq(dir_writer_prune(&m, 1, &e), PS_OK);
    dir_writer_close(&m);
    checkpoint_finish(&c);
}

START_TEST(who_keeps_some_clears_what_killed_makers_left_at_once)
{
    struct dir_writer slow;
    struct ps_error e;

    dir_writer_leave("left.partial", 0);
    ck_assert_int_eq(dir_writer_begin(&slow, dir, "slow", false, &e), PS_OK);
    keep_one("kept");
    ck_assert(!is_there("left.partial") && is_there("slow.partial") && is_there("kept"));
    dir_writer_close(&slow);
}
END_TEST

/* Whoever made it may have it open still, and it may be another user's. */
START_TEST(a_directory_that_was_left_is_made_anew)
{
    struct stat left, made;
    struct dir_writer m;
    struct ps_error e;
    char room[160];

    dir_writer_leave("c.partial", 0);
    ck_assert_int_eq(stat(dir_writer_path("c.partial", room), &left), 0);
    int held = open(room, O_RDONLY | O_DIRECTORY); /* so that its number is not given again */
    ck_assert_int_eq(dir_writer_begin(&m, dir, "c", false, &e), PS_OK);
    ck_assert_int_eq(fstat(m.fd, &made), 0);
    ck_assert_uint_ne(left.st_ino, made.st_ino);
    dir_writer_close(&m);
    close(held);
    ck_assert_int_eq(mkdir(dir_writer_path("d.partial", room), 0777), 0);
    ck_assert_int_eq(mkdir(dir_writer_path("d.partial/other", room), 0777), 0);
    ck_assert_int_eq(dir_writer_begin(&m, dir, "d", false, &e), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(e.text, "not a checkpoint's"));
    dir_writer_close(&m);
    ck_assert(is_there("d.partial/other"));
}
END_TEST

START_TEST(an_old_one_that_somebody_still_makes_stays)
{
    struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    struct dir_writer m;
    struct ps_error e;

    ck_assert_int_eq(dir_writer_begin(&m, dir, "slow", false, &e), PS_OK);
    ck_assert_int_eq(futimens(m.fd, times), 0);
    ck_assert_int_eq(dir_writer_make("another"), PS_OK);
    ck_assert(is_there("slow.partial"));
    dir_writer_close(&m);
    ck_assert(!is_there("slow.partial"));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("checkpoint_make");
    TCase *all = tcase_create("checkpoint_make");

    tcase_add_checked_fixture(all, dir_writer_setup, dir_writer_teardown);
    tcase_set_timeout(all, 120);
    tcase_add_test(all, of_many_that_make_one_checkpoint_one_does_and_nobody_harms_it);
    tcase_add_test(all, checkpoints_of_different_names_do_not_meet_at_latest);
    tcase_add_test(all, a_sequel_has_the_number_after_the_last);
    tcase_add_test(all, one_whose_checksums_take_too_long_is_removed);
    tcase_add_test(all, what_killed_makers_left_goes_a_day_later);
    tcase_add_test(all, who_keeps_some_clears_what_killed_makers_left_at_once);
    tcase_add_test(all, a_directory_that_was_left_is_made_anew);
    tcase_add_test(all, an_old_one_that_somebody_still_makes_stays);
    suite_add_tcase(suite, all);
    return suite;
}

CHECK_MAIN(make_suite)
