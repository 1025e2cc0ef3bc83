/* Values that workers give for variables, at real psd processes: all of a call or nothing, once, whatever is killed. */
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/system/fine.h"
#include "tests/system/shard_processes.h"
#include "tests/system/wait_for.h"
#include "tests/unit/kits/check_main.h"

enum { SHARDS = 3, VARIABLES = 3, ELEMENTS = 60000, PATIENCE_MS = 60000 };

static struct shards shards;
static struct ps_error error;

static void
assigned_setup(void)
{
    shards_start(&shards, SHARDS);
}

static void
assigned_teardown(void)
{
    shards_stop(&shards);
}

/* ---- Workers ---- */

struct assigned_worker {
    ps_client *client;
    ps_var *vars[VARIABLES];
    float *values[VARIABLES]; /* [ELEMENTS] each */
};

static void
assigned_open(struct assigned_worker *w, uint32_t task, const struct ps_client_options *options)
{
    struct ps_client_options o = options != NULL ? *options : (struct ps_client_options){0};
    ps_cluster *cluster;

    o.timeout_ms = PATIENCE_MS;
    for (int i = 0; i < VARIABLES; i++)
        ck_assert_ptr_nonnull(w->values[i] = calloc(ELEMENTS, sizeof(float)));
    FINE(ps_cluster_from_list(shards.addresses, 2, task, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    FINE(ps_client_open(cluster, &o, &w->client, &error));
    ps_cluster_free(cluster);
}

static void
assigned_close(struct assigned_worker *w)
{
    for (int i = 0; i < VARIABLES; i++)
        free(w->values[i]);
    ps_client_close(w->client);
}

/* What variable i is: blocks of it lie on each shard. */
static struct ps_var_spec
assigned_spec(int i, enum ps_init_kind init)
{
    static const char *const names[VARIABLES] = {"a", "b", "c"};

    return (struct ps_var_spec){.name = names[i],
                                .rank = 2,
                                .dims = {60, ELEMENTS / 60},
                                .init = {.kind = init},
                                .optimizer = {.learning_rate = 1}};
}

static void
assigned_declare(struct assigned_worker *w)
{
    for (int i = 0; i < VARIABLES; i++) {
        struct ps_var_spec spec = assigned_spec(i, PS_INIT_ZEROS);

        FINE(ps_client_declare(w->client, &spec, &w->vars[i], &error));
    }
}

static void
assigned_fill(struct assigned_worker *w, float value)
{
    for (int i = 0; i < VARIABLES; i++)
        for (int k = 0; k < ELEMENTS; k++)
            w->values[i][k] = value;
}

static enum ps_err
assigned_give(struct assigned_worker *w, float value, const struct ps_assign_options *options)
{
    assigned_fill(w, value);
    return ps_client_assign(w->client, VARIABLES, w->vars, (const float *const *)w->values, options, NULL, &error);
}

/* Pull all, in one call; they are all the same. */
static float
assigned_pulled(struct assigned_worker *w)
{
    FINE(ps_client_pull(w->client, VARIABLES, w->vars, w->values, NULL, &error));
    for (int i = 0; i < VARIABLES; i++)
        for (int k = 0; k < ELEMENTS; k++)
            ck_assert_msg(w->values[i][k] == w->values[0][0], "variable %d element %d is %g, the first is %g", i, k,
                          (double)w->values[i][k], (double)w->values[0][0]);
    return w->values[0][0];
}

/* ---- What a call does ---- */

START_TEST(an_assign_is_there_on_all_shards)
{
    struct assigned_worker a, b;
    uint64_t lowest, highest;

    assigned_open(&a, 0, NULL);
    assigned_open(&b, 1, NULL);
    assigned_declare(&a);
    assigned_declare(&b);
    FINE(assigned_give(&a, 7, NULL));
    ck_assert(assigned_pulled(&b) == 7);
    ps_var_versions(b.vars[0], &lowest, &highest);
    ck_assert_uint_eq(lowest, 1);
    ck_assert_uint_eq(highest, 1);
    FINE(assigned_give(&b, 8, NULL));
    ck_assert(assigned_pulled(&a) == 8);
    assigned_close(&a);
    assigned_close(&b);
}
END_TEST

START_TEST(what_cannot_be_assigned_is_refused_and_changes_nothing)
{
    struct ps_shape shapes[VARIABLES] = {{"F32", 2, {60, 1000}}, {NULL, 2, {60, 1000}}, {NULL, 2, {1000, 60}}};
    struct ps_assign_options options = {.shapes = shapes};
    struct assigned_worker w;

    assigned_open(&w, 0, NULL);
    assigned_declare(&w);
    ck_assert_int_eq(assigned_give(&w, 1, &options), PS_ERR_MISMATCH);
    ck_assert_str_eq(error.text, "values for variable 'c' have shape [1000,60], and the variable has [60,1000]");
    shapes[2] = shapes[1];
    shapes[1].dtype = "BF16";
    ck_assert_int_eq(assigned_give(&w, 1, &options), PS_ERR_MISMATCH);
    ck_assert_str_eq(error.text, "values for variable 'b' are of type BF16, and variables are F32");
    shapes[1].dtype = NULL;
    ck_assert_int_eq(assigned_give(&w, NAN, &options), PS_ERR_NONFINITE);
    ck_assert_ptr_nonnull(strstr(error.text, "is NaN or infinite"));
    ck_assert_int_eq(ps_client_assign(w.client, 2, (ps_var *const[]){w.vars[0], w.vars[0]},
                                      (const float *const *)w.values, NULL, NULL, &error),
                     PS_ERR_INVALID);
    options.flags = PS_ASSIGN_DURABLE;
    ck_assert_int_eq(assigned_give(&w, 1, &options), PS_ERR_UNSUPPORTED);
    ck_assert(assigned_pulled(&w) == 0);
    options.flags = 0;
    FINE(assigned_give(&w, 3, &options));
    ck_assert(assigned_pulled(&w) == 3);
    assigned_close(&w);
}
END_TEST

/* ---- First values ---- */

/* Declare all variables with this value; 0: with none. */
static enum ps_err
assigned_first(struct assigned_worker *w, float value, int given[VARIABLES])
{
    const float *values[VARIABLES];
    struct ps_var_spec specs[VARIABLES];

    assigned_fill(w, value);
    for (int i = 0; i < VARIABLES; i++) {
        specs[i] = assigned_spec(i, PS_INIT_GIVEN);
        values[i] = value != 0 ? w->values[i] : NULL;
    }
    return ps_client_declare_values(w->client, VARIABLES, specs, values, NULL, w->vars, given, &error);
}

START_TEST(the_first_worker_with_values_gives_them)
{
    struct assigned_worker a, b;
    int given[VARIABLES];

    assigned_open(&a, 0, NULL);
    assigned_open(&b, 1, NULL);
    FINE(assigned_first(&a, 3, given));
    for (int i = 0; i < VARIABLES; i++)
        ck_assert_int_eq(given[i], 1);
    FINE(assigned_first(&b, 4, given));
    for (int i = 0; i < VARIABLES; i++)
        ck_assert_int_eq(given[i], 0);
    ck_assert(assigned_pulled(&b) == 3);
    FINE(assigned_first(&a, 5, given)); /* again is as good as once */
    ck_assert_int_eq(given[0], 0);
    ck_assert(assigned_pulled(&a) == 3);
    FINE(assigned_give(&b, 6, NULL));
    ck_assert(assigned_pulled(&a) == 6);
    assigned_close(&a);
    assigned_close(&b);
}
END_TEST

/* A process in which worker 1 declares with this value, or with none, and ends with what it then pulls. */
static pid_t
assigned_fork_first(float value)
{
    struct assigned_worker w;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    assigned_open(&w, 1, NULL);
    FINE(assigned_first(&w, value, NULL));
    _exit((int)assigned_pulled(&w));
}

static int
assigned_exit_of(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(workers_without_values_wait_for_them)
{
    struct assigned_worker a;
    pid_t pid = assigned_fork_first(0);

    assigned_open(&a, 0, NULL);
    FINE(assigned_first(&a, 3, NULL));
    ck_assert_int_eq(assigned_exit_of(pid), 3);
    assigned_close(&a);
}
END_TEST

START_TEST(workers_that_give_at_once_agree)
{
    struct assigned_worker a;
    pid_t pid = assigned_fork_first(4);
    int given[VARIABLES];
    float value;

    assigned_open(&a, 0, NULL);
    FINE(assigned_first(&a, 3, given));
    value = assigned_pulled(&a);
    ck_assert(value == (given[0] ? 3 : 4));
    ck_assert_int_eq(assigned_exit_of(pid), (int)value);
    assigned_close(&a);
}
END_TEST

START_TEST(variables_with_an_initializer_take_no_first_values)
{
    struct ps_var_spec spec = assigned_spec(0, PS_INIT_ONES);
    struct assigned_worker w;

    assigned_open(&w, 0, NULL);
    ck_assert_int_eq(
        ps_client_declare_values(w.client, 1, &spec, (const float *const *)w.values, NULL, w.vars, NULL, &error),
        PS_ERR_INVALID);
    FINE(ps_client_declare_values(w.client, 1, &spec, (const float *const[]){NULL}, NULL, w.vars, NULL, &error));
    FINE(ps_client_pull(w.client, 1, w.vars, w.values, NULL, &error));
    ck_assert(w.values[0][17] == 1);
    assigned_close(&w);
}
END_TEST

/* ---- Kills ---- */

/* Memory that the processes share. */
static struct assigned_shared {
    volatile int given; /* the newest value that a call has given */
} * shared;

/* A worker that gives one value after the other, until it is killed. */
static void
assigned_life(void)
{
    struct assigned_worker w;
    float value;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    assigned_open(&w, 0, NULL);
    assigned_declare(&w);
    for (value = assigned_pulled(&w) + 1;; value++) {
        if (assigned_give(&w, value, NULL) != PS_OK) {
            fprintf(stderr, "# the worker's assign of %g: %s %s\n", (double)value, ps_err_name(error.code), error.text);
            abort();
        }
        shared->given = (int)value;
    }
}

static pid_t
assigned_fork(void)
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        assigned_life();
        _exit(0);
    }
    return pid;
}

static void
assigned_kill(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static int
assigned_kills(void)
{
    const char *wanted = getenv("PSD_TEST_KILLS");

    return wanted != NULL ? atoi(wanted) : 9;
}

START_TEST(nobody_sees_a_part_whatever_is_killed)
{
    struct test_rng rng = {test_seed()};
    struct assigned_worker reader;
    float newest = 0;
    pid_t pid;

    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    pid = assigned_fork();
    assigned_open(&reader, 1, NULL);
    assigned_declare(&reader);
    for (int kills = 0; kills < assigned_kills(); kills++) {
        float goal = newest + 1 + (float)test_below(&rng, 3);

        while (newest < goal) {
            float given = (float)shared->given, value = assigned_pulled(&reader);

            ck_assert_msg(value >= newest && value >= given, "%g came after %g, and %g had been given", (double)value,
                          (double)newest, (double)given);
            newest = value;
        }
        usleep((useconds_t)test_below(&rng, 3000));
        if (kills % 3 == 2) {
            assigned_kill(pid);
            pid = assigned_fork();
        } else {
            uint32_t shard = (uint32_t)test_below(&rng, SHARDS);

            shards_kill(&shards, shard);
            shards_restart(&shards, shard);
        }
    }
    assigned_kill(pid);
    ck_assert(assigned_pulled(&reader) >= newest);
    assigned_close(&reader);
    munmap(shared, sizeof *shared);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("assigned");
    TCase *t = tcase_create("assigned");

    tcase_set_timeout(t, 100);
    tcase_add_checked_fixture(t, assigned_setup, assigned_teardown);
    tcase_add_test(t, an_assign_is_there_on_all_shards);
    tcase_add_test(t, what_cannot_be_assigned_is_refused_and_changes_nothing);
    tcase_add_test(t, the_first_worker_with_values_gives_them);
    tcase_add_test(t, workers_without_values_wait_for_them);
    tcase_add_test(t, workers_that_give_at_once_agree);
    tcase_add_test(t, variables_with_an_initializer_take_no_first_values);
    tcase_add_test(t, nobody_sees_a_part_whatever_is_killed);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
