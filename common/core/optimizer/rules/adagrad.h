/* Adagrad: every weight has its own rate, which falls with the gradients that it has seen.
 *
 *     a = a + g^2                    slot 0, from initial_accumulator
 *     w = w - rate g / (sqrt(a) + epsilon)
 *
 * Duchi, Hazan and Singer, JMLR 12, 2011, figure 1, diagonal. Start and epsilon are those of Keras: 0.1, 1e-7;
 * the rate is PyTorch's 0.01, Keras has 0.001. Epsilon stands outside the root as in PyTorch; Keras adds it inside. */
OPTIMIZER_SLOTS(ADAGRAD, 1, 1);

struct adagrad_step {
    float rate, epsilon;
};

#ifdef OPTIMIZER_ROWS

static float
adagrad_slot_start(const struct ps_optimizer *o, uint32_t slot)
{
    (void)slot;
    return (float)o->initial_accumulator;
}

static const struct optimizer_row adagrad_row = {
    .source = "Duchi, Hazan and Singer, JMLR 12, 2011",
    .parameters = {PARAMETER(learning_rate, AT_LEAST_0, 0.01), PARAMETER(initial_accumulator, AT_LEAST_0, 0.1),
                   PARAMETER(epsilon, ABOVE_0, 1e-7), PARAMETER_L2, PARAMETER_WEIGHT_DECAY},
    .slot_start = adagrad_slot_start,
};

static void
adagrad_prepare(const struct ps_optimizer *o, double rate, uint64_t version, struct adagrad_step *s)
{
    (void)version;
    s->rate = (float)rate;
    s->epsilon = (float)o->epsilon;
}

#else

KERNEL_INLINE void
adagrad_rule(const struct adagrad_step *s, uint32_t slots, floats g, struct lanes *x)
{
    (void)slots;
    x->slot[0] += g * g;
    x->weights -= (g * s->rate) / (square_root(x->slot[0]) + s->epsilon);
}

#endif
