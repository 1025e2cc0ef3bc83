/* A worker that is killed between any two of its frames, at any state of either shard, under every strategy whose
 * variables are on shards: the process that takes its place ends well, and all totals are exact.
 *
 * A frame is chosen by the shard that it goes to and its number there. From this one on nothing goes to that shard; the
 * worker goes on with the other one as far as that lets it, and is ended then. So both orders in which two shards may
 * know of a step are tried, and a declaration, a push, a tick, a pull or a barrier that only one of them has. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/api/client_state.h"
#include "client/include/psclient/ps_strategy.h"
#include "common/core/base/base.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

enum {
    SHARDS = 2,
    WORKERS = 2,
    VICTIM = 1,
    ROWS = 14,
    BATCH = 5, /* three steps an epoch */
    EPOCHS = 2,
    WEIGHTS = 1200, /* two blocks, one on each shard */
    FAILED = 3,
    START_FRAMES = 3, /* a hello, a declaration and a pull to each shard, and then each step's push, tick and pull */
    STEP_FRAMES = 3,
    STILL_MS = 10 /* what goes on without the one shard is done by then */
};

static struct shards shards;

/* What a worker leaves, for the test to check. */
struct killed_left {
    uint64_t rows;
    double numbers;
    uint32_t frames[SHARDS]; /* that it has sent */
    bool done;               /* it has met the others in the end */
    struct ps_error error;
};
static struct killed_left *left; /* [WORKERS], shared */
static atomic_uint *begun;       /* how many have joined, shared */

static void
killed_setup(void)
{
    left = mmap(NULL, WORKERS * sizeof *left, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    begun = mmap(NULL, sizeof *begun, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(left != MAP_FAILED && begun != MAP_FAILED);
    shards_start(&shards, SHARDS);
}

static void
killed_teardown(void)
{
    shards_stop(&shards);
    munmap(left, WORKERS * sizeof *left);
    munmap(begun, sizeof *begun);
}

/* ---- Frames ---- */

struct killed_at {
    uint32_t shard, frame; /* frame: from 1; 0: never */
};
static struct killed_at killed_at;
static uint32_t *frames; /* of this process to each shard */

void __real_net_send(struct net_link *n, struct core_send *send);
void __wrap_net_send(struct net_link *n, struct core_send *send);

void
__wrap_net_send(struct net_link *n, struct core_send *send)
{
    struct itimerval soon = {.it_value = {.tv_usec = STILL_MS * 1000}};

    frames[n->shard]++;
    if (killed_at.frame == 0 || n->shard != killed_at.shard || frames[n->shard] < killed_at.frame) {
        __real_net_send(n, send);
        return;
    }
    if (frames[n->shard] == killed_at.frame)
        setitimer(ITIMER_REAL, &soon, NULL); /* SIGALRM ends the process as it is */
}

/* ---- A worker ---- */

struct killed_way {
    const char *strategy;
    enum ps_mode mode;
    uint32_t local_steps;
    bool often; /* all meet after each step; else only in the end */
};

struct killed_worker {
    const struct killed_way *way;
    const char *job;
    uint32_t task;
    struct killed_left *mine;
};

static enum ps_err
killed_step(void *arg, struct ps_replica *r, struct ps_error *error)
{
    (void)arg;
    (void)error;
    for (uint64_t i = 0; i < r->rows; i++)
        r->metrics[0] += (double)(r->batch * BATCH + r->first + i + 1);
    for (uint32_t i = 0; i < WEIGHTS; i++)
        r->gradients[0][i] = 1;
    return PS_OK;
}

/* They are exactly the rows of all steps before this one. */
static enum ps_err
killed_check(struct killed_worker *w, ps_strategy *s, struct ps_error *e)
{
    uint64_t each = ps_strategy_steps_each(s), steps = ps_strategy_step(s), epochs = steps / each,
             begun_rows = MIN(steps % each * BATCH, ROWS), rows = epochs * ROWS + begun_rows;
    double numbers = (double)(epochs * ROWS * (ROWS + 1) / 2 + begun_rows * (begun_rows + 1) / 2);

    ps_strategy_totals(s, &w->mine->rows, &w->mine->numbers);
    if (w->mine->rows == rows && w->mine->numbers == numbers)
        return PS_OK;
    return ps_fail(e, PS_ERR_INTERNAL, "after %llu steps: %llu rows, whose numbers come to %.0f; not %llu and %.0f",
                   (unsigned long long)steps, (unsigned long long)w->mine->rows, w->mine->numbers,
                   (unsigned long long)rows, numbers);
}

static enum ps_err
killed_meet(struct killed_worker *w, ps_strategy *s, struct ps_error *e)
{
    enum ps_err err = ps_strategy_meet(s, e);

    return err == PS_OK ? killed_check(w, s, e) : err;
}

static enum ps_err
killed_train(struct killed_worker *w, ps_strategy *s, struct ps_error *e)
{
    const struct ps_strategy_calls calls = {.step = killed_step, .arg = w};
    uint64_t all = ps_strategy_steps_each(s) * EPOCHS;
    enum ps_err err = PS_OK;

    atomic_fetch_add(begun, 1);
    while (atomic_load(begun) < WORKERS) /* in async one that joins late goes on where the others are */
        usleep(100);
    /* The process before this one may have ended before it met the others. */
    if (ps_strategy_step(s) == all || (w->way->often && ps_strategy_step(s) > 0))
        err = killed_meet(w, s, e);
    while (err == PS_OK && ps_strategy_step(s) < all) {
        err = ps_strategy_run(s, w->way->often ? ps_strategy_step(s) + 1 : all, &calls, e);
        if (err == PS_OK)
            err = killed_meet(w, s, e);
    }
    return err;
}

static enum ps_err
killed_create(ps_strategy *s, struct ps_error *e)
{
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {WEIGHTS}, .optimizer = {.learning_rate = 0.1}};
    enum ps_err err = ps_strategy_variable(s, &spec, e);

    return err == PS_OK ? ps_strategy_start(s, e) : err;
}

static enum ps_err
killed_open(const struct killed_worker *w, ps_strategy **s, struct ps_error *e)
{
    struct ps_strategy_options options = {
        .client = {.mode = w->way->mode, .bound = 2, .timeout_ms = 20000, .job = w->job, .quiet = 1},
        .local = {.steps = w->way->local_steps},
        .threads = 1,
        .rows = ROWS,
        .batch = BATCH,
        .metrics = 1};
    ps_cluster *cluster;
    enum ps_err err;

    if ((err = ps_cluster_from_list(shards.addresses, WORKERS, w->task, &cluster, e)) != PS_OK)
        return err;
    if ((err = ps_cluster_set_name(cluster, SHARDS_CLUSTER, e)) == PS_OK) {
        options.cluster = cluster;
        err = ps_strategy_open(w->way->strategy, &options, s, e);
    }
    ps_cluster_free(cluster);
    return err;
}

static _Noreturn void
killed_main(struct killed_worker *w, struct killed_at at)
{
    ps_strategy *s = NULL;
    enum ps_err err;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGALRM, SIG_DFL); /* Check has a handler for it */
    w->mine = &left[w->task];
    killed_at = at;
    frames = w->mine->frames;
    memset(frames, 0, sizeof w->mine->frames);
    if ((err = killed_open(w, &s, &w->mine->error)) == PS_OK && (err = killed_create(s, &w->mine->error)) == PS_OK)
        err = killed_train(w, s, &w->mine->error);
    w->mine->done = err == PS_OK;
    if (err == PS_OK)
        ps_strategy_close(s); /* a process that comes after a goodbye begins another round */
    _exit(err == PS_OK ? 0 : FAILED);
}

