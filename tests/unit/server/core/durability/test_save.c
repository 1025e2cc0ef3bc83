/* Saves: one instant, whatever comes between the saver's steps; old copies of blocks; checkpoints at a clock. */
#include "server/core/shard_state.h"
#include "tests/unit/kits/shard_kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/kits/instant.h"

static struct kit k;

static struct instant instant; /* of the save that runs */

enum { SOCKET_ACTIVATION_MAX = 4096 };

static struct {
    struct shard_save_block blocks[SOCKET_ACTIVATION_MAX];
    size_t handed, read, passed;
} saver;

static void
save_instant(struct kit *kit)
{
    memset(&saver, 0, sizeof saver);
    instant_free(&instant);
    instant = instant_of(kit->store, INSTANT_NEWEST);
}

static void
save_begun(struct kit *kit)
{
    if (kit->save->checkpoint != NULL)
        return;
    ck_assert_uint_eq(kit->save->blocks, instant.len);
    instant_check_rows(&instant, kit->save);
}

/* ---- The saver ---- */

static void
check_block(const struct shard_save_block *b)
{
    const struct instant_block *c = instant_find(&instant, b->key.var, b->key.block);
    struct store_snapshot *snap;
    struct span value;

    ck_assert_ptr_nonnull(c);
    ck_assert_int_eq(k.store->ops->snapshot_ref(k.store, &snap), PS_OK);
    ck_assert_int_eq(k.store->ops->snapshot_get(k.store, snap, &b->key, &value), PS_OK);
    ck_assert_uint_eq(value.len, b->size);
    ck_assert_uint_eq(value.len, c->size);
    ck_assert_mem_eq(value.data, c->bytes, c->size);
    k.store->ops->snapshot_unref(k.store, snap);
}

static void
save_fetch(size_t bytes, size_t room)
{
    saver.handed +=
        shard_save_next(k.shard, bytes, saver.blocks + saver.handed, MIN(room, SOCKET_ACTIVATION_MAX - saver.handed));
}

static void
read_blocks(size_t n)
{
    for (; n > 0 && saver.read < saver.handed; n--)
        check_block(&saver.blocks[saver.read++]);
}

static void
save_pass(size_t n)
{
    n = MIN(n, saver.read - saver.passed);
    saver.passed += n;
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = n});
}

static void
save_run(void)
{
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
}

/* Read what is missing and end it. */
static void
finish_save(void)
{
    ck_assert_ptr_nonnull(k.save);
    save_fetch(SIZE_MAX, SOCKET_ACTIVATION_MAX);
    read_blocks(SOCKET_ACTIVATION_MAX);
    save_pass(SOCKET_ACTIVATION_MAX);
    ck_assert(k.save_closing);
    ck_assert_uint_eq(saver.passed, k.save->blocks);
    kit_save_ended(&k, 1000, 0, NULL);
}

static size_t
values_in_store(void)
{
    return instant_values(k.store);
}

/* ---- Shards ---- */

static void
start_with(uint64_t bytes, uint32_t save_looks)
{
    struct shard_config config = {.cluster = "test",
                                  .shards = 1,
                                  .boot = 77,
                                  .durable = true,
                                  .durable_dir = "/d",
                                  .saved = 6,
                                  .save_looks = save_looks};

    kit_init_size(&k, &config, bytes);
    k.save_instant = save_instant;
    k.save_begun = save_begun;
}

static void
start_bytes(uint64_t bytes)
{
    start_with(bytes, 0);
}

static void
save_setup(void)
{
    start_bytes(256 * MIB);
}

/* A save's begin looks at one variable in each event. */
static void
save_setup_pieces(void)
{
    start_with(256 * MIB, 1);
}

static void
save_teardown(void)
{
    instant_free(&instant);
    kit_finish(&k);
}

static uint32_t
one_variable(Psd__Mode mode)
{
    kit_join(&k, 1, kit_job("train", mode, 1), 0);
    return kit_declare(&k, 1, "w", 4, PS_SGD);
}

