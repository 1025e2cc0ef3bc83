/* The durable side of a shard: the data in a store that is synced at every commit. It knows nothing of threads, files
 * or LMDB: psd gives it an LMDB environment on disk (saver.c), the simulator one in memory.
 *
 *     blocks of generation g      the save that counts: the manifest names g
 *     blocks of generation 1 - g  the one that is being staged, or those of an older one, which it writes over
 *     redo log                    pieces; those before the manifest's `redo` are leftovers and are erased bit by bit
 *     rows                        of the save that counts
 *     facts (metadata_rows.h)     "durable": the identity; "manifest": without it there is no save; "staged": of which
 *                                 boot the blocks of generation 1 - g are; "log": the piece after the newest
 *
 * Each of these has a checksum (value_sum.h, row_sum.h), and the manifest has sums of those of its blocks and rows, so
 * that none is missing or of an older save. They are verified whenever the values are read:
 *
 *                      its checksum         verified by                      mended from
 *     block            in its head          durable_rebuild()                the same block of generation 1 - g
 *     piece of the log in its head          shard_replay_piece()
 *     row              its last field       durable_rebuild()
 *     fact             its last field       metadata_rows_get()
 *
 * What cannot be mended is an error with a sentence that names it. Data of before there were checksums is read as it
 * is; the next save has them.
 *
 * A save: durable_begin_save() and durable_sweep(), then transactions of at most DURABLE_TXN_MAX that stage blocks (and
 * take pieces of the redo log that wait meanwhile), and a last one with manifest and rows. Complete or absent: a start
 * discards what no manifest names.
 *
 * A staged block whose version and clock are those that already lie there is not written again: within one boot these
 * two identify what a block holds. In another boot the same version may come again with other values, so what was
 * staged in one is erased before another stages. */
#ifndef SERVER_CORE_DURABILITY_DURABLE_H
#define SERVER_CORE_DURABILITY_DURABLE_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/store/store.h"
#include "server/core/turn/shard_types.h"

/* Of a save. Those before checksums were that of its live data (identity.h), which the manifest says now. */
#define DURABLE_FORMAT      2
#define DURABLE_FORMAT_SUMS 4 /* with checksums: what is written now */
#define DURABLE_TXN_MAX     (64 * MIB)

#define DURABLE_BLOCK_TEXT_MAX 192 /* of which block it is, as a text */

/* The manifest's contents; save 0: there is none. */
struct durable_manifest {
    uint64_t save;
    uint64_t boot; /* of the live data */
    uint64_t redo; /* pieces before this one are in the save */
    uint64_t blocks, bytes;
    uint64_t unix_ms;
    uint8_t generation;
    uint32_t format;                     /* of the live data; 0: there was none */
    bool sums;                           /* all of it has checksums, and these are known: */
    uint64_t blocks_sum, rows, rows_sum; /* the sum of its blocks' checksums; its rows, and the sum of theirs */
};

/* What the open transaction will have done. */
struct durable_txn {
    uint64_t staged, staged_sum;
    uint64_t redo_next;
    bool finishes;
    struct durable_manifest manifest;
    bool rows_gone; /* variables of the save before are not in this one */
    size_t rows_len;
    uint64_t rows_hash;
};

/* Blocks of variables that were dropped: durable_sweep(). */
struct durable_sweep {
    bool needed; /* generation 1 - g may have some */
    bool loaded; /* vars: [vars_len] ids, in rising order, of the variables that there are */
    uint32_t *vars;
    size_t vars_len;
    uint64_t of;         /* number of the save that they are of; 0: of the save that counts */
    struct store_key at; /* how far it has come */
    size_t rows_len;     /* how many variables the save that counts has, and a hash of their ids */
    uint64_t rows_hash;
};

struct durable {
    struct store *store; /* borrowed */
    char cluster[WIRE_CLUSTER_MAX + 1];
    uint32_t shard, shards;
    uint64_t id; /* of this environment, random */
    struct durable_manifest manifest;
    uint64_t redo_next;  /* piece that comes next; 1 in an empty log */
    uint64_t redo_first; /* oldest that is there and counts; redo_next: none */
    uint64_t redo_bytes; /* of those that count */

    uint64_t mended;                           /* blocks that durable_rebuild() has taken from the other generation */
    char first_mended[DURABLE_BLOCK_TEXT_MAX]; /* the first of them: "block 3 of variable 'w'" */

    bool saving;                    /* since durable_begin_save() */
    uint64_t staged;                /* blocks of that save */
    uint64_t staged_sum;            /* the sum of their checksums */
    uint64_t staged_boot;           /* of what lies under generation 1 - g; 0: nothing does */
    struct shard_verified verified; /* by durable_stage_verified(), since durable_begin_save() */
    struct durable_txn txn;
    struct durable_sweep sweep;
};