static pid_t
killed_start(const struct killed_way *way, const char *job, uint32_t task, struct killed_at at)
{
    struct killed_worker w = {.way = way, .job = job, .task = task};
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        killed_main(&w, at);
    return pid;
}

static int
killed_wait(pid_t pid)
{
    int status = 0;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

/* ---- Ways, and frames ---- */

static const struct killed_way ways[] = {
    {"parameter_server", PS_ASYNC, 0, true}, {"parameter_server", PS_ASYNC, 0, false},
    {"parameter_server", PS_SSP, 0, true},   {"parameter_server", PS_SYNC, 0, true},
    {"local_sgd", PS_SYNC, 2, true},         {"local_sgd", PS_SYNC, 2, false},
};

static void
killed_ended_well(int status, const struct killed_way *way, uint32_t task, struct killed_at at)
{
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                  "%s, mode %d%s, killed before frame %u to shard %u: worker %u ended with status %x: %s (%s)",
                  way->strategy, (int)way->mode, way->often ? ", often" : "", at.frame, at.shard, task,
                  (unsigned)status, left[task].error.text, left[task].error.peer);
}

/* Whether the victim came as far as this frame. */
static bool
killed_once(const struct killed_way *way, struct killed_at at)
{
    static unsigned jobs;
    pid_t pid[WORKERS];
    char job[32];
    bool killed;
    int status;

    snprintf(job, sizeof job, "job-%u", jobs++);
    memset(left, 0, WORKERS * sizeof *left);
    atomic_store(begun, 0);
    for (uint32_t task = 0; task < WORKERS; task++)
        pid[task] = killed_start(way, job, task, task == VICTIM ? at : (struct killed_at){0});
    status = killed_wait(pid[VICTIM]);
    killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM && !left[VICTIM].done;
    if (killed)
        status = killed_wait(killed_start(way, job, VICTIM, (struct killed_at){0}));
    if (!left[VICTIM].done)
        killed_ended_well(status, way, VICTIM, at);
    killed_ended_well(killed_wait(pid[0]), way, 0, at);
    return killed;
}

/* All frames with PSD_TEST_ALL; else those of the first step, and some of the others. */
static bool
killed_tries(struct test_rng *rng, uint32_t frame)
{
    return getenv("PSD_TEST_ALL") != NULL || (frame > START_FRAMES && frame <= START_FRAMES + STEP_FRAMES) ||
           test_below(rng, 5) == 0;
}

START_TEST(a_worker_killed_before_any_frame_is_replaced)
{
    struct test_rng rng = {test_seed()};

    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        struct killed_at at = {.shard = shard, .frame = 1};

        while (!killed_tries(&rng, at.frame) || killed_once(&ways[_i], at))
            at.frame++;
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("killed_frames");
    TCase *tc = tcase_create("killed_frames");

    tcase_add_checked_fixture(tc, killed_setup, killed_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, a_worker_killed_before_any_frame_is_replaced, 0, ARRAY_LEN(ways));
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
