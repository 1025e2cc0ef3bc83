#include "server/recovery/replay_tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "common/core/model/layout.h"
#include "proto/store.pb-c.h"
#include "server/core/journal/redo_record.h"
#include "server/core/store/store_mem.h"
#include "server/core/turn/row.h"
#include "server/lmdb/store_lmdb.h"
#include "server/process/log.h"
#include "server/recovery/live_dir.h"

/* ---- The state to begin with ---- */

static enum ps_err
make_shard(const struct durable_dir *dir, struct store *live, const char *live_dir, struct shard **out,
           struct ps_error *e)
{
    struct shard_config config = {.cluster = dir->cluster,
                                  .shard = dir->shard,
                                  .shards = dir->shards,
                                  .version = PSD_VERSION,
                                  .live_dir = live_dir,
                                  .pid = (uint64_t)getpid()};

    if (env_pair_random(&config.boot) != PS_OK)
        return ps_fail(e, PS_ERR_IO, "cannot get random bytes");
    return shard_new(&config, live, uv_hrtime() / 1000000, out, e);
}

static enum ps_err
replay_tool_begin(struct durable_dir *dir, struct store *live, const char *live_dir, struct shard **out,
                  struct ps_error *e)
{
    uint64_t boot;
    enum ps_err err;

    if (env_pair_random(&boot) != PS_OK)
        return ps_fail(e, PS_ERR_IO, "cannot get random bytes");
    if (dir->durable.manifest.save != 0 && (err = durable_rebuild(&dir->durable, live, boot, NULL, NULL, e)) != PS_OK)
        return err;
    return make_shard(dir, live, live_dir, out, e);
}

/* ---- Records ---- */

/* Each record is assembled and handed on when it is complete. */
struct replayed_records {
    struct store *disk;
    struct shard *shard;
    struct redo_head head;
    uint8_t *bytes;
    size_t len, size;
    uint64_t until; /* records after this one are left out; 0: none */
    enum ps_err (*visit)(struct replayed_records *r, struct ps_error *e);
    struct ps_error *e;
    enum ps_err err;
};

static bool
replay_tool_append(struct replayed_records *r, struct span piece)
{
    size_t len = r->head.len;
    uint8_t *bigger;

    if (len > piece.len - sizeof r->head)
        return false;
    if (r->len + len > r->size) {
        r->size = MAX(2 * r->size, r->len + len);
        if ((bigger = realloc(r->bytes, r->size)) == NULL)
            return false;
        r->bytes = bigger;
    }
    memcpy(r->bytes + r->len, (const uint8_t *)piece.data + sizeof r->head, len);
    r->len += len;
    return true;
}

static bool
see_piece(void *arg, const struct store_key *key, struct span piece)
{
    struct replayed_records *r = arg;

    if (key->generation != STORE_GENERATION_REDO)
        return true;
    if ((r->err = r->disk->ops->fetch(r->disk, piece)) != PS_OK) {
        r->err = ps_fail(r->e, r->err, "piece %" PRIu64 " of the redo log: %s", store_redo_number(key),
                         store_lmdb_why(r->disk));
        return false;
    }
    memcpy(&r->head, piece.data, MIN(piece.len, sizeof r->head));
    if (r->until != 0 && r->head.record > r->until)
        return false;
    if ((r->err = shard_replay_piece(r->shard, piece, r->e)) != PS_OK) /* which has also checked it */
        return false;
    if (r->visit == NULL)
        return true;
    if (!replay_tool_append(r, piece)) {
        r->err = ps_fail(r->e, PS_ERR_NOMEM, "no memory for a record of the redo log");
        return false;
    }
    if (r->head.piece + 1 < r->head.pieces)
        return true;
    r->err = r->visit(r, r->e);
    r->len = 0;
    return r->err == PS_OK;
}

static enum ps_err
replay_tool_records(struct replayed_records *r, const struct durable_dir *dir, uint64_t *n, struct ps_error *e)
{
    struct store_key from = store_redo_key(dir->durable.redo_first);
    enum ps_err err;

    r->e = e;
    r->disk = dir->store;
    err = dir->store->ops->each_block_from(dir->store, &from, see_piece, r);
    free(r->bytes);
    if (err != PS_OK)
        return ps_fail(e, err, "the redo log in %s cannot be read: %s", dir->path, ps_strerror(err));
    return r->err == PS_OK ? shard_replay_end(r->shard, n, e) : r->err;
}

/* ---- A shard to look into ---- */

static enum ps_err
mark_scratch(void *arg, const char *dir, struct ps_error *e)
{
    (void)arg;
    return live_dir_mark(dir, LIVE_DIR_EMPTY, e);
}

