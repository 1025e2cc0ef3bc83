/* Strategies of one process: how a batch is dealt out, the sum of a step, the state after an error, and checkpoints. A
 * model of two variables whose loss is a square, so that every gradient can be written down. */
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/include/psclient/ps_data.h"
#include "client/include/psclient/ps_strategy.h"
#include "common/core/base/base.h"
#include "tests/remove_tree.h"
#include "tests/unit/kits/check_main.h"

enum { ROWS = 23, BATCH = 6, WIDTH = 37, METRICS = 2, STEPS_MAX = 64 };

static const char *const here[] = {"one_device", "mirrored", "central_storage"};

/* The records of a step function; each replica has lines of its own. */
struct strategy_model {
    struct ps_replica seen[STEPS_MAX][PS_STRATEGY_REPLICAS_MAX];
    uint32_t fail_at, fail_replica; /* step + 1; 0: never */
    float poison;                   /* added to the first gradient at fail_at, instead of an error */
    uint64_t after_steps[STEPS_MAX];
    double metrics[STEPS_MAX][METRICS];
    uint64_t rows[STEPS_MAX];
    size_t after;
    enum ps_err after_err; /* of the third call */
};

static struct ps_error error;

/* The target of row r is x . w + b = y: x[j] and y by its number. */
static float
strategy_feature(uint64_t row, size_t j)
{
    return (float)((row * 7 + j * 13) % 11) / 11.0f - 0.5f;
}

static float
strategy_target(uint64_t row)
{
    return (float)(row % 5) - 2.0f;
}

static enum ps_err
strategy_test_step(void *arg, struct ps_replica *r, struct ps_error *e)
{
    struct strategy_model *m = arg;
    const float *w = r->values[0], *b = r->values[1];
    float *dw = r->gradients[0], *db = r->gradients[1];

    m->seen[r->step % STEPS_MAX][r->index] = *r;
    memset(dw, 0, WIDTH * sizeof *dw);
    *db = 0;
    for (uint64_t k = 0; k < r->rows; k++) {
        uint64_t row = (r->batch * BATCH + r->first + k + r->epoch) % ROWS;
        float miss = *b - strategy_target(row);

        for (size_t j = 0; j < WIDTH; j++)
            miss += strategy_feature(row, j) * w[j];
        for (size_t j = 0; j < WIDTH; j++)
            dw[j] += r->scale * 2 * miss * strategy_feature(row, j);
        *db += r->scale * 2 * miss;
        r->metrics[0] += (double)miss * (double)miss;
        r->metrics[1] += 1;
    }
    ps_replica_ready(r, 1);
    ps_replica_ready(r, 0);
    if (m->fail_at != r->step + 1 || m->fail_replica != r->index)
        return PS_OK;
    dw[0] += m->poison;
    return m->poison != 0 ? PS_OK : ps_fail(e, PS_ERR_DATA, "replica %u does not want to", r->index);
}

static enum ps_err
strategy_after(void *arg, const struct ps_step_done *done, struct ps_error *e)
{
    struct strategy_model *m = arg;

    m->after_steps[m->after] = done->step;
    m->rows[m->after] = done->rows;
    memcpy(m->metrics[m->after], done->metrics, sizeof m->metrics[0]);
    return ++m->after == 3 && m->after_err != PS_OK ? ps_fail(e, m->after_err, "after has seen enough") : PS_OK;
}

static struct ps_strategy_options
strategy_usual(uint32_t replicas, uint64_t batch)
{
    return (struct ps_strategy_options){
        .replicas = replicas, .rows = ROWS, .batch = batch, .metrics = METRICS, .threads = 1};
}

