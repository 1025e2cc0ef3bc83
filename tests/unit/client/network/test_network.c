/* Descriptions of networks: shapes and texts that are accepted or refused, with the sentence that says why; names and
 * first values of parameters; batches that do not fit. */
#include <math.h>

#include "tests/unit/client/network/network_kit.h"
#include "tests/unit/kits/comma_locale.h"

/* ---- Texts ---- */

START_TEST(texts_become_layers)
{
    struct ps_layer l[PS_LAYERS_MAX];
    size_t count;

    ck_assert_int_eq(
        ps_network_parse(" conv 16 5x3 no-bias same stride 2,\n\tmaxpool 2x1 ,avgpool, dense 10", l, &count, NULL),
        PS_OK);
    ck_assert_uint_eq(count, 4);
    ck_assert(l[0].kind == PS_LAYER_CONV2D && l[0].filters == 16 && l[0].kernel[0] == 5 && l[0].kernel[1] == 3);
    ck_assert(l[0].stride[0] == 2 && l[0].stride[1] == 2 && l[0].padding == PS_PAD_SAME && l[0].no_bias == 1);
    ck_assert(l[1].kind == PS_LAYER_MAX_POOL && l[1].kernel[0] == 2 && l[1].kernel[1] == 1 && l[1].stride[0] == 0);
    ck_assert(l[2].kind == PS_LAYER_AVG_POOL && l[2].kernel[0] == 0 && l[2].padding == PS_PAD_VALID);
    ck_assert(l[3].kind == PS_LAYER_DENSE && l[3].units == 10 && l[3].no_bias == 0);
}
END_TEST

START_TEST(mistakes_in_texts_are_named)
{
    static const struct {
        const char *text, *want;
    } bad[] = {
        {"", "layer 0 is empty"},
        {"dense 3,,relu", "layer 1 is empty"},
        {"dense 3, softmax", "layer 1: there is no layer \"softmax\"; layers are: dense, conv, maxpool"},
        {"dense", "layer 0: \"dense\" is not dense UNITS [no-bias]"},
        {"dense 0", "[no-bias]; UNITS is \"0\", and has to be a whole number from 1 to 2147483647"},
        {"dense", "[no-bias]; UNITS is missing"},
        {"dense:0", "layer 0: \"dense:0\": blanks are between a layer's words: dense UNITS [no-bias]"},
        {"relu, conv(16,3)", "layer 1: \"conv(16\": blanks are between a layer's words: conv FILTERS KERNEL"},
        {"desne 3", "; did you mean dense?"},
        {"conv 16 0", "; KERNEL is \"0\", and has to be N or HxW, whole numbers from 1 to 2147483647"},
        {"conv 16 3x0", "; KERNEL is \"3x0\", and has to be"},
        {"conv 0 3", "; FILTERS is \"0\", and has to be"},
        {"conv 16 3 stride 0", "; stride is \"0\", and has to be"},
        {"conv 16 3 stride", "; a value is missing after stride"},
        {"maxpool 0", "; KERNEL is \"0\", and has to be"},
        {"embedding 0 8", "; VOCABULARY is \"0\", and has to be"},
        {"embedding 100 0", "; WIDTH is \"0\", and has to be"},
        {"embedding 100", "; WIDTH is missing"},
        {"dropout half", "; RATE is \"half\", and has to be a number"},
        {"dense 3 no-bais", "; \"no-bais\" is more than it takes; did you mean no-bias?"},
        {"dense 4 relu", "\"dense 4 relu\" is not dense UNITS [no-bias]; is a comma missing before \"relu\"?"},
        {"relu dense 3", "layer 0: \"relu dense 3\" is not relu; is a comma missing before \"dense\"?"},
        {"dense -3", "is not dense UNITS"},
        {"dense 3.5", "is not dense UNITS"},
        {"dense 99999999999", "is not dense UNITS"},
        {"dense 4 5", "layer 0: \"dense 4 5\" is not dense UNITS"},
        {"dense 4 bias", "is not dense UNITS"},
        {"relu 3", "layer 0: \"relu 3\" is not relu"},
        {"relu, conv 16", "layer 1: \"conv 16\" is not conv FILTERS KERNEL [same] [stride HxW] [no-bias]"},
        {"conv 16 5x", "is not conv"},
        {"conv 16 x5", "is not conv"},
        {"conv 16 5x5x5", "is not conv"},
        {"conv 16 3 stride", "is not conv"},
        {"dropout", "is not dropout RATE"},
        {"dropout 0.5x", "is not dropout RATE"},
        {"embedding 100", "is not embedding VOCABULARY WIDTH"},
        {"maxpool 2 2", "is not maxpool [KERNEL] [same] [stride HxW]"},
        {"dense 111111111111111111111111111111111111111111111111111111111111111111111", "is not dense UNITS"},
    };
    struct ps_layer layers[PS_LAYERS_MAX];
    struct ps_error error;
    size_t count;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_int_eq(ps_network_parse(bad[i].text, layers, &count, &error), PS_ERR_INVALID);
        ck_assert_msg(strstr(error.text, bad[i].want) != NULL, "\"%s\" lacks \"%s\"", error.text, bad[i].want);
    }
    ck_assert_int_eq(ps_network_parse(NULL, layers, &count, &error), PS_ERR_INVALID);
}
END_TEST

