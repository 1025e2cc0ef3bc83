/* The LMDB store in its durable mode: the rules of every store, and those of a disk. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/core/model/layout.h"
#include "server/lmdb/store_lmdb_env.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/store_lmdb_kit.h"
#include "tests/unit/kits/store_suite.h"

#define OK(call) ck_assert_int_eq((call), PS_OK)

static void
store_durable_setup(void)
{
    kit_setup(true);
}

static struct store *
store_durable_make(void)
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
    ck_assert_uint_ge(report.limit_bytes, STORE_LMDB_DURABLE_MIN);
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
    kit_refused(0, PS_ERR_IO, "cannot look into the durable directory");
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

START_TEST(no_lmdb_environment_is_refused)
{
    char junk[8192];
    int fd;

    ck_assert_int_eq(mkdir(kit_dir, 0700), 0);
    memset(junk, 'x', sizeof junk);
    fd = open(data_path(), O_CREAT | O_WRONLY, 0600);
    ck_assert_int_eq(write(fd, junk, _i == 0 ? sizeof junk : 100), _i == 0 ? (ssize_t)sizeof junk : 100);
    close(fd);
    kit_refused(0, PS_ERR_VERSION, "not an LMDB environment");
    ck_assert_int_eq(access(data_path(), F_OK), 0); /* it is not the store's to remove */
}
END_TEST

START_TEST(empty_file_becomes_a_new_environment)
{
    struct store *s;

    ck_assert_int_eq(mkdir(kit_dir, 0700), 0);
    close(open(data_path(), O_CREAT | O_WRONLY, 0600));
    s = kit_open(0);
    OK(kit_update(s, 1, 1, 0, 1));
    s->ops->close(s);
}
END_TEST

/* Where LMDB keeps them, in both of its meta pages; and the guard. */
#define META_AT      LAYOUT_PAGE_HEAD
#define META_VERSION 4
#define META_PSIZE   24
#define META_NUMBER  128
#define META_BYTES   136
#define GUARD_AT     2048

/* Another LMDB knows no guard. */
static void
write_meta(off_t field, uint32_t value)
{
    int fd = open(data_path(), O_WRONLY | O_CLOEXEC);
    static const uint64_t none;

    for (off_t page = 0; page < 2; page++) {
        ck_assert_int_eq(pwrite(fd, &value, sizeof value, page * LAYOUT_PAGE + META_AT + field), sizeof value);
        ck_assert_int_eq(pwrite(fd, &none, sizeof none, page * LAYOUT_PAGE + GUARD_AT), sizeof none);
    }
    close(fd);
}

static void
flip_bit(off_t bit)
{
    int fd = open(data_path(), O_RDWR | O_CLOEXEC);
    uint8_t byte;

    ck_assert_int_eq(pread(fd, &byte, 1, bit / 8), 1);
    byte ^= (uint8_t)(1u << bit % 8);
    ck_assert_int_eq(pwrite(fd, &byte, 1, bit / 8), 1);
    close(fd);
}

/* The store is as it was, or is refused with a sentence, in pages and guards alike. */
static void
try_flipped(off_t bit, int *refused)
{
    struct store_dir_report report;
    struct ps_error e;
    struct store *s;

    flip_bit(bit);
    if (kit_try_open(0, &s, &report, &e) == PS_OK) {
        kit_check(s, 1, 0, 1);
        kit_check(s, 1, 1, 2);
        s->ops->close(s);
    } else {
        ck_assert_ptr_nonnull(strstr(e.text, data_path()));
        ++*refused;
    }
    flip_bit(bit);
}

START_TEST(flipped_bit_in_a_page_that_leads_to_all_is_found)
{
    const off_t page = _i * (off_t)LAYOUT_PAGE;
    struct store *s = kit_open(0);
    int refused = 0;

    OK(kit_update(s, 1, 0, 2, 1));
    OK(kit_update(s, 1, 1, 2, 2));
    s->ops->close(s);
    for (off_t bit = 0; bit < 8 * META_BYTES; bit += bit / 8 >= META_NUMBER ? 1 : 3)
        try_flipped(8 * (page + META_AT) + bit, &refused);
    ck_assert_int_gt(refused, 60); /* at least each bit of the number */
    for (off_t bit = 0; bit < (off_t)8 * 24; bit += 5)
        try_flipped(8 * (page + GUARD_AT) + bit, &refused);
}
END_TEST

