/* ps_optimizer.h: how gradients change weights, as psd and libpsclient both say it: which optimizers there are, their
 * parameters, learning-rate schedules and clipping. Part of psclient.h.
 *
 *     struct ps_optimizer adam;
 *     ps_optimizer_parse("adam:learning_rate=3e-4,schedule=cosine,warmup=500,steps=20000,clip=given_norm,limit=1",
 *                        &adam, &error);
 *
 * or, in C,
 *
 *     ps_optimizer_by_name("adam", &adam, &error);
 *     adam.learning_rate = 3e-4;
 *     adam.schedule = (struct ps_schedule){.kind = PS_SCHEDULE_COSINE, .warmup_steps = 500, .steps = 20000};
 *     adam.clip = (struct ps_clip){.kind = PS_CLIP_GIVEN_NORM, .limit = 1};
 *
 * What a shard does with a gradient of one block, in this order:
 *
 *     g = scale * gradient      scale: age policy, mean of the step's gradients (sync), clipping by a given norm
 *     g = clipped               by value or by the block's norm
 *     g = g + l2 * w            L2 penalty (Krogh and Hertz, NIPS 1991); FTRL has its own
 *     w = w - rate * weight_decay * w      decoupled decay (Loshchilov and Hutter, ICLR 2019)
 *     the optimizer's rule, with rate = the schedule's learning rate
 *
 * Parameters:
 *   out        filled; as it was after an error
 *   optimizer  from ps_optimizer_by_name() or ps_optimizer_parse(); as it was after an error
 *   error      filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Threads: any. */
#ifndef PS_OPTIMIZER_H
#define PS_OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "ps_err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every optimizer: its constant, its name and file (common/core/optimizer/rules/<name>.h), and its number on the wire
 * and in stores. Add at the end, never renumber.
 *
 * Since: 0.1 */
/* clang-format off */
#define PS_OPTIMIZER_LIST(X) \
    X(SGD,      sgd,      0) \
    X(MOMENTUM, momentum, 1) \
    X(NESTEROV, nesterov, 2) \
    X(ADAGRAD,  adagrad,  3) \
    X(ADAM,     adam,     4) \
    X(RMSPROP,  rmsprop,  5) \
    X(ADAMW,    adamw,    6) \
    X(ADADELTA, adadelta, 7) \
    X(NADAM,    nadam,    8) \
    X(FTRL,     ftrl,     9)
/* clang-format on */

/* Which optimizer.
 * Since: 0.1 */
enum ps_optimizer_kind {
#define PS_OPTIMIZER_ENUM(NAME, name, number) PS_##NAME = number,
    PS_OPTIMIZER_LIST(PS_OPTIMIZER_ENUM)
#undef PS_OPTIMIZER_ENUM
        PS_OPTIMIZER_KINDS /* one past the last */
};

/* The learning rate as a function of t, which is 0 where the schedule begins and before. After a warm-up of
 * warmup_steps, in which it rises linearly to learning_rate (t + 1 of warmup_steps at t), u = t - warmup_steps counts
 * on from 0:
 *
 *     CONSTANT     learning_rate
 *     STEP         learning_rate factor^floor(u / steps)
 *     EXPONENTIAL  learning_rate factor^(u / steps)
 *     COSINE       floor + (learning_rate - floor) (1 + cos(pi min(u, steps) / steps)) / 2
 *                  (Loshchilov and Hutter, ICLR 2017, without restarts)
 *     LINEAR       learning_rate + (floor - learning_rate) min(u, steps) / steps
 *
 * STEP and EXPONENTIAL do not fall below floor.
 *
 * Since: 0.1 */
enum ps_schedule_kind {
    PS_SCHEDULE_CONSTANT = 0,
    PS_SCHEDULE_STEP = 1,
    PS_SCHEDULE_EXPONENTIAL = 2,
    PS_SCHEDULE_COSINE = 3,
    PS_SCHEDULE_LINEAR = 4
};

/* What t counts, from where the schedule begins.
 * Since: 0.1 */
enum ps_schedule_by {
    PS_BY_VERSION = 0, /* updates that the block has taken */
    PS_BY_CLOCK = 1    /* the job's clock: in sync the step, elsewhere the slowest live worker's clock */
};

/* A schedule of the learning rate. Zeroed: a constant rate.
 * Since: 0.1 */
struct ps_schedule {
    enum ps_schedule_kind kind;
    enum ps_schedule_by by;
    uint64_t warmup_steps; /* 0: no warm-up */
    uint64_t steps;        /* at least 1 but for CONSTANT */
    double factor;         /* STEP, EXPONENTIAL: above 0, at most 1 */
    double floor;          /* at least 0, at most learning_rate */
    uint64_t begin; /* version or clock at which t is 0. 0: where it is given: a declared schedule begins with its
                       variable, one that ps_client_set() gives a running job at that moment */
};

/* How gradients are clipped (Pascanu, Mikolov and Bengio, ICML 2013).
 * Since: 0.1 */
