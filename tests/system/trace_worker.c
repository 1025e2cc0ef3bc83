/* A worker for test_trace.py: six steps of one variable, which are as slow as the test wants them.
 *
 *     trace_worker async|ssp|sync
 *
 * In ssp (bound 0) and sync worker 0 is slow: it goes on with a step only when the shards report that all the others
 * have been waiting for it for HELD_MS. So the time that each worker waits does not depend on the speed of this
 * machine. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/include/psclient/psclient.h"

enum { STEPS = 6, HELD_MS = 40 };

static struct ps_error error;

static void
trace_worker_need(enum ps_err err)
{
    char text[PS_ERROR_LINE_MAX];

    if (err == PS_OK)
        return;
    ps_error_format(&error, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    exit(1);
}

/* How many have waited on this shard for so long. */
static uint32_t
trace_worker_held(ps_client *observer, uint32_t shard)
{
    uint32_t n = 0;
    json_t *report, *row;
    char *text;
    size_t i;

    trace_worker_need(ps_client_query(observer, shard, PS_QUERY_BLOCKED, NULL, -1, &text, &error));
    report = json_loads(text, 0, NULL);
    ps_free(text);
    json_array_foreach(json_object_get(report, "blocked"), i, row) n +=
        json_integer_value(json_object_get(row, "waited_ms")) >= HELD_MS;
    json_decref(report);
    return n;
}

static void
wait_for_all_to_wait(ps_client *observer, uint32_t others)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    uint32_t n = 0;

    while (n < others) {
        n = 0;
        for (uint32_t s = 0; s < ps_client_shards(observer); s++)
            n += trace_worker_held(observer, s);
        nanosleep(&pause, NULL);
    }
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "async";
    struct ps_client_options options = {.mode = strcmp(mode, "ssp") == 0    ? PS_SSP
                                                : strcmp(mode, "sync") == 0 ? PS_SYNC
                                                                            : PS_ASYNC};
    struct ps_client_options look = {.observer = 1};
    ps_client *client, *observer;
    ps_cluster *cluster;
    struct ps_optimizer sgd;
    float w[4], gradient[4] = {1, 2, 3, 4};
    ps_var *var;
    bool slow;

    trace_worker_need(ps_cluster_from_env(&cluster, &error));
    trace_worker_need(ps_optimizer_by_name("sgd", &sgd, &error));
    trace_worker_need(ps_client_open(cluster, &options, &client, &error));
    trace_worker_need(ps_client_open(cluster, &look, &observer, &error));
    trace_worker_need(ps_client_declare(
        client, &(struct ps_var_spec){.name = "w", .rank = 1, .dims = {4}, .optimizer = sgd}, &var, &error));
    slow = options.mode != PS_ASYNC && ps_cluster_task(cluster) == 0;
    while (ps_client_clock(client) < STEPS) {
        trace_worker_need(ps_client_pull(client, 1, &var, (float *[]){w}, NULL, &error));
        if (slow)
            wait_for_all_to_wait(observer, ps_cluster_workers(cluster) - 1);
        trace_worker_need(ps_client_push(client, 1, &var, (const float *[]){gradient}, NULL, &error));
        trace_worker_need(ps_client_tick(client, &error));
    }
    trace_worker_need(
        ps_client_pull(client, 1, &var, (float *[]){w}, NULL, &error)); /* in ssp this waits for the slow one's last */
    ps_client_close(observer);
    ps_client_close(client);
    ps_cluster_free(cluster);
    return 0;
}