static enum ps_err
open_live(struct open_stores *s, struct ps_error *e)
{
    const struct options *o = s->options;
    struct store_lmdb_options options = {.dir = o->live_dir,
                                         .max_bytes = o->memory,
                                         .most_bytes = o->memory_most,
                                         .sharers = o->shards_here,
                                         .before_new = mark_scratch};
    bool discarded;
    enum ps_err err;

    if (strlen(o->live_dir) + 32 > sizeof s->live_dir)
        return ps_fail(e, PS_ERR_CONFIG, "--live-dir: the path is too long");
    strcpy(s->live_dir, o->live_dir);
    if ((err = live_dir_check(s->live_dir, false, &discarded, e)) != PS_OK ||
        (err = store_lmdb_open(&options, &s->store, &s->report, e)) != PS_OK)
        return err;
    if (!s->report.existed)
        return PS_OK;
    s->data = DATA_KEPT;
    return ps_fail(e, PS_ERR_CONFIG,
                   "--live-dir must name a new directory, in which the replayed state is made: %s is none",
                   s->live_dir);
}

enum ps_err
replay_tool_open(struct open_stores *s, struct ps_error *e)
{
    struct durable_dir dir = {.store = NULL};
    struct replayed_records r = {.until = s->options->until};
    uint64_t n = 0;
    enum ps_err err;

    if ((err = durable_dir_open_there(&dir, s->options->replay, e)) != PS_OK || (err = open_live(s, e)) != PS_OK ||
        (err = replay_tool_begin(&dir, s->store, s->live_dir, &s->shard, e)) != PS_OK)
        goto out;
    r.shard = s->shard;
    if ((err = replay_tool_records(&r, &dir, &n, e)) != PS_OK)
        goto out;
    log_line(LOG_LEVEL_INFO,
             "replayed records=%" PRIu64 " until=%" PRIu64 " save=%" PRIu64 " durable_dir=%s: a scratch shard, which "
             "saves nothing",
             n, s->options->until, dir.durable.manifest.save, dir.path);
    err = live_dir_mark(s->live_dir, LIVE_DIR_OPEN, e);
out:
    durable_dir_close(&dir);
    return err;
}

/* ---- The list ---- */

struct names {
    char **text; /* by id */
    size_t size;
};

struct listing {
    struct replayed_records records;
    struct store *live;
    FILE *out;
    struct names jobs, variables;
    enum ps_err err;
};

static void
name_put(struct names *names, uint32_t id, const char *text)
{
    if (id >= names->size) {
        size_t size = MAX(2 * names->size, (size_t)id + 1);
        char **bigger = realloc(names->text, size * sizeof *bigger);

        if (bigger == NULL)
            return;
        memset(bigger + names->size, 0, (size - names->size) * sizeof *bigger);
        names->text = bigger;
        names->size = size;
    }
    free(names->text[id]);
    names->text[id] = strdup(text);
}

static const char *
name_of(const struct names *names, uint32_t id)
{
    return id < names->size && names->text[id] != NULL ? names->text[id] : "?";
}

static void
names_free(struct names *names)
{
    for (size_t i = 0; i < names->size; i++)
        free(names->text[i]);
    free(names->text);
}

static bool
see_job(void *arg, struct span key, struct span value)
{
    struct listing *l = arg;
    Psd__JobRow *row = psd__job_row__unpack(NULL, value.len, value.data);

    if (row == NULL)
        return true;
    name_put(&l->jobs, row_id(key), row->options != NULL ? row->options->name : "?");
    psd__job_row__free_unpacked(row, NULL);
    return true;
}

static bool
see_variable(void *arg, struct span key, struct span value)
{
    struct listing *l = arg;
    Psd__VariableRow *row = psd__variable_row__unpack(NULL, value.len, value.data);

    if (row == NULL)
        return true;
    name_put(&l->variables, row_id(key), row->declare != NULL ? row->declare->name : "?");
    psd__variable_row__free_unpacked(row, NULL);
    return true;
}

/* Rows are in the log before the records that refer to them. */
static enum ps_err
learn_names(struct listing *l, const Psd__RedoRecord *m)
{
    const struct store_ops *ops = l->live->ops;
    enum ps_err err = PS_OK;

    if (m->n_row > 0 || l->variables.size == 0)
        if ((err = ops->each_row(l->live, STORE_JOBS, see_job, l)) == PS_OK)
            err = ops->each_row(l->live, STORE_VARS, see_variable, l);
    return err;
}

struct norms {
    double gradient, weights;
    uint64_t nonfinite;
};

static void
add_gradient(struct norms *n, const float *g, size_t len, float scale)
{
    for (size_t i = 0; i < len; i++) {
        double x = (double)g[i] * (double)scale;

        n->nonfinite += !isfinite(g[i]);
        n->gradient += x * x;
    }
}

/* The norm of the block as it is now; *len: its weights. */
static enum ps_err
add_weights(struct listing *l, struct store_snapshot *snap, uint32_t var, uint32_t block, struct norms *n, size_t *len)
{
    struct store_key key = {.var = var, .block = block};
    struct block_head head;
    struct span value;
    const float *w;
    enum ps_err err = l->live->ops->snapshot_get(l->live, snap, &key, &value);

    if (err != PS_OK)
        return err;
    memcpy(&head, value.data, sizeof head);
    w = (const float *)(const void *)((const uint8_t *)value.data + sizeof head);
    for (uint32_t i = 0; i < head.len; i++)
        n->weights += (double)w[i] * (double)w[i];
    *len = head.len;
    return PS_OK;
}

