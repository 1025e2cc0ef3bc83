/* The token that the connections of a pool present and demand: that of this process, if it has one. Glue.
 *
 *     conn_credentials_take(&pool, options->token, cluster, &e); // once; does nothing without a token
 *     conn_start(&c, NULL);
 *     conn_credentials_connect(&c, ROLE_TRAIN);             // then admitted(), at once without a token
 *     conn_credentials_listen(&c); */
#ifndef COMMON_NET_CONN_CREDENTIALS_H
#define COMMON_NET_CONN_CREDENTIALS_H

#include "common/net/conn_auth.h"

#define CONN_CREDENTIALS_MS 10000 /* limit of authentication */

/* token: as for token_find(). cluster: NULL for any. PS_ERR_CONFIG, PS_ERR_NOMEM. */
enum ps_err conn_credentials_take(struct conn_pool *p, const char *token, const char *cluster,
                                  struct ps_error *e) PS_MUST_USE;

/* The connecting side, right after conn_start(): admitted() or ended() follows. When this process has no token nothing
 * is proven, and admitted() is called from here, with ROLE_NONE and "". PS_ERR_NOMEM, PS_ERR_IO. */
enum ps_err conn_credentials_connect(struct conn *c, enum role wanted) PS_MUST_USE;

/* The listening side: the same token is demanded, as role train. When this process has none, a peer that presents one
 * is refused with the reason, and others pass. PS_ERR_NOMEM. */
enum ps_err conn_credentials_listen(struct conn *c) PS_MUST_USE;

#endif
