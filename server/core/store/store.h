/* Where a shard keeps what must outlive the process: blocks, and rows of metadata. An interface with two sides: LMDB
 * (store_lmdb.c, the live environment) and memory (store_mem.c, for tests and the simulator). One conformance suite
 * tests both.
 *
 * One writer: begin ... commit or abort, one at a time, from the thread that owns the store. What get() returned stays
 * readable until commit or abort, even after reserve() gave the key a new place: an optimizer reads the old block and
 * writes the new one. A second reserve() of a key in the same transaction returns the same place, its bytes as they
 * were left, so a second update works in place.
 *
 * Readers: a snapshot is the state of one commit, shared by reference count; what it returns stays until its last
 * unref(). Keep snapshots short: no page that was freed after the oldest one began is used again while it is held.
 *
 * Nothing here blocks but for page faults. */
#ifndef SERVER_CORE_STORE_STORE_H
#define SERVER_CORE_STORE_STORE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* A block's key. A block lies under generation 0 or 1; while a save is under way it may lie under both, the older value
 * waiting for the saver (save.h). Pieces of the redo log lie behind all blocks, in the order of their numbers
 * (store_redo_key(), redo.h). Behind these lie values of assigns that wait for their blocks (staged.h), under a
 * generation for each slot of a job. */
struct store_key {
    uint32_t var;   /* at most STORE_VAR_MAX */
    uint32_t block; /* number within the variable */
    uint8_t generation;
};
#define STORE_VAR_MAX           ((1u << 24) - 1)
#define STORE_GENERATION_REDO   2
#define STORE_GENERATION_STAGED 3 /* and those after it */
#define STORE_REDO_MAX          ((UINT64_C(1) << 56) - 1)

static inline struct store_key
store_redo_key(uint64_t number)
{
    return (struct store_key){
        .var = (uint32_t)(number >> 32), .block = (uint32_t)number, .generation = STORE_GENERATION_REDO};
}

static inline uint64_t
store_redo_number(const struct store_key *key)
{
    return (uint64_t)key->var << 32 | key->block;
}

/* Tables of metadata rows, keyed by up to STORE_ROW_KEY_MAX bytes, iterated in byte order of the key. */
enum store_table {
    STORE_SHARD,    /* by name: one row per fact (metadata_rows.h) */
    STORE_JOBS,     /* by job id, big-endian u32 */
    STORE_VARS,     /* by variable id, big-endian u32 */
    STORE_SESSIONS, /* by job id and task, big-endian u32 each */
    STORE_CURSORS,  /* by job id, task and chunk, big-endian u32 each */
    STORE_TABLES
};
#define STORE_HEAD        48         /* bytes of a value that each_head() shows: a block's head (layout.h) */
#define STORE_ROW_KEY_MAX 256        /* bytes, at least 1 */
#define STORE_ROW_MAX     (64 * KIB) /* bytes of one metadata row */

struct store;
struct store_snapshot;
struct store_reader;

struct store_usage {
    uint64_t used_bytes; /* pages in use, free ones inside the file not counted */
    uint64_t file_bytes; /* what the file takes of memory */
    uint64_t max_bytes;  /* the most that it may take, as things are now */
};

/* Return false to stop. key and value are valid during the call. */
typedef bool (*store_visit_block)(void *arg, const struct store_key *key, struct span value);
typedef bool (*store_visit_row)(void *arg, struct span key, struct span value);

struct store_ops {
    /* Start the write transaction with room for room_bytes of new values; PS_ERR_FULL when there is none (nothing is
     * begun then), PS_ERR_IO. */
    enum ps_err (*begin)(struct store *s, uint64_t room_bytes);
    enum ps_err (*commit)(struct store *s); /* on error it is aborted */
    void (*abort)(struct store *s);

    /* Within the write transaction. get: PS_ERR_NOT_FOUND. reserve: size is layout_value_size() of some class and the
     * same for a key's whole life; the place is not zeroed. erase: PS_ERR_NOT_FOUND. */
    enum ps_err (*get)(struct store *s, const struct store_key *key, struct span *value);
    enum ps_err (*reserve)(struct store *s, const struct store_key *key, size_t size, void **place);
    enum ps_err (*erase)(struct store *s, const struct store_key *key);

    /* Metadata rows, within the write transaction. put copies. row_erase: PS_ERR_NOT_FOUND. */
    enum ps_err (*row_put)(struct store *s, enum store_table t, struct span key, struct span value);
    enum ps_err (*row_erase)(struct store *s, enum store_table t, struct span key);

    /* The last committed state. Several refs between two commits share one snapshot. PS_ERR_LIMIT when too many
     * different ones are held. */
    enum ps_err (*snapshot_ref)(struct store *s, struct store_snapshot **out);
    void (*snapshot_unref)(struct store *s, struct store_snapshot *snap);
    enum ps_err (*snapshot_get)(struct store *s, struct store_snapshot *snap, const struct store_key *key,
                                struct span *value);

    /* Read all of the last committed state, for loading. In order of (generation, var, block) and of row key. */
    enum ps_err (*each_block)(struct store *s, store_visit_block visit, void *arg);
    /* The same for visits that read no more than the first STORE_HEAD bytes of each value: there may be no more of it
     * where data points, though len is the value's. */
    enum ps_err (*each_head)(struct store *s, store_visit_block visit, void *arg);
    /* The same from this key on, itself included. */
    enum ps_err (*each_block_from)(struct store *s, const struct store_key *from, store_visit_block visit, void *arg);
    enum ps_err (*each_row)(struct store *s, enum store_table t, store_visit_row visit, void *arg);

    /* For one other thread, such as the saver's: it sees the newest commit at each get, and what that returned stays
     * until the next get or done. Opened and closed by the owner's thread, before the store is closed; PS_ERR_NOMEM,
     * PS_ERR_LIMIT. Hold values as briefly as snapshots: the longer a thread may not be scheduled, the more so. */
    enum ps_err (*reader_open)(struct store *s, struct store_reader **out);
    enum ps_err (*reader_get)(struct store_reader *r, const struct store_key *key, struct span *value);
    void (*reader_done)(struct store_reader *r);
    void (*reader_close)(struct store_reader *r);

    /* Bytes that get(), a snapshot or a walk has lent are about to be read. Where they lie on a disk they may be lost:
     * PS_ERR_IO then, as long as the system can tell; a reader that does not ask may end by a signal. */
    enum ps_err (*fetch)(struct store *s, struct span value);

    void (*usage)(struct store *s, struct store_usage *out);
    /* Frees it; no transaction or snapshot may be open. */
    void (*close)(struct store *s);
};

/* Every store begins with this. */
struct store {
    const struct store_ops *ops;
};

/* The most room that one begin() may ask for: a push of as many blocks of the smallest size as a frame may name, or the
 * rows of a set. */
#define STORE_ROOM_MAX (128 * MIB)

/* Room that one row of up to 4,000 bytes may take: a page for its value, its leaf, branches, a split. A transaction
 * that asked begin() for this much for each of its rows can surely write them. */
#define STORE_ROW_ROOM (7 * 4 * KIB)

/* What one turn of the loop asks for and writes at most, unless a single push needs more. */
#define STORE_ROOM_TURN (16 * MIB)

#endif
