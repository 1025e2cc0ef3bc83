/* Gradients of real processes, reduced over loopback while they are still computed: the mean of all ranks' gradients,
 * the same bits everywhere, and steps in which a rank dies or starts another operation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "client/include/psclient/ps_network.h"
#include "client/include/psclient/ps_reducer.h"
#include "common/core/base/base.h"
#include "tests/system/ranks.h"
#include "tests/unit/kits/check_main.h"

enum { ROWS = 6, INPUTS = 40, STEPS = 5, PARAMS_MAX = 16, RANKS_MOST = 4, DIED = 77, ELEMENTS_MAX = 300 * 70 };

/* The task of a rank. */
struct overlap_task {
    size_t bucket_bytes;
    bool sum;
    uint32_t dies, after; /* this rank, once so many gradients of the second step were ready */
    uint32_t differs;     /* this rank has other buckets, or another encoding */
    struct ps_compress compress;
    int flushes; /* steps without gradients, after which no residual of any kind is left */
};

#define NOBODY UINT32_MAX

/* ---- A rank ---- */

struct overlap_rank {
    ps_device *device;
    ps_network *network, *alone; /* one that is reduced, one to compute the expected result */
    ps_reducer *reducer;
    float x[ROWS * INPUTS];
    uint32_t labels[ROWS];
    uint64_t elements[PARAMS_MAX];
    float *expected[PARAMS_MAX];
};

static ps_network *
new_network(ps_device *device)
{
    struct ps_layer layers[PS_LAYERS_MAX];
    struct ps_network_spec spec = {.rank = 1, .dims = {INPUTS}, .layer = layers, .rows_max = ROWS, .seed = 3};
    struct ps_error error;
    ps_network *network;

    need_ok(ps_network_parse("dense 300, relu, norm, dense 70, tanh, dense 9", layers, &spec.layers, &error));
    need_ok(ps_network_new(device, &spec, &network, &error));
    ps_network_initialize(network);
    return network;
}

static void
rank_init(struct overlap_rank *r, ps_group *group, const struct overlap_task *task)
{
    struct ps_device_options one_thread = {.threads = 1};
    struct ps_reducer_options options = {
        .bucket_bytes = task->bucket_bytes, .sum = task->sum, .compress = task->compress};
    struct ps_error error;

    memset(r, 0, sizeof *r);
    need_ok(ps_device_open("cpu", &one_thread, &r->device, &error));
    r->network = new_network(r->device);
    r->alone = new_network(r->device);
    need(ps_network_params(r->network) <= PARAMS_MAX);
    for (size_t i = 0; i < ps_network_params(r->network); i++) {
        struct ps_var_spec spec;

        ps_network_var_spec(r->network, i, &spec);
        r->elements[i] = 1;
        for (uint32_t k = 0; k < spec.rank; k++)
            r->elements[i] *= spec.dims[k];
        need(r->elements[i] <= ELEMENTS_MAX);
        need((r->expected[i] = calloc(r->elements[i], sizeof(float))) != NULL);
    }
    if (ps_group_rank(group) == task->differs && task->compress.kind == PS_COMPRESS_FLOAT16)
        options.compress.kind = PS_COMPRESS_BFLOAT16; /* as many bytes */
    else if (ps_group_rank(group) == task->differs)
        options.bucket_bytes = 1;
    need_ok(ps_reducer_new(group, ps_network_params(r->network), r->elements, &options, &r->reducer, &error));
    ps_network_place(r->network, NULL, ps_reducer_buffers(r->reducer));
    ps_network_on_ready(r->network, ps_reducer_ready, r->reducer);
}

static void
rank_finish(struct overlap_rank *r)
{
    ps_reducer_free(r->reducer);
    for (size_t i = 0; i < ps_network_params(r->network); i++)
        free(r->expected[i]);
    ps_network_free(r->network);
    ps_network_free(r->alone);
    ps_device_close(r->device);
}

/* A rank's examples in a step; the last one has none in every other. */
static struct ps_batch
batch_of(struct overlap_rank *r, uint32_t rank, uint32_t ranks, uint32_t step)
{
    struct test_rng rng = {100 * step + rank};

    for (size_t i = 0; i < ROWS * INPUTS; i++)
        r->x[i] = test_float(&rng);
    for (size_t i = 0; i < ROWS; i++)
        r->labels[i] = (uint32_t)test_below(&rng, 9);
    return (struct ps_batch){.rows = rank + 1 == ranks && step % 2 == 1 ? 0 : ROWS, .x = r->x, .labels = r->labels};
}