static struct kit_answer *
report_status(uint64_t conn)
{
    return kit_ask(&k, conn, PSD__QUERY_KIND__STATUS, NULL);
}

static void
ask_save(uint64_t conn, uint64_t request)
{
    Psd__Save m = PSD__SAVE__INIT;

    kit_frame(&k, conn, MSG_SAVE, request, &m.base, NULL, 0);
}

static Psd__SaveDone
save_answered(uint64_t conn, uint64_t request)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_SAVE_DONE);
    Psd__SaveDone m = *a->msg.u.save_done;

    ck_assert_uint_eq(a->msg.request, request);
    kit_answer_free(a);
    return m;
}

START_TEST(updates_during_a_save_do_not_touch_its_values)
{
    uint32_t var = one_variable(PSD__MODE__ASYNC);

    kit_push_four(&k, 1, 1, 0, var, 1);
    save_run();
    save_fetch(SIZE_MAX, 1);
    kit_push_four(&k, 1, 2, 0, var, 1);
    kit_push_four(&k, 1, 3, 0, var, 1);
    kit_drop_answers(&k, 1);
    ck_assert(kit_value_four(&k, 1, var, 3) == -3);
    ck_assert_uint_eq(values_in_store(), 2);
    finish_save();
    kit_work(&k);
    ck_assert_uint_eq(values_in_store(), 1);
    ck_assert(kit_value_four(&k, 1, var, 3) == -3);
    kit_push_four(&k, 1, 4, 0, var, 1); /* in place again */
    kit_drop_answers(&k, 1);
    ck_assert_uint_eq(values_in_store(), 1);
    ck_assert(kit_value_four(&k, 1, var, 4) == -4);
}
END_TEST

/* The answer to a pull, not opened yet. */
static struct shard_data *
pull_unopened(uint32_t var)
{
    struct shard_data *d = NULL;
    struct shard_action a;

    k.hold = true;
    kit_pull(&k, 1, var, 0, 0);
    ck_assert_int_eq(shard_commit(k.shard), PS_OK);
    while (shard_next_action(k.shard, &a))
        if (a.kind == SHARD_DATA)
            d = a.data;
    ck_assert_ptr_nonnull(d);
    return d;
}

START_TEST(newest_commit_is_served_while_the_open_turn_moves_its_block)
{
    uint32_t var = one_variable(PSD__MODE__ASYNC);
    struct store_snapshot *snap;
    struct shard_reply reply;
    struct shard_data *d;

    kit_push_four(&k, 1, 1, 0, var, 1);
    save_run();
    d = pull_unopened(var);
    kit_push_four(&k, 1, 2, 0, var, 1);
    ck_assert_int_eq(k.store->ops->snapshot_ref(k.store, &snap), PS_OK);
    ck_assert_int_eq(shard_data_open(k.shard, d, snap, &reply), PS_OK);
    ck_assert(((const float *)reply.parts[0].data)[0] == -1);
    shard_data_free(d);
    k.store->ops->snapshot_unref(k.store, snap);
    k.hold = false;
    kit_turn(&k);
    kit_drop_answers(&k, 1);
    ck_assert(kit_value_four(&k, 1, var, 2) == -2);
    finish_save();
}
END_TEST

