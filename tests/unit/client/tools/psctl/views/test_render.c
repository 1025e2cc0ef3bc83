#include "client/tools/psctl/views/render.h"

#include "client/tools/psctl/views/health.h"
#include "tests/unit/kits/answers_kit.h"
#include "tests/unit/kits/check_main.h"

/* The output; the answers' reports are given up. */
static char *
render_shown(enum view_kind kind, struct shard_answer *answers, uint32_t n, bool json)
{
    char *text;
    size_t size;
    struct printer page = {.out = open_memstream(&text, &size)};

    if (json)
        render_json(render_name(kind), answers, n, &page);
    else
        render_tables(kind, answers, n, &page);
    fclose(page.out);
    for (uint32_t i = 0; i < n; i++)
        answer_finish(&answers[i]);
    return text;
}

START_TEST(variables_are_summed_over_shards)
{
    struct shard_answer answers[] = {
        answer_of(0, "{\"variable\": [{\"job\": \"train\", \"name\": \"w\", \"dims\": [64, 10], \"blocks\": 2,"
                     " \"bytes\": 2048, \"version_min\": 5, \"version_max\": 6, \"pushes\": 10, \"pushed_bytes\": 1024,"
                     " \"pulls\": 3, \"pulled_bytes\": 512, \"refused\": 1, \"learning_rate\": 0.002, \"optimizer\": "
                     "\"adam\"}]}"),
        answer_of(1, "{\"variable\": [{\"job\": \"train\", \"name\": \"b\", \"blocks\": 1, \"bytes\": 100, "
                     "\"learning_rate\": 0.5,"
                     " \"optimizer\": \"sgd\"},"
                     " {\"job\": \"train\", \"name\": \"w\", \"dims\": [64, 10], \"blocks\": 1, \"bytes\": 1024,"
                     " \"version_min\": 7, \"version_max\": 7, \"pushes\": 9, \"pushed_bytes\": 1024, \"pulls\": 3,"
                     " \"pulled_bytes\": 512, \"dropped\": 2, \"learning_rate\": 1e-3, \"optimizer\": \"adam\"}]}")};
    char *text = render_shown(VIEW_VARIABLES, answers, 2, false);

    ck_assert_line(text, "train b scalar all 1 100 B 0 0 0 B 0 0 B 0 0 0.5 sgd");
    ck_assert_line(text, "train w 64x10 all 3 3.00 KiB 5-7 19 2.00 KiB 6 1.00 KiB 1 2 0.001-0.002 adam");
    ck_assert_line(text, "0 2 2.00 KiB 5-6 10 1.00 KiB 3 512 B 1 0 0.002");
    ck_assert_line(text, "total all 4 3.10 KiB 19 2.00 KiB 6 1.00 KiB 1 2");
    ck_assert_line(text, "1 2 1.10 KiB 9 1.00 KiB 3 512 B 0 2");
    free(text);
}
END_TEST

START_TEST(status_says_which_shards_were_not_reached)
{
    struct shard_answer answers[] = {
        answer_of(0, "{\"status\": {\"cluster\": \"lab\", \"shards\": 2, \"uptime_ms\": 187000, \"pid\": 77,"
                     " \"workers\": 3, \"variables\": 4, \"blocks\": 9, \"data_bytes\": 1048576,"
                     " \"store_bytes\": 2097152, \"store_bytes_max\": 1073741824, \"in_flight_bytes_max\": 1024,"
                     " \"connections\": 5, \"version\": \"0.1.0\"}}"),
        answer_lost(1)};
    char *text = render_shown(VIEW_STATUS, answers, 2, false);

    ck_assert_line(text, "0 a:1 serving 3m 07s 77 3 4 9 1.00 MiB 2.00 MiB of 1.00 GiB 0 B of 1.00 KiB 5 -");
    ck_assert_line(text, "cluster \"lab\" of 2 shards, psd 0.1.0");
    ck_assert_line(text, "1 c:3 not reached");
    ck_assert_line(text, "not reached: shard 1 at c:3: connection refused");
    ck_assert_ptr_null(strstr(text, "warning"));
    free(text);
}
END_TEST

