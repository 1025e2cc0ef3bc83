/* A server core whose memory runs out: allocations inside calls of the core are counted and can be made to fail, also
 * those of its store and of protobuf-c on its behalf; those of the test itself are not. It works under sanitizers,
 * since the linker inserts it: link with failing_memory_args (tests/unit/meson.build).
 *
 *     failing_memory_at(7, 1);             // the seventh from now on fails
 *     ...                                  // shard_new(), shard_step(), shard_commit(), shard_data_open(), ...
 *     if (!failing_memory_failed()) ...    // there were fewer
 *     failing_memory_at(0, 0);
 */
#ifndef TESTS_UNIT_KITS_FAILING_MEMORY_H
#define TESTS_UNIT_KITS_FAILING_MEMORY_H

#include <stdint.h>

/* The nth allocation from now on (1: the next) fails, and so do those after it, `count` in all. nth 0: none. */
void failing_memory_at(uint64_t nth, uint64_t count);

/* How many failed since then. */
uint64_t failing_memory_failed(void);

/* Allocations, also the test's, that are not freed yet: the same after a shard's life as before it. */
int64_t failing_memory_held(void);

#endif
