/* Costs and savings of compression between workers: multi_worker_mirrored with each encoding, by real processes. All
 * workers end with one model, bit by bit, and every run with the same; it is as accurate as without compression within
 * MARGIN, and the bytes that travelled are counted. Workers meet at a shard. */
#include <math.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/examples/digits/model.h"
#include "client/examples/digits/train.h"
#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"
#include "tests/system/digits_fixture.h"
#include "tests/unit/kits/check_main.h"

enum { WORKERS_MAX = 4, FLOATS_MAX = 20000, FAILED = 3 };

#define MARGIN 6 /* of 300 held-out images: 2 % */

/* A worker's results, for the test to check. */
struct mirrored_left {
    float weights[FLOATS_MAX];
    size_t len, correct;
    double loss;
    struct ps_strategy_stats stats;
    struct ps_error error;
};
static struct mirrored_left *left; /* [WORKERS_MAX], shared */

static void
mirrored_setup(void)
{
    digits_setup(1);
    left = digits_share(WORKERS_MAX * sizeof *left);
}

static void
mirrored_teardown(void)
{
    munmap(left, WORKERS_MAX * sizeof *left);
    digits_teardown();
}

/* ---- Workers ---- */

typedef enum ps_err (*worker_body)(const ps_cluster *cluster, struct mirrored_left *mine, const void *arg,
                                   struct ps_error *e);

static _Noreturn void
worker_main(uint32_t workers, uint32_t task, worker_body body, const void *arg)
{
    struct ps_error *e = &left[task].error;
    ps_cluster *cluster;
    enum ps_err err;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((err = digits_cluster(workers, task, &cluster, e)) == PS_OK)
        err = body(cluster, &left[task], arg, e);
    _exit(err == PS_OK ? 0 : FAILED);
}

static void
mirrored_run(uint32_t workers, worker_body body, const void *arg, int want)
{
    pid_t pid[WORKERS_MAX];
    int status;

    memset(left, 0, WORKERS_MAX * sizeof *left);
    for (uint32_t i = 0; i < workers; i++) {
        if ((pid[i] = fork()) == 0)
            worker_main(workers, i, body, arg);
        ck_assert_int_gt(pid[i], 0);
    }
    for (uint32_t i = 0; i < workers; i++) {
        ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == want, "worker %u ended with status %x: %s (%s)", i,
                      (unsigned)status, left[i].error.text, left[i].error.peer);
    }
    for (uint32_t i = 1; i < workers && want == 0; i++)
        ck_assert_msg(left[i].len == left[0].len &&
                          memcmp(left[i].weights, left[0].weights, left[0].len * sizeof(float)) == 0,
                      "worker %u has another model than worker 0", i);
}

/* ---- The digits ---- */

/* arg: the encoding's text. */
static enum ps_err
train_digits(const ps_cluster *cluster, struct mirrored_left *mine, const void *arg, struct ps_error *e)
{
    struct digits_words words;
    struct digits_options options;
    struct train t = {.options = &options, .data = &data, .held_out = &held_out, .silent = true};
    struct ps_network_result result;
    enum ps_err err;

    if ((err =
             digits_read(&words, &options, e,
                         "--strategy multi_worker_mirrored --threads=1 --epochs=20 --optimizer=momentum --compress %s",
                         (const char *)arg)) == PS_OK &&
        (err = train_open(&t, cluster, e)) == PS_OK && (err = train_run(&t, e)) == PS_OK &&
        (err = train_meet(&t, e)) == PS_OK && (err = train_evaluate(&t, &result, e)) == PS_OK) {
        mine->correct = result.correct;
        mine->loss = result.loss / (double)result.rows;
        ps_strategy_stats(t.strategy, &mine->stats);
        mine->len = digits_weights(t.replica[0].network, FLOATS_MAX, mine->weights);
    }
    train_close(&t, err == PS_OK);
    return err;
}

/* Name, and how many times less must travel at least. */
static const struct {
    const char *text;
    double saves;
} codecs[] = {{"float16", 1.99}, {"bfloat16", 1.99}, {"int8", 3.8}, {"top_k:0.05", 9}, {"top_k:0.01", 35}};

