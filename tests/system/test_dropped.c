/* psctl drop at real psd processes: workers of a job that is dropped by force get an error of its own, also through
 * shared memory; a shard that was killed in between is named, and the same command completes it; what was dropped stays
 * so after kill -9 and power loss, also of a shard that is killed while it erases, until an older checkpoint is
 * restored; its rows are gone from metrics and page; and its memory is there again. */
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/sanitized.h"
#include "tests/system/fine.h"
#include "tests/system/http_client.h"
#include "tests/system/shard_processes.h"
#include "tests/system/wait_for.h"
#include "tests/unit/kits/check_main.h"

#define SHARDS 2
#define BIG    1500000 /* elements: blocks on every shard */
#define CYCLES 12
#define MANY   600 /* variables */

static struct shards shards;
static struct ps_error error;

static void
dropped_setup(void)
{
    static const char *const more[] = {"--http", "127.0.0.1:0", "--log-level", "info", NULL};

    shards_start_with(&shards, SHARDS, &(struct shards_options){.durable = true, .log = true, .more = more});
}

static void
dropped_teardown(void)
{
    shards_stop(&shards);
}

/* ---- Clients ---- */

static ps_client *
open_at(const char *addresses, const char *job, uint32_t workers, uint32_t task, struct ps_client_options options)
{
    ps_cluster *cluster;
    ps_client *c;

    options.job = job;
    FINE(ps_cluster_from_list(addresses, workers, task, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    FINE(ps_client_open(cluster, &options, &c, &error));
    ps_cluster_free(cluster);
    return c;
}

static ps_client *
dropped_worker(const char *job)
{
    return open_at(shards.addresses, job, 1, 0, (struct ps_client_options){0});
}

static ps_client *
dropped_observe(void)
{
    return open_at(shards.addresses, NULL, 1, 0, (struct ps_client_options){.observer = 1});
}

static ps_var *
dropped_declare(ps_client *c, const char *name)
{
    struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {BIG}};
    ps_var *v;

    FINE(ps_optimizer_by_name("adagrad", &spec.optimizer, &error));
    FINE(ps_client_declare(c, &spec, &v, &error));
    return v;
}

static enum ps_err
push_ones(ps_client *c, ps_var *v, uint32_t flags)
{
    float *ones = malloc(BIG * sizeof *ones);
    enum ps_err err;

    for (size_t i = 0; i < BIG; i++)
        ones[i] = 1;
    err = ps_client_push(c, 1, &v, (const float *[]){ones}, &(struct ps_push_options){.flags = flags}, &error);
    free(ones);
    return err;
}

static float
dropped_value(ps_client *c, ps_var *v)
{
    float *values = malloc(BIG * sizeof *values), value;

    FINE(ps_client_pull(c, 1, &v, (float *[]){values}, NULL, &error));
    value = values[BIG - 1];
    free(values);
    return value;
}

/* A job of this name, with values that are not its first ones, that nobody is in any more. */
static void
live_and_leave(const char *job)
{
    ps_client *c = dropped_worker(job);
    ps_var *v = dropped_declare(c, "w");

    FINE(push_ones(c, v, 0));
    ck_assert(dropped_value(c, v) != 0);
    ps_client_close(c);
}

/* ---- psctl ---- */

/* Its exit status; its output: dropped_said(). */
__attribute__((format(printf, 1, 2))) static int
dropped_psctl(const char *format, ...)
{
    char words[512];
    va_list args;

    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    return shards_shell("%s %s --shards %s >%s/said 2>&1 </dev/null", getenv("PSCTL_BIN"), words, shards.addresses,
                        shards.directory);
}

/* A line of it, its columns one blank apart; a regular expression of grep's. */
static bool
dropped_said(const char *what)
{
    return shards_shell("tr -s ' ' <%s/said | grep -q -- '%s'", shards.directory, what) == 0;
}

static void
dropped_says(const char *what)
{
    if (dropped_said(what))
        return;
    (void)shards_shell("sed 's/^/# /' %s/said >&2", shards.directory);
    ck_abort_msg("psctl does not say '%s'", what);
}

/* ---- What becomes of workers ---- */

struct waiter {
    ps_client *client;
    enum ps_err err;
    struct ps_error error;
};

static void *
wait_at_barrier(void *arg)
{
    struct waiter *w = arg;

    w->err = ps_client_barrier(w->client, "all", -1, &w->error);
    return NULL;
}

static bool
barrier_waits(ps_client *observer)
{
    bool waits = false;
    char *json;

    for (uint32_t i = 0; i < SHARDS; i++) {
        FINE(ps_client_query(observer, i, PS_QUERY_BLOCKED, "train", -1, &json, &error));
        waits = waits || strstr(json, "barrier") != NULL;
        ps_free(json);
    }
    return waits;
}

START_TEST(workers_of_a_job_that_is_dropped_by_force_get_an_error_of_its_own)
{
    struct ps_client_options options = {.transport = _i == 0 ? PS_TRANSPORT_TCP : PS_TRANSPORT_AUTO};
    ps_client *a = open_at(shards.addresses, "train", 2, 0, options);
    struct waiter b = {.client = open_at(shards.addresses, "train", 2, 1, options)};
    ps_client *observer = open_at(shards.addresses, "train", 1, 0,
                                  (struct ps_client_options){.observer = 1, .transport = options.transport});
    ps_var *v = dropped_declare(a, "w"), *seen;
    float *values = malloc(BIG * sizeof *values);
    pthread_t thread;

    ck_assert_int_eq(shards_maps() > 0, _i == 1);
    FINE(push_ones(a, v, 0));
    FINE(ps_client_attach(observer, "w", &seen, &error));
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_at_barrier, &b), 0);
    while (!barrier_waits(observer))
        continue;
    ck_assert_int_eq(dropped_psctl("drop --job train --yes"), 3);
    dropped_says(
        "2 workers of job \"train\" are live (psctl workers): end the program, or --force ends their sessions");
    FINE(push_ones(a, v, 0));
    ck_assert_int_eq(dropped_psctl("drop --job train --yes --force"), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_msg(b.err == PS_ERR_DROPPED, "%s: %s", ps_err_name(b.err), b.error.text);
    ck_assert_msg(strncmp(b.error.text, "job 'train' was dropped by ", 27) == 0, "%s", b.error.text);
    ck_assert_int_eq(push_ones(a, v, 0), PS_ERR_DROPPED);
    ck_assert_int_eq(ps_client_pull(observer, 1, &seen, (float *[]){values}, NULL, &error), PS_ERR_DROPPED);
    ps_client_abandon(a);
    ps_client_abandon(b.client);
    ck_assert_int_eq(dropped_psctl("workers"), 0);
    ck_assert(!dropped_said("train"));
    live_and_leave("train"); /* with another number of workers */
    ps_client_close(observer);
    free(values);
}
END_TEST

