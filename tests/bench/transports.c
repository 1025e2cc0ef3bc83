#include "tests/bench/transports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/base.h"
#include "tests/bench/cipher.h"
#include "tests/bench/interleave.h"

#define TRIPS_MAX 100000

static const char *const psd_names[BENCH_TRANSPORTS] = {"psd", "psd-unix", "psd-shm", "psd-tls"};
static const char *const pump_names[TRANSPORT_SOCKETS] = {"pump", "pump-unix"};
static const char beside_name[] = "pump-beside"; /* over TCP, and not in place, as psd must */
static const char cipher_name[] = "cipher";      /* as much, sealed and opened, and nothing else */
static const char *const redis_names[TRANSPORT_SOCKETS] = {"redis", "redis-unix"};

/* Each transport has a job of its own: a job's variables know how often they were pushed. */
static const char *const jobs[BENCH_TRANSPORTS] = {"tcp", "unix", "shm", "tls"};

static void
link_open(struct bench_transport *k, size_t model_bytes, bool spin)
{
    const struct bench_options *s = k->all->settings;
    bool is_unix = k->transport == TRANSPORT_UNIX;
    struct ps_client_options o = {.job = jobs[k->transport], .spin_us = spin ? 1000000 : 0};

    if (k->transport == TRANSPORT_SHM) {
        unsetenv("PSD_TRANSPORT"); /* bench.c */
        worker_open(&k->worker, s, k->all->psd.address, &o, 1, 0);
        setenv("PSD_TRANSPORT", "tcp", 1);
        return;
    }
    if (k->transport == TRANSPORT_TLS) {
        o.tls_ca = certs_path(&k->all->certs, "ca.pem");
        worker_open(&k->worker, s, k->all->tls.address, &o, 1, 0);
        return;
    }
    pump_start(&k->pump, &(struct pump_options){.congestion = s->congestion,
                                                .is_unix = is_unix,
                                                .spin = spin,
                                                .bytes_max = LOAD_BYTES_MAX,
                                                .model_bytes = model_bytes});
    worker_open(&k->worker, s, is_unix ? k->all->psd.unix_address : k->all->psd.address, &o, 1, 0);
    if (k->all->has_redis)
        redis_open(&k->redis, &k->all->redis, s, is_unix);
}

/* Waking a process that sleeps on another core is most of a round trip: left to the kernel, both ends may share one for
 * a while. */
static void
transports_stay(pid_t pid, int nth, const cpu_set_t *cores)
{
    cpu_set_t one;

    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, cores) && nth-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            if (sched_setaffinity(pid, sizeof one, &one) < 0)
                bench_die("affinity", NULL);
        }
}

static void
stay_apart(const struct transports *l)
{
    if (CPU_COUNT(&l->cores) < 2)
        return;
    transports_stay(0, 0, &l->cores);
    transports_stay(l->psd.pid, 1, &l->cores);
    if (l->tls.pid != 0)
        transports_stay(l->tls.pid, 1, &l->cores);
    for (int i = 0; i < MIN(l->transports, TRANSPORT_SOCKETS); i++)
        transports_stay(l->of[i].pump.server, 1, &l->cores);
    if (l->transports > TRANSPORT_SOCKETS)
        transports_stay(l->beside.server, 1, &l->cores);
    if (l->has_redis)
        transports_stay(l->redis.pid, 1, &l->cores);
}

/* A certificate for as long as this takes. */
static void
tls_start(struct transports *l, bool spin)
{
    const char **o = l->tls_options;

    certs_open(&l->certs);
    certs_make(&l->certs, &(struct cert_spec){.file = "ca"});
    certs_make(&l->certs, &(struct cert_spec){.file = "psd", .issuer = "ca", .names = "IP:127.0.0.1"});
    *o++ = "--tls-cert";
    *o++ = certs_path(&l->certs, "psd.pem");
    *o++ = "--tls-key";
    *o++ = certs_path(&l->certs, "psd.key");
    if (spin) {
        *o++ = "--spin-us";
        *o++ = "1000000";
    }
    *o = NULL;
    bench_server_start(&l->tls, l->settings, l->tls_options);
}

