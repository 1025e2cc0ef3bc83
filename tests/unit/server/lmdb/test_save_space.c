/* Saves of a shard whose memory has no room for two values of every block: over the real store, which turns new values
 * away before it is full. No push is ever refused for a save. */
#include "tests/unit/kits/shard_kit.h"

#include <stdlib.h>
#include <string.h>

#include "server/lmdb/store_lmdb.h"
#include "tests/remove_tree.h"
#include "tests/unit/kits/instant.h"
#include "tests/unit/kits/memory_dir.h"

enum { BLOCKS = 96, LEN = 65536 };

static struct kit k;
static char dir[64];
static uint32_t var;
static uint64_t seq;

static void
save_space_setup(void)
{
    struct store_lmdb_options o = {.dir = dir, .max_bytes = 64 * MIB};
    struct store_dir_report report;
    struct store *store;
    struct ps_error e;

    snprintf(dir, sizeof dir, "%s/psd-save-XXXXXX", memory_dir());
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_msg(store_lmdb_open(&o, &store, &report, &e) == PS_OK, "%s", e.text);
    kit_init_over(&k, &kit_durable_config, store);
    seq = 0;
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    kit_observe(&k, 2);
    var = kit_declare(&k, 1, "w", (uint64_t)BLOCKS * LEN, PS_SGD);
}

static void
save_space_teardown(void)
{
    kit_finish(&k);
    ck_assert_int_eq(remove_tree(dir), 0);
}

static void
save_space_push(uint32_t block)
{
    static float gradient[LEN];

    gradient[0] = 1;
    kit_push(&k, 1, &(struct kit_push){.seq = ++seq, .var = var, .block = block, .gradient = gradient, .len = LEN});
    kit_ack(&k, 1, seq, PS_OK);
}

static void
ask_save(void)
{
    Psd__Save m = PSD__SAVE__INIT;

    kit_frame(&k, 2, MSG_SAVE, 5, &m.base, NULL, 0);
}

/* Let the saver have read this many more. */
static void
save_space_pass(size_t n)
{
    struct shard_save_block blocks[BLOCKS];

    n = shard_save_next(k.shard, SIZE_MAX, blocks, n);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = n});
}

START_TEST(save_yields_and_every_push_is_taken)
{
    for (int round = 0; round < 5; round++) {
        ask_save();
        ck_assert_ptr_nonnull(k.save);
        save_space_pass((size_t)round);
        for (uint32_t i = 0; i < 2 * BLOCKS; i++)
            save_space_push(i % BLOCKS);
        ck_assert_uint_eq(k.abandoned, (unsigned)round + 1);
        kit_expect_error(&k, 2, 5, PS_ERR_FULL);
        kit_work(&k);
        ck_assert_uint_eq(instant_values(k.store), BLOCKS);
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        struct block_head head = {0};
        static float out[LEN];

        head.version = kit_read(&k, 1, var, i, out, LEN);
        ck_assert_uint_eq(head.version, 10);
    }
}
END_TEST

START_TEST(saver_that_keeps_ahead_is_not_given_up)
{
    for (int round = 0; round < 3; round++) {
        ask_save();
        for (uint32_t i = 0; i < BLOCKS; i++) {
            save_space_push(BLOCKS - 1 - i);
            save_space_push(i);
            save_space_pass(2);
        }
        ck_assert(k.save_closing);
        kit_save_ended(&k, 1, 0, NULL);
        kit_answer_free(kit_expect(&k, 2, MSG_SAVE_DONE));
        kit_work(&k);
        ck_assert_uint_eq(instant_values(k.store), BLOCKS);
    }
    ck_assert_uint_eq(k.abandoned, 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("save_room");
    TCase *t = tcase_create("save_room");

    tcase_add_checked_fixture(t, save_space_setup, save_space_teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, save_yields_and_every_push_is_taken);
    tcase_add_test(t, saver_that_keeps_ahead_is_not_given_up);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
