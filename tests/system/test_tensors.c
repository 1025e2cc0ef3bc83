/* Device memory that is pushed and pulled, on the CPU and on a device whose memory the host cannot touch
 * (tests/unit/client/device/fake_module.c), against the same with host memory: always the same bits. Then a strategy
 * with shards whose variables stay on a device. */
#include <math.h>
#include <signal.h>

#include "client/include/psclient/ps_tensors.h"
#include "common/core/base/base.h"
#include "tests/system/fine.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/client/device/fake_device.h"
#include "tests/unit/client/strategy/strategy_kit.h"
#include "tests/unit/kits/check_main.h"

enum { VARS = 5, BIG = 100001, SOON_MS = 150 };

static const uint64_t sizes[VARS] = {1, 1027, BIG, 64, 20003};
static const char *const device_names[] = {"cpu", "cuda"};

static struct shards shards;
static struct ps_error error;
static struct test_rng rng;

static void
tensors_setup(void)
{
    rng.state = test_seed();
    use_module(fake_module_path());
    shards_start(&shards, 2);
}

static void
tensors_teardown(void)
{
    shards_stop(&shards);
}

/* ---- A worker and its tensors ---- */

struct tensors_worker {
    ps_client *client;
    ps_var *vars[VARS];
    ps_device *device;
    ps_tensors *tensors;
    float *values[VARS], *gradients[VARS]; /* of the device */
};

static ps_cluster *
make_cluster(void)
{
    ps_cluster *c;

    FINE(ps_cluster_from_list(shards.addresses, 1, 0, &c, &error));
    FINE(ps_cluster_set_name(c, SHARDS_CLUSTER, &error));
    return c;
}

static void
declare_all(struct tensors_worker *w, const char *optimizer)
{
    static const char *const names[VARS] = {"a", "b", "c", "d", "e"};

    for (size_t i = 0; i < VARS; i++) {
        struct ps_var_spec spec = {
            .name = names[i], .rank = 1, .dims = {sizes[i]}, .init = {.kind = PS_INIT_NORMAL, .b = 1, .seed = i}};

        FINE(ps_optimizer_parse(optimizer, &spec.optimizer, &error));
        FINE(ps_client_declare(w->client, &spec, &w->vars[i], &error));
    }
}

/* device NULL: host memory alone. */
static struct tensors_worker
tensors_start(const char *job, const char *device, const char *optimizer, uint64_t piece,
              const struct ps_client_options *options)
{
    struct ps_client_options o = {0};
    struct ps_tensors_options t = {.piece = piece};
    ps_cluster *cluster = make_cluster();
    struct tensors_worker w = {0};
    void *memory;

    if (options != NULL)
        o = *options;
    o.job = job;
    FINE(ps_client_open(cluster, &o, &w.client, &error));
    ps_cluster_free(cluster);
    declare_all(&w, optimizer);
    if (device == NULL)
        return w;
    FINE(ps_device_open(device, NULL, &w.device, &error));
    for (size_t i = 0; i < VARS; i++) {
        FINE(ps_device_alloc(w.device, sizes[i] * sizeof(float), &memory, &error));
        w.values[i] = memory;
        FINE(ps_device_alloc(w.device, sizes[i] * sizeof(float), &memory, &error));
        w.gradients[i] = memory;
    }
    FINE(ps_tensors_new(w.client, w.device, VARS, w.vars, &t, &w.tensors, &error));
    return w;
}

static void
tensors_stop(struct tensors_worker *w)
{
    ps_tensors_free(w->tensors);
    for (size_t i = 0; w->device != NULL && i < VARS; i++) {
        ps_device_free(w->device, w->values[i]);
        ps_device_free(w->device, w->gradients[i]);
    }
    ps_device_close(w->device);
    ps_client_close(w->client);
}

/* [VARS], host memory. */
struct floats {
    float *of[VARS];
};

static struct floats
floats_new(void)
{
    struct floats f;

    for (size_t i = 0; i < VARS; i++)
        ck_assert_ptr_nonnull(f.of[i] = calloc(sizes[i], sizeof(float)));
    return f;
}

static struct floats
random_gradients(void)
{
    struct floats f = floats_new();

    for (size_t i = 0; i < VARS; i++)
        for (uint64_t k = 0; k < sizes[i]; k++)
            f.of[i][k] = test_float(&rng);
    return f;
}

static void
floats_free(struct floats *f)
{
    for (size_t i = 0; i < VARS; i++)
        free(f->of[i]);
}

