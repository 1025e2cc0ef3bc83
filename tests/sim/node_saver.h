/* The simulated saver: it carries a shard's saves and the pieces of its redo log from the live store to the durable
 * one, as psd's saver thread does, one transaction at a time. Every step takes virtual time, so that updates, kills and
 * power losses come in between:
 *
 *                something waits               the chunk is full, or nothing is left
 *     SAVER_IDLE ───────────────► SAVER_READING ──────────────────────────────────► SAVER_SYNCING ──committed──►
 *         ▲      no room: again later  │ a block or a piece at a time                     │        reports, SAVER_IDLE
 *         └────────────────────────────┴──────────────────────────────────────────────────┘ the disk fails
 *
 * A process that ends while its saver syncs leaves it open whether that transaction happened. After a failed sync the
 * store is never trusted again: a full save goes into a new one, and until that is done nothing is durable. */
#ifndef TESTS_SIM_NODE_SAVER_H
#define TESTS_SIM_NODE_SAVER_H

#include "server/core/durability/durable.h"
#include "server/core/shard/shard.h"
#include "tests/sim/sim.h"

#define NODE_SAVER_BLOCKS 8 /* asked for at a time */

struct node_shard;

enum node_saver_state { SAVER_IDLE, SAVER_READING, SAVER_SYNCING };

struct node_saver_profile {
    size_t chunk; /* bytes of a transaction */
    uint64_t read_us_max, sync_us_max;
    uint64_t every_us;   /* between saves; 0: none by itself */
    bool passed_at_once; /* a block is reported when it was read, not when the transaction is done */
};

struct node_saver {
    struct node_shard *node;
    struct sim *sim;
    struct node_saver_profile profile;
    struct store *store; /* the durable one: it outlives processes */
    struct durable durable;
    struct store_reader *reader; /* of the live store, while the process runs */
    enum node_saver_state state;
    struct sim_timer timer, every;

    struct shard_save *save; /* NULL: none */
    bool prepared;           /* the store has room for its blocks */
    bool all_read;
    bool closing;  /* the core knows that all its blocks were read, and requests its end */
    bool remaking; /* the store is new and has no save yet */
    struct shard_save_block blocks[NODE_SAVER_BLOCKS];
    size_t blocks_len, blocks_at;
    uint64_t passed; /* blocks that were read and not reported */
    uint64_t written;
    uint64_t redo_live; /* pieces before this one are committed in the live store */
    uint64_t redo_next; /* to be written */

    size_t txn_bytes;
    uint32_t record_left; /* pieces of the record under way: all are in one transaction */
    bool finishing;       /* the transaction holds the save's last words */
    bool said_not_durable;
    uint64_t full_until_us; /* the disk has no room until then */
    uint64_t slow_until_us; /* no sync is done before */
    uint64_t sync_fails;    /* the nth from now; 0: none */
    uint64_t saves, failures;
};

void node_saver_init(struct node_saver *v, struct node_shard *n, const struct node_saver_profile *p);
void node_saver_finish(struct node_saver *v);

/* A process begins: looks at the durable store. The live store may still be empty. */
void node_saver_open(struct node_saver *v);
/* Its core runs now. */
void node_saver_start(struct node_saver *v);
/* The process ends, in whatever is under way. */
void node_saver_die(struct node_saver *v);
/* Nothing is left of the disk. Between processes. */
void node_saver_wipe(struct node_saver *v);

/* SHARD_SAVE_BEGUN, SHARD_SAVE_CLOSE, SHARD_SAVE_ABANDONED, SHARD_REDO. */
void node_saver_action(struct node_saver *v, const struct shard_action *a);

/* Now and then while a shard restores. */
void node_saver_look(struct node_saver *v);

/* The disk is full for a while; it syncs nothing for a while; the nth sync from now fails. */
void node_saver_fill(struct node_saver *v, uint64_t for_us);
void node_saver_slow(struct node_saver *v, uint64_t for_us);
void node_saver_fail_sync(struct node_saver *v, uint64_t nth);

#endif
