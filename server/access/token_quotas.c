#include "server/access/token_quotas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/comma_list.h"
#include "common/core/base/units.h"

static const struct unit counted[] = {{"", 1}, {NULL, 0}};

/* ---- One token's ---- */

static bool
token_quotas_key(const char *key, size_t len, enum quota *out)
{
    for (enum quota q = 0; q < QUOTAS; q++)
        if (strlen(quota_texts[q].key) == len && memcmp(quota_texts[q].key, key, len) == 0) {
            *out = q;
            return true;
        }
    return false;
}

/* text: "bytes=8GiB" */
static enum ps_err
token_quotas_take(struct quota_row *row, const char *text, struct ps_error *e)
{
    const char *value = strchr(text, '=');
    enum quota what = QUOTAS;

    if (value == NULL || !token_quotas_key(text, (size_t)(value - text), &what))
        return ps_fail(e, PS_ERR_CONFIG,
                       "--quota: '%.64s' of token '%s' is none of jobs=, sessions=, variables=, bytes=, gather= and "
                       "connections=",
                       text, row->name);
    if (row->most[what] != QUOTA_NONE)
        return ps_fail(e, PS_ERR_CONFIG, "--quota: %s is there twice for token '%s'", quota_texts[what].key, row->name);
    if (!units_parse(value + 1, quota_texts[what].bytes ? units_of_bytes : counted, quota_texts[what].bytes ? "B" : "",
                     &row->most[what]))
        return ps_fail(e, PS_ERR_CONFIG, "--quota: '%.64s' of token '%s' is no %s", text, row->name,
                       quota_texts[what].bytes ? "size such as 64MiB" : "number");
    return PS_OK;
}

static struct quota_row *
token_quotas_add(struct token_quotas *q)
{
    struct quota_row *row = &q->rows[q->len++];

    *row = (struct quota_row){.name = ""};
    for (enum quota i = 0; i < QUOTAS; i++)
        row->most[i] = QUOTA_NONE;
    return row;
}

/* text: "alice:jobs=4:bytes=8GiB"; it is cut up. */
static enum ps_err
token_quotas_parse(struct token_quotas *q, char *text, struct ps_error *e)
{
    char *name = strsep(&text, ":"), *one;
    struct quota_row *row;
    enum ps_err err;

    if (strlen(name) == 0 || strlen(name) > KEYRING_NAME_MAX || text == NULL)
        return ps_fail(
            e, PS_ERR_CONFIG,
            "--quota: '%.64s' is not NAME:KEY=VALUE:..., such as alice:jobs=4:bytes=8GiB; NAME is a token's, "
            "or * for all others",
            name);
    if (q->len == TOKEN_QUOTAS_MAX)
        return ps_fail(e, PS_ERR_CONFIG, "--quota: more than %d tokens", TOKEN_QUOTAS_MAX);
    for (size_t i = 0; i < q->len; i++)
        if (strcmp(q->rows[i].name, name) == 0)
            return ps_fail(e, PS_ERR_CONFIG, "--quota: token '%s' is there twice", name);
    row = token_quotas_add(q);
    snprintf(row->name, sizeof row->name, "%s", name);
    while ((one = strsep(&text, ":")) != NULL)
        if ((err = token_quotas_take(row, one, e)) != PS_OK)
            return err;
    return PS_OK;
}

/* ---- All ---- */

static size_t
token_quotas_trainers(const struct keyring *ring)
{
    size_t n = 0;

    for (size_t i = 0; i < ring->len; i++)
        n += ring->keys[i].role >= ROLE_TRAIN;
    return n;
}

static uint64_t
token_quotas_part(uint64_t limit)
{
    return limit - limit / 8;
}

static void
token_quotas_add_usual(struct token_quotas *q, const struct options *o)
{
    struct quota_row *row = token_quotas_add(q);

    snprintf(row->name, sizeof row->name, "*");
    row->most[QUOTA_JOBS] = token_quotas_part(o->jobs_max);
    row->most[QUOTA_SESSIONS] = token_quotas_part(o->sessions_max);
    row->most[QUOTA_VARIABLES] = token_quotas_part(o->variables_max);
    row->most[QUOTA_GATHER] = token_quotas_part(o->gather_memory);
    row->most[QUOTA_CONNECTIONS] = token_quotas_part(o->connections_max);
}

enum ps_err
token_quotas_read(struct token_quotas *q, const struct options *o, const struct keyring *ring, struct ps_error *e)
{
    const char *list = o->quota;
    enum ps_err err = PS_OK;
    size_t size;
    char *one;

    q->len = 0;
    if (list != NULL) {
        size = strlen(list) + 1;
        if ((one = malloc(size)) == NULL)
            return ps_fail(e, PS_ERR_NOMEM, "out of memory");
        while (err == PS_OK && comma_list_next(&list, one, size))
            if (*one != '\0')
                err = token_quotas_parse(q, one, e);
        free(one);
    }
    if (err == PS_OK && quota_find(q->rows, q->len, "*") == NULL && token_quotas_trainers(ring) >= 2)
        token_quotas_add_usual(q, o);
    return err;
}
