/* A psd that runs out of memory: any allocation of the process fails in turn, those of libuv, LMDB and protobuf-c too,
 * while a worker trains, and while psd starts; and so does any write to a socket. It goes on, or ends with a status and
 * a sentence: never by a signal, and no client is left hanging. All that was acknowledged is there afterwards, and
 * nothing is counted twice.
 *
 * There are too many for every run: a sample is taken, spread over all of them. PSD_TEST_ALL=1 takes each. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/faults/fail_io.h"
#include "tests/faults/fail_memory.h"
#include "tests/system/http_client.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/memory_dir.h"

enum { RUNS = 40, WAIT_MS = 60000, WORK_MS = 4000 };

#define HTTP "127.0.0.1:17429" /* the network is the test's own */

static struct shards shards;
static struct fail_memory *memory;
static char control[128];
static uint64_t counted; /* pushes that the shard has */

static void
setup_with(const char *lib, const char *variable)
{
    static const char *const more[] = {"--save-interval", "0", "--http", HTTP, NULL};

    snprintf(control, sizeof control, "%s/psd-test-control-%d", memory_dir(), getpid());
    setenv(variable, control, 1);
    setenv("LD_PRELOAD", getenv(lib), 1);
    ck_assert_ptr_nonnull(memory = fail_memory_map(control));
    shards_start_with(&shards, 1, &(struct shards_options){.durable = true, .log = true, .more = more});
    counted = 0;
}

static void
starved_setup(void)
{
    setup_with("FAIL_MEMORY_LIB", "FAIL_MEMORY");
}

static void
starved_teardown(void)
{
    shards_stop(&shards);
    unlink(control);
    strcat(control, ".hits");
    unlink(control);
}

/* ---- A worker ---- */

struct starved_tally {
    uint64_t tried, done; /* pushes, of 1 each; those that were acknowledged */
};

static ps_client *
starved_client(bool observer, int timeout_ms)
{
    struct ps_client_options options = {.observer = observer, .timeout_ms = timeout_ms};
    struct ps_error e;
    ps_cluster *cluster;
    ps_client *c = NULL;

    ck_assert_int_eq(ps_cluster_from_list(shards.addresses, 1, 0, &cluster, &e), PS_OK);
    ck_assert_int_eq(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &e), PS_OK);
    if (ps_client_open(cluster, &options, &c, &e) != PS_OK)
        c = NULL;
    ps_cluster_free(cluster);
    return c;
}

static void
starved_train(ps_client *c, ps_var *var, struct starved_tally *tally)
{
    static const struct ps_push_options applied = {0}, durable = {.flags = PS_PUSH_DURABLE};
    float one[4] = {-1, -1, -1, -1}, out[4]; /* what counts goes up */
    const float *grads[] = {one};
    float *outs[] = {out};
    struct ps_error e;

    for (int i = 0; i < 4; i++) {
        tally->tried++;
        if (i == 3)
            tally->done += ps_client_push_pull(c, 1, &var, grads, outs, &applied, &e) == PS_OK;
        else
            tally->done += ps_client_push(c, 1, &var, grads, i == 1 ? &durable : &applied, &e) == PS_OK;
    }
    (void)!ps_client_pull(c, 1, &var, outs, NULL, &e);
    (void)!ps_client_tick(c, &e);
}

/* The same over HTTP: with an answer or without. */
static void
starved_watch(void)
{
    static const char *const pages[] = {"GET /metrics", "GET /readyz", "GET /nothing"};

    for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
        struct http_reply r = http_client_ask(HTTP, pages[i]);

        http_reply_free(&r);
    }
}

/* All its requests may fail; it still ends. */
static struct starved_tally
starved_work(void)
{
    struct ps_var_spec spec = {.name = "count", .rank = 1, .dims = {4}, .optimizer = {.learning_rate = 1}};
    ps_client *c = starved_client(false, WORK_MS);
    struct starved_tally tally = {0};
    struct ps_save_report saved;
    struct ps_error e;
    char *json = NULL;
    ps_var *var;

    if (c != NULL && ps_client_declare(c, &spec, &var, &e) == PS_OK) {
        starved_train(c, var, &tally);
        (void)!ps_client_save(c, 0, WORK_MS, &saved, &e);
        for (int query = PS_QUERY_STATUS; query <= PS_QUERY_JOBS; query++, ps_free(json), json = NULL)
            (void)!ps_client_query(c, 0, (enum ps_query)query, NULL, WORK_MS, &json, &e);
    }
    ps_client_close(c);
    starved_watch();
    return tally;
}

/* ---- What is left ---- */

static uint64_t
count_now(void)
{
    ps_client *c = starved_client(true, WAIT_MS);
    float out[4] = {0}, *outs[] = {out};
    struct ps_error e;
    ps_var *var;
    enum ps_err err;

    ck_assert_ptr_nonnull(c);
    if ((err = ps_client_attach(c, "count", &var, &e)) == PS_OK)
        err = ps_client_pull(c, 1, &var, outs, NULL, &e);
    ck_assert_msg(err == PS_OK || (counted == 0 && err == PS_ERR_NOT_FOUND), "%s", e.text);
    ps_client_close(c);
    return (uint64_t)out[0];
}

