/* Workers of multi_worker_mirrored that are lost at the worst time: while variables are handed over to a replacement,
 * between the meeting and the connecting, or only for a while. The others go on from the last step that was agreed on,
 * with all of its values, and take in the next worker that comes.
 *
 * Workers are processes that meet at a shard. The calls in whose midst they end are wrapped by the linker. */
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/group/group_state.h"
#include "client/include/psclient/ps_strategy.h"
#include "common/core/base/base.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

enum {
    WORKERS_MAX = 3,
    VARIABLES = 3,
    WIDTH = 50,
    BATCH = 12,
    REACHED = 12,
    MORE = 20,
    PATIENCE_MS = 60000,
    FAILED = 3,
    PACE_US = 10000,           /* of a step with a checkpoint behind it, so that there are not too many */
    HANDED = 3 * VARIABLES + 1 /* broadcasts of a hand-over: values, a slot and the version of each; what was counted */
};

static struct shards shards;

struct handover_life {
    uint32_t workers, task;
    int timeout_ms; /* 0: PATIENCE_MS */
    enum ps_lapse lapse;
    int dies_at;   /* this broadcast of a hand-over, from 1 on, once one is missing; of a replacement, of its first */
    int form_dies; /* this forming of a group, from 1 on */
    uint32_t min_workers;
    const struct ps_group_options *group;
    const char *checkpoints; /* the chief saves each step there */
    bool misfit;             /* it cuts batches differently */
    bool replaces;           /* it comes late */
};

/* A worker's results, for the test to check. */
struct handover_left {
    float values[VARIABLES][WIDTH];
    uint64_t step;
    uint32_t workers;
    struct ps_strategy_stats stats;
    struct ps_error error;
};
static struct handover_left *left; /* [WORKERS_MAX], shared */

/* ---- Where they end ---- */

static int broadcasts_left, forms_left; /* 0: it does not end there */

enum ps_err __real_ps_group_broadcast(ps_group *g, void *buffer, size_t count, enum ps_dtype dtype, uint32_t root,
                                      ps_work **work, struct ps_error *e);
enum ps_err __wrap_ps_group_broadcast(ps_group *g, void *buffer, size_t count, enum ps_dtype dtype, uint32_t root,
                                      ps_work **work, struct ps_error *e);
enum ps_err __real_group_form(ps_group *g, struct group_membership *t, uint64_t deadline_ms, struct ps_error *e);
enum ps_err __wrap_group_form(ps_group *g, struct group_membership *t, uint64_t deadline_ms, struct ps_error *e);

enum ps_err
__wrap_ps_group_broadcast(ps_group *g, void *buffer, size_t count, enum ps_dtype dtype, uint32_t root, ps_work **work,
                          struct ps_error *e)
{
    if (broadcasts_left > 0 && --broadcasts_left == 0)
        raise(SIGKILL);
    return __real_ps_group_broadcast(g, buffer, count, dtype, root, work, e);
}

enum ps_err
__wrap_group_form(ps_group *g, struct group_membership *t, uint64_t deadline_ms, struct ps_error *e)
{
    if (forms_left > 0 && --forms_left == 0)
        raise(SIGKILL);
    return __real_group_form(g, t, deadline_ms, e);
}

/* ---- A worker ---- */

static const float start_value = 3;

/* Every row moves every value towards its number. arg: how long it takes. */
static enum ps_err
handover_step(void *arg, struct ps_replica *r, struct ps_error *e)
{
    usleep(*(const useconds_t *)arg);
    (void)e;
    for (size_t i = 0; i < VARIABLES; i++)
        for (size_t k = 0; k < WIDTH; k++) {
            r->gradients[i][k] = 0;
            for (uint64_t row = r->first; row < r->first + r->rows; row++)
                r->gradients[i][k] += r->scale * (r->values[i][k] - (float)((row + k + i) % 5));
        }
    return PS_OK;
}

static useconds_t pace_us;

static enum ps_err
run_to(ps_strategy *s, uint64_t until, struct ps_error *e)
{
    return ps_strategy_run(s, until, &(struct ps_strategy_calls){.step = handover_step, .arg = &pace_us}, e);
}

