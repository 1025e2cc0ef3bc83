/* Arrays that grow and are kept: in the steady state nothing is allocated but the rows' bytes, and rows are rare. */
#include "server/core/journal/redo_record.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/model/layout.h"
#include "server/core/turn/pool.h"

/* What one of them takes at most in packed metadata, with its tags and lengths. */
#define UPDATE_META 34                                       /* var 4, block 5, scale 4, clock 10, assign 10 */
#define TALLY_META  (WIRE_METRICS_MAX * sizeof(double) + 40) /* and a cursor */
/* Six numbers of at most 11 bytes and a fixed64; a count: two cursors of 24, 4 per update, metrics. */
#define PUSH_META     (192 + TALLY_META)
#define ASSIGNED_META 40
#define ROW_META      16
#define DROP_META     24
#define DROP_VAR_META 4
#define RECORD_META   64 /* when_clock, and the lengths of packed arrays */

static bool
grow_to(void **array, size_t size, size_t item)
{
    void *bigger = realloc(*array, size * item);

    if (bigger == NULL)
        return false;
    *array = bigger;
    return true;
}

static size_t
redo_record_grown_size(size_t size)
{
    return size == 0 ? 16 : size * 2;
}

static bool
record_add_block(struct redo_record *r, uint32_t var, uint32_t block, float scale, uint64_t clock, uint64_t staged,
                 const struct redo_gradient *gradient)
{
    if (r->updates == r->updates_size) {
        size_t size = redo_record_grown_size(r->updates_size);

        if (!grow_to((void **)&r->var, size, sizeof *r->var) || !grow_to((void **)&r->block, size, sizeof *r->block) ||
            !grow_to((void **)&r->scale, size, sizeof *r->scale) ||
            !grow_to((void **)&r->clock, size, sizeof *r->clock) ||
            !grow_to((void **)&r->staged, size, sizeof *r->staged) ||
            !grow_to((void **)&r->gradients, size, sizeof *r->gradients))
            return false;
        r->updates_size = size;
    }
    r->var[r->updates] = var;
    r->block[r->updates] = block;
    r->scale[r->updates] = scale;
    r->clock[r->updates] = clock;
    r->staged[r->updates] = staged;
    r->any_staged |= staged != 0;
    r->gradients[r->updates++] = *gradient;
    r->gradient_bytes += gradient->bytes;
    return true;
}

bool
record_add_update(struct redo_record *r, uint32_t var, uint32_t block, float scale, uint64_t clock,
                  const struct redo_gradient *gradient)
{
    return record_add_block(r, var, block, scale, clock, 0, gradient);
}

bool
record_add_staged(struct redo_record *r, uint32_t var, uint32_t block, float rate, uint64_t number,
                  const struct redo_gradient *values)
{
    return record_add_block(r, var, block, rate, 0, number, values);
}

bool
record_add_push(struct redo_record *r, const Psd__RedoPush *push)
{
    if (r->pushes_len == r->pushes_size) {
        if (!grow_to((void **)&r->pushes, redo_record_grown_size(r->pushes_size), sizeof *r->pushes))
            return false;
        r->pushes_size = redo_record_grown_size(r->pushes_size);
    }
    r->pushes[r->pushes_len++] = *push;
    return true;
}

bool
record_add_assigned(struct redo_record *r, const Psd__RedoAssigned *assigned)
{
    if (r->assigned_len == r->assigned_size) {
        if (!grow_to((void **)&r->assigned, redo_record_grown_size(r->assigned_size), sizeof *r->assigned))
            return false;
        r->assigned_size = redo_record_grown_size(r->assigned_size);
    }
    r->assigned[r->assigned_len++] = *assigned;
    return true;
}

/* The worker's count, as a rule that of the update before. */
static struct redo_count *
count_find(struct redo_record *r, uint32_t job, uint32_t task, const struct data_cursor_span *span)
{
    for (size_t i = r->counts_len; i-- > 0;)
        if (r->counts[i].task == task && r->counts[i].job == job && data_cursor_span_equal(&r->counts[i].span, span))
            return &r->counts[i];
    return NULL;
}