static void
strategy_create(ps_strategy *s, const char *optimizer)
{
    struct ps_var_spec w = {.name = "w", .rank = 1, .dims = {WIDTH}, .init = {PS_INIT_NORMAL, 0, 0.1, 7}},
                       b = {.name = "b", .init = {PS_INIT_CONSTANT, 0.25, 0, 0}};

    ck_assert_int_eq(ps_optimizer_parse(optimizer, &w.optimizer, &error), PS_OK);
    b.optimizer = w.optimizer;
    ck_assert_int_eq(ps_strategy_variable(s, &w, &error), PS_OK);
    ck_assert_int_eq(ps_strategy_variable(s, &b, &error), PS_OK);
    ck_assert_uint_eq(ps_strategy_variables(s), 2);
}

static ps_strategy *
strategy_started(const char *name, const struct ps_strategy_options *options, const char *optimizer)
{
    ps_strategy *s;

    if (ps_strategy_open(name, options, &s, &error) != PS_OK)
        ck_abort_msg("%s: %s", name, error.text);
    strategy_create(s, optimizer);
    ck_assert_int_eq(ps_strategy_start(s, &error), PS_OK);
    return s;
}

static void
strategy_run(ps_strategy *s, struct strategy_model *m, uint64_t until)
{
    struct ps_strategy_calls calls = {.step = strategy_test_step, .after = strategy_after, .arg = m};

    if (ps_strategy_run(s, until, &calls, &error) != PS_OK)
        ck_abort_msg("%s", error.text);
}

static void
values_of(const ps_strategy *s, uint32_t replica, float out[WIDTH + 1])
{
    memcpy(out, ps_strategy_values(s, replica)[0], WIDTH * sizeof *out);
    out[WIDTH] = ps_strategy_values(s, replica)[1][0];
}

/* All replicas have these bits. */
static void
assert_values(const ps_strategy *s, const float want[WIDTH + 1], const char *what)
{
    float is[WIDTH + 1];

    for (uint32_t k = 0; k < ps_strategy_replicas(s); k++) {
        values_of(s, k, is);
        ck_assert_msg(memcmp(is, want, sizeof is) == 0, "%s: replica %u has other values", what, k);
    }
}

/* ---- Dealing ---- */

/* Batches of 6 over 23 rows: the last one has 5; of 4 replicas one has two rows, one has none with 7. */
START_TEST(every_row_of_a_batch_goes_to_one_replica)
{
    for (uint32_t replicas = 1; replicas <= 7; replicas++) {
        struct ps_strategy_options options = strategy_usual(replicas, BATCH);
        struct strategy_model m = {0};
        ps_strategy *s = strategy_started(here[_i], &options, "sgd");

        ck_assert_uint_eq(ps_strategy_replicas_all(s), replicas);
        ck_assert_uint_eq(ps_strategy_steps_each(s), 4);
        strategy_run(s, &m, 9);
        ck_assert_uint_eq(ps_strategy_step(s), 9);
        for (uint64_t i = 0; i < 9; i++) {
            uint64_t at = 0, global = i % 4 == 3 ? 5 : BATCH;

            for (uint32_t k = 0; k < replicas; k++) {
                const struct ps_replica *r = &m.seen[i][k];

                ck_assert(r->index == k && r->local == k && r->count == replicas && r->step == i);
                ck_assert(r->epoch == i / 4 && r->batch == i % 4 && r->global == global && r->first == at);
                ck_assert(r->draw == i * replicas + k && r->scale == (float)replicas / (float)global);
                at += r->rows;
            }
            ck_assert_uint_eq(at, global);
            ck_assert(m.after_steps[i] == i && m.rows[i] == global && m.metrics[i][1] == (double)global);
        }
        ps_strategy_close(s);
    }
}
END_TEST