enum ps_clip_kind {
    PS_CLIP_NONE = 0,
    PS_CLIP_VALUE = 1,      /* every element to [-limit, limit] */
    PS_CLIP_BLOCK_NORM = 2, /* the block's gradient to an L2 norm of at most limit; a variable of one block: its norm */
    PS_CLIP_GIVEN_NORM = 3  /* scaled by limit / norm when norm > limit, norm being what the push gives: that of the
                               worker's whole gradient (ps_push_options.norm) */
};

/* A clipping with its limit. Zeroed: none.
 * Since: 0.1 */
struct ps_clip {
    enum ps_clip_kind kind;
    double limit; /* above 0 */
};

/* An optimizer with its parameters. Those that the kind does not use are ignored; ps_optimizer_by_name() fills in those
 * that it does.
 *
 * Ranges: the learning rate, momentum, the betas, rho, l1, l2, beta, weight_decay and initial_accumulator are at least
 * 0; momentum, the betas and rho are less than 1; epsilon and FTRL's learning rate are greater than 0.
 *
 * Since: 0.1 */
struct ps_optimizer {
    enum ps_optimizer_kind kind;
    double learning_rate;
    double momentum;             /* momentum, Nesterov, RMSProp */
    double beta1, beta2;         /* Adam, AdamW, Nadam */
    double rho;                  /* RMSProp, Adadelta: share of the old mean square */
    double epsilon;              /* all that divide by a root */
    double initial_accumulator;  /* Adagrad, FTRL */
    double learning_rate_power;  /* FTRL: at most 0; -0.5 in the paper */
    double l1;                   /* FTRL: lambda 1 */
    double l2;                   /* FTRL: lambda 2; others: penalty added to the gradient */
    double beta;                 /* FTRL: the paper's beta */
    double weight_decay;         /* decoupled; all but FTRL */
    struct ps_schedule schedule; /* zeroed: a constant rate. FTRL takes no other: its rates fall by themselves */
    struct ps_clip clip;         /* zeroed: none */
};

/* The name of an optimizer.
 *
 * Parameters:
 *   kind  an optimizer
 * Returns: "adam"; NULL for a number that is not known. Static.
 * Since: 0.1 */
PS_API const char *ps_optimizer_name(enum ps_optimizer_kind kind);

/* An optimizer by its name, with the defaults of Keras and TensorFlow; its file cites them.
 *
 * Parameters:
 *   name  "adam"
 * Errors:
 *   PS_ERR_INVALID  no such optimizer: the sentence lists the names
 * Since: 0.1 */
PS_API enum ps_err ps_optimizer_by_name(const char *name, struct ps_optimizer *out, struct ps_error *error) PS_MUST_USE;

/* Set one parameter by its name in the struct.
 *
 * Parameters:
 *   parameter  "beta1"
 *   value      the new value
 * Errors:
 *   PS_ERR_INVALID  a parameter that this kind does not use (the sentence lists those that it does), or a value out of
 *                   its range
 * Since: 0.1 */
PS_API enum ps_err ps_optimizer_set(struct ps_optimizer *optimizer, const char *parameter, double value,
                                    struct ps_error *error) PS_MUST_USE;

/* Read an optimizer, a schedule or a clipping from text: a name, then, after a colon, what differs from its defaults.
 *
 *     adam:learning_rate=3e-4,beta1=0.8,schedule=cosine,warmup=500,steps=20000,floor=1e-5,by=clock,clip=value,limit=1
 *
 * Parameters have their names in the struct; schedule: constant, step, exponential, cosine, linear; by: version, clock;
 * begin: a version or clock, or now, which is 0; clip: none, value, block_norm, given_norm. Schedules and clips can be
 * had alone: "cosine,warmup=500,steps=20000", "value,limit=1", with or without "schedule=" and "clip=" before them. A
 * colon separates as a comma does, and a clip's limit may stand alone: "block_norm:1". psctl set reads the same text.
 *
 * Parameters:
 *   text  what is to be read
 * Errors:
 *   PS_ERR_INVALID  a name or a key that is not known, a value out of its range, a key twice, or one that has no effect
 *                   (limit without a clip, by without a schedule)
 * Since: 0.1 */
PS_API enum ps_err ps_optimizer_parse(const char *text, struct ps_optimizer *out, struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_schedule_parse(const char *text, struct ps_schedule *out, struct ps_error *error) PS_MUST_USE;
PS_API enum ps_err ps_clip_parse(const char *text, struct ps_clip *out, struct ps_error *error) PS_MUST_USE;

/* What always holds the text that ps_optimizer_describe() makes, in bytes.
 * Since: 0.1 */
#define PS_OPTIMIZER_TEXT_MAX 768

/* Write an optimizer as text: the learning rate and what differs from the defaults, in digits that read back as the
 * same numbers.
 *
 * psctl prints it, and ps_optimizer_parse() reads it.
 *
 * Parameters:
 *   out   [size] bytes, terminated, cut off when size is too small
 *   size  in bytes; PS_OPTIMIZER_TEXT_MAX always does
 * Since: 0.1 */
PS_API void ps_optimizer_describe(const struct ps_optimizer *optimizer, char *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
