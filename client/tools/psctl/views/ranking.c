#include "client/tools/psctl/views/ranking.h"

#include <math.h>
#include <stdlib.h>

#include "client/tools/psctl/query/rates.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/shared/output.h"
#include "common/core/base/pattern.h"
#include "common/core/base/units.h"

const unsigned ranking_queries = QUERY_BIT(PS_QUERY_VARIABLES) | QUERY_BIT(PS_QUERY_STATUS);

/* Counters that have rates, in the order of their columns; then others. */
enum figure { PUSHES, PUSHED, PULLS, PULLED, RATED, REFUSED = RATED, DROPPED, BYTES, AGES, FIGURES };

static const struct {
    const char *member, *rate;
    size_t figure;
} figures[FIGURES] = {
    [PUSHES] = {"pushes", "pushes_per_second", offsetof(struct variable_report, pushes)},
    [PUSHED] = {"pushed_bytes", "pushed_bytes_per_second", offsetof(struct variable_report, pushed_bytes)},
    [PULLS] = {"pulls", "pulls_per_second", offsetof(struct variable_report, pulls)},
    [PULLED] = {"pulled_bytes", "pulled_bytes_per_second", offsetof(struct variable_report, pulled_bytes)},
    [REFUSED] = {"refused", NULL, offsetof(struct variable_report, refused)},
    [DROPPED] = {"dropped", NULL, offsetof(struct variable_report, dropped)},
    [BYTES] = {"bytes", NULL, offsetof(struct variable_report, bytes)},
    [AGES] = {"ages", NULL, offsetof(struct variable_report, ages)},
};

struct ranking_row {
    const struct variable_report *first; /* for what is the same everywhere */
    uint64_t sum[FIGURES], version;
    double rate[FIGURES]; /* NAN: not known */
    double key;           /* to sort by */
    size_t order;         /* by job and name */
};

static void
row_add(struct ranking_row *row, const struct rates *r, const struct variable_entry *p)
{
    for (int f = 0; f < FIGURES; f++) {
        row->sum[f] += variable_figure(p->v, figures[f].figure);
        row->rate[f] = rates_add(row->rate[f], rates_variable(r, p, figures[f].figure));
    }
    row->version = MAX(row->version, p->v->version_max);
}

/* NAN: it was never pushed. */
static double
row_age(const struct ranking_row *row)
{
    return row->sum[PUSHES] > 0 ? (double)row->sum[AGES] / (double)row->sum[PUSHES] : NAN;
}

static double
row_key(const struct ranking_row *row, enum ranking_by by)
{
    static const enum figure of[] = {
        [RANKING_BYTES] = BYTES,   [RANKING_PUSHES] = PUSHES,   [RANKING_PUSHED] = PUSHED,  [RANKING_PULLS] = PULLS,
        [RANKING_PULLED] = PULLED, [RANKING_REFUSED] = REFUSED, [RANKING_DROPPED] = DROPPED};

    if (by == RANKING_VERSION)
        return (double)row->version;
    if (by == RANKING_AGE)
        return isnan(row_age(row)) ? -1 : row_age(row);
    return by == RANKING_BYTES || isnan(row->rate[of[by]]) ? (double)row->sum[of[by]] : row->rate[of[by]];
}

static int
ranking_compare(const void *a, const void *b)
{
    const struct ranking_row *x = a, *y = b;

    return x->key != y->key ? (x->key < y->key) - (x->key > y->key) : (x->order > y->order) - (x->order < y->order);
}

/* Those of one variable stand together. */
static size_t
ranking_fill(struct ranking_row *rows, const struct rates *r, const struct variable_entry *places, size_t len,
             const char *pattern)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        if (pattern != NULL && !pattern_matches(pattern, places[i].v->name))
            continue;
        if (i == 0 || n == 0 || !variable_entry_same(&places[i - 1], &places[i])) {
            rows[n] = (struct ranking_row){.first = places[i].v, .order = n};
            for (int f = 0; f < FIGURES; f++)
                rows[n].rate[f] = NAN;
            n++;
        }
        row_add(&rows[n - 1], r, &places[i]);
    }
    return n;
}

