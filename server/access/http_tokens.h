/* Tokens of HTTP: a client that presents one may read figures and names. They are separate from those of --tokens,
 * since a client of HTTP sends its token as it is (RFC 6750: "Authorization: Bearer TOKEN"), and those of --tokens are
 * never sent: a token that is in both is refused. Glue, for files; the rest is pure.
 *
 *     # comment
 *     TOKEN                  one a line: so the file of one is also Prometheus' credentials_file
 *
 * A token has KEYRING_SECRET_MIN to KEYRING_SECRET_MAX printable characters without blanks, ':' and '#'. Only a digest
 * of it is kept, under a random key of this process, and digests are compared in constant time. */
#ifndef SERVER_ACCESS_HTTP_TOKENS_H
#define SERVER_ACCESS_HTTP_TOKENS_H

#include "common/core/auth/keyring.h"
#include "common/core/auth/mac.h"

#define HTTP_TOKENS_MAX  64         /* in one file */
#define HTTP_TOKENS_TEXT (64 * KIB) /* bytes of it */

struct http_tokens {
    uint8_t key[MAC_BYTES];
    uint8_t digest[HTTP_TOKENS_MAX][MAC_BYTES]; /* [len] */
    size_t len;                                 /* 0: every client may read */
};

/* From the file (--http-tokens); NULL: the one that the environment has, or none. apart: the tokens that none of these
 * may be. PS_ERR_CONFIG with a sentence that names the file and the line, PS_ERR_NOMEM. */
enum ps_err http_tokens_read(struct http_tokens *t, const char *path, const struct keyring *apart,
                             struct ps_error *e) PS_MUST_USE;

enum http_pass { HTTP_PASS, HTTP_PASS_MISSING, HTTP_PASS_WRONG };

/* Checks a request's Authorization header (NULL: it has none). */
enum http_pass http_tokens_look(const struct http_tokens *t, const char *authorization);

#endif
