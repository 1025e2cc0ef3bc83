/* One model, one seed, the same data under each strategy, with real shards and workers.
 *
 * The same replicas have the same bits in every strategy that adds up their gradients in their order; where another
 * order is taken, or the batch is cut into other slices, weights are the same within a bound that rounding explains;
 * and strategies that do not wait for all, or do not exchange every step, reach the same accuracy within a margin. */
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "client/examples/digits/model.h"
#include "client/examples/digits/train.h"
#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"
#include "tests/system/digits_fixture.h"
#include "tests/unit/kits/check_main.h"

enum { WORKERS_MAX = 4, FLOATS_MAX = 20000 };

/* ---- Training ---- */

/* One way to train: arguments of the digits example. */
struct equivalence_way {
    const char *arguments; /* after --strategy */
    const char *strategy;
    uint32_t workers;  /* 0: no cluster at all */
    uint32_t replicas; /* of each */
    enum ps_algorithm algorithm;
};

struct equivalence_outcome {
    float weights[FLOATS_MAX];
    size_t len, correct;
    struct train_totals totals; /* after the fields with the same bits: their losses are summed in other orders */
};

/* A worker: a thread of this process, with everything of its own. */
struct equivalence_worker {
    const struct equivalence_way *way;
    uint32_t task;
    pthread_t thread;
    struct digits_options options;
    struct ps_group_options group;
    char job[32];
    struct digits_words words;
    struct train train;
    enum ps_err err;
    struct ps_error error;
    struct equivalence_outcome outcome;
};

static enum ps_err
read_options(struct equivalence_worker *w)
{
    return digits_read(&w->words, &w->options, &w->error, "--strategy %s --threads=1 --replicas=%u %s %s",
                       w->way->strategy, w->way->replicas, w->job, w->way->arguments);
}

static enum ps_err
equivalence_train(struct equivalence_worker *w, const ps_cluster *cluster)
{
    struct train *t = &w->train;
    struct ps_network_result result;
    enum ps_err err;

    t->options = &w->options;
    t->data = &data;
    t->held_out = &held_out;
    t->group = &w->group;
    t->silent = true;
    w->group = (struct ps_group_options){.algorithm = w->way->algorithm, .name = "equivalence"};
    if ((err = train_open(t, cluster, &w->error)) != PS_OK || (err = train_run(t, &w->error)) != PS_OK ||
        (err = train_meet(t, &w->error)) != PS_OK || (err = train_evaluate(t, &result, &w->error)) != PS_OK)
        return err;
    w->outcome.correct = result.correct;
    w->outcome.totals = train_totals(t);
    w->outcome.len = digits_weights(t->replica[0].network, FLOATS_MAX, w->outcome.weights);
    return PS_OK;
}

static void *
worker_main(void *arg)
{
    struct equivalence_worker *w = arg;
    ps_cluster *cluster = NULL;

    w->err = read_options(w);
    if (w->err == PS_OK && w->way->workers > 0)
        w->err = digits_cluster(w->way->workers, w->task, &cluster, &w->error);
    if (w->err == PS_OK)
        w->err = equivalence_train(w, cluster);
    train_close(&w->train, w->err == PS_OK);
    ps_cluster_free(cluster);
    return NULL;
}

