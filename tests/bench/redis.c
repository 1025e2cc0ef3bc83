/* See redis.h. Requests of a window are written before their replies are read; the server keeps what it cannot send, so
 * neither waits for the other. */
#include "tests/bench/redis.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/bench/reason.h"
#include "tests/bench/server.h"
#include "tests/now.h"

#define START_S      10
#define LISTENER_MAX 64 /* its descriptors that are looked at */

static _Noreturn void
redis_die(const char *what, const redisContext *c)
{
    if (c != NULL && c->err != 0)
        fprintf(stderr, "bench: redis: %s: %s\n", what, c->errstr);
    else
        fprintf(stderr, "bench: redis: %s%s%s\n", what, reason_before(), reason_text());
    exit(EXIT_FAILURE);
}

/* ---- The server ---- */

static _Noreturn void
redis_become(const char *program, const struct redis *r)
{
    char port[16];
    int quiet = open("/dev/null", O_WRONLY);

    snprintf(port, sizeof port, "%d", r->port);
    (void)dup2(quiet, STDOUT_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execlp(program, program, "--bind", "127.0.0.1", "--port", port, "--unixsocket", r->socket, "--save", "",
           "--appendonly", "no", "--daemonize", "no", "--protected-mode", "yes", (char *)NULL);
    _exit(127);
}

/* It cannot choose a free port itself: one that was free a moment ago. */
static int
free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) < 0 || getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        redis_die("port", NULL);
    close(fd);
    return ntohs(at.sin_port);
}

/* It has no option for it: its listening socket is borrowed, and what it accepts from then on is like it. */
static bool
set_congestion(const struct redis *r, const char *name)
{
    int pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
    bool done = false;

    for (int i = 0; pidfd >= 0 && i < LISTENER_MAX; i++) {
        int fd = (int)syscall(SYS_pidfd_getfd, pidfd, i, 0), listens = 0, domain = 0;
        socklen_t len = sizeof listens;

        if (fd < 0)
            continue;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens != 0 &&
            getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_INET)
            done = setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0;
        close(fd);
    }
    if (pidfd >= 0)
        close(pidfd);
    return done;
}

bool
redis_start(struct redis *r, const struct bench_options *s, struct bench_report *report)
{
    double end = now_s() + START_S;
    redisContext *c = NULL;

    *r = (struct redis){.port = free_port()};
    bench_path(r->socket, true, "redis");
    fflush(NULL);
    if ((r->pid = fork()) < 0)
        redis_die("fork", NULL);
    if (r->pid == 0)
        redis_become(s->redis, r);
    while (c == NULL || c->err != 0) {
        if (waitpid(r->pid, NULL, WNOHANG) != 0 || now_s() > end) {
            redisFree(c);
            report_left_out(report, "redis: %s does not start", s->redis);
            *r = (struct redis){0};
            return false;
        }
        redisFree(c);
        usleep(10000);
        c = redisConnectUnix(r->socket);
    }
    redisFree(c);
    if (!set_congestion(r, s->congestion))
        report_left_out(report, "redis: sends with the system's congestion control, not with %s", s->congestion);
    return true;
}

void
redis_stop(struct redis *r)
{
    if (r->pid == 0)
        return;
    kill(r->pid, SIGCONT);
    kill(r->pid, SIGKILL);
    waitpid(r->pid, NULL, 0);
    bench_remove(r->socket);
}

