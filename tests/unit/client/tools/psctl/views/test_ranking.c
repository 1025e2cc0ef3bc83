#include "client/tools/psctl/views/ranking.h"

#include "tests/unit/kits/answers_kit.h"
#include "tests/unit/kits/check_main.h"

/* A variable's report: name, bytes, pushes, refused, ages. */
#define VARIABLE                                                                                                       \
    "{\"job\": \"j\", \"name\": \"%s\", \"dims\": [4], \"bytes\": %d, \"pushes\": %d, \"refused\": %d, \"ages\": %d, " \
    "\"pulls\": 2, \"version_max\": 3, \"optimizer\": \"sgd\"}"
#define SHARD "{\"status\": {\"uptime_ms\": %d, \"pid\": 7}, \"variable\": [" VARIABLE ", " VARIABLE "]}"

static struct shard_answer
ranking_shard(uint32_t i, int uptime_ms, int w_pushes, int b_pushes)
{
    char text[1024];

    snprintf(text, sizeof text, SHARD, uptime_ms, "w", 1000, w_pushes, 0, 30, "b", 10, b_pushes, 5, 0);
    return answer_of(i, text);
}

static char *
ranking_shown(const struct answer_sample *before, const struct answer_sample *now, enum ranking_by by, size_t top,
              const char *pattern)
{
    struct ranking_choice choice = {by, top, pattern};
    char *text;
    size_t size;
    struct printer page = {.out = open_memstream(&text, &size)};

    ranking_print(before, now, &choice, &page);
    fclose(page.out);
    return text;
}

static void
give_up(struct shard_answer *answers)
{
    answer_finish(&answers[0]);
    answer_finish(&answers[1]);
}

START_TEST(the_largest_come_first_summed_over_shards)
{
    struct shard_answer answers[] = {ranking_shard(0, 1000, 10, 20), ranking_shard(1, 1000, 10, 20)};
    struct answer_sample now = {answers, 2};
    char *text = ranking_shown(NULL, &now, RANKING_BYTES, 1, NULL);

    ck_assert_line(text, "j w 1.95 KiB 3 20 - 0 B - 4 - 0 B - 3.00 0 0 sgd");
    ck_assert_line(text, "and 1 more");
    ck_assert(!has_line(text, "j b 20 B 3 40 - 0 B - 4 - 0 B - 0.00 10 0 sgd"));
    free(text);
    text = ranking_shown(NULL, &now, RANKING_REFUSED, 1, NULL);
    ck_assert_line(text, "j b 20 B 3 40 - 0 B - 4 - 0 B - 0.00 10 0 sgd");
    free(text);
    text = ranking_shown(NULL, &now, RANKING_AGE, 1, NULL);
    ck_assert_line(text, "j w 1.95 KiB 3 20 - 0 B - 4 - 0 B - 3.00 0 0 sgd");
    free(text);
    give_up(answers);
}
END_TEST

START_TEST(what_rose_between_two_looks_ranks_before_what_is_high)
{
    struct shard_answer then[] = {ranking_shard(0, 1000, 1000, 20), ranking_shard(1, 1000, 1000, 20)};
    struct shard_answer later[] = {ranking_shard(0, 3000, 1002, 40), ranking_shard(1, 3000, 1002, 40)};
    struct answer_sample before = {then, 2}, now = {later, 2};
    char *text = ranking_shown(NULL, &now, RANKING_PUSHES, 1, NULL);

    ck_assert_line(text, "j w 1.95 KiB 3 2,004 - 0 B - 4 - 0 B - 0.03 0 0 sgd");
    free(text);
    text = ranking_shown(&before, &now, RANKING_PUSHES, 1, NULL);
    ck_assert_line(text, "j b 20 B 3 80 20 0 B 0 B/s 4 0 0 B 0 B/s 0.00 10 0 sgd");
    free(text);
    give_up(then);
    give_up(later);
}
END_TEST

START_TEST(a_pattern_leaves_out_and_none_is_said)
{
    struct shard_answer answers[] = {ranking_shard(0, 1000, 10, 0), ranking_shard(1, 1000, 10, 0)};
    struct answer_sample now = {answers, 2};
    char *text = ranking_shown(NULL, &now, RANKING_BYTES, 9, "b*");

    ck_assert_line(text, "j b 20 B 3 0 - 0 B - 4 - 0 B - - 10 0 sgd");
    ck_assert_ptr_null(strstr(text, "j    w"));
    free(text);
    text = ranking_shown(NULL, &now, RANKING_BYTES, 9, "x");
    ck_assert_str_eq(text, "no variables\n");
    free(text);
    give_up(answers);
}
END_TEST

START_TEST(json_has_null_where_nothing_is_known)
{
    struct shard_answer answers[] = {ranking_shard(0, 1000, 10, 0), answer_lost(1)};
    struct answer_sample now = {answers, 2};
    struct ranking_choice choice = {RANKING_PUSHES, 5, NULL};
    json_t *list = ranking_json(NULL, &now, &choice), *first = json_array_get(list, 0);

    ck_assert_uint_eq(json_array_size(list), 2);
    ck_assert_str_eq(json_string_value(json_object_get(first, "name")), "w");
    ck_assert_int_eq(json_integer_value(json_object_get(first, "bytes")), 1000);
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(first, "dims"), 0)), 4);
    ck_assert(json_is_null(json_object_get(first, "pushes_per_second")));
    ck_assert(json_real_value(json_object_get(first, "age")) == 3);
    ck_assert(json_is_null(json_object_get(json_array_get(list, 1), "age")));
    json_decref(list);
    answer_finish(&answers[0]);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("ranking");
    TCase *t = tcase_create("ranking");

    tcase_add_test(t, the_largest_come_first_summed_over_shards);
    tcase_add_test(t, what_rose_between_two_looks_ranks_before_what_is_high);
    tcase_add_test(t, a_pattern_leaves_out_and_none_is_said);
    tcase_add_test(t, json_has_null_where_nothing_is_known);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
