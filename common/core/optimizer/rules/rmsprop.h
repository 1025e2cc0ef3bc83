/* RMSProp: the gradient over the root of a running mean of its squares.
 *
 *     a = rho a + (1 - rho) g^2      slot 0, from 0
 *     w = w - rate g / sqrt(a + epsilon)
 *
 * and with momentum, which needs a second slot,
 *
 *     v = momentum v + rate g / sqrt(a + epsilon)      slot 1, from 0
 *     w = w - v
 *
 * Tieleman and Hinton, Neural Networks for Machine Learning (Coursera), lecture 6.5, 2012, without epsilon and
 * momentum, which are TensorFlow's. Defaults are those of Keras: RMSprop(0.001, 0.9, momentum 0, 1e-7). PyTorch has
 * epsilon outside the root and the rate outside the momentum, and 0.01, 0.99, 1e-8. */
OPTIMIZER_SLOTS(RMSPROP, 1, 2);

struct rmsprop_step {
    float rate, rho, one_minus_rho, momentum, epsilon;
};

#ifdef OPTIMIZER_ROWS

static uint32_t
rmsprop_slots(const struct ps_optimizer *o)
{
    return o->momentum > 0 ? 2 : 1;
}

static const struct optimizer_row rmsprop_row = {
    .source = "Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5, 2012",
    .parameters = {PARAMETER(learning_rate, AT_LEAST_0, 0.001), PARAMETER(rho, AT_LEAST_0_BELOW_1, 0.9),
                   PARAMETER(momentum, AT_LEAST_0_BELOW_1, 0), PARAMETER(epsilon, ABOVE_0, 1e-7), PARAMETER_L2,
                   PARAMETER_WEIGHT_DECAY},
    .slots = rmsprop_slots,
};

static void
rmsprop_prepare(const struct ps_optimizer *o, double rate, uint64_t version, struct rmsprop_step *s)
{
    (void)version;
    s->rate = (float)rate;
    s->rho = (float)o->rho;
    s->one_minus_rho = (float)(1 - o->rho);
    s->momentum = (float)o->momentum;
    s->epsilon = (float)o->epsilon;
}

#else

KERNEL_INLINE void
rmsprop_rule(const struct rmsprop_step *s, uint32_t slots, floats g, struct lanes *x)
{
    floats move;

    x->slot[0] = x->slot[0] * s->rho + (g * g) * s->one_minus_rho;
    move = (g * s->rate) / square_root(x->slot[0] + s->epsilon);
    if (slots == 2)
        move = x->slot[1] = x->slot[1] * s->momentum + move;
    x->weights -= move;
}

#endif
