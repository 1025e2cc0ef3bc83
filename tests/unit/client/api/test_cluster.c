#include <string.h>

#include "client/api/cluster.h"
#include "common/core/base/base.h"
#include "tests/unit/kits/check_main.h"

/* The environment of the machine that runs the test must not matter. */
static void
clear_environment(void)
{
    unsetenv("TF_CONFIG");
    unsetenv("PSD_SHARDS");
    unsetenv("PSD_WORKERS");
    unsetenv("PSD_TASK");
    unsetenv("PSD_CLUSTER");
}

static ps_cluster *
cluster_of(const char *jobs, const char *type, int index)
{
    struct ps_error e = {0};
    ps_cluster *c = NULL;
    char text[1024];

    snprintf(text, sizeof text, "{\"cluster\": {%s}, \"task\": {\"type\": \"%s\", \"index\": %d}}", jobs, type, index);
    ck_assert_msg(ps_cluster_from_json(text, &c, &e) == PS_OK, "%s", e.text);
    return c;
}

START_TEST(the_chief_is_the_first_of_the_workers)
{
    static const char jobs[] = "\"chief\": [\"c:1\"], \"worker\": [\"w:1\", \"w:2\"], \"ps\": [\"p:1\", \"p:2\"]";
    ps_cluster *c = cluster_of(jobs, "worker", 1);

    ck_assert_int_eq(ps_cluster_role(c), PS_ROLE_WORKER);
    ck_assert_uint_eq(ps_cluster_task(c), 2);
    ck_assert_uint_eq(ps_cluster_index(c), 1);
    ck_assert_uint_eq(ps_cluster_workers(c), 3);
    ck_assert_uint_eq(ps_cluster_shards(c), 2);
    ck_assert(!ps_cluster_is_chief(c));
    ck_assert_str_eq(ps_cluster_shard_address(c, 1), "p:2");
    ck_assert_ptr_null(ps_cluster_shard_address(c, 2));
    ps_cluster_free(c);
    c = cluster_of(jobs, "chief", 0);
    ck_assert_int_eq(ps_cluster_role(c), PS_ROLE_CHIEF);
    ck_assert_uint_eq(ps_cluster_task(c), 0);
    ck_assert(ps_cluster_is_chief(c));
    ps_cluster_free(c);
    c = cluster_of(jobs, "worker", 0);
    ck_assert_uint_eq(ps_cluster_task(c), 1);
    ck_assert(!ps_cluster_is_chief(c));
    ps_cluster_free(c);
}
END_TEST

START_TEST(worker_0_is_chief_when_there_is_none)
{
    static const char jobs[] = "\"worker\": [\"w:1\", \"w:2\"], \"ps\": [\"p:1\"]";
    ps_cluster *c = cluster_of(jobs, "worker", 0);

    ck_assert_int_eq(ps_cluster_role(c), PS_ROLE_WORKER);
    ck_assert(ps_cluster_is_chief(c));
    ps_cluster_free(c);
    c = cluster_of(jobs, "worker", 1);
    ck_assert(!ps_cluster_is_chief(c));
    ps_cluster_free(c);
    c = cluster_of(jobs, "ps", 0);
    ck_assert_int_eq(ps_cluster_role(c), PS_ROLE_PS);
    ck_assert_uint_eq(ps_cluster_task(c), 0);
    ck_assert(!ps_cluster_is_chief(c));
    ps_cluster_free(c);
}
END_TEST

START_TEST(a_cluster_without_shards_has_workers_but_no_client)
{
    ps_client *client = NULL;
    ps_cluster *c;
    struct ps_error e;

    ck_assert_int_eq(ps_cluster_from_json("{\"cluster\": {\"worker\": [\"w:1\", \"w:2\"]},"
                                          " \"task\": {\"type\": \"worker\", \"index\": 1}}",
                                          &c, &e),
                     PS_OK);
    ck_assert(ps_cluster_workers(c) == 2 && ps_cluster_task(c) == 1 && ps_cluster_shards(c) == 0);
    ck_assert_int_eq(ps_client_open(c, NULL, &client, &e), PS_ERR_CONFIG);
    ck_assert(strstr(e.text, "cluster.ps") != NULL);
    ps_cluster_free(c);
    ck_assert_int_eq(ps_cluster_from_json(NULL, &c, NULL), PS_ERR_CONFIG);
    ck_assert_ptr_null(c);
    ps_cluster_free(NULL);
}
END_TEST

