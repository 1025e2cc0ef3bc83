/* ps_reducer.h: gradients of a step, reduced over the ranks of a group while the rest of them are still computed.
 *
 *     uint64_t sizes[] = {...};                                       // elements of each parameter
 *     ps_reducer_new(group, params, sizes, NULL, &reducer, &error);
 *     ps_network_place(network, NULL, ps_reducer_buffers(reducer));   // gradients are written where they are sent from
 *     ps_network_on_ready(network, ps_reducer_ready, reducer);
 *     for (;;) {
 *         ps_reducer_begin(reducer, &error);
 *         ps_network_gradient(network, &batch, scale, draw, &result, &error);   // buckets go while it computes
 *         ps_reducer_finish(reducer, &error);                                   // buffers hold the mean of all ranks
 *         ... the same update on every rank ...
 *     }
 *     ps_reducer_free(reducer);
 *
 * Parameters are fused into buckets, last parameters first, and a bucket is all-reduced as soon as the gradients of all
 * its parameters are there (Li et al., "PyTorch Distributed", VLDB 2020). The buffers lie beside each other in this
 * order, so that nothing is copied. A gradient that is not there at the end of a step counts as 0.
 *
 * Every rank makes its reducer with the same sizes and options, and begins and finishes the same steps; then all start
 * the same operations in the same order, whatever the order in which their gradients become ready. (Ranks that do not
 * get PS_ERR_MISMATCH from the group, where their buckets differ.) After a step every rank holds the same bits.
 *
 * Overlap needs a thread that drives the network meanwhile: the group's progress thread, or, without one, the calls of
 * ps_reducer_ready(), which let the network move but do not wait. It gains what the network would have kept the
 * processor waiting for: on two cores, 2 ranks and 16 MB of gradients a step took 0.76 to 0.86 of its time over a link
 * of 8 Gbit/s with the thread, 0.95 without, 0.88 with either over 2 Gbit/s; over bare loopback, where all of the cost
 * is the processors' own, nothing that could be distinguished from noise. One call for each parameter is slower than
 * buckets where parameters are small (1.2 times, digits conv). "bench overlap" measures it.
 *
 * With options.compress gradients travel encoded (ps_compress.h). Each bucket's parts go to the ranks whose they are,
 * which sum them in float32, in the order of the ranks, and send the sum, or the mean, encoded again, to all; so what
 * travels is that of a plain ring in the encoding's size, all ranks end with the same bits, and the same gradients give
 * the same bits in every run. Encoding takes place in ps_reducer_ready(), summing wherever the network is driven, so
 * buckets overlap with the rest of the backward pass as plain ones do. What the encodings leave out is kept here (error
 * feedback), of a gradient with the rank whose it is, of a sum with the rank that made it, and comes with the next
 * step:
 *
 * - It lasts as long as the reducer. A group that was formed again goes on with it, whoever is in it; a rank that is
 *   new has nothing yet, and what a lost rank kept is lost with it. Nothing of it is in a checkpoint.
 * - It changes with steps that count, by default those that ps_reducer_finish() ended with PS_OK. A step that failed is
 *   for it as if it had not been; ps_reducer_settle() says otherwise, where a program knows more.
 * - A gradient with NaN or Inf has no encoding: the step ends with PS_ERR_NONFINITE on every rank, and the group goes
 *   on.
 *
 * It costs memory, two float32 for each element and twice what the encoding takes, and processor time; so it gains
 * where the network is slow. Of 2 ranks that share 1 Gbit/s in both directions together, a step with 16 MB of gradients
 * took 0.52 (float16), 0.29 (int8) and 0.21 (top_k:0.01) of its uncompressed time; at 4 Gbit/s 0.61 to 0.75 with the
 * progress thread; through shared memory 1.6 to 2.3 times as long (tests/bench, area overlap).
 *
 * Parameters:
 *   reducer  from ps_reducer_new()
 *   error    filled when the call fails; may be NULL
 * Returns: PS_OK, or the code that *error has, too.
 * Threads: one at a time, as without a progress thread for the group itself. */
#ifndef PS_REDUCER_H
#define PS_REDUCER_H

#include "ps_compress.h"
#include "ps_group.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A rank's side of the reductions of steps.
 * Since: 0.1 */
typedef struct ps_reducer ps_reducer;

/* How gradients are put together and reduced. Zeroed: all defaults.
 * Since: 0.1 */
struct ps_reducer_options {
    size_t bucket_bytes;         /* a bucket is closed by the parameter with which it holds as many; 0:
                                    PS_REDUCER_BUCKET_BYTES; SIZE_MAX: one bucket for all; 1: one for each parameter */
    size_t first_bucket_bytes;   /* the same for the first one, which is on its way the sooner the smaller it is; 0:
                                    PS_REDUCER_FIRST_BYTES, or bucket_bytes where that is less */
    int sum;                     /* nonzero: buffers end with the sum over the ranks, not the mean */
    struct ps_compress compress; /* how gradients travel between ranks; zeroed: as they are */
};

