#include "client/tools/psctl/query/query_all.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/query/lost_shard.h"
#include "common/system/now.h"
#include "common/system/thread.h"
#include "common/system/trace_file.h"

struct query_all {
    const struct shard_question *question;
    struct shard_answer *answers;
    uint32_t n;
    atomic_uint next; /* the next shard that no thread asks yet */
};

/* A client of this shard alone: a shard that does not answer must not delay the others. */
static enum ps_err
query_all_open(const struct shard_answer *a, int timeout_ms, struct lost_shard *lost, ps_client **client,
               struct ps_error *e)
{
    struct ps_client_options options = {
        .observer = 1, .any_cluster = 1, .transport = PS_TRANSPORT_TCP, .timeout_ms = timeout_ms};
    ps_cluster *cluster;
    enum ps_err err;

    if ((err = ps_cluster_from_list(a->address, 1, 0, &cluster, e)) != PS_OK)
        return err;
    if (lost != NULL)
        err = lost_shard_open(lost, cluster, &options, (uint64_t)timeout_ms, client, e);
    else
        err = ps_client_open(cluster, &options, client, e);
    ps_cluster_free(cluster);
    return err;
}

/* Reports of different queries have nothing in common but "kind" and "more", and lists that are empty but in one. */
static void
query_all_merge(struct shard_answer *a, json_t *report)
{
    bool more = json_is_true(json_object_get(report, "more")) || json_is_true(json_object_get(a->report, "more"));
    const char *name;
    json_t *value;

    if (a->report == NULL) {
        a->report = report;
        return;
    }
    json_object_foreach(report, name, value)
    {
        if (!json_is_array(value) || json_array_size(value) > 0)
            json_object_set(a->report, name, value);
    }
    json_object_set_new(a->report, "more", json_boolean(more));
    json_decref(report);
}

#define CLOCK_PINGS 8

/* Its now_ns was half a round trip after the question was sent; of several round trips the quickest waited least. */
static enum ps_err
query_all_clock(const struct shard_question *q, ps_client *client, uint64_t asked_ns, struct shard_answer *a)
{
    const json_t *now_ns = json_object_get(json_object_get(a->report, "timeline"), "now_ns");
    double us, least_us = 1e9;
    enum ps_err err = PS_OK;

    for (int i = 0; err == PS_OK && i < CLOCK_PINGS; i++) {
        err = ps_client_ping(client, 0, q->timeout_ms, &us, &a->error);
        least_us = MIN(least_us, err == PS_OK ? us : least_us);
    }
    a->ahead_ns = json_integer_value(now_ns) - (int64_t)asked_ns - (int64_t)(least_us * 500);
    return err;
}

static enum ps_err
query_all_parse(const char *text, json_t **report, struct ps_error *e)
{
    json_error_t where;

    if ((*report = json_loads(text, 0, &where)) == NULL)
        return ps_fail(e, PS_ERR_INTERNAL, "the report is not valid JSON: %s", where.text);
    return PS_OK;
}

/* A page of variables, which become rows; all else in it is as in the other pages. */
static enum ps_err
query_all_take(void *arg, const char *text, struct ps_error *e)
{
    struct shard_answer *a = arg;
    json_t *page, *list;
    bool more;
    enum ps_err err;

    if ((err = query_all_parse(text, &page, e)) != PS_OK)
        return err;
    list = json_object_get(page, "variable");
    if (!variable_list_add(a->variables, list))
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for the variables of shard %u", a->shard);
    json_array_clear(list);
    more = json_is_true(json_object_get(page, "more"));
    if (err == PS_OK && !more)
        query_all_merge(a, page);
    else
        json_decref(page);
    return err;
}

