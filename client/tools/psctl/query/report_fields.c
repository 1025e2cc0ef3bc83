#include "client/tools/psctl/query/report_fields.h"

#include <stdlib.h>
#include <string.h>

uint64_t
field_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    if (json_is_string(value))
        return strtoull(json_string_value(value), NULL, 10);
    return (uint64_t)json_integer_value(value);
}

double
field_real(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

const char *
field_text(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));

    return value != NULL ? value : "";
}

bool
field_flag(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

json_t *
answer_list(const struct shard_answer *a, const char *name)
{
    return a->reached ? json_object_get(a->report, name) : NULL;
}

static int
compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* By job, name, task, shard; a job has no task and a worker no name. */
static int
report_entry_compare(const void *a, const void *b)
{
    const struct report_entry *x = a, *y = b;
    int order = strcmp(field_text(x->report, "job"), field_text(y->report, "job"));

    if (order == 0)
        order = strcmp(field_text(x->report, "name"), field_text(y->report, "name"));
    if (order == 0)
        order = compare_numbers(field_number(x->report, "task"), field_number(y->report, "task"));
    return order != 0 ? order : compare_numbers(x->shard, y->shard);
}

bool
report_entry_same(const struct report_entry *a, const struct report_entry *b)
{
    return report_entry_compare(a, &(struct report_entry){.report = b->report, .shard = a->shard}) == 0;
}

struct report_entry *
report_entries_gather(const struct shard_answer *answers, uint32_t n, const char *member, size_t *len)
{
    struct report_entry *places;
    const json_t *entry;
    size_t total = 0, j;

    for (uint32_t i = 0; i < n; i++)
        total += json_array_size(answer_list(&answers[i], member));
    *len = 0;
    if ((places = calloc(total + 1, sizeof *places)) == NULL)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        json_array_foreach(answer_list(&answers[i], member), j, entry)
        {
            places[(*len)++] = (struct report_entry){.report = entry, .shard = answers[i].shard};
        }
    }
    qsort(places, *len, sizeof *places, report_entry_compare);
    return places;
}
