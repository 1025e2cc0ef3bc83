/* Real processes that are killed in mid-training: shards with signal 9, started again over what they left, in every
 * mode and over both transports; and two jobs that share a cluster.
 *
 * The workers here train two variables. "weights" goes to a target, through momentum, in blocks of all sizes. "ledger"
 * counts: every step of worker w adds 1 to its element w, in numbers that float32 holds exactly. So each pull shows
 * which pushes are in it, and each worker checks every pull against the mode's promise. At the end no push may be
 * missing and none counted twice. In sync the weights must have the bits of an undisturbed run.
 *
 * Workers stop at a gate in shared memory, so that faults strike in mid-training. */
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

enum { SHARDS = 2, JOBS = 2, WORKERS = 3, ELEMENTS_MAX = 100000, WAIT_MS = 30000 };

/* A job: the settings of its workers. */
struct faults_job {
    const char *name;
    enum ps_mode mode;
    uint32_t bound, quorum, workers;
    uint64_t elements, steps;
    float target;
};

/* Memory that the processes of one job share. */
struct faults_progress {
    _Atomic uint64_t gate;           /* no worker begins this step or a later one */
    _Atomic uint64_t clock[WORKERS]; /* steps done */
    uint64_t applied[WORKERS];       /* pushes that were answered with OK */
    struct ps_client_stats stats[WORKERS];
    /* by worker 0, after the last barrier: */
    float weights[ELEMENTS_MAX], ledger[WORKERS];
    uint64_t version_low, version_high;
};

static struct shards shards;
static struct faults_progress *progress; /* [JOBS] */

static void
faults_setup(void)
{
    size_t size = JOBS * sizeof *progress;

    progress = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(progress != MAP_FAILED);
    shards_start(&shards, SHARDS);
}

static void
faults_teardown(void)
{
    shards_stop(&shards);
    munmap(progress, JOBS * sizeof *progress);
}

/* ---- A worker ---- */

enum { WEIGHTS, LEDGER, VARS };

struct faults_worker {
    const struct faults_job *job;
    struct faults_progress *progress;
    uint32_t task;
    ps_client *client;
    ps_var *vars[VARS];
    float *values[VARS], *gradients[VARS];
};

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return ps_fail(e, PS_ERR_INTERNAL, __VA_ARGS__);                                                           \
    } while (0)

static enum ps_err
faults_declare(struct faults_worker *w, struct ps_error *e)
{
    struct ps_var_spec weights = {.name = "weights",
                                  .rank = 1,
                                  .dims = {w->job->elements},
                                  .init = {PS_INIT_NORMAL, 0, 1, 5},
                                  .optimizer = {.kind = PS_MOMENTUM, .learning_rate = 0.03, .momentum = 0.5}};
    struct ps_var_spec ledger = {
        .name = "ledger", .rank = 1, .dims = {w->job->workers}, .optimizer = {.learning_rate = 1}};
    enum ps_err err;

    for (int i = 0; i < VARS; i++) {
        size_t n = i == WEIGHTS ? w->job->elements : w->job->workers;

        w->values[i] = calloc(n, sizeof(float));
        w->gradients[i] = calloc(n, sizeof(float));
    }
    if ((err = ps_client_declare(w->client, &weights, &w->vars[WEIGHTS], e)) != PS_OK)
        return err;
    return ps_client_declare(w->client, &ledger, &w->vars[LEDGER], e);
}

static enum ps_err
faults_join(struct faults_worker *w, const char *addresses, struct ps_error *e)
{
    struct ps_client_options options = {.job = w->job->name,
                                        .mode = w->job->mode,
                                        .bound = w->job->bound,
                                        .quorum = w->job->quorum,
                                        .lease_ms = 2 * WAIT_MS, /* a worker that waits at the gate is silent */
                                        .timeout_ms = WAIT_MS};
    ps_cluster *cluster;
    enum ps_err err;

    if ((err = ps_cluster_from_list(addresses, w->job->workers, w->task, &cluster, e)) != PS_OK)
        return err;
    if ((err = ps_cluster_set_name(cluster, SHARDS_CLUSTER, e)) == PS_OK)
        err = ps_client_open(cluster, &options, &w->client, e);
    ps_cluster_free(cluster);
    return err == PS_OK ? faults_declare(w, e) : err;
}

