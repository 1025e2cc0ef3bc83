/* The guard of a connection: nothing passes between its two owners before who connects has proven to have a token
 * (token_handshake.h), and who listens the same. Glue.
 *
 *     conn_start(&c, NULL);
 *     conn_auth_listen(&c, &terms)   or  conn_auth_connect(&c, &terms);      // at once, before anything is sent
 *     c.events->admitted(&c, role, name);     // now it is a connection as any other
 *     c.events->ended(&c, &why);              // it will not be: c.refused says that who connects was told why, or that
 *                                             // it was told here. conn_finish() lets that out
 *
 * Until then frames are small (TOKEN_HANDSHAKE_META_MAX), at most one has begun, and timeout_ms ends it all. */
#ifndef COMMON_CONN_AUTH_H
#define COMMON_CONN_AUTH_H

#include "common/core/auth/keyring.h"
#include "common/net/conn.h"

struct conn_auth_terms {
    const char *cluster; /* who connects: NULL for any */
    uint32_t timeout_ms; /* for all of it */

    /* who listens */
    const struct keyring *ring; /* borrowed while the guard stands; may change meanwhile */
    bool optional;              /* whose first frame is another is let pass with it, whenever it comes, and admitted()
                                   does not come */

    /* who connects */
    const struct key *key; /* copied */
    enum role wanted;      /* ROLE_NONE: whatever the token has */
};

/* PS_ERR_NOMEM; PS_ERR_IO: no random numbers. */
enum ps_err conn_auth_listen(struct conn *c, const struct conn_auth_terms *terms) PS_MUST_USE;
enum ps_err conn_auth_connect(struct conn *c, const struct conn_auth_terms *terms) PS_MUST_USE;

#endif
