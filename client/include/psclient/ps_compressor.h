/* ps_compressor.h: all-reduce of compressed gradients, with error feedback (ps_compress.h).
 *
 *     struct ps_compress how = {.kind = PS_COMPRESS_INT8};
 *     ps_compressor_new(group, elements, &how, &compressor, &error);
 *     for (;;) {
 *         ... gradient ...
 *         ps_compressor_all_reduce(compressor, gradient, gradient, PS_MEAN, &error);
 *     }
 *     ps_compressor_free(compressor);
 *
 * Each rank sends every other one that one's part of its gradient, encoded; sums what it gets for its own part, in the
 * order of the ranks and beside its own exact gradient; and sends the sum, encoded again, to all. So what travels is
 * that of a plain ring, 2 (ranks - 1) / ranks of the gradient, in the encoding's size, and every rank ends with the
 * same bits. What the encodings leave out stays where it was left out: of a rank's gradient there, of a part's sum with
 * the rank whose part it is, in both cases to come with the next gradient (two-sided error feedback, as in Tang et al.,
 * "DoubleSqueeze", ICML 2019). That costs two float32 for each element: as it was before a gradient, in case that does
 * not count, and as it is after. ps_reducer.h does the same for the gradients of a step while they are computed.
 *
 * All ranks make theirs with the same count and compression (else MISMATCH) and call in the same order as for any other
 * operation of the group. A group that was formed again goes on with it: what was left out is still there, that of a
 * lost rank is lost.
 *
 * Threads: one at a time for the group and all its compressors. */
#ifndef PS_COMPRESSOR_H
#define PS_COMPRESSOR_H

#include "ps_compress.h"
#include "ps_group.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ps_compressor ps_compressor;

/* For gradients of count elements; the group must outlive it. Errors: INVALID (PS_COMPRESS_NONE among them), NOMEM. */
PS_API enum ps_err ps_compressor_new(ps_group *group, size_t count, const struct ps_compress *how, ps_compressor **out,
                                     struct ps_error *error) PS_MUST_USE;

PS_API void ps_compressor_free(ps_compressor *compressor); /* accepts NULL */

/* out: [count] f32 = PS_SUM or PS_MEAN over the ranks of in: [count] f32; they may be the same. Waits, up to the
 * group's time-out. After an error out is not defined, and what is kept is as if the call had not been, on every rank
 * that got one (in place, the gradient is still there then). Errors: NONFINITE, on every rank, when one of them has a
 * gradient with NaN or Inf: the sentence says which; the group goes on. MISMATCH, or why the group failed. */
PS_API enum ps_err ps_compressor_all_reduce(ps_compressor *compressor, const float *in, float *out,
                                            enum ps_reduce reduce, struct ps_error *error) PS_MUST_USE;

/* Bytes that this rank has sent, and those of a plain ring over the same gradients. */
PS_API void ps_compressor_bytes(const ps_compressor *compressor, uint64_t *sent, uint64_t *plain);

#ifdef __cplusplus
}
#endif

#endif
