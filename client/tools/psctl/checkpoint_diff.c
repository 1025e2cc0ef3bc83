/* Both headers are in order of names, so one walk meets each name once. */
#include "client/tools/psctl/checkpoint_diff.h"

#include <endian.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/system/checkpoint_dir.h"

const char *
checkpoint_diff_kind_name(enum checkpoint_diff_kind kind)
{
    static const char *const names[] = {[CHECKPOINT_DIFF_NONE] = "same",
                                        [CHECKPOINT_DIFF_ADDED] = "added",
                                        [CHECKPOINT_DIFF_REMOVED] = "removed",
                                        [CHECKPOINT_DIFF_RESHAPED] = "reshaped",
                                        [CHECKPOINT_DIFF_CHANGED] = "changed"};

    return names[kind];
}

/* ---- One side ---- */

void
snapshot_close(struct diff_snapshot *s)
{
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        safetensors_file_close(&s->files[f]);
    free(s->path);
    *s = (struct diff_snapshot){.files = {{.fd = -1}, {.fd = -1}}};
}

/* Check that the directory holds a complete checkpoint. */
static enum ps_err
check_checkpoint(const char *path, struct ps_error *e)
{
    struct checkpoint_source source;
    enum ps_err err = checkpoint_source_open(path, NULL, &source, e);

    checkpoint_source_close(&source);
    return err;
}

static enum ps_err
open_checkpoint(struct diff_snapshot *s, bool slots, struct ps_error *e)
{
    enum ps_err err = check_checkpoint(s->path, e);

    for (int f = 0; err == PS_OK && f < (slots ? CHECKPOINT_FILES : 1); f++) {
        char *path;

        if (asprintf(&path, "%s/%s", s->path, checkpoint_file_name((enum checkpoint_file)f)) < 0)
            return ps_fail(e, PS_ERR_NOMEM, "no memory for a path");
        err = safetensors_file_open(path, &s->files[f], e);
        free(path);
    }
    return err;
}

enum ps_err
snapshot_open(const char *path, bool slots, struct diff_snapshot *out, struct ps_error *e)
{
    struct stat st;

    *out = (struct diff_snapshot){.files = {{.fd = -1}, {.fd = -1}}};
    if (stat(path, &st) != 0)
        return ps_fail(e, PS_ERR_IO, "cannot open %.300s: %s", path, strerror(errno));
    if ((out->path = strdup(path)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a path");
    out->is_checkpoint = S_ISDIR(st.st_mode);
    if (out->is_checkpoint)
        return open_checkpoint(out, slots, e);
    if (slots)
        return ps_fail(e, PS_ERR_INVALID, "%.300s is a file of weights: only a checkpoint has slots to compare", path);
    return safetensors_file_open(path, &out->files[0], e);
}

/* ---- One tensor ---- */

/* Of floats. Values that compare as equal, or have the same bits, as NaNs may, are unchanged. */
static void
add_floats(struct checkpoint_diff *d, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double delta = (double)b[i] - (double)a[i];

        if (isfinite(a[i]))
            d->l2_before += (double)a[i] * (double)a[i];
        if (a[i] == b[i] || memcmp(&a[i], &b[i], sizeof a[i]) == 0)
            continue;
        d->changed++;
        if (isfinite(delta)) {
            d->most = fmax(d->most, fabs(delta));
            d->l2 += delta * delta;
        } else {
            d->nonfinite++;
        }
    }
}

/* Of anything else: whole numbers of 64 bits have a distance, the rest is the same or not. */
static void
add_bytes(struct checkpoint_diff *d, const uint8_t *a, const uint8_t *b, size_t n)
{
    size_t bytes = safetensors_type_bytes(d->b->type);

    for (size_t i = 0; i < n; i++) {
        int64_t x, y;
        double delta;

        if (memcmp(a + i * bytes, b + i * bytes, bytes) == 0)
            continue;
        d->changed++;
        if (d->b->type != SAFETENSORS_I64)
            continue;
        memcpy(&x, a + i * bytes, sizeof x);
        memcpy(&y, b + i * bytes, sizeof y);
        delta = (double)(int64_t)le64toh((uint64_t)y) - (double)(int64_t)le64toh((uint64_t)x);
        d->most = fmax(d->most, fabs(delta));
        d->l2 += delta * delta;
    }
}

/* [2][piece]: values of both, at most 8 bytes each. */
struct diff_buffers {
    double values[2][SAFETENSORS_PIECE];
};

static enum ps_err
compare_piece(const struct safetensors_file *a, const struct safetensors_file *b, struct checkpoint_diff *d,
              uint64_t first, size_t n, struct diff_buffers *room, struct ps_error *e)
{
    size_t bytes = safetensors_type_bytes(d->b->type);
    void *x = room->values[0], *y = room->values[1];
    enum ps_err err;

    if (safetensors_is_float(d->b->type)) {
        if ((err = safetensors_file_floats(a, d->a, first, n, x, e)) == PS_OK &&
            (err = safetensors_file_floats(b, d->b, first, n, y, e)) == PS_OK)
            add_floats(d, x, y, n);
        return err;
    }
    if ((err = checkpoint_read(a->fd, a->path, x, n * bytes, d->a->begin + first * bytes, e)) == PS_OK &&
        (err = checkpoint_read(b->fd, b->path, y, n * bytes, d->b->begin + first * bytes, e)) == PS_OK)
        add_bytes(d, x, y, n);
    return err;
}

static enum ps_err
diff_compare(const struct safetensors_file *a, const struct safetensors_file *b, struct checkpoint_diff *d,
             struct diff_buffers *room, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (uint64_t at = 0; err == PS_OK && at < d->elements; at += SAFETENSORS_PIECE)
        err = compare_piece(a, b, d, at, MIN(d->elements - at, (uint64_t)SAFETENSORS_PIECE), room, e);
    d->l2 = sqrt(d->l2);
    d->l2_before = sqrt(d->l2_before);
    d->kind = d->changed > 0 ? CHECKPOINT_DIFF_CHANGED : CHECKPOINT_DIFF_NONE;
    return err;
}

/* ---- All of a file ---- */

static bool
same_shape(const struct safetensors_tensor *a, const struct safetensors_tensor *b)
{
    return strcmp(safetensors_dtype(a), safetensors_dtype(b)) == 0 && a->bytes == b->bytes && a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->dims, b->dims, a->rank * sizeof *a->dims) == 0);
}

