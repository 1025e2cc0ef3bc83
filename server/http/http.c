/* The thread waits for new connections, for what libmicrohttpd waits for (it runs without a thread of its own), for
 * connections that hang up, and for news from the loop. */
#include "server/http/http.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/core/base/hash.h"
#include "common/net/sockname.h"
#include "common/system/now.h"
#include "common/system/thread.h"
#include "server/access/access_policy.h"
#include "server/http/http_internal.h"

#define BACKLOG 64
#define TICK_MS 100 /* between looks at deadlines, while there are connections */

/* The text of "HTTP" in process/options_table.c. */
static_assert(HTTP_TRACE_MAX == 4096 && HTTP_STUCK_MS == 30000 && HTTP_LOOP_MS == 2000 && HTTP_CONNECTIONS_MAX == 32 &&
                  HTTP_HOST_MAX == 16 && HTTP_REQUEST_MAX == 16 * KIB && HTTP_LIFE_MS == 10000,
              "what --help says of the HTTP server holds");

double
http_unix_seconds(void)
{
    return (double)unix_ns() / 1e9;
}

/* ---- The thread ---- */

static int
http_poll_timeout_ms(const struct http *h, uint64_t now)
{
    uint64_t due = http_figures_due(h);
    const struct http_listener *listener;
    MHD_UNSIGNED_LONG_LONG ms;

    due = MIN(due, http_held_due(h));
    if (h->conns_len > 0)
        due = MIN(due, now + TICK_MS);
    if (h->accept_ms > now)
        due = MIN(due, h->accept_ms);
    DL_FOREACH (h->listeners, listener)
        if (MHD_get_timeout(listener->daemon, &ms) == MHD_YES)
            due = MIN(due, now + ms);
    return due == UINT64_MAX ? -1 : (int)(due - MIN(due, now));
}

static bool
is_stopping(struct http *h)
{
    bool stopping;

    uv_mutex_lock(&h->lock);
    stopping = h->stopping;
    uv_mutex_unlock(&h->lock);
    return stopping;
}

/* Waits for news, new connections, what libmicrohttpd waits for, and connections that hang up before they have sent a
 * request. A listener that takes no new connections has at least one. */
static void
wait_for_something(struct http *h, bool accepts, int ms)
{
    struct pollfd fds[3 + 2 * HTTP_CONNECTIONS_MAX] = {{h->wake_fd, POLLIN, 0},
                                                       {accepts ? h->listen_fd : -1, POLLIN, 0}};
    nfds_t n = 2, first;
    const struct http_listener *listener;
    struct http_conn *g;
    uint64_t news;

    DL_FOREACH (h->listeners, listener)
        fds[n++] = (struct pollfd){listener->epoll_fd, POLLIN, 0};
    first = n;
    DL_FOREACH (h->conns, g)
        fds[n++] = (struct pollfd){g->asked || g->ended ? -1 : g->fd, POLLRDHUP, 0};
    ps_assert(n <= ARRAY_LEN(fds));
    if (poll(fds, n, ms) > 0)
        DL_FOREACH (h->conns, g)
            g->hung_up = g->hung_up || fds[first++].revents != 0;
    (void)!read(h->wake_fd, &news, sizeof news);
}

static void *
http_run(void *http)
{
    struct http *h = http;

    while (!is_stopping(h)) {
        uint64_t now = monotonic_ms();
        bool accepts = now >= h->accept_ms && http_places_may_free(h);

        wait_for_something(h, accepts, http_poll_timeout_ms(h, now));
        http_listeners_change(h);
        if (accepts)
            http_listeners_accept(h);
        http_figures_go_on(h);
        http_held_go_on(h, false);
        http_listeners_run(h);
        http_listeners_close_overdue(h);
    }
    http_figures_end(h);
    http_held_go_on(h, true);
    http_listeners_run(h);
    return NULL;
}

/* ---- Starting ---- */

/* A socket that is bound, and does not listen yet. -1: errno says why. */
static int
bind_to(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1, error;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0)
        return fd;
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static enum ps_err
http_failed(const char *text, struct ps_error *e)
{
    return ps_fail(e, errno == EADDRINUSE ? PS_ERR_BUSY : PS_ERR_IO, "--http: cannot listen on %s: %s", text,
                   strerror(errno));
}

/* Whether psd may listen at this address; and its name. */
static enum ps_err
check_place(struct http *h, const struct access_policy *guard, const char *text, struct ps_error *e)
{
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof bound;

    if (getsockname(h->listen_fd, (struct sockaddr *)&bound, &len) != 0)
        return http_failed(text, e);
    sockname_text(&bound, h->address, sizeof h->address);
    h->local = sockname_is_loopback((struct sockaddr *)&bound);
    return access_policy_check_http(guard, &bound, text, e);
}

static enum ps_err
open_socket(struct http *h, const struct access_policy *guard, const char *text, struct ps_error *e)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *at;
    struct address address;
    char port[8];
    enum ps_err err;
    int status;

    if ((err = address_parse(text, &address, e)) != PS_OK)
        return err;
    snprintf(port, sizeof port, "%u", address.port);
    if ((status = getaddrinfo(address.host, port, &hints, &at)) != 0)
        return ps_fail(e, PS_ERR_IO, "--http: cannot listen on %s: %s", text, gai_strerror(status));
    h->listen_fd = bind_to(at);
    freeaddrinfo(at);
    if (h->listen_fd < 0)
        return http_failed(text, e);
    if ((err = check_place(h, guard, text, e)) != PS_OK)
        return err;
    return listen(h->listen_fd, BACKLOG) == 0 ? PS_OK : http_failed(text, e);
}