static enum ps_err
query_all_variables(const struct shard_question *q, ps_client *client, struct shard_answer *a)
{
    enum ps_err err;

    if ((a->variables = calloc(1, sizeof *a->variables)) == NULL)
        return ps_fail(&a->error, PS_ERR_NOMEM, "no memory for the report");
    a->variables->keeps_json = q->keeps_json;
    err = ps_client_query_pages(client, 0, PS_QUERY_VARIABLES, q->job, q->timeout_ms, query_all_take, a, &a->error);
    variable_list_sort(a->variables);
    return err;
}

static enum ps_err
query_all_query(const struct shard_question *q, enum ps_query query, ps_client *client, struct shard_answer *a)
{
    uint64_t asked_ns = monotonic_ns();
    json_t *report;
    char *text;
    enum ps_err err;

    if (query == PS_QUERY_VARIABLES)
        return query_all_variables(q, client, a);
    if ((err = ps_client_query(client, 0, query, q->job, q->timeout_ms, &text, &a->error)) != PS_OK)
        return err;
    err = query_all_parse(text, &report, &a->error);
    ps_free(text);
    if (err != PS_OK)
        return err;
    query_all_merge(a, report);
    return query == PS_QUERY_TIMELINE ? query_all_clock(q, client, asked_ns, a) : PS_OK;
}

static enum ps_err
query_all_queries(const struct shard_question *q, ps_client *client, struct shard_answer *a)
{
    enum ps_err err = PS_OK;

    for (unsigned query = 0; err == PS_OK && q->queries >> query != 0; query++)
        if (q->queries & QUERY_BIT(query))
            err = query_all_query(q, (enum ps_query)query, client, a);
    return err;
}

static enum ps_err
query_all_pings(const struct shard_question *q, ps_client *client, struct shard_answer *a)
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

static enum ps_err
query_all_drain(const struct shard_question *q, ps_client *client, struct shard_answer *a)
{
    return ps_client_drain(client, 0, q->timeout_ms, &a->error);
}

static enum ps_err
query_all_save(const struct shard_question *q, ps_client *client, struct shard_answer *a)
{
    return ps_client_save(client, 0, q->work_ms, &a->saved, &a->error);
}

/* What lies in the save that counts, and in the one before it, which the next one is written over. */
static enum ps_err
query_all_verify(const struct shard_question *q, ps_client *client, struct shard_answer *a)
{
    struct ps_verify_report *sum = &a->verified, second;
    enum ps_err err;

    if ((err = ps_client_verify(client, 0, q->work_ms, sum, &a->error)) != PS_OK ||
        (err = ps_client_verify(client, 0, q->work_ms, &second, &a->error)) != PS_OK)
        return err;
    if (sum->mended == 0)
        memcpy(sum->first_mended, second.first_mended, sizeof sum->first_mended);
    if (sum->differ == 0)
        memcpy(sum->first_differs, second.first_differs, sizeof sum->first_differs);
    a->compared = second.verified;
    sum->save = second.save;
    sum->blocks = second.blocks;
    sum->verified += second.verified;
    sum->mended += second.mended;
    sum->differ = MAX(sum->differ, second.differ);
    sum->ms += second.ms;
    return PS_OK;
}

static enum ps_err
query_all_evict(const struct shard_question *q, ps_client *client, struct shard_answer *a)
{
    return ps_client_evict(client, 0, q->job, q->task, q->timeout_ms, &a->evicted, &a->error);
}

static enum ps_err
query_all_drop(const struct shard_question *q, ps_client *client, struct shard_answer *a)
{
    return ps_client_drop(client, 0, q->drop, q->work_ms, &a->dropped, &a->error);
}

/* To its client every shard is shard 0; users know it by its place in the list. */
static void
query_all_rename(const struct shard_answer *a, char *text, size_t size)
{
    char *at = strstr(text, "shard 0 at "), rest[PS_ERROR_TEXT_MAX];
    size_t used;

    if (at == NULL)
        return;
    used = (size_t)(at - text);
    snprintf(rest, sizeof rest, "%s", at + strlen("shard 0"));
    snprintf(at, size - used, "shard %u%s", a->shard, rest);
}

