#include "common/core/cluster/tfconfig.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

START_TEST(a_whole_cluster_is_read)
{
    static const char text[] = "{\"cluster\": {\"chief\": [\"c:1\"], \"worker\": [\"w0:1\", \"[::1]:2\"],"
                               " \"ps\": [\"p0:1\", \"unix:/run/p1\"], \"evaluator\": [\"e:1\"]},"
                               " \"task\": {\"type\": \"worker\", \"index\": 1, \"trial\": \"7\"},"
                               " \"environment\": \"cloud\", \"rpc_layer\": \"grpc\"}";
    struct tf_config c;

    ck_assert_int_eq(tf_config_parse(text, &c, NULL), PS_OK);
    ck_assert_uint_eq(c.jobs[TF_CHIEF].len, 1);
    ck_assert_uint_eq(c.jobs[TF_WORKER].len, 2);
    ck_assert_uint_eq(c.jobs[TF_PS].len, 2);
    ck_assert_uint_eq(c.jobs[TF_EVALUATOR].len, 1);
    ck_assert_str_eq(c.jobs[TF_CHIEF].text[0], "c:1");
    ck_assert_str_eq(c.jobs[TF_WORKER].text[1], "[::1]:2");
    ck_assert_str_eq(c.jobs[TF_PS].text[1], "unix:/run/p1");
    ck_assert_int_eq(c.type, TF_WORKER);
    ck_assert_uint_eq(c.index, 1);
    tf_config_finish(&c);
    tf_config_finish(&c);
}
END_TEST

START_TEST(an_evaluator_may_be_left_out_of_the_cluster)
{
    static const char text[] = "{\"cluster\": {\"worker\": [\"w:1\"], \"ps\": [\"p:1\"]},"
                               " \"task\": {\"type\": \"evaluator\", \"index\": 0}}";
    struct tf_config c;

    ck_assert_int_eq(tf_config_parse(text, &c, NULL), PS_OK);
    ck_assert_int_eq(c.type, TF_EVALUATOR);
    tf_config_finish(&c);
}
END_TEST

/* ---- What TensorFlow takes ---- */

static void
assert_place(const char *text, enum tf_job type, uint32_t index, const char *address)
{
    struct ps_error e;
    struct tf_config c;

    ck_assert_msg(tf_config_parse(text, &c, &e) == PS_OK, "%s: %s", text, e.text);
    ck_assert_msg(c.type == type && c.index == index, "%s: %s %u", text, tf_job_name(c.type), c.index);
    ck_assert_str_eq(c.jobs[type].text[index], address);
    tf_config_finish(&c);
}

#define WORKERS(index)                                                                                                 \
    "{\"cluster\": {\"worker\": [\"w:1\", \"w:2\"]}, \"task\": {\"type\": \"worker\", \"index\": " index "}}"

START_TEST(an_index_may_be_a_text)
{
    assert_place(WORKERS("\"1\""), TF_WORKER, 1, "w:2");
    assert_place(WORKERS("\" +1\\n\""), TF_WORKER, 1, "w:2"); /* as Python's int() has it */
    assert_place(WORKERS("1.0"), TF_WORKER, 1, "w:2");
    assert_place("\xef\xbb\xbf" WORKERS("0"), TF_WORKER, 0, "w:1");
}
END_TEST

START_TEST(the_only_one_of_a_job_needs_no_index)
{
    assert_place("{\"cluster\": {\"worker\": [\"w:1\"]}, \"task\": {\"type\": \"worker\"}}", TF_WORKER, 0, "w:1");
    assert_place(
        "{\"cluster\": {\"chief\": [\"c:1\"], \"worker\": [\"w:1\", \"w:2\"]}, \"task\": {\"type\": \"chief\"}}",
        TF_CHIEF, 0, "c:1");
}
END_TEST

