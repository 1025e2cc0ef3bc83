/* Memory that two processes of one machine share: two rings of bytes, one each way. Glue.
 *
 *     shm_ring_make(&s, ring_bytes, &e)           // one side; it sends the other its pid, s.fd and s.token
 *     shm_ring_find(&s, pid, fd, token, &e)       // the other side, through /proc: fails where it cannot be opened
 *     shm_ring_offered(&s)                        // the first side needs its descriptor no more
 *     shm_ring_finish(&s)
 *
 * It is a file without a name, so nothing is left however the two end; it is sealed, so neither can take the other's
 * pages away. The token shows that it is the right file: a process number means another process in another container.
 *
 * A ring's positions count all bytes since it was made; each is written by one side alone. A ring is mapped twice, one
 * behind the other, so that no run of bytes has to be cut at its end.
 *
 *     writer:  n = shm_ring_space(&s) bytes may be written at shm_ring_in(&s); then shm_ring_put(&s, written)
 *     reader:  n = shm_ring_filled(&s) bytes may be read at shm_ring_out(&s); then shm_ring_take(&s, read)
 *              (or shm_ring_skip(&s, read) for each of several, and shm_ring_take(&s, 0) for all of them)
 *
 * Sleeping. A side that is about to sleep marks what it waits for (SHM_RING_DATA, SHM_RING_SPACE) in shm_ring_sleep(),
 * which looks again: it returns false when that is there already. After shm_ring_put() and shm_ring_take() the other
 * side asks shm_ring_notify(), which is true once for each sleep that this might end: then it must wake the sleeper by
 * other means. Both sides write first and read then, with a full fence between, so one of them sees the other. */
#ifndef COMMON_NET_SHM_RING_H
#define COMMON_NET_SHM_RING_H

#include <stdatomic.h>
#include <sys/types.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define SHM_RING_MIN (64 * KIB)
#define SHM_RING_MAX (16 * MIB)

enum shm_ring_wants { SHM_RING_DATA = 1, SHM_RING_SPACE = 2 };

struct shm_ring_page;

struct shm_ring {
    struct shm_ring_page *page; /* NULL: nothing is shared */
    size_t ring_bytes;
    uint8_t *ring_in, *ring_out; /* this side writes into the one, and reads from the other; mapped twice each */
    unsigned side;               /* 0: made it, 1: found it */
    bool open;                   /* fd is: of side 0, until shm_ring_offered() */
    int fd;
    uint64_t token;      /* random, never 0 */
    uint64_t put, taken; /* this side's positions */
};

/* ring_bytes: of each of the two, a power of two within the limits. Errors: UNSUPPORTED (the system has
 * no such memory, or no more of it). */
enum ps_err shm_ring_make(struct shm_ring *s, size_t ring_bytes, struct ps_error *e) PS_MUST_USE;

/* The other side's descriptor is opened only after it is known to be such memory. Errors: UNSUPPORTED, with the reason:
 * another container or user, another file, not sealed. */
enum ps_err shm_ring_find(struct shm_ring *s, pid_t pid, int fd, uint64_t token, struct ps_error *e) PS_MUST_USE;

void shm_ring_offered(struct shm_ring *s);
void shm_ring_finish(struct shm_ring *s); /* accepts zeroed and finished ones */

/* SIZE_MAX: the other side wrote a position that is not valid. */
size_t shm_ring_space(const struct shm_ring *s);
size_t shm_ring_filled(const struct shm_ring *s);

static inline uint8_t *
shm_ring_in(const struct shm_ring *s)
{
    return s->ring_in + (s->put & (s->ring_bytes - 1));
}

static inline const uint8_t *
shm_ring_out(const struct shm_ring *s)
{
    return s->ring_out + (s->taken & (s->ring_bytes - 1));
}

void shm_ring_put(struct shm_ring *s, size_t n);
void shm_ring_take(struct shm_ring *s, size_t n);
void shm_ring_skip(struct shm_ring *s, size_t n); /* these were read, but stay until the next shm_ring_take() */

/* wants: of enum shm_ring_wants. known: bytes that are there and of no use before more have come. */
bool shm_ring_sleep(struct shm_ring *s, unsigned wants, size_t known);
void shm_ring_wake(struct shm_ring *s);
bool shm_ring_notify(struct shm_ring *s, unsigned what);

#endif
