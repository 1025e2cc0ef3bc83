/* psctl snapshot diff: the differences between two checkpoints, or two safetensors files. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/psctl/checkpoint_diff.h"
#include "client/tools/psctl/psctl.h"
#include "client/tools/psctl/views/cells.h"
#include "client/tools/shared/output.h"
#include "client/tools/shared/table.h"
#include "common/core/base/units.h"

/* The differences found, shown at the end. */
struct found {
    bool json;
    struct text_table *table;
    json_t *list;
    uint64_t all, different;
};

static const char *
shape_text(const struct safetensors_tensor *t, char *out, size_t size)
{
    size_t at = 0;

    if (t->rank == 0)
        snprintf(out, size, "scalar");
    for (uint32_t i = 0; i < t->rank && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%" PRIu64, i > 0 ? "x" : "", t->dims[i]);
    return out;
}

static void
show_row(struct text_table *t, const struct checkpoint_diff *d)
{
    char before[256], now[256];

    table_row(t);
    table_cell(t, "%s", d->name);
    if (d->kind == CHECKPOINT_DIFF_RESHAPED)
        table_cell(t, "%s %s -> %s %s", safetensors_dtype(d->a), shape_text(d->a, before, sizeof before),
                   safetensors_dtype(d->b), shape_text(d->b, now, sizeof now));
    else
        table_cell(t, "%s", shape_text(d->b != NULL ? d->b : d->a, now, sizeof now));
    table_cell(t, "%s", checkpoint_diff_kind_name(d->kind));
    if (d->kind != CHECKPOINT_DIFF_CHANGED)
        return;
    cell_count(t, d->changed);
    cell_count(t, d->elements);
    table_cell(t, "%.6g", d->most);
    table_cell(t, "%.6g", d->l2);
    if (d->l2_before > 0)
        table_cell(t, "%.3g %%", 100 * d->l2 / d->l2_before);
    else
        table_cell(t, "-");
    cell_count(t, d->nonfinite);
    table_paint(t, d->nonfinite > 0 ? PAINT_WARNING : PAINT_PLAIN);
}

static json_t *
shape_json(const struct safetensors_tensor *t)
{
    json_t *dims = json_array();

    if (t == NULL) {
        json_decref(dims);
        return json_null();
    }
    for (uint32_t i = 0; i < t->rank; i++)
        json_array_append_new(dims, json_integer((json_int_t)t->dims[i]));
    return json_pack("{s:s,s:o}", "dtype", safetensors_dtype(t), "dims", dims);
}

static json_t *
row_json(const struct checkpoint_diff *d)
{
    json_t *object = json_pack("{s:s,s:s,s:o,s:o}", "name", d->name, "kind", checkpoint_diff_kind_name(d->kind),
                               "before", shape_json(d->a), "after", shape_json(d->b));
    json_t *figures =
        json_pack("{s:I,s:I,s:f,s:f,s:f,s:I}", "changed", (json_int_t)d->changed, "elements", (json_int_t)d->elements,
                  "max", d->most, "l2", d->l2, "l2_before", d->l2_before, "nonfinite", (json_int_t)d->nonfinite);

    if (d->kind == CHECKPOINT_DIFF_CHANGED)
        json_object_update(object, figures);
    json_decref(figures);
    return object;
}

static void
snapshot_take(void *arg, const struct checkpoint_diff *d)
{
    struct found *found = arg;

    found->all++;
    if (d->kind == CHECKPOINT_DIFF_NONE)
        return;
    found->different++;
    if (found->json)
        json_array_append_new(found->list, row_json(d));
    else
        show_row(found->table, d);
}

static void
snapshot_show(const struct psctl *p, struct found *found)
{
    struct units a, b;

    if (found->json) {
        render_print_document(json_pack("{s:s,s:o,s:o,s:O,s:I,s:I}", "command", p->command, "before",
                                        render_text(p->words[1]), "after", render_text(p->words[2]), "tensors",
                                        found->list, "different", (json_int_t)found->different, "all",
                                        (json_int_t)found->all),
                              &p->printer);
        return;
    }
    if (found->different > 0)
        table_print(found->table, &p->printer);
    printer_line(&p->printer, PAINT_PLAIN, "%s of %s tensors differ", units_count(found->different, &a),
                 units_count(found->all, &b));
}

/* Like diff: 1 means that they differ, so errors have another status. */
static int
snapshot_failed(const struct ps_error *e)
{
    (void)psctl_failed(e);
    return e->code == PS_ERR_INVALID ? STATUS_USAGE : STATUS_REFUSED;
}

int
psctl_snapshot(struct psctl *p)
{
    struct found found = {
        .json = p->settings.json, .table = table_of(output_snapshot, "lllrrrrrr"), .list = json_array()};
    struct diff_snapshot a, b = {.files = {{.fd = -1}, {.fd = -1}}};
    struct ps_error e;
    enum ps_err err;

    if ((err = snapshot_open(p->words[1], p->settings.slots, &a, &e)) == PS_OK &&
        (err = snapshot_open(p->words[2], p->settings.slots, &b, &e)) == PS_OK)
        err = checkpoint_diff_all(&a, &b, snapshot_take, &found, &e);
    if (err == PS_OK)
        snapshot_show(p, &found);
    snapshot_close(&a);
    snapshot_close(&b);
    table_free(found.table);
    json_decref(found.list);
    if (err != PS_OK)
        return snapshot_failed(&e);
    return found.different > 0 ? STATUS_DIFFERENT : EXIT_SUCCESS;
}