START_TEST(a_save_that_verifies_says_what_it_has_found)
{
    struct shard_verified found = {.blocks = 5, .mended = 2, .differ = 1};
    uint32_t var = one_variable(PSD__MODE__ASYNC);
    Psd__Save m = PSD__SAVE__INIT;
    struct kit_answer *a;

    found.first_mended = (struct store_key){.var = var, .block = 0, .generation = 1};
    found.first_differs = (struct store_key){.var = var + 100};
    kit_observe(&k, 2);
    m.verify = true;
    kit_frame(&k, 2, MSG_SAVE, 7, &m.base, NULL, 0);
    ck_assert(k.save != NULL && k.save->verify);
    k.verified = &found;
    finish_save();
    a = kit_expect(&k, 2, MSG_SAVE_DONE);
    ck_assert(a->msg.u.save_done->verify);
    ck_assert_uint_eq(a->msg.u.save_done->verified, 5);
    ck_assert_uint_eq(a->msg.u.save_done->mended, 2);
    ck_assert_uint_eq(a->msg.u.save_done->differ, 1);
    ck_assert_str_eq(a->msg.u.save_done->first_mended, "block 0 of variable 'w' of job 'train'");
    ck_assert_str_eq(a->msg.u.save_done->first_differs, "block 0 of a variable that was dropped");
    kit_answer_free(a);
    ask_save(2, 8);
    ck_assert(k.save != NULL && !k.save->verify);
    finish_save();
    ck_assert(!save_answered(2, 8).verify);
}
END_TEST

START_TEST(save_is_answered_with_its_number_and_reported)
{
    struct kit_answer *a;
    Psd__SaveDone m;

    one_variable(PSD__MODE__ASYNC);
    kit_observe(&k, 2);
    ck_assert(shard_save_due(k.shard));
    ask_save(2, 7);
    ck_assert_ptr_nonnull(k.save);
    ck_assert_uint_eq(k.save->number, 7); /* after the 6 that are there */
    ck_assert_uint_eq(k.save->boot, 77);
    ck_assert_uint_gt(k.save->redo, 1); /* rows are recorded, too */
    ck_assert_ptr_null(k.save->checkpoint);
    a = report_status(2);
    ck_assert(a->msg.u.report->status->save->running);
    ck_assert_uint_eq(a->msg.u.report->status->save->save, 6);
    ck_assert_uint_eq(a->msg.u.report->status->save->blocks, 1);
    kit_answer_free(a);
    k.now_ms += 50;
    finish_save();
    m = save_answered(2, 7);
    ck_assert_uint_eq(m.save, 7);
    ck_assert_uint_eq(m.blocks, 1);
    ck_assert_uint_eq(m.bytes, 1000);
    ck_assert_uint_eq(m.ms, 50);
    ck_assert(!shard_save_due(k.shard));
    k.now_ms += 5;
    a = report_status(2);
    ck_assert(!a->msg.u.report->status->save->running);
    ck_assert_uint_eq(a->msg.u.report->status->save->save, 7);
    ck_assert_uint_eq(a->msg.u.report->status->save->saves, 1);
    ck_assert_uint_eq(a->msg.u.report->status->save->since_ms, 55);
    ck_assert_uint_eq(a->msg.u.report->status->save->last_ms, 50);
    ck_assert_uint_eq(a->msg.u.report->status->save->last_bytes, 1000);
    ck_assert_str_eq(a->msg.u.report->status->save->durable_dir, "/d");
    kit_answer_free(a);
}
END_TEST

START_TEST(who_asks_during_a_save_is_answered_by_the_next_one)
{
    uint32_t var = one_variable(PSD__MODE__ASYNC);

    kit_observe(&k, 2);
    kit_observe(&k, 3);
    ask_save(2, 1);
    kit_push_four(&k, 1, 1, 0, var, 1);
    ask_save(2, 2);
    ask_save(3, 3);
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE});
    finish_save();
    ck_assert_uint_eq(save_answered(2, 1).save, 7);
    kit_expect_nothing(&k, 2);
    kit_expect_nothing(&k, 3);
    ck_assert_ptr_null(k.save); /* something is left behind yet */
    kit_work(&k);
    ck_assert_ptr_nonnull(k.save);
    finish_save();
    ck_assert_uint_eq(save_answered(2, 2).save, 8);
    ck_assert_uint_eq(save_answered(3, 3).save, 8);
    kit_work(&k);
    ck_assert_ptr_null(k.save);
}
END_TEST

