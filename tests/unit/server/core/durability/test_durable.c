/* The durable side: complete or absent, whatever fails and whenever the power is lost; rebuilt bit by bit. */
#include "server/core/durability/durable.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/core/model/layout.h"
#include "proto/store.pb-c.h"
#include "server/core/durability/identity.h"
#include "server/core/store/metadata_rows.h"
#include "server/lmdb/store_lmdb.h"
#include "tests/remove_tree.h"
#include "tests/unit/kits/instant.h"
#include "tests/unit/kits/memory_dir.h"
#include "tests/unit/kits/shard_kit.h"

#define OK(call) ck_assert_int_eq((call), PS_OK)

enum { VARS = 3 };

static struct kit k;
static struct store *disk;
static struct durable d;
static struct instant instant; /* of the save that runs, or ran last */
static struct test_rng rng;
static struct layout layouts[VARS + 1];
static uint64_t seq;
static char dir[64];  /* of LMDB, or "" */
static bool verifies; /* saves do */

/* ---- The store below ---- */

static void
open_disk(void)
{
    struct store_lmdb_options o = {.dir = dir, .durable = true};
    struct store_dir_report report;
    struct ps_error e;

    if (dir[0] == '\0')
        disk = disk != NULL ? disk : store_mem_new(GIB);
    else
        ck_assert_msg(store_lmdb_open(&o, &disk, &report, &e) == PS_OK, "%s", e.text);
    durable_close(&d);
    ck_assert_msg(durable_open(&d, disk, "test", 0, 1, 99, &e) == PS_OK, "%s", e.text);
}

/* Power is lost and comes back: uncommitted data is gone. */
static void
power_cycle(void)
{
    if (dir[0] == '\0')
        store_mem_crash(disk);
    else
        disk->ops->close(disk);
    open_disk();
}

static void
remove_disk(void)
{
    durable_close(&d);
    disk->ops->close(disk);
    disk = NULL;
    if (dir[0] == '\0')
        return;
    ck_assert_int_eq(remove_tree(dir), 0);
    dir[0] = '\0';
}

/* ---- A shard with something in it ---- */

static void
save_begun(struct kit *kit)
{
    instant_free(&instant);
    instant = instant_of(kit->store, INSTANT_NEWEST);
}

static void
push_some(int n)
{
    static float gradient[65536];

    for (int i = 0; i < n; i++) {
        uint32_t var = 1 + (uint32_t)test_below(&rng, VARS);
        uint32_t block = (uint32_t)test_below(&rng, layouts[var].blocks);
        struct layout_block cut = layout_block(&layouts[var], block);

        gradient[test_below(&rng, cut.len)] = test_float(&rng);
        kit_push(&k, 1,
                 &(struct kit_push){.seq = ++seq, .var = var, .block = block, .gradient = gradient, .len = cut.len});
        kit_drop_answers(&k, 1);
    }
}

static void
durable_setup(void)
{
    static const uint64_t elements[VARS + 1] = {0, 40000, 10, 9000};
    Psd__Job *job = kit_job("train", PSD__MODE__ASYNC, 1);

    rng.state = 5;
    seq = 0;
    verifies = false;
    kit_init(&k, &kit_durable_config);
    k.save_begun = save_begun;
    kit_join(&k, 1, job, 0);
    for (uint32_t var = 1; var <= VARS; var++) {
        layout_init(&layouts[var], elements[var], var == 3 ? 2 : 0);
        ck_assert_uint_eq(
            kit_declare(&k, 1, (char[]){(char)('a' + var), 0}, elements[var], var == 3 ? PS_ADAM : PS_SGD), var);
    }
    push_some(50);
    open_disk();
}

static void
setup_lmdb(void)
{
    snprintf(dir, sizeof dir, "%s/psd-durable-XXXXXX", memory_dir());
    ck_assert_ptr_nonnull(mkdtemp(dir));
    durable_setup();
}

static void
durable_teardown(void)
{
    remove_disk();
    instant_free(&instant);
    kit_finish(&k);
}

/* ---- A saver ---- */

/* A saver that copies as ordered, so many blocks to a transaction. between: pushes that come between these. */
struct durable_saver {
    size_t batch;
    int between;
    uint64_t commits; /* stop after so many, as if the power failed; 0: never */
    uint64_t written, done;
};

static enum ps_err
durable_stage_all(const struct shard_save_block *b, uint64_t *written)
{
    struct store_snapshot *snap;
    struct span value;
    size_t bytes = 0;
    enum ps_err err;

    OK(k.store->ops->snapshot_ref(k.store, &snap));
    OK(k.store->ops->snapshot_get(k.store, snap, &b->key, &value));
    err = (verifies ? durable_stage_verified : durable_stage)(&d, &b->key, value, &bytes);
    k.store->ops->snapshot_unref(k.store, snap);
    *written += bytes;
    return err;
}

static enum ps_err
durable_end_save(enum ps_err err, struct durable_saver *s)
{
    if (err != PS_OK) {
        durable_abort(&d);
        return err;
    }
    if ((err = durable_commit(&d)) != PS_OK)
        return err;
    return ++s->done == s->commits ? PS_ERR_CANCELLED : PS_OK;
}