START_TEST(every_encoding_is_as_accurate_as_float32)
{
    const uint32_t workers = 2 + (uint32_t)_i;
    size_t plain;

    mirrored_run(workers, train_digits, "none", 0);
    plain = left[0].correct;
    fprintf(stderr, "# %u workers, %-10s %zu of 300, loss %.4f, %6.1f KB a step and worker\n", workers, "float32",
            plain, left[0].loss, (double)left[0].stats.gradient_sent / (double)left[0].stats.steps / 1000);
    ck_assert_msg(plain >= 279, "float32 itself: %zu of 300", plain);
    ck_assert(left[0].stats.gradient_sent == left[0].stats.gradient_plain);
    for (size_t i = 0; i < ARRAY_LEN(codecs); i++) {
        double saved;

        mirrored_run(workers, train_digits, codecs[i].text, 0);
        saved = (double)left[0].stats.gradient_plain / (double)left[0].stats.gradient_sent;
        fprintf(stderr, "# %u workers, %-10s %zu of 300, loss %.4f, %6.1f KB a step and worker: %.1f times less\n",
                workers, codecs[i].text, left[0].correct, left[0].loss,
                (double)left[0].stats.gradient_sent / (double)left[0].stats.steps / 1000, saved);
        ck_assert_msg(left[0].correct + MARGIN >= plain, "%s: %zu of 300 held-out images, float32 %zu", codecs[i].text,
                      left[0].correct, plain);
        ck_assert_msg(saved >= codecs[i].saves, "%s: %.2f times less", codecs[i].text, saved);
    }
}
END_TEST

START_TEST(the_same_seed_gives_the_same_bits_in_every_run)
{
    static float before[FLOATS_MAX];
    const char *text = codecs[_i].text;

    mirrored_run(3, train_digits, text, 0);
    memcpy(before, left[0].weights, sizeof before);
    mirrored_run(3, train_digits, text, 0);
    ck_assert_msg(memcmp(before, left[0].weights, left[0].len * sizeof(float)) == 0, "%s: another model", text);
}
END_TEST

/* ---- A model of one's own ---- */

enum { ELEMENTS = 3000, STEPS = 12, BROKEN = 5 };

/* How a model is trained. */
struct mirrored_way {
    const char *compress;
    bool breaks;     /* worker 1's step function fails in step BROKEN, once */
    bool unlike;     /* worker 1 uses another encoding */
    bool not_finite; /* worker 1 has no finite gradient in step BROKEN */
};

struct mirrored_hand {
    const struct mirrored_way *way;
    uint32_t task;
    bool broke;
};

/* Rows that move each weight to a value of their own. */
static enum ps_err
mirrored_step(void *arg, struct ps_replica *r, struct ps_error *e)
{
    struct mirrored_hand *h = arg;
    bool now = r->step == BROKEN && h->task == 1;

    for (size_t i = 0; i < ELEMENTS; i++) {
        r->gradients[0][i] = 0;
        for (uint64_t row = r->first; row < r->first + r->rows; row++)
            r->gradients[0][i] += r->scale * (r->values[0][i] - (float)((i * 7 + row * 13) % 31) / 9);
    }
    if (now && h->way->not_finite)
        r->gradients[0][17] = NAN;
    if (!now || !h->way->breaks || h->broke)
        return PS_OK;
    h->broke = true;
    r->gradients[0][3] = INFINITY; /* its other gradients do not matter */
    return ps_fail(e, PS_ERR_DATA, "its data are away for a moment");
}

static enum ps_err
train_by_hand(ps_strategy *s, struct mirrored_hand *h, struct ps_error *e)
{
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {ELEMENTS}};
    struct ps_strategy_calls calls = {.step = mirrored_step, .arg = h};
    enum ps_err err;

    if ((err = ps_optimizer_parse("momentum:learning_rate=0.1", &spec.optimizer, e)) != PS_OK ||
        (err = ps_strategy_variable(s, &spec, e)) != PS_OK || (err = ps_strategy_start(s, e)) != PS_OK)
        return err;
    err = ps_strategy_run(s, STEPS, &calls, e);
    if (err == PS_ERR_DATA && h->broke)
        err = ps_strategy_run(s, STEPS, &calls, e); /* the step again */
    return err == PS_OK ? ps_strategy_meet(s, e) : err;
}

