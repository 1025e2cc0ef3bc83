#include "tests/unit/kits/store_suite.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/model/layout.h"
#include "tests/unit/kits/check_main.h"

static const struct store_maker *maker;
static struct store *store;

static void
store_suite_setup(void)
{
    store = maker->make();
    ck_assert_ptr_nonnull(store);
}

static void
store_suite_teardown(void)
{
    maker->unmake(store);
}

/* ---- Values ---- */

static uint64_t
store_suite_mix(const struct store_key *key, uint64_t version, uint64_t i)
{
    uint64_t base = (uint64_t)key->generation << 56 ^ (uint64_t)key->var << 32 ^ key->block;

    return (base + 1) * 0x9e3779b97f4a7c15u + version * 0xbf58476d1ce4e5b9u + i;
}

void
store_suite_fill(void *place, size_t size, const struct store_key *key, uint64_t version)
{
    uint64_t *words = place;

    words[0] = version;
    for (size_t i = 1; i < size / 8; i++)
        words[i] = store_suite_mix(key, version, i);
}

uint64_t
store_suite_version(const void *value)
{
    uint64_t version;

    memcpy(&version, value, sizeof version);
    return version;
}

bool
store_suite_holds(const void *value, size_t size, const struct store_key *key, uint64_t version)
{
    const uint64_t *words = value;

    if (words[0] != version)
        return false;
    for (size_t i = 1; i < size / 8; i++)
        if (words[i] != store_suite_mix(key, version, i))
            return false;
    return true;
}

#define OK(call) ck_assert_int_eq((call), PS_OK)

static const struct store_key key1 = {.var = 1, .block = 2};

static void
store_suite_put(const struct store_key *key, int size_class, uint64_t version)
{
    size_t size = layout_value_size(size_class);
    void *place;

    OK(store->ops->reserve(store, key, size, &place));
    store_suite_fill(place, size, key, version);
}

static void
put_alone(const struct store_key *key, int size_class, uint64_t version)
{
    OK(store->ops->begin(store, layout_value_size(size_class)));
    store_suite_put(key, size_class, version);
    OK(store->ops->commit(store));
}

/* Version that the last committed state has of the key; -1: none. */
static int64_t
store_suite_committed(const struct store_key *key)
{
    struct store_snapshot *snap;
    struct span v;
    int64_t version = -1;

    OK(store->ops->snapshot_ref(store, &snap));
    if (store->ops->snapshot_get(store, snap, key, &v) == PS_OK) {
        version = (int64_t)store_suite_version(v.data);
        ck_assert(store_suite_holds(v.data, v.len, key, (uint64_t)version));
    }
    store->ops->snapshot_unref(store, snap);
    return version;
}

static struct span
store_suite_text(const char *s)
{
    return (struct span){s, strlen(s)};
}

/* ---- Blocks ---- */

static bool
count_block(void *arg, const struct store_key *key, struct span value)
{
    (void)key;
    (void)value;
    ++*(int *)arg;
    return true;
}

static bool
count_row(void *arg, struct span key, struct span value)
{
    (void)key;
    (void)value;
    ++*(int *)arg;
    return true;
}

