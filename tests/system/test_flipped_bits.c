/* One bit of what lies on the disk flips while psd is down and its memory is gone: what the next psd serves is right,
 * or it does not start and says what is damaged. Never is a flipped bit served.
 *
 * PSD_TEST_FLIPS sets how many bits are tried, one at a time, PSD_TEST_SEED which. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "common/core/model/layout.h"
#include "tests/remove_tree.h"
#include "tests/system/probe.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

#define FLIPS  100
#define N      (65536 + 16384 + 500) /* floats of the first variable: a block of each size */
#define BLOCKS 3
#define SMALL  12 /* variables of one small block */
#define PAGE   4096

static const char *const options[] = {"--cluster", "psd", "--log-level", "info", "--save-interval", "0", NULL};

static struct shards shards;
static struct probe p;
static uint32_t large, small[SMALL];
static struct test_rng rng;
static uint8_t *whole; /* the durable file after the last sync */
static size_t whole_len;

/* ---- The data ---- */

static uint32_t
flipped_len(uint32_t block)
{
    struct layout layout;

    layout_init(&layout, N, 0);
    return layout_block(&layout, block).len;
}

static void
flipped_push(uint32_t var, uint32_t block, uint32_t len, float value)
{
    static float gradient[65536];
    Psd__Push m = PSD__PUSH__INIT;

    for (uint32_t i = 0; i < len; i++)
        gradient[i] = value + (float)(i % 7);
    m.seq = ++p.seq;
    m.n_var = m.n_block = 1;
    m.var = &var;
    m.block = &block;
    m.durable = true;
    probe_send(&p, MSG_PUSH, &m.base, gradient, len * sizeof *gradient);
    ck_assert(probe_receive(&p) && p.msg.type == MSG_ACK && p.msg.u.ack->n_code == 0);
}

static void
flipped_save(void)
{
    Psd__Save m = PSD__SAVE__INIT;

    probe_send(&p, MSG_SAVE, &m.base, NULL, 0);
    ck_assert(probe_receive(&p) && p.msg.type == MSG_SAVE_DONE);
}

static bool
flipped_is(uint32_t var, uint32_t block, uint32_t len, float sum, unsigned pushes)
{
    static float weights[65536];

    if (probe_pull(&p, var, block, weights, len) != pushes)
        return false;
    for (uint32_t i = 0; i < len; i++)
        if (weights[i] != -(sum + (float)pushes * (float)(i % 7)))
            return false;
    return true;
}

/* Two saves, in which all but one block of the large variable is the same, and a redo log over the second. */
static void
make_data(void)
{
    for (uint32_t b = 0; b < BLOCKS; b++)
        flipped_push(large, b, flipped_len(b), 1);
    for (int i = 0; i < SMALL; i++)
        flipped_push(small[i], 0, 100, 2);
    flipped_save();
    for (int i = 0; i < SMALL; i++)
        flipped_push(small[i], 0, 100, 3);
    flipped_push(large, 0, flipped_len(0), 6);
    flipped_save();
    flipped_push(small[0], 0, 100, 4);
    flipped_push(large, 1, flipped_len(1), 5);
}

static bool
is_right(void)
{
    return flipped_is(large, 0, flipped_len(0), 7, 2) && flipped_is(large, 1, flipped_len(1), 6, 2) &&
           flipped_is(large, 2, flipped_len(2), 1, 1) && flipped_is(small[0], 0, 100, 9, 3) &&
           flipped_is(small[1], 0, 100, 5, 2) && flipped_is(small[SMALL - 1], 0, 100, 5, 2);
}

/* ---- The disk ---- */

static void
flipped_path(char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%s/0.disk/data.mdb", shards.directory);
}