START_TEST(without_a_durable_environment_saves_are_unsupported)
{
    struct kit_answer *a;

    kit_finish(&k);
    kit_init(&k, NULL);
    kit_observe(&k, 1);
    ask_save(1, 4);
    kit_expect_error(&k, 1, 4, PS_ERR_UNSUPPORTED);
    a = report_status(1);
    ck_assert_ptr_null(a->msg.u.report->status->save);
    kit_answer_free(a);
}
END_TEST

START_TEST(failed_save_is_told_and_the_next_one_may_come)
{
    struct ps_error e;
    struct kit_answer *a;
    uint32_t var = one_variable(PSD__MODE__ASYNC);

    kit_observe(&k, 2);
    ask_save(2, 1);
    kit_push_four(&k, 1, 1, 0, var, 1);
    ck_assert_int_eq(ps_fail(&e, PS_ERR_IO, "the disk is gone"), PS_ERR_IO);
    kit_save_ended(&k, 0, 0, &e);
    kit_expect_error(&k, 2, 1, PS_ERR_IO);
    ck_assert(shard_save_due(k.shard));
    a = report_status(2);
    ck_assert_uint_eq(a->msg.u.report->status->save->failures, 1);
    ck_assert_str_eq(a->msg.u.report->status->save->failure, "the disk is gone");
    kit_answer_free(a);
    kit_work(&k);
    ck_assert_uint_eq(values_in_store(), 1);
    save_run();
    finish_save();
    a = report_status(2);
    ck_assert_str_eq(a->msg.u.report->status->save->failure, "");
    kit_answer_free(a);
}
END_TEST

START_TEST(save_that_cannot_read_its_rows_is_told_so)
{
    one_variable(PSD__MODE__ASYNC);
    kit_observe(&k, 2);
    for (uint64_t n = 1; n <= 3; n++) { /* jobs, sessions, cursors */
        store_mem_fail_at(k.store, STORE_MEM_FAIL_EACH, n);
        ask_save(2, n);
        kit_expect_error(&k, 2, n, PS_ERR_IO);
        ck_assert_ptr_null(k.save);
    }
    ask_save(2, 4);
    finish_save();
    ck_assert_uint_eq(save_answered(2, 4).save, 7);
}
END_TEST

START_TEST(save_of_a_shard_without_blocks_closes_at_once)
{
    struct ps_error e;

    ck_assert_int_eq(ps_fail(&e, PS_ERR_FULL, "the disk is full"), PS_ERR_FULL);
    save_run();
    kit_save_ended(&k, 0, 0, &e);
    ck_assert(shard_save_due(k.shard));
    save_run();
    ck_assert(k.save_closing);
    ck_assert_uint_eq(k.save->blocks, 0);
    ck_assert_uint_eq(shard_save_next(k.shard, SIZE_MAX, saver.blocks, SOCKET_ACTIVATION_MAX), 0);
    kit_save_ended(&k, 0, 0, NULL);
    ck_assert(!shard_save_due(k.shard));
}
END_TEST

START_TEST(who_is_gone_or_gives_up_is_not_answered_and_the_save_goes_on)
{
    one_variable(PSD__MODE__ASYNC);
    kit_observe(&k, 2);
    kit_observe(&k, 3);
    ask_save(2, 1);
    ask_save(3, 2);
    kit_close(&k, 2);
    kit_cancel(&k, 3, 2);
    kit_expect_error(&k, 3, 2, PS_ERR_CANCELLED);
    finish_save();
    kit_expect_nothing(&k, 3);
    ck_assert_ptr_null(k.save); /* the second one was taken back */
}
END_TEST

START_TEST(save_goes_on_while_the_shard_drains)
{
    one_variable(PSD__MODE__ASYNC);
    kit_observe(&k, 2);
    ask_save(2, 1);
    k.hold = true;
    kit_event(&k, &(struct shard_event){.kind = SHARD_DRAIN});
    kit_turn(&k);
    k.hold = false;
    ck_assert(k.stopped); /* it waits for no save */
    kit_answer_free(kit_expect(&k, 2, MSG_EVENT));
    kit_expect_error(&k, 2, 1, PS_ERR_DRAINING);
    finish_save();
    save_run();
    finish_save();
}
END_TEST

