/* All that a shard is, for the modules of the core; but for some tests nothing else includes this. */
#ifndef SERVER_CORE_SHARD_STATE_H
#define SERVER_CORE_SHARD_STATE_H

#include "common/core/base/arena.h"
#include "common/core/base/base.h"
#include "common/core/base/mutation.h"
#include "common/core/format/timeline.h"
#include "common/core/wire/wire.h"

#include "common/core/base/hash.h"
#include "common/core/cluster/rendezvous_core.h"
#include "server/core/durability/catalog.h"
#include "server/core/durability/redo.h"
#include "server/core/durability/restore.h"
#include "server/core/durability/save.h"
#include "server/core/durability/save_request.h"
#include "server/core/durability/save_staged.h"
#include "server/core/journal/redo_append.h"
#include "server/core/model/block.h"
#include "server/core/model/declare.h"
#include "server/core/model/declare_wait.h"
#include "server/core/model/kind.h"
#include "server/core/model/ordinals.h"
#include "server/core/model/staged.h"
#include "server/core/model/update.h"
#include "server/core/model/variable.h"
#include "server/core/sessions/clock.h"
#include "server/core/sessions/data_steps.h"
#include "server/core/sessions/job.h"
#include "server/core/sessions/rendezvous_service.h"
#include "server/core/sessions/sequence.h"
#include "server/core/sessions/session.h"
#include "server/core/sessions/session_row.h"
#include "server/core/shard/hello.h"
#include "server/core/shard/message.h"
#include "server/core/shard/replay.h"
#include "server/core/shard/report.h"
#include "server/core/shard/setting.h"
#include "server/core/shard/shard.h"
#include "server/core/store/store.h"
#include "server/core/training/assign.h"
#include "server/core/training/barrier.h"
#include "server/core/training/durable_acks.h"
#include "server/core/training/event_context.h"
#include "server/core/training/pending.h"
#include "server/core/training/pull.h"
#include "server/core/training/push.h"
#include "server/core/training/save_gate.h"
#include "server/core/training/sync_step.h"
#include "server/core/turn/actions.h"
#include "server/core/turn/connection.h"
#include "server/core/turn/data.h"
#include "server/core/turn/drop_list.h"
#include "server/core/turn/durations.h"
#include "server/core/turn/limit.h"
#include "server/core/turn/pool.h"
#include "server/core/turn/quota.h"
#include "server/core/turn/row.h"
#include "server/core/turn/save_keeps.h"
#include "server/core/turn/shard_trace.h"
#include "server/core/turn/stats.h"
#include "server/core/turn/traffic.h"
#include "server/core/turn/turn.h"
#include "server/core/turn/upcalls.h"
#include "server/core/turn/variable_table.h"

struct shard {
    struct shard_config config; /* strings are ours */
    char *cluster, *version, *live_dir, *durable_dir, *machine;
    struct store *store;
    const struct upcalls *upcalls; /* upcall_handlers.c */
    uint64_t now_ms, start_ms;
    uint64_t now_ns;
    struct timeline timeline;
    void *timeline_slots;
    uint64_t boot;
    uint32_t format; /* of its store: identity.h */
    bool draining, stopped;
    bool sweep;  /* some job has pulls that may be ready */
    bool broken; /* the store could not be read again after a failed commit */

    struct job *jobs; /* by name */
    struct job **jobs_by_id;
    uint32_t jobs_len;  /* ids are 1 to this; some may have been dropped, or are being erased */
    uint32_t jobs_next; /* where the search for the next id begins; 0: none was given */
    struct variable_table variables;
    uint32_t variables_len; /* without dropped ones */
    uint64_t unnumbered;    /* whose rows do not say their ordinals */
    struct drop_list drops;
    struct variable_definition *definitions; /* of variables: a hash */
    struct variable *work;                   /* to be initialized */
    bool assigns_look;                       /* some assign may have background work; */
    bool assigns_starved;                    /* the store had no room for it */
    bool assigns_deciding;                   /* some assign may wait for the disk, */
    bool assigns_unsure;                     /* and what for is not known: they were loaded */
    uint64_t data_bytes;                     /* of blocks that are there */
    uint64_t promised_bytes;                 /* of declared ones that are not */
    struct ordinals ordinals;                /* of the blocks of all variables, made or not */
    bool cursors_used;                       /* some push gave one */
    uint64_t blocks;                         /* that are there */
    uint64_t gather_bytes;                   /* set aside */
    uint64_t sessions_len;
    uint64_t barriers_len;
    uint64_t lapse_at; /* no lease ends before this */

    struct quota_holder *holders; /* of jobs and sessions, by name */
    struct quota_row *quotas;     /* [quotas_len] */
    size_t quotas_len;

    struct connection *connections, *greeting; /* all; those that have not said hello, in order of arrival */
    struct connection *idle;                   /* observers that wait for nothing: connection_idle.h */
    uint64_t connections_len;
    uint64_t closing_len;  /* of them, that are being closed */
    uint64_t parked_bytes; /* of pulls that wait, of all connections */
    uint64_t unopened;     /* there was no memory for it: it is closed when the turn has failed; 0: none */
    struct sync_step *due;
    struct turn turn;
    struct save save;
    struct restore restore;
    struct actions actions;
    struct redo redo;
    struct durable_ack *durable_acks; /* answers of durable pushes */
    struct replay *replay;            /* while the redo log is replayed */
    struct pool pool;
    struct arena arena;
    struct rendezvous_core rendezvous; /* of groups; shard 0 */
    struct shard_stats stats;
    uint64_t waits_over;
    uint64_t looks; /* jobs, variables, sessions and blocks that walks have looked at */
    struct event_buffers event_buffers;
};

#endif
