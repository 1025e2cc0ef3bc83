/* Shared by optimizer.c, the kernels and the files in rules/: an optimizer's row, and the input of its rule. Internal
 * to the optimizers; all others use optimizer.h. */
#ifndef COMMON_CORE_OPTIMIZER_OPTIMIZER_ROW_H
#define COMMON_CORE_OPTIMIZER_OPTIMIZER_ROW_H

#include "common/core/optimizer/optimizer.h"

/* Where a parameter must lie. */
enum optimizer_range {
    RANGE_NONE, /* ends a list */
    AT_LEAST_0, /* and finite */
    ABOVE_0,    /* and finite, in float32 too */
    AT_LEAST_0_BELOW_1,
    AT_MOST_0 /* and finite */
};

struct optimizer_use {
    enum optimizer_parameter parameter;
    enum optimizer_range range;
    double usual;
};

/* In a row: PARAMETER(beta1, AT_LEAST_0_BELOW_1, 0.9) */
#define PARAMETER(name, where, value)                                                                                  \
    {                                                                                                                  \
        .parameter = PARAMETER_##name, .range = (where), .usual = (value)                                              \
    }

/* Parameters of every optimizer but FTRL, besides its own. */
#define PARAMETER_L2           PARAMETER(l2, AT_LEAST_0, 0)
#define PARAMETER_WEIGHT_DECAY PARAMETER(weight_decay, AT_LEAST_0, 0)

struct optimizer_row {
    const char *source; /* paper */
    struct optimizer_use parameters[OPTIMIZER_PARAMETERS + 1];
    uint32_t (*slots)(const struct ps_optimizer *o);                        /* NULL: as many as OPTIMIZER_SLOTS says */
    float (*slot_start)(const struct ps_optimizer *o, uint32_t slot);       /* first value; NULL: 0 */
    enum ps_err (*check)(const struct ps_optimizer *o, struct ps_error *e); /* of parameters together; NULL: none */
    /* See optimizer_follow(); NULL: weights do not follow from slots. */
    void (*follow)(const struct ps_optimizer *o, size_t n, const struct optimizer_arrays *arrays);
    bool own_l2;     /* l2 belongs to the rule and is not added to the gradient */
    bool fixed_rate; /* takes no schedule */
};

/* In a file: OPTIMIZER_SLOTS(ADAM, 2, 2): how many arrays it has besides the weights, at least and at most. The rule is
 * compiled for both. */
#define OPTIMIZER_SLOTS(NAME, least, most)                                                                             \
    enum { NAME##_SLOTS_MIN = (least), NAME##_SLOTS_MAX = (most) };                                                    \
    static_assert((least) <= (most) && (most) <= LAYOUT_SLOTS_MAX && (most) - (least) <= 1, "slots of " #NAME)

#define OPTIMIZER_STEP_MAX 48 /* bytes of a file's struct <name>_step */

/* One update, for a kernel: rounded to f32 where it works in f32. */
struct optimizer_step {
    float scale;                                       /* the gradient is multiplied by this first */
    bool shaped;                                       /* the three below are at work */
    float limit;                                       /* then brought to [-limit, limit] */
    float l2;                                          /* times the weight is added to it */
    float decay;                                       /* share of the weight that is taken off */
    uint32_t slots;                                    /* arrays besides the weights */
    _Alignas(8) unsigned char own[OPTIMIZER_STEP_MAX]; /* struct <name>_step */
};

/* See optimizer_apply() for the arrays. False: some weight, slot or, where it is shaped, element of grad may be NaN,
 * Inf or not below 2^OPTIMIZER_STATE_POWER. */
typedef bool (*optimizer_kernel)(const struct optimizer_step *s, size_t n, const void *grad,
                                 const struct optimizer_arrays *from, const struct optimizer_arrays *to, bool stream);

/* NULL for a number that is not known. */
const struct optimizer_row *optimizer_row(enum ps_optimizer_kind kind);

/* How this kind uses a parameter, NULL when it does not. */
const struct optimizer_use *optimizer_find_use(enum ps_optimizer_kind kind, enum optimizer_parameter p);

/* PS_ERR_INVALID when the value is out of its range. */
enum ps_err optimizer_check_value(enum ps_optimizer_kind kind, const struct optimizer_use *use, double value,
                                  struct ps_error *e) PS_MUST_USE;

/* The scale that also brings a gradient of this norm, unscaled, down to the limit of PS_CLIP_BLOCK_NORM. */
float optimizer_clip_block(const struct ps_clip *c, float scale, double norm);

/* sizeof(struct <name>_step): the used bytes of a step's `own`. */
size_t optimizer_step_size(enum ps_optimizer_kind kind);

/* Fill in all inputs of a kernel but clipping by the block's norm. */
void optimizer_prepare(const struct ps_optimizer *o, const struct optimizer_when *when, float scale,
                       struct optimizer_step *s);

#endif
