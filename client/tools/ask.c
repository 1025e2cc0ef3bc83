#include "ask.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ask {
    const struct question *question;
    struct answer *answers;
    uint32_t n;
    atomic_uint next; /* the next shard that nobody asks yet */
};

/* A client of this shard alone: one that does not answer must not keep the others from it. */
static enum ps_err
ask_open(const struct answer *a, int timeout_ms, ps_client **client, struct ps_error *e)
{
    struct ps_client_options options = {.observer = 1, .any_cluster = 1, .timeout_ms = timeout_ms};
    ps_cluster *cluster;
    enum ps_err err;

    if ((err = ps_cluster_from_list(a->address, 1, 0, &cluster, e)) != PS_OK)
        return err;
    err = ps_client_open(cluster, &options, client, e);
    ps_cluster_free(cluster);
    return err;
}

static enum ps_err
ask_query(const struct question *q, ps_client *client, struct answer *a)
{
    json_error_t where;
    char *text;
    enum ps_err err;

    if ((err = ps_client_query(client, 0, q->query, q->job, q->timeout_ms, &text, &a->error)) != PS_OK)
        return err;
    a->report = json_loads(text, 0, &where);
    ps_free(text);
    if (a->report == NULL)
        return ps_fail(&a->error, PS_ERR_INTERNAL, "the report is not valid JSON: %s", where.text);
    return PS_OK;
}

static enum ps_err
ask_ping(const struct question *q, ps_client *client, struct answer *a)
{
    enum ps_err err = PS_OK;

    if ((a->pings = calloc(q->pings, sizeof *a->pings)) == NULL)
        return ps_fail(&a->error, PS_ERR_NOMEM, "out of memory");
    while (err == PS_OK && a->pings_len < q->pings) {
        err = ps_client_ping(client, 0, q->timeout_ms, &a->pings[a->pings_len], &a->error);
        a->pings_len += err == PS_OK;
    }
    return err;
}

/* To its client every shard is shard 0; people know it by its place in the list. */
static void
ask_rename(const struct answer *a, char *text, size_t size)
{
    char *at = strstr(text, "shard 0 at "), rest[PS_ERROR_TEXT_MAX];
    size_t used;

    if (at == NULL)
        return;
    used = (size_t)(at - text);
    snprintf(rest, sizeof rest, "%s", at + strlen("shard 0"));
    snprintf(at, size - used, "shard %u%s", a->shard, rest);
}

static void
ask_shard(const struct question *q, struct answer *a)
{
    ps_client *client;
    enum ps_err err;

    if ((err = ask_open(a, q->timeout_ms, &client, &a->error)) == PS_OK) {
        err = q->ping ? ask_ping(q, client, a) : ask_query(q, client, a);
        ps_client_close(client);
    }
    a->reached = err == PS_OK;
    if (err != PS_OK) {
        ask_rename(a, a->error.text, sizeof a->error.text);
        ask_rename(a, a->error.peer, sizeof a->error.peer);
    }
}

static void *
ask_thread(void *arg)
{
    struct ask *ask = arg;
    uint32_t i;

    while ((i = atomic_fetch_add(&ask->next, 1)) < ask->n)
        ask_shard(ask->question, &ask->answers[i]);
    return NULL;
}

/* This thread asks too, so that it works when no other can be had. Pings go one shard after the other: threads that
 * compete for a core would measure each other. */
static void
ask_run(struct ask *ask)
{
    pthread_t threads[ASK_THREADS_MAX];
    uint32_t wanted = ask->question->ping ? 0 : MIN(ask->n - 1, (uint32_t)ASK_THREADS_MAX), started = 0;

    while (started < wanted && pthread_create(&threads[started], NULL, ask_thread, ask) == 0)
        started++;
    ask_thread(ask);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

enum ps_err
ask_all(const ps_cluster *cluster, const struct question *question, struct answer **answers, struct ps_error *e)
{
    struct ask ask = {.question = question, .n = ps_cluster_shards(cluster)};

    if ((ask.answers = calloc(ask.n, sizeof *ask.answers)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < ask.n; i++) {
        ask.answers[i].address = ps_cluster_shard_address(cluster, i);
        ask.answers[i].shard = i;
    }
    ask_run(&ask);
    *answers = ask.answers;
    return PS_OK;
}

void
answers_free(struct answer *answers, uint32_t n)
{
    for (uint32_t i = 0; answers != NULL && i < n; i++) {
        json_decref(answers[i].report);
        free(answers[i].pings);
    }
    free(answers);
}
