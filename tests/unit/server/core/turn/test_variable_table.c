/* The table of variables by id: ids that rise, holes, pages that go, and ids that come again past the end. */
#include "tests/unit/kits/check_main.h"

#include "server/core/turn/variable_table.h"

#define IDS 5000

static struct variable_table t;
static char objects[IDS]; /* their addresses stand for variables */

static struct variable *
table_object(uint32_t id)
{
    return (struct variable *)(void *)&objects[id % IDS];
}

static void
table_setup(void)
{
    t = (struct variable_table){0};
}

static void
table_teardown(void)
{
    variable_table_finish(&t);
}

static uint32_t
put_next(uint32_t max, bool comes_again)
{
    bool again;
    uint32_t id = variable_table_next_id(&t, max, &again);

    ck_assert(id != 0 && again == comes_again);
    ck_assert(variable_table_put(&t, id, table_object(id)));
    ck_assert_ptr_eq(variable_table_get(&t, id), table_object(id));
    return id;
}

START_TEST(ids_rise_and_none_comes_again)
{
    for (uint32_t i = 1; i <= 3000; i++) {
        ck_assert_uint_eq(put_next(STORE_VAR_MAX, false), i);
        if (i % 3 != 0)
            variable_table_remove(&t, i);
    }
    ck_assert_ptr_null(variable_table_get(&t, 0));
    ck_assert_ptr_null(variable_table_get(&t, 1));
    ck_assert_ptr_null(variable_table_get(&t, 3001));
    ck_assert_ptr_null(variable_table_get(&t, UINT32_MAX));
    ck_assert_ptr_eq(variable_table_get(&t, 2999 + 1), table_object(3000));
}
END_TEST

START_TEST(a_walk_is_in_order_and_over_holes)
{
    static const uint32_t ids[] = {1, 2, VARIABLE_PAGE - 1, VARIABLE_PAGE, 4 * VARIABLE_PAGE + 7, STORE_VAR_MAX};

    ck_assert_ptr_null(variable_table_from(&t, 1));
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        ck_assert(variable_table_put(&t, ids[i], table_object((uint32_t)i)));
    for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
        ck_assert_ptr_eq(variable_table_from(&t, ids[i]), table_object((uint32_t)i));
        ck_assert_ptr_eq(variable_table_from(&t, i > 0 ? ids[i - 1] + 1 : 0), table_object((uint32_t)i));
    }
    variable_table_remove(&t, STORE_VAR_MAX);
    ck_assert_ptr_null(variable_table_from(&t, 4 * VARIABLE_PAGE + 8));
}
END_TEST

/* However many are put and removed. */
START_TEST(empty_pages_are_freed)
{
    for (uint32_t i = 0; i < 20 * VARIABLE_PAGE; i++)
        variable_table_remove(&t, put_next(STORE_VAR_MAX, false));
    for (uint32_t p = 0; p < t.pages_len; p++)
        ck_assert_ptr_null(t.pages[p]);
}
END_TEST

START_TEST(past_the_last_id_the_least_that_is_free_comes_again)
{
    for (uint32_t i = 1; i <= 10; i++)
        put_next(10, false);
    variable_table_remove(&t, 7);
    variable_table_remove(&t, 4);
    ck_assert_uint_eq(put_next(10, true), 4);
    ck_assert_uint_eq(put_next(10, true), 7);
    ck_assert_uint_eq(variable_table_next_id(&t, 10, &(bool){false}), 0);
}
END_TEST

START_TEST(ids_that_were_given_before_the_table_was_made_are_not_given)
{
    variable_table_given(&t, 42);
    ck_assert_uint_eq(put_next(STORE_VAR_MAX, false), 42);
    variable_table_given(&t, 7);
    ck_assert_uint_eq(put_next(STORE_VAR_MAX, false), 43);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("variable_table");
    TCase *c = tcase_create("variable_table");

    tcase_add_checked_fixture(c, table_setup, table_teardown);
    tcase_add_test(c, ids_rise_and_none_comes_again);
    tcase_add_test(c, a_walk_is_in_order_and_over_holes);
    tcase_add_test(c, empty_pages_are_freed);
    tcase_add_test(c, past_the_last_id_the_least_that_is_free_comes_again);
    tcase_add_test(c, ids_that_were_given_before_the_table_was_made_are_not_given);
    suite_add_tcase(s, c);
    return s;
}

CHECK_MAIN(make_suite)
