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

/* How a push's gradients travel, and whether it needs their norm and was given none. */
const struct ps_compress *client_push_compress(const ps_client *c, const struct ps_push_options *options);
bool client_clips(size_t n, ps_var *const vars[], const struct ps_push_options *options);

/* The blocks that a variable is cut into, each encoded by itself, and how many elements one has. */
uint64_t client_blocks(const ps_var *var);
uint32_t client_block_len(const ps_var *var, uint64_t block);

/* Gradients that the caller has encoded, each block by itself and with residuals of the caller's: as struct
 * core_encoded of client/core/shards/core.h, which also says when note() is called. */
struct client_encoded {
    const uint8_t *const *data;
    const size_t *const *offset;
    void (*note)(void *arg, size_t var, uint64_t block, bool counts);
    void *arg;
};

/* As ps_client_push_start(). */
enum ps_err client_push_encoded_start(ps_client *c, size_t n, ps_var *const vars[],
                                      const struct client_encoded *encoded, const struct ps_push_options *options,
                                      ps_op **op, struct ps_error *error) PS_MUST_USE;

/* So long has been waited for an operation already: with others that were started with it, or in parts. */
void client_op_waited(ps_op *op, uint64_t ms);

uint64_t client_timeout(const ps_client *c, int timeout_ms); /* -1: the default */

#endif
