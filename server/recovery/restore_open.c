/* Places of the tensors are looked up once; then a block is a few reads. */
#include "server/recovery/restore_open.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

struct opened_checkpoint {
    struct shard_restore base;
    struct checkpoint_source source;
    struct checkpoint_places *places; /* by variable */
    char *dir, *job;
};

static void
opened_close(struct shard_restore *base)
{
    struct opened_checkpoint *o = CONTAINER_OF(base, struct opened_checkpoint, base);

    checkpoint_source_close(&o->source);
    free(o->places);
    free(o->dir);
    free(o->job);
    free(o);
}

static enum ps_err
restore_open_get(struct opened_checkpoint *o, enum checkpoint_file file, void *to, size_t len, uint64_t at,
                 struct ps_error *e)
{
    return checkpoint_read(o->source.files.fd[file], checkpoint_file_name(file), to, len, at, e);
}

static enum ps_err
opened_elements(struct shard_restore *base, size_t variable, uint32_t array, uint64_t first, uint32_t len, float *to,
                struct ps_error *e)
{
    struct opened_checkpoint *o = CONTAINER_OF(base, struct opened_checkpoint, base);
    const struct checkpoint_places *p = &o->places[variable];

    if (array == 0)
        return restore_open_get(o, CHECKPOINT_WEIGHTS, to, len * sizeof *to, p->weights + first * sizeof *to, e);
    return restore_open_get(o, CHECKPOINT_SLOTS, to, len * sizeof *to, p->slot[array - 1] + first * sizeof *to, e);
}

static enum ps_err
opened_counts(struct shard_restore *base, size_t variable, uint64_t block, uint64_t *version, uint64_t *clock,
              struct ps_error *e)
{
    struct opened_checkpoint *o = CONTAINER_OF(base, struct opened_checkpoint, base);
    const struct checkpoint_places *p = &o->places[variable];
    uint64_t v, c;
    enum ps_err err;

    if ((err = restore_open_get(o, CHECKPOINT_SLOTS, &v, sizeof v, p->version + block * sizeof v, e)) != PS_OK ||
        (err = restore_open_get(o, CHECKPOINT_SLOTS, &c, sizeof c, p->clock + block * sizeof c, e)) != PS_OK)
        return err;
    *version = le64toh(v);
    *clock = le64toh(c);
    return PS_OK;
}

/* The manifest and the headers agree, so all places are there. */
static bool
find_places(struct opened_checkpoint *o)
{
    const struct checkpoint *m = &o->source.manifest;
    bool ok;

    if ((o->places = calloc(m->variables_len + 1, sizeof *o->places)) == NULL)
        return false;
    for (size_t i = 0; i < m->variables_len; i++) {
        ok = checkpoint_places(o->source.files.tensors, m->variables[i].declared->name, &m->variables[i].layout,
                               &o->places[i]);
        ps_assert(ok);
    }
    return true;
}

enum ps_err
restore_verify(struct shard_restore *r, const struct checkpoint_patience *patience, struct ps_error *e)
{
    return checkpoint_source_verify(r->dir, &CONTAINER_OF(r, struct opened_checkpoint, base)->source, patience, e);
}

enum ps_err
restore_stamps(struct shard_restore *r, struct checkpoint_stamps *out, struct ps_error *e)
{
    return checkpoint_source_stamps(&CONTAINER_OF(r, struct opened_checkpoint, base)->source, out, e);
}

enum ps_err
restore_open(const char *dir, const char *job, const char *root, uint64_t boot, struct shard_restore **out,
             struct ps_error *e)
{
    struct opened_checkpoint *o = calloc(1, sizeof *o);
    enum ps_err err;

    if (o == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a restore");
    o->dir = strdup(dir);
    o->job = strdup(job != NULL ? job : "");
    err = checkpoint_source_open(dir, root, &o->source, e);
    if (err == PS_OK && (o->dir == NULL || o->job == NULL || !find_places(o)))
        err = ps_fail(e, PS_ERR_NOMEM, "no memory for a restore");
    if (err != PS_OK) {
        opened_close(&o->base);
        return err;
    }
    o->base = (struct shard_restore){.manifest = &o->source.manifest,
                                     .dir = o->dir,
                                     .job = o->job,
                                     .boot = boot,
                                     .elements = opened_elements,
                                     .counts = opened_counts,
                                     .close = opened_close};
    *out = &o->base;
    return PS_OK;
}
