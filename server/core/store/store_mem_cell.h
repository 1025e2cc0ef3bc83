/* Inside the store in memory: what its files share.
 *
 *     store_mem.c        write transactions, and the faults that tests inject
 *     store_mem_cell.c   cells and their versions
 *     store_mem_read.c   snapshots, readers, walks
 *
 * Blocks and rows are the same thing here: cells in one array, sorted by (table, key bytes), each with a chain of
 * versions, newest first:
 *
 *     cell ──► pending (this transaction's) ──► commit 9 ──► commit 4 ...
 *
 * A version lives from the commit that made it to the one that replaced it. One that was replaced goes to the list of
 * the retired and is freed when no snapshot lies within its life. So what get() and snapshot_get() lent stays exactly
 * as long as the interface promises and no longer: under ASan, a reader that is late is found out. */
#ifndef SERVER_CORE_STORE_STORE_MEM_CELL_H
#define SERVER_CORE_STORE_STORE_MEM_CELL_H

#include "server/core/store/store_mem.h"

#define TABLE_BLOCKS STORE_TABLES /* cells of blocks come after all rows */

struct store_mem_cell;

struct version {
    struct store_mem_cell *cell;
    struct version *older;
    struct version *next; /* in the list of the retired */
    uint64_t born, died;  /* commit numbers; died 0: not replaced */
    bool erased;          /* a tombstone */
    size_t size;
    uint8_t *alloc, *data;
};

struct store_mem_cell {
    enum store_table table;
    size_t key_len;
    struct version *pending;
    struct version *newest; /* committed */
    bool touched;
    uint8_t key[];
};

struct store_snapshot {
    struct store_snapshot *next;
    uint64_t commit;
    unsigned refs;
};

/* A snapshot that is taken again at each get. */
struct store_reader {
    struct store_reader *next;
    struct store_mem *store;
    struct store_snapshot *snap; /* NULL: it reads nothing */
};

struct store_mem {
    struct store base;
    uint64_t max_bytes, bytes; /* block values: the most, and now, with the retired and the pending */
    uint64_t commit;
    bool writing;
    uint64_t room; /* left of what begin() was asked for */
    struct store_mem_cell **cells;
    size_t cells_len, cells_size;
    struct store_mem_cell **touched; /* by the open transaction */
    size_t touched_len, touched_size;
    struct version *retired;
    struct store_snapshot *snapshots;
    struct store_reader *readers;
    uint64_t fail_in[STORE_MEM_FAILS_ALL];
    bool full;         /* the disk is */
    uint64_t break_in; /* commits until it breaks */
    bool break_keeps;  /* what that one wrote is there in the end */
    bool untrusted;    /* it broke; what was written is pending until it comes to light */
};

static inline struct store_mem *
store_mem_of(struct store *s)
{
    return CONTAINER_OF(s, struct store_mem, base);
}

static inline bool
fails_now(struct store_mem *m, enum store_mem_fail what)
{
    return m->fail_in[what] > 0 && --m->fail_in[what] == 0;
}

/* ---- Cells: a key that is looked for, borrowed, and what is there ---- */

struct store_mem_query {
    enum store_table table;
    const uint8_t *key;
    size_t len;
    uint8_t bytes[8];
};

struct store_mem_query wanted_row(enum store_table t, struct span key);
void wanted_block(struct store_mem_query *w, const struct store_key *key);
struct store_key cell_block_key(const struct store_mem_cell *c);

/* Index of the first cell that is not before what is wanted. */
size_t cell_index(const struct store_mem *m, const struct store_mem_query *w);
struct store_mem_cell *cell_find(const struct store_mem *m, const struct store_mem_query *w);
struct store_mem_cell *cell_insert(struct store_mem *m, const struct store_mem_query *w); /* NULL: out of memory */

/* Take the cell out when no version is left. */
void cell_tidy(struct store_mem *m, struct store_mem_cell *c);

/* Make room for one more of `len` items. False: out of memory. */
bool cells_grow(void **array, size_t *size, size_t len, size_t item);

/* ---- Versions ---- */

struct version *version_new(struct store_mem *m, struct store_mem_cell *c, size_t size); /* NULL: out of memory */
void version_free(struct store_mem *m, struct version *v);

/* The version that a snapshot of this commit sees, or NULL. */
const struct version *version_at(const struct store_mem_cell *c, uint64_t commit);

/* Take it out of its cell. */
void version_unlink(struct version *v);

/* It was replaced, or is a tombstone. */
void version_retire(struct store_mem *m, struct version *v);
void versions_sweep(struct store_mem *m); /* free those that no snapshot sees */

/* ---- Ops that only read ---- */

enum ps_err store_mem_snapshot_ref(struct store *s, struct store_snapshot **out);
void store_mem_snapshot_unref(struct store *s, struct store_snapshot *snap);
enum ps_err store_mem_snapshot_get(struct store *s, struct store_snapshot *snap, const struct store_key *key,
                                   struct span *value);
enum ps_err store_mem_each_block(struct store *s, store_visit_block visit, void *arg);
enum ps_err store_mem_each_block_from(struct store *s, const struct store_key *from, store_visit_block visit,
                                      void *arg);
enum ps_err store_mem_each_row(struct store *s, enum store_table t, store_visit_row visit, void *arg);
enum ps_err store_mem_reader_open(struct store *s, struct store_reader **out);
void store_mem_reader_done(struct store_reader *r);
enum ps_err store_mem_reader_get(struct store_reader *r, const struct store_key *key, struct span *value);
void store_mem_reader_close(struct store_reader *r);

#endif
