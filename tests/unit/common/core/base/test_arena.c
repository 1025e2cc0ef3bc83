#include "common/core/base/arena.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

START_TEST(allocations_are_aligned_and_apart)
{
    struct arena a = {0};
    struct test_rng rng = {test_seed()};
    uint8_t *place[500];
    size_t size[500];

    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < ARRAY_LEN(place); i++) {
            size[i] = (size_t)test_below(&rng, i % 50 == 0 ? 3 * ARENA_CHUNK : 300);
            place[i] = arena_alloc(&a, size[i]);
            ck_assert_ptr_nonnull(place[i]);
            ck_assert_uint_eq((uintptr_t)place[i] % 16, 0);
            memset(place[i], (int)i, size[i]);
        }
        for (size_t i = 0; i < ARRAY_LEN(place); i++)
            for (size_t k = 0; k < size[i]; k++)
                if (place[i][k] != (uint8_t)i)
                    ck_abort_msg("allocation %zu was overwritten", i);
        arena_reset(&a);
        ck_assert_uint_eq(a.total, 0);
    }
    arena_finish(&a);
}
END_TEST

START_TEST(a_reset_arena_hands_out_the_same_memory)
{
    struct arena a = {0};
    void *first = arena_alloc(&a, 100);

    ck_assert_ptr_nonnull(arena_alloc(&a, 2 * ARENA_CHUNK));
    arena_reset(&a);
    ck_assert_ptr_eq(arena_alloc(&a, 100), first);
    arena_finish(&a);
    arena_finish(&a);
}
END_TEST

START_TEST(nothing_is_handed_out_past_the_maximum)
{
    struct arena a = {0};
    size_t got = 0;

    ck_assert_ptr_null(arena_alloc(&a, ARENA_BYTES_MAX + 1));
    ck_assert_int_eq(a.exceeded, PS_ERR_LIMIT);
    ck_assert_ptr_null(arena_alloc(&a, SIZE_MAX));
    arena_reset(&a);
    ck_assert_int_eq(a.exceeded, PS_OK);
    while (arena_alloc(&a, MIB) != NULL)
        got += MIB;
    ck_assert_uint_eq(got, ARENA_BYTES_MAX);
    ck_assert_int_eq(a.exceeded, PS_ERR_LIMIT);
    arena_reset(&a);
    ck_assert_ptr_nonnull(arena_alloc(&a, ARENA_BYTES_MAX));
    ck_assert_ptr_null(arena_alloc(&a, 0)); /* even nothing has an address of its own */
    arena_finish(&a);
}
END_TEST

START_TEST(protobuf_memory_comes_from_the_arena)
{
    struct arena a = {0};
    ProtobufCAllocator *allocator = arena_protobuf(&a);
    void *place = allocator->alloc(allocator->allocator_data, 100);

    ck_assert_ptr_nonnull(place);
    ck_assert_uint_eq(a.total, 112);
    allocator->free(allocator->allocator_data, place);
    ck_assert_uint_eq(a.total, 112);
    arena_finish(&a);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("arena");
    TCase *t = tcase_create("arena");

    tcase_add_test(t, allocations_are_aligned_and_apart);
    tcase_add_test(t, a_reset_arena_hands_out_the_same_memory);
    tcase_add_test(t, nothing_is_handed_out_past_the_maximum);
    tcase_add_test(t, protobuf_memory_comes_from_the_arena);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
