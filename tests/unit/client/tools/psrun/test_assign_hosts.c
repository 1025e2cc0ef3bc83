#include "client/tools/psrun/assign_hosts.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"

static struct psrun_options
nothing_said(void)
{
    return (struct psrun_options){.worker_port = 2222};
}

/* All tasks' names and addresses, one behind the other: "shard 0 here:0; worker 0@b b:2222; ". */
static const char *
assign_hosts_dealt(const struct host_assignment *d, char *out, size_t size)
{
    char name[300];

    *out = '\0';
    for (uint32_t i = 0; i < d->shards + d->workers; i++) {
        assign_hosts_name(&d->tasks[i], name, sizeof name);
        snprintf(out + strlen(out), size - strlen(out), "%s%s %s", i > 0 ? "; " : "", name, d->tasks[i].address);
    }
    return out;
}

static void
deal_is(const struct psrun_options *s, const char *config, const char *wanted)
{
    struct ps_error e = {0};
    char text[4096];
    struct host_assignment d;

    ck_assert_msg(assign_hosts_all(s, config, "here.lab", &d, &e) == PS_OK, "%s", e.text);
    ck_assert_str_eq(assign_hosts_dealt(&d, text, sizeof text), wanted);
    assign_hosts_finish(&d);
}

static void
deal_fails(const struct psrun_options *s, const char *config, const char *why)
{
    struct ps_error e = {0};
    struct host_assignment d;

    ck_assert_int_ne(assign_hosts_all(s, config, "here.lab", &d, &e), PS_OK);
    ck_assert_msg(strstr(e.text, why) != NULL, "'%s' does not say '%s'", e.text, why);
    assign_hosts_finish(&d);
}

START_TEST(without_hosts_all_is_here)
{
    struct psrun_options s = nothing_said();

    deal_is(&s, NULL, "shard 0 ; worker 0 ");
    s.shards = 2;
    s.workers = 3;
    deal_is(&s, NULL, "shard 0 ; shard 1 ; worker 0 ; worker 1 ; worker 2 ");
}
END_TEST

START_TEST(shards_and_workers_are_dealt_in_turn)
{
    struct psrun_options s = nothing_said();

    s.hosts = "here,b,ada@c";
    s.shards = 2;
    s.workers = 5;
    deal_is(&s, NULL,
            "shard 0 ; shard 1@b ; worker 0 here:2222; worker 1@b b:2222; worker 2@c c:2222; worker 3 here:2223; "
            "worker 4@b b:2223");
    s.worker_port = 9000;
    s.shards = s.workers = 0;
    s.hosts = "b";
    deal_is(&s, NULL, "shard 0@b ; worker 0@b b:9000");
}
END_TEST

START_TEST(lists_say_who_is_where)
{
    struct psrun_options s = nothing_said();

    s.ps_hosts = "b:7420,[fe80::2]:0";
    s.worker_hosts = "here.lab:1,b:1,b:2";
    deal_is(&s, NULL, "shard 0@b b:7420; shard 1@fe80::2 ; worker 0 here.lab:1; worker 1@b b:1; worker 2@b b:2");
    s.worker_hosts = NULL;
    s.workers = 2;
    deal_is(&s, NULL, "shard 0@b b:7420; shard 1@fe80::2 ; worker 0 ; worker 1 ");
}
END_TEST

