#include "server/lmdb/store_lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/model/layout.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/store_lmdb_kit.h"
#include "tests/unit/kits/store_suite.h"

#define OK(call) ck_assert_int_eq((call), PS_OK)

static bool durable;

static void
store_lmdb_setup(void)
{
    kit_setup(durable = false);
}

static void
setup_durable(void)
{
    kit_setup(durable = true);
}

static struct store *
live_make(void)
{
    return kit_make(false);
}

/* ---- Opening ---- */

START_TEST(blocks_are_there_after_a_restart)
{
    struct store *s = kit_open(STORE_SUITE_BYTES);
    struct store_dir_report report;
    struct ps_error e;

    for (uint32_t i = 0; i < 30; i++)
        OK(kit_update(s, i % 3, i, (int)(i % 3), i));
    s->ops->close(s);
    OK(kit_try_open(STORE_SUITE_BYTES, &s, &report, &e));
    ck_assert(report.existed);
    for (uint32_t i = 0; i < 30; i++)
        kit_check(s, i % 3, i, i);
    s->ops->close(s);
}
END_TEST

START_TEST(second_opener_is_told_who_has_it)
{
    struct store *s = kit_open(STORE_SUITE_BYTES), *other;
    struct store_dir_report report;
    struct ps_error e;
    char pid[32];

    ck_assert_int_eq(kit_try_open(STORE_SUITE_BYTES, &other, &report, &e), PS_ERR_BUSY);
    snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    ck_assert_ptr_nonnull(strstr(e.text, pid));
    ck_assert_ptr_nonnull(strstr(e.text, kit_dir));
    OK(kit_update(s, 1, 1, 0, 1)); /* the first one goes on */
    s->ops->close(s);
    s = kit_open(STORE_SUITE_BYTES);
    s->ops->close(s);
}
END_TEST

START_TEST(missing_parent_is_named)
{
    snprintf(kit_dir, sizeof kit_dir, "%s/no/live", kit_base);
    kit_refused(0, PS_ERR_IO, "its parent does not exist");
}
END_TEST

