/* Internal to ps_data.h: parsing LIBSVM text apart from reading files. Pure. */
#ifndef CLIENT_DATA_LIBSVM_H
#define CLIENT_DATA_LIBSVM_H

#include "client/include/psclient/ps_data.h"

/* text: [len] and one '\0' after it; it is cut in place and may be freed afterwards. name is for messages. options are
 * not NULL. */
enum ps_err libsvm_parse(const char *name, char *text, size_t len, const struct ps_libsvm_options *options,
                         struct ps_sparse *out, struct ps_error *e) PS_MUST_USE;

#endif
