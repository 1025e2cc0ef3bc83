#include "client/tools/psrun/launch_plan.h"

#include <jansson.h>
#include <signal.h>
#include <string.h>

#include "client/tools/psrun/exit_status.h"
#include "common/core/cluster/tfconfig.h"
#include "tests/unit/kits/check_main.h"

/* The settings as options_parse() leaves them without options, for two shards and three workers. */
static void
settings_of(struct psrun_options *s)
{
    *s = (struct psrun_options){.shards = 2,
                                .workers = 3,
                                .cluster = "local",
                                .worker_port = 2222,
                                .ssh = "ssh",
                                .remote_psrun = "psrun",
                                .connect_ms = 10000,
                                .silence_ms = 60000};
}

/* The plan of these settings, on a machine of eight cores named "here.lab". */
static struct launch_plan
plan_from(struct psrun_options *settings)
{
    static char *const program[] = {(char *)"train", (char *)"--epochs=5", NULL};
    struct launch_plan p = {.settings = settings,
                            .program = program,
                            .psd = "/bin/psd",
                            .work_dir = "/home/ada",
                            .dir = "/run/x",
                            .remote_dir = "/dev/shm/psrun-here-x",
                            .cpus = 8};

    ck_assert_int_eq(assign_hosts_all(settings, NULL, "here.lab", &p.assigned, NULL), PS_OK);
    return p;
}

/* The same with addresses, as they are once all listen. */
static struct launch_plan
plan_of(struct psrun_options *settings)
{
    struct launch_plan p;

    settings_of(settings);
    p = plan_from(settings);
    ck_assert_int_eq(launch_plan_shard_listens(&p, 0, "127.0.0.1:7001", NULL), PS_OK);
    ck_assert_int_eq(launch_plan_shard_listens(&p, 1, "127.0.0.1:7002", NULL), PS_OK);
    for (uint32_t i = 0; i < 3; i++)
        host_spec_address("127.0.0.1", (uint16_t)(4001 + i), p.assigned.tasks[2 + i].address);
    return p;
}

/* The value of a variable; NULL when it is not there. Fails when it is there twice. */
static const char *
value_of(const struct strlist *env, const char *key)
{
    const char *found = NULL;

    for (size_t i = 0; i < env->len; i++)
        if (strncmp(env->text[i], key, strlen(key)) == 0 && env->text[i][strlen(key)] == '=') {
            ck_assert_ptr_null(found);
            found = env->text[i] + strlen(key) + 1;
        }
    ck_assert_ptr_null(env->text[env->len]);
    return found;
}

static bool
launch_plan_has(const struct strlist *list, const char *text)
{
    for (size_t i = 0; i < list->len; i++)
        if (strcmp(list->text[i], text) == 0)
            return true;
    return false;
}

START_TEST(each_worker_gets_a_tf_config_that_parses)
{
    struct psrun_options settings;
    struct launch_plan p = plan_of(&settings);

    for (uint32_t i = 0; i < 3; i++) {
        char *text = launch_plan_tf_config(&p, i);
        struct tf_config c;

        ck_assert_int_eq(tf_config_parse(text, &c, NULL), PS_OK);
        ck_assert_int_eq(c.type, TF_WORKER);
        ck_assert_uint_eq(c.index, i);
        ck_assert_uint_eq(c.jobs[TF_WORKER].len, 3);
        ck_assert_uint_eq(c.jobs[TF_PS].len, 2);
        ck_assert_str_eq(c.jobs[TF_PS].text[1], "127.0.0.1:7002");
        tf_config_finish(&c);
        free(text);
    }
    assign_hosts_finish(&p.assigned);
}
END_TEST

