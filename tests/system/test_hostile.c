/* Peers that do harm, and a worker beside them: all its calls succeed within their deadlines (the bench measures how
 * much slower they are). And a psd that has run out of descriptors: connected peers are served, it does not spin, and
 * new ones are accepted again when there are descriptors. */
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/now.h"
#include "tests/system/fine.h"
#include "tests/system/hostile.h"
#include "tests/system/probe.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

enum { BLOCK = 65536 /* elements of the largest block */, DEADLINE_MS = 30000, RUN_MS = 1000 };

static struct shards shards;
static ps_client *client;
static ps_var *large, *small;
static struct ps_error error;
static float *values;
static uint64_t pushed;

static ps_var *
hostile_declare(const char *name, uint64_t n)
{
    struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {n}, .optimizer = {.learning_rate = 1}};
    ps_var *v;

    FINE(ps_client_declare(client, &spec, &v, &error));
    return v;
}

static void
hostile_psd_start(const struct shards_options *options)
{
    struct ps_client_options o = {.timeout_ms = DEADLINE_MS};
    ps_cluster *cluster;

    shards_start_with(&shards, 1, options);
    FINE(ps_cluster_from_list(shards.addresses, 1, 0, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    FINE(ps_client_open(cluster, &o, &client, &error));
    ps_cluster_free(cluster);
    large = hostile_declare("large", BLOCK); /* the first: the variable that the slow readers ask for */
    small = hostile_declare("small", 1000);
    ck_assert_ptr_nonnull((values = calloc(BLOCK, sizeof *values)));
    pushed = 0;
}

static void
hostile_psd_stop(void)
{
    ps_client_close(client);
    free(values);
    shards_stop(&shards);
}

/* A step of a worker: each call ends well, and in time. */
static void
work_once(void)
{
    static const float gradient[1000] = {-1};
    ps_var *both[] = {small, large};
    float small_values[1000];

    FINE(ps_client_push(client, 1, &small, (const float *[]){gradient}, NULL, &error));
    pushed++;
    FINE(ps_client_tick(client, &error));
    FINE(ps_client_pull(client, 2, both, (float *[]){small_values, values}, NULL, &error));
    ck_assert_msg(small_values[0] == (float)pushed, "%g of %d pushes are there", (double)small_values[0], (int)pushed);
}

static uint32_t
work_for(uint64_t ms)
{
    uint64_t until = now_ms() + ms;
    uint32_t n = 0;

    for (; now_ms() < until; n++)
        work_once();
    return n;
}

START_TEST(the_others_are_served_beside_a_hostile_peer)
{
    static const char *const more[] = {"--hello-timeout", "300ms", "--log-level", "error", NULL};
    uint32_t before, beside;
    pid_t pid;

    hostile_psd_start(&(struct shards_options){.more = more});
    before = work_for(RUN_MS / 4) * 4;
    pid = hostile_start((enum hostile_kind)_i, shards.address[0], SHARDS_CLUSTER);
    ck_assert_int_gt(pid, 0);
    beside = work_for(RUN_MS);
    hostile_stop(pid);
    work_once();
    fprintf(stderr, "# %s: %u steps a second alone, %u beside it\n", hostile_names[_i], before, beside);
    hostile_psd_stop();
}
END_TEST

/* ---- Descriptors ---- */

/* Of psd, in clock ticks. */
static unsigned long
cpu_ticks(void)
{
    unsigned long user, system;
    char path[64];
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", shards.pids[0]);
    ck_assert_ptr_nonnull((f = fopen(path, "r")));
    ck_assert_int_eq(fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system), 2);
    fclose(f);
    return user + system;
}

/* The answer to a new connection whose hello names another cluster: CLUSTER when it was accepted, LIMIT when not;
 * PS_OK: it was closed without an answer. */
static enum ps_err
hostile_told_error(struct probe *p)
{
    if (probe_hello(p, -1, 0, false) || p->msg.type != MSG_ERROR)
        return PS_OK;
    if (p->msg.u.error->code == PS_ERR_LIMIT)
        ck_assert_ptr_nonnull(strstr(p->msg.u.error->text, "descriptors"));
    return p->msg.u.error->code;
}

START_TEST(without_descriptors_those_who_are_in_are_served)
{
    enum { DESCRIPTORS = 64, CALLERS = 100 };
    struct rlimit few = {.rlim_cur = DESCRIPTORS, .rlim_max = DESCRIPTORS};
    struct probe probes[CALLERS], late;
    uint32_t refused = 0;
    unsigned long ticks;
    enum ps_err err;
    double began;

    hostile_psd_start(&(struct shards_options){.where = NULL});
    ck_assert_int_eq(prlimit(shards.pids[0], RLIMIT_NOFILE, &few, NULL), 0);
    for (int i = 0; i < CALLERS; i++)
        ck_assert(probe_connect(&probes[i], shards.address[0]));
    work_once();
    began = now_s();
    ticks = cpu_ticks();
    usleep(500000);
    ticks = cpu_ticks() - ticks;
    ck_assert_msg((double)ticks <= (now_s() - began) * (double)sysconf(_SC_CLK_TCK) * 0.4, "psd spins: %lu ticks",
                  ticks);
    for (int i = 0; i < CALLERS; i++)
        refused += hostile_told_error(&probes[i]) == PS_ERR_LIMIT;
    ck_assert_uint_gt(refused, 0); /* those beyond them were closed without an answer */
    work_once();
    for (int i = 0; i < CALLERS; i++)
        probe_close(&probes[i]);
    do { /* until it has noticed that they are gone */
        ck_assert(probe_connect(&late, shards.address[0]));
        err = hostile_told_error(&late);
        probe_close(&late);
    } while (err != PS_ERR_CLUSTER);
    work_once();
    hostile_psd_stop();
}
END_TEST

static void
hostile_greet(struct probe *p)
{
    Psd__Hello hello = PSD__HELLO__INIT;

    hello.cluster = (char *)(uintptr_t)SHARDS_CLUSTER;
    hello.shards = 1;
    hello.agent = (char *)(uintptr_t) "probe";
    hello.role = PSD__ROLE__OBSERVER;
    ck_assert(probe_connect(p, shards.address[0]));
    probe_send(p, MSG_HELLO, &hello.base, NULL, 0);
    ck_assert(probe_receive(p) && p->msg.type == MSG_WELCOME);
}

/* ---- Places ---- */

enum { PLACES = 64 /* of which the last 4 are kept for who administers the shard */, SILENT_MOST = 2 * PLACES };

/* How this shard answers an observer who connects there; it stays. */
static enum ps_err
hostile_observe(struct probe *p, const char *at)
{
    ck_assert(probe_connect(p, at));
    return probe_hello(p, -1, 0, false) ? PS_OK : p->msg.type == MSG_ERROR ? p->msg.u.error->code : PS_ERR_CLOSED;
}

/* An observer is let in, once one of the silent has been so for long enough. */
static void
hostile_let_in(const char *at)
{
    struct probe p;
    enum ps_err err;

    do {
        err = hostile_observe(&p, at);
        ck_assert(err == PS_OK || err == PS_ERR_LIMIT);
        probe_close(&p);
    } while (err != PS_OK);
}

/* Observers who ask nothing; and connections on which nothing comes. */
START_TEST(a_crowd_of_the_silent_keeps_nobody_out)
{
    static const char *const more[] = {"--connections-max", "64", "--cluster", "psd", "--hello-timeout", "10m", NULL};
    struct probe crowd[SILENT_MOST], admin;
    int refused = 0;

    shards_start_with(&shards, 1, &(struct shards_options){.more = more});
    for (int i = 0; i < SILENT_MOST; i++) {
        if (_i == 0)
            refused += hostile_observe(&crowd[i], shards.address[0]) != PS_OK;
        else
            ck_assert(probe_connect(&crowd[i], shards.address[0]));
    }
    ck_assert(_i != 0 || refused > 0);
    ck_assert_int_eq(hostile_observe(&admin, shards.sockets), PS_OK); /* at once */
    hostile_let_in(shards.address[0]);
    for (int i = 0; i < SILENT_MOST; i++)
        probe_close(&crowd[i]);
    probe_close(&admin);
    shards_stop(&shards);
}
END_TEST

/* A connection that always has pings waiting; its answers are counted in bytes. */
struct flooder {
    struct probe probe;
    uint8_t *pings;
    size_t len, at; /* all of them; where the next send begins */
};

static size_t
flood_on(struct flooder *f)
{
    static uint8_t sink[64 * KIB];
    size_t answered = 0;
    ssize_t n;

    while ((n = send(f->probe.fd, f->pings + f->at, f->len - f->at, MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
        f->at = (f->at + (size_t)n) % f->len;
    while ((n = recv(f->probe.fd, sink, sizeof sink, MSG_DONTWAIT)) > 0)
        answered += (size_t)n;
    return answered / FRAME_HEAD_SIZE;
}

/* The number of pings of the one that are answered between two answers to the other. While this process waits for a
 * processor psd answers more of them, so that on a busy machine most rounds say nothing: it goes on until one does. */
START_TEST(who_floods_is_answered_little_more_often_than_who_waits_for_each_answer)
{
    enum { PINGS = 1000, ROUNDS = 5000, WARM = 100, FEW = 32 };
    Psd__Ping ping = PSD__PING__INIT;
    struct flooder f = {.len = PINGS * FRAME_HEAD_SIZE};
    struct probe other;
    size_t answered, len, least = SIZE_MAX;
    uint8_t *one = wire_encode_new(MSG_PING, 1, &ping.base, 0, &len);

    hostile_psd_start(&(struct shards_options){.where = NULL});
    hostile_greet(&f.probe);
    hostile_greet(&other);
    ck_assert_uint_eq(len, FRAME_HEAD_SIZE);
    ck_assert_ptr_nonnull((f.pings = malloc(f.len)));
    for (size_t i = 0; i < PINGS; i++)
        memcpy(f.pings + i * len, one, len);
    for (int i = 0; i < ROUNDS && least >= FEW; i++) {
        probe_send(&other, MSG_PING, &ping.base, NULL, 0);
        ck_assert(probe_receive(&other));
        answered = flood_on(&f);
        if (i >= WARM && answered > 0)
            least = MIN(least, answered);
    }
    ck_assert_msg(least < FEW, "the flooder was answered %zu times or more in between", least);
    probe_close(&f.probe);
    probe_close(&other);
    free(f.pings);
    free(one);
    hostile_psd_stop();
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("hostile");
    TCase *tc = tcase_create("hostile");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, the_others_are_served_beside_a_hostile_peer, 0, HOSTILE_KINDS);
    tcase_add_test(tc, who_floods_is_answered_little_more_often_than_who_waits_for_each_answer);
    tcase_add_test(tc, without_descriptors_those_who_are_in_are_served);
    tcase_add_loop_test(tc, a_crowd_of_the_silent_keeps_nobody_out, 0, 2);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
