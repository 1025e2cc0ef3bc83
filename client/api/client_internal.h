/* What the modules above the API, which know nothing of libuv, need of a client that they push and pull through. */
#ifndef CLIENT_API_CLIENT_INTERNAL_H
#define CLIENT_API_CLIENT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "client/include/psclient/psclient.h"

/* INVALID: there are none, one is another client's, or its declaration is not done. */
enum ps_err client_check_vars(const ps_client *c, size_t n, ps_var *const vars[], struct ps_error *e) PS_MUST_USE;

/* Whether a push of these looks at all of its gradients before the first one is sent: cut in two it might fail in the
 * middle, or have two norms. */
bool client_looks_first(const ps_client *c, size_t n, ps_var *const vars[], const struct ps_push_options *options);

/* So long has been waited for an operation already: with others that were started with it, or in parts. */
void client_op_waited(ps_op *op, uint64_t ms);

uint64_t client_timeout(const ps_client *c, int timeout_ms); /* -1: the default */

#endif
