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
 * A mean is what is encoded then, not the sum: where float16 holds all gradients it holds their mean as well, and cuts
 * off nothing; of PS_SUM what is beyond the encoding (65504 of float16) comes with the next gradients.
 *
 * All ranks make theirs with the same count and compression and call with the same reduction (else MISMATCH), in the
 * same order as any other operation of the group. A group that was formed again goes on with it: what was left out is
 * still there, that of a lost rank is lost.
 *
 * Parameters:
 *   compressor  from ps_compressor_new()
 *   error       filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Threads: one at a time for the group and all its compressors. */
#ifndef PS_COMPRESSOR_H
#define PS_COMPRESSOR_H

#include "ps_compress.h"
#include "ps_group.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A rank's side of compressed all-reduces of one size.
 * Since: 0.1 */
typedef struct ps_compressor ps_compressor;

/* Make a compressor for gradients of one size.
 *
 * Parameters:
 *   group  must outlive the compressor
 *   count  elements of a gradient
 *   how    the encoding, not PS_COMPRESS_NONE; copied
 *   out    the compressor, which the caller frees with ps_compressor_free()
 * Errors:
 *   PS_ERR_INVALID  no group, an encoding that is not valid, or PS_COMPRESS_NONE
 *   PS_ERR_NOMEM    no memory
 * Since: 0.1 */
PS_API enum ps_err ps_compressor_new(ps_group *group, size_t count, const struct ps_compress *how, ps_compressor **out,
                                     struct ps_error *error) PS_MUST_USE;

/* Free a compressor.
 *
 * Parameters:
 *   compressor  or NULL
 * Since: 0.1 */
PS_API void ps_compressor_free(ps_compressor *compressor);

/* Reduce a gradient over the ranks. Waits, up to the group's time-out.
 *
 * After an error out is not defined, and what is kept is as if the call had not been, on every rank that got one (in
 * place, the gradient is still there then).
 *
 * Parameters:
 *   in      [count] float32, host memory
 *   out     [count] float32: the sum or the mean over the ranks; may be in
 *   reduce  PS_SUM or PS_MEAN
 * Errors:
 *   PS_ERR_NONFINITE  on every rank: one of them has a gradient with NaN or Inf; the sentence says which. The group
 *                     goes on
 *   PS_ERR_INVALID    another reduction
 *   PS_ERR_LIMIT      too many operations of the group are in flight, or parts that are too large
 *   PS_ERR_NOMEM      no memory
 *   (group)           why the group failed
 * Since: 0.1 */
PS_API enum ps_err ps_compressor_all_reduce(ps_compressor *compressor, const float *in, float *out,
                                            enum ps_reduce reduce, struct ps_error *error) PS_MUST_USE;

/* Bytes that this rank has sent, and those of a plain ring over the same gradients.
 *
 * Parameters:
 *   sent   filled
 *   plain  filled
 * Since: 0.1 */
PS_API void ps_compressor_bytes(const ps_compressor *compressor, uint64_t *sent, uint64_t *plain);

#ifdef __cplusplus
}
#endif

#endif