/* Worker 0's model; with copies of their own, the others' are the same. The totals are the same at every worker. */
static struct equivalence_outcome *
outcome_of(const struct equivalence_way *way)
{
    static uint32_t jobs; /* each finds new variables on the shards */
    uint32_t n = MAX(way->workers, 1);
    struct equivalence_worker *workers = calloc(n, sizeof *workers);
    struct equivalence_outcome *out = calloc(1, sizeof *out);

    ck_assert(workers != NULL && out != NULL);
    jobs++;
    for (uint32_t i = 0; i < n; i++) {
        workers[i].way = way;
        workers[i].task = i;
        snprintf(workers[i].job, sizeof workers[i].job, "--job=%u", jobs);
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, worker_main, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(workers[i].err == PS_OK, "%s, worker %u: %s (%s)", way->strategy, i, workers[i].error.text,
                      workers[i].error.peer);
    *out = workers[0].outcome;
    for (uint32_t i = 1; i < n; i++)
        ck_assert_msg(memcmp(&workers[i].outcome.totals, &out->totals, sizeof out->totals) == 0,
                      "%s: worker %u has other totals than worker 0", way->strategy, i);
    for (uint32_t i = 1; i < n && strcmp(way->strategy, "multi_worker_mirrored") == 0; i++)
        ck_assert_msg(memcmp(&workers[i].outcome, &workers[0].outcome, sizeof *out) == 0,
                      "worker %u has another model than worker 0", i);
    free(workers);
    return out;
}

/* Largest difference of a weight. */
static double
equivalence_distance(const struct equivalence_outcome *a, const struct equivalence_outcome *b)
{
    double most = 0;

    ck_assert(a->len > 0 && a->len == b->len);
    for (size_t i = 0; i < a->len; i++)
        most = fmax(most, fabs((double)a->weights[i] - (double)b->weights[i]));
    return most;
}

/* Every row counts once in each epoch, whatever the strategy. With the same weights in every step just as many are
 * classified correctly, and losses differ by the order of their sums alone. */
static void
assert_totals(const struct equivalence_outcome *want, const struct equivalence_outcome *is, const char *strategy,
              bool same_weights, double loss_bound)
{
    const struct train_totals *a = &want->totals, *b = &is->totals;

    ck_assert_uint_gt(a->rows, 0);
    ck_assert_double_eq(a->last_rows, (double)data.rows);
    ck_assert_msg(a->rows == b->rows && a->last_rows == b->last_rows, "%s has trained on %llu rows, one_device on %llu",
                  strategy, (unsigned long long)b->rows, (unsigned long long)a->rows);
    ck_assert_msg(!same_weights || (a->correct == b->correct && a->last_correct == b->last_correct),
                  "%s has told %g right, one_device %g", strategy, b->correct, a->correct);
    ck_assert_msg(fabs(a->loss - b->loss) <= loss_bound * a->loss &&
                      fabs(a->last_loss - b->last_loss) <= loss_bound * a->last_loss,
                  "%s has losses of %.17g, one_device of %.17g", strategy, b->loss, a->loss);
}

/* ---- The same bits ---- */

#define LOSS_ORDER 1e-12 /* of sums of some thousand doubles in another order */

/* Batches of 100 leave a last one of 97: slices are uneven. Of 115 they leave 2 rows: some replicas have none. */
static const char *const trainings[] = {
    "--epochs 2 --batch 100 --seed 7",
    "--epochs 2 --batch 115 --optimizer momentum",
    "--epochs 2 --optimizer adamw:clip=block_norm,limit=0.5,schedule=cosine,steps=20,warmup=4,by=clock",
    "--epochs 1 --model conv --seed 3",
};

static void
assert_same_bits(const struct equivalence_outcome *want, struct equivalence_way way)
{
    struct equivalence_outcome *is = outcome_of(&way);

    ck_assert_msg(memcmp(want, is, offsetof(struct equivalence_outcome, totals)) == 0,
                  "%s with %u workers of %u replicas, %s: off by up to %g", way.strategy, way.workers, way.replicas,
                  way.arguments, equivalence_distance(want, is));
    assert_totals(want, is, way.strategy, true, LOSS_ORDER);
    free(is);
}

START_TEST(the_same_replicas_make_the_same_model_bit_for_bit)
{
    const char *arguments = trainings[_i];

    for (uint32_t replicas = 1; replicas <= 3; replicas++) {
        struct equivalence_outcome *want =
            outcome_of(&(struct equivalence_way){arguments, "one_device", 0, replicas, 0});

        assert_same_bits(want, (struct equivalence_way){arguments, "mirrored", 0, replicas, 0});
        assert_same_bits(want, (struct equivalence_way){arguments, "central_storage", 0, replicas, 0});
        assert_same_bits(want, (struct equivalence_way){arguments, "sync", replicas, 1, 0});
        assert_same_bits(
            want, (struct equivalence_way){arguments, "multi_worker_mirrored", replicas, 1, PS_ALGORITHM_DIRECT});
        if (replicas <= 2) /* sums of two have one order */
            assert_same_bits(
                want, (struct equivalence_way){arguments, "multi_worker_mirrored", replicas, 1, PS_ALGORITHM_RING});
        free(want);
    }
}
END_TEST

/* ---- Within a bound ---- */

/* Sums of floats in another order: after so few steps nothing has grown. */
#define BOUND 2e-6

START_TEST(other_slices_make_the_same_model_within_a_bound)
{
    const char *arguments = "--epochs 1 --optimizer momentum --seed 5";
    struct equivalence_outcome *want = outcome_of(&(struct equivalence_way){arguments, "one_device", 0, 1, 0}), *is;
    const struct equivalence_way ways[] = {
        {arguments, "one_device", 0, 2, 0},
        {arguments, "mirrored", 0, 5, 0},
        {arguments, "central_storage", 0, 8, 0},
        {arguments, "sync", 2, 2, 0},
        {arguments, "multi_worker_mirrored", 3, 1, PS_ALGORITHM_RING},
        {arguments, "multi_worker_mirrored", 4, 1, PS_ALGORITHM_HALVING},
        {arguments, "multi_worker_mirrored", 2, 2, PS_ALGORITHM_AUTO},
    };

    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        is = outcome_of(&ways[i]);
        ck_assert_msg(equivalence_distance(want, is) <= BOUND, "%s, %u workers of %u replicas: off by up to %g",
                      ways[i].strategy, ways[i].workers, ways[i].replicas, equivalence_distance(want, is));
        assert_totals(want, is, ways[i].strategy, false, 1e-5);
        free(is);
    }
    free(want);
}
END_TEST

/* ---- The same accuracy ---- */

#define MARGIN 9 /* of 300 held-out images: 3 % */

START_TEST(what_does_not_wait_for_all_is_as_accurate_within_a_margin)
{
    static const struct equivalence_way ways[] = {
        {"--epochs 30", "async", 3, 1, 0},
        {"--epochs 30 --bound 2", "ssp", 3, 1, 0},
        {"--epochs 30", "local_sgd", 3, 1, 0},
    };
    struct equivalence_outcome *want = outcome_of(&(struct equivalence_way){"--epochs 30", "mirrored", 0, 3, 0}), *is;

    ck_assert_uint_ge(want->correct, 285);
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        is = outcome_of(&ways[i]);
        ck_assert_msg(is->correct + MARGIN >= want->correct, "%s: %zu of 300 held-out images, mirrored: %zu",
                      ways[i].strategy, is->correct, want->correct);
        if (strcmp(ways[i].strategy, "async") != 0) /* a worker that joins late goes on where the others are */
            assert_totals(want, is, ways[i].strategy, false, INFINITY); /* their paths differ */
        ck_assert(is->totals.rows > 0 && is->totals.rows <= want->totals.rows);
        free(is);
    }
    free(want);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("equivalence");
    TCase *tc = tcase_create("equivalence");

    tcase_add_checked_fixture(tc, digits_setup_two, digits_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, the_same_replicas_make_the_same_model_bit_for_bit, 0, ARRAY_LEN(trainings));
    tcase_add_test(tc, other_slices_make_the_same_model_within_a_bound);
    tcase_add_test(tc, what_does_not_wait_for_all_is_as_accurate_within_a_margin);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
