/* Pages that a file cannot give any more, with a real psd: memory that was taken away, sectors that cannot be read. It
 * reports that and ends, or does not start; it never serves a hole. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "server/process/bus_error.h"
#include "tests/system/probe.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

#define N    65536 /* floats: one block */
#define PAGE 4096

static const char *const options[] = {"--cluster", "psd", "--log-level", "info", "--save-interval", "0", NULL};

static struct shards shards;
static struct probe p;
static uint32_t var;
static char control[64];

/* ---- The world ---- */

static void
media_setup(void)
{
    snprintf(control, sizeof control, "/tmp/psd-lost-page-%ld", (long)getpid());
    unlink(control);
    setenv("LOST_PAGE", control, 1);
    shards_preload("LOST_PAGE_LIB");
    shards_start_with(&shards, 1, &(struct shards_options){.more = options, .durable = true, .log = true});
    ck_assert(probe_connect(&p, shards.address[0]) && probe_hello(&p, 0, 1, false));
    var = probe_declare(&p, "dense/w", N);
}

static void
media_teardown(void)
{
    probe_close(&p);
    shards_stop(&shards);
    unlink(control);
}

static void
path_of(const char *name, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/%s", shards.directory, name);
}

static bool
media_logged(const char *text)
{
    return strstr(shards_log(&shards, 0), text) != NULL;
}

static void
push_ones(void)
{
    static float ones[N];

    for (size_t i = 0; i < N; i++)
        ones[i] = 1;
    ck_assert_uint_eq(probe_push(&p, var, 0, ones, N), PS_OK);
}

static void
media_save(void)
{
    Psd__Save m = PSD__SAVE__INIT;

    probe_send(&p, MSG_SAVE, &m.base, NULL, 0);
    ck_assert(probe_receive(&p));
    ck_assert_int_eq(p.msg.type, MSG_SAVE_DONE);
}

