/* A bitmap that begins at the first sequence put in, and is cut at the front when it has grown too long. */
#include "server/core/workers/resolved_set.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/wire/wire.h"

/* Drop whole bytes of sequences below the floor. */
static void
resolved_set_cut(struct resolved_set *x, uint64_t floor)
{
    uint32_t n = floor > x->from ? (uint32_t)MIN((floor - x->from) / 8, x->len) : 0;

    memmove(x->bits, x->bits + n, x->len - n);
    x->len -= n;
    x->from += 8ull * n;
    if (x->len == 0)
        x->from = MAX(x->from, floor);
}

/* The same to the bit: a whole window fits only when it begins at the floor. */
static void
cut_bits(struct resolved_set *x, uint64_t floor)
{
    uint32_t n;

    resolved_set_cut(x, floor);
    n = floor > x->from ? (uint32_t)(floor - x->from) : 0;
    for (uint32_t i = 0; n > 0 && i < x->len; i++)
        x->bits[i] = (uint8_t)(x->bits[i] >> n | (i + 1 < x->len ? x->bits[i + 1] << (8 - n) : 0));
    x->from += n;
}

static bool
resolved_set_grow(struct resolved_set *x, uint64_t len)
{
    uint32_t size = MAX(x->size, 64u);
    uint8_t *bigger;

    while (size < len)
        size *= 2;
    if (size > x->size) {
        if ((bigger = realloc(x->bits, size)) == NULL)
            return false;
        x->bits = bigger;
        x->size = size;
    }
    if (len > x->len) {
        memset(x->bits + x->len, 0, len - x->len);
        x->len = (uint32_t)len;
    }
    return true;
}

bool
resolved_set_add(struct resolved_set *x, uint64_t seq, uint64_t floor)
{
    if (seq < floor)
        return true;
    if (x->len == 0)
        x->from = floor;
    if (seq < x->from) /* older than all that is kept: what was below an earlier floor */
        return true;
    if ((seq - x->from) / 8 >= WIRE_SURVIVED_MAX)
        cut_bits(x, floor);
    if ((seq - x->from) / 8 >= WIRE_SURVIVED_MAX)
        resolved_set_cut(x, seq - 8 * (WIRE_SURVIVED_MAX - 1));
    if (!resolved_set_grow(x, (seq - x->from) / 8 + 1))
        return false;
    x->bits[(seq - x->from) / 8] |= (uint8_t)(1u << (seq - x->from) % 8);
    return true;
}

bool
resolved_set_has(const struct resolved_set *x, uint64_t seq)
{
    uint64_t at = seq - x->from;

    return seq >= x->from && at / 8 < x->len && (x->bits[at / 8] >> at % 8 & 1) != 0;
}

bool
resolved_set_copy(struct resolved_set *x, uint64_t from, const uint8_t *bits, size_t len)
{
    resolved_set_forget(x);
    if (len == 0)
        return true;
    if (len > WIRE_SURVIVED_MAX || !resolved_set_grow(x, len))
        return false;
    memcpy(x->bits, bits, len);
    x->from = from;
    return true;
}

void
resolved_set_forget(struct resolved_set *x)
{
    free(x->bits);
    *x = (struct resolved_set){0};
}
