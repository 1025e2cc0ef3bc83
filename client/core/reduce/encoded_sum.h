/* The sum over the ranks of gradients that travel encoded: what one rank makes of its own, and of what comes. Pure.
 *
 *     encoded_sum_init(&s, count, &how, &error);
 *     encoded_sum_slots(&s, ranks, rank, &error);       // whenever the ranks are others than before
 *     for each gradient:
 *         encoded_sum_begin(&s, gradient, reduce);      // out: every other rank's part, encoded
 *         ... slots of out to their ranks, into in; each piece that is there of all: encoded_sum_merge(&s, at);
 *             this rank's slot of out to all, into in ...          (client/group/merge.h does all this)
 *         encoded_sum_end(&s, sum, &error);             // whatever it says, the same on every rank
 *         encoded_sum_settle(&s, counted);
 *     encoded_sum_finish(&s);
 *
 * A rank's part is summed by that rank alone, in the order of the ranks: each other rank's encoding, and its own
 * gradient as it is. The sum is encoded again for all; of a mean the mean is, which is no larger than the gradients, so
 * that no encoding cuts it off that has not cut them off. So every rank ends with the same bits, which follow from the
 * gradients and from what was left out before; and what travels is that of a plain ring in the encoding's size.
 *
 * What the encodings leave out stays where it was left out, to come with the next gradient: of a rank's gradient there,
 * of a part's sum with the rank whose part it is (two-sided error feedback: Tang et al., "DoubleSqueeze", ICML 2019).
 * It is kept twice, as before and as after this gradient, until it is known whether that has counted.
 *
 * A slot is a part in pieces of at most ENCODED_SUM_PIECE elements, each at the place that the largest encoding before
 * it would end at, and all slots are as long as the largest part's: so lengths do not depend on what top-k finds. A
 * piece begins with a word that says what it is. */
#ifndef CLIENT_CORE_REDUCE_ENCODED_SUM_H
#define CLIENT_CORE_REDUCE_ENCODED_SUM_H

#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"
#include "common/include/psclient/ps_compress.h"

#define ENCODED_SUM_PIECE ((size_t)65536) /* elements: a message's sum lies in a second-level cache */

struct encoded_sum {
    struct ps_compress how;
    size_t count;
    float *kept, *next;    /* [count] what was left out: as before this gradient, and as after it */
    bool open;             /* next is of a gradient that may count or not */
    uint32_t ranks, rank;  /* that the slots are for; 0 ranks: there are none */
    size_t slot, piece;    /* words */
    uint32_t *out, *in;    /* [ranks * slot] */
    float *sum, *decoded;  /* [a piece] */
    const float *gradient; /* under way */
    bool finite;           /* it is */
    bool mean;             /* its mean is made, not its sum */
    size_t merged;         /* pieces of this rank's part */
};

/* PS_ERR_INVALID: how (PS_COMPRESS_NONE among them); PS_ERR_NOMEM. */
enum ps_err encoded_sum_init(struct encoded_sum *s, size_t count, const struct ps_compress *how,
                             struct ps_error *e) PS_MUST_USE;
void encoded_sum_finish(struct encoded_sum *s); /* accepts zeroed */

/* For these ranks, of which there are at least 2. What is kept stays. PS_ERR_NOMEM: there are no slots then. */
enum ps_err encoded_sum_slots(struct encoded_sum *s, uint32_t ranks, uint32_t rank, struct ps_error *e) PS_MUST_USE;

/* gradient: [count], borrowed until the end. reduce: PS_SUM or PS_MEAN. What was not settled before has not counted. */
void encoded_sum_begin(struct encoded_sum *s, const float *gradient, enum ps_reduce reduce);

/* Shaped as group_merge.merge: the piece at word `at` of this rank's slot in out, of what has come in. sum is a struct
 * encoded_sum. Returns the rank that sent what no encoder makes, or UINT32_MAX. */
uint32_t encoded_sum_merge(void *sum, size_t at);

/* All sums, or means, are there: decoded into out, [count], which may be the gradient. NONFINITE: a rank had a gradient
 * with NaN or Inf, which the sentence names; PROTOCOL: a rank's sum is none. out is as it was then. */
enum ps_err encoded_sum_end(const struct encoded_sum *s, float *out, struct ps_error *e) PS_MUST_USE;

/* For a rank that is alone: nothing travels, so nothing is left out, and what was kept comes along. out may be the
 * gradient. NONFINITE as above. */
enum ps_err encoded_sum_alone(struct encoded_sum *s, const float *gradient, float *out, struct ps_error *e) PS_MUST_USE;

/* The gradient that was begun last has counted, or what is kept is as if it had not been. Nothing happens without one
 * that is open. */
void encoded_sum_settle(struct encoded_sum *s, bool counted);

/* What a rank sends for one gradient, and in a plain ring would. */
uint64_t encoded_sum_bytes(const struct encoded_sum *s);
uint64_t encoded_sum_plain_bytes(const struct encoded_sum *s);

#endif
