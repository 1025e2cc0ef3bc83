#include "common/net/shm_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define SHM_RING_MAGIC 0x3168736470u /* "pdsh1" */
#define SHM_RING_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Positions of one ring. Each on a cache line of its own: two processes write them. */
struct shm_ring_state {
    _Alignas(64) _Atomic uint64_t put; /* by the writer */
    _Alignas(64) _Atomic uint64_t taken;
};

/* The file's first page; ring i is written by side i. */
struct shm_ring_page {
    uint64_t magic, token, ring_bytes;
    struct shm_ring_state ring[2];
    struct {
        _Alignas(64) _Atomic uint32_t wants; /* of the side while it sleeps */
    } asleep[2];
};

#define SHM_RING_PAGE_BYTES 4096
static_assert(sizeof(struct shm_ring_page) <= SHM_RING_PAGE_BYTES, "positions fit a page");
static_assert(offsetof(struct shm_ring_page, ring[1].taken) == 256 && offsetof(struct shm_ring_page, asleep[1]) == 384,
              "PROTOCOL.md says where they are");

static struct shm_ring_state *
ring_in(const struct shm_ring *s)
{
    return &s->page->ring[s->side];
}

static struct shm_ring_state *
ring_out(const struct shm_ring *s)
{
    return &s->page->ring[1 - s->side];
}

/* ---- Mapping ---- */