static bool
waits_for_all(const struct faults_job *job)
{
    return job->mode == PS_SYNC && job->quorum == job->workers;
}

/* How many pushes of worker i a pull at clock c may hold. Of its own it holds all that count; where not
 * all workers are needed, the others may be ahead by any number. */
static void
faults_promise(const struct faults_worker *w, uint64_t c, uint32_t i, uint64_t *least, uint64_t *most)
{
    const struct faults_job *job = w->job;
    uint64_t own = w->progress->applied[w->task];

    *least = 0;
    *most = job->steps;
    if (waits_for_all(job)) {
        *least = *most = c;
    } else if (i == w->task) {
        *least = *most = own;
    } else if (job->mode == PS_SSP) {
        *least = c - MIN(c, job->bound);
        *most = c + job->bound + 1;
    }
}

static enum ps_err
check_ledger(const struct faults_worker *w, uint64_t c, struct ps_error *e)
{
    uint64_t least, most;

    for (uint32_t i = 0; i < w->job->workers; i++) {
        float count = w->values[LEDGER][i];

        faults_promise(w, c, i, &least, &most);
        CHECK(count >= (float)least && count <= (float)most,
              "worker %u of '%s' at clock %llu sees %g pushes of worker %u, not %llu to %llu", w->task, w->job->name,
              (unsigned long long)c, (double)count, i, (unsigned long long)least, (unsigned long long)most);
    }
    return PS_OK;
}

/* Toward the target, and each worker a little to its own side. */
static void
faults_compute(struct faults_worker *w)
{
    float aside = 0.125f * ((float)w->task - 1);

    for (uint64_t i = 0; i < w->job->elements; i++)
        w->gradients[WEIGHTS][i] = w->values[WEIGHTS][i] - w->job->target + aside * (float)(i % 7);
    /* sync takes the mean */
    w->gradients[LEDGER][w->task] = w->job->mode == PS_SYNC ? -(float)w->job->quorum : -1;
}

/* A push may come too late where not all are needed. The ledger is one block: it counts or it does not. */
static enum ps_err
await_push(struct faults_worker *w, int i, ps_op *push, struct ps_error *e)
{
    enum ps_err err = ps_op_wait(push, -1, e);

    if (i == LEDGER && err == PS_OK)
        w->progress->applied[w->task]++;
    return err == PS_ERR_LATE && !waits_for_all(w->job) ? PS_OK : err;
}

enum { TICK = VARS, PULL, OPS };

static enum ps_err
start_step(struct faults_worker *w, ps_op *ops[OPS], struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (int i = 0; i < VARS && err == PS_OK; i++)
        err = ps_client_push_start(w->client, 1, &w->vars[i], (const float *[]){w->gradients[i]}, NULL, &ops[i], e);
    if (err == PS_OK)
        err = ps_client_tick_start(w->client, &ops[TICK], e);
    if (err == PS_OK)
        err = ps_client_pull_start(w->client, VARS, w->vars, w->values, NULL, &ops[PULL], e);
    return err;
}

/* Pushes, tick and the next pull are under way together: a crash finds them at any point. */
static enum ps_err
faults_step(struct faults_worker *w, struct ps_error *e)
{
    ps_op *ops[OPS] = {NULL};
    enum ps_err err;

    faults_compute(w);
    err = start_step(w, ops, e);
    for (int i = 0; i < VARS && err == PS_OK; i++)
        err = await_push(w, i, ops[i], e);
    if (err == PS_OK)
        err = ps_op_wait_all(OPS - VARS, &ops[TICK], -1, e);
    for (int i = 0; i < OPS; i++)
        ps_op_free(ops[i]);
    return err;
}

