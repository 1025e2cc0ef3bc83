#include "client/tools/psctl/views/ranking.h"

#include <math.h>
#include <stdlib.h>

#include "client/tools/psctl/query/rates.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/shared/output.h"
#include "common/core/base/pattern.h"
#include "common/core/base/units.h"

const unsigned ranking_queries = ASK_BIT(PS_QUERY_VARIABLES) | ASK_BIT(PS_QUERY_STATUS);

/* Counters that have rates, in the order of their columns; then others. */
enum figure { PUSHES, PUSHED, PULLS, PULLED, RATED, REFUSED = RATED, DROPPED, BYTES, AGES, FIGURES };

static const struct {
    const char *member, *rate;
} figures[FIGURES] = {
    [PUSHES] = {"pushes", "pushes_per_second"},
    [PUSHED] = {"pushed_bytes", "pushed_bytes_per_second"},
    [PULLS] = {"pulls", "pulls_per_second"},
    [PULLED] = {"pulled_bytes", "pulled_bytes_per_second"},
    [REFUSED] = {"refused", NULL},
    [DROPPED] = {"dropped", NULL},
    [BYTES] = {"bytes", NULL},
    [AGES] = {"ages", NULL},
};

struct row {
    const json_t *first; /* a report, for what is the same everywhere */
    uint64_t sum[FIGURES], version;
    double rate[FIGURES]; /* NAN: not known */
    double key;           /* to sort by */
    size_t order;         /* by job and name */
};

static void
row_add(struct row *row, const struct rates *r, const struct place *p)
{
    for (int f = 0; f < FIGURES; f++) {
        row->sum[f] += member_number(p->report, figures[f].member);
        row->rate[f] = rates_add(row->rate[f], rates_variable(r, p, figures[f].member));
    }
    row->version = MAX(row->version, member_number(p->report, "version_max"));
}

/* NAN: it was never pushed. */
static double
row_age(const struct row *row)
{
    return row->sum[PUSHES] > 0 ? (double)row->sum[AGES] / (double)row->sum[PUSHES] : NAN;
}

static double
row_key(const struct row *row, enum ranking_by by)
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
compare(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    return x->key != y->key ? (x->key < y->key) - (x->key > y->key) : (x->order > y->order) - (x->order < y->order);
}

/* Those of one variable stand together. */
static size_t
fill(struct row *rows, const struct rates *r, const struct place *places, size_t len, const char *pattern)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        if (pattern != NULL && !pattern_matches(pattern, member_text(places[i].report, "name")))
            continue;
        if (i == 0 || n == 0 || !place_same(&places[i - 1], &places[i])) {
            rows[n] = (struct row){.first = places[i].report, .order = n};
            for (int f = 0; f < FIGURES; f++)
                rows[n].rate[f] = NAN;
            n++;
        }
        row_add(&rows[n - 1], r, &places[i]);
    }
    return n;
}

/* All that the pattern names, sorted, the caller's; NULL when out of memory, which reads as none. */
static struct row *
rank(const struct sample *before, const struct sample *now, const struct ranking_choice *choice, size_t *n)
{
    size_t len = 0;
    struct place *places = places_gather(now->answers, now->n, "variable", &len);
    struct row *rows = calloc(len + 1, sizeof *rows);
    struct rates rates;

    *n = 0;
    if (rates_init(&rates, before, now) == PS_OK && rows != NULL)
        *n = fill(rows, &rates, places, len, choice->pattern);
    rates_finish(&rates);
    free(places);
    for (size_t i = 0; i < *n; i++)
        rows[i].key = row_key(&rows[i], choice->by);
    if (*n > 0)
        qsort(rows, *n, sizeof *rows, compare);
    return rows;
}

static void
row_print(struct table *t, const struct row *row)
{
    table_row(t);
    table_cell(t, "%s", member_text(row->first, "job"));
    table_cell(t, "%s", member_text(row->first, "name"));
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
    table_cell(t, "%s", member_text(row->first, "optimizer"));
}

void
ranking_print(const struct sample *before, const struct sample *now, const struct ranking_choice *choice,
              const struct page *page)
{
    size_t n;
    struct row *rows = rank(before, now, choice, &n);
    struct table *t = table_of(output_ranking, "llrrrrrrrrrrrrrl");
    struct units u;

    for (size_t i = 0; i < MIN(n, choice->top); i++)
        row_print(t, &rows[i]);
    if (n > 0)
        table_print(t, page);
    else
        fprintf(page->out, "no variables\n");
    table_free(t);
    if (n > choice->top)
        page_line(page, PAINT_DIM, "and %s more", units_count(n - choice->top, &u));
    free(rows);
}

static json_t *
real_or_null(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *
row_json(const struct row *row)
{
    const json_t *dims = json_object_get(row->first, "dims");
    json_t *object =
        json_pack("{s:s,s:s,s:o,s:I,s:I}", "job", member_text(row->first, "job"), "name",
                  member_text(row->first, "name"), "dims", dims != NULL ? json_deep_copy(dims) : json_array(), "bytes",
                  (json_int_t)row->sum[BYTES], "version", (json_int_t)row->version);

    for (int f = 0; f < BYTES; f++) {
        json_object_set_new(object, figures[f].member, json_integer((json_int_t)row->sum[f]));
        if (figures[f].rate != NULL)
            json_object_set_new(object, figures[f].rate, real_or_null(row->rate[f]));
    }
    json_object_set_new(object, "age", real_or_null(row_age(row)));
    json_object_set_new(object, "optimizer", json_string(member_text(row->first, "optimizer")));
    return object;
}

json_t *
ranking_json(const struct sample *before, const struct sample *now, const struct ranking_choice *choice)
{
    size_t n;
    struct row *rows = rank(before, now, choice, &n);
    json_t *list = json_array();

    for (size_t i = 0; i < MIN(n, choice->top); i++)
        json_array_append_new(list, row_json(&rows[i]));
    free(rows);
    return list;
}