START_TEST(a_worker_environment_says_who_it_is)
{
    static char *const environment[] = {(char *)"HOME=/h",        (char *)"TF_CONFIG={}",    (char *)"PSD_TASK=9",
                                        (char *)"PSD_TASKS=kept", (char *)"PSRUN_COLUMNS=7", NULL};
    struct psrun_options settings;
    struct launch_plan p = plan_of(&settings);
    struct strlist env = {0};

    launch_plan_worker_env(&p, 2, 0, environment, &env);
    ck_assert_str_eq(value_of(&env, "HOME"), "/h");
    ck_assert_str_eq(value_of(&env, "PSD_TASK"), "2");
    ck_assert_str_eq(value_of(&env, "PSD_TASKS"), "kept");
    ck_assert_str_eq(value_of(&env, "PSD_WORKERS"), "3");
    ck_assert_str_eq(value_of(&env, "PSD_CLUSTER"), "local");
    ck_assert_str_eq(value_of(&env, "PSD_SHARDS"), "127.0.0.1:7001,127.0.0.1:7002");
    ck_assert(strstr(value_of(&env, "TF_CONFIG"), "\"index\":2") != NULL);
    ck_assert_ptr_null(value_of(&env, "PSRUN_COLUMNS"));
    strlist_free(&env);
    launch_plan_worker_env(&p, 0, 91, environment, &env);
    ck_assert_str_eq(value_of(&env, "PSRUN_COLUMNS"), "91");
    strlist_free(&env);
    launch_plan_shard_env(&p, 1, environment, &env);
    ck_assert_ptr_null(value_of(&env, "TF_CONFIG"));
    ck_assert_ptr_null(value_of(&env, "PSD_TASK"));
    ck_assert_ptr_null(value_of(&env, "PSD_TRACE_FILE"));
    strlist_free(&env);
    p.trace_dir = "/traces";
    launch_plan_shard_env(&p, 1, environment, &env);
    ck_assert_str_eq(value_of(&env, "PSD_TRACE_FILE"), "/traces/shard-1.json");
    strlist_free(&env);
    launch_plan_worker_env(&p, 2, 0, environment, &env);
    ck_assert_str_eq(value_of(&env, "PSD_TRACE_FILE"), "/traces/worker-2.json");
    strlist_free(&env);
    assign_hosts_finish(&p.assigned);
}
END_TEST

START_TEST(threads_are_the_share_of_the_machine)
{
    static char *const bare[] = {NULL}, *const chosen[] = {(char *)"OPENBLAS_NUM_THREADS=5", NULL};
    struct psrun_options settings;
    struct launch_plan p = plan_of(&settings);
    struct strlist env = {0};

    ck_assert_uint_eq(launch_plan_threads(&p), 2);
    launch_plan_worker_env(&p, 0, 0, bare, &env);
    ck_assert_str_eq(value_of(&env, "OPENBLAS_NUM_THREADS"), "2");
    ck_assert_str_eq(value_of(&env, "OMP_NUM_THREADS"), "2");
    strlist_free(&env);
    launch_plan_worker_env(&p, 0, 0, chosen, &env);
    ck_assert_str_eq(value_of(&env, "OPENBLAS_NUM_THREADS"), "5");
    strlist_free(&env);
    settings.cpus_per_worker = 7;
    launch_plan_worker_env(&p, 0, 0, chosen, &env);
    ck_assert_str_eq(value_of(&env, "OPENBLAS_NUM_THREADS"), "7");
    strlist_free(&env);
    settings.cpus_per_worker = 0;
    p.cpus = 2; /* for three workers */
    ck_assert_uint_eq(launch_plan_threads(&p), 1);
    assign_hosts_finish(&p.assigned);
}
END_TEST

START_TEST(env_has_the_last_word)
{
    static char *const environment[] = {(char *)"A=1", NULL};
    struct psrun_options settings;
    struct launch_plan p = plan_of(&settings);
    struct strlist env = {0};

    settings.env = (struct option_list){.text = {"A=2", "OPENBLAS_NUM_THREADS=1", "B=x=y", "A=3"}, .len = 4};
    launch_plan_worker_env(&p, 0, 0, environment, &env);
    ck_assert_str_eq(value_of(&env, "A"), "3");
    ck_assert_str_eq(value_of(&env, "B"), "x=y");
    ck_assert_str_eq(value_of(&env, "OPENBLAS_NUM_THREADS"), "1");
    strlist_free(&env);
    assign_hosts_finish(&p.assigned);
}
END_TEST

