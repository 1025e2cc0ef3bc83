/* Internal to ps_data.h: parsing IDX apart from reading files. Pure. */
#ifndef CLIENT_DATA_IDX_H
#define CLIENT_DATA_IDX_H

#include "client/include/psclient/ps_data.h"

/* bytes: [len], malloc'ed; taken whatever the result: the array is converted in place. name is for messages. */
enum ps_err idx_parse(const char *name, void *bytes, size_t len, struct ps_idx *out, struct ps_error *e) PS_MUST_USE;

#endif
