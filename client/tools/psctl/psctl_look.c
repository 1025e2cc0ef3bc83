/* psctl status, jobs, variables, stats, workers, blocked, ping: ask, show, and again when --watch says so. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/tools/psctl/psctl.h"
#include "client/tools/psctl/views/health.h"
#include "client/tools/psctl/views/ranking.h"
#include "client/tools/psctl/watch.h"

static const unsigned look_queries[VIEWS] = {
    [VIEW_STATUS] = ASK_BIT(PS_QUERY_STATUS),   [VIEW_JOBS] = ASK_BIT(PS_QUERY_JOBS),
    [VIEW_STATS] = ASK_BIT(PS_QUERY_STATS),     [VIEW_VARIABLES] = ASK_BIT(PS_QUERY_VARIABLES),
    [VIEW_WORKERS] = ASK_BIT(PS_QUERY_WORKERS), [VIEW_BLOCKED] = ASK_BIT(PS_QUERY_BLOCKED),
};

/* Over all shards a job's workers and variables are counted one by one; JSON has what each shard says, and no more. */
static unsigned
look_asks(const struct psctl *p, enum view_kind kind)
{
    unsigned each = ASK_BIT(PS_QUERY_WORKERS) | ASK_BIT(PS_QUERY_VARIABLES);

    if (kind == VIEW_VARIABLES && p->ranked)
        return ranking_queries;
    return look_queries[kind] | (kind == VIEW_JOBS && !p->settings.json ? each : 0);
}

/* Of --top, --by, --variables. */
static struct ranking_choice
look_ranking(const struct psctl *p)
{
    return (struct ranking_choice){.by = (enum ranking_by)p->settings.by,
                                   .top = p->settings.top > 0 ? (size_t)p->settings.top : SIZE_MAX,
                                   .pattern = p->settings.variables};
}

static void
look_rank(const struct psctl *p, const struct sample *before, const struct sample *now, const struct page *page)
{
    struct ranking_choice choice = look_ranking(p);
    json_t *document;

    if (!p->settings.json) {
        ranking_print(before, now, &choice, page);
        view_print_unreached(now->answers, now->n, page);
        return;
    }
    document = view_json("variables", now->answers, now->n, false);
    json_object_set_new(document, "top", ranking_json(before, now, &choice));
    view_print_document(document, page);
}

static void
look_show(const struct psctl *p, enum view_kind kind, const struct sample *before, const struct sample *now,
          const struct page *page)
{
    if (kind == VIEW_VARIABLES && p->ranked)
        look_rank(p, before, now, page);
    else if (p->settings.json)
        view_print_json(view_name(kind), now->answers, now->n, page);
    else
        view_print(kind, now->answers, now->n, page);
}

/* --check: a line for each shard that is not well. */
static int
look_check(const struct psctl *p, const struct answer *answers, uint32_t n)
{
    char why[PS_ERROR_TEXT_MAX + 32];
    uint32_t bad = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (health_check(&answers[i], why, sizeof why))
            continue;
        bad++;
        page_line(&p->page, PAINT_FAULT, "shard %u at %s: %s", answers[i].shard, answers[i].address, why);
    }
    if (bad == 0)
        printf("%u shard%s well\n", n, n == 1 ? " is" : "s are");
    return bad == 0 ? EXIT_SUCCESS : STATUS_NOT_REACHED;
}

static int
look_once(const struct psctl *p, enum view_kind kind, const struct question *question)
{
    uint32_t n = ps_cluster_shards(p->cluster);
    struct answer *answers;
    struct ps_error e;
    int status;

    if (ask_shards(p->cluster, 0, n, question, &answers, &e) != PS_OK)
        return psctl_failed(&e);
    if (p->settings.check) {
        status = look_check(p, answers, n);
    } else {
        look_show(p, kind, NULL, &(struct sample){answers, n}, &p->page);
        status = psctl_status_of(answers, n);
    }
    answers_free(answers, n);
    return status;
}

/* ---- --watch ---- */

struct look {
    const struct psctl *psctl;
    enum view_kind kind;
};

static void
look_draw(void *arg, const struct sample *before, const struct sample *now, size_t rows, const struct page *page)
{
    const struct look *look = arg;

    (void)rows;
    look_show(look->psctl, look->kind, before, now, page);
}

static int
look_again(const struct psctl *p, enum view_kind kind, const struct question *question)
{
    struct look look = {p, kind};
    char title[32];
    struct watch watch = {.cluster = p->cluster,
                          .question = question,
                          .interval_ms = (int)p->settings.watch_ms,
                          .in_place = p->in_place && !p->settings.json,
                          .colour = p->page.colour,
                          .bare = p->settings.json,
                          .title = title,
                          .draw = look_draw,
                          .arg = &look};
    struct sample last;
    struct ps_error e;
    enum ps_err err;

    snprintf(title, sizeof title, "psctl %s", view_name(kind));
    err = watch_run(&watch, &last, &e);
    answers_free(last.answers, last.n);
    return err == PS_OK ? EXIT_SUCCESS : psctl_failed(&e);
}

int
psctl_look(struct psctl *p, enum view_kind kind)
{
    struct question question = {.kind = kind == VIEW_PING ? ASK_PINGS : ASK_QUERIES,
                                .queries = look_asks(p, kind),
                                .job = p->settings.job,
                                .pings = (size_t)p->settings.count,
                                .timeout_ms = (int)p->settings.timeout_ms};
    int status = psctl_know_job(p);

    if (status != EXIT_SUCCESS)
        return status;
    return p->settings.watch_ms > 0 ? look_again(p, kind, &question) : look_once(p, kind, &question);
}