START_TEST(unwritable_directory_is_refused)
{
    ck_assert_int_eq(mkdir(kit_dir, 0500), 0);
    ck_assert_int_eq(chmod(kit_base, 0755), 0);
    if (geteuid() == 0)
        ck_assert_int_eq(seteuid(65534), 0);
    kit_refused(0, PS_ERR_IO, "cannot look into the live directory");
    if (getuid() == 0)
        ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

START_TEST(file_in_place_of_the_directory_is_refused)
{
    close(open(kit_dir, O_CREAT | O_WRONLY, 0600));
    kit_refused(0, PS_ERR_IO, kit_dir);
}
END_TEST

START_TEST(too_small_a_limit_is_refused)
{
    kit_refused(10 * MIB, PS_ERR_FULL, "at least 64 MiB");
}
END_TEST

START_TEST(foreign_file_is_refused)
{
    char path[PATH_MAX], junk[8192];
    int fd;

    ck_assert_int_eq(mkdir(kit_dir, 0700), 0);
    snprintf(path, sizeof path, "%s/data.mdb", kit_dir);
    memset(junk, 'x', sizeof junk);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    ck_assert_int_eq(write(fd, junk, sizeof junk), sizeof junk);
    close(fd);
    kit_refused(STORE_SUITE_BYTES, PS_ERR_VERSION, "not an LMDB environment");
}
END_TEST

START_TEST(smaller_limit_than_before_still_serves_and_updates)
{
    struct store *s = kit_open(256 * MIB);

    for (uint32_t i = 0; i < 400; i++)
        OK(kit_update(s, 1, i, 2, 1));
    for (uint32_t i = 0; i < 80; i++)
        OK(kit_update(s, 1, i, 2, 2));
    s->ops->close(s);
    s = kit_open(64 * MIB);
    ck_assert_int_eq(kit_update(s, 2, 0, 2, 1), PS_ERR_FULL);
    for (uint32_t i = 0; i < 400; i++)
        kit_check(s, 1, i, i < 80 ? 2 : 1);
    s->ops->close(s);
}
END_TEST

START_TEST(unlinked_directory_is_noticed)
{
    struct store *s = kit_open(STORE_SUITE_BYTES);
    char path[PATH_MAX];

    ck_assert(store_lmdb_still_there(s));
    OK(store_lmdb_sync(s));
    snprintf(path, sizeof path, "%s/data.mdb", kit_dir);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert(!store_lmdb_still_there(s));
    close(open(path, O_CREAT | O_WRONLY, 0600)); /* another file of that name is not the store's */
    ck_assert(!store_lmdb_still_there(s));
    OK(kit_update(s, 1, 1, 0, 1));
    s->ops->close(s);
}
END_TEST

START_TEST(too_many_different_snapshots_are_refused)
{
    enum { MOST = 512 };
    struct store_lmdb_options o = {.dir = kit_dir, .max_bytes = STORE_SUITE_BYTES, .readers_max = 16};
    struct store_snapshot *snap[MOST];
    struct store_dir_report report;
    struct store *s;
    struct ps_error e;
    enum ps_err err = PS_OK;
    int n = 0;

    OK(store_lmdb_open(&o, &s, &report, &e));
    while (n < MOST) {
        OK(kit_update(s, 1, 0, 0, (uint64_t)n));
        if ((err = s->ops->snapshot_ref(s, &snap[n])) != PS_OK)
            break;
        n++;
    }
    ck_assert_int_eq(err, PS_ERR_LIMIT);
    ck_assert_int_ge(n, 16);
    while (n > 0)
        s->ops->snapshot_unref(s, snap[--n]);
    OK(s->ops->snapshot_ref(s, &snap[0])); /* and goes on */
    s->ops->snapshot_unref(s, snap[0]);
    s->ops->close(s);
}
END_TEST

/* ---- Growth and room ---- */

/* Bytes of the file that LMDB ever wrote to: what is allocated ahead of its last page is a hole in this sense. */
static uint64_t
written_bytes(void)
{
    char path[PATH_MAX];
    off_t hole;
    int fd;

    snprintf(path, sizeof path, "%s/data.mdb", kit_dir);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    hole = lseek(fd, 0, SEEK_HOLE);
    close(fd);
    return (uint64_t)hole;
}

/* As a file that was copied without its empty parts. */
START_TEST(holes_of_a_file_are_backed_when_it_is_opened)
{
    struct store *s = kit_open(64 * MIB);
    struct store_usage usage;
    char path[PATH_MAX];
    uint64_t had;
    int fd;

    for (uint32_t i = 0; i < 32; i++)
        OK(kit_update(s, 1, i, 2, 1));
    s->ops->usage(s, &usage);
    had = usage.file_bytes;
    s->ops->close(s);
    snprintf(path, sizeof path, "%s/data.mdb", kit_dir);
    fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2 * MIB, (off_t)(had - 2 * MIB)), 0);
    close(fd);
    s = kit_open(64 * MIB);
    s->ops->usage(s, &usage);
    ck_assert_uint_ge(usage.file_bytes, 32 * layout_value_size(2));
    s->ops->close(s);
}
END_TEST

START_TEST(file_stays_within_115_percent_of_its_data)
{
    enum { LARGE = 512, MIDDLE = 512, SMALL = 4096, UPDATES = 20000 };
    static const uint32_t counts[LAYOUT_CLASSES] = {SMALL, MIDDLE, LARGE};
    struct test_rng r = {test_seed()};
    struct store *s = kit_open(1024 * MIB);
    struct store_usage usage;
    uint64_t data = 0;

    for (int c = 0; c < LAYOUT_CLASSES; c++)
        for (uint32_t i = 0; i < counts[c]; i++) {
            OK(kit_update(s, (uint32_t)c, i, c, 0));
            data += layout_value_size(c) + LAYOUT_PAGE_HEAD;
        }
    for (uint64_t n = 0; n < UPDATES; n++) {
        int c = test_below(&r, 8) == 0 ? 2 : (int)test_below(&r, 2);

        OK(kit_update(s, (uint32_t)c, (uint32_t)test_below(&r, counts[c]), c, n));
    }
    s->ops->usage(s, &usage);
    fprintf(stderr, "# data %.1f MiB, written %.1f MiB, allocated %.1f MiB, used %.1f MiB\n", (double)data / MIB,
            (double)written_bytes() / MIB, (double)usage.file_bytes / MIB, (double)usage.used_bytes / MIB);
    ck_assert_uint_le(written_bytes(), data / 100 * 115);
    ck_assert_uint_le(usage.file_bytes, data / 100 * 115 + 64 * MIB);
    s->ops->close(s);
}
END_TEST

