/* A sorted array of holes: there are few, since what is dropped is a job as a rule, whose ordinals lie together. */
#include "server/core/model/ordinals.h"

#include <stdlib.h>
#include <string.h>

/* The first hole that does not end before this ordinal; holes_len: there is none. */
static size_t
ordinals_hole_at(const struct ordinals *o, uint64_t ordinal)
{
    size_t low = 0, high = o->holes_len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (o->holes[middle].first + o->holes[middle].len < ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool
ordinals_insert(struct ordinals *o, size_t at, uint64_t first, uint64_t len)
{
    if (o->holes_len == o->holes_size) {
        size_t size = MAX(2 * o->holes_size, (size_t)8);
        struct ordinals_range *bigger = realloc(o->holes, size * sizeof *bigger);

        if (bigger == NULL)
            return false;
        o->holes = bigger;
        o->holes_size = size;
    }
    memmove(o->holes + at + 1, o->holes + at, (o->holes_len - at) * sizeof *o->holes);
    o->holes[at] = (struct ordinals_range){first, len};
    o->holes_len++;
    return true;
}

static void
ordinals_erase(struct ordinals *o, size_t at)
{
    o->holes_len--;
    memmove(o->holes + at, o->holes + at + 1, (o->holes_len - at) * sizeof *o->holes);
}

uint64_t
ordinals_take(struct ordinals *o, uint64_t n)
{
    uint64_t first = o->end;

    for (size_t i = 0; n > 0 && i < o->holes_len; i++) {
        if (o->holes[i].len < n)
            continue;
        first = o->holes[i].first;
        o->holes[i].first += n;
        o->holes[i].len -= n;
        if (o->holes[i].len == 0)
            ordinals_erase(o, i);
        return first;
    }
    o->end += n;
    return first;
}

/* Out of the hole that has all of them. */
static enum ps_err
ordinals_take_of_hole(struct ordinals *o, size_t at, uint64_t first, uint64_t n)
{
    struct ordinals_range hole = o->holes[at];
    uint64_t after = hole.first + hole.len - (first + n);

    if (first > hole.first && after > 0 && !ordinals_insert(o, at + 1, first + n, after))
        return PS_ERR_NOMEM;
    if (first > hole.first)
        o->holes[at].len = first - hole.first;
    else if (after > 0)
        o->holes[at] = (struct ordinals_range){first + n, after};
    else
        ordinals_erase(o, at);
    return PS_OK;
}

enum ps_err
ordinals_take_at(struct ordinals *o, uint64_t first, uint64_t n)
{
    size_t at;

    if (first > ORDINALS_MAX || n > ORDINALS_MAX)
        return PS_ERR_IO;
    if (n == 0)
        return PS_OK;
    if (first >= o->end) {
        if (first > o->end && !ordinals_insert(o, o->holes_len, o->end, first - o->end))
            return PS_ERR_NOMEM;
        o->end = first + n;
        return PS_OK;
    }
    at = ordinals_hole_at(o, first + 1);
    if (at == o->holes_len || first < o->holes[at].first || first + n > o->holes[at].first + o->holes[at].len)
        return PS_ERR_IO;
    return ordinals_take_of_hole(o, at, first, n);
}

/* What is free at the end is no hole. */
static void
ordinals_shorten(struct ordinals *o)
{
    const struct ordinals_range *last = o->holes_len > 0 ? &o->holes[o->holes_len - 1] : NULL;

    if (last == NULL || last->first + last->len < o->end)
        return;
    o->end = last->first;
    o->holes_len--;
}

void
ordinals_give(struct ordinals *o, uint64_t first, uint64_t n)
{
    size_t at = ordinals_hole_at(o, first);
    bool before = at < o->holes_len && o->holes[at].first + o->holes[at].len == first;
    size_t next = at + before;
    bool after = next < o->holes_len && o->holes[next].first == first + n;

    if (n == 0)
        return;
    ps_assert(first + n <= o->end);
    if (before) {
        o->holes[at].len += n + (after ? o->holes[next].len : 0);
        if (after)
            ordinals_erase(o, next);
    } else if (after) {
        o->holes[next].first -= n;
        o->holes[next].len += n;
    } else {
        (void)ordinals_insert(o, at, first, n);
    }
    ordinals_shorten(o);
}

void
ordinals_finish(struct ordinals *o)
{
    free(o->holes);
    *o = (struct ordinals){0};
}