static enum ps_err
stage_batch(const struct shard_save_block *blocks, size_t n, struct durable_saver *s)
{
    enum ps_err err = durable_begin(&d, DURABLE_TXN_MAX);

    if (err != PS_OK)
        return err;
    for (size_t i = 0; i < n && err == PS_OK; i++)
        err = durable_stage_all(&blocks[i], &s->written);
    return durable_end_save(err, s);
}

static enum ps_err
durable_finish_save(struct durable_saver *s)
{
    enum ps_err err = durable_begin(&d, MIB);

    return err == PS_OK ? durable_end_save(durable_finish(&d, k.save, 1234), s) : err;
}

static enum ps_err
durable_carry(struct durable_saver *s)
{
    struct shard_save_block blocks[64];
    bool more = true;
    enum ps_err err = PS_OK;
    size_t n;

    ck_assert_ptr_nonnull(k.save);
    while (more && err == PS_OK) {
        if ((err = durable_begin_save(&d, k.save->boot, &more)) == PS_OK && more && ++s->done == s->commits)
            return PS_ERR_CANCELLED;
    }
    for (more = true; more && err == PS_OK;)
        err = durable_sweep(&d, k.save, &more);
    while (err == PS_OK && (n = shard_save_next(k.shard, SIZE_MAX, blocks, s->batch)) > 0) {
        if ((err = stage_batch(blocks, n, s)) != PS_OK)
            break;
        push_some(s->between);
        kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = n});
    }
    return err == PS_OK ? durable_finish_save(s) : err;
}

static enum ps_err
durable_save(struct durable_saver *s)
{
    struct ps_error e;
    enum ps_err err;

    kit_work(&k);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    err = durable_carry(s);
    if (err != PS_OK)
        ps_fail(&e, err, "the save failed");
    kit_save_ended(&k, s->written, 0, err != PS_OK ? &e : NULL);
    return err;
}

static uint64_t
save_whole(void)
{
    struct durable_saver s = {.batch = 7, .between = 3};

    OK(durable_save(&s));
    return s.written;
}

/* ---- Rebuilding ---- */

static struct store *
durable_rebuild_live(void)
{
    struct store *live = store_mem_new(256 * MIB);
    struct ps_error e;

    ck_assert_msg(durable_rebuild(&d, live, 78, NULL, NULL, &e) == PS_OK, "%s", e.text);
    return live;
}

/* The rebuilt state is this, and a shard runs over it. */
static void
check_rebuilt(const struct instant *want)
{
    struct store *live = durable_rebuild_live();
    struct instant have = instant_of(live, 0);
    struct shard_config config = k.config;
    struct shard *shard;
    struct ps_error e;

    instant_check_equal(want, &have);
    ck_assert_uint_eq(instant_values(live), want->len);
    config.boot = 1000; /* it has one */
    ck_assert_msg(shard_new(&config, live, 0, &shard, &e) == PS_OK, "%s", e.text);
    shard_free(shard);
    instant_free(&have);
    live->ops->close(live);
}

/* ---- Opening ---- */

static void
durable_refused(const char *cluster, uint32_t shard, enum ps_err code, const char *says)
{
    struct durable other;
    struct ps_error e;

    ck_assert_int_eq(durable_open(&other, disk, cluster, shard, 1, 1, &e), code);
    ck_assert_msg(strstr(e.text, says) != NULL, "%s", e.text);
}

START_TEST(empty_store_becomes_this_shards_and_no_others)
{
    ck_assert_uint_eq(d.id, 99);
    ck_assert_uint_eq(d.manifest.save, 0);
    ck_assert_uint_eq(d.redo_next, 1);
    ck_assert_uint_eq(d.redo_first, 1);
    power_cycle();
    ck_assert_uint_eq(d.id, 99);
    durable_refused("other", 0, PS_ERR_CLUSTER, "not to 0 of 1 of 'other'");
    durable_refused("test", 1, PS_ERR_CLUSTER, "belongs to shard 0 of 1");
}
END_TEST

START_TEST(live_store_is_not_taken_for_a_durable_one)
{
    struct durable other;
    struct ps_error e;

    ck_assert_int_eq(durable_open(&other, k.store, "test", 0, 1, 1, &e), PS_ERR_MISMATCH);
}
END_TEST

static void
put_format(const char *name, const struct identity *who)
{
    Psd__ManifestRow row = PSD__MANIFEST_ROW__INIT;

    OK(disk->ops->begin(disk, MIB));
    if (who != NULL) {
        OK(identity_put(disk, name, who));
    } else {
        row.format = DURABLE_FORMAT_SUMS + 1;
        OK(metadata_rows_put(disk, name, &row.base));
    }
    OK(disk->ops->commit(disk));
}

START_TEST(newer_formats_are_refused_with_a_sentence)
{
    struct identity who = {.format = DURABLE_FORMAT + 1, .cluster = "test", .shards = 1};

    put_format(identity_durable, &who);
    durable_refused("test", 0, PS_ERR_VERSION, "has format 3, this psd knows format 2");
    who.format = DURABLE_FORMAT;
    put_format(identity_durable, &who);
    put_format(durable_manifest_name, NULL);
    durable_refused("test", 0, PS_ERR_VERSION, "has format 5, this psd knows format 4");
}
END_TEST

