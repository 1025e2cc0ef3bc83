#include "client/examples/digits/report.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/core/base/base.h"

#include "client/examples/digits/plot.h"
#include "ps_timeline.h"

#define AGE_BAR 32

static const char *
bytes_text(uint64_t bytes, char text[32])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double n = (double)bytes;
    size_t unit = 0;

    while (n >= 1024 && unit + 1 < ARRAY_LEN(units)) {
        n /= 1024;
        unit++;
    }
    snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", n, units[unit]);
    return text;
}

static const char *
report_plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* "3 workers, 2 shards, " where there are shards, and the strategy. */
static const char *
report_cluster(const struct train *t, char *text, size_t size)
{
    uint32_t workers = ps_strategy_workers(t->strategy), shards;
    ps_client *client = ps_strategy_client(t->strategy);
    int used = 0;

    text[0] = '\0';
    if (client != NULL) {
        shards = ps_client_shards(client);
        used = snprintf(text, size, "%u worker%s, %u shard%s, ", workers, report_plural(workers), shards,
                        report_plural(shards));
    }
    ps_strategy_describe(t->strategy, text + used, size - (size_t)used);
    return text;
}

void
report_start(FILE *file, const struct train *t)
{
    const struct digits_options *o = t->options;
    char strategy[160], optimizer[PS_OPTIMIZER_TEXT_MAX], network[512];

    fprintf(file, "%" PRIu64 " images to train on, %" PRIu64 " held out; %s\n", t->data->rows, t->held_out->rows,
            ps_device_describe(ps_strategy_device(t->strategy, 0)));
    fprintf(file, "network %s; %" PRIu64 " weights\n",
            ps_network_describe(t->replica[0].network, network, sizeof network),
            ps_network_elements(t->replica[0].network));
    ps_optimizer_describe(&o->optimizer, optimizer, sizeof optimizer);
    fprintf(file, "%s, %s, batch %" PRIu64 ", %" PRIu64 " epochs of %" PRIu64 " steps, seed %" PRIu64 "\n",
            report_cluster(t, strategy, sizeof strategy), optimizer, o->batch, o->epochs, t->steps_each, o->seed);
    fflush(file);
}

enum ps_err
report_check_plot(const struct digits_options *o, struct ps_error *error)
{
    const char *path = o->svg;
    char *copy;
    int allowed;

    if (path[0] == '\0')
        return PS_OK;
    if ((copy = strdup(path)) == NULL)
        return ps_fail(error, PS_ERR_NOMEM, "out of memory");
    allowed = access(path, F_OK) == 0 ? access(path, W_OK) : access(dirname(copy), W_OK | X_OK);
    free(copy);
    return allowed == 0 ? PS_OK : ps_fail(error, PS_ERR_IO, "--svg %s: %s", path, strerror(errno));
}

enum ps_err
report_count(const struct train *t, struct digits_counts *out, struct ps_error *error)
{
    ps_client *client = ps_strategy_client(t->strategy);
    enum ps_err err;
    char *json;

    memset(out, 0, sizeof *out);
    for (uint32_t s = 0; client != NULL && s < ps_client_shards(client); s++) {
        err = ps_client_query(client, s, PS_QUERY_VARIABLES, t->options->job, -1, &json, error);
        if (err != PS_OK)
            return err;
        counts_add_variables(out, json);
        ps_free(json);
        if ((err = ps_client_query(client, s, PS_QUERY_STATS, NULL, -1, &json, error)) != PS_OK)
            return err;
        counts_add_stats(out, json);
        ps_free(json);
    }
    return PS_OK;
}

/* One row per bucket up to the last that holds any; the longest bar is AGE_BAR wide. */
static void
print_ages(FILE *file, const struct digits_counts *c, bool utf8)
{
    size_t last = 0;
    uint64_t most = 0, sum = 0;
    char range[48];

    for (size_t i = 0; i < COUNTS_AGES; i++) {
        most = MAX(most, c->ages[i]);
        sum += c->ages[i];
        if (c->ages[i] > 0)
            last = i;
    }
    if (sum == 0)
        return;
    fprintf(file, "ages               updates that a block took between a push and its pull, over all pushes\n");
    for (size_t i = 0; i <= last; i++) {
        unsigned cells = (unsigned)((c->ages[i] * AGE_BAR + most - 1) / most); /* at least one for any */

        fprintf(file, "  %9s  %5.1f %%  ", counts_age_range(i, range), 100.0 * (double)c->ages[i] / (double)sum);
        for (unsigned k = 0; k < cells; k++)
            fputs(utf8 ? "\u2588" : "#", file);
        fprintf(file, " %" PRIu64 "\n", c->ages[i]);
    }
}

