/* Strategies on devices whose memory is not the host's (fake_module.c): variables, slots and gradients stay there.
 *
 * They are compared with the same network on the same devices, but with variables in host memory: there the host adds
 * up and updates. Both have the same bits, since gradients are added up in the same order and a device's optimizers are
 * the shards' to the bit; only norms, which devices add up in another order, are within a bound. */
#include <math.h>

#include "tests/remove_tree.h"
#include "tests/unit/client/device/fake_device.h"
#include "tests/unit/client/strategy/strategy_kit.h"

enum { REPLICAS_MAX = 4, VARIABLES_MAX = 8 };

static const char *const strategies[] = {"one_device", "mirrored", "central_storage"};
static struct ps_error error;

/* A training: its strategy, and the inputs of its step function. */
struct resident_training {
    ps_strategy *strategy;
    ps_network *network[REPLICAS_MAX];
    uint32_t replicas;
    bool on_host;      /* variables lie in host memory, networks send and fetch */
    uint64_t poisoned; /* step + 1 whose examples hold a NaN */
    bool looks;        /* the test reads values after each step */
    float last;        /* the first value after the last look */
};

static void
resident_setup(void)
{
    struct test_rng rng = {test_seed()};

    use_module(fake_module_path());
    strategy_examples(&rng);
}

/* ---- Training ---- */

static enum ps_err
resident_step(void *arg, struct ps_replica *r, struct ps_error *e)
{
    struct resident_training *t = arg;
    uint64_t first = r->batch * KIT_BATCH + r->first;
    struct ps_batch batch = {.rows = r->rows, .x = strategy_x + first * KIT_INPUTS, .labels = strategy_labels + first};
    struct ps_network_result result = {0};
    float poisoned[KIT_BATCH * KIT_INPUTS];
    enum ps_err err;

    if (t->poisoned == r->step + 1) {
        memcpy(poisoned, batch.x, r->rows * KIT_INPUTS * sizeof *strategy_x);
        poisoned[0] = NAN;
        batch.x = poisoned;
    }
    err = t->on_host ? ps_network_gradient(t->network[r->local], &batch, r->scale, r->draw, &result, e)
                     : ps_replica_gradient(r, &batch, &result, e);
    r->metrics[0] += result.loss;
    return err;
}

static enum ps_err
resident_after(void *arg, const struct ps_step_done *done, struct ps_error *e)
{
    struct resident_training *t = arg;
    enum ps_err err;

    (void)done;
    if (!t->looks)
        return PS_OK;
    if ((err = ps_strategy_refresh(t->strategy, e)) != PS_OK)
        return err;
    ck_assert(ps_strategy_values(t->strategy, 0)[0][0] != t->last);
    t->last = ps_strategy_values(t->strategy, 0)[0][0];
    return PS_OK;
}

static struct resident_training
resident_begin(const char *name, const char *devices, uint32_t replicas, const char *optimizer, bool on_host)
{
    struct resident_training t = {.on_host = on_host};
    struct ps_strategy_options options = {
        .devices = devices, .replicas = replicas, .rows = KIT_ROWS, .batch = KIT_BATCH, .metrics = 1, .threads = 1};
    struct ps_optimizer o;

    ck_assert_int_eq(ps_optimizer_parse(optimizer, &o, &error), PS_OK);
    if (ps_strategy_open(name, &options, &t.strategy, &error) != PS_OK)
        ck_abort_msg("%s: %s", name, error.text);
    t.replicas = ps_strategy_replicas(t.strategy);
    strategy_networks_make(t.strategy, t.network, &o, on_host);
    if (ps_strategy_start(t.strategy, &error) != PS_OK)
        ck_abort_msg("%s", error.text);
    return t;
}

static enum ps_err
try_run(struct resident_training *t, uint64_t until)
{
    return ps_strategy_run(t->strategy, until, &(struct ps_strategy_calls){resident_step, resident_after, t}, &error);
}

static void
resident_run(struct resident_training *t, uint64_t until)
{
    if (try_run(t, until) != PS_OK)
        ck_abort_msg("%s", error.text);
    ck_assert_uint_eq(ps_strategy_step(t->strategy), until);
}

static void
resident_end(struct resident_training *t)
{
    strategy_end(t->strategy, t->network);
}

