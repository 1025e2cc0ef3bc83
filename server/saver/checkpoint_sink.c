/* Where a block goes: its variable's id leads to the row, the row's name to the tensors in the files' headers. */
#include "server/saver/checkpoint_sink.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/model/cut.h"
#include "common/core/wire/wire_layout.h"
#include "common/system/checkpoint_dir.h"
#include "common/system/file_error.h"
#include "proto/store.pb-c.h"
#include "server/core/turn/row.h"

struct sink_target {
    uint32_t id;
    bool left_out;
    struct layout layout;
    struct checkpoint_places places;
};

struct checkpoint_sink {
    int dir;
    struct checkpoint_files files;
    struct sink_target *targets; /* in order of id, as the rows are */
    size_t targets_len;
    uint64_t left_out;

    /* Of the block that is being written, borrowed. */
    struct store_key key;
    const uint8_t *value;
};

void
checkpoint_sink_drop(struct checkpoint_sink *sink)
{
    if (sink == NULL)
        return;
    checkpoint_files_close(&sink->files);
    if (sink->dir >= 0)
        close(sink->dir);
    free(sink->targets);
    free(sink);
}

/* ---- Opening ---- */

/* The row was written by psd, and checked then. */
static enum ps_err
find_target(struct checkpoint_sink *sink, const struct shard_save_row *row, struct ps_error *e)
{
    Psd__VariableRow *m = psd__variable_row__unpack(NULL, row->value.len, row->value.data);
    struct sink_target *t = &sink->targets[sink->targets_len];

    if (m == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a variable's row");
    ps_assert(row->table == STORE_VARS && m->declare != NULL);
    t->id = row_id(row->key);
    wire_layout(m->declare, &t->layout);
    t->left_out = !checkpoint_places(sink->files.tensors, m->declare->name, &t->layout, &t->places);
    sink->left_out += t->left_out;
    sink->targets_len++;
    psd__variable_row__free_unpacked(m, NULL);
    return PS_OK;
}

static enum ps_err
find_targets(struct checkpoint_sink *sink, const struct shard_save *save, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    if ((sink->targets = calloc(save->rows_len + 1, sizeof *sink->targets)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a checkpoint of %zu variables", save->rows_len);
    for (size_t i = 0; err == PS_OK && i < save->rows_len; i++)
        err = find_target(sink, &save->rows[i], e);
    return err;
}

/* A directory with a manifest is a whole checkpoint, perhaps the only one: whoever may train may not write into it. */
enum ps_err
checkpoint_sink_wanted(const struct checkpoint_sink *sink, struct ps_error *e)
{
    struct stat st;

    if (fstatat(sink->dir, CHECKPOINT_MANIFEST, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return ps_fail(e, PS_ERR_INVALID,
                       "a finished checkpoint is in that directory, and is not written again: name a new one");
    return errno == ENOENT ? PS_OK : file_failed(e, "look at", CHECKPOINT_MANIFEST);
}

static enum ps_err
open_files(struct checkpoint_sink *sink, const struct shard_save *save, const char *root, struct ps_error *e)
{
    enum ps_err err;

    if ((err = checkpoint_dir_open(save->checkpoint, root, &sink->dir, e)) != PS_OK ||
        (err = checkpoint_sink_wanted(sink, e)) != PS_OK ||
        (err = checkpoint_files_open(sink->dir, true, &sink->files, e)) != PS_OK)
        return err;
    return find_targets(sink, save, e);
}

enum ps_err
checkpoint_sink_open(const struct shard_save *save, const char *root, struct checkpoint_sink **out, struct ps_error *e)
{
    struct checkpoint_sink *sink = calloc(1, sizeof *sink);
    enum ps_err err;

    *out = NULL;
    if (sink == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a checkpoint");
    sink->dir = -1;
    for (int f = 0; f < CHECKPOINT_FILES; f++)
        sink->files.fd[f] = -1;
    err = open_files(sink, save, root, e);
    if (err != PS_OK)
        checkpoint_sink_drop(sink);
    else
        *out = sink;
    return err;
}

/* ---- Blocks ---- */

static int
by_id(const void *a, const void *b)
{
    const struct sink_target *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static enum ps_err
checkpoint_sink_put(struct checkpoint_sink *sink, enum checkpoint_file file, const void *from, size_t len, uint64_t at,
                    size_t *written, struct ps_error *e)
{
    *written += len;
    return checkpoint_write(sink->files.fd[file], checkpoint_file_name(file), from, len, at, e);
}

static enum ps_err
put_count(struct checkpoint_sink *sink, uint64_t tensor, uint64_t count, size_t *written, struct ps_error *e)
{
    uint64_t value = htole64(count);

    return checkpoint_sink_put(sink, CHECKPOINT_SLOTS, &value, sizeof value, tensor + sink->key.block * sizeof value,
                               written, e);
}

/* Elements are written as they lie in memory: psd runs on little-endian machines alone, as its store does. */
static enum ps_err
put_arrays(struct checkpoint_sink *sink, const struct sink_target *t, const struct layout_block *cut, size_t *written,
           struct ps_error *e)
{
    struct cut_array a = cut_array(cut, 0);
    enum ps_err err = checkpoint_sink_put(sink, CHECKPOINT_WEIGHTS, sink->value + a.in_value, a.bytes,
                                          t->places.weights + a.in_tensor, written, e);

    for (uint32_t i = 0; err == PS_OK && i < t->layout.slots; i++) {
        a = cut_array(cut, i + 1);
        err = checkpoint_sink_put(sink, CHECKPOINT_SLOTS, sink->value + a.in_value, a.bytes,
                                  t->places.slot[i] + a.in_tensor, written, e);
    }
    return err;
}

enum ps_err
checkpoint_sink_write(struct checkpoint_sink *sink, const struct store_key *key, struct span value, size_t *written,
                      struct ps_error *e)
{
    const struct sink_target *t =
        bsearch(&(struct sink_target){.id = key->var}, sink->targets, sink->targets_len, sizeof *t, by_id);
    struct layout_block cut;
    struct block_head head;
    enum ps_err err;

    *written = 0;
    ps_assert(t != NULL);
    if (t->left_out)
        return PS_OK;
    sink->key = *key;
    sink->value = value.data;
    cut = layout_block(&t->layout, key->block);
    memcpy(&head, value.data, sizeof head);
    ps_assert(value.len == layout_value_size(cut.size_class) && head.len == cut.len && head.slots == t->layout.slots);
    if ((err = put_arrays(sink, t, &cut, written, e)) != PS_OK ||
        (err = put_count(sink, t->places.version, head.version, written, e)) != PS_OK)
        return err;
    return put_count(sink, t->places.clock, head.clock, written, e);
}

/* ---- The end ---- */

enum ps_err
checkpoint_sink_end(struct checkpoint_sink *sink, uint64_t *left_out, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    *left_out = sink->left_out;
    for (int f = 0; err == PS_OK && f < CHECKPOINT_FILES; f++)
        if (fsync(sink->files.fd[f]) != 0)
            err = ps_fail(e, file_error_code(errno), "cannot sync %s: %s",
                          checkpoint_file_name((enum checkpoint_file)f), strerror(errno));
    checkpoint_sink_drop(sink);
    return err;
}
