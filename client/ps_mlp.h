/* ps_mlp.h: a multilayer perceptron for classification, on any device. It ties ps_device.h to psclient.h: its
 * parameters come as lists of variables and buffers that go straight into ps_client_pull() and ps_client_push().
 *
 *     ps_mlp *mlp;
 *     size_t sizes[] = {64, 128, 10};      // features, hidden units, classes
 *     ps_mlp_new(device, sizes, 3, PS_RELU, batch, &mlp, &error);
 *     ps_mlp_declare(mlp, client, "", &optimizer, seed, vars, &error);   // ps_var *vars[ps_mlp_params(mlp)]
 *     for (step ...) {
 *         ps_client_pull(client, ps_mlp_params(mlp), vars, ps_mlp_values(mlp), NULL, &error);
 *         ps_mlp_gradient(mlp, rows, x, labels, scale, &result, &error);
 *         ps_client_push(client, ps_mlp_params(mlp), vars, ps_mlp_gradients(mlp), NULL, &error);
 *         ps_client_tick(client, &error);
 *     }
 *
 * Between layers: the activation; at the end: softmax and cross-entropy. All memory is set aside by ps_mlp_new(); a
 * step allocates nothing. The gradient depends on values, rows and labels alone: n slices computed one after the other
 * in one process have the bits that n workers compute (with the same number of threads, on one instruction set).
 *
 * Threads: one at a time per network. */
#ifndef PS_MLP_H
#define PS_MLP_H

#include "ps_device.h"
#include "psclient.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PS_MLP_SIZES_MAX 16

enum ps_activation { PS_RELU = 0, PS_TANH = 1 };

typedef struct ps_mlp ps_mlp;

/* sizes: [count], features, hidden units..., classes; count 2 (no hidden layer) to PS_MLP_SIZES_MAX. rows_max: most
 * rows of one ps_mlp_gradient(). The device must outlive the network. Values are zero until pulled or initialized.
 * Errors: INVALID (a size is 0, count), LIMIT (a size past PS_DEVICE_SIZE_MAX), NOMEM. */
PS_API enum ps_err ps_mlp_new(ps_device *device, const size_t *sizes, size_t count, enum ps_activation activation,
                              size_t rows_max, ps_mlp **out, struct ps_error *error) PS_MUST_USE;
PS_API void ps_mlp_free(ps_mlp *mlp); /* accepts NULL */

/* ---- Parameters: for each layer its weights [in, out], then its bias [out] -------------------------------------- */

PS_API size_t ps_mlp_params(const ps_mlp *mlp);     /* 2 per layer */
PS_API uint64_t ps_mlp_elements(const ps_mlp *mlp); /* of all parameters */

/* Host memory, one pointer per parameter, owned by the network: where values are read from and gradients written to. */
PS_API float *const *ps_mlp_values(const ps_mlp *mlp);
PS_API const float *const *ps_mlp_gradients(const ps_mlp *mlp);

/* The declaration of parameter i, all but its optimizer: "dense0/weights" He uniform (ReLU) or Glorot uniform (tanh,
 * and the last layer), "dense0/bias" zeros. The name lives as long as the network. */
PS_API void ps_mlp_var_spec(const ps_mlp *mlp, size_t i, uint64_t seed, struct ps_var_spec *out);

/* Declare all parameters, each as prefix + its name. vars: [ps_mlp_params()]. As ps_client_declare(). */
PS_API enum ps_err ps_mlp_declare(const ps_mlp *mlp, ps_client *client, const char *prefix,
                                  const struct ps_optimizer *optimizer, uint64_t seed, ps_var **vars,
                                  struct ps_error *error) PS_MUST_USE;

/* Fill the values with what the shards would, without a cluster. */
PS_API void ps_mlp_initialize(ps_mlp *mlp, uint64_t seed);

/* ---- Computing --------------------------------------------------------------------------------------------------- */

struct ps_mlp_result {
    double loss; /* sum over the rows, unscaled */
    size_t rows;
    size_t correct; /* rows whose largest output is at the label */
};

/* Forward and backward at the values: the gradients of scale × the sum of the rows' losses. x: [rows, features],
 * labels: [rows], host memory. rows 0: gradients of 0. *result may be NULL. INVALID: too many rows, a label that is not
 * a class (which). */
PS_API enum ps_err ps_mlp_gradient(ps_mlp *mlp, size_t rows, const float *x, const uint32_t *labels, float scale,
                                   struct ps_mlp_result *result, struct ps_error *error) PS_MUST_USE;

/* Forward only; any number of rows. */
PS_API enum ps_err ps_mlp_evaluate(ps_mlp *mlp, size_t rows, const float *x, const uint32_t *labels,
                                   struct ps_mlp_result *result, struct ps_error *error) PS_MUST_USE;

/* Class of each row: predicted: [rows], host memory; any number of rows. */
PS_API enum ps_err ps_mlp_predict(ps_mlp *mlp, size_t rows, const float *x, uint32_t *predicted,
                                  struct ps_error *error) PS_MUST_USE;

#ifdef __cplusplus
}
#endif

#endif
