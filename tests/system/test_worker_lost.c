/* Workers of multi_worker_mirrored that are killed in the middle: the others go on, without being started again,
 * without the one that was lost or with its replacement; or they end with an error that names it, where that was asked
 * for.
 *
 * Workers are processes. They meet at a shard or, without shards, among themselves. */
#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/examples/digits/model.h"
#include "client/examples/digits/train.h"
#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"
#include "tests/system/digits_fixture.h"
#include "tests/unit/kits/check_main.h"

enum { WORKERS = 3, FLOATS_MAX = 20000, REACHED = 12, PATIENCE_S = 60, FAILED = 3 };

/* A worker's results, for the test to check. */
struct worker_lost_left {
    float weights[FLOATS_MAX];
    size_t len, correct;
    uint64_t step;
    uint32_t workers;
    int chief;
    struct ps_strategy_stats stats;
    struct ps_error error;
};
static struct worker_lost_left *left; /* [WORKERS], shared */

static void
worker_lost_setup(void)
{
    digits_setup(1);
    left = digits_share(WORKERS * sizeof *left);
}

static void
worker_lost_teardown(void)
{
    munmap(left, WORKERS * sizeof *left);
    digits_teardown();
}

/* ---- A worker ---- */

struct worker_lost_life {
    const char *arguments; /* of the digits example, after --strategy */
    uint32_t settle_ms;
    bool until_all; /* not until the last step, but 20 more than when all were there again */
    bool dies;      /* it will be killed, and waits for that if it has not been when its training is done */
    uint32_t task;
    int tell; /* where it reports that it has reached step REACHED, and that a worker is missing */
};

static enum ps_err
run_to(struct train *t, uint64_t step, struct ps_error *e)
{
    t->steps = step;
    return train_run(t, e);
}

static enum ps_err
worker_lost_tell(const struct worker_lost_life *l, struct ps_error *e)
{
    return write(l->tell, "!", 1) == 1 ? PS_OK : ps_fail(e, PS_ERR_IO, "nobody listens");
}

/* One is missing, then all are there; all notice it at the same step. */
static enum ps_err
run_until_all(struct train *t, const struct worker_lost_life *l, struct ps_error *e)
{
    bool missing = ps_strategy_step(t->strategy) > REACHED; /* a worker that comes so late was missing itself */
    enum ps_err err = PS_OK;

    while (err == PS_OK && !(missing && ps_strategy_workers(t->strategy) == WORKERS)) {
        err = run_to(t, ps_strategy_step(t->strategy) + 1, e);
        if (err != PS_OK || missing || ps_strategy_workers(t->strategy) == WORKERS)
            continue;
        missing = true;
        err = worker_lost_tell(l, e);
    }
    return err == PS_OK ? run_to(t, ps_strategy_step(t->strategy) + 20, e) : err;
}

static enum ps_err
run_all(struct train *t, const struct worker_lost_life *l, struct ps_error *e)
{
    uint64_t steps = t->steps;
    enum ps_err err;

    if ((err = run_to(t, REACHED, e)) != PS_OK)
        return err;
    if ((err = worker_lost_tell(l, e)) != PS_OK)
        return err;
    err = l->until_all ? run_until_all(t, l, e) : run_to(t, steps, e);
    while (err == PS_OK && l->dies)
        pause();
    return err;
}

static enum ps_err
worker_lost_work(struct train *t, const struct worker_lost_life *l, const ps_cluster *cluster, struct ps_error *e)
{
    struct worker_lost_left *mine = &left[l->task];
    struct ps_network_result result;
    enum ps_err err;

    if ((err = train_open(t, cluster, e)) != PS_OK || (err = run_all(t, l, e)) != PS_OK ||
        (err = train_meet(t, e)) != PS_OK || (err = train_evaluate(t, &result, e)) != PS_OK)
        return err;
    mine->correct = result.correct;
    mine->step = ps_strategy_step(t->strategy);
    mine->workers = ps_strategy_workers(t->strategy);
    mine->chief = ps_strategy_is_chief(t->strategy);
    ps_strategy_stats(t->strategy, &mine->stats);
    mine->len = digits_weights(t->replica[0].network, FLOATS_MAX, mine->weights);
    return PS_OK;
}