/* Where neither is at its end. */
static int
diff_order(const struct safetensors *a, size_t i, const struct safetensors *b, size_t j)
{
    if (i == a->len || j == b->len)
        return i == a->len ? 1 : -1;
    return strcmp(a->tensors[i].name, b->tensors[j].name);
}

static enum ps_err
diff_walk(const struct safetensors_file *a, const struct safetensors_file *b, checkpoint_diff_take take, void *arg,
          struct diff_buffers *room, struct ps_error *e)
{
    enum ps_err err = PS_OK;
    size_t i = 0, j = 0;

    while (err == PS_OK && (i < a->head.len || j < b->head.len)) {
        int which = diff_order(&a->head, i, &b->head, j);
        struct checkpoint_diff d = {.a = which <= 0 ? &a->head.tensors[i++] : NULL,
                                    .b = which >= 0 ? &b->head.tensors[j++] : NULL};

        d.name = d.a != NULL ? d.a->name : d.b->name;
        d.elements = safetensors_elements(d.b != NULL ? d.b : d.a);
        d.kind = d.a == NULL ? CHECKPOINT_DIFF_ADDED : d.b == NULL ? CHECKPOINT_DIFF_REMOVED : CHECKPOINT_DIFF_RESHAPED;
        if (which == 0 && same_shape(d.a, d.b))
            err = diff_compare(a, b, &d, room, e);
        if (err == PS_OK)
            take(arg, &d);
    }
    return err;
}

enum ps_err
checkpoint_diff_all(const struct diff_snapshot *a, const struct diff_snapshot *b, checkpoint_diff_take take, void *arg,
                    struct ps_error *e)
{
    struct diff_buffers *room = malloc(sizeof *room);
    enum ps_err err = room != NULL ? PS_OK : ps_fail(e, PS_ERR_NOMEM, "no memory to compare");

    for (int f = 0; err == PS_OK && f < CHECKPOINT_FILES; f++)
        if (a->files[f].fd >= 0 && b->files[f].fd >= 0)
            err = diff_walk(&a->files[f], &b->files[f], take, arg, room, e);
    free(room);
    return err;
}
