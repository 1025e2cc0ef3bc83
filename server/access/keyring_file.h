/* psd's tokens, read from where its options say they are. Glue. */
#ifndef SERVER_ACCESS_KEYRING_FILE_H
#define SERVER_ACCESS_KEYRING_FILE_H

#include "common/core/auth/keyring.h"

/* From the file (--tokens); NULL: the one token that the environment has (common/system/token.h), or none.
 * PS_ERR_CONFIG with a sentence that names the file and the line: it cannot be read, others may read it, or it is not
 * of tokens. */
enum ps_err keyring_file_read(struct keyring *r, const char *path, struct ps_error *e) PS_MUST_USE;

#endif
