#include "client/tools/psctl/export.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/tools/shared/new_file.h"
#include "common/core/base/nearest.h"
#include "common/core/base/pattern.h"
#include "common/system/checkpoint_dir.h"
#include "common/system/file_error.h"
#include "common/system/safetensors_file.h"

#define COPY_BYTES     (1 * MIB)
#define PULL_BYTES     (64 * MIB) /* variables are pulled together up to so many bytes, */
#define PULL_VARIABLES 1024       /* and so many */

/* The file that is written, and its header. */
struct exporting {
    struct new_file file;
    struct safetensors head;
    struct export_report *report;
};

static void
exporting_close(struct exporting *x)
{
    new_file_close(&x->file);
    safetensors_finish(&x->head);
}

/* Write the header and allocate space on the disk: a full disk is reported now, not by a signal when a page is
 * written. */
static enum ps_err
export_begin(struct exporting *x, const char *file, const struct safetensors_note *notes, size_t n, struct ps_error *e)
{
    char *head;
    enum ps_err err;
    int rc;

    if ((err = safetensors_head_notes(&x->head, "psd " PSD_VERSION, notes, n, &head, e)) == PS_OK &&
        (err = new_file_begin(&x->file, file, e)) == PS_OK &&
        (rc = posix_fallocate(x->file.fd, 0, (off_t)x->head.bytes)) != 0)
        err = ps_fail(e, rc == EFBIG ? PS_ERR_FULL : file_error_code(rc),
                      "no room for the %" PRIu64 " bytes of %.300s: %s", x->head.bytes, file, strerror(rc));
    if (err == PS_OK)
        err = checkpoint_write(x->file.fd, file, head, x->head.data, 0, e);
    free(head);
    x->report->variables = x->head.len;
    x->report->bytes = x->head.bytes;
    return err;
}

/* ---- From the shards ---- */

static enum ps_err
add_variables(struct exporting *x, size_t n, ps_var *const *vars, struct ps_error *e)
{
    uint64_t dims[PS_RANK_MAX];
    enum ps_err err = PS_OK;

    for (size_t i = 0; err == PS_OK && i < n; i++) {
        uint32_t rank = ps_var_rank(vars[i]);

        for (uint32_t d = 0; d < rank; d++)
            dims[d] = ps_var_dim(vars[i], d);
        err = safetensors_add(&x->head, ps_var_name(vars[i]), SAFETENSORS_F32, rank, dims, e);
    }
    return err;
}

/* How many of the file's tensors, from this one on, are pulled at once. They lie one after the other. */
static size_t
pull_piece(const struct exporting *x, size_t from)
{
    const struct safetensors_tensor *t = x->head.tensors;
    size_t n = 1;

    while (n < PULL_VARIABLES && from + n < x->head.len &&
           t[from + n].begin + t[from + n].bytes - t[from].begin <= PULL_BYTES)
        n++;
    return n;
}

static enum ps_err
pull_into(ps_client *client, size_t n, ps_var *const *vars, float *const *to, const struct ps_pull_options *options,
          uint64_t *blocks, struct ps_error *e)
{
    ps_op *op;
    enum ps_err err;

    if ((err = ps_client_pull_start(client, n, vars, to, options, &op, e)) != PS_OK)
        return err;
    err = ps_op_wait(op, options->timeout_ms, e);
    *blocks = ps_op_blocks_transferred(op);
    ps_op_free(op);
    return err;
}

/* The variables' part of the file is where their values arrive. */
static enum ps_err
export_pull_piece(struct exporting *x, ps_client *client, size_t first, size_t n, ps_var *const *vars,
                  const struct ps_pull_options *options, uint64_t *blocks, struct ps_error *e)
{
    const struct safetensors_tensor *t = x->head.tensors + first;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = t->begin / page * page,
             len = t[n - 1].begin + t[n - 1].bytes - from;
    uint8_t *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, x->file.fd, (off_t)from);
    float *to[PULL_VARIABLES];
    enum ps_err err;

    if (map == MAP_FAILED)
        return ps_fail(e, PS_ERR_NOMEM, "cannot map %" PRIu64 " bytes of %.300s: %s", len, x->file.path,
                       strerror(errno));
    for (size_t i = 0; i < n; i++) {
        ps_assert(strcmp(t[i].name, ps_var_name(vars[first + i])) == 0);
        to[i] = (float *)(void *)(map + (t[i].begin - from));
    }
    err = pull_into(client, n, vars + first, to, options, blocks, e);
    (void)munmap(map, len);
    return err;
}

static enum ps_err
pull_all(struct exporting *x, ps_client *client, ps_var *const *vars, int timeout_ms, struct ps_error *e)
{
    struct ps_pull_options options = {.timeout_ms = timeout_ms};
    uint64_t blocks;
    enum ps_err err = PS_OK;

    for (int look = 0; look < 2; look++) {
        options.only_changed = look;
        for (size_t i = 0, n; err == PS_OK && i < x->head.len; i += n) {
            n = pull_piece(x, i);
            if ((err = export_pull_piece(x, client, i, n, vars, &options, &blocks, e)) == PS_OK && look > 0)
                x->report->changed += blocks;
        }
    }
    x->report->one_moment = x->report->changed == 0;
    return err;
}