/* ---- No room ---- */

START_TEST(without_room_for_both_values_the_save_is_abandoned_and_no_push_is_refused)
{
    enum { BLOCKS = 126, LEN = 65536 };
    static float gradient[LEN];
    struct ps_error e;
    uint32_t var;

    kit_finish(&k);
    start_bytes(60 * MIB);
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    kit_observe(&k, 2);
    var = kit_declare(&k, 1, "w", (uint64_t)BLOCKS * LEN, PS_SGD);
    ask_save(2, 1);
    for (uint32_t i = 0; i < 2 * BLOCKS; i++) {
        gradient[0] = (float)i;
        kit_push(&k, 1,
                 &(struct kit_push){.seq = i + 1, .var = var, .block = i % BLOCKS, .gradient = gradient, .len = LEN});
        kit_ack(&k, 1, i + 1, PS_OK);
    }
    ck_assert_uint_eq(k.abandoned, 1);
    ck_assert_ptr_null(k.save);
    kit_expect_error(&k, 2, 1, PS_ERR_FULL);
    ck_assert_uint_eq(shard_save_next(k.shard, SIZE_MAX, saver.blocks, SOCKET_ACTIVATION_MAX), 0);
    ck_assert_int_eq(ps_fail(&e, PS_ERR_IO, "late"), PS_ERR_IO);
    kit_work(&k);
    ck_assert_uint_eq(values_in_store(), BLOCKS);
    save_run(); /* and when it is calm, a save can be made */
    finish_save();
}
END_TEST

/* ---- Many variables ---- */

static void
save_set_rate(uint64_t conn, const char *variables, double value)
{
    Psd__Parameter rate = PSD__PARAMETER__INIT, *parameters[] = {&rate};
    Psd__Set set = PSD__SET__INIT;

    rate.name = (char *)"learning_rate";
    rate.value = value;
    set.job = (char *)"train";
    set.variables = (char *)variables;
    set.parameter = parameters;
    set.n_parameter = 1;
    kit_frame(&k, conn, MSG_SET, 900, &set.base, NULL, 0);
}

static void
save_work_once(void)
{
    kit_event(&k, &(struct shard_event){.kind = SHARD_WORK});
}