/* New blocks until refused; then updates, each of another block and two at a time. */
static uint32_t
fill_then_update(struct store *s, uint32_t from, int updates)
{
    uint32_t n = from;
    enum ps_err err;

    while ((err = kit_update(s, 7, n, 2, 0)) == PS_OK)
        n++;
    ck_assert_int_eq(err, PS_ERR_FULL);
    ck_assert_uint_gt(n, 10);
    for (int i = 0; i < updates; i++) {
        OK(kit_update(s, 7, (uint32_t)i % n, 2, (uint64_t)i));
        ck_assert_int_eq(kit_update(s, 8, 0, 2, 1), PS_ERR_FULL);
    }
    for (int i = 0; i < updates; i++)
        if (i + (int)n >= updates)
            kit_check(s, 7, (uint32_t)i % n, (uint64_t)i);
    return n;
}

START_TEST(updates_go_on_when_the_limit_refuses_new_blocks)
{
    struct store *s = kit_open(STORE_SUITE_BYTES);

    fill_then_update(s, 0, 1000);
    s->ops->close(s);
    s = kit_open(STORE_SUITE_BYTES);
    OK(kit_update(s, 7, 0, 2, 5));
    kit_check(s, 7, 0, 5);
    s->ops->close(s);
}
END_TEST

START_TEST(full_tmpfs_is_an_error_and_updates_go_on)
{
    char hog[PATH_MAX];
    struct store *s;
    uint32_t n;

    if (!kit_mount(160 * MIB))
        return;
    snprintf(hog, sizeof hog, "%s/hog", kit_dir);
    s = kit_open(1024 * MIB); /* more than there is: the filesystem's end comes first */
    n = fill_then_update(s, 0, 500);
    kit_fill_disk(hog);
    n = fill_then_update(s, n, 500);
    s->ops->close(s);
    s = kit_open(1024 * MIB); /* kept even when there is no room for a page */
    OK(kit_update(s, 7, 1, 2, 77));
    kit_check(s, 7, 1, 77);
    ck_assert_int_eq(unlink(hog), 0);
    s->ops->close(s);
    umount(kit_dir);
}
END_TEST

START_TEST(room_that_comes_back_is_used)
{
    char hog[PATH_MAX];
    struct store *s;
    uint32_t n, more;

    if (!kit_mount(160 * MIB))
        return;
    snprintf(hog, sizeof hog, "%s/hog", kit_dir);
    s = kit_open(1024 * MIB);
    for (uint32_t i = 0; i < 20; i++)
        OK(kit_update(s, 7, i, 2, 0));
    kit_fill_disk(hog);
    n = fill_then_update(s, 20, 100);
    ck_assert_int_eq(unlink(hog), 0);
    for (more = n; kit_update(s, 7, more, 2, 0) == PS_OK; more++)
        ;
    ck_assert_uint_gt(more, n + 40);
    s->ops->close(s);
    umount(kit_dir);
}
END_TEST

START_TEST(too_small_a_tmpfs_is_refused)
{
    if (!kit_mount(8 * MIB))
        return;
    kit_refused(0, PS_ERR_FULL, "MiB are free on its tmpfs");
    umount(kit_dir);
}
END_TEST

/* ---- A reader of another thread ---- */

#define SHARED_BLOCKS 60

struct lmdb_shared {
    struct store *store;
    struct store_reader *reader;
    _Atomic uint64_t turns; /* of the writer */
    _Atomic uint64_t reads;
    _Atomic bool stuck; /* the writer is: the reader must move on */
    _Atomic bool over, bad;
    uint64_t seed;
};

/* A snapshot that the reader holds must stay unchanged, whatever the writer does in the meantime; and it never sees an
 * older value after a newer one. */
static void
read_one(struct lmdb_shared *sh, struct test_rng *r, uint64_t newest[SHARED_BLOCKS])
{
    struct store_key key = {.var = 7, .block = (uint32_t)test_below(r, SHARED_BLOCKS)};
    uint64_t version, until = atomic_load(&sh->turns) + test_below(r, 12);
    struct span v;

    if (sh->store->ops->reader_get(sh->reader, &key, &v) != PS_OK) {
        sh->bad = true;
        return;
    }
    version = store_suite_version(v.data);
    if (version < newest[key.block] || !store_suite_holds(v.data, v.len, &key, version))
        sh->bad = true;
    newest[key.block] = version;
    while (atomic_load(&sh->turns) < until && !atomic_load(&sh->stuck) && !atomic_load(&sh->over))
        sched_yield();
    if (!store_suite_holds(v.data, v.len, &key, version))
        sh->bad = true;
    sh->reads++;
}