/* Of a step of this worker, in the mean: "0.41 ms a step: compute 9 %, push 61 %, bound 30 %". */
static void
print_time_spent(FILE *file)
{
    struct ps_time_spent spent;
    uint64_t sum = 0;

    ps_timeline_spent(&spent);
    for (int i = 0; i < PS_TIMES; i++)
        sum += spent.ns[i];
    if (spent.steps == 0 || sum == 0)
        return;
    fprintf(file, "spent              %.2f ms a step of this worker", (double)sum / (double)spent.steps / 1e6);
    for (int i = 0, n = 0; i < PS_TIMES; i++)
        if (200 * spent.ns[i] >= sum) /* what rounds to a percent */
            fprintf(file, "%s %s %.0f %%", n++ == 0 ? ":" : ",", ps_time_name((enum ps_time)i),
                    100.0 * (double)spent.ns[i] / (double)sum);
    fprintf(file, "\n");
}

void
report_print(FILE *file, const struct train *t, const struct ps_network_result *held_out, const struct digits_counts *c)
{
    double examples = train_examples(t);
    struct train_totals totals = train_totals(t);
    struct ps_strategy_stats stats;
    char pushed[32], pulled[32], sent[32], plain[32];

    ps_strategy_stats(t->strategy, &stats);
    if (t->history.steps == 0)
        fprintf(file,
                "nothing was left to train: job \"%s\" has done its %" PRIu64 " steps (another --job starts anew)\n",
                t->options->job, t->steps);
    fprintf(file, "held-out accuracy  %.2f %%, %zu of %zu images\n",
            100.0 * (double)held_out->correct / (double)held_out->rows, held_out->correct, held_out->rows);
    if (totals.last_rows > 0)
        fprintf(file, "training accuracy  %.2f %%, loss %.4f, over the %.0f images of the last epoch\n",
                100.0 * totals.last_correct / totals.last_rows, totals.last_loss / totals.last_rows, totals.last_rows);
    fprintf(file, "time               %.2f s, %.0f examples/s\n", t->seconds,
            t->seconds > 0 ? examples / t->seconds : 0);
    print_time_spent(file);
    if (ps_strategy_client(t->strategy) != NULL) {
        fprintf(file, "pushed             %s by all workers\n", bytes_text(c->pushed_bytes, pushed));
        fprintf(file, "pulled             %s\n", bytes_text(c->pulled_bytes, pulled));
    }
    if (t->options->compress.kind != PS_COMPRESS_NONE && stats.gradient_sent > 0)
        fprintf(file, "compressed         %s, %s of gradients sent by this worker instead of %s\n",
                ps_compress_name(t->options->compress.kind), bytes_text(stats.gradient_sent, sent),
                bytes_text(stats.gradient_plain, plain));
    if (c->dropped > 0 || c->refused > 0)
        fprintf(file, "dropped            %" PRIu64 " gradients of blocks (too old or too late), refused %" PRIu64 "\n",
                c->dropped, c->refused);
    if (stats.rejoins > 0)
        fprintf(file, "rejoined           %" PRIu64 " times after a lapsed lease\n", stats.rejoins);
    if (stats.given_over > 0)
        fprintf(file, "given over         %" PRIu64 " exchanges with the shards, resumed %" PRIu64 " times\n",
                stats.given_over, stats.resumed);
    if (stats.reforms > 0)
        fprintf(file, "formed again       %" PRIu64 " times, of the workers that were left\n", stats.reforms);
    print_ages(file, c, t->progress.utf8);
    fflush(file);
}

enum ps_err
report_plot(FILE *file, const struct train *t, struct ps_error *error)
{
    const struct train_history *h = &t->history;
    const struct plot_series loss[] = {
        {.name = "each step", .style = PLOT_FAINT, .n = h->steps, .x = h->epoch, .y = h->loss},
        {.name = "smoothed", .style = PLOT_LINE, .n = h->steps, .x = h->epoch, .y = h->smooth},
    };
    const struct plot_series accuracy = {
        .style = PLOT_LINE, .colour = 1, .n = h->epochs, .x = h->epoch_at, .y = h->accuracy};
    char strategy[160], title[256], *full;
    const struct plot_chart charts[] = {
        {title, "epoch", "cross-entropy", true, loss, ARRAY_LEN(loss)},
        {"Accuracy on held-out images", "epoch", "percent", false, &accuracy, 1},
    };
    enum ps_err err;

    if (t->options->svg[0] == '\0' || h->steps == 0)
        return PS_OK;
    snprintf(title, sizeof title, "Training loss, %s", report_cluster(t, strategy, sizeof strategy));
    if ((err = plot_save(t->options->svg, charts, ARRAY_LEN(charts), error)) != PS_OK)
        return err;
    full = realpath(t->options->svg, NULL);
    fprintf(file, "loss curve         %s\n", full != NULL ? full : t->options->svg);
    fflush(file);
    free(full);
    return PS_OK;
}
