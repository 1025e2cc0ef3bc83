/* Adadelta: steps as large as the steps before them, so that they have the weight's unit and need no rate.
 *
 *     a = rho a + (1 - rho) g^2      slot 0, from 0
 *     d = g sqrt(u + epsilon) / sqrt(a + epsilon)
 *     u = rho u + (1 - rho) d^2      slot 1, from 0
 *     w = w - rate d
 *
 * Zeiler, arXiv:1212.5701, 2012, algorithm 1, which is rate 1, rho 0.95, epsilon 1e-6. Defaults are those of Keras:
 * Adadelta(0.001, 0.95, 1e-7), so set the rate to 1 for the paper's; PyTorch has 1, 0.9, 1e-6. */
OPTIMIZER_SLOTS(ADADELTA, 2, 2);

struct adadelta_step {
    float rate, rho, one_minus_rho, epsilon;
};

#ifdef OPTIMIZER_ROWS

static const struct optimizer_row adadelta_row = {
    .source = "Zeiler, arXiv:1212.5701, 2012",
    .parameters = {PARAMETER(learning_rate, AT_LEAST_0, 0.001), PARAMETER(rho, AT_LEAST_0_BELOW_1, 0.95),
                   PARAMETER(epsilon, ABOVE_0, 1e-7), PARAMETER_L2, PARAMETER_WEIGHT_DECAY},
};

static void
adadelta_prepare(const struct ps_optimizer *o, double rate, uint64_t version, struct adadelta_step *s)
{
    (void)version;
    s->rate = (float)rate;
    s->rho = (float)o->rho;
    s->one_minus_rho = (float)(1 - o->rho);
    s->epsilon = (float)o->epsilon;
}

#else

KERNEL_INLINE void
adadelta_rule(const struct adadelta_step *s, uint32_t slots, floats g, struct lanes *x)
{
    floats move;

    (void)slots;
    x->slot[0] = x->slot[0] * s->rho + (g * g) * s->one_minus_rho;
    move = (g * square_root(x->slot[1] + s->epsilon)) / square_root(x->slot[0] + s->epsilon);
    x->slot[1] = x->slot[1] * s->rho + (move * move) * s->one_minus_rho;
    x->weights -= move * s->rate;
}

#endif
