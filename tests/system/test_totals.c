/* Totals over all workers (ps_strategy_totals(), ps_client_metrics()) with real shards and worker processes: every row
 * counts once in each epoch, under every strategy of many workers, also when shards and workers are killed on the way.
 *
 * Rows are numbered, and a step adds up their numbers: whole numbers, so that the sums are exact in any order. */
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/api/step_barrier.h"
#include "client/include/psclient/ps_group.h"
#include "client/include/psclient/ps_strategy.h"
#include "common/core/base/base.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

enum {
    WORKERS = 3,
    ROWS = 1210,
    BATCH = 60,
    EPOCHS = 4,
    METRICS = 1 + EPOCHS,
    FAILED = 3,
    PATIENCE_MS = 60000,
    HELD_AT = 5,
    LATE_MS = 1200 /* longer than others wait before they check whether one of them is ahead */
};

static struct shards shards;

/* A worker's results, for the test to check. */
struct totals_left {
    uint64_t rows, meetings; /* as of the last one */
    double metrics[METRICS];
    uint64_t own_rows; /* that this process computed */
    float value;       /* of a variable in the end */
    struct ps_error error;
};
static struct totals_left *left; /* [WORKERS], shared */
static atomic_uint *begun;       /* how many have joined, shared */

/* Shared: how many are held up, and that they may go on. */
static struct held {
    atomic_uint there;
    atomic_bool go;
} * held;

