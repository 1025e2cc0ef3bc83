/* What this worker has summed up (psclient.h: ps_client_set_metrics()). Pure.
 *
 *     set: the step under way has these        tick: they are added to the sums, which go to shard 0
 *
 * Every tick to shard 0 carries the whole sums of now, so one that is sent again, or made again after a rollback,
 * brings what is true whatever came before it. With them goes the cursor up to which this worker's data is in them: a
 * process that takes its place may have to do a step again that is in the sums already (another shard had not received
 * its end), and then leaves that step out of them. */
#ifndef CLIENT_CORE_SHARDS_OWN_METRICS_H
#define CLIENT_CORE_SHARDS_OWN_METRICS_H

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "proto/psd.pb-c.h"

struct core;
struct core_op;
struct shard_link;

struct metric_sums {
    double value[PS_METRICS_MAX]; /* [len] */
    uint32_t len;
    struct ps_cursor at; /* the data up to here is in them */
};

struct own_metrics {
    struct metric_sums sums;     /* of all steps that were ticked */
    struct metric_sums welcomed; /* as shard 0 had them when it welcomed this worker last */
    bool older;                  /* it has lost something since an earlier incarnation of this process was there */
    double step[PS_METRICS_MAX]; /* [step_len] */
    uint32_t step_len;
};

/* The link's shard has welcomed this worker. older: with less than it had acknowledged. */
void own_metrics_welcomed(struct core *c, const struct shard_link *l, const Psd__Welcome *w, bool older);

/* All shards have welcomed this incarnation, which is in this round. */
void own_metrics_join(struct core *c, uint64_t round);
void own_metrics_rejoin(struct core *c); /* another incarnation begins */

/* What the shard of this link had when it welcomed this worker is not what the sums are, so that it needs a tick. */
bool own_metrics_behind(const struct core *c, const struct shard_link *l);

/* The step is over with this tick, whose place in the data is known. */
void own_metrics_tick(struct core *c, const struct core_op *op);

/* A hello on this link names the metrics, if they are sent to its shard. */
void own_metrics_name(const struct core *c, const struct shard_link *l, Psd__Hello *hello);

/* As a tick's message, which borrows from c; NULL when there are none, or they are not sent to the link's shard. */
struct metrics_message {
    Psd__Metrics message;
    Psd__Cursor at;
};
Psd__Metrics *own_metrics_message(struct core *c, const struct shard_link *l, struct metrics_message *room);

#endif
