/* Checkpoints of variables that are in this process: the files that ps_client_checkpoint() has shards write
 * (common/core/format/checkpoint.h), written here. Training without shards can be continued on shards, and vice versa:
 * the job in the manifest is one in sync with a worker for each replica, whose steps have the same bits. */
#include <endian.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/checkpoint/checkpoint_dir_writer.h"
#include "client/strategy/strategy.h"
#include "common/core/wire/wire.h"
#include "common/system/now.h"

/* ---- The manifest ---- */

static enum ps_err
add_job(const ps_strategy *s, struct checkpoint *c, struct ps_error *e)
{
    Psd__AgePolicy age = PSD__AGE_POLICY__INIT;
    Psd__Job job = PSD__JOB__INIT;

    job.name = (char *)s->options.client.job;
    job.mode = PSD__MODE__SYNC;
    job.workers = job.quorum = s->count;
    job.lapse = (Psd__Lapse)s->options.client.lapse;
    job.age = &age;
    return checkpoint_set_job(c, &job, &job, e);
}

static enum ps_err
add_variables(const ps_strategy *s, struct checkpoint *c, struct ps_error *e)
{
    struct var_message room;
    enum ps_err err = PS_OK;

    for (size_t i = 0; err == PS_OK && i < s->vars_len; i++) {
        const Psd__Declare *declare = (const Psd__Declare *)var_message(s->vars[i], &room);

        err = checkpoint_add(c, declare, declare, e);
    }
    return err;
}