START_TEST(a_text_has_at_most_as_many_layers_as_a_network)
{
    struct ps_layer layers[PS_LAYERS_MAX];
    char text[PS_LAYERS_MAX * 5 + 8] = "relu";
    size_t count;

    for (int i = 1; i < PS_LAYERS_MAX; i++)
        strcat(text, ",relu");
    ck_assert_int_eq(ps_network_parse(text, layers, &count, NULL), PS_OK);
    ck_assert_uint_eq(count, PS_LAYERS_MAX);
    strcat(text, ",relu");
    ck_assert_int_eq(ps_network_parse(text, layers, &count, NULL), PS_ERR_INVALID);
}
END_TEST

START_TEST(a_network_describes_itself_as_it_can_be_read)
{
    static const char text[] = "conv 16 5x3 same stride 2x2 no-bias, relu, maxpool 2x1, avgpool, flatten, "
                               "dropout 0.25, norm, dense 10";
    ps_network *network = network_make(cpu, &(struct kit_spec){.layers = text, .dims = {12, 9, 2}});
    char described[160], want[160];

    snprintf(want, sizeof want, "12x9x2: %s", text);
    ck_assert_str_eq(ps_network_describe(network, described, sizeof described), want);
    ck_assert_str_eq(ps_network_describe(network, described, 12), "12x9x2: con");
    ck_assert_str_eq(ps_network_describe(network, described, 1), "");
    ps_network_free(network);
}
END_TEST

START_TEST(a_decimal_comma_changes_nothing)
{
    ps_network *network;
    char described[64];

    if (!comma_locale())
        return;
    network = network_make(cpu, &(struct kit_spec){.layers = "dense 10, dropout 0.25", .dims = {3}});
    ck_assert_str_eq(ps_network_describe(network, described, sizeof described), "3: dense 10, dropout 0.25");
    ps_network_free(network);
}
END_TEST

/* ---- Networks that cannot be ---- */

