/* The pool: sizes, alignment, what is kept. */
#include "tests/unit/kits/check_main.h"

#include <string.h>

#include "server/core/turn/pool.h"

START_TEST(pieces_are_large_enough_aligned_and_hardly_larger)
{
    struct pool p = {.kept_max = MIB};

    for (size_t size = 1; size <= 3 * MIB; size += 1 + size / 7) {
        uint8_t *piece = pool_take(&p, size);

        ck_assert_uint_eq((uintptr_t)piece % POOL_ALIGN, 0);
        ck_assert_uint_ge(pool_size(size), size);
        if (size > POOL_SIZE_MIN)
            ck_assert_uint_le(pool_size(size), size + size / 4 + POOL_ALIGN);
        memset(piece, 1, size);
        pool_give(&p, piece, size);
    }
    ck_assert_uint_le(p.kept_bytes, MIB);
    pool_finish(&p);
}
END_TEST

START_TEST(piece_that_came_back_is_lent_again)
{
    struct pool p = {.kept_max = MIB};
    void *a = pool_take(&p, 1000), *b = pool_take(&p, 1000);

    ck_assert_ptr_ne(a, b);
    pool_give(&p, a, 1000);
    ck_assert_uint_eq(p.kept_bytes, pool_size(1000));
    ck_assert_ptr_eq(pool_take(&p, 1001), a); /* of the same class */
    ck_assert_uint_eq(p.kept_bytes, 0);
    pool_give(&p, a, 1001);
    pool_give(&p, b, 1000);
    pool_give(&p, NULL, 1000);
    pool_finish(&p);
}
END_TEST

START_TEST(no_more_is_kept_than_allowed)
{
    struct pool p = {.kept_max = 1500};
    void *a = pool_take(&p, 1000), *b = pool_take(&p, 1000);

    pool_give(&p, a, 1000);
    pool_give(&p, b, 1000);
    ck_assert_uint_eq(p.kept_bytes, pool_size(1000));
    pool_finish(&p);
    ck_assert_uint_eq(p.kept_bytes, 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("pool");
    TCase *tc = tcase_create("pool");

    tcase_add_test(tc, pieces_are_large_enough_aligned_and_hardly_larger);
    tcase_add_test(tc, piece_that_came_back_is_lent_again);
    tcase_add_test(tc, no_more_is_kept_than_allowed);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