static enum ps_err
faults_train(struct faults_worker *w, struct ps_error *e)
{
    enum ps_err err;

    /* A worker that joins later joins at the clock of the others: let all begin at 0. */
    if ((err = ps_client_barrier(w->client, "start", -1, e)) == PS_OK)
        err = ps_client_pull(w->client, VARS, w->vars, w->values, NULL, e);
    for (uint64_t c = 0; c < w->job->steps && err == PS_OK; c++) {
        while (c >= atomic_load(&w->progress->gate))
            usleep(500);
        if ((err = check_ledger(w, c, e)) == PS_OK)
            err = faults_step(w, e);
        if (err == PS_OK)
            atomic_store(&w->progress->clock[w->task], c + 1);
    }
    return err;
}

/* All have come, and their pushes are there. */
static enum ps_err
faults_finish(struct faults_worker *w, struct ps_error *e)
{
    struct faults_progress *p = w->progress;
    enum ps_err err;

    if ((err = ps_client_barrier(w->client, "end", -1, e)) != PS_OK)
        return err;
    for (uint32_t i = 0; i < w->job->workers; i++)
        CHECK(atomic_load(&p->clock[i]) == w->job->steps, "worker %u of '%s' passed a barrier ahead of worker %u",
              w->task, w->job->name, i);
    ps_client_stats(w->client, &p->stats[w->task]);
    if (w->task != 0)
        return PS_OK;
    if ((err = ps_client_pull(w->client, VARS, w->vars, w->values, &(struct ps_pull_options){.now = 1}, e)) != PS_OK)
        return err;
    memcpy(p->weights, w->values[WEIGHTS], w->job->elements * sizeof(float));
    memcpy(p->ledger, w->values[LEDGER], w->job->workers * sizeof(float));
    ps_var_versions(w->vars[WEIGHTS], &p->version_low, &p->version_high);
    return PS_OK;
}

static _Noreturn void
worker_main(const struct faults_job *job, struct faults_progress *p, uint32_t task, const char *addresses)
{
    struct faults_worker w = {.job = job, .progress = p, .task = task};
    struct ps_error e = {0};
    enum ps_err err;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    err = faults_join(&w, addresses, &e);
    if (err == PS_OK)
        err = faults_train(&w, &e);
    if (err == PS_OK)
        err = faults_finish(&w, &e);
    if (err != PS_OK)
        fprintf(stderr, "worker %u of '%s': %s: %s (%s)\n", task, job->name, ps_err_name(err), e.text, e.peer);
    else
        ps_client_close(w.client);
    for (int i = 0; i < VARS; i++) {
        free(w.values[i]);
        free(w.gradients[i]);
    }
    _exit(err == PS_OK ? 0 : 1);
}

/* ---- The test's side ---- */

struct faults_crew {
    const struct faults_job *job;
    struct faults_progress *progress;
    pid_t pids[WORKERS];
};

/* Its workers are there and stand at the gate. */
static struct faults_crew
start_crew(const struct faults_job *job, struct faults_progress *p, uint64_t gate, const char *addresses)
{
    struct faults_crew crew = {.job = job, .progress = p};

    ck_assert_uint_le(job->elements, ELEMENTS_MAX);
    memset(p, 0, sizeof *p);
    atomic_store(&p->gate, gate);
    for (uint32_t i = 0; i < job->workers; i++) {
        if ((crew.pids[i] = fork()) == 0)
            worker_main(job, p, i, addresses);
        ck_assert_int_gt(crew.pids[i], 0);
    }
    return crew;
}

/* Every worker has done so many steps. */
static void
await_clock(const struct faults_crew *crew, uint64_t clock)
{
    uint32_t waited = 0, i = 0;

    while (i < crew->job->workers) {
        if (atomic_load(&crew->progress->clock[i]) >= clock) {
            i++;
            continue;
        }
        ck_assert_msg(waited++ < WAIT_MS, "worker %u of '%s' does not come to clock %d", i, crew->job->name,
                      (int)clock);
        ck_assert_msg(waitpid(crew->pids[i], NULL, WNOHANG) == 0, "worker %u of '%s' ended", i, crew->job->name);
        usleep(1000);
    }
}

