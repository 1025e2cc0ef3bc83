/* Gradients are reported while the backward pass goes on: each once, from the last to the first, complete and unchanged
 * from then on; and networks read and write where the program says. */
#include "tests/unit/client/network/network_kit.h"

enum { ROWS_MAX = 7, INPUTS_MAX = 64, OUTPUTS_MAX = 8, FLOATS_MAX = 8192 };

static const struct kit_spec specs[] = {
    {"dense 5", .dims = {9}},
    {"flatten, dense 33 no-bias, relu, norm, dense 6", .dims = {4, 4}, .loss = PS_LOSS_SIGMOID},
    {"tanh, conv 3 3x3 same, norm, relu, maxpool 2, dropout 0.25, dense 7, gelu, dense 4", .dims = {6, 6, 1},
     .seed = 5},
    {"embedding 11 4, avgpool, sigmoid, dense 3", .dims = {6}},
};

/* A network with a random batch, and its reports. */
struct ready_listener {
    ps_network *network;
    struct ps_batch batch;
    float x[ROWS_MAX * INPUTS_MAX], targets[ROWS_MAX * OUTPUTS_MAX];
    uint32_t ids[ROWS_MAX * INPUTS_MAX], labels[ROWS_MAX];

    size_t order[32], told;
    float at_call[FLOATS_MAX]; /* of each gradient when it was reported */
    bool spoil;                /* overwrite it then, as a sum that comes in its place would */
};

/* Where parameter i begins when all lie behind each other, each at a boundary. */
static size_t
place_of(const ps_network *network, size_t i)
{
    size_t at = 0;

    while (i-- > 0)
        at += round_up(param_elements(network, i), 16);
    return at;
}

static void
ready_listen(void *arg, size_t i)
{
    struct ready_listener *l = arg;
    float *gradient = (float *)(uintptr_t)ps_network_gradients(l->network)[i];
    size_t elements = param_elements(l->network, i);

    ck_assert_uint_lt(l->told, ARRAY_LEN(l->order));
    l->order[l->told++] = i;
    memcpy(l->at_call + place_of(l->network, i), gradient, elements * sizeof *gradient);
    for (size_t k = 0; l->spoil && k < elements; k++)
        gradient[k] = 12345;
}

static void
listener_start(struct ready_listener *l, ps_device *device, const struct kit_spec *spec, size_t rows)
{
    struct test_rng rng = {99};
    size_t outputs;

    memset(l, 0, sizeof *l);
    l->network = network_make(device, spec);
    outputs = ps_network_outputs(l->network);
    ck_assert(ps_network_inputs(l->network) <= INPUTS_MAX && outputs <= OUTPUTS_MAX && rows <= ROWS_MAX);
    for (size_t i = 0; i < ARRAY_LEN(l->x); i++) {
        l->x[i] = test_float(&rng);
        l->ids[i] = (uint32_t)test_below(&rng, 11);
    }
    for (size_t i = 0; i < ARRAY_LEN(l->targets); i++)
        l->targets[i] = (float)test_below(&rng, 2);
    for (size_t r = 0; r < ROWS_MAX; r++)
        l->labels[r] = (uint32_t)test_below(&rng, outputs);
    l->batch = (struct ps_batch){rows, l->x, l->ids, l->labels, l->targets};
    ps_network_initialize(l->network);
}

static void
run_step(struct ready_listener *l)
{
    l->told = 0;
    ck_assert_int_eq(ps_network_gradient(l->network, &l->batch, 0.5f, 3, NULL, NULL), PS_OK);
}

/* The gradients of the same step in a network without a callback. */
static void
check_gradients(const struct ready_listener *l, const struct kit_spec *spec, const float *got)
{
    ps_network *alone = network_make(cpu, spec);

    ps_network_initialize(alone);
    ck_assert_int_eq(ps_network_gradient(alone, &l->batch, 0.5f, 3, NULL, NULL), PS_OK);
    for (size_t i = 0; i < ps_network_params(alone); i++)
        ck_assert_mem_eq(got + place_of(alone, i), ps_network_gradients(alone)[i],
                         param_elements(alone, i) * sizeof(float));
    ps_network_free(alone);
}

START_TEST(every_gradient_is_told_of_once_when_it_is_whole_the_last_first)
{
    const struct kit_spec *spec = &specs[_i % (int)ARRAY_LEN(specs)];
    bool is_apart = _i / (int)ARRAY_LEN(specs) > 0;
    static struct ready_listener l;
    size_t params, before;

    listener_start(&l, is_apart ? &apart : cpu, spec, 7);
    params = ps_network_params(l.network);
    ps_network_on_ready(l.network, ready_listen, &l);
    for (int step = 0; step < 2; step++) {
        l.spoil = step == 1;
        before = downloads;
        run_step(&l);
        ck_assert_uint_eq(l.told, params);
        for (size_t i = 0; i < params; i++)
            ck_assert_uint_eq(l.order[i], params - 1 - i);
        check_gradients(&l, spec, l.at_call);
        if (is_apart)
            ck_assert_uint_le(downloads - before, params + 2); /* none of them twice */
    }
    for (size_t i = 0; i < params; i++)
        for (size_t k = 0; k < param_elements(l.network, i); k++)
            ck_assert_msg(ps_network_gradients(l.network)[i][k] == 12345, "gradient %zu was written after the call", i);
    ps_network_free(l.network);
}
END_TEST

