/* Variables by id. Ids rise and are not given again within a life of the data (its boot), so that a client or a value
 * of before cannot name the variable that came after: what is dropped leaves a hole. So the table is cut into pages of
 * VARIABLE_PAGE ids, and one that is empty is freed.
 *
 *     for (v = variable_table_from(t, 1); v != NULL; v = variable_table_from(t, v->id + 1))    // in order of id
 *     VARIABLE_EACH (s, v)              // model/variable.h: without dropped ones
 *
 * The greatest id is STORE_VAR_MAX. Past it ids that are free are given again, from the least on; model/declare.c says
 * when that is safe. Pure. */
#ifndef SERVER_CORE_TURN_VARIABLE_TABLE_H
#define SERVER_CORE_TURN_VARIABLE_TABLE_H

#include "common/core/base/base.h"
#include "server/core/store/store.h"

struct variable;

#define VARIABLE_PAGE 1024u

struct variable_page {
    uint32_t len; /* that are there */
    struct variable *at[VARIABLE_PAGE];
};

struct variable_table {
    struct variable_page **pages; /* [pages_len], NULL: empty */
    uint32_t pages_len;
    uint32_t next; /* the id after the greatest that was given; 0: none was */
};

/* NULL: there is none. */
static inline struct variable *
variable_table_get(const struct variable_table *t, uint32_t id)
{
    const struct variable_page *page = id / VARIABLE_PAGE < t->pages_len ? t->pages[id / VARIABLE_PAGE] : NULL;

    return page != NULL ? page->at[id % VARIABLE_PAGE] : NULL;
}

/* The first whose id is this one or a later one. NULL: there is none. */
struct variable *variable_table_from(const struct variable_table *t, uint32_t id);

/* The id of the next new variable, at most max; *again: it was given before. 0: all are taken. */
uint32_t variable_table_next_id(const struct variable_table *t, uint32_t max, bool *again);

/* Under an id of at most STORE_VAR_MAX that is free. False: no memory. */
bool variable_table_put(struct variable_table *t, uint32_t id, struct variable *v) PS_MUST_USE;
void variable_table_remove(struct variable_table *t, uint32_t id);

/* Ids before this one are not given any more. */
void variable_table_given(struct variable_table *t, uint32_t next);

void variable_table_finish(struct variable_table *t); /* the variables are the caller's */

#endif
