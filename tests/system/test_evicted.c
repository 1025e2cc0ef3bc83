/* A worker that is stopped in the middle of a step, at real psd processes: all wait for it until it is evicted. The
 * others go on, whatever becomes of the shards; it is notified when it goes on itself; another takes its place; and
 * every gradient has counted once. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/system/fine.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

enum { SHARDS = 2, WORKERS = 3, ELEMENTS = 3000, REACHED = 5, PATIENCE_MS = 60000 };

static struct shards shards;
static struct ps_error error;
static int steps[2]; /* a pipe: each worker writes its number when it has ended a step */

/* Memory that the processes share. */
static struct evicted_shared {
    atomic_bool stop;
    atomic_int heard; /* events about the eviction of a worker */
    struct ps_error fate[WORKERS];
} * shared;

static void
evicted_setup(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    ck_assert_int_eq(pipe2(steps, O_NONBLOCK), 0); /* a mark that has no room is lost */
    shards_start(&shards, SHARDS);
}

static void
evicted_teardown(void)
{
    shards_stop(&shards);
    munmap(shared, sizeof *shared);
    close(steps[0]);
    close(steps[1]);
}

/* ---- A worker ---- */

static void
on_event(void *arg, const struct ps_error *event)
{
    (void)arg;
    if (event->code == PS_ERR_LEASE_LAPSED && strstr(event->text, "worker 2") != NULL &&
        strstr(event->text, "was evicted at clock 5") != NULL)
        atomic_fetch_add(&shared->heard, 1);
}

static enum ps_err
evicted_step(ps_client *client, ps_var *var, bool stops, struct ps_error *e)
{
    static float values[ELEMENTS];
    enum ps_err err;

    *e = (struct ps_error){0};
    if ((err = ps_client_pull(client, 1, &var, (float *[]){values}, NULL, e)) != PS_OK)
        return err;
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = 1;
    if (stops)
        raise(SIGSTOP);
    err = ps_client_push(client, 1, &var, (const float *[]){values}, NULL, e);
    if (err == PS_OK || err == PS_ERR_LATE) /* a step of the others that was under way when it joined */
        err = ps_client_tick(client, e);
    return err;
}

static enum ps_err
evicted_train(ps_client *client, uint32_t task, bool stops, struct ps_error *e)
{
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {ELEMENTS}, .optimizer = {.learning_rate = 1}};
    char mark = (char)('0' + task);
    enum ps_err err;
    ps_var *var;

    err = ps_client_declare(client, &spec, &var, e);
    while (err == PS_OK && !atomic_load(&shared->stop)) {
        err = evicted_step(client, var, stops && ps_client_clock(client) == REACHED, e);
        if (err == PS_OK && write(steps[1], &mark, 1) != 1 && errno != EAGAIN)
            err = ps_fail(e, PS_ERR_IO, "nobody listens");
    }
    return err;
}

static _Noreturn void
worker_main(uint32_t task, bool stops)
{
    struct ps_client_options options = {.mode = PS_SYNC, .on_event = on_event};
    struct ps_error *e = &shared->fate[task];
    ps_client *client = NULL;
    ps_cluster *cluster;
    enum ps_err err;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((err = ps_cluster_from_list(shards.addresses, WORKERS, task, &cluster, e)) == PS_OK &&
        (err = ps_cluster_set_name(cluster, SHARDS_CLUSTER, e)) == PS_OK &&
        (err = ps_client_open(cluster, &options, &client, e)) == PS_OK)
        err = evicted_train(client, task, stops, e);
    if (err == PS_OK)
        ps_client_close(client);
    else
        ps_client_abandon(client);
    ps_cluster_free(cluster);
    _exit((int)err);
}

static pid_t
evicted_start(uint32_t task, bool stops)
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        worker_main(task, stops);
    return pid;
}

/* Until a worker has ended n steps more, from now on. */
static void
evicted_await(uint32_t task, int n)
{
    struct pollfd p = {.fd = steps[0], .events = POLLIN};
    const struct ps_error *fate = &shared->fate[task];
    char mark;

    while (read(steps[0], &mark, 1) == 1)
        continue;
    while (n > 0) {
        ck_assert_msg(fate->code == PS_OK || fate->code == PS_ERR_LATE, "worker %u: %s", task, fate->text);
        ck_assert_msg(poll(&p, 1, PATIENCE_MS) == 1, "worker %u does not go on", task);
        ck_assert_int_eq(read(steps[0], &mark, 1), 1);
        n -= mark == (char)('0' + task);
    }
}

static void
ends_with(pid_t pid, enum ps_err wanted, uint32_t task)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == (int)wanted, "worker %u ends with %#x: %s", task, status,
                  shared->fate[task].text);
}

/* ---- The observer ---- */

