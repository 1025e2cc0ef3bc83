/* Logistic regression: P(positive | x) = sigmoid(x w + b), on sparse examples. Two variables, and the gradient of the
 * cross-entropy with respect to both. Everything a step needs is allocated once. */
#ifndef CLIENT_EXAMPLES_LOGISTIC_MODEL_H
#define CLIENT_EXAMPLES_LOGISTIC_MODEL_H

#include "psclient.h"

#include "ps_data.h"
#include "ps_device.h"

#define MODEL_VARS 2 /* weights [columns], bias [] */

struct logistic_model {
    ps_device *device;
    size_t columns, rows_max;
    ps_var *vars[MODEL_VARS];
    float *values[MODEL_VARS];
    float *gradients[MODEL_VARS];
    float *z, *targets, *loss; /* [rows_max] */
};

struct model_result {
    double loss; /* sum over the rows */
    size_t rows, correct;
};

/* Declare both variables, starting at 0: w of so many columns. A shard that has no memory for them says so before this
 * process takes any. */
enum ps_err model_declare(struct logistic_model *m, ps_client *client, uint64_t columns,
                          const struct ps_optimizer *optimizer, struct ps_error *error) PS_MUST_USE;

/* Of the declared variables, for batches of at most rows_max rows. Ended by model_finish(), also after a failure. */
enum ps_err model_init(struct logistic_model *m, ps_device *device, size_t rows_max,
                       struct ps_error *error) PS_MUST_USE;
void model_finish(struct logistic_model *m); /* accepts a zeroed one */

/* Loss and hits of a batch at m->values; with scale > 0 also the gradients of scale times its loss. DATA: a label that
 * is neither of the two. */
enum ps_err model_run(struct logistic_model *m, const struct ps_sparse *batch, const struct ps_binary *binary,
                      float scale, struct model_result *result, struct ps_error *error) PS_MUST_USE;

#endif
