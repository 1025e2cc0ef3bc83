/* Costs and savings of compression: one network, trained by two workers in step through real shards, once for each
 * encoding. Every one must become as accurate as float32 within MARGIN, and the bytes that travelled are counted. Seeds
 * and the order of updates are the same each time, so a run is repeated bit by bit. */
#include <string.h>

#include "client/examples/digits/model.h"
#include "client/include/psclient/ps_data.h"
#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/system/digits_fixture.h"
#include "tests/unit/kits/check_main.h"

enum { WORKERS = 2, STEPS = 260, BATCH = 64, PARAMS_MAX = 8, ROWS_MAX = BATCH };

#define MARGIN 0.02 /* of accuracy on held-out examples: 6 of 300 */

static void
compress_well(enum ps_err err, const struct ps_error *e)
{
    char line[PS_ERROR_LINE_MAX];

    ps_error_format(e, line, sizeof line);
    ck_assert_msg(err == PS_OK, "%s", line);
}

/* ---- A worker ---- */

struct compress_worker {
    ps_cluster *cluster;
    ps_client *client;
    ps_network *network;
    ps_sampler *sampler;
    ps_var *vars[PARAMS_MAX];
    ps_op *op;
    float x[ROWS_MAX * 64];
    uint32_t labels[ROWS_MAX];
};

/* The network's progress thread: two clients of one thread wait for each other. */
static void
worker_open(struct compress_worker *w, uint32_t task, ps_device *device, const char *job, const struct ps_compress *how)
{
    struct ps_client_options options = {
        .job = job, .mode = PS_SYNC, .compress = *how, .progress_thread = 1, .timeout_ms = 60000};
    struct ps_error e = {0};

    *w = (struct compress_worker){0};
    compress_well(digits_cluster(WORKERS, task, &w->cluster, &e), &e);
    compress_well(ps_client_open(w->cluster, &options, &w->client, &e), &e);
    compress_well(model_new(device, "dense 48, relu", &data, data.classes, ROWS_MAX, 5, &w->network, &e), &e);
    ck_assert_uint_le(ps_network_params(w->network), PARAMS_MAX);
    compress_well(ps_sampler_new(data.rows, BATCH, WORKERS, task, 11, &w->sampler, &e), &e);
}

static void
worker_close(struct compress_worker *w)
{
    ps_client_close(w->client);
    ps_sampler_free(w->sampler);
    ps_network_free(w->network);
    ps_cluster_free(w->cluster);
}

/* The gradient of its slice of this step's batch, on its way. */
static void
worker_push(struct compress_worker *w, uint64_t step)
{
    uint64_t steps = ps_sampler_steps(w->sampler);
    struct ps_slice slice = ps_sampler_slice(w->sampler, step / steps, step % steps);
    struct ps_batch batch = {.rows = slice.count, .x = w->x, .labels = w->labels};
    size_t n = ps_network_params(w->network);
    struct ps_error e = {0};

    ps_dataset_gather(&data, slice.count, slice.index, w->x, w->labels);
    compress_well(ps_client_pull(w->client, n, w->vars, ps_network_values(w->network), NULL, &e), &e);
    compress_well(ps_network_gradient(w->network, &batch, ps_slice_scale_mean(&slice, WORKERS), step, NULL, &e), &e);
    compress_well(ps_client_push_start(w->client, n, w->vars, ps_network_gradients(w->network), NULL, &w->op, &e), &e);
}

static void
worker_wait(struct compress_worker *w)
{
    struct ps_error e = {0};

    compress_well(ps_op_wait(w->op, -1, &e), &e);
    ps_op_free(w->op);
    compress_well(ps_client_tick(w->client, &e), &e);
}

/* ---- A run ---- */

struct compress_outcome {
    double accuracy, loss; /* of held-out examples */
    double sent, plain;    /* bytes of gradients that travelled; that would have as float32 */
};