/* ---- What came of it ---- */

static void
assert_values(const struct resident_training *t, const float want[KIT_FLOATS_MAX], double bound, const char *what)
{
    float is[KIT_FLOATS_MAX];
    size_t n = strategy_values(t->strategy, t->network[0], is);

    for (size_t i = 0; i < n; i++)
        ck_assert_msg(bound > 0 ? fabs((double)is[i] - (double)want[i]) <= bound : memcmp(&is[i], &want[i], 4) == 0,
                      "%s: value %zu is %.9g, not %.9g", what, i, (double)is[i], (double)want[i]);
}

/* The values that each replica's device computes with, not only those of the first one: the same loss. */
static void
assert_replicas_agree(const struct resident_training *t)
{
    double first = strategy_loss(t->network[0]), loss;

    for (uint32_t k = 1; k < t->replicas; k++) {
        loss = strategy_loss(t->network[k]);
        ck_assert_msg(loss == first, "replica %u has a loss of %.17g, not %.17g", k, loss, first);
    }
}

static const struct {
    const char *text;
    double bound; /* 0: the same bits */
} optimizers[] = {{"sgd:learning_rate=0.1", 0},
                  {"momentum:learning_rate=0.05", 0},
                  {"adam:learning_rate=0.01", 0},
                  {"ftrl:learning_rate=0.1,l1=0.001", 0},
                  {"adamw:learning_rate=0.01,schedule=cosine,steps=20,by=clock", 0},
                  {"adagrad:learning_rate=0.1,schedule=exponential,factor=0.9,steps=3", 0},
                  {"sgd:learning_rate=0.1,clip=given_norm,limit=0.3", 1e-6},
                  {"rmsprop:learning_rate=0.01,momentum=0.9,clip=block_norm,limit=0.2", 1e-5}};

START_TEST(variables_on_devices_have_the_bits_of_those_in_host_memory)
{
    const char *name = strategies[_i % 3], *optimizer = optimizers[_i / 3].text;
    float want[KIT_FLOATS_MAX];

    for (uint32_t replicas = 1; replicas <= 3; replicas += 2) {
        const char *devices = replicas == 1 || _i % 3 == 0 ? "cuda" : "cuda,cuda:1";
        struct resident_training t = resident_begin("one_device", "cuda", replicas, optimizer, true);

        resident_run(&t, 7);
        strategy_values(t.strategy, t.network[0], want);
        resident_end(&t);
        t = resident_begin(name, devices, replicas, optimizer, false);
        resident_run(&t, 4);
        resident_run(&t, 7);
        assert_values(&t, want, optimizers[_i / 3].bound, name);
        assert_replicas_agree(&t);
        resident_end(&t);
    }
}
END_TEST

/* A step moves its examples and results, and nothing of the model's size. */
START_TEST(a_step_copies_no_variable_to_the_host_or_back)
{
    struct resident_training t = resident_begin(strategies[_i], _i == 0 ? "cuda" : "cuda,cuda:1", 2, "adam", false);
    size_t model = (size_t)ps_network_elements(t.network[0]) * sizeof(float),
           examples = KIT_BATCH * (KIT_INPUTS + 4) * 4;
    unsigned long before;

    resident_run(&t, 1);
    before = fake_copied();
    resident_run(&t, 13);
    ck_assert_uint_lt(12 * examples, 4 * model); /* otherwise the test shows nothing */
    ck_assert_uint_le(fake_copied() - before, model + 12 * examples);
    resident_end(&t);
}
END_TEST

/* Count, losses and norm come together. */
START_TEST(a_step_of_one_replica_waits_once)
{
    struct resident_training t = resident_begin("one_device", "cuda", 1, "adam:clip=given_norm,limit=0.3", false);
    unsigned long before;

    resident_run(&t, 1);
    before = fake_waits();
    resident_run(&t, 11);
    ck_assert_uint_le(fake_waits() - before, 10 + 1); /* and once for the values, when the run ends */
    resident_end(&t);
}
END_TEST

START_TEST(values_are_of_the_last_refresh)
{
    struct resident_training t = resident_begin(strategies[_i], "cuda", 1, "momentum", false);

    t.looks = true;
    t.last = ps_strategy_values(t.strategy, 0)[0][0];
    resident_run(&t, 5);
    ck_assert(ps_strategy_values(t.strategy, 0)[0][0] == t.last);
    resident_end(&t);
}
END_TEST