/* In double, the plain way: the mean loss over the whole batch. */
static void
reference_step(uint64_t i, const double w[WIDTH + 1], double out[WIDTH + 1], const struct strategy_model *m,
               uint32_t replicas)
{
    memcpy(out, w, (WIDTH + 1) * sizeof *out);
    for (uint32_t k = 0; k < replicas; k++) {
        const struct ps_replica *r = &m->seen[i][k];

        for (uint64_t n = 0; n < r->rows; n++) {
            uint64_t row = (r->batch * BATCH + r->first + n + r->epoch) % ROWS;
            double miss = w[WIDTH] - (double)strategy_target(row);

            for (size_t j = 0; j < WIDTH; j++)
                miss += (double)strategy_feature(row, j) * w[j];
            for (size_t j = 0; j < WIDTH; j++)
                out[j] -= 0.05 * 2 * miss * (double)strategy_feature(row, j) / (double)r->global;
            out[WIDTH] -= 0.05 * 2 * miss / (double)r->global;
        }
    }
}

START_TEST(an_update_is_of_the_mean_over_the_global_batch)
{
    for (uint32_t replicas = 1; replicas <= 7; replicas += 2) {
        struct ps_strategy_options options = strategy_usual(replicas, BATCH);
        double want[WIDTH + 1], next[WIDTH + 1];
        float is[WIDTH + 1];
        struct strategy_model m = {0};
        ps_strategy *s = strategy_started(here[_i], &options, "sgd:learning_rate=0.05");

        values_of(s, 0, is);
        for (size_t j = 0; j <= WIDTH; j++)
            want[j] = (double)is[j];
        for (uint64_t i = 0; i < 12; i++) {
            strategy_run(s, &m, i + 1);
            reference_step(i, want, next, &m, replicas);
            memcpy(want, next, sizeof want);
            m.after = 0;
        }
        values_of(s, 0, is);
        for (size_t j = 0; j <= WIDTH; j++)
            ck_assert_msg(fabs((double)is[j] - want[j]) < 1e-5, "%s with %u replicas: %zu is %.9g, not %.9g", here[_i],
                          replicas, j, (double)is[j], want[j]);
        ps_strategy_close(s);
    }
}
END_TEST

static const char *const optimizers[] = {"sgd:learning_rate=0.05", "momentum:learning_rate=0.02",
                                         "adam:learning_rate=0.01,clip=block_norm,limit=1",
                                         "adagrad:learning_rate=0.1,schedule=cosine,steps=20,by=clock"};

START_TEST(the_same_replicas_have_the_same_bits_in_every_strategy)
{
    for (uint32_t replicas = 1; replicas <= 5; replicas++) {
        struct ps_strategy_options options = strategy_usual(replicas, BATCH);
        float want[WIDTH + 1];
        struct strategy_model m[2] = {0};
        ps_strategy *s = strategy_started(here[0], &options, optimizers[_i]);

        strategy_run(s, &m[0], 21);
        values_of(s, 0, want);
        ps_strategy_close(s);
        for (size_t k = 0; k < ARRAY_LEN(here); k++) {
            memset(&m[1], 0, sizeof m[1]);
            s = strategy_started(here[k], &options, optimizers[_i]);
            strategy_run(s, &m[1], 13); /* in two parts */
            strategy_run(s, &m[1], 21);
            assert_values(s, want, here[k]);
            ck_assert_msg(memcmp(m[0].metrics, m[1].metrics, sizeof m[0].metrics) == 0, "%s: other metrics", here[k]);
            ps_strategy_close(s);
        }
    }
}
END_TEST

/* ---- What replicas share ---- */

enum { SHARED_ROWS = 6000, SHARED_BATCH = 3000, SHARED_EPOCHS = 12 };

/* As the example of ps_strategy.h: one object for all replicas, whose threads ask its sampler. */
static enum ps_err
shared_step(void *arg, struct ps_replica *r, struct ps_error *e)
{
    struct ps_slice batch = ps_sampler_slice(arg, r->epoch, r->batch);
    float *dw = r->gradients[0], *db = r->gradients[1];

    (void)e;
    memset(dw, 0, WIDTH * sizeof *dw);
    *db = 0;
    for (uint64_t k = r->first; k < r->first + r->rows; k++) {
        uint64_t row = batch.index[k];

        dw[row % WIDTH] += r->scale * strategy_target(row);
        *db += r->scale * (r->values[1][0] - strategy_target(row * 31));
        r->metrics[0] += (double)((k + 1) * row); /* the order counts */
    }
    return PS_OK;
}

