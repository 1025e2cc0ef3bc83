/* Tensors in device memory, reduced over the ranks of a group: by the host and direct, on the CPU and on a device whose
 * memory the host cannot touch (tests/unit/client/device/fake_module.c, whose devices of several processes meet in
 * shared memory). Then failures: every rank learns of them in time, and which rank caused them. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "client/group/tagged.h"
#include "client/include/psclient/ps_device_group.h"
#include "common/core/base/base.h"
#include "tests/now.h"
#include "tests/system/ranks.h"
#include "tests/unit/client/device/fake_device.h"
#include "tests/unit/kits/check_main.h"

enum { LARGEST = 4099, SOON_MS = 1000 };

static const size_t sizes[] = {1, 7, 1000, 1001, LARGEST, 0};
static struct ps_error error;

/* One way for a rank: the operation and its devices. */
struct device_group_way {
    const char *device;
    int direct;
};
static const struct device_group_way ways[] = {{"cpu", 0}, {"cuda", 0}, {"cuda", 1}};

static ps_device *
open_device(const char *name)
{
    ps_device *d;

    need(setenv("PSD_CUDA_MODULE", fake_module_path(), 1) == 0);
    need_ok(ps_device_open(name, NULL, &d, &error));
    return d;
}

static float *
device_group_alloc(ps_device *d, size_t count)
{
    void *memory;

    need_ok(ps_device_alloc(d, count * sizeof(float), &memory, &error));
    return memory;
}

/* Whole numbers, whose sums are exact in any order. */
static float
device_group_element(uint32_t rank, size_t i)
{
    return (float)((rank + 1) * 1000 + i % 997);
}

static void
device_group_fill(ps_device *d, float *to, uint32_t rank, size_t count)
{
    static float x[LARGEST];

    for (size_t i = 0; i < count; i++)
        x[i] = device_group_element(rank, i);
    ps_device_upload(d, to, x, count * sizeof *x);
}

static void
need_all(ps_device *d, const float *on, size_t count, float (*want)(size_t i, uint32_t n), uint32_t n)
{
    static float x[LARGEST];

    need_ok(ps_device_download(d, x, on, count * sizeof *x, &error));
    for (size_t i = 0; i < count; i++)
        need(x[i] == want(i, n));
}

static float
the_sum(size_t i, uint32_t ranks)
{
    float sum = 0;

    for (uint32_t r = 0; r < ranks; r++)
        sum += device_group_element(r, i);
    return sum;
}

static float
the_mean(size_t i, uint32_t ranks)
{
    return the_sum(i, ranks) / (float)ranks;
}

static float
the_roots(size_t i, uint32_t root)
{
    return device_group_element(root, i);
}

static ps_device_group *
open_all(ps_group *g, ps_device *d, int direct)
{
    struct ps_device_group_options o = {.direct = direct};
    ps_device_group *t;

    need_ok(ps_device_group_open(g, d, &o, &t, &error));
    return t;
}

/* ---- What it does ---- */

static void
reduce_and_broadcast(ps_group *g, void *arg)
{
    const struct device_group_way *w = arg;
    uint32_t ranks = ps_group_ranks(g), rank = ps_group_rank(g);
    ps_device *d = open_device(w->device);
    ps_device_group *t = open_all(g, d, w->direct);
    float *x = device_group_alloc(d, LARGEST);

    for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
        device_group_fill(d, x, rank, sizes[k]);
        need_ok(ps_device_group_all_reduce(t, x, sizes[k], PS_SUM, &error));
        need_all(d, x, sizes[k], the_sum, ranks);
        device_group_fill(d, x, rank, sizes[k]);
        need_ok(ps_device_group_all_reduce(t, x, sizes[k], PS_MEAN, &error));
        need_all(d, x, sizes[k], the_mean, ranks);
        for (uint32_t root = 0; root < ranks; root++) {
            device_group_fill(d, x, rank, sizes[k]);
            need_ok(ps_device_group_broadcast(t, x, sizes[k], root, &error));
            need_all(d, x, sizes[k], the_roots, root);
        }
    }
    need(ps_device_group_all_reduce(t, x, 1, PS_MAX, &error) == PS_ERR_INVALID);
    need(ps_device_group_broadcast(t, x, 1, ranks, &error) == PS_ERR_INVALID);
    need(ps_device_group_all_reduce(t, NULL, 1, PS_SUM, &error) == PS_ERR_INVALID);
    ps_device_group_close(t);
    ps_device_group_close(NULL);
    ps_device_free(d, x);
    ps_device_close(d);
}