START_TEST(shards_that_run_already_are_only_named)
{
    struct psrun_options s = nothing_said();
    struct host_assignment d;
    bool use;

    s.ps = "b:7420, [::1]:7421,unix:/run/psd/sock";
    s.workers = 2;
    deal_is(&s, NULL, "shard 0 b:7420; shard 1 [::1]:7421; shard 2 unix:/run/psd/sock; worker 0 ; worker 1 ");
    ck_assert_int_eq(assign_hosts_all(&s, NULL, "here.lab", &d, NULL), PS_OK);
    ck_assert(d.given && !d.remote);
    assign_hosts_finish(&d);
    deal_fails(&s, "{\"cluster\": {\"ps\": [\"b:1\"]}}", "no chief and no worker");
    s.hosts = "c, d";
    deal_fails(&s, NULL, "shard 1 is at '[::1]:7421', where d cannot reach it");
    s.ps = "b:7420";
    deal_is(&s, NULL, "shard 0 b:7420; worker 0@c c:2222; worker 1@d d:2222");
    s.hosts = NULL;
    s.worker_hosts = "c:1, here:2";
    deal_is(&s, NULL, "shard 0 b:7420; worker 0@c c:1; worker 1 here:2");
    s.ps = "b:0";
    deal_fails(&s, NULL, "--ps[0]: 'b:0' has port 0");
    s.ps = "b:1,b:1";
    deal_fails(&s, NULL, "'b:1' is given twice");
    s = nothing_said();
    s.ps = "b:1";
    ck_assert_int_eq(assign_hosts_from_env(&s, "{\"cluster\": {\"ps\": [\"x:1\"]}}", &use, NULL), PS_OK);
    ck_assert(!use);
}
END_TEST

START_TEST(tf_config_says_who_is_where)
{
    struct psrun_options s = nothing_said();

    deal_is(&s,
            "{\"cluster\": {\"worker\": [\"b:1\", \"c:1\"], \"evaluator\": [\"here:2\"], \"ps\": [\"b:7420\"], "
            "\"chief\": [\"here:1\"]}}",
            "shard 0@b b:7420; chief 0 here:1; worker 0@b b:1; worker 1@c c:1; evaluator 0 here:2");
    deal_is(&s, "{\"cluster\": {\"worker\": [\"b:1\", \"here:2\"]}}", "worker 0@b b:1; worker 1 here:2");
    deal_fails(&s, "{\"cluster\": {\"ps\": [\"b:1\"]}}", "no chief and no worker");
    deal_fails(&s, "{\"cluster\": {\"ps\": [\"unix:/x\"], \"worker\": [\"b:1\"]}}", "cluster.ps[0]: 'unix:/x'");
    deal_fails(&s, "{\"cluster\": {\"ps\": [\"-x:1\"], \"worker\": [\"b:1\"]}}", "cluster.ps[0]: '-x:1' names no host");
    deal_fails(&s, "{\"cluster\":", "TF_CONFIG:1:");
}
END_TEST

START_TEST(workers_may_be_alone)
{
    struct psrun_options s = nothing_said();

    s.no_shards = true;
    s.workers = 2;
    deal_is(&s, NULL, "worker 0 ; worker 1 ");
    s.hosts = "c,d";
    deal_is(&s, NULL, "worker 0@c c:2222; worker 1@d d:2222");
    s = nothing_said();
    s.no_shards = true;
    s.worker_hosts = "c:1,here:2";
    deal_is(&s, NULL, "worker 0@c c:1; worker 1 here:2");
}
END_TEST

START_TEST(ssh_all_takes_ssh_for_this_machine_too)
{
    struct psrun_options s = nothing_said();
    struct host_assignment d;

    s.hosts = "localhost";
    deal_is(&s, NULL, "shard 0 ; worker 0 localhost:2222");
    s.ssh_all = true;
    deal_is(&s, NULL, "shard 0@localhost ; worker 0@localhost localhost:2222");
    s.hosts = NULL;
    ck_assert_int_eq(assign_hosts_all(&s, NULL, "here.lab", &d, NULL), PS_OK); /* no host, no ssh */
    ck_assert(!d.remote);
    assign_hosts_finish(&d);
}
END_TEST

START_TEST(those_on_one_machine_are_counted)
{
    struct psrun_options s = nothing_said();
    struct host_assignment d;

    s.hosts = "here,b";
    s.shards = 3;
    s.workers = 4;
    ck_assert_int_eq(assign_hosts_all(&s, NULL, "here.lab", &d, NULL), PS_OK);
    ck_assert_uint_eq(d.tasks[0].together, 2);
    ck_assert_uint_eq(d.tasks[1].together, 1);
    ck_assert_uint_eq(d.tasks[2].together, 2);
    for (uint32_t i = 3; i < 7; i++)
        ck_assert_uint_eq(d.tasks[i].together, 2);
    assign_hosts_finish(&d);
}
END_TEST

