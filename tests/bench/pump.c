/* See pump.h. Happy path: client fills its window with requests, both poll loops move bytes, the server applies SGD
 * when a message is whole and queues the reply. Any failure ends the program: a benchmark has nothing to save. */
#include "tests/bench/pump.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "common/core/optimizer/optimizer.h"
#include "tests/bench/reason.h"
#include "tests/now.h"

struct pump_head {
    uint32_t kind, count;
    uint64_t size; /* bytes of one block */
    uint64_t body; /* bytes that follow */
    uint64_t pad;
};
static_assert(sizeof(struct pump_head) == 32, "as long as a frame's header");

/* A message on its way out. */
struct out {
    struct pump_head head;
    const uint32_t *index; /* may be NULL */
    const uint8_t *body;   /* may be NULL */
    size_t body_len;
};

/* One end of the stream. */
struct pump_end {
    int fd;
    bool spin;
    struct out ring[LOAD_WINDOW_MAX];
    size_t first, count; /* of the ring */
    size_t sent;         /* bytes of ring[first] */
    struct pump_head head;
    size_t got; /* bytes of the incoming message, header included */
    uint8_t *body;
};

struct server {
    struct pump_end end;
    uint8_t *model;
    uint8_t *other;  /* the second memory, where updates are not in place; else NULL */
    bool *moved;     /* of each block: it is there */
    uint8_t *gather; /* replies of many small blocks */
    size_t model_bytes, gather_size, gather_at;
};

static _Noreturn void
pump_die(const char *what)
{
    fprintf(stderr, "bench: pump: %s%s%s\n", what, reason_before(), reason_text());
    exit(1);
}

static void
end_push(struct pump_end *e, const struct out *o)
{
    ps_assert(e->count < LOAD_WINDOW_MAX);
    e->ring[(e->first + e->count++) % LOAD_WINDOW_MAX] = *o;
}

/* The unsent pieces of one message, as iovecs. */
static int
out_pieces(const struct out *o, size_t skip, struct iovec *v)
{
    struct iovec all[3] = {
        {(void *)&o->head, sizeof o->head},
        {(void *)(uintptr_t)o->index, o->index != NULL ? o->head.count * sizeof(uint32_t) : 0},
        {(void *)(uintptr_t)o->body, o->body_len},
    };
    int n = 0;

    for (size_t i = 0; i < 3; i++) {
        size_t cut = MIN(skip, all[i].iov_len);
        skip -= cut;
        if (all[i].iov_len > cut)
            v[n++] = (struct iovec){(uint8_t *)all[i].iov_base + cut, all[i].iov_len - cut};
    }
    return n;
}

static size_t
out_len(const struct out *o)
{
    return sizeof o->head + (o->index != NULL ? o->head.count * sizeof(uint32_t) : 0) + o->body_len;
}

/* Write as much as the kernel takes. */
static void
end_write(struct pump_end *e)
{
    while (e->count > 0) {
        struct iovec v[192];
        int n = 0;
        ssize_t done;

        for (size_t i = 0; i < e->count && n + 3 <= (int)ARRAY_LEN(v); i++)
            n += out_pieces(&e->ring[(e->first + i) % LOAD_WINDOW_MAX], i == 0 ? e->sent : 0, v + n);
        if ((done = writev(e->fd, v, n)) < 0) {
            if (errno == EAGAIN)
                return;
            pump_die("write");
        }
        e->sent += (size_t)done;
        while (e->count > 0 && e->sent >= out_len(&e->ring[e->first])) {
            e->sent -= out_len(&e->ring[e->first]);
            e->first = (e->first + 1) % LOAD_WINDOW_MAX;
            e->count--;
        }
    }
}

