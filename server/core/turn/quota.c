#include "server/core/turn/quota.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/units.h"
#include "server/core/shard_state.h"

const struct quota_text quota_texts[QUOTAS] = {
#define X(id, key, what, bytes) [QUOTA_##id] = {key, what, bytes},
    QUOTA_LIST(X)
#undef X
};

const struct quota_row *
quota_find(const struct quota_row *rows, size_t len, const char *name)
{
    const struct quota_row *all = NULL;

    for (size_t i = 0; i < len; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
        else if (strcmp(rows[i].name, "*") == 0)
            all = &rows[i];
    return name[0] != '\0' ? all : NULL;
}

/* ---- Holders ---- */

static struct quota_holder *
quota_holder_new(struct shard *s, const char *name, size_t len)
{
    struct quota_holder *h = calloc(1, sizeof *h + len + 1);

    if (h == NULL)
        return NULL;
    h->all = &s->holders;
    memcpy(h->name, name, len);
    HASH_ADD_KEYPTR(hh, s->holders, h->name, len, h);
    if (HASH_TOOK(h))
        return h;
    free(h);
    return NULL;
}

bool
quota_hold(struct shard *s, const char *name, struct quota_holder **out)
{
    size_t len = strlen(name);
    struct quota_holder *h;

    *out = NULL;
    if (len == 0)
        return true;
    HASH_FIND(hh, s->holders, name, len, h);
    if (h == NULL && (h = quota_holder_new(s, name, len)) == NULL)
        return false;
    h->uses++;
    *out = h;
    return true;
}

void
quota_release(struct quota_holder *h)
{
    if (h == NULL || --h->uses > 0)
        return;
    HASH_DEL(*h->all, h);
    free(h);
}

/* ---- How much ---- */

uint64_t
quota_held(const struct shard *s, const char *name, enum quota what)
{
    const struct quota_holder *h;

    HASH_FIND(hh, s->holders, name, strlen(name), h);
    return h != NULL ? h->has[what] : 0;
}

static uint64_t
quota_most(const struct shard *s, const struct quota_holder *h, enum quota what)
{
    const struct quota_row *row = h != NULL ? quota_find(s->quotas, s->quotas_len, h->name) : NULL;

    return row != NULL ? row->most[what] : QUOTA_NONE;
}

bool
quota_exceeds(const struct shard *s, const struct quota_holder *h, enum quota what, uint64_t more)
{
    uint64_t most = quota_most(s, h, what);

    return most != QUOTA_NONE && (more > most || h->has[what] > most - more);
}

static const char *
quota_amount(uint64_t n, bool bytes, struct units *out)
{
    return bytes ? units_bytes(n, out) : units_count(n, out);
}

enum ps_err
quota_refuse(struct shard *s, const struct quota_holder *h, enum quota what, struct ps_error *e, const char *format,
             ...)
{
    const struct quota_text *text = &quota_texts[what];
    char begin[PS_ERROR_TEXT_MAX / 2];
    struct units has, most;
    va_list args;

    s->stats.over_quota++;
    va_start(args, format);
    vsnprintf(begin, sizeof begin, format, args);
    va_end(args);
    return ps_fail(e, PS_ERR_LIMIT, "%s: token '%s' holds %s %s on shard %u, and its quota is %s (psd's --quota)",
                   begin, h->name, quota_amount(h->has[what], text->bytes, &has), text->what, s->config.shard,
                   quota_amount(quota_most(s, h, what), text->bytes, &most));
}
