/* Ask every shard the same thing at once, each over a connection of its own. Glue: threads around psclient.h.
 *
 * A shard that cannot be reached delays no other: its answer says why. */
#ifndef CLIENT_TOOLS_PSCTL_QUERY_QUERY_ALL_H
#define CLIENT_TOOLS_PSCTL_QUERY_QUERY_ALL_H

#include <jansson.h>

#include "client/include/psclient/psclient.h"
#include "client/tools/psctl/query/variable_list.h"
#include "common/core/base/base.h"

#define QUERY_THREADS_MAX 16
#define QUERY_PINGS_MAX   100000

enum query_kind {
    QUERY_QUERIES,
    QUERY_PINGS,  /* round trips */
    QUERY_DRAIN,  /* drain, and wait until it has closed */
    QUERY_SAVE,   /* save, and wait until it is on disk */
    QUERY_VERIFY, /* the same, and what lies there is read */
    QUERY_EVICT,  /* end a worker's session */
    QUERY_DROP    /* drop a job, or variables of it */
};

/* The answer of one shard; render.h and top.h print these. */
struct shard_answer {
    const char *address;  /* borrowed from the cluster */
    uint32_t shard;       /* its place in the list */
    enum query_kind kind; /* of the question */
    struct ps_error error;
    bool reached;
    int64_t ahead_ns; /* PS_QUERY_TIMELINE: how far its machine's clock is ahead of this one's */
    json_t *report; /* a Report, see psd.proto, of several queries the members of all; NULL: not reached, or no query */
    struct variable_list *variables;  /* what it has of PS_QUERY_VARIABLES, apart; NULL: that was not asked */
    struct ps_save_report saved;      /* QUERY_SAVE */
    struct ps_verify_report verified; /* QUERY_VERIFY */
    uint64_t compared;                /* the same: blocks that its second pass has held against live ones */
    struct ps_evict_report evicted;   /* QUERY_EVICT */
    struct ps_drop_report dropped;    /* QUERY_DROP */
    double *pings;                    /* [pings_len] round trips, microseconds, in the order they were made */
    size_t pings_len;
};

/* The answers of a cluster's shards at one time. */
struct answer_sample {
    struct shard_answer *answers;
    uint32_t n;
};

#define QUERY_BIT(query) (1u << (query)) /* of an enum ps_query */

struct shard_question {
    enum query_kind kind;
    unsigned queries;           /* bits; asked one after the other */
    const char *job;            /* NULL: all */
    uint32_t task;              /* QUERY_EVICT: of the job's worker */
    const struct ps_drop *drop; /* QUERY_DROP */
    size_t pings;               /* how many round trips, 1 to QUERY_PINGS_MAX */
    bool keeps_json;            /* variables are to be shown as JSON */
    int timeout_ms;             /* for connecting, for each answer (of a long report for each page), and for a shard
                                   that is lost to be back */
    int work_ms;                /* QUERY_SAVE, QUERY_VERIFY: for the disk; QUERY_DROP: for what is erased */
};

/* Ask shards first to first + n - 1 of the cluster. Fill answers[n], which answers_free() frees. PS_ERR_NOMEM; errors
 * of the shards are in the answers. */
enum ps_err query_all_shards(const ps_cluster *cluster, uint32_t first, uint32_t n,
                             const struct shard_question *question, struct shard_answer **answers,
                             struct ps_error *e) PS_MUST_USE;
void answers_free(struct shard_answer *answers, uint32_t n); /* accepts NULL */

uint32_t answers_reached(const struct shard_answer *answers, uint32_t n);

#endif
