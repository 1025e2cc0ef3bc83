#include "tests/unit/client/strategy/strategy_kit.h"

const struct kit_spec strategy_spec = {.layers = "dense 31, relu, dropout 0.1, dense 17 no-bias, tanh, dense 5",
                                       .dims = {KIT_INPUTS},
                                       .rows_max = KIT_BATCH,
                                       .seed = 3};
float strategy_x[KIT_ROWS * KIT_INPUTS];
uint32_t strategy_labels[KIT_ROWS];

static void
strategy_fine(enum ps_err err, const struct ps_error *e)
{
    if (err != PS_OK)
        ck_abort_msg("%s", e->text);
}

void
strategy_examples(struct test_rng *rng)
{
    for (size_t i = 0; i < ARRAY_LEN(strategy_x); i++)
        strategy_x[i] = test_float(rng);
    for (size_t i = 0; i < KIT_ROWS; i++)
        strategy_labels[i] = (uint32_t)test_below(rng, KIT_CLASSES);
}

/* The parameters as variables that no network was bound to. */
static void
strategy_place_on_host(ps_strategy *s, ps_network *const networks[], const struct ps_optimizer *optimizer)
{
    struct ps_var_spec v;
    struct ps_error e;

    for (size_t i = 0; i < ps_network_params(networks[0]); i++) {
        ps_network_var_spec(networks[0], i, &v);
        v.optimizer = *optimizer;
        strategy_fine(ps_strategy_variable(s, &v, &e), &e);
    }
    for (uint32_t k = 0; k < ps_strategy_replicas(s); k++)
        ps_network_place(networks[k], ps_strategy_values(s, k), ps_strategy_gradients(s, k));
}

void
strategy_networks_make(ps_strategy *s, ps_network *networks[], const struct ps_optimizer *optimizer, bool on_host)
{
    struct ps_error e;

    for (uint32_t k = 0; k < ps_strategy_replicas(s); k++)
        networks[k] = network_make(ps_strategy_device(s, k), &strategy_spec);
    if (on_host)
        strategy_place_on_host(s, networks, optimizer);
    else
        strategy_fine(ps_strategy_networks(s, networks, "", optimizer, &e), &e);
}

size_t
strategy_values(const ps_strategy *s, const ps_network *network, float out[KIT_FLOATS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < ps_network_params(network); i++) {
        size_t elements = param_elements(network, i);

        ck_assert_uint_le(n + elements, KIT_FLOATS_MAX);
        memcpy(out + n, ps_strategy_values(s, 0)[i], elements * sizeof *out);
        n += elements;
    }
    return n;
}

double
strategy_loss(ps_network *network)
{
    struct ps_batch batch = {.rows = KIT_BATCH, .x = strategy_x, .labels = strategy_labels};
    struct ps_network_result result;
    struct ps_error e;

    strategy_fine(ps_network_evaluate(network, &batch, &result, &e), &e);
    return result.loss;
}

void
strategy_end(ps_strategy *s, ps_network *const networks[])
{
    for (uint32_t k = 0; k < ps_strategy_replicas(s); k++)
        ps_network_free(networks[k]);
    ps_strategy_close(s);
}