static void
set_format(struct kit *kit)
{
    kit->save->format = SHARD_FORMAT_DROPS;
}

/* Of data that an earlier psd would misunderstand the save says so, and so does what is made from it. */
START_TEST(a_save_has_the_format_of_its_data)
{
    Psd__ShardRow *row;
    struct store *live;

    save_whole();
    ck_assert_uint_eq(d.manifest.format, SHARD_FORMAT);
    k.save_begun = set_format;
    save_whole();
    power_cycle();
    ck_assert_uint_eq(d.manifest.format, SHARD_FORMAT_DROPS);
    live = durable_rebuild_live();
    OK(identity_get(live, identity_live, &row));
    ck_assert_uint_eq(row->format, SHARD_FORMAT_DROPS);
    psd__shard_row__free_unpacked(row, NULL);
    live->ops->close(live);
}
END_TEST

START_TEST(without_a_save_nothing_is_rebuilt)
{
    struct store *live = store_mem_new(256 * MIB);
    struct ps_error e;

    ck_assert_int_eq(durable_rebuild(&d, live, 78, NULL, NULL, &e), PS_ERR_NOT_FOUND);
    live->ops->close(live);
}
END_TEST

/* ---- Saving ---- */

START_TEST(rebuilt_store_is_the_instant_of_the_save)
{
    save_whole();
    ck_assert_uint_eq(d.manifest.save, 1);
    ck_assert_uint_eq(d.manifest.boot, 77);
    ck_assert_uint_eq(d.manifest.blocks, instant.len);
    ck_assert_uint_eq(d.manifest.unix_ms, 1234);
    check_rebuilt(&instant);
    for (int i = 0; i < 4; i++) {
        push_some(20);
        save_whole();
        check_rebuilt(&instant);
        power_cycle();
        ck_assert_uint_eq(d.manifest.save, i + 2);
        check_rebuilt(&instant);
    }
}
END_TEST

START_TEST(a_live_store_that_has_just_the_room_is_rebuilt)
{
    struct store *live;
    struct instant have;
    struct ps_error e;

    save_whole();
    live = store_mem_new(d.manifest.bytes + 256 * KIB);
    ck_assert_msg(durable_rebuild(&d, live, 78, NULL, NULL, &e) == PS_OK, "%s", e.text);
    have = instant_of(live, 0);
    instant_check_equal(&instant, &have);
    instant_free(&have);
    live->ops->close(live);
}
END_TEST

START_TEST(rebuilt_data_has_the_boot_that_was_given)
{
    struct store *live;
    Psd__ShardRow *row;

    save_whole();
    live = durable_rebuild_live();
    OK(identity_get(live, identity_live, &row));
    ck_assert_uint_eq(row->boot, 78);
    ck_assert_str_eq(row->cluster, "test");
    psd__shard_row__free_unpacked(row, NULL);
    live->ops->close(live);
}
END_TEST

START_TEST(unchanged_blocks_are_not_written_again)
{
    struct durable_saver still = {.batch = 100};
    uint64_t all;

    OK(durable_save(&still));
    all = still.written;
    ck_assert_uint_eq(all, d.manifest.bytes);
    still = (struct durable_saver){.batch = 100};
    OK(durable_save(&still)); /* the other generation has nothing yet */
    ck_assert_uint_eq(still.written, all);
    still = (struct durable_saver){.batch = 100};
    OK(durable_save(&still));
    ck_assert_uint_eq(still.written, 0);
    push_some(1);
    for (int i = 0; i < 2; i++) {
        still = (struct durable_saver){.batch = 100};
        OK(durable_save(&still));
        ck_assert_uint_gt(still.written, 0);
        ck_assert_uint_lt(still.written, all / 2);
        check_rebuilt(&instant);
    }
}
END_TEST

START_TEST(rows_that_are_gone_are_gone_in_the_next_save)
{
    struct shard_save_row rows[3] = {
        {STORE_JOBS, {"a", 1}, {"1", 1}}, {STORE_JOBS, {"b", 1}, {"2", 1}}, {STORE_CURSORS, {"c", 1}, {"3", 1}}};
    struct shard_save s = {.number = 1, .boot = 5, .redo = 1, .rows = rows, .rows_len = 3};
    struct instant before, after;
    bool more;

    for (int i = 0; i < 2; i++) {
        OK(durable_begin_save(&d, 5, &more));
        ck_assert(!more);
        OK(durable_begin(&d, MIB));
        OK(durable_finish(&d, &s, 0));
        OK(durable_commit(&d));
        if (i == 0)
            before = instant_of(disk, 0);
        rows[0] = rows[1];
        s.rows_len = 1;
        s.number++;
    }
    after = instant_of(disk, 0);
    instant_check_rows(&after, &s);
    ck_assert_uint_ne(before.rows, after.rows);
    instant_free(&before);
    instant_free(&after);
}
END_TEST

/* ---- Failures ---- */

