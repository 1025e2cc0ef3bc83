/* Devices that come from a module that is loaded: finding it, refusing it, and networks on a device whose memory no
 * other code can touch (fake_module.c). */
#include <math.h>

#include "client/device/device.h"
#include "client/device/device_gang.h"
#include "client/device/device_module.h"
#include "client/device/device_staging.h"
#include "tests/unit/client/device/fake_device.h"
#include "tests/unit/client/network/network_kit.h"

/* ---- Finding and refusing ---- */

static void
device_module_refuses(const char *name, enum ps_err want, const char *word)
{
    struct ps_error error = {0};
    ps_device *d = NULL;

    ck_assert_int_eq(ps_device_open(name, NULL, &d, &error), want);
    ck_assert_msg(strstr(error.text, word) != NULL, "\"%s\" does not say \"%s\"", error.text, word);
    ck_assert_ptr_null(d);
}

START_TEST(a_module_that_is_not_there_is_named)
{
    use_module("/nonexistent/libpsclient-cuda.so");
    device_module_refuses("cuda", PS_ERR_UNSUPPORTED, "/nonexistent/libpsclient-cuda.so");
    device_module_refuses("cuda", PS_ERR_UNSUPPORTED, "PSD_CUDA_MODULE");
    device_module_refuses("cuda:1", PS_ERR_UNSUPPORTED, "device cuda:1");
}
END_TEST

START_TEST(a_file_that_is_no_library_is_refused)
{
    char path[] = "/tmp/psd-module-XXXXXX";
    int fd = mkstemp(path);

    ck_assert(fd >= 0 && write(fd, "no library\n", 11) == 11);
    use_module(path);
    device_module_refuses("cuda", PS_ERR_UNSUPPORTED, path);
    ck_assert(close(fd) == 0 && unlink(path) == 0);
}
END_TEST

START_TEST(a_library_that_is_no_module_is_refused)
{
    use_module(beside_program("libfake_stranger.so"));
    device_module_refuses("cuda", PS_ERR_UNSUPPORTED, "no device module");
}
END_TEST

START_TEST(a_module_of_another_version_is_refused)
{
    use_module(beside_program("libfake_version.so"));
    device_module_refuses("cuda", PS_ERR_UNSUPPORTED, "version 99");
}
END_TEST

START_TEST(a_module_whose_optimizers_are_others_is_refused)
{
    use_module(beside_program("libfake_build.so"));
    device_module_refuses("cuda", PS_ERR_UNSUPPORTED, "another build");
}
END_TEST

/* The module of this build, where nvcc made one: it loads and is of the right version. The rest depends on the machine.
 */
START_TEST(the_module_that_was_built_loads)
{
    const char *built = getenv("PSD_BUILT_CUDA_MODULE");
    const struct ps_device_module *m;
    struct ps_error error;
    ps_device *d;

    if (built == NULL || *built == '\0') {
        fprintf(stderr, "# skipped: this build has no CUDA module\n");
        return;
    }
    use_module(built);
    if (device_module_load(&m, &error) != PS_OK) {
        ck_assert_int_eq(error.code, PS_ERR_UNSUPPORTED);
        ck_assert_msg(strstr(error.text, "cannot be loaded") != NULL, "%s", error.text);
        fprintf(stderr, "# skipped: %s\n", error.text); /* nvcc failed, or cuBLAS is missing */
        return;
    }
    ck_assert_ptr_nonnull(strstr(m->built, "CUDA"));
    if (ps_device_open("cuda", NULL, &d, &error) == PS_OK)
        ps_device_close(d);
    else
        ck_assert_msg(error.code == PS_ERR_UNSUPPORTED && strstr(error.text, "NVIDIA") != NULL, "%s", error.text);
}
END_TEST

/* ---- Devices ---- */

