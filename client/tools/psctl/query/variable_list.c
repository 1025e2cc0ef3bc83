#include "client/tools/psctl/query/variable_list.h"

#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/query/query_all.h"
#include "client/tools/psctl/query/report_fields.h"

#define CHUNK_BYTES (256 * KIB)
#define DIMS_MAX    16 /* of one report */

struct variable_chunk {
    struct variable_chunk *next;
    size_t used, size;
    uint64_t data[];
};

void
variable_list_free(struct variable_list *list)
{
    struct variable_chunk *chunk;

    if (list == NULL)
        return;
    while ((chunk = list->chunks) != NULL) {
        list->chunks = chunk->next;
        free(chunk);
    }
    free(list->rows);
    free(list);
}

/* ---- Rows ---- */

/* A copy that lives as long as the list, aligned for numbers. NULL: no memory. */
static const void *
list_copy(struct variable_list *list, const void *from, size_t len)
{
    struct variable_chunk *chunk = list->chunks;
    size_t need = round_up(len, sizeof(uint64_t)), size = MAX((size_t)CHUNK_BYTES, need);

    if (chunk == NULL || chunk->size - chunk->used < need) {
        if ((chunk = malloc(sizeof *chunk + size)) == NULL)
            return NULL;
        *chunk = (struct variable_chunk){.next = list->chunks, .size = size};
        list->chunks = chunk;
    }
    chunk->used += need;
    return memcpy((char *)chunk->data + chunk->used - need, from, len);
}

/* The text of the row before, when it is the same. */
static const char *
list_text(struct variable_list *list, const char *before, const char *text)
{
    if (before != NULL && strcmp(before, text) == 0)
        return before;
    return list_copy(list, text, strlen(text) + 1);
}

static const uint64_t *
list_dims(struct variable_list *list, const struct variable_report *before, const json_t *dims, uint32_t *rank)
{
    uint64_t values[DIMS_MAX] = {0};
    size_t n = MIN(json_array_size(dims), (size_t)DIMS_MAX);

    for (size_t i = 0; i < n; i++)
        values[i] = (uint64_t)json_integer_value(json_array_get(dims, i));
    *rank = (uint32_t)n;
    if (before != NULL && before->rank == n && memcmp(before->dims, values, n * sizeof *values) == 0)
        return before->dims;
    return list_copy(list, values, MAX(n, (size_t)1) * sizeof *values);
}

static bool
list_keep_json(struct variable_list *list, struct variable_report *row, const json_t *report)
{
    char *text = list->keeps_json ? json_dumps(report, JSON_COMPACT) : NULL;

    row->json = text != NULL ? list_copy(list, text, strlen(text) + 1) : NULL;
    free(text);
    return row->json != NULL || !list->keeps_json;
}

static bool
list_grow(struct variable_list *list)
{
    size_t room = MAX(2 * list->room, (size_t)64);
    struct variable_report *grown;

    if (list->len < list->room)
        return true;
    if ((grown = reallocarray(list->rows, room, sizeof *grown)) == NULL)
        return false;
    list->rows = grown;
    list->room = room;
    return true;
}

static bool
list_add(struct variable_list *list, const json_t *report)
{
    const struct variable_report *before;
    struct variable_report *row;

    if (!list_grow(list))
        return false;
    before = list->len > 0 ? &list->rows[list->len - 1] : NULL;
    row = &list->rows[list->len];
    *row = (struct variable_report){.blocks = field_number(report, "blocks"),
                                    .bytes = field_number(report, "bytes"),
                                    .version_min = field_number(report, "version_min"),
                                    .version_max = field_number(report, "version_max"),
                                    .pushes = field_number(report, "pushes"),
                                    .pushed_bytes = field_number(report, "pushed_bytes"),
                                    .pulls = field_number(report, "pulls"),
                                    .pulled_bytes = field_number(report, "pulled_bytes"),
                                    .refused = field_number(report, "refused"),
                                    .dropped = field_number(report, "dropped"),
                                    .ages = field_number(report, "ages"),
                                    .learning_rate = field_real(report, "learning_rate")};
    row->job = list_text(list, before != NULL ? before->job : NULL, field_text(report, "job"));
    row->name = list_text(list, NULL, field_text(report, "name"));
    row->optimizer = list_text(list, before != NULL ? before->optimizer : NULL, field_text(report, "optimizer"));
    row->declared = list_text(list, before != NULL ? before->declared : NULL, field_text(report, "declared"));
    row->dims = list_dims(list, before, json_object_get(report, "dims"), &row->rank);
    if (row->job == NULL || row->name == NULL || row->optimizer == NULL || row->declared == NULL || row->dims == NULL ||
        !list_keep_json(list, row, report))
        return false;
    list->len++;
    return true;
}

bool
variable_list_add(struct variable_list *list, const json_t *variables)
{
    const json_t *report;
    size_t i;

    json_array_foreach(variables, i, report)
    {
        if (!list_add(list, report))
            return false;
    }
    return true;
}

static int
list_compare_names(const void *a, const void *b)
{
    const struct variable_report *x = a, *y = b;
    int order = x->job != y->job ? strcmp(x->job, y->job) : 0;

    return order != 0 ? order : strcmp(x->name, y->name);
}

void
variable_list_sort(struct variable_list *list)
{
    if (list->len > 0)
        qsort(list->rows, list->len, sizeof *list->rows, list_compare_names);
}

/* ---- Of all shards ---- */

static int
entry_compare(const void *a, const void *b)
{
    const struct variable_entry *x = a, *y = b;
    int order = list_compare_names(x->v, y->v);

    return order != 0 ? order : (x->shard > y->shard) - (x->shard < y->shard);
}

bool
variable_entry_same(const struct variable_entry *a, const struct variable_entry *b)
{
    return list_compare_names(a->v, b->v) == 0;
}

static size_t
entries_of(const struct shard_answer *a)
{
    return a->reached && a->variables != NULL ? a->variables->len : 0;
}

struct variable_entry *
variable_entries(const struct shard_answer *answers, uint32_t n, size_t *len)
{
    struct variable_entry *entries;
    size_t total = 0;

    for (uint32_t i = 0; i < n; i++)
        total += entries_of(&answers[i]);
    *len = 0;
    if ((entries = calloc(total + 1, sizeof *entries)) == NULL)
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        for (size_t j = 0; j < entries_of(&answers[i]); j++)
            entries[(*len)++] = (struct variable_entry){.v = &answers[i].variables->rows[j], .shard = answers[i].shard};
    qsort(entries, *len, sizeof *entries, entry_compare);
    return entries;
}

const struct variable_entry *
variable_entries_find(const struct variable_entry *entries, size_t len, const struct variable_entry *like)
{
    return len > 0 ? bsearch(like, entries, len, sizeof *entries, entry_compare) : NULL;
}
