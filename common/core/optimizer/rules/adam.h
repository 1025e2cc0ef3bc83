/* Adam: a running mean of gradients over the root of a running mean of their squares.
 *
 *     m = beta1 m + (1 - beta1) g    slot 0, from 0
 *     v = beta2 v + (1 - beta2) g^2  slot 1, from 0
 *     w = w - rate_t m / (sqrt(v) + epsilon)
 *     rate_t = rate sqrt(1 - beta2^t) / (1 - beta1^t), t the block's new version
 *
 * m and v start at 0 and so are too small by 1 - beta^t. Dividing each by its own is, but for epsilon's weight, the one
 * factor in rate_t: Kingma and Ba, ICLR 2015, end of section 2, where epsilon is epsilon-hat. Keras computes the same;
 * PyTorch corrects m and v themselves. Defaults are those of Keras: Adam(0.001, 0.9, 0.999, 1e-7); the paper's epsilon
 * is 1e-8. */
OPTIMIZER_SLOTS(ADAM, 2, 2);

struct adam_step {
    float rate, beta1, beta2, one_minus_beta1, one_minus_beta2, epsilon;
};

#ifdef OPTIMIZER_ROWS

static const struct optimizer_row adam_row = {
    .source = "Kingma and Ba, ICLR 2015",
    .parameters = {PARAMETER(learning_rate, AT_LEAST_0, 0.001), PARAMETER(beta1, AT_LEAST_0_BELOW_1, 0.9),
                   PARAMETER(beta2, AT_LEAST_0_BELOW_1, 0.999), PARAMETER(epsilon, ABOVE_0, 1e-7), PARAMETER_L2,
                   PARAMETER_WEIGHT_DECAY},
};

static void
adam_prepare(const struct ps_optimizer *o, double rate, uint64_t version, struct adam_step *s)
{
    double mean = 1 - power_of(o->beta1, version), square = 1 - power_of(o->beta2, version);

    s->rate = (float)(rate * sqrt(square) / mean);
    s->beta1 = (float)o->beta1;
    s->beta2 = (float)o->beta2;
    s->one_minus_beta1 = (float)(1 - o->beta1);
    s->one_minus_beta2 = (float)(1 - o->beta2);
    s->epsilon = (float)o->epsilon;
}

#else

KERNEL_INLINE void
adam_rule(const struct adam_step *s, uint32_t slots, floats g, struct lanes *x)
{
    (void)slots;
    x->slot[0] = x->slot[0] * s->beta1 + g * s->one_minus_beta1;
    x->slot[1] = x->slot[1] * s->beta2 + (g * g) * s->one_minus_beta2;
    x->weights -= (x->slot[0] * s->rate) / (square_root(x->slot[1]) + s->epsilon);
}

#endif
