/* For tests of the LMDB store, in both of its modes: directories that are removed with the test, stores in them, blocks
 * that can be checked, a small filesystem that can be filled. */
#ifndef TESTS_UNIT_KITS_STORE_LMDB_KIT_H
#define TESTS_UNIT_KITS_STORE_LMDB_KIT_H

#include "server/lmdb/store_lmdb.h"

extern char kit_base[64]; /* of this test: everything is made in it, and removed with it */
extern char kit_dir[128]; /* the store's; it does not exist yet */

/* A checked fixture: makes kit_base; stores are opened in this mode from now on. */
void kit_setup(bool durable);
void kit_teardown(void);

enum ps_err kit_try_open(uint64_t max_bytes, struct store **out, struct store_dir_report *report, struct ps_error *e);
struct store *kit_open(uint64_t max_bytes);

/* Opening fails with this code and a sentence that has these words. */
void kit_refused(uint64_t max_bytes, enum ps_err want, const char *says);

/* For store_suite.h. A crash within one process: an open transaction is lost, the rest is mapped again. */
struct store *kit_make(bool durable);
struct store *kit_crash(struct store *s, bool writing);
void kit_unmake(struct store *s);

/* One block in a transaction of its own, and that it is there. */
enum ps_err kit_update(struct store *s, uint32_t var, uint32_t block, int size_class, uint64_t version);
void kit_check(struct store *s, uint32_t var, uint32_t block, uint64_t version);

/* Mount a tmpfs of this size on kit_dir, in a mount namespace (and, if need be, a user namespace) that ends with this
 * process. False, with a message: it may not be mounted here. */
bool kit_mount(uint64_t bytes);

/* Take all that is left of the filesystem, in this file. */
void kit_fill_disk(const char *path);

#endif
