/* The pushes that were acknowledged to a worker, frame by frame, read off its traffic. When a shard comes back older,
 * the client reports how many of these pushes are gone; the ledger knows which are, and the two must agree.
 *
 * The fate of some frames does not show outside: a refused push leaves no trace in a block, a block may be too short to
 * tell, and the client does not learn whether a push that it gave up was taken. They may be among those that are gone,
 * or not. */
#ifndef TESTS_SIM_RECEIPTS_H
#define TESTS_SIM_RECEIPTS_H

#include "client/core/shards/core.h"
#include "common/core/base/arena.h"
#include "common/core/wire/frame.h"
#include "tests/sim/model.h"

struct node_worker;
struct receipt;

struct receipts {
    struct receipt *items;
    size_t len, room;
    uint64_t boot[MODEL_SHARDS_MAX];     /* of the last welcome */
    uint64_t restored[MODEL_SHARDS_MAX]; /* the boot that began with a checkpoint, as it had it */
    uint64_t before[MODEL_SHARDS_MAX];   /* gone before this incarnation */
    bool reported[MODEL_SHARDS_MAX];     /* of the change of boot under way */
    bool changed[MODEL_SHARDS_MAX];
    struct arena arena;
};

void receipts_begin(struct node_worker *w); /* a new incarnation: nothing is acknowledged */
void receipts_finish(struct node_worker *w);

/* A frame goes out; one came in: before and after the core receives it. */
void receipts_sent(struct node_worker *w, uint32_t shard, const struct core_send *send);
void receipts_got(struct node_worker *w, uint32_t shard, const struct frame_head *head, const void *meta);
void receipts_taken(struct node_worker *w, uint32_t shard);

/* The client reported a rollback. */
void receipts_rolled_back(struct node_worker *w, uint32_t shard);

/* This worker gave up a push of this clock. */
void receipts_given_up(struct node_worker *w, uint64_t clock);

#endif