START_TEST(status_says_what_was_saved)
{
    static const char *const reports[][2] = {
        {"{\"save\": 0}", " never"},
        {"{\"save\": 12}", " 12"},
        {"{\"save\": 12, \"saves\": 2, \"since_ms\": 3000}", " 12, 3.0 s ago"},
        {"{\"save\": 12, \"running\": true, \"blocks\": 200, \"blocks_done\": 50}", " 12; saving, 25 %"},
        {"{\"save\": 0, \"failures\": 1, \"failure\": \"no space left\"}", " never; failed: no space left"},
        {"null", " -"},
    };

    for (size_t i = 0; i < ARRAY_LEN(reports); i++) {
        struct shard_answer answer;
        char json[256], *text;

        snprintf(json, sizeof json, "{\"status\": {\"cluster\": \"lab\", \"shards\": 1, \"save\": %s}}", reports[i][0]);
        answer = answer_of(0, json);
        text = render_shown(VIEW_STATUS, &answer, 1, false);
        ck_assert_msg(strstr(text, reports[i][1]) != NULL, "no '%s' in:\n%s", reports[i][1], text);
        free(text);
    }
}
END_TEST

START_TEST(status_warns_of_a_list_in_the_wrong_order)
{
    struct shard_answer answers[] = {
        answer_of(0, "{\"status\": {\"cluster\": \"lab\", \"shard\": 1, \"shards\": 2}}"),
        answer_of(1, "{\"status\": {\"cluster\": \"other\", \"shard\": 1, \"shards\": 2}}")};
    char *text = render_shown(VIEW_STATUS, answers, 2, false);

    ck_assert_line(text, "warning: a:1 says that it is shard 1 of 2, but is listed as shard 0 of 2");
    ck_assert_line(text, "warning: b:2 belongs to cluster \"other\", the first shard to \"lab\"");
    free(text);
}
END_TEST

START_TEST(stats_show_counters_and_ages)
{
    struct shard_answer answers[] = {
        answer_of(0,
                  "{\"stats\": {\"pushes_applied\": 1500, \"pushed_bytes\": 1024, \"age\": {\"count\": [30, 0, 10]}}}"),
        answer_of(1, "{\"stats\": {\"pushes_applied\": 500, \"age\": {\"count\": [0, 0, 0, 0]}}}")};
    char *text = render_shown(VIEW_STATS, answers, 2, false);

    ck_assert_line(text, "COUNTER ALL SHARD 0 SHARD 1");
    ck_assert_line(text, "pushes applied 2,000 1,500 500");
    ck_assert_line(text, "bytes pushed 1.00 KiB 1.00 KiB 0 B");
    ck_assert_line(text, "0 30 75.0 % ########################################");
    ck_assert_line(text, "1 0 0.0 %");
    ck_assert_line(text, "2-3 10 25.0 % #############");
    ck_assert_ptr_null(strstr(text, "4-7"));
    free(text);
}
END_TEST

START_TEST(stats_show_the_shard_that_is_nearest_to_a_limit)
{
    struct shard_answer answers[] = {
        answer_of(0, "{\"stats\": {\"limit\": [{\"name\": \"jobs\", \"option\": \"jobs-max\", \"now\": 1, \"max\": 4,"
                     " \"refused\": 2}, {\"name\": \"open files\", \"option\": \"\", \"now\": 7, \"max\": 0}]}}"),
        answer_of(1, "{\"stats\": {\"limit\": [{\"name\": \"jobs\", \"option\": \"jobs-max\", \"now\": 3, \"max\": 4,"
                     " \"refused\": 5}, {\"name\": \"open files\", \"option\": \"\", \"now\": 7, \"max\": 0}]}}")};
    char *text = render_shown(VIEW_STATS, answers, 2, false);

    ck_assert_line(text, "LIMIT NOW OF SHARD REFUSED OPTION");
    ck_assert_line(text, "jobs 3 4 1 7 --jobs-max");
    ck_assert_line(text, "open files 7 - 0 0 -");
    free(text);
}
END_TEST

