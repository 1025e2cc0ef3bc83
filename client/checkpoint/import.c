/* There is no message for values that are no gradient, but RESTORE has all that is wanted of one: it is checked on
 * every shard before any of them changes something, a shard that dies in the middle does it again, workers are told,
 * and variables that it does not name stay as they are.
 *
 *     header ──► import_plan() ──► a checkpoint: values, fresh slots, versions from 0 ──► ps_client_restore()
 *     ──► removed
 */
#include "client/core/shards/import_plan.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/checkpoint/checkpoint_dir_writer.h"
#include "client/checkpoint/job_definition.h"
#include "common/system/now.h"
#include "common/system/safetensors_file.h"

#define COUNTS_PIECE 4096

/* An import under way. */
struct importing {
    struct call_deadline limit;
    const char *name; /* of the job */
    struct safetensors_file file;
    struct job_definition job;
    struct checkpoint is, manifest; /* as the shards know it; what is restored */
    char *stage;                    /* our directory, which has the checkpoint; NULL: none yet */
    struct dir_writer making;
    struct checkpoint_files files;
    float piece[SAFETENSORS_PIECE];
};

static enum ps_err
no_memory(struct ps_error *e)
{
    return ps_fail(e, PS_ERR_NOMEM, "no memory to import");
}

/* ---- What it will be ---- */

static enum ps_err
ask_job(struct importing *m, const struct import_choice *choice, struct ps_error *e)
{
    enum ps_err err = job_definition_query(&m->limit, m->name, &m->is, &m->job, e);

    return err == PS_ERR_NOT_FOUND && choice->job != NULL ? PS_OK : err;
}

static enum ps_err
import_describe(struct importing *m, struct ps_error *e)
{
    struct checkpoint *c = &m->manifest;

    c->unix_ms = unix_ms();
    c->clock = m->job.slowest;
    c->at_clock = c->declared->mode == PSD__MODE__SYNC;
    c->version = strdup(PSD_VERSION);
    c->shares = calloc(1, sizeof *c->shares);
    if (c->version == NULL || c->shares == NULL)
        return no_memory(e);
    c->shares_len = 1;
    c->shares[0] = (struct checkpoint_share){.clock = c->clock, .blocks = checkpoint_blocks(c)};
    return PS_OK;
}

/* ---- Its directory ---- */

/* The last part of the path, where a checkpoint may have it as its name. */
static const char *
checkpoint_name(const char *file)
{
    const char *slash = strrchr(file, '/'), *name = slash != NULL ? slash + 1 : file;
    struct ps_error e;

    return dir_writer_name_check(name, &e) == PS_OK ? name : "import";
}

static enum ps_err
make_stage(struct importing *m, const char *file, const char *dir, struct ps_error *e)
{
    const char *slash = strrchr(file, '/');
    int len = dir != NULL ? (int)strlen(dir) : slash == NULL ? 1 : (int)MAX(slash - file, 1);
    const char *from = dir != NULL ? dir : slash == NULL ? "." : file;
    mode_t mask = umask(0);

    (void)umask(mask);
    if (asprintf(&m->stage, "%.*s/psctl-import-XXXXXX", len, from) < 0) {
        m->stage = NULL;
        return no_memory(e);
    }
    if (mkdtemp(m->stage) == NULL || chmod(m->stage, 0777 & ~mask) != 0) {
        enum ps_err err = ps_fail(e, PS_ERR_IO, "cannot make a directory in %.*s: %s", len, from, strerror(errno));

        free(m->stage);
        m->stage = NULL;
        return err;
    }
    return PS_OK;
}

/* All of it. */
static void
remove_stage(struct importing *m)
{
    char path[2 * DIR_WRITER_NAME_MAX + WIRE_PATH_MAX];
    static const char *const files[] = {CHECKPOINT_MANIFEST, "weights.safetensors", "slots.safetensors", ""};

    for (size_t i = 0; m->making.whole && i < ARRAY_LEN(files); i++) {
        snprintf(path, sizeof path, "%s/%s/%s", m->stage, m->making.name, files[i]);
        (void)remove(path);
    }
    snprintf(path, sizeof path, "%s/" CHECKPOINT_LATEST, m->stage);
    (void)unlink(path);
    dir_writer_close(&m->making);
    (void)rmdir(m->stage);
}

/* ---- Values ---- */

static enum ps_err
still_wanted(struct importing *m, struct ps_error *e)
{
    const struct checkpoint_patience patience = call_deadline_for_checksums(&m->limit);

    return patience.left(patience.arg, m->file.path, e);
}

