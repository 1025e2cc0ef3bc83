/* Requests, the sequence window and request ids of a link. See request_pool.h. */
#include "client/core/shards/request_pool.h"

#include <stdlib.h>
#include <string.h>

#define SEND_WINDOW_MIN   64
#define REQUEST_IDS_MIN   64
#define NO_SLOT           UINT32_MAX
#define VERSIONS_KEPT_MAX 64 /* a request on the free list keeps no larger list of versions */

enum ps_err
request_versions_reserve(struct request_versions *v, size_t n)
{
    uint64_t *grown;

    if (n <= v->room)
        return PS_OK;
    if ((grown = realloc(v->each, n * sizeof(*grown))) == NULL)
        return PS_ERR_NOMEM;
    v->each = grown;
    v->room = n;
    return PS_OK;
}

enum ps_err
part_versions_put(struct request_versions *v, uint32_t blocks, uint32_t i, uint64_t version)
{
    if (i == 0)
        v->same = version;
    if (!v->use_each && version == v->same)
        return PS_OK;
    if (request_versions_reserve(v, blocks) != PS_OK)
        return PS_ERR_NOMEM;
    for (uint32_t j = 0; j < i && !v->use_each; j++)
        v->each[j] = v->same;
    v->use_each = true;
    v->each[i] = version;
    return PS_OK;
}

struct request *
request_pool_get(struct request_pools *p)
{
    struct request *part = p->parts;
    uint64_t *each;
    size_t room;

    if (part == NULL)
        return calloc(1, sizeof(*part));
    p->parts = part->next;
    each = part->versions.each;
    room = part->versions.room;
    *part = (struct request){.versions = {.each = each, .room = room}};
    return part;
}

void
request_pool_put(struct request_pools *p, struct request *part)
{
    ps_assert(part->send == NULL && part->request == 0);
    request_pool_encoding_put(p, &part->encoding);
    if (part->versions.room > VERSIONS_KEPT_MAX) {
        free(part->versions.each);
        part->versions.each = NULL;
        part->versions.room = 0;
    }
    part->next = p->parts;
    p->parts = part;
}

struct send *
request_pool_send(struct request_pools *p)
{
    struct send *s = p->sends;

    if (s != NULL) {
        p->sends = s->free;
    } else {
        if ((s = calloc(1, sizeof(*s))) == NULL)
            return NULL;
        s->all = p->all_sends;
        p->all_sends = s;
    }
    s->part = NULL;
    s->spans.n = 0;
    s->out = (struct core_send){0};
    return s;
}

void
request_pool_send_put(struct request_pools *p, struct send *s)
{
    ps_assert(!s->out_there);
    request_pool_encoding_put(p, &s->encoding);
    s->free = p->sends;
    p->sends = s;
}

enum ps_err
request_pool_send_reserve(struct send *s, size_t size)
{
    uint8_t *grown;

    if (size <= s->head_room)
        return PS_OK;
    size = round_up(size, 256);
    if ((grown = realloc(s->head, size)) == NULL)
        return PS_ERR_NOMEM;
    s->head = grown;
    s->head_room = size;
    return PS_OK;
}

enum ps_err
request_pool_encoding(struct request_pools *p, size_t size, struct encoding *e)
{
    e->lent = 0;
    if (size >= BUFFER_SIZE_MIN && size <= BUFFER_SIZE_MAX)
        e->data = buffer_pool_take(&p->encodings, size, &e->lent);
    else
        e->data = malloc(size);
    return e->data != NULL ? PS_OK : PS_ERR_NOMEM;
}

void
request_pool_encoding_put(struct request_pools *p, struct encoding *e)
{
    if (e->lent > 0)
        buffer_pool_give(&p->encodings, e->data, e->lent);
    else
        free(e->data);
    *e = (struct encoding){0};
}

void
request_pools_finish(struct request_pools *p)
{
    struct request *part, *next_part;
    struct send *s, *next_send;

    for (part = p->parts; part != NULL; part = next_part) {
        next_part = part->next;
        free(part->versions.each);
        free(part);
    }
    for (s = p->all_sends; s != NULL; s = next_send) {
        next_send = s->all;
        free(s->head);
        request_pool_encoding_put(p, &s->encoding);
        spans_finish(&s->spans);
        free(s);
    }
    buffer_pool_finish(&p->encodings);
    *p = (struct request_pools){0};
}

void
request_list_insert_before(struct request_list *l, struct request *at, struct request *p)
{
    p->next = at;
    p->prev = at != NULL ? at->prev : l->last;
    if (p->prev != NULL)
        p->prev->next = p;
    else
        l->first = p;
    if (at != NULL)
        at->prev = p;
    else
        l->last = p;
}

void
request_list_append(struct request_list *l, struct request *p)
{
    request_list_insert_before(l, NULL, p);
}

void
request_list_remove(struct request_list *l, struct request *p)
{
    if (p->prev != NULL)
        p->prev->next = p->next;
    else
        l->first = p->next;
    if (p->next != NULL)
        p->next->prev = p->prev;
    else
        l->last = p->prev;
    p->prev = p->next = NULL;
}

/* Stands in the window for a push that was acknowledged ahead of an older message. */
static struct request acked_push;

void
send_window_init(struct send_window *w)
{
    *w = (struct send_window){.next = 1};
}

void
send_window_finish(struct send_window *w)
{
    free(w->ring);
    *w = (struct send_window){.next = 1};
}

bool
send_window_full(const struct send_window *w)
{
    return w->next - w->acked_through - 1 >= SHARD_LINK_UNACKED_MAX;
}

