/* Saves and checkpoints when an allocation fails, each in turn: the client is told or may ask again, nothing leaks, and
 * the next one is made. */
#include "tests/unit/kits/shard_kit.h"

#include <string.h>

#include "tests/unit/kits/counted_memory.h"

static struct kit k;

static void
save_memory_start(void)
{
    kit_init(&k, &kit_durable_config);
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    kit_declare(&k, 1, "w", 20000, PS_SGD);
    kit_observe(&k, 2);
}

/* One event and its turn, in which the nth allocation fails. False: there were fewer. */
static bool
step_failing(struct shard_event *event, size_t n)
{
    enum shard_result taken_or_full;
    enum ps_err err;
    bool failed;

    event->now_ms = k.now_ms;
    fail_in = n; /* Check allocates, too: no assertion until this is over */
    taken_or_full = shard_step(k.shard, event);
    err = shard_commit(k.shard);
    failed = fail_in == 0;
    fail_in = 0;
    ck_assert_int_eq(taken_or_full, SHARD_TAKEN);
    ck_assert(err == PS_OK || failed);
    kit_turn(&k);
    return failed;
}

/* Conn 2 asks, as a frame. */
struct save_memory_reads {
    struct frame_head head;
    uint8_t meta[256];
    struct shard_event event;
};

static void
save_memory_ask(struct save_memory_reads *a, bool checkpoint)
{
    Psd__Checkpoint c = PSD__CHECKPOINT__INIT;
    Psd__Save s = PSD__SAVE__INIT;
    const ProtobufCMessage *m = checkpoint ? &c.base : &s.base;

    c.job = (char *)"train";
    c.dir = (char *)"/ckpt";
    *a = (struct save_memory_reads){.head = {.version = FRAME_VERSION,
                                             .type = checkpoint ? MSG_CHECKPOINT : MSG_SAVE,
                                             .meta_len = (uint32_t)protobuf_c_message_pack(m, a->meta),
                                             .request = 5}};
    protobuf_c_message_pack(m, a->meta);
    a->event =
        (struct shard_event){.kind = SHARD_FRAME, .conn = 2, .role = ROLE_ADMIN, .head = &a->head, .meta = a->meta};
}

/* Told why not, or the connection ended; then it asks again. */
static void
ask_again(struct save_memory_reads *a)
{
    if (k.open[2])
        kit_expect_error(&k, 2, 5, PS_ERR_NOMEM);
    else
        kit_observe(&k, 2);
    kit_event(&k, &a->event);
    ck_assert_ptr_nonnull(k.save);
}

static void
pass_all(void)
{
    struct shard_save_block blocks[100];
    size_t n = shard_save_next(k.shard, SIZE_MAX, blocks, 100);

    kit_event(&k, &(struct shard_event){.kind = SHARD_SAVE_PASSED, .count = n});
    ck_assert(k.save_closing);
}

/* _i: 0 a save, 1 a checkpoint. */
START_TEST(beginning_one_may_fail_at_any_allocation)
{
    bool failed = true;
    struct save_memory_reads a;

    for (size_t n = 1; failed; n++) {
        size_t before = taken - given;

        save_memory_start();
        save_memory_ask(&a, _i == 1);
        failed = step_failing(&a.event, n);
        if (k.save == NULL)
            ask_again(&a);
        pass_all();
        kit_save_ended(&k, 1, 0, NULL);
        kit_answer_free(kit_expect(&k, 2, _i == 1 ? MSG_CHECKPOINT_DONE : MSG_SAVE_DONE));
        kit_finish(&k);
        ck_assert_uint_eq(taken - given, before);
        ck_assert_uint_lt(n, 1000);
    }
}
END_TEST

START_TEST(ending_one_may_fail_at_any_allocation)
{
    bool failed = true;
    struct save_memory_reads a;

    for (size_t n = 1; failed; n++) {
        struct shard_event ended = {.kind = SHARD_SAVE_ENDED, .bytes = 1};
        size_t before = taken - given;

        save_memory_start();
        save_memory_ask(&a, _i == 1);
        kit_event(&k, &a.event);
        pass_all();
        shard_save_free(k.save);
        k.save = NULL;
        failed = step_failing(&ended, n);
        if (k.open[2])
            kit_answer_free(kit_expect(&k, 2, _i == 1 ? MSG_CHECKPOINT_DONE : MSG_SAVE_DONE));
        else
            kit_observe(&k, 2);
        kit_event(&k, &a.event);
        pass_all();
        kit_finish(&k);
        ck_assert_uint_eq(taken - given, before);
        ck_assert_uint_lt(n, 1000);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("save_memory");
    TCase *t = tcase_create("save_memory");

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, beginning_one_may_fail_at_any_allocation, 0, 2);
    tcase_add_loop_test(t, ending_one_may_fail_at_any_allocation, 0, 2);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