static enum ps_err
check_finite(const struct importing *m, const struct checkpoint_variable *v, uint64_t first, size_t n,
             struct ps_error *e)
{
    if (v->declared->nonfinite == PSD__NON_FINITE__ALLOW)
        return PS_OK;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(m->piece[i]))
            return ps_fail(e, PS_ERR_NONFINITE, "%.200s: element %" PRIu64 " of tensor '%.64s' is %f", m->file.path,
                           first + i, v->declared->name, (double)m->piece[i]);
    return PS_OK;
}

static enum ps_err
import_put_bytes(struct importing *m, enum checkpoint_file file, const void *from, size_t len, uint64_t at,
                 struct ps_error *e)
{
    return checkpoint_write(m->files.fd[file], checkpoint_file_name(file), from, len, at, e);
}

static enum ps_err
put_weights(struct importing *m, const struct checkpoint_variable *v, uint64_t at, struct ps_error *e)
{
    const struct safetensors_tensor *t = safetensors_find(&m->file.head, v->declared->name);
    enum ps_err err = PS_OK;

    for (uint64_t i = 0; err == PS_OK && i < v->layout.elements; i += SAFETENSORS_PIECE) {
        size_t n = MIN(v->layout.elements - i, (uint64_t)SAFETENSORS_PIECE);

        if ((err = still_wanted(m, e)) == PS_OK &&
            (err = safetensors_file_floats(&m->file, t, i, n, m->piece, e)) == PS_OK &&
            (err = check_finite(m, v, i, n, e)) == PS_OK)
            err = import_put_bytes(m, CHECKPOINT_WEIGHTS, m->piece, n * sizeof *m->piece, at + i * sizeof *m->piece, e);
    }
    return err;
}

/* Files begin as zeros, and so do most slots. */
static enum ps_err
put_slot(struct importing *m, const struct checkpoint_variable *v, uint64_t at, float value, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (size_t i = 0; value != 0 && i < SAFETENSORS_PIECE; i++)
        m->piece[i] = value;
    for (uint64_t i = 0; value != 0 && err == PS_OK && i < v->layout.elements; i += SAFETENSORS_PIECE) {
        size_t n = MIN(v->layout.elements - i, (uint64_t)SAFETENSORS_PIECE);

        err = import_put_bytes(m, CHECKPOINT_SLOTS, m->piece, n * sizeof *m->piece, at + i * sizeof *m->piece, e);
    }
    return err;
}

static enum ps_err
put_slots(struct importing *m, const struct checkpoint_variable *v, const struct checkpoint_places *places,
          struct ps_error *e)
{
    struct ps_optimizer optimizer = wire_optimizer(v->now->optimizer);
    float first[LAYOUT_SLOTS_MAX] = {0};
    struct optimizer_arrays arrays = {0};
    enum ps_err err = PS_OK;

    for (uint32_t k = 0; k < v->layout.slots; k++)
        arrays.slot[k] = &first[k];
    optimizer_start(&optimizer, 1, &arrays);
    for (uint32_t k = 0; err == PS_OK && k < v->layout.slots; k++)
        err = put_slot(m, v, places->slot[k], first[k], e);
    return err;
}

/* In sync all blocks are of the job's clock; elsewhere, and for versions, 0 is what the file has. */
static enum ps_err
put_clock(struct importing *m, const struct checkpoint_variable *v, uint64_t at, struct ps_error *e)
{
    uint64_t counts[COUNTS_PIECE], clock = m->manifest.at_clock ? m->manifest.clock : 0;
    enum ps_err err = PS_OK;

    for (size_t i = 0; i < COUNTS_PIECE; i++)
        counts[i] = htole64(clock);
    for (uint64_t i = 0; clock != 0 && err == PS_OK && i < v->layout.blocks; i += COUNTS_PIECE)
        err = import_put_bytes(m, CHECKPOINT_SLOTS, counts,
                               MIN(v->layout.blocks - i, (uint64_t)COUNTS_PIECE) * sizeof *counts,
                               at + i * sizeof *counts, e);
    return err;
}

static enum ps_err
import_fill(struct importing *m, struct ps_import_report *report, struct ps_error *e)
{
    enum ps_err err = checkpoint_files_open(m->making.fd, true, &m->files, e);

    for (size_t i = 0; err == PS_OK && i < m->manifest.variables_len; i++) {
        const struct checkpoint_variable *v = &m->manifest.variables[i];
        struct checkpoint_places places;

        if (!checkpoint_places(m->files.tensors, v->declared->name, &v->layout, &places))
            err = ps_fail(e, PS_ERR_INTERNAL, "the checkpoint was made without space for '%s'", v->declared->name);
        else if ((err = put_weights(m, v, places.weights, e)) == PS_OK && (err = put_slots(m, v, &places, e)) == PS_OK)
            err = put_clock(m, v, places.clock, e);
        report->elements += v->layout.elements;
    }
    report->variables = m->manifest.variables_len;
    checkpoint_files_close(&m->files);
    return err;
}

