/* Rows: training on the device: optimizers, gradients that are encoded, gangs. */
#include "tests/unit/client/device/conformance_kit.h"

#include "client/device/device.h"
#include "client/device/device_codec.h"
#include "client/device/device_gang.h"
#include "client/device/device_optimizer.h"

/* ---- Optimizers: the bits of the shards' ---- */

static float *
aligned_floats(struct conformance *c, size_t n, float most)
{
    float *x = conformance_keep(c, aligned_alloc(64, round_up(n * sizeof *x, 64))),
          *from = conformance_floats(c, n, most);

    memcpy(x, from, n * sizeof *x);
    return x;
}

static void
check_optimizer(struct conformance *c, const struct ps_optimizer *o, size_t n)
{
    uint32_t slots = optimizer_slots(o);
    struct optimizer_arrays want = {.weights = aligned_floats(c, n, 1)}, on;
    struct ps_error e;

    on.weights = floats_on(c, n, want.weights);
    for (uint32_t k = 0; k < LAYOUT_SLOTS_MAX; k++) {
        want.slot[k] = aligned_floats(c, n, 1);
        on.slot[k] = nans_on(c, n);
    }
    optimizer_start(o, n, &want);
    conformance_must(c, device_optimizer_start(c->device, o, n, &on, &e), &e);
    for (uint64_t version = 1; version <= 3; version++) {
        float *gradient = conformance_floats(c, n, version == 2 ? 0.01f : 3);
        struct device_update u = {{version, version}, 0.5f, version == 3};

        conformance_must(c, device_optimizer_apply(c->device, o, &u, n, floats_on(c, n, gradient), &on, &e), &e);
        (void)optimizer_apply(o, &u.when, 0.5f, n, gradient, &want, &want, false);
    }
    conformance_same(c, "weights", n * sizeof(float), on.weights, want.weights);
    for (uint32_t k = 0; k < slots; k++)
        conformance_same(c, "slot", n * sizeof(float), on.slot[k], want.slot[k]);
}

static struct ps_optimizer
optimizer_of(enum ps_optimizer_kind kind)
{
    struct ps_optimizer o = {.kind = kind,
                             .learning_rate = 0.05,
                             .momentum = 0.9,
                             .beta1 = 0.9,
                             .beta2 = 0.99,
                             .rho = 0.9,
                             .epsilon = 1e-6,
                             .initial_accumulator = 0.1,
                             .learning_rate_power = -0.5,
                             .l1 = 0.01,
                             .beta = 0.1};

    return o;
}

void
conform_optimizers(struct conformance *c)
{
    for (int kind = 0; kind < PS_OPTIMIZER_KINDS; kind++)
        for (int with = 0; with < 3; with++) {
            struct ps_optimizer o = optimizer_of((enum ps_optimizer_kind)kind);

            if (with == 1) { /* a rule's other way */
                o.momentum = 0;
                o.learning_rate_power = -0.7;
            }
            if (with == 2) {
                o.l2 = 0.03;
                o.weight_decay = 0.01;
                o.clip = (struct ps_clip){PS_CLIP_VALUE, 0.4};
            }
            check_optimizer(c, &o, sizes[(size_t)(kind + with) % SIZES] * 3 + 1);
            if (c->failed)
                return;
            give_back(c);
        }
}

void
conform_nonfinite(struct conformance *c)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct ps_optimizer o = optimizer_of(PS_ADAM);
    struct device_update u = {{1, 0}, 1, true};
    struct ps_error e;

    for (size_t k = 0; k < ARRAY_LEN(bad); k++) {
        size_t n = k == 0 ? 300001 : 1000 + k; /* one that takes several levels of sums */
        float *w = conformance_floats(c, n, 1), *gradient = conformance_floats(c, n, 1),
              *zeros = conformance_host(c, n * sizeof *zeros);
        struct optimizer_arrays on = {floats_on(c, n, w), {floats_on(c, n, zeros), floats_on(c, n, zeros), NULL}};
        enum ps_err err;
        double norm, want = 0;

        for (size_t i = 0; i < n; i++)
            want += (double)gradient[i] * (double)gradient[i];
        conformance_must(c, device_norm(c->device, n, floats_on(c, n, gradient), &norm, &e), &e);
        if (!(fabs(norm - sqrt(want)) <= 1e-12 * want))
            conformance_fail(c, "norm of %zu: %.17g, reference %.17g", n, norm, sqrt(want));
        gradient[n - 1 - k] = bad[k];
        err = device_optimizer_apply(c->device, &o, &u, n, floats_on(c, n, gradient), &on, &e);
        if (err != PS_ERR_NONFINITE)
            conformance_fail(c, "a gradient with %g: %s", (double)bad[k], ps_err_name(err));
        conformance_same(c, "weights", n * sizeof *w, on.weights, w);
        conformance_same(c, "slot", n * sizeof *w, on.slot[0], zeros);
    }
}

