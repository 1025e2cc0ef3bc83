/* Ranks that differ in a collective, as processes over sockets and shared memory: every one of them gets MISMATCH from
 * that very call, whatever the operation and its size, with a sentence that says what each started. */
#include <stdlib.h>
#include <string.h>

#include "client/include/psclient/ps_compressor.h"
#include "client/include/psclient/ps_reducer.h"
#include "common/core/base/base.h"
#include "tests/system/ranks.h"
#include "tests/unit/kits/check_main.h"

#define SOME 100000 /* elements: more than goes without being asked for, and more than one message */

static struct ps_error error;

/* All ranks are formed before the first of them fails. */
static void
mismatch_together(void)
{
    ranks_tell('s');
    need(ranks_listen() == 's');
}

static void
mismatch_run(uint32_t n, const struct ps_group_options *options, rank_body body, void *arg)
{
    struct ranks r;

    ranks_start(&r, n, 0, options, body, arg);
    for (uint32_t k = 0; k < n; k++)
        ck_assert_int_eq(ranks_hear(&r, k), 's');
    for (uint32_t k = 0; k < n; k++)
        ranks_say(&r, k, 's');
    ranks_end(&r);
}

/* ---- What differs ---- */

enum differing {
    OWN_ROOT_OF_BROADCAST, /* each rank from itself */
    OWN_ROOT_OF_REDUCE,
    ROOT,
    COUNT,
    NOTHING, /* to reduce, for one of them */
    DTYPE,
    REDUCTION,
    OPERATION,
    LESS_THAN_RANKS,
    SIZES_OF_PARAMETERS, /* that lie in a bucket of one length */
    SUM_OF_PARAMETERS,
    COMPRESSED_COUNT, /* in slots of one length */
    COMPRESSED_REDUCTION,
    COMPRESSED_NOTHING,
    DIFFERING
};

static const char *const differing_names[DIFFERING] = {
    [OWN_ROOT_OF_BROADCAST] = "own root of broadcast",
    [OWN_ROOT_OF_REDUCE] = "own root of reduce",
    [ROOT] = "root",
    [COUNT] = "count",
    [NOTHING] = "nothing",
    [DTYPE] = "dtype",
    [REDUCTION] = "reduction",
    [OPERATION] = "operation",
    [LESS_THAN_RANKS] = "less than ranks",
    [SIZES_OF_PARAMETERS] = "sizes of parameters",
    [SUM_OF_PARAMETERS] = "sum of parameters",
    [COMPRESSED_COUNT] = "compressed count",
    [COMPRESSED_REDUCTION] = "compressed reduction",
    [COMPRESSED_NOTHING] = "compressed nothing",
};

struct mismatch {
    enum differing what;
    uint32_t odd; /* the rank that differs from all others, or, of more than two, one of many */
    size_t count;
};

static bool
all_differ(const struct mismatch *m)
{
    return m->what == OWN_ROOT_OF_BROADCAST || m->what == OWN_ROOT_OF_REDUCE;
}

static enum ps_err
reduce_parameters(ps_group *g, const uint64_t sizes[2], int sum)
{
    struct ps_reducer_options o = {.sum = sum};
    ps_reducer *r;
    enum ps_err err;

    need_ok(ps_reducer_new(g, 2, sizes, &o, &r, &error));
    need_ok(ps_reducer_begin(r, &error));
    ps_reducer_ready(r, 1);
    ps_reducer_ready(r, 0);
    err = ps_reducer_finish(r, &error);
    ps_reducer_free(r);
    return err;
}

static enum ps_err
reduce_compressed(ps_group *g, size_t count, enum ps_reduce reduce)
{
    struct ps_compress how = {.kind = PS_COMPRESS_FLOAT16};
    float *x = calloc(count + 1, sizeof *x);
    ps_compressor *c;
    enum ps_err err;

    need(x != NULL);
    need_ok(ps_compressor_new(g, count, &how, &c, &error));
    err = ps_compressor_all_reduce(c, x, x, reduce, &error);
    ps_compressor_free(c);
    free(x);
    return err;
}