static void
await_end(const struct faults_crew *crew)
{
    for (uint32_t i = 0; i < crew->job->workers; i++) {
        int status;

        ck_assert_int_eq(waitpid(crew->pids[i], &status, 0), crew->pids[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "worker %u of '%s' ended with status %x", i,
                      crew->job->name, (unsigned)status);
    }
}

/* Every push is there once, and the weights are where they should be. */
static void
check_result(const struct faults_job *job, const struct faults_progress *p)
{
    uint64_t updates = job->mode == PS_SYNC ? job->steps : job->steps * job->workers;

    for (uint32_t i = 0; i < job->workers; i++) {
        ck_assert_msg(p->ledger[i] == (float)p->applied[i], "%g of %d pushes of worker %u of '%s' count",
                      (double)p->ledger[i], (int)p->applied[i], i, job->name);
        if (job->mode != PS_SYNC || waits_for_all(job))
            ck_assert_uint_eq(p->applied[i], job->steps);
    }
    ck_assert_uint_eq(p->version_low, updates);
    ck_assert_uint_eq(p->version_high, updates);
    for (uint64_t i = 0; i < job->elements; i++)
        ck_assert_msg(fabsf(p->weights[i] - job->target) < 1, "weight %d of '%s' is %g", (int)i, job->name,
                      (double)p->weights[i]);
}

/* ---- Crashes of shards ---- */

enum { CRASHES = 4, AHEAD = 20 };

static void
faults_crash(uint32_t shard)
{
    shards_kill(&shards, shard);
    shards_restart(&shards, shard);
}

/* One after the other, then both at once. Meanwhile the workers may run on, but not to their end. */
static void
train_through_crashes(const struct faults_job *job, const char *addresses)
{
    uint64_t apart = job->steps / (CRASHES + 1);
    struct faults_crew crew = start_crew(job, progress, apart + AHEAD, addresses);

    ck_assert_uint_lt(apart * CRASHES + AHEAD, job->steps);
    for (uint32_t i = 1; i <= CRASHES; i++) {
        await_clock(&crew, i * apart);
        if (i < CRASHES) {
            faults_crash(i % SHARDS);
        } else {
            shards_kill(&shards, 0);
            faults_crash(1);
            shards_restart(&shards, 0);
        }
        atomic_store(&progress->gate, i < CRASHES ? (i + 1) * apart + AHEAD : UINT64_MAX);
    }
    await_end(&crew);
}

static const struct faults_job crash_jobs[] = {
    {"async", PS_ASYNC, 0, 0, WORKERS, ELEMENTS_MAX, 200, -3},
    {"ssp", PS_SSP, 2, 0, WORKERS, ELEMENTS_MAX, 200, 4},
    {"sync", PS_SYNC, 0, WORKERS, WORKERS, ELEMENTS_MAX, 200, 5},
    {"backup", PS_SYNC, 0, WORKERS - 1, WORKERS, ELEMENTS_MAX, 200, 7},
};

START_TEST(training_goes_on_through_crashes_of_shards)
{
    const struct faults_job *job = &crash_jobs[(size_t)_i % ARRAY_LEN(crash_jobs)];
    bool over_unix = _i >= (int)ARRAY_LEN(crash_jobs);

    train_through_crashes(job, over_unix ? shards.sockets : shards.addresses);
    check_result(job, progress);
    for (uint32_t i = 0; i < job->workers; i++) {
        fprintf(stderr, "# %s worker %u: %d reconnects, %d messages sent again\n", job->name, i,
                (int)progress->stats[i].reconnects, (int)progress->stats[i].resent);
        ck_assert_uint_ge(progress->stats[i].reconnects, CRASHES + 1);
    }
}
END_TEST

START_TEST(crashes_do_not_change_a_bit_of_sync_training)
{
    struct faults_job disturbed = crash_jobs[2], calm = crash_jobs[2];
    struct faults_crew crew;

    calm.name = "calm";
    crew = start_crew(&calm, &progress[1], UINT64_MAX, shards.addresses);
    await_end(&crew);
    train_through_crashes(&disturbed, shards.addresses);
    check_result(&disturbed, &progress[0]);
    check_result(&calm, &progress[1]);
    ck_assert_mem_eq(progress[0].weights, progress[1].weights, sizeof progress[0].weights);
}
END_TEST

/* ---- Two jobs on one cluster ---- */

/* One shard's report of a job; freed with json_decref(). */
static json_t *
faults_ask(uint32_t shard, enum ps_query query, const char *job)
{
    struct ps_client_options options = {.observer = 1};
    ps_cluster *cluster;
    ps_client *observer;
    struct ps_error e;
    json_t *root;
    char *text;

    ck_assert_int_eq(ps_cluster_from_list(shards.addresses, 1, 0, &cluster, &e), PS_OK);
    ck_assert_int_eq(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &e), PS_OK);
    ck_assert_int_eq(ps_client_open(cluster, &options, &observer, &e), PS_OK);
    ck_assert_int_eq(ps_client_query(observer, shard, query, job, -1, &text, &e), PS_OK);
    ck_assert_ptr_nonnull((root = json_loads(text, 0, NULL)));
    ps_free(text);
    ps_client_close(observer);
    ps_cluster_free(cluster);
    return root;
}

