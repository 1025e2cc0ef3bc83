#include "tests/bench/bare.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/bench/reason.h"

#define PIECE      MIB  /* of this size went fastest over loopback, with socket buffers as the system makes them */
#define SPINS      2000 /* looks before a rank lets others run */
#define PART_ALIGN 16   /* floats: a cache line */

static _Noreturn void
bare_die(const char *what)
{
    fprintf(stderr, "bench: limits: %s%s%s\n", what, reason_before(), reason_text());
    exit(1);
}

static void
bare_add(float *restrict to, const float *restrict from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* ---- Sockets ---- */

static void
bare_tune(int fd, const char *congestion)
{
    int one = 1;

    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, (socklen_t)strlen(congestion)) < 0)
        bare_die(congestion);
}

static void
connect_pair(int fd[2], const char *congestion)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &len) < 0)
        bare_die("listen");
    if ((fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) < 0)
        bare_die("socket");
    bare_tune(fd[0], congestion);
    if (connect(fd[0], (struct sockaddr *)&at, sizeof at) < 0 ||
        (fd[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
        bare_die("connect");
    bare_tune(fd[1], congestion);
    if (fcntl(fd[0], F_SETFL, O_NONBLOCK) < 0 || fcntl(fd[1], F_SETFL, O_NONBLOCK) < 0)
        bare_die("fcntl");
    close(listener);
}

void
limit_sockets_open(struct limit_sockets *s, uint32_t ranks, const char *congestion)
{
    for (uint32_t r = 0; r < ranks; r++) {
        int fd[2];

        connect_pair(fd, congestion);
        s->to[r] = fd[0];
        s->from[(r + 1) % ranks] = fd[1];
    }
}

void
limit_sockets_close(struct limit_sockets *s, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++) {
        close(s->to[r]);
        close(s->from[r]);
    }
}

struct ring {
    int to, from;
    bool spin, crowded; /* more ranks than cores: a rank that only polls lets others run */
    bool adds;
    uint64_t ranks;
    _Alignas(64) float scratch[PIECE / sizeof(float)]; /* incoming values: they stay in the cache, as those that a ring
                                                          adds at once do */
};

static void *
ring_start(uint32_t rank, uint32_t ranks, const void *arg)
{
    const struct limit_sockets *s = arg;
    struct ring *ring = aligned_alloc(64, sizeof *ring);

    if (ring == NULL)
        bare_die("memory");
    memset(ring, 0, sizeof *ring);
    ring->to = s->to[rank];
    ring->from = s->from[rank];
    ring->spin = s->spin != 0;
    ring->adds = s->add != 0;
    ring->crowded = ranks > (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    ring->ranks = ranks;
    return ring;
}

/* How many bytes went; 0: not now. */
static uint64_t
bare_moved(ssize_t n, const char *what)
{
    if (n == 0)
        exit(1); /* another rank ended, and has printed why */
    if (n < 0 && errno != EAGAIN)
        bare_die(what);
    return n < 0 ? 0 : (uint64_t)n;
}

/* At once, wherever it belongs: a float that the socket has cut is not worth waiting for. */
static uint64_t
ring_read(struct ring *ring, float *values, uint64_t got, uint64_t bytes, uint64_t whole)
{
    uint64_t at = got % whole, most = MIN(MIN(bytes - got, whole - at), PIECE), n;
    bool adds = ring->adds && got < bytes / 2, keeps = ring->adds && !adds;

    n = bare_moved(recv(ring->from, keeps ? (char *)values + at : (char *)ring->scratch,
                        adds ? MIN(most, bytes / 2 - got) : most, 0),
                   "receive");
    if (adds)
        bare_add(values + at / sizeof *values, ring->scratch, n / sizeof *values);
    return n;
}

static void
ring_all_reduce(void *state, float *values, uint64_t count)
{
    struct ring *ring = state;
    uint64_t bytes = 2 * (ring->ranks - 1) * (count * sizeof *values) / ring->ranks, whole = count * sizeof *values;
    uint64_t sent = 0, got = 0;

    while (sent < bytes || got < bytes) {
        struct pollfd p[2] = {{.fd = ring->from, .events = POLLIN}, {.fd = ring->to, .events = POLLOUT}};
        uint64_t before = sent + got, at = sent % whole;

        if (sent < bytes)
            sent += bare_moved(
                send(ring->to, (const char *)values + at, MIN(MIN(bytes - sent, whole - at), PIECE), MSG_NOSIGNAL),
                "send");
        if (got < bytes)
            got += ring_read(ring, values, got, bytes, whole);
        if (sent + got != before)
            continue;
        if (ring->spin && ring->crowded)
            sched_yield();
        else if (!ring->spin && poll(p, sent < bytes ? 2 : 1, -1) < 0)
            bare_die("poll");
    }
}

const struct team_kind limit_sockets_kind = {.start = ring_start, .all_reduce = ring_all_reduce, .moves_only = 1};

/* ---- Memory ---- */

/* At the start of what is shared; the ranks' values follow, each from a page's start. */
struct meeting {
    atomic_uint arrived, round;
};

#define HEAD 4096

void
limit_memory_open(struct limit_memory *m, uint32_t ranks, uint64_t count_max)
{
    m->count_max = round_up(count_max, HEAD / sizeof(float));
    m->size = HEAD + ranks * m->count_max * sizeof(float);
    m->shared = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m->shared == MAP_FAILED)
        bare_die("shared memory");
}

void
limit_memory_close(struct limit_memory *m)
{
    munmap(m->shared, m->size);
}

struct part_of_memory {
    struct meeting *meeting;
    float *values[TEAM_RANKS_MAX];
    uint32_t rank, ranks;
};

static void *
memory_start(uint32_t rank, uint32_t ranks, const void *arg)
{
    const struct limit_memory *m = arg;
    struct part_of_memory *p = calloc(1, sizeof *p);

    if (p == NULL)
        bare_die("memory");
    p->meeting = m->shared;
    p->rank = rank;
    p->ranks = ranks;
    for (uint32_t r = 0; r < ranks; r++)
        p->values[r] = (float *)(void *)((char *)m->shared + HEAD) + r * m->count_max;
    return p;
}

static float *
memory_values(void *state, uint64_t count)
{
    struct part_of_memory *p = state;

    (void)count;
    return p->values[p->rank];
}

static void
bare_barrier(struct part_of_memory *p)
{
    unsigned round = atomic_load(&p->meeting->round);

    if (atomic_fetch_add(&p->meeting->arrived, 1) + 1 == p->ranks) {
        atomic_store(&p->meeting->arrived, 0);
        atomic_store(&p->meeting->round, round + 1);
        return;
    }
    for (int i = 0; atomic_load_explicit(&p->meeting->round, memory_order_acquire) == round; i++)
        if (i % SPINS == SPINS - 1)
            sched_yield();
}

/* Where a rank's part begins. */
static uint64_t
part_begin(const struct part_of_memory *p, uint32_t rank, uint64_t count)
{
    return MIN(count, round_up(count * rank / p->ranks, PART_ALIGN));
}

/* In pieces that stay in the cache while one rank after another is added to them. */
static void
add_up(struct part_of_memory *p, uint64_t begin, uint64_t end)
{
    enum { STRIPE = 4096 };

    for (uint64_t at = begin; at < end; at += STRIPE)
        for (uint32_t r = 0; r < p->ranks; r++)
            if (r != p->rank)
                bare_add(p->values[p->rank] + at, p->values[r] + at, MIN(STRIPE, end - at));
}

static void
memory_all_reduce(void *state, float *values, uint64_t count)
{
    struct part_of_memory *p = state;

    bare_barrier(p); /* what was copied before has been, too */
    add_up(p, part_begin(p, p->rank, count), part_begin(p, p->rank + 1, count));
    bare_barrier(p);
    for (uint32_t i = 1; i < p->ranks; i++) {
        uint32_t r = (p->rank + i) % p->ranks;
        uint64_t begin = part_begin(p, r, count), end = part_begin(p, r + 1, count);

        memcpy(values + begin, p->values[r] + begin, (end - begin) * sizeof *values);
    }
}

const struct team_kind limit_memory_kind = {
    .start = memory_start, .values = memory_values, .all_reduce = memory_all_reduce};