/* ---- A shard that is away ---- */

START_TEST(the_same_command_completes_it_when_a_shard_was_killed_in_between)
{
    live_and_leave("train");
    ck_assert_int_eq(dropped_psctl("drop --job train"), 2); /* nobody agrees */
    dropped_says(
        "job \"train\": 1 variable, 11.6 MiB of weights and slots; --yes if all of it may go; nothing was changed");
    shards_kill(&shards, 1);
    ck_assert_int_eq(dropped_psctl("drop --job train --yes --timeout 1000"), 1); /* before anything is changed */
    ck_assert_int_eq(dropped_psctl("variables --timeout 1000"), 1);
    dropped_says("train w ");
    ck_assert_int_eq(dropped_psctl("drop --job train --yes --force --timeout 1000"), 1);
    dropped_says("shard 0 at .*: dropped 1 variable, ");
    dropped_says("not all shards have done it: the same command again completes it");
    shards_restart(&shards, 1);
    ck_assert_int_eq(dropped_psctl("jobs"), 0);
    dropped_says("train");
    ck_assert_int_eq(dropped_psctl("drop --job train --yes"), 0);
    dropped_says("shard 0 at .*: has no such job (any more)");
    dropped_says("shard 1 at .*: dropped 1 variable, ");
    ck_assert_int_eq(dropped_psctl("drop --job train --yes"), 3);
    dropped_says("no shard knows job \"train\": there is nothing to drop");
    for (uint32_t i = 0; i < SHARDS; i++) {
        shards_kill(&shards, i);
        shards_restart(&shards, i);
    }
    ck_assert_int_eq(dropped_psctl("jobs"), 0);
    ck_assert(!dropped_said("train"));
}
END_TEST

/* ---- What survives ---- */

