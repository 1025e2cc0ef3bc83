#include "common/core/auth/keyring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/file_kind.h"
#include "common/core/base/nearest.h"
#include "common/core/base/text_lines.h"

static const char *const role_names[ROLES] = {
    [ROLE_NONE] = "nothing", [ROLE_READ] = "read", [ROLE_TRAIN] = "train", [ROLE_ADMIN] = "admin"};

const char *
role_name(enum role role)
{
    return role_names[role];
}

enum role
role_of(const char *text, size_t n)
{
    for (int i = ROLE_READ; i < ROLES; i++)
        if (strlen(role_names[i]) == n && memcmp(role_names[i], text, n) == 0)
            return (enum role)i;
    return ROLE_NONE;
}

/* ---- One token ---- */

static bool
is_name(const char *text, size_t n)
{
    if (n == 0 || n > KEYRING_NAME_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
              c == '-'))
            return false;
    }
    return true;
}

static bool
is_secret(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] <= ' ' || text[i] > '~' || text[i] == ':' || text[i] == '#')
            return false;
    return true;
}

bool
keyring_is_secret(const char *text, size_t n)
{
    return n >= KEYRING_SECRET_MIN && n <= KEYRING_SECRET_MAX && is_secret(text, n);
}

/* Bytes up to the next colon, or all. */
static size_t
keyring_field_len(const char *text, size_t n)
{
    const char *colon = memchr(text, ':', n);

    return colon != NULL ? (size_t)(colon - text) : n;
}

static enum ps_err
take_secret(struct key *k, const char *source, const char *text, size_t n, struct ps_error *e)
{
    if (!is_secret(text, n))
        return ps_fail(e, PS_ERR_CONFIG,
                       "%s: the secret of token '%s' may have printable characters without blanks, ':' and '#'", source,
                       k->name);
    if (n < KEYRING_SECRET_MIN || n > KEYRING_SECRET_MAX)
        return ps_fail(e, PS_ERR_CONFIG,
                       "%s: the secret of token '%s' has %zu characters; it has %d to %d (openssl rand -hex 32 makes "
                       "one)",
                       source, k->name, n, KEYRING_SECRET_MIN, KEYRING_SECRET_MAX);
    k->secret_len = n;
    memcpy(k->secret, text, n);
    return PS_OK;
}

/* The sentence quotes nothing of the text, which may be a secret; the role that was meant is none. */
static enum ps_err
refuse_role(const char *source, const char *name, const char *text, size_t n, struct ps_error *e)
{
    char said[NEAREST_NAME_MAX + 2], meant[NEAREST_TEXT_MAX];
    struct nearest nearest;

    snprintf(said, sizeof said, "%.*s", (int)MIN(n, sizeof said - 1), text);
    nearest = nearest_to(said);
    for (int i = ROLE_READ; i < ROLES; i++)
        nearest_offer(&nearest, role_names[i]);
    explicit_bzero(said, sizeof said);
    return ps_fail(e, PS_ERR_CONFIG, "%s: the role of token '%s' is none of read, train and admin%s", source, name,
                   nearest_text(&nearest, "", meant));
}

enum ps_err
key_parse(struct key *k, const char *source, const char *text, size_t n, struct ps_error *e)
{
    size_t name = keyring_field_len(text, n), role;

    *k = (struct key){.role = ROLE_ADMIN};
    if (name == n)
        return ps_fail(e, PS_ERR_CONFIG, "%s: a token is name:role:secret, or name:secret", source);
    if (!is_name(text, name))
        return ps_fail(e, PS_ERR_CONFIG,
                       "%s: a token's name has 1 to %d letters, digits, '.', '_' and '-', and a ':' behind it", source,
                       KEYRING_NAME_MAX);
    memcpy(k->name, text, name);
    text += name + 1;
    n -= name + 1;
    if ((role = keyring_field_len(text, n)) < n) {
        if ((k->role = role_of(text, role)) == ROLE_NONE)
            return refuse_role(source, k->name, text, role, e);
        text += role + 1;
        n -= role + 1;
    }
    return take_secret(k, source, text, n, e);
}

bool
key_equal(const struct key *a, const struct key *b)
{
    return strcmp(a->name, b->name) == 0 && a->role == b->role && a->secret_len == b->secret_len &&
           memcmp(a->secret, b->secret, a->secret_len) == 0;
}