static _Noreturn void
worker_main(const struct worker_lost_life *l)
{
    struct ps_group_options group = {.settle_ms = l->settle_ms};
    struct ps_error *e = &left[l->task].error;
    struct digits_words words;
    struct digits_options options;
    struct train t = {.options = &options, .data = &data, .held_out = &held_out, .silent = true, .group = &group};
    ps_cluster *cluster;
    enum ps_err err;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((err = digits_read(&words, &options, e, "--strategy multi_worker_mirrored --threads=1 %s", l->arguments)) ==
            PS_OK &&
        (err = digits_cluster(WORKERS, l->task, &cluster, e)) == PS_OK)
        err = worker_lost_work(&t, l, cluster, e);
    train_close(&t, err == PS_OK);
    _exit(err == PS_OK ? 0 : FAILED);
}

/* ---- Their lives ---- */

struct worker_lost_crowd {
    pid_t pid[WORKERS];
    int hear[WORKERS];
};

static void
start_worker(struct worker_lost_crowd *c, struct worker_lost_life life, uint32_t task)
{
    int ends[2];

    ck_assert_int_eq(pipe(ends), 0);
    life.task = task;
    life.tell = ends[1];
    if ((c->pid[task] = fork()) == 0)
        worker_main(&life);
    ck_assert_int_gt(c->pid[task], 0);
    close(ends[1]);
    c->hear[task] = ends[0];
}

static void
start_all(struct worker_lost_crowd *c, struct worker_lost_life life, uint32_t victim)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        life.dies = i == victim;
        start_worker(c, life, i);
    }
}

/* It reports and goes on: a later fault finds it anywhere in a step. */
static void
await_word(const struct worker_lost_crowd *c, uint32_t task)
{
    struct pollfd heard = {.fd = c->hear[task], .events = POLLIN};
    char word;

    ck_assert_int_eq(poll(&heard, 1, PATIENCE_S * 1000), 1);
    ck_assert_msg(read(c->hear[task], &word, 1) == 1, "worker %u has ended: %s", task, left[task].error.text);
}

static void
kill_worker(struct worker_lost_crowd *c, uint32_t task)
{
    int status;

    await_word(c, task);
    ck_assert_int_eq(kill(c->pid[task], SIGKILL), 0);
    ck_assert_int_eq(waitpid(c->pid[task], &status, 0), c->pid[task]);
    ck_assert_msg(WIFSIGNALED(status), "worker %u had ended", task);
    close(c->hear[task]);
    c->pid[task] = 0;
}

static void
end_all(struct worker_lost_crowd *c, int want)
{
    int status;

    for (uint32_t i = 0; i < WORKERS; i++) {
        if (c->pid[i] == 0)
            continue;
        ck_assert_int_eq(waitpid(c->pid[i], &status, 0), c->pid[i]);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == want, "worker %u ended with status %x: %s (%s)", i,
                      (unsigned)status, left[i].error.text, left[i].error.peer);
        close(c->hear[i]);
    }
}