static enum ps_err
write_manifest_of(const ps_strategy *s, struct checkpoint *c, struct ps_error *e)
{
    enum ps_err err;

    c->unix_ms = unix_ms();
    c->at_clock = true;
    c->clock = s->next;
    c->version = strdup(PSD_VERSION);
    c->shares = calloc(1, sizeof *c->shares);
    if (c->version == NULL || c->shares == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a checkpoint");
    c->shares_len = 1;
    if ((err = add_job(s, c, e)) != PS_OK || (err = add_variables(s, c, e)) != PS_OK)
        return err;
    c->shares[0] = (struct checkpoint_share){.clock = s->next, .blocks = checkpoint_blocks(c)};
    return PS_OK;
}

/* ---- Values ---- */

/* A checkpoint's files, open, and how many bytes went through them. */
struct saving {
    const ps_strategy *s;
    struct checkpoint_files files;
    uint64_t bytes;
};

static enum ps_err
checkpoint_put(struct saving *w, enum checkpoint_file file, const void *from, size_t len, uint64_t at,
               struct ps_error *e)
{
    w->bytes += len;
    return checkpoint_write(w->files.fd[file], checkpoint_file_name(file), from, len, at, e);
}

/* The same in every block. */
static enum ps_err
put_counts(struct saving *w, uint64_t at, uint64_t count, uint64_t blocks, struct ps_error *e)
{
    uint64_t value = htole64(count);
    enum ps_err err = PS_OK;

    for (uint64_t b = 0; err == PS_OK && b < blocks; b++)
        err = checkpoint_put(w, CHECKPOINT_SLOTS, &value, sizeof value, at + b * sizeof value, e);
    return err;
}

static enum ps_err
put_variable(struct saving *w, size_t i, struct ps_error *e)
{
    const struct core_var *v = w->s->vars[i];
    const struct local_optimizer *l = w->s->copy[0].optimizer[i];
    size_t len = var_bytes(v);
    struct checkpoint_places at;
    enum ps_err err;

    if (!checkpoint_places(w->files.tensors, v->name, &v->layout, &at))
        return ps_fail(e, PS_ERR_INTERNAL, "the checkpoint was made without space for variable '%s'", v->name);
    err = checkpoint_put(w, CHECKPOINT_WEIGHTS, w->s->copy[0].values[i], len, at.weights, e);
    for (uint32_t k = 0; err == PS_OK && k < l->slots; k++)
        err = checkpoint_put(w, CHECKPOINT_SLOTS, l->slot[k], len, at.slot[k], e);
    if (err == PS_OK)
        err = put_counts(w, at.version, l->version, v->layout.blocks, e);
    return err == PS_OK ? put_counts(w, at.clock, w->s->next, v->layout.blocks, e) : err;
}

static enum ps_err
fill_files(const ps_strategy *s, const struct dir_writer *m, uint64_t *bytes, struct ps_error *e)
{
    struct saving w = {.s = s};
    enum ps_err err = checkpoint_files_open(m->fd, true, &w.files, e);

    for (size_t i = 0; err == PS_OK && i < s->vars_len; i++)
        err = put_variable(&w, i, e);
    checkpoint_files_close(&w.files);
    *bytes = w.bytes;
    return err;
}

/* The default name of a checkpoint of the step that is next. */
struct usual_name {
    char text[64];
};

static struct usual_name
usual_name(const ps_strategy *s)
{
    struct usual_name name;

    snprintf(name.text, sizeof name.text, "clock-%" PRIu64, s->next);
    return name;
}

static enum ps_err
checkpoint_save_copy(const ps_strategy *s, struct dir_writer *m, struct checkpoint *c, const char *dir,
                     const struct ps_checkpoint_options *options, struct ps_error *e)
{
    struct usual_name usual = usual_name(s);
    enum ps_err err;

    if ((err = write_manifest_of(s, c, e)) != PS_OK ||
        (err = dir_writer_begin(m, dir, options->name != NULL ? options->name : usual.text, options->name == NULL,
                                e)) != PS_OK ||
        (err = dir_writer_files(m, c, e)) != PS_OK || (err = fill_files(s, m, &c->shares[0].bytes, e)) != PS_OK ||
        (err = dir_writer_end(m, c, NULL, e)) != PS_OK)
        return err;
    return options->keep > 0 ? dir_writer_prune(m, options->keep, e) : PS_OK;
}

enum ps_err
strategy_save_copy(ps_strategy *s, const char *dir, const struct ps_checkpoint_options *options, char **name,
                   struct ps_error *e)
{
    struct dir_writer m = {.fd = -1, .dir_fd = -1};
    struct checkpoint c = {0};
    enum ps_err err = strategy_gather(s, true, e);

    if (err == PS_OK)
        err = checkpoint_save_copy(s, &m, &c, dir, options, e);
    if (m.whole && name != NULL && (*name = strdup(m.name)) == NULL)
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for the name of a checkpoint");
    dir_writer_close(&m);
    checkpoint_finish(&c);
    return err;
}

bool
strategy_copy_is_saved(const ps_strategy *s, const char *dir)
{
    struct checkpoint_source there = {0};
    char path[PATH_MAX];
    bool is;

    if (snprintf(path, sizeof path, "%s/%s", dir, usual_name(s).text) >= (int)sizeof path)
        return false;
    is = checkpoint_source_open(path, NULL, &there, NULL) == PS_OK;
    checkpoint_source_close(&there);
    return is;
}

/* ---- Restoring ---- */

/* A checkpoint's variable is ours when shape and slots are; numbers of its optimizer are those given here. */
static enum ps_err
check_variable(const struct core_var *v, const struct checkpoint *c, struct ps_error *e)
{
    const struct checkpoint_variable *there = checkpoint_find(c, v->name);
    struct ps_optimizer optimizer;

    if (there == NULL)
        return ps_fail(e, PS_ERR_MISMATCH, "the checkpoint has no variable '%s'", v->name);
    if (there->declared->n_dims != v->spec.rank ||
        (v->spec.rank > 0 && memcmp(there->declared->dims, v->spec.dims, v->spec.rank * sizeof v->spec.dims[0]) != 0))
        return ps_fail(e, PS_ERR_MISMATCH, "the checkpoint's variable '%s' has another shape", v->name);
    optimizer = wire_optimizer(there->now->optimizer);
    if (optimizer.kind != v->spec.optimizer.kind || there->layout.slots != v->layout.slots)
        return ps_fail(e, PS_ERR_MISMATCH, "the checkpoint's variable '%s' has the optimizer %s, not %s", v->name,
                       ps_optimizer_name(optimizer.kind), ps_optimizer_name(v->spec.optimizer.kind));
    return PS_OK;
}

static enum ps_err
check_variables(const ps_strategy *s, const struct checkpoint *c, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (size_t i = 0; err == PS_OK && i < s->vars_len; i++)
        err = check_variable(s->vars[i], c, e);
    if (err == PS_OK && c->variables_len != s->vars_len)
        return ps_fail(e, PS_ERR_MISMATCH, "the checkpoint has %zu variables, and there are %zu here", c->variables_len,
                       s->vars_len);
    return err;
}

/* The most updates that any block has taken: all have in sync, elsewhere some may have had fewer. */
static enum ps_err
get_version(const struct checkpoint_files *files, uint64_t at, uint64_t blocks, uint64_t *out, struct ps_error *e)
{
    enum ps_err err = PS_OK;
    uint64_t value;

    *out = 0;
    for (uint64_t b = 0; err == PS_OK && b < blocks; b++) {
        err = checkpoint_read(files->fd[CHECKPOINT_SLOTS], checkpoint_file_name(CHECKPOINT_SLOTS), &value, sizeof value,
                              at + b * sizeof value, e);
        if (err == PS_OK)
            *out = MAX(*out, le64toh(value));
    }
    return err;
}

static enum ps_err
get_variable(ps_strategy *s, size_t i, const struct checkpoint_files *files, struct ps_error *e)
{
    const struct core_var *v = s->vars[i];
    struct local_optimizer *l = s->copy[0].optimizer[i];
    size_t len = var_bytes(v);
    struct checkpoint_places at;
    enum ps_err err;

    if (!checkpoint_places(files->tensors, v->name, &v->layout, &at))
        return ps_fail(e, PS_ERR_DATA, "the checkpoint's files lack tensors of variable '%s'", v->name);
    err = checkpoint_read(files->fd[CHECKPOINT_WEIGHTS], checkpoint_file_name(CHECKPOINT_WEIGHTS), s->copy[0].values[i],
                          len, at.weights, e);
    l->calm = false;
    for (uint32_t k = 0; err == PS_OK && k < l->slots; k++)
        err = checkpoint_read(files->fd[CHECKPOINT_SLOTS], checkpoint_file_name(CHECKPOINT_SLOTS), l->slot[k], len,
                              at.slot[k], e);
    return err == PS_OK ? get_version(files, at.version, v->layout.blocks, &l->version, e) : err;
}

enum ps_err
strategy_restore_copy(ps_strategy *s, const char *path, struct ps_error *e)
{
    struct checkpoint_source source = {0};
    char *resolved = NULL;
    enum ps_err err;

    if ((err = dir_writer_resolve(path, &resolved, e)) != PS_OK)
        return err;
    if ((err = checkpoint_source_open(resolved, NULL, &source, e)) == PS_OK &&
        (err = check_variables(s, &source.manifest, e)) == PS_OK)
        err = checkpoint_source_verify(resolved, &source, NULL, e);
    for (size_t i = 0; err == PS_OK && i < s->vars_len; i++)
        err = get_variable(s, i, &source.files, e);
    if (err == PS_OK) {
        s->next = source.manifest.clock;
        err = strategy_spread(s, e);
    }
    checkpoint_source_close(&source);
    free(resolved);
    return err;
}