static void
must_say_why(int status)
{
    const char *log = shards_log(&shards, 0);
    size_t len = strlen(log);

    ck_assert_msg(status > 0, "psd ended by signal %d: %s", -status, log + len - MIN(len, (size_t)1000));
    ck_assert_msg(len > 0, "psd ended with status %d and no word", status);
}

/* It serves, or has ended as it should and serves again. */
static void
must_serve(void)
{
    int status;

    if (waitpid(shards.pids[0], &status, WNOHANG) == shards.pids[0]) {
        must_say_why(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
        shards.pids[0] = 0;
        shards_restart(&shards, 0);
    }
}

static void
must_have(const struct starved_tally *t)
{
    uint64_t now = count_now();

    ck_assert_msg(now >= counted + t->done && now <= counted + t->tried,
                  "%" PRIu64 " pushes are counted, of %" PRIu64 " before, %" PRIu64 " acknowledged, %" PRIu64 " sent",
                  now, counted, t->done, t->tried);
    counted = now;
}

/* ---- Each in turn ---- */

/* The ith of about `runs` that are taken of so many; 0: enough. */
static uint64_t
starved_sample(uint64_t i, uint64_t runs, uint64_t of)
{
    uint64_t step = getenv("PSD_TEST_ALL") != NULL ? 1 : MAX(of / runs, 1), n = 1 + i * step + i % step;

    return n <= of ? n : 0;
}

static uint64_t
allocations_of(void (*run)(void))
{
    uint64_t seen;

    fail_memory_at(memory, UINT64_MAX, 0);
    run();
    seen = memory->seen;
    fail_memory_at(memory, 0, 0);
    return seen;
}

static void
work_well(void)
{
    struct starved_tally t = starved_work();
    struct http_reply r = http_client_ask(HTTP, "GET /readyz");

    ck_assert_uint_eq(t.done, 4);
    must_have(&t);
    ck_assert_int_eq(r.status, 200);
    http_reply_free(&r);
}

/* _i: how many fail together. */
START_TEST(psd_survives_any_allocation_that_fails_while_a_worker_trains)
{
    static const uint64_t together[] = {1, 3}, runs[] = {RUNS, RUNS / 4}; /* one may wait for seconds */
    uint64_t of = allocations_of(work_well), n;

    for (uint64_t i = 0; (n = starved_sample(i, runs[_i], of)) > 0; i++) {
        struct starved_tally t;

        if (getenv("PSD_TEST_VERBOSE") != NULL)
            fprintf(stderr, "# %" PRIu64 " of %" PRIu64 "\n", n, of);
        fail_memory_at(memory, n, together[_i]);
        t = starved_work();
        fail_memory_at(memory, 0, 0);
        must_serve();
        must_have(&t);
    }
    shards_kill(&shards, 0);
    shards_restart(&shards, 0);
    work_well();
}
END_TEST

static void
start_well(void)
{
    shards_kill(&shards, 0);
    shards_restart(&shards, 0);
}

START_TEST(psd_survives_any_allocation_that_fails_while_it_starts)
{
    uint64_t of, n;

    work_well();
    of = allocations_of(start_well);
    for (uint64_t i = 0; (n = starved_sample(i, RUNS, of)) > 0; i++) {
        int status;

        if (getenv("PSD_TEST_VERBOSE") != NULL)
            fprintf(stderr, "# %" PRIu64 " of %" PRIu64 "\n", n, of);
        shards_kill(&shards, 0);
        fail_memory_at(memory, n, 1);
        status = shards_try(&shards, 0);
        fail_memory_at(memory, 0, 0);
        if (status != 0) {
            must_say_why(status);
            shards_restart(&shards, 0);
        }
        must_have(&(struct starved_tally){0});
    }
    work_well();
}
END_TEST

static void
setup_sockets(void)
{
    setup_with("FAIL_IO_LIB", "FAIL_IO");
    setenv("PSD_TRANSPORT", "tcp", 1); /* through shared memory nothing is written to sockets but doorbells */
}

static off_t
starved_hits(void)
{
    char path[160];
    struct stat st;

    snprintf(path, sizeof path, "%s.hits", control);
    return stat(path, &st) == 0 ? st.st_size : 0;
}

START_TEST(psd_survives_any_write_to_a_socket_that_fails)
{
    char line[64];
    off_t before;
    int n = 0;

    do {
        struct starved_tally t;

        before = starved_hits();
        snprintf(line, sizeof line, "sendmsg %s %d 1 socket", n % 2 == 0 ? "EIO" : "SHORT", n + 1);
        ck_assert(fail_io_write(control, line));
        t = starved_work();
        ck_assert(fail_io_write(control, ""));
        must_serve();
        must_have(&t);
    } while (n++, starved_hits() > before);
    ck_assert_int_gt(n, 10);
    work_well();
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("starved");
    TCase *t = tcase_create("starved");

    tcase_set_timeout(t, getenv("PSD_TEST_ALL") != NULL ? 3600 : 120);
    tcase_add_checked_fixture(t, starved_setup, starved_teardown);
    tcase_add_loop_test(t, psd_survives_any_allocation_that_fails_while_a_worker_trains, 0, 2);
    tcase_add_test(t, psd_survives_any_allocation_that_fails_while_it_starts);
    suite_add_tcase(s, t);
    t = tcase_create("sockets");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup_sockets, starved_teardown);
    tcase_add_test(t, psd_survives_any_write_to_a_socket_that_fails);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