static void
read_whole(void)
{
    char path[PATH_MAX];
    struct stat st;
    int fd;

    flipped_path(path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert(fd >= 0 && fstat(fd, &st) == 0);
    whole_len = (size_t)st.st_size;
    ck_assert_ptr_nonnull(whole = malloc(whole_len));
    ck_assert_int_eq(read(fd, whole, whole_len), (ssize_t)whole_len);
    close(fd);
}

/* The file is longer than what was ever written to it. */
static bool
is_used(size_t page)
{
    static const uint8_t none[PAGE];

    return memcmp(whole + page * PAGE, none, PAGE) != 0;
}

/* Memory is gone, and the disk is as it was, but for this bit. A psd that cannot write to a damaged file sets it aside.
 */
static void
write_flipped(size_t bit)
{
    char path[PATH_MAX], disk[PATH_MAX], live[PATH_MAX];
    int fd;

    snprintf(live, sizeof live, "%s/0", shards.directory);
    snprintf(disk, sizeof disk, "%s/0.disk", shards.directory);
    ck_assert(remove_tree(live) == 0 || errno == ENOENT);
    ck_assert(remove_tree(disk) == 0 && mkdir(disk, 0700) == 0);
    flipped_path(path);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    whole[bit / 8] ^= (uint8_t)(1u << bit % 8);
    ck_assert_int_eq(ftruncate(fd, (off_t)whole_len), 0);
    for (size_t page = 0; page < whole_len / PAGE; page++)
        if (is_used(page))
            ck_assert_int_eq(pwrite(fd, whole + page * PAGE, PAGE, (off_t)(page * PAGE)), PAGE);
    whole[bit / 8] ^= (uint8_t)(1u << bit % 8);
    close(fd);
}

/* LMDB keeps a page's kind behind its number and a pad. The page of a large value's middle has neither. */
static bool
has_structure(size_t page)
{
    uint64_t number;

    memcpy(&number, whole + page * PAGE, sizeof number);
    return page < 2 || (number == page && (whole[page * PAGE + 10] & 3) != 0);
}

/* Where something was written; every other time where the file's structure lies, which is a small part of it. */
static size_t
draw_bit(int i)
{
    size_t page;

    do
        page = test_below(&rng, whole_len / PAGE);
    while (!is_used(page) || (i % 2 == 0 && !has_structure(page)));
    return 8 * PAGE * page + test_below(&rng, (size_t)8 * PAGE);
}

/* ---- The world ---- */

static void
flipped_setup(void)
{
    shards_start_with(&shards, 1, &(struct shards_options){.more = options, .durable = true, .log = true});
    ck_assert(probe_connect(&p, shards.address[0]) && probe_hello(&p, 0, 1, false));
    large = probe_declare(&p, "dense/w", N);
    for (int i = 0; i < SMALL; i++)
        small[i] = probe_declare(&p, (char[]){'b', (char)('a' + i), 0}, 100);
    make_data();
    probe_close(&p);
    shards_lose_power(&shards, 0);
    read_whole();
    rng.state = test_seed();
}

static void
flipped_teardown(void)
{
    free(whole);
    probe_close(&p);
    shards_stop(&shards);
}

/* What the log has that it had not before. */
static const char *
flipped_news(size_t before)
{
    return shards_log(&shards, 0) + before;
}

/* It names the durable directory, and says what to do. */
static bool
is_sentence(const char *news)
{
    return strstr(news, "0.disk") != NULL && strstr(news, " away") != NULL;
}

enum flipped_end { FLIPPED_SERVED, FLIPPED_REFUSED, FLIPPED_ENDS };

static enum flipped_end
try_bit(size_t bit)
{
    size_t before;
    char log[PATH_MAX];
    int status;

    snprintf(log, sizeof log, "%s/0.log", shards.directory);
    ck_assert(truncate(log, 0) == 0 || errno == ENOENT);
    write_flipped(bit);
    before = strlen(shards_log(&shards, 0));
    if ((status = shards_try(&shards, 0)) == 0) {
        ck_assert_msg(probe_connect(&p, shards.address[0]) && probe_hello(&p, 0, 1, true), "bit %zu: no session", bit);
        ck_assert_msg(is_right(), "bit %zu was served: %s", bit, flipped_news(before));
        probe_close(&p);
        shards_lose_power(&shards, 0);
        return FLIPPED_SERVED;
    }
    ck_assert_msg(status > 0, "bit %zu (byte %zu of page %zu) ends psd by signal %d: %s", bit, bit / 8 % PAGE,
                  bit / 8 / PAGE, -status, flipped_news(before));
    ck_assert_msg(is_sentence(flipped_news(before)), "bit %zu: %s", bit, flipped_news(before));
    return FLIPPED_REFUSED;
}

static int
flipped_count(void)
{
    const char *given = getenv("PSD_TEST_FLIPS");

    return given != NULL ? atoi(given) : FLIPS;
}

START_TEST(no_flipped_bit_of_the_durable_file_is_served)
{
    int ends[FLIPPED_ENDS] = {0};

    for (int i = 0; i < flipped_count(); i++)
        ends[try_bit(draw_bit(i))]++;
    fprintf(stderr, "# %d bits: %d starts were right, %d were refused\n", flipped_count(), ends[FLIPPED_SERVED],
            ends[FLIPPED_REFUSED]);
    ck_assert_int_gt(ends[FLIPPED_SERVED], 0);
    ck_assert_int_gt(ends[FLIPPED_REFUSED], 0);
}
END_TEST

/* ---- Verifying ---- */

/* A page in the middle of block 0 of the large variable, wherever it lies and lay. */
static bool
is_of_large(const uint8_t *page)
{
    float values[PAGE / sizeof(float)];

    memcpy(values, page, sizeof values);
    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        if (!(values[i] <= -7 && values[i] >= -19))
            return false;
    return true;
}

/* Flips a bit in each of them; how many there were. */
static int
damage_large(const char *name)
{
    uint8_t page[PAGE];
    char path[PATH_MAX];
    int fd, n = 0;

    snprintf(path, sizeof path, "%s/%s/data.mdb", shards.directory, name);
    fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    for (off_t at = 0; (at = lseek(fd, at, SEEK_DATA)) >= 0; at += PAGE) {
        if (pread(fd, page, sizeof page, at) != (ssize_t)sizeof page)
            break;
        if (!is_of_large(page))
            continue;
        page[100] ^= 1;
        ck_assert_int_eq(pwrite(fd, page, sizeof page, at), (ssize_t)sizeof page);
        n++;
    }
    close(fd);
    return n;
}

/* Its exit status; what it printed is in the log. */
static int
psctl_verify(void)
{
    const char *psctl = getenv("PSCTL_BIN");

    return shards_shell("%s --shards %s verify >>%s/0.log 2>&1", psctl != NULL ? psctl : "build/client/tools/psctl",
                        shards.address[0], shards.directory);
}

static void
verified_is_right(void)
{
    shards_lose_power(&shards, 0);
    shards_restart(&shards, 0);
    ck_assert(probe_connect(&p, shards.address[0]) && probe_hello(&p, 0, 1, true));
    ck_assert(is_right());
    probe_close(&p);
}

START_TEST(what_flips_on_the_disk_is_mended_while_psd_serves)
{
    shards_restart(&shards, 0);
    ck_assert_int_eq(psctl_verify(), 0);
    ck_assert_int_gt(damage_large("0.disk"), 0);
    ck_assert_int_eq(psctl_verify(), 1);
    ck_assert(shards_said(&shards, 0, "DAMAGED on the disk, written again from memory: block 0 of variable 'dense/w'"));
    verified_is_right();
    ck_assert_int_eq(psctl_verify(), 0);
}
END_TEST

START_TEST(what_flips_in_memory_is_named_and_the_disk_keeps_the_right_one)
{
    shards_restart(&shards, 0);
    ck_assert_int_eq(psctl_verify(), 0);
    ck_assert_int_gt(damage_large("0"), 0);
    ck_assert_int_eq(psctl_verify(), 1);
    ck_assert(shards_said(&shards, 0, "DAMAGED in memory, well on the disk: block 0 of variable 'dense/w'"));
    verified_is_right();
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("flipped_bits");
    TCase *t = tcase_create("flipped_bits");

    tcase_set_timeout(t, 600);
    tcase_add_checked_fixture(t, flipped_setup, flipped_teardown);
    tcase_add_test(t, no_flipped_bit_of_the_durable_file_is_served);
    tcase_add_test(t, what_flips_on_the_disk_is_mended_while_psd_serves);
    tcase_add_test(t, what_flips_in_memory_is_named_and_the_disk_keeps_the_right_one);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
