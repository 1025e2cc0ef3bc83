#include "server/access/http_tokens.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "common/system/secret.h"
#include "server/process/options.h"

#define SCHEME "Bearer"

/* ---- Reading ---- */

static enum ps_err
http_tokens_check(const char *source, const char *text, size_t n, const struct keyring *apart, struct ps_error *e)
{
    if (!keyring_is_secret(text, n))
        return ps_fail(
            e, PS_ERR_CONFIG,
            "%s: a token of HTTP has %d to %d printable characters without blanks, ':' and '#' (openssl rand "
            "-hex 32 makes one)",
            source, KEYRING_SECRET_MIN, KEYRING_SECRET_MAX);
    for (size_t i = 0; i < apart->len; i++)
        if (apart->keys[i].secret_len == n && memcmp(apart->keys[i].secret, text, n) == 0)
            return ps_fail(e, PS_ERR_CONFIG,
                           "%s: this is the secret of token '%s' of --tokens, which never travels; over HTTP it would: "
                           "make another one",
                           source, apart->keys[i].name);
    return PS_OK;
}

static enum ps_err
http_tokens_add(struct http_tokens *t, const char *source, const char *text, size_t n, const struct keyring *apart,
                struct ps_error *e)
{
    enum ps_err err = http_tokens_check(source, text, n, apart, e);

    if (err != PS_OK)
        return err;
    if (t->len == HTTP_TOKENS_MAX)
        return ps_fail(e, PS_ERR_CONFIG, "%s: more than %d tokens of HTTP", source, HTTP_TOKENS_MAX);
    if (!mac_make(t->key, sizeof t->key, text, n, t->digest[t->len]))
        return ps_fail(e, PS_ERR_NOMEM, "no memory for tokens");
    t->len++;
    return PS_OK;
}

struct http_tokens_reading {
    struct http_tokens *tokens;
    const struct keyring *apart;
};

static enum ps_err
add_line(void *arg, const char *source, const char *text, size_t n, struct ps_error *e)
{
    const struct http_tokens_reading *r = arg;

    return http_tokens_add(r->tokens, source, text, n, r->apart, e);
}

static enum ps_err
http_tokens_parse(struct http_tokens *t, const char *path, const char *text, size_t n, const struct keyring *apart,
                  struct ps_error *e)
{
    enum ps_err err = keyring_lines(path, text, n, add_line, &(struct http_tokens_reading){t, apart}, e);

    if (err == PS_OK && t->len == 0)
        err = ps_fail(e, PS_ERR_CONFIG, "%s: there is no token in it; a line is a token", path);
    return err;
}

static enum ps_err
from_environment(struct http_tokens *t, const struct keyring *apart, struct ps_error *e)
{
    const char *text = getenv(HTTP_TOKEN_VALUE);
    size_t len;

    if (text == NULL || *text == '\0')
        return PS_OK;
    len = keyring_strip_value(&text, strlen(text));
    return http_tokens_add(t, HTTP_TOKEN_VALUE, text, len, apart, e);
}

enum ps_err
http_tokens_read(struct http_tokens *t, const char *path, const struct keyring *apart, struct ps_error *e)
{
    enum ps_err err;
    char *text;
    size_t len;

    *t = (struct http_tokens){0};
    if (getrandom(t->key, sizeof t->key, 0) != sizeof t->key)
        return ps_fail(e, PS_ERR_IO, "cannot get random bytes: %s", strerror(errno));
    if (path == NULL)
        return from_environment(t, apart, e);
    if ((err = secret_read(path, HTTP_TOKENS_TEXT, &text, &len, e)) != PS_OK)
        return err;
    err = http_tokens_parse(t, path, text, len, apart, e);
    secret_free(text, len);
    return err;
}

/* ---- Checking ---- */

/* Compares with all tokens, whichever matches, so that the time does not depend on it. */
static bool
is_known(const struct http_tokens *t, const char *token, size_t n)
{
    uint8_t digest[MAC_BYTES];
    unsigned known = 0;

    if (!mac_make(t->key, sizeof t->key, token, n, digest))
        return false;
    for (size_t i = 0; i < t->len; i++)
        known |= mac_equal(t->digest[i], digest);
    return known != 0;
}

enum http_pass
http_tokens_look(const struct http_tokens *t, const char *authorization)
{
    const size_t scheme = strlen(SCHEME);
    const char *token;

    if (t->len == 0)
        return HTTP_PASS;
    if (authorization == NULL || strncasecmp(authorization, SCHEME, scheme) != 0 || authorization[scheme] != ' ')
        return HTTP_PASS_MISSING;
    token = authorization + scheme + strspn(authorization + scheme, " ");
    return is_known(t, token, strlen(token)) ? HTTP_PASS : HTTP_PASS_WRONG;
}
