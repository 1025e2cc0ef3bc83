#include "server/core/store/store_mem.h"

#include "common/core/model/layout.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/store_suite.h"

#define OK(call) ck_assert_int_eq((call), PS_OK)

static const struct store_key key1 = {.var = 1};

static struct store *
store_mem_make(void)
{
    return store_mem_new(STORE_SUITE_BYTES);
}

static struct store *
store_mem_crash_now(struct store *s, bool writing)
{
    (void)writing;
    store_mem_crash(s);
    return s;
}

static void
store_mem_unmake(struct store *s)
{
    s->ops->close(s);
}

START_TEST(places_are_not_zeroed)
{
    struct store *s = store_mem_make();
    void *place;

    OK(s->ops->begin(s, layout_value_size(0)));
    OK(s->ops->reserve(s, &key1, layout_value_size(0), &place));
    ck_assert_int_ne(*(const char *)place, 0);
    s->ops->abort(s);
    store_mem_unmake(s);
}
END_TEST

START_TEST(failures_come_when_asked_for_and_once)
{
    size_t size = layout_value_size(0);
    struct store *s = store_mem_make();
    void *place;

    store_mem_fail_at(s, STORE_MEM_FAIL_BEGIN, 1);
    ck_assert_int_eq(s->ops->begin(s, 0), PS_ERR_IO);
    OK(s->ops->begin(s, size));
    store_mem_fail_at(s, STORE_MEM_FAIL_RESERVE, 2);
    OK(s->ops->reserve(s, &key1, size, &place));
    ck_assert_int_eq(s->ops->reserve(s, &key1, size, &place), PS_ERR_IO);
    OK(s->ops->reserve(s, &key1, size, &place));
    store_mem_fail_at(s, STORE_MEM_FAIL_COMMIT, 1);
    ck_assert_int_eq(s->ops->commit(s), PS_ERR_IO);
    OK(s->ops->begin(s, 0));
    ck_assert_int_eq(s->ops->get(s, &key1, &(struct span){0}), PS_ERR_NOT_FOUND);
    OK(s->ops->commit(s));
    store_mem_unmake(s);
}
END_TEST

/* ---- Every operation fails on demand, once ---- */

static bool
visit_none(void *arg, const struct store_key *key, struct span value)
{
    (void)arg;
    (void)key;
    (void)value;
    return true;
}

static bool
visit_no_row(void *arg, struct span key, struct span value)
{
    (void)arg;
    (void)key;
    (void)value;
    return true;
}

static enum ps_err
in_transaction(struct store *s, enum store_mem_fail what)
{
    struct span key = {"k", 1};
    struct span v;
    void *place;

    switch (what) {
    case STORE_MEM_FAIL_RESERVE:
        return s->ops->reserve(s, &key1, layout_value_size(0), &place);
    case STORE_MEM_FAIL_GET:
        return s->ops->get(s, &key1, &v);
    case STORE_MEM_FAIL_ERASE:
        return s->ops->erase(s, &key1);
    case STORE_MEM_FAIL_ROW_PUT:
        return s->ops->row_put(s, STORE_JOBS, key, key);
    default:
        return s->ops->row_erase(s, STORE_JOBS, key);
    }
}

static enum ps_err
store_mem_reading(struct store *s, enum store_mem_fail what)
{
    struct store_snapshot *snap;
    struct store_reader *r;
    struct span v;
    enum ps_err err;

    switch (what) {
    case STORE_MEM_FAIL_EACH:
        if ((err = s->ops->each_block(s, visit_none, NULL)) == PS_OK &&
            (err = s->ops->each_block_from(s, &key1, visit_none, NULL)) == PS_OK)
            err = s->ops->each_row(s, STORE_JOBS, visit_no_row, NULL);
        return err;
    case STORE_MEM_FAIL_READER_OPEN:
    case STORE_MEM_FAIL_READER_GET:
        if ((err = s->ops->reader_open(s, &r)) != PS_OK)
            return err;
        err = s->ops->reader_get(r, &key1, &v);
        s->ops->reader_close(r);
        return err;
    default:
        if ((err = s->ops->snapshot_ref(s, &snap)) != PS_OK)
            return err;
        err = s->ops->snapshot_get(s, snap, &key1, &v);
        s->ops->snapshot_unref(s, snap);
        return err;
    }
}