/* A norm that was begun is that of the values when it is asked for, whatever came in between. */
void
conform_norm_started(struct conformance *c)
{
    EACH_SIZE(i)
    {
        size_t n = sizes[i];
        float *x = conformance_floats(c, n, 1), *x_on = floats_on(c, n, x), *other = floats_on(c, n, x);
        double plain, started, changed;
        struct ps_error e;

        conformance_must(c, device_norm(c->device, n, x_on, &plain, &e), &e);
        device_norm_start(c->device, n, x_on);
        conformance_must(c, device_norm(c->device, n, x_on, &started, &e), &e);
        if (started != plain)
            conformance_fail(c, "norm of %zu that was begun: %.17g, not %.17g", n, started, plain);
        device_norm_start(c->device, n, x_on);
        ps_dropout_forward(c->device, n, 0.99f, 1, 2, x_on, x_on);
        conformance_must(c, device_norm(c->device, n, x_on, &changed, &e), &e);
        x = conformance_downloaded(c, x_on, n * sizeof *x);
        ps_device_upload(c->device, other, x, n * sizeof *x);
        conformance_must(c, device_norm(c->device, n, other, &plain, &e), &e);
        if (changed != plain)
            conformance_fail(c, "norm of %zu after a change: %.17g, not %.17g", n, changed, plain);
        device_norm_start(c->device, n, other);
        conformance_must(c, device_norm(c->device, 1, other, &changed, &e), &e);
        if ((float)changed != fabsf(x[0]))
            conformance_fail(c, "norm of 1 where one of %zu was begun: %.17g, not %.9g", n, changed, (double)x[0]);
        give_back(c);
    }
}

static void
check_tally(struct conformance *c, size_t n)
{
    uint32_t *a = conformance_numbers(c, n, 3), *b = conformance_numbers(c, n, 3);
    float *losses = conformance_floats(c, n, 4), *losses_on = floats_on(c, n, losses);
    uint32_t *a_on = conformance_uploaded(c, a, n * sizeof *a), *b_on = conformance_uploaded(c, b, n * sizeof *b);
    size_t count, want = 0;
    double loss, sum = 0;
    struct ps_error e;

    for (size_t i = 0; i < n; i++) {
        want += a[i] == b[i];
        sum += (double)losses[i];
    }
    c->device->ops->tally_start(c->device, n, a_on, b_on, losses_on);
    conformance_must(c, c->device->ops->tally_end(c->device, &count, &loss, &e), &e);
    if (count != want || !(fabs(loss - sum) <= 1e-12 * (double)n))
        conformance_fail(c, "of %zu: %zu equal and %.17g, reference %zu and %.17g", n, count, loss, want, sum);
}

void
conform_tally(struct conformance *c)
{
    static const size_t lengths[] = {1, 7, 64, 65, 513, 10007, 600011};

    for (size_t k = 0; c->device->ops->tally_start != NULL && k < ARRAY_LEN(lengths); k++) {
        check_tally(c, lengths[k]);
        give_back(c);
    }
}

/* ---- Gradients that are encoded ---- */

static float
codec_within(float x, float most)
{
    return x > most ? most : x < -most ? -most : x;
}

/* The definition, an element at a time, of all but the scale. Returns what is decoded. */
static float
encode_one(enum ps_compress_kind kind, float e, float scale, void *out, size_t i)
{
    float steps;
    uint16_t half;
    int8_t q;

    if (kind == PS_COMPRESS_INT8) {
        steps = scale > 0 ? nearbyintf(codec_within(e / scale, 127)) : 0;
        q = (int8_t)steps;
        ((int8_t *)out)[i] = q;
        return (float)q * scale;
    }
    half = kind == PS_COMPRESS_FLOAT16 ? half_from_float(codec_within(e, 65504)) : bfloat_from_float(e);
    ((uint16_t *)out)[i] = half;
    return kind == PS_COMPRESS_FLOAT16 ? half_to_float(half) : bfloat_to_float(half);
}

static void
expect_nonfinite(struct conformance *c, const uint32_t *on, uint32_t want)
{
    const uint32_t *is = conformance_downloaded(c, on, sizeof *is);

    if (*is != want)
        conformance_fail(c, "gradients are said to be %sfinite", *is == 0 ? "" : "not ");
}

/* One encoding at out; returns its bytes. */
static size_t
encode_block(enum ps_compress_kind kind, size_t n, const float *gradient, const float *residual, float *left, void *out)
{
    size_t runs = kind == PS_COMPRESS_INT8 ? (n + 255) / 256 : 0;
    float *scales = out;

    for (size_t i = 0; i < n && runs > 0; i++)
        scales[i / 256] = fmaxf(scales[i / 256], fabsf(gradient[i] + residual[i]));
    for (size_t i = 0; i < runs; i++)
        scales[i] /= 127;
    for (size_t i = 0; i < n; i++) {
        float e = gradient[i] + residual[i];

        left[i] = e - encode_one(kind, e, runs > 0 ? scales[i / 256] : 0, scales + runs, i);
    }
    return runs > 0 ? runs * sizeof(float) + round_up(n, 4) : round_up(2 * n, 4);
}

