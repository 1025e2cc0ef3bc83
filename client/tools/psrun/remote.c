/* An order is its length, then strings that each end with a 0: the directories, one line of numbers, the lists. Numbers
 * in headers are little-endian, for the two machines need not be alike. */
#include "client/tools/psrun/remote.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORDER_NUMBERS "%d %d %" PRIu32 " %" PRIu32 " %" PRIu32 " %zu %zu %zu"
#define ORDER_HEAD    3 /* strings before the lists */

/* ---- numbers ---- */

static void
remote_put(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t
remote_get(const char *bytes)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++)
        value |= (uint32_t)(uint8_t)bytes[i] << (8 * i);
    return value;
}

/* ---- orders ---- */

static void
order_append(struct strlist *all, const struct strlist *list)
{
    for (size_t i = 0; i < list->len; i++)
        strlist_add(all, "%s", list->text[i]);
}

char *
remote_order_pack(const struct remote_order *o, size_t *len)
{
    struct strlist all = {0};
    size_t size = 4;
    char *bytes, *at;

    strlist_add(&all, "%s", o->dir);
    strlist_add(&all, "%s", o->remove_dir);
    strlist_add(&all, ORDER_NUMBERS, o->shard, o->hold, o->silence_ms, o->memory_shards, o->workers, o->dirs.len,
                o->env.len, o->argv.len);
    order_append(&all, &o->dirs);
    order_append(&all, &o->env);
    order_append(&all, &o->argv);
    for (size_t i = 0; i < all.len; i++)
        size += strlen(all.text[i]) + 1;
    bytes = strlist_alloc(NULL, size, 1);
    remote_put((uint8_t *)bytes, (uint32_t)(size - 4));
    at = bytes + 4;
    for (size_t i = 0; i < all.len; i++)
        at = stpcpy(at, all.text[i]) + 1;
    strlist_free(&all);
    *len = size;
    return bytes;
}

/* Move n strings from *at on into a list. */
static void
order_take(struct strlist *list, const struct strlist *all, size_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        strlist_add(list, "%s", all->text[(*at)++]);
}

/* all: the order's strings. */
static enum ps_err
order_read(const struct strlist *all, struct remote_order *out, struct ps_error *e)
{
    size_t dirs, env, argv, at = ORDER_HEAD;
    int shard, hold;

    if (all->len < ORDER_HEAD || sscanf(all->text[2], ORDER_NUMBERS, &shard, &hold, &out->silence_ms,
                                        &out->memory_shards, &out->workers, &dirs, &env, &argv) != 8)
        return ps_fail(e, PS_ERR_PROTOCOL, "the order has no numbers");
    if (argv == 0 || dirs > all->len || env > all->len || argv > all->len || ORDER_HEAD + dirs + env + argv != all->len)
        return ps_fail(e, PS_ERR_PROTOCOL, "the order's lists are not as long as it says");
    out->shard = shard != 0;
    out->hold = hold != 0;
    out->dir = strlist_need(strdup(all->text[0]));
    out->remove_dir = strlist_need(strdup(all->text[1]));
    order_take(&out->dirs, all, &at, dirs);
    order_take(&out->env, all, &at, env);
    order_take(&out->argv, all, &at, argv);
    return PS_OK;
}

enum ps_err
remote_order_unpack(const char *bytes, size_t len, struct remote_order *out, size_t *used, struct ps_error *e)
{
    struct strlist all = {0};
    enum ps_err err;
    size_t size;

    *out = (struct remote_order){0};
    *used = 0;
    if (len < 4)
        return PS_OK;
    size = remote_get(bytes);
    if (size == 0 || size > REMOTE_ORDER_MAX)
        return ps_fail(e, PS_ERR_PROTOCOL, "an order of %zu bytes", size);
    if (len - 4 < size)
        return PS_OK;
    if (bytes[4 + size - 1] != '\0')
        return ps_fail(e, PS_ERR_PROTOCOL, "the order's last string has no end");
    for (const char *at = bytes + 4; at < bytes + 4 + size; at += strlen(at) + 1)
        strlist_add(&all, "%s", at);
    err = order_read(&all, out, e);
    strlist_free(&all);
    *used = 4 + size;
    return err;
}

