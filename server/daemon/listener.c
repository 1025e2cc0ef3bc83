/* Names are looked up once, at start, without the loop. A Unix socket's file that no process listens on (a crash left
 * it) is replaced; one that a process listens on, or a file that is no socket, is not. */
#include "server/daemon/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/core/base/comma_list.h"
#include "common/net/sockname.h"
#include "server/access/access_policy.h"
#include "server/daemon/peer.h"
#include "server/daemon/socket_activation.h"
#include "server/process/log.h"

#define BACKLOG 1024

static void
on_connection(uv_stream_t *stream, int status)
{
    struct listener *l = stream->data;
    struct daemon *d = l->daemon;

    /* Out of descriptors: libuv has accepted the connection with a spare one, and closed it. */
    if (status != 0) {
        d->refused[REFUSAL_DESCRIPTORS] += status == UV_EMFILE || status == UV_ENFILE;
        if (daemon_may_log(d, &d->accept_log_ms))
            log_line(LOG_LEVEL_WARNING, "cannot accept a connection: %s address=%s", uv_strerror(status), l->address);
        return;
    }
    l->waits = !peer_accept(d, stream, l->is_unix);
}

void
listeners_again(struct daemon *d)
{
    for (struct listener *l = d->listeners; l != NULL; l = l->next)
        if (l->waits)
            l->waits = !peer_accept(d, &l->u.stream, l->is_unix);
}

static struct listener *
listener_new(struct daemon *d, bool is_unix)
{
    struct listener *l = calloc(1, sizeof *l), **end = &d->listeners;
    int status;

    if (l == NULL)
        return NULL;
    status = is_unix ? uv_pipe_init(&d->loop, &l->u.pipe, 0) : uv_tcp_init(&d->loop, &l->u.tcp);
    if (status != 0) {
        free(l);
        return NULL;
    }
    l->u.handle.data = l;
    l->daemon = d;
    l->is_unix = is_unix;
    while (*end != NULL)
        end = &(*end)->next;
    *end = l;
    return l;
}

/* Called before it listens: a client may send as soon as it is connected, before it is accepted. */
static void
listener_refuse_descriptors(const struct listener *l)
{
    uv_os_fd_t fd;

    if (uv_fileno((const uv_handle_t *)&l->u.pipe, &fd) == 0)
        conn_refuse_descriptors(fd);
}

/* ---- TCP ---- */

static void
write_address(struct listener *l)
{
    struct sockaddr_storage bound;
    int len = sizeof bound;

    if (uv_tcp_getsockname(&l->u.tcp, (struct sockaddr *)&bound, &len) == 0)
        sockname_text(&bound, l->address, sizeof l->address);
}

static int
bind_tcp(struct listener *l, const char *host, uint16_t port)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    char service[8];
    uv_getaddrinfo_t lookup;
    int status;

    snprintf(service, sizeof service, "%u", port);
    status = uv_getaddrinfo(&l->daemon->loop, &lookup, NULL, host, service, &hints);
    if (status != 0)
        return status;
    status = uv_tcp_bind(&l->u.tcp, lookup.addrinfo->ai_addr, 0);
    uv_freeaddrinfo(lookup.addrinfo);
    return status;
}

/* The socket is bound, and does not listen yet. */
static enum ps_err
check_place(const struct listener *l, struct ps_error *e)
{
    struct sockaddr_storage bound = {0};
    int len = sizeof bound, status = uv_tcp_getsockname(&l->u.tcp, (struct sockaddr *)&bound, &len);

    if (status != 0)
        return ps_fail(e, PS_ERR_IO, "cannot listen on %s: %s", l->address, uv_strerror(status));
    return access_policy_check_address(l->daemon->policy, &bound, l->address, e);
}

static enum ps_err
listen_tcp(struct daemon *d, const char *text, const struct address *address, struct ps_error *e)
{
    struct listener *l = listener_new(d, false);
    enum ps_err err;
    int status;

    if (l == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    snprintf(l->address, sizeof l->address, "%s", text);
    status = bind_tcp(l, address->host, address->port);
    if (status == UV_EAFNOSUPPORT && strcmp(address->host, "::") == 0) /* all interfaces, on a host without IPv6 */
        status = bind_tcp(l, "0.0.0.0", address->port);
    if (status == 0 && (err = check_place(l, e)) != PS_OK)
        return err;
    if (status == 0)
        status = uv_listen(&l->u.stream, BACKLOG, on_connection);
    if (status != 0)
        return ps_fail(e, status == UV_EADDRINUSE ? PS_ERR_BUSY : PS_ERR_IO, "cannot listen on %s: %s", text,
                       uv_strerror(status));
    write_address(l);
    return PS_OK;
}

/* ---- Unix ---- */

/* 0: a process listens; ECONNREFUSED: none does any more; another error: whether one does is not known, or it is a
 * socket of another kind, such as a log's. */
static int
listener_answers(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), why = fd < 0 ? errno : 0;

    if (fd < 0)
        return why;
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) < 0 && errno != EAGAIN)
        why = errno;
    close(fd);
    return why;
}

