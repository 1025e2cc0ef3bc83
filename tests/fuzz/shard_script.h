/* The script of fuzz_shard: what connections send is in shard_script.c, the other steps and their table in
 * fuzz_shard.c. */
#ifndef TESTS_FUZZ_SHARD_SCRIPT_H
#define TESTS_FUZZ_SHARD_SCRIPT_H

#include "tests/fuzz/bytes.h"
#include "tests/fuzz/shard_world.h"

#define SCRIPT_JOBS    5
#define SCRIPT_WORKERS 3 /* of each job */

struct shard_script {
    struct fuzz_bytes in;
    struct shard_world world;
    uint64_t incarnation[SCRIPT_JOBS][SCRIPT_WORKERS]; /* of the newest life of each */
};

struct world_conn *script_conn(struct shard_script *s); /* any */

/* f with this metadata, and the next request id when it has none. */
void script_send(struct shard_script *s, struct world_conn *c, struct world_frame f, const ProtobufCMessage *m);

/* A message of its type, from any connection; nothing when there is none. Each takes its choices from the input. */
void script_hello(struct shard_script *s);
void script_observe(struct shard_script *s);
void script_declare(struct shard_script *s);
void script_pull(struct shard_script *s);
void script_push(struct shard_script *s);
void script_tick(struct shard_script *s);
void script_barrier(struct shard_script *s);
void script_skip(struct shard_script *s);
void script_cancel(struct shard_script *s);
void script_set(struct shard_script *s);
void script_query(struct shard_script *s);
void script_ping(struct shard_script *s);
void script_goodbye(struct shard_script *s);
void script_attach(struct shard_script *s);
void script_save(struct shard_script *s);
void script_evict(struct shard_script *s);
void script_define(struct shard_script *s);
void script_drop(struct shard_script *s);
void script_assign(struct shard_script *s);
void script_meet(struct shard_script *s);
void script_round(struct shard_script *s); /* a worker says goodbye and comes again */
void script_raw_frame(struct shard_script *s);

#endif