/* In the place of the shard that was killed: a listener that turns so many connections away. */
static void
turn_away(uint32_t count)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;

    at.sin_port = htons((uint16_t)atoi(strrchr(shards.address[0], ':') + 1));
    ck_assert_int_eq(setsockopt(door, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    ck_assert_int_eq(bind(door, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(door, 8), 0);
    while (count-- > 0) {
        struct pollfd comes = {.fd = door, .events = POLLIN};

        ck_assert_int_eq(poll(&comes, 1, PATIENCE_S * 1000), 1);
        close(accept(door, NULL, NULL));
    }
    close(door);
}

/* All that are left have the model of the first of them, which is returned. */
static const struct worker_lost_left *
assert_one_model(const struct worker_lost_crowd *c)
{
    const struct worker_lost_left *first = NULL;

    for (uint32_t i = 0; i < WORKERS; i++) {
        if (c->pid[i] == 0)
            continue;
        if (first == NULL)
            first = &left[i];
        ck_assert_uint_gt(left[i].len, 0);
        ck_assert_msg(memcmp(left[i].weights, first->weights, first->len * sizeof(float)) == 0,
                      "worker %u has another model than the others", i);
        ck_assert(left[i].step == first->step && left[i].workers == first->workers);
        ck_assert_int_eq(left[i].chief, first == &left[i]);
    }
    return first;
}

/* ---- Tests ---- */

/* _i: the worker that is killed; 0 is the chief. Not much is left to do when all rows count once in every step: the
 * weights are those of one process, but for the order in which floats are added up. */
START_TEST(the_others_go_on_without_the_one_that_was_killed)
{
    struct worker_lost_life life = {.arguments = "--epochs 6 --optimizer momentum --seed 5"};
    const uint32_t victim = (uint32_t)_i;
    struct worker_lost_left alone = {0};
    const struct worker_lost_left *model;
    struct digits_words words;
    struct digits_options options;
    struct train t = {.options = &options, .data = &data, .held_out = &held_out, .silent = true};
    struct worker_lost_crowd crowd = {0};

    start_all(&crowd, life, victim);
    kill_worker(&crowd, victim);
    end_all(&crowd, 0);
    model = assert_one_model(&crowd);
    ck_assert_uint_eq(model->step, 6 * 16);
    ck_assert_uint_eq(model->workers, WORKERS - 1);
    ck_assert_uint_ge(model->stats.reforms, 1);

    ck_assert_int_eq(digits_read(&words, &options, NULL, "--strategy one_device --threads=1 %s", life.arguments),
                     PS_OK);
    ck_assert_int_eq(train_open(&t, NULL, NULL), PS_OK);
    ck_assert_int_eq(train_run(&t, NULL), PS_OK);
    alone.len = digits_weights(t.replica[0].network, FLOATS_MAX, alone.weights);
    train_close(&t, true);
    for (size_t i = 0; i < alone.len; i++)
        ck_assert_msg(fabs((double)alone.weights[i] - (double)model->weights[i]) < 2e-5,
                      "weight %zu is %.9g, and %.9g of one process", i, (double)model->weights[i],
                      (double)alone.weights[i]);
}
END_TEST

START_TEST(the_model_is_as_accurate_when_a_worker_was_killed)
{
    static const char *const arguments[] = {"--epochs 30", "--epochs 30 --compress float16",
                                            "--epochs 30 --compress int8", "--epochs 30 --compress top_k:0.05"};
    struct worker_lost_crowd crowd = {0};
    const struct worker_lost_left *model;

    start_all(&crowd, (struct worker_lost_life){.arguments = arguments[_i]}, 1);
    kill_worker(&crowd, 1);
    end_all(&crowd, 0);
    model = assert_one_model(&crowd);
    ck_assert_msg(model->correct >= 285, "%zu of 300 held-out images", model->correct);
}
END_TEST

/* The survivors wait for a replacement for as long as configured; once all are there, they wait no longer. */
START_TEST(a_replacement_goes_on_where_the_others_are)
{
    struct worker_lost_life life = {.arguments =
                                        _i < 2 ? "--epochs 8 --seed 5" : "--epochs 8 --seed 5 --compress top_k:0.05",
                                    .settle_ms = PATIENCE_S * 1000};
    const uint32_t victim = (uint32_t)_i % 2;
    struct worker_lost_crowd crowd = {0};
    const struct worker_lost_left *model;

    start_all(&crowd, life, victim);
    kill_worker(&crowd, victim);
    start_worker(&crowd, life, victim);
    end_all(&crowd, 0);
    model = assert_one_model(&crowd);
    ck_assert_uint_eq(model->step, 8 * 16);
    ck_assert_uint_eq(model->workers, WORKERS);
    ck_assert_uint_eq(left[victim].stats.received, 1);
    ck_assert_uint_lt(left[victim].stats.steps, 8 * 16);
}
END_TEST

/* They have gone on without it when it comes, and look for it now and then. */
START_TEST(a_worker_that_comes_back_late_is_taken_in)
{
    struct worker_lost_life life = {.arguments = _i == 0 ? "--epochs 20000" : "--epochs 20000 --compress int8",
                                    .until_all = true};
    struct worker_lost_crowd crowd = {0};
    const struct worker_lost_left *model;

    start_all(&crowd, life, 2);
    kill_worker(&crowd, 2);
    await_word(&crowd, 0); /* it has come to the step */
    await_word(&crowd, 0); /* it misses one */
    start_worker(&crowd, life, 2);
    end_all(&crowd, 0);
    model = assert_one_model(&crowd);
    ck_assert_uint_eq(model->workers, WORKERS);
    ck_assert_uint_eq(left[2].stats.received, 1);
}
END_TEST

/* The shard where they meet is down when they look for the missing worker: they go on, and take it in when both are
 * back. */
START_TEST(the_others_go_on_while_the_place_to_meet_is_away)
{
    struct worker_lost_life life = {.arguments = "--epochs 20000", .until_all = true};
    struct worker_lost_crowd crowd = {0};
    const struct worker_lost_left *model;

    start_all(&crowd, life, 2);
    kill_worker(&crowd, 2);
    await_word(&crowd, 0);
    await_word(&crowd, 1);
    await_word(&crowd, 0);
    await_word(&crowd, 1);
    shards_kill(&shards, 0);
    turn_away(WORKERS - 1);
    shards_restart(&shards, 0);
    start_worker(&crowd, life, 2);
    end_all(&crowd, 0);
    model = assert_one_model(&crowd);
    ck_assert_uint_eq(model->workers, WORKERS);
    ck_assert_uint_eq(left[2].stats.received, 1);
}
END_TEST

/* One that comes back with another optimizer is turned away, and does the others no harm; then the right one comes. */
START_TEST(a_replacement_that_was_started_otherwise_is_turned_away)
{
    struct worker_lost_life life = {.arguments = "--epochs 20000", .until_all = true}, other = life;
    struct worker_lost_crowd crowd = {0};
    const struct worker_lost_left *model;
    int status;

    start_all(&crowd, life, 2);
    kill_worker(&crowd, 2);
    await_word(&crowd, 0);
    await_word(&crowd, 0);
    other.arguments = "--epochs 20000 --optimizer adagrad";
    start_worker(&crowd, other, 2);
    ck_assert_int_eq(waitpid(crowd.pid[2], &status, 0), crowd.pid[2]);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == FAILED, "status %x", (unsigned)status);
    ck_assert_msg(left[2].error.code == PS_ERR_MISMATCH, "%s", left[2].error.text);
    close(crowd.hear[2]);

    start_worker(&crowd, life, 2);
    end_all(&crowd, 0);
    model = assert_one_model(&crowd);
    ck_assert_uint_eq(model->workers, WORKERS);
    ck_assert_uint_eq(left[2].stats.received, 1);
}
END_TEST

START_TEST(with_lapse_fail_the_error_names_who_was_lost)
{
    struct worker_lost_crowd crowd = {0};

    start_all(&crowd, (struct worker_lost_life){.arguments = "--epochs 20000 --lapse fail"}, 1);
    kill_worker(&crowd, 1);
    end_all(&crowd, FAILED);
    /* One of them may learn of the loss from the other, which is gone by then. */
    ck_assert_int_eq(left[0].error.code, PS_ERR_STEP_FAILED);
    ck_assert_int_eq(left[2].error.code, PS_ERR_STEP_FAILED);
    ck_assert_msg(strstr(left[0].error.text, "worker 1 was lost in step") != NULL ||
                      strstr(left[2].error.text, "worker 1 was lost in step") != NULL,
                  "\"%s\" and \"%s\" do not name worker 1", left[0].error.text, left[2].error.text);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("worker_lost");
    TCase *tc = tcase_create("worker_lost");

    tcase_add_checked_fixture(tc, worker_lost_setup, worker_lost_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, the_others_go_on_without_the_one_that_was_killed, 0, WORKERS);
    tcase_add_loop_test(tc, the_model_is_as_accurate_when_a_worker_was_killed, 0, 4);
    tcase_add_loop_test(tc, a_replacement_goes_on_where_the_others_are, 0, 4);
    tcase_add_loop_test(tc, a_worker_that_comes_back_late_is_taken_in, 0, 2);
    tcase_add_test(tc, the_others_go_on_while_the_place_to_meet_is_away);
    tcase_add_test(tc, a_replacement_that_was_started_otherwise_is_turned_away);
    tcase_add_test(tc, with_lapse_fail_the_error_names_who_was_lost);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
