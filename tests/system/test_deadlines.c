/* Every call of libpsclient returns by its deadline and reports which shard it waited for, and for how long: while a
 * shard is down, accepts and never answers, reads and never answers, or stops reading in the midst of a push; and while
 * a name is being looked up. */
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/now.h"
#include "tests/system/fine.h"
#include "tests/system/proxy.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

enum {
    TIMEOUT_MS = 150,
    SLACK_MS = 30000, /* a busy machine may hold up any call ... */
    LINGER_MS = 2000, /* CONN_LINGER_MS: ... but not the quickest of some, which ends before a goodbye would */
    TRIES = 3,
    ELEMENTS = 5 << 20, /* 20 MiB: more than sockets and windows hold on their way to two shards */
};

static struct shards shards;
static struct proxy proxy;
static struct ps_error error;
static float *gradient, *values;

/* ---- Names: getaddrinfo() hangs as long as the test wants ---- */

static pthread_mutex_t names_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t names_changed = PTHREAD_COND_INITIALIZER;
static bool names_hang;
static atomic_uint names_asked; /* read without the mutex, too */
static unsigned names_answered;

int
getaddrinfo(const char *restrict host, const char *restrict port, const struct addrinfo *restrict hints,
            struct addrinfo **restrict list)
{
    static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    int rc;

    pthread_mutex_lock(&names_mutex);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    names_asked++;
    while (names_hang)
        pthread_cond_wait(&names_changed, &names_mutex);
    pthread_mutex_unlock(&names_mutex);
    rc = real(strcmp(host, "slow.invalid") == 0 ? "127.0.0.1" : host, port, hints, list);
    pthread_mutex_lock(&names_mutex);
    names_answered++;
    pthread_cond_broadcast(&names_changed);
    pthread_mutex_unlock(&names_mutex);
    return rc;
}

static void
names_set_hang(bool hang)
{
    pthread_mutex_lock(&names_mutex);
    names_hang = hang;
    pthread_cond_broadcast(&names_changed);
    pthread_mutex_unlock(&names_mutex);
}

/* All threads that looked a name up have returned. */
static void
names_wait_answered(void)
{
    pthread_mutex_lock(&names_mutex);
    while (names_answered < names_asked)
        pthread_cond_wait(&names_changed, &names_mutex);
    pthread_mutex_unlock(&names_mutex);
}

/* ---- Clients ---- */

