/* Questions to several shards at once that take long, and end in time: by a deadline, or when ps_client_interrupt()
 * says so. What is not answered then is given up, and the shards hear that (CANCEL).
 *
 *     limit_of(client, timeout_ms)                       when the call begins
 *     asking_run(&(struct asking){...}, first, n, e)     sends, waits, and hands each answer to take()
 *     limit_patience(&limit)                             for what reads files meanwhile */
#ifndef CLIENT_ASKING_H
#define CLIENT_ASKING_H

#include "client/api/client_state.h"
#include "common/core/wire/wire.h"
#include "common/system/checkpoint_dir.h"

/* How long a call may take. */
struct limit {
    ps_client *client;
    uint64_t timeout_ms, deadline;
};

struct limit limit_of(ps_client *c, int timeout_ms); /* -1: the client's default */

/* For checksums. Borrows l. */
struct checkpoint_patience limit_patience(struct limit *l);

/* One message to shards, and what is made of each answer. */
struct asking {
    const struct limit *limit;
    enum msg_type type;
    const ProtobufCMessage *message;
    enum ps_err (*take)(void *arg, uint32_t shard, struct span answer, struct ps_error *e);
    void *arg;
};

/* Ask shards first to first + n - 1 at the same time; the first error ends it. PS_ERR_TIMEOUT, PS_ERR_CANCELLED. */
enum ps_err asking_run(const struct asking *a, uint32_t first, uint32_t n, struct ps_error *e) PS_MUST_USE;

/* What shard 0 says of this client's job, to take(). NOT_FOUND, and those of asking_run(). */
typedef void (*asking_take_job)(void *arg, const Psd__JobReport *m);
enum ps_err asking_job(ps_client *c, asking_take_job take, void *arg, int timeout_ms, struct ps_error *e) PS_MUST_USE;

/* PS_ERR_PROTOCOL, for take(). */
enum ps_err asking_unreadable(uint32_t shard, struct ps_error *e);

#endif