/* Its exit status, -N for signal N. */
static int
media_ended(void)
{
    int status;

    ck_assert_int_eq(waitpid(shards.pids[0], &status, 0), shards.pids[0]);
    shards.pids[0] = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* A page of the file that is full of this float: one of the block that was pushed. */
static long
page_of(const char *file, float value)
{
    float page[PAGE / sizeof(float)];
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    long at = 0;

    ck_assert_int_ge(fd, 0);
    for (;; at += PAGE) {
        size_t same = 0;

        ck_assert_msg(pread(fd, page, sizeof page, at) == (ssize_t)sizeof page, "the save does not hold it");
        while (same < ARRAY_LEN(page) && page[same] == value)
            same++;
        if (same == ARRAY_LEN(page))
            break;
    }
    close(fd);
    return at;
}

static void
lose_page(long at)
{
    FILE *f = fopen(control, "w");

    ck_assert_ptr_nonnull(f);
    fprintf(f, "%ld", at);
    ck_assert_int_eq(fclose(f), 0);
}

/* ---- A running psd ---- */

START_TEST(live_data_that_are_taken_away_end_psd_with_a_sentence_and_a_status)
{
    char file[PATH_MAX], want[PATH_MAX + 256];
    Psd__Pull m = PSD__PULL__INIT;
    uint32_t block = 0;

    push_ones();
    path_of("0/data.mdb", file);
    ck_assert_int_eq(truncate(file, 2L * PAGE), 0);
    m.n_var = m.n_block = 1;
    m.var = &var;
    m.block = &block;
    probe_send(&p, MSG_PULL, &m.base, NULL, 0);
    ck_assert_int_eq(media_ended(), EXIT_LOST);
    ck_assert_msg(media_logged("psd: byte "), "%s", shards_log(&shards, 0));
    snprintf(want, sizeof want, " of %s is no longer there: the memory of the live data was taken away", file);
    ck_assert_msg(media_logged(want), "%s", shards_log(&shards, 0));
    ck_assert(media_logged("psd then begins from the durable one, or with --restore CHECKPOINT"));
}
END_TEST

START_TEST(a_durable_file_whose_trees_are_lost_ends_psd_and_moved_away_is_made_again)
{
    char file[PATH_MAX], aside[PATH_MAX], want[PATH_MAX + 256];
    static float weights[N];
    Psd__Save m = PSD__SAVE__INIT;

    push_ones();
    media_save();
    push_ones();
    path_of("0.disk/data.mdb", file);
    ck_assert_int_eq(truncate(file, 2L * PAGE), 0);
    probe_send(&p, MSG_SAVE, &m.base, NULL, 0);
    ck_assert_int_eq(media_ended(), EXIT_LOST);
    snprintf(want, sizeof want, " of %s cannot be read from its disk: the durable directory is damaged", file);
    ck_assert_msg(media_logged(want), "%s", shards_log(&shards, 0));
    probe_close(&p);
    path_of("0.disk/lost", aside);
    ck_assert_int_eq(rename(file, aside), 0);
    shards_restart(&shards, 0); /* with the live data, as its log says */
    ck_assert(probe_connect(&p, shards.address[0]) && probe_hello(&p, 0, 1, true));
    ck_assert_uint_eq(probe_pull(&p, var, 0, weights, ARRAY_LEN(weights)), 2);
    ck_assert(weights[0] == -2);
    media_save();
}
END_TEST

/* A save reads blocks that an earlier one has staged. */
START_TEST(a_sector_that_a_save_cannot_read_costs_the_file_and_nothing_else)
{
    char file[PATH_MAX], bad[PATH_MAX];
    static float weights[N];
    Psd__Save m = PSD__SAVE__INIT;

    for (int i = 0; i < 2; i++) {
        push_ones();
        media_save();
    }
    path_of("0.disk/data.mdb", file);
    path_of("0.disk/data.mdb.bad-1", bad);
    lose_page(page_of(file, -1) - PAGE); /* of the older one: where the next is staged; a value's head */
    probe_close(&p);
    shards_kill(&shards, 0);
    shards_restart(&shards, 0);
    unlink(control); /* the new file's disk is whole */
    ck_assert(probe_connect(&p, shards.address[0]) && probe_hello(&p, 0, 1, true));
    push_ones();
    probe_send(&p, MSG_SAVE, &m.base, NULL, 0);
    ck_assert(probe_receive(&p));
    ck_assert_int_eq(p.msg.type, MSG_ERROR);
    ck_assert_msg(strstr(p.msg.u.error->text, "cannot be read from its disk") != NULL, "%s", p.msg.u.error->text);
    do { /* until the new file is there */
        probe_send(&p, MSG_SAVE, &m.base, NULL, 0);
        ck_assert(probe_receive(&p));
    } while (p.msg.type != MSG_SAVE_DONE);
    ck_assert_int_eq(access(bad, F_OK), 0);
    probe_close(&p);
    shards_lose_power(&shards, 0);
    shards_restart(&shards, 0);
    ck_assert(probe_connect(&p, shards.address[0]) && probe_hello(&p, 0, 1, true));
    ck_assert_uint_eq(probe_pull(&p, var, 0, weights, N), 3);
    ck_assert(weights[0] == -3 && weights[N - 1] == -3);
}
END_TEST

/* ---- A start ---- */

START_TEST(a_save_with_a_block_that_cannot_be_read_is_refused_and_names_it)
{
    char file[PATH_MAX], aside[PATH_MAX], want[PATH_MAX + 256];
    long at;

    push_ones();
    media_save();
    path_of("0.disk/data.mdb", file);
    at = page_of(file, -1);
    shards_lose_power(&shards, 0);
    lose_page(at);
    ck_assert_int_eq(shards_refused(&shards, 0), EXIT_FAILURE);
    snprintf(want, sizeof want,
             "save 1 is damaged: block 0 of variable 'dense/w' is lost: byte %ld of %s cannot be read from its disk. "
             "Move that file away, and start with --restore CHECKPOINT",
             at, file);
    ck_assert_msg(media_logged(want), "%s\nnot in: %s", want, shards_log(&shards, 0));
    unlink(control); /* the disk can read it after all */
    shards_restart(&shards, 0);
    ck_assert(media_logged("rebuilt from the durable directory save=1"));
    shards_lose_power(&shards, 0);
    lose_page(at);
    path_of("0.disk/lost", aside);
    ck_assert_int_eq(rename(file, aside), 0);
    shards_restart(&shards, 0); /* as its log says, but without a checkpoint */
    probe_close(&p);
    ck_assert(probe_connect(&p, shards.address[0]) && !probe_hello(&p, 0, 1, true));
    ck_assert_uint_eq(p.msg.u.error->code, PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(a_redo_log_with_a_piece_that_cannot_be_read_is_refused)
{
    static float ones[N];
    char file[PATH_MAX];
    Psd__Push m = PSD__PUSH__INIT;
    uint32_t block = 0;

    for (size_t i = 0; i < ARRAY_LEN(ones); i++)
        ones[i] = 3;
    m.seq = ++p.seq;
    m.n_var = m.n_block = 1;
    m.var = &var;
    m.block = &block;
    m.durable = true;
    probe_send(&p, MSG_PUSH, &m.base, ones, sizeof ones);
    ck_assert(probe_receive(&p));
    ck_assert_int_eq(p.msg.type, MSG_ACK);
    path_of("0.disk/data.mdb", file);
    shards_lose_power(&shards, 0);
    lose_page(page_of(file, 3));
    ck_assert_int_eq(shards_refused(&shards, 0), EXIT_FAILURE);
    ck_assert_msg(media_logged("of the redo log is lost: byte "), "%s", shards_log(&shards, 0));
    ck_assert(media_logged("Move that file away, and start with --restore CHECKPOINT"));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("media");
    TCase *tc = tcase_create("media");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, media_setup, media_teardown);
    tcase_add_test(tc, live_data_that_are_taken_away_end_psd_with_a_sentence_and_a_status);
    tcase_add_test(tc, a_durable_file_whose_trees_are_lost_ends_psd_and_moved_away_is_made_again);
    tcase_add_test(tc, a_sector_that_a_save_cannot_read_costs_the_file_and_nothing_else);
    tcase_add_test(tc, a_save_with_a_block_that_cannot_be_read_is_refused_and_names_it);
    tcase_add_test(tc, a_redo_log_with_a_piece_that_cannot_be_read_is_refused);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