START_TEST(format_of_another_lmdb_is_refused)
{
    struct store *s = kit_open(0);

    s->ops->close(s);
    write_meta(META_VERSION, 999);
    kit_refused(0, PS_ERR_VERSION, "not an LMDB environment that this psd can read");
}
END_TEST

START_TEST(pages_of_another_size_are_refused)
{
    struct store *s = kit_open(0);
    char meta[LAYOUT_PAGE];
    int fd;

    OK(kit_update(s, 1, 1, 2, 1));
    s->ops->close(s);
    write_meta(META_PSIZE, 2 * LAYOUT_PAGE);
    fd = open(data_path(), O_RDWR | O_CLOEXEC); /* the second meta page is the second page: there it lies then */
    ck_assert_int_eq(pread(fd, meta, sizeof meta, LAYOUT_PAGE), sizeof meta);
    ck_assert_int_eq(pwrite(fd, meta, sizeof meta, 2 * LAYOUT_PAGE), sizeof meta);
    close(fd);
    kit_refused(0, PS_ERR_UNSUPPORTED, "has pages of 8192 bytes");
}
END_TEST

/* A sector that cannot be read: nothing lies behind that page any more. */
static void
lose_page(const void *page)
{
    int fd = memfd_create("hole", MFD_CLOEXEC);

    ck_assert_ptr_eq(mmap((void *)(uintptr_t)page, LAYOUT_PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0), page);
    close(fd);
}

static bool
find_value(void *arg, const struct store_key *key, struct span value)
{
    struct span *out = arg;

    if (key->block == 1)
        *out = value;
    return key->block != 1;
}

/* Each page of it: the sentence says where the file has that page. */
START_TEST(value_that_the_disk_has_lost_is_an_error_and_no_signal)
{
    struct store *s = kit_open(0);
    struct span value = {NULL, 0};
    const char *page;
    char want[PATH_MAX + 64], there[LAYOUT_PAGE];
    size_t nth = (size_t)_i;
    off_t at;
    int fd;

    for (uint32_t i = 0; i < 3; i++)
        OK(kit_update(s, 1, i, 1, i));
    OK(s->ops->each_block(s, find_value, &value));
    ck_assert_uint_eq(value.len, layout_value_size(1));
    OK(s->ops->fetch(s, value));
    page = (const char *)value.data - LAYOUT_PAGE_HEAD + nth * LAYOUT_PAGE;
    fd = open(data_path(), O_RDONLY | O_CLOEXEC);
    for (at = 0; pread(fd, there, sizeof there, at) == (ssize_t)sizeof there; at += LAYOUT_PAGE)
        if (memcmp(there, page, sizeof there) == 0)
            break;
    close(fd);
    lose_page(page);
    ck_assert_int_eq(s->ops->fetch(s, value), PS_ERR_IO);
    snprintf(want, sizeof want, "byte %jd of %s cannot be read from its disk", (intmax_t)at, data_path());
    ck_assert_str_eq(store_lmdb_why(s), want);
    if (nth > 0)
        OK(s->ops->fetch(s, (struct span){value.data, 100})); /* its head is there */
    kit_check(s, 1, 0, 0);
    kit_check(s, 1, 2, 2);
    s->ops->close(s);
}
END_TEST

/* At any length: missing bytes are noticed before they are read. Of what was allocated ahead, nothing is missed. */
START_TEST(file_that_was_cut_short_is_refused)
{
    struct store *s = kit_open(0);
    struct store_dir_report report;
    struct ps_error e = {0};
    struct stat st;

    for (uint32_t i = 0; i < 20; i++)
        OK(kit_update(s, 1, i, (int)(i % LAYOUT_CLASSES), i));
    s->ops->close(s);
    ck_assert_int_eq(stat(data_path(), &st), 0);
    for (off_t size = st.st_size; size >= 0; size -= 37 * LAYOUT_PAGE + 1000) {
        enum ps_err err;

        ck_assert_int_eq(truncate(data_path(), size), 0);
        if ((err = kit_try_open(0, &s, &report, &e)) != PS_OK) {
            ck_assert(err == PS_ERR_IO || (err == PS_ERR_VERSION && size < 2 * LAYOUT_PAGE)); /* two pages lead it */
            ck_assert(err == PS_ERR_VERSION || size >= LAYOUT_PAGE);
            ck_assert(err == PS_ERR_VERSION || strstr(e.text, "was cut short") != NULL);
            continue;
        }
        ck_assert_int_ge(size, 6 * LAYOUT_PAGES_MAX * LAYOUT_PAGE); /* what is in it */
        for (uint32_t i = 0; i < 20; i++)
            kit_check(s, 1, i, i);
        s->ops->close(s);
    }
    ck_assert_int_eq(truncate(data_path(), LAYOUT_PAGE + LAYOUT_PAGE / 2), 0);
    kit_refused(0, PS_ERR_IO, "was cut short");
    ck_assert_int_eq(truncate(data_path(), 10), 0);
    kit_refused(0, PS_ERR_VERSION, "not an LMDB environment");
}
END_TEST

