/* The cost of connecting and of being connected: opening and closing a client, beside a bare connection to the same
 * port; declaring a variable and finding one that is there, one at a time; and the memory that connections and
 * variables take, of the shard's process and of the client's. Memory is measured once: what all of so many took,
 * divided. */
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/interleave.h"
#include "tests/bench/server.h"
#include "tests/bench/worker.h"
#include "tests/now.h"

static struct {
    const struct bench_options *settings;
    struct bench_server psd;
    struct bench_worker worker;
    uint32_t declared; /* names are taken one after the other */
} b;

static void
sample_open(void *arg, double seconds, double *figures)
{
    const char *address = arg;
    double start = now_s();
    uint64_t n = 0;

    for (; n == 0 || now_s() - start < seconds; n++) {
        struct bench_worker w;

        worker_open(&w, b.settings, address, &(struct ps_client_options){.job = "come"}, 1, 0);
        worker_close(&w);
    }
    figures[0] = (now_s() - start) / (double)n * 1e6;
}

static void
sample_bare(void *arg, double seconds, double *figures)
{
    char host[256];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *at;
    double start;
    uint64_t n = 0;
    char *port;

    (void)arg;
    snprintf(host, sizeof host, "%s", b.psd.address);
    port = strrchr(host, ':');
    *port++ = '\0';
    if (getaddrinfo(host, port, &hints, &at) != 0)
        bench_die(b.psd.address, NULL);
    start = now_s();
    for (; n == 0 || now_s() - start < seconds; n++) {
        int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || connect(fd, at->ai_addr, at->ai_addrlen) < 0)
            bench_die(b.psd.address, NULL);
        close(fd);
    }
    figures[0] = (now_s() - start) / (double)n * 1e6;
    freeaddrinfo(at);
}

static void
connect_declare(const char *name)
{
    struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {16}};
    struct ps_error e;
    ps_var *var;

    spec.optimizer = (struct ps_optimizer){.kind = PS_SGD, .learning_rate = 1e-3};
    if (ps_client_declare(b.worker.client, &spec, &var, &e) != PS_OK)
        bench_die("declare", &e);
}

static void
sample_declare(void *arg, double seconds, double *figures)
{
    double start = now_s();
    uint64_t n = 0;

    (void)arg;
    for (; n == 0 || (now_s() - start < seconds && n < 20000); n++) {
        char name[32];

        snprintf(name, sizeof name, "one/%u", b.declared++);
        connect_declare(name);
    }
    figures[0] = (now_s() - start) / (double)n * 1e6;
}

static void
connect_times(const struct bench_options *s, struct bench_report *r)
{
    static struct interleave turns;
    struct bench_variant ways[] = {
        {.name = "client", .against = {"bare"}, .sample = sample_open, .arg = b.psd.address},
        {.name = "client-unix", .sample = sample_open, .arg = b.psd.unix_address},
        {.name = "bare", .sample = sample_bare},
    };
    struct bench_variant declaring = {.name = "psd", .sample = sample_declare};
    struct bench_table *t =
        report_table(r, &(struct table_spec){.title = "come and go", .unit = "us", .less = true}, ways, 3);

    interleave_run(s, ways, 3, 1, &turns);
    table_row(t, "open and close", 0, turns.series[0]);
    t = report_table(r, &(struct table_spec){.title = "declare a variable", .unit = "us", .less = true}, &declaring, 1);
    interleave_run(s, &declaring, 1, 1, &turns);
    table_row(t, "one at a time", 0, turns.series[0]);
}

/* The growth of the two processes, for each of n. */
static void
memory_row(struct bench_table *t, const char *label, uint32_t n, const double before[2])
{
    static struct series series[2];

    series[0].n = series[1].n = 0;
    series_add(&series[0], MAX(bench_resident(b.psd.pid) - before[0], 0) / n);
    series_add(&series[1], MAX(bench_resident(getpid()) - before[1], 0) / n);
    table_row(t, label, 0, series);
}

static void
connect_memory(const struct bench_options *s, struct bench_report *r)
{
    static const struct bench_variant ways[2] = {{.name = "psd"}, {.name = "its client"}};
    uint32_t connections = (uint32_t)bench_options_pick(s, 20, 1000, 1000),
             variables = (uint32_t)bench_options_pick(s, 200, 20000, 100000);
    struct bench_worker *observers = load_memory(connections * sizeof *observers);
    double before[2] = {bench_resident(b.psd.pid), bench_resident(getpid())}, start;
    struct var_set v;
    struct series series[1] = {{.n = 0}};
    struct bench_variant way = {.name = "psd"};
    struct bench_table *t = report_table(
        r, &(struct table_spec){.title = "memory of each", .unit = "B", .less = true, .once = true}, ways, 2);
    char label[64];

    for (uint32_t i = 0; i < connections; i++)
        worker_open(&observers[i], s, b.psd.address, &(struct ps_client_options){.observer = 1}, 1, 0);
    snprintf(label, sizeof label, "of %u connections", connections);
    memory_row(t, label, connections, before);
    for (uint32_t i = 0; i < connections; i++)
        worker_close(&observers[i]);
    free(observers);
    before[0] = bench_resident(b.psd.pid);
    before[1] = bench_resident(getpid());
    start = now_s();
    var_set_declare(&v, &b.worker, "many", 64, variables);
    series_add(&series[0], (now_s() - start) * 1e6 / variables);
    snprintf(label, sizeof label, "of %u variables of 64 B", variables);
    memory_row(t, label, variables, before);
    var_set_free(&v);
    t = report_table(
        r, &(struct table_spec){.title = "declare many at once, each", .unit = "us", .less = true, .once = true}, &way,
        1);
    table_row(t, label, 0, series);
}

void
area_connect(const struct bench_options *s, struct bench_report *r)
{
    b.settings = s;
    bench_server_start(&b.psd, s, NULL);
    worker_open(&b.worker, s, b.psd.address, &(struct ps_client_options){.job = "stay"}, 1, 0);
    connect_times(s, r);
    connect_memory(s, r);
    worker_close(&b.worker);
    bench_server_stop(&b.psd);
}
