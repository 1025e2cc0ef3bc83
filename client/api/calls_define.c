/* The public call that says what a worker trains. */
#include "client/api/broadcast_query.h"

enum ps_err
ps_client_define(ps_client *c, size_t n, const struct ps_definition *fields, int timeout_ms, struct ps_error *error)
{
    struct ps_op *op = NULL;
    enum ps_err err;

    if ((err = call_need(c, fields, error)) != PS_OK)
        return err;
    client_enter(c);
    if (!core_defines(c->core)) {
        client_leave(c);
        return PS_OK;
    }
    err = PS_ERR_NOMEM;
    if ((op = admin_query_new(c, error)) != NULL)
        err = call_started(op, core_define(c->core, n, fields, &op->core, error), &op);
    if (err == PS_OK) {
        err = call_wait(op, client_timeout(c, timeout_ms), error);
        admin_query_free(op);
    }
    client_leave(c);
    return err;
}