static double
shared_train(const char *name, float out[WIDTH + 1])
{
    struct ps_strategy_options options = {
        .replicas = 4, .rows = SHARED_ROWS, .batch = SHARED_BATCH, .metrics = METRICS, .threads = 1};
    ps_strategy *s = strategy_started(name, &options, "sgd:learning_rate=0.05");
    struct ps_strategy_calls calls = {.step = shared_step};
    double metrics[METRICS];
    ps_sampler *sampler;
    uint64_t rows;

    ck_assert_int_eq(ps_sampler_new(SHARED_ROWS, SHARED_BATCH, 1, 0, 3, &sampler, &error), PS_OK);
    calls.arg = sampler;
    ck_assert_int_eq(ps_strategy_run(s, SHARED_EPOCHS * ps_strategy_steps_each(s), &calls, &error), PS_OK);
    ck_assert_int_eq(ps_strategy_meet(s, &error), PS_OK);
    ps_strategy_totals(s, &rows, metrics);
    values_of(s, 0, out);
    ps_strategy_close(s);
    ps_sampler_free(sampler);
    return metrics[0];
}

START_TEST(replicas_that_share_a_sampler_make_the_model_of_one_thread)
{
    float want[WIDTH + 1], is[WIDTH + 1];
    double total = shared_train("one_device", want);

    for (int times = 0; times < 3; times++) {
        ck_assert_double_eq(shared_train(here[_i], is), total);
        ck_assert_msg(memcmp(is, want, sizeof is) == 0, "%s made another model", here[_i]);
    }
}
END_TEST

/* ---- Errors ---- */

#define assert_fails(want, words, call)                                                                                \
    do {                                                                                                               \
        memset(&error, 0, sizeof error);                                                                               \
        ck_assert_int_eq((call), (want));                                                                              \
        ck_assert_int_eq(error.code, (want));                                                                          \
        ck_assert_msg(strstr(error.text, (words)) != NULL, "\"%s\" lacks \"%s\"", error.text, (words));                \
    } while (0)

static enum ps_err
strategy_opens(const char *name, struct ps_strategy_options options)
{
    ps_strategy *s = NULL;
    enum ps_err err = ps_strategy_open(name, &options, &s, &error);

    ck_assert((s != NULL) == (err == PS_OK));
    ps_strategy_close(s);
    return err;
}

