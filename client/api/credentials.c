#include "client/api/credentials.h"

#include <stdlib.h>
#include <string.h>

/* NULL: none. */
static const char *
credentials_choose(const char *wanted, const char *variable)
{
    const char *text = wanted != NULL ? wanted : getenv(variable);

    return text != NULL && text[0] != '\0' ? text : NULL;
}

enum ps_err
credentials_open(struct credentials *c, const struct credentials_wanted *wanted, bool accepts, struct ps_error *e)
{
    struct tls_files files = {.ca = credentials_choose(wanted->ca, "PSD_TLS_CA"),
                              .cert = credentials_choose(wanted->cert, "PSD_TLS_CERT"),
                              .key = credentials_choose(wanted->key, "PSD_TLS_KEY")};
    const char *name = credentials_choose(wanted->name, "PSD_TLS_NAME");
    enum ps_err err;

    *c = (struct credentials){0};
    if (files.ca == NULL && files.cert == NULL && files.key == NULL)
        return PS_OK;
    if (accepts && files.cert == NULL)
        return ps_fail(e, PS_ERR_CONFIG,
                       "workers of a group connect to each other: with TLS each needs a certificate and its key "
                       "(tls_cert, PSD_TLS_CERT)");
    if ((err = tls_new(TLS_CLIENT, &files, &c->connects, e)) == PS_OK && accepts)
        err = tls_new(TLS_SERVER, &files, &c->accepts, e);
    if (err == PS_OK && name != NULL && (c->name = strdup(name)) == NULL)
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for TLS");
    if (err != PS_OK)
        credentials_close(c);
    return err;
}

void
credentials_close(struct credentials *c)
{
    tls_free(c->connects);
    tls_free(c->accepts);
    free(c->name);
    *c = (struct credentials){0};
}

enum ps_err
credentials_connect(const struct credentials *c, struct conn *conn, const char *host, struct ps_error *e)
{
    if (c == NULL || c->connects == NULL)
        return PS_OK;
    return conn_tls(conn, c->connects, c->name != NULL ? c->name : host, CONN_TLS_MS, e);
}

enum ps_err
credentials_accept(const struct credentials *c, struct conn *conn, uint32_t timeout_ms, struct ps_error *e)
{
    if (c == NULL || c->accepts == NULL)
        return PS_OK;
    return conn_tls(conn, c->accepts, NULL, timeout_ms, e);
}