static enum ps_err
work_by_hand(const ps_cluster *cluster, struct mirrored_left *mine, const void *arg, struct ps_error *e)
{
    const struct mirrored_way *way = arg;
    struct mirrored_hand h = {.way = way, .task = ps_cluster_task(cluster)};
    struct ps_strategy_options options = {.cluster = cluster, .rows = 60, .batch = 20};
    ps_strategy *s;
    enum ps_err err;

    if ((err = ps_compress_parse(way->compress, &options.client.compress, e)) != PS_OK)
        return err;
    if (way->unlike && h.task == 1)
        options.client.compress = (struct ps_compress){.kind = PS_COMPRESS_TOP_K, .fraction = 0.013};
    if ((err = ps_strategy_open("multi_worker_mirrored", &options, &s, e)) != PS_OK)
        return err;
    if ((err = train_by_hand(s, &h, e)) == PS_OK) {
        memcpy(mine->weights, ps_strategy_values(s, 0)[0], ELEMENTS * sizeof(float));
        mine->len = ELEMENTS;
    }
    if (err == PS_OK)
        ps_strategy_close(s);
    else
        ps_strategy_abandon(s);
    return err;
}

static enum ps_err
large_step(void *arg, struct ps_replica *r, struct ps_error *e)
{
    (void)arg;
    (void)e;
    for (size_t i = 0; i < ELEMENTS; i++)
        r->gradients[0][i] = i % 2 == 0 ? 60000 : -60000;
    return PS_OK;
}

/* One step with gradients whose sum is more than float16 holds, from weights of 0. */
static enum ps_err
large_gradients(const ps_cluster *cluster, struct mirrored_left *mine, const void *arg, struct ps_error *e)
{
    struct ps_strategy_options options = {.cluster = cluster, .rows = 60, .batch = 20};
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {ELEMENTS}};
    struct ps_strategy_calls calls = {.step = large_step};
    ps_strategy *s;
    enum ps_err err;

    options.client.compress.kind = *(const enum ps_compress_kind *)arg;
    if ((err = ps_strategy_open("multi_worker_mirrored", &options, &s, e)) != PS_OK)
        return err;
    if ((err = ps_optimizer_parse("sgd:learning_rate=1", &spec.optimizer, e)) == PS_OK &&
        (err = ps_strategy_variable(s, &spec, e)) == PS_OK && (err = ps_strategy_start(s, e)) == PS_OK &&
        (err = ps_strategy_run(s, 1, &calls, e)) == PS_OK) {
        memcpy(mine->weights, ps_strategy_values(s, 0)[0], ELEMENTS * sizeof(float));
        mine->len = ELEMENTS;
        err = ps_strategy_meet(s, e);
    }
    ps_strategy_close(s);
    return err;
}

START_TEST(a_mean_gradient_is_not_cut_off_where_the_sum_would_be)
{
    enum ps_compress_kind kinds[] = {PS_COMPRESS_NONE, PS_COMPRESS_FLOAT16};

    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        mirrored_run(3, large_gradients, &kinds[k], 0);
        for (uint32_t i = 0; i < 3; i++)
            for (size_t j = 0; j < ELEMENTS; j++)
                ck_assert_msg(fabsf(left[i].weights[j]) == 60000, "%s: worker %u: weight %zu is %g",
                              ps_compress_name(kinds[k]), i, j, (double)left[i].weights[j]);
    }
}
END_TEST

/* Memory that this process shares with others. */
static unsigned
shared_maps(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned n = 0;

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        n += strstr(line, "/memfd:") != NULL;
    if (f != NULL)
        fclose(f);
    return n;
}

enum mirrored_transport { BY_DEFAULT, BY_ENVIRONMENT, BY_OPTION_OF_CLIENT, BY_OPTION_OF_GROUP, BY_ALL };

static enum ps_err
open_with_transport(const ps_cluster *cluster, struct mirrored_left *mine, const void *arg, struct ps_error *e)
{
    enum mirrored_transport how = *(const enum mirrored_transport *)arg;
    struct ps_group_options group = {.transport = how == BY_OPTION_OF_GROUP ? PS_TRANSPORT_TCP : PS_TRANSPORT_AUTO};
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {ELEMENTS}};
    struct ps_strategy_options options = {.cluster = cluster, .rows = 60, .batch = 20, .group = &group};
    ps_strategy *s;
    enum ps_err err;

    if (how == BY_OPTION_OF_CLIENT)
        options.client.transport = PS_TRANSPORT_TCP;
    if (how == BY_ENVIRONMENT)
        setenv("PSD_TRANSPORT", "tcp", 1);
    if ((err = ps_strategy_open("multi_worker_mirrored", &options, &s, e)) != PS_OK)
        return err;
    if ((err = ps_optimizer_parse("sgd", &spec.optimizer, e)) == PS_OK &&
        (err = ps_strategy_variable(s, &spec, e)) == PS_OK)
        err = ps_strategy_start(s, e);
    mine->len = shared_maps();
    ps_strategy_close(s);
    return err;
}

