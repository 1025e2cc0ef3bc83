/* Gradients of device memory that are encoded there for a push (client/device/device_codec.h), and what the encodings
 * leave out, which stays there: as residual.h of client/core/shards has it for gradients in host memory.
 *
 *     encode     gradient + residual = encoding + left, each block of a variable by itself; the encoding goes to the
 *                host. Again, before the push is started, as often as one likes
 *     push       the shards get these bytes; of each block is noted whether it counts
 *     settle     after the push: left is the residual of blocks that count, others keep theirs
 *
 * Threads: note() comes from whichever thread runs the client; the others as ps_tensors.h says. */
#ifndef CLIENT_STRATEGY_TENSOR_CODEC_H
#define CLIENT_STRATEGY_TENSOR_CODEC_H

#include <stdbool.h>

#include "client/api/client_internal.h"
#include "client/include/psclient/ps_device.h"

struct tensor_codec;

/* Memory of the device for n variables: about two and a half times that of their gradients. staged: [n], host memory
 * for their encodings, each as large as the variable and at least 64 bytes. */
enum ps_err tensor_codec_new(ps_device *device, size_t n, ps_var *const vars[], float *const staged[],
                             struct tensor_codec **out, struct ps_error *e) PS_MUST_USE;
void tensor_codec_free(struct tensor_codec *c); /* accepts NULL */

/* Variable i, of a kind that the device encodes. No push is under way. The encoding is there when device_fetched() has
 * returned. */
enum ps_err tensor_codec_encode(struct tensor_codec *c, size_t i, enum ps_compress_kind kind, const float *gradient,
                                struct ps_error *e) PS_MUST_USE;

/* Whether the gradient that was encoded last, and is there, was finite. */
bool tensor_codec_finite(const struct tensor_codec *c, size_t i);

/* All are encoded: what a push is started with. */
const struct client_encoded *tensor_codec_push(struct tensor_codec *c);

/* The push is over, whatever became of it. Accepts NULL, and no push. */
void tensor_codec_settle(struct tensor_codec *c);

#endif