/* Read on; true when a message is whole (head, body). */
static bool
end_read(struct pump_end *e)
{
    for (;;) {
        ssize_t n;
        struct iovec v[2];
        size_t have = e->got, need = sizeof e->head;

        if (have < need) {
            v[0] = (struct iovec){(uint8_t *)&e->head + have, need - have};
        } else {
            have -= need;
            need = e->head.body;
            if (have == need) {
                e->got = 0;
                return true;
            }
            v[0] = (struct iovec){e->body + have, need - have};
        }
        n = readv(e->fd, v, 1);
        if (n == 0)
            exit(0);
        if (n < 0) {
            if (errno == EAGAIN)
                return false;
            pump_die("read");
        }
        e->got += (size_t)n;
    }
}

static void
end_wait(struct pump_end *e)
{
    struct pollfd p = {.fd = e->fd, .events = (short)(POLLIN | (e->count > 0 ? POLLOUT : 0))};

    if (!e->spin && poll(&p, 1, -1) < 0 && errno != EINTR)
        pump_die("poll");
}

static uint8_t *
block_of(const struct server *s, uint32_t index, size_t size)
{
    return (s->other != NULL && s->moved[index] ? s->other : s->model) + index * size;
}

static void
pump_update(struct server *s, uint32_t index, size_t size, const uint8_t *grad)
{
    static const struct ps_optimizer sgd = {.kind = PS_SGD, .learning_rate = 1e-6};
    struct optimizer_arrays from = {.weights = (float *)(void *)block_of(s, index, size)}, to;

    if (s->other != NULL)
        s->moved[index] = !s->moved[index];
    to.weights = (float *)(void *)block_of(s, index, size);
    (void)optimizer_apply(&sgd, &(struct optimizer_when){.version = 1}, 1.0f, size / sizeof(float),
                          (const float *)(const void *)grad, &from, &to, false);
}

/* Apply what came and queue the answer. */
static void
pump_serve(struct server *s)
{
    const struct pump_head *h = &s->end.head;
    const uint32_t *index = (const uint32_t *)(const void *)s->end.body;
    const uint8_t *grad = s->end.body + h->count * sizeof *index;
    struct out reply = {.head = {.kind = h->kind, .count = h->count, .size = h->size}};

    for (uint32_t i = 0; h->kind != LOAD_PULL && i < h->count; i++)
        pump_update(s, index[i], h->size, grad + i * h->size);
    if (h->kind != LOAD_PUSH) {
        reply.body_len = reply.head.body = h->count * h->size;
        if (h->count == 1) {
            reply.body = block_of(s, index[0], h->size);
        } else {
            if (s->gather_at + reply.body_len > s->gather_size)
                s->gather_at = 0;
            for (uint32_t i = 0; i < h->count; i++)
                memcpy(s->gather + s->gather_at + i * h->size, block_of(s, index[i], h->size), h->size);
            reply.body = s->gather + s->gather_at;
            s->gather_at += reply.body_len;
        }
    }
    end_push(&s->end, &reply);
}

static _Noreturn void
server_main(int fd, const struct pump_options *o)
{
    static struct server s;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    s.end.fd = fd;
    s.end.spin = o->spin;
    s.end.body = load_memory(o->bytes_max + LOAD_BATCH_MAX * sizeof(uint32_t));
    s.model_bytes = o->model_bytes;
    s.model = load_memory(o->model_bytes);
    if (o->beside) {
        s.other = load_memory(o->model_bytes);
        s.moved = load_memory(o->model_bytes / LOAD_SIZE_MIN);
    }
    s.gather_size = 64 * MIN(o->bytes_max, (size_t)1 << 20);
    s.gather = load_memory(s.gather_size);
    for (;;) {
        end_wait(&s.end);
        while (end_read(&s.end)) {
            pump_serve(&s);
            end_write(&s.end);
        }
        end_write(&s.end);
    }
}

static void
pump_tune(int fd, const struct pump_options *o)
{
    int one = 1;

    if (!o->is_unix && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0)
        pump_die("TCP_NODELAY");
    if (!o->is_unix && o->congestion != NULL &&
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, o->congestion, (socklen_t)strlen(o->congestion)) < 0)
        pump_die("TCP_CONGESTION");
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        pump_die("fcntl");
}

