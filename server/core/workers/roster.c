#include "server/core/workers/roster.h"

#include <stdlib.h>

#define BITS 64

static uint32_t
words_for(uint32_t bits)
{
    return bits / BITS + (bits % BITS != 0);
}

bool
roster_init(struct roster *r, uint32_t room)
{
    uint32_t words = words_for(room);

    *r = (struct roster){.room = room};
    r->words = calloc(words + words_for(words), sizeof *r->words);
    if (r->words == NULL)
        return false;
    r->summary = r->words + words;
    return true;
}

bool
roster_grow(struct roster *r, uint32_t room)
{
    struct roster bigger;

    if (!roster_init(&bigger, room))
        return false;
    for (uint32_t task = roster_next(r, 0); task != ROSTER_END; task = roster_next(r, task + 1))
        roster_add(&bigger, task);
    roster_finish(r);
    *r = bigger;
    return true;
}

void
roster_finish(struct roster *r)
{
    free(r->words);
    *r = (struct roster){.words = NULL};
}

void
roster_add(struct roster *r, uint32_t task)
{
    uint32_t word = task / BITS;

    ps_assert(task < r->room);
    r->words[word] |= UINT64_C(1) << task % BITS;
    r->summary[word / BITS] |= UINT64_C(1) << word % BITS;
}

void
roster_remove(struct roster *r, uint32_t task)
{
    uint32_t word = task / BITS;

    ps_assert(task < r->room);
    r->words[word] &= ~(UINT64_C(1) << task % BITS);
    if (r->words[word] == 0)
        r->summary[word / BITS] &= ~(UINT64_C(1) << word % BITS);
}

/* The first bit that is set, at `from` or past it, of those below len; len: none. */
static uint32_t
bits_next(const uint64_t *bits, uint32_t len, uint32_t from, uint64_t *looks)
{
    uint64_t rest;

    if (from >= len)
        return len;
    rest = bits[from / BITS] & (UINT64_MAX << from % BITS);
    (*looks)++;
    for (from /= BITS; rest == 0; rest = bits[from], (*looks)++)
        if (++from >= words_for(len))
            return len;
    return from * BITS + (uint32_t)__builtin_ctzll(rest);
}

uint32_t
roster_seek(const struct roster *r, uint32_t task, uint64_t *looks)
{
    uint32_t word = task / BITS, words = words_for(r->room);
    uint64_t rest;

    if (task >= r->room)
        return ROSTER_END;
    rest = r->words[word] & (UINT64_MAX << task % BITS);
    (*looks)++;
    if (rest == 0) {
        if ((word = bits_next(r->summary, words, word + 1, looks)) == words)
            return ROSTER_END;
        rest = r->words[word];
        (*looks)++;
    }
    return word * BITS + (uint32_t)__builtin_ctzll(rest);
}

uint32_t
roster_next(const struct roster *r, uint32_t task)
{
    uint64_t looks = 0;

    return roster_seek(r, task, &looks);
}
