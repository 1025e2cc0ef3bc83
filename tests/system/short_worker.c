/* A whole worker: it fits a line, y = 3 x + 1, to points that it makes up, together with all others of its kind. */
#include <stdio.h>
#include <stdlib.h>

#include "psclient.h"

static struct ps_error error;

static void
must_succeed(enum ps_err err) /* every call says by its result whether it failed, and in error why */
{
    char text[PS_ERROR_LINE_MAX];

    if (err == PS_OK)
        return;
    ps_error_format(&error, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    exit(1);
}

int
main(void)
{
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {2}}; /* y = w[0] x + w[1]; both begin at 0 */
    ps_cluster *cluster;
    ps_client *client;
    ps_var *var;
    float w[2], gradient[2];

    must_succeed(ps_cluster_from_env(&cluster, &error)); /* psrun sets TF_CONFIG; PSD_SHARDS does as well */
    must_succeed(ps_client_open(cluster, NULL, &client, &error));
    must_succeed(ps_optimizer_parse("sgd:learning_rate=0.2", &spec.optimizer, &error));
    must_succeed(ps_client_declare(client, &spec, &var, &error));
    while (ps_client_clock(client) <
           1000) { /* the job's steps, not a count of our own: a late worker joins the others */
        must_succeed(ps_client_pull(client, 1, &var, (float *[]){w}, NULL, &error));
        float x = (float)rand() / (float)RAND_MAX, miss = w[0] * x + w[1] - (3 * x + 1);
        gradient[0] = 2 * miss * x, gradient[1] = 2 * miss; /* of the squared error */
        must_succeed(ps_client_push(client, 1, &var, (const float *[]){gradient}, NULL, &error));
        must_succeed(ps_client_tick(client, &error));
    }
    must_succeed(ps_client_pull(client, 1, &var, (float *[]){w}, NULL, &error));
    printf("y = %.2f x %+.2f\n", (double)w[0], (double)w[1]);
    ps_client_close(client);
    ps_cluster_free(cluster);
}
