/* Pushes in async and ssp: checks, updates, and that a refusal changes nothing. */
#include "tests/unit/kits/shard_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/turn/turn.h"

enum { LARGE = 65536 /* elements of the largest block */ };

static float big[1 << 20]; /* 4 MiB */

static Psd__Job *
push_job(void)
{
    return kit_job("train", PSD__MODE__ASYNC, 2);
}

static void
push_gradient(uint64_t seq, uint32_t var, const float *g, size_t len)
{
    kit_push(&k, 1, &(struct kit_push){.seq = seq, .var = var, .gradient = g, .len = len});
}

static uint32_t
push_start(enum ps_optimizer_kind kind)
{
    kit_join(&k, 1, push_job(), 0);
    return kit_declare(&k, 1, "w", 4, kind);
}

/* Every optimizer through the shard, in place and out of place, must be what the kernel alone computes. */
START_TEST(updates_are_what_the_optimizer_computes)
{
    struct test_rng rng = {test_seed()};

    kit_join(&k, 1, push_job(), 0);
    for (int kind = 0; kind < PS_OPTIMIZER_KINDS; kind++) {
        enum { LEN = 333 };
        struct ps_optimizer o = kit_optimizer((enum ps_optimizer_kind)kind);
        static _Alignas(64) float arrays[1 + LAYOUT_SLOTS_MAX][336];
        struct optimizer_arrays a = {arrays[0], {arrays[1], arrays[2], arrays[3]}};
        static uint64_t seq = 1;
        float g[LEN], out[LEN];
        char name[16];
        uint32_t var;

        memset(arrays, 0, sizeof arrays);
        optimizer_start(&o, LEN, &a);
        snprintf(name, sizeof name, "w%d", kind);
        var = kit_declare(&k, 1, name, LEN, o.kind);
        for (uint64_t step = 1; step <= 20; step++) {
            for (int i = 0; i < LEN; i++)
                g[i] = test_float(&rng);
            ck_assert(optimizer_apply(&o, &(struct optimizer_when){.version = step}, 1, LEN, g, &a, &a, false));
            k.hold = step % 4 != 0; /* several in one turn are applied in place */
            push_gradient(seq++, var, g, LEN);
        }
        kit_drop_answers(&k, 1);
        ck_assert_uint_eq(kit_read(&k, 1, var, 0, out, LEN), 20);
        ck_assert_mem_eq(out, arrays[0], sizeof out);
    }
}
END_TEST

START_TEST(push_before_declare_is_refused)
{
    float g[4] = {0};

    kit_join(&k, 1, push_job(), 0);
    push_gradient(1, 1, g, 4);
    kit_ack(&k, 1, 1, PS_ERR_NOT_FOUND);
    push_gradient(2, UINT32_MAX, g, 4);
    kit_ack(&k, 1, 2, PS_ERR_NOT_FOUND);
}
END_TEST