static struct redo_count *
count_add(struct redo_record *r, uint32_t job, uint32_t task, const struct data_cursor_span *span)
{
    struct redo_count *c;

    if (r->counts_len == r->counts_size) {
        size_t size = redo_record_grown_size(r->counts_size);

        if (!grow_to((void **)&r->counts, size, sizeof *r->counts))
            return NULL;
        memset(r->counts + r->counts_size, 0, (size - r->counts_size) * sizeof *r->counts);
        r->counts_size = size;
    }
    c = &r->counts[r->counts_len++];
    *c = (struct redo_count){.job = job, .task = task, .span = *span, .updates = c->updates, .size = c->size};
    return c;
}

bool
record_add_count(struct redo_record *r, uint32_t job, uint32_t task, const struct data_cursor_span *span,
                 const struct worker_metrics *metrics)
{
    struct redo_count *c = count_find(r, job, task, span);

    ps_assert(r->updates > 0);
    if (c == NULL && (c = count_add(r, job, task, span)) == NULL)
        return false;
    if (metrics != NULL) {
        c->worker_metrics = *metrics;
        c->tells = true;
    }
    if (c->len == c->size) {
        if (!grow_to((void **)&c->updates, redo_record_grown_size(c->size), sizeof *c->updates))
            return false;
        c->size = redo_record_grown_size(c->size);
    }
    c->updates[c->len++] = (uint32_t)(r->updates - 1);
    return true;
}

bool
record_add_row(struct redo_record *r, enum store_table table, struct span key, struct span value)
{
    Psd__RedoRow *row;
    uint8_t *bytes;

    if (r->rows_len == r->rows_size) {
        if (!grow_to((void **)&r->rows, redo_record_grown_size(r->rows_size), sizeof *r->rows))
            return false;
        r->rows_size = redo_record_grown_size(r->rows_size);
    }
    if ((bytes = malloc(key.len + value.len)) == NULL)
        return false;
    memcpy(bytes, key.data, key.len);
    memcpy(bytes + key.len, value.data, value.len);
    row = &r->rows[r->rows_len++];
    psd__redo_row__init(row);
    row->table = table;
    row->key = (ProtobufCBinaryData){key.len, bytes};
    row->value = (ProtobufCBinaryData){value.len, bytes + key.len};
    r->rows_bytes += key.len + value.len + ROW_META;
    return true;
}

bool
record_add_drop(struct redo_record *r, uint32_t job, const uint32_t *vars, size_t len)
{
    ps_assert(!r->drops);
    psd__redo_drop__init(&r->drop);
    if (len > 0 && (r->drop.var = malloc(len * sizeof *vars)) == NULL)
        return false;
    if (len > 0)
        memcpy(r->drop.var, vars, len * sizeof *vars);
    r->drop.n_var = len;
    r->drop.job = job;
    r->drop_list[0] = &r->drop;
    r->drops = true;
    return true;
}

size_t
record_meta_max(const struct redo_record *r, uint64_t updates, uint64_t pushes)
{
    size_t drop = r->drops ? DROP_META + r->drop.n_var * DROP_VAR_META : 0;

    return RECORD_META + (r->updates + updates) * UPDATE_META + (r->pushes_len + pushes) * PUSH_META + r->rows_bytes +
           r->assigned_len * ASSIGNED_META + drop;
}

static Psd__RedoCount *
count_message(struct redo_count *c)
{
    psd__redo_count__init(&c->message);
    c->message.job = c->job;
    c->message.task = c->task;
    c->message.from = data_cursor_message(c->span.from, &c->from);
    c->message.cursor = data_cursor_message(c->span.end, &c->end);
    c->message.n_update = c->len;
    c->message.update = c->updates;
    if (c->tells)
        c->message.metrics = worker_metrics_whole_message(&c->worker_metrics, &c->metrics);
    return &c->message;
}

