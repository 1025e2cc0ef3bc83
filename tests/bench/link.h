/* All who work the same load off: psd, the pump and Redis, each over TCP and over a Unix socket, and psd through shared
 * memory and over TLS, as ways that take turns.
 *
 *     struct links links;
 *     links_open(&links, s, report, model_bytes, 0);
 *     table = report_table(r, &spec, ways, links_rates(&links, ways));
 *     links_load(&links, "push", &load);
 *     links_row(&links, table, "64 B", 64, load.batch * load.size * 1e-9);
 *     links_close(&links); */
#ifndef TESTS_BENCH_LINK_H
#define TESTS_BENCH_LINK_H

#include <sched.h>

#include "tests/bench/pump.h"
#include "tests/bench/redis.h"
#include "tests/bench/report.h"
#include "tests/bench/server.h"
#include "tests/bench/way.h"
#include "tests/bench/worker.h"
#include "tests/certs.h"

enum { LINK_TCP, LINK_UNIX, LINK_SOCKETS, LINK_SHM = LINK_SOCKETS, LINK_TLS, LINK_TRANSPORTS };

/* One of them over one transport. */
struct link {
    struct links *all;
    int transport;
    struct worker worker;
    struct var_set vars;
    struct pump pump;
    struct redis_link redis;
};

struct links {
    const struct settings *settings;
    struct bench_server psd;
    struct bench_server tls; /* its own: TCP is encrypted or is not */
    struct certs certs;
    const char *tls_options[8];
    struct redis redis;
    bool has_redis;
    struct pump beside; /* over TCP, where all transports are there */
    int transports;     /* the first ones */
    cpu_set_t cores;    /* where we were */
    struct load load;   /* that is worked off */
    struct link of[LINK_TRANSPORTS];
};

enum links_flag {
    LINKS_SPIN = 1,     /* psd, its client and the pump poll without sleeping; Redis is not there */
    LINKS_TCP = 2,      /* no Unix sockets, no shared memory, no TLS */
    LINKS_NO_REDIS = 4, /* it is not what is asked */
    LINKS_APART = 8     /* we stay on one core and all servers on another, where there are two */
};

/* model_bytes: the most that the blocks of a load take. flags: of enum links_flag. */
void links_open(struct links *l, const struct settings *s, struct report *r, size_t model_bytes, unsigned flags);
void links_close(struct links *l);

/* From now on this load; its variables are called name/0, ... and are declared here. */
void links_load(struct links *l, const char *name, const struct load *load);

/* ways: [WAYS_MAX]; those whose name settings do not want, or who cannot be had, are there without a sample. Rates give
 * one figure: seconds for a message; trips two: the median and the 99th percentile of a message's seconds, one at a
 * time. Returns how many ways. */
size_t links_rates(struct links *l, struct way *ways);
size_t links_trips(struct links *l, struct way *ways);

/* Every push of psd's counted once: worker_check(). */
void links_check(struct links *l);

/* The load as a row of the table: ways take turns at it, results are checked, and seconds for a message become `amount`
 * (bytes, messages: what the table's unit counts) a second. */
void links_row(struct links *l, struct table *t, const char *label, double x, double amount);

#endif
