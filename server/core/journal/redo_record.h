/* The record of the redo log that is being made: updates, pushes and rows of an event gather here, and are packed and
 * cut into pieces when it is written. Gradients are not copied before that. */
#ifndef SERVER_CORE_JOURNAL_REDO_RECORD_H
#define SERVER_CORE_JOURNAL_REDO_RECORD_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/store.pb-c.h"
#include "server/core/store/store.h"
#include "server/core/workers/data_cursor.h"
#include "server/core/workers/worker_metrics.h"

#define REDO_FORMAT         1
#define REDO_FORMAT_DROPS   2 /* of a record with drops */
#define REDO_FORMAT_ASSIGNS 3 /* of a record that says of assigns; it may have drops */
#define REDO_SUMMED         8 /* with one of these: of a piece in a durable store, which has a checksum (value_sum.h) */

/* Starts every piece. Little-endian, 48 bytes, so that gradients in a record's first piece may be aligned. */
struct redo_head {
    uint64_t number;      /* of this piece */
    uint64_t record;      /* of the record's first piece */
    uint64_t payload_len; /* bytes of gradients, over all pieces */
    uint32_t meta_len;    /* bytes of metadata before them; gradients begin at the next multiple of 16 */
    uint32_t len;         /* bytes of the record in this piece */
    uint32_t piece, pieces;
    uint16_t format; /* record_format(), and REDO_SUMMED */
    uint16_t reserved;
    uint32_t sum;
};
static_assert(sizeof(struct redo_head) == 48, "as a block's head");

struct pool;

struct redo_gradient {
    const float *data;
    size_t bytes;
    bool owned; /* a piece of the pool */
};

/* Which updates hold a step of a worker's data. */
struct redo_count {
    uint32_t job, task;
    struct data_cursor_span span;
    uint32_t *updates;
    size_t len, size;
    struct worker_metrics worker_metrics; /* of the worker, where they are to be recorded */
    bool tells;
    Psd__RedoCount message; /* for packing */
    Psd__Cursor from, end;
    struct worker_metrics_parts metrics;
};

struct redo_record {
    struct pool *pool;
    /* Updates, in parallel. */
    uint32_t *var, *block;
    float *scale;
    uint64_t *clock;
    uint64_t *staged; /* numbers of assigns; 0: a gradient */
    bool any_staged;
    struct redo_gradient *gradients;
    size_t updates, updates_size;
    uint64_t when_clock, gradient_bytes;
    Psd__RedoPush *pushes;
    size_t pushes_len, pushes_size;
    struct redo_count *counts;
    size_t counts_len, counts_size;
    Psd__RedoAssigned *assigned;
    size_t assigned_len, assigned_size;
    /* Rows; keys and values are in one piece of heap each. */
    Psd__RedoRow *rows;
    size_t rows_len, rows_size, rows_bytes;
    /* What is dropped, in one go. */
    Psd__RedoDrop drop, *drop_list[1];
    bool drops;
    /* For packing. */
    void **list;
    size_t list_size;
    uint8_t *meta;
    size_t meta_size;
};

/* All return false when out of memory. */
/* A value of an assign that waits, instead of a gradient. */
bool record_add_staged(struct redo_record *r, uint32_t var, uint32_t block, float rate, uint64_t number,
                       const struct redo_gradient *values);
bool record_add_update(struct redo_record *r, uint32_t var, uint32_t block, float scale, uint64_t clock,
                       const struct redo_gradient *gradient);
bool record_add_push(struct redo_record *r, const Psd__RedoPush *push);
bool record_add_assigned(struct redo_record *r, const Psd__RedoAssigned *assigned);
/* tally: to be recorded, or NULL. */
bool record_add_count(struct redo_record *r, uint32_t job, uint32_t task, const struct data_cursor_span *span,
                      const struct worker_metrics *metrics);
/* The job, or these of its variables; vars: [len], copied; none: the job. Once in a record. */
bool record_add_drop(struct redo_record *r, uint32_t job, const uint32_t *vars, size_t len);
bool record_add_row(struct redo_record *r, enum store_table table, struct span key, struct span value);

static inline bool
record_empty(const struct redo_record *r)
{
    return r->updates == 0 && r->pushes_len == 0 && r->rows_len == 0 && !r->drops;
}

/* The format that says all that is in it: a psd that does not know that one refuses the log. */
static inline uint16_t
record_format(const struct redo_record *r)
{
    if (r->any_staged || r->assigned_len > 0)
        return REDO_FORMAT_ASSIGNS;
    return r->drops ? REDO_FORMAT_DROPS : REDO_FORMAT;
}

/* Bytes of metadata that updates and pushes may take beside the rows that are there. */
size_t record_meta_max(const struct redo_record *r, uint64_t updates, uint64_t pushes);

/* Pack the metadata: r->meta. False: out of memory. */
bool record_pack(struct redo_record *r, size_t *len);

/* Begin an empty record. */
void record_clear(struct redo_record *r);
void record_free(struct redo_record *r); /* accepts NULL */

/* ---- Pieces ---- */

/* Where gradients begin in a record with so much metadata. */
static inline size_t
record_gradients(size_t meta_len)
{
    return round_up(meta_len, 16);
}

/* The size class of the next piece of a record of which `left` bytes are not in pieces yet. */
int record_piece_class(uint64_t left);

/* Bytes of a record in a piece of that class. */
size_t record_piece_capacity(int size_class);

/* How many pieces a record of so many bytes takes, and the pages of their values. */
uint64_t record_pieces(uint64_t len, uint64_t *pages);

#endif
