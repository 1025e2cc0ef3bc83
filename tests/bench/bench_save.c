/* What saves cost those who train, and how long a restart takes.
 *
 *     bench_save [--psd PATH] [--size MIB (256)] [--disk DIR (/var/tmp)] [--rounds N (5)] [--rates MIB,... (64,256,0)]
 *                [--congestion NAME (reno)]
 *
 * One shard with `size` MiB of variables of sgd, one client with four operations in flight, over TCP on loopback. In
 * each round: pushes alone, then pushes while a save runs at each write rate (0: as fast as it can), then the same with
 * pulls; medians of the rounds, and the median of the ratios within rounds. Before each save all blocks have changed,
 * so that it writes all. Then restarts: the live directory kept after kill -9, and gone; beside a plain read of the
 * durable file. The page cache is asked to forget that file before both. Nothing is asserted: it reports. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/psclient.h"
#include "common/base.h"
#include "pump.h"
#include "server.h"
#include "tests/now.h"

#define ROUNDS_MAX 51
#define RATES_MAX  8
#define VAR_BYTES  (4 * MIB)
#define VARS_MAX   4096
#define WINDOW     4
#define ALONE_S    1.0

static struct {
    const char *psd, *disk, *congestion;
    uint64_t size;
    int rounds;
    uint64_t rates[RATES_MAX];
    int rates_len;
} options = {.disk = "/var/tmp",
             .congestion = "reno",
             .size = 256 * MIB,
             .rounds = 5,
             .rates = {64 * MIB, 256 * MIB, 0},
             .rates_len = 3};

static struct bench_server server;
static char live[96], durable[512], config[96];
static ps_client *client;
static ps_var *vars[VARS_MAX];
static size_t vars_len;
static float *gradient, *values[WINDOW];

/* ---- The shard ---- */

static void
set_rate(uint64_t rate)
{
    FILE *f = fopen(config, "w");

    if (f == NULL)
        bench_die(config, NULL);
    fprintf(f, "save-rate = %llu\n", (unsigned long long)rate);
    fclose(f);
    if (server.pid != 0)
        kill(server.pid, SIGHUP);
}

static double
launch(void)
{
    const char *argv[] = {options.psd,
                          "--cluster",
                          "bench",
                          "--listen",
                          "127.0.0.1:0",
                          "--live-dir",
                          live,
                          "--durable-dir",
                          durable,
                          "--save-interval",
                          "0",
                          "--save-on-stop",
                          "0",
                          "--tcp-congestion",
                          options.congestion,
                          "--log-level",
                          "warning",
                          "--config",
                          config,
                          NULL};
    double start = now_s();

    bench_server_start(&server, argv, false);
    return now_s() - start;
}

static ps_client *
connect_as(bool observer)
{
    struct ps_client_options o = {.job = "bench", .congestion = options.congestion, .observer = observer};
    ps_cluster *cluster;
    ps_client *c;
    struct ps_error e;

    if (ps_cluster_from_list(server.address, 1, 0, &cluster, &e) != PS_OK ||
        ps_cluster_set_name(cluster, "bench", &e) != PS_OK || ps_client_open(cluster, &o, &c, &e) != PS_OK)
        bench_die("open", &e);
    ps_cluster_free(cluster);
    return c;
}

static void
declare(void)
{
    struct ps_error e;

    vars_len = MIN((size_t)(options.size / VAR_BYTES), (size_t)VARS_MAX);
    for (size_t i = 0; i < vars_len; i++) {
        char name[32];
        struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {VAR_BYTES / sizeof(float)}};

        snprintf(name, sizeof name, "w%zu", i);
        spec.optimizer = (struct ps_optimizer){.kind = PS_SGD, .learning_rate = 1e-6};
        if (ps_client_declare(client, &spec, &vars[i], &e) != PS_OK)
            bench_die("declare", &e);
    }
}

/* ---- Load ---- */

static ps_op *
begin(bool push, uint64_t i)
{
    struct ps_error e;
    ps_op *op;
    enum ps_err err;

    if (push)
        err = ps_client_push_start(client, 1, &vars[i % vars_len], (const float *const[]){gradient}, NULL, &op, &e);
    else
        err = ps_client_pull_start(client, 1, &vars[i % vars_len], &values[i % WINDOW], NULL, &op, &e);
    if (err != PS_OK)
        bench_die(push ? "push" : "pull", &e);
    return op;
}