START_TEST(a_device_is_chosen_by_its_number)
{
    ps_device *first = open_fake("cuda"), *second = open_fake("cuda:1"), *zero = open_fake("cuda:0");

    ck_assert_str_eq(ps_device_name(first), "cuda");
    ck_assert_str_eq(ps_device_name(zero), "cuda");
    ck_assert_str_eq(ps_device_name(second), "cuda:1");
    ck_assert_ptr_nonnull(strstr(ps_device_describe(second), ", number 1"));
    ck_assert_int_eq(ps_device_threads(second), 1);
    ck_assert(!ps_device_is_host(second));
    ps_device_close(first);
    ps_device_close(second);
    ps_device_close(zero);
    device_module_refuses("cuda:2", PS_ERR_UNSUPPORTED, "there are 2");
    device_module_refuses("cuda:9999", PS_ERR_UNSUPPORTED, "device cuda:9999");
    for (size_t i = 0; i < 5; i++)
        device_module_refuses((const char *const[]){"cuda:", "cuda:x", "cuda:1x", "cuda:-1", "cuda:10000"}[i],
                              PS_ERR_INVALID, "cuda:1");
    device_module_refuses("cudax", PS_ERR_INVALID, "cpu, cuda");
    device_module_refuses("cpu:0", PS_ERR_INVALID, "cpu, cuda");
}
END_TEST

START_TEST(memory_that_is_not_there_is_an_error)
{
    ps_device *d = open_fake("cuda");
    struct ps_error error;
    void *memory;

    ck_assert_int_eq(ps_device_alloc(d, (size_t)1 << 50, &memory, &error), PS_ERR_NOMEM);
    ck_assert_int_eq(ps_device_alloc_host(d, (size_t)1 << 50, &memory, &error), PS_ERR_NOMEM);
    ps_device_free(d, NULL);
    ps_device_free_host(d, NULL);
    ps_device_close(d);
}
END_TEST

/* After a fault nothing can be allocated, but not because there is too little. */
START_TEST(memory_of_a_device_that_has_failed_is_refused_with_its_failure)
{
    ps_device *d = open_fake("cuda");
    struct ps_error error;
    void *memory;

    fake_fails(1);
    ck_assert_int_eq(ps_device_alloc(d, 64, &memory, &error), PS_ERR_IO);
    ck_assert_str_eq(error.text, "device cuda: it was told to fail");
    ck_assert_int_eq(ps_device_alloc_host(d, 64, &memory, &error), PS_ERR_IO);
    ck_assert_str_eq(error.text, "device cuda: it was told to fail");
    fake_fails(0);
    ps_device_close(d);
}
END_TEST

/* An id, a label, a column: no error can be returned where it is met, so it waits for the next result. */
START_TEST(what_is_out_of_range_on_the_device_is_reported_with_the_next_result)
{
    static const uint32_t numbers[2] = {1, 9};
    static const uint64_t start[2] = {0, 2};
    static const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    ps_device *d = open_fake("cuda");
    uint32_t *numbers_on;
    uint64_t *start_on;
    float *x_on, *y;
    struct ps_error error;

    ck_assert_int_eq(ps_device_alloc(d, sizeof numbers, (void **)&numbers_on, NULL), PS_OK);
    ck_assert_int_eq(ps_device_alloc(d, sizeof start, (void **)&start_on, NULL), PS_OK);
    ck_assert_int_eq(ps_device_alloc(d, sizeof x, (void **)&x_on, NULL), PS_OK);
    ck_assert_int_eq(ps_device_alloc(d, sizeof x, (void **)&y, NULL), PS_OK);
    ps_device_upload(d, numbers_on, numbers, sizeof numbers);
    ps_device_upload(d, start_on, start, sizeof start);
    ps_device_upload(d, x_on, x, sizeof x);
    for (int i = 0; i < 5; i++) {
        if (i == 0)
            ps_embedding_forward(d, 2, 4, 2, numbers_on, x_on, y);
        else if (i == 1)
            ps_embedding_backward(d, 2, 4, 2, numbers_on, x_on, y);
        else if (i == 2)
            ps_softmax_cross_entropy(d, 2, 4, x_on, numbers_on, 1, y, NULL);
        else if (i == 3)
            ps_sparse_forward(d, 1, 4, 2, start_on, numbers_on, x_on, x_on, NULL, y);
        else
            ps_sparse_backward(d, 1, 4, 2, start_on, numbers_on, x_on, x_on, y, NULL);
        ck_assert_int_eq(ps_device_finish(d, &error), PS_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(error.text, "out of range"));
        ck_assert_int_eq(ps_device_finish(d, &error), PS_OK); /* reported once */
    }
    ps_device_free(d, numbers_on);
    ps_device_free(d, start_on);
    ps_device_free(d, x_on);
    ps_device_free(d, y);
    ps_device_close(d);
}
END_TEST

