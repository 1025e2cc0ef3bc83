/* Authentication of a connection: nothing passes between its two owners before the connecting side and then the
 * listening side have proven that they hold a token (token_handshake.h). Glue.
 *
 *     conn_start(&c, NULL);
 *     conn_auth_listen(&c, &terms)   or  conn_auth_connect(&c, &terms);      // at once, before anything is sent
 *     c.events->admitted(&c, role, name);     // now it is an ordinary connection
 *     c.events->ended(&c, &why);              // it failed: c.refused: an ERROR with the reason was sent to the
 *                                             // connecting side, or came here. conn_finish() sends what is queued
 *
 * Until then frames are small (TOKEN_HANDSHAKE_META_MAX), at most one has begun, and timeout_ms limits all of it. */
#ifndef COMMON_NET_CONN_AUTH_H
#define COMMON_NET_CONN_AUTH_H

#include "common/core/auth/keyring.h"
#include "common/net/conn.h"

struct conn_auth_terms {
    const char *cluster; /* connecting side: NULL for any */
    uint32_t timeout_ms; /* for all of it */

    /* listening side */
    const struct keyring *ring; /* borrowed until authentication ends; may change meanwhile */
    /* A proof of a token of this name has come: how long it waits before it is looked at, or an error with which it is
     * refused unseen. NULL: none waits. The connection reads nothing meanwhile, and its time is longer by that. */
    enum ps_err (*hold)(struct conn *c, const char *name, uint32_t *ms, struct ps_error *why);
    bool optional; /* a peer whose first frame is another passes with it, whenever it comes; admitted() is not called */

    /* connecting side */
    const struct key *key; /* copied */
    enum role wanted;      /* ROLE_NONE: the token's role */
};

/* PS_ERR_NOMEM; PS_ERR_IO: no random numbers. */
enum ps_err conn_auth_listen(struct conn *c, const struct conn_auth_terms *terms) PS_MUST_USE;
enum ps_err conn_auth_connect(struct conn *c, const struct conn_auth_terms *terms) PS_MUST_USE;

#endif