static void
tensors_upload(struct tensors_worker *w, float *const to[VARS], const struct floats *from)
{
    for (size_t i = 0; i < VARS; i++)
        ps_device_upload(w->device, to[i], from->of[i], sizes[i] * sizeof(float));
}

static void
assert_on_device(struct tensors_worker *w, float *const on[VARS], const struct floats *want)
{
    struct floats is = floats_new();

    for (size_t i = 0; i < VARS; i++) {
        FINE(ps_device_download(w->device, is.of[i], on[i], sizes[i] * sizeof(float), &error));
        for (uint64_t k = 0; k < sizes[i]; k++)
            ck_assert_msg(memcmp(&is.of[i][k], &want->of[i][k], sizeof(float)) == 0,
                          "variable %zu, element %llu is %.9g, not %.9g", i, (unsigned long long)k, (double)is.of[i][k],
                          (double)want->of[i][k]);
    }
    floats_free(&is);
}

static const float *const *
tensors_grads(const struct tensors_worker *w)
{
    return (const float *const *)w->gradients;
}

/* ---- The same bits ---- */

static const struct {
    const char *optimizer, *compress;
    size_t pieces; /* of 5 with a piece of 1 byte */
} ways[] = {{"adam:learning_rate=0.01", "none", VARS},
            {"momentum:learning_rate=0.1,clip=block_norm,limit=1", "none", VARS},
            {"sgd:learning_rate=0.1,clip=given_norm,limit=1", "none", 1},
            {"sgd:learning_rate=0.1", "int8", 1},
            {"adam:learning_rate=0.01", "int8", 1},
            {"adam:learning_rate=0.01", "float16", 1},
            {"momentum:learning_rate=0.1", "bfloat16", 1},
            {"sgd:learning_rate=0.1", "top_k:0.05", 1},
            {"sgd:learning_rate=0.1,clip=given_norm,limit=1", "int8", 1}};

/* Three steps with host memory in one job, with device memory in another: each in its turn of start and wait. */
static void
compare_with_host(const char *device, size_t way, uint64_t piece, bool threaded)
{
    struct ps_client_options o = {.progress_thread = threaded, .mode = PS_SYNC};
    struct tensors_worker host, w;
    struct ps_client_stats stats;
    struct floats values = floats_new();

    FINE(ps_compress_parse(ways[way].compress, &o.compress, &error));
    host = tensors_start("host", NULL, ways[way].optimizer, 0, &o);
    w = tensors_start("device", device, ways[way].optimizer, piece, &o);
    for (int step = 0; step < 3; step++) {
        struct floats g = random_gradients();

        FINE(ps_client_push(host.client, VARS, host.vars, (const float *const *)g.of, NULL, &error));
        FINE(ps_client_tick(host.client, &error));
        FINE(ps_client_pull(host.client, VARS, host.vars, values.of, NULL, &error));
        tensors_upload(&w, w.gradients, &g);
        FINE(ps_tensors_push_start(w.tensors, tensors_grads(&w), NULL, &error));
        ck_assert(ps_tensors_pushing(w.tensors));
        if (step > 0) {
            FINE(ps_client_tick(w.client, &error));
            FINE(ps_tensors_pull_start(w.tensors, w.values, NULL, &error));
        }
        FINE(ps_tensors_push_wait(w.tensors, -1, &error));
        ck_assert(!ps_tensors_pushing(w.tensors));
        if (step > 0)
            FINE(ps_tensors_pull_wait(w.tensors, -1, &error));
        else {
            FINE(ps_client_tick(w.client, &error));
            FINE(ps_tensors_pull(w.tensors, w.values, NULL, &error));
        }
        assert_on_device(&w, w.values, &values);
        floats_free(&g);
    }
    ps_client_stats(w.client, &stats);
    if (piece == 1 && strcmp(device, "cuda") == 0)
        ck_assert_uint_eq(stats.pushes, 3 * ways[way].pieces);
    floats_free(&values);
    tensors_stop(&w);
    tensors_stop(&host);
}

START_TEST(device_memory_has_the_bits_of_host_memory)
{
    static const uint64_t pieces[] = {1, 0, UINT64_MAX};

    compare_with_host(device_names[_i % 2], (size_t)_i / 2 % ARRAY_LEN(ways), pieces[(size_t)(_i * 2 / 3) % 3],
                      _i % 3 == 0);
}
END_TEST