static enum ps_err
import_make(struct importing *m, const char *file, const char *dir, struct ps_import_report *report, struct ps_error *e)
{
    const struct checkpoint_patience patience = call_deadline_for_checksums(&m->limit);
    enum ps_err err;

    if ((err = import_describe(m, e)) != PS_OK || (err = make_stage(m, file, dir, e)) != PS_OK ||
        (err = dir_writer_begin(&m->making, m->stage, checkpoint_name(file), false, e)) != PS_OK ||
        (err = dir_writer_files(&m->making, &m->manifest, e)) != PS_OK || (err = import_fill(m, report, e)) != PS_OK)
        return err;
    return dir_writer_end(&m->making, &m->manifest, &patience, e);
}

/* ---- Into the shards ---- */

/* Whether the stage may still be needed: shards that were told to restore, and may not be done, read it again when they
 * start. */
static bool
may_be_needed(enum ps_err err, const struct ps_error *e)
{
    return err != PS_OK && strstr(e->text, "nothing has changed") == NULL;
}

static enum ps_err
import_restore(struct importing *m, int timeout_ms, struct ps_error *e)
{
    char path[2 * DIR_WRITER_NAME_MAX + WIRE_PATH_MAX], text[PS_ERROR_TEXT_MAX];
    enum ps_err err;

    snprintf(path, sizeof path, "%s/%s", m->making.dir, m->making.name);
    err = ps_client_restore(m->limit.client, path, m->name, timeout_ms, e);
    if (!may_be_needed(err, e))
        return err;
    snprintf(text, sizeof text, "%.280s; %.160s is kept: psctl restore it", e->text, path);
    memcpy(e->text, text, sizeof text);
    dir_writer_close(&m->making);
    free(m->stage);
    m->stage = NULL;
    return err;
}

static void
importing_free(struct importing *m)
{
    if (m->stage != NULL)
        remove_stage(m);
    free(m->stage);
    safetensors_file_close(&m->file);
    checkpoint_finish(&m->is);
    checkpoint_finish(&m->manifest);
    free(m);
}

static enum ps_err
import_run(struct importing *m, const char *file, const char *dir, const struct import_choice *choice, int timeout_ms,
           struct ps_import_report *report, struct ps_error *e)
{
    enum ps_err err;

    if ((err = safetensors_file_open(file, &m->file, e)) != PS_OK || (err = ask_job(m, choice, e)) != PS_OK ||
        (err = import_plan(file, &m->file.head, &m->is, choice, &m->manifest, &report->declared, e)) != PS_OK ||
        (err = import_make(m, file, dir, report, e)) != PS_OK)
        return err;
    return import_restore(m, timeout_ms, e);
}

/* The job to be made when no shard knows it. */
static void
fill_job(const struct ps_import_options *options, const char *name, Psd__Job *job)
{
    psd__job__init(job);
    job->name = (char *)name;
    job->mode = (Psd__Mode)options->mode;
    job->bound = options->bound;
    job->workers = job->quorum = MAX(options->workers, 1u);
}

enum ps_err
ps_client_import(ps_client *c, const char *file, const struct ps_import_options *options, int timeout_ms,
                 struct ps_import_report *report, struct ps_error *error)
{
    static const struct ps_import_options usual;
    struct ps_import_report report_room;
    struct ps_error error_room;
    struct import_choice choice;
    struct importing *m;
    Psd__Job job;
    enum ps_err err;

    report = report != NULL ? report : &report_room;
    error = error != NULL ? error : &error_room;
    *report = (struct ps_import_report){0};
    if ((err = call_need(c, file, error)) != PS_OK)
        return err;
    options = options != NULL ? options : &usual;
    if ((m = calloc(1, sizeof *m)) == NULL)
        return no_memory(error);
    m->limit = call_deadline_of(c, timeout_ms);
    m->file.fd = -1;
    m->making = (struct dir_writer){.fd = -1, .dir_fd = -1};
    m->name = options->job != NULL ? options->job : c->options.job;
    fill_job(options, m->name, &job);
    choice = (struct import_choice){.pattern = options->variables,
                                    .except = options->except,
                                    .except_len = options->except_len,
                                    .declare = options->declare};
    if (options->declare != NULL && options->make_job)
        choice.job = &job;
    err = import_run(m, file, options->dir, &choice, timeout_ms, report, error);
    importing_free(m);
    return err;
}
