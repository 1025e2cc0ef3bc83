/* What hostile peers cost the others: pulls per second of one worker, of a small block and of the largest, alone and
 * beside each kind of hostile peer, and their ratio; rounds alternate, so that what else the machine does falls on
 * both.
 *
 * Whether psd divides its time well is another question than how much of it there is. So two shares stand beside the
 * ratio: what of psd's processor time went to the worker (its pulls, at what one costs alone), and what would be fair:
 * its part among all connections, had all of them as much to say as they can. A share below that is psd's fault; a low
 * ratio with a fair share is the price of so many connections, and of the processor that the peers themselves take.
 *
 *     bench_hostile [--rounds N] [--seconds S] [--json FILE]       PSD_BIN names psd */
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/psclient.h"
#include "common/base.h"
#include "tests/now.h"
#include "tests/system/hostile.h"
#include "tests/system/lone_psd.h"

enum { SIZES = 2, ROUNDS_MAX = 99 };

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
static clockid_t psd_time; /* its processor time */

/* *cost: psd's processor time for one pull, in seconds. */
static double
pulls_a_second(int size, double *cost)
{
    double begin = now_s(), busy = clock_s(psd_time), end = begin + options.seconds;
    struct ps_error e;
    uint64_t n = 0;

    for (; now_s() < end || n == 0; n++)
        if (ps_client_pull(client, 1, &vars[size], &values, NULL, &e) != PS_OK)
            lone_die("pull: %s", e.text);
    *cost = (clock_s(psd_time) - busy) / (double)n;
    return (double)n / (now_s() - begin);
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
    double alone[ROUNDS_MAX], beside[ROUNDS_MAX], cost_alone[ROUNDS_MAX], cost_beside[ROUNDS_MAX], ratio, share, fair;

    for (int i = 0; i < options.rounds; i++) {
        pid_t pid;

        alone[i] = pulls_a_second(size, &cost_alone[i]);
        if ((pid = hostile_start(kind, address, LONE_CLUSTER)) < 0)
            lone_die("fork");
        beside[i] = pulls_a_second(size, &cost_beside[i]);
        hostile_stop(pid);
    }
    ratio = median(beside, options.rounds) / median(alone, options.rounds);
    share = MIN(median(cost_alone, options.rounds) / median(cost_beside, options.rounds), 1);
    fair = 1.0 / (1 + hostile_connections[kind]);
    printf("%-18s %-6s %10.0f %10.0f %8.2f %8.2f %8.3f\n", hostile_names[kind], sizes[size].name,
           median(alone, options.rounds), median(beside, options.rounds), ratio, share, fair);
    json_array_append_new(results,
                          json_pack("{s:s, s:s, s:f, s:f, s:f, s:f, s:f}", "peer", hostile_names[kind], "block",
                                    sizes[size].name, "alone", median(alone, options.rounds), "beside",
                                    median(beside, options.rounds), "ratio", ratio, "share", share, "fair", fair));
}

static void
open_client(const char *address)
{
    struct ps_error e;
    ps_cluster *cluster;

    if (ps_cluster_from_list(address, 1, 0, &cluster, &e) != PS_OK ||
        ps_cluster_set_name(cluster, LONE_CLUSTER, &e) != PS_OK || ps_client_open(cluster, NULL, &client, &e) != PS_OK)
        lone_die("open: %s", e.text);
    ps_cluster_free(cluster);
    for (int i = 0; i < SIZES; i++) {
        struct ps_var_spec spec = {
            .name = sizes[i].name, .rank = 1, .dims = {sizes[i].elements}, .optimizer = {.learning_rate = 1}};

        if (ps_client_declare(client, &spec, &vars[i], &e) != PS_OK)
            lone_die("declare: %s", e.text);
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
    struct lone_psd psd;

    parse(argc, argv);
    lone_psd_start(&psd, (const char *const[]){"--memory", "64MiB", NULL});
    if ((values = calloc(sizes[0].elements, sizeof *values)) == NULL)
        lone_die("memory");
    open_client(psd.address);
    if (clock_getcpuclockid(psd.pid, &psd_time) != 0)
        lone_die("psd's processor time is not to be had");
    printf("%-18s %-6s %10s %10s %8s %8s %8s   pulls a second, medians of %d rounds of %.2f s\n", "peer", "block",
           "alone", "beside", "ratio", "share", "fair", options.rounds, options.seconds);
    for (int kind = 0; kind < HOSTILE_KINDS; kind++)
        for (int size = 0; size < SIZES; size++)
            measure(psd.address, (enum hostile_kind)kind, size, results);
    ps_client_close(client);
    free(values);
    lone_psd_stop(&psd);
    if (options.json != NULL && json_dump_file(results, options.json, JSON_INDENT(2)) < 0)
        lone_die("cannot write %s", options.json);
    json_decref(results);
    return 0;
}
