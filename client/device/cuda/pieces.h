/* Kernels of embeddings and sparse rows, whose gradients are sums over the places of a list that name the same number.
 *
 * The list is sorted by its numbers, places of one number staying in their order: each number's places are then one
 * segment, which one thread for each four columns adds up, without atomics. A segment longer than PIECE is cut into
 * pieces of that length, counted from its start; their sums are then added up in their order. So the order depends on
 * nothing but the list, and up to PIECE places it is the CPU's. */
#ifndef CLIENT_DEVICE_CUDA_PIECES_H
#define CLIENT_DEVICE_CUDA_PIECES_H

#include "client/device/cuda/elements.h"

/* Places that one thread adds up one after the other (ps_device.h says so). */
#define PIECE ((size_t)256)

/* ---- Sorting ---- */

struct number_places_args {
    size_t numbers;     /* numbers are below */
    const uint32_t *of; /* [n] */
    uint32_t *number, *place;
    uint32_t *flags;
};

KERNEL_ELEMENT(number_places)
{
    uint32_t number = k->of[i];

    if (number >= k->numbers) {
        flag_raise(k->flags, FLAG_INDEX);
        number = (uint32_t)k->numbers; /* behind all others, and not added up */
    }
    k->number[i] = number;
    k->place[i] = (uint32_t)i;
}

/* The places of a list, sorted, and the pieces of its segments. */
struct place_pieces {
    size_t n;
    const uint32_t *number, *place; /* [n], sorted by number, then place */
    uint32_t *piece;                /* [n]: how many places the piece that begins here has, and PIECE_*; 0: none does */
    uint32_t *long_start; /* [windows]: where in this window of PIECE a long segment starts, plus 1; 0: none */
    float *sum;           /* [2 windows][columns] of the pieces of long segments */
};

#define PIECE_WINDOWS(n) (((n)-1) / PIECE + 1)
#define PIECE_FIRST      0x80000000u /* of its segment */
#define PIECE_OF_LONG    0x40000000u /* of a segment of several */
#define PIECE_COUNT      0x3fffffffu

