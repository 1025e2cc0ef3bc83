/* psctl top: a live page on a terminal, one page of two rounds elsewhere; as JSON a document for each round. */
#include <stdio.h>
#include <stdlib.h>

#include "client/tools/psctl/psctl.h"
#include "client/tools/psctl/top/top.h"
#include "client/tools/psctl/watch.h"

struct top {
    struct top_choice choice;
    bool live, json;
};

/* Without a terminal the first round only serves the second's rates. */
static void
top_draw(void *arg, const struct answer_sample *before, const struct answer_sample *now, size_t rows,
         const struct printer *page)
{
    const struct top *top = arg;

    if (top->json && before != NULL)
        render_print_answers(top_json(before, now), now->answers, now->n, page);
    else if (!top->json && (top->live || before != NULL))
        top_print(before, now, &top->choice, rows, page);
}

static void
top_key(void *arg, char key)
{
    struct top *top = arg;

    switch (key) {
    case 'l':
        top->choice.sort = TOP_BY_LOAD;
        break;
    case 'm':
        top->choice.sort = TOP_BY_MEMORY;
        break;
    case 'n':
        top->choice.sort = TOP_BY_NAME;
        break;
    default:
        break;
    }
}

int
psctl_top(struct psctl *p)
{
    bool json = p->settings.json, live = p->in_place && !json;
    struct top top = {.choice = {(enum top_sort)p->settings.sort, p->settings.all}, .live = live, .json = json};
    struct shard_question question = {.kind = QUERY_QUERIES,
                                      .queries = top_queries,
                                      .job = p->settings.job,
                                      .keeps_json = json,
                                      .timeout_ms = (int)p->settings.timeout_ms};
    struct watch watch = {.cluster = p->cluster,
                          .question = &question,
                          .interval_ms = (int)p->settings.interval_ms,
                          .in_place = live,
                          .colour = p->printer.colour,
                          .bare = true,
                          .title = "psctl top: l, m, n sort by load, memory, name",
                          .rounds = live || json ? 0 : 2,
                          .draw = top_draw,
                          .key = top_key,
                          .arg = &top};
    struct answer_sample last;
    struct ps_error e;
    int status = psctl_know_job(p);

    if (status != EXIT_SUCCESS)
        return status;
    if (watch_run(&watch, &last, &e) != PS_OK)
        return psctl_failed(&e);
    status = live || json || last.answers == NULL ? EXIT_SUCCESS : psctl_status_of(last.answers, last.n);
    answers_free(last.answers, last.n);
    return status;
}
