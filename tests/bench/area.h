/* The areas of the bench: a name, the question, and the function that answers with tables (report.h). Each is one file
 * of areas/, whose head says exactly what is measured. */
#ifndef TESTS_BENCH_AREA_H
#define TESTS_BENCH_AREA_H

#include <stddef.h>

#include "tests/bench/bench_options.h"
#include "tests/bench/report.h"

/* clang-format off */
#define AREA_LIST(X) /* name, what is asked */ \
    X(wire,        "push, pull, push-and-pull by block size, over TCP, Unix socket and TLS, beside pump, cipher and Redis") \
    X(small,       "many small variables, a hundred in a call and each with its own") \
    X(roundtrip,   "a push-and-pull at a time, blocking and spinning: median and 99th percentile") \
    X(models,      "blocks of 1 MiB by the size of the model: in the cache, 400 MB, 4 GB") \
    X(optimizers,  "the kernels beside memcpy and a triad, in the cache and in memory") \
    X(acks,        "pushes that wait for the disk, beside fdatasync") \
    X(compress,    "pushes that travel as float16, bfloat16, int8 and top-k, beside float32") \
    X(copies,      "pushes whose gradients are copied, beside such that lend them") \
    X(workers,     "1, 2, 8 and 64 workers together; one beside 1,000 idle connections") \
    X(shards,      "variables of 4 MiB over 1, 2 and 4 shards") \
    X(save,        "training while a shard saves, at several rates") \
    X(restart,     "a shard that was killed: until it serves again, by the size of its model") \
    X(connect,     "open, close, declare: time and memory") \
    X(variables,   "100,000 variables and more: what each adds to lists, saves, starts and memory") \
    X(training,    "a step of the digits networks and of 100 million parameters, beside one process") \
    X(timeline,    "pushes and training steps with timelines that are kept, beside none") \
    X(hostile,     "what slow readers, floods, liars and the like cost the others") \
    X(collective,  "all-reduce by size, beside sockets, memory, Open MPI and gloo") \
    X(overlap,     "gradients reduced while others are still computed")
/* clang-format on */

#define X(name, about) void area_##name(const struct bench_options *s, struct bench_report *r);
AREA_LIST(X)
#undef X

struct area {
    const char *name, *about;
    void (*run)(const struct bench_options *s, struct bench_report *r);
};
extern const struct area areas[];
extern const size_t areas_len;

const struct area *area_find(const char *name); /* NULL: there is none */

#endif
