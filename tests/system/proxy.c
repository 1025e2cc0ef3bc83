/* One process, one poll loop. A pair is two sockets and two lines of chunks that wait for their time; a line is read
 * only while it holds little, so that a slow network has its usual effect on a worker: its socket fills up. */
#include "tests/system/proxy.h"
#include "tests/now.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "common/core/cluster/address.h"

enum { PAIRS_MAX = 128, CHUNK = 64 * 1024, LINE_CHUNKS = 16, TICK_MS = 1, BYTEWISE_A_TICK = 4096 };

/* Bytes on their way in one direction. */
struct chunk {
    uint64_t due_ms;
    size_t len, sent;
    uint8_t bytes[CHUNK];
};

struct line {
    struct chunk *chunks[LINE_CHUNKS]; /* in order */
    size_t len;
    bool ended; /* its reader reached the end */
    uint64_t sent, since_ms;
};

struct proxy_pair {
    int fd[PROXY_DIRECTIONS]; /* [TO_SHARD]: the worker's socket, from which that direction is read */
    struct line lines[PROXY_DIRECTIONS];
    uint32_t resets, half_opens; /* when it was made */
    bool mute;
};

struct relay {
    struct proxy_faults *faults;
    const struct shards *shards;
    int listeners[SHARDS_MAX];
    struct proxy_pair *pairs[PAIRS_MAX];
    uint64_t now_ms, random;
};

static struct sockaddr_in
socket_address(const char *text)
{
    struct address a;
    struct sockaddr_in out = {.sin_family = AF_INET};

    if (address_parse(text, &a, NULL) == PS_OK && inet_pton(AF_INET, a.host, &out.sin_addr) == 1)
        out.sin_port = htons(a.port);
    return out;
}

/* ---- Pairs ---- */

static void
pair_close(struct proxy_pair *p, bool reset)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    for (int d = 0; d < PROXY_DIRECTIONS; d++) {
        if (p->fd[d] >= 0 && reset)
            setsockopt(p->fd[d], SOL_SOCKET, SO_LINGER, &now, sizeof now);
        if (p->fd[d] >= 0)
            close(p->fd[d]);
        for (size_t i = 0; i < p->lines[d].len; i++)
            free(p->lines[d].chunks[i]);
    }
    free(p);
}

static void
accept_one(struct relay *r, uint32_t shard)
{
    struct sockaddr_in to = socket_address(r->shards->address[shard]);
    int fd = accept4(r->listeners[shard], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), one = 1, slot = 0;
    struct proxy_pair *p;

    while (slot < PAIRS_MAX && r->pairs[slot] != NULL)
        slot++;
    if (fd < 0 || slot == PAIRS_MAX || (p = calloc(1, sizeof *p)) == NULL) {
        close(fd);
        return;
    }
    atomic_fetch_add(&r->faults->connections, 1);
    p->resets = atomic_load(&r->faults->resets);
    p->half_opens = atomic_load(&r->faults->half_open);
    p->fd[TO_SHARD] = fd;
    p->fd[TO_WORKER] = -1;
    p->mute = atomic_load(&r->faults->deaf) != 0;
    if (!p->mute) {
        p->fd[TO_WORKER] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(p->fd[TO_WORKER], (struct sockaddr *)&to, sizeof to) < 0) {
            pair_close(p, true); /* as the shard itself would refuse */
            return;
        }
        fcntl(p->fd[TO_WORKER], F_SETFL, O_NONBLOCK);
        setsockopt(p->fd[TO_WORKER], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    r->pairs[slot] = p;
}

/* The shard's side goes as if its machine had died without a word. */
static void
lose_shard(struct proxy_pair *p)
{
    if (p->fd[TO_WORKER] >= 0)
        close(p->fd[TO_WORKER]);
    p->fd[TO_WORKER] = -1;
    p->mute = true;
}

/* ---- Lines ---- */

static uint64_t
proxy_due(struct relay *r, const struct line *l)
{
    uint64_t jitter = atomic_load(&r->faults->jitter_ms), at = r->now_ms + atomic_load(&r->faults->delay_ms);

    r->random = r->random * 6364136223846793005u + 1442695040888963407u;
    if (jitter > 0)
        at += (r->random >> 33) % jitter;
    return l->len > 0 ? MAX(at, l->chunks[l->len - 1]->due_ms) : at;
}

/* False: the pair is over. */
static bool
take_in(struct relay *r, struct proxy_pair *p, int d)
{
    struct line *l = &p->lines[d];
    struct chunk *c;
    ssize_t n;

    if (l->ended || l->len == LINE_CHUNKS || atomic_load(&r->faults->cut[d]) != 0)
        return true;
    if ((c = malloc(sizeof *c)) == NULL)
        return false;
    n = recv(p->fd[d], c->bytes, sizeof c->bytes, 0);
    if (n <= 0) {
        free(c);
        l->ended = n == 0;
        return n == 0 || errno == EAGAIN || errno == EINTR;
    }
    atomic_fetch_add(&r->faults->chunks, 1);
    c->due_ms = proxy_due(r, l);
    c->len = (size_t)n;
    c->sent = 0;
    l->chunks[l->len++] = c;
    return true;
}

/* How many bytes may go now. */
static size_t
proxy_allowance(const struct relay *r, struct line *l)
{
    uint64_t rate = atomic_load(&r->faults->bytes_per_ms), may;

    if (rate == 0)
        return SIZE_MAX;
    if (r->now_ms - l->since_ms > 100) { /* a burst of a tenth of a second at most */
        l->since_ms = r->now_ms;
        l->sent = 0;
    }
    may = rate * (r->now_ms - l->since_ms + 1);
    return may > l->sent ? (size_t)(may - l->sent) : 0;
}

static ssize_t
send_some(const struct relay *r, int fd, struct line *l, struct chunk *c, size_t *bytewise)
{
    size_t n = MIN(c->len - c->sent, proxy_allowance(r, l));

    if (atomic_load(&r->faults->bytewise) != 0 && *bytewise > 0) {
        n = MIN(n, (size_t)1);
        --*bytewise;
    }
    return n > 0 ? send(fd, c->bytes + c->sent, n, MSG_NOSIGNAL) : 0;
}

static bool
hand_on(struct relay *r, struct proxy_pair *p, int d)
{
    struct line *l = &p->lines[d];
    int fd = p->fd[1 - d];
    size_t bytewise = BYTEWISE_A_TICK;

    while (l->len > 0 && l->chunks[0]->due_ms <= r->now_ms && atomic_load(&r->faults->cut[d]) == 0) {
        struct chunk *c = l->chunks[0];
        ssize_t n = send_some(r, fd, l, c, &bytewise);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0)
            return true;
        c->sent += (size_t)n;
        l->sent += (size_t)n;
        if (c->sent < c->len)
            continue;
        free(c);
        memmove(l->chunks, l->chunks + 1, --l->len * sizeof l->chunks[0]);
    }
    return !(l->ended && l->len == 0);
}