START_TEST(impossible_layers_are_named)
{
    static const struct {
        struct kit_spec spec;
        enum ps_err err;
        const char *want;
    } bad[] = {
        {{.layers = "relu, conv 4 3x3", .dims = {5, 2, 1}}, PS_ERR_INVALID, "layer 1 (conv 4 3x3): "},
        {{.layers = "conv 4 3x3", .dims = {64}}, PS_ERR_INVALID, "layer 0 (conv 4 3x3): its input has no height"},
        {{.layers = "dense 9, maxpool 2", .dims = {8, 8, 1}},
         PS_ERR_INVALID,
         "layer 1 (maxpool 2x2): its input has no"},
        {{.layers = "conv 4 3x3, maxpool 9x1, dense 2", .dims = {9, 9, 1}}, PS_ERR_INVALID, "layer 1 (maxpool 9x1): "},
        {{.layers = "relu, embedding 5 2", .dims = {4}}, PS_ERR_INVALID, "it can only be the first layer"},
        {{.layers = "embedding 5 2", .dims = {4, 4}}, PS_ERR_INVALID, "layer 0 (embedding 5 2): its input is not"},
        {{.layers = "embedding 5 2, dropout 1", .dims = {4}}, PS_ERR_INVALID, "layer 1 (dropout 1): its rate"},
        {{.layers = "embedding 5 2, dropout 0.99999999", .dims = {4}},
         PS_ERR_INVALID,
         "layer 1 (dropout 0.99999999): "},
        {{.layers = "relu, tanh", .dims = {4}}, PS_ERR_INVALID, "no layer has parameters"},
        {{.layers = "conv 2147483647 1 same, dense 2", .dims = {2, 1, 1}},
         PS_ERR_LIMIT,
         "layer 0 (conv 2147483647 1x1 same): "},
        {{.layers = "dense 2", .dims = {65536, 65536}}, PS_ERR_LIMIT, "its input has more than"},
        {{.layers = "dense 2, dense 32768", .dims = {2}, .rows_max = 65536},
         PS_ERR_LIMIT,
         "layer 1 (dense 32768): its output has more than"},
        {{.layers = "dense 2147483647", .dims = {2147483647}, .rows_max = 1}, PS_ERR_NOMEM, "memory"},
    };
    ps_network *network = NULL;
    struct ps_error error;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_int_eq(network_try(cpu, &bad[i].spec, &network, &error), bad[i].err);
        ck_assert_int_eq(error.code, bad[i].err);
        ck_assert_msg(strstr(error.text, bad[i].want) != NULL, "\"%s\" lacks \"%s\"", error.text, bad[i].want);
        ck_assert_int_eq(network_try(cpu, &bad[i].spec, &network, NULL), bad[i].err);
    }
    ck_assert_ptr_null(network);
}
END_TEST

START_TEST(impossible_specs_are_refused)
{
    static const struct ps_layer dense = {.kind = PS_LAYER_DENSE, .units = 2},
                                 single = {.kind = PS_LAYER_DENSE, .units = 1}, none = {.kind = PS_LAYER_KINDS},
                                 empty = {.kind = PS_LAYER_DENSE}, flat = {.kind = PS_LAYER_CONV2D, .filters = 1};
    const struct ps_network_spec good = {.rank = 1, .dims = {3}, .layers = 1, .layer = &dense, .rows_max = 4};
    struct ps_network_spec bad[12];
    struct ps_network_spec *b = bad;
    ps_network *network = NULL;
    struct ps_error error;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        bad[i] = good;
    (b++)->rank = 0;
    (b++)->rank = 4;
    (b++)->dims[0] = 0;
    (b++)->layers = 0;
    (b++)->layers = PS_LAYERS_MAX + 1;
    (b++)->layer = NULL;
    (b++)->layer = &single;
    (b++)->layer = &none;
    (b++)->layer = &empty;
    (b++)->layer = &flat;
    (b++)->loss = (enum ps_loss)9;
    (b++)->rows_max = 0;
    ck_assert_uint_eq((size_t)(b - bad), ARRAY_LEN(bad));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_int_eq(ps_network_new(cpu, &bad[i], &network, &error), PS_ERR_INVALID);
        ck_assert_ptr_null(network);
    }
    ck_assert_int_eq(ps_network_new(NULL, &good, &network, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_network_new(cpu, &good, &network, &error), PS_OK);
    ps_network_free(network);
    ps_network_free(NULL);
}
END_TEST

/* ---- Parameters ---- */

