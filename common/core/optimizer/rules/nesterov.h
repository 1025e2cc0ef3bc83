/* Nesterov's momentum: the velocity of momentum.h, but the weights kept are those at which the gradient is taken, one
 * look-ahead on.
 *
 *     v = momentum v - rate g        slot 0, from 0
 *     w = w + momentum v - rate g
 *
 * Nesterov, Soviet Mathematics Doklady 27, 1983; Sutskever et al., ICML 2013; in this form Bengio et al., ICASSP 2013,
 * section 3.5. Keras: SGD(momentum, nesterov=True). */
OPTIMIZER_SLOTS(NESTEROV, 1, 1);

struct nesterov_step {
    float rate, momentum;
};

#ifdef OPTIMIZER_ROWS

static const struct optimizer_row nesterov_row = {
    .source = "Nesterov, Soviet Mathematics Doklady 27, 1983; Sutskever et al., ICML 2013",
    .parameters = {PARAMETER(learning_rate, AT_LEAST_0, 0.01), PARAMETER(momentum, AT_LEAST_0_BELOW_1, 0.9),
                   PARAMETER_L2, PARAMETER_WEIGHT_DECAY},
};

static void
nesterov_prepare(const struct ps_optimizer *o, double rate, uint64_t version, struct nesterov_step *s)
{
    (void)version;
    s->rate = (float)rate;
    s->momentum = (float)o->momentum;
}

#else

KERNEL_INLINE void
nesterov_rule(const struct nesterov_step *s, uint32_t slots, floats g, struct lanes *x)
{
    floats move = g * s->rate;

    (void)slots;
    x->slot[0] = x->slot[0] * s->momentum - move;
    x->weights += x->slot[0] * s->momentum - move;
}

#endif