static enum ps_err
try_open(const char *addresses, const struct ps_client_options *o, ps_client **out)
{
    ps_cluster *cluster;
    enum ps_err err;

    FINE(ps_cluster_from_list(addresses, 2, 0, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    err = ps_client_open(cluster, o, out, &error);
    ps_cluster_free(cluster);
    return err;
}

/* A client that trains, with its default time-out set so that a test may wait for it. */
struct trained {
    ps_client *client;
    ps_var *var;
};

static struct trained
deadlines_train(bool threaded)
{
    struct ps_client_options o = {.timeout_ms = 60000, .progress_thread = threaded};
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {ELEMENTS}, .optimizer = {.learning_rate = 1}};
    struct trained t;

    FINE(try_open(proxy.addresses, &o, &t.client));
    FINE(ps_client_declare(t.client, &spec, &t.var, &error));
    return t;
}

/* ---- The calls ---- */

static enum ps_err
call_pull(struct trained *t)
{
    struct ps_pull_options o = {.timeout_ms = TIMEOUT_MS};

    return ps_client_pull(t->client, 1, &t->var, &values, &o, &error);
}

static enum ps_err
call_push(struct trained *t)
{
    struct ps_push_options o = {.timeout_ms = TIMEOUT_MS};

    return ps_client_push(t->client, 1, &t->var, (const float *const *)&gradient, &o, &error);
}

static enum ps_err
call_push_pull(struct trained *t)
{
    struct ps_push_options o = {.timeout_ms = TIMEOUT_MS};

    return ps_client_push_pull(t->client, 1, &t->var, (const float *const *)&gradient, &values, &o, &error);
}

/* Started operations are waited for by each of the three ways; then they are given up. */
static enum ps_err
wait_for(ps_op *op, int how)
{
    size_t index;
    enum ps_err err = how == 0   ? ps_op_wait(op, TIMEOUT_MS, &error)
                      : how == 1 ? ps_op_wait_any(1, &op, TIMEOUT_MS, &index, &error)
                                 : ps_op_wait_all(1, &op, TIMEOUT_MS, &error);

    ps_op_free(op);
    return err;
}

static enum ps_err
call_tick(struct trained *t)
{
    ps_op *op;

    FINE(ps_client_tick_start(t->client, &op, &error));
    return wait_for(op, 0);
}

static enum ps_err
call_declare(struct trained *t)
{
    struct ps_var_spec spec = {.name = "other", .rank = 1, .dims = {8}, .optimizer = {.learning_rate = 1}};
    ps_var *v;
    ps_op *op;

    FINE(ps_client_declare_start(t->client, &spec, &v, &op, &error));
    return wait_for(op, 1);
}

static enum ps_err
call_push_all(struct trained *t)
{
    ps_op *op;

    FINE(ps_client_push_start(t->client, 1, &t->var, (const float *const *)&gradient, NULL, &op, &error));
    return wait_for(op, 2);
}

static enum ps_err
call_barrier(struct trained *t)
{
    return ps_client_barrier(t->client, "here", TIMEOUT_MS, &error);
}

static enum ps_err
call_query(struct trained *t)
{
    char *json = NULL;
    enum ps_err err = ps_client_query(t->client, 0, PS_QUERY_STATUS, NULL, TIMEOUT_MS, &json, &error);

    ps_free(json);
    return err;
}

static enum ps_err
call_ping(struct trained *t)
{
    double us;

    return ps_client_ping(t->client, 1, TIMEOUT_MS, &us, &error);
}

static enum ps_err
call_set(struct trained *t)
{
    struct ps_parameter rate = {"learning_rate", 0.5};
    struct ps_setting setting = {.variables = "*", .parameters = 1, .parameter = &rate};

    return ps_client_set(t->client, &setting, TIMEOUT_MS, NULL, &error);
}

static enum ps_err
call_save(struct trained *t)
{
    return ps_client_save(t->client, 0, TIMEOUT_MS, NULL, &error);
}

static enum ps_err
call_checkpoint(struct trained *t)
{
    return ps_client_checkpoint(t->client, shards.directory, NULL, TIMEOUT_MS, NULL, &error);
}

static enum ps_err
call_drain(struct trained *t)
{
    return ps_client_drain(t->client, 0, TIMEOUT_MS, &error);
}

static enum ps_err
call_rejoin(struct trained *t)
{
    return ps_client_rejoin(t->client, TIMEOUT_MS, &error);
}

static const struct {
    const char *name;
    enum ps_err (*call)(struct trained *t);
} calls[] = {
    {"pull", call_pull},       {"push", call_push},    {"push_pull", call_push_pull}, {"tick", call_tick},
    {"declare", call_declare}, {"all", call_push_all}, {"barrier", call_barrier},     {"query", call_query},
    {"ping", call_ping},       {"set", call_set},      {"save", call_save},           {"checkpoint", call_checkpoint},
    {"rejoin", call_rejoin},   {"drain", call_drain}, /* the last: a shard that receives it ends */
};

/* ---- The troubles ---- */

static void
deadlines_mute(void)
{
    atomic_store(&proxy.faults->cut[TO_WORKER], 1);
}

static void
deadlines_stuck(void)
{
    atomic_store(&proxy.faults->cut[TO_SHARD], 1);
}

static void
deadlines_deaf(void)
{
    atomic_store(&proxy.faults->deaf, 1);
    proxy_reset(&proxy);
}

/* Nothing listens there, as while a shard is being rebuilt. */
static void
deadlines_gone(void)
{
    shards_kill(&shards, 0);
    shards_kill(&shards, 1);
}

static void
deadlines_heal(void)
{
    proxy_reset(&proxy);
    proxy_heal(&proxy);
    for (uint32_t i = 0; i < shards.count; i++)
        if (shards.pids[i] == 0)
            shards_restart(&shards, i);
}

static const struct {
    const char *name;
    void (*begin)(void);
    bool threaded;
} troubles[] = {{"mute", deadlines_mute, false}, {"stuck", deadlines_stuck, false}, {"deaf", deadlines_deaf, false},
                {"gone", deadlines_gone, false}, {"mute", deadlines_mute, true},    {"stuck", deadlines_stuck, true}};

/* Returns how long it took, ms. */
static uint64_t
check_call(size_t i, const char *trouble, struct trained *t)
{
    uint64_t start = now_ms(), took;
    enum ps_err err = calls[i].call(t);

    took = now_ms() - start;
    ck_assert_msg(err != PS_OK, "%s, %s: fine", trouble, calls[i].name);
    ck_assert_msg(took <= TIMEOUT_MS + SLACK_MS, "%s, %s: took %llu ms", trouble, calls[i].name,
                  (unsigned long long)took);
    ck_assert_msg(err == PS_ERR_TIMEOUT || calls[i].call == call_rejoin, "%s, %s: %s: %s", trouble, calls[i].name,
                  ps_err_name(err), error.text);
    ck_assert_msg(strstr(error.text, " ms for shard ") != NULL && strstr(error.text, " at 127.0.0.1:") != NULL,
                  "%s, %s: %s", trouble, calls[i].name, error.text);
    return took;
}

START_TEST(every_call_returns_by_its_deadline_and_names_the_shard)
{
    uint64_t quickest = SLACK_MS, quickest_end = SLACK_MS;

    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        struct trained t = deadlines_train(troubles[_i].threaded);
        uint64_t start, took;

        troubles[_i].begin();
        took = check_call(i, troubles[_i].name, &t);
        quickest = MIN(quickest, took);
        start = now_ms();
        ps_client_abandon(t.client);
        took = now_ms() - start;
        ck_assert_uint_le(took, SLACK_MS);
        quickest_end = MIN(quickest_end, took);
        deadlines_heal();
        if (calls[i].call == call_drain && troubles[_i].begin == deadlines_mute)
            shards_wait(&shards, 0); /* it has received the drain */
    }
    ck_assert_uint_lt(quickest, TIMEOUT_MS + LINGER_MS);
    ck_assert_uint_lt(quickest_end, LINGER_MS);
}
END_TEST