START_TEST(every_rank_ends_with_the_sum_the_mean_or_what_one_had)
{
    struct ps_group_options o = {.progress_thread = _i % 2};
    struct device_group_way way = ways[_i % 3];
    struct ranks r;

    ranks_start(&r, 1 + (uint32_t)_i / 3, 0, &o, reduce_and_broadcast, &way);
    ranks_end(&r);
}
END_TEST

/* Every rank has the bits of the sum in the order of the ranks: the fake device's, as those of a gang. */
static void
sum_in_order(ps_group *g, void *arg)
{
    static float x[1001], all[8][1001];
    struct test_rng rng = {7};
    ps_device *d = open_device("cuda");
    ps_device_group *t = open_all(g, d, 1);
    float *on = device_group_alloc(d, 1001);

    (void)arg;
    for (uint32_t r = 0; r < ps_group_ranks(g); r++)
        for (size_t i = 0; i < 1001; i++)
            all[r][i] = test_float(&rng);
    ps_device_upload(d, on, all[ps_group_rank(g)], sizeof x);
    need_ok(ps_device_group_all_reduce(t, on, 1001, PS_SUM, &error));
    need_ok(ps_device_download(d, x, on, sizeof x, &error));
    for (size_t i = 0; i < 1001; i++) {
        volatile float want = all[0][i];

        for (uint32_t r = 1; r < ps_group_ranks(g); r++)
            want = want + all[r][i];
        need(x[i] == want);
    }
    ps_device_group_close(t);
    ps_device_free(d, on);
    ps_device_close(d);
}

START_TEST(devices_add_up_in_the_order_of_the_ranks)
{
    struct ranks r;

    ranks_start(&r, 4, 0, NULL, sum_in_order, NULL);
    ranks_end(&r);
}
END_TEST

/* ---- What is refused ---- */

/* Rank 1 has another device, or asks for the other way. */
static void
open_unlike(ps_group *g, void *arg)
{
    bool other_way = *(int *)arg;
    bool odd = ps_group_rank(g) == 1;
    struct ps_device_group_options o = {.direct = !(odd && other_way)};
    ps_device *d = open_device(odd ? "cpu" : "cuda");
    ps_device_group *t;

    need(ps_device_group_open(g, d, &o, &t, &error) == (other_way ? PS_ERR_MISMATCH : PS_ERR_UNSUPPORTED));
    need(strstr(error.text, "rank 1") != NULL && t == NULL);
    need_ok(ps_group_barrier(g, NULL, &error)); /* the group still works */
    ps_device_close(d);
}

START_TEST(ranks_that_cannot_or_would_not_are_named)
{
    struct ranks r;

    ranks_start(&r, 3, 0, NULL, open_unlike, &_i);
    ranks_end(&r);
}
END_TEST

/* All have the same GPU, as where each process takes the first one. By the host that is no matter. */
static void
open_one_gpu(ps_group *g, void *arg)
{
    struct ps_device_group_options direct = {.direct = 1};
    ps_device *d = open_device("cuda");
    ps_device_group *t;

    (void)arg;
    need(setenv("PSD_FAKE_SHARED", "yes", 1) == 0);
    need(ps_device_group_open(g, d, &direct, &t, &error) == PS_ERR_UNSUPPORTED);
    need(strstr(error.text, "ranks 0 and 1 share one GPU") != NULL && t == NULL);
    ps_device_group_close(open_all(g, d, 0));
    need(unsetenv("PSD_FAKE_SHARED") == 0);
    ps_device_group_close(open_all(g, d, 1));
    ps_device_close(d);
}

START_TEST(ranks_that_share_a_gpu_are_named_before_they_join)
{
    struct ranks r;

    ranks_start(&r, 3, 0, NULL, open_one_gpu, NULL);
    ranks_end(&r);
}
END_TEST

