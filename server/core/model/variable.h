/* Variables: their declarations, how they are cut, and where on this shard their blocks are. */
#ifndef SERVER_CORE_MODEL_VARIABLE_H
#define SERVER_CORE_MODEL_VARIABLE_H

#include "common/core/base/base.h"
#include "common/core/base/hash.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"
#include "server/core/model/variable_definition.h"
#include "server/core/store/store.h"
#include "server/core/turn/row.h"
#include "server/core/turn/traffic.h"

struct shard;
struct job;
struct block;
struct declare_waiter;

struct variable {
    uint32_t id;    /* this shard's; counts from 1 */
    uint32_t start; /* of its placement */
    struct job *job;
    struct variable_definition *def;
    const struct variable_kind *kind; /* the definition's */
    uint64_t first;                   /* ordinal of its first block (ordinals.h) */
    uint64_t count;                   /* blocks on this shard */
    uint64_t ready;                   /* of them made, in order */
    uint64_t bytes;                   /* of all their values */
    struct block *blocks;             /* [count], by placement_index(); where there is one, behind the name */
    struct traffic stats;
    uint64_t waited_ms[TRAFFIC_WAITS]; /* in waits that are over, by traffic_waits */
    uint64_t waited;                   /* number of the newest wait that counts in there */
    struct declare_waiter *waiters;
    bool working;  /* in the shard's list of variables to initialize */
    bool dropped;  /* in that of those that are being erased (drop_list.h), and no longer in its job */
    bool numbered; /* `first` is known */
    bool marked;
    bool awaits;    /* INIT_GIVEN: its blocks are made, or will be, and nobody has given their first values */
    uint8_t staged; /* slots of its job's assigns that have values for it in the store */
    struct variable *work_prev, *work_next; /* in one of these lists */
    struct variable *marked_next;
    UT_hash_handle hh; /* in its job, by name */
    char name[];
};

/* Its declaration, with its name; borrowed from v, and to be kept where it is. */
static inline Psd__Declare
variable_declare(const struct variable *v)
{
    Psd__Declare declare = *v->def->declare;

    declare.name = (char *)(uintptr_t)v->name;
    return declare;
}

/* Make one, without its blocks: these may be too many to have room for. NULL: out of memory. */
struct variable *variable_new(struct shard *s, struct job *job, const Psd__Declare *declare, uint32_t id);

/* Sync: bytes that the gradients of steps that are under way may take. */
uint64_t variable_gather_bytes(const struct shard *s, const struct variable *v);

/* The job's variables had, and have from now on, so many of them. */
void variable_take_gather_bytes(struct shard *s, const struct job *job, uint64_t had, uint64_t has);

/* Its optimizer is another one from now on, with as many slots. False: no memory. */
bool variable_set_optimizer(struct shard *s, struct variable *v, const struct ps_optimizer *optimizer) PS_MUST_USE;

/* Enter it into its job and the shard's table, with heads for its blocks, and ordinals unless it has some. Takes v,
 * also when it fails: out of memory. One that is dropped is entered into the table, to be erased. */
bool variable_add(struct shard *s, struct variable *v) PS_MUST_USE;

/* It is dropped: no longer in its job, its bytes promised to no one, its ordinals free; it stays in the table until
 * what is in the store is erased. */
void variable_drop(struct shard *s, struct variable *v);

/* It is erased: out of the table, and freed. */
void variable_remove(struct shard *s, struct variable *v);

/* Its row: written at the end of the turn, and into the redo log, when there is one, where it changes by other means
 * than pushes; loaded by catalog.c (each_row's callback; arg is a struct row_load). */
enum ps_err variable_put(struct shard *s, const struct variable *v, row_sink sink) PS_MUST_USE;
enum ps_err variable_put_undropped(struct shard *s, const struct variable *v, row_sink sink) PS_MUST_USE; /* the same of
                                                                                              before it was dropped */
void variable_to_redo(struct shard *s, const struct variable *v);
bool variable_load(void *arg, struct span key, struct span value);

/* The one of this id, or the first past it, that is not dropped: VARIABLE_EACH(). NULL: there is none. */
struct variable *variable_from(const struct shard *s, uint32_t id);
struct variable *variable_find(const struct shard *s, uint32_t id);

/* All but dropped ones, in order of id. */
#define VARIABLE_EACH(s, x) for ((x) = variable_from(s, 1); (x) != NULL; (x) = variable_from(s, (x)->id + 1))

void variable_free(struct variable *v); /* accepts NULL */

#endif