void
redis_open(struct redis_link *link, const struct redis *r, const struct bench_options *s, bool is_unix)
{
    int one = 1;

    link->context = is_unix ? redisConnectUnix(r->socket) : redisConnect("127.0.0.1", r->port);
    if (link->context == NULL || link->context->err != 0)
        redis_die("connect", link->context);
    if (!is_unix && (setsockopt(link->context->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0 ||
                     setsockopt(link->context->fd, IPPROTO_TCP, TCP_CONGESTION, s->congestion,
                                (socklen_t)strlen(s->congestion)) < 0))
        redis_die("congestion", NULL);
}

void
redis_close(struct redis_link *link)
{
    redisFree(link->context);
    link->context = NULL;
}

/* ---- Loads ---- */

static void
redis_append(struct redis_link *link, const struct bench_load *l, bool set, uint32_t block, const uint8_t *value)
{
    char key[48];
    const char *words[] = {set ? "SET" : "GET", key, (const char *)value};
    size_t lens[] = {3, (size_t)snprintf(key, sizeof key, "%zu/%u", l->size, block), l->size};

    if (redisAppendCommandArgv(link->context, set ? 3 : 2, words, lens) != REDIS_OK)
        redis_die("append", link->context);
}

/* Requests of message i. Returns how many replies will come. */
static uint32_t
redis_request(struct redis_link *link, const struct bench_load *l, uint64_t i)
{
    for (uint32_t j = 0; j < l->batch; j++) {
        uint32_t block = (uint32_t)((i * l->batch + j) % l->blocks);

        if (l->kind != LOAD_PULL)
            redis_append(link, l, true, block, load_gradients() + j * l->size);
        if (l->kind != LOAD_PUSH)
            redis_append(link, l, false, block, NULL);
    }
    return l->kind == LOAD_PUSH_PULL ? 2 * l->batch : l->batch;
}

static void
write_all(struct redis_link *link)
{
    int done = 0;

    while (!done)
        if (redisBufferWrite(link->context, &done) != REDIS_OK)
            redis_die("write", link->context);
}

static void
take_replies(struct redis_link *link, const struct bench_load *l, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        redisReply *reply = NULL;
        bool is_get = l->kind == LOAD_PULL || (l->kind == LOAD_PUSH_PULL && i % 2 == 1);

        if (redisGetReply(link->context, (void **)&reply) != REDIS_OK || reply == NULL)
            redis_die("reply", link->context);
        if (is_get ? reply->type != REDIS_REPLY_STRING || reply->len != l->size : reply->type != REDIS_REPLY_STATUS)
            redis_die("an answer of another kind", NULL);
        freeReplyObject(reply);
    }
}

double
redis_run(struct redis_link *link, const struct bench_load *l, double seconds)
{
    uint64_t begun = 0, ended = 0;
    uint32_t replies = 0;
    double start = now_s();

    while (ended < begun || now_s() - start < seconds) {
        while (begun - ended < l->window && (begun % 16 != 0 || begun == 0 || now_s() - start < seconds))
            replies = redis_request(link, l, begun++);
        write_all(link);
        do
            take_replies(link, l, replies);
        while (++ended < begun && begun - ended > l->window / 2);
    }
    return (now_s() - start) / (double)ended;
}

size_t
redis_round_trips(struct redis_link *link, const struct bench_load *l, double seconds, double *times, size_t most)
{
    double start = now_s();
    size_t n = 0;

    while (n < most && (n == 0 || now_s() - start < seconds)) {
        double before = now_s();
        uint32_t replies = redis_request(link, l, n);

        write_all(link);
        take_replies(link, l, replies);
        times[n++] = now_s() - before;
    }
    return n;
}

void
redis_fill(struct redis_link *link, const struct bench_load *l)
{
    struct bench_load one = {LOAD_PUSH, l->size, l->blocks, 1, 1};

    for (uint32_t i = 0; i < l->blocks; i++) {
        redisReply *reply = NULL;

        redis_request(link, &one, i);
        write_all(link);
        take_replies(link, &one, 1);
        redis_append(link, &one, false, i, NULL);
        if (redisGetReply(link->context, (void **)&reply) != REDIS_OK || reply == NULL || reply->len != l->size ||
            memcmp(reply->str, load_gradients(), l->size) != 0)
            redis_die("a key does not hold what was set", link->context);
        freeReplyObject(reply);
    }
}
