#include "client/api/credentials.h"

#include <stdlib.h>
#include <string.h>

#include "common/system/environment.h"

/* What the program or the environment says, as copies; NULL: nothing. */
enum { CREDENTIAL_CA, CREDENTIAL_CERT, CREDENTIAL_KEY, CREDENTIAL_NAME, CREDENTIALS };

static const char *const credentials_variables[] = {"PSD_TLS_CA", "PSD_TLS_CERT", "PSD_TLS_KEY", "PSD_TLS_NAME"};

static enum ps_err
credentials_choose(const struct credentials_wanted *wanted, char *out[CREDENTIALS], struct ps_error *e)
{
    const char *const given[] = {wanted->ca, wanted->cert, wanted->key, wanted->name};
    enum ps_err err = PS_OK;

    for (int i = 0; i < CREDENTIALS && err == PS_OK; i++) {
        if (given[i] == NULL)
            err = environment_read(credentials_variables[i], &out[i], e);
        else if (given[i][0] != '\0' && (out[i] = strdup(given[i])) == NULL)
            err = ps_fail(e, PS_ERR_NOMEM, "no memory for TLS");
    }
    return err;
}

static enum ps_err
credentials_open_chosen(struct credentials *c, char *const chosen[CREDENTIALS], bool accepts, struct ps_error *e)
{
    struct tls_files files = {
        .ca = chosen[CREDENTIAL_CA], .cert = chosen[CREDENTIAL_CERT], .key = chosen[CREDENTIAL_KEY]};
    const char *name = chosen[CREDENTIAL_NAME];
    enum ps_err err;

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

/* The error of files that the environment names begins with the variable, the one whose file is in the sentence. */
static enum ps_err
credentials_name_source(const struct credentials_wanted *wanted, char *const chosen[CREDENTIALS], enum ps_err err,
                        struct ps_error *e)
{
    const char *const given[] = {wanted->ca, wanted->cert, wanted->key, wanted->name};
    struct ps_error why = e != NULL ? *e : (struct ps_error){0};

    for (int i = 0; err == PS_ERR_CONFIG && i < CREDENTIAL_NAME; i++)
        if (given[i] == NULL && chosen[i] != NULL && strstr(why.text, chosen[i]) != NULL)
            return ps_fail(e, err, "%s: %s", credentials_variables[i], why.text);
    return err;
}

enum ps_err
credentials_open(struct credentials *c, const struct credentials_wanted *wanted, bool accepts, struct ps_error *e)
{
    char *chosen[CREDENTIALS] = {NULL};
    enum ps_err err;

    *c = (struct credentials){0};
    if ((err = credentials_choose(wanted, chosen, e)) == PS_OK)
        err = credentials_name_source(wanted, chosen, credentials_open_chosen(c, chosen, accepts, e), e);
    for (int i = 0; i < CREDENTIALS; i++)
        free(chosen[i]);
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
