/* Long requests to several shards at once that end in time: by a deadline, or on ps_client_interrupt(). Requests not
 * answered by then are given up, and the shards are notified (CANCEL).
 *
 *     call_deadline_of(client, timeout_ms)                             when the call begins
 *     broadcast_query_run(&(struct broadcast_query){...}, first, n, e) sends, waits, and hands each answer to take()
 *     call_deadline_for_checksums(&limit)                              for code that reads files meanwhile */
#ifndef CLIENT_API_BROADCAST_QUERY_H
#define CLIENT_API_BROADCAST_QUERY_H

#include "client/api/client_state.h"
#include "common/core/wire/wire.h"
#include "common/system/checkpoint_dir.h"

/* How long a call may take. */
struct call_deadline {
    ps_client *client;
    uint64_t timeout_ms, deadline;
};

struct call_deadline call_deadline_of(ps_client *c, int timeout_ms); /* -1: the client's default */

/* For checksums. Borrows l. */
struct checkpoint_patience call_deadline_for_checksums(struct call_deadline *l);

/* One message to shards, and the function that takes each answer. */
struct broadcast_query {
    const struct call_deadline *limit;
    enum msg_type type;
    const ProtobufCMessage *message;
    enum ps_err (*take)(void *arg, uint32_t shard, struct span answer, struct ps_error *e);
    void *arg;
};

/* Ask shards first to first + n - 1 at the same time; the first error ends it. PS_ERR_TIMEOUT, PS_ERR_CANCELLED. */
enum ps_err broadcast_query_run(const struct broadcast_query *a, uint32_t first, uint32_t n,
                                struct ps_error *e) PS_MUST_USE;

/* Pass shard 0's report of this client's job to take(). Errors: NOT_FOUND, and those of broadcast_query_run(). */
typedef void (*broadcast_query_take_job)(void *arg, const Psd__JobReport *m);
enum ps_err broadcast_query_job(ps_client *c, broadcast_query_take_job take, void *arg, int timeout_ms,
                                struct ps_error *e) PS_MUST_USE;

/* PS_ERR_PROTOCOL, for take(). */
enum ps_err broadcast_query_unreadable(uint32_t shard, struct ps_error *e);

#endif
