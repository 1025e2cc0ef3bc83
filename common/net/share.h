/* Memory that two processes of one machine share: two rings of bytes, one each way. Glue.
 *
 *     share_make(&s, ring_bytes, &e)              // one side; it tells the other its pid, s.fd and s.token
 *     share_find(&s, pid, fd, token, &e)          // the other side, through /proc: what cannot be had is not shared
 *     share_told(&s)                              // the first side needs its descriptor no more
 *     share_finish(&s)
 *
 * It is a file that has no name, so nothing stays behind however the two end; it is sealed, so neither can take the
 * other's pages away. The token shows that it is the file that was meant: a process number means another process in
 * another container.
 *
 * A ring's positions count bytes from the beginning of time; each is written by one side alone. A ring is mapped twice,
 * one behind the other, so that no run of bytes has to be cut at its end.
 *
 *     writer:  n = share_room(&s)   bytes may be written at share_in(&s);    then share_put(&s, written)
 *     reader:  n = share_filled(&s) bytes may be read at share_out(&s);      then share_take(&s, read)
 *              (or share_skip(&s, read) for each of several, and share_take(&s, 0) for all of them)
 *
 * Sleeping. Who is about to sleep says what for (SHARE_DATA, SHARE_ROOM) in share_sleep(), and looks again: it returns
 * false when that is there already. After share_put() and share_take() the other side asks share_ring(), which is true
 * once for each sleep that this might end: then it must wake the sleeper by other means. Both sides write first and
 * look then, with a full fence between, so one of them sees the other. */
#ifndef COMMON_SHARE_H
#define COMMON_SHARE_H

#include <stdatomic.h>
#include <sys/types.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define SHARE_RING_MIN (64 * KIB)
#define SHARE_RING_MAX (16 * MIB)

enum share_wants { SHARE_DATA = 1, SHARE_ROOM = 2 };

struct share_page;

struct share {
    struct share_page *page; /* NULL: nothing is shared */
    size_t ring_bytes;
    uint8_t *ring_in, *ring_out; /* this side writes into the one, and reads from the other; mapped twice each */
    unsigned side;               /* 0: made it, 1: found it */
    bool open;                   /* fd is: of side 0, until share_told() */
    int fd;
    uint64_t token;      /* random, never 0 */
    uint64_t put, taken; /* this side's positions */
};

/* ring_bytes: of each of the two, a power of two within the limits. Errors: UNSUPPORTED (the system has
 * no such memory, or no more of it). */
enum ps_err share_make(struct share *s, size_t ring_bytes, struct ps_error *e) PS_MUST_USE;

/* What the other side names is opened only after it is known to be such memory. Errors: UNSUPPORTED, with what stands
 * in the way: another container or user, another file, not sealed. */
enum ps_err share_find(struct share *s, pid_t pid, int fd, uint64_t token, struct ps_error *e) PS_MUST_USE;

void share_told(struct share *s);
void share_finish(struct share *s); /* accepts zeroed and finished ones */

/* SIZE_MAX: the other side wrote a position that cannot be. */
size_t share_room(const struct share *s);
size_t share_filled(const struct share *s);

static inline uint8_t *
share_in(const struct share *s)
{
    return s->ring_in + (s->put & (s->ring_bytes - 1));
}

static inline const uint8_t *
share_out(const struct share *s)
{
    return s->ring_out + (s->taken & (s->ring_bytes - 1));
}

void share_put(struct share *s, size_t n);
void share_take(struct share *s, size_t n);
void share_skip(struct share *s, size_t n); /* these were read, but stay until the next share_take() */

/* wants: of enum share_wants. known: bytes that are there and of no use before more have come. */
bool share_sleep(struct share *s, unsigned wants, size_t known);
void share_wake(struct share *s);
bool share_ring(struct share *s, unsigned what);

#endif
