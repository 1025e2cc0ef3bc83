/* A connection that makes way is shut down; libmicrohttpd finds it ended when it runs next, and forgets it. */
#include <string.h>
#include <sys/socket.h>

#include "common/core/base/hash.h"
#include "server/http/http_internal.h"

static bool
http_places_same(const struct http_conn *a, const struct sockname_host *host)
{
    return memcmp(&a->host, host, sizeof *host) == 0;
}

/* Connections of the host that hold a place. */
static unsigned
http_places_of(const struct http *h, const struct sockname_host *host)
{
    const struct http_conn *c;
    unsigned n = 0;

    DL_FOREACH (h->conns, c)
        n += !c->ended && http_places_same(c, host);
    return n;
}

/* Whether a makes way before b: before an answer that is being sent goes a request that is not whole, of the host with
 * the most connections; of these the oldest, which is the first in the list. */
static bool
http_places_before(const struct http *h, const struct http_conn *a, const struct http_conn *b)
{
    if (b == NULL || a->asked != b->asked)
        return b == NULL || b->asked;
    return http_places_of(h, &a->host) > http_places_of(h, &b->host);
}

/* host: of this one alone; NULL: of all. NULL: none, or one is being closed already. */
static struct http_conn *
http_places_first(const struct http *h, const struct sockname_host *host)
{
    struct http_conn *c, *first = NULL;

    DL_FOREACH (h->conns, c)
        if (c->ended)
            return NULL;
        else if (!c->waits &&
                 /* a suspended one libmicrohttpd would not find ended */ (host == NULL || http_places_same(c, host)) &&
                 http_places_before(h, c, first))
            first = c;
    return first;
}

static void
http_places_end(struct http *h, struct http_conn *c)
{
    c->ended = true;
    shutdown(c->fd, SHUT_RDWR);
    http_listeners_run(h);
}

bool
http_places_may_free(const struct http *h)
{
    return h->conns_len < HTTP_CONNECTIONS_MAX || http_places_first(h, NULL) != NULL;
}

bool
http_places_free(struct http *h)
{
    struct http_conn *c;

    if (h->conns_len < HTTP_CONNECTIONS_MAX)
        return true;
    http_listeners_run(h); /* requests that have come are whole, and answers gone, before one is chosen */
    if (h->conns_len == HTTP_CONNECTIONS_MAX && (c = http_places_first(h, NULL)) != NULL)
        http_places_end(h, c);
    return h->conns_len < HTTP_CONNECTIONS_MAX;
}

bool
http_places_free_of(struct http *h, const struct sockname_host *host)
{
    struct http_conn *c;

    if (http_places_of(h, host) < HTTP_HOST_MAX)
        return true;
    http_listeners_run(h);
    if (http_places_of(h, host) == HTTP_HOST_MAX && (c = http_places_first(h, host)) != NULL)
        http_places_end(h, c);
    return http_places_of(h, host) < HTTP_HOST_MAX;
}
