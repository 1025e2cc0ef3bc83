#include "common/net/conn_credentials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/wire/wire.h"
#include "common/net/conn_internal.h"
#include "common/system/token.h"

struct conn_credentials {
    struct key key;
    struct keyring ring; /* that key alone */
    bool any_cluster;
    char cluster[WIRE_CLUSTER_MAX + 1];
};

enum ps_err
conn_credentials_take(struct conn_pool *p, const char *token, const char *cluster, struct ps_error *e)
{
    struct conn_credentials *pass;
    enum ps_err err;
    struct key key;
    bool has;

    ps_assert(p->credentials == NULL);
    if ((err = token_find(&key, &has, token, e)) != PS_OK || !has)
        return err;
    if ((pass = calloc(1, sizeof *pass)) == NULL) {
        key_finish(&key);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a token");
    }
    pass->key = key;
    pass->ring = (struct keyring){.keys = &pass->key, .len = 1};
    pass->any_cluster = cluster == NULL;
    snprintf(pass->cluster, sizeof pass->cluster, "%s", cluster != NULL ? cluster : "");
    p->credentials = pass;
    key_finish(&key);
    return PS_OK;
}

void
conn_credentials_free(struct conn_pool *p)
{
    if (p->credentials != NULL)
        key_finish(&p->credentials->key);
    free(p->credentials);
    p->credentials = NULL;
}

enum ps_err
conn_credentials_connect(struct conn *c, enum role wanted)
{
    const struct conn_credentials *pass = c->pool->credentials;
    struct conn_auth_terms terms = {.timeout_ms = CONN_CREDENTIALS_MS, .wanted = wanted};

    if (pass == NULL) {
        c->events->admitted(c, ROLE_NONE, "");
        return PS_OK;
    }
    terms.key = &pass->key;
    terms.cluster = pass->any_cluster ? NULL : pass->cluster;
    return conn_auth_connect(c, &terms);
}

enum ps_err
conn_credentials_listen(struct conn *c)
{
    static const struct keyring nothing;
    const struct conn_credentials *pass = c->pool->credentials;
    struct conn_auth_terms terms = {.timeout_ms = CONN_CREDENTIALS_MS, .ring = &nothing, .optional = true};

    if (pass != NULL) {
        terms.ring = &pass->ring;
        terms.cluster = pass->any_cluster ? NULL : pass->cluster;
        terms.optional = false;
    }
    return conn_auth_listen(c, &terms);
}