START_TEST(replicas_on_two_devices_reduce_and_too_many_are_refused)
{
    ps_device *devices[4] = {open_fake("cuda"), open_fake("cuda:1"), NULL, NULL};
    float *tensor[2], x[2][5] = {{1, 2, 3, 4, 5}, {2, 4, 6, 8, 10}}, got[5];
    struct device_gang *gang;
    struct ps_error error;

    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(ps_device_alloc(devices[r], sizeof got, (void **)&tensor[r], NULL), PS_OK);
        ps_device_upload(devices[r], tensor[r], x[r], sizeof got);
    }
    ck_assert_int_eq(device_gang_open(devices, 2, &gang, &error), PS_OK);
    ck_assert_int_eq(device_gang_all_reduce(gang, tensor, 5, DEVICE_GANG_MEAN, &error), PS_OK);
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(ps_device_download(devices[r], got, tensor[r], sizeof got, NULL), PS_OK);
        for (int i = 0; i < 5; i++)
            ck_assert(got[i] == 1.5f * x[0][i]);
        ps_device_free(devices[r], tensor[r]);
    }
    device_gang_close(gang);
    devices[2] = devices[3] = devices[0];
    ck_assert_int_eq(device_gang_open(devices, 4, &gang, &error), PS_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.text, "device cuda: a gang of 4"));
    ps_device_close(devices[0]);
    ps_device_close(devices[1]);
}
END_TEST

/* ---- Networks ---- */

static const struct kit_spec specs[] = {
    {.layers = "dense 7, relu, dense 3", .dims = {5}, .seed = 1},
    {.layers = "conv 3 3x3 same, tanh, maxpool 2, norm, conv 4 2x2 stride 1, gelu, avgpool 2, dropout 0.3, dense 4",
     .dims = {8, 8, 1},
     .seed = 2},
    {.layers = "embedding 9 4, norm, avgpool, sigmoid, dense 2", .dims = {6}, .loss = PS_LOSS_SIGMOID, .seed = 3},
};

enum { ROWS = 11, INPUTS_MAX = 64 };

static float batch_x[ROWS * INPUTS_MAX], batch_targets[ROWS * 2];
static uint32_t batch_ids[ROWS * 6], batch_labels[ROWS];

static struct ps_batch
make_batch(void)
{
    struct test_rng rng = {test_seed()};

    for (size_t i = 0; i < ARRAY_LEN(batch_x); i++)
        batch_x[i] = test_float(&rng);
    for (size_t i = 0; i < ARRAY_LEN(batch_targets); i++)
        batch_targets[i] = (float)test_below(&rng, 2);
    for (size_t i = 0; i < ARRAY_LEN(batch_ids); i++)
        batch_ids[i] = (uint32_t)test_below(&rng, 9);
    for (size_t i = 0; i < ARRAY_LEN(batch_labels); i++)
        batch_labels[i] = (uint32_t)test_below(&rng, 3);
    return (struct ps_batch){ROWS, batch_x, batch_ids, batch_labels, batch_targets};
}

static void
same_gradients(const ps_network *a, const ps_network *b)
{
    for (size_t i = 0; i < ps_network_params(a); i++)
        for (size_t k = 0; k < param_elements(a, i); k++) {
            double x = (double)ps_network_gradients(a)[i][k], y = (double)ps_network_gradients(b)[i][k];

            ck_assert_msg(fabs(x - y) <= 2e-5 * fmax(1, fabs(y)), "gradient %zu[%zu]: %g, on the CPU %g", i, k, x, y);
        }
}

