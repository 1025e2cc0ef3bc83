#include "common/core/base/buffer_pool.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

START_TEST(buffers_are_aligned_and_large_enough)
{
    struct buffer_pool pool = {0};
    size_t lens[] = {0, 1, BUFFER_SIZE_MIN, BUFFER_SIZE_MIN + 1, MIB, 3 * MIB, 4 * MIB};

    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        size_t size;
        uint8_t *data = buffer_pool_take(i % 2 == 0 ? &pool : NULL, lens[i], &size);

        ck_assert_ptr_nonnull(data);
        ck_assert_uint_ge(size, lens[i]);
        ck_assert_uint_eq((uintptr_t)data % BUFFER_ALIGN, 0);
        memset(data, 1, size);
        buffer_pool_give(i % 2 == 0 ? &pool : NULL, data, size);
    }
    buffer_pool_give(&pool, NULL, 0);
    buffer_pool_finish(&pool);
    buffer_pool_finish(&pool);
}
END_TEST

START_TEST(the_last_to_come_back_is_lent_first)
{
    struct buffer_pool pool = {0};
    size_t size;
    uint8_t *a = buffer_pool_take(&pool, MIB, &size), *b = buffer_pool_take(&pool, MIB, &size);

    buffer_pool_give(&pool, a, size);
    buffer_pool_give(&pool, b, size);
    ck_assert_uint_eq(pool.kept, 2 * MIB);
    ck_assert_ptr_eq(buffer_pool_take(&pool, MIB - 5, &size), b);
    ck_assert_ptr_eq(buffer_pool_take(&pool, MIB, &size), a);
    ck_assert_uint_eq(pool.kept, 0);
    buffer_pool_give(&pool, a, size);
    buffer_pool_give(&pool, b, size);
    buffer_pool_finish(&pool);
}
END_TEST

START_TEST(what_is_kept_is_bounded)
{
    struct buffer_pool pool = {0};
    uint8_t *lent[16];
    size_t size;

    for (size_t i = 0; i < ARRAY_LEN(lent); i++)
        lent[i] = buffer_pool_take(&pool, 4 * MIB, &size);
    for (size_t i = 0; i < ARRAY_LEN(lent); i++)
        buffer_pool_give(&pool, lent[i], size);
    ck_assert_uint_eq(pool.kept, BUFFER_KEEP_MAX);
    buffer_pool_finish(&pool);
    ck_assert_uint_eq(pool.kept, 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("buffer_pool");
    TCase *t = tcase_create("buffer_pool");

    tcase_add_test(t, buffers_are_aligned_and_large_enough);
    tcase_add_test(t, the_last_to_come_back_is_lent_first);
    tcase_add_test(t, what_is_kept_is_bounded);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