void
remote_order_finish(struct remote_order *o)
{
    free(o->dir);
    free(o->remove_dir);
    strlist_free(&o->dirs);
    strlist_free(&o->env);
    strlist_free(&o->argv);
    *o = (struct remote_order){0};
}

/* ---- frames ---- */

void
remote_header_pack(const struct remote_header *h, uint8_t out[REMOTE_HEADER_SIZE])
{
    out[0] = (uint8_t)h->kind;
    out[1] = h->a;
    out[2] = h->b;
    out[3] = 0;
    remote_put(out + 4, h->len);
}

void
remote_end_pack(const struct remote_end *end, uint8_t out[REMOTE_END_SIZE])
{
    remote_put(out, (uint32_t)end->pid);
    remote_put(out + 4, (uint32_t)end->status);
    remote_put(out + 8, (uint32_t)end->failure);
}

enum ps_err
remote_end_unpack(const char *body, size_t len, struct remote_end *out, struct ps_error *e)
{
    if (len != REMOTE_END_SIZE)
        return ps_fail(e, PS_ERR_PROTOCOL, "an end of %zu bytes", len);
    out->pid = (int32_t)remote_get(body);
    out->status = (int32_t)remote_get(body + 4);
    out->failure = (int32_t)remote_get(body + 8);
    return PS_OK;
}

/* Look for the hello; returns how many of the bytes it took. Its first byte stands nowhere else in it, so a match that
 * fails can begin again only at the byte that failed it. */
static size_t
remote_find_hello(struct remote_reader *r, const char *bytes, size_t len)
{
    static const char hello[] = REMOTE_HELLO;
    size_t i = 0;

    for (; i < len && !r->hello; i++) {
        if (bytes[i] != hello[r->matched]) {
            if (r->matched > 0)
                r->noise(r->arg, hello, r->matched);
            r->matched = 0;
        }
        if (bytes[i] != hello[r->matched])
            r->noise(r->arg, &bytes[i], 1);
        else
            r->hello = ++r->matched == sizeof hello - 1;
    }
    return i;
}

/* The length that the next step needs, by the bytes so far: a header, then the frame with it and a 0. */
static enum ps_err
remote_want(const struct remote_reader *r, size_t *want, struct ps_error *e)
{
    uint32_t len;

    *want = REMOTE_HEADER_SIZE;
    if (r->len < REMOTE_HEADER_SIZE)
        return PS_OK;
    len = remote_get(r->bytes + 4);
    if (len > REMOTE_BODY_MAX || strchr("oref", r->bytes[0]) == NULL || r->bytes[0] == '\0')
        return ps_fail(e, PS_ERR_PROTOCOL, "what came is no frame of psrun's");
    *want += len;
    return PS_OK;
}

static void
remote_give(struct remote_reader *r)
{
    struct remote_header header = {.kind = (enum remote_kind)r->bytes[0],
                                   .a = (uint8_t)r->bytes[1],
                                   .b = (uint8_t)r->bytes[2],
                                   .len = (uint32_t)(r->len - REMOTE_HEADER_SIZE)};

    r->bytes[r->len] = '\0';
    r->len = 0;
    r->frame(r->arg, &header, r->bytes + REMOTE_HEADER_SIZE);
}

enum ps_err
remote_read(struct remote_reader *r, const char *bytes, size_t len, struct ps_error *e)
{
    size_t at = remote_find_hello(r, bytes, len), want, n;
    enum ps_err err;

    while (at < len) {
        if ((err = remote_want(r, &want, e)) != PS_OK)
            return err;
        if (r->size < want + 1)
            r->bytes = strlist_alloc(r->bytes, r->size = want + 1, 1);
        n = MIN(want - r->len, len - at);
        memcpy(r->bytes + r->len, bytes + at, n);
        r->len += n;
        at += n;
        if ((err = remote_want(r, &want, e)) != PS_OK)
            return err;
        if (r->len >= REMOTE_HEADER_SIZE && r->len == want)
            remote_give(r);
    }
    return PS_OK;
}

void
remote_reader_finish(struct remote_reader *r)
{
    free(r->bytes);
    *r = (struct remote_reader){0};
}