static struct store *
make_with_key1(void)
{
    struct store *s = store_mem_make();
    void *place;

    OK(s->ops->begin(s, MIB));
    OK(s->ops->reserve(s, &key1, layout_value_size(0), &place));
    store_suite_fill(place, layout_value_size(0), &key1, 1);
    OK(s->ops->row_put(s, STORE_JOBS, (struct span){"k", 1}, (struct span){"v", 1}));
    OK(s->ops->commit(s));
    return s;
}

START_TEST(every_operation_can_be_told_to_fail)
{
    enum store_mem_fail what = (enum store_mem_fail)_i;
    struct store *s = make_with_key1();

    store_mem_fail_at(s, what, 1);
    if (what == STORE_MEM_FAIL_BEGIN) {
        ck_assert_int_eq(s->ops->begin(s, 0), PS_ERR_IO);
    } else if (what == STORE_MEM_FAIL_COMMIT) {
        OK(s->ops->begin(s, 0));
        ck_assert_int_eq(s->ops->commit(s), PS_ERR_IO);
    } else if (what == STORE_MEM_FAIL_RESERVE || (what >= STORE_MEM_FAIL_GET && what <= STORE_MEM_FAIL_ROW_ERASE)) {
        OK(s->ops->begin(s, MIB));
        ck_assert_int_eq(in_transaction(s, what), PS_ERR_IO);
        OK(in_transaction(s, what));
        s->ops->abort(s);
    } else {
        ck_assert_int_eq(store_mem_reading(s, what), PS_ERR_IO);
        OK(store_mem_reading(s, what));
    }
    store_mem_fail_at(s, what, 1);
    store_mem_fail_none(s);
    OK(s->ops->begin(s, 0));
    OK(s->ops->commit(s));
    OK(store_mem_reading(s, what));
    store_mem_unmake(s);
}
END_TEST

/* ---- A disk ---- */

/* -1: there is none. */
static int64_t
version_of(struct store *s, const struct store_key *key)
{
    struct store_snapshot *snap;
    struct span v;
    int64_t version = -1;

    OK(s->ops->snapshot_ref(s, &snap));
    if (s->ops->snapshot_get(s, snap, key, &v) == PS_OK)
        version = (int64_t)store_suite_version(v.data);
    s->ops->snapshot_unref(s, snap);
    return version;
}

static enum ps_err
store_mem_update(struct store *s, const struct store_key *key, uint64_t version)
{
    size_t size = layout_value_size(0);
    enum ps_err err = s->ops->begin(s, size);
    void *place;

    if (err != PS_OK)
        return err;
    OK(s->ops->reserve(s, key, size, &place));
    store_suite_fill(place, size, key, version);
    return s->ops->commit(s);
}

START_TEST(full_disk_refuses_until_there_is_room)
{
    struct store *s = make_with_key1();
    void *place;

    store_mem_full(s, true);
    ck_assert_int_eq(store_mem_update(s, &key1, 2), PS_ERR_FULL);
    store_mem_full(s, false);
    OK(s->ops->begin(s, MIB));
    OK(s->ops->reserve(s, &key1, layout_value_size(0), &place));
    store_mem_full(s, true); /* in the middle of a transaction */
    ck_assert_int_eq(s->ops->commit(s), PS_ERR_FULL);
    ck_assert_int_eq(version_of(s, &key1), 1);
    ck_assert(!store_mem_untrusted(s));
    store_mem_full(s, false);
    OK(store_mem_update(s, &key1, 3));
    ck_assert_int_eq(version_of(s, &key1), 3);
    store_mem_limit(s, 2 * layout_value_size(0));
    OK(store_mem_update(s, &key1, 4));
    ck_assert_int_eq(store_mem_update(s, &(struct store_key){.var = 2}, 1), PS_OK);
    ck_assert_int_eq(store_mem_update(s, &key1, 5), PS_ERR_FULL);
    store_mem_unmake(s);
}
END_TEST