void
transports_open(struct transports *l, const struct bench_options *s, struct bench_report *r, size_t model_bytes,
                unsigned flags)
{
    static const char *const spinning[] = {"--spin-us", "1000000", NULL};

    bool spin = (flags & TRANSPORTS_SPIN) != 0;

    *l = (struct transports){.settings = s, .transports = (flags & TRANSPORTS_TCP) != 0 ? 1 : BENCH_TRANSPORTS};
    bench_server_start(&l->psd, s, spin ? spinning : NULL);
    if (l->transports > TRANSPORT_TLS)
        tls_start(l, spin);
    if (!spin && (flags & TRANSPORTS_NO_REDIS) == 0 &&
        (bench_options_want(s, "redis") || bench_options_want(s, "redis-unix")))
        l->has_redis = redis_start(&l->redis, s, r);
    for (int i = 0; i < l->transports; i++) {
        l->of[i].all = l;
        l->of[i].transport = i;
        link_open(&l->of[i], model_bytes, spin);
    }
    if (l->transports > TRANSPORT_SOCKETS)
        pump_start(&l->beside, &(struct pump_options){.congestion = s->congestion,
                                                      .spin = spin,
                                                      .beside = true,
                                                      .bytes_max = LOAD_BYTES_MAX,
                                                      .model_bytes = model_bytes});
    if (sched_getaffinity(0, sizeof l->cores, &l->cores) < 0)
        bench_die("affinity", NULL);
    if ((flags & TRANSPORTS_APART) != 0)
        stay_apart(l);
}

void
transports_close(struct transports *l)
{
    (void)sched_setaffinity(0, sizeof l->cores, &l->cores);
    for (int i = 0; i < l->transports; i++) {
        struct bench_transport *k = &l->of[i];

        var_set_free(&k->vars);
        worker_close(&k->worker);
        if (i < TRANSPORT_SOCKETS)
            pump_stop(&k->pump);
        if (i < TRANSPORT_SOCKETS && l->has_redis)
            redis_close(&k->redis);
    }
    if (l->transports > TRANSPORT_SOCKETS)
        pump_stop(&l->beside);
    if (l->has_redis)
        redis_stop(&l->redis);
    bench_server_stop(&l->psd);
    if (l->transports > TRANSPORT_TLS) {
        bench_server_stop(&l->tls);
        certs_close(&l->certs);
    }
}

void
transports_load(struct transports *l, const char *name, const struct bench_load *load)
{
    l->load = *load;
    for (int i = 0; i < l->transports; i++) {
        var_set_free(&l->of[i].vars);
        var_set_declare(&l->of[i].vars, &l->of[i].worker, name, load->size, load->blocks);
    }
    if (l->has_redis)
        redis_fill(&l->of[0].redis, load); /* both transports see the same keys */
}

void
transports_check(struct transports *l)
{
    for (int i = 0; i < l->transports; i++)
        worker_check(&l->of[i].worker, &l->of[i].vars, &l->load);
}

/* ---- Samples ---- */

static void
psd_rate(void *arg, double seconds, double *figures)
{
    struct bench_transport *k = arg;

    figures[0] = worker_run(&k->worker, &k->vars, &k->all->load, NULL, seconds);
}

static void
pump_rate(void *arg, double seconds, double *figures)
{
    struct bench_transport *k = arg;

    figures[0] = pump_run(&k->pump, &k->all->load, seconds);
}

static void
beside_rate(void *arg, double seconds, double *figures)
{
    struct transports *l = arg;

    figures[0] = pump_run(&l->beside, &l->load, seconds);
}

static void
redis_rate(void *arg, double seconds, double *figures)
{
    struct bench_transport *k = arg;

    figures[0] = redis_run(&k->redis, &k->all->load, seconds);
}

/* A push-and-pull is two streams; each end seals one and opens the other. */
static void
cipher_rate(void *arg, double seconds, double *figures)
{
    const struct bench_load *load = &((struct transports *)arg)->load;

    figures[0] = cipher_run(load->size * load->batch, seconds) * (load->kind == LOAD_PUSH_PULL ? 2 : 1);
}