/* Several steps of training, each with the values that the one before left. */
START_TEST(a_network_on_a_device_of_a_module_learns_what_it_learns_on_the_cpu)
{
    ps_device *d = open_fake("cuda");
    ps_network *there = network_make(d, &specs[_i]), *here = network_make(cpu, &specs[_i]);
    struct ps_batch batch = make_batch();
    struct ps_network_result a, b;

    ps_network_initialize(there);
    ps_network_initialize(here);
    for (uint64_t step = 0; step < 5; step++) {
        ck_assert_int_eq(ps_network_gradient(there, &batch, 0.1f, step, &a, NULL), PS_OK);
        ck_assert_int_eq(ps_network_gradient(here, &batch, 0.1f, step, &b, NULL), PS_OK);
        ck_assert(a.rows == b.rows && a.correct == b.correct && fabs(a.loss - b.loss) < 1e-4 * fmax(1, b.loss));
        same_gradients(there, here);
        network_descend(there, 0.1f);
        network_descend(here, 0.1f);
    }
    ps_network_free(there);
    ps_network_free(here);
    ps_device_close(d);
}
END_TEST

START_TEST(it_also_evaluates_predicts_and_classifies_in_parts)
{
    ps_device *d = open_fake("cuda:1");
    struct kit_spec spec = specs[_i];
    struct ps_batch batch = make_batch();
    struct ps_network_result a, b;
    float outputs[2][ROWS * 4];
    uint32_t classes[2][ROWS * 4] = {0};
    ps_network *there, *here = network_make(cpu, &spec);

    spec.rows_max = 3;
    there = network_make(d, &spec);
    ps_network_initialize(there);
    ps_network_initialize(here);
    for (int i = 0; i < 2; i++) {
        ps_network *n = i == 0 ? there : here;

        ck_assert_int_eq(ps_network_evaluate(n, &batch, i == 0 ? &a : &b, NULL), PS_OK);
        ck_assert_int_eq(ps_network_predict(n, &batch, outputs[i], NULL), PS_OK);
        ck_assert_int_eq(ps_network_classify(n, &batch, classes[i], NULL), PS_OK);
    }
    ck_assert(a.rows == b.rows && a.correct == b.correct && fabs(a.loss - b.loss) < 1e-4 * fmax(1, b.loss));
    for (size_t i = 0; i < ROWS * ps_network_outputs(here); i++)
        ck_assert(fabsf(outputs[0][i] - outputs[1][i]) < 1e-4f);
    ck_assert_int_eq(memcmp(classes[0], classes[1], sizeof classes[0]), 0);
    ps_network_free(there);
    ps_network_free(here);
    ps_device_close(d);
}
END_TEST

/* ---- Gradients as they become whole ---- */

struct device_module_heard {
    ps_network *network;
    size_t next;   /* parameter that comes next, counted from the last */
    float sum[16]; /* of each gradient when it was reported */
    bool wipe;     /* and 0 in its place */
};

static void
device_module_hear(void *arg, size_t i)
{
    struct device_module_heard *h = arg;
    float *gradient = (float *)(uintptr_t)ps_network_gradients(h->network)[i];

    ck_assert_uint_eq(i, --h->next);
    for (size_t k = 0; k < param_elements(h->network, i); k++) {
        h->sum[i] += gradient[k] * (float)(k + 1);
        if (h->wipe)
            gradient[k] = 0;
    }
}