/* ---- Checkpoints ---- */

static char directory[64];

static void
make_directory(void)
{
    resident_setup();
    snprintf(directory, sizeof directory, "%s", "/tmp/psd-test-resident-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
}

static void
remove_directory(void)
{
    (void)remove_tree(directory);
}

static const char *
resident_latest(void)
{
    static char path[96];

    snprintf(path, sizeof path, "%s/latest", directory);
    return path;
}

/* Slots and all, from devices and into them. */
START_TEST(training_goes_on_from_a_checkpoint_of_devices)
{
    const char *optimizer = "adam:learning_rate=0.01";
    struct resident_training t = resident_begin("mirrored", "cuda,cuda:1", 2, optimizer, _i == 3);
    float want[KIT_FLOATS_MAX];

    resident_run(&t, 6);
    ck_assert_int_eq(ps_strategy_save(t.strategy, directory, NULL, NULL, &error), PS_OK);
    resident_run(&t, 9);
    strategy_values(t.strategy, t.network[0], want);
    resident_end(&t);
    t = resident_begin(strategies[_i % 3], _i % 3 == 0 ? "cuda" : "cuda,cuda:1", 2, optimizer, _i == 2);
    resident_run(&t, 2);
    if (ps_strategy_restore(t.strategy, resident_latest(), &error) != PS_OK)
        ck_abort_msg("%s", error.text);
    resident_run(&t, 9);
    assert_values(&t, want, 0, strategies[_i % 3]);
    resident_end(&t);
}
END_TEST

/* ---- Errors ---- */

START_TEST(a_gradient_that_is_not_finite_changes_nothing)
{
    struct resident_training t = resident_begin(strategies[_i], _i == 0 ? "cuda" : "cuda,cuda:1", 2, "adam", false);
    float want[KIT_FLOATS_MAX];

    resident_run(&t, 8);
    strategy_values(t.strategy, t.network[0], want);
    resident_end(&t);
    t = resident_begin(strategies[_i], _i == 0 ? "cuda" : "cuda,cuda:1", 2, "adam", false);
    t.poisoned = 4;
    ck_assert_int_eq(try_run(&t, 8), PS_ERR_NONFINITE);
    ck_assert_msg(strstr(error.text, "dense0/weights") != NULL, "%s", error.text);
    ck_assert_uint_eq(ps_strategy_step(t.strategy), 3);
    t.poisoned = 0;
    resident_run(&t, 8);
    assert_values(&t, want, 0, strategies[_i]);
    resident_end(&t);
}
END_TEST

/* The second device, or the only one, fails at one result after the other, until a run has no more of them. Each time
 * the error names it, the host's values are those of the last step that was done or the last run, and a checkpoint
 * brings the training back to where it was. */
START_TEST(a_device_that_fails_is_named_and_a_checkpoint_goes_on)
{
    struct resident_training t = resident_begin(strategies[_i], _i == 0 ? "cuda" : "cuda,cuda:1", 2, "momentum", false);
    float of[6][KIT_FLOATS_MAX], is[KIT_FLOATS_MAX];
    size_t floats = sizeof is[0];
    long results = 0;
    enum ps_err err;

    resident_run(&t, 3);
    floats *= strategy_values(t.strategy, t.network[0], of[3]);
    ck_assert_int_eq(ps_strategy_save(t.strategy, directory, NULL, NULL, &error), PS_OK);
    for (uint64_t i = 4; i <= 5; i++) {
        resident_run(&t, i);
        strategy_values(t.strategy, t.network[0], of[i]);
    }
    do {
        fake_fails(0);
        ck_assert_int_eq(ps_strategy_restore(t.strategy, resident_latest(), &error), PS_OK);
        fake_fails_later(_i == 0 ? 2 : 3, results);
        memset(&error, 0, sizeof error);
        err = try_run(&t, 5);
        if (err == PS_OK)
            break;
        ck_assert_int_eq(err, PS_ERR_IO);
        ck_assert_msg(strstr(error.text, _i == 0 ? "device cuda: it was told" : "device cuda:1: it was told") != NULL,
                      "%s", error.text);
        ck_assert_uint_le(ps_strategy_step(t.strategy), 5);
        strategy_values(t.strategy, t.network[0], is);
        ck_assert(_i == 0 || memcmp(is, of[3], floats) == 0 ||
                  memcmp(is, of[ps_strategy_step(t.strategy)], floats) == 0);
    } while ((results += 2) < 1000);
    ck_assert(results > 3 && results < 1000);
    fake_fails(0);
    assert_values(&t, of[5], 0, strategies[_i]);
    resident_end(&t);
}
END_TEST

/* One that fails in the middle of an update leaves no copy of the old values: no step is taken on top of that. */
START_TEST(after_half_an_update_nothing_goes_on_but_from_a_checkpoint)
{
    struct resident_training t =
        resident_begin("central_storage", "cuda,cuda:1", 2, "sgd:learning_rate=0.1,clip=block_norm,limit=0.1", false);
    float want[KIT_FLOATS_MAX];
    long results = 0;
    bool torn = false;

    resident_run(&t, 3);
    ck_assert_int_eq(ps_strategy_save(t.strategy, directory, NULL, NULL, &error), PS_OK);
    resident_run(&t, 5);
    strategy_values(t.strategy, t.network[0], want);
    while (!torn && results < 1000) {
        fake_fails(0);
        ck_assert_int_eq(ps_strategy_restore(t.strategy, resident_latest(), &error), PS_OK);
        fake_fails_later(2, results++);
        ck_assert_int_eq(try_run(&t, 4), PS_ERR_IO);
        fake_fails(0);
        torn = try_run(&t, 5) != PS_OK;
    }
    ck_assert_msg(torn && strstr(error.text, "device cuda: it was told") != NULL, "%s", error.text);
    ck_assert_int_eq(ps_strategy_refresh(t.strategy, &error), PS_ERR_IO);
    ck_assert_int_eq(ps_strategy_save(t.strategy, directory, NULL, NULL, &error), PS_ERR_IO);
    ck_assert_int_eq(ps_strategy_restore(t.strategy, resident_latest(), &error), PS_OK);
    resident_run(&t, 5);
    assert_values(&t, want, 0, "after a restore");
    resident_end(&t);
}
END_TEST

/* The fake module reduces among three at most, as one without NCCL does among those of one GPU. */
START_TEST(replicas_that_cannot_reduce_have_their_variables_in_host_memory)
{
    struct resident_training t = resident_begin("one_device", "cuda", 4, "adam", true);
    float want[KIT_FLOATS_MAX];

    resident_run(&t, 7);
    strategy_values(t.strategy, t.network[0], want);
    resident_end(&t);
    t = resident_begin(strategies[_i], _i == 0 ? "cuda" : "cuda,cuda:1", 4, "adam", false);
    resident_run(&t, 7);
    assert_values(&t, want, 0, strategies[_i]);
    resident_end(&t);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("resident");
    TCase *tc = tcase_create("resident"), *saved = tcase_create("saved");

    tcase_add_checked_fixture(tc, resident_setup, NULL);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, variables_on_devices_have_the_bits_of_those_in_host_memory, 0, 3 * ARRAY_LEN(optimizers));
    tcase_add_loop_test(tc, a_step_copies_no_variable_to_the_host_or_back, 0, 3);
    tcase_add_test(tc, a_step_of_one_replica_waits_once);
    tcase_add_loop_test(tc, values_are_of_the_last_refresh, 0, 3);
    tcase_add_loop_test(tc, a_gradient_that_is_not_finite_changes_nothing, 0, 3);
    tcase_add_loop_test(tc, replicas_that_cannot_reduce_have_their_variables_in_host_memory, 0, 3);
    suite_add_tcase(suite, tc);
    tcase_add_checked_fixture(saved, make_directory, remove_directory);
    tcase_set_timeout(saved, 120);
    tcase_add_loop_test(saved, training_goes_on_from_a_checkpoint_of_devices, 0, 4);
    tcase_add_loop_test(saved, a_device_that_fails_is_named_and_a_checkpoint_goes_on, 0, 3);
    tcase_add_test(saved, after_half_an_update_nothing_goes_on_but_from_a_checkpoint);
    suite_add_tcase(suite, saved);
    return suite;
}

CHECK_MAIN(make_suite)