static void
overlap_gradient(struct overlap_rank *r, ps_network *network, uint32_t rank, uint32_t ranks, uint32_t step)
{
    struct ps_batch batch = batch_of(r, rank, ranks, step);
    struct ps_error error;

    need_ok(ps_network_gradient(network, &batch, 0.5f, 0, NULL, &error));
}

/* The sum of all ranks' gradients, in the order of ranks; of two it is the same in any order. */
static void
overlap_expect(struct overlap_rank *r, uint32_t ranks, uint32_t step, float scale)
{
    for (uint32_t k = 0; k < ranks; k++) {
        overlap_gradient(r, r->alone, k, ranks, step);
        for (size_t i = 0; i < ps_network_params(r->alone); i++)
            for (size_t e = 0; e < r->elements[i]; e++)
                r->expected[i][e] = (k == 0 ? 0 : r->expected[i][e]) + ps_network_gradients(r->alone)[i][e];
    }
    for (size_t i = 0; i < ps_network_params(r->alone); i++)
        for (size_t e = 0; e < r->elements[i]; e++)
            r->expected[i][e] *= scale;
}

static void
check_gradients(const struct overlap_rank *r, bool exact)
{
    for (size_t i = 0; i < ps_network_params(r->network); i++)
        for (size_t e = 0; e < r->elements[i]; e++) {
            float got = ps_network_gradients(r->network)[i][e], want = r->expected[i][e];

            need(exact ? got == want : fabsf(got - want) <= 1e-6f * (1 + fabsf(want)));
        }
}

/* This rank's values are, bit by bit, those of rank 0. */
static void
check_same_everywhere(const struct overlap_rank *r, ps_group *group)
{
    struct ps_error error;

    for (size_t i = 0; i < ps_network_params(r->network); i++) {
        memcpy(r->expected[i], ps_network_gradients(r->network)[i], r->elements[i] * sizeof(float));
        need_ok(ps_group_broadcast(group, r->expected[i], r->elements[i], PS_F32, 0, NULL, &error));
        need(memcmp(r->expected[i], ps_network_gradients(r->network)[i], r->elements[i] * sizeof(float)) == 0);
    }
}

/* ---- Steps that go well ---- */

static void
overlap_train(ps_group *group, void *arg)
{
    const struct overlap_task *task = arg;
    uint32_t rank = ps_group_rank(group), ranks = ps_group_ranks(group);
    struct ps_error error;
    struct overlap_rank r;

    rank_init(&r, group, task);
    for (uint32_t step = 0; step < STEPS; step++) {
        need_ok(ps_reducer_begin(r.reducer, &error));
        overlap_gradient(&r, r.network, rank, ranks, step);
        need_ok(ps_reducer_finish(r.reducer, &error));
        overlap_expect(&r, ranks, step, task->sum ? 1 : 1 / (float)ranks);
        check_gradients(&r, ranks == 2);
        check_same_everywhere(&r, group);
    }
    rank_finish(&r);
}

static void
overlap_run(uint32_t ranks, int threaded, rank_body body, struct overlap_task *task)
{
    struct ps_group_options options = {.timeout_ms = 60000, .progress_thread = threaded};
    struct ranks r;

    ranks_start(&r, ranks, 0, &options, body, task);
    ranks_end(&r);
}

/* 1, 2 and 4 ranks; a bucket for each parameter, some, one for all; without and with a progress thread. */
START_TEST(every_rank_has_the_mean_of_all_gradients)
{
    static const uint32_t ranks[] = {1, 2, 4};
    static const size_t bytes[] = {1, 8192, 0, SIZE_MAX};
    struct overlap_task task = {.bucket_bytes = bytes[_i / 3 % 4], .dies = NOBODY, .differs = NOBODY};

    overlap_run(ranks[_i % 3], _i / 12, overlap_train, &task);
}
END_TEST

START_TEST(every_rank_has_the_sum_when_that_is_wanted)
{
    struct overlap_task task = {.bucket_bytes = 4096, .sum = true, .dies = NOBODY, .differs = NOBODY};

    overlap_run(2, 0, overlap_train, &task);
}
END_TEST