/* After every commit of a save the power fails: the save before it is there, or this one, whole. */
START_TEST(power_lost_after_any_commit_leaves_one_save_or_the_other)
{
    struct instant was;
    uint64_t n = 0;
    bool whole = false;

    save_whole();
    was = instant;
    instant = (struct instant){0};
    while (!whole) {
        struct durable_saver s = {.batch = 5, .between = 2, .commits = ++n};
        enum ps_err err;

        push_some(5);
        err = durable_save(&s);
        whole = err == PS_OK || d.manifest.save != 1;
        power_cycle();
        ck_assert_uint_eq(d.manifest.save != 1, whole);
        check_rebuilt(whole ? &instant : &was);
    }
    ck_assert_uint_gt(n, 4);
    instant_free(&was);
}
END_TEST

START_TEST(any_operation_of_a_save_may_fail)
{
    struct instant was;

    save_whole();
    was = instant;
    instant = (struct instant){0};
    for (int what = 0; what < STORE_MEM_FAILS_ALL; what++) {
        enum ps_err err = PS_ERR_IO;

        for (uint64_t n = 1; err != PS_OK; n++) {
            struct durable_saver s = {.batch = 3, .between = 1};

            push_some(2);
            store_mem_fail_at(disk, (enum store_mem_fail)what, n);
            err = durable_save(&s);
            store_mem_fail_at(disk, (enum store_mem_fail)what, 0);
            check_rebuilt(err == PS_OK ? &instant : &was);
            ck_assert_uint_lt(n, 100);
        }
        instant_free(&was);
        was = instant;
        instant = (struct instant){0};
    }
    instant_free(&was);
}
END_TEST

START_TEST(any_operation_of_a_rebuild_may_fail_and_the_next_one_is_whole)
{
    struct ps_error e;

    save_whole();
    for (int what = 0; what < STORE_MEM_FAILS_ALL; what++) {
        enum ps_err err;

        for (uint64_t n = 1, fine = 0; fine < 2; n++) { /* of the live store and of the disk in turn */
            struct store *live = store_mem_new(256 * MIB);

            store_mem_fail_at(n % 2 == 0 ? live : disk, (enum store_mem_fail)what, (n + 1) / 2);
            err = durable_rebuild(&d, live, 78, NULL, NULL, &e);
            store_mem_fail_none(disk);
            ck_assert(err == PS_OK || err == PS_ERR_IO);
            fine = err == PS_OK ? fine + 1 : 0;
            live->ops->close(live);
            ck_assert_uint_lt(n, 100);
        }
    }
    check_rebuilt(&instant);
}
END_TEST

static bool
durable_stop(void *arg, uint64_t blocks, uint64_t of)
{
    uint64_t *seen = arg;

    ck_assert_uint_eq(of, d.manifest.blocks);
    ck_assert_uint_le(blocks, of);
    *seen = blocks;
    return false;
}

START_TEST(rebuild_may_be_given_up)
{
    struct store *live = store_mem_new(256 * MIB);
    uint64_t seen = 0;
    struct ps_error e;

    save_whole();
    ck_assert_int_eq(durable_rebuild(&d, live, 78, durable_stop, &seen, &e), PS_ERR_CANCELLED);
    ck_assert_uint_gt(seen, 0);
    live->ops->close(live);
}
END_TEST

START_TEST(missing_block_of_a_save_is_noticed)
{
    struct store_key key = {.var = 1, .block = 1};
    struct store *live = store_mem_new(256 * MIB);
    struct ps_error e;

    save_whole();
    key.generation = d.manifest.generation;
    OK(disk->ops->begin(disk, MIB));
    OK(disk->ops->erase(disk, &key));
    OK(disk->ops->commit(disk));
    ck_assert_int_eq(durable_rebuild(&d, live, 78, NULL, NULL, &e), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(e.text, "save 1 is damaged"));
    live->ops->close(live);
}
END_TEST

/* ---- Checksums ---- */

/* Bytes of the store in memory, wherever they are. */
struct stored {
    enum store_table table; /* STORE_TABLES: of blocks */
    uint8_t generation;     /* of a block */
    struct span bytes[512];
    size_t len;
};

static bool
stored_add_block(void *arg, const struct store_key *key, struct span value)
{
    struct stored *x = arg;

    ck_assert_uint_lt(x->len, ARRAY_LEN(x->bytes));
    if (x->generation == UINT8_MAX || key->generation == x->generation)
        x->bytes[x->len++] = value;
    return true;
}

static bool
stored_add_row(void *arg, struct span key, struct span value)
{
    struct stored *x = arg;

    (void)key;
    ck_assert_uint_lt(x->len, ARRAY_LEN(x->bytes));
    x->bytes[x->len++] = value;
    return true;
}

static void
stored_find(struct stored *x, enum store_table table, uint8_t generation)
{
    x->table = table;
    x->generation = generation;
    if (table == STORE_TABLES)
        OK(disk->ops->each_block(disk, stored_add_block, x));
    else
        OK(disk->ops->each_row(disk, table, stored_add_row, x));
    ck_assert_uint_gt(x->len, 0);
}

