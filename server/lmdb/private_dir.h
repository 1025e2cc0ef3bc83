/* Whether a directory is this user's alone, as a live or durable one must be: nobody else may put files there, and
 * links with names that psd writes to. Glue. */
#ifndef SERVER_LMDB_PRIVATE_DIR_H
#define SERVER_LMDB_PRIVATE_DIR_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* The directory is psd's own user's or root's, only its owner may write there, and no file in it is a link; a link at
 * its own path is psd's own user's or root's. One that does not exist is fine. use: "live", "durable", for the
 * sentence, which says what to do. PS_ERR_CONFIG, PS_ERR_IO. */
enum ps_err private_dir_check(const char *dir, const char *use, struct ps_error *e) PS_MUST_USE;

#endif