/* ---- Compressed pushes ---- */

static const char *const kinds[] = {"float16", "bfloat16", "int8"};

/* What is on its way to the host is the encoding: half of the gradients, or about a quarter. */
START_TEST(a_compressed_push_leaves_the_device_encoded)
{
    static const unsigned long percent[] = {52, 52, 28};
    struct ps_client_options o = {.mode = PS_ASYNC};
    struct floats g = random_gradients();
    unsigned long model = 0, before;
    struct tensors_worker w;

    FINE(ps_compress_parse(kinds[_i], &o.compress, &error));
    w = tensors_start("train", "cuda", "sgd:learning_rate=1", 0, &o);
    for (size_t i = 0; i < VARS; i++)
        model += sizes[i] * sizeof(float);
    tensors_upload(&w, w.gradients, &g);
    before = fake_copied();
    FINE(ps_tensors_push(w.tensors, tensors_grads(&w), NULL, &error));
    ck_assert_uint_le((fake_copied() - before) * 100, model * percent[_i]);
    for (size_t i = VARS; i-- > 0;)
        FINE(ps_tensors_ready(w.tensors, i, w.gradients[i], &error));
    before = fake_copied();
    FINE(ps_tensors_push(w.tensors, tensors_grads(&w), NULL, &error));
    ck_assert_uint_eq(fake_copied() - before, 0); /* all were ready */
    floats_free(&g);
    tensors_stop(&w);
}
END_TEST

/* Pushes of one pull: shards drop the third and those after it as too old. */
static int
push_round(struct tensors_worker *w, const struct floats g[], int pushes, struct floats *values)
{
    int dropped = 0;

    FINE(ps_tensors_pull(w->tensors, w->values, NULL, &error));
    for (int i = 0; i < pushes; i++) {
        enum ps_err err;

        tensors_upload(w, w->gradients, &g[i]);
        err = ps_tensors_push(w->tensors, tensors_grads(w), NULL, &error);
        ck_assert_int_eq(err, i < 2 ? PS_OK : PS_ERR_STALE);
        dropped += err == PS_ERR_STALE;
    }
    FINE(ps_client_pull(w->client, VARS, w->vars, values->of, NULL, &error));
    return dropped;
}

/* Of a job whose third and fourth pushes are dropped and one in which they are not made, the next ones have the same
 * bits: what earlier ones left out is there, and nothing else. */
START_TEST(a_push_that_is_dropped_leaves_what_was_left_out_as_it_was)
{
    struct ps_client_options o = {.mode = PS_ASYNC, .age = PS_AGE_CUTOFF, .age_parameter = 1};
    struct floats g[4], values = floats_new(), others = floats_new();
    struct tensors_worker w, other;

    for (size_t i = 0; i < ARRAY_LEN(g); i++)
        g[i] = random_gradients();
    FINE(ps_compress_parse(kinds[_i], &o.compress, &error));
    w = tensors_start("dropped", "cuda", "sgd:learning_rate=0.1", 0, &o);
    other = tensors_start("whole", "cuda", "sgd:learning_rate=0.1", 0, &o);
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(push_round(&w, g, 4, &values), 2);
        ck_assert_int_eq(push_round(&other, g, 2, &others), 0);
        for (size_t i = 0; i < VARS; i++)
            ck_assert_mem_eq(values.of[i], others.of[i], sizes[i] * sizeof(float));
    }
    for (size_t i = 0; i < ARRAY_LEN(g); i++)
        floats_free(&g[i]);
    floats_free(&values);
    floats_free(&others);
    tensors_stop(&w);
    tensors_stop(&other);
}
END_TEST

START_TEST(small_neighbours_share_a_piece)
{
    struct tensors_worker w = tensors_start("train", "cuda", "sgd:learning_rate=1", (uint64_t)BIG * 4, NULL);

    ck_assert_uint_eq(ps_tensors_pieces(w.tensors), 3); /* two, the big one, two */
    tensors_stop(&w);
    w = tensors_start("train", "cuda", "sgd:learning_rate=1", 1, NULL);
    ck_assert_uint_eq(ps_tensors_pieces(w.tensors), VARS);
    tensors_stop(&w);
    w = tensors_start("train", "cpu", "sgd:learning_rate=1", 1, NULL);
    ck_assert_uint_eq(ps_tensors_pieces(w.tensors), 1);
    tensors_stop(&w);
}
END_TEST