START_TEST(what_does_not_fit_is_refused_and_named)
{
    struct ps_strategy_options o = strategy_usual(2, BATCH);
    ps_strategy *s = NULL;
    ps_cluster *three, *one, *evaluator;

    ck_assert_int_eq(ps_cluster_from_list("127.0.0.1:9", 3, 1, &three, &error), PS_OK);
    ck_assert_int_eq(ps_cluster_from_list("127.0.0.1:9", 1, 0, &one, &error), PS_OK);
    ck_assert_int_eq(
        ps_cluster_from_json("{\"cluster\": {\"worker\": [\"h:1\"], \"ps\": [\"h:2\"], \"evaluator\": [\"h:3\"]},"
                             "\"task\": {\"type\": \"evaluator\", \"index\": 0}}",
                             &evaluator, &error),
        PS_OK);
    assert_fails(PS_ERR_INVALID, "one_device, mirrored, central_storage", strategy_opens("mirrord", o));
    assert_fails(PS_ERR_INVALID, "no strategy \"\"", ps_strategy_open(NULL, &o, &s, &error));
    assert_fails(PS_ERR_INVALID, "; did you mean mirrored?", strategy_opens("mirored", o));
    assert_fails(PS_ERR_INVALID, "options", ps_strategy_open("mirrored", NULL, &s, &error));
    o = strategy_usual(2, 0);
    assert_fails(PS_ERR_INVALID, "batches of 0", strategy_opens("mirrored", o));
    o = strategy_usual(65, BATCH);
    assert_fails(PS_ERR_INVALID, "65 replicas", strategy_opens("mirrored", o));
    o = strategy_usual(1, BATCH);
    o.devices = "cpu, cpu";
    assert_fails(PS_ERR_INVALID, "1 replicas on 2 devices", strategy_opens("mirrored", o));
    assert_fails(PS_ERR_INVALID, "one device", strategy_opens("one_device", o));
    o.replicas = 0;
    ck_assert_int_eq(strategy_opens("mirrored", o), PS_OK);
    o.devices = "cpu,cdua";
    assert_fails(PS_ERR_INVALID, "; did you mean cuda?", strategy_opens("mirrored", o));
    o.devices = "cpu,abacus";
    assert_fails(PS_ERR_INVALID, "abacus", strategy_opens("mirrored", o));
    o = strategy_usual(2, BATCH);
    o.metrics = 17;
    assert_fails(PS_ERR_INVALID, "17 metrics", strategy_opens("mirrored", o));
    o = strategy_usual(2, BATCH);
    o.metric_names = (const char *const[METRICS]){"loss", "rows"};
    assert_fails(PS_ERR_INVALID, "metrics 0 and 2 are both called 'rows'", strategy_opens("mirrored", o));
    o.metric_names = (const char *const[METRICS]){"loss", NULL};
    assert_fails(PS_ERR_INVALID, "a metric's name is 1 to 63 bytes", strategy_opens("mirrored", o));
    o.metric_names = (const char *const[METRICS]){"loss", "hits"};
    ck_assert_int_eq(strategy_opens("mirrored", o), PS_OK);
    o.client.metrics_named = 1;
    o.client.metric_names = o.metric_names;
    assert_fails(PS_ERR_INVALID, "not by its client's", strategy_opens("mirrored", o));
    o = strategy_usual(2, BATCH);
    o.checkpoints = "/tmp";
    assert_fails(PS_ERR_INVALID, "how many steps", strategy_opens("mirrored", o));
    o = strategy_usual(2, BATCH);
    o.cluster = three;
    assert_fails(PS_ERR_CONFIG, "the cluster has 3", strategy_opens("central_storage", o));
    o.cluster = one;
    ck_assert_int_eq(strategy_opens("central_storage", o), PS_OK);
    o.cluster = evaluator;
    assert_fails(PS_ERR_CONFIG, "no worker", strategy_opens("mirrored", o));
    o.cluster = NULL;
    assert_fails(PS_ERR_CONFIG, "shards", strategy_opens("parameter_server", o));
    ps_cluster_free(three);
    ps_cluster_free(one);
    ps_cluster_free(evaluator);
}
END_TEST

