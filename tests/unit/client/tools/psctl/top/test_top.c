#include "client/tools/psctl/top/top.h"

#include <math.h>

#include "client/tools/psctl/query/rates.h"
#include "tests/unit/kits/answers_kit.h"
#include "tests/unit/kits/check_main.h"

#define SHARDS 2

/* One look at a cluster of two shards and top's output for it. The figures are counters; those of the second look give
 * the rates. */
struct top_look {
    struct shard_answer answers[SHARDS];
    struct answer_sample sample;
};

static void
look_finish(struct top_look *l)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        answer_finish(&l->answers[i]);
}

static void
look_at(struct top_look *l, const char *first, const char *second)
{
    l->answers[0] = answer_of(0, first);
    l->answers[1] = second != NULL ? answer_of(1, second) : answer_lost(1);
    l->sample = (struct answer_sample){.answers = l->answers, .n = SHARDS};
}

/* Two seconds apart: shard 0 took 200 pushes, shard 1 20. */
static const char first_0[] =
    "{\"status\": {\"cluster\": \"lab\", \"pid\": 1, \"uptime_ms\": 1000, \"store_bytes\": 920, \"store_bytes_max\":"
    " 1000}, \"stats\": {\"pushes_applied\": 100, \"pushed_bytes\": 0, \"age\": {\"count\": [50, 0, 0]}},"
    " \"variable\": [{\"job\": \"train\", \"name\": \"w\", \"pushes\": 100, \"pushed_bytes\": 0, \"bytes\": 10},"
    "  {\"job\": \"train\", \"name\": \"b\", \"pushes\": 100, \"pushed_bytes\": 4096, \"bytes\": 4096}]}";
static const char second_0[] =
    "{\"status\": {\"cluster\": \"lab\", \"pid\": 1, \"uptime_ms\": 3000, \"store_bytes\": 920, \"store_bytes_max\":"
    " 1000, \"in_flight_bytes\": 1024}, \"stats\": {\"pushes_applied\": 300, \"pushed_bytes\": 4194304, \"turns\": 6,"
    " \"refused_shape\": 2, \"age\": {\"count\": [50, 98, 2]}},"
    " \"worker\": [{\"job\": \"train\", \"task\": 0, \"connected\": true, \"clock\": 1200},"
    "  {\"job\": \"train\", \"task\": 1, \"connected\": true, \"lapsed\": true, \"clock\": 1190, \"unresolved\": 3},"
    "  {\"job\": \"train\", \"task\": 2, \"finished\": true, \"clock\": 7}],"
    " \"blocked\": [{\"job\": \"train\", \"task\": 0, \"what\": \"pull\", \"on_task\": [1], \"on_clock\": 1196,"
    "  \"waited_ms\": 2100}],"
    " \"variable\": [{\"job\": \"train\", \"name\": \"w\", \"pushes\": 300, \"pushed_bytes\": 4194304, \"bytes\": 10,"
    "  \"version_max\": 9, \"refused\": 4},"
    "  {\"job\": \"train\", \"name\": \"b\", \"pushes\": 100, \"pushed_bytes\": 4096, \"bytes\": 4096}]}";
static const char first_1[] = "{\"status\": {\"pid\": 2, \"uptime_ms\": 500}, \"stats\": {\"pushes_applied\": 0}}";
static const char second_1[] =
    "{\"status\": {\"pid\": 2, \"uptime_ms\": 2500, \"draining\": true}, \"stats\": {\"pushes_applied\": 20},"
    " \"worker\": [{\"job\": \"train\", \"task\": 0, \"connected\": true, \"clock\": 1201}]}";

static bool page_all; /* --all */

/* The caller frees it. */
static char *
page_of(const struct top_look *before, const struct top_look *now, enum top_sort sort, size_t rows, size_t columns)
{
    static char *text; /* the stream keeps its address */
    static size_t size;
    struct printer page = {.out = open_memstream(&text, &size), .columns = columns};

    top_print(before != NULL ? &before->sample : NULL, &now->sample,
              &(struct top_choice){.sort = sort, .all = page_all}, rows, &page);
    fclose(page.out);
    return text;
}

