/* Parts, the sequence window and request ids of a link. See pending.h. */
#include "client/core/shards/pending.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_ROOM_MIN    64
#define REQUEST_ROOM_MIN   64
#define NO_SLOT            UINT32_MAX
#define VERSIONS_ROOM_KEPT 64 /* a part on the free list keeps no larger list of versions */

enum ps_err
part_versions_room(struct part_versions *v, size_t n)
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
part_versions_put(struct part_versions *v, uint32_t blocks, uint32_t i, uint64_t version)
{
    if (i == 0)
        v->same = version;
    if (!v->use_each && version == v->same)
        return PS_OK;
    if (part_versions_room(v, blocks) != PS_OK)
        return PS_ERR_NOMEM;
    for (uint32_t j = 0; j < i && !v->use_each; j++)
        v->each[j] = v->same;
    v->use_each = true;
    v->each[i] = version;
    return PS_OK;
}

struct part *
pool_part(struct pools *p)
{
    struct part *part = p->parts;
    uint64_t *each;
    size_t room;

    if (part == NULL)
        return calloc(1, sizeof(*part));
    p->parts = part->next;
    each = part->versions.each;
    room = part->versions.room;
    *part = (struct part){.versions = {.each = each, .room = room}};
    return part;
}

void
pool_part_put(struct pools *p, struct part *part)
{
    ps_assert(part->send == NULL && part->request == 0);
    pool_encoding_put(p, &part->encoding);
    if (part->versions.room > VERSIONS_ROOM_KEPT) {
        free(part->versions.each);
        part->versions.each = NULL;
        part->versions.room = 0;
    }
    part->next = p->parts;
    p->parts = part;
}

struct send *
pool_send(struct pools *p)
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
pool_send_put(struct pools *p, struct send *s)
{
    ps_assert(!s->out_there);
    pool_encoding_put(p, &s->encoding);
    s->free = p->sends;
    p->sends = s;
}

enum ps_err
send_head_room(struct send *s, size_t size)
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
pool_encoding(struct pools *p, size_t size, struct encoding *e)
{
    e->lent = 0;
    if (size >= BUFFER_SIZE_MIN && size <= BUFFER_SIZE_MAX)
        e->data = buffer_pool_take(&p->encodings, size, &e->lent);
    else
        e->data = malloc(size);
    return e->data != NULL ? PS_OK : PS_ERR_NOMEM;
}

void
pool_encoding_put(struct pools *p, struct encoding *e)
{
    if (e->lent > 0)
        buffer_pool_give(&p->encodings, e->data, e->lent);
    else
        free(e->data);
    *e = (struct encoding){0};
}

void
pools_finish(struct pools *p)
{
    struct part *part, *next_part;
    struct send *s, *next_send;

    for (part = p->parts; part != NULL; part = next_part) {
        next_part = part->next;
        free(part->versions.each);
        free(part);
    }
    for (s = p->all_sends; s != NULL; s = next_send) {
        next_send = s->all;
        free(s->head);
        pool_encoding_put(p, &s->encoding);
        spans_finish(&s->spans);
        free(s);
    }
    buffer_pool_finish(&p->encodings);
    *p = (struct pools){0};
}

void
parts_insert_before(struct parts *l, struct part *at, struct part *p)
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
parts_append(struct parts *l, struct part *p)
{
    parts_insert_before(l, NULL, p);
}

void
parts_remove(struct parts *l, struct part *p)
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
static struct part acked_push;

void
window_init(struct window *w)
{
    *w = (struct window){.next = 1};
}

void
window_finish(struct window *w)
{
    free(w->ring);
    *w = (struct window){.next = 1};
}

bool
window_full(const struct window *w)
{
    return w->next - w->acked_through - 1 >= LINK_UNACKED_MAX;
}

bool
window_empty(const struct window *w)
{
    return w->next == w->acked_through + 1;
}

