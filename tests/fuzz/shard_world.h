/* The world around a shard in a fuzz target: it hands over events, ends turns, takes what comes out, and remembers the
 * requests that are not yet answered. After every turn it checks what must hold (shard_check.c):
 *
 *     every request is answered, or parked and known to be; no connection receives anything after its end
 *     all that the shard sends is valid
 *     sessions count their sequences without gaps; a message that waits is listed by everything that holds it
 *     a block is of one state: elements that started equal and got equal gradients are equal; versions never go back
 *     the store holds all of it: a second shard, loaded from there, is the same
 *     a save is of one instant; a shard rebuilt from the disk is whole (shard_disk.h)
 *
 * A connection on which meaningless bytes were sent is no longer checked for answers; all else holds. */
#ifndef TESTS_FUZZ_SHARD_WORLD_H
#define TESTS_FUZZ_SHARD_WORLD_H

#include "common/core/base/arena.h"
#include "common/core/wire/wire.h"
#include "server/core/shard_state.h"
#include "server/core/store/store_mem.h"
#include "tests/fuzz/shard_disk.h"

#define WORLD_CONNS  6
#define WORLD_ASKED  64
#define WORLD_VARS   16
#define WORLD_BLOCKS 16

/* Numbers of the requests that are not answered. */
struct shard_world_request {
    uint64_t number[WORLD_ASKED];
    size_t len;
};

struct world_conn {
    uint64_t id; /* 0: none */
    bool ended;  /* the shard closed it; the event that it is gone is still to come */
    bool wild;
    struct shard_world_request requests, seqs;
    uint64_t last_request; /* the newest that was sent */
    uint64_t seq_max;      /* the highest that was sent */
    uint32_t job, task;    /* of its hello */
};

/* An answer with blocks that is not yet first in line. */
struct world_data {
    struct world_data *next;
    uint64_t conn;
    struct shard_data *data;
};

struct shard_world {
    struct shard_config config;
    struct store *store;
    uint64_t store_bytes;
    struct fuzz_disk disk;
    struct shard *shard;
    uint64_t now_ms, ids, requests;
    bool late_data; /* answers with blocks are made later than they were due */
    bool stopped;
    struct world_conn conn[WORLD_CONNS];
    struct world_data *data;
    struct arena arena;
    uint64_t commits;                               /* since a second shard was loaded */
    uint64_t version[WORLD_VARS + 1][WORLD_BLOCKS]; /* committed */
};

/* durable: with a disk. */
void world_start(struct shard_world *w, const struct shard_config *config, uint64_t store_bytes, bool durable);

/* All connections close, leases end, the shard drains. Checks that nothing is left. */
void world_end(struct shard_world *w);

void world_event(struct shard_world *w, struct shard_event *event); /* sets the time */
void world_turn(struct shard_world *w);                             /* ends it */
void world_pass(struct shard_world *w, uint64_t ms);
void world_work(struct shard_world *w);  /* until there is none */
void world_crash(struct shard_world *w); /* kill -9 and a new process */
void world_power(struct shard_world *w); /* power loss, and a new process over what the disk has */

void world_open(struct shard_world *w, struct world_conn *c); /* a new connection in its place */
void world_lose(struct shard_world *w, struct world_conn *c);
void world_deliver(struct shard_world *w); /* make answers with blocks that are due */

/* A frame with this payload: n times the same number. asks: its request must be answered; seq: 0, or the sequence
 * number that must be answered. */
struct world_frame {
    enum msg_type type;
    uint64_t request;
    const void *meta;
    size_t meta_len;
    float value;
    size_t n;
    bool asks;
    uint64_t seq;
};
void world_frame(struct shard_world *w, struct world_conn *c, const struct world_frame *f);

/* ---- shard_check.c ---- */

void check_turn(struct shard_world *w);  /* what must hold between turns */
void check_store(struct shard_world *w); /* what is committed */
void check_empty(struct shard_world *w); /* when no connection is left */

#endif