/* The first place from `low` on whose number is not below `number`; there is none from `high` on that is. */
EVERYWHERE size_t
first_not_below(const uint32_t *sorted, uint32_t number, size_t low, size_t high)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (sorted[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct cut_pieces_args {
    size_t numbers;
    struct place_pieces p;
};

KERNEL_ELEMENT(cut_pieces)
{
    const struct place_pieces *p = &k->p;
    uint32_t number = p->number[i], is = 0;
    size_t start = i, end;

    p->piece[i] = 0;
    if (number >= k->numbers)
        return;
    if (i > 0 && p->number[i - 1] == number) {
        start = i < PIECE ? 0 : i - PIECE;
        if (p->number[start] == number) /* a long one, probably */
            start = first_not_below(p->number, number, 0, start);
        else
            start = first_not_below(p->number, number, start, i);
    }
    if ((i - start) % PIECE != 0)
        return;
    end = p->n - i < PIECE ? p->n : i + PIECE;
    if (i > start || (p->n - i > PIECE && p->number[end] == number))
        is = PIECE_OF_LONG;
    if (i == start) {
        is |= PIECE_FIRST;
        if (is & PIECE_OF_LONG)
            p->long_start[i / PIECE] = (uint32_t)i + 1;
    }
    p->piece[i] = is | (uint32_t)(first_not_below(p->number, number + 1, i, end) - i);
}

/* Where the sum of the piece at i goes, of a long segment: in each window of PIECE places one such segment may end, and
 * one start. */
EVERYWHERE float *
piece_sum(const struct place_pieces *p, size_t i, int is_first, size_t columns)
{
    return p->sum + (2 * (i / PIECE) + (is_first ? 1 : 0)) * columns;
}

/* Element i is quad i % QUADS(columns) of the long segment that starts in window i / QUADS(columns), if one does. to:
 * [numbers, columns] holds the sums of lists before. */
struct join_pieces_args {
    struct place_pieces p;
    size_t columns;
    float *to;
};

KERNEL_ELEMENT(join_pieces)
{
    const struct place_pieces *p = &k->p;
    size_t window = i, column = split(&window, QUADS(k->columns)), start = p->long_start[window];
    struct quad sum;
    float *to;

    if (start-- == 0)
        return;
    to = k->to + p->number[start] * k->columns;
    sum = quad_load(to, column, k->columns);
    for (size_t at = start; at < p->n && p->number[at] == p->number[start]; at += PIECE) {
        struct quad part = quad_load(piece_sum(p, at, at == start, k->columns), column, k->columns);

        EACH_OF_QUAD
        {
            sum.of[e] += part.of[e];
        }
    }
    quad_store(to, column, k->columns, sum);
}

/* Where the sum of the piece at i begins, and goes: what a short segment is added to, or nothing. */
struct piece_target {
    float *to; /* [columns]; NULL: no piece begins there */
    uint32_t count;
    struct quad sum;
};

EVERYWHERE struct piece_target
piece_target_of(const struct place_pieces *p, size_t i, size_t columns, size_t quad, float *sums)
{
    uint32_t piece = p->piece[i];
    struct piece_target t = {NULL, piece & PIECE_COUNT, {{0}}};

    if (t.count == 0)
        return t;
    if (piece & PIECE_OF_LONG) {
        t.to = piece_sum(p, i, (piece & PIECE_FIRST) != 0, columns);
        return t;
    }
    t.to = sums + p->number[i] * columns;
    t.sum = quad_load(t.to, quad, columns);
    return t;
}

/* ---- Embedding ---- */

struct embedding_forward_args {
    size_t vocabulary, width;
    const uint32_t *ids;
    const float *table;
    float *y;
    uint32_t *flags;
};

/* Element i: quad i % QUADS(width) of row i / QUADS(width). */
KERNEL_ELEMENT(embedding_forward)
{
    const struct quad none = {{NAN, NAN, NAN, NAN}};
    size_t row = i, column = split(&row, QUADS(k->width));
    uint32_t id = k->ids[row];
    float *y = k->y + row * k->width;

    if (id < k->vocabulary)
        quad_store(y, column, k->width, quad_load(k->table + id * k->width, column, k->width));
    else {
        flag_raise(k->flags, FLAG_INDEX);
        quad_store(y, column, k->width, none);
    }
}

/* Element i: quad i % QUADS(width) of the piece that begins at place i / QUADS(width). dtable holds the sums of lists
 * before. */
struct embedding_backward_args {
    struct place_pieces p;
    size_t width;
    const float *dy;
    float *dtable;
};

KERNEL_ELEMENT(embedding_backward)
{
    size_t at = i, column = split(&at, QUADS(k->width));
    struct piece_target t = piece_target_of(&k->p, at, k->width, column, k->dtable);

    if (t.to == NULL)
        return;
    for (uint32_t c = 0; c < t.count; c++) {
        struct quad dy = quad_load(k->dy + k->p.place[at + c] * k->width, column, k->width);

        EACH_OF_QUAD
        {
            t.sum.of[e] += dy.of[e];
        }
    }
    quad_store(t.to, column, k->width, t.sum);
}

/* ---- Sparse rows ---- */

struct sparse_forward_args {
    size_t in, out;
    const uint64_t *start;
    const uint32_t *column;
    const float *value, *w, *b; /* b may be NULL */
    float *y;
    uint32_t *flags;
};

KERNEL_ELEMENT(sparse_forward)
{
    size_t row = i, c = split(&row, k->out);
    float sum = k->b != NULL ? k->b[c] : 0;

    for (uint64_t at = k->start[row]; at < k->start[row + 1]; at++) {
        uint32_t column = k->column[at];

        if (column < k->in)
            sum += k->value[at] * k->w[column * k->out + c];
        else {
            flag_raise(k->flags, FLAG_INDEX);
            sum = NAN;
        }
    }
    k->y[i] = sum;
}

/* The row of entry number `entry`: the last one that starts at or before it. start: [rows + 1]. */
EVERYWHERE size_t
row_of_entry(const uint64_t *start, size_t rows, uint64_t entry)
{
    size_t low = 0, high = rows; /* start[low] <= entry < start[high] */

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (start[middle] <= entry)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* As embedding_backward, over entries `first` and on: the places of the list are theirs. */
struct sparse_backward_args {
    struct place_pieces p;
    size_t rows, out;
    uint64_t first;
    const uint64_t *start;
    const float *value, *dy;
    float *dw;
};

KERNEL_ELEMENT(sparse_backward)
{
    size_t at = i, column = split(&at, QUADS(k->out));
    struct piece_target t = piece_target_of(&k->p, at, k->out, column, k->dw);

    if (t.to == NULL)
        return;
    for (uint32_t c = 0; c < t.count; c++) {
        uint64_t entry = k->first + k->p.place[at + c];
        struct quad dy = quad_load(k->dy + row_of_entry(k->start, k->rows, entry) * k->out, column, k->out);
        float value = k->value[entry];

        EACH_OF_QUAD
        {
            t.sum.of[e] += value * dy.of[e];
        }
    }
    quad_store(t.to, column, k->out, t.sum);
}

#endif
