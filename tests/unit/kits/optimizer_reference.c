/* Each optimizer as its paper or framework writes it. */
#include "tests/unit/kits/optimizer_kit.h"

static double
nadam_mu(const struct ps_optimizer *o, double t)
{
    return o->beta1 * (1 - 0.5 * pow(0.96, t / 250));
}

static double
nadam_product(const struct ps_optimizer *o, double t)
{
    double product = 1;

    for (double i = 1; i <= fmin(t, 2000); i++) /* it is 0 long before */
        product *= nadam_mu(o, i);
    return product;
}

static void
adam_means(const struct ps_optimizer *o, double g, double a[1 + LAYOUT_SLOTS_MAX])
{
    a[1] = o->beta1 * a[1] + (1 - o->beta1) * g;
    a[2] = o->beta2 * a[2] + (1 - o->beta2) * g * g;
}

static void
optimizer_reference_rmsprop(const struct ps_optimizer *o, double lr, double g, double a[1 + LAYOUT_SLOTS_MAX])
{
    a[1] = o->rho * a[1] + (1 - o->rho) * g * g;
    if (o->momentum == 0) {
        a[0] -= lr * g / sqrt(a[1] + o->epsilon);
        return;
    }
    a[2] = o->momentum * a[2] + lr * g / sqrt(a[1] + o->epsilon);
    a[0] -= a[2];
}

static void
optimizer_reference_adadelta(const struct ps_optimizer *o, double lr, double g, double a[1 + LAYOUT_SLOTS_MAX])
{
    double move;

    a[1] = o->rho * a[1] + (1 - o->rho) * g * g;
    move = sqrt(a[2] + o->epsilon) / sqrt(a[1] + o->epsilon) * g;
    a[2] = o->rho * a[2] + (1 - o->rho) * move * move;
    a[0] -= lr * move;
}

static void
optimizer_reference_nadam(const struct ps_optimizer *o, double lr, double t, double g, double a[1 + LAYOUT_SLOTS_MAX])
{
    double mean, square;

    adam_means(o, g, a);
    mean = nadam_mu(o, t + 1) * a[1] / (1 - nadam_product(o, t + 1)) +
           (1 - nadam_mu(o, t)) * g / (1 - nadam_product(o, t));
    square = a[2] / (1 - pow(o->beta2, t));
    a[0] -= lr * mean / (sqrt(square) + o->epsilon);
}

static void
optimizer_reference_ftrl(const struct ps_optimizer *o, double lr, double g, double a[1 + LAYOUT_SLOTS_MAX])
{
    double before = pow(a[1], -o->learning_rate_power), after;

    a[1] += g * g;
    after = pow(a[1], -o->learning_rate_power);
    a[2] += g - (after - before) / lr * a[0];
    a[0] = fabs(a[2]) <= o->l1 ? 0 : (copysign(o->l1, a[2]) - a[2]) / ((o->beta + after) / lr + 2 * o->l2);
}

void
optimizer_reference(const struct ps_optimizer *o, double t, double lr, double g, double a[1 + LAYOUT_SLOTS_MAX])
{
    if (o->clip.kind == PS_CLIP_VALUE)
        g = fmin(fmax(g, -o->clip.limit), o->clip.limit);
    if (o->kind != PS_FTRL) {
        g += o->l2 * a[0];
        a[0] -= lr * o->weight_decay * a[0];
    }
    switch (o->kind) {
    case PS_SGD:
        a[0] -= lr * g;
        break;
    case PS_MOMENTUM:
        a[1] = o->momentum * a[1] - lr * g;
        a[0] += a[1];
        break;
    case PS_NESTEROV:
        a[1] = o->momentum * a[1] - lr * g;
        a[0] += o->momentum * a[1] - lr * g;
        break;
    case PS_ADAGRAD:
        a[1] += g * g;
        a[0] -= lr * g / (sqrt(a[1]) + o->epsilon);
        break;
    case PS_ADAM:
    case PS_ADAMW:
        adam_means(o, g, a);
        a[0] -= lr * sqrt(1 - pow(o->beta2, t)) / (1 - pow(o->beta1, t)) * a[1] / (sqrt(a[2]) + o->epsilon);
        break;
    case PS_RMSPROP:
        optimizer_reference_rmsprop(o, lr, g, a);
        break;
    case PS_ADADELTA:
        optimizer_reference_adadelta(o, lr, g, a);
        break;
    case PS_NADAM:
        optimizer_reference_nadam(o, lr, t, g, a);
        break;
    case PS_FTRL:
        optimizer_reference_ftrl(o, lr, g, a);
        break;
    case PS_OPTIMIZER_KINDS:
        ck_abort();
    }
}
