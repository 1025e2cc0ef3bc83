/* Gradients of whole networks: every kind of layer, alone and among others, against numeric differentiation of a
 * reference in double; the same bits for a slice in whatever process; each also on a device whose memory is not the
 * host's. */
#include <math.h>

#include "client/network/network.h"
#include "tests/unit/client/network/network_kit.h"
#include "tests/unit/client/network/network_reference.h"

/* ---- Against the reference ---- */

enum { ROWS_MAX = 12, INPUTS_MAX = 256, DRAW = 77 };

struct trial {
    ps_network *network;
    struct reference_reference reference;
    struct ps_layer layers[PS_LAYERS_MAX];
    const struct kit_spec *spec;
    size_t rows;
    float x[ROWS_MAX * INPUTS_MAX], targets[ROWS_MAX * 16];
    uint32_t ids[ROWS_MAX * INPUTS_MAX], labels[ROWS_MAX];
    float *mask[PS_LAYERS_MAX]; /* [rows, elements] */
};

/* The layer as it was set up. */
static const struct layer *
layer_of(const struct trial *t, size_t i)
{
    return &t->network->layer[i];
}

static double
reference_batch_loss(struct trial *t)
{
    size_t inputs = ps_network_inputs(t->network), outputs = ps_network_outputs(t->network);
    double loss = 0;

    for (size_t r = 0; r < t->rows; r++) {
        struct reference_tensor row = {.rank = 0};

        while (row.rank < 3 && t->spec->dims[row.rank] != 0) {
            row.dims[row.rank] = t->spec->dims[row.rank];
            row.rank++;
        }
        for (size_t i = 0; i < inputs; i++)
            row.v[i] = t->network->takes_ids ? t->ids[r * inputs + i] : (double)t->x[r * inputs + i];
        for (size_t i = 0; i < t->reference.layers; i++)
            if (t->mask[i] != NULL)
                t->reference.mask[i] = t->mask[i] + r * shape_elements(&layer_of(t, i)->in);
        loss += reference_loss(&t->reference, &row, t->labels[r], t->targets + r * outputs);
    }
    return loss;
}

/* Random examples; parameters moved a little, so that no bias is 0. */
static void
gradient_fill(struct trial *t, struct test_rng *rng)
{
    size_t inputs = ps_network_inputs(t->network), outputs = ps_network_outputs(t->network);

    ck_assert(t->rows <= ROWS_MAX && inputs <= INPUTS_MAX && outputs <= 16);
    for (size_t i = 0; i < t->rows * inputs; i++)
        t->x[i] = test_float(rng);
    for (size_t i = 0; t->network->takes_ids && i < t->rows * inputs; i++)
        t->ids[i] = (uint32_t)test_below(rng, t->layers[0].vocabulary);
    for (size_t r = 0; r < t->rows; r++)
        t->labels[r] = (uint32_t)test_below(rng, outputs);
    for (size_t i = 0; i < t->rows * outputs; i++)
        t->targets[i] = (float)test_below(rng, 5) / 4;
    for (size_t i = 0; i < ps_network_params(t->network); i++) {
        t->reference.value[i] = calloc(param_elements(t->network, i), sizeof(double));
        for (size_t k = 0; k < param_elements(t->network, i); k++) {
            ps_network_values(t->network)[i][k] += 0.1f * test_float(rng);
            t->reference.value[i][k] = (double)ps_network_values(t->network)[i][k];
        }
    }
}

/* The effect of each dropout of this draw on a batch of ones. */
static void
draw_masks(struct trial *t, uint64_t draw)
{
    for (size_t i = 0; i < t->reference.layers; i++) {
        size_t n = t->rows * shape_elements(&layer_of(t, i)->in);

        if (t->layers[i].kind != PS_LAYER_DROPOUT)
            continue;
        t->mask[i] = calloc(n, sizeof *t->mask[i]);
        for (size_t k = 0; k < n; k++)
            t->mask[i][k] = 1;
        ps_dropout_forward(cpu, n, (float)t->layers[i].rate, layer_of(t, i)->seed, draw, t->mask[i], t->mask[i]);
    }
}

