/* A worker for scripts that end and start shards: `bits push` trains a variable a little, `bits durable` waits for the
 * disk with each push, `bits pull` only reads it, and all print a hash of its bits (FNV-1a). PSD_SHARDS names the
 * cluster. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/psclient/psclient.h"

#define ELEMENTS 600000 /* several blocks of each size, so that each of two shards has a share */
#define STEPS    5

enum bits_what { PUSH, DURABLE, PULL, WHATS };

static const char *const names[WHATS] = {"push", "durable", "pull"};

static uint64_t
bits_hash(const void *bytes, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (const unsigned char *b = bytes, *end = b + len; b < end; b++)
        h = (h ^ *b) * 0x100000001b3u;
    return h;
}

static enum ps_err
bits_push(ps_client *client, ps_var *var, float *gradient, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (int step = 0; step < STEPS && err == PS_OK; step++) {
        for (int i = 0; i < ELEMENTS; i++)
            gradient[i] = (float)((i * 31 + step * 17) % 1000) / 997.0F;
        err = ps_client_push(client, 1, &var, (const float *[]){gradient}, NULL, e);
    }
    return err;
}

static enum ps_err
bits_train(const ps_cluster *cluster, enum bits_what what, float *values, struct ps_error *e)
{
    struct ps_client_options options = {.job = "bits", .timeout_ms = 20000, .durable = what == DURABLE};
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {ELEMENTS}};
    ps_client *client = NULL;
    ps_var *var;
    enum ps_err err;

    if ((err = ps_optimizer_by_name("adam", &spec.optimizer, e)) == PS_OK &&
        (err = ps_client_open(cluster, &options, &client, e)) == PS_OK &&
        (err = ps_client_declare(client, &spec, &var, e)) == PS_OK && what != PULL)
        err = bits_push(client, var, values, e);
    if (err == PS_OK)
        err = ps_client_pull(client, 1, &var, (float *[]){values}, NULL, e);
    ps_client_close(client);
    return err;
}

int
main(int argc, char **argv)
{
    float *values = calloc(ELEMENTS, sizeof *values);
    ps_cluster *cluster = NULL;
    struct ps_error e = {.text = "usage: bits push|durable|pull"};
    enum ps_err err = PS_ERR_INVALID;
    enum bits_what what = 0;

    while (argc == 2 && what < WHATS && strcmp(argv[1], names[what]) != 0)
        what++;
    if (values != NULL && argc == 2 && what < WHATS && (err = ps_cluster_from_env(&cluster, &e)) == PS_OK)
        err = bits_train(cluster, what, values, &e);
    if (err == PS_OK)
        printf("%016llx\n", (unsigned long long)bits_hash(values, ELEMENTS * sizeof *values));
    else
        fprintf(stderr, "bits: %s\n", e.text);
    ps_cluster_free(cluster);
    free(values);
    return err == PS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