/* The results of all steps sum up to the inputs in the end; and are always the same on every rank. */
static void
train_compressed(ps_group *group, void *arg)
{
    static float given[PARAMS_MAX][ELEMENTS_MAX], came[PARAMS_MAX][ELEMENTS_MAX];
    uint32_t rank = ps_group_rank(group), ranks = ps_group_ranks(group);
    const struct overlap_task *task = arg;
    struct ps_error error;
    struct overlap_rank r;

    rank_init(&r, group, task);
    for (uint32_t step = 0; step < STEPS + (uint32_t)task->flushes; step++) {
        need_ok(ps_reducer_begin(r.reducer, &error));
        if (step < STEPS)
            overlap_gradient(&r, r.network, rank, ranks, step);
        need_ok(ps_reducer_finish(r.reducer, &error));
        for (size_t i = 0; i < ps_network_params(r.network); i++)
            for (size_t e = 0; e < r.elements[i]; e++)
                came[i][e] += ps_network_gradients(r.network)[i][e];
        check_same_everywhere(&r, group);
        if (step < STEPS)
            overlap_expect(&r, ranks, step, 1);
        for (size_t i = 0; i < ps_network_params(r.network) && step < STEPS; i++)
            for (size_t e = 0; e < r.elements[i]; e++)
                given[i][e] += r.expected[i][e];
    }
    for (size_t i = 0; i < ps_network_params(r.network); i++)
        for (size_t e = 0; e < r.elements[i]; e++)
            need(fabsf(given[i][e] - came[i][e]) <= 1e-4f * (1 + fabsf(given[i][e])));
    rank_finish(&r);
}

/* Each encoding with 2, 4, 3 and 1 ranks and buckets of all sizes, every other two with a progress thread. */
START_TEST(compressed_gradients_are_the_same_everywhere_and_none_is_lost)
{
    static const struct {
        struct ps_compress how;
        int flushes;
    } codecs[] = {{{.kind = PS_COMPRESS_FLOAT16}, 4},
                  {{.kind = PS_COMPRESS_BFLOAT16}, 4},
                  {{.kind = PS_COMPRESS_INT8}, 8},
                  {{.kind = PS_COMPRESS_TOP_K, .fraction = 0.2}, 16}};
    static const uint32_t ranks[] = {2, 4, 3, 1};
    static const size_t bytes[] = {1, 8192, 0};
    struct overlap_task task = {.bucket_bytes = bytes[_i % 3],
                                .sum = true,
                                .dies = NOBODY,
                                .differs = NOBODY,
                                .compress = codecs[_i % 4].how,
                                .flushes = codecs[_i % 4].flushes};

    overlap_run(ranks[_i / 4], (_i + _i / 4) % 2, train_compressed, &task);
}
END_TEST

/* Ranks whose gradients become ready in other orders, and some never. */
static void
train_in_any_order(ps_group *group, void *arg)
{
    uint32_t rank = ps_group_rank(group), ranks = ps_group_ranks(group);
    struct test_rng rng = {rank + 1};
    struct ps_error error;
    struct overlap_rank r;

    rank_init(&r, group, arg);
    for (uint32_t step = 0; step < STEPS; step++) {
        size_t params = ps_network_params(r.network), missing = test_below(&rng, params);

        need_ok(ps_reducer_begin(r.reducer, &error));
        for (size_t k = 0, i = test_below(&rng, params); k < params; k++, i = (i + 1) % params) {
            for (size_t e = 0; e < r.elements[i]; e++)
                ps_reducer_buffers(r.reducer)[i][e] = (float)(rank + 1);
            if (i != missing || step == 0)
                ps_reducer_ready(r.reducer, i);
        }
        need_ok(ps_reducer_finish(r.reducer, &error));
        if (step == 0)
            for (size_t i = 0; i < params; i++)
                need(ps_network_gradients(r.network)[i][0] == (float)(ranks + 1) / 2);
        check_same_everywhere(&r, group);
    }
    rank_finish(&r);
}

START_TEST(gradients_may_become_ready_in_another_order_on_every_rank)
{
    struct overlap_task task = {.bucket_bytes = 4096, .dies = NOBODY, .differs = NOBODY};

    overlap_run(3, _i, train_in_any_order, &task);
}
END_TEST

/* ---- Steps that fail ---- */

static void
count_and_die(void *arg, size_t i)
{
    struct overlap_rank *r = arg;

    ps_reducer_ready(r->reducer, i);
    if (r->elements[PARAMS_MAX - 1]-- == 0)
        _exit(DIED);
}

/* The first step goes well; in the second a rank disappears in the middle of its backward pass. Others learn of it when
 * they finish theirs, or when they begin it, where they are slower. */
