#include "view.h"

#include "client/tools/views/views.h"

static const char *const view_names[VIEWS] = {
    [VIEW_STATUS] = "status",   [VIEW_VARIABLES] = "variables", [VIEW_STATS] = "stats", [VIEW_WORKERS] = "workers",
    [VIEW_BLOCKED] = "blocked", [VIEW_JOBS] = "jobs",           [VIEW_PING] = "ping"};

const char *
view_name(enum view_kind kind)
{
    ps_assert(kind < VIEWS);
    return view_names[kind];
}

void
view_print(enum view_kind kind, const struct answer *answers, uint32_t n, const struct page *page)
{
    static void (*const prints[VIEWS])(const struct answer *answers, uint32_t n, const struct page *page) = {
        [VIEW_STATUS] = view_status,   [VIEW_VARIABLES] = view_variables, [VIEW_STATS] = view_stats,
        [VIEW_WORKERS] = view_workers, [VIEW_BLOCKED] = view_blocked,     [VIEW_JOBS] = view_jobs,
        [VIEW_PING] = view_ping,
    };
    bool any = false;

    ps_assert(kind < VIEWS);
    for (uint32_t i = 0; i < n; i++)
        any = any || answers[i].reached;
    if (any || kind == VIEW_STATUS)
        prints[kind](answers, n, page);
    for (uint32_t i = 0; i < n; i++)
        if (!answers[i].reached)
            page_line(page, PAINT_FAULT, "not reached: shard %u at %s: %s", answers[i].shard, answers[i].address,
                      answers[i].error.text);
}

static json_t *
answer_json(const struct answer *a)
{
    json_t *object = json_pack("{s:i,s:s,s:b}", "shard", (int)a->shard, "address", a->address, "reached", a->reached);
    struct ping_summary s;

    if (!a->reached)
        json_object_set_new(object, "error",
                            json_pack("{s:s,s:s,s:s}", "code", ps_err_name(a->error.code), "text", a->error.text,
                                      "peer", a->error.peer));
    if (a->report != NULL)
        json_object_set(object, "report", a->report);
    if (a->pings_len > 0) {
        s = ping_sum_up(a);
        json_object_set_new(object, "ping",
                            json_pack("{s:i,s:f,s:f,s:f}", "count", (int)a->pings_len, "min_us", s.least, "median_us",
                                      s.median, "max_us", s.most));
    }
    return object;
}

void
view_print_json(enum view_kind kind, const struct answer *answers, uint32_t n, const struct page *page)
{
    json_t *shards = json_array(), *root;
    int not_reached = 0;

    for (uint32_t i = 0; i < n; i++) {
        json_array_append_new(shards, answer_json(&answers[i]));
        not_reached += !answers[i].reached;
    }
    root = json_pack("{s:s,s:o,s:i}", "command", view_names[kind], "shards", shards, "not_reached", not_reached);
    json_dumpf(root, page->out, JSON_INDENT(2));
    fputc('\n', page->out);
    json_decref(root);
}
