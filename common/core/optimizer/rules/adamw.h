/* AdamW: Adam with decoupled weight decay, w = w - rate weight_decay w, before Adam's own step (adam.h).
 *
 * Loshchilov and Hutter, ICLR 2019, algorithm 2. Every optimizer but FTRL can decay weights like this; this one does
 * unless it is told not to. Defaults are those of Keras: AdamW(0.001, weight_decay 0.004); PyTorch's decay is 0.01. */
OPTIMIZER_SLOTS(ADAMW, 2, 2);

struct adamw_step {
    struct adam_step adam;
};

#ifdef OPTIMIZER_ROWS

static const struct optimizer_row adamw_row = {
    .source = "Loshchilov and Hutter, ICLR 2019",
    .parameters = {PARAMETER(learning_rate, AT_LEAST_0, 0.001), PARAMETER(beta1, AT_LEAST_0_BELOW_1, 0.9),
                   PARAMETER(beta2, AT_LEAST_0_BELOW_1, 0.999), PARAMETER(epsilon, ABOVE_0, 1e-7),
                   PARAMETER(weight_decay, AT_LEAST_0, 0.004), PARAMETER_L2},
};

static void
adamw_prepare(const struct ps_optimizer *o, double rate, uint64_t version, struct adamw_step *s)
{
    adam_prepare(o, rate, version, &s->adam);
}

#else

KERNEL_INLINE void
adamw_rule(const struct adamw_step *s, uint32_t slots, floats g, struct lanes *x)
{
    adam_rule(&s->adam, slots, g, x);
}

#endif
