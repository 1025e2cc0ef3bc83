/* A store in heap memory, for tests and the simulator. It can be made to fail, and to crash back to the last commit.
 *
 * For one thread: its readers, too, are for the thread that owns it. */
#ifndef SERVER_CORE_STORE_STORE_MEM_H
#define SERVER_CORE_STORE_STORE_MEM_H

#include "server/core/store/store.h"

/* NULL when out of memory. max_bytes of block values; begin() answers PS_ERR_FULL past it. */
struct store *store_mem_new(uint64_t max_bytes);

/* The nth call from now (1: the next) to this operation fails with PS_ERR_IO; 0: none. A commit that fails has aborted.
 * Those before STORE_MEM_FAILS are what writing to a live store meets; EACH is all three walks. */
enum store_mem_fail {
    STORE_MEM_FAIL_BEGIN,
    STORE_MEM_FAIL_RESERVE,
    STORE_MEM_FAIL_COMMIT,
    STORE_MEM_FAILS,
    STORE_MEM_FAIL_GET = STORE_MEM_FAILS,
    STORE_MEM_FAIL_ERASE,
    STORE_MEM_FAIL_ROW_PUT,
    STORE_MEM_FAIL_ROW_ERASE,
    STORE_MEM_FAIL_SNAPSHOT_REF,
    STORE_MEM_FAIL_SNAPSHOT_GET,
    STORE_MEM_FAIL_EACH,
    STORE_MEM_FAIL_READER_OPEN,
    STORE_MEM_FAIL_READER_GET,
    STORE_MEM_FAILS_ALL
};
void store_mem_fail_at(struct store *s, enum store_mem_fail what, uint64_t nth);
void store_mem_fail_none(struct store *s); /* takes all of these back, and a disk that breaks or is full */

/* The disk of a durable store. Full: begin and commit answer PS_ERR_FULL until full is false again; what a commit
 * would have written is aborted. */
void store_mem_full(struct store *s, bool full);

/* The sync of the nth commit from now (1: the next; 0: none) fails: it answers PS_ERR_IO, and from then on the store is
 * untrusted, as store_lmdb_untrusted(). Whether its writes survive is not known to the writer: `kept` decides. It comes
 * to light with store_mem_crash(): until then readers see the state before it. */
void store_mem_break_at(struct store *s, uint64_t nth, bool kept);
bool store_mem_untrusted(struct store *s);

/* The most that blocks may take from now on, as a disk to which space is added, or a tmpfs that others fill. */
void store_mem_limit(struct store *s, uint64_t max_bytes);

/* What kill -9 leaves: an open transaction is gone, snapshots and readers are gone, committed state stays. */
void store_mem_crash(struct store *s);

/* What power loss leaves of a live store, or a new file in place of a bad one: a crash, and nothing is there. */
void store_mem_wipe(struct store *s);

#endif
