/* Cursors are compared epoch first. */
#include "server/core/workers/data_cursor.h"

bool
data_cursor_equal(struct data_cursor a, struct data_cursor b)
{
    return a.epoch == b.epoch && a.position == b.position;
}

struct data_cursor
data_cursor_of(const Psd__Cursor *m)
{
    return m != NULL ? (struct data_cursor){m->epoch, m->position} : (struct data_cursor){0};
}

Psd__Cursor *
data_cursor_message(struct data_cursor c, Psd__Cursor *room)
{
    psd__cursor__init(room);
    room->epoch = c.epoch;
    room->position = c.position;
    return data_cursor_none(c) ? NULL : room;
}

struct data_cursor_span
data_cursor_span(const Psd__Push *m)
{
    return (struct data_cursor_span){data_cursor_of(m->cursor_from), data_cursor_of(m->cursor), m->cursor_from != NULL};
}

bool
data_cursor_span_equal(const struct data_cursor_span *a, const struct data_cursor_span *b)
{
    return data_cursor_equal(a->from, b->from) && data_cursor_equal(a->end, b->end) && a->begins == b->begins;
}