/* Rank 2 starts another operation; nothing is done, and the next one succeeds. */
static void
start_something_else(ps_group *g, void *arg)
{
    struct device_group_way w = *(struct device_group_way *)arg;
    uint32_t rank = ps_group_rank(g);
    ps_device *d = open_device(w.device);
    ps_device_group *t = open_all(g, d, w.direct);
    float *x = device_group_alloc(d, 10);

    device_group_fill(d, x, rank, 10);
    need(ps_device_group_all_reduce(t, x, rank == 2 ? 9 : 10, PS_SUM, &error) == PS_ERR_MISMATCH);
    need(strstr(error.text, "rank 2") != NULL);
    if (rank == 2)
        need(ps_device_group_broadcast(t, x, 10, 0, &error) == PS_ERR_MISMATCH);
    else
        need(ps_device_group_all_reduce(t, x, 10, PS_SUM, &error) == PS_ERR_MISMATCH);
    need_all(d, x, 10, the_roots, rank);
    need_ok(ps_device_group_all_reduce(t, x, 10, PS_SUM, &error));
    need_all(d, x, 10, the_sum, ps_group_ranks(g));
    ps_device_group_close(t);
    ps_device_free(d, x);
    ps_device_close(d);
}

START_TEST(who_starts_something_else_is_named_on_every_rank)
{
    struct device_group_way way = ways[_i];
    struct ranks r;

    ranks_start(&r, 3, 0, NULL, start_something_else, &way);
    ranks_end(&r);
}
END_TEST

/* ---- What fails ---- */

/* So that no rank that already knows the failure, and ends, is taken for lost. */
static void
device_group_stay(void)
{
    ranks_tell('k');
    need(ranks_listen() == 'e');
}

static void
let_end(struct ranks *r, uint32_t a, uint32_t b)
{
    ck_assert_int_eq(ranks_hear(r, a), 'k');
    ck_assert_int_eq(ranks_hear(r, b), 'k');
    ranks_say(r, a, 'e');
    ranks_say(r, b, 'e');
}

enum device_group_fate { DIES, STOPS, BREAKS };
struct fated {
    struct device_group_way way;
    enum device_group_fate fate;
};

/* In the midst of an operation: those that others have begun on their devices wait for it. Called by rank 1. */
static void
meet_fate(ps_group *g, ps_device_group *t, ps_device *d, float *x, enum device_group_fate fate)
{
    if (fate == DIES)
        raise(SIGKILL);
    if (fate == STOPS)
        raise(SIGSTOP);
    fake_fails(1);
    need(ps_device_group_all_reduce(t, x, LARGEST, PS_SUM, &error) == PS_ERR_IO);
    need(strstr(error.text, "it was told to fail") != NULL);
    need(ps_device_group_all_reduce(t, x, 1, PS_SUM, &error) == PS_ERR_IO); /* and so it stays */
    need(ps_group_state(g, &error) == PS_OK);
    ps_device_group_close(t);
    fake_fails(0);
    ps_device_free(d, x);
    ps_device_close(d);
}

/* Until it fails: each rank learns in time that it was rank 1. */
static void
until_it_fails(ps_group *g, void *arg)
{
    const struct fated *f = arg;
    ps_device *d = open_device(f->way.device);
    ps_device_group *t = open_all(g, d, f->way.direct);
    float *x = device_group_alloc(d, LARGEST);
    enum ps_err err = PS_OK;
    struct ps_error again;

    need_ok(ps_device_group_all_reduce(t, x, LARGEST, PS_SUM, &error));
    if (ps_group_rank(g) == 1) {
        meet_fate(g, t, d, x, f->fate);
        return;
    }
    while (err == PS_OK)
        err = ps_device_group_all_reduce(t, x, LARGEST, PS_SUM, &error);
    if (f->fate == BREAKS && !f->way.direct && strstr(error.text, "rank 1 cannot") != NULL)
        need(err == PS_ERR_IO);
    else if (strncmp(error.peer, "rank 1 at", 9) != 0 || (err != PS_ERR_CLOSED && err != PS_ERR_TIMEOUT)) {
        fprintf(stderr, "%s: %s (%s)\n", ps_err_name(err), error.text, error.peer);
        _exit(1);
    }
    need(f->fate != DIES || err == PS_ERR_CLOSED);
    need(f->fate != STOPS || err == PS_ERR_TIMEOUT);
    need(ps_device_group_all_reduce(t, x, LARGEST, PS_SUM, &again) == err && strcmp(again.text, error.text) == 0);
    device_group_stay();
    ps_device_group_close(t);
    ps_device_free(d, x);
    ps_device_close(d);
}