START_TEST(what_cannot_work_is_refused)
{
    struct psrun_options s = nothing_said();

    s.hosts = "b,,c";
    deal_fails(&s, NULL, "--hosts[1]: '' names no host");
    s.hosts = "b,b";
    deal_fails(&s, NULL, "--hosts[1]: 'b' was already given");
    s.hosts = "b:22";
    deal_fails(&s, NULL, "has a port");
    s.hosts = "localhost,b";
    s.shards = s.workers = 2;
    deal_fails(&s, NULL, "shard 0 is at 'localhost', where b cannot reach it");
    s.hosts = "b";
    s.unix_sockets = true;
    deal_fails(&s, NULL, "--unix is for clusters on one machine");
    s.unix_sockets = false;
    s.keep_servers = true;
    deal_fails(&s, NULL, "--keep-servers is for clusters on one machine");
    s = nothing_said();
    s.ps_hosts = "b:1";
    s.worker_hosts = "b:1";
    deal_fails(&s, NULL, "'b:1' is given twice");
    s.worker_hosts = "b:0";
    deal_fails(&s, NULL, "--worker-hosts[0]: 'b:0' has port 0");
    s.ps_hosts = "b";
    deal_fails(&s, NULL, "--ps-hosts[0]: ");
}
END_TEST

START_TEST(too_many_are_refused)
{
    struct psrun_options s = nothing_said();
    char list[PSRUN_SHARDS_MAX * 8 + 16] = "";

    for (int i = 0; i <= PSRUN_SHARDS_MAX; i++)
        sprintf(list + strlen(list), "%sb:%d", i > 0 ? "," : "", i + 1);
    s.ps_hosts = list;
    deal_fails(&s, NULL, "psrun starts at most 256");
}
END_TEST

/* The environment's TF_CONFIG, and whether it is used. */
static const struct {
    const char *config;
    bool use;
} environments[] = {
    {NULL, false},
    {"", false},
    {"{\"cluster\": {\"ps\": [\"b:1\"], \"worker\": [\"b:2\"]}}", true},
    {"{\"cluster\": {\"ps\": [\"b:1\"]}, \"task\": {\"type\": \"ps\", \"index\": 0}}", false},
    {"{\"cluster\": 7, \"task\": {}}", false},
};

START_TEST(a_tf_config_without_a_task_is_what_to_start)
{
    struct psrun_options s = nothing_said();
    bool use;

    ck_assert_int_eq(assign_hosts_from_env(&s, environments[_i].config, &use, NULL), PS_OK);
    ck_assert_int_eq(use, environments[_i].use);
    s.workers = 1;
    ck_assert_int_eq(assign_hosts_from_env(&s, environments[_i].config, &use, NULL), PS_OK);
    ck_assert(!use);
}
END_TEST

START_TEST(a_tf_config_that_is_damaged_is_said_so)
{
    struct psrun_options s = nothing_said();
    struct ps_error e;
    bool use;

    ck_assert_int_eq(assign_hosts_from_env(&s, "{\"cluster\": {\"wrokers\": []}}", &use, &e), PS_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "cluster.wrokers: unknown job"));
    s.hosts = "b";
    ck_assert_int_eq(assign_hosts_from_env(&s, "{", &use, &e), PS_OK);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("deal");
    TCase *t = tcase_create("deal");

    tcase_add_test(t, without_hosts_all_is_here);
    tcase_add_test(t, shards_and_workers_are_dealt_in_turn);
    tcase_add_test(t, lists_say_who_is_where);
    tcase_add_test(t, shards_that_run_already_are_only_named);
    tcase_add_test(t, tf_config_says_who_is_where);
    tcase_add_test(t, workers_may_be_alone);
    tcase_add_test(t, ssh_all_takes_ssh_for_this_machine_too);
    tcase_add_test(t, those_on_one_machine_are_counted);
    tcase_add_test(t, what_cannot_work_is_refused);
    tcase_add_test(t, too_many_are_refused);
    tcase_add_loop_test(t, a_tf_config_without_a_task_is_what_to_start, 0, ARRAY_LEN(environments));
    tcase_add_test(t, a_tf_config_that_is_damaged_is_said_so);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
