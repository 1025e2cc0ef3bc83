#include "common/system/token.h"

#include <stdlib.h>
#include <string.h>

#include "common/system/environment.h"
#include "common/system/secret.h"

enum ps_err
token_read(struct key *k, const char *path, struct ps_error *e)
{
    struct keyring ring = {0};
    enum ps_err err;
    char *text;
    size_t len;

    if ((err = secret_read(path, KEYRING_TEXT_MAX, &text, &len, e)) != PS_OK)
        return err;
    if ((err = keyring_parse(&ring, path, text, len, e)) == PS_OK)
        *k = ring.keys[0];
    keyring_finish(&ring);
    secret_free(text, len);
    return err;
}

/* The sentence names the variable: whoever reads it may not know where the path is from. */
static enum ps_err
token_read_named(struct key *k, const char *path, struct ps_error *e)
{
    struct ps_error why;
    enum ps_err err = token_read(k, path, &why);

    return err == PS_OK ? PS_OK : ps_fail(e, err, TOKEN_FILE ": %s", why.text);
}

enum ps_err
token_find(struct key *k, bool *has, const char *given, struct ps_error *e)
{
    const char *value = given != NULL ? given : getenv(TOKEN_VALUE);
    char *file = NULL;
    enum ps_err err = PS_OK;
    size_t len;

    *k = (struct key){0};
    *has = false;
    if (value == NULL)
        err = environment_read(TOKEN_FILE, &file, e);
    if (err == PS_OK && value != NULL && *value != '\0') {
        len = keyring_strip_value(&value, strlen(value));
        err = key_parse(k, given != NULL ? "the option token" : TOKEN_VALUE, value, len, e);
        *has = err == PS_OK;
    } else if (err == PS_OK && file != NULL) {
        err = token_read_named(k, file, e);
        *has = err == PS_OK;
    }
    if (err != PS_OK)
        key_finish(k);
    free(file);
    return err;
}
