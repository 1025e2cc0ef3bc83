/* SGD: stochastic gradient descent.
 *
 *     w = w - rate g
 *
 * Robbins and Monro, Annals of Mathematical Statistics 22, 1951. Keras: SGD(0.01). */
OPTIMIZER_SLOTS(SGD, 0, 0);

struct sgd_step {
    float rate;
};

#ifdef OPTIMIZER_ROWS

static const struct optimizer_row sgd_row = {
    .source = "Robbins and Monro, Annals of Mathematical Statistics 22, 1951",
    .parameters = {PARAMETER(learning_rate, AT_LEAST_0, 0.01), PARAMETER_L2, PARAMETER_WEIGHT_DECAY},
};

static void
sgd_prepare(const struct ps_optimizer *o, double rate, uint64_t version, struct sgd_step *s)
{
    (void)o;
    (void)version;
    s->rate = (float)rate;
}

#else

KERNEL_INLINE void
sgd_rule(const struct sgd_step *s, uint32_t slots, floats g, struct lanes *x)
{
    (void)slots;
    x->weights -= g * s->rate;
}

#endif