START_TEST(a_job_may_be_an_object_of_indices)
{
    static const char sparse[] =
        "{\"cluster\": {\"ps\": {\"1\": \"p:2\", \"0\": \"p:1\"}, \"worker\": {\"3\": \"w:4\", \"1\": \"w:2\"}},"
        " \"task\": {\"type\": \"worker\", \"index\": \"3\"}}";
    struct tf_config c;
    bool task;

    assert_place(sparse, TF_WORKER, 3, "w:4");
    ck_assert_int_eq(tf_config_parse(sparse, &c, NULL), PS_OK);
    ck_assert(c.jobs[TF_WORKER].len == 4 && c.jobs[TF_WORKER].indexed && !c.jobs[TF_CHIEF].indexed);
    ck_assert(c.jobs[TF_WORKER].text[0] == NULL && c.jobs[TF_WORKER].text[2] == NULL);
    ck_assert_str_eq(c.jobs[TF_WORKER].text[1], "w:2");
    ck_assert_str_eq(c.jobs[TF_PS].text[0], "p:1");
    ck_assert_str_eq(c.jobs[TF_PS].text[1], "p:2");
    tf_config_finish(&c);
    ck_assert_int_eq(tf_config_parse_cluster(sparse, &c, &task, NULL), PS_ERR_CONFIG); /* a launcher needs them all */
    tf_config_finish(&c);
    assert_place("{\"sparseCluster\": {\"worker\": {\"1\": \"w:2\"}, \"ps\": [\"p:1\"]}," /* Kubeflow's operator */
                 " \"task\": {\"type\": \"worker\", \"index\": 1}}",
                 TF_WORKER, 1, "w:2");
}
END_TEST

START_TEST(a_master_is_the_chief)
{
    assert_place("{\"cluster\": {\"master\": [\"m:1\"], \"worker\": [\"w:1\"], \"ps\": [\"p:1\"]},"
                 " \"task\": {\"type\": \"master\", \"index\": 0}, \"job\": {}, \"environment\": \"cloud\","
                 " \"session_master\": \"grpc://m:1\", \"service\": {}}",
                 TF_CHIEF, 0, "m:1");
}
END_TEST

START_TEST(addresses_may_have_a_scheme)
{
    static const char *const forms[][2] = {{"grpc://h:1", "h:1"},       {"dns:///h.a:1", "h.a:1"},
                                           {"dns:h:1", "h:1"},          {"ipv4:10.0.0.1:1", "10.0.0.1:1"},
                                           {"ipv6:[::1]:1", "[::1]:1"}, {"dns:1", "dns:1"},
                                           {"ipv4:1", "ipv4:1"},        {"h.ns.svc:02222", "h.ns.svc:02222"}};
    char text[200];

    for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
        snprintf(text, sizeof text,
                 "{\"cluster\": {\"worker\": [\"%s\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}", forms[i][0]);
        assert_place(text, TF_WORKER, 0, forms[i][1]);
    }
}
END_TEST

#define TASK    ", \"task\": {\"type\": \"worker\", \"index\": 0}}"
#define CLUSTER "{\"cluster\": {\"worker\": [\"w:1\", \"w:2\"], \"ps\": [\"p:1\"]}"

