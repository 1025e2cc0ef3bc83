/* Requests with a token at whose address many were wrong lately wait before the token is looked at
 * (access/access_attempts.h). libmicrohttpd has them suspended meanwhile, and calls the request's handler again. */
#include "common/core/base/hash.h"
#include "common/system/now.h"
#include "server/http/http_internal.h"

#define HTTP_TOKEN_NAME "of HTTP" /* they have none of their own */

enum http_hold
http_held_begin(struct http *h, struct http_request *r, const struct sockname_host *host)
{
    struct ps_error e;
    uint32_t ms;

    r->attempt = access_attempts_at(host, HTTP_TOKEN_NAME);
    if (access_attempts_begin(&h->attempts, &r->attempt, monotonic_ms(), &ms, &e) != PS_OK)
        return HTTP_HOLD_REFUSED;
    r->attempts = true;
    if (ms == 0)
        return HTTP_HOLD_NONE;
    if (h->held_len == HTTP_HELD_MAX) {
        http_held_end(h, r, false);
        return HTTP_HOLD_REFUSED;
    }
    r->outcome = HTTP_HELD;
    r->due_ms = monotonic_ms() + ms;
    DL_APPEND(h->held, r);
    h->held_len++;
    return HTTP_HOLD_SUSPENDED;
}

void
http_held_end(struct http *h, struct http_request *r, bool wrong)
{
    if (r->attempts)
        access_attempts_end(&h->attempts, &r->attempt, wrong, monotonic_ms());
    r->attempts = false;
}

void
http_held_forget(struct http *h, struct http_request *r)
{
    if (r->outcome == HTTP_HELD) {
        DL_DELETE(h->held, r);
        h->held_len--;
        r->outcome = HTTP_HELD_OVER;
    }
}

void
http_held_go_on(struct http *h, bool all)
{
    uint64_t now = monotonic_ms();
    struct http_request *r, *next;

    DL_FOREACH_SAFE (h->held, r, next) {
        if (!all && r->due_ms > now)
            continue;
        http_held_forget(h, r);
        MHD_resume_connection(r->connection);
    }
}

uint64_t
http_held_due(const struct http *h)
{
    const struct http_request *r;
    uint64_t due = UINT64_MAX;

    DL_FOREACH (h->held, r)
        due = MIN(due, r->due_ms);
    return due;
}