/* A ring of twice the size; every number keeps its part. */
static enum ps_err
window_grow(struct window *w)
{
    uint64_t room = w->room == 0 ? WINDOW_ROOM_MIN : w->room * 2, seq;
    struct part **ring = calloc(room, sizeof(struct part *));

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
window_reserve(struct window *w, uint64_t more)
{
    enum ps_err err = PS_OK;

    while (err == PS_OK && w->next - w->acked_through - 1 + more > w->room)
        err = window_grow(w);
    return err;
}

enum ps_err
window_give(struct window *w, struct part *p)
{
    if (window_reserve(w, 1) != PS_OK)
        return PS_ERR_NOMEM;
    p->seq = w->next++;
    w->ring[p->seq & (w->room - 1)] = p;
    return PS_OK;
}

struct part *
window_find(const struct window *w, uint64_t seq)
{
    struct part *p = seq > w->acked_through && seq < w->next ? w->ring[seq & (w->room - 1)] : NULL;

    return p != &acked_push ? p : NULL;
}

static void
acked(struct window *w, uint64_t seq, struct part *mark)
{
    ps_assert(window_find(w, seq) != NULL);
    w->ring[seq & (w->room - 1)] = mark;
    while (w->acked_through + 1 < w->next && window_find(w, w->acked_through + 1) == NULL)
        w->acked_through++;
}

void
window_ack(struct window *w, uint64_t seq)
{
    acked(w, seq, NULL);
}

void
window_ack_push(struct window *w, uint64_t seq)
{
    acked(w, seq, &acked_push);
}

bool
window_push_acked(const struct window *w, uint64_t seq)
{
    return seq > w->acked_through && seq < w->next && w->ring[seq & (w->room - 1)] == &acked_push;
}

void
window_fill(struct window *w, uint64_t seq, struct part *p)
{
    ps_assert(seq > w->acked_through && seq < w->next && window_find(w, seq) == NULL);
    p->seq = seq;
    w->ring[seq & (w->room - 1)] = p;
}

void
window_cut(struct window *w, uint64_t last)
{
    uint64_t seq;

    ps_assert(last < w->next);
    if (last < w->acked_through) {
        window_reset(w, last);
        return;
    }
    for (seq = last + 1; seq < w->next; seq++)
        w->ring[seq & (w->room - 1)] = NULL;
    w->next = last + 1;
}

void
window_reset(struct window *w, uint64_t last)
{
    if (w->ring != NULL)
        memset(w->ring, 0, w->room * sizeof(struct part *));
    w->acked_through = last;
    w->next = last + 1;
}

void
requests_init(struct requests *r)
{
    *r = (struct requests){.free = NO_SLOT};
}

void
requests_finish(struct requests *r)
{
    free(r->slot);
    free(r->next_free);
    requests_init(r);
}

static enum ps_err
requests_grow(struct requests *r)
{
    uint32_t room = r->room == 0 ? REQUEST_ROOM_MIN : r->room * 2;
    struct part **slot = realloc(r->slot, room * sizeof(struct part *));
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
requests_add(struct requests *r, struct part *p)
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
    p->request = (uint64_t)r->turn++ << 32 | (slot + REQUEST_FIRST);
    return PS_OK;
}

struct part *
requests_find(const struct requests *r, uint64_t request)
{
    uint64_t slot = (request & UINT32_MAX) - REQUEST_FIRST;

    if (slot >= r->used || r->slot[slot] == NULL || r->slot[slot]->request != request)
        return NULL;
    return r->slot[slot];
}

void
requests_remove(struct requests *r, struct part *p)
{
    uint32_t slot = (uint32_t)(p->request & UINT32_MAX) - REQUEST_FIRST;

    if (p->request == 0)
        return;
    ps_assert(slot < r->used && r->slot[slot] == p);
    r->slot[slot] = NULL;
    r->next_free[slot] = r->free;
    r->free = slot;
    p->request = 0;
}

void
requests_clear(struct requests *r)
{
    uint32_t i;

    for (i = 0; i < r->used; i++)
        if (r->slot[i] != NULL)
            r->slot[i]->request = 0;
    r->used = 0;
    r->free = NO_SLOT;
}