static enum ps_err
handover_create(ps_strategy *s, struct ps_error *e)
{
    static const char *const names[VARIABLES] = {"a", "b", "c"};
    enum ps_err err = PS_OK;

    for (size_t i = 0; i < VARIABLES && err == PS_OK; i++) {
        struct ps_var_spec spec = {
            .name = names[i], .rank = 1, .dims = {WIDTH}, .init = {PS_INIT_CONSTANT, (double)start_value, 0, 0}};

        if ((err = ps_optimizer_parse("momentum:learning_rate=0.01,momentum=0.9", &spec.optimizer, e)) == PS_OK)
            err = ps_strategy_variable(s, &spec, e);
    }
    return err;
}

static struct ps_strategy_options
options_of(const ps_cluster *cluster, const struct handover_life *l)
{
    return (struct ps_strategy_options){
        .cluster = cluster,
        .client = {.timeout_ms = l->timeout_ms != 0 ? l->timeout_ms : PATIENCE_MS, .lapse = l->lapse},
        .group = l->group,
        .rows = BATCH,
        .batch = l->misfit ? BATCH / 2 : BATCH,
        .min_workers = l->min_workers,
        .checkpoints = l->checkpoints,
        .checkpoint_steps = 1,
        .threads = 1};
}

static int say; /* to the test */

static void
handover_tell(char what)
{
    if (write(say, &what, 1) != 1)
        _exit(4);
}

static bool
all_again(const ps_strategy *s, const struct handover_life *l)
{
    struct ps_strategy_stats stats;

    ps_strategy_stats(s, &stats);
    return (l->replaces || stats.reforms > 0) && ps_strategy_workers(s) == l->workers;
}

/* To step REACHED; then until one was lost and all are there again, which is behind the same step for all, and MORE
 * steps after that. */
static enum ps_err
handover_train(ps_strategy *s, const struct handover_life *l, struct ps_error *e)
{
    bool alone = false;
    enum ps_err err = PS_OK;

    if (!l->replaces && (err = run_to(s, REACHED, e)) != PS_OK)
        return err;
    handover_tell('r');
    while (err == PS_OK && !all_again(s, l)) {
        if (!alone && ps_strategy_workers(s) < l->workers) {
            alone = true; /* and a worker that was a step behind has caught up */
            broadcasts_left = l->replaces ? broadcasts_left : l->dies_at;
            handover_tell('l');
        }
        err = run_to(s, ps_strategy_step(s) + 1, e);
    }
    return err == PS_OK ? run_to(s, ps_strategy_step(s) + MORE, e) : err;
}

static enum ps_err
handover_work(ps_strategy **s, const ps_cluster *cluster, const struct handover_life *l, struct ps_error *e)
{
    struct ps_strategy_options options = options_of(cluster, l);
    struct handover_left *mine = &left[l->task];
    enum ps_err err;

    forms_left = l->form_dies;
    if ((err = ps_strategy_open("multi_worker_mirrored", &options, s, e)) != PS_OK ||
        (err = handover_create(*s, e)) != PS_OK)
        return err;
    if (l->replaces)
        broadcasts_left = l->dies_at;
    if ((err = ps_strategy_start(*s, e)) != PS_OK || (err = handover_train(*s, l, e)) != PS_OK ||
        (err = ps_strategy_meet(*s, e)) != PS_OK)
        return err;
    for (size_t i = 0; i < VARIABLES; i++)
        memcpy(mine->values[i], ps_strategy_values(*s, 0)[i], sizeof mine->values[i]);
    mine->step = ps_strategy_step(*s);
    mine->workers = ps_strategy_workers(*s);
    ps_strategy_stats(*s, &mine->stats);
    return PS_OK;
}

static _Noreturn void
worker_main(const struct handover_life *l)
{
    struct ps_error *e = &left[l->task].error;
    ps_strategy *s = NULL;
    ps_cluster *cluster;
    enum ps_err err;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pace_us = l->checkpoints != NULL ? PACE_US : 0;
    if ((err = ps_cluster_from_list(shards.addresses, l->workers, l->task, &cluster, e)) == PS_OK &&
        (err = ps_cluster_set_name(cluster, SHARDS_CLUSTER, e)) == PS_OK)
        err = handover_work(&s, cluster, l, e);
    if (err == PS_OK)
        ps_strategy_close(s);
    else if (s != NULL)
        ps_strategy_abandon(s);
    _exit(err == PS_OK ? 0 : FAILED);
}

