#include "server/daemon/socket_activation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/net/sockname.h"

/* How many sockets the environment names for this process; 0 when they are for another one. */
static unsigned long
count_ours(void)
{
    const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");

    if (pid == NULL || count == NULL || strtoll(pid, NULL, 10) != getpid())
        return 0;
    return strtoul(count, NULL, 10);
}

/* The next name, of which *at is the rest; "" when there are no more. */
static void
next_name(const char **at, char *name, size_t size)
{
    size_t n = strcspn(*at, ":");

    snprintf(name, size, "%.*s", (int)n, *at);
    *at += n + ((*at)[n] == ':');
}

/* A Unix socket's path; with an @ for the abstract namespace; empty for a socket without a name. */
static void
unix_text(const struct sockaddr_un *bound, socklen_t len, char *out, size_t size)
{
    size_t n = len > offsetof(struct sockaddr_un, sun_path) ? len - offsetof(struct sockaddr_un, sun_path) : 0;
    bool abstract = n > 0 && bound->sun_path[0] == '\0';

    snprintf(out, size, "unix:%s%.*s", abstract ? "@" : "", (int)(n - abstract), bound->sun_path + abstract);
}

static bool
is_listening(int fd)
{
    int type = 0, listens = 0;
    socklen_t len = sizeof type;

    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_STREAM)
        return false;
    len = sizeof listens;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) == 0 && listens != 0;
}

static enum ps_err
take_one(struct activated_sockets *h, int fd, const char *name, struct ps_error *e)
{
    struct activated_socket *s = &h->sockets[h->len];
    union {
        struct sockaddr_storage any;
        struct sockaddr_un un;
    } bound = {0};
    socklen_t len = sizeof bound;

    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
        return ps_fail(e, PS_ERR_CONFIG, "LISTEN_FDS: descriptor %d (%s) is not open", fd, name);
    if (!is_listening(fd) || getsockname(fd, (struct sockaddr *)&bound, &len) < 0)
        return ps_fail(e, PS_ERR_CONFIG, "LISTEN_FDS: descriptor %d (%s) is not a listening stream socket", fd, name);
    *s = (struct activated_socket){
        .fd = fd, .is_http = strcmp(name, "http") == 0, .is_unix = bound.any.ss_family == AF_UNIX};
    if (!s->is_unix && bound.any.ss_family != AF_INET && bound.any.ss_family != AF_INET6)
        return ps_fail(e, PS_ERR_CONFIG, "LISTEN_FDS: descriptor %d (%s) is neither a TCP nor a Unix socket", fd, name);
    if (s->is_http && (s->is_unix || socket_activation_http(h) != NULL))
        return ps_fail(e, PS_ERR_CONFIG, "LISTEN_FDS: descriptor %d (%s): metrics and health take one TCP socket", fd,
                       name);
    if (s->is_unix)
        unix_text(&bound.un, len, s->address, sizeof s->address);
    else
        sockname_text(&bound.any, s->address, sizeof s->address);
    h->len++;
    return PS_OK;
}

enum ps_err
socket_activation_take(struct activated_sockets *h, struct ps_error *e)
{
    unsigned long count = count_ours();
    const char *names = getenv("LISTEN_FDNAMES");
    char name[256];
    enum ps_err err = PS_OK;

    h->len = 0;
    if (count > SOCKET_ACTIVATION_MAX)
        return ps_fail(e, PS_ERR_CONFIG, "LISTEN_FDS: %lu sockets; psd takes at most %d", count, SOCKET_ACTIVATION_MAX);
    for (unsigned long i = 0; i < count && err == PS_OK; i++) {
        if (names != NULL)
            next_name(&names, name, sizeof name);
        else
            snprintf(name, sizeof name, "unknown");
        err = take_one(h, SOCKET_ACTIVATION_FIRST + (int)i, name, e);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return err;
}

const struct activated_socket *
socket_activation_http(const struct activated_sockets *h)
{
    for (unsigned i = 0; i < h->len; i++)
        if (h->sockets[i].is_http)
            return &h->sockets[i];
    return NULL;
}

bool
socket_activation_has(const struct activated_sockets *h, bool is_unix)
{
    for (unsigned i = 0; i < h->len; i++)
        if (!h->sockets[i].is_http && h->sockets[i].is_unix == is_unix)
            return true;
    return false;
}
