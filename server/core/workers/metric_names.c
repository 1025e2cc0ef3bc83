#include "server/core/workers/metric_names.h"

#include <stdlib.h>
#include <string.h>

size_t
metric_names_differ(const struct metric_names *m, size_t n, char *const *names)
{
    for (size_t i = 0; i < MIN(m->len, n); i++)
        if (strcmp(m->name[i], names[i]) != 0)
            return i;
    return SIZE_MAX;
}

bool
metric_names_extend(struct metric_names *m, size_t n, char *const *names)
{
    ps_assert(n <= WIRE_METRICS_MAX);
    while (m->len < n) {
        char *copy = strdup(names[m->len]);

        if (copy == NULL)
            return false;
        m->name[m->len++] = copy;
    }
    return true;
}

void
metric_names_clear(struct metric_names *m)
{
    for (size_t i = 0; i < m->len; i++)
        free(m->name[i]);
    *m = (struct metric_names){0};
}
