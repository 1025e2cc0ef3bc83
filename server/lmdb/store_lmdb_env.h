/* Inside the LMDB store: what its files share. Only they include lmdb.h.
 *
 *     store_lmdb.c         write transactions
 *     store_lmdb_read.c    snapshots, readers of other threads, walks
 *     store_lmdb_rows.c    rows of metadata
 *     store_lmdb_tree.c    what a transaction takes of the trees
 *     store_lmdb_fetch.c   values that the disk may fail to read
 *     store_lmdb_guard.c   checksums of LMDB's first two pages
 *     store_lmdb_pages.c   how many pages are used and free: the ops of store_room.h
 *     store_lmdb_open.c    opening and closing */
#ifndef SERVER_LMDB_STORE_LMDB_ENV_H
#define SERVER_LMDB_STORE_LMDB_ENV_H

#include <stdatomic.h>

#include <lmdb.h>

#include "common/core/model/layout.h"
#include "server/lmdb/store_dir.h"
#include "server/lmdb/store_lmdb.h"
#include "server/lmdb/store_room.h"

#define PAGE LAYOUT_PAGE

/* A read transaction of one commit, or (refs 0) one in the pool, reset and ready to renew. */
struct store_snapshot {
    struct store_snapshot *next; /* among the open ones, or in the pool */
    MDB_txn *txn;
    uint64_t commit;
    unsigned refs;
};

/* A read transaction of another thread. Before it is renewed, that thread stores in `pin` which commit it will be of at
 * the earliest; so the owner, which counts free pages, never takes one for free that this reader may need:
 *
 *     reader  pin = newest commit that it knows of ──► renew ──► read ──► done + 1 ──► reset ──► pin = 0
 *     owner   looks at the pin, then counts
 *
 * A renewal that begins after the owner has looked gets a commit at least as new as the owner's. */
struct store_reader {
    struct store_reader *next;
    struct store_lmdb *store;
    MDB_txn *txn;
    bool reading;          /* the reader's thread's own */
    _Atomic uint64_t pin;  /* LMDB's number of a commit; 0: it reads nothing */
    _Atomic uint64_t done; /* reads that ended: orders them before what the owner then writes in their pages */
};

/* What a transaction has done to a tree, in pages: see store_lmdb_tree.c. A table's is numbered as the table. */
enum { STORE_LMDB_BLOCKS = STORE_TABLES, STORE_LMDB_TREES };
struct store_tree {
    bool touched;
    uint64_t had, has; /* when it was touched first, and now */
    uint64_t grown;    /* by all that made it larger */
    uint64_t at_worst; /* what the operations might have taken */
    uint64_t values;   /* of values that lie outside the tree's pages */
};

struct store_lmdb {
    struct store base;
    bool durable;
    MDB_env *env;
    MDB_dbi blocks, tables[STORE_TABLES];
    struct store_dir dir;
    int data_fd; /* LMDB's own */
    struct store_room room;

    MDB_txn *txn;       /* the writer's, or NULL */
    MDB_cursor *cursor; /* of its blocks, once one was looked for */
    bool found;         /* the cursor stands at found_key: nothing was written since */
    size_t found_key;
    bool wrote;                                /* in this transaction, */
    struct store_tree trees[STORE_LMDB_TREES]; /* in the durable mode: and what it has taken */
    bool untrusted;
    struct ps_error why; /* what failed last, in words */

    const char *map; /* where LMDB has put the file */

    uint64_t commit;
    struct store_snapshot *open; /* newest first; its first may be of the newest commit */
    struct store_snapshot *pool;

    struct store_reader *readers;
    _Atomic uint64_t published; /* LMDB's number of the newest commit */
};

static inline struct store_lmdb *
store_lmdb_of(struct store *s)
{
    return CONTAINER_OF(s, struct store_lmdb, base);
}

static inline uint64_t
value_pages(uint64_t size)
{
    return (size + LAYOUT_PAGE_HEAD + PAGE - 1) / PAGE;
}

static inline MDB_val
block_val(const struct store_key *key, size_t *packed)
{
    ps_assert(key->var <= STORE_VAR_MAX);
    *packed = (size_t)key->generation << 56 | (size_t)key->var << 32 | key->block;
    return (MDB_val){sizeof *packed, packed};
}

/* Translates LMDB's codes. */
enum ps_err store_lmdb_error(int rc);

extern const struct store_ops store_lmdb_ops;
extern const struct store_room_ops store_lmdb_room_ops;

/* PS_ERR_FULL, and why. */
enum ps_err store_lmdb_no_room(struct store_lmdb *s);

/* Of a row, without its value: its leaf, branches, a split. */
#define ROW_PAGES (STORE_ROW_ROOM / PAGE - 1)

/* Before an operation in a tree whose worst is `counted` pages of it and `value` pages of a value, and after: it took
 * less. outside: the value lies in pages of its own. */
void store_lmdb_tree_touch(struct store_lmdb *s, int tree);
void store_lmdb_tree_give_back(struct store_lmdb *s, int tree, uint64_t counted, uint64_t value, bool outside);

/* store_lmdb_fetch.c. After the tables are there: find s->map. */
enum ps_err store_lmdb_find_map(struct store_lmdb *s);
enum ps_err store_lmdb_fetch(struct store *base, struct span value);

/* After each commit: store_lmdb_guard.h. */
void store_lmdb_guard(const struct store_lmdb *s);

/* Ops for rows. */
enum ps_err store_lmdb_row_put(struct store *base, enum store_table t, struct span key, struct span value);
enum ps_err store_lmdb_row_erase(struct store *base, enum store_table t, struct span key);

/* Ops that only read. */
enum ps_err store_lmdb_snapshot_ref(struct store *base, struct store_snapshot **out);
void store_lmdb_snapshot_unref(struct store *base, struct store_snapshot *snap);
enum ps_err store_lmdb_snapshot_get(struct store *base, struct store_snapshot *snap, const struct store_key *key,
                                    struct span *value);
enum ps_err store_lmdb_each_block(struct store *base, store_visit_block visit, void *arg);
enum ps_err store_lmdb_each_head(struct store *base, store_visit_block visit, void *arg);
enum ps_err store_lmdb_each_block_from(struct store *base, const struct store_key *from, store_visit_block visit,
                                       void *arg);
enum ps_err store_lmdb_each_row(struct store *base, enum store_table t, store_visit_row visit, void *arg);
enum ps_err store_lmdb_reader_open(struct store *base, struct store_reader **out);
enum ps_err store_lmdb_reader_get(struct store_reader *r, const struct store_key *key, struct span *value);
void store_lmdb_reader_done(struct store_reader *r);
void store_lmdb_reader_close(struct store_reader *r);

/* Called before the owner's thread, or LMDB for it, writes where readers of other threads may have read: orders their
 * reads before the writes. LMDB itself relies on its table of readers, which suffices for the processor, but not for
 * the language's memory model or ThreadSanitizer. */
void store_lmdb_readers_passed(const struct store_lmdb *s);

/* The oldest commit (LMDB's number) that any reader may use, at most `newest`. */
uint64_t store_lmdb_oldest(const struct store_lmdb *s, uint64_t newest);

/* After a commit, and once at the start: readers may see it. */
void store_lmdb_publish(struct store_lmdb *s);

void store_lmdb_close(struct store *base);

#endif