static void
check_codec(struct conformance *c, enum ps_compress_kind kind, size_t n, size_t block)
{
    size_t size = 0, most = 8 * n + 8;
    float *gradient = conformance_floats(c, n, 3), *residual = conformance_floats(c, n, 0.1f);
    float *left = conformance_host(c, n * sizeof *left), *left_on = nans_on(c, n), *residual_on, *gradient_on;
    uint8_t *want = conformance_host(c, most), *out = (uint8_t *)marks_on(c, most / 4);
    uint32_t *nonfinite = marks_on(c, 1);

    if (n > 300)
        for (size_t i = 256; i < 300; i++)
            gradient[i] = -residual[i];
    gradient[n / 2] = 1e5f;
    for (size_t first = 0; first < n; first += block)
        size +=
            encode_block(kind, MIN(block, n - first), gradient + first, residual + first, left + first, want + size);
    residual_on = floats_on(c, n, residual);
    gradient_on = floats_on(c, n, gradient);
    device_encode_clear(c->device, nonfinite);
    device_encode(c->device, kind, n, block, gradient_on, residual_on, left_on, out, nonfinite);
    conformance_same(c, "encoding", size, out, want);
    conformance_same(c, "left", n * sizeof *left, left_on, left);
    conformance_same(c, "residual", n * sizeof *left, residual_on, residual);
    expect_nonfinite(c, nonfinite, 0);
    gradient[n - 1] = n % 2 == 0 ? NAN : -INFINITY;
    device_encode(c->device, kind, n, block, floats_on(c, n, gradient), residual_on, left_on, out, nonfinite);
    device_encode(c->device, kind, n, block, gradient_on, residual_on, left_on, out, nonfinite);
    expect_nonfinite(c, nonfinite, 1); /* it stays */
}

void
conform_codecs(struct conformance *c)
{
    static const size_t lengths[] = {1, 2, 3, 255, 256, 257, 1001};

    for (size_t k = 0; k < ARRAY_LEN(lengths); k++)
        for (int kind = PS_COMPRESS_NONE + 1; kind < PS_COMPRESS_KINDS; kind++) {
            if (device_encodes(c->device, (enum ps_compress_kind)kind))
                for (size_t block = 16; block < 2000; block += 332)
                    check_codec(c, (enum ps_compress_kind)kind, lengths[k], block);
            give_back(c);
        }
}

/* ---- Gangs ---- */

static void
check_gang(struct conformance *c, struct device_gang *g, size_t replicas, size_t n, enum device_gang_op op)
{
    float *tensors[8], *x[8], *want = conformance_host(c, n * sizeof *want);
    struct ps_error e;

    for (size_t r = 0; r < replicas; r++) {
        x[r] = conformance_floats(c, n, 1);
        tensors[r] = floats_on(c, n, x[r]);
    }
    for (size_t i = 0; i < n; i++) {
        want[i] = x[0][i];
        for (size_t r = 1; r < replicas; r++)
            want[i] += x[r][i];
        want[i] /= op == DEVICE_GANG_MEAN ? (float)replicas : 1;
    }
    conformance_must(c, device_gang_all_reduce(g, tensors, n, op, &e), &e);
    for (size_t r = 0; r < replicas; r++)
        conformance_same(c, "sum", n * sizeof *want, tensors[r], want);
}

/* From every replica; bits, NaN and all. */
static void
check_broadcast(struct conformance *c, struct device_gang *g, size_t replicas, size_t n, size_t root)
{
    float *tensors[3];
    const float *x = NULL;
    struct ps_error e;

    for (size_t r = 0; r < replicas; r++) {
        float *of_one = conformance_floats(c, n, 1);

        of_one[n / 2] = r == root ? NAN : 1;
        tensors[r] = floats_on(c, n, of_one);
        if (r == root)
            x = of_one;
    }
    conformance_must(c, device_gang_broadcast(g, tensors, n, root, &e), &e);
    for (size_t r = 0; r < replicas; r++)
        conformance_same(c, "broadcast", n * sizeof *x, tensors[r], x);
}

void
conform_gang(struct conformance *c)
{
    ps_device *devices[3] = {c->device, c->device, c->device};
    struct ps_error e;

    for (size_t replicas = 1; replicas <= 3; replicas++) {
        struct device_gang *g;
        enum ps_err err = device_gang_open(devices, replicas, &g, &e);

        conformance_must(c, err, &e);
        EACH_SIZE(i)
        {
            if (err != PS_OK || c->failed)
                break;
            check_gang(c, g, replicas, sizes[i] * 33, i % 2 == 0 ? DEVICE_GANG_SUM : DEVICE_GANG_MEAN);
            give_back(c);
            for (size_t root = 0; root < replicas; root++)
                check_broadcast(c, g, replicas, sizes[i] * 33, root);
            give_back(c);
        }
        if (err == PS_OK)
            device_gang_close(g);
    }
}