/* That of the save that is being staged. */
static inline uint8_t
durable_staging_generation(const struct durable *d)
{
    return d->manifest.generation ^ 1;
}

extern const char *const durable_manifest_name, *const durable_staged_name, *const durable_log_name; /* facts */

/* Read what is there (durable_open.c); into an empty store write the identity, with this id. cluster, shard, shards:
 * PS_ERR_CLUSTER when the store belongs to another. PS_ERR_VERSION, with a sentence, for a format that is not known;
 * PS_ERR_MISMATCH for a live store; PS_ERR_IO, also for a redo log with a gap. */
enum ps_err durable_open(struct durable *d, struct store *store, const char *cluster, uint32_t shard, uint32_t shards,
                         uint64_t id, struct ps_error *e) PS_MUST_USE;

/* Frees what it keeps in memory; the store is the caller's. Accepts a zeroed one. */
void durable_close(struct durable *d);

/* ---- Writing (durable.c): one transaction at a time, from one thread ---- */

enum ps_err durable_begin(struct durable *d, uint64_t bytes) PS_MUST_USE; /* at most DURABLE_TXN_MAX */
enum ps_err durable_commit(struct durable *d) PS_MUST_USE;                /* synced; on error it is aborted */
void durable_abort(struct durable *d);

/* A save of this boot begins, or begins again. Erases what another boot has staged, a transaction's worth at most:
 * *more, call again. Begins and commits by itself. */
enum ps_err durable_begin_save(struct durable *d, uint64_t boot, bool *more) PS_MUST_USE;

/* durable_sweep.c. The save has no blocks but of its own variables: where it is to be staged, those of others are
 * erased, a transaction's worth at most: *more, call again. After durable_begin_save(), before anything is staged. save
 * NULL: between saves, those that the save that counts has no variables for. Begins and commits by itself. */
enum ps_err durable_sweep(struct durable *d, const struct shard_save *save, bool *more) PS_MUST_USE;

/* A hash of the ids of a save's first *len variables; *len: how many there are of these. */
uint64_t durable_sweep_hash(const struct shard_save *save, size_t *len);

/* Within a transaction (durable_stage.c). A block of that save, each once; key: where it lies in the live store.
 * *written: bytes that this took, 0 when it was there.
 *
 * durable_stage_same() stages the block only if it is there already (*same), and reads the value's head and length
 * alone. */
enum ps_err durable_stage_same(struct durable *d, const struct store_key *key, struct span value,
                               bool *same) PS_MUST_USE;
enum ps_err durable_stage(struct durable *d, const struct store_key *key, struct span value,
                          size_t *written) PS_MUST_USE;

/* The same for a save that verifies: a block that is there already is read as a whole and held against its checksum,
 * and is written again from the live one when that does not hold; otherwise the live one is held against it. What was
 * found is counted in d->verified. *took: bytes that were written, or read. */
enum ps_err durable_stage_verified(struct durable *d, const struct store_key *key, struct span value,
                                   size_t *took) PS_MUST_USE;

/* A piece of the redo log; one that is there already is written over. */
enum ps_err durable_redo(struct durable *d, uint64_t number, struct span piece) PS_MUST_USE;

/* The end of the save, when all of its blocks are staged: its rows replace all that were there, the manifest names the
 * other generation. After the commit, d->manifest is this save's. */
enum ps_err durable_finish(struct durable *d, const struct shard_save *save, uint64_t unix_ms) PS_MUST_USE;

/* Erase leftovers of the redo log, then of variables that were dropped, a transaction's worth at most. *more: call
 * again. Begins and commits by itself. */
enum ps_err durable_cut(struct durable *d, bool *more) PS_MUST_USE;

/* ---- Rebuilding (durable_rebuild.c) ---- */

/* Called now and then; false: give up (PS_ERR_CANCELLED). */
typedef bool (*durable_progress)(void *arg, uint64_t blocks, uint64_t of);

/* Fill an empty live store with the save, as generation 0: rows, too. With a new boot, so that clients learn that this
 * is an older state. Nothing is written to the durable store; staged blocks and the redo log are not looked at. After
 * an interruption the caller throws the live store away. PS_ERR_NOT_FOUND: there is no save. progress may be NULL. */
enum ps_err durable_rebuild(struct durable *d, struct store *live, uint64_t boot, durable_progress progress, void *arg,
                            struct ps_error *e) PS_MUST_USE;

#endif