static double times[TRIPS_MAX];

static void
two_quantiles(size_t n, double *figures)
{
    figures[0] = quantile(times, n, 0.5);
    figures[1] = quantile(times, n, 0.99);
}

static void
psd_trips(void *arg, double seconds, double *figures)
{
    struct bench_transport *k = arg;

    two_quantiles(worker_round_trips(&k->worker, &k->vars, &k->all->load, seconds, times, TRIPS_MAX), figures);
}

static void
pump_trips(void *arg, double seconds, double *figures)
{
    struct bench_transport *k = arg;

    two_quantiles(pump_round_trips(&k->pump, &k->all->load, seconds, times, TRIPS_MAX), figures);
}

static void
beside_trips(void *arg, double seconds, double *figures)
{
    struct transports *l = arg;

    two_quantiles(pump_round_trips(&l->beside, &l->load, seconds, times, TRIPS_MAX), figures);
}

static void
redis_trips(void *arg, double seconds, double *figures)
{
    struct bench_transport *k = arg;

    two_quantiles(redis_round_trips(&k->redis, &k->all->load, seconds, times, TRIPS_MAX), figures);
}

/* psd against the bare socket and Redis over the same transport, Unix sockets, shared memory and TLS against TCP, TLS
 * against its cipher alone. */
static size_t
transports_make(struct transports *l, struct bench_variant *ways, void (*psd)(void *, double, double *),
                void (*pump)(void *, double, double *), void (*beside)(void *, double, double *),
                void (*redis)(void *, double, double *))
{
    int sockets = MIN(l->transports, TRANSPORT_SOCKETS);
    size_t n = 0;

    for (int i = 0; i < l->transports; i++) {
        int socket = i < TRANSPORT_SOCKETS ? i : TRANSPORT_TCP;

        ways[n++] = (struct bench_variant){psd_names[i],
                                           {pump_names[socket], i == TRANSPORT_TLS ? cipher_name : redis_names[socket],
                                            i > 0 ? psd_names[0] : beside_name},
                                           0,
                                           psd,
                                           &l->of[i],
                                           i == TRANSPORT_TLS ? l->tls.pid : l->psd.pid};
    }
    for (int i = 0; i < sockets; i++)
        ways[n++] = (struct bench_variant){pump_names[i],       {i > 0 ? pump_names[0] : NULL}, 0, pump, &l->of[i],
                                           l->of[i].pump.server};
    for (int i = 0; l->has_redis && i < sockets; i++)
        ways[n++] = (struct bench_variant){redis_names[i], {NULL}, 0, redis, &l->of[i], l->redis.pid};
    if (l->transports > TRANSPORT_SOCKETS)
        ways[n++] = (struct bench_variant){beside_name, {pump_names[0]}, 0, beside, l, l->beside.server};
    return n;
}

size_t
transports_rates(struct transports *l, struct bench_variant *ways)
{
    size_t n = transports_make(l, ways, psd_rate, pump_rate, beside_rate, redis_rate);

    if (l->transports > TRANSPORT_TLS)
        ways[n++] = (struct bench_variant){cipher_name, {NULL}, 0, cipher_rate, l, 0};
    return n;
}

size_t
transports_trips(struct transports *l, struct bench_variant *ways)
{
    return transports_make(l, ways, psd_trips, pump_trips, beside_trips, redis_trips);
}

/* ---- Rows ---- */

void
transports_row(struct transports *l, struct bench_table *t, const char *label, double x, double amount)
{
    static struct interleave turns;
    struct bench_variant ways[WAYS_MAX];
    size_t n = transports_rates(l, ways);

    interleave_run(l->settings, ways, n, 1, &turns);
    for (size_t w = 0; w < n; w++)
        for (int i = 0; i < turns.series[0][w].n; i++)
            turns.series[0][w].value[i] = amount / turns.series[0][w].value[i];
    transports_check(l);
    table_row(t, label, x, turns.series[0]);
}
