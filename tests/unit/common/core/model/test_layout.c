/* The cut into blocks: sizes as LMDB wants them, every element in exactly one block, arrays aligned and inside. */
#include "common/core/model/layout.h"

#include "tests/unit/kits/check_main.h"

#define ELEMENTS_MAX (1ull << 48)

START_TEST(values_fill_1_17_and_65_pages)
{
    ck_assert_uint_eq(layout_value_size(0) + LAYOUT_PAGE_HEAD, 1 * 4096);
    ck_assert_uint_eq(layout_value_size(1) + LAYOUT_PAGE_HEAD, 17 * 4096);
    ck_assert_uint_eq(layout_value_size(2) + LAYOUT_PAGE_HEAD, 65 * 4096);
}
END_TEST

START_TEST(capacities_are_as_documented)
{
    static const uint32_t expected[LAYOUT_CLASSES][LAYOUT_SLOTS_MAX + 1] = {
        {1008, 496, 336, 240}, {16384, 8192, 5456, 4096}, {65536, 32768, 21840, 16384}};

    for (int c = 0; c < LAYOUT_CLASSES; c++)
        for (uint32_t slots = 0; slots <= LAYOUT_SLOTS_MAX; slots++)
            ck_assert_uint_eq(layout_capacity(c, slots), expected[c][slots]);
}
END_TEST

START_TEST(weights_start_on_a_cache_line)
{
    ck_assert_uint_eq((LAYOUT_PAGE_HEAD + layout_array(16, 0)) % LAYOUT_ALIGN, 0);
    ck_assert_uint_eq(layout_array(32, 0), 48);
    ck_assert_uint_eq(layout_array(32, 2), 48 + 2 * 32 * 4);
}
END_TEST

START_TEST(one_element_is_one_small_block)
{
    struct layout l;
    struct layout_block b;

    layout_init(&l, 1, 2);
    ck_assert_uint_eq(l.blocks, 1);
    b = layout_block(&l, 0);
    ck_assert_uint_eq(b.first, 0);
    ck_assert_uint_eq(b.len, 1);
    ck_assert_uint_eq(b.stride, 16);
    ck_assert_int_eq(b.size_class, 0);
}
END_TEST

START_TEST(cut_by_hand_takes_largest_first)
{
    struct layout l;
    struct layout_block b;

    /* Two large, three middle, one full and one nearly empty small block. */
    layout_init(&l, 2 * 65536 + 3 * 16384 + 1008 + 5, 0);
    ck_assert_uint_eq(l.count[2], 2);
    ck_assert_uint_eq(l.count[1], 3);
    ck_assert_uint_eq(l.count[0], 2);
    ck_assert_uint_eq(l.blocks, 7);
    b = layout_block(&l, 1);
    ck_assert_uint_eq(b.first, 65536);
    ck_assert_int_eq(b.size_class, 2);
    b = layout_block(&l, 2);
    ck_assert_uint_eq(b.first, 2 * 65536);
    ck_assert_int_eq(b.size_class, 1);
    b = layout_block(&l, 6);
    ck_assert_uint_eq(b.first, 2 * 65536 + 3 * 16384 + 1008);
    ck_assert_uint_eq(b.len, 5);
    ck_assert_int_eq(b.size_class, 0);
}
END_TEST

START_TEST(exact_multiple_leaves_no_rest)
{
    for (uint32_t slots = 0; slots <= LAYOUT_SLOTS_MAX; slots++)
        for (int c = 0; c < LAYOUT_CLASSES; c++) {
            struct layout l;

            layout_init(&l, layout_capacity(c, slots), slots);
            ck_assert_uint_eq(l.blocks, 1);
            ck_assert_uint_eq(l.count[c], 1);
            ck_assert_uint_eq(layout_block(&l, 0).len, layout_capacity(c, slots));
        }
}
END_TEST

/* The blocks of l from `block` on are contiguous, aligned and inside their values; checks at most `count` of them. */
static void
check_blocks(const struct layout *l, uint64_t block, uint64_t count)
{
    uint64_t next = layout_block(l, block).first;

    for (; count > 0 && block < l->blocks; block++, count--) {
        struct layout_block b = layout_block(l, block);

        if (b.first != next || b.len < 1 || b.len > layout_capacity(b.size_class, l->slots) ||
            (b.len != layout_capacity(b.size_class, l->slots) && block != l->blocks - 1) || b.stride % 16 != 0 ||
            b.stride < b.len || b.stride >= b.len + 16 ||
            layout_array(b.stride, l->slots + 1) > layout_value_size(b.size_class))
            ck_abort_msg("block %" PRIu64 " of %" PRIu64 " elements and %u slots", block, l->elements, l->slots);
        next = b.first + b.len;
    }
    if (block == l->blocks)
        ck_assert_uint_eq(next, l->elements);
}

START_TEST(every_element_is_in_exactly_one_block)
{
    struct test_rng r = {test_seed()};

    for (int i = 0; i < 2000; i++) {
        struct layout l;
        uint64_t elements = 1 + test_below(&r, 1ull << (1 + test_below(&r, 26)));

        layout_init(&l, elements, (uint32_t)test_below(&r, LAYOUT_SLOTS_MAX + 1));
        ck_assert_uint_eq(layout_block(&l, 0).first, 0);
        check_blocks(&l, 0, l.blocks);
    }
}
END_TEST

START_TEST(largest_variable_is_cut_without_overflow)
{
    struct test_rng r = {test_seed()};

    for (int i = 0; i < 200; i++) {
        struct layout l;

        layout_init(&l, ELEMENTS_MAX - test_below(&r, 300000), (uint32_t)test_below(&r, LAYOUT_SLOTS_MAX + 1));
        check_blocks(&l, l.blocks - 40, 40);
        check_blocks(&l, test_below(&r, l.blocks), 3);
    }
}
END_TEST

START_TEST(few_small_blocks_remain)
{
    struct test_rng r = {test_seed()};

    /* At most what one block of the next size would hold: padding stays a small share of a large variable. */
    for (int i = 0; i < 1000; i++) {
        struct layout l;

        layout_init(&l, 1 + test_below(&r, 1ull << 40), (uint32_t)test_below(&r, LAYOUT_SLOTS_MAX + 1));
        ck_assert_uint_le(l.count[1], 16);
        ck_assert_uint_le(l.count[0], 18);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("layout");
    TCase *t = tcase_create("layout");

    tcase_add_test(t, values_fill_1_17_and_65_pages);
    tcase_add_test(t, capacities_are_as_documented);
    tcase_add_test(t, weights_start_on_a_cache_line);
    tcase_add_test(t, one_element_is_one_small_block);
    tcase_add_test(t, cut_by_hand_takes_largest_first);
    tcase_add_test(t, exact_multiple_leaves_no_rest);
    tcase_add_test(t, every_element_is_in_exactly_one_block);
    tcase_add_test(t, largest_variable_is_cut_without_overflow);
    tcase_add_test(t, few_small_blocks_remain);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