START_TEST(things_are_done_in_their_order)
{
    struct ps_strategy_options o = strategy_usual(2, BATCH);
    struct ps_strategy_calls none = {0}, calls = {.step = strategy_test_step};
    struct ps_var_spec w = {.name = "w", .rank = 1, .dims = {WIDTH}};
    ps_strategy *s;

    ck_assert_int_eq(ps_strategy_open("mirrored", &o, &s, &error), PS_OK);
    assert_fails(PS_ERR_INVALID, "nothing to train", ps_strategy_start(s, &error));
    assert_fails(PS_ERR_INVALID, "not started", ps_strategy_run(s, 1, &calls, &error));
    assert_fails(PS_ERR_INVALID, "not started", ps_strategy_meet(s, &error));
    assert_fails(PS_ERR_INVALID, "not started", ps_strategy_save(s, "/tmp", NULL, NULL, &error));
    strategy_create(s, "sgd");
    assert_fails(PS_ERR_INVALID, "'w' already", ps_strategy_variable(s, &w, &error));
    w.name = "";
    assert_fails(PS_ERR_INVALID, "name", ps_strategy_variable(s, &w, &error));
    ck_assert_uint_eq(ps_strategy_variables(s), 2);
    ck_assert_int_eq(ps_strategy_start(s, &error), PS_OK);
    assert_fails(PS_ERR_INVALID, "before", ps_strategy_start(s, &error));
    w.name = "late";
    assert_fails(PS_ERR_INVALID, "before the strategy is started", ps_strategy_variable(s, &w, &error));
    assert_fails(PS_ERR_INVALID, "step function", ps_strategy_run(s, 1, &none, &error));
    ck_assert_int_eq(ps_strategy_meet(s, &error), PS_OK);
    ck_assert_int_eq(ps_strategy_refresh(s, &error), PS_OK);
    ps_strategy_close(s);
    ps_strategy_close(NULL);
    ps_strategy_abandon(NULL);
}
END_TEST

/* A step function that fails, or makes a NaN: nothing of its step is there, and the next run does it again. */
START_TEST(a_step_that_fails_leaves_no_trace)
{
    struct ps_strategy_options options = strategy_usual(3, BATCH);
    float want[WIDTH + 1], before[WIDTH + 1];
    struct strategy_model m = {0};
    struct ps_strategy_calls calls = {.step = strategy_test_step, .after = strategy_after, .arg = &m};
    ps_strategy *s = strategy_started(here[_i % 3], &options, optimizers[2]);

    strategy_run(s, &m, 8);
    values_of(s, 0, want);
    ps_strategy_close(s);
    m = (struct strategy_model){.fail_at = 6, .fail_replica = 1, .poison = _i < 3 ? 0 : NAN};
    s = strategy_started(here[_i % 3], &options, optimizers[2]);
    strategy_run(s, &m, 5);
    values_of(s, 0, before);
    if (m.poison == 0)
        assert_fails(PS_ERR_DATA, "replica 1 does not want to", ps_strategy_run(s, 8, &calls, &error));
    else
        assert_fails(PS_ERR_NONFINITE, "", ps_strategy_run(s, 8, &calls, &error));
    ck_assert_uint_eq(ps_strategy_step(s), 5);
    ck_assert_uint_eq(m.after, 5);
    assert_values(s, before, here[_i % 3]);
    m.fail_at = 0;
    strategy_run(s, &m, 8);
    assert_values(s, want, here[_i % 3]);
    ps_strategy_close(s);
}
END_TEST

START_TEST(an_error_of_after_ends_the_run_behind_its_step)
{
    struct ps_strategy_options options = strategy_usual(2, BATCH);
    struct strategy_model m = {.after_err = PS_ERR_CANCELLED};
    struct ps_strategy_calls calls = {.step = strategy_test_step, .after = strategy_after, .arg = &m};
    struct ps_strategy_stats stats;
    ps_strategy *s = strategy_started("mirrored", &options, "sgd");

    assert_fails(PS_ERR_CANCELLED, "seen enough", ps_strategy_run(s, 8, &calls, &error));
    ck_assert_uint_eq(ps_strategy_step(s), 3);
    ps_strategy_stats(s, &stats);
    ck_assert_uint_eq(stats.steps, 3);
    ps_strategy_close(s);
}
END_TEST

