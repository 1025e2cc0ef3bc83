#include "common/core/format/timeline.h"

#include <string.h>

static_assert(sizeof(struct timeline_span) == 48, "whole words, without gaps");

const char *const timeline_names[TIMELINE_KINDS] = {
#define X(id, text) [TIMELINE_##id] = text,
    TIMELINE_LIST(X)
#undef X
};

uint32_t
timeline_len(uint64_t spans)
{
    uint32_t len = spans > 0 ? 1 : 0;

    ps_assert(spans <= UINT32_C(1) << 31);
    while (len < spans)
        len *= 2;
    return len;
}

void
timeline_init(struct timeline *t, void *slots, size_t len)
{
    ps_assert((len & (len - 1)) == 0);
    ps_assert(len == 0 || slots != NULL);
    atomic_init(&t->begun, 0);
    atomic_init(&t->written, 0);
    t->len = len;
    t->slots = slots;
}

void
timeline_add(struct timeline *t, const struct timeline_span *span)
{
    uint64_t n = atomic_load_explicit(&t->written, memory_order_relaxed), words[TIMELINE_WORDS];
    _Atomic uint64_t *slot;

    if (t->len == 0)
        return;
    slot = t->slots[n & (t->len - 1)];
    memcpy(words, span, sizeof words);
    atomic_store_explicit(&t->begun, n + 1, memory_order_relaxed);
    for (size_t i = 0; i < TIMELINE_WORDS; i++)
        atomic_store_explicit(&slot[i], words[i], memory_order_release);
    atomic_store_explicit(&t->written, n + 1, memory_order_release);
}

static void
timeline_copy_span(const struct timeline *t, uint64_t n, struct timeline_span *out)
{
    const _Atomic uint64_t *slot = t->slots[n & (t->len - 1)];
    uint64_t words[TIMELINE_WORDS];

    for (size_t i = 0; i < TIMELINE_WORDS; i++)
        words[i] = atomic_load_explicit(&slot[i], memory_order_acquire);
    memcpy(out, words, sizeof words);
}

size_t
timeline_read(const struct timeline *t, uint64_t *from, struct timeline_span *out, size_t room)
{
    uint64_t to = atomic_load_explicit(&t->written, memory_order_acquire), first, begun;
    size_t n, lost;

    if (t->len == 0 || to <= *from)
        return 0;
    first = MAX(*from, to - MIN(to, t->len));
    n = MIN(to - first, room);
    for (size_t i = 0; i < n; i++)
        timeline_copy_span(t, first + i, &out[i]);
    begun = atomic_load_explicit(&t->begun, memory_order_relaxed);
    lost = begun > first + t->len ? MIN(begun - t->len - first, n) : 0;
    memmove(out, out + lost, (n - lost) * sizeof *out);
    *from = first + n;
    return n - lost;
}

uint64_t
timeline_added(const struct timeline *t)
{
    return atomic_load_explicit(&t->written, memory_order_acquire);
}