static size_t
lines_of(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

START_TEST(rates_are_what_rose_between_two_looks_by_the_shards_own_clocks)
{
    struct top_look before, now;
    char *text;

    look_at(&before, first_0, first_1);
    look_at(&now, second_0, second_1);
    text = page_of(&before, &now, TOP_BY_LOAD, 0, 0);
    ck_assert_line(text, "cluster \"lab\": 2 of 2 shards up, 1 job, 3 workers: 1 live, 1 lapsed, 1 finished");
    ck_assert_line(text, "110 pushes/s, 2.00 MiB/s pushed, 0 B/s pulled");
    ck_assert_line(text, "1.0 refused/s, 0 dropped/s, age median 1, 99th 2-3");
    ck_assert_line(text, "0 serving #########- 92 % 100 2.00 MiB/s 0 B/s 1.00 KiB 3.0 0 a:1");
    ck_assert_line(text, "1 draining ---------- 0 % 10 0 B/s 0 B/s 0 B 0 0 b:2");
    ck_assert_line(text, "train w 100 2.00 MiB/s 0 B/s 10 B 9 4");
    free(text);
    look_finish(&before);
    look_finish(&now);
}
END_TEST

START_TEST(workers_show_how_far_they_are_behind_and_for_whom_they_wait)
{
    struct top_look now;
    char *text;

    look_at(&now, second_0, second_1);
    text = page_of(NULL, &now, TOP_BY_LOAD, 0, 0);
    ck_assert_line(text, "train 0 live 1,200 0 0 pull: worker 1 until clock 1196, 2.1 s");
    ck_assert_line(text, "train 1 lapsed 1,190 10 3 -");
    ck_assert_line(text, "train 2 finished 7 0 0 -");
    ck_assert(strstr(text, " 1  lapsed") < strstr(text, " 0  live"));
    ck_assert(strstr(text, " 0  live") < strstr(text, " 2  finished"));
    free(text);
    look_finish(&now);
}
END_TEST

START_TEST(jobs_that_are_over_are_left_out_until_all_are_asked_for)
{
    static const char both[] =
        "{\"status\": {\"cluster\": \"lab\"}, \"worker\": [{\"job\": \"a\", \"task\": 0, \"finished\": true},"
        " {\"job\": \"b\", \"task\": 0, \"connected\": true}, {\"job\": \"c\", \"task\": 0, \"finished\": true},"
        " {\"job\": \"c\", \"task\": 1, \"lapsed\": true}],"
        " \"variable\": [{\"job\": \"a\", \"name\": \"old\", \"bytes\": 9}, {\"job\": \"b\", \"name\": \"new\"}]}";
    struct top_look now;
    char *text;

    look_at(&now, both, both);
    text = page_of(NULL, &now, TOP_BY_MEMORY, 0, 0);
    ck_assert_line(text, "cluster \"lab\": 2 of 2 shards up, 3 jobs (1 over: --all shows them), 4 workers: 1 live,"
                         " 1 lapsed, 2 finished");
    ck_assert_line(text, "c 0 finished 0 0 0 -");
    ck_assert_ptr_null(strstr(text, "\na "));
    ck_assert_ptr_null(strstr(text, "old"));
    free(text);
    page_all = true;
    text = page_of(NULL, &now, TOP_BY_MEMORY, 0, 0);
    ck_assert_ptr_nonnull(strstr(text, "3 jobs (1 over), 4 workers"));
    ck_assert_line(text, "a 0 finished 0 0 0 -");
    ck_assert(strstr(text, "\nc ") < strstr(text, "\na "));
    ck_assert(strstr(text, "new") < strstr(text, "old"));
    free(text);
    page_all = false;
    look_finish(&now);
}
END_TEST

START_TEST(one_look_alone_has_no_rates)
{
    struct top_look now;
    char *text;

    look_at(&now, second_0, second_1);
    text = page_of(NULL, &now, TOP_BY_LOAD, 0, 0);
    ck_assert_line(text, "- pushes/s, - pushed, - pulled");
    ck_assert_line(text, "- refused/s, - dropped/s, age median -, 99th -");
    ck_assert_line(text, "train w - - - 10 B 9 4");
    free(text);
    look_finish(&now);
}
END_TEST

START_TEST(a_shard_that_has_started_anew_has_no_rate_until_the_next_look)
{
    static const char anew[] = "{\"status\": {\"pid\": 3, \"uptime_ms\": 900}, \"stats\": {\"pushes_applied\": 1}}";
    struct top_look before, now;
    struct rates r;

    look_at(&before, first_0, first_1);
    look_at(&now, second_0, anew);
    ck_assert_int_eq(rates_init(&r, &before.sample, &now.sample), PS_OK);
    ck_assert(rates_stat(&r, 0, "pushes_applied") == 100);
    ck_assert(isnan(rates_stat(&r, 1, "pushes_applied")));
    rates_finish(&r);
    look_finish(&before);
    look_finish(&now);
}
END_TEST

START_TEST(a_shard_that_is_gone_says_so_in_its_row)
{
    struct top_look before, now;
    char *text;

    look_at(&before, first_0, first_1);
    look_at(&now, second_0, NULL);
    text = page_of(&before, &now, TOP_BY_NAME, 0, 0);
    ck_assert_line(text, "1 not reached c:3");
    ck_assert_ptr_nonnull(strstr(text, "1 of 2 shards up"));
    ck_assert_ptr_nonnull(strstr(text, "100 pushes/s"));
    free(text);
    look_finish(&before);
    look_finish(&now);
}
END_TEST

/* Rows first, and means over them: of all steps, and since the look before. Metrics to which nothing was added are left
 * out. */
START_TEST(what_workers_add_up_is_shown_as_means)
{
    static const char earlier[] = "{\"job\": [{\"name\": \"train\", \"metrics\": [1000.0, 500.0, 0.0, 10.0]}]}",
                      later[] = "{\"job\": [{\"name\": \"idle\"}, {\"name\": \"train\","
                                " \"metrics\": [3000.0, 900.0, 0.0, null]}]}";
    struct top_look before, now;
    char *text;

    look_at(&before, earlier, NULL);
    look_at(&now, later, NULL);
    text = page_of(NULL, &now, TOP_BY_NAME, 0, 0);
    ck_assert_ptr_nonnull(strstr(text, "train: metric 0 3,000, metric 1 0.3, metric 3 -\n"));
    free(text);
    text = page_of(&before, &now, TOP_BY_NAME, 0, 0);
    ck_assert_ptr_nonnull(strstr(text, "train: metric 0 3,000, metric 1 0.3 (now 0.2), metric 3 -\n"));
    ck_assert_ptr_null(strstr(text, "idle:"));
    free(text);
    text = page_of(&before, &now, TOP_BY_NAME, 10, 0);
    ck_assert_ptr_null(strstr(text, "metric"));
    ck_assert_uint_le(lines_of(text), 10);
    free(text);
    look_finish(&before);
    look_finish(&now);
}
END_TEST

START_TEST(metrics_that_have_names_are_shown_by_them)
{
    static const char report[] = "{\"job\": [{\"name\": \"train\", \"metrics\": [3000.0, 900.0, 60.0], "
                                 "\"metric_names\": [\"rows\", \"loss\"]}]}";
    struct top_look now;
    char *text;

    look_at(&now, report, NULL);
    text = page_of(NULL, &now, TOP_BY_NAME, 0, 0);
    ck_assert_ptr_nonnull(strstr(text, "train: rows 3,000, loss 0.3, metric 2 0.02\n"));
    free(text);
    look_finish(&now);
}
END_TEST

START_TEST(the_sort_decides_what_comes_first)
{
    struct top_look before, now;
    char *text;

    look_at(&before, first_0, first_1);
    look_at(&now, second_0, second_1);
    text = page_of(&before, &now, TOP_BY_LOAD, 0, 0);
    ck_assert(strstr(text, "train  w") < strstr(text, "train  b"));
    free(text);
    text = page_of(&before, &now, TOP_BY_MEMORY, 0, 0);
    ck_assert(strstr(text, "train  b") < strstr(text, "train  w"));
    ck_assert(strstr(text, "0  serving") < strstr(text, "1  draining"));
    free(text);
    text = page_of(&before, &now, TOP_BY_NAME, 0, 0);
    ck_assert(strstr(text, " 0  live") < strstr(text, " 1  lapsed"));
    free(text);
    look_finish(&before);
    look_finish(&now);
}
END_TEST

START_TEST(the_page_fits_any_height_and_counts_what_it_leaves_out)
{
    struct top_look now;
    char *text, *wide;

    look_at(&now, second_0, second_1);
    wide = page_of(NULL, &now, TOP_BY_NAME, 0, 0);
    for (size_t rows = 3; rows < 30; rows++) {
        text = page_of(NULL, &now, TOP_BY_NAME, rows, 0);
        ck_assert_msg(lines_of(text) <= rows, "%zu lines for %zu rows:\n%s", lines_of(text), rows, text);
        if (rows >= lines_of(wide))
            ck_assert_str_eq(text, wide);
        free(text);
    }
    text = page_of(NULL, &now, TOP_BY_NAME, lines_of(wide) - 1, 0);
    ck_assert_ptr_nonnull(strstr(text, " more "));
    free(text);
    free(wide);
    look_finish(&now);
}
END_TEST

START_TEST(tables_fit_any_width)
{
    struct top_look now;

    look_at(&now, second_0, second_1);
    for (size_t columns = 1; columns < 120; columns++) {
        char *text = page_of(NULL, &now, TOP_BY_NAME, 0, columns);
        const char *line = strstr(text, "\n\n"); /* the tables; the head is cut when it is drawn */

        ck_assert_ptr_nonnull(line);
        for (; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n')
            ck_assert_msg(strcspn(line, "\n") <= columns, "%zu columns:\n%s", columns, text);
        free(text);
    }
    look_finish(&now);
}
END_TEST

START_TEST(ages_are_read_off_the_histogram_where_the_share_is_reached)
{
    uint64_t ages[RATES_BUCKETS] = {0};

    ck_assert_uint_eq(rates_age_at(ages, 0.5), RATES_BUCKETS);
    ages[0] = 50;
    ages[1] = 49;
    ages[5] = 1;
    ck_assert_uint_eq(rates_age_at(ages, 0.5), 0);
    ck_assert_uint_eq(rates_age_at(ages, 0.51), 1);
    ck_assert_uint_eq(rates_age_at(ages, 0.99), 1);
    ck_assert_uint_eq(rates_age_at(ages, 1), 5);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("top");
    TCase *t = tcase_create("top");

    tcase_add_test(t, rates_are_what_rose_between_two_looks_by_the_shards_own_clocks);
    tcase_add_test(t, workers_show_how_far_they_are_behind_and_for_whom_they_wait);
    tcase_add_test(t, jobs_that_are_over_are_left_out_until_all_are_asked_for);
    tcase_add_test(t, one_look_alone_has_no_rates);
    tcase_add_test(t, a_shard_that_has_started_anew_has_no_rate_until_the_next_look);
    tcase_add_test(t, a_shard_that_is_gone_says_so_in_its_row);
    tcase_add_test(t, what_workers_add_up_is_shown_as_means);
    tcase_add_test(t, metrics_that_have_names_are_shown_by_them);
    tcase_add_test(t, the_sort_decides_what_comes_first);
    tcase_add_test(t, the_page_fits_any_height_and_counts_what_it_leaves_out);
    tcase_add_test(t, tables_fit_any_width);
    tcase_add_test(t, ages_are_read_off_the_histogram_where_the_share_is_reached);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