START_TEST(blocked_says_who_waits_for_whom)
{
    struct shard_answer answers[] = {
        answer_of(0, "{\"blocked\": [{\"job\": \"train\", \"task\": 2, \"what\": \"pull\", \"clock\": 17,"
                     " \"waited_ms\": 2100, \"on_task\": [0, 3], \"on_clock\": 15, \"variable\": \"w\"},"
                     " {\"job\": \"train\", \"task\": 1, \"what\": \"barrier end\", \"clock\": 4, \"on_task\": [2]}]}"),
        answer_of(1, "{}")};
    char *text = render_shown(VIEW_BLOCKED, answers, 2, false);

    ck_assert_line(text, "train 2 pull 17 workers 0, 3 15 2.1 s 0 w");
    ck_assert_line(text, "train 1 barrier end 4 worker 2 - 0.0 s 0 -");
    ck_assert(strstr(text, "barrier") < strstr(text, "pull"));
    free(text);
    answers[0] = answer_of(0, "{}");
    answers[1] = answer_of(1, "{}");
    text = render_shown(VIEW_BLOCKED, answers, 2, false);
    ck_assert_str_eq(text, "nobody waits\n");
    free(text);
}
END_TEST

START_TEST(blocked_names_a_shard_that_everybody_waits_for)
{
    struct shard_answer answers[] = {answer_of(0, "{}"), answer_lost(1)};
    char *text = render_shown(VIEW_BLOCKED, answers, 2, false);

    ck_assert_ptr_null(strstr(text, "nobody waits"));
    ck_assert_line(text, "all workers with variables on shard 1 wait for that shard");
    free(text);
}
END_TEST

START_TEST(blocked_says_what_else_is_waited_for)
{
    struct shard_answer answers[] = {
        answer_of(0, "{\"blocked\": [{\"job\": \"train\", \"task\": 2, \"what\": \"declare\", \"clock\": 0,"
                     " \"waited_ms\": 2100, \"variable\": \"w\", \"on\": \"3 of 7 blocks are made\"},"
                     " {\"job\": \"\", \"what\": \"save\", \"who\": \"host:12\", \"on\": \"the save that runs\"}]}")};
    char *text = render_shown(VIEW_BLOCKED, answers, 1, false);

    ck_assert_line(text, "train 2 declare 0 3 of 7 blocks are made - 2.1 s 0 w");
    ck_assert_line(text, "- host:12 save 0 the save that runs - 0.0 s 0 -");
    free(text);
}
END_TEST

START_TEST(blocked_says_what_it_leaves_out)
{
    static char report[4096];
    struct shard_answer answers[1];
    size_t at = (size_t)sprintf(report, "{\"more\": true, \"blocked\": [{\"job\": \"train\", \"what\": \"pull\","
                                        " \"on_task\": [100");
    char *text;

    for (int task = 101; task < 400; task++)
        at += (size_t)sprintf(report + at, ",%d", task);
    strcpy(report + at, "]}]}");
    answers[0] = answer_of(3, report);
    text = render_shown(VIEW_BLOCKED, answers, 1, false);
    ck_assert_ptr_nonnull(strstr(text, "workers 100, 101, 102"));
    ck_assert_ptr_nonnull(strstr(text, " ... "));
    ck_assert_ptr_null(strstr(text, "399"));
    ck_assert_ptr_nonnull(strstr(text, "shard 3: more wait than a report holds"));
    free(text);
}
END_TEST

