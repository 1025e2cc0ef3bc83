/* A store in heap memory, for tests and the simulator. It can be told to fail, and to crash back to the last commit.
 *
 * For one thread: its readers, too, are for the thread that owns it. */
#ifndef SERVER_STORE_MEM_H
#define SERVER_STORE_MEM_H

#include "store.h"

/* NULL when out of memory. max_bytes of block values; begin() answers PS_ERR_FULL past it. */
struct store *store_mem_new(uint64_t max_bytes);

/* The nth call from now (1: the next) to this operation fails with PS_ERR_IO; 0: none. */
enum store_mem_fail { STORE_MEM_FAIL_BEGIN, STORE_MEM_FAIL_RESERVE, STORE_MEM_FAIL_COMMIT, STORE_MEM_FAILS };
void store_mem_fail_at(struct store *s, enum store_mem_fail what, uint64_t nth);

/* What kill -9 leaves: an open transaction is gone, snapshots and readers are gone, committed state stays. */
void store_mem_crash(struct store *s);

#endif
