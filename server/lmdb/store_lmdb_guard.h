/* Checksums of the two pages of the durable file with which LMDB begins. Each says where all else lies, as of one
 * commit; the newer one counts. LMDB 0.9 has no checksum of its own, and would go by a flipped bit there to an older
 * commit, or find nothing.
 *
 * LMDB writes the first bytes of the page alone. A guard in its second half says of which commit they were and has
 * their checksum, and one of itself. It is written after the commit, and not synced: a page may be ahead of its guard,
 * and differs from what that says in more than its number then. A page without a guard is of an earlier psd. */
#ifndef SERVER_LMDB_STORE_LMDB_GUARD_H
#define SERVER_LMDB_STORE_LMDB_GUARD_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* Before LMDB opens the file, where there is one. PS_ERR_IO, with a sentence: a page is damaged. */
enum ps_err store_lmdb_guard_check(const char *path, struct ps_error *e) PS_MUST_USE;

/* After a commit of this number, whose page lies there in the map. When it fails, the page has no guard of its own: the
 * commit counts, and the next one finds out what the disk has. */
void store_lmdb_guard_write(int fd, const char *map, uint64_t commit);

#endif