/* Text, and the place and reason that the sentence must name. */
static const char *const bad[][2] = {
    {"", "TF_CONFIG:1:"},
    {"{\"cluster\":\n  {\"ps\" [\"p:1\"]}}", "TF_CONFIG:2:9: not valid JSON"},
    {"{\"cluster\": {\"ps\": [\"p:1\"]}", "TF_CONFIG:1:27: not valid JSON"},
    {"{\"cluster\": {\"ps\": [], \"ps\": []}" TASK, "not valid JSON: duplicate object key"},
    {"[]", "TF_CONFIG: expected an object, got a list"},
    {"7", "TF_CONFIG: expected an object, got a number"},
    {"{}", "TF_CONFIG: cluster: missing"},
    {"{\"cluster\": []" TASK, "TF_CONFIG: cluster: expected an object, got a list"},
    {"{\"cluster\": {\"wroker\": [\"w:1\"]}" TASK, "TF_CONFIG: cluster.wroker: unknown job"},
    {"{\"cluster\": {\"wroker\": [\"w:1\"]}" TASK, "evaluator; did you mean worker?"},
    {CLUSTER ", \"task\": {\"type\": \"wroker\", \"index\": 0}}", "evaluator; did you mean worker?"},
    {"{\"cluster\": {\"ps\": [\"p:1 p:2\"]}" TASK, "TF_CONFIG: cluster.ps[0]: 'p:1 p:2' has a blank in it"},
    {"{\"cluster\": {\"worker\": \"w:1\"}" TASK,
     "TF_CONFIG: cluster.worker: expected a list of addresses, got a string"},
    {"{\"cluster\": {\"worker\": {\"a\": \"w:1\"}}" TASK, "TF_CONFIG: cluster.worker: 'a' is not an index"},
    {"{\"cluster\": {\"worker\": {\"-1\": \"w:1\"}}" TASK, "TF_CONFIG: cluster.worker: '-1' is not an index"},
    {"{\"cluster\": {\"worker\": {\"0\": 7}}" TASK, "TF_CONFIG: cluster.worker[0]: expected an address"},
    {"{\"cluster\": {\"worker\": {\"0\": \"w:1\", \"00\": \"w:2\"}}" TASK,
     "cluster.worker[0]: the index is there twice"},
    {"{\"cluster\": {\"worker\": {\"65536\": \"w:1\"}}" TASK, "cluster.worker[65536]: more than 65536 addresses"},
    {"{\"cluster\": {\"worker\": {\"99999999999999999999\": \"w:1\"}}" TASK, "is not an index"},
    {"{\"cluster\": {\"worker\": {\"1\": \"w:1\"}}" TASK, "task.index: cluster.worker does not say where 0 is"},
    {"{\"cluster\": {\"worker\": [\"w:1\"], \"ps\": {\"1\": \"p:1\"}}" TASK,
     "TF_CONFIG: cluster.ps[0]: missing; the address of every ps is needed"},
    {"{\"cluster\": {\"chief\": {\"1\": \"c:1\"}}" TASK, "TF_CONFIG: cluster.chief[1]: there can be only one"},
    {"{\"cluster\": {\"chief\": [\"c:1\"], \"master\": [\"m:1\"]}" TASK, "cluster.chief[0]: the index is there twice"},
    {"{\"cluster\": {\"worker\": null}" TASK, "TF_CONFIG: cluster.worker: expected a list of addresses, got null"},
    {"{\"cluster\": {\"worker\": [\"w:1\", 2]}" TASK, "TF_CONFIG: cluster.worker[1]: expected an address"},
    {"{\"cluster\": {\"worker\": [\"w:1\", null]}" TASK, "TF_CONFIG: cluster.worker[1]: expected an address"},
    {"{\"cluster\": {\"ps\": [\"p:1\", \"p2\"]}" TASK, "TF_CONFIG: cluster.ps[1]: 'p2' is not an address"},
    {"{\"cluster\": {\"ps\": [\"p:0\"]}" TASK, "TF_CONFIG: cluster.ps[0]: 'p:0' has port 0"},
    {"{\"cluster\": {\"worker\": [\"w:1\", \"x:1\", \"w:1\"]}" TASK,
     "TF_CONFIG: cluster.worker[2]: 'w:1' was already given at TF_CONFIG: cluster.worker[0]"},
    {"{\"cluster\": {\"worker\": [\"w:1\"], \"ps\": [\"W:1\"]}" TASK,
     "TF_CONFIG: cluster.ps[0]: 'W:1' was already given at TF_CONFIG: cluster.worker[0]"},
    {"{\"cluster\": {\"chief\": [\"c:1\", \"c:2\"]}" TASK, "TF_CONFIG: cluster.chief[1]: there can be only one"},
    {CLUSTER "}", "TF_CONFIG: task: missing"},
    {CLUSTER ", \"task\": \"worker\"}", "TF_CONFIG: task: expected an object, got a string"},
    {CLUSTER ", \"task\": {\"index\": 0}}", "TF_CONFIG: task.type: missing"},
    {CLUSTER ", \"task\": {\"type\": 3, \"index\": 0}}", "TF_CONFIG: task.type: expected a string, got a number"},
    {CLUSTER ", \"task\": {\"type\": \"master\", \"index\": 0}}", "TF_CONFIG: task.type: unknown job 'master'"},
    {CLUSTER ", \"task\": {\"type\": \"worker\"}}", "TF_CONFIG: task.index: missing"},
    {CLUSTER ", \"task\": {\"type\": \"worker\", \"index\": \"0x1\"}}",
     "task.index: expected a whole number, got '0x1'"},
    {CLUSTER ", \"task\": {\"type\": \"worker\", \"index\": \"\"}}", "TF_CONFIG: task.index: expected a whole number"},
    {CLUSTER ", \"task\": {\"type\": \"worker\", \"index\": \"2\"}}", "TF_CONFIG: task.index: 2 is out of range"},
    {CLUSTER ", \"task\": {\"type\": \"worker\", \"index\": 0.5}}", "got a number with a fraction"},
    {CLUSTER ", \"task\": {\"type\": \"worker\", \"index\": true}}", "got true or false"},
    {CLUSTER ", \"task\": {\"type\": \"worker\", \"index\": 2}}", "TF_CONFIG: task.index: 2 is out of range"},
    {CLUSTER ", \"task\": {\"type\": \"worker\", \"index\": -1}}", "TF_CONFIG: task.index: -1 is out of range"},
    {CLUSTER ", \"task\": {\"type\": \"worker\", \"index\": 4294967296}}", "is out of range"},
    {CLUSTER ", \"task\": {\"type\": \"chief\", \"index\": 0}}", "cluster.chief lists none"},
    {CLUSTER ", \"task\": {\"type\": \"evaluator\", \"index\": 1}}", "TF_CONFIG: task.index: 1 is out of range"},
};

