/* Tokens of the HTTP side: who shows one may look at figures and names. They are of its own, since a client of HTTP
 * sends its token as it is (RFC 6750: "Authorization: Bearer TOKEN"), and those of --tokens never travel: one that is
 * both is refused. Glue, for files; the rest is pure.
 *
 *     # comment
 *     TOKEN                  one a line: so the file of one is also Prometheus' credentials_file
 *
 * A token has KEYRING_SECRET_MIN to KEYRING_SECRET_MAX printable characters without blanks, ':' and '#'. What is kept
 * of it is a digest under a key that this process makes up, and digests are compared in a time that does not hang on
 * them. */
#ifndef SERVER_HTTP_TOKENS_H
#define SERVER_HTTP_TOKENS_H

#include "common/core/auth/keyring.h"
#include "common/core/auth/mac.h"

#define HTTP_TOKENS_MAX  64         /* in one file */
#define HTTP_TOKENS_TEXT (64 * KIB) /* bytes of it */

struct http_tokens {
    uint8_t key[MAC_BYTES];
    uint8_t digest[HTTP_TOKENS_MAX][MAC_BYTES]; /* [len] */
    size_t len;                                 /* 0: whoever comes may look */
};

/* From the file (--http-tokens); NULL: the one that the environment has, or none. apart: the tokens that none of these
 * may be. PS_ERR_CONFIG with a sentence that names the file and the line, PS_ERR_NOMEM. */
enum ps_err http_tokens_read(struct http_tokens *t, const char *path, const struct keyring *apart,
                             struct ps_error *e) PS_MUST_USE;

enum http_pass { HTTP_PASS, HTTP_PASS_MISSING, HTTP_PASS_WRONG };

/* What a request's Authorization (NULL: it has none) is worth. */
enum http_pass http_tokens_look(const struct http_tokens *t, const char *authorization);

#endif