/* size bytes of the file at this offset, twice. NULL: errno says why. */
static uint8_t *
map_twice(int fd, off_t offset, size_t size)
{
    uint8_t *at = mmap(NULL, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return NULL;
    for (unsigned i = 0; i < 2; i++)
        if (mmap(at + i * size, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED) {
            int why = errno;

            munmap(at, 2 * size);
            errno = why;
            return NULL;
        }
    return at;
}

static bool
map_rings(struct shm_ring *s, int fd)
{
    uint8_t *ring[2] = {0};

    for (unsigned i = 0; i < 2; i++)
        if ((ring[i] = map_twice(fd, (off_t)(SHM_RING_PAGE_BYTES + i * s->ring_bytes), s->ring_bytes)) == NULL) {
            if (i == 1)
                munmap(ring[0], 2 * s->ring_bytes);
            return false;
        }
    s->ring_in = ring[s->side];
    s->ring_out = ring[1 - s->side];
    return true;
}

static bool
map_page(struct shm_ring *s, int fd)
{
    void *page = mmap(NULL, SHM_RING_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (page == MAP_FAILED)
        return false;
    s->page = page;
    return true;
}

static off_t
file_bytes(size_t ring_bytes)
{
    return (off_t)(SHM_RING_PAGE_BYTES + 2 * ring_bytes);
}

static enum ps_err
shm_ring_unsupported(struct shm_ring *s, const char *what, struct ps_error *e)
{
    int why = errno;

    shm_ring_finish(s);
    return ps_fail(e, PS_ERR_UNSUPPORTED, "%s: %s", what, strerror(why));
}

/* ThreadSanitizer records which thread has made and used each descriptor, by its number. It sees neither memfd_create()
 * nor libuv's close (by syscall()); so where a number was one thread's socket, which libuv closed, and is now this
 * memory, it takes mmap() and close() for races with that thread. They are none: the kernel reuses a number only after
 * the close that freed it. It does see an open(): so the file is opened once more, under a number with a new record. */
static int
known_to_sanitizer(int fd)
{
#ifdef __SANITIZE_THREAD__
    char path[64];
    int again;

    if (fd < 0)
        return fd;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    again = open(path, O_RDWR | O_CLOEXEC);
    syscall(SYS_close, fd); /* unseen by ThreadSanitizer, like its creation */
    return again;
#else
    return fd;
#endif
}

enum ps_err
shm_ring_make(struct shm_ring *s, size_t ring_bytes, struct ps_error *e)
{
    ps_assert(ring_bytes >= SHM_RING_MIN && ring_bytes <= SHM_RING_MAX && (ring_bytes & (ring_bytes - 1)) == 0);
    *s = (struct shm_ring){.ring_bytes = ring_bytes};
    s->fd = known_to_sanitizer(memfd_create("psd-shared", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    s->open = s->fd >= 0;
    if (!s->open || ftruncate(s->fd, file_bytes(ring_bytes)) != 0 || fcntl(s->fd, F_ADD_SEALS, SHM_RING_SEALS) != 0 ||
        !map_page(s, s->fd) || !map_rings(s, s->fd) || getrandom(&s->token, sizeof s->token, 0) != sizeof s->token)
        return shm_ring_unsupported(s, "cannot make memory to be shared", e);
    s->token |= 1;
    s->page->ring_bytes = ring_bytes;
    s->page->token = s->token;
    s->page->magic = SHM_RING_MAGIC;
    return PS_OK;
}

/* The page was written by the other process, which may write something else at any moment: so the values that are
 * checked here were read once, and are the ones that are used later. */
static const char *
take_size(struct shm_ring *s, int fd, uint64_t token)
{
    const volatile struct shm_ring_page *p = s->page;
    struct stat st;
    uint64_t bytes = p->ring_bytes;

    if (p->magic != SHM_RING_MAGIC || p->token != token || token == 0)
        return "it is another file";
    if (bytes < SHM_RING_MIN || bytes > SHM_RING_MAX || (bytes & (bytes - 1)) != 0 || fstat(fd, &st) != 0 ||
        st.st_size != file_bytes((size_t)bytes))
        return "its size makes no sense";
    s->ring_bytes = (size_t)bytes;
    return NULL;
}

/* The file system of such memory: the kernel's own, which is never mounted and where nothing has a name. 0: unknown. */
static dev_t
shm_ring_device(void)
{
    int fd = known_to_sanitizer(memfd_create("psd-device", MFD_CLOEXEC));
    struct stat st;
    bool known = fd >= 0 && fstat(fd, &st) == 0;

    if (fd >= 0)
        close(fd);
    return known ? st.st_dev : 0;
}

/* Whether this descriptor, opened with O_PATH, is of such memory. DONT_SYNC: a file system that a user serves (FUSE) or
 * that is on a network is not asked, as it might never answer. */
static bool
shm_ring_is_memory(int fd)
{
    dev_t device = shm_ring_device();
    struct statx stx;

    return device != 0 && statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &stx) == 0 &&
           S_ISREG(stx.stx_mode) && makedev(stx.stx_dev_major, stx.stx_dev_minor) == device;
}

/* Opens the file that another process has under this number. The peer may name anything: opening a terminal makes it
 * this process's controlling one, opening a device may start it, opening a FIFO wakes its other end. O_PATH opens
 * nothing and holds the object, so the object that is opened in the end is the one that was checked. Negative: *wrong
 * says why, NULL: errno does. */
static int
shm_ring_open(pid_t pid, int fd, const char **wrong)
{
    char path[64];
    int named, own, why;

    *wrong = NULL;
    snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)pid, fd);
    if ((named = open(path, O_PATH | O_CLOEXEC)) < 0)
        return -1;
    if (!shm_ring_is_memory(named)) {
        close(named);
        *wrong = "it is not sealed memory";
        return -1;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", named);
    own = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    why = errno;
    close(named);
    errno = why;
    return own;
}

/* NULL: the pages and the rings are mapped. */
static const char *
shm_ring_map_found(struct shm_ring *s, int fd, uint64_t token)
{
    int seals = fcntl(fd, F_GET_SEALS);
    const char *wrong;
    struct stat st;

    /* A file whose pages could be taken away would end this process by SIGBUS. */
    if (seals < 0 || (seals & SHM_RING_SEALS) != SHM_RING_SEALS)
        return "it is not sealed memory";
    if (fstat(fd, &st) != 0 || st.st_size < SHM_RING_PAGE_BYTES)
        return "it has no page";
    if (!map_page(s, fd))
        return "it cannot be mapped";
    if ((wrong = take_size(s, fd, token)) == NULL && !map_rings(s, fd))
        wrong = "its rings cannot be mapped";
    return wrong;
}

enum ps_err
shm_ring_find(struct shm_ring *s, pid_t pid, int fd, uint64_t token, struct ps_error *e)
{
    const char *wrong;
    int own;

    *s = (struct shm_ring){.side = 1, .token = token};
    if ((own = shm_ring_open(pid, fd, &wrong)) < 0 && wrong == NULL)
        return shm_ring_unsupported(s, "cannot open the memory to be shared", e);
    if (own >= 0) {
        wrong = shm_ring_map_found(s, own, token);
        close(own);
    }
    if (wrong == NULL)
        return PS_OK;
    shm_ring_finish(s);
    return ps_fail(e, PS_ERR_UNSUPPORTED, "the memory to be shared: %s", wrong);
}

void
shm_ring_offered(struct shm_ring *s)
{
    if (s->open)
        close(s->fd);
    s->open = false;
}

void
shm_ring_finish(struct shm_ring *s)
{
    shm_ring_offered(s);
    if (s->ring_in != NULL)
        munmap(s->ring_in, 2 * s->ring_bytes);
    if (s->ring_out != NULL)
        munmap(s->ring_out, 2 * s->ring_bytes);
    if (s->page != NULL)
        munmap(s->page, SHM_RING_PAGE_BYTES);
    *s = (struct shm_ring){0};
}

/* ---- Moving bytes ---- */

size_t
shm_ring_space(const struct shm_ring *s)
{
    uint64_t used = s->put - atomic_load_explicit(&ring_in(s)->taken, memory_order_acquire);

    return used > s->ring_bytes ? SIZE_MAX : s->ring_bytes - (size_t)used;
}

size_t
shm_ring_filled(const struct shm_ring *s)
{
    uint64_t filled = atomic_load_explicit(&ring_out(s)->put, memory_order_acquire) - s->taken;

    return filled > s->ring_bytes ? SIZE_MAX : (size_t)filled;
}

void
shm_ring_skip(struct shm_ring *s, size_t n)
{
    s->taken += n;
}

void
shm_ring_put(struct shm_ring *s, size_t n)
{
    s->put += n;
    atomic_store_explicit(&ring_in(s)->put, s->put, memory_order_release);
}

void
shm_ring_take(struct shm_ring *s, size_t n)
{
    s->taken += n;
    atomic_store_explicit(&ring_out(s)->taken, s->taken, memory_order_release);
}

/* ---- Sleeping ---- */

bool
shm_ring_sleep(struct shm_ring *s, unsigned wants, size_t known)
{
    atomic_store_explicit(&s->page->asleep[s->side].wants, wants, memory_order_seq_cst);
    atomic_thread_fence(memory_order_seq_cst);
    if (((wants & SHM_RING_DATA) == 0 || shm_ring_filled(s) == known) &&
        ((wants & SHM_RING_SPACE) == 0 || shm_ring_space(s) == 0))
        return true;
    shm_ring_wake(s);
    return false;
}

void
shm_ring_wake(struct shm_ring *s)
{
    atomic_store_explicit(&s->page->asleep[s->side].wants, 0, memory_order_relaxed);
}

bool
shm_ring_notify(struct shm_ring *s, unsigned what)
{
    _Atomic uint32_t *wants = &s->page->asleep[1 - s->side].wants;

    atomic_thread_fence(memory_order_seq_cst);
    return (atomic_load_explicit(wants, memory_order_relaxed) & what) != 0 && atomic_exchange(wants, 0) != 0;
}