START_TEST(what_it_is_can_be_asked)
{
    struct ps_strategy_options options = strategy_usual(2, BATCH);
    ps_strategy *s = strategy_started("mirrored", &options, "sgd");
    char text[64], little[5];

    ck_assert_str_eq(ps_strategy_describe(s, text, sizeof text), "mirrored, 2 replicas");
    ck_assert_str_eq(ps_strategy_describe(s, little, sizeof little), "mirr");
    ck_assert(ps_strategy_is_chief(s) && ps_strategy_workers(s) == 1 && ps_strategy_replicas(s) == 2);
    ck_assert_ptr_null(ps_strategy_client(s));
    ck_assert_ptr_null(ps_strategy_var(s, 0));
    ck_assert_ptr_ne(ps_strategy_device(s, 0), ps_strategy_device(s, 1));
    ck_assert_ptr_ne(ps_strategy_values(s, 0)[0], ps_strategy_values(s, 1)[0]);
    ps_strategy_close(s);
    s = strategy_started("central_storage", &options, "sgd");
    ck_assert_ptr_eq(ps_strategy_values(s, 0)[0], ps_strategy_values(s, 1)[0]);
    ck_assert_ptr_ne(ps_strategy_gradients(s, 0)[0], ps_strategy_gradients(s, 1)[0]);
    ps_strategy_close(s);
    s = strategy_started("one_device", &options, "sgd");
    ck_assert_ptr_eq(ps_strategy_device(s, 0), ps_strategy_device(s, 1));
    ps_strategy_close(s);
}
END_TEST

/* ---- Checkpoints ---- */

static char directory[64];