/* ---- Their lives ---- */

static pid_t pid[WORKERS_MAX]; /* 0: none, or gone */
static int hear[WORKERS_MAX];

static void
handover_start(struct handover_life life)
{
    int ends[2];

    ck_assert_int_eq(pipe(ends), 0);
    say = ends[1];
    if ((pid[life.task] = fork()) == 0)
        worker_main(&life);
    ck_assert_int_gt(pid[life.task], 0);
    close(ends[1]);
    hear[life.task] = ends[0];
}

static void
start_all(struct handover_life life)
{
    for (life.task = 0; life.task < life.workers; life.task++)
        handover_start(life);
}

static void
handover_await(uint32_t task, char what)
{
    struct pollfd heard = {.fd = hear[task], .events = POLLIN};
    char word = 0;

    ck_assert_int_eq(poll(&heard, 1, PATIENCE_MS), 1);
    ck_assert_msg(read(hear[task], &word, 1) == 1, "worker %u has ended: %s", task, left[task].error.text);
    ck_assert_int_eq(word, what);
}

/* It ends by this signal, which another one or it itself has sent. */
static void
await_death(uint32_t task)
{
    int status;

    ck_assert_int_eq(waitpid(pid[task], &status, 0), pid[task]);
    ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "worker %u ended with %x: %s", task,
                  (unsigned)status, left[task].error.text);
    close(hear[task]);
    pid[task] = 0;
}

static void
kill_worker(uint32_t task)
{
    ck_assert_int_eq(kill(pid[task], SIGKILL), 0);
    await_death(task);
}

static void
await_end(uint32_t task, int want)
{
    int status;

    ck_assert_int_eq(waitpid(pid[task], &status, 0), pid[task]);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == want, "worker %u ended with %x: %s (%s)", task,
                  (unsigned)status, left[task].error.text, left[task].error.peer);
    close(hear[task]);
    pid[task] = 0;
}

/* The result of one process after as many steps. */
static void
train_alone(uint64_t steps, float values[VARIABLES][WIDTH])
{
    struct ps_strategy_options options = options_of(NULL, &(struct handover_life){.workers = 1});
    ps_strategy *s;

    ck_assert_int_eq(ps_strategy_open("one_device", &options, &s, NULL), PS_OK);
    ck_assert_int_eq(handover_create(s, NULL), PS_OK);
    ck_assert_int_eq(ps_strategy_start(s, NULL), PS_OK);
    ck_assert_int_eq(run_to(s, steps, NULL), PS_OK);
    for (size_t i = 0; i < VARIABLES; i++)
        memcpy(values[i], ps_strategy_values(s, 0)[i], sizeof values[i]);
    ps_strategy_close(s);
}

/* All workers end well, together and with one model: that of as many steps, each of which counted once. */
static void
assert_one_model(uint32_t workers)
{
    float alone[VARIABLES][WIDTH];

    for (uint32_t t = 0; t < workers; t++)
        await_end(t, 0);
    train_alone(left[0].step, alone);
    for (uint32_t t = 0; t < workers; t++) {
        ck_assert_uint_eq(left[t].step, left[0].step);
        ck_assert_uint_eq(left[t].workers, workers);
        ck_assert_msg(memcmp(left[t].values, left[0].values, sizeof left[t].values) == 0,
                      "worker %u has another model than worker 0", t);
    }
    for (size_t i = 0; i < VARIABLES; i++)
        for (size_t k = 0; k < WIDTH; k++)
            ck_assert_msg(fabsf(left[0].values[i][k] - alone[i][k]) < 1e-4f, "value %zu of %zu is %.9g, not %.9g", k, i,
                          (double)left[0].values[i][k], (double)alone[i][k]);
}

