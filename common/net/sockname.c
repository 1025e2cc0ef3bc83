/* The number and the port, in brackets where the number has colons of its own. */
#include "common/net/sockname.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <uv.h>

void
sockname_text(const struct sockaddr_storage *address, char *out, size_t size)
{
    bool v6 = address->ss_family == AF_INET6;
    char host[INET6_ADDRSTRLEN] = "";

    uv_ip_name((const struct sockaddr *)address, host, sizeof host);
    snprintf(out, size, v6 ? "[%s]:%u" : "%s:%u", host,
             ntohs(v6 ? ((const struct sockaddr_in6 *)address)->sin6_port
                      : ((const struct sockaddr_in *)address)->sin_port));
}

/* The IPv4 address, also of one that is mapped into IPv6. False: it is no IPv4 address. */
static bool
sockname_v4(const struct sockaddr *address, uint32_t *out)
{
    const struct sockaddr_in *v4 = (const void *)address;
    const struct sockaddr_in6 *v6 = (const void *)address;

    if (address->sa_family == AF_INET) {
        *out = ntohl(v4->sin_addr.s_addr);
        return true;
    }
    if (address->sa_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        return false;
    memcpy(out, &v6->sin6_addr.s6_addr[12], sizeof *out);
    *out = ntohl(*out);
    return true;
}

bool
sockname_is_loopback(const struct sockaddr *address)
{
    const struct sockaddr_in6 *v6 = (const void *)address;
    uint32_t v4;

    if (sockname_v4(address, &v4))
        return v4 >> 24 == IN_LOOPBACKNET;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

bool
sockname_is_local(const struct sockaddr *own, const struct sockaddr *peer)
{
    const struct sockaddr_in6 *own_v6 = (const void *)own, *peer_v6 = (const void *)peer;
    uint32_t own_v4, peer_v4;

    if (sockname_is_loopback(peer))
        return true;
    if (sockname_v4(own, &own_v4))
        return sockname_v4(peer, &peer_v4) && own_v4 == peer_v4;
    return own->sa_family == AF_INET6 && peer->sa_family == AF_INET6 &&
           own_v6->sin6_scope_id == peer_v6->sin6_scope_id &&
           IN6_ARE_ADDR_EQUAL(&own_v6->sin6_addr, &peer_v6->sin6_addr);
}

struct sockname_host
sockname_host(const struct sockaddr *address)
{
    const struct sockaddr_in6 *v6 = (const void *)address;
    struct sockname_host host = {{0}};
    uint32_t v4;

    if (sockname_v4(address, &v4)) {
        memset(host.bytes + 10, 0xff, 2); /* as it is mapped into IPv6 */
        v4 = htonl(v4);
        memcpy(host.bytes + 12, &v4, sizeof v4);
    } else if (address->sa_family == AF_INET6) {
        memcpy(host.bytes, v6->sin6_addr.s6_addr, 8);
    }
    return host;
}