/* Defaults of ps_reducer_options.bucket_bytes and first_bucket_bytes.
 * Since: 0.1 */
#define PS_REDUCER_BUCKET_BYTES ((size_t)4 << 20)
#define PS_REDUCER_FIRST_BYTES  ((size_t)1 << 20)

/* Make a reducer for parameters of given sizes.
 *
 * Parameters:
 *   group    must outlive the reducer; it may be formed again between steps. NULL: no group, and as with one rank
 *            nothing is ever sent
 *   n        number of parameters
 *   sizes    [n]: elements of each, float32; copied
 *   options  NULL: all defaults
 *   out      the reducer, which the caller frees with ps_reducer_free()
 * Errors:
 *   PS_ERR_LIMIT    too many parameters or elements
 *   PS_ERR_INVALID  options.compress is not valid
 *   PS_ERR_NOMEM    no memory
 * Since: 0.1 */
PS_API enum ps_err ps_reducer_new(ps_group *group, size_t n, const uint64_t *sizes,
                                  const struct ps_reducer_options *options, ps_reducer **out,
                                  struct ps_error *error) PS_MUST_USE;

/* Free a reducer. In a step, waits for the end of what was started, whatever it is.
 *
 * Parameters:
 *   reducer  or NULL
 * Since: 0.1 */
PS_API void ps_reducer_free(ps_reducer *reducer);

/* Where the gradients belong, and their mean is afterwards.
 *
 * A gradient is written before it is ready; until the step is finished it is borrowed from then on. What the buffers
 * hold after a step that failed is not defined.
 *
 * Returns: [n] pointers to [sizes[i]] float32, 64-byte aligned, the reducer's own, zeroed at first.
 * Since: 0.1 */
PS_API float *const *ps_reducer_buffers(const ps_reducer *reducer);

/* How many buckets the parameters make.
 *
 * Returns: the number.
 * Since: 0.1 */
PS_API size_t ps_reducer_buckets(const ps_reducer *reducer);

/* Begin a step.
 *
 * Errors:
 *   PS_ERR_INVALID  the step before was not finished
 *   PS_ERR_NOMEM    no memory: compressed, with other ranks than before
 *   (group)         why the group failed: nothing has begun; ps_group_reform() first
 * Since: 0.1 */
PS_API enum ps_err ps_reducer_begin(ps_reducer *reducer, struct ps_error *error) PS_MUST_USE;

/* Gradient i is written and may go. Shaped for ps_network_on_ready().
 *
 * What can go is started, and the network moves if it can without waiting; only with more buckets in flight than a
 * group should have does it wait for the oldest. Failures are reported by ps_reducer_finish().
 *
 * Parameters:
 *   reducer  a ps_reducer
 *   i        number of the parameter
 * Since: 0.1 */
PS_API void ps_reducer_ready(void *reducer, size_t i);

/* Finish a step: gradients that were not ready are set to 0 and go; then wait until all buckets are done.
 *
 * Each bucket has the group's time-out, from when it was started. The step is over in any case. After an error of the
 * group it is formed again or closed.
 *
 * Errors:
 *   PS_ERR_INVALID    no step was begun, or a parameter was ready that is not there or was so before (the step went on,
 *                     so that no other rank waits)
 *   PS_ERR_NONFINITE  compressed, and a rank has a gradient with NaN or Inf: the sentence says which
 *   PS_ERR_LIMIT      a bucket that a group cannot reduce
 *   (group)           the first error that there was: names the rank
 * Since: 0.1 */
PS_API enum ps_err ps_reducer_finish(ps_reducer *reducer, struct ps_error *error) PS_MUST_USE;

/* Whether the step that was finished last has counted, where that is another matter than how it was finished.
 *
 * What compression left out is kept accordingly. Between ps_reducer_finish() and the next ps_reducer_begin(), at most
 * once. That a step which failed here has counted is true where another rank of the same forming of the group has it
 * whole.
 *
 * Parameters:
 *   counted  nonzero: it has
 * Since: 0.1 */
PS_API void ps_reducer_settle(ps_reducer *reducer, int counted);

/* Bytes that this rank has sent for gradients, and those of plain rings over them.
 *
 * Parameters:
 *   sent   filled
 *   plain  filled
 * Since: 0.1 */
PS_API void ps_reducer_bytes(const ps_reducer *reducer, uint64_t *sent, uint64_t *plain);

#ifdef __cplusplus
}
#endif

#endif