START_TEST(it_stays_dropped_after_power_loss_and_a_checkpoint_brings_it_back)
{
    ps_client *c;
    float before;

    live_and_leave("train");
    ck_assert_int_eq(dropped_psctl("save"), 0);
    ck_assert_int_eq(dropped_psctl("checkpoint %s/c --job train --name first", shards.directory), 0);
    ck_assert_int_eq(dropped_psctl("drop --job train --yes --json"), 0);
    dropped_says("\"command\": \"drop\"");
    c = dropped_worker("other");
    FINE(push_ones(c, dropped_declare(c, "w"), PS_PUSH_DURABLE)); /* what was before it is on disk, too */
    ps_client_close(c);
    for (uint32_t i = 0; i < SHARDS; i++) {
        shards_lose_power(&shards, i);
        shards_restart(&shards, i);
    }
    ck_assert_int_eq(dropped_psctl("jobs"), 0);
    ck_assert(dropped_said("other") && !dropped_said("train"));
    ck_assert_int_eq(dropped_psctl("restore %s/c/first", shards.directory), 0);
    c = dropped_worker("train");
    before = dropped_value(c, dropped_declare(c, "w"));
    ck_assert(before < 0);
    FINE(ps_client_tick(c, &error));
    ps_client_close(c);
}
END_TEST

START_TEST(variables_go_and_those_that_stay_are_as_they_were)
{
    ps_client *c = dropped_worker("train");
    ps_var *keep = dropped_declare(c, "head");
    float value;

    dropped_declare(c, "layer/0");
    dropped_declare(c, "layer/1");
    FINE(push_ones(c, keep, 0));
    value = dropped_value(c, keep);
    ps_client_close(c);
    ck_assert_int_eq(dropped_psctl("drop --job train --variables 'tail*' --yes"), 3);
    dropped_says("no variable of job \"train\" has a name that fits tail\\*");
    ck_assert_int_eq(dropped_psctl("drop --job train --variables 'layer/*' --yes"), 0);
    dropped_says("dropped 2 variables, ");
    c = dropped_worker("train");
    ck_assert(dropped_value(c, dropped_declare(c, "head")) == value);
    ck_assert(dropped_value(c, dropped_declare(c, "layer/1")) == 0);
    ps_client_close(c);
}
END_TEST

/* ---- Figures ---- */

static bool
http_names_job(const char *path, const char *job)
{
    char address[64], request[64];
    struct http_reply reply;
    bool names;

    ck_assert(http_client_find(shards_log(&shards, 0), address, sizeof address));
    snprintf(request, sizeof request, "GET %s", path);
    reply = http_client_ask(address, request);
    ck_assert_int_eq(reply.status, 200);
    names = strstr(reply.body, job) != NULL;
    http_reply_free(&reply);
    return names;
}

START_TEST(metrics_and_the_page_have_no_rows_of_it)
{
    static const char *const paths[] = {"/metrics", "/api/live"};

    live_and_leave("train");
    live_and_leave("other");
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        ck_assert(http_names_job(paths[i], "\"train\"") && http_names_job(paths[i], "\"other\""));
    ck_assert_int_eq(dropped_psctl("drop --job train --yes"), 0);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        ck_assert(!http_names_job(paths[i], "\"train\"") && http_names_job(paths[i], "\"other\""));
}
END_TEST

/* ---- Memory ---- */

static json_int_t
store_bytes(ps_client *observer, uint32_t shard)
{
    json_t *report;
    json_int_t bytes;
    char *text;

    FINE(ps_client_query(observer, shard, PS_QUERY_STATUS, NULL, -1, &text, &error));
    ck_assert_ptr_nonnull(report = json_loads(text, 0, NULL));
    ps_free(text);
    bytes = json_integer_value(json_object_get(json_object_get(report, "status"), "store_bytes"));
    ck_assert_int_gt(bytes, 0);
    json_decref(report);
    return bytes;
}

/* Bytes of the process's own memory, without the store's pages. */
static uint64_t
heap_bytes(uint32_t shard)
{
    char path[64], line[256];
    uint64_t kib = 0;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/status", (int)shards.pids[shard]);
    ck_assert_ptr_nonnull(f = fopen(path, "r"));
    while (fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "RssAnon: %" SCNu64, &kib) == 1)
            break;
    fclose(f);
    ck_assert_uint_gt(kib, 0);
    return kib << 10;
}

