/* Nadam: Adam with Nesterov's look-ahead, and a momentum that grows towards beta1.
 *
 *     m = beta1 m + (1 - beta1) g    slot 0, from 0
 *     v = beta2 v + (1 - beta2) g^2  slot 1, from 0
 *     w = w - rate (mu(t+1) m / (1 - M(t+1)) + (1 - mu(t)) g / (1 - M(t))) / (sqrt(v / (1 - beta2^t)) + epsilon)
 *     mu(t) = beta1 (1 - 0.96^(t / 250) / 2),  M(t) = mu(1) mu(2) ... mu(t),  t the block's new version
 *
 * Dozat, "Incorporating Nesterov Momentum into Adam", ICLR workshop 2016, and PyTorch. Keras has 0.96^t, so that its mu
 * is beta1 after some hundred steps instead of some ten thousand. Defaults are those of Keras: Nadam(0.001, 0.9, 0.999,
 * 1e-7); PyTorch's rate is 0.002 and epsilon, as in the paper, 1e-8.
 *
 * M is computed from t alone and not kept: for long mu is about one half, so after some sixty factors M is so small
 * that 1 - M is 1. */
OPTIMIZER_SLOTS(NADAM, 2, 2);

struct nadam_step {
    float rate_mean, rate_now, beta1, beta2, one_minus_beta1, one_minus_beta2, correct_square, epsilon;
};

#ifdef OPTIMIZER_ROWS

static const struct optimizer_row nadam_row = {
    .source = "Dozat, ICLR workshop 2016",
    .parameters = {PARAMETER(learning_rate, AT_LEAST_0, 0.001), PARAMETER(beta1, AT_LEAST_0_BELOW_1, 0.9),
                   PARAMETER(beta2, AT_LEAST_0_BELOW_1, 0.999), PARAMETER(epsilon, ABOVE_0, 1e-7), PARAMETER_L2,
                   PARAMETER_WEIGHT_DECAY},
};

static double
nadam_momentum(const struct ps_optimizer *o, uint64_t t)
{
    return o->beta1 * (1 - 0.5 * power_of(0.9998367253526753, t)); /* 0.96^(1 / 250) */
}

static void
nadam_prepare(const struct ps_optimizer *o, double rate, uint64_t version, struct nadam_step *s)
{
    double now = nadam_momentum(o, version), next = nadam_momentum(o, version + 1), product = 1;

    for (uint64_t t = 1; t <= version && product > 0x1p-60; t++)
        product *= nadam_momentum(o, t);
    s->rate_mean = (float)(rate * next / (1 - product * next));
    s->rate_now = (float)(rate * (1 - now) / (1 - product));
    s->beta1 = (float)o->beta1;
    s->beta2 = (float)o->beta2;
    s->one_minus_beta1 = (float)(1 - o->beta1);
    s->one_minus_beta2 = (float)(1 - o->beta2);
    s->correct_square = (float)(1 / (1 - power_of(o->beta2, version)));
    s->epsilon = (float)o->epsilon;
}

#else

KERNEL_INLINE void
nadam_rule(const struct nadam_step *s, uint32_t slots, floats g, struct lanes *x)
{
    (void)slots;
    x->slot[0] = x->slot[0] * s->beta1 + g * s->one_minus_beta1;
    x->slot[1] = x->slot[1] * s->beta2 + (g * g) * s->one_minus_beta2;
    x->weights -=
        (x->slot[0] * s->rate_mean + g * s->rate_now) / (square_root(x->slot[1] * s->correct_square) + s->epsilon);
}

#endif