/* The first pages come, and a later one not in time: what was left for that one is not how long the call waited. */
START_TEST(list_of_several_pages_says_how_long_it_waited_for_all)
{
    enum { VARIABLES = 1200 };
    struct trained t = deadlines_train(false);
    ps_op *ops[VARIABLES];
    ps_var *var;
    int waited = 0;
    char *json;

    for (int i = 0; i < VARIABLES; i++) {
        char name[32];
        struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {4}, .optimizer = {.learning_rate = 1}};

        snprintf(name, sizeof name, "many/%d", i);
        FINE(ps_client_declare_start(t.client, &spec, &var, &ops[i], &error));
    }
    for (int i = 0; i < VARIABLES; i++) {
        FINE(ps_op_wait(ops[i], -1, &error));
        ps_op_free(ops[i]);
    }
    atomic_store(&proxy.faults->delay_ms, TIMEOUT_MS / 3); /* both ways: one page comes in time, not two */
    ck_assert_int_eq(ps_client_query(t.client, 0, PS_QUERY_VARIABLES, NULL, TIMEOUT_MS, &json, &error), PS_ERR_TIMEOUT);
    ck_assert_msg(sscanf(error.text, "waited %d ms for shard 0", &waited) == 1 && waited >= TIMEOUT_MS, "%s",
                  error.text);
    ps_client_abandon(t.client);
    deadlines_heal();
}
END_TEST

/* Closing waits for unacknowledged pushes as long as the default time-out, and for a goodbye a little. */
START_TEST(closing_ends_in_time)
{
    struct ps_client_options o = {.timeout_ms = 1000};
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {ELEMENTS}, .optimizer = {.learning_rate = 1}};
    struct trained t;
    uint64_t start;
    ps_op *op;

    FINE(try_open(proxy.addresses, &o, &t.client));
    FINE(ps_client_declare(t.client, &spec, &t.var, &error));
    troubles[_i].begin();
    FINE(ps_client_push_start(t.client, 1, &t.var, (const float *const *)&gradient, NULL, &op, &error));
    (void)ps_op_test(op);
    start = now_ms();
    ps_client_close(t.client);
    ck_assert_uint_le(now_ms() - start, 1000 + LINGER_MS + SLACK_MS);
    deadlines_heal();
}
END_TEST

/* ---- Opening ---- */

