#include "tests/system/hostile.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/core/cluster/address.h"
#include "common/core/wire/frame.h"
#include "common/core/wire/wire.h"

enum {
#define X(id, name, connections, about) id = connections,
    HOSTILE_LIST(X)
#undef X
        FLOOD_FRAMES = 1000
};

const char *const hostile_names[HOSTILE_KINDS] = {
#define X(id, name, connections, about) name,
    HOSTILE_LIST(X)
#undef X
};
const int hostile_connections[HOSTILE_KINDS] = {
#define X(id, name, connections, about) connections,
    HOSTILE_LIST(X)
#undef X
};

static struct sockaddr_in target;
static const char *cluster_name;

static void
pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static int
hostile_dial(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&target, sizeof target) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* False: closed, or it would wait. */
static bool
hostile_say(int fd, const void *bytes, size_t len)
{
    return send(fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static void
hostile_frame(int fd, enum msg_type type, const ProtobufCMessage *m)
{
    size_t len;
    uint8_t *bytes = wire_encode_new(type, 1, m, 0, &len);

    (void)hostile_say(fd, bytes, len);
    free(bytes);
}

static void
hostile_hello(int fd)
{
    Psd__Hello m = PSD__HELLO__INIT;

    m.cluster = (char *)(uintptr_t)cluster_name;
    m.shards = 1;
    m.agent = (char *)(uintptr_t) "hostile";
    m.role = PSD__ROLE__OBSERVER;
    hostile_frame(fd, MSG_HELLO, &m.base);
}

static void
hostile_unblock(int fd)
{
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

/* ---- Kinds ---- */

static void
ask_for_more(int fd)
{
    uint32_t var = 1, block = 0;
    Psd__Pull m = PSD__PULL__INIT;

    m.n_var = m.n_block = 1;
    m.var = &var;
    m.block = &block;
    m.now = true;
    for (int i = 0; i < 64; i++)
        hostile_frame(fd, MSG_PULL, &m.base);
}

static void
read_slowly(size_t bytes)
{
    static uint8_t sink[1024];
    int fds[SLOW_READERS];

    for (int i = 0; i < SLOW_READERS; i++)
        fds[i] = -1;
    for (;; pause_ms(10))
        for (int i = 0; i < SLOW_READERS; i++) {
            if (fds[i] < 0) {
                if ((fds[i] = hostile_dial()) < 0)
                    continue;
                hostile_hello(fds[i]);
                hostile_unblock(fds[i]);
            }
            ask_for_more(fds[i]);
            if (bytes > 0 && recv(fds[i], sink, bytes, 0) == 0) {
                close(fds[i]);
                fds[i] = -1;
            }
        }
}

static void
slow_readers(void)
{
    read_slowly(0);
}

static void
hostile_trickle(void)
{
    read_slowly(1024);
}

static void
hostile_flood(void)
{
    static uint8_t sink[256 * KIB];
    Psd__Ping m = PSD__PING__INIT;
    int fds[FLOOD];
    size_t len;
    uint8_t *one = wire_encode_new(MSG_PING, 1, &m.base, 0, &len), *many = calloc(FLOOD_FRAMES, len);

    for (int i = 0; i < FLOOD_FRAMES; i++)
        memcpy(many + (size_t)i * len, one, len);
    for (int i = 0; i < FLOOD; i++) {
        if ((fds[i] = hostile_dial()) < 0)
            exit(1);
        hostile_hello(fds[i]);
    }
    for (;;)
        for (int i = 0; i < FLOOD; i++) {
            if (!hostile_say(fds[i], many, FLOOD_FRAMES * len))
                exit(0);
            while (recv(fds[i], sink, sizeof sink, MSG_DONTWAIT) > 0)
                continue;
        }
}

/* Held as long as the shard allows; those that it closed are opened again. */
static void
hostile_silent(void)
{
    static const char half[] = "PSD1";
    int fds[SILENT];
    char c;

    for (int i = 0; i < SILENT; i++)
        fds[i] = -1;
    for (;; pause_ms(20))
        for (int i = 0; i < SILENT; i++) {
            if (fds[i] >= 0 && recv(fds[i], &c, 1, MSG_DONTWAIT | MSG_PEEK) == 0) {
                close(fds[i]);
                fds[i] = -1;
            }
            if (fds[i] >= 0 || (fds[i] = hostile_dial()) < 0)
                continue;
            if (i % 3 == 1)
                (void)hostile_say(fds[i], half, sizeof half - 1);
            if (i % 3 == 2)
                hostile_hello(fds[i]);
        }
}

/* A push whose header promises a gigabyte. */
static void
hostile_promise(int fd)
{
    uint32_t var = 1, block = 0;
    Psd__Push m = PSD__PUSH__INIT;
    uint8_t *bytes;
    size_t len;

    hostile_hello(fd);
    m.seq = 1;
    m.n_var = m.n_block = 1;
    m.var = &var;
    m.block = &block;
    bytes = wire_encode_new(MSG_PUSH, 1, &m.base, FRAME_PAYLOAD_MAX, &len);
    (void)hostile_say(fd, bytes, len);
    free(bytes);
}

static void
hostile_liars(void)
{
    int fds[LIARS];

    for (int i = 0; i < LIARS; i++)
        fds[i] = -1;
    for (;; pause_ms(1))
        for (int i = 0; i < LIARS; i++) {
            if (fds[i] < 0 && (fds[i] = hostile_dial()) >= 0)
                hostile_promise(fds[i]);
            else if (fds[i] >= 0 && !hostile_say(fds[i], "", 1)) {
                close(fds[i]);
                fds[i] = -1;
            }
        }
}

static void
hostile_garbage(void)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: psd\r\n\r\n";
    char c;

    for (;;) {
        int fd = hostile_dial();

        if (fd < 0)
            continue;
        (void)hostile_say(fd, text, sizeof text - 1);
        while (recv(fd, &c, 1, 0) > 0)
            continue;
        close(fd);
    }
}

static void
hostile_churn(void)
{
    char c;

    for (;;) {
        int fd = hostile_dial();

        if (fd < 0)
            continue;
        hostile_hello(fd);
        (void)recv(fd, &c, 1, 0); /* one that does not wait has no place in the queue of new connections for long */
        close(fd);
    }
}

static void (*const kinds[HOSTILE_KINDS])(void) = {
    [HOSTILE_SLOW_READERS] = slow_readers, [HOSTILE_TRICKLE] = hostile_trickle, [HOSTILE_FLOOD] = hostile_flood,
    [HOSTILE_SILENT] = hostile_silent,     [HOSTILE_LIARS] = hostile_liars,     [HOSTILE_GARBAGE] = hostile_garbage,
    [HOSTILE_CHURN] = hostile_churn,
};

pid_t
hostile_start(enum hostile_kind kind, const char *address, const char *cluster)
{
    struct address a;
    pid_t pid;

    target = (struct sockaddr_in){.sin_family = AF_INET};
    if (address_parse(address, &a, NULL) != PS_OK || inet_pton(AF_INET, a.host, &target.sin_addr) != 1)
        return -1;
    target.sin_port = htons(a.port);
    cluster_name = cluster;
    if ((pid = fork()) != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    kinds[kind]();
    _exit(0);
}

void
hostile_stop(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}
