#include "common/net/conn_pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/wire/wire.h"
#include "common/net/conn_inside.h"
#include "common/system/token.h"

struct conn_pass {
    struct key key;
    struct keyring ring; /* that key alone */
    bool any_cluster;
    char cluster[WIRE_CLUSTER_MAX + 1];
};

enum ps_err
conn_pass_take(struct conn_pool *p, const char *token, const char *cluster, struct ps_error *e)
{
    struct conn_pass *pass;
    enum ps_err err;
    struct key key;
    bool has;

    ps_assert(p->pass == NULL);
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
    p->pass = pass;
    key_finish(&key);
    return PS_OK;
}

void
conn_pass_free(struct conn_pool *p)
{
    if (p->pass != NULL)
        key_finish(&p->pass->key);
    free(p->pass);
    p->pass = NULL;
}

enum ps_err
conn_pass_connect(struct conn *c, enum role wanted)
{
    const struct conn_pass *pass = c->pool->pass;
    struct conn_guard_terms terms = {.patience_ms = CONN_PASS_MS, .wanted = wanted};

    if (pass == NULL) {
        c->events->admitted(c, ROLE_NONE, "");
        return PS_OK;
    }
    terms.key = &pass->key;
    terms.cluster = pass->any_cluster ? NULL : pass->cluster;
    return conn_guard_connect(c, &terms);
}

enum ps_err
conn_pass_listen(struct conn *c)
{
    static const struct keyring nothing;
    const struct conn_pass *pass = c->pool->pass;
    struct conn_guard_terms terms = {.patience_ms = CONN_PASS_MS, .ring = &nothing, .optional = true};

    if (pass != NULL) {
        terms.ring = &pass->ring;
        terms.cluster = pass->any_cluster ? NULL : pass->cluster;
        terms.optional = false;
    }
    return conn_guard_listen(c, &terms);
}
