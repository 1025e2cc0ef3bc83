#include "client/core/group/group_early_messages.h"

#include <stdlib.h>
#include <string.h>

/* ---- Messages ---- */

bool
group_kept_add(struct group_kept *h, const void *payload, uint64_t bytes)
{
    struct group_message *m = malloc(sizeof *m + bytes);

    if (m == NULL)
        return false;
    m->next = NULL;
    m->bytes = (uint32_t)bytes;
    if (bytes > 0)
        memcpy(m->data, payload, bytes);
    *(h->last != NULL ? &h->last->next : &h->first) = m;
    h->last = m;
    h->len++;
    return true;
}

void
group_kept_remove(struct group_kept *h)
{
    struct group_message *m = h->first;

    h->first = m->next;
    if (h->first == NULL)
        h->last = NULL;
    h->len--;
    free(m);
}

void
group_kept_clear(struct group_kept *h)
{
    while (h->first != NULL)
        group_kept_remove(h);
}

/* ---- Operations ---- */

struct group_early *
group_early_find(const struct group_early_list *list, uint64_t id)
{
    struct group_early *early = list->first;

    while (early != NULL && early->id != id)
        early = early->next;
    return early;
}

struct group_early *
group_early_add(struct group_early_list *list, uint64_t id, const struct group_signature *s, uint32_t ready)
{
    struct group_early *early = malloc(sizeof *early);

    if (early == NULL)
        return NULL;
    *early = (struct group_early){.id = id, .signature = *s, .ready = ready};
    *(list->last != NULL ? &list->last->next : &list->first) = early;
    list->last = early;
    list->len++;
    return early;
}

struct group_early *
group_early_take(struct group_early_list *list, uint64_t id)
{
    struct group_early *before = NULL, *early = list->first;

    for (; early != NULL && early->id != id; early = early->next)
        before = early;
    if (early == NULL)
        return NULL;
    *(before != NULL ? &before->next : &list->first) = early->next;
    if (list->last == early)
        list->last = before;
    list->len--;
    return early;
}

void
group_early_clear(struct group_early_list *list)
{
    struct group_early *early;

    while ((early = list->first) != NULL) {
        list->first = early->next;
        group_kept_clear(&early->kept);
        free(early);
    }
    *list = (struct group_early_list){0};
}
