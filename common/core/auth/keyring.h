/* Tokens, which peers prove to hold. Each has a name, a secret that is never sent, and a role: the permissions of its
 * holder. Pure; files are read by the glue (secret.h).
 *
 *     # comment
 *     name:role:secret           one a line; role is read, train or admin
 *     name:secret                the same with role admin
 *
 * A name has 1 to KEYRING_NAME_MAX letters, digits, '.', '_' and '-'; a secret KEYRING_SECRET_MIN to KEYRING_SECRET_MAX
 * printable characters without blanks, ':' and '#'. A secret is overwritten before it is freed, and appears in no
 * message. */
#ifndef COMMON_CORE_AUTH_KEYRING_H
#define COMMON_CORE_AUTH_KEYRING_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define KEYRING_NAME_MAX   63
#define KEYRING_SECRET_MIN 16
#define KEYRING_SECRET_MAX 256
#define KEYRING_KEYS_MAX   1024
#define KEYRING_TEXT_MAX   (512 * KIB) /* bytes of a whole file */

/* Each has the permissions of those before it. ROLE_NONE: none, or, where a role is asked for, the token's. */
enum role { ROLE_NONE, ROLE_READ, ROLE_TRAIN, ROLE_ADMIN, ROLES };

/* "read"; "nothing" for ROLE_NONE. */
const char *role_name(enum role role);

/* ROLE_NONE: no such role. n bytes, not terminated. */
enum role role_of(const char *text, size_t n);

struct key {
    char name[KEYRING_NAME_MAX + 1];
    enum role role;
    size_t secret_len;
    uint8_t secret[KEYRING_SECRET_MAX];
};

struct keyring {
    struct key *keys; /* names are unique */
    size_t len;
};

/* One line without its end. source: what the text is from, for sentences ("PSD_TOKEN"). PS_ERR_CONFIG. */
enum ps_err key_parse(struct key *k, const char *source, const char *text, size_t n, struct ps_error *e) PS_MUST_USE;

/* A whole file. PS_ERR_CONFIG with the line, also when no token is in it; PS_ERR_NOMEM. */
enum ps_err keyring_parse(struct keyring *r, const char *source, const char *text, size_t n,
                          struct ps_error *e) PS_MUST_USE;

/* A line of such a file, without comment and blanks around it; none is empty. source: which, for sentences. */
typedef enum ps_err keyring_line(void *arg, const char *source, const char *text, size_t n, struct ps_error *e);

/* All lines, one after the other, until one fails; they end as text_lines.h has it. source: the file's name. Text that
 * is compressed or in UTF-16 is PS_ERR_CONFIG. */
enum ps_err keyring_lines(const char *source, const char *text, size_t n, keyring_line *take, void *arg,
                          struct ps_error *e) PS_MUST_USE;

/* What a value of the environment has around a token, left out: blanks, the line's end and the byte order mark of a
 * file that it was taken from. *text is moved; returns the bytes that are left. */
size_t keyring_strip_value(const char **text, size_t n);

/* Whether these bytes can be a secret: characters and length. */
bool keyring_is_secret(const char *text, size_t n);

/* NULL: there is none of that name. */
const struct key *keyring_find(const struct keyring *r, const char *name);

/* The same name, role and secret. */
bool key_equal(const struct key *a, const struct key *b);

/* Overwrites the secrets; both accept zeroed ones. */
void key_finish(struct key *k);
void keyring_finish(struct keyring *r);

#endif