START_TEST(a_list_makes_a_worker)
{
    ps_cluster *c;
    struct ps_error e;

    ck_assert_int_eq(ps_cluster_from_list("h:1,unix:/s", 4, 3, &c, NULL), PS_OK);
    ck_assert_uint_eq(ps_cluster_workers(c), 4);
    ck_assert_uint_eq(ps_cluster_task(c), 3);
    ck_assert_uint_eq(ps_cluster_index(c), 3);
    ck_assert_uint_eq(ps_cluster_shards(c), 2);
    ck_assert_str_eq(ps_cluster_shard_address(c, 1), "unix:/s");
    ck_assert_str_eq(ps_cluster_name(c), "psd");
    ck_assert(!ps_cluster_is_chief(c));
    ps_cluster_free(c);
    ck_assert_int_eq(ps_cluster_from_list("h:1", 2, 2, &c, &e), PS_ERR_CONFIG);
    ck_assert(strstr(e.text, "task 2 is out of range") != NULL);
    ck_assert_int_eq(ps_cluster_from_list("h:1", 0, 0, &c, NULL), PS_ERR_CONFIG);
    ck_assert_int_eq(ps_cluster_from_list("", 1, 0, &c, NULL), PS_ERR_CONFIG);
    ck_assert_int_eq(ps_cluster_from_list(NULL, 1, 0, &c, NULL), PS_ERR_CONFIG);
    ck_assert_int_eq(ps_cluster_from_list("h:1,h:1", 1, 0, &c, &e), PS_ERR_CONFIG);
    ck_assert(strstr(e.text, "shards[1]") != NULL);
    ck_assert_ptr_null(c);
}
END_TEST

START_TEST(the_environment_prefers_tf_config)
{
    ps_cluster *c;

    clear_environment();
    setenv("PSD_SHARDS", "a:1,b:1,c:1", 1);
    ck_assert_int_eq(ps_cluster_from_env(&c, NULL), PS_OK);
    ck_assert_uint_eq(ps_cluster_shards(c), 3);
    ck_assert_uint_eq(ps_cluster_workers(c), 1);
    ps_cluster_free(c);
    setenv("PSD_WORKERS", "3", 1);
    setenv("PSD_TASK", "2", 1);
    setenv("PSD_CLUSTER", "lab", 1);
    ck_assert_int_eq(ps_cluster_from_env(&c, NULL), PS_OK);
    ck_assert_uint_eq(ps_cluster_workers(c), 3);
    ck_assert_uint_eq(ps_cluster_task(c), 2);
    ck_assert_str_eq(ps_cluster_name(c), "lab");
    ps_cluster_free(c);
    setenv("TF_CONFIG",
           "{\"cluster\": {\"worker\": [\"w:1\"], \"ps\": [\"p:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}",
           1);
    ck_assert_int_eq(ps_cluster_from_env(&c, NULL), PS_OK);
    ck_assert_uint_eq(ps_cluster_shards(c), 1);
    ck_assert_str_eq(ps_cluster_name(c), "lab");
    ps_cluster_free(c);
    setenv("TF_CONFIG", "", 1);
    ck_assert_int_eq(ps_cluster_from_env(&c, NULL), PS_OK);
    ck_assert_uint_eq(ps_cluster_shards(c), 3);
    ps_cluster_free(c);
}
END_TEST

#define SPARSE(workers, index)                                                                                         \
    "{\"cluster\": {\"ps\": [\"p:1\"], \"worker\": {" workers "}}, \"task\": {\"type\": \"worker\", \"index\": " index \
    "}}"

