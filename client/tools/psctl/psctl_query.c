/* psctl status, jobs, variables, stats, workers, blocked, ping: ask, show, and again when --watch says so. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/tools/psctl/psctl.h"
#include "client/tools/psctl/query/named_variables.h"
#include "client/tools/psctl/views/health.h"
#include "client/tools/psctl/views/ranking.h"
#include "client/tools/psctl/watch.h"

static const unsigned psctl_query_queries[VIEWS] = {
    [VIEW_STATUS] = QUERY_BIT(PS_QUERY_STATUS),   [VIEW_JOBS] = QUERY_BIT(PS_QUERY_JOBS),
    [VIEW_STATS] = QUERY_BIT(PS_QUERY_STATS),     [VIEW_VARIABLES] = QUERY_BIT(PS_QUERY_VARIABLES),
    [VIEW_WORKERS] = QUERY_BIT(PS_QUERY_WORKERS), [VIEW_BLOCKED] = QUERY_BIT(PS_QUERY_BLOCKED),
};

/* Over all shards a job's workers are counted one by one; JSON has the reports of the shards, and no more. */
static unsigned
psctl_query_needs_all(const struct psctl *p, enum view_kind kind)
{
    if (kind == VIEW_VARIABLES && p->ranked)
        return ranking_queries;
    return psctl_query_queries[kind] | (kind == VIEW_JOBS && !p->settings.json ? QUERY_BIT(PS_QUERY_WORKERS) : 0);
}

/* Of --top, --by, --variables. */
static struct ranking_choice
psctl_query_ranking(const struct psctl *p)
{
    return (struct ranking_choice){.by = (enum ranking_by)p->settings.by,
                                   .top = p->settings.top > 0 ? (size_t)p->settings.top : SIZE_MAX,
                                   .pattern = p->settings.variables};
}

static void
psctl_query_rank(const struct psctl *p, const struct answer_sample *before, const struct answer_sample *now,
                 const struct printer *page)
{
    struct ranking_choice choice = psctl_query_ranking(p);
    json_t *document;

    if (!p->settings.json) {
        ranking_print(before, now, &choice, page);
        render_unreached(now->answers, now->n, page);
        return;
    }
    document = render_document("variables", now->answers, now->n, false);
    json_object_set_new(document, "top", ranking_json(before, now, &choice));
    render_print_document(document, page);
}

static void
psctl_query_show(const struct psctl *p, enum view_kind kind, const struct answer_sample *before,
                 const struct answer_sample *now, const struct printer *page)
{
    if (kind == VIEW_VARIABLES && p->ranked)
        psctl_query_rank(p, before, now, page);
    else if (p->settings.json)
        render_json(render_name(kind), now->answers, now->n, page);
    else
        render_tables(kind, now->answers, now->n, page);
}

/* --check: a line for each unhealthy shard. */
static int
psctl_query_check(const struct psctl *p, const struct shard_answer *answers, uint32_t n)
{
    char why[PS_ERROR_TEXT_MAX + 32];
    uint32_t bad = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (health_check(&answers[i], why, sizeof why))
            continue;
        bad++;
        printer_line(&p->printer, PAINT_FAULT, "shard %u at %s: %s", answers[i].shard, answers[i].address, why);
    }
    if (bad == 0)
        printf("%u shard%s well\n", n, n == 1 ? " is" : "s are");
    return bad == 0 ? EXIT_SUCCESS : STATUS_NOT_REACHED;
}

/* --variables names some, or a shard that did not answer may have them. */
static bool
psctl_query_found(const struct psctl *p, enum view_kind kind, const struct shard_answer *answers, uint32_t n,
                  struct ps_error *e)
{
    if (kind != VIEW_VARIABLES || p->settings.variables == NULL || answers_reached(answers, n) < n)
        return true;
    return named_variables(answers, n, p->settings.job, p->settings.variables, NULL, NULL, e) == PS_OK;
}

static int
psctl_query_once(const struct psctl *p, enum view_kind kind, const struct shard_question *question)
{
    uint32_t n = ps_cluster_shards(p->cluster);
    struct shard_answer *answers;
    struct ps_error e;
    int status;

    if (query_all_shards(p->cluster, 0, n, question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    if (!psctl_query_found(p, kind, answers, n, &e)) {
        status = psctl_failed(&e);
    } else if (p->settings.check) {
        status = psctl_query_check(p, answers, n);
    } else {
        psctl_query_show(p, kind, NULL, &(struct answer_sample){answers, n}, &p->printer);
        status = psctl_status_of(answers, n);
    }
    answers_free(answers, n);
    return status;
}

/* ---- --watch ---- */

struct psctl_query {
    const struct psctl *psctl;
    enum view_kind kind;
};

static void
psctl_query_draw(void *arg, const struct answer_sample *before, const struct answer_sample *now, size_t rows,
                 const struct printer *page)
{
    const struct psctl_query *look = arg;

    (void)rows;
    psctl_query_show(look->psctl, look->kind, before, now, page);
}

/* What is to be watched is there. Shards that do not answer are shown as such. */
static bool
psctl_query_names(const struct psctl *p, enum view_kind kind, const struct shard_question *question, struct ps_error *e)
{
    uint32_t n = ps_cluster_shards(p->cluster);
    struct shard_answer *answers;
    bool found;

    if (p->settings.variables == NULL)
        return true;
    if (query_all_shards(p->cluster, 0, n, question, &answers, e) != PS_OK)
        return false;
    found = psctl_query_found(p, kind, answers, n, e);
    answers_free(answers, n);
    return found;
}

static int
psctl_query_again(const struct psctl *p, enum view_kind kind, const struct shard_question *question)
{
    struct psctl_query look = {p, kind};
    char title[32];
    struct watch watch = {.cluster = p->cluster,
                          .question = question,
                          .interval_ms = (int)p->settings.watch_ms,
                          .in_place = p->in_place && !p->settings.json,
                          .colour = p->printer.colour,
                          .bare = p->settings.json,
                          .title = title,
                          .draw = psctl_query_draw,
                          .arg = &look};
    struct answer_sample last;
    struct ps_error e;
    enum ps_err err;

    if (!psctl_query_names(p, kind, question, &e))
        return psctl_failed(&e);
    snprintf(title, sizeof title, "psctl %s", render_name(kind));
    err = watch_run(&watch, &last, &e);
    answers_free(last.answers, last.n);
    return err == PS_OK ? EXIT_SUCCESS : psctl_failed(&e);
}

int
psctl_query(struct psctl *p, enum view_kind kind)
{
    struct shard_question question = {.kind = kind == VIEW_PING ? QUERY_PINGS : QUERY_QUERIES,
                                      .queries = psctl_query_needs_all(p, kind),
                                      .job = p->settings.job,
                                      .pings = (size_t)p->settings.count,
                                      .keeps_json = p->settings.json,
                                      .timeout_ms = (int)p->settings.timeout_ms};
    int status = psctl_know_job(p);

    if (status != EXIT_SUCCESS)
        return status;
    return p->settings.watch_ms > 0 ? psctl_query_again(p, kind, &question) : psctl_query_once(p, kind, &question);
}
