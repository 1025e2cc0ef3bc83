/* A whole worker in about thirty lines: linear regression, y = 3 x0 - 2 x1 + 1, trained by any number of workers.
 * Run it with PSD_SHARDS=127.0.0.1:7420, or under psrun. */
#include <stdio.h>
#include <stdlib.h>

#include "psclient.h"

/* What no call reports: a shard lost its power, came back older, and says what is gone. Training goes on. */
static void
on_event(void *arg, const struct ps_error *event)
{
    (void)arg;
    if (event->code == PS_ERR_ROLLED_BACK)
        fprintf(stderr, "%s: %s\n", event->peer, event->text);
}

int
main(void)
{
    struct ps_client_options options = {.on_event = on_event};
    struct ps_error error;
    struct ps_optimizer sgd;
    ps_cluster *cluster;
    ps_client *client;
    ps_var *var;
    float w[3], grad[3], loss = 0;
    char text[PS_ERROR_LINE_MAX];

    if (ps_cluster_from_env(&cluster, &error) || ps_optimizer_by_name("sgd", &sgd, &error) ||
        ps_client_open(cluster, &options, &client, &error))
        goto failed;
    sgd.learning_rate = 0.2;
    if (ps_client_declare(client, &(struct ps_var_spec){.name = "w", .rank = 1, .dims = {3}, .optimizer = sgd}, &var,
                          &error))
        goto failed;
    srand(ps_cluster_task(cluster) + 1);
    while (ps_client_clock(client) < 500) { /* not a count of our own: a late worker joins where the others are */
        if (ps_client_pull(client, 1, &var, (float *[]){w}, NULL, &error))
            goto failed;
        grad[0] = grad[1] = grad[2] = loss = 0;
        for (int i = 0; i < 16; i++) {
            float x[3] = {(float)rand() / (float)RAND_MAX, (float)rand() / (float)RAND_MAX, 1};
            float miss = w[0] * x[0] + w[1] * x[1] + w[2] - (3 * x[0] - 2 * x[1] + 1);
            for (int j = 0; j < 3; j++)
                grad[j] += 2 * miss * x[j] / 16;
            loss += miss * miss / 16;
        }
        if (ps_client_push(client, 1, &var, (const float *[]){grad}, NULL, &error) || ps_client_tick(client, &error))
            goto failed;
    }
    if (ps_client_pull(client, 1, &var, (float *[]){w}, NULL, &error)) /* what all have made of it */
        goto failed;
    printf("loss %.6f, y = %.3f x0 %+.3f x1 %+.3f\n", (double)loss, (double)w[0], (double)w[1], (double)w[2]);
    ps_client_close(client);
    ps_cluster_free(cluster);
    return 0;
failed:
    ps_error_format(&error, text, sizeof text);
    fprintf(stderr, "%s\n", text);
    return 1;
}