START_TEST(workers_are_grouped_by_job_and_task)
{
    struct shard_answer answers[] = {
        answer_of(0,
                  "{\"worker\": [{\"job\": \"b\", \"task\": 0, \"connected\": true, \"clock\": 1200, \"last_seq\": 9,"
                  " \"lease_ms\": 300000, \"agent\": \"host 12\"},"
                  " {\"job\": \"a\", \"task\": 1, \"lapsed\": true},"
                  " {\"job\": \"a\", \"task\": 2, \"lapsed\": true, \"evicted\": true}]}"),
        answer_of(1, "{\"worker\": [{\"job\": \"b\", \"task\": 0, \"clock\": 1199}]}")};
    char *text = render_shown(VIEW_WORKERS, answers, 2, false);

    ck_assert_line(text, "a 1 0 lapsed 0 0 0 0.0 s 0.0 s");
    ck_assert_line(text, "a 2 0 evicted 0 0 0 0.0 s 0.0 s");
    ck_assert_line(text, "b 0 0 live 1,200 9 0 0.0 s 5m 00s host 12");
    ck_assert_line(text, "1 away 1,199 0 0 0.0 s 0.0 s");
    free(text);
}
END_TEST

START_TEST(jobs_count_each_worker_and_each_variable_once)
{
    struct shard_answer answers[] = {
        answer_of(0, "{\"job\": [{\"name\": \"train\", \"options\": \"ssp(4)\", \"workers\": 4, \"live\": 3,"
                     " \"lapsed\": 1, \"slowest_clock\": 1000, \"fastest_clock\": 1004, \"variables\": 2,"
                     " \"first\": 2, \"pulls_parked\": 1},"
                     " {\"name\": \"other\", \"options\": \"async\", \"workers\": 1, \"live\": 1, \"variables\": 1,"
                     "  \"first\": 1}],"
                     " \"worker\": [{\"job\": \"train\", \"task\": 0, \"connected\": true},"
                     "  {\"job\": \"train\", \"task\": 1, \"lapsed\": true}, {\"job\": \"train\", \"task\": 2},"
                     "  {\"job\": \"train\", \"task\": 3, \"connected\": true},"
                     "  {\"job\": \"other\", \"task\": 0, \"connected\": true}]}"),
        answer_of(1, "{\"job\": [{\"name\": \"train\", \"options\": \"ssp(8)\", \"workers\": 4, \"live\": 2,"
                     " \"lapsed\": 1, \"finished\": 1, \"slowest_clock\": 1001, \"fastest_clock\": 1005,"
                     " \"variables\": 3, \"first\": 2, \"pulls_parked\": 2}],"
                     " \"worker\": [{\"job\": \"train\", \"task\": 0, \"connected\": true},"
                     "  {\"job\": \"train\", \"task\": 1, \"finished\": true},"
                     "  {\"job\": \"train\", \"task\": 2, \"lapsed\": true},"
                     "  {\"job\": \"train\", \"task\": 3, \"connected\": true}]}"),
        answer_lost(2)};
    char *text = render_shown(VIEW_JOBS, answers, 3, false);

    ck_assert_line(text, "other all 1 1 0 0 0 0 1 0 async");
    ck_assert_line(text, "train all 4 2 1 1 1,000 1,005 4 3 not the same on all shards");
    ck_assert_line(text, "0 4 3 1 0 1,000 1,004 2 1 ssp(4)");
    ck_assert_line(text, "1 4 2 1 1 1,001 1,005 3 2 ssp(8)");
    free(text);
    answers[0] = answer_of(0, "{}");
    text = render_shown(VIEW_JOBS, answers, 1, false);
    ck_assert_str_eq(text, "no jobs\n");
    free(text);
}
END_TEST