START_TEST(payload_of_another_size_is_refused)
{
    uint32_t var = push_start(PS_SGD);
    float g[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct kit_answer *a;

    push_gradient(1, var, g, 3);
    a = kit_expect(&k, 1, MSG_ACK);
    ck_assert_uint_eq(a->msg.u.ack->code[0], PS_ERR_SHAPE);
    ck_assert_ptr_nonnull(strstr(a->msg.u.ack->error[0]->text, "16 bytes")); /* what it should be */
    ck_assert_ptr_nonnull(strstr(a->msg.u.ack->error[0]->text, "12"));       /* and what it is */
    kit_answer_free(a);
    push_gradient(2, var, g, 8);
    kit_ack(&k, 1, 2, PS_ERR_SHAPE);
    push_gradient(3, var, g, 0);
    kit_ack(&k, 1, 3, PS_ERR_SHAPE);
    ck_assert_uint_eq(kit_read(&k, 1, var, 0, g, 4), 0);
}
END_TEST

START_TEST(not_finite_gradient_changes_nothing)
{
    uint32_t var = push_start(PS_ADAM);
    float good[4] = {1, 2, 3, 4}, bad[4] = {1, INFINITY, 1, 1}, out[4], before[4];
    struct kit_answer *a;

    push_gradient(1, var, good, 4);
    kit_ack(&k, 1, 1, PS_OK);
    kit_read(&k, 1, var, 0, before, 4);
    push_gradient(2, var, bad, 4); /* out of place: the kernel finds it */
    a = kit_expect(&k, 1, MSG_ACK);
    ck_assert_uint_eq(a->msg.u.ack->code[0], PS_ERR_NONFINITE);
    ck_assert_ptr_nonnull(strstr(a->msg.u.ack->error[0]->text, "' is inf at element 1"));
    kit_answer_free(a);
    bad[1] = NAN;
    k.hold = true;
    push_gradient(3, var, bad, 4); /* first in its turn, then in place */
    push_gradient(4, var, bad, 4);
    kit_turn(&k);
    k.hold = false;
    kit_drop_answers(&k, 1);
    ck_assert_uint_eq(kit_read(&k, 1, var, 0, out, 4), 1);
    ck_assert_mem_eq(out, before, sizeof out);
    push_gradient(5, var, good, 4);
    kit_ack(&k, 1, 5, PS_OK);
    ck_assert_uint_eq(kit_read(&k, 1, var, 0, out, 4), 2);
}
END_TEST

/* The square of 1e20 is Inf in float32. Out of place, and in place behind another push of the same turn. */
START_TEST(a_finite_gradient_that_overflows_changes_nothing)
{
    static const enum ps_optimizer_kind kinds[] = {PS_ADAM, PS_ADAGRAD, PS_RMSPROP, PS_FTRL, PS_ADADELTA};
    uint32_t var = push_start(kinds[_i]);
    float good[4] = {1, 2, 3, 4}, bad[4] = {1, 1, 1e20f, 1}, out[4], before[4];
    struct kit_answer *a;

    push_gradient(1, var, good, 4);
    kit_ack(&k, 1, 1, PS_OK);
    kit_read(&k, 1, var, 0, before, 4);
    push_gradient(2, var, bad, 4);
    a = kit_expect(&k, 1, MSG_ACK);
    ck_assert_uint_eq(a->msg.u.ack->code[0], PS_ERR_NONFINITE);
    ck_assert_ptr_nonnull(strstr(a->msg.u.ack->error[0]->text, "overflow"));
    ck_assert_ptr_nonnull(strstr(a->msg.u.ack->error[0]->text, "at 2"));
    kit_answer_free(a);
    ck_assert_uint_eq(kit_read(&k, 1, var, 0, out, 4), 1);
    ck_assert_mem_eq(out, before, sizeof out);
    k.hold = true;
    push_gradient(3, var, good, 4);
    push_gradient(4, var, bad, 4);
    push_gradient(5, var, good, 4);
    kit_turn(&k);
    k.hold = false;
    kit_drop_answers(&k, 1);
    ck_assert_uint_eq(kit_read(&k, 1, var, 0, out, 4), 3);
    for (int i = 0; i < 4; i++)
        ck_assert(isfinite(out[i]) && out[i] != before[i]);
}
END_TEST

/* In one turn with a push before, so that both blocks are updated in place; a block may be named twice. */
START_TEST(a_block_that_overflows_refuses_the_whole_frame)
{
    Psd__Push m = PSD__PUSH__INIT;
    uint32_t vars[2], var[3], block[3] = {0, 0, 0};
    float good[6] = {1, 1, 1, 1, 1, 1}, bad[10] = {2, 2, 2, 2, 1, 1e20f, 3, 3, 3, 3}, out[4], one[4], two[2];
    bool twice = _i % 2 == 1, held = _i >= 2;

    kit_join(&k, 1, push_job(), 0);
    vars[0] = kit_declare(&k, 1, "a", 4, PS_SGD);
    vars[1] = kit_declare(&k, 1, "b", 2, PS_ADAM);
    var[0] = vars[0];
    var[1] = vars[1];
    m.seq = 1;
    m.n_var = m.n_block = 2;
    m.var = var;
    m.block = block;
    k.hold = held;
    kit_push_many(&k, 1, &m, good, 6);
    if (twice) {
        var[0] = vars[0];
        var[1] = vars[0];
        var[2] = vars[1];
        bad[8] = 1;
        bad[9] = 1e20f;
    }
    m.seq = 2;
    m.n_var = m.n_block = twice ? 3 : 2;
    if (twice)
        bad[5] = 2;
    kit_push_many(&k, 1, &m, bad, twice ? 10 : 6);
    if (held)
        kit_turn(&k);
    k.hold = false;
    if (held) {
        kit_drop_answers(&k, 1); /* one for both */
    } else {
        kit_ack(&k, 1, 1, PS_OK);
        kit_ack(&k, 1, 2, PS_ERR_NONFINITE);
    }
    ck_assert_uint_eq(kit_read(&k, 1, vars[0], 0, one, 4), 1);
    ck_assert_uint_eq(kit_read(&k, 1, vars[1], 0, two, 2), 1);
    for (int i = 0; i < 4; i++)
        ck_assert(one[i] == -1);
    var[0] = vars[0];
    var[1] = vars[1];
    m.seq = 3;
    m.n_var = m.n_block = 2;
    kit_push_many(&k, 1, &m, good, 6);
    kit_ack(&k, 1, 3, PS_OK);
    ck_assert_uint_eq(kit_read(&k, 1, vars[0], 0, out, 4), 2);
    ck_assert(out[3] == -2);
    ck_assert_uint_eq(kit_read(&k, 1, vars[1], 0, two, 2), 2);
    ck_assert(isfinite(two[1]));
}
END_TEST

START_TEST(not_finite_block_refuses_the_whole_frame)
{
    Psd__Push m = PSD__PUSH__INIT;
    uint32_t var[2], block[2] = {0, 0};
    float g[6] = {1, 1, 1, 1, 1, NAN}, out[4];

    kit_join(&k, 1, push_job(), 0);
    var[0] = kit_declare(&k, 1, "a", 4, PS_SGD);
    var[1] = kit_declare(&k, 1, "b", 2, PS_SGD);
    m.seq = 1;
    m.n_var = m.n_block = 2;
    m.var = var;
    m.block = block;
    kit_push_many(&k, 1, &m, g, 6);
    kit_ack(&k, 1, 1, PS_ERR_NONFINITE);
    ck_assert_uint_eq(kit_read(&k, 1, var[0], 0, out, 4), 0);
    g[5] = 1;
    m.seq = 2;
    kit_push_many(&k, 1, &m, g, 6);
    kit_ack(&k, 1, 2, PS_OK);
    ck_assert_uint_eq(kit_read(&k, 1, var[0], 0, out, 4), 1);
}
END_TEST

/* Rates 1, 3/4, 1/2: by the slowest worker's clock, which the faster one's pushes go by, too. */
START_TEST(schedule_by_clock_goes_by_the_slowest)
{
    struct ps_optimizer o = kit_optimizer(PS_SGD);
    Psd__Job *two = kit_job("train", PSD__MODE__ASYNC, 2);
    uint32_t var;

    o.schedule = (struct ps_schedule){.kind = PS_SCHEDULE_LINEAR, .by = PS_BY_CLOCK, .steps = 4};
    kit_join(&k, 1, two, 0);
    kit_join(&k, 2, two, 1);
    var = kit_declare_with(&k, 1, "w", 4, &o);
    kit_ticked(&k, 1, 1, 2);
    kit_push_four(&k, 1, 2, 2, var, 4);
    kit_ack(&k, 1, 2, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 1) == -4);
    kit_ticked(&k, 2, 1, 1);
    kit_push_four(&k, 1, 3, 2, var, 4);
    kit_ack(&k, 1, 3, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 2) == -7);
    kit_ticked(&k, 2, 2, 3);
    kit_push_four(&k, 2, 3, 3, var, 4);
    kit_ack(&k, 2, 3, PS_OK);
    ck_assert(kit_value_four(&k, 1, var, 3) == -9);
}
END_TEST

