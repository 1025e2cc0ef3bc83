#include "client/group/rendezvous/listen_address.h"

#include <stdio.h>
#include <string.h>

#include "client/api/resolve.h"
#include "common/net/sockname.h"

/* ---- Finding ---- */

static const char *
text_of(const struct listen_address *s)
{
    return s->config.listen != NULL ? s->config.listen : s->config.listed;
}

bool
listen_address_must_wait(const struct listen_address *s)
{
    return s->config.listen != NULL || !s->config.any;
}

void
listen_address_give_up(struct listen_address *s)
{
    resolve_leave(s->lookup);
    s->lookup = NULL;
}

void
listen_address_use_any(struct listen_address *s)
{
    listen_address_give_up(s);
    s->known = true;
}

/* The lookup's result; a name without an address does not matter where any port does. */
static void
listen_address_resolved(struct listen_address *s, const struct addrinfo *list, const char *why)
{
    struct ps_error e = {0};

    if (list == NULL && listen_address_must_wait(s)) {
        ps_error_set(&e, PS_ERR_UNREACHABLE, "cannot look up where to listen, '%.128s': %.128s", text_of(s), why);
        s->config.failed(s->config.arg, &e);
        return;
    }
    if (list != NULL)
        sockname_text((const struct sockaddr_storage *)list->ai_addr, s->numeric, sizeof s->numeric);
    s->known = true;
    s->config.found(s->config.arg);
}

static void
listen_address_on_found(uv_async_t *found)
{
    struct listen_address *s = found->data;
    struct addrinfo *list = NULL;
    const char *why = NULL;

    if (s->lookup == NULL || !resolve_done(s->lookup, &list, &why))
        return;
    listen_address_give_up(s);
    listen_address_resolved(s, list, why);
    if (list != NULL)
        freeaddrinfo(list);
}

bool
listen_address_find(struct listen_address *s, struct ps_error *e)
{
    const char *text = text_of(s);
    struct sockaddr_storage number;
    struct address address;

    if (s->known)
        return true;
    if (text == NULL || address_parse(text, &address, NULL) != PS_OK || address.is_unix ||
        acceptor_parse_number(&address, &number)) {
        if (text != NULL)
            snprintf(s->numeric, sizeof s->numeric, "%s", text); /* the acceptor reports what is wrong with it */
        s->known = true;
        return true;
    }
    if ((s->lookup = resolve_start(address.host, address.port, &s->found)) == NULL) {
        ps_error_set(e, PS_ERR_NOMEM, "no memory to look up where to listen");
        return false;
    }
    ps_error_set(e, PS_ERR_TIMEOUT, "the address of '%.128s', where this worker listens, is not resolved yet",
                 address.host);
    return false;
}

/* ---- Opening ---- */

/* "127.0.0.1" and a port as one text. */
static void
listen_address_join(const char *host, uint16_t port, char *out, size_t size)
{
    snprintf(out, size, strchr(host, ':') != NULL && host[0] != '[' ? "[%s]:%u" : "%s:%u", host, port);
}

/* An acceptor on all addresses is advertised as the one by which the rendezvous is reached, or by which the cluster
 * knows this worker.
 */
static void
listen_address_advertise(struct listen_address *s, const char *local)
{
    const struct acceptor *d = s->config.acceptor;
    struct address address;
    uint8_t number[16];

    if (strncmp(d->address, "0.0.0.0:", 8) != 0 && strncmp(d->address, "[::]:", 5) != 0) {
        snprintf(s->advertised, sizeof s->advertised, "%s", d->address);
        return;
    }
    if (!s->config.any && address_parse(s->config.listed, &address, NULL) == PS_OK &&
        (uv_inet_pton(AF_INET, address.host, number) == 0 || uv_inet_pton(AF_INET6, address.host, number) == 0))
        local = address.host;
    listen_address_join(local, d->port, s->advertised, sizeof s->advertised);
}

enum ps_err
listen_address_open(struct listen_address *s, const char *local, struct ps_error *e)
{
    struct acceptor *d = s->config.acceptor;
    char anywhere[GROUP_ADDRESS_MAX];
    const char *where = anywhere;
    enum ps_err err = PS_OK;

    listen_address_join(local, 0, anywhere, sizeof anywhere);
    if (s->numeric[0] != '\0' && (listen_address_must_wait(s) || acceptor_may_open(s->numeric)))
        where = s->numeric;
    if (!d->open && !acceptor_closed(d))
        err = ps_fail(e, PS_ERR_BUSY, "cannot listen at %.256s: the last try is not over", where);
    else if (!d->open)
        err = acceptor_open(d, s->config.pool, where, e);
    if (err == PS_OK)
        listen_address_advertise(s, local);
    return err;
}

/* ---- Life ---- */

bool
listen_address_init(struct listen_address *s, const struct listen_address_config *config)
{
    *s = (struct listen_address){.config = *config};
    if (uv_async_init(config->pool->loop, &s->found, listen_address_on_found) != 0)
        return false;
    s->found.data = s;
    ++*config->handles;
    return true;
}

static void
listen_address_found_closed(uv_handle_t *handle)
{
    struct listen_address *s = handle->data;

    --*s->config.handles;
}

void
listen_address_close(struct listen_address *s)
{
    listen_address_give_up(s);
    uv_close((uv_handle_t *)&s->found, listen_address_found_closed);
}