/* All that the pattern names, sorted, the caller's; NULL when out of memory, which reads as none. */
static struct ranking_row *
ranking_rank(const struct answer_sample *before, const struct answer_sample *now, const struct ranking_choice *choice,
             size_t *n)
{
    size_t len = 0;
    struct variable_entry *places = variable_entries(now->answers, now->n, &len);
    struct ranking_row *rows = calloc(len + 1, sizeof *rows);
    struct rates rates;

    *n = 0;
    if (rates_init(&rates, before, now) == PS_OK && rows != NULL)
        *n = ranking_fill(rows, &rates, places, len, choice->pattern);
    rates_finish(&rates);
    free(places);
    for (size_t i = 0; i < *n; i++)
        rows[i].key = row_key(&rows[i], choice->by);
    if (*n > 0)
        qsort(rows, *n, sizeof *rows, ranking_compare);
    return rows;
}

static void
row_print(struct text_table *t, const struct ranking_row *row)
{
    table_row(t);
    table_cell(t, "%s", row->first->job);
    table_cell(t, "%s", row->first->name);
    cell_bytes(t, row->sum[BYTES]);
    cell_count(t, row->version);
    for (int f = 0; f < RATED; f++) {
        bool bytes = f == PUSHED || f == PULLED;

        (bytes ? cell_bytes : cell_count)(t, row->sum[f]);
        (bytes ? cell_rate_bytes : cell_rate)(t, row->rate[f]);
    }
    if (isnan(row_age(row)))
        table_cell(t, "-");
    else
        table_cell(t, "%.2f", row_age(row));
    cell_count(t, row->sum[REFUSED]);
    table_paint(t, row->sum[REFUSED] > 0 ? PAINT_WARNING : PAINT_PLAIN);
    cell_count(t, row->sum[DROPPED]);
    table_cell(t, "%s", row->first->optimizer);
}

void
ranking_print(const struct answer_sample *before, const struct answer_sample *now, const struct ranking_choice *choice,
              const struct printer *page)
{
    size_t n;
    struct ranking_row *rows = ranking_rank(before, now, choice, &n);
    struct text_table *t = table_of(output_ranking, "llrrrrrrrrrrrrrl");
    struct units u;

    for (size_t i = 0; i < MIN(n, choice->top); i++)
        row_print(t, &rows[i]);
    if (n > 0)
        table_print(t, page);
    else
        fprintf(page->out, "no variables\n");
    table_free(t);
    if (n > choice->top)
        printer_line(page, PAINT_DIM, "and %s more", units_count(n - choice->top, &u));
    free(rows);
}

static json_t *
real_or_null(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *
row_json(const struct ranking_row *row)
{
    json_t *dims = json_array(), *object;

    for (size_t i = 0; i < row->first->rank; i++)
        json_array_append_new(dims, json_integer((json_int_t)row->first->dims[i]));
    object = json_pack("{s:s,s:s,s:o,s:I,s:I}", "job", row->first->job, "name", row->first->name, "dims", dims, "bytes",
                       (json_int_t)row->sum[BYTES], "version", (json_int_t)row->version);
    for (int f = 0; f < BYTES; f++) {
        json_object_set_new(object, figures[f].member, json_integer((json_int_t)row->sum[f]));
        if (figures[f].rate != NULL)
            json_object_set_new(object, figures[f].rate, real_or_null(row->rate[f]));
    }
    json_object_set_new(object, "age", real_or_null(row_age(row)));
    json_object_set_new(object, "optimizer", json_string(row->first->optimizer));
    return object;
}

json_t *
ranking_json(const struct answer_sample *before, const struct answer_sample *now, const struct ranking_choice *choice)
{
    size_t n;
    struct ranking_row *rows = ranking_rank(before, now, choice, &n);
    json_t *list = json_array();

    for (size_t i = 0; i < MIN(n, choice->top); i++)
        json_array_append_new(list, row_json(&rows[i]));
    free(rows);
    return list;
}