/* ---- The loop ---- */

static bool
pair_goes_on(struct relay *r, struct proxy_pair *p)
{
    if (p->resets != atomic_load(&r->faults->resets))
        return false;
    if (p->half_opens != atomic_load(&r->faults->half_open) && !p->mute)
        lose_shard(p);
    if (p->mute)
        return true;
    for (int d = 0; d < PROXY_DIRECTIONS; d++)
        if (!take_in(r, p, d) || !hand_on(r, p, d))
            return false;
    return true;
}

static size_t
proxy_watch(const struct relay *r, struct pollfd *fds)
{
    size_t n = 0;

    for (uint32_t i = 0; i < r->shards->count; i++)
        fds[n++] = (struct pollfd){.fd = r->listeners[i], .events = POLLIN};
    for (int i = 0; i < PAIRS_MAX; i++)
        for (int d = 0; r->pairs[i] != NULL && !r->pairs[i]->mute && d < PROXY_DIRECTIONS; d++)
            if (!r->pairs[i]->lines[d].ended && r->pairs[i]->lines[d].len < LINE_CHUNKS &&
                atomic_load(&r->faults->cut[d]) == 0)
                fds[n++] = (struct pollfd){.fd = r->pairs[i]->fd[d], .events = POLLIN};
    return n;
}

static bool
something_waits(const struct relay *r)
{
    for (int i = 0; i < PAIRS_MAX; i++)
        for (int d = 0; r->pairs[i] != NULL && d < PROXY_DIRECTIONS; d++)
            if (r->pairs[i]->lines[d].len > 0)
                return true;
    return false;
}

static _Noreturn void
relay_run(struct relay *r)
{
    static struct pollfd fds[SHARDS_MAX + 2 * PAIRS_MAX];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        poll(fds, proxy_watch(r, fds), something_waits(r) ? TICK_MS : 10);
        r->now_ms = now_ms();
        for (uint32_t i = 0; i < r->shards->count; i++)
            if (fds[i].revents & POLLIN)
                accept_one(r, i);
        for (int i = 0; i < PAIRS_MAX; i++)
            if (r->pairs[i] != NULL && !pair_goes_on(r, r->pairs[i])) {
                pair_close(r->pairs[i], true);
                r->pairs[i] = NULL;
            }
    }
}

/* ---- The test's side ---- */

static int
listen_somewhere(char *address, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(fd, 64), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    snprintf(address, size, "127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

void
proxy_start(struct proxy *p, const struct shards *s)
{
    static struct relay relay;

    *p = (struct proxy){.pid = 0};
    setenv("PSD_TRANSPORT", "tcp", 1); /* shared memory would go past it */
    p->faults = mmap(NULL, sizeof *p->faults, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(p->faults != MAP_FAILED);
    relay = (struct relay){.faults = p->faults, .shards = s, .random = 1};
    for (uint32_t i = 0; i < s->count; i++) {
        char address[64];

        relay.listeners[i] = listen_somewhere(address, sizeof address);
        strcat(p->addresses, i > 0 ? "," : "");
        strcat(p->addresses, address);
    }
    if ((p->pid = fork()) == 0)
        relay_run(&relay);
    ck_assert_int_gt(p->pid, 0);
    for (uint32_t i = 0; i < s->count; i++)
        close(relay.listeners[i]);
}

void
proxy_stop(struct proxy *p)
{
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
    munmap(p->faults, sizeof *p->faults);
}

void
proxy_reset(struct proxy *p)
{
    atomic_fetch_add(&p->faults->resets, 1);
}

void
proxy_half_open(struct proxy *p)
{
    atomic_fetch_add(&p->faults->half_open, 1);
}

void
proxy_heal(struct proxy *p)
{
    atomic_store(&p->faults->delay_ms, 0);
    atomic_store(&p->faults->jitter_ms, 0);
    atomic_store(&p->faults->bytes_per_ms, 0);
    atomic_store(&p->faults->bytewise, 0);
    atomic_store(&p->faults->deaf, 0);
    for (int d = 0; d < PROXY_DIRECTIONS; d++)
        atomic_store(&p->faults->cut[d], 0);
}
