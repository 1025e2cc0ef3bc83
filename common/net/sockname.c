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

static bool
is_loopback_v4(uint32_t address)
{
    return ntohl(address) >> 24 == IN_LOOPBACKNET;
}

bool
sockname_is_loopback(const struct sockaddr_storage *address)
{
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
    uint32_t mapped;

    if (address->ss_family != AF_INET6)
        return is_loopback_v4(((const struct sockaddr_in *)address)->sin_addr.s_addr);
    memcpy(&mapped, &v6->s6_addr[12], sizeof mapped);
    return IN6_IS_ADDR_V4MAPPED(v6) ? is_loopback_v4(mapped) : IN6_IS_ADDR_LOOPBACK(v6);
}