/* Until so many operations are done, or `over` says so, or the time is up. Bytes per second. */
static double
load(bool push, uint64_t most, double seconds, const atomic_bool *over)
{
    ps_op *ops[WINDOW];
    struct ps_error e;
    uint64_t begun = 0, ended = 0;
    double start = now_s();
    bool go_on = true;

    while (go_on || ended < begun) {
        for (; go_on && begun - ended < WINDOW; begun++)
            ops[begun % WINDOW] = begin(push, begun);
        if (ps_op_wait(ops[ended % WINDOW], 60000, &e) != PS_OK)
            bench_die("wait", &e);
        ps_op_free(ops[ended++ % WINDOW]);
        go_on = begun < most && now_s() - start < seconds && (over == NULL || !atomic_load(over));
    }
    return (double)(ended * VAR_BYTES) / (now_s() - start);
}

static atomic_bool save_over;
static struct ps_save_report saved;

static void *
save(void *observer)
{
    struct ps_error e;

    if (ps_client_save(observer, 0, 600000, &saved, &e) != PS_OK)
        bench_die("save", &e);
    atomic_store(&save_over, true);
    return NULL;
}

static double
load_during_save(bool push, uint64_t rate, ps_client *observer, double *mib_per_s)
{
    pthread_t thread;
    double got;

    load(true, vars_len, 1e9, NULL); /* all has changed */
    set_rate(rate);
    atomic_store(&save_over, false);
    if (pthread_create(&thread, NULL, save, observer) != 0)
        bench_die("thread", NULL);
    got = load(push, UINT64_MAX, 1e9, &save_over);
    pthread_join(thread, NULL);
    *mib_per_s = (double)saved.bytes / (double)MIB / ((double)MAX(saved.ms, 1u) / 1e3);
    return got;
}

