/* How far a transaction of an LMDB environment may write: pages are counted at worst before LMDB takes them.
 *
 * Writing to a page of a sparse file that the filesystem cannot provide is SIGBUS, so a write never goes where nothing
 * was allocated. A transaction runs in one of two ways:
 *
 *     growing     the file is allocated as far past the last page as the transaction may reach
 *     recycling   the filesystem or the limit is exhausted: the transaction must fit in pages that the environment has
 *                 free and may use; new blocks are refused, updates go on
 *
 * New blocks are refused where they would leave less than an eighth or a few MiB free: updates need pages to move to,
 * and what two turns freed is not free yet.
 *
 *     store_room_init(&room, &ops);  room.limit_pages = ...;
 *     store_room_open(&room, fd)                    // the file is there: what it is backed with
 *     store_room_begin(&room, pages)                // false: no transaction
 *         store_room_spend(&room, pages)            // before each write; false: PS_ERR_FULL
 *     store_room_end(&room)                         // committed or aborted
 *
 * Embedded in the store that it counts for, which owns the file: store_room borrows it, allocates at its end and closes
 * nothing. It uses no LMDB: what only the environment knows, it asks for through its ops. */
#ifndef SERVER_LMDB_STORE_ROOM_H
#define SERVER_LMDB_STORE_ROOM_H

#include <sys/vfs.h>

#include "common/core/base/base.h"

struct store_room;

struct store_room_ops {
    uint64_t (*last_page)(struct store_room *r);  /* the highest one that was ever used */
    uint64_t (*used_pages)(struct store_room *r); /* in use, free ones inside the file not counted */
    /* Runs of run_pages that the next transaction may take from what is free inside the file: a lower bound. */
    uint64_t (*free_runs)(struct store_room *r, uint64_t run_pages);
};

struct store_room {
    const struct store_room_ops *ops;
    int fd;
    bool on_disk;             /* a file of the durable environment; the owner sets it */
    uint64_t limit_pages;     /* of the file; the owner sets it before store_room_open(), which may raise it */
    uint64_t allocated_pages; /* all pages below this are backed by the filesystem */
    uint64_t free_pages;      /* of the filesystem, when last read */
    unsigned free_pages_age;  /* transactions since */
    int refused;              /* errno of the allocation that failed last, 0: the last one did not */

    bool recycling;          /* in this transaction */
    bool new_refused;        /* new blocks are, in this transaction */
    uint64_t spent_pages;    /* by this transaction, at worst */
    uint64_t promised_pages; /* that it may spend without asking again */

    uint64_t run_pages; /* of the largest value seen, or of the free list's own records */
    uint64_t runs_free; /* runs of that length that recycling may still count on */
};

void store_room_init(struct store_room *r, const struct store_room_ops *ops);

/* Measure the file, and back what is in use and a transaction's slack past it. False, with errno: what is in use cannot
 * be backed. A limit below what is in use is raised to that: no growth. */
bool store_room_open(struct store_room *r, int fd);

/* A transaction is about to begin that may spend this much. False: there is no space for it. */
bool store_room_begin(struct store_room *r, uint64_t pages);

/* Count what an operation may take at worst. False, and nothing is counted, when there is no space for it. */
bool store_room_spend(struct store_room *r, uint64_t pages);

/* The operation took this much less. */
void store_room_give_back(struct store_room *r, uint64_t pages);

void store_room_end(struct store_room *r);

/* There are values of this many pages, which must lie in a row. */
void store_room_saw(struct store_room *r, uint64_t pages);

/* The free space of a filesystem. A tmpfs without a limit has no figures of its own: the machine's free memory then. */
uint64_t store_room_free_bytes(const struct statfs *fs);

uint64_t store_room_file_bytes(const struct store_room *r); /* what the file takes of memory */
uint64_t store_room_max_bytes(struct store_room *r);        /* the most that it may take, as things are now */

#endif