static enum ps_err
remove_stale(const char *path, struct ps_error *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat st;
    int why;

    if (lstat(path, &st) < 0)
        return PS_OK;
    if (!S_ISSOCK(st.st_mode))
        return ps_fail(e, PS_ERR_IO, "cannot listen on unix:%s: there is a file that is not a socket", path);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if ((why = listener_answers(&address)) == 0)
        return ps_fail(e, PS_ERR_BUSY, "cannot listen on unix:%s: another process does", path);
    if (why != ECONNREFUSED)
        return ps_fail(e, PS_ERR_IO, "cannot listen on unix:%s: there is a socket that no psd has left: %s", path,
                       strerror(why));
    if (unlink(path) < 0)
        return ps_fail(e, PS_ERR_IO, "cannot remove the old socket %s: %s", path, strerror(errno));
    return PS_OK;
}

static enum ps_err
listen_unix(struct daemon *d, const char *path, struct ps_error *e)
{
    struct listener *l;
    mode_t before;
    enum ps_err err;
    int status;

    if (strlen(path) >= sizeof((struct sockaddr_un *)0)->sun_path)
        return ps_fail(e, PS_ERR_INVALID, "cannot listen on unix:%s: a socket's path has at most %zu bytes", path,
                       sizeof((struct sockaddr_un *)0)->sun_path - 1);
    if ((err = remove_stale(path, e)) != PS_OK)
        return err;
    if ((l = listener_new(d, true)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    snprintf(l->address, sizeof l->address, "unix:%s", path);
    before = umask(0777 & ~(mode_t)d->options->unix_mode); /* never open for wider, not even for a moment */
    status = uv_pipe_bind(&l->u.pipe, path);
    umask(before);
    listener_refuse_descriptors(l);
    if (status == 0)
        status = uv_listen(&l->u.stream, BACKLOG, on_connection);
    if (status != 0)
        return ps_fail(e, PS_ERR_IO, "cannot listen on %s: %s", l->address, uv_strerror(status));
    return PS_OK;
}

/* ---- Sockets handed over ---- */

/* The socket is bound already, by another process, which also removes a Unix socket's file. */
static enum ps_err
listen_activated(struct daemon *d, const struct activated_socket *s, struct ps_error *e)
{
    struct listener *l = listener_new(d, s->is_unix);
    enum ps_err err;
    int status;

    if (l == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    l->was_activated = true;
    snprintf(l->address, sizeof l->address, "%s", s->address);
    status = s->is_unix ? uv_pipe_open(&l->u.pipe, s->fd) : uv_tcp_open(&l->u.tcp, s->fd);
    if (status == 0 && !s->is_unix && (err = check_place(l, e)) != PS_OK)
        return err;
    if (s->is_unix)
        listener_refuse_descriptors(l);
    if (status == 0)
        status = uv_listen(&l->u.stream, BACKLOG, on_connection);
    if (status != 0)
        return ps_fail(e, PS_ERR_IO, "cannot listen on %s, descriptor %d: %s", s->address, s->fd, uv_strerror(status));
    return PS_OK;
}

/* The workers' list says where this shard is; the process that opened the sockets has not read it. */
static void
compare_ports(const struct daemon *d)
{
    const char *listed = options_given(d->options, "advertise") ? NULL : d->options->advertise;
    struct address wanted, is;

    if (listed == NULL || !socket_activation_has(d->activated, false) ||
        address_parse(listed, &wanted, NULL) != PS_OK || wanted.is_unix)
        return;
    for (const struct listener *l = d->listeners; l != NULL; l = l->next)
        if (address_parse(l->address, &is, NULL) == PS_OK && !is.is_unix && is.port == wanted.port)
            return;
    log_line(LOG_LEVEL_WARNING,
             "no socket that was handed over has the port that the list of shards says: workers will look elsewhere "
             "listed=%s",
             listed);
}

static enum ps_err
listen_all_activated(struct daemon *d, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (unsigned i = 0; i < d->activated->len && err == PS_OK; i++)
        if (!d->activated->sockets[i].is_http)
            err = listen_activated(d, &d->activated->sockets[i], e);
    if (err == PS_OK)
        compare_ports(d);
    return err;
}

/* ---- All listeners ---- */

static enum ps_err
listen_one(struct daemon *d, const char *text, struct ps_error *e)
{
    struct address address;
    enum ps_err err;

    if ((err = address_parse(text, &address, e)) != PS_OK || socket_activation_has(d->activated, address.is_unix))
        return err;
    return address.is_unix ? listen_unix(d, address.path, e) : listen_tcp(d, text, &address, e);
}

enum ps_err
listeners_open(struct daemon *d, struct ps_error *e)
{
    char one[ADDRESS_MAX];
    const char *at = d->options->listen;
    enum ps_err err;

    if ((err = listen_all_activated(d, e)) != PS_OK)
        return err;
    while (strcmp(d->options->listen, "none") != 0 && comma_list_next(&at, one, sizeof one))
        if (*one != '\0' && (err = listen_one(d, one, e)) != PS_OK)
            return err;
    if (d->options->unix_path == NULL || socket_activation_has(d->activated, true))
        return PS_OK;
    return listen_unix(d, d->options->unix_path, e);
}

static void
listener_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void
listeners_close(struct daemon *d)
{
    while (d->listeners != NULL) {
        struct listener *l = d->listeners;

        d->listeners = l->next;
        uv_close(&l->u.handle, listener_closed);
    }
}