enum ps_err
export_pull(ps_client *client, const char *job, size_t n, const char *const *names, const char *file, int timeout_ms,
            struct export_report *report, struct ps_error *e)
{
    const struct safetensors_note notes[] = {{"job", job}, {"source", "shards"}};
    struct exporting x = {.file = {.fd = -1}, .report = report};
    ps_var **vars = calloc(n, sizeof(ps_var *));
    enum ps_err err = vars != NULL ? PS_OK : ps_fail(e, PS_ERR_NOMEM, "no memory for %zu variables", n);

    *report = (struct export_report){0};
    snprintf(report->job, sizeof report->job, "%s", job);
    if (err == PS_OK && (err = ps_client_attach_many(client, n, names, vars, e)) == PS_OK &&
        (err = add_variables(&x, n, vars, e)) == PS_OK &&
        (err = export_begin(&x, file, notes, ARRAY_LEN(notes), e)) == PS_OK &&
        (err = pull_all(&x, client, vars, timeout_ms, e)) == PS_OK)
        err = new_file_end(&x.file, e);
    exporting_close(&x);
    free(vars);
    return err;
}

/* ---- From a checkpoint ---- */

static enum ps_err
export_choose(struct exporting *x, const struct checkpoint_source *source, const char *pattern, struct ps_error *e)
{
    const struct checkpoint *c = &source->manifest;
    struct nearest nearest = nearest_to(pattern != NULL ? pattern : "");
    char meant[NEAREST_TEXT_MAX];
    enum ps_err err = PS_OK;

    for (size_t i = 0; err == PS_OK && i < c->variables_len; i++) {
        const Psd__Declare *d = c->variables[i].declared;

        nearest_offer(&nearest, d->name);
        if (pattern == NULL || pattern_matches(pattern, d->name))
            err = safetensors_add(&x->head, d->name, SAFETENSORS_F32, (uint32_t)d->n_dims, d->dims, e);
    }
    if (err == PS_OK && x->head.len == 0)
        return ps_fail(e, PS_ERR_NOT_FOUND, "the checkpoint has no variable that \"%.128s\" names%s",
                       pattern != NULL ? pattern : "*", nearest_text(&nearest, "", meant));
    return err;
}

static enum ps_err
check_weights(const struct checkpoint_source *source, struct ps_error *e)
{
    const char *name = checkpoint_file_name(CHECKPOINT_WEIGHTS);
    char digest[CHECKPOINT_DIGEST];
    uint64_t bytes;
    enum ps_err err;

    if ((err = checkpoint_digest(source->files.fd[CHECKPOINT_WEIGHTS], name, NULL, digest, &bytes, e)) != PS_OK)
        return err;
    if (strcmp(digest, source->manifest.files[CHECKPOINT_WEIGHTS].sha256) != 0)
        return ps_fail(e, PS_ERR_DATA, "%s: it is damaged: its SHA-256 is not that of the manifest", name);
    return PS_OK;
}

static enum ps_err
copy_tensor(struct exporting *x, const struct checkpoint_source *source, const struct safetensors_tensor *to,
            void *piece, struct ps_error *e)
{
    const struct safetensors_tensor *from =
        safetensors_find(&source->files.tensors[CHECKPOINT_WEIGHTS], to->name); /* all of the manifest's exist */
    enum ps_err err = PS_OK;

    ps_assert(from != NULL && from->bytes == to->bytes);
    for (uint64_t at = 0; err == PS_OK && at < to->bytes; at += COPY_BYTES) {
        size_t n = MIN(to->bytes - at, (uint64_t)COPY_BYTES);

        if ((err = checkpoint_read(source->files.fd[CHECKPOINT_WEIGHTS], checkpoint_file_name(CHECKPOINT_WEIGHTS),
                                   piece, n, from->begin + at, e)) == PS_OK)
            err = checkpoint_write(x->file.fd, x->file.path, piece, n, to->begin + at, e);
    }
    return err;
}

static enum ps_err
copy_all(struct exporting *x, const struct checkpoint_source *source, const char *path, const char *file,
         struct ps_error *e)
{
    char clock[24];
    const struct safetensors_note notes[] = {
        {"job", source->manifest.declared->name}, {"source", path}, {"clock", clock}};
    void *piece = malloc(COPY_BYTES);
    enum ps_err err = piece != NULL ? PS_OK : ps_fail(e, PS_ERR_NOMEM, "no memory to copy");

    snprintf(clock, sizeof clock, "%" PRIu64, source->manifest.clock);
    if (err == PS_OK)
        err = export_begin(x, file, notes, ARRAY_LEN(notes), e);
    for (size_t i = 0; err == PS_OK && i < x->head.len; i++)
        err = copy_tensor(x, source, &x->head.tensors[i], piece, e);
    free(piece);
    return err == PS_OK ? new_file_end(&x->file, e) : err;
}

enum ps_err
export_checkpoint(const char *path, const char *pattern, const char *file, struct export_report *report,
                  struct ps_error *e)
{
    struct exporting x = {.file = {.fd = -1}, .report = report};
    struct checkpoint_source source;
    enum ps_err err = checkpoint_source_open(path, NULL, &source, e);

    *report = (struct export_report){0};
    if (err == PS_OK && (err = export_choose(&x, &source, pattern, e)) == PS_OK &&
        (err = check_weights(&source, e)) == PS_OK)
        err = copy_all(&x, &source, path, file, e);
    if (err == PS_OK) {
        snprintf(report->job, sizeof report->job, "%s", source.manifest.declared->name);
        report->clock = source.manifest.clock;
        report->one_moment = source.manifest.at_clock;
    }
    exporting_close(&x);
    checkpoint_source_close(&source);
    return err;
}
