/* Each variable, in all and on each shard. */
#include <inttypes.h>
#include <stdlib.h>

#include "client/tools/psctl/query/report_fields.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/psctl/views/views.h"
#include "client/tools/shared/output.h"

/* A variable's figures on one shard, or summed over several. */
struct var_sum {
    const struct variable_report *first;    /* for what is the same everywhere */
    uint64_t blocks, bytes, pushes, pushed; /* a push of a variable counts on each shard that has blocks of it */
    uint64_t pulls, pulled, refused, dropped;
    uint64_t version_min, version_max;
    double rate_min, rate_max; /* the learning rate of the next update: by version it is not the same everywhere */
};

static void
var_add(struct var_sum *sum, const struct variable_report *v)
{
    bool first = sum->blocks == 0;

    if (sum->first == NULL)
        sum->first = v;
    if (v->blocks > 0) {
        sum->version_min = first ? v->version_min : MIN(sum->version_min, v->version_min);
        sum->version_max = first ? v->version_max : MAX(sum->version_max, v->version_max);
        sum->rate_min = first ? v->learning_rate : MIN(sum->rate_min, v->learning_rate);
        sum->rate_max = first ? v->learning_rate : MAX(sum->rate_max, v->learning_rate);
    }
    sum->blocks += v->blocks;
    sum->bytes += v->bytes;
    sum->pushes += v->pushes;
    sum->pushed += v->pushed_bytes;
    sum->pulls += v->pulls;
    sum->pulled += v->pulled_bytes;
    sum->refused += v->refused;
    sum->dropped += v->dropped;
}

static void
var_shape(const struct variable_report *v, char *out, size_t size)
{
    size_t at = 0;

    if (v->rank == 0) {
        snprintf(out, size, "scalar");
        return;
    }
    for (size_t i = 0; i < v->rank && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%" PRIu64, i > 0 ? "x" : "", v->dims[i]);
}

static void
var_traffic(struct text_table *t, const struct var_sum *sum)
{
    cell_count(t, sum->pushes);
    cell_bytes(t, sum->pushed);
    cell_count(t, sum->pulls);
    cell_bytes(t, sum->pulled);
    cell_count(t, sum->refused);
    table_paint(t, sum->refused > 0 ? PAINT_WARNING : PAINT_PLAIN);
    cell_count(t, sum->dropped);
}

/* who: "0", "all". Names only where they change: on the first row of a variable. */
static void
var_row(struct text_table *t, const struct var_sum *sum, const char *who, bool named)
{
    const struct variable_report *v = named ? sum->first : NULL;
    char shape[256] = "";

    if (v != NULL)
        var_shape(v, shape, sizeof shape);
    table_row(t);
    table_cell(t, "%s", v != NULL ? v->job : "");
    table_cell(t, "%s", v != NULL ? v->name : "");
    table_cell(t, "%s", shape);
    table_cell(t, "%s", who);
    cell_count(t, sum->blocks);
    cell_bytes(t, sum->bytes);
    if (sum->version_min == sum->version_max)
        table_cell(t, "%" PRIu64, sum->version_min);
    else
        table_cell(t, "%" PRIu64 "-%" PRIu64, sum->version_min, sum->version_max);
    var_traffic(t, sum);
    if (sum->rate_min == sum->rate_max)
        table_cell(t, "%.4g", sum->rate_max);
    else
        table_cell(t, "%.4g-%.4g", sum->rate_min, sum->rate_max);
    cell_setting(t, v != NULL ? v->optimizer : "", v != NULL ? v->declared : "");
}

/* One variable: its sum, and below it each shard's part. Returns how many places it took. */
static size_t
var_print(struct text_table *t, const struct variable_entry *places, size_t len, bool parts)
{
    struct var_sum sum = {0};
    size_t n = 0;
    char who[16];

    while (n < len && variable_entry_same(&places[0], &places[n]))
        var_add(&sum, places[n++].v);
    var_row(t, &sum, "all", true);
    for (size_t i = 0; parts && i < n; i++) {
        struct var_sum part = {0};

        var_add(&part, places[i].v);
        snprintf(who, sizeof who, "%u", places[i].shard);
        var_row(t, &part, who, false);
    }
    return n;
}

/* All variables together, on shards from to less one. Versions of different variables have no meaningful sum. */
static void
vars_total_row(struct text_table *t, const struct shard_answer *answers, uint32_t from, uint32_t to,
               const char *heading, const char *who)
{
    struct var_sum sum = {0};

    for (uint32_t i = from; i < to; i++)
        for (size_t j = 0; answers[i].reached && answers[i].variables != NULL && j < answers[i].variables->len; j++)
            var_add(&sum, &answers[i].variables->rows[j]);
    table_row(t);
    table_cell(t, "%s", heading);
    table_cell(t, "%s", "");
    table_cell(t, "%s", "");
    table_cell(t, "%s", who);
    cell_count(t, sum.blocks);
    cell_bytes(t, sum.bytes);
    table_cell(t, "%s", "");
    var_traffic(t, &sum);
}

void
view_variables(const struct shard_answer *answers, uint32_t n, const struct printer *page)
{
    size_t len, at = 0;
    struct variable_entry *places = variable_entries(answers, n, &len);
    struct text_table *t;
    char who[16];

    if (len == 0) {
        fprintf(page->out, "no variables\n");
        free(places);
        return;
    }
    t = table_of(output_variables, "lllrrrrrrrrrrrl");
    while (at < len)
        at += var_print(t, places + at, len - at, n > 1);
    vars_total_row(t, answers, 0, n, "total", "all");
    for (uint32_t i = 0; n > 1 && i < n; i++) {
        snprintf(who, sizeof who, "%u", answers[i].shard);
        vars_total_row(t, answers, i, i + 1, "", who);
    }
    table_print_free(t, page);
    free(places);
}
