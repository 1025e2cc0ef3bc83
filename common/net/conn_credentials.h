/* What the connections of a pool show and demand: the token of this process, where it has one. Glue.
 *
 *     conn_credentials_take(&pool, options->token, cluster, &e); // once; nothing where there is no token
 *     conn_start(&c, NULL);
 *     conn_credentials_connect(&c, ROLE_TRAIN);             // on with admitted(), at once where there is no token
 *     conn_credentials_listen(&c);
 */
#ifndef COMMON_CONN_CREDENTIALS_H
#define COMMON_CONN_CREDENTIALS_H

#include "common/net/conn_auth.h"

#define CONN_CREDENTIALS_MS 10000 /* that a proof may take */

/* token: as token_find() takes it. cluster: NULL for any. PS_ERR_CONFIG, PS_ERR_NOMEM. */
enum ps_err conn_credentials_take(struct conn_pool *p, const char *token, const char *cluster,
                                  struct ps_error *e) PS_MUST_USE;

/* Who connects, right after conn_start(): admitted() or ended() comes. Where this process has no token there is nothing
 * to prove, and admitted() is called from here, with ROLE_NONE and "". PS_ERR_NOMEM, PS_ERR_IO. */
enum ps_err conn_credentials_connect(struct conn *c, enum role wanted) PS_MUST_USE;

/* Who listens: the same token is demanded, as role train. Where this process has none, who wants to show one is told
 * so, and others pass. PS_ERR_NOMEM. */
enum ps_err conn_credentials_listen(struct conn *c) PS_MUST_USE;

#endif