START_TEST(opening_returns_by_its_deadline_and_names_the_shard)
{
    struct ps_client_options o = {.timeout_ms = TIMEOUT_MS};
    uint64_t start, quickest = UINT64_MAX;
    ps_client *c = NULL;

    troubles[_i].begin();
    for (int i = 0; i < TRIES; i++) {
        start = now_ms();
        ck_assert_int_ne(try_open(proxy.addresses, &o, &c), PS_OK);
        quickest = MIN(quickest, now_ms() - start);
        ck_assert_ptr_null(c);
        ck_assert_msg(strstr(error.text, " ms for shard ") != NULL, "%s", error.text);
    }
    ck_assert_uint_lt(quickest, TIMEOUT_MS + LINGER_MS);
    deadlines_heal();
}
END_TEST

/* getaddrinfo() cannot be cancelled: it is left behind, and ends by itself. */
START_TEST(a_name_that_hangs_holds_up_neither_opening_nor_closing)
{
    static const int patience_ms[] = {TIMEOUT_MS, 2000, 20000};
    struct ps_client_options o = {.observer = _i};
    const char *why = NULL;
    ps_client *c = NULL;
    char addresses[128];
    unsigned tries = 0;
    uint64_t start;

    names_set_hang(true);
    snprintf(addresses, sizeof addresses, "%s,hangs.invalid:7420", shards.address[0]);
    while (why == NULL && tries < ARRAY_LEN(patience_ms)) { /* until the other shard has answered in time */
        o.timeout_ms = patience_ms[tries++];
        start = now_ms();
        ck_assert_int_ne(try_open(addresses, &o, &c), PS_OK);
        ck_assert_uint_le(now_ms() - start, (uint64_t)o.timeout_ms + SLACK_MS);
        why = strstr(error.text, "ms for shard 1 at hangs.invalid:7420");
    }
    ck_assert_msg(why != NULL, "%s", error.text);
    ck_assert_uint_eq(names_asked, tries);
    names_set_hang(false);
    names_wait_answered();
}
END_TEST

static void *
let_names_go(void *arg)
{
    nanosleep(&(struct timespec){.tv_nsec = 200 * 1000000}, NULL); /* how slow it is */
    (void)arg;
    names_set_hang(false);
    return NULL;
}

START_TEST(a_name_that_is_slow_is_waited_for)
{
    struct ps_client_options o = {.timeout_ms = 20000};
    pthread_t thread;
    ps_client *c = NULL;
    char addresses[128];

    names_set_hang(true);
    ck_assert_int_eq(pthread_create(&thread, NULL, let_names_go, NULL), 0);
    snprintf(addresses, sizeof addresses, "%s,slow.invalid:%s", shards.address[0], strrchr(shards.address[1], ':') + 1);
    FINE(try_open(addresses, &o, &c));
    ck_assert_uint_eq(names_asked, 1);
    ps_client_close(c);
    pthread_join(thread, NULL);
}
END_TEST

/* ---- Fixtures ---- */

static void
deadlines_setup(void)
{
    shards_start(&shards, 2);
    proxy_start(&proxy, &shards);
    gradient = calloc(ELEMENTS, sizeof *gradient);
    values = calloc(ELEMENTS, sizeof *values);
}

static void
deadlines_teardown(void)
{
    free(gradient);
    free(values);
    proxy_stop(&proxy);
    shards_stop(&shards);
}

static Suite *
make_suite(void)
{
    Suite *s = suite_create("deadlines");
    TCase *tc = tcase_create("deadlines");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, deadlines_setup, deadlines_teardown);
    tcase_add_loop_test(tc, every_call_returns_by_its_deadline_and_names_the_shard, 0, (int)ARRAY_LEN(troubles));
    tcase_add_test(tc, list_of_several_pages_says_how_long_it_waited_for_all);
    tcase_add_loop_test(tc, closing_ends_in_time, 0, 4);
    tcase_add_loop_test(tc, opening_returns_by_its_deadline_and_names_the_shard, 0, 4);
    tcase_add_loop_test(tc, a_name_that_hangs_holds_up_neither_opening_nor_closing, 0, 2);
    tcase_add_test(tc, a_name_that_is_slow_is_waited_for);
    suite_add_tcase(s, tc);
    return s;
}

CHECK_MAIN(make_suite)
