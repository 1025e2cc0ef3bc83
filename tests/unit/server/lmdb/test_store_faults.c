/* The LMDB store on a disk that fails: each call that it makes on its data file fails, once or from then on, the nth
 * for every n, in both modes. Every failure has a typed error; committed data is there; the store serves again when the
 * cause is gone, or, once the durable one could not write or sync, refuses to. */
#include <string.h>
#include <unistd.h>

#include "common/core/model/layout.h"
#include "tests/faults/fail_io.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/store_lmdb_kit.h"
#include "tests/unit/kits/store_suite.h"

#define OK(call) ck_assert_int_eq((call), PS_OK)

#define TURNS_BEFORE 3  /* with a disk that is fine */
#define TURNS        12 /* in all */
#define BLOCKS       7
#define NTH_MAX      1000

static const char *const calls[] = {"pwrite", "pwritev", "write",     "writev",   "fdatasync",
                                    "fsync",  "msync",   "ftruncate", "fallocate"};
static const char *const faults[] = {"EIO", "ENOSPC", "SHORT"};

static bool durable;
static char line[128]; /* what fails now */

static void
setup_live(void)
{
    fail_io_set(NULL);
    kit_setup(durable = false);
}

static void
setup_durable(void)
{
    fail_io_set(NULL);
    kit_setup(durable = true);
}

static void
break_disk(const char *call, const char *fault, unsigned nth, unsigned count)
{
    snprintf(line, sizeof line, "%s %s %u %u", call, fault, nth, count);
    ck_assert(fail_io_set(line));
}

/* ---- The script ---- */

static struct store_key
nth_key(uint64_t i)
{
    return (struct store_key){.var = 1, .block = (uint32_t)(i % BLOCKS)};
}

/* Turn t updates blocks t and t + 1 and records that in a row. */
static enum ps_err
write_turn(struct store *s, uint64_t turn)
{
    enum ps_err err;

    for (uint64_t i = turn; i < turn + 2; i++) {
        struct store_key key = nth_key(i);
        size_t size = layout_value_size((int)(key.block % LAYOUT_CLASSES));
        void *place;

        if ((err = s->ops->reserve(s, &key, size, &place)) != PS_OK)
            return err;
        store_suite_fill(place, size, &key, turn);
    }
    return s->ops->row_put(s, STORE_SHARD, (struct span){"turn", 4}, (struct span){&turn, sizeof turn});
}

static enum ps_err
run_turn(struct store *s, uint64_t turn)
{
    enum ps_err err = s->ops->begin(s, 4 * MIB);

    if (err != PS_OK)
        return err;
    if ((err = write_turn(s, turn)) == PS_OK)
        return s->ops->commit(s);
    s->ops->abort(s);
    return err;
}

static bool
read_turn(void *arg, struct span key, struct span value)
{
    (void)key;
    memcpy(arg, value.data, sizeof(uint64_t));
    return true;
}

/* All is as after this turn. */
static void
check_state(struct store *s, uint64_t turn)
{
    uint64_t want[BLOCKS] = {0}, says = 0;

    for (uint64_t t = 1; t <= turn; t++)
        want[t % BLOCKS] = want[(t + 1) % BLOCKS] = t;
    OK(s->ops->each_row(s, STORE_SHARD, read_turn, &says));
    ck_assert_msg(says == turn, "%s: the row is of turn %" PRIu64 ", not %" PRIu64, line, says, turn);
    for (uint32_t b = 0; b < BLOCKS; b++)
        if (want[b] > 0)
            kit_check(s, 1, b, want[b]);
}

static uint64_t
last_turn(struct store *s)
{
    uint64_t turn = 0;

    OK(s->ops->each_row(s, STORE_SHARD, read_turn, &turn));
    return turn;
}

/* ---- One run ---- */

struct store_faults_run {
    uint64_t committed; /* the last turn whose commit succeeded */
    uint64_t tried;     /* the last one that was tried */
    bool opened, untrusted;
};

static void
make_before(void)
{
    struct store *s = kit_open(STORE_SUITE_BYTES);

    for (uint64_t turn = 1; turn <= TURNS_BEFORE; turn++)
        OK(run_turn(s, turn));
    s->ops->close(s);
}

static struct store *
open_failing(struct store_faults_run *r)
{
    struct store_dir_report report;
    struct ps_error e = {0};
    struct store *s = NULL;
    enum ps_err err = kit_try_open(STORE_SUITE_BYTES, &s, &report, &e);

    r->opened = err == PS_OK;
    if (!r->opened) {
        ck_assert_msg(err == PS_ERR_FULL || err == PS_ERR_IO, "%s: %s", line, e.text);
        ck_assert_ptr_null(s);
        ck_assert_ptr_nonnull(strstr(e.text, kit_dir));
    }
    return s;
}

/* It refuses, and says why. LMDB may refuse reads as well: after its meta page could not be written. */
static void
check_refuses(struct store *s, struct store_faults_run *r)
{
    uint64_t turn;

    r->untrusted = true;
    fail_io_set(NULL); /* even when the disk is fine again */
    ck_assert(durable);
    ck_assert_int_eq(s->ops->begin(s, 0), PS_ERR_IO);
    ck_assert_int_eq(s->ops->begin(s, MIB), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(store_lmdb_why(s), "data.mdb"));
    if (s->ops->each_row(s, STORE_SHARD, read_turn, &turn) == PS_OK)
        check_state(s, r->committed);
}

/* A turn failed: its state is gone, and it goes through when the disk is fine again. */
static void
check_serves_again(struct store *s, struct store_faults_run *r, enum ps_err err)
{
    ck_assert_msg(err == PS_ERR_FULL, "%s: turn %" PRIu64 ": %s", line, r->tried, ps_err_name(err));
    ck_assert_ptr_nonnull(strstr(store_lmdb_why(s), "data.mdb"));
    check_state(s, r->committed);
    fail_io_set(NULL);
    OK(run_turn(s, r->tried));
}