START_TEST(not_finite_gradient_is_applied_when_the_variable_allows_it)
{
    Psd__Declare m = PSD__DECLARE__INIT;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    Psd__Optimizer o = PSD__OPTIMIZER__INIT;
    float g[1] = {NAN}, out[1];

    kit_join(&k, 1, push_job(), 0);
    o.learning_rate = 1;
    m.name = "loose"; /* rank 0: one element */
    m.init = &init;
    m.optimizer = &o;
    m.nonfinite = PSD__NON_FINITE__ALLOW;
    kit_frame(&k, 1, MSG_DECLARE, 5, &m.base, NULL, 0);
    kit_work(&k);
    kit_answer_free(kit_expect(&k, 1, MSG_DECLARED));
    push_gradient(1, 1, g, 1);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert_uint_eq(kit_read(&k, 1, 1, 0, out, 1), 1);
    ck_assert(isnan(out[0]));
}
END_TEST

START_TEST(clock_of_a_push_is_the_workers)
{
    uint32_t var = push_start(PS_SGD);
    float g[4] = {0};

    kit_tick(&k, 1, 1, 5);
    kit_ack(&k, 1, 1, PS_OK);
    kit_push(&k, 1, &(struct kit_push){.seq = 2, .clock = 4, .var = var, .gradient = g, .len = 4});
    kit_ack(&k, 1, 2, PS_ERR_CLOCK);
    kit_push(&k, 1, &(struct kit_push){.seq = 3, .clock = 6, .var = var, .gradient = g, .len = 4});
    kit_ack(&k, 1, 3, PS_ERR_CLOCK);
    kit_push(&k, 1, &(struct kit_push){.seq = 4, .clock = 5, .var = var, .gradient = g, .len = 4});
    kit_ack(&k, 1, 4, PS_OK);
}
END_TEST