/* Of another version, or the one that holds the first blocks was not reached. */
START_TEST(job_has_at_least_the_variables_of_the_shard_with_most)
{
    struct shard_answer answers[] = {
        answer_of(0, "{\"job\": [{\"name\": \"train\", \"options\": \"async\", \"workers\": 1, \"variables\": 7}]}"),
        answer_of(1, "{\"job\": [{\"name\": \"train\", \"options\": \"async\", \"workers\": 1, \"variables\": 9}]}")};
    char *text = render_shown(VIEW_JOBS, answers, 2, false);

    ck_assert_line(text, "train all 1 0 0 0 0 0 9 0 async");
    free(text);
}
END_TEST

START_TEST(jobs_that_are_over_come_last_and_are_dimmed)
{
    struct shard_answer answers[] = {
        answer_of(0, "{\"job\": [{\"name\": \"a-over\", \"workers\": 2, \"finished\": 2},"
                     " {\"name\": \"b-lapsed\", \"workers\": 2}, {\"name\": \"c-empty\", \"workers\": 2},"
                     " {\"name\": \"d-runs\", \"workers\": 2}],"
                     " \"worker\": [{\"job\": \"a-over\", \"task\": 0, \"finished\": true},"
                     "  {\"job\": \"a-over\", \"task\": 1, \"finished\": true},"
                     "  {\"job\": \"b-lapsed\", \"task\": 0, \"finished\": true},"
                     "  {\"job\": \"b-lapsed\", \"task\": 1, \"lapsed\": true},"
                     "  {\"job\": \"d-runs\", \"task\": 0, \"finished\": true}, {\"job\": \"d-runs\", \"task\": 1}]}")};
    char *text;
    size_t size;
    struct printer page = {.out = open_memstream(&text, &size), .colour = true};

    render_tables(VIEW_JOBS, answers, 1, &page);
    fclose(page.out);
    ck_assert(strstr(text, "b-lapsed") < strstr(text, "c-empty") && strstr(text, "c-empty") < strstr(text, "d-runs"));
    ck_assert(strstr(text, "d-runs") < strstr(text, "a-over"));
    ck_assert_ptr_nonnull(strstr(text, "\x1b[2ma-over\x1b[0m"));
    ck_assert_ptr_null(strstr(text, "\x1b[2mb-lapsed"));
    answer_finish(&answers[0]);
    free(text);
}
END_TEST

START_TEST(variables_on_one_some_or_all_shards_add_up)
{
#define ONE(name, blocks, version)                                                                                     \
    "{\"job\": \"train\", \"name\": \"" name "\", \"blocks\": " #blocks ", \"bytes\": 10, \"pushes\": " #blocks        \
    ", \"pushed_bytes\": 4, \"version_min\": " #version ", \"version_max\": " #version "}"
    struct shard_answer answers[] = {answer_of(0, "{\"variable\": [" ONE("all", 1, 3) "," ONE("one", 2, 7) "]}"),
                                     answer_of(1, "{\"variable\": [" ONE("some", 3, 4) "," ONE("all", 1, 5) "]}"),
                                     answer_of(2, "{\"variable\": [" ONE("all", 1, 4) "," ONE("some", 5, 2) "]}")};
    char *text = render_shown(VIEW_VARIABLES, answers, 3, false);

    ck_assert_line(text, "train all scalar all 3 30 B 3-5 3 12 B 0 0 B 0 0 0");
    ck_assert_line(text, "train one scalar all 2 10 B 7 2 4 B 0 0 B 0 0 0");
    ck_assert_line(text, "train some scalar all 8 20 B 2-4 8 8 B 0 0 B 0 0 0");
    ck_assert_line(text, "total all 13 60 B 13 24 B 0 0 B 0 0");
    ck_assert_line(text, "2 6 20 B 6 8 B 0 0 B 0 0");
#undef ONE
    free(text);
}
END_TEST

