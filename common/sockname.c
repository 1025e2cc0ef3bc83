/* The number and the port, in brackets where the number has colons of its own. */
#include "sockname.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>

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
