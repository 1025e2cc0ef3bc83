/* Pages are found by division; the list of pages grows by doubling. */
#include "server/core/turn/variable_table.h"

#include <stdlib.h>
#include <string.h>

struct variable *
variable_table_from(const struct variable_table *t, uint32_t id)
{
    for (uint32_t p = id / VARIABLE_PAGE, i = id % VARIABLE_PAGE; p < t->pages_len; p++, i = 0)
        for (; t->pages[p] != NULL && i < VARIABLE_PAGE; i++)
            if (t->pages[p]->at[i] != NULL)
                return t->pages[p]->at[i];
    return NULL;
}

uint32_t
variable_table_next_id(const struct variable_table *t, uint32_t max, bool *again)
{
    uint32_t id = MAX(t->next, 1u);

    *again = id > max;
    if (!*again)
        return id;
    for (id = 1; id <= max; id++)
        if (variable_table_get(t, id) == NULL)
            return id;
    return 0;
}

static bool
variable_table_grow(struct variable_table *t, uint32_t page)
{
    uint32_t len = MAX(t->pages_len, 4u);
    struct variable_page **bigger;

    if (page < t->pages_len)
        return true;
    while (len <= page)
        len *= 2;
    if ((bigger = realloc(t->pages, len * sizeof(struct variable_page *))) == NULL)
        return false;
    memset(bigger + t->pages_len, 0, (len - t->pages_len) * sizeof(struct variable_page *));
    t->pages = bigger;
    t->pages_len = len;
    return true;
}

bool
variable_table_put(struct variable_table *t, uint32_t id, struct variable *v)
{
    uint32_t p = id / VARIABLE_PAGE;

    ps_assert(id >= 1 && id <= STORE_VAR_MAX && variable_table_get(t, id) == NULL);
    if (!variable_table_grow(t, p))
        return false;
    if (t->pages[p] == NULL && (t->pages[p] = calloc(1, sizeof(struct variable_page))) == NULL)
        return false;
    t->pages[p]->at[id % VARIABLE_PAGE] = v;
    t->pages[p]->len++;
    variable_table_given(t, id + 1);
    return true;
}

void
variable_table_remove(struct variable_table *t, uint32_t id)
{
    struct variable_page *page = t->pages[id / VARIABLE_PAGE];

    ps_assert(page->at[id % VARIABLE_PAGE] != NULL);
    page->at[id % VARIABLE_PAGE] = NULL;
    if (--page->len > 0)
        return;
    free(page);
    t->pages[id / VARIABLE_PAGE] = NULL;
}

void
variable_table_given(struct variable_table *t, uint32_t next)
{
    t->next = MAX(t->next, next);
}

void
variable_table_finish(struct variable_table *t)
{
    for (uint32_t p = 0; p < t->pages_len; p++)
        free(t->pages[p]);
    free(t->pages);
    *t = (struct variable_table){0};
}