START_TEST(version_from_the_future_is_refused)
{
    uint32_t var = push_start(PS_SGD);
    uint64_t from = 1;
    float g[4] = {0};

    kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4, .from_version = &from});
    kit_ack(&k, 1, 1, PS_ERR_INVALID);
}
END_TEST

START_TEST(age_scales_the_gradient)
{
    Psd__Job *j = push_job();
    float g[4] = {6, 6, 6, 6}, out[4];
    uint64_t from = 0;
    uint32_t var;

    j->age->kind = PSD__AGE_KIND__AGE_INVERSE;
    kit_join(&k, 1, j, 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        kit_push(&k, 1, &(struct kit_push){.seq = seq, .var = var, .gradient = g, .len = 4, .from_version = &from});
        kit_ack(&k, 1, seq, PS_OK);
    }
    kit_read(&k, 1, var, 0, out, 4);
    ck_assert(out[0] == -(6.0f + 3.0f + 2.0f)); /* ages 0, 1, 2 */
}
END_TEST

START_TEST(push_past_the_cutoff_is_dropped_block_by_block)
{
    Psd__Job *j = push_job();
    Psd__Push m = PSD__PUSH__INIT;
    uint32_t var[2], block[2] = {0, 0};
    uint64_t from[2] = {0, 0};
    float g[6] = {1, 1, 1, 1, 1, 1}, out[4];
    struct kit_answer *a;

    j->age->kind = PSD__AGE_KIND__AGE_CUTOFF;
    j->age->parameter = 1;
    kit_join(&k, 1, j, 0);
    var[0] = kit_declare(&k, 1, "a", 4, PS_SGD);
    var[1] = kit_declare(&k, 1, "b", 2, PS_SGD);
    push_gradient(1, var[0], g, 4);
    push_gradient(2, var[0], g, 4);
    kit_drop_answers(&k, 1);
    m.seq = 3;
    m.n_var = m.n_block = m.n_from_version = 2;
    m.var = var;
    m.block = block;
    m.from_version = from;
    kit_push_many(&k, 1, &m, g, 6);
    a = kit_expect(&k, 1, MSG_ACK);
    ck_assert_uint_eq(a->msg.u.ack->code[0], PS_ERR_STALE);
    ck_assert_uint_eq(a->msg.u.ack->n_blocks, 1);
    ck_assert_uint_eq(a->msg.u.ack->blocks[0]->seq, 3);
    ck_assert_uint_eq(a->msg.u.ack->blocks[0]->code[0], PS_ERR_STALE);
    ck_assert_uint_eq(a->msg.u.ack->blocks[0]->code[1], PS_OK);
    kit_answer_free(a);
    ck_assert_uint_eq(kit_read(&k, 1, var[0], 0, out, 4), 2);
    ck_assert_uint_eq(kit_read(&k, 1, var[1], 0, out, 2), 1);
    m.seq = 4;
    m.want_value = true; /* the same as an answer with values */
    kit_push_many(&k, 1, &m, g, 6);
    a = kit_expect(&k, 1, MSG_DATA);
    ck_assert_uint_eq(a->msg.u.data->seq, 4);
    ck_assert_uint_eq(a->msg.u.data->n_code, 2);
    ck_assert_uint_eq(a->msg.u.data->code[0], PS_ERR_STALE);
    ck_assert_uint_eq(a->msg.u.data->code[1], PS_OK);
    ck_assert_uint_eq(a->payload_len, 6);
    kit_answer_free(a);
}
END_TEST