START_TEST(a_shard_is_told_where_it_belongs)
{
    struct psrun_options settings;
    struct launch_plan p = plan_of(&settings);
    struct strlist argv = {0};

    settings.psd_options = (struct option_list){.text = {"--grace=1s"}, .len = 1};
    p.assigned.tasks[1].host.port = 0; /* it has not reported its address */
    launch_plan_shard_argv(&p, 1, 4, &argv);
    ck_assert_str_eq(argv.text[0], "/bin/psd");
    ck_assert(launch_plan_has(&argv, "--cluster=local") && launch_plan_has(&argv, "--shard=1") &&
              launch_plan_has(&argv, "--shards=2"));
    ck_assert(launch_plan_has(&argv, "--listen=127.0.0.1:0") && launch_plan_has(&argv, "--ready-fd=4"));
    ck_assert(launch_plan_has(&argv, "--live-dir=/run/x/shard-1/live"));
    ck_assert_str_eq(argv.text[argv.len - 1], "--grace=1s");
    for (size_t i = 0; i < argv.len; i++)
        ck_assert_ptr_null(strstr(argv.text[i], "--durable-dir"));
    strlist_free(&argv);
    launch_plan_shard_argv(&p, 0, 4, &argv); /* started again: where it was */
    ck_assert(launch_plan_has(&argv, "--listen=127.0.0.1:7001"));
    strlist_free(&argv);
    settings.unix_sockets = true;
    settings.live_dir = "/data";
    settings.durable_dir = "/disk";
    launch_plan_shard_argv(&p, 0, 4, &argv);
    ck_assert(launch_plan_has(&argv, "--durable-dir=/disk/shard-0"));
    ck_assert(launch_plan_has(&argv, "--listen=unix:/run/x/shard-0/psd.sock") &&
              launch_plan_has(&argv, "--live-dir=/data/shard-0"));
    strlist_free(&argv);
    assign_hosts_finish(&p.assigned);
}
END_TEST

START_TEST(a_shard_that_its_machine_gives_a_loopback_address_is_refused)
{
    struct psrun_options settings;
    struct strlist argv = {0};
    struct ps_error e;
    struct launch_plan p;

    settings_of(&settings);
    settings.hosts = "hostb,hostc";
    p = plan_from(&settings);
    launch_plan_shard_argv(&p, 0, 4, &argv);
    ck_assert(launch_plan_has(&argv, "--listen=hostb:0"));
    strlist_free(&argv);
    ck_assert_int_eq(launch_plan_shard_listens(&p, 0, "127.0.1.1:7001", &e), PS_ERR_UNREACHABLE);
    ck_assert_ptr_nonnull(strstr(e.text, "--listen-any"));
    ck_assert_int_eq(launch_plan_shard_listens(&p, 0, "what?", &e), PS_ERR_INVALID);
    ck_assert_int_eq(launch_plan_shard_listens(&p, 0, "10.0.0.7:7001", &e), PS_OK);
    ck_assert_str_eq(launch_plan_shard(&p, 0)->address, "hostb:7001");
    settings.listen_any = true;
    launch_plan_shard_argv(&p, 0, 4, &argv); /* again, where it was */
    ck_assert(launch_plan_has(&argv, "--listen=0.0.0.0:7001"));
    strlist_free(&argv);
    ck_assert_int_eq(launch_plan_shard_listens(&p, 1, "0.0.0.0:7002", &e), PS_OK);
    ck_assert_str_eq(launch_plan_shard(&p, 1)->address, "hostc:7002");
    assign_hosts_finish(&p.assigned);
}
END_TEST