static void *
reader_main(void *arg)
{
    struct lmdb_shared *sh = arg;
    struct test_rng r = {sh->seed};
    uint64_t newest[SHARED_BLOCKS] = {0};

    while (!atomic_load(&sh->over) && !sh->bad) {
        read_one(sh, &r, newest);
        if (test_below(&r, 3) == 0)
            sh->store->ops->reader_done(sh->reader);
    }
    return NULL;
}

/* The file comes to its limit, so updates go where pages are free: those that the reader pins must not count as free.
 * The live store keeps some for updates; the durable one is not filled. */
START_TEST(thread_reads_whole_values_while_updates_go_on_in_a_full_store)
{
    enum { TURNS = 1500 };
    struct store *s = kit_open(STORE_SUITE_BYTES);
    struct lmdb_shared sh = {.store = s, .seed = test_seed()};
    struct test_rng r = {sh.seed + 1};
    struct store_usage usage;
    pthread_t thread;
    uint32_t n = 0, full = 0;

    while (n <= (durable ? SHARED_BLOCKS + 22 : UINT32_MAX) && kit_update(s, 7, n, 2, 0) == PS_OK)
        n++;
    ck_assert_uint_gt(n, SHARED_BLOCKS);
    OK(s->ops->reader_open(s, &sh.reader));
    ck_assert_int_eq(pthread_create(&thread, NULL, reader_main, &sh), 0);
    for (uint64_t turn = 1; turn <= TURNS; turn++) {
        enum ps_err err = kit_update(s, 7, (uint32_t)test_below(&r, SHARED_BLOCKS), 2, turn);
        uint64_t reads = atomic_load(&sh.reads);

        ck_assert(err == PS_OK || err == PS_ERR_FULL);
        atomic_store(&sh.turns, turn);
        if (err == PS_OK)
            continue;
        full++;
        atomic_store(&sh.stuck, true);
        while (atomic_load(&sh.reads) == reads && !sh.bad)
            sched_yield();
        atomic_store(&sh.stuck, false);
    }
    atomic_store(&sh.over, true);
    pthread_join(thread, NULL);
    s->ops->reader_close(sh.reader);
    fprintf(stderr, "# %d updates, %u of them refused, %" PRIu64 " reads\n", TURNS, full, sh.reads);
    s->ops->usage(s, &usage);
    ck_assert_uint_le(usage.file_bytes, STORE_SUITE_BYTES + 64 * KIB); /* a disk's own blocks for it */
    ck_assert(!sh.bad);
    ck_assert_uint_gt(sh.reads, 10);
    ck_assert_uint_lt(full, TURNS - TURNS / 10); /* pages do come free as it reads on */
    s->ops->close(s);
}
END_TEST

/* ---- kill -9 ---- */

#define KILL_ROUNDS   50
#define KILL_BLOCKS   40
#define KILL_PER_TURN 5

/* Which blocks turn number `version` updates: known to writer and checker alike. */
static uint32_t
kill_block(uint64_t version, int i)
{
    struct test_rng r = {version * 1000003 + (uint64_t)i};

    return (uint32_t)test_below(&r, KILL_BLOCKS);
}

static int
kill_class(uint32_t block)
{
    return (int)(block % LAYOUT_CLASSES);
}

static void
kill_turn(struct store *s, uint64_t version)
{
    char row[24];
    int n = snprintf(row, sizeof row, "%" PRIu64, version);

    OK(s->ops->begin(s, 6 * MIB));
    for (int i = 0; i < KILL_PER_TURN; i++) {
        struct store_key key = {.var = 1, .block = kill_block(version, i)};
        size_t size = layout_value_size(kill_class(key.block));
        void *place;

        OK(s->ops->reserve(s, &key, size, &place));
        store_suite_fill(place, size, &key, version);
    }
    OK(s->ops->row_put(s, STORE_SHARD, (struct span){"last", 4}, (struct span){row, (size_t)n}));
    OK(s->ops->commit(s));
}

/* Check's assertions write to a file that this process shares with its parent: one that is killed in the midst of that
 * would leave half a message there. Its descriptors but this one lead nowhere from now on. */
static void
leave_check(int but)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = STDERR_FILENO + 1; fd < 256; fd++)
        if (fd != but && fd != nowhere && fcntl(fd, F_GETFD) >= 0)
            dup2(nowhere, fd);
}

