/* Where the pages of all shards of a cluster are (--http-shards), so that one page shows all of them: the browser asks
 * each shard, which decides itself who may look. */
#ifndef SERVER_HTTP_HTTP_PAGES_H
#define SERVER_HTTP_HTTP_PAGES_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct http_pages {
    char *policy;   /* Content-Security-Policy: no other site but these, and this one */
    char *json;     /* {"shard": 1, "pages": ["http://127.0.0.1:9420", ...]} */
    char **origins; /* [len] scheme, host and port, as browsers name the page that asks */
    size_t len;     /* 0: no list was given */
};

/* list: "host:port,...", by the shards' indices; NULL: none. PS_ERR_CONFIG, PS_ERR_NOMEM; http_pages_finish() is owed
 * in any case. */
enum ps_err http_pages_parse(struct http_pages *p, const char *list, bool tls, uint32_t shard,
                             struct ps_error *e) PS_MUST_USE;
void http_pages_finish(struct http_pages *p); /* accepts a zeroed one */

/* The page of one of the shards asks. origin may be NULL: false. */
bool http_pages_has(const struct http_pages *p, const char *origin);

#endif
