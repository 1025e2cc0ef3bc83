/* See http_pages.h. */
#include "server/http/http_pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "common/core/base/comma_list.h"
#include "common/core/cluster/address.h"

/* The page loads nothing from other sites, runs no inline code, and is shown in no frame of another site. */
#define POLICY_BEGIN                                                                                                   \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "   \
    "frame-ancestors 'none'; connect-src 'self'"

/* Nothing that means something else in a header. */
static bool
is_plain_host(const char *host)
{
    return *host != '\0' &&
           host[strspn(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-:_")] == '\0';
}

/* As a browser writes it: in lower case, and without a port that is the scheme's own. */
static enum ps_err
http_pages_add(struct http_pages *p, const char *text, bool tls, struct ps_error *e)
{
    struct address a;
    char port[8] = "";
    char *origin;
    enum ps_err err;

    if ((err = address_parse(text, &a, e)) != PS_OK)
        return err;
    if (a.is_unix || a.port == 0 || !is_plain_host(a.host))
        return ps_fail(e, PS_ERR_CONFIG, "--http-shards: '%.200s' is no host:port that a browser can ask", text);
    for (char *c = a.host; *c != '\0'; c++)
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 'a' - 'A') : *c;
    if (a.port != (tls ? 443 : 80))
        snprintf(port, sizeof port, ":%u", a.port);
    if (asprintf(&origin, strchr(a.host, ':') != NULL ? "%s[%s]%s" : "%s%s%s", tls ? "https://" : "http://", a.host,
                 port) < 0)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    p->origins[p->len++] = origin;
    return PS_OK;
}

static enum ps_err
http_pages_split(struct http_pages *p, const char *list, bool tls, struct ps_error *e)
{
    char entry[ADDRESS_MAX + 1];
    enum ps_err err = PS_OK;

    if ((p->origins = calloc(comma_list_len(list), sizeof p->origins[0])) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    while (err == PS_OK && comma_list_next(&list, entry, sizeof entry))
        err = http_pages_add(p, entry, tls, e);
    return err;
}

static char *
http_pages_policy(const struct http_pages *p)
{
    size_t size = sizeof POLICY_BEGIN, at;
    char *text;

    for (size_t i = 0; i < p->len; i++)
        size += strlen(p->origins[i]) + 1;
    if ((text = malloc(size)) == NULL)
        return NULL;
    at = (size_t)snprintf(text, size, "%s", POLICY_BEGIN);
    for (size_t i = 0; i < p->len; i++)
        at += (size_t)snprintf(text + at, size - at, " %s", p->origins[i]);
    return text;
}

static char *
http_pages_json(const struct http_pages *p, uint32_t shard)
{
    json_t *root = json_object(), *pages = json_array();
    char *text = NULL;
    int failed = 0;

    for (size_t i = 0; i < p->len; i++)
        failed |= json_array_append_new(pages, json_string(p->origins[i]));
    failed |= json_object_set_new(root, "shard", json_integer(shard));
    failed |= json_object_set_new(root, "pages", pages);
    if (failed == 0)
        text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

enum ps_err
http_pages_parse(struct http_pages *p, const char *list, bool tls, uint32_t shard, struct ps_error *e)
{
    enum ps_err err;

    *p = (struct http_pages){0};
    if (list != NULL && (err = http_pages_split(p, list, tls, e)) != PS_OK)
        return err;
    p->policy = http_pages_policy(p);
    p->json = http_pages_json(p, shard);
    return p->policy != NULL && p->json != NULL ? PS_OK : ps_fail(e, PS_ERR_NOMEM, "out of memory");
}

void
http_pages_finish(struct http_pages *p)
{
    for (size_t i = 0; i < p->len; i++)
        free(p->origins[i]);
    free(p->origins);
    free(p->policy);
    free(p->json);
    *p = (struct http_pages){0};
}

bool
http_pages_has(const struct http_pages *p, const char *origin)
{
    for (size_t i = 0; origin != NULL && i < p->len; i++)
        if (strcmp(p->origins[i], origin) == 0)
            return true;
    return false;
}
