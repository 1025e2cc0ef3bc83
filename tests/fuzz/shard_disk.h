/* The disk of a fuzzed shard: a durable store, and a saver that does its work in whatever order the input says: pieces
 * of the redo log, blocks of a save, its end; errors in between; power loss, after which the shard is rebuilt from what
 * the disk has. All that the core requires of a saver is asserted here. */
#ifndef TESTS_FUZZ_SHARD_DISK_H
#define TESTS_FUZZ_SHARD_DISK_H

#include "server/core/durability/durable.h"
#include "server/core/shard/shard.h"

#define DISK_BLOCKS 4 /* asked for at a time */

struct shard_world;

struct fuzz_disk {
    struct store *store; /* NULL: the shard has none */
    struct durable durable;
    struct store_reader *reader;
    struct shard_save *save;
    bool closing;
    uint64_t redo_live; /* pieces before this one are committed in the live store */
    uint64_t powers;    /* losses */
};

void disk_start(struct shard_world *w, uint64_t bytes); /* a durable store, before the shard */
void disk_attach(struct shard_world *w);                /* a shard is there */
void disk_detach(struct shard_world *w);                /* it is gone, with its saver */
void disk_end(struct shard_world *w);
void disk_action(struct shard_world *w, const struct shard_action *a);

/* Some of the saver's work. */
void disk_step(struct shard_world *w, uint8_t how);

/* Fill the empty live store, and replay, with this boot. */
void disk_rebuild(struct shard_world *w, uint64_t boot);
void disk_replay(struct shard_world *w);

#endif