/* Every element of parameter i. */
static void
check_param(struct trial *t, size_t i, double scale)
{
    double *value = t->reference.value[i], h = 1e-6, kept, side[2], got, want;

    for (size_t k = 0; k < param_elements(t->network, i); k++) {
        kept = value[k];
        for (int s = 0; s < 2; s++) {
            value[k] = kept + (s == 0 ? -h : h);
            side[s] = reference_batch_loss(t);
        }
        value[k] = kept;
        got = (double)ps_network_gradients(t->network)[i][k];
        want = scale * (side[1] - side[0]) / (2 * h);
        ck_assert_msg(fabs(got - want) < 2e-5, "%s: element %zu of parameter %zu has a gradient of %g, not %g",
                      t->spec->layers, k, i, got, want);
    }
}

static void
check_gradient(ps_device *device, const struct kit_spec *spec, size_t rows)
{
    static struct trial t;
    struct test_rng rng = {test_seed()};
    struct ps_network_result result;
    struct ps_batch batch = {.rows = rows, .x = t.x, .ids = t.ids, .labels = t.labels, .targets = t.targets};
    double loss;

    memset(&t, 0, sizeof t);
    t.network = network_make(device, spec);
    t.spec = spec;
    t.rows = rows;
    ck_assert_int_eq(ps_network_parse(spec->layers, t.layers, &t.reference.layers, NULL), PS_OK);
    t.reference.layer = t.layers;
    t.reference.loss = spec->loss;
    ps_network_initialize(t.network);
    gradient_fill(&t, &rng);
    draw_masks(&t, DRAW);
    ck_assert_int_eq(ps_network_gradient(t.network, &batch, 0.125f, DRAW, &result, NULL), PS_OK);
    loss = reference_batch_loss(&t);
    ck_assert_double_eq_tol(result.loss, loss, 1e-5 * (1 + loss));
    ck_assert_uint_eq(result.rows, rows);
    for (size_t i = 0; i < ps_network_params(t.network); i++)
        check_param(&t, i, 0.125);
    for (size_t i = 0; i < ps_network_params(t.network); i++)
        free(t.reference.value[i]);
    for (size_t i = 0; i < t.reference.layers; i++)
        free(t.mask[i]);
    ps_network_free(t.network);
}

static const struct kit_spec perceptrons[] = {
    {"dense 3", .dims = {5}},
    {"dense 3 no-bias", .dims = {2, 3}},
    {"dense 9, relu, dense 4", .dims = {7}},
    {"dense 9, tanh, dense 4 no-bias", .dims = {7}},
    {"dense 8, tanh, dense 5, relu, dense 6, tanh, dense 2", .dims = {3}},
    {"tanh, relu, dense 5, relu, relu, dense 3, tanh",
     .dims = {2, 2, 2}}, /* on the input; one on another; at the end */
    {"dense 1, tanh, dense 1", .dims = {1}, .loss = PS_LOSS_SIGMOID},
};

static const struct kit_spec convolutional[] = {
    {"conv 3 3x3, dense 2", .dims = {5, 6, 2}},
    {"conv 2 3x2 same stride 2, tanh, conv 3 1x1 no-bias, relu, dense 3", .dims = {5, 5, 1}},
    {"conv 2 5x5 same, relu, maxpool 2, conv 3 3x3 same, relu, maxpool 2, dense 8, relu, dense 4", .dims = {8, 8, 1}},
    {"conv 4 2x2", .dims = {2, 2, 3}},
    {"conv 3 3x1 same, tanh, maxpool 3x1 same stride 2x1, dense 3", .dims = {7, 2}}, /* positions and channels */
    {"maxpool 3 stride 1, conv 3 2 stride 2x1, avgpool 2 same, flatten, tanh, dense 2", .dims = {8, 7, 2}},
    {"conv 4 3x3 same, relu, avgpool, dense 3", .dims = {4, 5, 1}},
    {"conv 4 3x3 same, tanh, flatten, relu, dense 2", .dims = {1, 1, 3}},
    {"flatten, dense 12, tanh, dense 3", .dims = {2, 3, 2}},
};

static const struct kit_spec others[] = {
    {"dense 9, sigmoid, dense 4", .dims = {7}},
    {"gelu, dense 9, gelu, relu, dense 4", .dims = {7}}, /* GELU's input is not overwritten */
    {"dense 6, norm, tanh, dense 4", .dims = {7}},
    {"norm, conv 4 2x2, norm, gelu, sigmoid, norm, dense 3", .dims = {4, 3, 3}},
    {"dense 1", .dims = {6}, .loss = PS_LOSS_SIGMOID},
    {"dense 6, relu, dense 3", .dims = {4}, .loss = PS_LOSS_SIGMOID},
    {"dense 8, tanh, dropout 0.5, dropout 0.25, dense 4", .dims = {7}, .seed = 3}, /* tanh's output is kept */
    {"dropout 0.3, conv 4 2x2, dropout 0.5, gelu, dense 3, dropout 0", .dims = {4, 3, 2}, .seed = 3},
    {"embedding 9 4, dense 3", .dims = {6}},
    {"embedding 5 3, avgpool, dense 6, relu, dense 4", .dims = {7}},
    {"embedding 7 4, conv 5 3x1, relu, maxpool, dropout 0.2, dense 2", .dims = {8}, .loss = PS_LOSS_SIGMOID},
    {"conv 2 2x1, norm, sigmoid", .dims = {3, 2, 1}, .loss = PS_LOSS_SIGMOID},
};