static void
handover_setup(void)
{
    left = mmap(NULL, WORKERS_MAX * sizeof *left, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(left != MAP_FAILED);
    shards_start(&shards, 1);
}

static void
handover_teardown(void)
{
    for (uint32_t t = 0; t < WORKERS_MAX; t++)
        if (pid[t] != 0)
            kill(pid[t], SIGKILL);
    shards_stop(&shards);
    munmap(left, WORKERS_MAX * sizeof *left);
}

/* ---- A hand-over that is broken off ---- */

static const int dies_at[] = {1, 2, 5, HANDED};

/* Worker 0 is killed while it hands over; worker 1 has all values as well, and hands them over. Then another one takes
 * worker 0's place. */
START_TEST(who_gives_is_killed)
{
    struct handover_life life = {.workers = 3};

    for (life.task = 0; life.task < 3; life.task++) {
        life.dies_at = life.task == 0 ? dies_at[_i] : 0;
        handover_start(life);
    }
    for (uint32_t t = 0; t < 3; t++)
        handover_await(t, 'r');
    kill_worker(2);
    handover_await(0, 'l');
    handover_await(1, 'l');
    handover_start((struct handover_life){.workers = 3, .task = 2, .replaces = true});
    await_death(0);
    handover_start((struct handover_life){.workers = 3, .task = 0, .replaces = true});
    assert_one_model(3);
    ck_assert_uint_ge(left[2].stats.received, 1);
    ck_assert_uint_eq(left[0].stats.received, 1);
}
END_TEST

/* A replacement is killed while it receives; the next one receives all. */
START_TEST(who_takes_is_killed)
{
    struct handover_life life = {.workers = 3, .task = 2, .replaces = true};

    start_all((struct handover_life){.workers = 3});
    for (uint32_t t = 0; t < 3; t++)
        handover_await(t, 'r');
    kill_worker(2);
    handover_await(0, 'l');
    handover_await(1, 'l');
    life.dies_at = dies_at[_i];
    handover_start(life);
    await_death(2);
    life.dies_at = 0;
    handover_start(life);
    assert_one_model(3);
    ck_assert_uint_eq(left[2].stats.received, 1);
}
END_TEST

/* No other worker has the values that were being handed over: that is reported, and none restarts from scratch
 * silently. */
START_TEST(the_only_one_that_gives_is_killed)
{
    struct handover_life life = {.workers = 2};

    for (life.task = 0; life.task < 2; life.task++) {
        life.dies_at = life.task == 0 ? dies_at[_i] : 0;
        handover_start(life);
    }
    handover_await(0, 'r');
    handover_await(1, 'r');
    kill_worker(1);
    handover_await(0, 'l');
    handover_start((struct handover_life){.workers = 2, .task = 1, .replaces = true});
    await_death(0);
    await_end(1, FAILED);
    ck_assert_int_eq(left[1].error.code, PS_ERR_STEP_FAILED);
    ck_assert_msg(strstr(left[1].error.text, "who gave its variables to worker 1 was lost") != NULL, "%s",
                  left[1].error.text);
}
END_TEST

/* ---- Saving ---- */

/* Whether there is a whole checkpoint of this step. */
static bool
is_saved(const char *dir, uint64_t step)
{
    char path[256];

    snprintf(path, sizeof path, "%s/clock-%llu/manifest.json", dir, (unsigned long long)step);
    return access(path, R_OK) == 0;
}

/* The chief is killed, another one saves in its place; and hands over to the replacement of the first, behind some step
 * or other, which then neither of the two is the chief of all through. */
START_TEST(each_step_is_saved_whoever_is_the_chief)
{
    struct handover_life life = {.workers = 2};
    char dir[192];

    snprintf(dir, sizeof dir, "%s/saved", shards.directory);
    life.checkpoints = dir;
    start_all(life);
    handover_await(0, 'r');
    handover_await(1, 'r');
    kill_worker(0);
    handover_await(1, 'l');
    life.replaces = true;
    handover_start(life);
    assert_one_model(2);
    for (uint64_t n = 1; n <= left[0].step; n++)
        ck_assert_msg(is_saved(dir, n), "there is no checkpoint after %llu of %llu steps", (unsigned long long)n,
                      (unsigned long long)left[0].step);
}
END_TEST

/* ---- Between meeting and connecting ---- */

/* At the start: the others meet again, and wait for its replacement. */
START_TEST(who_has_met_is_killed_before_it_connects)
{
    struct handover_life life = {.workers = 3, .timeout_ms = 20000};
    const uint32_t victim = (uint32_t)_i;

    for (life.task = 0; life.task < 3; life.task++) {
        life.form_dies = life.task == victim ? 1 : 0;
        handover_start(life);
    }
    await_death(victim);
    life.form_dies = 0;
    life.task = victim;
    handover_start(life);
    for (uint32_t t = 0; t < 3; t++)
        handover_await(t, 'r');
}
END_TEST

/* A new worker that is admitted: the group is formed again without it, and then with the next one. */
START_TEST(a_newcomer_is_killed_before_it_connects)
{
    struct handover_life life = {.workers = 3, .task = 2, .timeout_ms = 4000, .replaces = true, .form_dies = 1};

    start_all((struct handover_life){.workers = 3, .timeout_ms = 4000});
    for (uint32_t t = 0; t < 3; t++)
        handover_await(t, 'r');
    kill_worker(2);
    handover_await(0, 'l');
    handover_await(1, 'l');
    handover_start(life);
    await_death(2);
    life.form_dies = 0;
    handover_start(life);
    assert_one_model(3);
}
END_TEST

/* ---- For a while ---- */

/* It is stopped, for less than an exchange may take: it is waited for. */
START_TEST(who_is_slow_is_not_lost)
{
    start_all((struct handover_life){.workers = 2});
    handover_await(0, 'r');
    handover_await(1, 'r');
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(kill(pid[_i], SIGSTOP), 0);
        usleep(300000); /* how slow it is */
        ck_assert_int_eq(kill(pid[_i], SIGCONT), 0);
    }
    for (uint32_t t = 0; t < 2; t++) {
        struct pollfd heard = {.fd = hear[t], .events = POLLIN};

        ck_assert_msg(poll(&heard, 1, 0) == 0, "worker %u has lost the other", t);
    }
}
END_TEST

