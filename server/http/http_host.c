/* See http_host.h. */
#include "server/http/http_host.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/core/base/base.h"

#define HTTP_HOST_NAME_MAX 253 /* RFC 1035; longer than any address */

static bool
http_host_is_address(const char *name)
{
    struct in6_addr out;

    return inet_pton(AF_INET, name, &out) == 1 || inet_pton(AF_INET6, name, &out) == 1;
}

static bool
http_host_is_localhost(const char *name)
{
    static const char localhost[] = ".localhost";
    size_t len = strlen(name), tail = sizeof localhost - 1;

    return strcasecmp(name, localhost + 1) == 0 || (len > tail && strcasecmp(name + len - tail, localhost) == 0);
}

static bool
http_host_is_page(const struct http_pages *pages, const char *header)
{
    static const char *const schemes[] = {"http", "https"};
    char origin[HTTP_HOST_NAME_MAX + 32];

    for (size_t i = 0; i < ARRAY_LEN(schemes); i++) {
        int len = snprintf(origin, sizeof origin, "%s://%s", schemes[i], header);

        if (len > 0 && (size_t)len < sizeof origin && http_pages_has(pages, origin))
            return true;
    }
    return false;
}

bool
http_host_is_known(const struct http_pages *pages, const char *header)
{
    char name[HTTP_HOST_NAME_MAX + 1];
    bool brackets = header != NULL && header[0] == '[';
    size_t len;

    if (header == NULL)
        return true;
    len = strcspn(header + brackets, brackets ? "]" : ":");
    if (len >= sizeof name)
        return false;
    memcpy(name, header + brackets, len);
    name[len] = '\0';
    return http_host_is_address(name) || http_host_is_localhost(name) || http_host_is_page(pages, header);
}