START_TEST(new_store_is_empty)
{
    int blocks = 0, rows = 0;
    struct span v;

    OK(store->ops->each_block(store, count_block, &blocks));
    for (int t = 0; t < STORE_TABLES; t++)
        OK(store->ops->each_row(store, (enum store_table)t, count_row, &rows));
    ck_assert_int_eq(blocks, 0);
    ck_assert_int_eq(rows, 0);
    OK(store->ops->begin(store, 0));
    ck_assert_int_eq(store->ops->get(store, &key1, &v), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(store->ops->erase(store, &key1), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(store->ops->row_erase(store, STORE_JOBS, store_suite_text("a")), PS_ERR_NOT_FOUND);
    OK(store->ops->commit(store));
}
END_TEST

START_TEST(committed_block_is_there_and_uncommitted_is_not)
{
    OK(store->ops->begin(store, layout_value_size(1)));
    store_suite_put(&key1, 1, 7);
    ck_assert_int_eq(store_suite_committed(&key1), -1);
    OK(store->ops->commit(store));
    ck_assert_int_eq(store_suite_committed(&key1), 7);
}
END_TEST

START_TEST(aborted_transaction_leaves_nothing)
{
    struct store_key other = {.var = 1, .block = 3};
    int rows = 0;

    put_alone(&key1, 0, 1);
    OK(store->ops->begin(store, MIB));
    store_suite_put(&key1, 0, 2);
    store_suite_put(&other, 0, 2);
    OK(store->ops->row_put(store, STORE_JOBS, store_suite_text("job"), store_suite_text("x")));
    store->ops->abort(store);
    ck_assert_int_eq(store_suite_committed(&key1), 1);
    ck_assert_int_eq(store_suite_committed(&other), -1);
    OK(store->ops->each_row(store, STORE_JOBS, count_row, &rows));
    ck_assert_int_eq(rows, 0);
}
END_TEST

START_TEST(old_value_stays_readable_while_the_new_one_is_written)
{
    struct span old[LAYOUT_CLASSES];
    struct store_key key[LAYOUT_CLASSES];

    for (int c = 0; c < LAYOUT_CLASSES; c++) {
        key[c] = (struct store_key){.var = 9, .block = (uint32_t)c};
        put_alone(&key[c], c, 1);
    }
    OK(store->ops->begin(store, 2 * MIB));
    for (int c = 0; c < LAYOUT_CLASSES; c++) {
        OK(store->ops->get(store, &key[c], &old[c]));
        store_suite_put(&key[c], c, 2);
    }
    for (int c = 0; c < LAYOUT_CLASSES; c++)
        ck_assert(store_suite_holds(old[c].data, old[c].len, &key[c], 1));
    OK(store->ops->commit(store));
    for (int c = 0; c < LAYOUT_CLASSES; c++)
        ck_assert_int_eq(store_suite_committed(&key[c]), 2);
}
END_TEST

START_TEST(second_reserve_returns_the_same_place_as_it_was_left)
{
    size_t size = layout_value_size(1);
    struct span now;
    void *first, *second;

    put_alone(&key1, 1, 1);
    OK(store->ops->begin(store, size));
    OK(store->ops->reserve(store, &key1, size, &first));
    store_suite_fill(first, size, &key1, 2);
    OK(store->ops->get(store, &key1, &now));
    ck_assert_ptr_eq(now.data, first);
    OK(store->ops->reserve(store, &key1, size, &second));
    ck_assert_ptr_eq(first, second);
    ck_assert(store_suite_holds(second, size, &key1, 2));
    OK(store->ops->commit(store));
    ck_assert_int_eq(store_suite_committed(&key1), 2);
}
END_TEST

START_TEST(places_put_weights_on_64_bytes)
{
    OK(store->ops->begin(store, 8 * MIB));
    for (uint32_t i = 0; i < 20; i++) {
        struct store_key key = {.var = 3, .block = i};
        void *place;

        OK(store->ops->reserve(store, &key, layout_value_size((int)(i % LAYOUT_CLASSES)), &place));
        ck_assert_uint_eq(((uintptr_t)place + layout_array(16, 0)) % (maker->heap_places ? 16 : LAYOUT_ALIGN), 0);
    }
    store->ops->abort(store);
}
END_TEST

static void
check_weights(struct span v)
{
    ck_assert_uint_eq(((uintptr_t)v.data + layout_array(16, 0)) % LAYOUT_ALIGN, 0);
}

START_TEST(committed_values_have_weights_on_64_bytes)
{
    struct store_snapshot *snap;
    struct span v;

    for (uint32_t i = 0; i < 20; i++)
        put_alone(&(struct store_key){.var = 3, .block = i}, (int)(i % LAYOUT_CLASSES), 1);
    OK(store->ops->snapshot_ref(store, &snap));
    OK(store->ops->begin(store, 0));
    for (uint32_t i = 0; i < 20; i++) {
        struct store_key key = {.var = 3, .block = i};

        OK(store->ops->snapshot_get(store, snap, &key, &v));
        check_weights(v);
        OK(store->ops->get(store, &key, &v));
        check_weights(v);
    }
    store->ops->abort(store);
    store->ops->snapshot_unref(store, snap);
}
END_TEST

START_TEST(erased_block_is_gone_for_later_snapshots_only)
{
    struct store_snapshot *before;
    struct span v;

    put_alone(&key1, 1, 5);
    OK(store->ops->snapshot_ref(store, &before));
    OK(store->ops->begin(store, 0));
    OK(store->ops->erase(store, &key1));
    ck_assert_int_eq(store->ops->get(store, &key1, &v), PS_ERR_NOT_FOUND);
    OK(store->ops->commit(store));
    ck_assert_int_eq(store_suite_committed(&key1), -1);
    OK(store->ops->snapshot_get(store, before, &key1, &v));
    ck_assert(store_suite_holds(v.data, v.len, &key1, 5));
    store->ops->snapshot_unref(store, before);
    put_alone(&key1, 1, 6);
    ck_assert_int_eq(store_suite_committed(&key1), 6);
}
END_TEST

START_TEST(block_reserved_and_erased_in_one_transaction_never_was)
{
    OK(store->ops->begin(store, 2 * layout_value_size(1)));
    store_suite_put(&key1, 1, 1);
    OK(store->ops->erase(store, &key1));
    ck_assert_int_eq(store->ops->erase(store, &key1), PS_ERR_NOT_FOUND);
    OK(store->ops->commit(store));
    ck_assert_int_eq(store_suite_committed(&key1), -1);
}
END_TEST

START_TEST(snapshot_is_shared_until_the_next_commit)
{
    struct store_snapshot *a, *b, *c;

    put_alone(&key1, 0, 1);
    OK(store->ops->snapshot_ref(store, &a));
    OK(store->ops->snapshot_ref(store, &b));
    ck_assert_ptr_eq(a, b);
    put_alone(&key1, 0, 2);
    OK(store->ops->snapshot_ref(store, &c));
    ck_assert_ptr_ne(a, c);
    store->ops->snapshot_unref(store, a);
    store->ops->snapshot_unref(store, b);
    store->ops->snapshot_unref(store, c);
}
END_TEST

START_TEST(snapshot_stays_while_a_thousand_updates_go_on)
{
    struct store_snapshot *snap;
    struct span v;

    put_alone(&key1, 1, 0);
    OK(store->ops->snapshot_ref(store, &snap));
    OK(store->ops->snapshot_get(store, snap, &key1, &v));
    for (uint64_t i = 1; i <= 1000; i++)
        put_alone(&key1, 1, i);
    ck_assert(store_suite_holds(v.data, v.len, &key1, 0));
    ck_assert_int_eq(store_suite_committed(&key1), 1000);
    store->ops->snapshot_unref(store, snap);
}
END_TEST

struct suite_order {
    struct store_key last;
    int seen;
};

static bool
check_order(void *arg, const struct store_key *key, struct span value)
{
    struct suite_order *o = arg;

    ck_assert(store_suite_holds(value.data, value.len, key, key->block + 1000u * key->generation));
    if (o->seen++ > 0) {
        uint64_t last = (uint64_t)o->last.generation << 56 | (uint64_t)o->last.var << 32 | o->last.block;
        uint64_t now = (uint64_t)key->generation << 56 | (uint64_t)key->var << 32 | key->block;

        ck_assert_uint_lt(last, now);
    }
    o->last = *key;
    return true;
}

START_TEST(blocks_come_in_order_of_generation_variable_and_block)
{
    static const uint32_t vars[] = {70000, 1, STORE_VAR_MAX, 0, 300};
    static const uint32_t blocks[] = {0, UINT32_MAX, 256, 255};
    struct suite_order o = {0};

    OK(store->ops->begin(store, MIB));
    for (size_t v = 0; v < ARRAY_LEN(vars); v++)
        for (size_t b = 0; b < ARRAY_LEN(blocks); b++)
            for (int g = 2; g >= 0; g--) {
                struct store_key key = {vars[v], blocks[b], (uint8_t)(g * 127)};

                store_suite_put(&key, 0, key.block + 1000u * key.generation);
            }
    OK(store->ops->commit(store));
    OK(store->ops->each_block(store, check_order, &o));
    ck_assert_int_eq(o.seen, 60);
}
END_TEST

/* The bytes shown are the beginning of those in the snapshot, at the length that it gives. */
static bool
check_head(void *arg, const struct store_key *key, struct span value)
{
    struct store_snapshot *snap;
    struct span whole;

    OK(store->ops->snapshot_ref(store, &snap));
    OK(store->ops->snapshot_get(store, snap, key, &whole));
    ck_assert_uint_eq(value.len, whole.len);
    ck_assert_mem_eq(value.data, whole.data, STORE_HEAD);
    store->ops->snapshot_unref(store, snap);
    ++*(int *)arg;
    return true;
}

START_TEST(heads_are_those_of_the_blocks)
{
    int seen = 0;

    for (uint32_t i = 0; i < 30; i++)
        put_alone(&(struct store_key){.var = 7, .block = i}, (int)(i % LAYOUT_CLASSES), i);
    for (uint32_t i = 0; i < 30; i += 4) /* and newer ones elsewhere */
        put_alone(&(struct store_key){.var = 7, .block = i}, (int)(i % LAYOUT_CLASSES), i + 100);
    OK(store->ops->each_head(store, check_head, &seen));
    ck_assert_int_eq(seen, 30);
}
END_TEST

static bool
check_from(void *arg, const struct store_key *key, struct span value)
{
    struct store_key *want = arg;

    ck_assert(store_suite_holds(value.data, value.len, key, 1));
    ck_assert_uint_eq(key->var, want->var);
    ck_assert_uint_eq(key->block, want->block);
    ck_assert_uint_eq(key->generation, want->generation);
    return false;
}

START_TEST(blocks_are_walked_from_a_key_on)
{
    static const struct store_key there[] = {{1, 5, 0}, {2, 0, 0}, {2, 300, 0}, {1, 7, 1}, {0, 9, 2}};
    static const struct {
        struct store_key from;
        size_t first; /* of those from there on */
    } cases[] = {{{0, 0, 0}, 0},   {{1, 5, 0}, 0}, {{1, 6, 0}, 1}, {{2, 299, 0}, 2},
                 {{2, 301, 0}, 3}, {{0, 0, 1}, 3}, {{1, 8, 1}, 4}, {{0, 9, 2}, 4}};
    struct store_key end = {.var = 0, .block = 10, .generation = 2};
    int seen = 0;

    for (size_t i = 0; i < ARRAY_LEN(there); i++)
        put_alone(&there[i], 0, 1);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct store_key want = there[cases[i].first];

        seen = 0;
        OK(store->ops->each_block_from(store, &cases[i].from, check_from, &want));
        OK(store->ops->each_block_from(store, &cases[i].from, count_block, &seen));
        ck_assert_uint_eq((size_t)seen, ARRAY_LEN(there) - cases[i].first);
    }
    seen = 0;
    OK(store->ops->each_block_from(store, &end, count_block, &seen));
    ck_assert_int_eq(seen, 0);
}
END_TEST

/* ---- Readers ---- */

START_TEST(reader_sees_the_newest_commit_at_each_get_and_nothing_of_an_open_transaction)
{
    struct store_reader *r;
    struct span v;

    OK(store->ops->reader_open(store, &r));
    ck_assert_int_eq(store->ops->reader_get(r, &key1, &v), PS_ERR_NOT_FOUND);
    for (uint64_t version = 1; version <= 3; version++) {
        put_alone(&key1, 1, version);
        OK(store->ops->begin(store, MIB));
        store_suite_put(&key1, 1, 99);
        OK(store->ops->reader_get(r, &key1, &v));
        ck_assert(store_suite_holds(v.data, v.len, &key1, version));
        store->ops->abort(store);
    }
    store->ops->reader_done(r);
    store->ops->reader_done(r); /* nothing is held: nothing happens */
    store->ops->reader_close(r);
}
END_TEST

START_TEST(what_a_reader_got_stays_until_its_next_get_or_done)
{
    struct store_key other = {.var = 1, .block = 3};
    struct store_reader *r;
    struct span v, o;

    put_alone(&key1, 1, 1);
    put_alone(&other, 1, 1);
    OK(store->ops->reader_open(store, &r));
    OK(store->ops->reader_get(r, &key1, &v));
    for (uint64_t version = 2; version <= 300; version++) {
        put_alone(&key1, 1, version);
        put_alone(&other, 1, version);
    }
    ck_assert(store_suite_holds(v.data, v.len, &key1, 1));
    OK(store->ops->reader_get(r, &other, &o));
    for (uint64_t version = 301; version <= 600; version++)
        put_alone(&other, 1, version);
    ck_assert(store_suite_holds(o.data, o.len, &other, 300));
    OK(store->ops->begin(store, 0));
    OK(store->ops->erase(store, &other));
    OK(store->ops->commit(store));
    ck_assert(store_suite_holds(o.data, o.len, &other, 300));
    ck_assert_int_eq(store->ops->reader_get(r, &other, &o), PS_ERR_NOT_FOUND);
    store->ops->reader_close(r);
}
END_TEST

START_TEST(several_readers_stand_at_different_commits)
{
    struct store_reader *r[4];
    struct span v[4];

    for (size_t i = 0; i < 4; i++) {
        put_alone(&key1, 2, i);
        OK(store->ops->reader_open(store, &r[i]));
        OK(store->ops->reader_get(r[i], &key1, &v[i]));
    }
    for (uint64_t version = 4; version < 40; version++)
        put_alone(&key1, 2, version);
    for (size_t i = 0; i < 4; i++)
        ck_assert(store_suite_holds(v[i].data, v[i].len, &key1, i));
    store->ops->reader_close(r[2]);
    store->ops->reader_done(r[0]);
    ck_assert(store_suite_holds(v[1].data, v[1].len, &key1, 1));
    ck_assert(store_suite_holds(v[3].data, v[3].len, &key1, 3));
    store->ops->reader_close(r[0]);
    store->ops->reader_close(r[3]);
    store->ops->reader_close(r[1]);
}
END_TEST

/* ---- Rows ---- */

struct suite_rows {
    char text[512];
    int stop_after;
};

static bool
join_rows(void *arg, struct span key, struct span value)
{
    struct suite_rows *r = arg;
    size_t n = strlen(r->text);

    snprintf(r->text + n, sizeof r->text - n, "%.*s=%.*s ", (int)key.len, (const char *)key.data, (int)value.len,
             (const char *)value.data);
    return --r->stop_after != 0;
}

static const char *
rows_of(enum store_table t, int stop_after)
{
    static struct suite_rows r;

    r = (struct suite_rows){.stop_after = stop_after};
    OK(store->ops->each_row(store, t, join_rows, &r));
    return r.text;
}

START_TEST(rows_come_in_byte_order_and_tables_are_apart)
{
    OK(store->ops->begin(store, 0));
    OK(store->ops->row_put(store, STORE_JOBS, store_suite_text("b"), store_suite_text("2")));
    OK(store->ops->row_put(store, STORE_JOBS, store_suite_text("ab"), store_suite_text("1")));
    OK(store->ops->row_put(store, STORE_JOBS, store_suite_text("a"), store_suite_text("0")));
    OK(store->ops->row_put(store, STORE_JOBS, store_suite_text("\xc3\xa4"), store_suite_text("3")));
    OK(store->ops->row_put(store, STORE_VARS, store_suite_text("b"), store_suite_text("other")));
    OK(store->ops->commit(store));
    ck_assert_str_eq(rows_of(STORE_JOBS, 0), "a=0 ab=1 b=2 \xc3\xa4=3 ");
    ck_assert_str_eq(rows_of(STORE_JOBS, 2), "a=0 ab=1 ");
    ck_assert_str_eq(rows_of(STORE_VARS, 0), "b=other ");
    ck_assert_str_eq(rows_of(STORE_SHARD, 0), "");
}
END_TEST

START_TEST(row_is_replaced_by_another_size_and_erased)
{
    OK(store->ops->begin(store, 0));
    OK(store->ops->row_put(store, STORE_SHARD, store_suite_text("k"), store_suite_text("short")));
    OK(store->ops->row_put(store, STORE_SHARD, store_suite_text("k"), store_suite_text("a longer one")));
    OK(store->ops->commit(store));
    ck_assert_str_eq(rows_of(STORE_SHARD, 0), "k=a longer one ");
    OK(store->ops->begin(store, 0));
    OK(store->ops->row_put(store, STORE_SHARD, store_suite_text("k"), (struct span){NULL, 0}));
    OK(store->ops->commit(store));
    ck_assert_str_eq(rows_of(STORE_SHARD, 0), "k= ");
    OK(store->ops->begin(store, 0));
    OK(store->ops->row_erase(store, STORE_SHARD, store_suite_text("k")));
    ck_assert_int_eq(store->ops->row_erase(store, STORE_SHARD, store_suite_text("k")), PS_ERR_NOT_FOUND);
    OK(store->ops->commit(store));
    ck_assert_str_eq(rows_of(STORE_SHARD, 0), "");
}
END_TEST

static bool
check_large_row(void *arg, struct span key, struct span value)
{
    ck_assert_uint_eq(key.len, STORE_ROW_KEY_MAX);
    ck_assert_uint_eq(value.len, STORE_ROW_MAX);
    ck_assert_mem_eq(value.data, arg, STORE_ROW_MAX);
    return true;
}

START_TEST(largest_row_and_key_fit)
{
    uint8_t key[STORE_ROW_KEY_MAX], *value = malloc(STORE_ROW_MAX);

    memset(key, 0x80, sizeof key);
    for (size_t i = 0; i < STORE_ROW_MAX; i++)
        value[i] = (uint8_t)(i * 7);
    OK(store->ops->begin(store, 0));
    OK(store->ops->row_put(store, STORE_VARS, (struct span){key, sizeof key}, (struct span){value, STORE_ROW_MAX}));
    OK(store->ops->commit(store));
    OK(store->ops->each_row(store, STORE_VARS, check_large_row, value));
    free(value);
}
END_TEST

/* ---- Crash and space ---- */

START_TEST(crash_leaves_the_last_commit)
{
    put_alone(&key1, 2, 1);
    OK(store->ops->begin(store, 2 * MIB));
    store_suite_put(&key1, 2, 2);
    OK(store->ops->row_put(store, STORE_JOBS, store_suite_text("a"), store_suite_text("b")));
    store = maker->crash(store, true);
    ck_assert_int_eq(store_suite_committed(&key1), 1);
    ck_assert_str_eq(rows_of(STORE_JOBS, 0), "");
    put_alone(&key1, 2, 3);
    store = maker->crash(store, false);
    ck_assert_int_eq(store_suite_committed(&key1), 3);
}
END_TEST

/* Put blocks of the largest size until one is refused; each is a transaction. Returns how many fit. */
static uint32_t
fill_up(uint32_t from)
{
    size_t size = layout_value_size(2);
    uint32_t i = from;

    for (; i < 4096; i++) {
        struct store_key key = {.var = 5, .block = i};
        enum ps_err err = store->ops->begin(store, size);
        void *place;

        if (err == PS_OK) {
            if ((err = store->ops->reserve(store, &key, size, &place)) == PS_OK) {
                store_suite_fill(place, size, &key, 1);
                OK(store->ops->commit(store));
                continue;
            }
            store->ops->abort(store);
        }
        ck_assert_int_eq(err, PS_ERR_FULL);
        break;
    }
    return i;
}

START_TEST(full_store_says_so_keeps_all_and_takes_more_after_an_erase)
{
    struct store_usage usage;
    uint32_t n = fill_up(0);

    ck_assert_uint_ge(n, 16);
    ck_assert_uint_lt(n, 4096);
    ck_assert_uint_eq(fill_up(n), n);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(store_suite_committed(&(struct store_key){.var = 5, .block = i}), 1);
    store->ops->usage(store, &usage);
    ck_assert_uint_ge(usage.used_bytes, n * layout_value_size(2));
    ck_assert_uint_le(usage.used_bytes, usage.max_bytes);
    ck_assert_uint_le(usage.file_bytes, usage.max_bytes);
    OK(store->ops->begin(store, 0));
    for (uint32_t i = n - 48; i < n; i++)
        OK(store->ops->erase(store, &(struct store_key){.var = 5, .block = i}));
    OK(store->ops->commit(store));
    for (int i = 0; i < 3; i++) { /* freed pages may be used two transactions later */
        OK(store->ops->begin(store, 0));
        OK(store->ops->row_put(store, STORE_SHARD, store_suite_text("k"), store_suite_text("v")));
        OK(store->ops->commit(store));
    }
    ck_assert_uint_ge(fill_up(n - 48), n - 47);
}
END_TEST

/* The most rows that begin() has room for now; the transaction is open. */
static uint32_t
begin_rows(void)
{
    uint32_t n = STORE_ROOM_TURN / STORE_ROW_ROOM;

    while (n > 0 && store->ops->begin(store, n * STORE_ROW_ROOM) != PS_OK)
        n--;
    ck_assert_uint_gt(n, 0);
    return n;
}

START_TEST(nearly_full_store_takes_all_rows_that_it_has_promised)
{
    static const uint8_t value[2 * KIB];
    uint32_t n = fill_up(0);

    OK(store->ops->begin(store, 0));
    for (uint32_t i = n - 16; i < n; i++)
        OK(store->ops->erase(store, &(struct store_key){.var = 5, .block = i}));
    OK(store->ops->commit(store));
    for (int round = 0; round < 4; round++) {
        uint32_t rows = begin_rows();

        for (uint32_t i = 0; i < rows; i++) {
            uint32_t key[2] = {i * 2654435761u, i}; /* scattered: each in a leaf of its own */

            OK(store->ops->row_put(store, STORE_SESSIONS, (struct span){key, sizeof key},
                                   (struct span){value, sizeof value}));
        }
        OK(store->ops->commit(store));
    }
}
END_TEST

/* ---- Anything, against a model ---- */

#define KEYS      24
#define ROWS      12
#define SNAPSHOTS 4

struct suite_state {
    int64_t block[KEYS]; /* version, -1: none */
    int64_t row[ROWS];
};

static struct store_key
nth_key(int i)
{
    return (struct store_key){.var = (uint32_t)(i / 6), .block = (uint32_t)(i % 6), .generation = (uint8_t)(i % 2)};
}

static int
nth_class(int i)
{
    return i % 8 == 0 ? 2 : i % 2;
}

static void
check_block(int i, int64_t version, enum ps_err err, struct span v)
{
    struct store_key key = nth_key(i);

    ck_assert_int_eq(err, version < 0 ? PS_ERR_NOT_FOUND : PS_OK);
    if (version < 0)
        return;
    ck_assert_uint_eq(v.len, layout_value_size(nth_class(i)));
    ck_assert(store_suite_holds(v.data, v.len, &key, (uint64_t)version));
}

static void
check_snapshot(struct store_snapshot *snap, const struct suite_state *want)
{
    for (int i = 0; i < KEYS; i++) {
        struct store_key key = nth_key(i);
        struct span v = {NULL, 0};
        enum ps_err err = store->ops->snapshot_get(store, snap, &key, &v);

        check_block(i, want->block[i], err, v);
    }
}

static void
check_rows(const struct suite_state *want)
{
    char text_wanted[512] = "";

    for (int i = 0; i < ROWS; i++) {
        size_t n = strlen(text_wanted);

        if (want->row[i] >= 0)
            snprintf(text_wanted + n, sizeof text_wanted - n, "%c=%d ", 'a' + i, (int)want->row[i]);
    }
    ck_assert_str_eq(rows_of(STORE_SESSIONS, 0), text_wanted);
}

static void
change_block(struct suite_state *now, int i, uint64_t version, bool erase)
{
    struct store_key key = nth_key(i);
    struct span old = {NULL, 0};
    enum ps_err err = store->ops->get(store, &key, &old);

    check_block(i, now->block[i], err, old);
    if (erase) {
        ck_assert_int_eq(store->ops->erase(store, &key), now->block[i] < 0 ? PS_ERR_NOT_FOUND : PS_OK);
        now->block[i] = -1;
        return;
    }
    store_suite_put(&key, nth_class(i), version);
    now->block[i] = (int64_t)version;
}

static void
change_row(struct suite_state *now, int i, int64_t version)
{
    char key[2] = {(char)('a' + i), '\0'}, value[16];

    if (version < 0) {
        enum ps_err want = now->row[i] < 0 ? PS_ERR_NOT_FOUND : PS_OK;

        ck_assert_int_eq(store->ops->row_erase(store, STORE_SESSIONS, store_suite_text(key)), want);
    } else {
        snprintf(value, sizeof value, "%d", (int)version);
        OK(store->ops->row_put(store, STORE_SESSIONS, store_suite_text(key), store_suite_text(value)));
    }
    now->row[i] = version;
}

/* One transaction of a few changes; true when it was committed. An erase comes before any reserve, so that the room
 * that begin() was asked for is enough. */
static bool
random_turn(struct test_rng *r, struct suite_state *now, uint64_t version)
{
    struct suite_state before = *now;
    int changes = (int)test_below(r, 6);

    OK(store->ops->begin(store, 6 * layout_value_size(2)));
    for (int i = 0; i < changes; i++) {
        if (test_below(r, 3) == 0)
            change_row(now, (int)test_below(r, ROWS), test_below(r, 4) == 0 ? -1 : (int64_t)(version % 1000));
        else
            change_block(now, (int)test_below(r, KEYS), version, test_below(r, 6) == 0);
    }
    if (test_below(r, 5) == 0) {
        store->ops->abort(store);
        *now = before;
        return false;
    }
    OK(store->ops->commit(store));
    return true;
}

START_TEST(random_changes_agree_with_a_model)
{
    struct test_rng r = {test_seed()};
    struct store_snapshot *snap[SNAPSHOTS] = {NULL};
    struct suite_state now, seen[SNAPSHOTS];

    memset(&now, 0xff, sizeof now);
    for (uint64_t turn = 1; turn <= 600; turn++) {
        int i = (int)test_below(&r, SNAPSHOTS);

        random_turn(&r, &now, turn);
        if (snap[i] != NULL) {
            check_snapshot(snap[i], &seen[i]);
            store->ops->snapshot_unref(store, snap[i]);
            snap[i] = NULL;
        } else {
            OK(store->ops->snapshot_ref(store, &snap[i]));
            seen[i] = now;
        }
        if (turn % 50 == 0) {
            for (int j = 0; j < SNAPSHOTS; j++) {
                if (snap[j] != NULL)
                    store->ops->snapshot_unref(store, snap[j]);
                snap[j] = NULL;
            }
            store = maker->crash(store, false);
            check_rows(&now);
        }
    }
    for (int j = 0; j < SNAPSHOTS; j++)
        if (snap[j] != NULL)
            store->ops->snapshot_unref(store, snap[j]);
}
END_TEST

TCase *
store_suite_case(const struct store_maker *m)
{
    TCase *tc = tcase_create("every_store");

    maker = m;
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, store_suite_setup, store_suite_teardown);
    tcase_add_test(tc, new_store_is_empty);
    tcase_add_test(tc, committed_block_is_there_and_uncommitted_is_not);
    tcase_add_test(tc, aborted_transaction_leaves_nothing);
    tcase_add_test(tc, old_value_stays_readable_while_the_new_one_is_written);
    tcase_add_test(tc, second_reserve_returns_the_same_place_as_it_was_left);
    tcase_add_test(tc, places_put_weights_on_64_bytes);
    tcase_add_test(tc, committed_values_have_weights_on_64_bytes);
    tcase_add_test(tc, erased_block_is_gone_for_later_snapshots_only);
    tcase_add_test(tc, block_reserved_and_erased_in_one_transaction_never_was);
    tcase_add_test(tc, snapshot_is_shared_until_the_next_commit);
    tcase_add_test(tc, snapshot_stays_while_a_thousand_updates_go_on);
    tcase_add_test(tc, blocks_come_in_order_of_generation_variable_and_block);
    tcase_add_test(tc, heads_are_those_of_the_blocks);
    tcase_add_test(tc, blocks_are_walked_from_a_key_on);
    tcase_add_test(tc, reader_sees_the_newest_commit_at_each_get_and_nothing_of_an_open_transaction);
    tcase_add_test(tc, what_a_reader_got_stays_until_its_next_get_or_done);
    tcase_add_test(tc, several_readers_stand_at_different_commits);
    tcase_add_test(tc, rows_come_in_byte_order_and_tables_are_apart);
    tcase_add_test(tc, row_is_replaced_by_another_size_and_erased);
    tcase_add_test(tc, largest_row_and_key_fit);
    tcase_add_test(tc, crash_leaves_the_last_commit);
    tcase_add_test(tc, full_store_says_so_keeps_all_and_takes_more_after_an_erase);
    tcase_add_test(tc, nearly_full_store_takes_all_rows_that_it_has_promised);
    tcase_add_test(tc, random_changes_agree_with_a_model);
    return tc;
}
