/* Cursors: a place in a worker's training data, as pushes and ticks name it. */
#ifndef SERVER_CORE_WORKERS_DATA_CURSOR_H
#define SERVER_CORE_WORKERS_DATA_CURSOR_H

#include "common/core/base/base.h"
#include "proto/psd.pb-c.h"

#define DATA_CURSOR_CHUNK 8192 /* blocks whose counts of a step are in one row, of 1 KiB (data_steps.h) */

/* {0, 0}: none. */
struct data_cursor {
    uint64_t epoch, position;
};

/* A step of a worker's data: what Push.cursor_from and Push.cursor say. end {0, 0}: the push gives none. */
struct data_cursor_span {
    struct data_cursor from, end;
    bool begins; /* the push says where */
};

static inline bool
data_cursor_none(struct data_cursor c)
{
    return c.epoch == 0 && c.position == 0;
}

static inline bool
data_cursor_before(struct data_cursor a, struct data_cursor b)
{
    return a.epoch < b.epoch || (a.epoch == b.epoch && a.position < b.position);
}

bool data_cursor_equal(struct data_cursor a, struct data_cursor b);
bool data_cursor_span_equal(const struct data_cursor_span *a, const struct data_cursor_span *b);
struct data_cursor data_cursor_of(const Psd__Cursor *m); /* NULL: none */
Psd__Cursor *data_cursor_message(struct data_cursor c, Psd__Cursor *room);
struct data_cursor_span data_cursor_span(const Psd__Push *m);

#endif