START_TEST(perceptrons_agree_with_numeric_differentiation)
{
    for (size_t i = 0; i < ARRAY_LEN(perceptrons); i++)
        check_gradient(_i == 0 ? cpu : &apart, &perceptrons[i], i == 0 ? 1 : 11);
}
END_TEST

START_TEST(convolutional_networks_agree_with_numeric_differentiation)
{
    for (size_t i = 0; i < ARRAY_LEN(convolutional); i++)
        check_gradient(_i == 0 ? cpu : &apart, &convolutional[i], i == 0 ? 1 : 4);
}
END_TEST

START_TEST(other_networks_agree_with_numeric_differentiation)
{
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        check_gradient(_i == 0 ? cpu : &apart, &others[i], 5);
}
END_TEST

/* ---- Slices ---- */

enum { SLICE_INPUTS = 48, SLICE_ROWS = 40, SLICE_ELEMENTS_MAX = 4000 };

static const struct kit_spec sliced[] = {
    {"dense 33, relu, dense 6", .dims = {SLICE_INPUTS}, .seed = 9},
    {"conv 5 3x3 same, relu, maxpool 2, dropout 0.3, norm, dense 12, gelu, dense 6", .dims = {4, 6, 2}, .seed = 9},
};

/* All gradients, one after the other. Returns how many elements they are. */
static size_t
copy_gradients(const ps_network *network, float *out)
{
    size_t n = 0;

    for (size_t i = 0; i < ps_network_params(network); i++) {
        ck_assert_uint_le(n + param_elements(network, i), SLICE_ELEMENTS_MAX);
        memcpy(out + n, ps_network_gradients(network)[i], param_elements(network, i) * sizeof *out);
        n += param_elements(network, i);
    }
    return n;
}

/* Computes a slice in a fresh network, as a worker that only ever sees its own slices. */
static void
slice_alone(const struct kit_spec *spec, const struct ps_batch *slice, uint64_t draw, float *out)
{
    ps_network *network = network_make(cpu, spec);

    ps_network_initialize(network);
    ck_assert_int_eq(ps_network_gradient(network, slice, 3.0f / SLICE_ROWS, draw, NULL, NULL), PS_OK);
    copy_gradients(network, out);
    ps_network_free(network);
}

START_TEST(slices_in_one_process_have_the_bits_of_slices_in_many)
{
    static const size_t first[] = {0, 14, 27, SLICE_ROWS};
    static float x[SLICE_ROWS * SLICE_INPUTS], alone[SLICE_ELEMENTS_MAX], together[SLICE_ELEMENTS_MAX];
    struct test_rng rng = {test_seed()};
    const struct kit_spec *spec = &sliced[_i / 2];
    ps_network *network = network_make(_i % 2 == 0 ? cpu : &apart, spec);
    uint32_t labels[SLICE_ROWS];

    for (size_t i = 0; i < ARRAY_LEN(x); i++)
        x[i] = test_float(&rng);
    for (size_t i = 0; i < SLICE_ROWS; i++)
        labels[i] = (uint32_t)test_below(&rng, 6);
    ps_network_initialize(network);
    for (size_t s = 0; s + 1 < ARRAY_LEN(first); s++) {
        struct ps_batch slice = {
            .rows = first[s + 1] - first[s], .x = x + first[s] * SLICE_INPUTS, .labels = labels + first[s]};
        size_t elements;

        slice_alone(spec, &slice, s, alone);
        ck_assert_int_eq(ps_network_gradient(network, &slice, 3.0f / SLICE_ROWS, s, NULL, NULL), PS_OK);
        elements = copy_gradients(network, together);
        ck_assert_uint_eq(elements, ps_network_elements(network));
        ck_assert_int_eq(memcmp(alone, together, elements * sizeof *alone), 0);
    }
    ps_network_free(network);
}
END_TEST