static enum ps_err
call_differing(ps_group *g, const struct mismatch *m, float *x, float *y)
{
    uint32_t rank = ps_group_rank(g), ranks = ps_group_ranks(g);
    bool odd = rank == m->odd;
    size_t n = m->count;

    switch (m->what) {
    case OWN_ROOT_OF_BROADCAST:
        return ps_group_broadcast(g, x, n, PS_F32, rank, NULL, &error);
    case OWN_ROOT_OF_REDUCE:
        return ps_group_reduce(g, x, y, n, PS_F32, PS_SUM, rank, NULL, &error);
    case ROOT:
        return ps_group_broadcast(g, x, n, PS_F32, odd ? m->odd : (m->odd + 1) % ranks, NULL, &error);
    case COUNT:
        return ps_group_broadcast(g, x, odd ? n + 1 : n, PS_F32, 0, NULL, &error);
    case NOTHING:
        return ps_group_all_reduce(g, x, x, odd ? 0 : n, PS_F32, PS_SUM, NULL, &error);
    case DTYPE:
        return ps_group_all_gather(g, x, y, n, odd ? PS_I32 : PS_F32, NULL, &error);
    case REDUCTION:
        return ps_group_reduce(g, x, y, n, PS_F32, odd ? PS_MAX : PS_MIN, 0, NULL, &error);
    case OPERATION:
        return odd ? ps_group_barrier(g, NULL, &error)
                   : ps_group_reduce_scatter(g, x, y, n, PS_F32, PS_SUM, NULL, &error);
    case LESS_THAN_RANKS:
        return ps_group_reduce_scatter(g, x, y, odd ? 1 : 0, PS_F32, PS_SUM, NULL, &error);
    case SIZES_OF_PARAMETERS:
        return reduce_parameters(g, (uint64_t[2]){odd ? 20 : 10, odd ? 10 : 20}, 0);
    case SUM_OF_PARAMETERS:
        return reduce_parameters(g, (uint64_t[2]){n, 1}, odd);
    case COMPRESSED_COUNT: /* one more: the slots of all parts are as long as the longest */
        return reduce_compressed(g, (n / 100 + 1) * ranks * 2 - (odd ? 0 : 1), PS_MEAN);
    case COMPRESSED_REDUCTION:
        return reduce_compressed(g, n, odd ? PS_SUM : PS_MEAN);
    case COMPRESSED_NOTHING:
        return reduce_compressed(g, odd ? 0 : n, PS_MEAN);
    case DIFFERING:
        break;
    }
    return PS_ERR_INTERNAL;
}

static void
differ_in_call(ps_group *g, void *arg)
{
    const struct mismatch *m = arg;
    float *x = calloc(SOME + 1, sizeof *x), *y = calloc(SOME + 1, sizeof *y);
    struct ps_error later;
    char guilty[32] = "";
    enum ps_err err;

    need(x != NULL && y != NULL);
    if (ps_group_ranks(g) > 2 && !all_differ(m))
        snprintf(guilty, sizeof guilty, "rank %u at ", m->odd);
    mismatch_together();
    err = call_differing(g, m, x, y);
    if (err != PS_ERR_MISMATCH ||
        (guilty[0] == '\0' ? error.peer[0] != '\0' : strstr(error.peer, guilty) != error.peer) ||
        strncmp(error.text, "operation 0: rank", 17) != 0) {
        fprintf(stderr, "%s: %zu elements: rank %u of %u: %s: %s (%s)\n", differing_names[m->what], m->count,
                ps_group_rank(g), ps_group_ranks(g), err == PS_OK ? "OK" : ps_err_name(err),
                err == PS_OK ? "" : error.text, err == PS_OK ? "" : error.peer);
        _exit(1);
    }
    need(ps_group_barrier(g, NULL, &later) == PS_ERR_MISMATCH && strcmp(later.text, error.text) == 0);
    free(x);
    free(y);
}

static const enum ps_transport transports[] = {PS_TRANSPORT_AUTO, PS_TRANSPORT_TCP};

/* The loop's number: what differs. */
START_TEST(each_rank_is_told_by_the_call_in_which_they_differ)
{
    static const size_t counts[] = {1, 4, 1000, SOME};

    for (size_t t = 0; t < ARRAY_LEN(transports); t++)
        for (uint32_t n = 2; n <= 4; n++) {
            struct mismatch m = {
                .what = (enum differing)_i, .odd = (uint32_t)t, .count = counts[(n + t * 2) % ARRAY_LEN(counts)]};
            struct ps_group_options o = {.transport = transports[t], .progress_thread = (n + (uint32_t)_i) % 2};

            mismatch_run(n, &o, differ_in_call, &m);
        }
}
END_TEST

/* ---- A send and its receive ---- */

