#include "client/group/rendezvous/site.h"

#include <stdio.h>
#include <string.h>

#include "client/api/resolve.h"
#include "common/net/sockname.h"

/* ---- Finding ---- */

static const char *
text_of(const struct site *s)
{
    return s->config.listen != NULL ? s->config.listen : s->config.listed;
}

bool
site_must_wait(const struct site *s)
{
    return s->config.listen != NULL || !s->config.any;
}

void
site_give_up(struct site *s)
{
    resolve_leave(s->lookup);
    s->lookup = NULL;
}

void
site_take_any(struct site *s)
{
    site_give_up(s);
    s->known = true;
}

/* What stands for the name; where that is nothing, and any port does, it does not matter. */
static void
take(struct site *s, const struct addrinfo *list, const char *why)
{
    struct ps_error e = {0};

    if (list == NULL && site_must_wait(s)) {
        ps_error_set(&e, PS_ERR_UNREACHABLE, "cannot look up where to listen, '%.128s': %.128s", text_of(s), why);
        s->config.failed(s->config.arg, &e);
        return;
    }
    if (list != NULL)
        sockname_text((const struct sockaddr_storage *)list->ai_addr, s->place, sizeof s->place);
    s->known = true;
    s->config.found(s->config.arg);
}

static void
on_found(uv_async_t *found)
{
    struct site *s = found->data;
    struct addrinfo *list = NULL;
    const char *why = NULL;

    if (s->lookup == NULL || !resolve_done(s->lookup, &list, &why))
        return;
    site_give_up(s);
    take(s, list, why);
    if (list != NULL)
        freeaddrinfo(list);
}

bool
site_find(struct site *s, struct ps_error *e)
{
    const char *text = text_of(s);
    struct sockaddr_storage number;
    struct address address;

    if (s->known)
        return true;
    if (text == NULL || address_parse(text, &address, NULL) != PS_OK || address.is_unix ||
        door_number(&address, &number)) {
        if (text != NULL)
            snprintf(s->place, sizeof s->place, "%s", text); /* the door says what is wrong with it */
        s->known = true;
        return true;
    }
    if ((s->lookup = resolve_start(address.host, address.port, &s->found)) == NULL) {
        ps_error_set(e, PS_ERR_NOMEM, "no memory to look up where to listen");
        return false;
    }
    ps_error_set(e, PS_ERR_TIMEOUT, "nobody has said yet which address '%.128s' is, where this worker listens",
                 address.host);
    return false;
}

/* ---- Opening ---- */

/* "127.0.0.1" and a port as one text. */
static void
join(const char *host, uint16_t port, char *out, size_t size)
{
    snprintf(out, size, strchr(host, ':') != NULL && host[0] != '[' ? "[%s]:%u" : "%s:%u", host, port);
}

/* A door on all addresses is told as the one by which the meeting is reached, or by which the cluster knows this
 * worker.
 */
static void
tell_mine(struct site *s, const char *local)
{
    const struct door *d = s->config.door;
    struct address address;
    uint8_t number[16];

    if (strncmp(d->address, "0.0.0.0:", 8) != 0 && strncmp(d->address, "[::]:", 5) != 0) {
        snprintf(s->mine, sizeof s->mine, "%s", d->address);
        return;
    }
    if (!s->config.any && address_parse(s->config.listed, &address, NULL) == PS_OK &&
        (uv_inet_pton(AF_INET, address.host, number) == 0 || uv_inet_pton(AF_INET6, address.host, number) == 0))
        local = address.host;
    join(local, d->port, s->mine, sizeof s->mine);
}

enum ps_err
site_open(struct site *s, const char *local, struct ps_error *e)
{
    struct door *d = s->config.door;
    char anywhere[GROUP_ADDRESS_MAX];
    const char *where = anywhere;
    enum ps_err err = PS_OK;

    join(local, 0, anywhere, sizeof anywhere);
    if (s->place[0] != '\0' && (site_must_wait(s) || door_may_open(s->place)))
        where = s->place;
    if (!d->open && !door_closed(d))
        err = ps_fail(e, PS_ERR_BUSY, "cannot listen at %.256s: the last try is not over", where);
    else if (!d->open)
        err = door_open(d, s->config.pool, where, e);
    if (err == PS_OK)
        tell_mine(s, local);
    return err;
}

/* ---- Life ---- */

bool
site_init(struct site *s, const struct site_config *config)
{
    *s = (struct site){.config = *config};
    if (uv_async_init(config->pool->loop, &s->found, on_found) != 0)
        return false;
    s->found.data = s;
    ++*config->handles;
    return true;
}

static void
found_closed(uv_handle_t *handle)
{
    struct site *s = handle->data;

    --*s->config.handles;
}

void
site_close(struct site *s)
{
    site_give_up(s);
    uv_close((uv_handle_t *)&s->found, found_closed);
}