static void
http_free(struct http *h)
{
    http_listeners_close(h);
    access_attempts_finish(&h->attempts);
    if (h->listen_fd >= 0)
        close(h->listen_fd);
    if (h->wake_fd >= 0)
        close(h->wake_fd);
    http_pages_finish(&h->pages);
    free(h->figures);
    free(h->history);
    free(h);
}

static enum ps_err
start_thread(struct http *h, struct ps_error *e)
{
    h->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    h->figures = calloc(1, sizeof *h->figures);
    h->history = calloc(1, sizeof *h->history);
    if (h->wake_fd < 0 || h->figures == NULL || h->history == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "--http: no memory or descriptors to serve");
    ps_assert(uv_mutex_init(&h->lock) == 0);
    if (thread_start(&h->thread, http_run, h) == 0)
        return PS_OK;
    uv_mutex_destroy(&h->lock);
    return ps_fail(e, PS_ERR_NOMEM, "--http: no memory for a thread");
}

static enum ps_err
http_open_listener(struct http *h, const struct tls_files *files, struct ps_error *e)
{
    struct http_listener *listener;
    enum ps_err err = http_tls_listener(h, files, &listener, &h->certificate, e);

    if (err == PS_OK)
        DL_APPEND(h->listeners, listener);
    return err;
}

static enum ps_err
take_socket(struct http *h, const struct access_policy *guard, const char *address, int fd, struct ps_error *e)
{
    h->listen_fd = fd;
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        return ps_fail(e, PS_ERR_IO, "--http: descriptor %d: %s", fd, strerror(errno));
    return check_place(h, guard, address, e);
}

enum ps_err
http_start(const struct http_endpoint *at, const char *version, const struct access_policy *guard, struct http **out,
           struct ps_error *e)
{
    struct http *h = calloc(1, sizeof *h);
    enum ps_err err;

    if (h == NULL) {
        if (at->fd >= 0)
            close(at->fd);
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    }
    h->start_seconds = http_unix_seconds();
    h->version = version;
    h->listen_fd = h->wake_fd = -1;
    h->tokens = guard->http;
    h->attempts.free = HTTP_WRONG_FREE;
    err = http_pages_parse(&h->pages, at->pages, at->tls != NULL, at->shard, e);
    if (err != PS_OK && at->fd >= 0)
        close(at->fd);
    if (err == PS_OK)
        err = at->fd >= 0 ? take_socket(h, guard, at->address, at->fd, e) : open_socket(h, guard, at->address, e);
    if (err != PS_OK || (err = http_open_listener(h, at->tls, e)) != PS_OK || (err = start_thread(h, e)) != PS_OK) {
        http_free(h);
        return err;
    }
    *out = h;
    return PS_OK;
}

const char *
http_address(const struct http *h)
{
    return h->address;
}

bool
http_is_local(const struct http *h)
{
    return h->local;
}

const struct certificate *
http_certificate(const struct http *h)
{
    return &h->certificate;
}

/* ---- The loop's side ---- */

void
http_tell(struct http *h)
{
    uint64_t one = 1;

    uv_mutex_unlock(&h->lock);
    (void)!write(h->wake_fd, &one, sizeof one);
}

static void
on_async(uv_async_t *async)
{
    struct http *h = async->data;
    bool asked;

    uv_mutex_lock(&h->lock);
    asked = h->asked && !h->given;
    uv_mutex_unlock(&h->lock);
    if (!asked)
        return;
    h->measure(h->arg, h->figures);
    uv_mutex_lock(&h->lock);
    h->given = true;
    http_tell(h);
}

void
http_attach(struct http *h, uv_loop_t *loop, const char *durable_file, const struct timeline *timeline, uint32_t shard,
            http_measure measure, void *arg)
{
    if (h == NULL)
        return;
    h->measure = measure;
    h->arg = arg;
    ps_assert(uv_async_init(loop, &h->async, on_async) == 0);
    h->async.data = h;
    uv_unref((uv_handle_t *)&h->async); /* it keeps no loop from ending */
    uv_mutex_lock(&h->lock);
    h->attached = true;
    h->timeline = timeline;
    h->shard = shard;
    h->beat_ms = monotonic_ms();
    snprintf(h->durable_file, sizeof h->durable_file, "%s", durable_file != NULL ? durable_file : "");
    http_tell(h);
}

void
http_detach(struct http *h)
{
    if (h == NULL)
        return;
    uv_mutex_lock(&h->lock);
    if (!h->attached) {
        uv_mutex_unlock(&h->lock);
        return;
    }
    h->attached = false;
    h->detached = true;
    h->given = h->asked;
    http_tell(h);
    uv_close((uv_handle_t *)&h->async, NULL);
}

void
http_beat(struct http *h)
{
    if (h == NULL)
        return;
    uv_mutex_lock(&h->lock);
    h->beat_ms = monotonic_ms();
    uv_mutex_unlock(&h->lock);
}

void
http_set_tokens(struct http *h, const struct http_tokens *tokens)
{
    if (h == NULL)
        return;
    uv_mutex_lock(&h->lock);
    h->tokens = *tokens;
    uv_mutex_unlock(&h->lock);
}

void
http_stop(struct http *h)
{
    if (h == NULL)
        return;
    uv_mutex_lock(&h->lock);
    h->stopping = true;
    http_tell(h);
    pthread_join(h->thread, NULL);
    uv_mutex_destroy(&h->lock);
    http_free(h);
}