/* A gradient is complete when it is reported, and is not touched afterwards. */
START_TEST(gradients_are_told_of_when_they_have_arrived)
{
    ps_device *d = open_fake("cuda");
    ps_network *network = network_make(d, &specs[_i]);
    struct ps_batch batch = make_batch();
    struct device_module_heard h = {.network = network, .next = ps_network_params(network)}, again = h;

    again.wipe = true;
    ps_network_initialize(network);
    ps_network_on_ready(network, device_module_hear, &h);
    ck_assert_int_eq(ps_network_gradient(network, &batch, 1, 7, NULL, NULL), PS_OK);
    ck_assert_uint_eq(h.next, 0);
    for (size_t i = 0; i < ps_network_params(network); i++) {
        float sum = 0;

        for (size_t k = 0; k < param_elements(network, i); k++)
            sum += ps_network_gradients(network)[i][k] * (float)(k + 1);
        ck_assert(sum == h.sum[i]);
    }
    ps_network_on_ready(network, device_module_hear, &again);
    ck_assert_int_eq(ps_network_gradient(network, &batch, 1, 7, NULL, NULL), PS_OK);
    for (size_t i = 0; i < ps_network_params(network); i++) {
        ck_assert(again.sum[i] == h.sum[i]);
        for (size_t k = 0; k < param_elements(network, i); k++)
            ck_assert(ps_network_gradients(network)[i][k] == 0);
    }
    ps_network_free(network);
    ps_device_close(d);
}
END_TEST

/* Memory that the device cannot reach by itself will do as well. */
START_TEST(values_and_gradients_may_lie_in_any_host_memory)
{
    ps_device *d = open_fake("cuda");
    ps_network *there = network_make(d, &specs[0]), *here = network_make(cpu, &specs[0]);
    struct ps_batch batch = make_batch();
    float *values[16], *gradients[16];

    ps_network_initialize(there);
    ps_network_initialize(here);
    for (size_t i = 0; i < ps_network_params(there); i++) {
        size_t size = param_elements(there, i) * sizeof(float);

        values[i] = malloc(size);
        gradients[i] = malloc(size);
        memcpy(values[i], ps_network_values(there)[i], size);
    }
    ps_network_place(there, values, gradients);
    ck_assert_int_eq(ps_network_gradient(there, &batch, 1, 0, NULL, NULL), PS_OK);
    ck_assert_int_eq(ps_network_gradient(here, &batch, 1, 0, NULL, NULL), PS_OK);
    ck_assert_ptr_eq(ps_network_gradients(there)[0], gradients[0]);
    same_gradients(there, here);
    ps_network_place(there, NULL, NULL);
    for (size_t i = 0; i < ps_network_params(there); i++) {
        free(values[i]);
        free(gradients[i]);
    }
    ps_network_free(there);
    ps_network_free(here);
    ps_device_close(d);
}
END_TEST

START_TEST(a_device_that_breaks_ends_the_step_with_its_error)
{
    ps_device *d = open_fake("cuda");
    ps_network *network = network_make(d, &specs[_i % 3]);
    struct ps_batch batch = make_batch();
    struct device_module_heard h = {.network = network, .next = ps_network_params(network)};
    struct ps_network_result result;
    struct ps_error error;
    float outputs[ROWS * 4];

    ps_network_initialize(network);
    if (_i >= 3)
        ps_network_on_ready(network, device_module_hear, &h);
    fake_fails(1);
    ck_assert_int_eq(ps_network_gradient(network, &batch, 1, 0, NULL, &error), PS_ERR_IO);
    ck_assert_ptr_nonnull(strstr(error.text, "device cuda: it was told to fail"));
    ck_assert_int_eq(ps_network_evaluate(network, &batch, &result, &error), PS_ERR_IO);
    ck_assert_int_eq(ps_network_predict(network, &batch, outputs, &error), PS_ERR_IO);
    fake_fails(0);
    ps_network_free(network);
    ps_device_close(d);
}
END_TEST

/* ---- Batches on their way ---- */

/* A copy in memory of the device's choice, or any. */
static void *
batch_memory(ps_device *d, bool pinned, const void *from, size_t size)
{
    void *memory;

    if (!pinned)
        ck_assert_ptr_nonnull(memory = malloc(size));
    else
        ck_assert_int_eq(ps_device_alloc_host(d, size, &memory, NULL), PS_OK);
    memcpy(memory, from, size);
    return memory;
}

