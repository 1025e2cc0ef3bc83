/* The token of a process, from its options, its environment or a file. Glue. */
#ifndef COMMON_SYSTEM_TOKEN_H
#define COMMON_SYSTEM_TOKEN_H

#include "common/core/auth/keyring.h"

#define TOKEN_VALUE "PSD_TOKEN"      /* in the environment: name:secret */
#define TOKEN_FILE  "PSD_TOKEN_FILE" /* in the environment: a file with such a line */

/* The first token of a file, which may be psd's own. PS_ERR_CONFIG. */
enum ps_err token_read(struct key *k, const char *path, struct ps_error *e) PS_MUST_USE;

/* given, "name:secret", from a program's options; NULL: PSD_TOKEN, or what PSD_TOKEN_FILE names. An empty one is none.
 * *has says whether there is one. PS_ERR_CONFIG. */
enum ps_err token_find(struct key *k, bool *has, const char *given, struct ps_error *e) PS_MUST_USE;

#endif