START_TEST(an_order_has_all_that_another_machine_needs)
{
    static const char *const dirs[] = {"/dev/shm/psrun-here-x", "/dev/shm/psrun-here-x/shard-1",
                                       "/dev/shm/psrun-here-x/shard-1/live"};
    static char *const carried[] = {"PSD_TLS_CA=ca.pem", "PSD_TLS_NAME=psd", NULL};
    struct psrun_options settings;
    struct remote_order order;
    struct launch_plan p;

    settings_of(&settings);
    settings.hosts = "hostb";
    settings.restart_shards = 1;
    settings.env = (struct option_list){.text = {"A=b c"}, .len = 1};
    p = plan_from(&settings);
    launch_plan_shard_order(&p, 1, 4, &order);
    ck_assert(order.shard && order.hold);
    ck_assert_uint_eq(order.memory_shards, 2);
    ck_assert_uint_eq(order.dirs.len, ARRAY_LEN(dirs));
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
        ck_assert_str_eq(order.dirs.text[i], dirs[i]);
    ck_assert_str_eq(order.remove_dir, dirs[1]);
    ck_assert_str_eq(order.argv.text[0], ""); /* the psd that is found there */
    ck_assert_str_eq(value_of(&order.env, "A"), "b c");
    remote_order_finish(&order);
    settings.live_dir = "/data";
    settings.durable_dir = "/disk";
    settings.remote_psd = "/opt/psd";
    launch_plan_shard_order(&p, 1, 4, &order);
    ck_assert_uint_eq(order.dirs.len, 4);
    ck_assert_str_eq(order.dirs.text[0], "/disk");
    ck_assert_str_eq(order.dirs.text[1], "/disk/shard-1");
    ck_assert_str_eq(order.dirs.text[3], "/data/shard-1"); /* its memory is measured by the last */
    ck_assert(launch_plan_has(&order.argv, "--durable-dir=/disk/shard-1"));
    ck_assert_str_eq(order.remove_dir, "");
    ck_assert_str_eq(order.argv.text[0], "/opt/psd");
    remote_order_finish(&order);
    launch_plan_worker_order(&p, 2, 80, &order);
    ck_assert(!order.shard && !order.hold);
    ck_assert_str_eq(order.dir, "/home/ada");
    ck_assert_uint_eq(order.workers, 3);
    ck_assert_uint_eq(order.env.len, 8); /* TF_CONFIG, PSD_* (4), PWD, PSRUN_COLUMNS, A: none of psrun's, no threads */
    ck_assert_str_eq(value_of(&order.env, "PWD"), order.dir);
    ck_assert_str_eq(value_of(&order.env, "PSD_TASK"), "2");
    ck_assert_str_eq(value_of(&order.env, "PSRUN_COLUMNS"), "80");
    ck_assert_uint_eq(order.argv.len, 2);
    remote_order_finish(&order);
    p.carried = carried;
    settings.env = (struct option_list){.text = {"A=b c", "PSD_TLS_NAME=lab"}, .len = 2};
    launch_plan_worker_order(&p, 2, 80, &order);
    ck_assert_uint_eq(order.env.len, 10);
    ck_assert_str_eq(value_of(&order.env, "PSD_TLS_CA"), "ca.pem");
    ck_assert_str_eq(value_of(&order.env, "PSD_TLS_NAME"), "lab"); /* --env has the last word */
    remote_order_finish(&order);
    settings.cpus_per_worker = 3;
    launch_plan_worker_order(&p, 2, 0, &order);
    ck_assert_uint_eq(order.workers, 0);
    ck_assert_str_eq(value_of(&order.env, "OMP_NUM_THREADS"), "3");
    remote_order_finish(&order);
    assign_hosts_finish(&p.assigned);
}
END_TEST

START_TEST(where_certificates_lie_is_carried_and_nothing_else)
{
    static char *const environment[] = {"PSD_TLS_KEY=/etc/psd/worker.key",
                                        "HOME=/root",
                                        "PSD_TLS_KEY_TEXT=secret",
                                        "PSD_TLS_CA=ca.pem",
                                        "PSD_TOKEN=t:x",
                                        "PSD_TLS_NAME=",
                                        "PSD_TLS_CERT=worker.pem",
                                        "MY_PSD_TLS_CA=",
                                        NULL};
    struct strlist carried = {0};

    launch_plan_carried(environment, &carried);
    ck_assert_uint_eq(carried.len, 4);
    ck_assert_str_eq(value_of(&carried, "PSD_TLS_CA"), "ca.pem");
    ck_assert_str_eq(value_of(&carried, "PSD_TLS_CERT"), "worker.pem");
    ck_assert_str_eq(value_of(&carried, "PSD_TLS_KEY"), "/etc/psd/worker.key");
    ck_assert_str_eq(value_of(&carried, "PSD_TLS_NAME"), ""); /* none is wanted: this is passed on, too */
    strlist_free(&carried);
}
END_TEST

