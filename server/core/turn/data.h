/* An answer with blocks, from the moment it may go out until it is first in line to be sent: only then are versions and
 * places read, from the newest commit, so that a queue of pulls holds no transaction. */
#ifndef SERVER_CORE_TURN_DATA_H
#define SERVER_CORE_TURN_DATA_H

#include "common/core/base/base.h"
#include "server/core/turn/shard_types.h"

struct shard_data {
    uint64_t request, seq;
    uint64_t clock;                   /* of the slowest when the answer was due */
    uint64_t boot;                    /* of the data then */
    uint64_t held_us;                 /* for other workers */
    uint64_t assigned, newest_assign; /* as it goes out: of the job's assigns, up to which all are in it; the newest */
    uint32_t job_id, task;            /* the worker that it answers; job_id 0: none */
    uint32_t len;                     /* blocks */
    bool with_newer, with_codes;
    uint8_t *head;
    struct span *parts;
    struct span one; /* parts, when there is but one block */
    uint64_t *newer_than, *version;
    uint32_t *var, *block, *code;
};

/* NULL when out of memory; arrays that are asked for are not filled. */
struct shard_data *data_new(uint32_t len, bool with_newer, bool with_codes);

#endif
