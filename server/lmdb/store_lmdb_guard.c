/* Offsets are LMDB 0.9's: struct MDB_page's head of 16 bytes, then struct MDB_meta, whose last field is the number of
 * its commit. Commits take turns with the pages: an even one has the first. */
#include "server/lmdb/store_lmdb_guard.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "common/core/base/crc32c.h"
#include "common/core/model/layout.h"

#define GUARD_PAGES     2
#define GUARD_NUMBER_AT 144 /* the commit's */
#define GUARD_BYTES     152 /* that LMDB writes */
#define GUARD_AT        2048
#define GUARD_MAGIC     UINT64_C(0x6472617567647370) /* "psdguard" */

struct guard {
    uint64_t magic;
    uint64_t commit;
    uint32_t sum;   /* of the page's first GUARD_BYTES */
    uint32_t fixed; /* of what is the same in all commits: LMDB goes by that in the older page as well */
    uint32_t self;  /* of the guard before this */
    uint32_t zero;
};

static uint32_t
guard_self(const struct guard *g)
{
    return crc32c(0, g, offsetof(struct guard, self));
}

/* The page's head, LMDB's magic and version, and the size of pages. */
static uint32_t
guard_fixed(const void *page)
{
    const uint8_t *bytes = page;

    return crc32c(crc32c(0, bytes, 24), bytes + 40, 4);
}

enum guard_state {
    GUARD_HOLDS,  /* or there is none */
    GUARD_BEHIND, /* the page is of another commit */
    GUARD_BROKEN, /* it is of the guard's, and is not as it was: LMDB leaves it so when it fails to write it */
    GUARD_WRONG   /* nothing but its number differs; or what never does */
};

static enum guard_state
guard_state(const uint8_t *page, uint64_t number)
{
    uint8_t as_it_was[GUARD_BYTES];
    struct guard g;

    memcpy(&g, page + GUARD_AT, sizeof g);
    if (g.magic != GUARD_MAGIC || g.self != guard_self(&g) || g.sum == crc32c(0, page, GUARD_BYTES))
        return GUARD_HOLDS;
    if (g.fixed != guard_fixed(page))
        return GUARD_WRONG;
    if (number == g.commit)
        return GUARD_BROKEN;
    memcpy(as_it_was, page, sizeof as_it_was);
    memcpy(as_it_was + GUARD_NUMBER_AT, &g.commit, sizeof g.commit);
    return g.sum == crc32c(0, as_it_was, sizeof as_it_was) ? GUARD_WRONG : GUARD_BEHIND;
}

static enum ps_err
guard_damaged(const char *path, int page, struct ps_error *e)
{
    return ps_fail(
        e, PS_ERR_IO,
        "page %d of %s, which says where all else lies, does not have its checksum: move that file away, and "
        "start with --restore CHECKPOINT; a live directory that is still there has all of it",
        page, path);
}

/* A page that is broken matters where it is the one that counts. */
static enum ps_err
guard_check(const uint8_t *pages, const char *path, struct ps_error *e)
{
    enum guard_state states[GUARD_PAGES];
    uint64_t numbers[GUARD_PAGES];

    for (int i = 0; i < GUARD_PAGES; i++) {
        memcpy(&numbers[i], pages + (size_t)i * LAYOUT_PAGE + GUARD_NUMBER_AT, sizeof numbers[i]);
        states[i] = guard_state(pages + (size_t)i * LAYOUT_PAGE, numbers[i]);
    }
    for (int i = 0; i < GUARD_PAGES; i++)
        if (states[i] == GUARD_WRONG || (states[i] == GUARD_BROKEN && numbers[i] >= numbers[1 - i]))
            return guard_damaged(path, i, e);
    return PS_OK;
}

enum ps_err
store_lmdb_guard_check(const char *path, struct ps_error *e)
{
    uint8_t pages[GUARD_PAGES * LAYOUT_PAGE];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n;

    if (fd < 0)
        return PS_OK; /* what is wrong with it is said when it is opened */
    n = pread(fd, pages, sizeof pages, 0);
    close(fd);
    return n == (ssize_t)sizeof pages ? guard_check(pages, path, e) : PS_OK;
}

void
store_lmdb_guard_write(int fd, const char *map, uint64_t commit)
{
    off_t at = (off_t)(commit % GUARD_PAGES) * LAYOUT_PAGE;
    struct guard g = {.magic = GUARD_MAGIC,
                      .commit = commit,
                      .sum = crc32c(0, map + at, GUARD_BYTES),
                      .fixed = guard_fixed(map + at)};

    g.self = guard_self(&g);
    (void)!pwrite(fd, &g, sizeof g, at + GUARD_AT);
}
