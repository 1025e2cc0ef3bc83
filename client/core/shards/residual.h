/* What compressed pushes leave out: error feedback (common/core/codec/codec.h), kept with each variable for this
 * worker's life. Pure.
 *
 *     start      every gradient is finite, and there is room for the residuals; else nothing is pushed
 *                (residual_begin)
 *     made       each block of a request is encoded, once: gradient + residual = encoding + new residual
 *                (residual_encode)
 *     sent       and sent again after a lost connection: the same bytes
 *     counted    nothing: what the encoding left out is in the residual
 *     not        refused, dropped as STALE or LATE, given up before it was sent: the residual is as if the push had
 *                never been, also when others were encoded since: the gradient is gone, as one that was not compressed
 *                would be, and what was left out of earlier ones is not (residual_note, residual_undo)
 *     unknown    given up once it was sent: as if it had counted; better lost than twice
 *
 * What the caller has encoded itself, with residuals of its own (core_push_encoded()), is copied instead, and the
 * caller learns which blocks go and which of those do not count.
 *
 * Requests of one block are made in the order of their pushes, so residuals are a matter of that order alone. */
#ifndef CLIENT_CORE_SHARDS_RESIDUAL_H
#define CLIENT_CORE_SHARDS_RESIDUAL_H

#include "client/core/shards/core.h"

struct shard_link;
struct request;
struct request_pools;

/* PS_ERR_NONFINITE names the variable; PS_ERR_NOMEM. Nothing to do where the push is not compressed. */
enum ps_err residual_begin(size_t n, struct core_var *const vars[], const float *const grads[],
                           const struct ps_compress *how, struct ps_error *e) PS_MUST_USE;

/* Room for the encoding of a request whose stretch is known, and then the encoding: it cannot fail. p->bytes becomes
 * its length. */
enum ps_err residual_reserve(struct request_pools *pools, struct shard_link *l, struct request *p) PS_MUST_USE;
void residual_encode(struct shard_link *l, struct request *p);

/* How its blocks ended: codes [p->blocks], or NULL: `all` for each. Gradients are still borrowed. */
void residual_note(struct shard_link *l, struct request *p, const uint32_t *codes, uint32_t all);

/* None of it will ever count. */
void residual_undo(struct shard_link *l, struct request *p);

#endif
