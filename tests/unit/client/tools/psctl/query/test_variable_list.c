/* Variables as psctl keeps them: what they share is there once, and they are found by name and shard. */
#include "client/tools/psctl/query/variable_list.h"

#include <malloc.h>

#include "tests/sanitized.h"
#include "tests/unit/kits/answers_kit.h"
#include "tests/unit/kits/check_main.h"

/* So many variables of one kind, the last name first. */
static struct variable_list *
list_of(unsigned n)
{
    struct variable_list *list = calloc(1, sizeof *list);

    ck_assert_ptr_nonnull(list);
    for (unsigned i = 0; i < n; i++) {
        char name[32];
        json_t *page;

        snprintf(name, sizeof name, "layer/weights/%06u", n - 1 - i);
        page = json_pack("[{s:s, s:s, s:[i, i], s:s, s:i}]", "job", "train", "name", name, "dims", 64, 10, "optimizer",
                         "sgd(learning_rate 0.1)", "pushes", (int)i);
        ck_assert(variable_list_add(list, page));
        json_decref(page);
    }
    return list;
}

START_TEST(rows_keep_what_was_reported_and_share_what_is_the_same)
{
    struct variable_list *list = list_of(3);

    variable_list_sort(list);
    ck_assert_uint_eq(list->len, 3);
    ck_assert_str_eq(list->rows[0].name, "layer/weights/000000");
    ck_assert_uint_eq(list->rows[0].pushes, 2);
    ck_assert_uint_eq(variable_figure(&list->rows[1], offsetof(struct variable_report, pushes)), 1);
    ck_assert_str_eq(list->rows[2].optimizer, "sgd(learning_rate 0.1)");
    ck_assert_uint_eq(list->rows[2].rank, 2);
    ck_assert_uint_eq(list->rows[2].dims[1], 10);
    ck_assert_ptr_eq(list->rows[0].optimizer, list->rows[2].optimizer);
    ck_assert_ptr_eq(list->rows[0].dims, list->rows[1].dims);
    variable_list_free(list);
}
END_TEST

START_TEST(many_rows_take_a_few_hundred_bytes_each)
{
    enum { N = 20000 };
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
    struct variable_list *list = list_of(N);

    if (!SANITIZED_ADDRESS)
        ck_assert_uint_lt((mallinfo2().uordblks + mallinfo2().hblkhd - before) / N, 500);
    variable_list_free(list);
}
END_TEST

START_TEST(variable_is_found_on_its_shard)
{
    struct shard_answer answers[] = {
        answer_of(
            0, "{\"variable\": [{\"job\": \"b\", \"name\": \"w\", \"pushes\": 1}, {\"job\": \"a\", \"name\": \"w\"}]}"),
        answer_of(1, "{\"variable\": [{\"job\": \"b\", \"name\": \"w\", \"pushes\": 2}]}"), answer_lost(2)};
    const struct variable_entry *found;
    struct variable_entry *entries;
    size_t len;

    entries = variable_entries(answers, 3, &len);
    ck_assert_uint_eq(len, 3);
    ck_assert_str_eq(entries[0].v->job, "a");
    ck_assert(variable_entry_same(&entries[1], &entries[2]) && !variable_entry_same(&entries[0], &entries[1]));
    found = variable_entries_find(entries, len, &(struct variable_entry){entries[1].v, 1});
    ck_assert_ptr_nonnull(found);
    ck_assert_uint_eq(found->v->pushes, 2);
    ck_assert_ptr_null(variable_entries_find(entries, len, &(struct variable_entry){entries[0].v, 1}));
    free(entries);
    answer_finish(&answers[0]);
    answer_finish(&answers[1]);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("variable_list");
    TCase *t = tcase_create("variable_list");

    tcase_add_test(t, rows_keep_what_was_reported_and_share_what_is_the_same);
    tcase_add_test(t, many_rows_take_a_few_hundred_bytes_each);
    tcase_add_test(t, variable_is_found_on_its_shard);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