/* Of the file itself, which does not shrink. */
static uint64_t
live_file_bytes(uint32_t shard)
{
    char command[256];
    uint64_t kib = 0;
    FILE *out;

    snprintf(command, sizeof command, "du -sk %s/%u", shards.directory, shard);
    ck_assert_ptr_nonnull(out = popen(command, "r"));
    ck_assert_int_eq(fscanf(out, "%" SCNu64, &kib), 1);
    pclose(out);
    return kib << 10;
}

/* ---- A shard that is killed while it erases ---- */

static void
many_variables(const char *job)
{
    ps_client *c = dropped_worker(job);
    struct ps_var_spec spec = {.rank = 1, .dims = {1000}};
    ps_var *v;
    char name[32];

    FINE(ps_optimizer_by_name("adam", &spec.optimizer, &error));
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "layer/%d", i);
        spec.name = name;
        FINE(ps_client_declare(c, &spec, &v, &error));
    }
    ps_client_close(c);
}

static void *
dropped_drop(void *arg)
{
    *(int *)arg = dropped_psctl("drop --job train --yes --timeout 60000");
    return NULL;
}

/* Its log says it when it is committed, and what it erases comes after that. */
START_TEST(a_shard_that_is_killed_while_it_erases_goes_on_with_that)
{
    ps_client *observer;
    json_int_t empty;
    pthread_t thread;
    int status;

    observer = dropped_observe();
    empty = store_bytes(observer, 1);
    ps_client_close(observer);
    live_and_leave("other");
    many_variables("train");
    ck_assert_int_eq(pthread_create(&thread, NULL, dropped_drop, &status), 0);
    while (!shards_said(&shards, 1, "dropped job=train"))
        continue;
    shards_kill(&shards, 1);
    shards_restart(&shards, 1);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    if (status != 0) /* it was not answered in time; 3: nothing is left to be dropped */
        status = dropped_psctl("drop --job train --yes");
    ck_assert(status == 0 || status == 3);
    ck_assert_int_eq(dropped_psctl("jobs"), 0);
    ck_assert(dropped_said("other") && !dropped_said("train"));
    ck_assert_int_eq(dropped_psctl("drop --job other --yes"), 0);
    observer = dropped_observe();
    WAIT_FOR_LOGGED(store_bytes(observer, 1) < empty + (json_int_t)MIB, shards_log(&shards, 1));
    ps_client_close(observer);
}
END_TEST

START_TEST(jobs_that_come_and_go_take_no_more_memory_than_one)
{
    ps_client *observer = dropped_observe();
    json_int_t empty[SHARDS];
    uint64_t heap[SHARDS], file[SHARDS];
    const uint64_t job_bytes = (uint64_t)BIG * 2 * sizeof(float) / SHARDS;

    for (uint32_t i = 0; i < SHARDS; i++)
        empty[i] = store_bytes(observer, i);
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        live_and_leave("train");
        for (uint32_t i = 0; i < SHARDS; i++)
            ck_assert_int_gt(store_bytes(observer, i), empty[i] + (json_int_t)job_bytes / 2);
        ck_assert_int_eq(dropped_psctl("drop --job train --yes"), 0);
        for (uint32_t i = 0; i < SHARDS; i++) {
            ck_assert_int_lt(store_bytes(observer, i), empty[i] + (json_int_t)job_bytes / 8);
            if (cycle == 2) {
                heap[i] = heap_bytes(i);
                file[i] = live_file_bytes(i);
            }
        }
    }
    for (uint32_t i = 0; i < SHARDS; i++) {
        ck_assert(SANITIZED_ADDRESS || heap_bytes(i) < heap[i] + job_bytes); /* which keeps what was freed */
        ck_assert_uint_lt(live_file_bytes(i), file[i] + job_bytes);
    }
    ps_client_close(observer);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("dropped");
    TCase *t = tcase_create("processes");

    tcase_add_checked_fixture(t, dropped_setup, dropped_teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, workers_of_a_job_that_is_dropped_by_force_get_an_error_of_its_own, 0, 2);
    tcase_add_test(t, the_same_command_completes_it_when_a_shard_was_killed_in_between);
    tcase_add_test(t, it_stays_dropped_after_power_loss_and_a_checkpoint_brings_it_back);
    tcase_add_test(t, variables_go_and_those_that_stay_are_as_they_were);
    tcase_add_test(t, metrics_and_the_page_have_no_rows_of_it);
    tcase_add_test(t, a_shard_that_is_killed_while_it_erases_goes_on_with_that);
    tcase_add_test(t, jobs_that_come_and_go_take_no_more_memory_than_one);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