START_TEST(who_does_not_want_shared_memory_has_none)
{
    for (enum mirrored_transport how = BY_DEFAULT; how < BY_ALL; how++) {
        mirrored_run(2, open_with_transport, &how, 0);
        for (uint32_t i = 0; i < 2; i++)
            ck_assert_msg((left[i].len > 0) == (how == BY_DEFAULT), "case %d: worker %u shares %zu", (int)how, i,
                          (size_t)left[i].len);
    }
}
END_TEST

/* Nothing of the step that is done again is in the workers' residuals. */
START_TEST(a_step_that_was_broken_off_leaves_nothing_behind)
{
    static float want[ELEMENTS];
    struct mirrored_way way = {.compress = codecs[_i].text};

    mirrored_run(3, work_by_hand, &way, 0);
    memcpy(want, left[0].weights, sizeof want);
    way.breaks = true;
    mirrored_run(3, work_by_hand, &way, 0);
    ck_assert_msg(memcmp(want, left[0].weights, sizeof want) == 0, "%s: another model", way.compress);
}
END_TEST

START_TEST(a_gradient_that_is_not_finite_is_told_to_all)
{
    struct mirrored_way way = {.compress = codecs[_i].text, .not_finite = true};

    mirrored_run(3, work_by_hand, &way, FAILED);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_msg(left[i].error.code == PS_ERR_NONFINITE, "worker %u: %s", i, left[i].error.text);
        ck_assert_msg(strstr(left[i].error.text, "rank 1 ") != NULL, "worker %u: %s", i, left[i].error.text);
    }
}
END_TEST

START_TEST(workers_that_compress_otherwise_are_told)
{
    struct mirrored_way way = {.compress = "top_k:0.01", .unlike = true};

    mirrored_run(2, work_by_hand, &way, FAILED);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_msg(left[i].error.code == PS_ERR_MISMATCH && strstr(left[i].error.text, "compression") != NULL,
                      "worker %u: %s", i, left[i].error.text);
}
END_TEST

START_TEST(compression_that_makes_no_sense_is_refused)
{
    static const struct ps_compress bad[] = {{.kind = PS_COMPRESS_KINDS},
                                             {.kind = PS_COMPRESS_TOP_K, .fraction = -0.1},
                                             {.kind = PS_COMPRESS_TOP_K, .fraction = 1.1}};
    struct ps_error e;
    ps_strategy *s;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        for (size_t k = 0; ps_strategy_name(k) != NULL; k++) {
            struct ps_strategy_options options = {.rows = 60, .batch = 20, .client = {.compress = bad[i]}};

            ck_assert_int_eq(ps_strategy_open(ps_strategy_name(k), &options, &s, &e), PS_ERR_INVALID);
            ck_assert_msg(strstr(e.text, "compression ") != NULL, "%s", e.text);
        }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("compress_mirrored");
    TCase *tc = tcase_create("compress_mirrored");

    tcase_add_checked_fixture(tc, mirrored_setup, mirrored_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, who_does_not_want_shared_memory_has_none);
    tcase_add_test(tc, a_mean_gradient_is_not_cut_off_where_the_sum_would_be);
    tcase_add_loop_test(tc, every_encoding_is_as_accurate_as_float32, 0, 2);
    tcase_add_loop_test(tc, the_same_seed_gives_the_same_bits_in_every_run, 0, ARRAY_LEN(codecs));
    tcase_add_loop_test(tc, a_step_that_was_broken_off_leaves_nothing_behind, 0, ARRAY_LEN(codecs));
    tcase_add_loop_test(tc, a_gradient_that_is_not_finite_is_told_to_all, 0, ARRAY_LEN(codecs));
    tcase_add_test(tc, workers_that_compress_otherwise_are_told);
    tcase_add_test(tc, compression_that_makes_no_sense_is_refused);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