static void
batch_forget(ps_device *d, bool pinned, void *memory)
{
    if (pinned)
        ps_device_free_host(d, memory);
    else
        free(memory);
}

static unsigned long
copied_by_gradient(ps_network *network, const struct ps_batch *batch)
{
    unsigned long before = fake_copied();

    ck_assert_int_eq(ps_network_gradient(network, batch, 0.1f, 5, NULL, NULL), PS_OK);
    return fake_copied() - before;
}

/* Batch a, then b, which is prefetched, then a, which is not: each has its own gradient, and b goes to the device once,
 * with a. */
START_TEST(a_batch_that_was_prefetched_is_sent_with_the_one_before_and_once)
{
    const struct kit_spec *spec = &specs[_i / 2];
    bool pinned = _i % 2 == 1;
    ps_device *d = open_fake("cuda");
    ps_network *there = network_make(d, spec), *here = network_make(cpu, spec);
    size_t inputs = ROWS * ps_network_inputs(there), wanted = ROWS * (spec->loss == PS_LOSS_SIGMOID ? 2 : 1);
    unsigned long once, bytes = (inputs + wanted) * sizeof(float);
    struct ps_batch a = make_batch(), b = {.rows = ROWS};
    float *x = batch_memory(d, pinned, a.x, sizeof batch_x);
    uint32_t *ids = batch_memory(d, pinned, a.ids, sizeof batch_ids);
    uint32_t *labels = batch_memory(d, pinned, a.labels, sizeof batch_labels);
    float *targets = batch_memory(d, pinned, a.targets, sizeof batch_targets);

    for (size_t i = 0; i < ARRAY_LEN(batch_x); i++)
        x[i] = -x[i];
    for (size_t i = 0; i < ARRAY_LEN(batch_ids); i++)
        ids[i] = (ids[i] + 1) % 9;
    b.x = x;
    b.ids = ids;
    b.labels = labels;
    b.targets = targets;
    ps_network_initialize(there);
    ps_network_initialize(here);
    once = copied_by_gradient(there, &a);
    ck_assert_int_eq(ps_network_prefetch(there, &b, NULL), PS_OK);
    ck_assert_uint_eq(copied_by_gradient(there, &a), once + bytes);
    ck_assert_uint_eq(copied_by_gradient(there, &b), once - bytes);
    ck_assert_int_eq(ps_network_gradient(here, &b, 0.1f, 5, NULL, NULL), PS_OK);
    same_gradients(there, here);
    ck_assert_uint_eq(copied_by_gradient(there, &b), once); /* it is sent again: it may have changed */
    same_gradients(there, here);
    ck_assert_int_eq(ps_network_prefetch(there, &b, NULL), PS_OK);
    ck_assert_uint_eq(copied_by_gradient(there, &a), once + bytes);
    for (int step = 0; step < 3;
         step++) { /* as in a loop: the next one is noted before the one that is there is used */
        ck_assert_int_eq(ps_network_prefetch(there, step % 2 == 0 ? &a : &b, NULL), PS_OK);
        ck_assert_uint_eq(copied_by_gradient(there, step % 2 == 0 ? &b : &a), once);
        ck_assert_int_eq(ps_network_gradient(here, step % 2 == 0 ? &b : &a, 0.1f, 5, NULL, NULL), PS_OK);
        same_gradients(there, here);
    }
    ck_assert_uint_eq(copied_by_gradient(there, &a), once - bytes);
    ck_assert_uint_eq(copied_by_gradient(there, &a), once);
    ck_assert_int_eq(ps_network_gradient(here, &a, 0.1f, 5, NULL, NULL), PS_OK);
    same_gradients(there, here);
    ps_network_free(there);
    ps_network_free(here);
    batch_forget(d, pinned, x);
    batch_forget(d, pinned, ids);
    batch_forget(d, pinned, labels);
    batch_forget(d, pinned, targets);
    ps_device_close(d);
}
END_TEST

