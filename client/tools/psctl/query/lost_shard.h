/* A long command of one client, such as an export, ends when a shard that it has lost does not come back: a client
 * itself goes on trying for as long as its call may take, which for a worker is right.
 *
 *     err = lost_shard_open(&lost, cluster, &options, patience_ms, &client, &e);
 *     if (err == PS_OK) {
 *         err = ... a call that takes long ...
 *         err = lost_shard_end(&lost, err, &e);
 *         ps_client_close(client);
 *     }
 *
 * Threads: the client's events come from the thread that waits; one more waits while a shard is lost. */
#ifndef CLIENT_TOOLS_PSCTL_QUERY_LOST_SHARD_H
#define CLIENT_TOOLS_PSCTL_QUERY_LOST_SHARD_H

#include <pthread.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"

#define LOST_SHARDS_MAX 64 /* of more, the others are not waited for */

struct lost_shard {
    ps_client *client;
    uint64_t patience_ms;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool waits; /* the thread runs */
    bool ended, gave_up;
    uint64_t until_ms; /* of the first that was lost */
    struct ps_error lost[LOST_SHARDS_MAX];
    size_t lost_len;
};

/* ps_client_open(), with the client's events coming here: *options gets them. */
enum ps_err lost_shard_open(struct lost_shard *l, const ps_cluster *cluster, struct ps_client_options *options,
                            uint64_t patience_ms, ps_client **client, struct ps_error *e) PS_MUST_USE;

/* After the call, before the client is closed: its result, or UNREACHABLE with a sentence when a lost shard ended it.
 */
enum ps_err lost_shard_end(struct lost_shard *l, enum ps_err err, struct ps_error *e);

#endif
