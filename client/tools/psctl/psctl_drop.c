/* psctl drop: a job, or variables of it, are no more. All shards are asked first what would go; then, when somebody
 * agrees, all are told. A shard that dies in between says nothing, and the same command again completes it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/psctl.h"
#include "common/core/base/units.h"

/* What all shards together have. */
struct drop_total {
    uint64_t variables, bytes, workers, connected;
    uint32_t found; /* shards */
};

static struct drop_total
drop_add_up(const struct shard_answer *answers, uint32_t n)
{
    struct drop_total t = {0};

    for (uint32_t i = 0; i < n; i++) {
        const struct ps_drop_report *r = &answers[i].dropped;

        t.found += r->found != 0;
        t.variables += r->first;
        t.bytes += r->bytes;
        t.workers = MAX(t.workers, r->workers);
        t.connected = MAX(t.connected, r->connected);
    }
    return t;
}

/* "variables 'layer*' of job "digits": 12 variables, 3 MiB of weights and slots; 2 workers are live, 2 connected" */
static void
drop_describe(const struct ps_drop *drop, const struct drop_total *t, char *out, size_t size)
{
    struct units bytes;
    int len;

    len = snprintf(out, size, "%s%s%sjob \"%s\": %" PRIu64 " variable%s, %s of weights and slots",
                   drop->variables != NULL ? "variables " : "", drop->variables != NULL ? drop->variables : "",
                   drop->variables != NULL ? " of " : "", drop->job, t->variables, t->variables == 1 ? "" : "s",
                   units_bytes(t->bytes, &bytes));
    if (t->workers > 0 && len > 0 && (size_t)len < size)
        snprintf(out + len, size - (size_t)len, "; %" PRIu64 " worker%s live, %" PRIu64 " connected", t->workers,
                 t->workers == 1 ? " is" : "s are", t->connected);
}

/* ---- Whether it may be ---- */

static int
check_found(const struct ps_drop *drop, const struct drop_total *t)
{
    struct ps_error e;

    if (t->found == 0)
        (void)ps_fail(&e, PS_ERR_NOT_FOUND, "no shard knows job \"%s\": there is nothing to drop", drop->job);
    else if (drop->variables != NULL && t->variables == 0)
        (void)ps_fail(&e, PS_ERR_NOT_FOUND, "no variable of job \"%s\" has a name that fits %s", drop->job,
                      drop->variables);
    else
        return EXIT_SUCCESS;
    return psctl_failed(&e);
}

/* Before anything is changed: each shard would refuse it, but one may not know of a worker yet. */
static int
check_idle(const struct ps_drop *drop, const struct drop_total *t)
{
    struct ps_error e;

    if (t->workers == 0 || drop->force)
        return EXIT_SUCCESS;
    (void)ps_fail(&e, PS_ERR_BUSY,
                  "%" PRIu64 " worker%s of job \"%s\" %s live (psctl workers): end the program, or --force ends their "
                  "sessions; nothing was changed",
                  t->workers, t->workers == 1 ? "" : "s", drop->job, t->workers == 1 ? "is" : "are");
    return psctl_failed(&e);
}

static int
check_agreed(const struct psctl *p, const struct ps_drop *drop, const struct drop_total *t)
{
    char what[2 * PS_NAME_MAX + 256], question[sizeof what + 64];
    struct ps_error e;

    drop_describe(drop, t, what, sizeof what);
    snprintf(question, sizeof question, "%s.\nThis cannot be undone. Drop it?", what);
    if (p->settings.yes || psctl_agrees(question))
        return EXIT_SUCCESS;
    (void)ps_fail(&e, PS_ERR_INVALID, "%s; --yes if all of it may go; nothing was changed", what);
    return psctl_usage(&e);
}

static int
drop_look(const struct psctl *p, const struct ps_drop *drop)
{
    struct ps_drop look = *drop;
    struct shard_question question = {
        .kind = QUERY_DROP, .drop = &look, .timeout_ms = (int)p->settings.timeout_ms, .work_ms = (int)p->work_ms};
    uint32_t n = ps_cluster_shards(p->cluster);
    struct shard_answer *answers;
    struct drop_total total;
    struct ps_error e;
    int status = EXIT_SUCCESS;

    look.check = 1;
    if (query_all_shards(p->cluster, 0, n, &question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    total = drop_add_up(answers, n);
    if (!drop->force || answers_reached(answers, n) == 0)
        status = psctl_need_all(answers, n);
    if (status == EXIT_SUCCESS && (answers_reached(answers, n) == n || total.found > 0))
        status = check_found(drop, &total);
    if (status == EXIT_SUCCESS && (status = check_idle(drop, &total)) == EXIT_SUCCESS)
        status = check_agreed(p, drop, &total);
    answers_free(answers, n);
    return status;
}

/* ---- Doing ---- */

static void
print_dropped(const struct psctl *p, const struct shard_answer *a, char *out, size_t size)
{
    const struct ps_drop_report *r = &a->dropped;
    struct units bytes;

    (void)p;
    if (r->found)
        snprintf(out, size, "dropped %" PRIu64 " variable%s, %" PRIu64 " block%s, %s%s", r->variables,
                 r->variables == 1 ? "" : "s", r->blocks, r->blocks == 1 ? "" : "s", units_bytes(r->bytes, &bytes),
                 r->kept ? "; their memory comes back when the save that runs has ended" : "");
    else
        snprintf(out, size, "has no such job (any more)");
}

static json_t *
drop_document(const struct psctl *p, const struct ps_drop *drop, const struct shard_answer *answers, uint32_t n)
{
    json_t *object = render_document(p->command, answers, n, true);

    json_object_set_new(object, "job", json_string(drop->job));
    json_object_set_new(object, "pattern", drop->variables != NULL ? json_string(drop->variables) : json_null());
    json_object_set_new(object, "variables", json_integer((json_int_t)drop_add_up(answers, n).variables));
    return object;
}

static int
drop_all(struct psctl *p, const struct ps_drop *drop)
{
    struct shard_question question = {
        .kind = QUERY_DROP, .drop = drop, .timeout_ms = (int)p->settings.timeout_ms, .work_ms = (int)p->work_ms};
    uint32_t n = ps_cluster_shards(p->cluster);
    struct shard_answer *answers;
    struct ps_error e;
    int status;

    if (query_all_shards(p->cluster, 0, n, &question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    if (p->settings.json)
        render_print_document(drop_document(p, drop, answers, n), &p->printer);
    else
        psctl_print_answers(p, answers, n, print_dropped);
    if (answers_reached(answers, n) < n)
        fprintf(stderr, "psctl: not all shards have done it: the same command again completes it\n");
    status = psctl_status_of(answers, n);
    answers_free(answers, n);
    return status;
}

int
psctl_drop(struct psctl *p)
{
    char job[PS_NAME_MAX + 1];
    struct ps_drop drop = {.job = job, .variables = p->settings.variables, .force = p->settings.force};
    int status;

    if (p->settings.job != NULL)
        snprintf(job, sizeof job, "%s", p->settings.job);
    else if ((status = psctl_only_job(p, job)) != EXIT_SUCCESS) /* of variables: psctl.c has checked it */
        return status;
    if ((status = drop_look(p, &drop)) != EXIT_SUCCESS)
        return status;
    return drop_all(p, &drop);
}