/* ... for longer: the other goes on without it, and it comes back. */
START_TEST(who_was_stopped_too_long_comes_back)
{
    start_all((struct handover_life){.workers = 2, .timeout_ms = 3000});
    handover_await(0, 'r');
    handover_await(1, 'r');
    ck_assert_int_eq(kill(pid[_i], SIGSTOP), 0);
    handover_await(1 - (uint32_t)_i, 'l');
    ck_assert_int_eq(kill(pid[_i], SIGCONT), 0);
    assert_one_model(2);
}
END_TEST

/* ... where no worker may be lost, it is named. */
START_TEST(who_was_stopped_too_long_is_named)
{
    char name[64];

    start_all((struct handover_life){.workers = 2, .timeout_ms = 3000, .lapse = PS_LAPSE_FAIL});
    handover_await(0, 'r');
    handover_await(1, 'r');
    ck_assert_int_eq(kill(pid[_i], SIGSTOP), 0);
    await_end(1 - (uint32_t)_i, FAILED);
    ck_assert_int_eq(kill(pid[_i], SIGCONT), 0);
    await_end((uint32_t)_i, FAILED);
    snprintf(name, sizeof name, "worker %d was lost in step", _i);
    ck_assert_int_eq(left[1 - _i].error.code, PS_ERR_STEP_FAILED);
    ck_assert_msg(strstr(left[1 - _i].error.text, name) != NULL, "%s", left[1 - _i].error.text);
}
END_TEST

/* ---- Too few, or none that fits ---- */

START_TEST(fewer_than_min_workers_do_not_go_on)
{
    start_all((struct handover_life){.workers = 3, .timeout_ms = 3000, .min_workers = 2});
    for (uint32_t t = 0; t < 3; t++)
        handover_await(t, 'r');
    kill_worker(2);
    handover_await(0, 'l');
    handover_await(1, 'l');
    kill_worker(1);
    await_end(0, FAILED);
    ck_assert_int_eq(left[0].error.code, PS_ERR_STEP_FAILED);
    ck_assert_msg(strstr(left[0].error.text, "fewer workers than min_workers, 2, are left") != NULL, "%s",
                  left[0].error.text);
}
END_TEST

