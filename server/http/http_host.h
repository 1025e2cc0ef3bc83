/* Names in Host headers. A page of another site can have its own name resolve to 127.0.0.1 (DNS rebinding): a browser
 * on this machine then asks psd for it, and the page may read the answer. Such a request has the other site's name in
 * its Host header. Pure. */
#ifndef SERVER_HTTP_HTTP_HOST_H
#define SERVER_HTTP_HTTP_HOST_H

#include <stdbool.h>

#include "server/http/http_pages.h"

/* Whether the header (NULL: there is none, so no browser asks) names an address, localhost (RFC 6761), or one of the
 * pages. */
bool http_host_is_known(const struct http_pages *pages, const char *header);

#endif