/* ---- A disk that is full ---- */

/* New blocks until there is no room. */
static uint32_t
store_durable_fill(struct store *s, uint32_t from)
{
    uint32_t n = from;
    enum ps_err err;

    while ((err = kit_update(s, 7, n, 2, n)) == PS_OK)
        n++;
    ck_assert_int_eq(err, PS_ERR_FULL);
    ck_assert_ptr_nonnull(strstr(store_lmdb_why(s), "is full"));
    ck_assert(!store_lmdb_untrusted(s));
    return n;
}

static void
check_filled(struct store *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        kit_check(s, 7, i, i);
}

START_TEST(full_disk_is_an_error_and_all_is_kept_until_there_is_room)
{
    char hog[PATH_MAX];
    struct store *s;
    uint32_t n, more;

    if (!kit_mount(160 * MIB))
        return;
    snprintf(hog, sizeof hog, "%s/hog", kit_dir);
    s = kit_open(0);
    for (uint32_t i = 0; i < 20; i++)
        OK(kit_update(s, 7, i, 2, i));
    kit_fill_disk(hog); /* other files take the rest */
    n = store_durable_fill(s, 20);
    check_filled(s, n);
    s->ops->close(s);
    s = kit_open(0); /* with no room for a page */
    check_filled(s, n);
    ck_assert_uint_eq(store_durable_fill(s, n), n);
    ck_assert_int_eq(unlink(hog), 0);
    more = store_durable_fill(s, n);
    ck_assert_uint_gt(more, n + 40);
    check_filled(s, more);
    ck_assert_int_eq(kit_update(s, 7, 0, 2, 0), PS_ERR_FULL); /* it goes beside the old one */
    s->ops->close(s);
    umount(kit_dir);
}
END_TEST

START_TEST(full_map_says_what_it_may_take)
{
    struct store *s = kit_open(STORE_SUITE_BYTES);
    uint32_t n = store_durable_fill(s, 0);

    ck_assert_uint_gt(n, 80);
    ck_assert_ptr_nonnull(strstr(store_lmdb_why(s), "it may take 96 MiB"));
    s->ops->close(s);
    s = kit_open(2 * STORE_SUITE_BYTES); /* address space is all that it takes */
    check_filled(s, n);
    ck_assert_uint_gt(store_durable_fill(s, n), n + 80);
    s->ops->close(s);
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
    ck_assert_int_eq(rename(path, data_path()), 0); /* it is whole: its contents can be read */
    s = kit_open(0);
    kit_check(s, 1, 4, 4);
    s->ops->close(s);
}
END_TEST

/* ---- What rows and blocks may take is counted ---- */

static struct span
row_key(uint32_t i, uint32_t *big_endian)
{
    *big_endian = htobe32(i);
    return (struct span){big_endian, sizeof *big_endian};
}

static uint64_t
file_bytes(struct store *s)
{
    struct store_usage usage;

    s->ops->usage(s, &usage);
    return usage.file_bytes;
}

START_TEST(many_rows_in_one_transaction_take_what_they_take)
{
    static const char value[150];
    struct store *s = kit_open(0);
    uint32_t key;

    OK(s->ops->begin(s, MIB));
    for (uint32_t i = 0; i < 20000; i++)
        OK(s->ops->row_put(s, STORE_SESSIONS, row_key(i, &key), (struct span){value, sizeof value}));
    OK(s->ops->commit(s));
    ck_assert_uint_lt(file_bytes(s), 32 * MIB); /* 3 MB of rows */
    s->ops->close(s);
}
END_TEST

START_TEST(many_blocks_in_one_transaction_take_what_they_take)
{
    struct store *s = kit_open(0);
    void *place;

    OK(s->ops->begin(s, MIB));
    for (uint32_t i = 0; i < 4000; i++) {
        OK(s->ops->reserve(s, &(struct store_key){.var = i}, layout_value_size(0), &place));
        memset(place, 0, layout_value_size(0));
    }
    OK(s->ops->commit(s));
    ck_assert_uint_lt(file_bytes(s), 36 * MIB); /* 16 of blocks */
    OK(s->ops->begin(s, MIB));
    for (uint32_t i = 0; i < 4000; i++)
        OK(s->ops->erase(s, &(struct store_key){.var = i}));
    OK(s->ops->commit(s));
    ck_assert_uint_lt(file_bytes(s), 36 * MIB);
    s->ops->close(s);
}
END_TEST

