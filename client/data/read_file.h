/* A whole file in memory, gunzipped when it is gzip. */
#ifndef CLIENT_DATA_READ_FILE_H
#define CLIENT_DATA_READ_FILE_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* *out: malloc'ed, *len bytes and one '\0' after them; the caller frees it. IO: cannot be opened or read (with the
 * system's reason), DATA: damaged or cut off gzip, NOMEM. */
enum ps_err read_file(const char *path, char **out, size_t *len, struct ps_error *e) PS_MUST_USE;

#endif
