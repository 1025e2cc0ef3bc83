/* Names to addresses, on a thread of its own: getaddrinfo() takes as long as it likes and cannot be called off, so a
 * caller that does not want to wait any longer leaves it behind, and the thread frees what it made.
 *
 *     resolve_start() ──► the thread: getaddrinfo(), uv_async_send(wake) ──► resolve_done(): true ──► resolve_leave()
 *            └──────────── resolve_leave() at any time: wake is not touched after it ────────────────────┘
 */
#ifndef CLIENT_API_RESOLVE_H
#define CLIENT_API_RESOLVE_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct resolve;

/* wake is sent when it is done. NULL: no memory, or no thread. */
struct resolve *resolve_start(const char *host, uint16_t port, uv_async_t *wake);

/* *list is the caller's, to be freed with freeaddrinfo(), and NULL when the name has none; *why says why. */
bool resolve_done(struct resolve *r, struct addrinfo **list, const char **why);

void resolve_leave(struct resolve *r); /* accepts NULL */

#endif
