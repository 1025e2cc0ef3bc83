#include "server/access/keyring_file.h"

#include <stdlib.h>

#include "common/system/secret.h"
#include "common/system/token.h"

static enum ps_err
from_environment(struct keyring *r, struct ps_error *e)
{
    enum ps_err err;
    struct key key;
    bool has;

    if ((err = token_find(&key, &has, NULL, e)) != PS_OK || !has)
        return err;
    if ((r->keys = malloc(sizeof key)) == NULL)
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for tokens");
    else
        r->keys[r->len++] = key;
    key_finish(&key);
    return err;
}

enum ps_err
keyring_file_read(struct keyring *r, const char *path, struct ps_error *e)
{
    enum ps_err err;
    char *text;
    size_t len;

    *r = (struct keyring){0};
    if (path == NULL)
        return from_environment(r, e);
    if ((err = secret_read(path, KEYRING_TEXT_MAX + 1, &text, &len, e)) != PS_OK)
        return err;
    err = keyring_parse(r, path, text, len, e);
    secret_free(text, len);
    return err;
}
