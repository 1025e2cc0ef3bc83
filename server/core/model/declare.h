/* Declaring: the variable's row is committed, its blocks are made in the background (block.h), and every declare that
 * waits is answered when the last one is there. After a crash in between the rest is made on start.
 *
 * Attaching: a client that did not declare a variable asks for its definition. */
#ifndef SERVER_CORE_MODEL_DECLARE_H
#define SERVER_CORE_MODEL_DECLARE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"

struct shard;
struct connection;

/* Declare for a connection: answers now or when the blocks are there. */
void declare_take(struct shard *s, struct connection *c, uint64_t request, const Psd__Declare *declare);

/* Find a variable that was declared, for a worker or an observer: answers with its definition, when its blocks are
 * there. Changes nothing. */
void declare_attach(struct shard *s, struct connection *c, uint64_t request, const Psd__Attach *attach);

/* Bytes of blocks that there is room for in new variables. */
uint64_t declare_free_bytes(struct shard *s);

#endif