static ps_client *
evicted_observe(void)
{
    ps_cluster *cluster;
    ps_client *client;

    FINE(ps_cluster_from_list(shards.addresses, 1, 0, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    FINE(ps_client_open(cluster, &(struct ps_client_options){.observer = 1}, &client, &error));
    ps_cluster_free(cluster);
    return client;
}

static void
evicted_evict(ps_client *client, uint32_t task, pid_t pid)
{
    struct ps_evict_report report;
    char suffix[32];

    snprintf(suffix, sizeof suffix, ":%d", (int)pid);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        FINE(ps_client_evict(client, shard, NULL, task, -1, &report, &error));
        ck_assert(report.found && report.live);
        ck_assert_uint_eq(report.clock, REACHED);
        ck_assert_msg(strstr(report.agent, suffix) != NULL, "%s is not %s", report.agent, suffix);
        FINE(ps_client_evict(client, shard, NULL, task, -1, &report, &error)); /* again */
        ck_assert(report.found && !report.live);
        FINE(ps_client_evict(client, shard, "nobody", task, -1, &report, &error));
        ck_assert(!report.found && !report.live && report.agent[0] == '\0');
    }
}

/* Each update was the mean of ones, whichever workers took part. */
static void
check_weights(ps_client *client)
{
    static float w[ELEMENTS];
    uint64_t lowest, highest;
    ps_var *var;

    FINE(ps_client_attach(client, "w", &var, &error));
    FINE(ps_client_pull(client, 1, &var, (float *[]){w}, NULL, &error));
    ps_var_versions(var, &lowest, &highest);
    ck_assert_uint_gt(lowest, REACHED);
    ck_assert_uint_le(highest, lowest + 1); /* the last step of the worker that ended last may be of some blocks */
    for (int i = 0; i < ELEMENTS; i++)
        ck_assert_msg(w[i] == -(float)lowest || w[i] == -(float)highest, "w[%d] is %g after %d updates", i,
                      (double)w[i], (int)lowest);
}

START_TEST(who_is_evicted_holds_nobody_back_and_is_told)
{
    pid_t pids[WORKERS];
    ps_client *client;
    int status;

    for (uint32_t task = 0; task < WORKERS; task++)
        pids[task] = evicted_start(task, task == 2);
    ck_assert_int_eq(waitpid(pids[2], &status, WUNTRACED), pids[2]);
    ck_assert(WIFSTOPPED(status));
    client = evicted_observe();
    evicted_evict(client, 2, pids[2]);
    evicted_await(0, 20);
    evicted_await(1, 20);
    for (uint32_t shard = 0; shard < SHARDS; shard++) { /* _i: they know of it in their next life, too */
        if (_i == 1)
            shards_kill(&shards, shard);
        if (_i == 1)
            shards_restart(&shards, shard);
    }
    evicted_await(0, 20);
    ck_assert_int_ge(atomic_load(&shared->heard), 2); /* both of the others */
    ck_assert_int_eq(kill(pids[2], SIGCONT), 0);
    ends_with(pids[2], PS_ERR_FENCED, 2);
    ck_assert_ptr_nonnull(strstr(shared->fate[2].text, "was evicted at clock 5"));
    shared->fate[2] = (struct ps_error){0};
    pids[2] = evicted_start(2, false);
    evicted_await(2, 20);
    evicted_await(0, 20);
    atomic_store(&shared->stop, true);
    for (uint32_t task = 0; task < WORKERS; task++)
        ends_with(pids[task], PS_OK, task);
    check_weights(client);
    ps_client_close(client);
}
END_TEST

/* A worker's own request, and requests that make no sense: no shard is asked. */
START_TEST(what_cannot_be_asked_is_refused)
{
    struct ps_client_options options = {.mode = PS_ASYNC};
    ps_client *worker, *client = evicted_observe();
    ps_cluster *cluster;

    ck_assert_int_eq(ps_client_evict(client, SHARDS, NULL, 0, -1, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_evict(client, 0, "", 0, -1, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_evict(client, 0, NULL, 65536, -1, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_evict(NULL, 0, NULL, 0, -1, NULL, &error), PS_ERR_INVALID);
    ps_client_close(client);
    FINE(ps_cluster_from_list(shards.addresses, 1, 0, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    FINE(ps_client_open(cluster, &options, &worker, &error));
    ps_cluster_free(cluster);
    ck_assert_int_eq(ps_client_evict(worker, 0, NULL, 0, -1, NULL, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "observer"));
    FINE(ps_client_tick(worker, &error));
    ps_client_close(worker);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("evicted");
    TCase *t = tcase_create("evicted");

    tcase_add_checked_fixture(t, evicted_setup, evicted_teardown);
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, who_is_evicted_holds_nobody_back_and_is_told, 0, 2);
    tcase_add_test(t, what_cannot_be_asked_is_refused);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