void
key_finish(struct key *k)
{
    explicit_bzero(k, sizeof *k);
}

/* ---- Lines ---- */

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t
keyring_strip_blanks(const char **text, size_t n)
{
    while (n > 0 && is_blank((*text)[n - 1]))
        n--;
    for (; n > 0 && is_blank(**text); (*text)++)
        n--;
    return n;
}

size_t
keyring_strip_value(const char **text, size_t n)
{
    size_t mark = file_kind_mark(*text, n);

    *text += mark;
    return keyring_strip_blanks(text, n - mark);
}

/* The line without its comment and the blanks around it. */
static size_t
keyring_strip_line(const char **text, size_t n)
{
    const char *comment = memchr(*text, '#', n);

    return keyring_strip_blanks(text, comment != NULL ? (size_t)(comment - *text) : n);
}

enum ps_err
keyring_lines(const char *source, const char *text, size_t n, keyring_line *take, void *arg, struct ps_error *e)
{
    struct text_lines lines = text_lines_start(text, n);
    enum ps_err err = file_kind_check_text(source, text, n, PS_ERR_CONFIG, e);
    char called[PS_ERROR_TEXT_MAX / 2];
    struct span line;

    while (err == PS_OK && text_lines_next(&lines, &line)) {
        const char *bare = line.data;
        size_t len = keyring_strip_line(&bare, line.len);

        snprintf(called, sizeof called, "%s:%llu", source, (unsigned long long)lines.number);
        if (len > 0)
            err = take(arg, called, bare, len, e);
    }
    return err;
}

/* ---- All of them ---- */

const struct key *
keyring_find(const struct keyring *r, const char *name)
{
    for (size_t i = 0; i < r->len; i++)
        if (strcmp(r->keys[i].name, name) == 0)
            return &r->keys[i];
    return NULL;
}

/* Makes space for one more, in powers of two from 4 on. realloc() would leave a copy of the secrets behind. */
static bool
keys_grow(struct keyring *r)
{
    bool full = r->len == 0 || (r->len >= 4 && (r->len & (r->len - 1)) == 0);
    struct key *more;

    if (!full)
        return true;
    if ((more = calloc(MAX(2 * r->len, 4), sizeof *more)) == NULL)
        return false;
    if (r->len > 0) {
        memcpy(more, r->keys, r->len * sizeof *more);
        explicit_bzero(r->keys, r->len * sizeof *r->keys);
    }
    free(r->keys);
    r->keys = more;
    return true;
}

static enum ps_err
keyring_add(void *keyring, const char *source, const char *text, size_t n, struct ps_error *e)
{
    struct keyring *r = keyring;
    struct key k;
    enum ps_err err = key_parse(&k, source, text, n, e);

    if (err == PS_OK && keyring_find(r, k.name) != NULL)
        err = ps_fail(e, PS_ERR_CONFIG, "%s: there are two tokens called '%s'", source, k.name);
    if (err == PS_OK && r->len == KEYRING_KEYS_MAX)
        err = ps_fail(e, PS_ERR_CONFIG, "%s: more than %d tokens", source, KEYRING_KEYS_MAX);
    if (err == PS_OK && !keys_grow(r))
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for tokens");
    if (err == PS_OK)
        r->keys[r->len++] = k;
    key_finish(&k);
    return err;
}

enum ps_err
keyring_parse(struct keyring *r, const char *source, const char *text, size_t n, struct ps_error *e)
{
    enum ps_err err;

    *r = (struct keyring){0};
    if (n > KEYRING_TEXT_MAX)
        return ps_fail(e, PS_ERR_CONFIG, "%s: more than %llu bytes of tokens", source,
                       (unsigned long long)KEYRING_TEXT_MAX);
    err = keyring_lines(source, text, n, keyring_add, r, e);
    if (err == PS_OK && r->len == 0)
        err = ps_fail(e, PS_ERR_CONFIG, "%s: there is no token in it; a line is name:role:secret", source);
    if (err != PS_OK)
        keyring_finish(r);
    return err;
}

void
keyring_finish(struct keyring *r)
{
    if (r->keys != NULL)
        explicit_bzero(r->keys, r->len * sizeof *r->keys);
    free(r->keys);
    *r = (struct keyring){0};
}