START_TEST(broken_disk_is_not_trusted_and_what_it_holds_comes_to_light_in_a_crash)
{
    struct store_key other = {.var = 2};
    bool kept = _i != 0;
    struct store *s = make_with_key1();

    OK(store_mem_update(s, &key1, 2));
    store_mem_break_at(s, 2, kept);
    OK(store_mem_update(s, &key1, 3));
    OK(s->ops->begin(s, MIB));
    for (int i = 0; i < 2; i++) {
        const struct store_key *key = i == 0 ? &key1 : &other;
        void *place;

        OK(s->ops->reserve(s, key, layout_value_size(0), &place));
        store_suite_fill(place, layout_value_size(0), key, 4);
    }
    ck_assert_int_eq(s->ops->commit(s), PS_ERR_IO);
    ck_assert(store_mem_untrusted(s));
    store_mem_fail_none(s); /* a repaired disk changes nothing */
    ck_assert_int_eq(s->ops->begin(s, 0), PS_ERR_IO);
    ck_assert_int_eq(version_of(s, &key1), 3);
    ck_assert_int_eq(version_of(s, &other), -1);
    store_mem_crash(s);
    ck_assert(!store_mem_untrusted(s));
    ck_assert_int_eq(version_of(s, &key1), kept ? 4 : 3);
    ck_assert_int_eq(version_of(s, &other), kept ? 4 : -1);
    OK(store_mem_update(s, &key1, 5));
    store_mem_break_at(s, 1, kept);
    ck_assert_int_eq(store_mem_update(s, &key1, 6), PS_ERR_IO);
    store_mem_unmake(s); /* it is closed as it is */
}
END_TEST

static bool
count_rows(void *arg, struct span key, struct span value)
{
    (void)key;
    (void)value;
    ++*(int *)arg;
    return true;
}

START_TEST(wiped_store_is_as_new)
{
    struct store *s = make_with_key1();
    struct store_snapshot *snap;
    struct store_reader *r;
    struct store_usage usage;
    struct span v;
    int rows = 0;

    OK(s->ops->snapshot_ref(s, &snap)); /* and readers and open transactions are gone */
    OK(s->ops->reader_open(s, &r));
    OK(s->ops->reader_get(r, &key1, &v));
    OK(s->ops->begin(s, 0));
    OK(s->ops->erase(s, &key1));
    OK(s->ops->commit(s));
    OK(s->ops->begin(s, 0));
    OK(s->ops->row_put(s, STORE_VARS, (struct span){"a", 1}, (struct span){"b", 1}));
    store_mem_wipe(s);
    ck_assert_int_eq(version_of(s, &key1), -1);
    OK(s->ops->each_row(s, STORE_JOBS, count_rows, &rows));
    OK(s->ops->each_row(s, STORE_VARS, count_rows, &rows));
    ck_assert_int_eq(rows, 0);
    s->ops->usage(s, &usage);
    ck_assert_uint_eq(usage.used_bytes, 0);
    OK(store_mem_update(s, &key1, 9));
    ck_assert_int_eq(version_of(s, &key1), 9);
    store_mem_unmake(s);
}
END_TEST

static Suite *
make_suite(void)
{
    static const struct store_maker maker = {store_mem_make, store_mem_crash_now, store_mem_unmake, false};
    Suite *suite = suite_create("store_mem");
    TCase *tc = tcase_create("store_mem");

    suite_add_tcase(suite, store_suite_case(&maker));
    tcase_add_test(tc, places_are_not_zeroed);
    tcase_add_test(tc, failures_come_when_asked_for_and_once);
    tcase_add_loop_test(tc, every_operation_can_be_told_to_fail, 0, STORE_MEM_FAILS_ALL);
    tcase_add_test(tc, full_disk_refuses_until_there_is_room);
    tcase_add_loop_test(tc, broken_disk_is_not_trusted_and_what_it_holds_comes_to_light_in_a_crash, 0, 2);
    tcase_add_test(tc, wiped_store_is_as_new);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
