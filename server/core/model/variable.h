/* Variables: their declarations, how they are cut, and where on this shard their blocks are. */
#ifndef SERVER_CORE_MODEL_VARIABLE_H
#define SERVER_CORE_MODEL_VARIABLE_H

#include "common/core/base/base.h"
#include "common/core/base/hash.h"
#include "common/core/model/initializer.h"
#include "common/core/model/layout.h"
#include "common/core/optimizer/optimizer.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"
#include "server/core/store/store.h"
#include "server/core/turn/row.h"
#include "server/core/turn/traffic.h"

struct shard;
struct job;
struct block;
struct declare_waiter;
struct variable_kind;

struct variable {
    uint32_t id; /* this shard's; counts from 1 */
    struct job *job;
    char *path;       /* job/name */
    const char *name; /* within path */
    Psd__Declare *declare;
    const struct variable_kind *kind;
    struct layout layout; /* dense.c's */
    struct ps_optimizer optimizer;
    struct initializer initializer;
    bool refuse_nonfinite;
    uint32_t start;        /* of its placement */
    uint64_t first;        /* ordinal of its first block among all blocks of the shard */
    uint64_t numbers;      /* its blocks have numbers below this, on all shards together */
    uint64_t count;        /* blocks on this shard */
    uint64_t ready;        /* of them made, in order */
    uint64_t bytes;        /* of all their values */
    uint64_t gather_bytes; /* sync: set aside for gradients */
    struct block *blocks;  /* [count], by placement_index() */
    struct traffic stats;
    uint64_t waited; /* number of the newest wait that counts in there */
    struct declare_waiter *waiters;
    bool working; /* in the shard's list of variables to initialize */
    struct variable *work_prev, *work_next;
    bool marked;
    struct variable *marked_next;
    UT_hash_handle hh; /* in its job, by name */
};

/* Make one, without its blocks: these may be too many to have room for. NULL: out of memory. */
struct variable *variable_new(struct shard *s, struct job *job, const Psd__Declare *declare, uint32_t id);

/* Enter it into its job and the shard's table, with heads for its blocks. Takes v, also when it fails: out of memory.
 */
bool variable_add(struct shard *s, struct variable *v) PS_MUST_USE;

/* Its row: written at the end of the turn, and into the redo log, when there is one, where it changes by other means
 * than pushes; loaded by catalog.c (each_row's callback; arg is a struct row_load). */
enum ps_err variable_put(struct shard *s, const struct variable *v, row_sink sink) PS_MUST_USE;
void variable_to_redo(struct shard *s, const struct variable *v);
bool variable_load(void *arg, struct span key, struct span value);

/* Room in the shard's table for ids up to this one. */
bool variables_grow(struct shard *s, uint32_t id) PS_MUST_USE;

/* The one of this id, or the first past it. NULL: there is none. */
struct variable *variable_from(const struct shard *s, uint32_t id);

void variable_free(struct variable *v); /* accepts NULL */

#endif