static void
stored_flip(struct span bytes, size_t bit)
{
    ((uint8_t *)(uintptr_t)bytes.data)[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* The store is opened and rebuilt as the instant, or refused with a sentence. */
static bool
is_right_or_refused(void)
{
    struct store *live = store_mem_new(256 * MIB);
    struct durable other;
    struct ps_error e = {0};
    struct instant have;
    enum ps_err err = durable_open(&other, disk, "test", 0, 1, 99, &e);

    if (err == PS_OK)
        err = durable_rebuild(&other, live, 78, NULL, NULL, &e);
    if (err == PS_OK) {
        have = instant_of(live, 0);
        instant_check_equal(&instant, &have);
        instant_free(&have);
    } else {
        ck_assert_msg(strstr(e.text, "damaged") != NULL || strstr(e.text, "cannot be") != NULL, "%s", e.text);
    }
    durable_close(&other);
    live->ops->close(live);
    return err == PS_OK;
}

START_TEST(no_flipped_bit_of_a_save_is_rebuilt)
{
    int refused = 0;

    save_whole();
    push_some(20);
    save_whole();
    ck_assert(is_right_or_refused());
    for (int i = 0; i < 600; i++) {
        static struct stored x;
        enum store_table table = (enum store_table)test_below(&rng, STORE_TABLES + 1);
        struct span bytes;
        size_t bit;

        if (table == STORE_CURSORS)
            continue; /* there are none */
        x.len = 0;
        stored_find(&x, table, UINT8_MAX);
        bytes = x.bytes[test_below(&rng, x.len)];
        bit = test_below(&rng, 8 * (i % 2 == 0 ? MIN(bytes.len, (size_t)STORE_HEAD) : bytes.len));
        stored_flip(bytes, bit);
        refused += !is_right_or_refused();
        stored_flip(bytes, bit);
    }
    ck_assert_int_gt(refused, 200);
    ck_assert(is_right_or_refused());
}
END_TEST

static void
erase_fact(const char *name)
{
    OK(disk->ops->begin(disk, MIB));
    OK(metadata_rows_erase(disk, name));
    OK(disk->ops->commit(disk));
}

/* It would be taken for a new one, and a shard would begin empty. */
START_TEST(a_store_whose_facts_are_gone_is_refused)
{
    save_whole();
    erase_fact(durable_manifest_name);
    durable_refused("test", 0, PS_ERR_IO, "the row 'manifest' is missing");
    erase_fact(durable_staged_name);
    erase_fact(identity_durable);
    durable_refused("test", 0, PS_ERR_IO, "it has data, and does not say whose");
}
END_TEST

/* No push between the saves: the other generation has the same blocks. */
START_TEST(a_damaged_block_is_taken_from_the_other_generation)
{
    struct durable_saver s = {.batch = 7};
    struct stored x = {.len = 0};
    size_t mended = 0;

    OK(durable_save(&s));
    push_some(1); /* so that there is something to save */
    OK(durable_save(&s));
    stored_find(&x, STORE_TABLES, d.manifest.generation);
    for (size_t i = 0; i < x.len; i++) {
        size_t bit = 8 * (sizeof(struct block_head) + test_below(&rng, 100)) + test_below(&rng, 8);

        stored_flip(x.bytes[i], bit);
        power_cycle();
        if (is_right_or_refused()) {
            check_rebuilt(&instant);
            ck_assert_uint_eq(d.mended, 1);
            mended++;
        }
        stored_flip(x.bytes[i], bit);
    }
    ck_assert_uint_ge(mended + 1, x.len); /* all but the one that was pushed to */
}
END_TEST

START_TEST(a_damaged_block_that_lies_nowhere_else_is_named)
{
    struct store *live = store_mem_new(256 * MIB);
    struct stored x = {.len = 0};
    struct ps_error e;

    save_whole();
    stored_find(&x, STORE_TABLES, d.manifest.generation);
    stored_flip(x.bytes[1], 8 * sizeof(struct block_head));
    ck_assert_int_eq(durable_rebuild(&d, live, 78, NULL, NULL, &e), PS_ERR_IO);
    ck_assert_str_eq(e.text, "save 1 is damaged: block 1 of variable 'b' does not have its checksum, and lies nowhere "
                             "else");
    live->ops->close(live);
}
END_TEST

/* All blocks lie there as they are, in both generations. */
static void
save_twice(void)
{
    struct durable_saver s = {.batch = 7};

    OK(durable_save(&s));
    OK(durable_save(&s));
}

START_TEST(a_save_that_verifies_mends_the_disk)
{
    struct durable_saver s = {.batch = 7};
    struct stored x = {.len = 0};

    save_twice();
    stored_find(&x, STORE_TABLES, durable_staging_generation(&d));
    stored_flip(x.bytes[1], 8 * sizeof(struct block_head) + 5);
    stored_flip(x.bytes[2], 8 * offsetof(struct block_head, sum)); /* its checksum alone */
    verifies = true;
    OK(durable_save(&s));
    ck_assert_uint_eq(d.verified.blocks, d.manifest.blocks);
    ck_assert_uint_eq(d.verified.mended, 2);
    ck_assert_uint_eq(d.verified.first_mended.var, 1);
    ck_assert_uint_eq(d.verified.first_mended.block, 1);
    ck_assert_uint_eq(d.verified.differ, 0);
    check_rebuilt(&instant);
    ck_assert_uint_eq(d.mended, 0);
    OK(durable_save(&s));
    ck_assert_uint_eq(d.verified.blocks, d.manifest.blocks);
    ck_assert_uint_eq(d.verified.mended + d.verified.differ, 0);
}
END_TEST

/* The disk keeps what memory has lost, in whichever generation it lies. */
START_TEST(a_save_that_verifies_names_what_is_damaged_in_memory)
{
    struct durable_saver s = {.batch = 7};
    struct instant whole;
    struct stored x = {.len = 0};
    struct store *live, *saved = disk;
    struct instant have;

    OK(durable_save(&s));
    if (_i == 1)
        OK(durable_save(&s));
    whole = instant_of(k.store, INSTANT_NEWEST);
    disk = k.store;
    stored_find(&x, STORE_TABLES, UINT8_MAX);
    disk = saved;
    stored_flip(x.bytes[1], 8 * sizeof(struct block_head) + 5);
    verifies = true;
    OK(durable_save(&s));
    ck_assert_uint_eq(d.verified.differ, 1);
    ck_assert_uint_eq(d.verified.first_differs.var, 1);
    ck_assert_uint_eq(d.verified.first_differs.block, 1);
    ck_assert_uint_eq(d.verified.mended, 0);
    live = durable_rebuild_live();
    have = instant_of(live, 0);
    instant_check_equal(&whole, &have);
    instant_free(&have);
    instant_free(&whole);
    live->ops->close(live);
}
END_TEST

/* As psd has written before there were checksums. */
static void
unsum_store(void)
{
    Psd__ManifestRow row = PSD__MANIFEST_ROW__INIT;
    static struct stored x;

    stored_find(&x, STORE_TABLES, UINT8_MAX);
    for (size_t i = 0; i < x.len; i++) {
        struct block_head *head = (void *)(uintptr_t)x.bytes[i].data;

        head->summed = 0;
        head->sum = 0;
    }
    row.format = DURABLE_FORMAT;
    row.generation = d.manifest.generation;
    row.save = d.manifest.save;
    row.boot = d.manifest.boot;
    row.redo = d.manifest.redo;
    row.blocks = d.manifest.blocks;
    row.bytes = d.manifest.bytes;
    OK(disk->ops->begin(disk, MIB));
    OK(metadata_rows_put(disk, durable_manifest_name, &row.base));
    OK(disk->ops->commit(disk));
}

START_TEST(a_save_without_checksums_is_read_and_the_next_one_has_them)
{
    struct durable_saver s = {.batch = 7};

    save_whole();
    unsum_store();
    power_cycle();
    ck_assert(!d.manifest.sums);
    check_rebuilt(&instant);
    for (int i = 0; i < 2; i++) {
        s.written = 0;
        OK(durable_save(&s));
        ck_assert_uint_eq(s.written, d.manifest.bytes); /* none is taken for the same */
        ck_assert(d.manifest.sums);
        check_rebuilt(&instant);
    }
    s.written = 0;
    OK(durable_save(&s));
    ck_assert_uint_eq(s.written, 0);
}
END_TEST

/* ---- Leftovers ---- */

static void
stage_one(uint64_t boot, uint32_t var, uint64_t version, size_t *written)
{
    struct store_key key = {.var = var};
    static uint8_t value[4 * KIB];
    struct block_head head = {.version = version, .var = var};
    bool more = true;

    memcpy(value, &head, sizeof head);
    value[100] = (uint8_t)boot;
    while (more)
        OK(durable_begin_save(&d, boot, &more));
    OK(durable_begin(&d, MIB));
    OK(durable_stage(&d, &key, (struct span){value, layout_value_size(0)}, written));
    OK(durable_commit(&d));
}

START_TEST(what_another_boot_staged_is_erased_first)
{
    struct shard_save s = {.number = 1, .boot = 6, .redo = 1, .blocks = 1};
    struct instant have;
    size_t written;

    stage_one(5, 1, 3, &written);
    stage_one(5, 2, 3, &written);
    stage_one(5, 2, 3, &written);
    ck_assert_uint_eq(written, 0);
    stage_one(6, 2, 3, &written); /* the same version, another value */
    ck_assert_uint_eq(written, layout_value_size(0));
    OK(durable_begin(&d, MIB));
    OK(durable_finish(&d, &s, 0));
    OK(durable_commit(&d));
    have = instant_of(disk, d.manifest.generation);
    ck_assert_uint_eq(have.len, 1);
    ck_assert_uint_eq(have.blocks[0].var, 2);
    ck_assert_uint_eq(have.blocks[0].bytes[100], 6);
    instant_free(&have);
    power_cycle();
    stage_one(7, 2, 3, &written);
    ck_assert_uint_eq(written, layout_value_size(0));
    stage_one(7, 2, 3, &written);
    ck_assert_uint_eq(written, 0);
}
END_TEST

START_TEST(many_leftovers_go_in_bounded_transactions)
{
    enum { MANY = 3000 };
    uint8_t value[4 * KIB] = {0};
    struct span span = {value, layout_value_size(0)};
    size_t written;
    int calls = 0;
    bool more;

    OK(durable_begin_save(&d, 5, &more));
    OK(durable_begin(&d, DURABLE_TXN_MAX));
    for (uint32_t i = 0; i < MANY; i++)
        OK(durable_stage(&d, &(struct store_key){.var = 1, .block = i}, span, &written));
    OK(durable_commit(&d));
    do {
        OK(durable_begin_save(&d, 6, &more));
        if (++calls == 1) {
            power_cycle(); /* on the way */
            ck_assert_uint_eq(d.staged_boot, 5);
        }
    } while (more);
    ck_assert_int_ge(calls, MANY / 1024);
    ck_assert_uint_eq(instant_values(disk), 0);
    power_cycle();
    ck_assert_uint_eq(d.staged_boot, 6);
}
END_TEST

/* ---- Drops ---- */

#define WATCHER 9

static void
drop_by_name(const char *variables)
{
    Psd__Drop m = PSD__DROP__INIT;

    m.job = (char *)"train";
    m.variables = (char *)variables;
    m.force = true;
    kit_observe(&k, WATCHER);
    kit_frame(&k, WATCHER, MSG_DROP, 1, &m.base, NULL, 0);
    kit_work(&k);
    kit_answer_free(kit_expect(&k, WATCHER, MSG_DROPPED));
    kit_close(&k, WATCHER);
}

struct blocks_of {
    uint32_t var;
    uint64_t n;
};

static bool
count_of_var(void *arg, const struct store_key *key, struct span value)
{
    struct blocks_of *b = arg;

    (void)value;
    b->n += key->generation < STORE_GENERATION_REDO && key->var == b->var;
    return true;
}

/* In both generations. */
static uint64_t
blocks_on_disk(uint32_t var)
{
    struct blocks_of b = {.var = var};

    OK(disk->ops->each_block(disk, count_of_var, &b));
    return b.n;
}

static void
cut_all(void)
{
    for (bool more = true; more;)
        OK(durable_cut(&d, &more));
}

START_TEST(what_was_dropped_leaves_the_disk)
{
    struct durable_saver quiet = {.batch = 7};

    save_whole();
    save_whole();
    ck_assert_uint_eq(blocks_on_disk(1), 2 * layouts[1].blocks);
    drop_by_name("b"); /* the first */
    OK(durable_save(&quiet));
    check_rebuilt(&instant);
    cut_all();
    ck_assert_uint_eq(blocks_on_disk(1), 0);
    ck_assert_uint_eq(blocks_on_disk(3), 2 * layouts[3].blocks);
    drop_by_name("*");
    OK(durable_save(&quiet));
    OK(durable_save(&quiet)); /* nothing was cut in between */
    check_rebuilt(&instant);
    cut_all();
    ck_assert_uint_eq(blocks_on_disk(2) + blocks_on_disk(3), 0);
}
END_TEST

/* What is left by saves that were not completed is of no harm to a later one. */
START_TEST(a_drop_after_a_save_that_failed_is_whole)
{
    enum ps_err err = PS_ERR_CANCELLED;

    for (uint64_t commits = 1; err != PS_OK; commits++) {
        struct durable_saver fails = {.batch = 7, .commits = commits}, whole = {.batch = 7};
        char name[2] = {(char)('a' + 1 + commits % VARS), 0};

        save_whole();
        err = durable_save(&fails);
        if (commits % 2 == 0)
            power_cycle();
        drop_by_name(name);
        OK(durable_save(&whole));
        check_rebuilt(&instant);
        ck_assert_uint_le(blocks_on_disk((uint32_t)(1 + commits % VARS)), layouts[1 + commits % VARS].blocks);
        durable_teardown();
        durable_setup();
    }
}
END_TEST

/* ---- The redo log ---- */

static void
put_pieces(uint64_t from, uint64_t to)
{
    static uint8_t piece[4 * KIB];

    OK(durable_begin(&d, DURABLE_TXN_MAX));
    for (uint64_t n = from; n < to; n++) {
        memcpy(piece, &n, sizeof n);
        OK(durable_redo(&d, n, (struct span){piece, layout_value_size(0)}));
    }
    OK(durable_commit(&d));
}

static void
finish_at(uint64_t redo)
{
    struct shard_save s = {.number = d.manifest.save + 1, .boot = 5, .redo = redo};
    bool more;

    OK(durable_begin_save(&d, 5, &more));
    OK(durable_begin(&d, MIB));
    OK(durable_finish(&d, &s, 0));
    OK(durable_commit(&d));
}

static bool
count_piece(void *arg, const struct store_key *key, struct span value)
{
    uint64_t *n = arg, number;

    memcpy(&number, value.data, sizeof number);
    ck_assert_uint_eq(number, store_redo_number(key));
    (*n)++;
    return true;
}

static uint64_t
pieces_there(void)
{
    struct store_key key = store_redo_key(0);
    uint64_t n = 0;

    OK(disk->ops->each_block_from(disk, &key, count_piece, &n));
    return n;
}

START_TEST(redo_log_grows_and_is_cut_by_saves)
{
    bool more = true;
    int calls = 0;

    put_pieces(1, 3000);
    put_pieces(2999, 3001); /* one again */
    ck_assert_uint_eq(d.redo_next, 3001);
    ck_assert_uint_eq(d.redo_first, 1);
    OK(durable_cut(&d, &more));
    ck_assert(!more); /* no save has any of them */
    finish_at(2500);
    ck_assert_uint_eq(d.redo_first, 2500);
    power_cycle();
    ck_assert_uint_eq(d.redo_first, 2500);
    ck_assert_uint_eq(d.redo_next, 3001);
    for (more = true; more; calls++)
        OK(durable_cut(&d, &more));
    ck_assert_int_ge(calls, 2);
    ck_assert_uint_eq(pieces_there(), 501);
    finish_at(3001);
    for (more = true; more;)
        OK(durable_cut(&d, &more));
    ck_assert_uint_eq(pieces_there(), 0);
    power_cycle();
    ck_assert_uint_eq(d.redo_next, 3001);
}
END_TEST

START_TEST(pieces_that_were_not_committed_do_not_count)
{
    static uint8_t piece[4 * KIB];

    put_pieces(1, 4);
    OK(durable_begin(&d, MIB));
    OK(durable_redo(&d, 4, (struct span){piece, layout_value_size(0)}));
    durable_abort(&d);
    ck_assert_uint_eq(d.redo_next, 4);
    power_cycle();
    ck_assert_uint_eq(d.redo_next, 4);
    ck_assert_uint_eq(pieces_there(), 3);
}
END_TEST

START_TEST(gap_in_the_redo_log_is_noticed)
{
    put_pieces(1, 4);
    put_pieces(5, 6);
    durable_refused("test", 0, PS_ERR_IO, "has a gap");
}
END_TEST

START_TEST(lost_end_of_the_redo_log_is_noticed)
{
    struct store_key last = store_redo_key(3);

    put_pieces(1, 4);
    OK(disk->ops->begin(disk, MIB));
    OK(disk->ops->erase(disk, &last));
    OK(disk->ops->commit(disk));
    durable_refused("test", 0, PS_ERR_IO, "pieces from 3 to 3 are missing");
}
END_TEST

static void
add_common(TCase *t)
{
    tcase_set_timeout(t, 120);
    tcase_add_test(t, empty_store_becomes_this_shards_and_no_others);
    tcase_add_test(t, rebuilt_store_is_the_instant_of_the_save);
    tcase_add_test(t, unchanged_blocks_are_not_written_again);
    tcase_add_test(t, rows_that_are_gone_are_gone_in_the_next_save);
    tcase_add_test(t, power_lost_after_any_commit_leaves_one_save_or_the_other);
    tcase_add_test(t, many_leftovers_go_in_bounded_transactions);
    tcase_add_test(t, what_was_dropped_leaves_the_disk);
    tcase_add_test(t, redo_log_grows_and_is_cut_by_saves);
    tcase_add_test(t, pieces_that_were_not_committed_do_not_count);
}

static Suite *
make_suite(void)
{
    Suite *s = suite_create("durable");
    TCase *t = tcase_create("memory"), *lmdb = tcase_create("lmdb");

    tcase_add_checked_fixture(t, durable_setup, durable_teardown);
    add_common(t);
    tcase_add_test(t, live_store_is_not_taken_for_a_durable_one);
    tcase_add_test(t, newer_formats_are_refused_with_a_sentence);
    tcase_add_test(t, a_save_has_the_format_of_its_data);
    tcase_add_test(t, without_a_save_nothing_is_rebuilt);
    tcase_add_test(t, a_live_store_that_has_just_the_room_is_rebuilt);
    tcase_add_test(t, rebuilt_data_has_the_boot_that_was_given);
    tcase_add_test(t, any_operation_of_a_save_may_fail);
    tcase_add_test(t, any_operation_of_a_rebuild_may_fail_and_the_next_one_is_whole);
    tcase_add_test(t, rebuild_may_be_given_up);
    tcase_add_test(t, missing_block_of_a_save_is_noticed);
    tcase_add_test(t, what_another_boot_staged_is_erased_first);
    tcase_add_test(t, a_drop_after_a_save_that_failed_is_whole);
    tcase_add_test(t, gap_in_the_redo_log_is_noticed);
    tcase_add_test(t, no_flipped_bit_of_a_save_is_rebuilt);
    tcase_add_test(t, a_store_whose_facts_are_gone_is_refused);
    tcase_add_test(t, a_save_that_verifies_mends_the_disk);
    tcase_add_loop_test(t, a_save_that_verifies_names_what_is_damaged_in_memory, 0, 2);
    tcase_add_test(t, a_damaged_block_is_taken_from_the_other_generation);
    tcase_add_test(t, a_damaged_block_that_lies_nowhere_else_is_named);
    tcase_add_test(t, a_save_without_checksums_is_read_and_the_next_one_has_them);
    tcase_add_test(t, lost_end_of_the_redo_log_is_noticed);
    suite_add_tcase(s, t);
    tcase_add_checked_fixture(lmdb, setup_lmdb, durable_teardown);
    add_common(lmdb);
    suite_add_tcase(s, lmdb);
    return s;
}

CHECK_MAIN(make_suite)