START_TEST(an_error_points_at_the_place)
{
    struct ps_error e = {0};
    struct tf_config c;

    ck_assert_int_eq(tf_config_parse(bad[_i][0], &c, &e), PS_ERR_CONFIG);
    ck_assert_int_eq(e.code, PS_ERR_CONFIG);
    ck_assert_msg(strstr(e.text, bad[_i][1]) != NULL, "'%s' does not say '%s'", e.text, bad[_i][1]);
    tf_config_finish(&c);
}
END_TEST

START_TEST(a_job_name_cannot_flood_the_sentence)
{
    char text[4096];
    struct ps_error e;
    struct tf_config c;

    snprintf(text, sizeof text, "{\"cluster\": {\"%02000d\": []}" TASK, 1);
    ck_assert_int_eq(tf_config_parse(text, &c, &e), PS_ERR_CONFIG);
    ck_assert(strstr(e.text, "unknown job") != NULL);
    tf_config_finish(&c);
}
END_TEST

START_TEST(thousands_of_workers_are_read)
{
    enum { N = 5000 };
    char *text = malloc(N * 32 + 256), *at = text;
    struct tf_config c;

    at += sprintf(at, "{\"cluster\": {\"ps\": [\"p:1\"], \"worker\": [");
    for (int i = 0; i < N; i++)
        at += sprintf(at, "%s\"10.0.%d.%d:2222\"", i > 0 ? "," : "", i / 256, i % 256);
    sprintf(at, "]}, \"task\": {\"type\": \"worker\", \"index\": %d}}", N - 1);
    ck_assert_int_eq(tf_config_parse(text, &c, NULL), PS_OK);
    ck_assert_uint_eq(c.jobs[TF_WORKER].len, N);
    ck_assert_str_eq(c.jobs[TF_WORKER].text[N - 1], "10.0.19.135:2222");
    tf_config_finish(&c);
    free(text);
}
END_TEST

/* Every text cut short is refused, or is whole already: none reads past its end or leaks. */
START_TEST(every_prefix_of_a_good_text_is_refused)
{
    static const char text[] = CLUSTER TASK;
    struct tf_config c;
    char *cut;

    for (size_t n = 0; n < sizeof text - 1; n++) {
        cut = strndup(text, n);
        ck_assert_int_eq(tf_config_parse(cut, &c, NULL), PS_ERR_CONFIG);
        tf_config_finish(&c);
        free(cut);
    }
    ck_assert_int_eq(tf_config_parse(text, &c, NULL), PS_OK);
    tf_config_finish(&c);
}
END_TEST

START_TEST(random_bytes_never_break_the_parser)
{
    static const char good[] = CLUSTER TASK;
    struct test_rng rng = {test_seed()};
    char text[sizeof good];
    struct tf_config c;

    for (int i = 0; i < 20000; i++) {
        memcpy(text, good, sizeof good);
        for (uint64_t n = 1 + test_below(&rng, 4); n > 0; n--)
            text[test_below(&rng, sizeof good - 1)] = (char)(1 + test_below(&rng, 255));
        if (tf_config_parse(text, &c, NULL) == PS_OK) {
            ck_assert(c.type != TF_WORKER || c.index < c.jobs[TF_WORKER].len);
            ck_assert_uint_le(c.jobs[TF_CHIEF].len, 1);
        }
        tf_config_finish(&c);
    }
}
END_TEST

START_TEST(a_cluster_alone_needs_no_task)
{
    struct tf_config c;
    bool task;

    ck_assert_int_eq(
        tf_config_parse_cluster("{\"cluster\": {\"ps\": [\"a:1\"], \"worker\": [\"b:2\"]}}", &c, &task, NULL), PS_OK);
    ck_assert(!task);
    ck_assert_uint_eq(c.jobs[TF_PS].len, 1);
    ck_assert_str_eq(c.jobs[TF_WORKER].text[0], "b:2");
    tf_config_finish(&c);
    ck_assert_int_eq(tf_config_parse_cluster("{\"cluster\": {}, \"task\": 7}", &c, &task, NULL), PS_OK);
    ck_assert(task);
    tf_config_finish(&c);
    ck_assert_int_eq(tf_config_parse_cluster("{\"task\": {}}", &c, &task, NULL), PS_ERR_CONFIG);
    ck_assert(task);
    tf_config_finish(&c);
    ck_assert_int_eq(tf_config_parse_cluster("[", &c, &task, NULL), PS_ERR_CONFIG);
    ck_assert(!task);
    tf_config_finish(&c);
}
END_TEST

