/* The table of a client's variables: shape and cut, the shards' ids of them, and which version of each block was last
 * seen. Pure. A variable belongs to the table and lives as long. */
#ifndef CLIENT_CORE_SHARDS_VARIABLE_H
#define CLIENT_CORE_SHARDS_VARIABLE_H

#include "client/core/shards/var_kind.h"
#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "common/core/base/hash.h"
#include "common/core/model/cut.h"
#include "common/core/model/layout.h"
#include "common/core/wire/wire.h"
#include "proto/psd.pb-c.h"

/* One shard's share of a variable: blocks first, first + shards, first + 2 shards ... (see
 * common/core/cluster/placement.h). */
struct var_shard {
    uint64_t blocks; /* that it holds; 0: the shard does not know the variable */
    uint64_t first;
    uint32_t id; /* its number there, when known */
    bool known;
    bool awaits; /* its first values, when it was last declared there with them */
};

struct core_var {
    char name[PS_NAME_MAX + 1];
    struct ps_var_spec spec; /* its name is the array above */
    uint64_t elements;
    const struct var_kind *kind;
    struct layout layout;
    uint32_t start; /* placement_start() */
    uint32_t shards;
    struct var_shard *shard; /* [shards] */
    uint64_t *seen;          /* [blocks]: version last seen + 1, 0: none. Zeroed lazily: terabytes have many blocks */
    float *residual;         /* [elements]: what compressed pushes have left out; NULL: there was none */
    bool declared;           /* every shard that holds blocks has answered */
    uint32_t declaring;      /* declarations under way */
    bool listed;             /* a list of variables that is being looked through has had it */
    void *handle;            /* the driver's; see core_var_handle() */
    UT_hash_handle hh;       /* by name */
};

struct variables {
    struct core_var *first; /* hash by name; hh.next: in the order of their making */
    const char *job;        /* borrowed */
    uint32_t shards;
};

void variables_init(struct variables *t, const char *job, uint32_t shards);
void variables_finish(struct variables *t);

/* NULL when there is none of this name. */
struct core_var *variables_find(const struct variables *t, const char *name);

/* Find or make the variable of this declaration. PS_ERR_INVALID and PS_ERR_LIMIT say which field is wrong;
 * PS_ERR_MISMATCH: declared before with another definition (prints both). One whose declaration failed may be declared
 * again with another definition. */
enum ps_err variables_declare(struct variables *t, const struct ps_var_spec *spec, struct core_var **out,
                              struct ps_error *e) PS_MUST_USE;

/* The same with the definition that a shard sent; elements and all else follow from it. */
enum ps_err variables_attach(struct variables *t, const Psd__Declare *declare, struct core_var **out,
                             struct ps_error *e) PS_MUST_USE;

/* One that was just made, and has nothing but its definition, is not wanted after all. */
void variables_remove(struct variables *t, struct core_var *v);

/* The shard of block 0, which depends on names alone: an attach asks there first. */
uint32_t variables_first_shard(const struct variables *t, const char *name);

/* The shard calls the variable by this id. Another one than before: the variable was dropped there, and this is a new
 * one, of which nothing was seen. */
void var_learn_id(struct core_var *v, uint32_t shard, uint32_t id);

/* The shard lost data: its ids and the versions of its blocks are no longer known. */
void variables_forget(struct variables *t, uint32_t shard);

/* The i-th block, from 0, that a shard holds. */
static inline uint64_t
var_nth_block(const struct core_var *v, uint32_t shard, uint64_t i)
{
    return v->shard[shard].first + i * v->shards;
}

/* Bytes of the buffer that holds all of it. */
static inline uint64_t
var_bytes(const struct core_var *v)
{
    return cut_bytes(v->elements);
}

/* Where a block lies in the variable. Models have many small variables of one block, and every operation walks all of
 * its blocks several times: those need no arithmetic. */
static inline void
var_block_range(const struct core_var *v, uint64_t block, uint64_t *first, uint32_t *len)
{
    *first = 0;
    *len = (uint32_t)v->elements;
    if (v->layout.blocks > 1)
        v->kind->place(v, block, first, len);
}

/* Version of a block as last seen. False when none was. */
static inline bool
var_seen(const struct core_var *v, uint64_t block, uint64_t *version)
{
    *version = v->seen[block] - 1;
    return v->seen[block] != 0;
}

static inline void
var_see(struct core_var *v, uint64_t block, uint64_t version)
{
    v->seen[block] = version + 1;
}

/* The Declare message of a variable. Its parts are borrowed from the variable and from *room. */
struct var_message {
    Psd__Declare declare;
    Psd__Initializer init;
    struct wire_optimizer optimizer;
};
const ProtobufCMessage *var_message(const struct core_var *v, struct var_message *room);

#endif