/* One more argument for psd, and how many shards then share the memory. */
static const struct {
    const char *option;
    uint32_t shards;
} memories[] = {
    {"--grace=2s", 2}, {"--memory=1GiB", 0}, {"--memory", 0}, {"--config=psd.conf", 0}, {"--memory-map", 2},
};

START_TEST(shards_of_one_machine_share_its_memory)
{
    struct psrun_options settings;
    struct launch_plan p = plan_of(&settings);

    settings.psd_options = (struct option_list){.text = {"--in-flight=64MiB", memories[_i].option}, .len = 2};
    ck_assert_uint_eq(launch_plan_memory_shards(&p, 1), memories[_i].shards);
    assign_hosts_finish(&p.assigned);
}
END_TEST

START_TEST(a_chief_is_the_first_worker_and_an_evaluator_none)
{
    static const char config[] = "{\"cluster\": {\"ps\": [\"b:1\"], \"chief\": [\"b:2\"], \"worker\": [\"b:3\"], "
                                 "\"evaluator\": [\"b:4\"]}}";
    static char *const bare[] = {NULL};
    static const char *const numbers[] = {"0", "1", NULL};
    static const enum tf_job jobs[] = {TF_CHIEF, TF_WORKER, TF_EVALUATOR};
    struct psrun_options settings;
    struct launch_plan p = {.settings = &settings, .cpus = 1};

    settings_of(&settings);
    ck_assert_int_eq(assign_hosts_all(&settings, config, "here", &p.assigned, NULL), PS_OK);
    for (uint32_t i = 0; i < 3; i++) {
        struct strlist env = {0};
        struct tf_config c;

        launch_plan_worker_env(&p, i, 0, bare, &env);
        ck_assert_pstr_eq(value_of(&env, "PSD_TASK"), numbers[i]);
        ck_assert_str_eq(value_of(&env, "PSD_WORKERS"), "2");
        ck_assert_int_eq(tf_config_parse(value_of(&env, "TF_CONFIG"), &c, NULL), PS_OK);
        ck_assert_int_eq(c.type, jobs[i]);
        ck_assert_uint_eq(c.index, 0);
        ck_assert_str_eq(c.jobs[TF_EVALUATOR].text[0], "b:4");
        tf_config_finish(&c);
        strlist_free(&env);
    }
    assign_hosts_finish(&p.assigned);
}
END_TEST

/* --psd, PSD_BIN, psrun's path, PATH, and the candidates in order. */
static const char *const places[][5] = {
    {NULL, NULL, "/b/client/tools/psrun", "/usr/bin:/bin",
     "/b/client/tools/psd /b/client/tools/../../server/psd /usr/bin/psd /bin/psd"},
    {NULL, "/my/psd", "/b/psrun", "/bin", "/my/psd"},
    {NULL, "", "/b/psrun", "", "/b/psd /b/../../server/psd"},
    {"./psd-new", "/my/psd", "/b/psrun", "/bin", "./psd-new"},
    {"psd-new", "/my/psd", "/b/psrun", "/usr/bin::/bin", "/usr/bin/psd-new /bin/psd-new"},
    {NULL, NULL, "/b/psrun", NULL, "/b/psd /b/../../server/psd"},
};

START_TEST(the_server_is_looked_for_in_order)
{
    struct strlist list = {0};
    char text[512] = "";

    launch_plan_psd_candidates(places[_i][0], places[_i][1], places[_i][2], places[_i][3], &list);
    for (size_t i = 0; i < list.len; i++)
        strcat(strcat(text, i > 0 ? " " : ""), list.text[i]);
    ck_assert_str_eq(text, places[_i][4]);
    strlist_free(&list);
}
END_TEST

