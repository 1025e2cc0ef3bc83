/* Cursors are compared epoch first. */
#include "server/core/workers/cursor.h"

bool
cursor_equal(struct cursor a, struct cursor b)
{
    return a.epoch == b.epoch && a.position == b.position;
}

struct cursor
cursor_of(const Psd__Cursor *m)
{
    return m != NULL ? (struct cursor){m->epoch, m->position} : (struct cursor){0};
}

Psd__Cursor *
cursor_message(struct cursor c, Psd__Cursor *room)
{
    psd__cursor__init(room);
    room->epoch = c.epoch;
    room->position = c.position;
    return cursor_none(c) ? NULL : room;
}

struct cursor_span
cursor_span(const Psd__Push *m)
{
    return (struct cursor_span){cursor_of(m->cursor_from), cursor_of(m->cursor), m->cursor_from != NULL};
}

bool
cursor_span_equal(const struct cursor_span *a, const struct cursor_span *b)
{
    return cursor_equal(a->from, b->from) && cursor_equal(a->end, b->end) && a->begins == b->begins;
}
