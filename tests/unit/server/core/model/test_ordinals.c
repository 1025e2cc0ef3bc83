/* Ordinals: taken, given back, taken again where there is room, against a plain array of bits. */
#include "tests/unit/kits/check_main.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/model/ordinals.h"

#define SPACE 512

static struct ordinals o;
static bool taken[SPACE];

static void
ordinals_setup(void)
{
    o = (struct ordinals){0};
    memset(taken, 0, sizeof taken);
}

static void
ordinals_teardown(void)
{
    ordinals_finish(&o);
}

static void
ordinals_note(uint64_t first, uint64_t n, bool is)
{
    for (uint64_t i = first; i < first + n; i++) {
        ck_assert(i < SPACE && taken[i] != is);
        taken[i] = is;
    }
}

static uint64_t
space_end(void)
{
    uint64_t end = SPACE;

    while (end > 0 && !taken[end - 1])
        end--;
    return end;
}

START_TEST(what_is_given_back_is_taken_again_and_nothing_twice)
{
    struct {
        uint64_t first, n;
    } held[64] = {0};
    struct test_rng rng = {test_seed()};

    for (int round = 0; round < 8000; round++) {
        uint64_t i = test_below(&rng, ARRAY_LEN(held));

        if (held[i].n > 0) {
            ordinals_give(&o, held[i].first, held[i].n);
            ordinals_note(held[i].first, held[i].n, false);
            held[i].n = 0;
        } else {
            held[i].n = 1 + test_below(&rng, 5);
            held[i].first = ordinals_take(&o, held[i].n);
            ordinals_note(held[i].first, held[i].n, true);
        }
        ck_assert_uint_eq(o.end, space_end());
    }
    for (size_t i = 0; i < ARRAY_LEN(held); i++)
        ordinals_give(&o, held[i].first, held[i].n);
    ck_assert(o.end == 0 && o.holes_len == 0);
}
END_TEST

START_TEST(given_places_may_come_in_any_order)
{
    static const uint64_t order[] = {30, 0, 20, 10, 40};

    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        ck_assert_int_eq(ordinals_take_at(&o, order[i], 5), PS_OK);
    ck_assert_uint_eq(o.end, 45);
    ck_assert_int_eq(ordinals_take_at(&o, 22, 5), PS_ERR_IO); /* half of it is taken */
    ck_assert_int_eq(ordinals_take_at(&o, 44, 1), PS_ERR_IO);
    ck_assert_int_eq(ordinals_take_at(&o, 6, 2), PS_OK); /* in the middle of a hole */
    ck_assert_uint_eq(ordinals_take(&o, 5), 15);
    ck_assert_uint_eq(ordinals_take(&o, 1), 5);
    ck_assert_uint_eq(ordinals_take(&o, 2), 8);
    ck_assert_uint_eq(ordinals_take(&o, 6), 45);
    ck_assert_uint_eq(ordinals_take(&o, 0), o.end);
}
END_TEST

START_TEST(numbers_that_cannot_be_are_refused)
{
    ck_assert_int_eq(ordinals_take_at(&o, UINT64_MAX, 1), PS_ERR_IO);
    ck_assert_int_eq(ordinals_take_at(&o, 1, UINT64_MAX), PS_ERR_IO);
    ck_assert_int_eq(ordinals_take_at(&o, 5, 0), PS_OK);
    ck_assert_uint_eq(o.end, 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("ordinals");
    TCase *t = tcase_create("ordinals");

    tcase_add_checked_fixture(t, ordinals_setup, ordinals_teardown);
    tcase_add_test(t, what_is_given_back_is_taken_again_and_nothing_twice);
    tcase_add_test(t, given_places_may_come_in_any_order);
    tcase_add_test(t, numbers_that_cannot_be_are_refused);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