bool
send_window_empty(const struct send_window *w)
{
    return w->next == w->acked_through + 1;
}

/* A ring of twice the size; every number keeps its request. */
static enum ps_err
window_grow(struct send_window *w)
{
    uint64_t room = w->room == 0 ? SEND_WINDOW_MIN : w->room * 2, seq;
    struct request **ring = calloc(room, sizeof(struct request *));

    if (ring == NULL)
        return PS_ERR_NOMEM;
    for (seq = w->acked_through + 1; seq < w->next; seq++)
        ring[seq & (room - 1)] = w->ring[seq & (w->room - 1)];
    free(w->ring);
    w->ring = ring;
    w->room = room;
    return PS_OK;
}

enum ps_err
send_window_reserve(struct send_window *w, uint64_t more)
{
    enum ps_err err = PS_OK;

    while (err == PS_OK && w->next - w->acked_through - 1 + more > w->room)
        err = window_grow(w);
    return err;
}

enum ps_err
send_window_give(struct send_window *w, struct request *p)
{
    if (send_window_reserve(w, 1) != PS_OK)
        return PS_ERR_NOMEM;
    p->seq = w->next++;
    w->ring[p->seq & (w->room - 1)] = p;
    return PS_OK;
}

struct request *
send_window_find(const struct send_window *w, uint64_t seq)
{
    struct request *p = seq > w->acked_through && seq < w->next ? w->ring[seq & (w->room - 1)] : NULL;

    return p != &acked_push ? p : NULL;
}

static void
send_window_acked(struct send_window *w, uint64_t seq, struct request *mark)
{
    ps_assert(send_window_find(w, seq) != NULL);
    w->ring[seq & (w->room - 1)] = mark;
    while (w->acked_through + 1 < w->next && send_window_find(w, w->acked_through + 1) == NULL)
        w->acked_through++;
}

void
send_window_ack(struct send_window *w, uint64_t seq)
{
    send_window_acked(w, seq, NULL);
}

void
send_window_ack_push(struct send_window *w, uint64_t seq)
{
    send_window_acked(w, seq, &acked_push);
}

bool
send_window_push_acked(const struct send_window *w, uint64_t seq)
{
    return seq > w->acked_through && seq < w->next && w->ring[seq & (w->room - 1)] == &acked_push;
}

void
send_window_fill(struct send_window *w, uint64_t seq, struct request *p)
{
    ps_assert(seq > w->acked_through && seq < w->next && send_window_find(w, seq) == NULL);
    p->seq = seq;
    w->ring[seq & (w->room - 1)] = p;
}

void
send_window_cut(struct send_window *w, uint64_t last)
{
    uint64_t seq;

    ps_assert(last < w->next);
    if (last < w->acked_through) {
        send_window_reset(w, last);
        return;
    }
    for (seq = last + 1; seq < w->next; seq++)
        w->ring[seq & (w->room - 1)] = NULL;
    w->next = last + 1;
}

void
send_window_reset(struct send_window *w, uint64_t last)
{
    if (w->ring != NULL)
        memset(w->ring, 0, w->room * sizeof(struct request *));
    w->acked_through = last;
    w->next = last + 1;
}

void
request_ids_init(struct request_ids *r)
{
    *r = (struct request_ids){.free = NO_SLOT};
}

void
request_ids_finish(struct request_ids *r)
{
    free(r->slot);
    free(r->next_free);
    request_ids_init(r);
}

static enum ps_err
requests_grow(struct request_ids *r)
{
    uint32_t room = r->room == 0 ? REQUEST_IDS_MIN : r->room * 2;
    struct request **slot = realloc(r->slot, room * sizeof(struct request *));
    uint32_t *next_free;

    if (slot == NULL)
        return PS_ERR_NOMEM;
    r->slot = slot;
    if ((next_free = realloc(r->next_free, room * sizeof(*next_free))) == NULL)
        return PS_ERR_NOMEM;
    r->next_free = next_free;
    r->room = room;
    return PS_OK;
}

enum ps_err
request_ids_add(struct request_ids *r, struct request *p)
{
    uint32_t slot = r->free;

    ps_assert(p->request == 0);
    if (slot != NO_SLOT) {
        r->free = r->next_free[slot];
    } else {
        if (r->used == r->room && requests_grow(r) != PS_OK)
            return PS_ERR_NOMEM;
        slot = r->used++;
    }
    r->slot[slot] = p;
    p->request = (uint64_t)r->turn++ << 32 | (slot + REQUEST_ID_FIRST);
    return PS_OK;
}

struct request *
request_ids_find(const struct request_ids *r, uint64_t request)
{
    uint64_t slot = (request & UINT32_MAX) - REQUEST_ID_FIRST;

    if (slot >= r->used || r->slot[slot] == NULL || r->slot[slot]->request != request)
        return NULL;
    return r->slot[slot];
}

void
request_ids_remove(struct request_ids *r, struct request *p)
{
    uint32_t slot = (uint32_t)(p->request & UINT32_MAX) - REQUEST_ID_FIRST;

    if (p->request == 0)
        return;
    ps_assert(slot < r->used && r->slot[slot] == p);
    r->slot[slot] = NULL;
    r->next_free[slot] = r->free;
    r->free = slot;
    p->request = 0;
}

void
request_ids_clear(struct request_ids *r)
{
    uint32_t i;

    for (i = 0; i < r->used; i++)
        if (r->slot[i] != NULL)
            r->slot[i]->request = 0;
    r->used = 0;
    r->free = NO_SLOT;
}
