/* Answers of durable pushes, held until the redo log's pieces that they speak of are on disk (redo.h).
 *
 *     applied ──held_ack(), held_data()──► held ──SHARD_DURABLE──► goes out as any other answer
 *                                           │ SHARD_NOT_DURABLE ──► NOT_DURABLE: applied, but not on disk
 *                                           └ the connection is gone: dropped; the worker asks again
 *
 * They go out in the order in which they came. An answer with values is made when it leaves, from the newest commit, as
 * always. */
#ifndef SERVER_HELD_H
#define SERVER_HELD_H

#include "common/core/base/base.h"
#include "common/core/base/planted.h"
#include "common/include/psclient/ps_err.h"

#include "server/core/turn/actions.h"

struct shard;
struct connection;
struct shard_data;
struct held;

/* The piece that an answer waits for: all pieces before this one are on disk. HELD_NOT: none, it goes out with the
 * turn. HELD_RECORD: the one after the record that is being made. */
#define HELD_NOT    UINT64_C(0)
#define HELD_RECORD UINT64_MAX

void held_hold_ack(struct shard *s, struct connection *c, uint64_t until, uint64_t seq, enum ps_err code,
                   const uint32_t *codes, uint32_t n, const char *text);
void held_hold_data(struct shard *s, struct connection *c, uint64_t until, struct shard_data *data);

/* As actions_ack() and actions_data(); at no cost to those that nothing holds. */
static inline void
held_ack(struct shard *s, struct connection *c, uint64_t until, uint64_t seq, enum ps_err code, const uint32_t *codes,
         uint32_t n, const char *text)
{
    if (until == HELD_NOT || PLANTED(DURABLE_BEFORE_SYNC))
        actions_ack(s, c, seq, code, codes, n, text);
    else
        held_hold_ack(s, c, until, seq, code, codes, n, text);
}

static inline void
held_data(struct shard *s, struct connection *c, uint64_t until, struct shard_data *data)
{
    if (until == HELD_NOT)
        actions_data(s, c, data);
    else
        held_hold_data(s, c, until, data);
}

/* Whether one more may be held for this connection. */
bool held_full(const struct connection *c);

/* The record is written: what waits for it waits for this piece. */
void held_recorded(struct shard *s, uint64_t until);

/* All pieces before this one are on disk. */
void held_release(struct shard *s, uint64_t durable);

/* None of them will be for now. */
void held_fail(struct shard *s, const struct ps_error *why);

/* Nobody is there any more to be told. */
void held_forget(struct shard *s, struct connection *c);

/* Visit all, the oldest first, until one visit returns false; which is what it returns then. */
typedef bool (*held_visit)(void *arg, const struct connection *c, uint64_t since_ms);
bool held_each(const struct shard *s, held_visit visit, void *arg);

void held_finish(struct shard *s);

#endif
