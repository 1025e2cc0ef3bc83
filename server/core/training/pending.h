/* Sequenced messages are resolved: at once, when nothing is to be waited for, or later, when a barrier opens or a
 * push's blocks are done. The effects on the session's numbers are sequence.h's; here is what follows.
 *
 *     pending_resolve_next() ─────────────────────────────────────► sequence_take()    the caller answers
 *     sequence_take_pending() ──► pending_block_done() ─┐
 *                                 pending_release() ────┴► pending_resolve() ──► redo log, answer, sequence_resolve()
 */
#ifndef SERVER_CORE_TRAINING_PENDING_H
#define SERVER_CORE_TRAINING_PENDING_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/sessions/sequence.h"

struct shard;

/* Take the next sequence and resolve it at once. */
void pending_resolve_next(struct shard *s, struct session *session, enum ps_err code);

/* The same of a push, or of a skip that stands for one: it is counted. */
void pending_resolve_next_push(struct shard *s, struct session *session, enum ps_err code);

/* It is resolved: answer where it asked, remember, and free it. */
void pending_resolve(struct shard *s, struct pending *p, enum ps_err code, const char *text);

/* One block of a push is done; the last one resolves it. */
void pending_block_done(struct shard *s, struct pending *p, uint32_t index, enum ps_err code, const char *text);

/* The caller that took it is done with it; it is resolved when its blocks are done. */
void pending_release(struct shard *s, struct pending *p, const char *text);

/* After taking one, with all its effects done: if the session awaited messages before (awaited), this may have been the
 * last, and it has caught up. */
void pending_caught_up(struct shard *s, struct session *session, bool awaited);

#endif