START_TEST(a_slice_without_rows_has_a_gradient_of_zero)
{
    static float x[SLICE_INPUTS] = {1, 2, 3, 4}, gradients[SLICE_ELEMENTS_MAX];
    uint32_t label = 2;
    struct ps_batch one = {.rows = 1, .x = x, .labels = &label}, none = {0};
    struct ps_network_result result = {.rows = 9};
    ps_network *network = network_make(_i % 2 == 0 ? cpu : &apart, &sliced[_i / 2]);
    size_t n;

    ps_network_initialize(network);
    ck_assert_int_eq(ps_network_gradient(network, &one, 1, 0, NULL, NULL), PS_OK);
    n = copy_gradients(network, gradients);
    ck_assert(gradients[n - 1] != 0);
    ck_assert_int_eq(ps_network_gradient(network, &none, 1, 0, &result, NULL), PS_OK);
    ck_assert(result.rows == 0 && result.loss == 0 && result.correct == 0);
    n = copy_gradients(network, gradients);
    for (size_t i = 0; i < n; i++)
        ck_assert(gradients[i] == 0);
    ps_network_free(network);
}
END_TEST

/* ---- Dropout ---- */

static void
gradient_of_draw(ps_network *network, uint64_t draw)
{
    static const float x[4] = {1, 2, 3, 4};
    uint32_t label = 1;

    ck_assert_int_eq(
        ps_network_gradient(network, &(struct ps_batch){.rows = 1, .x = x, .labels = &label}, 1, draw, NULL, NULL),
        PS_OK);
}

/* 200 hidden units of which each is kept with 0.6: a draw's gradient is 0 where the unit is dropped. */
START_TEST(a_draw_can_be_had_again_and_others_differ)
{
    ps_network *network =
        network_make(cpu, &(struct kit_spec){.layers = "dense 200, dropout 0.4, dense 2", .dims = {4}, .seed = 5});
    float first[200];
    size_t dropped = 0, changed = 0;

    ps_network_initialize(network);
    gradient_of_draw(network, 9);
    memcpy(first, ps_network_gradients(network)[1], sizeof first);
    gradient_of_draw(network, 10);
    for (size_t i = 0; i < 200; i++) {
        dropped += first[i] == 0;
        changed += (first[i] == 0) != (ps_network_gradients(network)[1][i] == 0);
    }
    ck_assert(dropped > 50 && dropped < 110);
    ck_assert(changed > 60 && changed < 130);
    gradient_of_draw(network, 9);
    ck_assert_mem_eq(first, ps_network_gradients(network)[1], sizeof first);
    ps_network_free(network);
}
END_TEST

START_TEST(nothing_is_dropped_outside_of_training)
{
    const struct kit_spec with = {.layers = "dropout 0.5, dense 9, tanh, dropout 0.5, dense 3, dropout 0.5",
                                  .dims = {4}},
                          without = {.layers = "dense 9, tanh, dense 3", .dims = {4}};
    ps_network *dropping = network_make(cpu, &with), *plain = network_make(cpu, &without);
    static const float x[4] = {1, 2, 3, 4};
    struct ps_batch batch = {.rows = 1, .x = x};
    float a[3], b[3];

    ps_network_initialize(dropping);
    ps_network_initialize(plain);
    ck_assert_int_eq(ps_network_predict(dropping, &batch, a, NULL), PS_OK);
    ck_assert_int_eq(ps_network_predict(plain, &batch, b, NULL), PS_OK);
    ck_assert_mem_eq(a, b, sizeof a);
    ps_network_free(dropping);
    ps_network_free(plain);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("network_gradient");
    TCase *tc = tcase_create("network_gradient");

    tcase_add_checked_fixture(tc, network_setup, network_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, perceptrons_agree_with_numeric_differentiation, 0, 2);
    tcase_add_loop_test(tc, convolutional_networks_agree_with_numeric_differentiation, 0, 2);
    tcase_add_loop_test(tc, other_networks_agree_with_numeric_differentiation, 0, 2);
    tcase_add_loop_test(tc, slices_in_one_process_have_the_bits_of_slices_in_many, 0, 2 * ARRAY_LEN(sliced));
    tcase_add_loop_test(tc, a_slice_without_rows_has_a_gradient_of_zero, 0, 2 * ARRAY_LEN(sliced));
    tcase_add_test(tc, a_draw_can_be_had_again_and_others_differ);
    tcase_add_test(tc, nothing_is_dropped_outside_of_training);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