/* Pieces that were copied early are not copied again, and forgotten ones are. */
START_TEST(gradients_that_are_ready_leave_the_device_early)
{
    struct tensors_worker w = tensors_start("train", device_names[_i], "sgd:learning_rate=1", 1, NULL);
    unsigned long model = 0, before;
    struct floats g = random_gradients(), zeros = floats_new(), values = floats_new();

    for (size_t i = 0; i < VARS; i++)
        model += sizes[i] * sizeof(float);
    for (int round = 0; round < 3; round++) {
        const struct floats *pushed = round == 1 ? &zeros : &g;

        FINE(ps_tensors_pull(w.tensors, w.values, NULL, &error));
        FINE(ps_client_pull(w.client, VARS, w.vars, values.of, NULL, &error));
        tensors_upload(&w, w.gradients, &g);
        for (size_t i = VARS; i-- > 0;)
            FINE(ps_tensors_ready(w.tensors, i, w.gradients[i], &error));
        if (round == 1) {
            FINE(ps_device_finish(w.device, &error));
            ps_tensors_forget(w.tensors);
            tensors_upload(&w, w.gradients, &zeros);
        }
        before = _i == 1 ? fake_copied() : 0;
        FINE(ps_tensors_push(w.tensors, tensors_grads(&w), NULL, &error));
        if (_i == 1)
            ck_assert_uint_eq(fake_copied() - before, round == 1 ? model : 0);
        FINE(ps_tensors_pull(w.tensors, w.values, NULL, &error));
        for (size_t i = 0; i < VARS; i++)
            for (uint64_t k = 0; k < sizes[i]; k++)
                values.of[i][k] -= pushed->of[i][k];
        assert_on_device(&w, w.values, &values);
    }
    floats_free(&g);
    floats_free(&zeros);
    floats_free(&values);
    tensors_stop(&w);
}
END_TEST

/* The caller's host memory has the values, too. */
START_TEST(values_pass_through_memory_of_the_callers)
{
    struct tensors_worker w = tensors_start("train", "cuda", "sgd:learning_rate=1", 0, NULL);
    struct floats values = floats_new();
    struct ps_tensors_options o = {.values = values.of};

    ps_tensors_free(w.tensors);
    FINE(ps_tensors_new(w.client, w.device, VARS, w.vars, &o, &w.tensors, &error));
    FINE(ps_tensors_pull(w.tensors, w.values, NULL, &error));
    ck_assert(values.of[2][BIG - 1] != 0);
    assert_on_device(&w, w.values, &values);
    tensors_stop(&w);
    floats_free(&values);
}
END_TEST

START_TEST(blocks_that_are_not_transferred_stay_as_the_device_has_them)
{
    struct tensors_worker w = tensors_start("train", device_names[_i], "sgd:learning_rate=1", 1, NULL);
    struct ps_pull_options changed = {.only_changed = 1}, newer = {.newer_than = 1};
    struct floats mine = random_gradients(), want = floats_new();

    FINE(ps_tensors_pull(w.tensors, w.values, NULL, &error));
    tensors_upload(&w, w.values, &mine);
    FINE(ps_tensors_pull(w.tensors, w.values, &changed, &error));
    assert_on_device(&w, w.values, &mine);
    FINE(ps_client_pull(w.client, VARS, w.vars, want.of, NULL, &error));
    for (int i = 0; i < 2; i++) { /* variable 3 alone comes to version 2 */
        float *back = want.of[3], *given = calloc(sizes[3], sizeof(float));

        memcpy(given, mine.of[3], sizes[3] * sizeof(float));
        FINE(ps_client_push(w.client, 1, &w.vars[3], (const float *[]){given}, NULL, &error));
        for (uint64_t k = 0; k < sizes[3]; k++)
            back[k] -= given[k];
        free(given);
    }
    memcpy(mine.of[3], want.of[3], sizes[3] * sizeof(float));
    FINE(ps_tensors_pull(w.tensors, w.values, _i == 0 ? &newer : &changed, &error));
    assert_on_device(&w, w.values, &mine);
    floats_free(&mine);
    floats_free(&want);
    tensors_stop(&w);
}
END_TEST

/* ---- Deadlines, crashes, failures ---- */

static void
signal_all(int number)
{
    for (uint32_t i = 0; i < shards.count; i++)
        ck_assert_int_eq(kill(shards.pids[i], number), 0);
}

