/* Messages that came too early, in lists: they leave them in the order of arrival, whatever is taken between. */
#include "client/core/group/group_early_messages.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

static const struct group_signature some = {.count = 5, .segment_bytes = 64 * KIB, .op = 1};

START_TEST(messages_leave_in_the_order_in_which_they_came)
{
    struct group_kept held = {0};

    for (int round = 0; round < 2; round++) { /* one that became empty is as good as a new one */
        ck_assert(group_kept_add(&held, "first", 6));
        ck_assert(group_kept_add(&held, "second", 7));
        ck_assert(group_kept_add(&held, NULL, 0));
        ck_assert_uint_eq(held.len, 3);
        ck_assert_uint_eq(held.first->bytes, 6);
        ck_assert_str_eq((const char *)held.first->data, "first");
        ck_assert_uint_eq((uintptr_t)held.first->data % 16, 0);
        group_kept_remove(&held);
        ck_assert_str_eq((const char *)held.first->data, "second");
        group_kept_remove(&held);
        ck_assert_uint_eq(held.first->bytes, 0);
        group_kept_remove(&held);
        ck_assert_ptr_null(held.first);
        ck_assert_uint_eq(held.len, 0);
    }
    ck_assert(group_kept_add(&held, "third", 6));
    group_kept_clear(&held);
    group_kept_clear(&held);
    ck_assert_ptr_null(held.first);
    ck_assert_uint_eq(held.len, 0);
}
END_TEST

START_TEST(operations_are_found_by_their_number)
{
    struct group_early_list list = {0};
    struct group_early *early;

    ck_assert_ptr_null(group_early_find(&list, 7));
    early = group_early_add(&list, 7, &some, 3);
    ck_assert_ptr_eq(group_early_find(&list, 7), early);
    ck_assert(group_signature_equal(&early->signature, &some));
    ck_assert_uint_eq(early->ready, 3);
    ck_assert_uint_eq(early->kept.len, 0);
    ck_assert_ptr_nonnull(group_early_add(&list, 8, &some, 0));
    ck_assert_ptr_eq(group_early_find(&list, 7), early);
    ck_assert_ptr_null(group_early_find(&list, 9));
    ck_assert_ptr_null(group_early_take(&list, 9));
    ck_assert_uint_eq(list.len, 2);
    group_early_clear(&list);
    ck_assert_uint_eq(list.len, 0);
    ck_assert_ptr_null(group_early_find(&list, 7));
}
END_TEST

/* The one that is taken stood in front, in the middle or at the end: what is added then comes behind the rest. */
START_TEST(one_that_is_taken_leaves_the_others_in_order)
{
    uint64_t taken = (uint64_t)_i, last = 0;
    struct group_early_list list = {0};
    struct group_early *early;

    for (uint64_t id = 0; id < 3; id++)
        ck_assert_ptr_nonnull(group_early_add(&list, id, &some, 0));
    ck_assert(group_kept_add(&group_early_find(&list, taken)->kept, "kept", 5));
    ck_assert_ptr_nonnull(early = group_early_take(&list, taken));
    ck_assert_uint_eq(early->id, taken);
    ck_assert_str_eq((const char *)early->kept.first->data, "kept");
    group_kept_clear(&early->kept);
    free(early);
    ck_assert_ptr_null(group_early_find(&list, taken));
    ck_assert_ptr_nonnull(group_early_add(&list, 3, &some, 0));
    ck_assert_uint_eq(list.len, 3);
    for (early = list.first; early != NULL; early = early->next) {
        ck_assert(early == list.first || early->id > last);
        last = early->id;
    }
    ck_assert_uint_eq(last, 3);
    ck_assert(group_kept_add(&list.last->kept, "and what it holds", 18)); /* is freed with it */
    group_early_clear(&list);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("group_early");
    TCase *t = tcase_create("lists");

    tcase_add_test(t, messages_leave_in_the_order_in_which_they_came);
    tcase_add_test(t, operations_are_found_by_their_number);
    tcase_add_loop_test(t, one_that_is_taken_leaves_the_others_in_order, 0, 3);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