static unsigned
random_seed(void)
{
    const char *given = getenv("PSD_TEST_SEED");
    unsigned seed = given != NULL ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);

    fprintf(stderr, "# PSD_TEST_SEED=%u\n", seed);
    return seed;
}

/* Keys of 0.5 to 4 thousand rows, so that trees grow and shrink; values of all lengths, some of them in pages of their
 * own. */
static void
change_a_row(struct store *s, unsigned *seed)
{
    static const char value[8000];
    unsigned r = (unsigned)rand_r(seed);
    size_t len = r % 7 == 0 ? r / 7 % sizeof value : r % 200;
    uint32_t key;
    enum ps_err err;

    if (r / 8 % 2 == 0) {
        OK(s->ops->row_put(s, STORE_SESSIONS, row_key(r / 16 % 4096, &key), (struct span){value, len}));
        return;
    }
    err = s->ops->row_erase(s, STORE_SESSIONS, row_key(r / 16 % 4096, &key));
    ck_assert(err == PS_OK || err == PS_ERR_NOT_FOUND);
}

/* The same of blocks, of one page and of 17. */
static void
change_a_block(struct store *s, unsigned *seed)
{
    unsigned r = (unsigned)rand_r(seed);
    struct store_key key = {.var = r / 16 % 2048};
    size_t size = layout_value_size(key.var % 16 == 0);
    void *place;
    enum ps_err err;

    if (r / 8 % 2 == 0) {
        OK(s->ops->reserve(s, &key, size, &place));
        memset(place, 0, size);
        return;
    }
    err = s->ops->erase(s, &key);
    ck_assert(err == PS_OK || err == PS_ERR_NOT_FOUND);
}

START_TEST(no_page_is_taken_that_was_not_counted)
{
    void (*const change[])(struct store *, unsigned *) = {change_a_row, change_a_block};
    unsigned seed = random_seed();
    struct store *s = kit_open(0);
    struct store_room *room = &store_lmdb_of(s)->room;

    for (int i = 0; i < 60; i++) {
        uint64_t last = room->ops->last_page(room), spent;

        OK(s->ops->begin(s, 0));
        for (int n = rand_r(&seed) % 3000; n > 0; n--)
            change[_i](s, &seed);
        spent = room->spent_pages;
        OK(s->ops->commit(s));
        ck_assert_uint_lt(room->ops->last_page(room), room->allocated_pages);
        ck_assert_uint_le(room->ops->last_page(room), last + spent + 64); /* and the free list's */
    }
    s->ops->close(s);
}
END_TEST

static Suite *
make_suite(void)
{
    static const struct store_maker maker = {store_durable_make, kit_crash, kit_unmake, true};
    Suite *suite = suite_create("store_durable");
    TCase *tc = tcase_create("store_durable");

    suite_add_tcase(suite, store_suite_case(&maker));
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, store_durable_setup, kit_teardown);
    tcase_add_test(tc, blocks_are_there_after_a_restart);
    tcase_add_test(tc, messages_name_the_durable_directory_and_its_option);
    tcase_add_test(tc, unwritable_directory_is_refused);
    tcase_add_loop_test(tc, no_lmdb_environment_is_refused, 0, 2);
    tcase_add_test(tc, empty_file_becomes_a_new_environment);
    tcase_add_test(tc, format_of_another_lmdb_is_refused);
    tcase_add_test(tc, pages_of_another_size_are_refused);
    tcase_add_loop_test(tc, flipped_bit_in_a_page_that_leads_to_all_is_found, 0, 2);
    tcase_add_test(tc, file_that_was_cut_short_is_refused);
    tcase_add_loop_test(tc, value_that_the_disk_has_lost_is_an_error_and_no_signal, 0, 17);
    tcase_add_test(tc, full_disk_is_an_error_and_all_is_kept_until_there_is_room);
    tcase_add_test(tc, full_map_says_what_it_may_take);
    tcase_add_test(tc, bad_file_is_set_aside_and_the_newest_two_are_kept);
    tcase_add_test(tc, many_rows_in_one_transaction_take_what_they_take);
    tcase_add_test(tc, many_blocks_in_one_transaction_take_what_they_take);
    tcase_add_loop_test(tc, no_page_is_taken_that_was_not_counted, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
