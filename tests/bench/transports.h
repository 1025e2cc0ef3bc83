/* All programs under the same load: psd, the pump and Redis, each over TCP and over a Unix socket, and psd through
 * shared memory and over TLS, as ways that take turns.
 *
 *     struct transports links;
 *     transports_open(&links, s, report, model_bytes, 0);
 *     table = report_table(r, &spec, ways, transports_rates(&links, ways));
 *     transports_load(&links, "push", &load);
 *     transports_row(&links, table, "64 B", 64, load.batch * load.size * 1e-9);
 *     transports_close(&links); */
#ifndef TESTS_BENCH_TRANSPORTS_H
#define TESTS_BENCH_TRANSPORTS_H

#include <sched.h>

#include "tests/bench/pump.h"
#include "tests/bench/redis.h"
#include "tests/bench/report.h"
#include "tests/bench/server.h"
#include "tests/bench/variant.h"
#include "tests/bench/worker.h"
#include "tests/certs.h"

enum {
    TRANSPORT_TCP,
    TRANSPORT_UNIX,
    TRANSPORT_SOCKETS,
    TRANSPORT_SHM = TRANSPORT_SOCKETS,
    TRANSPORT_TLS,
    BENCH_TRANSPORTS
};

/* One of them over one transport. */
struct bench_transport {
    struct transports *all;
    int transport;
    struct bench_worker worker;
    struct var_set vars;
    struct pump pump;
    struct redis_link redis;
};

struct transports {
    const struct bench_options *settings;
    struct bench_server psd;
    struct bench_server tls; /* its own: TCP is encrypted or is not */
    struct certs certs;
    const char *tls_options[8];
    struct redis redis;
    bool has_redis;
    struct pump beside;     /* over TCP, where all transports are there */
    int transports;         /* the first ones */
    cpu_set_t cores;        /* the program's at first */
    struct bench_load load; /* the current load */
    struct bench_transport of[BENCH_TRANSPORTS];
};

enum links_flag {
    TRANSPORTS_SPIN = 1,     /* psd, its client and the pump poll without sleeping; Redis is not there */
    TRANSPORTS_TCP = 2,      /* no Unix sockets, no shared memory, no TLS */
    TRANSPORTS_NO_REDIS = 4, /* not asked for */
    TRANSPORTS_APART = 8     /* the program stays on one core and all servers on another, where there are two */
};

/* model_bytes: the most that the blocks of a load take. flags: of enum links_flag. */
void transports_open(struct transports *l, const struct bench_options *s, struct bench_report *r, size_t model_bytes,
                     unsigned flags);
void transports_close(struct transports *l);

/* From now on this load; its variables are called name/0, ... and are declared here. */
void transports_load(struct transports *l, const char *name, const struct bench_load *load);

/* ways: [WAYS_MAX]; those that the settings leave out, or that are not available, are there without a sample. Rates
 * give one figure: seconds for a message; trips two: the median and the 99th percentile of a message's seconds, one at
 * a time. Returns how many ways. */
size_t transports_rates(struct transports *l, struct bench_variant *ways);
size_t transports_trips(struct transports *l, struct bench_variant *ways);

/* Every push of psd's counted once: worker_check(). */
void transports_check(struct transports *l);

/* The load as a row of the table: ways take turns at it, results are checked, and seconds for a message become `amount`
 * (bytes, messages: what the table's unit counts) a second. */
void transports_row(struct transports *l, struct bench_table *t, const char *label, double x, double amount);

#endif