static struct compress_outcome
compress_train(const char *job, const struct ps_compress *how)
{
    static struct compress_worker w[WORKERS];
    struct ps_batch all = {.rows = held_out.rows, .x = held_out.features, .labels = held_out.labels};
    struct ps_optimizer sgd;
    struct ps_network_result result;
    struct ps_client_stats stats;
    struct compress_outcome o = {0};
    ps_device *device;
    struct ps_error e = {0};

    compress_well(ps_device_open("cpu", &(struct ps_device_options){.threads = 1}, &device, &e), &e);
    compress_well(ps_optimizer_parse("sgd:learning_rate=0.5", &sgd, &e), &e);
    for (uint32_t i = 0; i < WORKERS; i++)
        worker_open(&w[i], i, device, job, how);
    for (uint32_t i = 0; i < WORKERS; i++)
        compress_well(ps_network_declare(w[i].network, w[i].client, "", &sgd, w[i].vars, &e), &e);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < WORKERS; i++)
            worker_push(&w[i], step);
        for (uint32_t i = 0; i < WORKERS; i++)
            worker_wait(&w[i]);
    }
    compress_well(ps_client_pull(w[0].client, ps_network_params(w[0].network), w[0].vars,
                                 ps_network_values(w[0].network), NULL, &e),
                  &e);
    compress_well(ps_network_evaluate(w[0].network, &all, &result, &e), &e);
    o.accuracy = (double)result.correct / (double)result.rows;
    o.loss = result.loss / (double)result.rows;
    for (uint32_t i = 0; i < WORKERS; i++) {
        ps_client_stats(w[i].client, &stats);
        o.sent += (double)stats.bytes_pushed;
        o.plain += (double)stats.gradient_bytes;
        worker_close(&w[i]);
    }
    ps_device_close(device);
    return o;
}

/* Name, and how many times less must travel at least. */
static const struct {
    const char *text;
    double saves;
} codecs[] = {{"float16", 1.99}, {"bfloat16", 1.99}, {"int8", 3.7}, {"top_k:0.05", 9}, {"top_k:0.01", 40}};

START_TEST(every_encoding_is_as_accurate_as_float32)
{
    struct compress_outcome plain = compress_train("none", &(struct ps_compress){.kind = PS_COMPRESS_NONE}), o;

    fprintf(stderr, "# %-10s accuracy %.4f, loss %.4f, %6.1f KB a step and worker\n", "float32", plain.accuracy,
            plain.loss, plain.sent / STEPS / WORKERS / 1000);
    ck_assert_msg(plain.accuracy >= 0.93, "float32 itself: %.4f", plain.accuracy);
    ck_assert(plain.sent == plain.plain);
    for (size_t i = 0; i < ARRAY_LEN(codecs); i++) {
        struct ps_compress how;

        ck_assert_int_eq(ps_compress_parse(codecs[i].text, &how, NULL), PS_OK);
        o = compress_train(codecs[i].text, &how);
        fprintf(stderr, "# %-10s accuracy %.4f, loss %.4f, %6.1f KB a step and worker: %.1f times less\n",
                codecs[i].text, o.accuracy, o.loss, o.sent / STEPS / WORKERS / 1000, o.plain / o.sent);
        ck_assert_msg(o.accuracy >= plain.accuracy - MARGIN, "%s: %.4f, float32 %.4f", codecs[i].text, o.accuracy,
                      plain.accuracy);
        ck_assert_msg(o.plain == plain.plain && o.plain / o.sent >= codecs[i].saves, "%s: %.0f bytes of %.0f",
                      codecs[i].text, o.sent, o.plain);
    }
}
END_TEST

static Suite *
compress_suite(void)
{
    Suite *s = suite_create("compress");
    TCase *t = tcase_create("compress");

    tcase_set_timeout(t, 250);
    tcase_add_checked_fixture(t, digits_setup_two, digits_teardown);
    tcase_add_test(t, every_encoding_is_as_accurate_as_float32);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(compress_suite)
