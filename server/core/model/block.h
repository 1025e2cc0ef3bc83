/* Blocks: found for events, and made in the background (SHARD_WORK), in order, variable by variable.
 *
 *     declared ──SHARD_WORK, block by block──► ready
 *         │ store full: declares that wait are refused; the next declare tries again
 */
#ifndef SERVER_CORE_MODEL_BLOCK_H
#define SERVER_CORE_MODEL_BLOCK_H

#include "common/core/base/base.h"
#include "common/core/model/cut.h"
#include "common/core/model/layout.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/model/variable.h"
#include "server/core/store/store.h"

struct sync_step;
struct job;
struct shard;

/* What a block's head holds is kept here too, so that checks touch no page of the store. */
struct block {
    uint64_t version, clock;
    uint64_t turn;               /* the turn that wrote it last */
    uint8_t *place;              /* its value, while that turn runs */
    struct sync_step *sync_step; /* sync: gradients of the step that is under way, or NULL */
    uint8_t generation;          /* of the key that its newest value is under: 0 or 1 */
    bool left;                   /* an older value is under the other key (save.h) */
    bool loaded;                 /* it was in the store at the start */
    bool calm;                   /* its last update left it OPTIMIZER_CALM; false: not known */
    bool given;                  /* its first values were given */
    uint8_t staged;              /* slots of its job's assigns that have a value for it in the store (staged.h) */
    uint64_t assign;             /* number of the newest that it has taken; it takes them in their order */
};

/* A block that an event names. */
struct block_ref {
    struct variable *variable;
    struct block *block;
    uint32_t number;
    uint32_t values; /* f32 of its gradient, and of what a pull gets */
    size_t size;     /* bytes of its value in the store */
    bool counted;    /* the push's step is in it already: data_cursor.h */
    bool fresh;      /* turn_touch() gave it a new place in this event */
    bool moved;      /* and that under its other key */
    bool asked;      /* the push asks for the new value, which leaves right after the turn; of no matter in sync */
    bool calm;       /* the gradient was looked at, and is OPTIMIZER_CALM */
    bool undoable;   /* update_undo() may be called: other blocks of the event may be refused after it */
    bool applied;    /* by update_apply(), and not undone */
    float scale;     /* of its gradient, and */
    uint64_t age;    /* the updates since it was pulled: push.c's */
    struct layout_block cut; /* dense.c's */
    const uint8_t *old;      /* value before, from turn_touch() */
    uint8_t *place;          /* value after */
    struct {                 /* update.c's: what update_undo() puts back */
        uint64_t version, clock;
        bool calm;
        uint8_t *value; /* of an update in place, which may be refused; NULL: none */
    } before;
};

static inline size_t
block_gradient_bytes(const struct block_ref *ref)
{
    return cut_bytes(ref->values);
}

/* Whether a variable has a block of this number, and it lies on this shard. */
bool block_lies_here(const struct shard *s, const struct variable *v, uint64_t number);

/* Find a block that may be pulled and pushed. PS_ERR_NOT_FOUND; PS_ERR_DROPPED: its variable was. */
enum ps_err block_find(struct shard *s, const struct job *job, uint32_t var, uint32_t block, struct block_ref *out,
                       struct ps_error *e) PS_MUST_USE;

/* The same of one that may be given its first values: they may be missing yet. */
enum ps_err block_find_made(struct shard *s, const struct job *job, uint32_t var, uint32_t block, struct block_ref *out,
                            struct ps_error *e) PS_MUST_USE;

/* The block that was found before; asserts that it is there, though its variable may have been dropped since. */
void block_refind(const struct shard *s, uint32_t var, uint32_t block, struct block_ref *out);

/* The same for a caller that needs to know where it lies, and not what it holds. */
void block_locate(const struct shard *s, uint32_t var, uint32_t block, struct block_ref *out);

/* This variable's blocks are to be made, unless they all are. */
void block_want(struct shard *s, struct variable *v);
void block_unwant(struct shard *s, struct variable *v);

/* Make some blocks. False when there was no room in this turn for even one. */
bool block_work(struct shard *s);

/* The variable's next block has its first value, which is in its place: count it. */
void block_made(struct shard *s, const struct block_ref *ref);

/* A value that the store holds (each_block's callback; arg is a struct row_load). block_take(): its kind knows it. */
bool block_load(void *arg, const struct store_key *key, struct span value);
void block_take(struct shard *s, const struct block_ref *ref, const struct block_head *head, uint8_t generation);

#endif