static void
run_turns(struct store *s, struct store_faults_run *r)
{
    for (r->tried = TURNS_BEFORE + 1; r->tried <= TURNS; r->tried++) {
        enum ps_err err = run_turn(s, r->tried);

        if (store_lmdb_untrusted(s)) {
            ck_assert_int_eq(err, PS_ERR_IO);
            check_refuses(s, r);
            return;
        }
        if (err != PS_OK)
            check_serves_again(s, r, err);
        r->committed = r->tried;
        check_state(s, r->committed);
    }
    r->tried = TURNS;
}

/* Nothing fails any more. The store holds the turns that were reported as committed; where the disk failed in the
 * middle of a commit, that one may be there as well, and whole. */
static void
check_after(const struct store_faults_run *r)
{
    struct store *s = kit_open(STORE_SUITE_BYTES);
    uint64_t turn = last_turn(s);

    ck_assert_msg(turn == r->committed || (r->untrusted && turn == r->tried),
                  "%s: turn %" PRIu64 " is there, not %" PRIu64, line, turn, r->committed);
    check_state(s, turn);
    OK(run_turn(s, turn + 1));
    check_state(s, turn + 1);
    s->ops->close(s);
}

/* False: the script makes fewer such calls. */
static bool
run_with(const char *call, const char *fault, unsigned nth, unsigned count, unsigned *refused)
{
    struct store_faults_run r = {.committed = TURNS_BEFORE};
    struct store *s;
    unsigned hits;

    make_before();
    break_disk(call, fault, nth, count);
    if ((s = open_failing(&r)) != NULL) {
        run_turns(s, &r);
        if (!r.untrusted && !durable) {
            enum ps_err err = store_lmdb_sync(s);

            ck_assert(err == PS_OK || err == PS_ERR_IO);
        }
        s->ops->close(s);
    }
    hits = fail_io_hits();
    *refused += r.untrusted;
    fail_io_set(NULL);
    check_after(&r);
    kit_teardown();
    kit_setup(durable);
    return hits > 0 || r.untrusted || r.committed < TURNS;
}

START_TEST(nth_call_fails)
{
    unsigned runs = 0, refused = 0;
    unsigned count = _i == 0 ? 1 : 0;

    for (size_t c = 0; c < ARRAY_LEN(calls); c++)
        for (size_t f = 0; f < ARRAY_LEN(faults); f++)
            for (unsigned nth = 1; nth <= NTH_MAX && run_with(calls[c], faults[f], nth, count, &refused); nth++)
                runs++;
    fprintf(stderr, "# %s: %u failures, %u ended in distrust\n", durable ? "durable" : "live", runs, refused);
    ck_assert_uint_gt(runs, durable ? 50 : 3);
    ck_assert_int_eq(refused > 0, durable);
}
END_TEST

START_TEST(file_that_cannot_grow_says_why)
{
    struct store *s = kit_open(STORE_SUITE_BYTES);
    uint64_t turn = 1;

    break_disk("fallocate", _i == 0 ? "EIO" : "ENOSPC", 1, 0);
    for (uint32_t i = 0; i < 64 && kit_update(s, 2, i, 2, turn) == PS_OK; i++)
        turn++;
    ck_assert_int_eq(kit_update(s, 2, 64, 2, 1), PS_ERR_FULL);
    ck_assert_ptr_nonnull(strstr(store_lmdb_why(s), _i == 0 ? "Input/output error" : "is full"));
    fail_io_set(NULL);
    OK(kit_update(s, 2, 64, 2, 1));
    s->ops->close(s);
}
END_TEST

/* A new file whose name is not on the disk is gone after power loss, with all that was synced in it. */
START_TEST(a_new_file_counts_when_its_name_is_on_the_disk)
{
    const char *dirs[] = {strrchr(kit_dir, '/'), strrchr(kit_base, '/')}; /* its own, and that in its parent */
    struct store_dir_report report;
    struct ps_error e;
    struct store *s;

    snprintf(line, sizeof line, "fsync EIO 1 1 %s", dirs[_i]);
    ck_assert(fail_io_set(line));
    ck_assert_int_eq(kit_try_open(0, &s, &report, &e), PS_ERR_IO);
    ck_assert_uint_eq(fail_io_hits(), 1);
    ck_assert_int_ne(access(kit_dir, F_OK), 0);
    s = kit_open(0);
    s->ops->close(s);
    ck_assert(fail_io_set(line));
    s = kit_open(0); /* once there, it is there */
    ck_assert_uint_eq(fail_io_hits(), 0);
    s->ops->close(s);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("store_faults");
    TCase *live = tcase_create("live"), *disk = tcase_create("durable");

    tcase_add_checked_fixture(live, setup_live, kit_teardown);
    tcase_add_checked_fixture(disk, setup_durable, kit_teardown);
    tcase_set_timeout(live, 60);
    tcase_set_timeout(disk, 60);
    tcase_add_loop_test(live, nth_call_fails, 0, 2);
    tcase_add_loop_test(disk, nth_call_fails, 0, 2);
    tcase_add_loop_test(live, file_that_cannot_grow_says_why, 0, 2);
    tcase_add_loop_test(disk, file_that_cannot_grow_says_why, 0, 2);
    tcase_add_loop_test(disk, a_new_file_counts_when_its_name_is_on_the_disk, 0, 2);
    suite_add_tcase(suite, live);
    suite_add_tcase(suite, disk);
    return suite;
}

CHECK_MAIN(make_suite)