static void
differ_in_message(ps_group *g, void *arg)
{
    size_t n = *(size_t *)arg;
    float *x = calloc(n + 1, sizeof *x);
    uint32_t rank = ps_group_rank(g);
    enum ps_err err;

    need(x != NULL);
    mismatch_together();
    err = rank == 0   ? ps_group_send(g, x, n, PS_F32, 1, NULL, &error)
          : rank == 1 ? ps_group_receive(g, x, n + 1, PS_F32, 0, NULL, &error)
                      : ps_group_barrier(g, NULL, &error);
    if (err != PS_ERR_MISMATCH || error.peer[0] != '\0' ||
        strstr(error.text, "message 0 from rank 0 to rank 1: rank 0 sends a message of") != error.text) {
        fprintf(stderr, "%zu elements: rank %u: %s: %s (%s)\n", n, rank, err == PS_OK ? "OK" : ps_err_name(err),
                err == PS_OK ? "" : error.text, err == PS_OK ? "" : error.peer);
        _exit(1);
    }
    free(x);
}

START_TEST(a_send_that_differs_from_its_receive_fails_as_well)
{
    size_t counts[] = {0, 10, SOME};

    for (size_t t = 0; t < ARRAY_LEN(transports); t++)
        for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
            struct ps_group_options o = {.transport = transports[t]};

            mismatch_run(3, &o, differ_in_message, &counts[i]);
        }
}
END_TEST

/* ---- Transports ---- */

/* A rank that does not share memory: the schedules of all are those of sockets, so that nothing differs. */
static void
work_in_all_sizes(ps_group *g, void *arg)
{
    float *x = calloc(SOME, sizeof *x);

    (void)arg;
    need(x != NULL);
    need(strcmp(ps_group_transport(g, 1), ps_group_rank(g) == 1 ? "self" : "tcp") == 0);
    need(strcmp(ps_group_transport(g, 2), ps_group_rank(g) == 0 ? "shm" : ps_group_rank(g) == 1 ? "tcp" : "self") == 0);
    for (size_t n = 1; n <= SOME; n = n * 3 + 1) {
        need_ok(ps_group_all_reduce(g, x, x, n, PS_F32, PS_SUM, NULL, &error));
        need_ok(ps_group_broadcast(g, x, n, PS_F32, 1, NULL, &error));
        need_ok(ps_group_reduce_scatter(g, x, x + ps_group_part_offset(n, 3, ps_group_rank(g)), n, PS_F32, PS_SUM, NULL,
                                        &error));
    }
    free(x);
}

START_TEST(one_rank_without_shared_memory_is_no_difference)
{
    struct ps_group_options o = {.transport = PS_TRANSPORT_TCP};
    const struct ps_group_options *all[3] = {NULL, &o, NULL};
    struct ranks r;

    ranks_start_with(&r, 3, 0, all, work_in_all_sizes, NULL);
    ranks_end(&r);
}
END_TEST

static void
has_sockets(ps_group *g, void *arg)
{
    (void)arg;
    need(strcmp(ps_group_transport(g, 1 - ps_group_rank(g)), "tcp") == 0);
    need_ok(ps_group_barrier(g, NULL, &error));
}

START_TEST(the_environment_turns_shared_memory_off)
{
    struct ranks r;

    setenv("PSD_TRANSPORT", "tcp", 1);
    ranks_start(&r, 2, 0, NULL, has_sockets, NULL);
    ranks_end(&r);
}
END_TEST

START_TEST(an_unknown_word_in_the_environment_is_refused)
{
    ps_cluster *cluster;
    ps_group *g;

    setenv("PSD_TRANSPORT", "pigeon", 1);
    ck_assert_int_eq(ps_cluster_from_list("127.0.0.1:7000", 1, 0, &cluster, &error), PS_OK);
    ck_assert_int_eq(ps_group_open(cluster, NULL, &g, &error), PS_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.text, "PSD_TRANSPORT is 'pigeon'"));
    ps_cluster_free(cluster);
}
END_TEST

static Suite *
mismatch_suite(void)
{
    Suite *s = suite_create("group_mismatch");
    TCase *t = tcase_create("mismatch");

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, each_rank_is_told_by_the_call_in_which_they_differ, 0, DIFFERING);
    tcase_add_test(t, a_send_that_differs_from_its_receive_fails_as_well);
    tcase_add_test(t, one_rank_without_shared_memory_is_no_difference);
    tcase_add_test(t, the_environment_turns_shared_memory_off);
    tcase_add_test(t, an_unknown_word_in_the_environment_is_refused);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(mismatch_suite)