START_TEST(a_store_that_is_nearly_full_says_how_full)
{
    struct shard_answer answers[] = {
        answer_of(0, "{\"status\": {\"shards\": 2, \"store_bytes\": 89, \"store_bytes_max\": 100}}"),
        answer_of(1, "{\"status\": {\"shards\": 2, \"shard\": 1, \"store_bytes\": 90, \"store_bytes_max\": 100}}")};
    char *text = render_shown(VIEW_STATUS, answers, 2, false);

    ck_assert_ptr_nonnull(strstr(text, " 89 B of 100 B  "));
    ck_assert_ptr_nonnull(strstr(text, " 90 B of 100 B, 90 %  "));
    free(text);
}
END_TEST

START_TEST(a_shard_is_well_when_it_answers_serves_and_has_room)
{
    static const struct {
        const char *report, *why;
    } all[] = {
        {"{\"status\": {\"store_bytes\": 949, \"store_bytes_max\": 1000}}", NULL},
        {"{\"status\": {\"store_bytes\": 950, \"store_bytes_max\": 1000}}", "its memory is 95 % full"},
        {"{\"status\": {\"draining\": true}}", "draining"},
        {"{\"status\": {}}", NULL},
    };
    struct shard_answer a = answer_lost(0);
    char why[128];

    ck_assert(!health_check(&a, why, sizeof why));
    ck_assert_str_eq(why, "not reached: connection refused");
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        a = answer_of(0, all[i].report);
        ck_assert_int_eq(health_check(&a, why, sizeof why), all[i].why == NULL);
        if (all[i].why != NULL)
            ck_assert_str_eq(why, all[i].why);
        answer_finish(&a);
    }
}
END_TEST

START_TEST(ping_gives_least_median_and_most)
{
    double odd[] = {30, 10, 1234}, even[] = {4, 1, 3, 2};
    struct shard_answer answers[] = {{.shard = 0, .address = "a:1", .reached = true, .pings = odd, .pings_len = 3},
                                     {.shard = 1, .address = "b:2", .reached = true, .pings = even, .pings_len = 4},
                                     answer_lost(2)};
    char *text = render_shown(VIEW_PING, answers, 3, false);

    ck_assert_line(text, "0 a:1 3 10.0 us 30.0 us 1.23 ms");
    ck_assert_line(text, "1 b:2 4 1.0 us 2.5 us 4.0 us");
    ck_assert_line(text, "2 c:3 0");
    free(text);
}
END_TEST

START_TEST(json_is_one_document_with_everything)
{
    double trips[] = {3, 1, 2};
    struct shard_answer answers[] = {answer_of(0, "{\"status\": {\"pid\": 9007199254740993}}"),
                                     answer_lost(1),
                                     {.shard = 2, .address = "d:4", .reached = true, .pings = trips, .pings_len = 3}};
    char *text = render_shown(VIEW_STATUS, answers, 3, true);
    json_t *root = answers_kit_report(text), *shards = json_object_get(root, "shards");

    ck_assert_str_eq(json_string_value(json_object_get(root, "command")), "status");
    ck_assert_int_eq(json_integer_value(json_object_get(root, "not_reached")), 1);
    ck_assert_uint_eq(json_array_size(shards), 3);
    ck_assert_int_eq(json_integer_value(json_object_get(
                         json_object_get(json_object_get(json_array_get(shards, 0), "report"), "status"), "pid")),
                     INT64_C(9007199254740993));
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(json_array_get(shards, 1), "error"), "code")),
                     "UNREACHABLE");
    ck_assert(json_real_value(json_object_get(json_object_get(json_array_get(shards, 2), "ping"), "median_us")) == 2.0);
    json_decref(root);
    free(text);
}
END_TEST

