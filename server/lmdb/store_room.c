/* The space of an LMDB environment: see store_room.h. */
#include "server/lmdb/store_room.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/model/layout.h"

#define PAGE               LAYOUT_PAGE
#define ALLOCATE_STEP      (8 * MIB) /* the file grows by at least this, when it can */
#define KEPT_MIN           (8 * MIB) /* free for updates, at least */
#define SLACK_PAGES        512       /* of a transaction: tree pages, LMDB's free list */
#define RUN_PAGES_MIN      17        /* the free list's own records take up to about 12 pages in a row */
#define RUNS_SPARE         3         /* runs lost to pieces of other sizes: at most one per size */
#define FREE_PAGES_AGE_MAX 64

/* ---- What the file is backed with ---- */

uint64_t
store_room_free_bytes(const struct statfs *fs)
{
    if (fs->f_blocks == 0)
        return (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return (uint64_t)fs->f_bavail * (uint64_t)fs->f_bsize;
}

static uint64_t
filesystem_free_pages(struct store_room *r)
{
    struct statfs fs;

    r->free_pages = fstatfs(r->fd, &fs) == 0 ? store_room_free_bytes(&fs) / PAGE : 0;
    r->free_pages_age = 0;
    return r->free_pages;
}

/* The same, up to a few transactions old: good for an estimate, not for a promise. */
static uint64_t
filesystem_free_pages_about(struct store_room *r)
{
    return ++r->free_pages_age < FREE_PAGES_AGE_MAX ? r->free_pages : filesystem_free_pages(r);
}

static uint64_t
file_bytes(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

static uint64_t
file_size(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* The live environment's file is as long as its map. That of the durable one is made as long as what it is backed with,
 * where that can be backed at all: so it is never shorter than its last page, unless it was truncated from outside. */
static int
store_room_allocate(const struct store_room *r, uint64_t from, uint64_t pages)
{
    int rc;

    do
        rc = fallocate(r->fd, r->on_disk ? 0 : FALLOC_FL_KEEP_SIZE, (off_t)(from * PAGE), (off_t)(pages * PAGE));
    while (rc < 0 && errno == EINTR);
    if (rc == 0 || errno != EOPNOTSUPP) /* a filesystem that cannot allocate ahead cannot promise anything */
        return rc;
    if (!r->on_disk || file_size(r->fd) >= (from + pages) * PAGE)
        return 0;
    return ftruncate(r->fd, (off_t)((from + pages) * PAGE));
}

/* Back all pages below `pages` with memory of the filesystem. Asks for its free space first: on tmpfs an fallocate that
 * fails has allocated and given back most of it by then. */
static bool
allocate_exactly(struct store_room *r, uint64_t pages)
{
    uint64_t more = pages - r->allocated_pages;

    if (more > filesystem_free_pages(r))
        return false;
    r->free_pages_age = FREE_PAGES_AGE_MAX; /* it changes now */
    r->refused = store_room_allocate(r, r->allocated_pages, more) < 0 ? errno : 0;
    if (r->refused != 0)
        return false;
    r->allocated_pages = pages;
    return true;
}

static bool
allocate_to(struct store_room *r, uint64_t pages)
{
    uint64_t ahead = MIN(MAX(pages, r->allocated_pages + ALLOCATE_STEP / PAGE), r->limit_pages);

    if (pages <= r->allocated_pages)
        return true;
    if (pages > r->limit_pages)
        return false;
    return (ahead > pages && allocate_exactly(r, ahead)) || allocate_exactly(r, pages);
}

/* Whether it has all pages that are in use, and counts none but those of the file: tmpfs does. */
static bool
surely_whole(struct store_room *r, uint64_t has)
{
    struct statfs fs;

    return has > r->ops->last_page(r) && fstatfs(r->fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

/* How far the file is backed without a hole. It is only ever allocated at its end, so the backed part is its beginning;
 * a file that was copied with holes has less than is in use. There, what was written is backed; from the first hole on
 * it is asked for again, since SEEK_HOLE leaves out what was allocated and never written. To look for a hole takes
 * tmpfs 14 ms a GiB, to ask for all of it 45. */
static uint64_t
allocated_at_open(struct store_room *r)
{
    uint64_t has = file_bytes(r->fd) / PAGE, written;
    off_t hole;

    if (surely_whole(r, has))
        return has;
    hole = lseek(r->fd, 0, SEEK_HOLE);
    written = hole > 0 ? (uint64_t)hole / PAGE : 0;
    if (has == 0 || (has > written && store_room_allocate(r, written, has - written) != 0))
        return written;
    return has;
}

/* ---- What a transaction may take ---- */

static bool
store_room_recycle(struct store_room *r, uint64_t pages)
{
    uint64_t runs = (pages + r->run_pages - 1) / r->run_pages + RUNS_SPARE;

    if (r->runs_free < runs)
        r->runs_free = r->ops->free_runs(r, r->run_pages);
    return r->runs_free >= runs;
}

/* Whether a new block would take pages that updates need. The end is the limit's or the filesystem's, whichever comes
 * first. */
static bool
store_room_is_short(struct store_room *r, uint64_t need)
{
    uint64_t most, kept;

    if (r->on_disk)
        return false;
    most = MIN(r->limit_pages, r->allocated_pages + filesystem_free_pages_about(r));
    kept = MAX(most / 8, KEPT_MIN / PAGE);
    if (r->ops->last_page(r) + need + SLACK_PAGES + kept <= most)
        return false;
    return r->ops->used_pages(r) + need + kept > most;
}

/* Whether the transaction may spend this much in all. */
static bool
room_for(struct store_room *r, uint64_t pages)
{
    if (r->recycling)
        return store_room_recycle(r, pages);
    return allocate_to(r, r->ops->last_page(r) + 1 + pages);
}

bool
store_room_begin(struct store_room *r, uint64_t pages)
{
    uint64_t end = r->ops->last_page(r) + 1 + pages + SLACK_PAGES;

    r->recycling = !allocate_to(r, end);
    if (!r->recycling) /* if possible: when other files take the rest, updates still have pages to move to */
        (void)allocate_to(r, end + MIN(KEPT_MIN / PAGE, 2 * r->ops->last_page(r)));
    if (r->recycling && !store_room_recycle(r, pages + SLACK_PAGES))
        return false;
    r->new_refused = store_room_is_short(r, pages);
    r->spent_pages = 0;
    r->promised_pages = pages;
    return true;
}

bool
store_room_spend(struct store_room *r, uint64_t pages)
{
    if (r->spent_pages + pages > r->promised_pages) {
        if (!room_for(r, r->spent_pages + pages + SLACK_PAGES))
            return false;
        r->promised_pages = r->spent_pages + pages;
    }
    r->spent_pages += pages;
    return true;
}

void
store_room_give_back(struct store_room *r, uint64_t pages)
{
    r->spent_pages -= MIN(pages, r->spent_pages);
}

void
store_room_end(struct store_room *r)
{
    uint64_t runs = (r->spent_pages + SLACK_PAGES) / r->run_pages + RUNS_SPARE;

    if (r->recycling)
        r->runs_free -= MIN(runs, r->runs_free);
}

void
store_room_saw(struct store_room *r, uint64_t pages)
{
    if (pages > r->run_pages) {
        r->run_pages = pages;
        r->runs_free = 0; /* was counted for shorter ones */
    }
}

/* ---- Opening and figures ---- */

void
store_room_init(struct store_room *r, const struct store_room_ops *ops)
{
    *r = (struct store_room){
        .ops = ops,
        .fd = -1,
        .run_pages = RUN_PAGES_MIN,
        .free_pages_age = FREE_PAGES_AGE_MAX,
    };
}

bool
store_room_open(struct store_room *r, int fd)
{
    uint64_t in_use = r->ops->last_page(r) + 1;

    r->fd = fd;
    r->allocated_pages = allocated_at_open(r);
    r->limit_pages = MAX(r->limit_pages, in_use);
    if (!allocate_to(r, in_use))
        return r->on_disk; /* no page of it is written in place, so it can still be read */
    (void)allocate_to(r, MIN(in_use + SLACK_PAGES, r->limit_pages));
    return true;
}

uint64_t
store_room_file_bytes(const struct store_room *r)
{
    return file_bytes(r->fd);
}

uint64_t
store_room_max_bytes(struct store_room *r)
{
    return MIN(r->limit_pages, r->allocated_pages + filesystem_free_pages(r)) * PAGE;
}