static enum ps_err
replay_tool_measure(struct listing *l, const Psd__RedoRecord *m, struct norms *n)
{
    const struct replayed_records *r = &l->records;
    const float *g = (const float *)(const void *)(r->bytes + record_gradients(r->head.meta_len));
    struct store_snapshot *snap;
    size_t len;
    enum ps_err err = l->live->ops->snapshot_ref(l->live, &snap);

    if (err != PS_OK)
        return err;
    for (size_t i = 0; i < m->n_var && err == PS_OK; i++)
        if ((err = add_weights(l, snap, m->var[i], m->block[i], n, &len)) == PS_OK) {
            add_gradient(n, g, len, m->scale[i]);
            g += len;
        }
    l->live->ops->snapshot_unref(l->live, snap);
    n->gradient = sqrt(n->gradient);
    n->weights = sqrt(n->weights);
    return err;
}

static void
print_pushes(const struct listing *l, const Psd__RedoRecord *m)
{
    for (size_t i = 0; i < m->n_push; i++)
        fprintf(l->out, "%s%s/%u:%" PRIu64, i > 0 ? "," : "", name_of(&l->jobs, m->push[i]->job), m->push[i]->task,
                m->push[i]->seq);
    if (m->n_push == 0)
        fputc('-', l->out);
}

static void
print_record(const struct listing *l, const Psd__RedoRecord *m, const struct norms *n)
{
    fprintf(l->out, "%8" PRIu64 "  %8" PRIu64 "  %12.6g  %9" PRIu64 "  %12.6g  ", l->records.head.record,
            m->n_push > 0 ? m->push[0]->clock : 0, n->gradient, n->nonfinite, n->weights);
    print_pushes(l, m);
    fputs("  ", l->out);
    for (size_t i = 0; i < m->n_var; i++) /* a variable's blocks lie together */
        if (i == 0 || m->var[i] != m->var[i - 1])
            fprintf(l->out, "%s%s", i > 0 ? "," : "", name_of(&l->variables, m->var[i]));
    fputc('\n', l->out);
}

/* Discards the shard's log lines and other actions. */
static void
drop_actions(struct shard *shard)
{
    struct shard_action a;

    while (shard_next_action(shard, &a)) {
        free(a.bytes);
        free(a.text);
        shard_data_free(a.data);
        shard_save_free(a.save);
    }
}

static enum ps_err
list_record(struct replayed_records *r, struct ps_error *e)
{
    struct listing *l = CONTAINER_OF(r, struct listing, records);
    struct norms n = {.gradient = 0};
    Psd__RedoRecord *m = psd__redo_record__unpack(NULL, r->head.meta_len, r->bytes);
    enum ps_err err;

    if (m == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a record of the redo log");
    if ((err = shard_commit(r->shard)) == PS_OK && (err = learn_names(l, m)) == PS_OK && m->n_var > 0 &&
        (err = replay_tool_measure(l, m, &n)) == PS_OK)
        print_record(l, m, &n);
    drop_actions(r->shard);
    psd__redo_record__free_unpacked(m, NULL);
    return err == PS_OK ? PS_OK : ps_fail(e, err, "the redo log cannot be replayed: %s", ps_strerror(err));
}

static void
print_head(FILE *out, const struct durable_dir *dir)
{
    const struct durable_manifest *m = &dir->durable.manifest;
    time_t at = (time_t)(m->unix_ms / 1000);
    char when[32];
    struct tm tm;

    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &tm));
    fprintf(out, "# cluster %s, shard %u of %u\n", dir->cluster, dir->shard, dir->shards);
    if (m->save != 0)
        fprintf(out, "# save %" PRIu64 " of %s: %" PRIu64 " blocks, %" PRIu64 " bytes; over it:\n", m->save, when,
                m->blocks, m->bytes);
    else
        fprintf(out, "# no save; from the beginning:\n");
    fprintf(out, "# %6s  %8s  %12s  %9s  %12s  %s  %s\n", "record", "clock", "|gradient|", "nonfinite", "|weights|",
            "job/task:sequence", "variables");
}

enum ps_err
replay_tool_list(const char *path, FILE *out, struct ps_error *e)
{
    struct durable_dir dir = {.store = NULL};
    struct listing l = {.out = out, .records = {.visit = list_record}};
    struct store *live = NULL;
    uint64_t n;
    enum ps_err err;

    if ((err = durable_dir_open_there(&dir, path, e)) != PS_OK)
        goto out;
    if ((live = store_mem_new(UINT64_MAX / 2)) == NULL) {
        err = ps_fail(e, PS_ERR_NOMEM, "no memory to replay %s", path);
        goto out;
    }
    if ((err = replay_tool_begin(&dir, live, "", &l.records.shard, e)) != PS_OK)
        goto out;
    l.live = live;
    print_head(out, &dir);
    err = replay_tool_records(&l.records, &dir, &n, e);
out:
    shard_free(l.records.shard);
    if (live != NULL)
        live->ops->close(live);
    names_free(&l.jobs);
    names_free(&l.variables);
    durable_dir_close(&dir);
    return err;
}