/* Whatever comes before its variables were looked at: rows and blocks are those of its instant. */
START_TEST(save_of_many_variables_is_of_one_instant_though_it_looks_at_one_in_each_event)
{
    static const uint64_t large = 20 * 65536;
    float gradient[4] = {1, 2, 3, 4};

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    for (uint32_t i = 1; i <= 6; i++)
        kit_declare(&k, 1, (char[]){(char)('a' + i), 0}, 4, PS_SGD);
    k.hold = true; /* one that has none of its blocks yet */
    kit_declare_as(&k, 1, 800, "large", &large, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    k.hold = false;
    kit_turn(&k);
    save_run();
    ck_assert_ptr_null(k.save); /* not handed out */
    save_work_once();
    ck_assert_ptr_null(k.save);
    save_set_rate(1, "c", 0.25); /* looked at */
    save_set_rate(1, "f", 0.25); /* not yet; and again */
    save_set_rate(1, "f", 0.5);
    for (uint32_t var = 1; var <= 6; var++)
        kit_push(&k, 1, &(struct kit_push){.seq = var, .var = var, .gradient = gradient, .len = 4});
    kit_declare_as(&k, 1, 801, "late", NULL, 0, PS_SGD, PSD__INIT_KIND__ZEROS);
    for (int i = 0; k.save == NULL; i++) {
        ck_assert_int_lt(i, 20);
        save_work_once();
    }
    ck_assert_uint_eq(k.save->blocks, 6);
    kit_work(&k);
    finish_save();
    kit_work(&k);
    ck_assert_uint_eq(values_in_store(), k.shard->blocks);
    kit_drop_answers(&k, 1);
}
END_TEST

/* Not more than one event may: the instant itself looks at no variable. */
START_TEST(begin_of_a_save_looks_at_so_many_variables_in_each_event)
{
    enum { N = 5000 };
    uint64_t looks;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    k.hold = true;
    for (unsigned i = 0; i < N; i++) {
        char name[32];

        snprintf(name, sizeof name, "w%u", i);
        kit_declare_as(&k, 1, i + 1, name, NULL, 0, PS_SGD, PSD__INIT_KIND__ZEROS);
    }
    k.hold = false;
    kit_work(&k);
    kit_drop_answers(&k, 1);
    looks = k.shard->looks;
    save_run();
    for (int i = 0; k.save == NULL; i++) {
        ck_assert_int_lt(i, N / SHARD_SAVE_LOOKS + 2);
        ck_assert_uint_le(k.shard->looks - looks, SHARD_SAVE_LOOKS);
        looks = k.shard->looks;
        save_work_once();
    }
    ck_assert_uint_eq(k.save->blocks, N);
    ck_assert_uint_eq(k.save->rows_len, N + 2);
}
END_TEST

/* What was logged since its instant may be in the environment that failed, and not in the new one. */
START_TEST(save_that_was_not_handed_out_when_the_disk_failed_ends)
{
    struct ps_error io = {.code = PS_ERR_IO, .text = "the disk says IO"};
    struct kit_answer *a;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    for (uint32_t i = 1; i <= 6; i++)
        kit_declare(&k, 1, (char[]){(char)('a' + i), 0}, 4, PS_SGD);
    ask_save(1, 77);
    save_work_once();
    ck_assert_ptr_null(k.save);
    kit_event(&k, &(struct shard_event){.kind = SHARD_NOT_DURABLE, .error = &io});
    a = kit_expect(&k, 1, MSG_ERROR);
    ck_assert_uint_eq(a->msg.u.error->code, PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(a->msg.u.error->text, "the disk says IO"));
    kit_answer_free(a);
    kit_work(&k);
    ck_assert_ptr_null(k.save);
    save_run(); /* the next one has an instant of its own */
    kit_work(&k);
    ck_assert_ptr_nonnull(k.save);
}
END_TEST

/* Its connections and values are let go as those of one that was handed out; the saver never hears of it. */
START_TEST(save_that_is_given_up_before_it_is_handed_out_leaves_nothing)
{
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    for (uint32_t i = 1; i <= 6; i++)
        kit_declare(&k, 1, (char[]){(char)('a' + i), 0}, 4, PS_SGD);
    ask_save(1, 77);
    save_work_once();
    save_set_rate(1, "g", 0.25);
    ck_assert_ptr_null(k.save);
    save_abandon(k.shard, PS_ERR_FULL);
    kit_turn(&k);
    kit_drop_answers(&k, 1);
    ck_assert_uint_eq(k.abandoned, 0);
    ck_assert_ptr_null(k.shard->save.variables_changed);
    save_run();
    kit_work(&k);
    finish_save();
}
END_TEST

/* ---- Random ---- */

static struct {
    struct test_rng rng;
    Psd__Job *job;
    struct layout layout[4];
    uint32_t vars;
    uint64_t seq[3], clock[3];
    uint64_t saves;
} world;

static const uint64_t elements[] = {0, 40000, 10, 3000};

static void
world_job(Psd__Mode mode)
{
    world.job = kit_job("train", mode, 2);
    world.job->bound = 2;
}

static void
world_start(Psd__Mode mode, uint64_t seed)
{
    memset(&world, 0, sizeof world);
    world.rng.state = seed;
    world_job(mode);
    for (uint32_t task = 0; task < 2; task++)
        kit_join(&k, task + 1, world.job, task);
    for (uint32_t var = 1; var <= 3; var++) {
        enum ps_optimizer_kind kind = var == 3 ? PS_ADAM : PS_SGD;

        layout_init(&world.layout[var], elements[var], kind == PS_ADAM ? 2 : 0);
        ck_assert_uint_eq(kit_declare(&k, 1, (char[]){(char)('a' + var), 0}, elements[var], kind), var);
    }
}

/* Some of a block's gradient is another each time. */
static void
world_push(uint64_t conn)
{
    static float gradient[65536];
    uint32_t var = 1 + (uint32_t)test_below(&world.rng, 3);
    uint32_t block = (uint32_t)test_below(&world.rng, world.layout[var].blocks);
    struct layout_block cut = layout_block(&world.layout[var], block);

    gradient[test_below(&world.rng, cut.len)] = test_float(&world.rng);
    if (test_below(&world.rng, 8) == 0)
        gradient[0] = NAN; /* refused: the block is as it was */
    else if (!isfinite(gradient[0]))
        gradient[0] = 1;
    kit_push(&k, conn,
             &(struct kit_push){.seq = ++world.seq[conn],
                                .clock = world.clock[conn],
                                .var = var,
                                .block = block,
                                .gradient = gradient,
                                .len = cut.len});
}

static void
world_tick(uint64_t conn)
{
    kit_tick(&k, conn, ++world.seq[conn], ++world.clock[conn]);
}

static void
world_resume(uint64_t conn)
{
    struct kit_answer *a;

    store_mem_fail_none(k.store);
    k.hold = false;
    kit_hello(&k, conn, &(struct kit_hello){.job = world.job, .task = (uint32_t)conn - 1, .resume = true});
    a = kit_expect(&k, conn, MSG_WELCOME);
    world.seq[conn] = a->msg.u.welcome->last_seq;
    world.clock[conn] = a->msg.u.welcome->clock;
    kit_answer_free(a);
}

/* After a crash or a failure the state is as committed, and each block is there once after some work. */
static void
world_check(const struct instant *was)
{
    struct instant now = instant_of(k.store, INSTANT_NEWEST);

    instant_check_equal(was, &now);
    instant_free(&now);
}

static void
world_crash(void)
{
    struct instant was;

    k.hold = test_below(&world.rng, 2) == 0;
    world_push(1 + test_below(&world.rng, 2)); /* committed, or open when it is killed */
    was = instant_of(k.store, INSTANT_NEWEST);
    k.config.saved += world.saves;
    world.saves = 0;
    kit_crash(&k);
    store_mem_fail_none(k.store);
    k.hold = false;
    world_check(&was);
    kit_work(&k);
    world_check(&was);
    ck_assert_uint_eq(values_in_store(), was.len);
    instant_free(&was);
    world_resume(1);
    world_resume(2);
}

/* Of what a shard's turns do. */
static void
world_fail(void)
{
    store_mem_fail_at(k.store, (enum store_mem_fail)test_below(&world.rng, STORE_MEM_FAIL_SNAPSHOT_REF),
                      1 + test_below(&world.rng, 2));
}

static void
world_saver(void)
{
    if (k.save == NULL) {
        if (test_below(&world.rng, 3) == 0)
            save_run();
        return;
    }
    save_fetch(test_below(&world.rng, 200000), 1 + test_below(&world.rng, 5));
    read_blocks(test_below(&world.rng, 4));
    save_pass(test_below(&world.rng, 4));
    if (!k.save_closing || k.hold)
        return;
    ck_assert_uint_eq(saver.passed, instant.len);
    kit_save_ended(&k, 0, 0, NULL);
    world.saves++;
}

static void
world_step(bool faults)
{
    uint64_t conn = 1 + test_below(&world.rng, 2);

    for (uint64_t c = 1; c <= 2; c++)
        if (!k.open[c])
            world_resume(c);
    switch (test_below(&world.rng, faults ? 24 : 18)) {
    case 0:
    case 1:
        world_tick(conn);
        break;
    case 2:
    case 3:
        k.hold = !k.hold;
        break;
    case 4:
        save_work_once();
        break;
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
        world_saver();
        break;
    case 18:
        if (test_below(&world.rng, 4) == 0)
            world_crash();
        break;
    case 19:
        world_fail();
        break;
    case 17:
        if (test_below(&world.rng, 3) == 0)
            save_set_rate(conn, test_below(&world.rng, 2) == 0 ? "*" : "c", test_float(&world.rng) * 0.01 + 0.02);
        break;
    default:
        world_push(conn);
    }
    if (!k.hold)
        kit_turn(&k);
    kit_drop_answers(&k, 1);
    kit_drop_answers(&k, 2);
}

static void
world_run(Psd__Mode mode, bool faults, int steps)
{
    uint64_t complete = 0;

    world_start(mode, test_seed() + (uint64_t)mode * 1000 + faults);
    for (int i = 0; i < steps; i++) {
        uint64_t before = world.saves;

        world_step(faults);
        complete += world.saves > before;
    }
    k.hold = false;
    kit_turn(&k);
    ck_assert_uint_ge(complete, 5);
}

START_TEST(save_is_the_state_of_one_commit_whatever_comes_between)
{
    world_run((Psd__Mode)_i, false, 3000);
}
END_TEST

START_TEST(failed_turns_and_crashes_during_a_save_leave_each_block_once)
{
    world_run((Psd__Mode)_i, true, 6000);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("save");
    TCase *t = tcase_create("save");

    tcase_add_checked_fixture(t, save_setup, save_teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, updates_during_a_save_do_not_touch_its_values);
    tcase_add_test(t, newest_commit_is_served_while_the_open_turn_moves_its_block);
    tcase_add_test(t, save_is_answered_with_its_number_and_reported);
    tcase_add_test(t, a_save_that_verifies_says_what_it_has_found);
    tcase_add_test(t, who_asks_during_a_save_is_answered_by_the_next_one);
    tcase_add_test(t, without_a_durable_environment_saves_are_unsupported);
    tcase_add_test(t, failed_save_is_told_and_the_next_one_may_come);
    tcase_add_test(t, save_that_cannot_read_its_rows_is_told_so);
    tcase_add_test(t, save_of_a_shard_without_blocks_closes_at_once);
    tcase_add_test(t, who_is_gone_or_gives_up_is_not_answered_and_the_save_goes_on);
    tcase_add_test(t, save_goes_on_while_the_shard_drains);
    tcase_add_test(t, without_room_for_both_values_the_save_is_abandoned_and_no_push_is_refused);
    tcase_add_loop_test(t, save_is_the_state_of_one_commit_whatever_comes_between, PSD__MODE__ASYNC,
                        PSD__MODE__SYNC + 1);
    tcase_add_loop_test(t, failed_turns_and_crashes_during_a_save_leave_each_block_once, PSD__MODE__ASYNC,
                        PSD__MODE__SYNC + 1);
    suite_add_tcase(s, t);
    t = tcase_create("many variables");
    tcase_add_checked_fixture(t, save_setup, save_teardown);
    tcase_add_test(t, begin_of_a_save_looks_at_so_many_variables_in_each_event);
    suite_add_tcase(s, t);
    t = tcase_create("in pieces");
    tcase_add_checked_fixture(t, save_setup_pieces, save_teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, save_of_many_variables_is_of_one_instant_though_it_looks_at_one_in_each_event);
    tcase_add_test(t, save_that_is_given_up_before_it_is_handed_out_leaves_nothing);
    tcase_add_test(t, save_that_was_not_handed_out_when_the_disk_failed_ends);
    tcase_add_loop_test(t, save_is_the_state_of_one_commit_whatever_comes_between, PSD__MODE__ASYNC,
                        PSD__MODE__SYNC + 1);
    tcase_add_loop_test(t, failed_turns_and_crashes_during_a_save_leave_each_block_once, PSD__MODE__ASYNC,
                        PSD__MODE__SYNC + 1);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
