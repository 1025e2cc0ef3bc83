/* What a job and its variables are, asked of every shard: where a checkpoint begins, and an import. */
#ifndef CLIENT_CHECKPOINT_JOB_DEFINITION_H
#define CLIENT_CHECKPOINT_JOB_DEFINITION_H

#include "client/api/broadcast_query.h"
#include "common/core/format/checkpoint.h"

struct job_definition {
    bool found;       /* some shard knows the job */
    uint32_t live;    /* workers: the most that any shard knows */
    uint64_t slowest; /* clock: the least of any shard */
    uint64_t fastest; /* the most */
};

/* Fill *out and add all to the manifest, a zeroed one, which is not changed when no shard knows the job: that is
 * PS_ERR_NOT_FOUND. PS_ERR_MISMATCH: the shards do not know it alike. And those of broadcast_query_run(). */
enum ps_err job_definition_query(const struct call_deadline *limit, const char *job, struct checkpoint *manifest,
                                 struct job_definition *out, struct ps_error *e) PS_MUST_USE;

#endif
