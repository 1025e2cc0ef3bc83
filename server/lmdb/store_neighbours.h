/* Other running shards whose live directories lie beside this one's. */
#ifndef SERVER_LMDB_STORE_NEIGHBOURS_H
#define SERVER_LMDB_STORE_NEIGHBOURS_H

#include <stdint.h>

/* How many directories beside `dir`, on its filesystem, a running psd has locked (lock_file in them), among the first
 * STORE_NEIGHBOURS_ENTRIES_MAX entries. Nothing is changed or waited for; what cannot be read does not count. */
#define STORE_NEIGHBOURS_ENTRIES_MAX 4096
uint64_t store_neighbours(const char *dir, const char *lock_file);

#endif
