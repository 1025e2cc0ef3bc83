/* Copies of gradients: what comes back is lent again, and what may be asked for does not depend on what is kept. */
#include "client/core/shards/copy_pool.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

#define COPY_MAX (100 * MIB)

static void *
copy_pool_take_checked(struct copy_pool *p, uint64_t bytes, uint64_t *size)
{
    void *data;

    ck_assert(copy_pool_has_room(p, bytes));
    data = copy_pool_take(p, bytes, size);
    ck_assert_ptr_nonnull(data);
    ck_assert_uint_ge(*size, bytes);
    ck_assert_uint_le(*size, bytes + bytes / COPY_POOL_SPARE);
    memset(data, 1, bytes < KIB ? bytes : KIB);
    return data;
}

START_TEST(the_copy_of_the_step_before_is_lent_again)
{
    struct copy_pool p;
    uint64_t size, sizes[3];
    void *a, *b[3];

    copy_pool_init(&p, COPY_MAX);
    a = copy_pool_take_checked(&p, 40 * MIB, &size);
    copy_pool_give(&p, a, 40 * MIB, size);
    ck_assert_uint_eq(p.kept, 40 * MIB);
    ck_assert_ptr_eq(copy_pool_take_checked(&p, 40 * MIB, &size), a);
    copy_pool_give(&p, a, 40 * MIB, size);
    ck_assert_ptr_eq(copy_pool_take_checked(&p, 36 * MIB, &size), a); /* a little less fits, too */
    copy_pool_give(&p, a, 36 * MIB, size);

    for (uint64_t i = 0; i < 3; i++)
        b[i] = copy_pool_take_checked(&p, (i + 1) * MIB, &sizes[i]);
    for (uint64_t i = 0; i < 3; i++)
        copy_pool_give(&p, b[i], (i + 1) * MIB, sizes[i]);
    for (uint64_t i = 3; i-- > 0;)
        ck_assert_ptr_eq(copy_pool_take_checked(&p, (i + 1) * MIB, &sizes[i]), b[i]);
    for (uint64_t i = 0; i < 3; i++)
        copy_pool_give(&p, b[i], (i + 1) * MIB, sizes[i]);
    ck_assert_uint_eq(p.used, 0);
    ck_assert_uint_eq(p.lent, 0);
    copy_pool_finish(&p);
    ck_assert_uint_eq(p.kept, 0);
    copy_pool_finish(&p);
}
END_TEST

START_TEST(one_that_is_far_too_large_is_not_lent)
{
    struct copy_pool p;
    uint64_t size, small_size;
    void *a, *b;

    copy_pool_init(&p, COPY_MAX);
    a = copy_pool_take_checked(&p, 40 * MIB, &size);
    copy_pool_give(&p, a, 40 * MIB, size);
    b = copy_pool_take_checked(&p, 20 * MIB, &small_size);
    ck_assert_ptr_ne(b, a);
    copy_pool_give(&p, b, 20 * MIB, small_size);
    copy_pool_finish(&p);
}
END_TEST

START_TEST(what_is_kept_gives_way_to_what_is_asked_for)
{
    struct copy_pool p;
    uint64_t sizes[2];
    void *a, *b;

    copy_pool_init(&p, COPY_MAX);
    a = copy_pool_take_checked(&p, 60 * MIB, &sizes[0]);
    copy_pool_give(&p, a, 60 * MIB, sizes[0]);
    b = copy_pool_take_checked(&p, COPY_MAX, &sizes[1]);
    ck_assert_uint_eq(p.kept, 0);
    ck_assert(!copy_pool_has_room(&p, 1));
    copy_pool_give(&p, b, COPY_MAX, sizes[1]);
    ck_assert(copy_pool_has_room(&p, COPY_MAX));
    copy_pool_finish(&p);
}
END_TEST

START_TEST(what_is_lent_no_more_is_freed_after_a_while)
{
    struct copy_pool p;
    uint64_t size;
    void *a;

    copy_pool_init(&p, COPY_MAX);
    a = copy_pool_take_checked(&p, 60 * MIB, &size);
    copy_pool_give(&p, a, 60 * MIB, size);
    for (int i = 0; i < COPY_POOL_AGE_MAX + 1; i++) {
        a = copy_pool_take_checked(&p, MIB, &size);
        copy_pool_give(&p, a, MIB, size);
    }
    ck_assert_uint_eq(p.kept, MIB);
    copy_pool_finish(&p);
}
END_TEST

START_TEST(small_copies_are_not_kept)
{
    struct copy_pool p;
    uint64_t size;
    void *a;

    copy_pool_init(&p, COPY_MAX);
    a = copy_pool_take_checked(&p, 64, &size);
    ck_assert_uint_eq(p.used, 64);
    copy_pool_give(&p, a, 64, size);
    ck_assert_uint_eq(p.kept, 0);
    copy_pool_give(&p, NULL, 0, 0);
    copy_pool_finish(&p);
}
END_TEST

/* Random sizes: the sums are those of what is lent, and the memory stays within its bound. */
START_TEST(any_sequence_keeps_the_bound)
{
    enum { HELD = 100 };
    struct copy_pool p;
    struct {
        void *data;
        uint64_t bytes, size;
    } held[HELD] = {0};
    struct test_rng rng = {test_seed()};
    uint64_t used = 0, refused = 0;

    copy_pool_init(&p, MIB);
    for (int i = 0; i < 20000; i++) {
        size_t at = test_below(&rng, HELD);
        uint64_t bytes = 1 + test_below(&rng, 96 * KIB);

        if (held[at].data != NULL) {
            copy_pool_give(&p, held[at].data, held[at].bytes, held[at].size);
            used -= held[at].bytes;
            held[at].data = NULL;
        } else if (copy_pool_has_room(&p, bytes)) {
            held[at].bytes = bytes;
            held[at].data = copy_pool_take_checked(&p, bytes, &held[at].size);
            used += bytes;
        } else {
            ck_assert_uint_gt(used + bytes, MIB);
            refused++;
        }
        ck_assert_uint_eq(p.used, used);
        ck_assert_uint_le(p.lent + p.kept, MIB + MIB / COPY_POOL_SPARE);
        ck_assert_uint_le(p.count, COPY_POOL_KEPT_MAX);
    }
    ck_assert_uint_gt(refused, 0);
    for (size_t i = 0; i < HELD; i++)
        copy_pool_give(&p, held[i].data, held[i].bytes, held[i].size);
    copy_pool_finish(&p);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("copy_pool");
    TCase *tc = tcase_create("copy_pool");

    tcase_add_test(tc, the_copy_of_the_step_before_is_lent_again);
    tcase_add_test(tc, one_that_is_far_too_large_is_not_lent);
    tcase_add_test(tc, what_is_kept_gives_way_to_what_is_asked_for);
    tcase_add_test(tc, what_is_lent_no_more_is_freed_after_a_while);
    tcase_add_test(tc, small_copies_are_not_kept);
    tcase_add_test(tc, any_sequence_keeps_the_bound);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
