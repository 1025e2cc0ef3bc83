/* The cut of a variable into blocks of three sizes: arithmetic only, no state. Any block's place follows from the
 * counts, so nothing is stored per block. */
#include "common/core/model/layout.h"

static const uint32_t class_pages[LAYOUT_CLASSES] = {1, 17, LAYOUT_PAGES_MAX};

/* Bytes for arrays: a power of two for the larger classes, so that powers of two of weights cut without a rest; what
 * is left of the page for the smallest. */
static const uint32_t class_bytes[LAYOUT_CLASSES] = {4032, 65536, 262144};

static_assert(sizeof(struct block_head) + 4032 + LAYOUT_PAGE_HEAD == LAYOUT_PAGE, "class 0 fills its page");
static_assert(sizeof(struct block_head) + 65536 + LAYOUT_PAGE_HEAD <= 17 * LAYOUT_PAGE, "class 1 fits");
static_assert(sizeof(struct block_head) + 262144 + LAYOUT_PAGE_HEAD <= LAYOUT_PAGES_MAX * LAYOUT_PAGE, "class 2 fits");

#define LANES (LAYOUT_ALIGN / sizeof(float))

size_t
layout_value_size(int size_class)
{
    ps_assert(size_class >= 0 && size_class < LAYOUT_CLASSES);
    return (size_t)class_pages[size_class] * LAYOUT_PAGE - LAYOUT_PAGE_HEAD;
}

bool
layout_is_value_size(size_t size)
{
    int c = 0;

    while (c < LAYOUT_CLASSES && layout_value_size(c) != size)
        c++;
    return c < LAYOUT_CLASSES;
}

uint32_t
layout_capacity(int size_class, uint32_t slots)
{
    ps_assert(size_class >= 0 && size_class < LAYOUT_CLASSES);
    ps_assert(slots <= LAYOUT_SLOTS_MAX);
    return class_bytes[size_class] / ((1 + slots) * sizeof(float)) / LANES * LANES;
}

void
layout_init(struct layout *l, uint64_t elements, uint32_t slots)
{
    uint64_t rest = elements;

    ps_assert(elements >= 1);
    *l = (struct layout){.elements = elements, .slots = slots};
    for (int c = LAYOUT_CLASSES - 1; c > 0; c--) {
        l->count[c] = rest / layout_capacity(c, slots);
        rest %= layout_capacity(c, slots);
    }
    l->count[0] = (rest + layout_capacity(0, slots) - 1) / layout_capacity(0, slots);
    l->blocks = l->count[0] + l->count[1] + l->count[2];
}

struct layout_block
layout_block(const struct layout *l, uint64_t block)
{
    struct layout_block b = {.size_class = LAYOUT_CLASSES - 1};
    uint32_t capacity;

    ps_assert(block < l->blocks);
    for (; block >= l->count[b.size_class]; b.size_class--) {
        b.first += l->count[b.size_class] * layout_capacity(b.size_class, l->slots);
        block -= l->count[b.size_class];
    }
    capacity = layout_capacity(b.size_class, l->slots);
    b.first += block * capacity;
    b.len = (uint32_t)MIN(l->elements - b.first, (uint64_t)capacity);
    b.stride = (uint32_t)round_up(b.len, LANES);
    return b;
}
