/* Answers of durable pushes, held until the redo log's pieces that they speak of are on disk (redo.h).
 *
 *     applied ──durable_acks_send() or ─────► held ──SHARD_DURABLE──► goes out as any other answer
 *               durable_acks_send_data()        │ SHARD_NOT_DURABLE ──► NOT_DURABLE: applied, but not on disk
 *                                               └ the connection is gone: dropped; the worker asks again
 *
 * They go out in the order in which they came. An answer with values is made when it leaves, from the newest commit, as
 * always. */
#ifndef SERVER_CORE_TRAINING_DURABLE_ACKS_H
#define SERVER_CORE_TRAINING_DURABLE_ACKS_H

#include "common/core/base/base.h"
#include "common/core/base/mutation.h"
#include "common/core/wire/message_list.h"
#include "common/include/psclient/ps_err.h"

#include "server/core/turn/actions.h"

struct shard;
struct connection;
struct shard_data;
struct durable_ack;

/* The piece that an answer waits for: all pieces before this one are on disk. DURABLE_ACKS_NONE: none, it goes out with
 * the turn. DURABLE_ACKS_RECORD: the one after the record that is being made. */
#define DURABLE_ACKS_NONE   UINT64_C(0)
#define DURABLE_ACKS_RECORD UINT64_MAX

void durable_acks_hold(struct shard *s, struct connection *c, uint64_t until, uint64_t seq, enum ps_err code,
                       const uint32_t *codes, uint32_t n, const char *text);
void durable_acks_hold_data(struct shard *s, struct connection *c, uint64_t until, struct shard_data *data);
void durable_acks_hold_message(struct shard *s, struct connection *c, uint64_t until, enum msg_type type,
                               uint64_t request, const ProtobufCMessage *message);

/* As actions_ack() and actions_data(); at no cost to answers that nothing holds. */
static inline void
durable_acks_send(struct shard *s, struct connection *c, uint64_t until, uint64_t seq, enum ps_err code,
                  const uint32_t *codes, uint32_t n, const char *text)
{
    if (until == DURABLE_ACKS_NONE || MUTATION(DURABLE_BEFORE_SYNC))
        actions_ack(s, c, seq, code, codes, n, text);
    else
        durable_acks_hold(s, c, until, seq, code, codes, n, text);
}

static inline void
durable_acks_send_data(struct shard *s, struct connection *c, uint64_t until, struct shard_data *data)
{
    if (until == DURABLE_ACKS_NONE)
        actions_data(s, c, data);
    else
        durable_acks_hold_data(s, c, until, data);
}

/* As actions_send(), of the answer to a request; should the disk fail, an ERROR answers it. */
static inline void
durable_acks_send_message(struct shard *s, struct connection *c, uint64_t until, enum msg_type type, uint64_t request,
                          const ProtobufCMessage *message)
{
    if (until == DURABLE_ACKS_NONE)
        actions_send(s, c, type, request, message);
    else
        durable_acks_hold_message(s, c, until, type, request, message);
}

/* Whether one more may be held for this connection. */
bool durable_acks_full(const struct connection *c);

/* The record is written: what waits for it waits for this piece. */
void durable_acks_recorded(struct shard *s, uint64_t until);

/* All pieces before this one are on disk. */
void durable_acks_release(struct shard *s, uint64_t durable);

/* No more pieces can be written to disk for now. */
void durable_acks_fail(struct shard *s, const struct ps_error *why);

/* The connection is gone: drop its answers. */
void durable_acks_forget(struct shard *s, struct connection *c);

/* Visit all, the oldest first, until one visit returns false; which is what it returns then. */
typedef bool (*durable_acks_visit)(void *arg, const struct connection *c, uint64_t since_ms);
bool durable_acks_each(const struct shard *s, durable_acks_visit visit, void *arg);

void durable_acks_finish(struct shard *s);

#endif
