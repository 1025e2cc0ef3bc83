/* What hostile peers cost the others: pulls per second of one worker, of a small block and of the largest, alone and
 * beside each kind of hostile peer. The figure is the ratio; rounds alternate, so that what else the machine does falls
 * on both.
 *
 *     bench_hostile [--rounds N] [--seconds S] [--json FILE]       PSD_BIN names psd */
#include <ftw.h>
#include <getopt.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/psclient.h"
#include "common/base.h"
#include "tests/system/hostile.h"
#include "tests/unit/memory_dir.h"

#define CLUSTER "bench"

enum { SIZES = 2, ROUNDS_MAX = 99, READY_FD = 3 };

static const struct {
    const char *name;
    uint64_t elements;
} sizes[SIZES] = {{"1 MiB", 262144}, {"4 KiB", 1000}};

static struct {
    int rounds;
    double seconds;
    const char *json;
} options = {.rounds = 3, .seconds = 0.5};

static ps_client *client;
static ps_var *vars[SIZES];
static float *values;

static _Noreturn void
die(const char *what, const struct ps_error *e)
{
    fprintf(stderr, "bench_hostile: %s: %s\n", what, e != NULL ? e->text : "failed");
    exit(1);
}

static double
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double
pulls_a_second(int size)
{
    double begin = now(), end = begin + options.seconds;
    struct ps_error e;
    uint64_t n = 0;

    for (; now() < end; n++)
        if (ps_client_pull(client, 1, &vars[size], &values, NULL, &e) != PS_OK)
            die("pull", &e);
    return (double)n / (now() - begin);
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
median(double *x, int n)
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    return x[n / 2];
}

static void
measure(const char *address, enum hostile_kind kind, int size, json_t *results)
{
    double alone[ROUNDS_MAX], beside[ROUNDS_MAX], ratio;

    for (int i = 0; i < options.rounds; i++) {
        pid_t pid;

        alone[i] = pulls_a_second(size);
        if ((pid = hostile_start(kind, address, CLUSTER)) < 0)
            die("fork", NULL);
        beside[i] = pulls_a_second(size);
        hostile_stop(pid);
    }
    ratio = median(beside, options.rounds) / median(alone, options.rounds);
    printf("%-18s %-6s %10.0f %10.0f %8.2f\n", hostile_names[kind], sizes[size].name, median(alone, options.rounds),
           median(beside, options.rounds), ratio);
    json_array_append_new(results, json_pack("{s:s, s:s, s:f, s:f, s:f}", "peer", hostile_names[kind], "block",
                                             sizes[size].name, "alone", median(alone, options.rounds), "beside",
                                             median(beside, options.rounds), "ratio", ratio));
}

/* ---- psd ---- */

static struct {
    pid_t pid;
    char dir[64], address[64];
} psd;

static void
psd_start(void)
{
    const char *path = getenv("PSD_BIN");
    int ready[2];
    ssize_t n;

    if (path == NULL)
        die("PSD_BIN is not set", NULL);
    snprintf(psd.dir, sizeof psd.dir, "%s/psd-bench-XXXXXX", memory_dir());
    if (mkdtemp(psd.dir) == NULL || pipe(ready) < 0 || (psd.pid = fork()) < 0)
        die(psd.dir, NULL);
    if (psd.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ready[0]);
        if (ready[1] != READY_FD)
            dup2(ready[1], READY_FD);
        execl(path, "psd", "--listen", "127.0.0.1:0", "--cluster", CLUSTER, "--live-dir", psd.dir, "--memory", "64MiB",
              "--log-level", "error", "--ready-fd", "3", (char *)NULL);
        _exit(127);
    }
    close(ready[1]);
    if ((n = read(ready[0], psd.address, sizeof psd.address - 1)) <= 0)
        die("psd does not start", NULL);
    psd.address[strcspn(psd.address, "\n")] = '\0';
    close(ready[0]);
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void
psd_stop(void)
{
    kill(psd.pid, SIGTERM);
    waitpid(psd.pid, NULL, 0);
    nftw(psd.dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void
open_client(const char *address)
{
    struct ps_error e;
    ps_cluster *cluster;

    if (ps_cluster_from_list(address, 1, 0, &cluster, &e) != PS_OK ||
        ps_cluster_set_name(cluster, CLUSTER, &e) != PS_OK || ps_client_open(cluster, NULL, &client, &e) != PS_OK)
        die("open", &e);
    ps_cluster_free(cluster);
    for (int i = 0; i < SIZES; i++) {
        struct ps_var_spec spec = {
            .name = sizes[i].name, .rank = 1, .dims = {sizes[i].elements}, .optimizer = {.learning_rate = 1}};

        if (ps_client_declare(client, &spec, &vars[i], &e) != PS_OK)
            die("declare", &e);
    }
}

static void
parse(int argc, char **argv)
{
    static const struct option known[] = {{"rounds", required_argument, NULL, 'r'},
                                          {"seconds", required_argument, NULL, 's'},
                                          {"json", required_argument, NULL, 'j'},
                                          {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
        switch (c) {
        case 'r':
            options.rounds = MIN(MAX(atoi(optarg), 1), ROUNDS_MAX);
            break;
        case 's':
            options.seconds = atof(optarg);
            break;
        case 'j':
            options.json = optarg;
            break;
        default:
            fprintf(stderr, "usage: bench_hostile [--rounds N (3)] [--seconds S (0.5)] [--json FILE]\n");
            exit(2);
        }
}

int
main(int argc, char **argv)
{
    json_t *results = json_array();

    parse(argc, argv);
    psd_start();
    if ((values = calloc(sizes[0].elements, sizeof *values)) == NULL)
        die("memory", NULL);
    open_client(psd.address);
    printf("%-18s %-6s %10s %10s %8s   pulls a second, medians of %d rounds of %.2f s\n", "peer", "block", "alone",
           "beside", "ratio", options.rounds, options.seconds);
    for (int kind = 0; kind < HOSTILE_KINDS; kind++)
        for (int size = 0; size < SIZES; size++)
            measure(psd.address, (enum hostile_kind)kind, size, results);
    ps_client_close(client);
    free(values);
    psd_stop();
    if (options.json != NULL && json_dump_file(results, options.json, JSON_INDENT(2)) < 0)
        die(options.json, NULL);
    json_decref(results);
    return 0;
}
