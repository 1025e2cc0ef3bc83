/* Momentum: the weights have a velocity, and the gradient is a force.
 *
 *     v = momentum v - rate g        slot 0, from 0
 *     w = w + v
 *
 * Polyak, USSR Computational Mathematics 4, 1964; in this form Sutskever et al., ICML 2013, section 2. Keras: SGD with
 * momentum; 0.9 is what most use. */
OPTIMIZER_SLOTS(MOMENTUM, 1, 1);

struct momentum_step {
    float rate, momentum;
};

#ifdef OPTIMIZER_ROWS

static const struct optimizer_row momentum_row = {
    .source = "Polyak, USSR Computational Mathematics 4, 1964; Sutskever et al., ICML 2013",
    .parameters = {PARAMETER(learning_rate, AT_LEAST_0, 0.01), PARAMETER(momentum, AT_LEAST_0_BELOW_1, 0.9),
                   PARAMETER_L2, PARAMETER_WEIGHT_DECAY},
};

static void
momentum_prepare(const struct ps_optimizer *o, double rate, uint64_t version, struct momentum_step *s)
{
    (void)version;
    s->rate = (float)rate;
    s->momentum = (float)o->momentum;
}

#else

KERNEL_INLINE void
momentum_rule(const struct momentum_step *s, uint32_t slots, floats g, struct lanes *x)
{
    (void)slots;
    x->slot[0] = x->slot[0] * s->momentum - g * s->rate;
    x->weights += x->slot[0];
}

#endif