/* The shard is printed with the answer: the sentence need not begin with it. */
static void
query_all_trim(const struct shard_answer *a, char *text)
{
    char who[256];
    int len = snprintf(who, sizeof who, "shard %u at %s: ", a->shard, a->address);

    if (strncmp(text, who, (size_t)len) == 0)
        memmove(text, text + len, strlen(text + len) + 1);
}

static void
query_all_shard(const struct shard_question *q, struct shard_answer *a)
{
    static enum ps_err (*const asks[])(const struct shard_question *q, ps_client *client, struct shard_answer *a) = {
        [QUERY_QUERIES] = query_all_queries, [QUERY_PINGS] = query_all_pings,   [QUERY_DRAIN] = query_all_drain,
        [QUERY_SAVE] = query_all_save,       [QUERY_VERIFY] = query_all_verify, [QUERY_EVICT] = query_all_evict,
        [QUERY_DROP] = query_all_drop};
    bool slow = q->kind == QUERY_SAVE || q->kind == QUERY_VERIFY || q->kind == QUERY_DROP;
    struct lost_shard lost;
    ps_client *client;
    enum ps_err err;

    if ((err = query_all_open(a, q->timeout_ms, slow ? &lost : NULL, &client, &a->error)) == PS_OK) {
        err = asks[q->kind](q, client, a);
        err = slow ? lost_shard_end(&lost, err, &a->error) : err;
        ps_client_close(client);
    }
    a->reached = err == PS_OK;
    if (err != PS_OK) {
        query_all_rename(a, a->error.text, sizeof a->error.text);
        query_all_trim(a, a->error.text);
        query_all_rename(a, a->error.peer, sizeof a->error.peer);
    }
}

static void *
query_all_thread(void *arg)
{
    struct query_all *ask = arg;
    uint32_t i;

    while ((i = atomic_fetch_add(&ask->next, 1)) < ask->n)
        query_all_shard(ask->question, &ask->answers[i]);
    return NULL;
}

/* This thread asks too, so that it works when no other can be had. Pings go one shard after the other: threads that
 * compete for a core would measure each other. */
static void
query_all_run(struct query_all *ask)
{
    pthread_t threads[QUERY_THREADS_MAX];
    uint32_t wanted = ask->question->kind == QUERY_PINGS ? 0 : MIN(ask->n - 1, (uint32_t)QUERY_THREADS_MAX),
             started = 0;

    while (started < wanted && thread_start(&threads[started], query_all_thread, ask) == 0)
        started++;
    query_all_thread(ask);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}

enum ps_err
query_all_shards(const ps_cluster *cluster, uint32_t first, uint32_t n, const struct shard_question *question,
                 struct shard_answer **answers, struct ps_error *e)
{
    struct query_all ask = {.question = question, .n = n};

    ps_assert(n >= 1 && first + n <= ps_cluster_shards(cluster));
    if ((ask.answers = calloc(ask.n, sizeof *ask.answers)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "out of memory");
    for (uint32_t i = 0; i < ask.n; i++) {
        ask.answers[i].address = ps_cluster_shard_address(cluster, first + i);
        ask.answers[i].shard = first + i;
        ask.answers[i].kind = question->kind;
    }
    query_all_run(&ask);
    *answers = ask.answers;
    return PS_OK;
}

void
answers_free(struct shard_answer *answers, uint32_t n)
{
    for (uint32_t i = 0; answers != NULL && i < n; i++) {
        json_decref(answers[i].report);
        variable_list_free(answers[i].variables);
        free(answers[i].pings);
    }
    free(answers);
}

uint32_t
answers_reached(const struct shard_answer *answers, uint32_t n)
{
    uint32_t reached = 0;

    for (uint32_t i = 0; i < n; i++)
        reached += answers[i].reached;
    return reached;
}
