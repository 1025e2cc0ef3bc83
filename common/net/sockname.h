/* A socket's address as people write it. Common glue. */
#ifndef COMMON_NET_SOCKNAME_H
#define COMMON_NET_SOCKNAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* "127.0.0.1:7420", "[::1]:7420"; address is IPv4 or IPv6. Cut off when size is too small. */
void sockname_text(const struct sockaddr_storage *address, char *out, size_t size);

/* Whether only this machine can reach the address: 127.0.0.0/8, ::1, and the former mapped into IPv6
 * (::ffff:127.0.0.0/104). False for addresses of other families. */
bool sockname_is_loopback(const struct sockaddr *address);

/* A host, for limits by address: an IPv4 address, or the 64 bits of an IPv6 address that a host's network gives to that
 * host alone; all zeros of another family. Comparable with memcmp(). */
struct sockname_host {
    uint8_t bytes[16];
};
struct sockname_host sockname_host(const struct sockaddr *address);

/* A connection between these two addresses stays within this machine: the far end is loopback, or both are one address.
 * No other machine gets answers at an address of this one, and the kernel drops what comes from outside with it. */
bool sockname_is_local(const struct sockaddr *own, const struct sockaddr *peer);

#endif
