/* Cursors: a place in a worker's training data, as pushes and ticks name it. */
#ifndef SERVER_CURSOR_H
#define SERVER_CURSOR_H

#include "common/core/base/base.h"
#include "proto/psd.pb-c.h"

#define CURSOR_CHUNK 8192 /* blocks whose counts of a step are in one row, of 1 KiB (data_steps.h) */

/* {0, 0}: none. */
struct cursor {
    uint64_t epoch, position;
};

/* A step of a worker's data: what Push.cursor_from and Push.cursor say. end {0, 0}: the push gives none. */
struct cursor_span {
    struct cursor from, end;
    bool begins; /* the push says where */
};

static inline bool
cursor_none(struct cursor c)
{
    return c.epoch == 0 && c.position == 0;
}

static inline bool
cursor_before(struct cursor a, struct cursor b)
{
    return a.epoch < b.epoch || (a.epoch == b.epoch && a.position < b.position);
}

bool cursor_equal(struct cursor a, struct cursor b);
bool cursor_span_equal(const struct cursor_span *a, const struct cursor_span *b);
struct cursor cursor_of(const Psd__Cursor *m); /* NULL: none */
Psd__Cursor *cursor_message(struct cursor c, Psd__Cursor *room);
struct cursor_span cursor_span(const Psd__Push *m);

#endif