START_TEST(wrong_settings_are_refused)
{
    static char *words[] = {(char *)"train", NULL};
    struct command_line line = {.words = words, .len = 1};
    struct psrun_options settings;
    struct ps_error e;

    settings_of(&settings);
    ck_assert_int_eq(psrun_options_check(&settings, &line, NULL), PS_OK);
    settings.env = (struct option_list){.text = {"A=1", "=1"}, .len = 2};
    ck_assert_int_eq(psrun_options_check(&settings, &line, &e), PS_ERR_INVALID);
    ck_assert(strstr(e.text, "--env: expected K=V, got '=1'") != NULL);
    settings_of(&settings);
    settings.hosts = "b";
    ck_assert_int_eq(psrun_options_check(&settings, &line, NULL), PS_OK);
    settings.ps_hosts = "b:1";
    ck_assert_int_eq(psrun_options_check(&settings, &line, &e), PS_ERR_INVALID);
    ck_assert(strstr(e.text, "exclude each other") != NULL);
    settings.hosts = NULL;
    ck_assert_int_eq(psrun_options_check(&settings, &line, &e), PS_ERR_INVALID);
    ck_assert(strstr(e.text, "--shards: ") != NULL);
    settings.shards = 0;
    ck_assert_int_eq(psrun_options_check(&settings, &line, NULL), PS_OK);
    settings.worker_hosts = "b:2";
    ck_assert_int_eq(psrun_options_check(&settings, &line, &e), PS_ERR_INVALID);
    ck_assert(strstr(e.text, "--workers: ") != NULL);
    settings.workers = 0;
    ck_assert_int_eq(psrun_options_check(&settings, &line, NULL), PS_OK);
    settings.ps_hosts = NULL;
    ck_assert_int_eq(psrun_options_check(&settings, &line, &e), PS_ERR_INVALID);
    ck_assert(strstr(e.text, "needs --ps-hosts") != NULL);
    settings.ps = "b:1";
    ck_assert_int_eq(psrun_options_check(&settings, &line, NULL), PS_OK);
    settings.keep_servers = true;
    ck_assert_int_eq(psrun_options_check(&settings, &line, &e), PS_ERR_INVALID);
    ck_assert(strstr(e.text, "--keep-servers is about shards that psrun starts") != NULL);
    settings_of(&settings);
    line.len = 0;
    ck_assert_int_eq(psrun_options_check(&settings, &line, NULL), PS_ERR_INVALID);
}
END_TEST

START_TEST(a_fate_is_told_in_words)
{
    char text[EXIT_STATUS_TEXT_MAX];

    /* waitpid()'s status: the exit status in the second byte, or the signal in the first, 0x80 for a core. */
    ck_assert_str_eq(exit_status_text(3 << 8, text), "exited with status 3");
    ck_assert_int_eq(exit_status_code(3 << 8), 3);
    ck_assert(strstr(exit_status_text(SIGKILL, text), "was killed by signal 9 (KILL: ") == text);
    ck_assert_int_eq(exit_status_code(SIGKILL), 137);
    ck_assert(strstr(exit_status_text(SIGSEGV | 0x80, text), ", core dumped") != NULL);
    ck_assert_int_eq(exit_status_code(SIGSEGV | 0x80), 139);
    ck_assert(strstr(exit_status_text(SIGRTMIN + 3, text), "signal 37 (?") != NULL);
    ck_assert_str_eq(exit_status_signal(SIGINT), "INT");
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("plan");
    TCase *t = tcase_create("plan");

    tcase_add_test(t, each_worker_gets_a_tf_config_that_parses);
    tcase_add_test(t, a_worker_environment_says_who_it_is);
    tcase_add_test(t, threads_are_the_share_of_the_machine);
    tcase_add_test(t, env_has_the_last_word);
    tcase_add_test(t, a_shard_is_told_where_it_belongs);
    tcase_add_test(t, a_shard_that_its_machine_gives_a_loopback_address_is_refused);
    tcase_add_test(t, an_order_has_all_that_another_machine_needs);
    tcase_add_test(t, where_certificates_lie_is_carried_and_nothing_else);
    tcase_add_loop_test(t, shards_of_one_machine_share_its_memory, 0, ARRAY_LEN(memories));
    tcase_add_test(t, a_chief_is_the_first_worker_and_an_evaluator_none);
    tcase_add_loop_test(t, the_server_is_looked_for_in_order, 0, ARRAY_LEN(places));
    tcase_add_test(t, wrong_settings_are_refused);
    tcase_add_test(t, a_fate_is_told_in_words);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