static void
totals_setup(void)
{
    left = mmap(NULL, WORKERS * sizeof *left, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    begun = mmap(NULL, sizeof *begun, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    held = mmap(NULL, sizeof *held, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(left != MAP_FAILED && begun != MAP_FAILED && held != MAP_FAILED);
    shards_start(&shards, 2);
}

static void
totals_teardown(void)
{
    shards_stop(&shards);
    munmap(left, WORKERS * sizeof *left);
    munmap(begun, sizeof *begun);
    munmap(held, sizeof *held);
}

/* ---- A worker ---- */

static unsigned sums_before; /* requests for sums until one that is held up; 0: none is */

enum ps_err __real_step_barrier_sums(ps_client *c, const struct ps_cursor *at, uint32_t again, size_t n, double *sums,
                                     bool *known, struct ps_error *e);
enum ps_err __wrap_step_barrier_sums(ps_client *c, const struct ps_cursor *at, uint32_t again, size_t n, double *sums,
                                     bool *known, struct ps_error *e);

enum ps_err
__wrap_step_barrier_sums(ps_client *c, const struct ps_cursor *at, uint32_t again, size_t n, double *sums, bool *known,
                         struct ps_error *e)
{
    if (sums_before > 0 && --sums_before == 0) {
        atomic_fetch_add(&held->there, 1);
        while (!atomic_load(&held->go))
            usleep(200);
    }
    return __real_step_barrier_sums(c, at, again, n, sums, known, e);
}

struct totals_way {
    const char *strategy;
    enum ps_mode mode;
    bool often; /* all meet after each step; else only in the end */
    bool late;  /* worker 1 comes late to one of the meetings */
    bool held;  /* at one of them all are held up between the notice that it has opened and the request for the sums */
    useconds_t pace_us;
};

struct totals_worker {
    const struct totals_way *way;
    uint32_t task;
    int tell; /* a byte for each step */
    struct totals_left *mine;
};

static enum ps_err
totals_step(void *arg, struct ps_replica *r, struct ps_error *error)
{
    struct totals_worker *w = arg;

    (void)error;
    for (uint64_t i = 0; i < r->rows; i++)
        r->metrics[0] += (double)(r->batch * BATCH + r->first + i + 1);
    r->metrics[1 + r->epoch] += (double)r->rows;
    w->mine->own_rows += r->rows;
    for (uint32_t i = 0; i < 8; i++)
        r->gradients[0][i] = r->gradients[1][i] = (float)(w->task + 1);
    usleep(w->way->pace_us);
    return PS_OK;
}

static enum ps_err
totals_after(void *arg, const struct ps_step_done *done, struct ps_error *error)
{
    const struct totals_worker *w = arg;

    (void)done;
    return write(w->tell, "!", 1) == 1 ? PS_OK : ps_fail(error, PS_ERR_IO, "nobody listens");
}

/* They are exactly the rows of all steps before this one. */
static enum ps_err
check_totals(const struct totals_worker *w, uint64_t steps, uint64_t each, struct ps_error *e)
{
    const struct totals_left *l = w->mine;
    uint64_t epochs = steps / each, begun = MIN(steps % each * BATCH, ROWS);
    double numbers = (double)(epochs * ROWS * (ROWS + 1) / 2 + begun * (begun + 1) / 2);

    if (l->rows != epochs * ROWS + begun || l->metrics[0] != numbers)
        return ps_fail(e, PS_ERR_INTERNAL, "after %llu steps: %llu rows, whose numbers come to %.0f, not %.0f",
                       (unsigned long long)steps, (unsigned long long)l->rows, l->metrics[0], numbers);
    for (uint64_t i = 0; i < EPOCHS; i++) {
        uint64_t rows = i < epochs ? ROWS : i == epochs ? begun : 0;

        if (l->metrics[1 + i] != (double)rows)
            return ps_fail(e, PS_ERR_INTERNAL, "after %llu steps: %.0f rows of epoch %llu, not %llu",
                           (unsigned long long)steps, l->metrics[1 + i], (unsigned long long)i,
                           (unsigned long long)rows);
    }
    return PS_OK;
}

/* A replacement does not know whether its predecessor has met the others after its last step: it meets first. */
static enum ps_err
meet_first(const struct totals_worker *w, ps_strategy *s, struct ps_error *e)
{
    return w->way->often && ps_strategy_step(s) > 0 ? ps_strategy_meet(s, e) : PS_OK;
}

/* In async a worker that joins late goes on where the others are: none of them takes a step before all have joined. */
static void
await_others(void)
{
    atomic_fetch_add(begun, 1);
    while (atomic_load(begun) < WORKERS)
        usleep(200);
}

static enum ps_err
totals_train(struct totals_worker *w, ps_strategy *s, struct ps_error *e)
{
    const struct ps_strategy_calls calls = {.step = totals_step, .after = totals_after, .arg = w};
    uint64_t each = ps_strategy_steps_each(s), all = each * EPOCHS;
    enum ps_err err;

    await_others();
    if ((err = meet_first(w, s, e)) != PS_OK)
        return err;
    do {
        err = ps_strategy_run(s, w->way->often ? ps_strategy_step(s) + 1 : all, &calls, e);
        if (w->way->late && w->task == 1 && ps_strategy_step(s) == 3)
            usleep(LATE_MS * 1000);
        if (err == PS_OK)
            err = ps_strategy_meet(s, e);
        ps_strategy_totals(s, &w->mine->rows, w->mine->metrics);
        if (err == PS_OK)
            err = check_totals(w, ps_strategy_step(s), each, e);
        w->mine->meetings++;
    } while (err == PS_OK && ps_strategy_step(s) < all);
    w->mine->value = ps_strategy_values(s, 0)[0][0];
    return err;
}

/* Two variables, so that both shards have one. */
static enum ps_err
totals_create(ps_strategy *s, struct ps_error *e)
{
    static const char *const names[] = {"v", "w"};
    enum ps_err err = PS_OK;

    for (size_t i = 0; i < ARRAY_LEN(names) && err == PS_OK; i++)
        err = ps_strategy_variable(
            s, &(struct ps_var_spec){.name = names[i], .rank = 1, .dims = {8}, .optimizer = {.learning_rate = 0.1}}, e);
    return err == PS_OK ? ps_strategy_start(s, e) : err;
}

static enum ps_err
open_strategy(struct totals_worker *w, ps_strategy **s, struct ps_error *e)
{
    const struct ps_group_options group = {.settle_ms = 20000, .timeout_ms = 20000}; /* a replacement is on its way */
    struct ps_strategy_options options = {
        .client = {.mode = w->way->mode, .bound = 2, .timeout_ms = 30000, .job = w->way->strategy},
        .group = &group,
        .local = {.steps = 4},
        .threads = 1,
        .rows = ROWS,
        .batch = BATCH,
        .metrics = METRICS};
    ps_cluster *cluster;
    enum ps_err err;

    if ((err = ps_cluster_from_list(shards.addresses, WORKERS, w->task, &cluster, e)) != PS_OK)
        return err;
    if ((err = ps_cluster_set_name(cluster, SHARDS_CLUSTER, e)) != PS_OK)
        return err;
    options.cluster = cluster;
    err = ps_strategy_open(w->way->strategy, &options, s, e);
    ps_cluster_free(cluster);
    return err;
}

static _Noreturn void
worker_main(struct totals_worker *w)
{
    ps_strategy *s = NULL;
    enum ps_err err;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    w->mine = &left[w->task];
    sums_before = w->way->held ? HELD_AT : 0;
    if ((err = open_strategy(w, &s, &w->mine->error)) == PS_OK && (err = totals_create(s, &w->mine->error)) == PS_OK)
        err = totals_train(w, s, &w->mine->error);
    if (err == PS_OK)
        ps_strategy_close(s);
    _exit(err == PS_OK ? 0 : FAILED);
}

/* ---- Their lives ---- */

struct totals_crowd {
    const struct totals_way *way;
    pid_t pid[WORKERS];
    int hear[WORKERS];
};

static void
start_worker(struct totals_crowd *c, uint32_t task)
{
    struct totals_worker w = {.way = c->way, .task = task};
    int ends[2];

    ck_assert_int_eq(pipe(ends), 0);
    w.tell = ends[1];
    if ((c->pid[task] = fork()) == 0)
        worker_main(&w);
    ck_assert_int_gt(c->pid[task], 0);
    close(ends[1]);
    c->hear[task] = ends[0];
}

static void
start_all(struct totals_crowd *c, const struct totals_way *way)
{
    memset(left, 0, WORKERS * sizeof *left);
    atomic_store(begun, 0);
    *c = (struct totals_crowd){.way = way};
    for (uint32_t i = 0; i < WORKERS; i++)
        start_worker(c, i);
}

/* The worker does so many more steps, and goes on meanwhile: a later fault finds it anywhere in one. */
static void
await_steps(const struct totals_crowd *c, uint32_t task, uint32_t steps)
{
    struct pollfd heard = {.fd = c->hear[task], .events = POLLIN};
    char word;

    while (steps-- > 0) {
        ck_assert_int_eq(poll(&heard, 1, PATIENCE_MS), 1);
        ck_assert_msg(read(c->hear[task], &word, 1) == 1, "worker %u has ended: %s", task, left[task].error.text);
    }
}

static void
kill_worker(struct totals_crowd *c, uint32_t task)
{
    ck_assert_int_eq(kill(c->pid[task], SIGKILL), 0);
    ck_assert_int_eq(waitpid(c->pid[task], NULL, 0), c->pid[task]);
    close(c->hear[task]);
}

/* All end well, and so with the right totals. Their pipes hold all that they write: a byte for each step. */
static void
await_all(struct totals_crowd *c)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        int status = 0;

        if (c->pid[i] == 0)
            continue;
        ck_assert_int_eq(waitpid(c->pid[i], &status, 0), c->pid[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: worker %u ended with status %x: %s (%s)",
                      c->way->strategy, i, (unsigned)status, left[i].error.text, left[i].error.peer);
        close(c->hear[i]);
    }
}

/* It stands still now and then until it has ended: the others must not get ahead of the totals that it asks for. */
static void
hold_up(const struct totals_crowd *c, uint32_t task)
{
    siginfo_t ended = {0};

    for (unsigned i = 0; ended.si_pid == 0; i++) {
        kill(c->pid[task], SIGSTOP);
        usleep(2000);
        kill(c->pid[task], SIGCONT);
        usleep(200 + 130 * (i % 11));
        ck_assert_int_eq(waitid(P_PID, (id_t)c->pid[task], &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    }
}

/* ---- What they come to ---- */

static const char *const many[] = {"parameter_server", "parameter_server", "parameter_server", "local_sgd",
                                   "multi_worker_mirrored"};
static const enum ps_mode modes[] = {PS_ASYNC, PS_SSP, PS_SYNC, PS_SYNC, PS_SYNC};

START_TEST(every_meeting_finds_what_all_workers_have_done)
{
    const struct totals_way way = {many[_i], modes[_i], .often = true};
    struct totals_crowd c;
    uint64_t own = 0;

    start_all(&c, &way);
    hold_up(&c, 1);
    await_all(&c);
    for (uint32_t task = 0; task < WORKERS; task++) {
        ck_assert_uint_eq(left[task].meetings, EPOCHS * (uint64_t)((ROWS + BATCH - 1) / BATCH));
        ck_assert_uint_lt(left[task].own_rows, EPOCHS * ROWS); /* no worker has done all of it */
        own += left[task].own_rows;
    }
    ck_assert_uint_eq(own, EPOCHS * ROWS);
}
END_TEST

START_TEST(a_killed_shard_loses_and_doubles_nothing)
{
    const struct totals_way way = {many[_i], modes[_i], .pace_us = 3000};
    struct totals_crowd c;

    start_all(&c, &way);
    for (uint32_t kills = 0; kills < 4; kills++) {
        await_steps(&c, kills % WORKERS, 9);
        usleep(1000 * kills);
        shards_kill(&shards, 0);
        shards_restart(&shards, 0);
    }
    await_all(&c);
}
END_TEST

START_TEST(a_killed_worker_loses_and_doubles_nothing)
{
    const struct totals_way way = {many[_i], modes[_i], .pace_us = 3000};
    struct totals_crowd c;

    start_all(&c, &way);
    for (uint32_t kills = 0; kills < 3; kills++) {
        await_steps(&c, 1, 9);
        usleep(1500 * kills);
        kill_worker(&c, 1);
        start_worker(&c, 1);
    }
    await_all(&c);
}
END_TEST

/* It is killed anywhere in a step and the meeting behind it; totals are those of that meeting at each worker. */
START_TEST(a_worker_killed_around_meetings_keeps_step_with_the_others)
{
    const struct totals_way way = {many[_i], modes[_i], .often = true, .pace_us = 2000};
    struct totals_crowd c;

    start_all(&c, &way);
    for (uint32_t kills = 0; kills < 12; kills++) {
        await_steps(&c, 1, 2);
        usleep(250 * kills);
        kill_worker(&c, 1);
        start_worker(&c, 1);
    }
    await_all(&c);
}
END_TEST

/* Both at once: the worker that takes over meets a shard that has just come back. */
START_TEST(a_worker_and_a_shard_killed_together_lose_and_double_nothing)
{
    const struct totals_way way = {many[_i], modes[_i], .pace_us = 3000};
    struct totals_crowd c;

    start_all(&c, &way);
    for (uint32_t kills = 0; kills < 2; kills++) {
        await_steps(&c, 2, 11);
        kill_worker(&c, 2);
        shards_kill(&shards, 0);
        start_worker(&c, 2);
        shards_restart(&shards, 0);
    }
    await_all(&c);
}
END_TEST

/* All have been released, and none has asked for the sums yet. */
START_TEST(a_shard_that_loses_its_power_in_a_meeting_has_it_again)
{
    const struct totals_way way = {many[_i], modes[_i], .often = true, .held = true};
    struct totals_crowd c;

    start_all(&c, &way);
    while (atomic_load(&held->there) < WORKERS)
        usleep(1000);
    shards_lose_power(&shards, 0);
    shards_restart(&shards, 0);
    atomic_store(&held->go, true);
    await_all(&c);
}
END_TEST

/* Where all wait at the same clock, no worker ticks without a gradient. */
START_TEST(who_comes_late_to_a_meeting_changes_no_bit_of_the_model)
{
    const struct totals_way way = {"parameter_server", PS_SYNC, .often = true},
                            late = {"parameter_server", PS_SYNC, .often = true, .late = true};
    float in_time;
    struct totals_crowd c;

    start_all(&c, &way);
    await_all(&c);
    in_time = left[0].value;
    ck_assert_float_lt(in_time, -1);
    shards_stop(&shards);
    shards_start(&shards, 2);
    start_all(&c, &late);
    await_all(&c);
    for (uint32_t i = 0; i < WORKERS; i++)
        ck_assert_msg(memcmp(&left[i].value, &in_time, sizeof in_time) == 0, "%.9g, not %.9g", left[i].value, in_time);
}
END_TEST

/* ---- A client's ---- */

static enum ps_err
open_with(uint32_t task, const struct ps_client_options *options, ps_client **client, struct ps_error *e)
{
    ps_cluster *cluster;
    enum ps_err err;

    ck_assert_int_eq(ps_cluster_from_list(shards.addresses, 2, task, &cluster, e), PS_OK);
    ck_assert_int_eq(ps_cluster_set_name(cluster, SHARDS_CLUSTER, e), PS_OK);
    err = ps_client_open(cluster, options, client, e);
    ps_cluster_free(cluster);
    return err;
}

static ps_client *
open_client(uint32_t task, bool observer, const char *job)
{
    struct ps_client_options options = {.job = job, .observer = observer, .timeout_ms = 30000};
    struct ps_error e;
    ps_client *client;

    ck_assert_msg(open_with(task, &options, &client, &e) == PS_OK, "%s", e.text);
    return client;
}

static void
step_with(ps_client *c, size_t n, const double *values)
{
    ck_assert_int_eq(ps_client_set_metrics(c, n, values, NULL), PS_OK);
    ck_assert_int_eq(ps_client_tick(c, NULL), PS_OK);
}

/* The list of a worker in psctl's JSON. */
static json_t *
totals_listed(ps_client *c, uint32_t task, json_t **report)
{
    json_t *worker;
    size_t i;
    char *text;

    ck_assert_int_eq(ps_client_query(c, 0, PS_QUERY_WORKERS, "sums", -1, &text, NULL), PS_OK);
    *report = json_loads(text, 0, NULL);
    ps_free(text);
    json_array_foreach(json_object_get(*report, "worker"), i,
                       worker) if (json_integer_value(json_object_get(worker, "task")) ==
                                   task) return json_object_get(worker, "metrics");
    ck_abort_msg("worker %u is not listed", task);
}

START_TEST(a_client_sets_and_asks)
{
    ps_client *a = open_client(0, false, "sums"), *b = open_client(1, false, "sums"),
              *observer = open_client(0, true, "sums"), *stranger = open_client(0, true, "nobody");
    double sums[PS_METRICS_MAX + 1], many_values[PS_METRICS_MAX + 1] = {0};
    json_t *report, *list;
    struct ps_error e;

    step_with(a, 2, (double[]){1, 0.5});
    step_with(b, 3, (double[]){10, 0.25, 7});
    step_with(a, 1, (double[]){2});
    ck_assert_int_eq(ps_client_metrics(b, 4, sums, -1, NULL), PS_OK);
    ck_assert(sums[0] == 13 && sums[1] == 0.75 && sums[2] == 7 && sums[3] == 0);
    ps_client_close(b); /* it has finished, and counts */
    ck_assert_int_eq(ps_client_metrics(observer, 1, sums, -1, NULL), PS_OK);
    ck_assert(sums[0] == 13);
    shards_kill(&shards, 0);
    shards_restart(&shards, 0);
    ck_assert_int_eq(ps_client_metrics(observer, 3, sums, -1, NULL), PS_OK);
    ck_assert(sums[0] == 13 && sums[1] == 0.75 && sums[2] == 7);

    step_with(a, 2, (double[]){NAN, 1}); /* NaN between other values */
    list = totals_listed(observer, 0, &report);
    ck_assert_uint_eq(json_array_size(list), 2);
    ck_assert(json_is_null(json_array_get(list, 0)) && json_real_value(json_array_get(list, 1)) == 1.5);
    json_decref(report);
    ck_assert_int_eq(ps_client_metrics(a, 2, sums, -1, NULL), PS_OK);
    ck_assert(isnan(sums[0]) && sums[1] == 1.75);

    ck_assert_int_eq(ps_client_set_metrics(a, PS_METRICS_MAX + 1, many_values, &e), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_set_metrics(a, 1, NULL, &e), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_set_metrics(observer, 1, many_values, &e), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_metrics(a, 0, sums, -1, &e), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_metrics(a, PS_METRICS_MAX + 1, sums, -1, &e), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_metrics(stranger, 1, sums, -1, &e), PS_ERR_NOT_FOUND);
    ck_assert_str_eq(e.text, "shard 0 does not know the job 'nobody'");
    shards_kill(&shards, 0);
    ck_assert_int_eq(ps_client_metrics(observer, 1, sums, 200, &e), PS_ERR_TIMEOUT);
    shards_restart(&shards, 0);
    ps_client_close(a);
    ps_client_close(observer);
    ps_client_close(stranger);
}
END_TEST

/* The names that shard 0 has, between commas. */
static void
ck_assert_named(ps_client *c, const char *want)
{
    json_t *report, *name;
    char all[256] = "", *text;
    size_t i;

    ck_assert_int_eq(ps_client_query(c, 0, PS_QUERY_JOBS, "named", -1, &text, NULL), PS_OK);
    report = json_loads(text, 0, NULL);
    ps_free(text);
    json_array_foreach(json_object_get(json_array_get(json_object_get(report, "job"), 0), "metric_names"), i, name)
    {
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? "," : "", json_string_value(name));
    }
    ck_assert_str_eq(all, want);
    json_decref(report);
}

START_TEST(a_clients_metrics_have_names)
{
    char text[] = "loss";
    const char *names[PS_METRICS_MAX + 1] = {"rows", text};
    struct ps_client_options options = {.job = "named", .timeout_ms = 30000, .metric_names = names, .metrics_named = 2};
    ps_client *a, *b, *observer = open_client(0, true, "named");
    struct ps_error e;

    ck_assert_msg(open_with(0, &options, &a, &e) == PS_OK, "%s", e.text);
    text[0] = 'L'; /* they were read once */
    ck_assert_named(observer, "rows,loss");
    ck_assert_int_eq(open_with(1, &options, &b, &e), PS_ERR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(e.text, "metric 1 of job 'named' is 'loss' to its live workers, not 'Loss'"));
    shards_kill(&shards, 0);
    shards_restart(&shards, 0);
    ck_assert_named(observer, "rows,loss");
    step_with(a, 2, (double[]){1, 0.5});
    text[0] = 'l';
    names[2] = "hits";
    options.metrics_named = 3;
    ck_assert_msg(open_with(1, &options, &b, &e) == PS_OK, "%s", e.text);
    ck_assert_named(observer, "rows,loss,hits");
    ps_client_close(a);
    ps_client_close(b);

    options.metrics_named = PS_METRICS_MAX + 1;
    ck_assert_int_eq(open_with(0, &options, &a, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "33 metrics are named; there are at most 32");
    options.metrics_named = 4;
    ck_assert_int_eq(open_with(0, &options, &a, &e), PS_ERR_INVALID);
    options.metric_names = NULL;
    ck_assert_int_eq(open_with(0, &options, &a, &e), PS_ERR_INVALID);
    ps_client_close(observer);
}
END_TEST

/* The first document of `psctl top --json`, which goes on until its reader closes. */
static json_t *
totals_top(void)
{
    const char *psctl = getenv("PSCTL_BIN");
    char command[4096 + sizeof shards.addresses];
    json_error_t why;
    json_t *document;
    FILE *out;

    ck_assert_ptr_nonnull(psctl);
    snprintf(command, sizeof command, "exec %.4000s top --json --interval 0.1 --shards %s", psctl, shards.addresses);
    ck_assert_ptr_nonnull(out = popen(command, "r"));
    document = json_loadf(out, JSON_DISABLE_EOF_CHECK, &why);
    pclose(out);
    ck_assert_msg(document != NULL, "no JSON: %s", why.text);
    ck_assert_str_eq(json_string_value(json_object_get(document, "command")), "top");
    ck_assert_int_eq(json_integer_value(json_object_get(document, "not_reached")), 0);
    return document;
}

/* A shard's entry for a job there; NULL: none. */
static json_t *
job_on(json_t *document, size_t shard, const char *name)
{
    json_t *report = json_object_get(json_array_get(json_object_get(document, "shards"), shard), "report"), *job;
    size_t i;

    ck_assert(json_is_array(json_object_get(report, "job")));
    json_array_foreach(json_object_get(report, "job"), i, job)
    {
        if (strcmp(json_string_value(json_object_get(job, "name")), name) == 0)
            return job;
    }
    return NULL;
}

struct named {
    const char *name; /* NULL: it has none; those come last */
    double value;
};

/* Shard 0 reports these pairs, in their order; the other one reports none. */
static void
ck_assert_top_tells(const char *job, size_t n, const struct named *want)
{
    json_t *document = totals_top(), *told = job_on(document, 0, job), *other = job_on(document, 1, job);
    json_t *names = json_object_get(told, "metric_names"), *values = json_object_get(told, "metrics");
    size_t named = 0;

    ck_assert_uint_eq(json_array_size(values), n);
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_array_get(names, i));

        named += want[i].name != NULL;
        ck_assert_msg(want[i].name != NULL ? name != NULL && strcmp(name, want[i].name) == 0 : name == NULL,
                      "metric %zu is '%s'", i, name != NULL ? name : "");
        ck_assert_double_eq(json_number_value(json_array_get(values, i)), want[i].value);
    }
    ck_assert_uint_eq(json_array_size(names), named);
    ck_assert_uint_eq(json_array_size(json_object_get(other, "metrics")), 0);
    ck_assert_uint_eq(json_array_size(json_object_get(other, "metric_names")), 0);
    json_decref(document);
}

/* Over all workers, whichever named them; with any characters that a name may hold; and after a crash. */
START_TEST(psctl_top_tells_what_the_metrics_are_called)
{
    static const char odd[] = "lo\"ss \\ \xc3\xa9", *const names[] = {"rows", odd, "hits"};
    static const struct named want[] = {{"rows", 11}, {odd, 0.75}, {"hits", 7}, {NULL, -3}};
    struct ps_client_options options = {.job = "told", .timeout_ms = 30000, .metric_names = names, .metrics_named = 2};
    ps_client *a, *b, *plain = open_client(0, false, "plain");
    double sums[ARRAY_LEN(want)];
    struct ps_error e;

    ck_assert_msg(open_with(0, &options, &a, &e) == PS_OK, "%s", e.text);
    options.metrics_named = 3;
    ck_assert_msg(open_with(1, &options, &b, &e) == PS_OK, "%s", e.text);
    step_with(a, 2, (double[]){1, 0.5});
    step_with(b, 4, (double[]){10, 0.25, 7, -3});
    step_with(plain, 1, (double[]){5});
    ck_assert_int_eq(ps_client_metrics(a, ARRAY_LEN(sums), sums, -1, NULL), PS_OK); /* they have arrived */
    ck_assert_int_eq(ps_client_metrics(b, ARRAY_LEN(sums), sums, -1, NULL), PS_OK);
    ck_assert_int_eq(ps_client_metrics(plain, 1, sums, -1, NULL), PS_OK);
    ck_assert_top_tells("told", ARRAY_LEN(want), want);
    ck_assert_top_tells("plain", 1, &(struct named){NULL, 5});
    shards_kill(&shards, 0);
    shards_restart(&shards, 0);
    ck_assert_top_tells("told", ARRAY_LEN(want), want);
    ps_client_close(a);
    ps_client_close(b);
    ps_client_close(plain);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("totals");
    TCase *tc = tcase_create("totals");

    tcase_add_checked_fixture(tc, totals_setup, totals_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, every_meeting_finds_what_all_workers_have_done, 0, ARRAY_LEN(many));
    tcase_add_loop_test(tc, a_killed_shard_loses_and_doubles_nothing, 0, ARRAY_LEN(many) - 1);
    tcase_add_loop_test(tc, a_killed_worker_loses_and_doubles_nothing, 0, ARRAY_LEN(many));
    tcase_add_loop_test(tc, a_worker_killed_around_meetings_keeps_step_with_the_others, 0, ARRAY_LEN(many) - 1);
    tcase_add_loop_test(tc, a_worker_and_a_shard_killed_together_lose_and_double_nothing, 0, ARRAY_LEN(many) - 1);
    tcase_add_loop_test(tc, a_shard_that_loses_its_power_in_a_meeting_has_it_again, 0, ARRAY_LEN(many) - 1);
    tcase_add_test(tc, who_comes_late_to_a_meeting_changes_no_bit_of_the_model);
    tcase_add_test(tc, a_client_sets_and_asks);
    tcase_add_test(tc, a_clients_metrics_have_names);
    tcase_add_test(tc, psctl_top_tells_what_the_metrics_are_called);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
