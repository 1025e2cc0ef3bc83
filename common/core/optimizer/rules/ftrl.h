/* FTRL-proximal: Adagrad's rates with an L1 penalty that makes weights exactly 0.
 *
 *     p = -learning_rate_power, 1/2 in the paper
 *     n' = n + g^2                   slot 0, from initial_accumulator
 *     z = z + g - (n'^p - n^p) / rate * w        slot 1, from 0
 *     w = 0                                      where |z| <= l1
 *     w = (sign(z) l1 - z) / ((beta + n'^p) / rate + 2 l2)      elsewhere
 *
 * McMahan et al., KDD 2013, algorithm 1; there lambda 2 stands where TensorFlow, and so this, has 2 l2. Defaults are
 * those of Keras: Ftrl(0.001, power -0.5, accumulator 0.1, l1, l2 and beta 0). Weights follow from z and n alone, so
 * first values live until the first update, and a learning rate that is changed scales all weights: no schedule.
 *
 * Weights that are assigned stay: z becomes the one from which they follow, with n as it is. */
OPTIMIZER_SLOTS(FTRL, 2, 2);

struct ftrl_step {
    float one_over_rate, rest, l1, power; /* rest: beta / rate + 2 l2 */
};

#ifdef OPTIMIZER_ROWS

static float
ftrl_slot_start(const struct ps_optimizer *o, uint32_t slot)
{
    return slot == 0 ? (float)o->initial_accumulator : 0;
}

/* Or a weight that has seen no gradient is 0 / 0: in float32, which is what the rule works in. */
static enum ps_err
ftrl_check(const struct ps_optimizer *o, struct ps_error *e)
{
    bool nothing = (float)o->initial_accumulator == 0 && (float)o->beta == 0 && (float)o->l2 == 0;

    if (nothing && o->learning_rate_power != 0)
        return ps_fail(e, PS_ERR_INVALID, "optimizer ftrl: one of initial_accumulator, beta and l2 must be above 0");
    return PS_OK;
}

/* The rule's last line, solved for z. Of a weight from which a z beyond all floats would follow, z is the largest. */
static void
ftrl_follow(const struct ps_optimizer *o, size_t n, const struct optimizer_arrays *arrays)
{
    double rest = o->beta / o->learning_rate + 2 * o->l2;

    for (size_t i = 0; i < n; i++) {
        double w = (double)arrays->weights[i],
               power = elementary_power((double)arrays->slot[0][i], -o->learning_rate_power);
        double z = -w * (power / o->learning_rate + rest);

        z = w > 0 ? z - o->l1 : w < 0 ? z + o->l1 : 0;
        arrays->slot[1][i] = (float)fmax(-(double)FLT_MAX, fmin((double)FLT_MAX, z));
    }
}

static const struct optimizer_row ftrl_row = {
    .source = "McMahan et al., KDD 2013",
    .parameters = {PARAMETER(learning_rate, ABOVE_0, 0.001), PARAMETER(learning_rate_power, AT_MOST_0, -0.5),
                   PARAMETER(initial_accumulator, AT_LEAST_0, 0.1), PARAMETER(l1, AT_LEAST_0, 0),
                   PARAMETER(l2, AT_LEAST_0, 0), PARAMETER(beta, AT_LEAST_0, 0)},
    .slot_start = ftrl_slot_start,
    .follow = ftrl_follow,
    .check = ftrl_check,
    .own_l2 = true,
    .fixed_rate = true,
};

static void
ftrl_prepare(const struct ps_optimizer *o, double rate, uint64_t version, struct ftrl_step *s)
{
    (void)version;
    s->one_over_rate = (float)(1 / rate);
    s->rest = (float)(o->beta / rate + 2 * o->l2);
    s->l1 = (float)o->l1;
    s->power = (float)-o->learning_rate_power;
}

#else

/* The root is one instruction; other powers go element by element, in double. */
KERNEL_INLINE floats
ftrl_power(const struct ftrl_step *s, floats n)
{
    return s->power == 0.5f ? square_root(n) : raise_lanes(n, s->power);
}

KERNEL_INLINE void
ftrl_rule(const struct ftrl_step *s, uint32_t slots, floats g, struct lanes *x)
{
    floats before = ftrl_power(s, x->slot[0]), after;

    (void)slots;
    x->slot[0] += g * g;
    after = ftrl_power(s, x->slot[0]);
    x->slot[1] += g - (after - before) * s->one_over_rate * x->weights;
    x->weights = (clamp(x->slot[1], s->l1) - x->slot[1]) / (after * s->one_over_rate + s->rest);
}

#endif