START_TEST(block_named_twice_is_updated_twice)
{
    uint32_t one = push_start(PS_SGD), var[2] = {one, one}, block[2] = {0, 0};
    Psd__Push m = PSD__PUSH__INIT;
    float g[8] = {1, 1, 1, 1, 2, 2, 2, 2}, out[4];

    m.seq = 1;
    m.n_var = m.n_block = 2;
    m.var = var;
    m.block = block;
    kit_push_many(&k, 1, &m, g, 8);
    kit_ack(&k, 1, 1, PS_OK);
    ck_assert_uint_eq(kit_read(&k, 1, one, 0, out, 4), 2);
    ck_assert(out[0] == -3);
}
END_TEST

START_TEST(push_and_pull_is_one_round_trip)
{
    uint32_t var = push_start(PS_SGD);
    float g[4] = {1, 2, 3, 4};
    struct kit_answer *a;

    for (int repeat = 0; repeat < 2; repeat++) {
        kit_push(&k, 1,
                 &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 4, .want_value = true, .request = 31});
        a = kit_expect(&k, 1, MSG_DATA);
        ck_assert_uint_eq(a->msg.request, 31);
        ck_assert_uint_eq(a->msg.u.data->seq, 1);
        ck_assert_uint_eq(a->msg.u.data->version[0], 1);
        ck_assert(a->payload[3] == -4);
        kit_answer_free(a);
        kit_expect_nothing(&k, 1); /* no ack besides */
    }
    g[0] = NAN;
    kit_push(&k, 1, &(struct kit_push){.seq = 2, .var = var, .gradient = g, .len = 4, .want_value = true});
    kit_ack(&k, 1, 2, PS_ERR_NONFINITE); /* what is refused as a whole has no values */
}
END_TEST