START_TEST(workers_that_are_not_listed_are_counted_by_the_highest_or_as_told)
{
    struct ps_error e;
    ps_cluster *c, *copy;

    clear_environment();
    setenv("TF_CONFIG", SPARSE("\"1\": \"w:2\"", "1"), 1);
    ck_assert_int_eq(ps_cluster_from_env(&c, NULL), PS_OK);
    ck_assert(ps_cluster_workers(c) == 2 && ps_cluster_task(c) == 1 && !ps_cluster_is_chief(c));
    ck_assert_ptr_null(cluster_worker_address(c, 0));
    ck_assert_int_eq(cluster_copy(c, &copy, NULL), PS_OK);
    ps_cluster_free(c);
    ck_assert_ptr_null(cluster_worker_address(copy, 0));
    ck_assert_str_eq(cluster_worker_address(copy, 1), "w:2");
    ps_cluster_free(copy);
    setenv("PSD_WORKERS", "3", 1);
    ck_assert_int_eq(ps_cluster_from_env(&c, NULL), PS_OK);
    ck_assert_uint_eq(ps_cluster_workers(c), 3);
    ps_cluster_free(c);
    setenv("TF_CONFIG", SPARSE("\"0\": \"w:1\"", "\"0\""), 1);
    ck_assert_int_eq(ps_cluster_from_env(&c, NULL), PS_OK);
    ck_assert(ps_cluster_workers(c) == 3 && ps_cluster_is_chief(c));
    ps_cluster_free(c);
    setenv("PSD_WORKERS", "1", 1);
    setenv("TF_CONFIG", SPARSE("\"1\": \"w:2\"", "1"), 1);
    ck_assert_int_eq(ps_cluster_from_env(&c, &e), PS_ERR_CONFIG);
    ck_assert_str_eq(e.text, "PSD_WORKERS: there are 1 workers, and TF_CONFIG lists number 1");
    ck_assert_ptr_null(c);
}
END_TEST

/* Variable, value, and text that the sentence must contain. */
static const char *const bad[][3] = {
    {"PSD_SHARDS", "a:1,b", "PSD_SHARDS[1]: 'b'"},
    {"PSD_WORKERS", "two", "PSD_WORKERS: expected a whole number"},
    {"PSD_WORKERS", "-1", "PSD_WORKERS: expected a whole number"},
    {"PSD_WORKERS", "0", "PSD_WORKERS: expected at least 1"},
    {"PSD_WORKERS", "99999999999999999999999", "PSD_WORKERS: expected a whole number"},
    {"PSD_TASK", "0\n1", "got '0\\n1'"},
    {"PSD_TASK", "1x", "PSD_TASK: expected a whole number"},
    {"PSD_TASK", "1", "PSD_TASK: 1 is out of range; PSD_WORKERS is 1"},
    {"PSD_CLUSTER", "a\nb", "PSD_CLUSTER: a cluster's name must be UTF-8"},
    {"PSD_CLUSTER", "\xff", "PSD_CLUSTER: a cluster's name must be UTF-8"},
    {"TF_CONFIG", "{", "TF_CONFIG:1:1: not valid JSON"},
};

START_TEST(a_value_may_have_the_line_end_of_the_file_that_it_is_from)
{
    ps_cluster *c = NULL;
    struct ps_error e;

    clear_environment();
    setenv("PSD_SHARDS", "127.0.0.1:1, 127.0.0.1:2\n", 1);
    setenv("PSD_WORKERS", "3\r\n", 1);
    setenv("PSD_TASK", "2 \n", 1);
    setenv("PSD_CLUSTER", "lab\n", 1);
    ck_assert_msg(ps_cluster_from_env(&c, &e) == PS_OK, "%s", e.text);
    ck_assert(ps_cluster_shards(c) == 2 && ps_cluster_workers(c) == 3 && ps_cluster_task(c) == 2);
    ck_assert_str_eq(ps_cluster_shard_address(c, 1), "127.0.0.1:2");
    ck_assert_str_eq(ps_cluster_name(c), "lab");
    ps_cluster_free(c);
    setenv("PSD_TASK", "0\n1", 1);
    ck_assert_int_eq(ps_cluster_from_env(&c, &e), PS_ERR_CONFIG);
    ck_assert_str_eq(e.text, "PSD_TASK: expected a whole number from 0 to 65536, got '0\\n1'");
    setenv("PSD_SHARDS", "\n", 1); /* as if it were not set */
    ck_assert_int_eq(ps_cluster_from_env(&c, &e), PS_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "neither TF_CONFIG nor PSD_SHARDS is set"));
}
END_TEST

START_TEST(an_error_names_the_variable)
{
    struct ps_error e = {0};
    ps_cluster *c;

    clear_environment();
    setenv("PSD_SHARDS", "a:1", 1);
    setenv(bad[_i][0], bad[_i][1], 1);
    ck_assert_int_eq(ps_cluster_from_env(&c, &e), PS_ERR_CONFIG);
    ck_assert_msg(strstr(e.text, bad[_i][2]) != NULL, "'%s' does not say '%s'", e.text, bad[_i][2]);
    ck_assert_ptr_null(c);
}
END_TEST