START_TEST(min_workers_are_no_more_than_there_are_and_of_one_strategy)
{
    struct handover_life life = {.workers = 2, .min_workers = 3};
    struct ps_strategy_options options;
    struct ps_error e;
    ps_cluster *cluster;
    ps_strategy *s;

    ck_assert_int_eq(ps_cluster_from_list(shards.addresses, 2, 0, &cluster, &e), PS_OK);
    options = options_of(cluster, &life);
    ck_assert_int_eq(ps_strategy_open("multi_worker_mirrored", &options, &s, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "min_workers is 3, and the cluster has 2");
    options.min_workers = 2;
    ck_assert_int_eq(ps_strategy_open("parameter_server", &options, &s, &e), PS_ERR_INVALID);
    ck_assert_str_eq(e.text, "min_workers (2) is for multi_worker_mirrored, not for parameter_server");
    ps_cluster_free(cluster);
}
END_TEST

/* Whether it ends, before the other does. */
static bool
ends_first(uint32_t task, uint32_t other)
{
    struct pollfd heard[] = {{.fd = hear[task], .events = POLLIN}, {.fd = hear[other], .events = POLLIN}};

    ck_assert_int_ge(poll(heard, 2, PATIENCE_MS), 1);
    return heard[0].revents != 0;
}

/* A worker that was lost is replaced, at once and again and again, by one with other options: the others do not meet it
 * for ever. They wait long for it here, so that it is at each meeting. */
START_TEST(who_never_fits_does_not_keep_the_others_for_ever)
{
    const struct ps_group_options patient = {.settle_ms = 20000};
    struct handover_life life = {.workers = 3, .task = 2, .group = &patient, .misfit = true, .replaces = true};
    uint32_t met = 0;

    start_all((struct handover_life){.workers = 3, .group = &patient});
    for (uint32_t t = 0; t < 3; t++)
        handover_await(t, 'r');
    kill_worker(2);
    for (;;) {
        handover_start(life);
        if (ends_first(0, 2))
            break;
        await_end(2, FAILED);
        ck_assert_msg(left[2].error.code == PS_ERR_MISMATCH, "%s", left[2].error.text);
        met++;
    }
    ck_assert_uint_ge(met, 14);
    ck_assert_uint_le(met, 16);
    await_end(0, FAILED);
    await_end(1, FAILED);
    ck_assert_int_eq(left[0].error.code, PS_ERR_MISMATCH);
    ck_assert_int_eq(left[1].error.code, PS_ERR_MISMATCH);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("handover");
    TCase *tc = tcase_create("handover"), *saved = tcase_create("saved");

    tcase_add_checked_fixture(tc, handover_setup, handover_teardown);
    tcase_set_timeout(tc, 180);
    tcase_add_loop_test(tc, who_gives_is_killed, 0, (int)ARRAY_LEN(dies_at));
    tcase_add_loop_test(tc, who_takes_is_killed, 0, (int)ARRAY_LEN(dies_at));
    tcase_add_loop_test(tc, the_only_one_that_gives_is_killed, 0, (int)ARRAY_LEN(dies_at));
    tcase_add_loop_test(tc, who_has_met_is_killed_before_it_connects, 0, 3);
    tcase_add_test(tc, a_newcomer_is_killed_before_it_connects);
    tcase_add_loop_test(tc, who_is_slow_is_not_lost, 0, 2);
    tcase_add_loop_test(tc, who_was_stopped_too_long_comes_back, 0, 2);
    tcase_add_loop_test(tc, who_was_stopped_too_long_is_named, 0, 2);
    tcase_add_test(tc, fewer_than_min_workers_do_not_go_on);
    tcase_add_test(tc, min_workers_are_no_more_than_there_are_and_of_one_strategy);
    tcase_add_test(tc, who_never_fits_does_not_keep_the_others_for_ever);
    suite_add_tcase(suite, tc);
    tcase_add_checked_fixture(saved, handover_setup, handover_teardown);
    tcase_set_timeout(saved, 180);
    tcase_add_test(saved, each_step_is_saved_whoever_is_the_chief);
    suite_add_tcase(suite, saved);
    return suite;
}

CHECK_MAIN(make_suite)