/* ---- Figures ---- */

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
median(const double *values_in_order_of_rounds, int n)
{
    double sorted[ROUNDS_MAX];

    memcpy(sorted, values_in_order_of_rounds, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    return sorted[n / 2];
}

static void
measure(bool push, ps_client *observer)
{
    static double alone[ROUNDS_MAX], during[RATES_MAX][ROUNDS_MAX], ratio[RATES_MAX][ROUNDS_MAX],
        written[RATES_MAX][ROUNDS_MAX];
    const char *what = push ? "pushes" : "pulls";

    for (int r = 0; r < options.rounds; r++) {
        alone[r] = load(push, UINT64_MAX, ALONE_S, NULL);
        for (int i = 0; i < options.rates_len; i++) {
            during[i][r] = load_during_save(push, options.rates[i], observer, &written[i][r]);
            ratio[i][r] = during[i][r] / alone[r];
        }
    }
    printf("%-6s without a save             %7.3f GB/s\n", what, median(alone, options.rounds) * 1e-9);
    for (int i = 0; i < options.rates_len; i++)
        printf("%-6s while a save at rate %4llu MiB/s (0: no limit) wrote %6.0f MiB/s  %7.3f GB/s  ratio %.2f\n", what,
               (unsigned long long)(options.rates[i] / MIB), median(written[i], options.rounds),
               median(during[i], options.rounds) * 1e-9, median(ratio[i], options.rounds));
    fflush(stdout);
}

/* ---- Restarts ---- */

static int
open_forgotten(void)
{
    char path[600];
    int fd;

    snprintf(path, sizeof path, "%s/data.mdb", durable);
    fd = open(path, O_RDONLY);
    if (fd < 0)
        bench_die(path, NULL);
    (void)fsync(fd);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return fd;
}

static double
plain_read(void)
{
    static char buffer[1 << 20];
    int fd = open_forgotten();
    double start = now_s();
    ssize_t n;

    while ((n = read(fd, buffer, sizeof buffer)) > 0)
        ;
    close(fd);
    return now_s() - start;
}

static void
restarts(void)
{
    double kept[ROUNDS_MAX], rebuilt[ROUNDS_MAX], plain[ROUNDS_MAX], ratio[ROUNDS_MAX];
    struct stat st;
    char path[600];

    for (int r = 0; r < options.rounds; r++) {
        bench_server_end(&server, SIGKILL);
        kept[r] = launch();
        bench_server_end(&server, SIGKILL);
        plain[r] = plain_read();
        bench_remove_dir(live);
        close(open_forgotten());
        rebuilt[r] = launch();
        ratio[r] = rebuilt[r] / plain[r];
    }
    snprintf(path, sizeof path, "%s/data.mdb", durable);
    if (stat(path, &st) < 0)
        bench_die(path, NULL);
    printf("restart, memory kept            %8.3f s\n", median(kept, options.rounds));
    printf("restart, rebuilt from disk      %8.3f s   plain read of the file (%lld MiB) %.3f s   ratio %.2f\n",
           median(rebuilt, options.rounds), (long long)st.st_blocks / 2048, median(plain, options.rounds),
           median(ratio, options.rounds));
}

/* ---- Options ---- */

static void
take_rates(char *list)
{
    options.rates_len = 0;
    for (char *rest = NULL, *word = strtok_r(list, ",", &rest); word != NULL && options.rates_len < RATES_MAX;
         word = strtok_r(NULL, ",", &rest))
        options.rates[options.rates_len++] = strtoull(word, NULL, 10) * MIB;
}

static void
parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"psd", required_argument, NULL, 'p'},   {"size", required_argument, NULL, 's'},
        {"disk", required_argument, NULL, 'd'},  {"rounds", required_argument, NULL, 'r'},
        {"rates", required_argument, NULL, 'm'}, {"congestion", required_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
    };
    int c;

    options.psd = getenv("PSD_BIN");
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
        switch (c) {
        case 'p':
            options.psd = optarg;
            break;
        case 's':
            options.size = MAX(strtoull(optarg, NULL, 10), 4ull) * MIB;
            break;
        case 'd':
            options.disk = optarg;
            break;
        case 'r':
            options.rounds = MIN(MAX(atoi(optarg), 1), ROUNDS_MAX);
            break;
        case 'm':
            take_rates(optarg);
            break;
        case 'c':
            options.congestion = optarg;
            break;
        default:
            fprintf(stderr,
                    "usage: bench_save [--psd PATH] [--size MIB (256)] [--disk DIR (/var/tmp)] [--rounds N (5)] "
                    "[--rates MIB,... (64,256,0)] [--congestion NAME (reno)]\n");
            exit(c == 'h' ? 0 : 2);
        }
    if (options.psd == NULL) {
        fprintf(stderr, "bench_save: say where psd is: --psd PATH or PSD_BIN\n");
        exit(2);
    }
}

static float *
floats(void)
{
    float *p = aligned_alloc(64, VAR_BYTES);

    if (p == NULL)
        bench_die("memory", NULL);
    for (size_t i = 0; i < VAR_BYTES / sizeof *p; i++)
        p[i] = (float)(i % 1000) * 1e-3f - 0.5f;
    return p;
}

int
main(int argc, char **argv)
{
    ps_client *observer;

    parse(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    snprintf(live, sizeof live, "/dev/shm/psd-bench-save-%d", (int)getpid());
    snprintf(config, sizeof config, "/dev/shm/psd-bench-save-%d.conf", (int)getpid());
    snprintf(durable, sizeof durable, "%.400s/psd-bench-save-%d", options.disk, (int)getpid());
    gradient = floats();
    for (int i = 0; i < WINDOW; i++)
        values[i] = floats();
    set_rate(0);
    launch();
    client = connect_as(false);
    observer = connect_as(true);
    declare();
    printf("TCP loopback, congestion control %s, %llu MiB of data, durable directory in %s, %d rounds, medians\n",
           options.congestion, (unsigned long long)(options.size / MIB), options.disk, options.rounds);
    measure(true, observer);
    measure(false, observer);
    ps_client_close(observer);
    ps_client_close(client);
    restarts();
    bench_server_end(&server, SIGTERM);
    bench_remove_dir(live);
    bench_remove_dir(durable);
    unlink(config);
    return 0;
}