START_TEST(parameters_are_named_shaped_and_seeded_by_layer)
{
    static const struct {
        const char *name;
        uint32_t rank;
        uint64_t dims[4];
        enum ps_init_kind init;
        uint64_t seed;
    } want[] = {
        {"norm0/gamma", 1, {1}, PS_INIT_ONES, 7},
        {"norm0/beta", 1, {1}, PS_INIT_ZEROS, 7},
        {"conv0/weights", 4, {5, 3, 1, 16}, PS_INIT_HE_UNIFORM, 8}, /* through the pool */
        {"conv0/bias", 1, {16}, PS_INIT_ZEROS, 8},
        {"conv1/weights", 4, {2, 2, 16, 4}, PS_INIT_GLOROT_UNIFORM, 9}, /* tanh is first */
        {"dense0/weights", 2, {24, 6}, PS_INIT_GLOROT_UNIFORM, 10},
        {"dense0/bias", 1, {6}, PS_INIT_ZEROS, 10},
        {"dense1/weights", 2, {6, 5}, PS_INIT_HE_UNIFORM, 11},
        {"norm1/gamma", 1, {5}, PS_INIT_ONES, 12},
        {"norm1/beta", 1, {5}, PS_INIT_ZEROS, 12},
        {"dense2/weights", 2, {5, 3}, PS_INIT_GLOROT_UNIFORM, 13},
        {"dense2/bias", 1, {3}, PS_INIT_ZEROS, 13},
    };
    ps_network *network = network_make(
        cpu,
        &(struct kit_spec){.layers = "norm, conv 16 5x3, maxpool 2, relu, conv 4 2x2 no-bias, tanh, relu, dense 6, "
                                     "dense 5 no-bias, dropout 0.1, norm, relu, dense 3",
                           .dims = {12, 9, 1},
                           .seed = 7});
    struct ps_var_spec spec;
    uint64_t elements = 0;

    ck_assert_uint_eq(ps_network_params(network), ARRAY_LEN(want));
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        ps_network_var_spec(network, i, &spec);
        ck_assert_str_eq(spec.name, want[i].name);
        ck_assert_uint_eq(spec.rank, want[i].rank);
        ck_assert_mem_eq(spec.dims, want[i].dims, sizeof want[i].dims);
        ck_assert_int_eq(spec.init.kind, want[i].init);
        ck_assert_uint_eq(spec.init.seed, want[i].seed);
        elements += param_elements(network, i);
    }
    ck_assert_uint_eq(ps_network_elements(network), elements);
    ck_assert_uint_eq(ps_network_inputs(network), 12 * 9);
    ck_assert_uint_eq(ps_network_outputs(network), 3);
    ps_network_free(network);
}
END_TEST

START_TEST(an_embedding_starts_small)
{
    ps_network *network =
        network_make(cpu, &(struct kit_spec){.layers = "embedding 50 8, dense 3", .dims = {6}, .seed = 4});
    struct ps_var_spec spec;

    ps_network_var_spec(network, 0, &spec);
    ck_assert_str_eq(spec.name, "embedding0/table");
    ck_assert(spec.rank == 2 && spec.dims[0] == 50 && spec.dims[1] == 8 && spec.init.kind == PS_INIT_UNIFORM);
    ps_network_initialize(network);
    for (size_t i = 0; i < 400; i++)
        ck_assert(fabsf(ps_network_values(network)[0][i]) <= 0.05f);
    ck_assert(ps_network_values(network)[0][0] != ps_network_values(network)[0][399]);
    ps_network_free(network);
}
END_TEST

START_TEST(first_values_have_the_spread_of_their_initializer)
{
    ps_network *network =
        network_make(cpu, &(struct kit_spec){.layers = "dense 128, relu, dense 10", .dims = {64}, .seed = 7});
    double square = 0, bound = sqrt(6.0 / 64);
    float largest = 0;

    ps_network_initialize(network);
    for (size_t i = 0; i < 64 * 128; i++) {
        float value = ps_network_values(network)[0][i];

        largest = fmaxf(largest, fabsf(value));
        square += (double)value * (double)value;
    }
    ck_assert_double_le((double)largest, bound * (1 + 1e-6));
    ck_assert_double_eq_tol(square / (64 * 128), bound * bound / 3, 0.05 * bound * bound / 3);
    ck_assert(ps_network_values(network)[1][0] == 0);
    ps_network_free(network);
}
END_TEST

/* ---- Batches ---- */

static void
assert_refused(enum ps_err err, const struct ps_error *error, const char *want)
{
    ck_assert_int_eq(err, PS_ERR_INVALID);
    ck_assert_msg(strstr(error->text, want) != NULL, "\"%s\" lacks \"%s\"", error->text, want);
}