START_TEST(a_list_names_its_source_and_place)
{
    struct tf_config c;
    struct ps_error e;

    ck_assert_int_eq(tf_config_parse_list("PSD_SHARDS", "a:1,unix:/x,[::1]:3", &c, NULL), PS_OK);
    ck_assert_uint_eq(c.jobs[TF_PS].len, 3);
    ck_assert_str_eq(c.jobs[TF_PS].text[2], "[::1]:3");
    tf_config_finish(&c);
    ck_assert_int_eq(tf_config_parse_list("PSD_SHARDS", " a:1, b:2,\n\tunix:/a b \n", &c, NULL), PS_OK);
    ck_assert_uint_eq(c.jobs[TF_PS].len, 3);
    ck_assert_str_eq(c.jobs[TF_PS].text[0], "a:1");
    ck_assert_str_eq(c.jobs[TF_PS].text[1], "b:2");
    ck_assert_str_eq(c.jobs[TF_PS].text[2], "unix:/a b");
    tf_config_finish(&c);
    ck_assert_int_eq(tf_config_parse_list("PSD_SHARDS", "a:1 b:2", &c, &e), PS_ERR_CONFIG);
    ck_assert(strstr(e.text, "PSD_SHARDS[0]: 'a:1 b:2' has a blank in it") != NULL);
    tf_config_finish(&c);
    ck_assert_int_eq(tf_config_parse_list("PSD_SHARDS", "a:1, ,b:2", &c, &e), PS_ERR_CONFIG);
    ck_assert(strstr(e.text, "PSD_SHARDS[1]: an address is missing") != NULL);
    tf_config_finish(&c);
    ck_assert_int_eq(tf_config_parse_list("PSD_SHARDS", "a:1,b", &c, &e), PS_ERR_CONFIG);
    ck_assert(strstr(e.text, "PSD_SHARDS[1]: 'b'") != NULL);
    tf_config_finish(&c);
    ck_assert_int_eq(tf_config_parse_list("PSD_SHARDS", "a:1,,b:2", &c, &e), PS_ERR_CONFIG);
    ck_assert(strstr(e.text, "PSD_SHARDS[1]: an address is missing") != NULL);
    tf_config_finish(&c);
    ck_assert_int_eq(tf_config_parse_list("PSD_SHARDS", "a:1,A:1", &c, &e), PS_ERR_CONFIG);
    ck_assert(strstr(e.text, "PSD_SHARDS[1]: 'A:1' was already given at PSD_SHARDS[0]") != NULL);
    tf_config_finish(&c);
    ck_assert_int_eq(tf_config_parse_list("PSD_SHARDS", "a:1,unix:/\xff", &c, &e), PS_ERR_CONFIG);
    ck_assert_str_eq(e.text, "PSD_SHARDS[1]: the address is not UTF-8, or has control characters");
    tf_config_finish(&c);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("tfconfig");
    TCase *t = tcase_create("tfconfig");

    tcase_add_test(t, a_whole_cluster_is_read);
    tcase_add_test(t, an_evaluator_may_be_left_out_of_the_cluster);
    tcase_add_test(t, an_index_may_be_a_text);
    tcase_add_test(t, the_only_one_of_a_job_needs_no_index);
    tcase_add_test(t, a_job_may_be_an_object_of_indices);
    tcase_add_test(t, a_master_is_the_chief);
    tcase_add_test(t, addresses_may_have_a_scheme);
    tcase_add_loop_test(t, an_error_points_at_the_place, 0, ARRAY_LEN(bad));
    tcase_add_test(t, a_job_name_cannot_flood_the_sentence);
    tcase_add_test(t, thousands_of_workers_are_read);
    tcase_add_test(t, every_prefix_of_a_good_text_is_refused);
    tcase_add_test(t, random_bytes_never_break_the_parser);
    tcase_add_test(t, a_cluster_alone_needs_no_task);
    tcase_add_test(t, a_list_names_its_source_and_place);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