/* Commit turns for ever, reporting the number of each after its commit. */
static void
kill_writer(int fd, uint64_t version)
{
    struct store *s = kit_open(512 * MIB);

    for (;;) {
        version++;
        kill_turn(s, version);
        if (write(fd, &version, sizeof version) != sizeof version)
            _exit(1);
    }
}

static bool
read_last(void *arg, struct span key, struct span value)
{
    char text[24] = "";

    (void)key;
    memcpy(text, value.data, MIN(value.len, sizeof text - 1));
    *(uint64_t *)arg = strtoull(text, NULL, 10);
    return true;
}

/* The state must be exactly that after turn `last`, whichever that is; at least what was acknowledged. */
static uint64_t
kill_check(uint64_t acked)
{
    struct store *s = kit_open(512 * MIB);
    uint64_t last = 0, want[KILL_BLOCKS] = {0};

    OK(s->ops->each_row(s, STORE_SHARD, read_last, &last));
    ck_assert_uint_ge(last, acked);
    ck_assert_uint_le(last, acked + 1);
    for (uint64_t version = 1; version <= last; version++)
        for (int i = 0; i < KILL_PER_TURN; i++)
            want[kill_block(version, i)] = version;
    for (uint32_t b = 0; b < KILL_BLOCKS; b++)
        if (want[b] > 0)
            kit_check(s, 1, b, want[b]);
    s->ops->close(s);
    return last;
}

static uint64_t
kill_round(struct test_rng *r, uint64_t version)
{
    uint64_t acked = version, wait_us = 500 + test_below(r, 25000);
    int pipes[2];
    pid_t child;

    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        close(pipes[0]);
        leave_check(pipes[1]);
        kill_writer(pipes[1], version);
    }
    close(pipes[1]);
    ck_assert_int_eq(read(pipes[0], &acked, sizeof acked), sizeof acked); /* it is up */
    usleep((useconds_t)wait_us);
    kill(child, SIGKILL);
    while (read(pipes[0], &acked, sizeof acked) == sizeof acked)
        ;
    close(pipes[0]);
    waitpid(child, NULL, 0);
    return kill_check(acked);
}

START_TEST(kill_9_tears_nothing_and_keeps_what_was_acknowledged)
{
    struct test_rng r = {test_seed()};
    uint64_t version = 0;

    for (int round = 0; round < KILL_ROUNDS; round++)
        version = kill_round(&r, version);
    fprintf(stderr, "# %" PRIu64 " commits over %d kills\n", version, KILL_ROUNDS);
}
END_TEST

static Suite *
make_suite(void)
{
    static const struct store_maker maker = {live_make, kit_crash, kit_unmake, false};
    Suite *suite = suite_create("store_lmdb");
    TCase *tc = tcase_create("store_lmdb");

    suite_add_tcase(suite, store_suite_case(&maker));
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, store_lmdb_setup, kit_teardown);
    tcase_add_test(tc, blocks_are_there_after_a_restart);
    tcase_add_test(tc, second_opener_is_told_who_has_it);
    tcase_add_test(tc, missing_parent_is_named);
    tcase_add_test(tc, unwritable_directory_is_refused);
    tcase_add_test(tc, file_in_place_of_the_directory_is_refused);
    tcase_add_test(tc, too_small_a_limit_is_refused);
    tcase_add_test(tc, foreign_file_is_refused);
    tcase_add_test(tc, smaller_limit_than_before_still_serves_and_updates);
    tcase_add_test(tc, unlinked_directory_is_noticed);
    tcase_add_test(tc, too_many_different_snapshots_are_refused);
    tcase_add_test(tc, holes_of_a_file_are_backed_when_it_is_opened);
    tcase_add_test(tc, file_stays_within_115_percent_of_its_data);
    tcase_add_test(tc, updates_go_on_when_the_limit_refuses_new_blocks);
    tcase_add_test(tc, full_tmpfs_is_an_error_and_updates_go_on);
    tcase_add_test(tc, room_that_comes_back_is_used);
    tcase_add_test(tc, too_small_a_tmpfs_is_refused);
    tcase_add_test(tc, thread_reads_whole_values_while_updates_go_on_in_a_full_store);
    tcase_add_test(tc, kill_9_tears_nothing_and_keeps_what_was_acknowledged);
    suite_add_tcase(suite, tc);
    tc = tcase_create("durable");
    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup_durable, kit_teardown);
    tcase_add_test(tc, thread_reads_whole_values_while_updates_go_on_in_a_full_store);
    tcase_add_test(tc, kill_9_tears_nothing_and_keeps_what_was_acknowledged);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
