/* A kind of variable: the questions whose answers differ between a dense variable, which is cut into blocks when it is
 * declared, and one whose rows come with their first use.
 *
 * What all kinds have in common is not asked here. A variable has a name, a job, an optimizer, an initializer and, for
 * each of its blocks on this shard, a head (struct block): version, clock, its sync step. Blocks are numbered below
 * variable->def->numbers on all shards together and placed by number (common/core/cluster/placement.h); messages, ages,
 * steps and cursors go by them. What a block holds is the kind's business:
 *
 *                 dense (dense.c)                   rows by id
 *     block       a run of elements                 a range of the ids' hashes
 *     made        in the background, once declared  by the first push that names a row
 *     gradient    of all that it holds              of the rows that the push names
 *     stored      one value of a few sizes          slabs of rows
 *
 * Callers:
 *
 *     cut         define                  definition
 *                 measure, pooled_bytes   variable (for declare, restore_check)
 *                 cut                     block, for each block that an event names
 *     key         key                     turn, save, data_open
 *     values      fill, load, loaded      block, catalog
 *                 pulled                  data_open
 *     check       room, magnitude ...     push_check, replay
 *     apply       apply, carry, sum       update, sync_step_close
 *                 assign                  staged
 *     walk        values, nth, index      block, save, save_left, save_keeps, restore_fill
 *                 restore                 restore_fill
 *     describe    describe                report_variables
 *
 * Ownership: a kind is constant and keeps nothing. Its measures of a variable lie in struct variable and its
 * definition, those of a block in struct block_ref, which is its caller's and lives as long as the event. Values
 * (ref->old, ref->place) are the turn's, gradients are borrowed until the call returns. One question costs one indirect
 * call for a block or an event: loops over elements are behind it. Byte sizes that clients must know as well are
 * common/core/model/cut.h's. */
#ifndef SERVER_CORE_MODEL_KIND_H
#define SERVER_CORE_MODEL_KIND_H

#include "common/core/base/base.h"
#include "common/core/optimizer/optimizer.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"
#include "server/core/model/block.h"
#include "server/core/model/update.h"
#include "server/core/model/variable.h"
#include "server/core/store/store.h"

struct shard;
struct shard_restore;

/* One update of one block. */
struct kind_update {
    float scale;
    struct optimizer_when when; /* version: the block's after it */
    uint64_t clock;             /* the block's after it */
    bool stream;                /* out of place: past the caches, where that is worth it */
};

struct variable_kind {
    /* ---- Cut ---- */

    /* How many blocks there are (numbers), and whatever else follows from the declaration, which is known. */
    void (*define)(struct variable_definition *d);

    /* How many of them are here, and the bytes of their values (count, bytes). start is known. */
    void (*measure)(struct variable *v, uint32_t shard, uint32_t shards);

    /* Bytes of the pool that one gradient of each block here takes. */
    uint64_t (*pooled_bytes)(const struct variable *v, uint32_t shard, uint32_t shards);

    /* What the block of this number holds: ref->cut, values, size. */
    void (*cut)(struct block_ref *ref);

    /* ---- Key ---- */

    /* Where its newest value lies in the store. Asks for no cut. */
    struct store_key (*key)(const struct block_ref *ref);

    /* ---- Values ---- */

    /* The first value of a block, at ref->place, and its head. */
    void (*fill)(const struct block_ref *ref);

    /* The store has this value, of which only the head can be read; value.len is its own. False: it is no value of this
     * kind. After the last: whether what is there is what was made. */
    bool (*load)(struct shard *s, struct variable *v, const struct store_key *key, struct span value);
    bool (*loaded)(const struct variable *v);

    /* The part of a value that a pull gets. */
    struct span (*pulled)(struct span value);

    /* ---- Check ---- */

    /* Bytes that an update may have to write into the store. */
    uint64_t (*room)(const struct shard *s, const struct block_ref *ref);

    /* Whether apply() by itself refuses a gradient that is not finite, and leaves the block as it was. */
    bool (*apply_checks)(const struct shard *s, const struct block_ref *ref);

    /* Whether apply() takes float16 as it came. */
    bool (*takes_halves)(const struct variable *v);

    /* gradient: [ref->values] f32. PS_ERR_NONFINITE: the first element that is no number, or, where all are, that the
     * update would overflow. */
    enum optimizer_magnitude (*magnitude)(const struct block_ref *ref, const float *gradient);
    enum ps_err (*nonfinite)(const struct block_ref *ref, const struct gradient *gradient, struct ps_error *e);

    /* ---- Apply ---- */

    /* From ref->old to ref->place, with the head that it then has. False: see update.h; the value is as it was: in
     * place it comes from ref->before.value, which is there where the update may be refused. */
    bool (*apply)(const struct block_ref *ref, const struct gradient *gradient, const struct kind_update *u);

    /* The same value with the version and the clock of ref->block. */
    void (*carry)(const struct block_ref *ref);

    /* The value with the weights of this one that waited (staged.h), and its slots as they are or (reset) as they
     * begin; the head has the version and clock of ref->block, and the number of the assign. From ref->old to
     * ref->place. */
    void (*assign)(const struct block_ref *ref, const struct block_head *waited, bool reset_slots);

    /* sum of n gradients, in this order. */
    void (*sum)(const struct block_ref *ref, uint32_t n, const float *const gradients[], float *sum);

    /* ---- Walk: for saves, checkpoints and restores ---- */

    /* The values that are there; the index-th of them, also of those that are still to be made; and its index. */
    uint64_t (*values)(const struct variable *v);
    struct block_ref (*nth)(const struct shard *s, struct variable *v, uint64_t index);
    uint64_t (*index)(const struct block_ref *ref);

    /* A value, [ref->size] bytes, as a checkpoint has it; variable: number in its manifest. PS_ERR_IO, PS_ERR_DATA. */
    enum ps_err (*restore)(const struct block_ref *ref, struct shard_restore *from, size_t variable, uint8_t *value,
                           struct ps_error *e);

    /* ---- Describe ---- */

    /* Shape, blocks, bytes, versions. */
    void (*describe)(const struct variable *v, Psd__VariableReport *m);
};

extern const struct variable_kind kind_dense;

/* The kind that a declaration asks for. */
static inline const struct variable_kind *
kind_of(const Psd__Declare *declare)
{
    (void)declare; /* it cannot name another */
    return &kind_dense;
}

/* Where the newest value of a block lies. */
static inline struct store_key
block_key(const struct block_ref *ref)
{
    return ref->variable->kind->key(ref);
}

#endif
