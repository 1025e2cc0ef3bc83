/* The script of fuzz_shard: what connections send is in shard_script.c, the other steps and their table in
 * fuzz_shard.c. */
#ifndef TESTS_FUZZ_SHARD_SCRIPT_H
#define TESTS_FUZZ_SHARD_SCRIPT_H

#include "tests/fuzz/bytes.h"
#include "tests/fuzz/shard_world.h"

#define SCRIPT_JOBS    5
#define SCRIPT_WORKERS 3 /* of each job */

struct script {
    struct bytes in;
    struct world world;
    uint64_t incarnation[SCRIPT_JOBS][SCRIPT_WORKERS]; /* of the newest life of each */
};

struct world_conn *script_conn(struct script *s); /* any */

/* f with this metadata, and the next request id when it has none. */
void script_send(struct script *s, struct world_conn *c, struct world_frame f, const ProtobufCMessage *m);

/* A message of its type, from any connection; nothing when there is none. Each takes its choices from the input. */
void script_hello(struct script *s);
void script_observe(struct script *s);
void script_declare(struct script *s);
void script_pull(struct script *s);
void script_push(struct script *s);
void script_tick(struct script *s);
void script_barrier(struct script *s);
void script_skip(struct script *s);
void script_cancel(struct script *s);
void script_set(struct script *s);
void script_query(struct script *s);
void script_ping(struct script *s);
void script_goodbye(struct script *s);
void script_attach(struct script *s);
void script_save(struct script *s);
void script_evict(struct script *s);
void script_meet(struct script *s);
void script_round(struct script *s); /* a worker says goodbye and comes again */
void script_raw_frame(struct script *s);

#endif