START_TEST(a_batch_without_rows_has_gradients_of_0_to_tell_of)
{
    static struct ready_listener l;

    listener_start(&l, _i == 0 ? cpu : &apart, &specs[2], 0);
    ps_network_on_ready(l.network, ready_listen, &l);
    memset(l.at_call, 1, sizeof l.at_call);
    run_step(&l);
    ck_assert_uint_eq(l.told, ps_network_params(l.network));
    check_gradients(&l, &specs[2], l.at_call);
    ps_network_free(l.network);
}
END_TEST

START_TEST(a_batch_that_is_refused_is_not_told_of)
{
    static struct ready_listener l;

    listener_start(&l, cpu, &specs[0], 3);
    ps_network_on_ready(l.network, ready_listen, &l);
    l.labels[2] = 99;
    ck_assert_int_eq(ps_network_gradient(l.network, &l.batch, 1, 0, NULL, NULL), PS_ERR_INVALID);
    ck_assert_uint_eq(l.told, 0);
    ps_network_free(l.network);
}
END_TEST

START_TEST(nobody_is_told_any_more_once_nobody_listens)
{
    static struct ready_listener l;

    listener_start(&l, cpu, &specs[0], 3);
    ps_network_on_ready(l.network, ready_listen, &l);
    run_step(&l);
    ck_assert_uint_eq(l.told, 2);
    ps_network_on_ready(l.network, NULL, NULL);
    run_step(&l);
    ck_assert_uint_eq(l.told, 0);
    ps_network_free(l.network);
}
END_TEST

/* ---- Places ---- */

/* Lists of pointers into one area, parameter by parameter. */
static void
ready_cut(const ps_network *network, float *area, float **places)
{
    for (size_t i = 0; i < ps_network_params(network); i++)
        places[i] = area + place_of(network, i);
    ck_assert_uint_le(place_of(network, ps_network_params(network)), FLOATS_MAX);
}

START_TEST(values_are_read_and_gradients_written_where_they_are_placed)
{
    const struct kit_spec *spec = &specs[_i % (int)ARRAY_LEN(specs)];
    static _Alignas(64) float values[FLOATS_MAX], gradients[FLOATS_MAX];
    static struct ready_listener l;
    float *value[32], *gradient[32], *own;
    size_t params;

    listener_start(&l, _i < (int)ARRAY_LEN(specs) ? cpu : &apart, spec, 7);
    params = ps_network_params(l.network);
    own = ps_network_values(l.network)[0];
    ready_cut(l.network, values, value);
    ready_cut(l.network, gradients, gradient);
    for (size_t i = 0; i < params; i++)
        memcpy(value[i], ps_network_values(l.network)[i], param_elements(l.network, i) * sizeof(float));
    for (size_t i = 0; i < params; i++) /* nothing reads them now */
        memset(ps_network_values(l.network)[i], 0xff, param_elements(l.network, i) * sizeof(float));
    ps_network_place(l.network, value, gradient);
    for (size_t i = 0; i < params; i++)
        ck_assert(ps_network_values(l.network)[i] == value[i] && ps_network_gradients(l.network)[i] == gradient[i]);
    run_step(&l);
    check_gradients(&l, spec, gradients);
    ps_network_place(l.network, NULL, gradient);
    ck_assert_ptr_eq(ps_network_values(l.network)[0], own);
    ps_network_initialize(l.network);
    memset(gradients, 0xff, sizeof gradients);
    memset(values, 0xff, sizeof values);
    run_step(&l);
    check_gradients(&l, spec, gradients);
    ps_network_free(l.network);
}
END_TEST

START_TEST(two_networks_may_read_the_same_values)
{
    static _Alignas(64) float values[FLOATS_MAX];
    static struct ready_listener a, b;
    float *value[32];

    listener_start(&a, cpu, &specs[2], 7);
    listener_start(&b, &apart, &specs[2], 7);
    ready_cut(a.network, values, value);
    ps_network_place(a.network, value, NULL);
    ps_network_place(b.network, value, NULL);
    ps_network_initialize(a.network);
    run_step(&a);
    run_step(&b);
    for (size_t i = 0; i < ps_network_params(a.network); i++)
        ck_assert_mem_eq(ps_network_gradients(a.network)[i], ps_network_gradients(b.network)[i],
                         param_elements(a.network, i) * sizeof(float));
    ps_network_free(a.network);
    ps_network_free(b.network);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("network_ready");
    TCase *tc = tcase_create("network_ready");

    tcase_add_checked_fixture(tc, network_setup, network_teardown);
    tcase_add_loop_test(tc, every_gradient_is_told_of_once_when_it_is_whole_the_last_first, 0, 2 * ARRAY_LEN(specs));
    tcase_add_loop_test(tc, a_batch_without_rows_has_gradients_of_0_to_tell_of, 0, 2);
    tcase_add_test(tc, a_batch_that_is_refused_is_not_told_of);
    tcase_add_test(tc, nobody_is_told_any_more_once_nobody_listens);
    tcase_add_loop_test(tc, values_are_read_and_gradients_written_where_they_are_placed, 0, 2 * ARRAY_LEN(specs));
    tcase_add_test(tc, two_networks_may_read_the_same_values);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