/* Messages hold pointers to their parts. */
static bool
fill_list(struct redo_record *r, Psd__RedoRecord *m)
{
    size_t rows = r->pushes_len, counts = rows + r->rows_len, assigned = counts + r->counts_len;
    size_t len = assigned + r->assigned_len;

    if (len == 0) /* drops alone: there may be no list yet */
        return true;
    if (len > r->list_size) {
        if (!grow_to((void **)&r->list, 2 * len, sizeof *r->list))
            return false;
        r->list_size = 2 * len;
    }
    for (size_t i = 0; i < r->pushes_len; i++)
        r->list[i] = &r->pushes[i];
    for (size_t i = 0; i < r->rows_len; i++)
        r->list[rows + i] = &r->rows[i];
    for (size_t i = 0; i < r->counts_len; i++)
        r->list[counts + i] = count_message(&r->counts[i]);
    for (size_t i = 0; i < r->assigned_len; i++)
        r->list[assigned + i] = &r->assigned[i];
    m->n_assigned = r->assigned_len;
    m->assigned = (Psd__RedoAssigned **)(r->list + assigned);
    m->n_count = r->counts_len;
    m->count = (Psd__RedoCount **)(r->list + counts);
    m->n_push = r->pushes_len;
    m->push = (Psd__RedoPush **)r->list;
    m->n_row = r->rows_len;
    m->row = (Psd__RedoRow **)(r->list + rows);
    return true;
}

bool
record_pack(struct redo_record *r, size_t *len)
{
    Psd__RedoRecord m = PSD__REDO_RECORD__INIT;

    if (!fill_list(r, &m))
        return false;
    m.n_var = m.n_block = m.n_scale = m.n_clock = r->updates;
    m.var = r->var;
    m.block = r->block;
    m.scale = r->scale;
    m.clock = r->clock;
    m.n_staged = r->any_staged ? r->updates : 0;
    m.staged = r->staged;
    m.when_clock = r->when_clock;
    m.n_drop = r->drops;
    m.drop = r->drop_list;
    *len = psd__redo_record__get_packed_size(&m);
    if (*len > r->meta_size) {
        if (!grow_to((void **)&r->meta, 2 * *len, 1))
            return false;
        r->meta_size = 2 * *len;
    }
    psd__redo_record__pack(&m, r->meta);
    return true;
}

void
record_clear(struct redo_record *r)
{
    for (size_t i = 0; i < r->updates; i++)
        if (r->gradients[i].owned)
            pool_give(r->pool, (void *)(uintptr_t)r->gradients[i].data, r->gradients[i].bytes);
    for (size_t i = 0; i < r->rows_len; i++)
        free(r->rows[i].key.data);
    if (r->drops)
        free(r->drop.var);
    r->drops = false;
    r->updates = r->pushes_len = r->rows_len = r->counts_len = r->assigned_len = 0;
    r->rows_bytes = 0;
    r->any_staged = false;
    r->when_clock = r->gradient_bytes = 0;
}

void
record_free(struct redo_record *r)
{
    if (r == NULL)
        return;
    record_clear(r);
    free(r->var);
    free(r->block);
    free(r->scale);
    free(r->clock);
    free(r->staged);
    free(r->gradients);
    free(r->pushes);
    for (size_t i = 0; i < r->counts_size; i++)
        free(r->counts[i].updates);
    free(r->counts);
    free(r->assigned);
    free(r->rows);
    free(r->list);
    free(r->meta);
    free(r);
}

/* ---- Pieces ---- */

size_t
record_piece_capacity(int size_class)
{
    return layout_value_size(size_class) - sizeof(struct redo_head);
}

static uint64_t
class_pages(int size_class)
{
    return (layout_value_size(size_class) + LAYOUT_PAGE_HEAD) / LAYOUT_PAGE;
}

/* Pages of what is left in pieces of this class and below. */
static uint64_t
pages_below(uint64_t left, int size_class)
{
    size_t capacity = record_piece_capacity(size_class);
    uint64_t pages = left / capacity * class_pages(size_class), rest = left % capacity;

    if (rest == 0)
        return pages;
    if (size_class == 0)
        return pages + 1;
    return pages + MIN(class_pages(size_class), pages_below(rest, size_class - 1));
}

int
record_piece_class(uint64_t left)
{
    int c = LAYOUT_CLASSES - 1;

    while (c > 0 && left < record_piece_capacity(c) && pages_below(left, c - 1) < class_pages(c))
        c--;
    return c;
}

uint64_t
record_pieces(uint64_t len, uint64_t *pages)
{
    uint64_t pieces = 0;

    for (*pages = 0; len > 0; pieces++) {
        int c = record_piece_class(len);

        *pages += class_pages(c);
        len -= MIN(len, record_piece_capacity(c));
    }
    return pieces;
}