/* Two connected loopback TCP sockets. */
static void
tcp_pair(int fd[2], const struct pump_options *o)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) < 0 || listen(listener, 1) < 0 ||
        getsockname(listener, (struct sockaddr *)&at, &len) < 0)
        pump_die("listen");
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd[0] < 0 ||
        (o->congestion != NULL &&
         setsockopt(fd[0], IPPROTO_TCP, TCP_CONGESTION, o->congestion, (socklen_t)strlen(o->congestion)) < 0) ||
        connect(fd[0], (struct sockaddr *)&at, sizeof at) < 0)
        pump_die("connect");
    if ((fd[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
        pump_die("accept");
    close(listener);
}

void
pump_start(struct pump *p, const struct pump_options *options)
{
    int fd[2];

    p->options = *options;
    if (!options->is_unix)
        tcp_pair(fd, options);
    else if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0)
        pump_die("socketpair");
    pump_tune(fd[0], options);
    pump_tune(fd[1], options);
    fflush(NULL);
    if ((p->server = fork()) < 0)
        pump_die("fork");
    if (p->server == 0) {
        close(fd[0]);
        server_main(fd[1], options);
    }
    close(fd[1]);
    p->fd = fd[0];
    p->in = load_memory(options->bytes_max);
}

void
pump_stop(struct pump *p)
{
    close(p->fd);
    kill(p->server, SIGKILL);
    waitpid(p->server, NULL, 0);
    free(p->in);
}

/* Queue the i-th message of the load; its blocks follow those of the one before. */
static void
pump_request(struct pump_end *e, const struct bench_load *l, const uint32_t *index, uint64_t i)
{
    uint32_t first = (uint32_t)(i * l->batch % l->blocks);
    size_t bytes = l->kind == LOAD_PULL ? 0 : l->batch * l->size;

    end_push(
        e, &(struct out){
               .head = {.kind = l->kind, .count = l->batch, .size = l->size, .body = l->batch * sizeof *index + bytes},
               .index = index + first,
               .body = bytes > 0 ? load_gradients() : NULL,
               .body_len = bytes,
           });
}

/* Indices go round, so that any run of `batch` of them from a first below `blocks` is there. */
static uint32_t *
pump_indices(const struct pump *p, const struct bench_load *l)
{
    uint32_t *index = malloc((l->blocks + l->batch) * sizeof *index);

    ps_assert(index != NULL && l->batch <= LOAD_BATCH_MAX && l->batch * l->size <= p->options.bytes_max &&
              l->blocks * l->size <= p->options.model_bytes && l->window <= LOAD_WINDOW_MAX);
    for (uint32_t i = 0; i < l->blocks + l->batch; i++)
        index[i] = i % l->blocks;
    return index;
}

double
pump_run(struct pump *p, const struct bench_load *l, double seconds)
{
    static struct pump_end e;
    uint32_t *index = pump_indices(p, l);
    uint64_t asked = 0, answered = 0;
    double start = now_s();

    e = (struct pump_end){.fd = p->fd, .spin = p->options.spin, .body = p->in};
    while (answered < asked || now_s() - start < seconds) {
        while (asked - answered < l->window && (asked % 16 != 0 || now_s() - start < seconds))
            pump_request(&e, l, index, asked++);
        end_write(&e);
        end_wait(&e);
        while (end_read(&e)) {
            answered++;
            if (asked - answered < l->window / 2)
                break;
        }
    }
    free(index);
    return (now_s() - start) / (double)answered;
}

size_t
pump_round_trips(struct pump *p, const struct bench_load *l, double seconds, double *times, size_t most)
{
    static struct pump_end e;
    uint32_t *index = pump_indices(p, l);
    double start = now_s();
    size_t n = 0;

    e = (struct pump_end){.fd = p->fd, .spin = p->options.spin, .body = p->in};
    while (n < most && now_s() - start < seconds) {
        double before = now_s();

        pump_request(&e, l, index, n);
        do {
            end_write(&e);
            end_wait(&e);
        } while (!end_read(&e));
        times[n++] = now_s() - before;
    }
    free(index);
    return n;
}