/* What is computed in between, with other rows, does not touch it. */
START_TEST(another_batch_may_be_computed_before_the_one_that_was_prefetched)
{
    ps_device *d = open_fake("cuda");
    ps_network *there = network_make(d, &specs[0]), *here = network_make(cpu, &specs[0]);
    struct ps_batch a = make_batch(), b = a;
    struct ps_network_result result;

    b.rows = ROWS - 2;
    ps_network_initialize(there);
    ps_network_initialize(here);
    ck_assert_int_eq(ps_network_prefetch(there, &b, NULL), PS_OK);
    ck_assert_int_eq(ps_network_gradient(there, &a, 0.1f, 5, NULL, NULL), PS_OK);
    ck_assert_int_eq(ps_network_evaluate(there, &a, &result, NULL), PS_OK);
    ck_assert_int_eq(ps_network_gradient(there, &b, 0.1f, 5, NULL, NULL), PS_OK);
    ck_assert_int_eq(ps_network_gradient(here, &b, 0.1f, 5, NULL, NULL), PS_OK);
    same_gradients(there, here);
    ps_network_free(there);
    ps_network_free(here);
    ps_device_close(d);
}
END_TEST

START_TEST(a_batch_that_cannot_be_computed_is_not_prefetched)
{
    ps_device *d = _i == 0 ? open_fake("cuda") : cpu;
    ps_network *network = network_make(d, &specs[0]);
    struct ps_batch batch = make_batch();
    struct ps_error error;

    batch.rows = 41;
    ck_assert_int_eq(ps_network_prefetch(network, &batch, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "41 rows: the network was made for 40 at once"));
    batch.rows = ROWS;
    batch.labels = NULL;
    ck_assert_int_eq(ps_network_prefetch(network, &batch, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "without labels"));
    batch = make_batch();
    ck_assert_int_eq(ps_network_prefetch(network, &batch, &error), PS_OK);
    ps_network_free(network);
    if (_i == 0)
        ps_device_close(d);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("device_module");
    TCase *tc = tcase_create("loading"), *networks = tcase_create("networks");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, a_module_that_is_not_there_is_named);
    tcase_add_test(tc, a_file_that_is_no_library_is_refused);
    tcase_add_test(tc, a_library_that_is_no_module_is_refused);
    tcase_add_test(tc, a_module_of_another_version_is_refused);
    tcase_add_test(tc, a_module_whose_optimizers_are_others_is_refused);
    tcase_add_test(tc, the_module_that_was_built_loads);
    tcase_add_test(tc, a_device_is_chosen_by_its_number);
    tcase_add_test(tc, memory_that_is_not_there_is_an_error);
    tcase_add_test(tc, memory_of_a_device_that_has_failed_is_refused_with_its_failure);
    tcase_add_test(tc, what_is_out_of_range_on_the_device_is_reported_with_the_next_result);
    tcase_add_test(tc, replicas_on_two_devices_reduce_and_too_many_are_refused);
    suite_add_tcase(suite, tc);
    tcase_add_checked_fixture(networks, network_setup, network_teardown);
    tcase_set_timeout(networks, 60);
    tcase_add_loop_test(networks, a_network_on_a_device_of_a_module_learns_what_it_learns_on_the_cpu, 0, 3);
    tcase_add_loop_test(networks, it_also_evaluates_predicts_and_classifies_in_parts, 0, 3);
    tcase_add_loop_test(networks, gradients_are_told_of_when_they_have_arrived, 0, 3);
    tcase_add_test(networks, values_and_gradients_may_lie_in_any_host_memory);
    tcase_add_loop_test(networks, a_batch_that_was_prefetched_is_sent_with_the_one_before_and_once, 0, 6);
    tcase_add_test(networks, another_batch_may_be_computed_before_the_one_that_was_prefetched);
    tcase_add_loop_test(networks, a_batch_that_cannot_be_computed_is_not_prefetched, 0, 2);
    tcase_add_loop_test(networks, a_device_that_breaks_ends_the_step_with_its_error, 0, 6);
    suite_add_tcase(suite, networks);
    return suite;
}

CHECK_MAIN(make_suite)