/* Variables are made into JSON one at a time: the document is as if they were in the report. */
START_TEST(json_of_variables_is_as_that_of_the_reports)
{
    static const char *const texts[] = {
        "{\"kind\": \"VARIABLES\", \"variable\": [{\"job\": \"j\", \"name\": \"a\\\"b\", \"dims\": [64, 10], "
        "\"bytes\": 7,"
        " \"learning_rate\": 0.5}, {\"job\": \"j\", \"name\": \"c\"}], \"worker\": [], \"more\": false}",
        "{\"kind\": \"VARIABLES\", \"variable\": [], \"worker\": [], \"more\": false}"};
    struct shard_answer answers[] = {answer_of(0, texts[0]), answer_of(1, texts[1]), answer_lost(2)};
    json_t *document = render_document("variables", answers, 3, true), *whole = json_deep_copy(document), *list;
    char *expected, *text;
    size_t size;
    struct printer page = {.out = open_memstream(&text, &size)};

    list = json_object_get(json_object_get(json_array_get(json_object_get(whole, "shards"), 0), "report"), "variable");
    for (size_t i = 0; i < answers[0].variables->len; i++)
        json_array_append_new(list, json_loads(answers[0].variables->rows[i].json, 0, NULL));
    expected = json_dumps(whole, JSON_INDENT(2));
    render_print_answers(document, answers, 3, &page);
    fclose(page.out);
    ck_assert_uint_eq(strlen(text), strlen(expected) + 1);
    ck_assert(strncmp(text, expected, strlen(expected)) == 0);
    ck_assert_ptr_nonnull(strstr(text, "\"name\": \"a\\\"b\""));
    free(expected);
    free(text);
    json_decref(whole);
    answer_finish(&answers[0]);
    answer_finish(&answers[1]);
}
END_TEST

START_TEST(json_survives_what_is_no_utf8)
{
    struct shard_answer answers[] = {answer_of(0, "{}"), answer_lost(1)};
    json_t *root, *shards;
    char *text;

    answers[0].address = "unix:/tmp/\xff";
    strcpy(answers[1].error.text, "no job '\xc3"); /* a name that was cut in the middle of a letter */
    strcpy(answers[1].error.peer, "shard 1 at \xe2\x82");
    text = render_shown(VIEW_STATUS, answers, 2, true);
    root = answers_kit_report(text);
    shards = json_object_get(root, "shards");
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(shards, 0), "address")), "unix:/tmp/?");
    shards = json_object_get(json_array_get(shards, 1), "error");
    ck_assert_str_eq(json_string_value(json_object_get(shards, "text")), "no job '?");
    ck_assert_str_eq(json_string_value(json_object_get(shards, "peer")), "shard 1 at ??");
    json_decref(root);
    free(text);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("view");
    TCase *t = tcase_create("view");

    tcase_add_test(t, variables_are_summed_over_shards);
    tcase_add_test(t, status_says_which_shards_were_not_reached);
    tcase_add_test(t, status_says_what_was_saved);
    tcase_add_test(t, status_warns_of_a_list_in_the_wrong_order);
    tcase_add_test(t, stats_show_counters_and_ages);
    tcase_add_test(t, stats_show_the_shard_that_is_nearest_to_a_limit);
    tcase_add_test(t, blocked_says_who_waits_for_whom);
    tcase_add_test(t, blocked_says_what_else_is_waited_for);
    tcase_add_test(t, blocked_names_a_shard_that_everybody_waits_for);
    tcase_add_test(t, blocked_says_what_it_leaves_out);
    tcase_add_test(t, workers_are_grouped_by_job_and_task);
    tcase_add_test(t, jobs_count_each_worker_and_each_variable_once);
    tcase_add_test(t, job_has_at_least_the_variables_of_the_shard_with_most);
    tcase_add_test(t, jobs_that_are_over_come_last_and_are_dimmed);
    tcase_add_test(t, variables_on_one_some_or_all_shards_add_up);
    tcase_add_test(t, a_store_that_is_nearly_full_says_how_full);
    tcase_add_test(t, a_shard_is_well_when_it_answers_serves_and_has_room);
    tcase_add_test(t, ping_gives_least_median_and_most);
    tcase_add_test(t, json_is_one_document_with_everything);
    tcase_add_test(t, json_of_variables_is_as_that_of_the_reports);
    tcase_add_test(t, json_survives_what_is_no_utf8);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