START_TEST(frame_of_many_small_blocks_is_one_unit)
{
    enum { N = WIRE_BLOCKS_MAX, PER = 16, VARS = N / PER, FEW = 64 };
    Psd__Push m = PSD__PUSH__INIT;
    uint32_t *var = calloc(N, sizeof *var), *block = calloc(N, sizeof *block);
    float out[64];

    kit_finish(&k);
    kit_init_size(&k, NULL, GIB);
    kit_join(&k, 1, push_job(), 0);
    for (uint32_t i = 0; i < VARS; i++) { /* 15 full blocks of the smallest class and one of 16 elements */
        uint64_t dims = 15 * 1008 + 16;
        char name[16];

        snprintf(name, sizeof name, "w%u", i);
        kit_declare_as(&k, 1, 1 + i, name, &dims, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    }
    kit_work(&k);
    kit_drop_answers(&k, 1);
    for (uint32_t i = 0; i < VARS; i++)
        for (uint32_t j = 0; j < PER; j++) {
            var[i * PER + j] = i + 1;
            block[i * PER + j] = j;
        }
    for (size_t i = 0; i < ARRAY_LEN(big); i++)
        big[i] = 1;
    m.seq = 1;
    m.var = var;
    m.block = block;
    /* All of the smallest size that fit 4 MiB, then as many as a frame may name. */
    m.n_var = m.n_block = FEW * PER;
    kit_push_many(&k, 1, &m, big, FEW * (15 * 1008 + 16));
    kit_ack(&k, 1, 1, PS_OK);
    for (uint32_t i = 0; i < N; i++) {
        var[i] = i % VARS + 1;
        block[i] = 15;
    }
    m.seq = 2;
    m.n_var = m.n_block = N; /* 16 elements each, every block PER times */
    kit_push_many(&k, 1, &m, big, N * 16);
    kit_ack(&k, 1, 2, PS_OK);
    ck_assert_uint_eq(kit_read(&k, 1, 5, 15, out, 16), PER + 1);
    ck_assert(out[0] == -(PER + 1));
    ck_assert_uint_eq(kit_read(&k, 1, VARS, 15, out, 16), PER);
    free(var);
    free(block);
}
END_TEST

START_TEST(distinct_small_blocks_may_take_more_room_than_a_turn)
{
    enum { N = WIRE_BLOCKS_MAX };
    Psd__Push m = PSD__PUSH__INIT;
    uint32_t *var = calloc(N, sizeof *var), *block = calloc(N, sizeof *block);
    float out[1];

    kit_finish(&k);
    kit_init_size(&k, NULL, GIB);
    kit_join(&k, 1, push_job(), 0);
    k.hold = true;
    for (uint32_t i = 0; i < N; i++) {
        char name[16];

        snprintf(name, sizeof name, "w%u", i);
        kit_declare_as(&k, 1, 1 + i, name, NULL, 0, PS_SGD, PSD__INIT_KIND__ZEROS);
        var[i] = i + 1;
    }
    kit_turn(&k);
    k.hold = false;
    kit_work(&k);
    kit_drop_answers(&k, 1);
    m.var = var;
    m.block = block;
    m.n_var = m.n_block = N; /* a page of value each */
    for (uint64_t seq = 1; seq <= 2; seq++) {
        big[N - 1] = (float)seq;
        m.seq = seq;
        kit_push_many(&k, 1, &m, big, N);
        kit_ack(&k, 1, seq, PS_OK);
    }
    ck_assert_uint_eq(kit_read(&k, 1, N, 0, out, 1), 2);
    ck_assert(out[0] == -3);
    free(var);
    free(block);
}
END_TEST

START_TEST(full_store_refuses_pushes_and_goes_on)
{
    uint64_t dims = LARGE;
    float out[4], g[4] = {1, 1, 1, 1};
    struct store *ballast = k.store;
    uint32_t var;
    struct store_key key = {.var = 100000};
    void *place;
    struct store_usage usage;

    var = push_start(PS_SGD);
    kit_declare_as(&k, 1, 5, "large", &dims, 1, PS_SGD, PSD__INIT_KIND__ZEROS);
    kit_work(&k);
    kit_drop_answers(&k, 1);
    /* Another user takes the memory without the shard's knowledge: a turn's rows find room, and a large block does not.
     */
    for (;; key.block++) {
        ballast->ops->usage(ballast, &usage);
        if (usage.used_bytes + TURN_ROWS_MIN + layout_value_size(2) > usage.max_bytes)
            break;
        ck_assert_int_eq(ballast->ops->begin(ballast, layout_value_size(1)), PS_OK);
        ck_assert_int_eq(ballast->ops->reserve(ballast, &key, layout_value_size(1), &place), PS_OK);
        ck_assert_int_eq(ballast->ops->commit(ballast), PS_OK);
    }
    push_gradient(1, 2, big, LARGE);
    kit_ack(&k, 1, 1, PS_ERR_FULL);
    push_gradient(1, 2, big, LARGE); /* it was used up */
    kit_ack(&k, 1, 1, PS_ERR_FULL);
    push_gradient(2, var, g, 4); /* a small one fits */
    kit_ack(&k, 1, 2, PS_OK);
    ck_assert_uint_eq(kit_read(&k, 1, var, 0, out, 4), 1);
    for (uint32_t n = key.block, i = 0; i < n; i++) {
        key.block = i;
        ck_assert_int_eq(ballast->ops->begin(ballast, 0), PS_OK);
        ck_assert_int_eq(ballast->ops->erase(ballast, &key), PS_OK);
        ck_assert_int_eq(ballast->ops->commit(ballast), PS_OK);
    }
    push_gradient(3, 2, big, LARGE);
    kit_ack(&k, 1, 3, PS_OK);
    kit_crash(&k);
    ck_assert_uint_eq(kit_resume(&k, 1, push_job(), 0, 3), 3);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("push");
    TCase *tc = tcase_create("push");

    tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, updates_are_what_the_optimizer_computes);
    tcase_add_test(tc, push_before_declare_is_refused);
    tcase_add_test(tc, payload_of_another_size_is_refused);
    tcase_add_test(tc, not_finite_gradient_changes_nothing);
    tcase_add_test(tc, not_finite_block_refuses_the_whole_frame);
    tcase_add_loop_test(tc, a_finite_gradient_that_overflows_changes_nothing, 0, 5);
    tcase_add_loop_test(tc, a_block_that_overflows_refuses_the_whole_frame, 0, 4);
    tcase_add_test(tc, schedule_by_clock_goes_by_the_slowest);
    tcase_add_test(tc, not_finite_gradient_is_applied_when_the_variable_allows_it);
    tcase_add_test(tc, clock_of_a_push_is_the_workers);
    tcase_add_test(tc, version_from_the_future_is_refused);
    tcase_add_test(tc, age_scales_the_gradient);
    tcase_add_test(tc, push_past_the_cutoff_is_dropped_block_by_block);
    tcase_add_test(tc, block_named_twice_is_updated_twice);
    tcase_add_test(tc, push_and_pull_is_one_round_trip);
    tcase_add_test(tc, frame_of_many_small_blocks_is_one_unit);
    tcase_add_test(tc, distinct_small_blocks_may_take_more_room_than_a_turn);
    tcase_add_test(tc, full_store_refuses_pushes_and_goes_on);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
