/* The rules that every store must keep (server/core/store/store.h), as test cases that the test program of each store
 * runs. */
#ifndef TESTS_UNIT_KITS_STORE_SUITE_H
#define TESTS_UNIT_KITS_STORE_SUITE_H

#include <check.h>

#include "server/core/store/store.h"

#define STORE_SUITE_BYTES (96 * MIB) /* bytes that a store of make() must have room for */

struct store_maker {
    struct store *(*make)(void);
    /* The store as kill -9 and a restart leave it; writing: a transaction is open. */
    struct store *(*crash)(struct store *s, bool writing);
    void (*unmake)(struct store *s);
    bool heap_places; /* places from reserve() are aligned to 16 bytes only */
};

/* The cases, for suite_add_tcase(). Stores are made in checked fixtures, on the side of the fork that uses them. */
TCase *store_suite_case(const struct store_maker *maker);

/* Fill a block value so that any torn or misplaced part shows, and check it: every 8 bytes depend on (key, version). */
void store_suite_fill(void *place, size_t size, const struct store_key *key, uint64_t version);
bool store_suite_holds(const void *value, size_t size, const struct store_key *key, uint64_t version);

/* The version that a filled value says it has. */
uint64_t store_suite_version(const void *value);

#endif