static void
make_directory(void)
{
    snprintf(directory, sizeof directory, "%s", "/tmp/psd-test-strategy-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void
remove_directory(void)
{
    (void)remove_tree(directory);
}

static const char *
in_directory(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

/* Whichever strategy wrote it, and whichever reads it: training goes on as if it had never ended. */
START_TEST(training_goes_on_from_a_checkpoint)
{
    struct ps_strategy_options options = strategy_usual(3, BATCH);
    const char *optimizer = optimizers[_i];
    float want[WIDTH + 1];
    struct strategy_model m = {0};
    char *name;
    ps_strategy *s = strategy_started("mirrored", &options, optimizer);

    strategy_run(s, &m, 7);
    ck_assert_int_eq(ps_strategy_save(s, directory, NULL, &name, &error), PS_OK);
    ck_assert_str_eq(name, "clock-7");
    ps_free(name);
    strategy_run(s, &m, 15);
    values_of(s, 0, want);
    ps_strategy_close(s);
    for (size_t k = 0; k < ARRAY_LEN(here); k++) {
        s = strategy_started(here[k], &options, optimizer);
        if (ps_strategy_restore(s, in_directory("latest"), &error) != PS_OK)
            ck_abort_msg("%s", error.text);
        ck_assert_uint_eq(ps_strategy_step(s), 7);
        strategy_run(s, &m, 15);
        assert_values(s, want, here[k]);
        ps_strategy_close(s);
        m.after = 0;
    }
}
END_TEST

START_TEST(checkpoints_are_written_as_often_as_asked_and_the_newest_kept)
{
    struct ps_strategy_options options = strategy_usual(2, BATCH);
    struct strategy_model m = {0};
    struct stat st;
    ps_strategy *s;

    options.checkpoints = directory;
    options.checkpoint_steps = 4;
    options.checkpoints_keep = 2;
    s = strategy_started("central_storage", &options, "adam");
    strategy_run(s, &m, 15);
    ps_strategy_close(s);
    ck_assert_int_ne(stat(in_directory("clock-4"), &st), 0);
    ck_assert_int_eq(stat(in_directory("clock-8/manifest.json"), &st), 0);
    ck_assert_int_eq(stat(in_directory("clock-12/weights.safetensors"), &st), 0);
    ck_assert_int_eq(stat(in_directory("latest/slots.safetensors"), &st), 0);
    ck_assert_int_ne(stat(in_directory("clock-16"), &st), 0);
}
END_TEST

START_TEST(a_checkpoint_that_is_not_whole_or_not_of_these_variables_is_refused)
{
    struct ps_strategy_options options = strategy_usual(2, BATCH);
    float before[WIDTH + 1];
    struct strategy_model m = {0};
    ps_strategy *s = strategy_started("mirrored", &options, "momentum"), *other;
    struct ps_var_spec more = {.name = "w", .rank = 1, .dims = {WIDTH + 1}};
    int fd;

    strategy_run(s, &m, 3);
    ck_assert_int_eq(ps_strategy_save(s, directory, &(struct ps_checkpoint_options){.name = "mine"}, NULL, &error),
                     PS_OK);
    assert_fails(PS_ERR_BUSY, "mine",
                 ps_strategy_save(s, directory, &(struct ps_checkpoint_options){.name = "mine"}, NULL, &error));
    assert_fails(PS_ERR_INVALID, "name",
                 ps_strategy_save(s, directory, &(struct ps_checkpoint_options){.name = "a/b"}, NULL, &error));
    other = strategy_started("mirrored", &options, "adam");
    assert_fails(PS_ERR_MISMATCH, "momentum, not adam", ps_strategy_restore(other, in_directory("mine"), &error));
    ps_strategy_close(other);
    ck_assert_int_eq(ps_strategy_open("mirrored", &options, &other, &error), PS_OK);
    ck_assert_int_eq(ps_optimizer_parse("momentum", &more.optimizer, &error), PS_OK);
    ck_assert_int_eq(ps_strategy_variable(other, &more, &error), PS_OK);
    ck_assert_int_eq(ps_strategy_start(other, &error), PS_OK);
    assert_fails(PS_ERR_MISMATCH, "'w'", ps_strategy_restore(other, in_directory("mine"), &error));
    ps_strategy_close(other);

    values_of(s, 0, before);
    fd = open(in_directory("mine/slots.safetensors"), O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, "!", 1, lseek(fd, 0, SEEK_END) - 1), 1);
    close(fd);
    assert_fails(PS_ERR_DATA, "slots.safetensors", ps_strategy_restore(s, in_directory("mine"), &error));
    assert_fails(PS_ERR_DATA, "manifest", ps_strategy_restore(s, directory, &error));
    assert_fails(PS_ERR_IO, "nowhere", ps_strategy_restore(s, in_directory("nowhere"), &error));
    assert_values(s, before, "after refusals");
    ps_strategy_close(s);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("strategy");
    TCase *tc = tcase_create("strategy"), *checkpoints = tcase_create("checkpoints");

    tcase_add_loop_test(tc, every_row_of_a_batch_goes_to_one_replica, 0, ARRAY_LEN(here));
    tcase_add_loop_test(tc, an_update_is_of_the_mean_over_the_global_batch, 0, ARRAY_LEN(here));
    tcase_add_loop_test(tc, the_same_replicas_have_the_same_bits_in_every_strategy, 0, ARRAY_LEN(optimizers));
    tcase_add_loop_test(tc, replicas_that_share_a_sampler_make_the_model_of_one_thread, 0, ARRAY_LEN(here));
    tcase_add_test(tc, what_does_not_fit_is_refused_and_named);
    tcase_add_test(tc, things_are_done_in_their_order);
    tcase_add_loop_test(tc, a_step_that_fails_leaves_no_trace, 0, 2 * ARRAY_LEN(here));
    tcase_add_test(tc, an_error_of_after_ends_the_run_behind_its_step);
    tcase_add_test(tc, what_it_is_can_be_asked);
    suite_add_tcase(suite, tc);
    tcase_add_checked_fixture(checkpoints, make_directory, remove_directory);
    tcase_add_loop_test(checkpoints, training_goes_on_from_a_checkpoint, 0, ARRAY_LEN(optimizers));
    tcase_add_test(checkpoints, checkpoints_are_written_as_often_as_asked_and_the_newest_kept);
    tcase_add_test(checkpoints, a_checkpoint_that_is_not_whole_or_not_of_these_variables_is_refused);
    suite_add_tcase(suite, checkpoints);
    return suite;
}

CHECK_MAIN(make_suite)