START_TEST(who_is_lost_is_named_in_time)
{
    struct fated f = {ways[_i % 3], (enum device_group_fate)(_i / 3)};
    struct ps_group_options o = {.timeout_ms = f.fate == STOPS ? SOON_MS : 30000, .progress_thread = _i % 2};
    uint64_t began = now_ms();
    struct ranks r;

    if (f.fate == BREAKS && f.way.device[1] == 'p')
        return; /* the CPU does not break */
    ranks_start(&r, 3, 0, &o, until_it_fails, &f);
    let_end(&r, 0, 2);
    ck_assert_uint_lt(now_ms() - began, 20000);
    if (f.fate == STOPS)
        kill(r.pid[1], SIGKILL);
    if (f.fate != BREAKS)
        ck_assert(WIFSIGNALED(ranks_wait(&r, 1)));
    ranks_end(&r);
}
END_TEST

/* The operations that others have begun on their devices never end: rank 1 knows of them, begins its own, and is gone.
 */
static void
leave_in_the_midst(ps_group *g, void *arg)
{
    int64_t same[3] = {1, LARGEST, PS_SUM}, all[9];
    ps_device *d = open_device("cuda");
    ps_device_group *t = open_all(g, d, 1);
    float *x = device_group_alloc(d, LARGEST);
    enum ps_err err;

    if (ps_group_rank(g) == 1) {
        need_ok(group_tagged_all_gather(g, GROUP_TAG_DEVICES, same, all, 9, PS_I64, NULL, &error)); /* no more */
        if (*(int *)arg == 0)
            raise(SIGKILL);
        ranks_tell('b');
        need(ranks_listen() == 'e');
    } else {
        err = ps_device_group_all_reduce(t, x, LARGEST, PS_SUM, &error);
        if (*(int *)arg == 0)
            need(err == PS_ERR_CLOSED && strncmp(error.peer, "rank 1 at", 9) == 0);
        else
            need(err == PS_ERR_TIMEOUT && strstr(error.text, "device cuda: reducing") != NULL);
        need(ps_device_group_broadcast(t, x, 1, 0, &error) == err);
        need_ok(ps_device_finish(d, &error)); /* the device is free of it */
        device_group_stay();
    }
    ps_device_group_close(t);
    ps_device_free(d, x);
    ps_device_close(d);
}

START_TEST(devices_that_wait_for_ever_are_given_up)
{
    struct ps_group_options o = {.timeout_ms = _i == 0 ? 30000 : SOON_MS};
    struct ranks r;

    ranks_start(&r, 3, 0, &o, leave_in_the_midst, &_i);
    if (_i == 1)
        ck_assert_int_eq(ranks_hear(&r, 1), 'b');
    let_end(&r, 0, 2);
    if (_i == 1)
        ranks_say(&r, 1, 'e');
    else
        ck_assert(WIFSIGNALED(ranks_wait(&r, 1)));
    ranks_end(&r);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("device_group");
    TCase *tc = tcase_create("ranks");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_rank_ends_with_the_sum_the_mean_or_what_one_had, 0, 12);
    tcase_add_test(tc, devices_add_up_in_the_order_of_the_ranks);
    tcase_add_loop_test(tc, ranks_that_cannot_or_would_not_are_named, 0, 2);
    tcase_add_test(tc, ranks_that_share_a_gpu_are_named_before_they_join);
    tcase_add_loop_test(tc, who_starts_something_else_is_named_on_every_rank, 0, 3);
    tcase_add_loop_test(tc, who_is_lost_is_named_in_time, 0, 9);
    tcase_add_loop_test(tc, devices_that_wait_for_ever_are_given_up, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