/* Every shard knows these workers of the job, all at this clock, and no others. */
static void
expect_workers(const struct faults_job *job, uint64_t clock)
{
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        json_t *root = faults_ask(shard, PS_QUERY_WORKERS, job->name), *rows = json_object_get(root, "worker"), *row;
        size_t i;

        ck_assert_uint_eq(json_array_size(rows), job->workers);
        json_array_foreach(rows, i, row)
        {
            ck_assert_str_eq(json_string_value(json_object_get(row, "job")), job->name);
            ck_assert_int_eq(json_integer_value(json_object_get(row, "clock")), (json_int_t)clock);
        }
        json_decref(root);
    }
}

/* The job's variables have the job's shapes, and no other job's are among them. */
static void
expect_variables(const struct faults_job *job)
{
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        json_t *root = faults_ask(shard, PS_QUERY_VARIABLES, job->name), *row;
        size_t i;

        json_array_foreach(json_object_get(root, "variable"), i, row)
        {
            bool weights = strcmp(json_string_value(json_object_get(row, "name")), "weights") == 0;
            uint64_t elements = weights ? job->elements : job->workers;

            ck_assert_str_eq(json_string_value(json_object_get(row, "job")), job->name);
            ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(row, "dims"), 0)), (json_int_t)elements);
        }
        json_decref(root);
    }
}

/* The same names of variables and barriers, the same worker indices; other modes, shapes, targets and clocks. A step of
 * "slow" waits at its gate while "fast" runs to its end; a shard crashes under both. */
START_TEST(two_jobs_on_one_cluster_do_not_see_each_other)
{
    const struct faults_job slow = {"slow", PS_SYNC, 0, 3, 3, 7001, 120, -2},
                            fast = {"fast", PS_SSP, 1, 0, 2, 40000, 300, 6};
    struct faults_crew slow_crew = start_crew(&slow, &progress[0], 30, shards.addresses);
    struct faults_crew fast_crew = start_crew(&fast, &progress[1], 150, shards.sockets);

    await_clock(&slow_crew, 30);
    await_clock(&fast_crew, 150);
    expect_workers(&slow, 30);
    expect_workers(&fast, 150);
    expect_variables(&slow);
    expect_variables(&fast);
    faults_crash(0);
    atomic_store(&progress[1].gate, UINT64_MAX);
    await_end(&fast_crew);
    for (uint32_t i = 0; i < slow.workers; i++)
        ck_assert_uint_eq(atomic_load(&progress[0].clock[i]), 30);
    atomic_store(&progress[0].gate, UINT64_MAX);
    await_end(&slow_crew);
    check_result(&slow, &progress[0]);
    check_result(&fast, &progress[1]);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("faults");
    TCase *tc = tcase_create("faults");

    tcase_add_checked_fixture(tc, faults_setup, faults_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, training_goes_on_through_crashes_of_shards, 0, 2 * (int)ARRAY_LEN(crash_jobs));
    tcase_add_test(tc, crashes_do_not_change_a_bit_of_sync_training);
    tcase_add_test(tc, two_jobs_on_one_cluster_do_not_see_each_other);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