/* The wait ends, not the operation; the blocking calls end both. */
START_TEST(a_deadline_ends_the_wait_and_names_the_shard)
{
    struct tensors_worker w = tensors_start("train", device_names[_i], "sgd:learning_rate=1", 1, NULL);
    struct floats g = random_gradients(), values = floats_new();
    struct ps_push_options push = {.timeout_ms = SOON_MS};
    struct ps_pull_options pull = {.timeout_ms = SOON_MS};

    FINE(ps_client_pull(w.client, VARS, w.vars, values.of, NULL, &error));
    tensors_upload(&w, w.gradients, &g);
    signal_all(SIGSTOP);
    FINE(ps_tensors_push_start(w.tensors, tensors_grads(&w), NULL, &error));
    FINE(ps_tensors_pull_start(w.tensors, w.values, NULL, &error));
    ck_assert_int_eq(ps_tensors_push_wait(w.tensors, SOON_MS, &error), PS_ERR_TIMEOUT);
    ck_assert_msg(strstr(error.text, "shard") != NULL || strstr(error.peer, "shard") != NULL, "%s (%s)", error.text,
                  error.peer);
    ck_assert_int_eq(ps_tensors_pull_wait(w.tensors, SOON_MS, &error), PS_ERR_TIMEOUT);
    ck_assert(ps_tensors_pushing(w.tensors) && ps_tensors_pulling(w.tensors));
    ck_assert_int_eq(ps_tensors_push_start(w.tensors, tensors_grads(&w), NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_tensors_pull_start(w.tensors, w.values, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_tensors_ready(w.tensors, 0, w.gradients[0], &error), PS_ERR_INVALID);
    signal_all(SIGCONT);
    FINE(ps_tensors_push_wait(w.tensors, -1, &error));
    FINE(ps_tensors_pull_wait(w.tensors, -1, &error));
    for (size_t i = 0; i < VARS; i++)
        for (uint64_t k = 0; k < sizes[i]; k++)
            values.of[i][k] -= g.of[i][k];
    assert_on_device(&w, w.values, &values);
    signal_all(SIGSTOP);
    ck_assert_int_eq(ps_tensors_pull(w.tensors, w.values, &pull, &error), PS_ERR_TIMEOUT);
    ck_assert_int_eq(ps_tensors_push(w.tensors, tensors_grads(&w), &push, &error), PS_ERR_TIMEOUT);
    ck_assert(!ps_tensors_pushing(w.tensors) && !ps_tensors_pulling(w.tensors));
    signal_all(SIGCONT);
    FINE(ps_tensors_pull(w.tensors, w.values, NULL, &error));
    floats_free(&g);
    floats_free(&values);
    tensors_stop(&w);
}
END_TEST

/* Exactly once: a shard is killed while a push is under way, every time. */
START_TEST(pushes_count_once_though_shards_are_killed)
{
    struct ps_client_options o = {.progress_thread = 1};
    struct tensors_worker w = tensors_start("train", device_names[_i], "sgd:learning_rate=1", 1, &o);
    struct floats g = floats_new(), values = floats_new();

    FINE(ps_client_pull(w.client, VARS, w.vars, values.of, NULL, &error));
    for (int step = 0; step < 4; step++) {
        for (size_t i = 0; i < VARS; i++)
            for (uint64_t k = 0; k < sizes[i]; k++) {
                g.of[i][k] = test_float(&rng);
                values.of[i][k] -= g.of[i][k];
            }
        tensors_upload(&w, w.gradients, &g);
        FINE(ps_tensors_push_start(w.tensors, tensors_grads(&w), NULL, &error));
        tensors_upload(&w, w.values, &g); /* the device goes on */
        shards_kill(&shards, (uint32_t)step % 2);
        shards_restart(&shards, (uint32_t)step % 2);
        FINE(ps_tensors_push_wait(w.tensors, -1, &error));
    }
    FINE(ps_tensors_pull(w.tensors, w.values, NULL, &error));
    assert_on_device(&w, w.values, &values);
    floats_free(&g);
    floats_free(&values);
    tensors_stop(&w);
}
END_TEST

START_TEST(a_device_that_fails_is_named_and_nothing_is_pushed)
{
    struct tensors_worker w = tensors_start("train", "cuda", "sgd:learning_rate=1", (uint64_t)_i, NULL);
    struct floats values = floats_new(), g = random_gradients();
    uint64_t lowest, highest;

    FINE(ps_client_pull(w.client, VARS, w.vars, values.of, NULL, &error));
    tensors_upload(&w, w.gradients, &g);
    fake_fails(1);
    ck_assert_int_eq(ps_tensors_push(w.tensors, tensors_grads(&w), NULL, &error), PS_ERR_IO);
    ck_assert_msg(strstr(error.text, "device cuda: it was told to fail") != NULL, "%s", error.text);
    ck_assert_int_eq(ps_tensors_pull(w.tensors, w.values, NULL, &error), PS_ERR_IO);
    ck_assert(!ps_tensors_pushing(w.tensors) && !ps_tensors_pulling(w.tensors));
    fake_fails(0);
    FINE(ps_tensors_pull(w.tensors, w.values, NULL, &error));
    assert_on_device(&w, w.values, &values);
    for (size_t i = 0; i < VARS; i++) {
        ps_var_versions(w.vars[i], &lowest, &highest);
        ck_assert_uint_eq(highest, 0);
    }
    floats_free(&values);
    floats_free(&g);
    tensors_stop(&w);
}
END_TEST

START_TEST(a_gradient_that_is_not_finite_is_refused_by_name)
{
    struct tensors_worker w = tensors_start("train", device_names[_i], "sgd:learning_rate=1", 1, NULL);
    struct floats g = random_gradients();

    g.of[4][20000] = NAN;
    tensors_upload(&w, w.gradients, &g);
    ck_assert_int_eq(ps_tensors_push(w.tensors, tensors_grads(&w), NULL, &error), PS_ERR_NONFINITE);
    ck_assert_msg(strchr(error.text, 'e') != NULL, "%s", error.text);
    floats_free(&g);
    tensors_stop(&w);
}
END_TEST

START_TEST(what_makes_no_sense_is_refused)
{
    struct tensors_worker w = tensors_start("train", device_names[_i], "sgd:learning_rate=1", 1, NULL),
                          other = tensors_start("other", NULL, "sgd:learning_rate=1", 0, NULL);
    float *some[VARS];
    ps_tensors *t;

    memcpy(some, w.gradients, sizeof some);
    some[2] = NULL;
    ck_assert_int_eq(ps_tensors_new(w.client, w.device, VARS, other.vars, NULL, &t, &error), PS_ERR_INVALID);
    ck_assert_msg(strstr(error.text, "another client's") != NULL, "%s", error.text);
    ck_assert_int_eq(ps_tensors_new(w.client, w.device, 0, w.vars, NULL, &t, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_tensors_push(w.tensors, (const float *const *)some, NULL, &error), PS_ERR_INVALID);
    ck_assert_msg(strstr(error.text, "'c'") != NULL, "%s", error.text);
    ck_assert_int_eq(ps_tensors_pull(w.tensors, NULL, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_tensors_push_wait(w.tensors, 0, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_tensors_pull_wait(w.tensors, 0, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_tensors_ready(w.tensors, VARS, w.gradients[0], &error), PS_ERR_INVALID);
    ps_tensors_free(NULL);
    tensors_stop(&w);
    tensors_stop(&other);
}
END_TEST

/* Freeing an operation under way gives it up: host memory is not read after that. */
START_TEST(what_is_under_way_can_be_freed)
{
    struct tensors_worker w = tensors_start("train", device_names[_i], "sgd:learning_rate=1", 1, NULL);

    signal_all(SIGSTOP);
    FINE(ps_tensors_push_start(w.tensors, tensors_grads(&w), NULL, &error));
    FINE(ps_tensors_pull_start(w.tensors, w.values, NULL, &error));
    ps_tensors_free(w.tensors);
    w.tensors = NULL;
    signal_all(SIGCONT);
    tensors_stop(&w);
}
END_TEST

/* ---- Strategies ---- */

enum { REPLICAS_MAX = 2 };

struct tensors_training {
    ps_strategy *strategy;
    ps_network *network[REPLICAS_MAX];
    bool on_host;      /* variables lie in host memory, networks send and fetch */
    uint64_t given_up; /* step + 1 that ends with an error when its gradients are computed, once */
    uint64_t poisoned; /* step + 1 in which an example of the first replica holds a NaN, once */
};

static enum ps_err
tensors_step(void *arg, struct ps_replica *r, struct ps_error *e)
{
    struct tensors_training *t = arg;
    uint64_t first = r->batch * KIT_BATCH + r->first;
    struct ps_batch batch = {.rows = r->rows, .x = strategy_x + first * KIT_INPUTS, .labels = strategy_labels + first};
    bool poisoned = r->local == 0 && t->poisoned == r->step + 1; /* not the others, which may run beside it */
    float wrong[KIT_BATCH * KIT_INPUTS] = {poisoned ? NAN : 1};
    enum ps_err err;

    if (poisoned || t->given_up == r->step + 1)
        batch.x = wrong;
    if (poisoned)
        t->poisoned = 0;
    err = t->on_host ? ps_network_gradient(t->network[r->local], &batch, r->scale, r->draw, NULL, e)
                     : ps_replica_gradient(r, &batch, NULL, e);
    if (err != PS_OK || t->given_up != r->step + 1)
        return err;
    t->given_up = 0;
    return ps_fail(e, PS_ERR_CANCELLED, "given up");
}

static struct tensors_training
tensors_begin(const char *name, const char *job, const char *devices, uint32_t replicas, bool on_host)
{
    ps_cluster *cluster = make_cluster();
    struct tensors_training t = {.on_host = on_host};
    struct ps_strategy_options o = {.cluster = cluster,
                                    .client = {.job = job, .mode = PS_SYNC, .lease_ms = 2000},
                                    .local = {.steps = 3},
                                    .devices = devices,
                                    .replicas = replicas,
                                    .rows = KIT_ROWS,
                                    .batch = KIT_BATCH,
                                    .threads = 1};
    struct ps_optimizer optimizer;

    FINE(ps_optimizer_parse("adam:learning_rate=0.01", &optimizer, &error));
    FINE(ps_strategy_open(name, &o, &t.strategy, &error));
    ps_cluster_free(cluster);
    strategy_networks_make(t.strategy, t.network, &optimizer, on_host);
    FINE(ps_strategy_start(t.strategy, &error));
    return t;
}

static enum ps_err
tensors_run(struct tensors_training *t, uint64_t until)
{
    return ps_strategy_run(t->strategy, until, &(struct ps_strategy_calls){.step = tensors_step, .arg = t}, &error);
}

static void
tensors_end(struct tensors_training *t)
{
    strategy_end(t->strategy, t->network);
}

static void
make_data(void)
{
    tensors_setup();
    strategy_examples(&rng);
}

static const char *const strategies[] = {"parameter_server", "local_sgd"};

/* Also after a step that was given up when its gradients were on their way, and in the middle of a round. */
START_TEST(variables_on_a_device_have_the_bits_of_those_in_host_memory)
{
    const char *name = strategies[_i % 2], *devices = _i < 4 ? "cuda" : "cuda,cuda:1";
    uint32_t replicas = _i < 2 ? 1 : 2;
    float want[2][KIT_FLOATS_MAX], is[KIT_FLOATS_MAX];
    struct tensors_training t = tensors_begin(name, "host", devices, replicas, true);
    double loss;
    size_t n;

    FINE(tensors_run(&t, 7));
    n = strategy_values(t.strategy, t.network[0], want[0]);
    FINE(tensors_run(&t, 11));
    FINE(ps_strategy_meet(t.strategy, &error));
    (void)strategy_values(t.strategy, t.network[0], want[1]);
    loss = strategy_loss(t.network[0]);
    tensors_end(&t);
    t = tensors_begin(name, "device", devices, replicas, false);
    t.given_up = replicas == 1 ? 5 : 0;
    if (replicas == 1)
        ck_assert_int_eq(tensors_run(&t, 7), PS_ERR_CANCELLED);
    FINE(tensors_run(&t, 7));
    ck_assert_uint_eq(strategy_values(t.strategy, t.network[0], is), n);
    ck_assert_msg(memcmp(is, want[0], n * sizeof *is) == 0, "%s with %u replicas, step 7", name, replicas);
    FINE(tensors_run(&t, 11));
    FINE(ps_strategy_meet(t.strategy, &error));
    FINE(ps_strategy_refresh(t.strategy, &error));
    (void)strategy_values(t.strategy, t.network[0], is);
    ck_assert_msg(memcmp(is, want[1], n * sizeof *is) == 0, "%s with %u replicas, step 11", name, replicas);
    for (uint32_t k = 0; k < replicas; k++)
        ck_assert_msg(strategy_loss(t.network[k]) == loss, "replica %u of %s computes with other values", k, name);
    tensors_end(&t);
}
END_TEST

/* parameter_server: that step is over; those of its gradients that were in other pushes count. local_sgd: it was
 * refused here, and is done again. */
START_TEST(a_gradient_that_is_not_finite_ends_a_run_and_the_next_goes_on)
{
    const char *name = strategies[_i];
    float want[KIT_FLOATS_MAX], is[KIT_FLOATS_MAX];
    struct tensors_training t = tensors_begin(name, "host", "cuda", 1, true);
    size_t n;

    t.poisoned = 4;
    ck_assert_int_eq(tensors_run(&t, 9), PS_ERR_NONFINITE);
    ck_assert_uint_eq(ps_strategy_step(t.strategy), _i == 0 ? 4 : 3);
    FINE(tensors_run(&t, 9));
    n = strategy_values(t.strategy, t.network[0], want);
    tensors_end(&t);
    t = tensors_begin(name, "device", "cuda", 1, false);
    t.poisoned = 4;
    ck_assert_int_eq(tensors_run(&t, 9), PS_ERR_NONFINITE);
    ck_assert_uint_eq(ps_strategy_step(t.strategy), _i == 0 ? 4 : 3);
    FINE(tensors_run(&t, 9));
    ck_assert_uint_eq(strategy_values(t.strategy, t.network[0], is), n);
    ck_assert_msg(memcmp(is, want, n * sizeof *is) == 0, "%s: another model than from host memory", name);
    tensors_end(&t);
}
END_TEST

/* parameter_server: the gradient out and the values in, once, whatever the number of replicas. local_sgd: so in an
 * exchange, and nothing of the model's size between two. */
START_TEST(a_step_copies_no_more_than_travels)
{
    struct tensors_training t = tensors_begin(strategies[_i % 2], "train", "cuda", 1 + (uint32_t)_i / 2, false);
    size_t model = (size_t)ps_network_elements(t.network[0]) * sizeof(float),
           examples = KIT_BATCH * (KIT_INPUTS + 4) * 4;
    unsigned long before, exchanges = _i % 2 == 0 ? 6 : 2;

    FINE(tensors_run(&t, 3));
    before = fake_copied();
    FINE(tensors_run(&t, 9));
    ck_assert_uint_ge(fake_copied() - before, exchanges * 2 * model);
    ck_assert_uint_le(fake_copied() - before, exchanges * 2 * model + 6 * examples);
    tensors_end(&t);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("tensors");
    TCase *tc = tcase_create("tensors"), *trained = tcase_create("strategies");

    tcase_add_checked_fixture(tc, tensors_setup, tensors_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, device_memory_has_the_bits_of_host_memory, 0, 2 * (int)ARRAY_LEN(ways));
    tcase_add_loop_test(tc, a_compressed_push_leaves_the_device_encoded, 0, (int)ARRAY_LEN(kinds));
    tcase_add_loop_test(tc, a_push_that_is_dropped_leaves_what_was_left_out_as_it_was, 0, (int)ARRAY_LEN(kinds));
    tcase_add_test(tc, small_neighbours_share_a_piece);
    tcase_add_loop_test(tc, gradients_that_are_ready_leave_the_device_early, 0, 2);
    tcase_add_test(tc, values_pass_through_memory_of_the_callers);
    tcase_add_loop_test(tc, blocks_that_are_not_transferred_stay_as_the_device_has_them, 0, 2);
    tcase_add_loop_test(tc, a_deadline_ends_the_wait_and_names_the_shard, 0, 2);
    tcase_add_loop_test(tc, pushes_count_once_though_shards_are_killed, 0, 2);
    tcase_add_loop_test(tc, a_device_that_fails_is_named_and_nothing_is_pushed, 0, 2);
    tcase_add_loop_test(tc, a_gradient_that_is_not_finite_is_refused_by_name, 0, 2);
    tcase_add_loop_test(tc, what_makes_no_sense_is_refused, 0, 2);
    tcase_add_loop_test(tc, what_is_under_way_can_be_freed, 0, 2);
    suite_add_tcase(suite, tc);
    tcase_add_checked_fixture(trained, make_data, tensors_teardown);
    tcase_set_timeout(trained, 120);
    tcase_add_loop_test(trained, variables_on_a_device_have_the_bits_of_those_in_host_memory, 0, 6);
    tcase_add_loop_test(trained, a_gradient_that_is_not_finite_ends_a_run_and_the_next_goes_on, 0,
                        ARRAY_LEN(strategies));
    tcase_add_loop_test(trained, a_step_copies_no_more_than_travels, 0, 4);
    suite_add_tcase(suite, trained);
    return suite;
}

CHECK_MAIN(make_suite)
