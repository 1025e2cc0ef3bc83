/* The catalog: jobs, their variables, and what the shard keeps in heap memory of each block.
 *
 * Declaring: the variable's row is committed, its blocks are made in the background (SHARD_WORK), in order, and every
 * declare that waits is answered when the last one is there. After a crash in between the rest is made on start.
 *
 *     declared ──SHARD_WORK, block by block──► ready
 *         │ store full: waiting declares are refused; the next declare tries again
 */
#ifndef SERVER_CATALOG_H
#define SERVER_CATALOG_H

#include "common/age.h"
#include "common/base.h"
#include "common/initializer.h"
#include "common/layout.h"
#include "common/optimizer.h"
#include "common/ps_err.h"
#include "hash.h"
#include "proto/psd.pb-c.h"
#include "proto/store.pb-c.h"
#include "store.h"

struct shard;
struct connection;
struct session;
struct pull;
struct gather;
struct barrier;
struct variable;

/* What a block's head holds is kept here too, so that checks touch no page of the store. */
struct block {
    uint64_t version, clock;
    uint64_t turn;         /* the turn that wrote it last */
    uint8_t *place;        /* its value, while that turn runs */
    struct gather *gather; /* sync: gradients of the step that is under way, or NULL */
};

/* A block that an event names. */
struct block_ref {
    struct variable *variable;
    struct block *block;
    uint32_t number;
    bool fresh; /* turn_touch() gave it a new place in this event */
    struct layout_block cut;
    const uint8_t *old; /* value before, from turn_touch() */
    uint8_t *place;     /* value after */
};

struct declare_waiter {
    struct connection *connection;
    uint64_t request;
    bool created;
    struct declare_waiter *prev, *next;
};

struct variable_stats {
    uint64_t pushes, pushed_bytes, pulls, pulled_bytes, refused, dropped; /* per block */
};

struct variable {
    uint32_t id; /* this shard's; counts from 1 */
    struct job *job;
    char *path;       /* job/name */
    const char *name; /* within path */
    Psd__Declare *declare;
    struct layout layout;
    struct optimizer optimizer;
    struct initializer initializer;
    bool refuse_nonfinite;
    uint32_t start;        /* of its placement */
    uint64_t count;        /* blocks on this shard */
    uint64_t ready;        /* of them made, in order */
    uint64_t bytes;        /* of all their values */
    uint64_t gather_bytes; /* sync: set aside for gradients */
    struct block *blocks;  /* [count], by placement_index() */
    struct variable_stats stats;
    struct declare_waiter *waiters;
    bool working; /* in the shard's list of variables to initialize */
    struct variable *work_prev, *work_next;
    bool marked;
    struct variable *marked_next;
    UT_hash_handle hh; /* in its job, by name */
};

struct job {
    uint32_t id; /* counts from 1 */
    Psd__Job *options;
    const char *name;
    struct age_policy age;
    struct session **sessions; /* [workers], NULL: never joined */
    uint32_t joined, live, lapsed, finished;
    uint64_t slowest; /* clock of the slowest live worker; never goes back */
    uint64_t live_min;
    uint32_t at_live_min; /* how many live workers stand there */
    struct variable *variables;
    struct pull *pulls; /* parked */
    bool sweep;         /* some of them may be ready */
    struct gather *gathers;
    struct barrier *barriers;
    bool marked;
    struct job *marked_next;
    UT_hash_handle hh; /* by name */
};

static inline bool
job_is_sync(const struct job *job)
{
    return job->options->mode == PSD__MODE__SYNC;
}

/* Every step needs all workers. */
static inline bool
job_is_full_sync(const struct job *job)
{
    return job_is_sync(job) && job->options->quorum == job->options->workers;
}

/* Workers that a step or a barrier may still count on: joined or not, but neither lapsed nor finished. */
static inline uint32_t
job_active(const struct job *job)
{
    return job->options->workers - job->lapsed - job->finished;
}

static inline size_t
block_size(const struct block_ref *ref)
{
    return layout_value_size(ref->cut.size_class);
}

static inline struct store_key
block_key(const struct block_ref *ref)
{
    return (struct store_key){.var = ref->variable->id, .block = ref->number};
}

/* The job of this name with these options, made when it is new. PS_ERR_MISMATCH, PS_ERR_LIMIT, PS_ERR_INVALID,
 * PS_ERR_NOMEM. */
enum ps_err catalog_job(struct shard *s, const Psd__Job *options, struct job **out, struct ps_error *e) PS_MUST_USE;

/* Declare for a connection: answers now or when the blocks are there. */
void catalog_declare(struct shard *s, struct connection *c, uint64_t request, const Psd__Declare *declare);

/* Find a block that may be pulled and pushed. PS_ERR_NOT_FOUND. */
enum ps_err catalog_find(struct shard *s, const struct job *job, uint32_t var, uint32_t block, struct block_ref *out,
                         struct ps_error *e) PS_MUST_USE;

/* The block that was found before; asserts that it is there. */
void catalog_refind(struct shard *s, uint32_t var, uint32_t block, struct block_ref *out);

/* Make some blocks. False when there was no room in this turn for even one. */
bool catalog_work(struct shard *s);

/* Forget declares of a connection that wait. With an error they are answered; request 0: all of them. True when there
 * was one. */
bool catalog_forget_waiters(struct shard *s, struct connection *c, uint64_t request, enum ps_err answer);

enum ps_err catalog_load(struct shard *s, struct ps_error *e) PS_MUST_USE;
enum ps_err catalog_load_blocks(struct shard *s, struct ps_error *e) PS_MUST_USE;
void catalog_free(struct shard *s);

/* Rows, for turn.c. */
enum ps_err catalog_put_job(struct shard *s, const struct job *job) PS_MUST_USE;
enum ps_err catalog_put_variable(struct shard *s, const struct variable *v) PS_MUST_USE;

#endif
