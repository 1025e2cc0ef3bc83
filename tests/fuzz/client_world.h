/* The world around a client core in a fuzz target: connections that deliver bytes in small pieces, and callers with
 * buffers.
 *
 * It performs the core's actions as the glue does, and checks what the core promises:
 *
 *     a frame that it hands out is whole and valid, and its bytes can be read until it is reported as sent
 *     a payload's places lie in buffers of pulls that are not done; once done, its buffers are freed, so
 *     that any use of them is found
 *     actions come for connections that there are
 *     every operation ends: at the latest when the client says goodbye */
#ifndef TESTS_FUZZ_CLIENT_WORLD_H
#define TESTS_FUZZ_CLIENT_WORLD_H

#include "client/core/shards/core.h"
#include "client/core/shards/variable.h"
#include "common/core/base/arena.h"
#include "common/core/model/layout.h"
#include "common/core/wire/wire.h"

#define WORLD_SHARDS 2
#define WORLD_VARS   4
#define WORLD_OPS    12
#define WORLD_HEARD  16

/* The definition of variable v0, v1 ..., for workers that declare it and for honest shards. */
struct world_definition {
    uint64_t elements;
    const char *optimizer;
};
extern const struct world_definition client_world_definitions[WORLD_VARS];

/* A frame that a shard got. */
struct client_received {
    struct frame_head head;
    uint8_t *meta;
};

/* A frame that was handed out and not yet reported as sent. */
struct sending {
    struct sending *next;
    struct core_send *send;
    bool lost; /* its connection is gone: its bytes may not be read any more */
};

struct world_link {
    bool open, connected;
    struct sending *sending;
    struct client_received heard[WORLD_HEARD]; /* the newest, to be answered */
    size_t heard_len;
    struct ps_cursor cursor; /* of the newest tick that it took; an honest welcome carries it */
    bool has_cursor;

    /* The frame that is on its way to the core. */
    bool reading, discarded;
    struct frame_head head;
    uint8_t *meta;
    struct core_payload_dest place;
};

struct world_var {
    struct core_var *var; /* NULL: not declared */
    bool ready;
    uint64_t elements;
    struct layout layout;
    uint32_t id[WORLD_SHARDS]; /* as the shards reported last */
};

struct world_op {
    struct core_op *op; /* NULL: none */
    size_t declares;    /* index + 1 of the variable */
    size_t attaches;    /* the same */
    size_t n;
    float *grads[WORLD_VARS], *out[WORLD_VARS]; /* heap, of exactly their size */
    uint64_t len[WORLD_VARS];
};

struct client_world {
    struct core *core;
    uint64_t now_ms;
    struct world_link link[WORLD_SHARDS];
    struct world_var var[WORLD_VARS];
    struct world_op op[WORLD_OPS];
    bool hold; /* frames handed out are not reported as sent until client_world_sent() */
    struct arena arena;
};

void client_world_start(struct client_world *w, const struct core_config *config);
void client_world_end(struct client_world *w); /* says goodbye and checks that everything has ended */

/* After every call to the core: performs its actions; then callers whose operations are done free their buffers. */
void client_world_perform(struct client_world *w);

void client_world_sent(struct client_world *w, uint32_t shard, enum ps_err result); /* report the oldest as sent */
void client_world_connect(struct client_world *w, uint32_t shard, bool succeeds);
void client_world_lose(struct client_world *w, uint32_t shard, enum ps_err why);

/* A frame from a shard begins: with a payload, the core says where it goes. Takes meta. */
void client_world_begin(struct client_world *w, uint32_t shard, const struct frame_head *head, uint8_t *meta);

/* All of its payload came, and the frame is whole. */
void client_world_end_frame(struct client_world *w, uint32_t shard);

void client_world_free_op(struct client_world *w, struct world_op *o);

#endif
