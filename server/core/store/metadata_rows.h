/* Facts about a store as a whole: its identity, which save counts, that a restore is under way. Each fact is one
 * message under a name, a row of STORE_SHARD. */
#ifndef SERVER_CORE_STORE_METADATA_ROWS_H
#define SERVER_CORE_STORE_METADATA_ROWS_H

#include <protobuf-c/protobuf-c.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/store/store.h"

#define METADATA_ROWS_BYTES_MAX 4000 /* of a packed message: STORE_ROW_ROOM holds it */

/* Within the write transaction. Erasing a fact that is not there succeeds. */
enum ps_err metadata_rows_put(struct store *store, const char *name, const ProtobufCMessage *m) PS_MUST_USE;
enum ps_err metadata_rows_erase(struct store *store, const char *name) PS_MUST_USE;

/* As committed last. *out: freed by protobuf-c with its usual allocator; NULL: there is none, or an error.
 * PS_ERR_IO: it is damaged, or the store cannot be read; PS_ERR_NOMEM. */
enum ps_err metadata_rows_get(struct store *store, const char *name, const ProtobufCMessageDescriptor *kind,
                              ProtobufCMessage **out) PS_MUST_USE;

/* Whether there is any. */
enum ps_err metadata_rows_any(struct store *store, bool *any) PS_MUST_USE;

#endif