START_TEST(batches_that_do_not_fit_are_refused)
{
    ps_network *network = network_make(cpu, &(struct kit_spec){.layers = "dense 3", .dims = {2}, .rows_max = 2});
    struct ps_network_result result;
    struct ps_error error;
    float x[8] = {0}, outputs[9];
    uint32_t labels[2] = {1, 3};
    struct ps_batch batch = {.rows = 2, .x = x, .labels = labels};

    assert_refused(ps_network_gradient(network, &batch, 1, 0, NULL, &error), &error, "label 3 of row 1");
    assert_refused(ps_network_evaluate(network, &batch, &result, &error), &error, "label 3 of row 1");
    batch.labels = NULL;
    assert_refused(ps_network_gradient(network, &batch, 1, 0, NULL, &error), &error, "no labels");
    ck_assert_int_eq(ps_network_predict(network, &batch, outputs, &error), PS_OK);
    batch.x = NULL;
    assert_refused(ps_network_predict(network, &batch, outputs, &error), &error, "no x");
    batch.rows = 3;
    assert_refused(ps_network_gradient(network, &batch, 1, 0, NULL, &error), &error, "3 rows");
    ps_network_free(network);
}
END_TEST

START_TEST(ids_and_targets_that_do_not_fit_are_refused)
{
    ps_network *network = network_make(
        cpu,
        &(struct kit_spec){.layers = "embedding 7 3, dense 2", .dims = {2}, .loss = PS_LOSS_SIGMOID, .rows_max = 2});
    struct ps_error error;
    float targets[4] = {0, 1, 0.5, 1.5f}, x[4] = {0};
    uint32_t ids[4] = {6, 0, 3, 7};
    struct ps_batch batch = {.rows = 2, .x = x, .targets = targets};

    assert_refused(ps_network_gradient(network, &batch, 1, 0, NULL, &error), &error, "no ids");
    batch.ids = ids;
    assert_refused(ps_network_gradient(network, &batch, 1, 0, NULL, &error), &error, "id 7 of row 1");
    ids[3] = 1;
    assert_refused(ps_network_gradient(network, &batch, 1, 0, NULL, &error), &error, "target 1 of row 1 is 1.5");
    targets[3] = (float)NAN;
    assert_refused(ps_network_gradient(network, &batch, 1, 0, NULL, &error), &error, "target 1 of row 1 is nan");
    batch.targets = NULL;
    assert_refused(ps_network_gradient(network, &batch, 1, 0, NULL, &error), &error, "no targets");
    ps_network_free(network);
}
END_TEST

START_TEST(a_device_apart_is_fed_by_uploads_and_downloads)
{
    ps_network *network = network_make(&apart, &(struct kit_spec){.layers = "dense 3, relu, dense 2", .dims = {2}});
    float x[4] = {1, 2, 3, 4};
    uint32_t labels[2] = {0, 1};

    ck_assert_int_eq(
        ps_network_gradient(network, &(struct ps_batch){.rows = 2, .x = x, .labels = labels}, 1, 0, NULL, NULL), PS_OK);
    ck_assert_uint_eq(uploads, 4 + 2);   /* parameters; rows and labels */
    ck_assert_uint_eq(downloads, 4 + 1); /* gradients; losses */
    ps_network_free(network);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("network");
    TCase *tc = tcase_create("network");

    tcase_add_checked_fixture(tc, network_setup, network_teardown);
    tcase_add_test(tc, texts_become_layers);
    tcase_add_test(tc, mistakes_in_texts_are_named);
    tcase_add_test(tc, a_text_has_at_most_as_many_layers_as_a_network);
    tcase_add_test(tc, a_network_describes_itself_as_it_can_be_read);
    tcase_add_test(tc, a_decimal_comma_changes_nothing);
    tcase_add_test(tc, impossible_layers_are_named);
    tcase_add_test(tc, impossible_specs_are_refused);
    tcase_add_test(tc, parameters_are_named_shaped_and_seeded_by_layer);
    tcase_add_test(tc, an_embedding_starts_small);
    tcase_add_test(tc, first_values_have_the_spread_of_their_initializer);
    tcase_add_test(tc, batches_that_do_not_fit_are_refused);
    tcase_add_test(tc, ids_and_targets_that_do_not_fit_are_refused);
    tcase_add_test(tc, a_device_apart_is_fed_by_uploads_and_downloads);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