START_TEST(an_empty_environment_says_what_is_missing)
{
    struct ps_error e = {0};
    ps_cluster *c;

    clear_environment();
    ck_assert_int_eq(ps_cluster_from_env(&c, &e), PS_ERR_CONFIG);
    ck_assert(strstr(e.text, "TF_CONFIG") != NULL && strstr(e.text, "PSD_SHARDS") != NULL);
}
END_TEST

START_TEST(a_name_is_checked)
{
    char name[300];
    ps_cluster *c;

    ck_assert_int_eq(ps_cluster_from_list("a:1", 1, 0, &c, NULL), PS_OK);
    ck_assert_int_eq(ps_cluster_set_name(c, "größe", NULL), PS_OK);
    ck_assert_str_eq(ps_cluster_name(c), "größe");
    ck_assert_int_eq(ps_cluster_set_name(c, "", NULL), PS_ERR_INVALID);
    ck_assert_int_eq(ps_cluster_set_name(c, NULL, NULL), PS_ERR_INVALID);
    memset(name, 'n', sizeof name);
    name[256] = '\0';
    ck_assert_int_eq(ps_cluster_set_name(c, name, NULL), PS_ERR_INVALID);
    name[255] = '\0';
    ck_assert_int_eq(ps_cluster_set_name(c, name, NULL), PS_OK);
    ck_assert_str_eq(ps_cluster_name(c), name);
    ps_cluster_free(c);
}
END_TEST

START_TEST(a_copy_says_the_same_and_stands_alone)
{
    static const char jobs[] = "\"chief\": [\"c:1\"], \"worker\": [\"w:1\", \"w:2\"], \"ps\": [\"p:1\"]";
    ps_cluster *c = cluster_of(jobs, "worker", 1), *copy = NULL;

    ck_assert_int_eq(ps_cluster_set_name(c, "mine", NULL), PS_OK);
    ck_assert_int_eq(cluster_copy(c, &copy, NULL), PS_OK);
    ps_cluster_free(c);
    ck_assert_str_eq(ps_cluster_name(copy), "mine");
    ck_assert(ps_cluster_task(copy) == 2 && ps_cluster_index(copy) == 1 && ps_cluster_workers(copy) == 3);
    ck_assert_int_eq(ps_cluster_role(copy), PS_ROLE_WORKER);
    ck_assert_str_eq(ps_cluster_shard_address(copy, 0), "p:1");
    ck_assert_str_eq(cluster_worker_address(copy, 0), "c:1");
    ck_assert_str_eq(cluster_worker_address(copy, 2), "w:2");
    ck_assert_ptr_null(cluster_worker_address(copy, 3));
    ps_cluster_free(copy);
    ck_assert_int_eq(ps_cluster_from_list("127.0.0.1:1", 3, 1, &c, NULL), PS_OK);
    ck_assert_int_eq(cluster_copy(c, &copy, NULL), PS_OK);
    ps_cluster_free(c);
    ck_assert(ps_cluster_task(copy) == 1 && ps_cluster_workers(copy) == 3 && ps_cluster_shards(copy) == 1);
    ck_assert_ptr_null(cluster_worker_address(copy, 0));
    ps_cluster_free(copy);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("cluster");
    TCase *t = tcase_create("cluster");

    tcase_add_test(t, the_chief_is_the_first_of_the_workers);
    tcase_add_test(t, worker_0_is_chief_when_there_is_none);
    tcase_add_test(t, a_cluster_without_shards_has_workers_but_no_client);
    tcase_add_test(t, a_list_makes_a_worker);
    tcase_add_test(t, the_environment_prefers_tf_config);
    tcase_add_test(t, workers_that_are_not_listed_are_counted_by_the_highest_or_as_told);
    tcase_add_test(t, a_value_may_have_the_line_end_of_the_file_that_it_is_from);
    tcase_add_loop_test(t, an_error_names_the_variable, 0, ARRAY_LEN(bad));
    tcase_add_test(t, an_empty_environment_says_what_is_missing);
    tcase_add_test(t, a_name_is_checked);
    tcase_add_test(t, a_copy_says_the_same_and_stands_alone);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