static void
train_until_it_dies(ps_group *group, void *arg)
{
    const struct overlap_task *task = arg;
    uint32_t rank = ps_group_rank(group), ranks = ps_group_ranks(group);
    struct ps_error error;
    enum ps_err err;
    struct overlap_rank r;
    char name[16];

    snprintf(name, sizeof name, "rank %u", task->dies);
    rank_init(&r, group, task);
    need_ok(ps_reducer_begin(r.reducer, &error));
    overlap_gradient(&r, r.network, rank, ranks, 0);
    need_ok(ps_reducer_finish(r.reducer, &error));
    ranks_tell('f'); /* the rank that dies may have finished before the others have */
    need(ranks_listen() == 'g');
    if (rank == task->dies) {
        r.elements[PARAMS_MAX - 1] = task->after; /* no parameter has this place */
        ps_network_on_ready(r.network, count_and_die, &r);
    }
    if ((err = ps_reducer_begin(r.reducer, &error)) == PS_OK) {
        overlap_gradient(&r, r.network, rank, ranks, 1);
        err = ps_reducer_finish(r.reducer, &error);
    }
    need(err == PS_ERR_CLOSED && strncmp(error.peer, name, strlen(name)) == 0);
    need(ps_reducer_begin(r.reducer, &error) == PS_ERR_CLOSED);
    need(strncmp(error.peer, name, strlen(name)) == 0);
    rank_finish(&r);
}

START_TEST(a_rank_that_dies_in_the_backward_pass_is_named_by_all_others)
{
    struct ps_group_options options = {.timeout_ms = 60000, .progress_thread = _i % 2};
    struct overlap_task task = {.bucket_bytes = 1, .dies = 1, .after = _i / 2 % 2 == 0 ? 0 : 4, .differs = NOBODY};
    struct ranks r;
    int status;

    if (_i >= 4)
        task.compress.kind = PS_COMPRESS_INT8;
    ranks_start(&r, 3, 0, &options, train_until_it_dies, &task);
    for (uint32_t k = 0; k < 3; k++)
        ck_assert_int_eq(ranks_hear(&r, k), 'f');
    for (uint32_t k = 0; k < 3; k++)
        ranks_say(&r, k, 'g');
    status = ranks_wait(&r, 1);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == DIED);
    ranks_end(&r);
}
END_TEST

/* Its buckets, or their encoding, are not those of the others. */
static void
train_differently(ps_group *group, void *arg)
{
    struct ps_error error;
    struct overlap_rank r;

    rank_init(&r, group, arg);
    need_ok(ps_reducer_begin(r.reducer, &error));
    overlap_gradient(&r, r.network, ps_group_rank(group), ps_group_ranks(group), 0);
    need(ps_reducer_finish(r.reducer, &error) == PS_ERR_MISMATCH);
    need(error.peer[0] != '\0');
    rank_finish(&r);
    ranks_tell('d');
    need(ranks_listen() == 'e'); /* no rank leaves before all know */
}

START_TEST(a_rank_with_other_buckets_or_another_encoding_is_found_out)
{
    struct ps_group_options options = {.timeout_ms = 60000, .progress_thread = _i % 2};
    struct overlap_task task = {.bucket_bytes = 8192, .dies = NOBODY, .differs = 2};
    struct ranks r;

    task.compress.kind = _i < 2 ? PS_COMPRESS_NONE : _i < 4 ? PS_COMPRESS_FLOAT16 : PS_COMPRESS_INT8;
    ranks_start(&r, 3, 0, &options, train_differently, &task);
    for (uint32_t k = 0; k < 3; k++)
        ck_assert_int_eq(ranks_hear(&r, k), 'd');
    for (uint32_t k = 0; k < 3; k++)
        ranks_say(&r, k, 'e');
    ranks_end(&r);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("overlap");
    TCase *tc = tcase_create("overlap");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_rank_has_the_mean_of_all_gradients, 0, 24);
    tcase_add_test(tc, every_rank_has_the_sum_when_that_is_wanted);
    tcase_add_loop_test(tc, gradients_may_become_ready_in_another_order_on_every_rank, 0, 2);
    tcase_add_loop_test(tc, compressed_gradients_are_the_same_everywhere_and_none_is_lost, 0, 16);
    tcase_add_loop_test(tc, a_rank_that_dies_in_the_backward_pass_is_named_by_all_others, 0, 8);
    tcase_add_loop_test(tc, a_rank_with_other_buckets_or_another_encoding_is_found_out, 0, 6);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
