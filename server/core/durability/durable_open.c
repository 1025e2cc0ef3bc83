/* Opening a durable store: to which shard it belongs, which save counts, how far the redo log goes. */
#include <inttypes.h>
#include <string.h>

#include "common/core/model/layout.h"
#include "proto/store.pb-c.h"
#include "server/core/durability/durable.h"
#include "server/core/durability/identity.h"
#include "server/core/store/metadata_rows.h"

const char *const durable_manifest_name = "manifest", *const durable_staged_name = "staged",
                  *const durable_log_name = "log";

/* ---- Identity ---- */

static struct identity
own_identity(const struct durable *d, uint64_t id)
{
    return (struct identity){
        .format = DURABLE_FORMAT, .cluster = d->cluster, .shard = d->shard, .shards = d->shards, .id = id};
}

static enum ps_err
make_identity(struct durable *d, uint64_t id)
{
    struct identity own = own_identity(d, id);
    enum ps_err err;

    if ((err = d->store->ops->begin(d->store, 64 * KIB)) != PS_OK)
        return err;
    if ((err = identity_put(d->store, identity_durable, &own)) != PS_OK) {
        d->store->ops->abort(d->store);
        return err;
    }
    d->id = id;
    return d->store->ops->commit(d->store);
}

static enum ps_err
check_identity(struct durable *d, struct ps_error *e)
{
    struct identity own = own_identity(d, 0);
    Psd__ShardRow *row;
    enum ps_err err = identity_get(d->store, identity_durable, &row);

    if (err == PS_ERR_IO)
        return ps_fail(e, err, "the row '%s' of the durable environment is damaged, or cannot be read",
                       identity_durable);
    if (err != PS_OK)
        return ps_fail(e, err, "the durable environment cannot be read: %s", ps_strerror(err));
    if (row == NULL)
        return ps_fail(e, PS_ERR_MISMATCH, "the durable environment is a shard's live one: another directory is meant");
    err = identity_check(row, &own, "the durable environment", e);
    d->id = row->boot;
    psd__shard_row__free_unpacked(row, NULL);
    return err;
}

static bool
see_block(void *arg, const struct store_key *key, struct span value)
{
    (void)key;
    (void)value;
    *(bool *)arg = true;
    return false;
}

static bool
see_row(void *arg, struct span key, struct span value)
{
    (void)key;
    (void)value;
    *(bool *)arg = true;
    return false;
}

/* There are rows of a save. */
static enum ps_err
see_rows(const struct durable *d, bool *any)
{
    enum ps_err err = PS_OK;

    *any = false;
    for (enum store_table t = STORE_JOBS; t < STORE_TABLES && err == PS_OK && !*any; t++)
        err = d->store->ops->each_row(d->store, t, see_row, any);
    return err;
}

/* A store without facts is new, unless it has anything else. */
static enum ps_err
check_new(const struct durable *d, struct ps_error *e)
{
    bool any;
    enum ps_err err = see_rows(d, &any);

    if (err == PS_OK && !any)
        err = d->store->ops->each_block(d->store, see_block, &any);
    if (err != PS_OK)
        return ps_fail(e, err, "the durable environment cannot be read: %s", ps_strerror(err));
    return any ? ps_fail(e, PS_ERR_IO, "the durable environment is damaged: it has data, and does not say whose")
               : PS_OK;
}

static enum ps_err
durable_open_identify(struct durable *d, uint64_t id, struct ps_error *e)
{
    bool any;
    enum ps_err err = metadata_rows_any(d->store, &any);

    if (err == PS_OK && any)
        return check_identity(d, e);
    if (err == PS_OK && (err = check_new(d, e)) != PS_OK)
        return err;
    if (err == PS_OK)
        err = make_identity(d, id);
    return err == PS_OK ? PS_OK : ps_fail(e, err, "the durable environment cannot be used: %s", ps_strerror(err));
}

/* ---- Contents ---- */

/* All 0: there is none. */
static enum ps_err
read_manifest(const struct durable *d, const char *name, struct durable_manifest *out, struct ps_error *e)
{
    ProtobufCMessage *m;
    const Psd__ManifestRow *row;
    enum ps_err err = metadata_rows_get(d->store, name, &psd__manifest_row__descriptor, &m);

    *out = (struct durable_manifest){0};
    if (err == PS_ERR_IO)
        return ps_fail(e, err, "the row '%s' of the durable environment is damaged, or cannot be read", name);
    if (err != PS_OK)
        return ps_fail(e, err, "the durable environment cannot be used: %s", ps_strerror(err));
    if (m == NULL)
        return PS_OK;
    row = (const Psd__ManifestRow *)m;
    if (row->format < DURABLE_FORMAT || row->format > DURABLE_FORMAT_SUMS)
        err = ps_fail(e, PS_ERR_VERSION, "the save in the durable environment has format %u, this psd knows format %d",
                      row->format, DURABLE_FORMAT_SUMS);
    else if (row->live > SHARD_FORMAT_ASSIGNS)
        err = ps_fail(e, PS_ERR_VERSION,
                      "the save in the durable environment is of data of format %u, this psd knows format %d",
                      row->live, SHARD_FORMAT_ASSIGNS);
    *out = (struct durable_manifest){.save = row->save,
                                     .boot = row->boot,
                                     .redo = row->redo,
                                     .blocks = row->blocks,
                                     .bytes = row->bytes,
                                     .unix_ms = row->unix_ms,
                                     .generation = row->generation != 0,
                                     .format = row->format == DURABLE_FORMAT_SUMS ? row->live : row->format,
                                     .sums = row->format == DURABLE_FORMAT_SUMS,
                                     .blocks_sum = row->blocks_sum,
                                     .rows = row->rows,
                                     .rows_sum = row->rows_sum};
    protobuf_c_message_free_unpacked(m, NULL);
    return err;
}

/* Rows come with a manifest. */
static enum ps_err
check_manifest(const struct durable *d, struct ps_error *e)
{
    bool any = false;
    enum ps_err err = d->manifest.save == 0 ? see_rows(d, &any) : PS_OK;

    if (err != PS_OK)
        return ps_fail(e, err, "the durable environment cannot be read: %s", ps_strerror(err));
    return any ? ps_fail(e, PS_ERR_IO, "the durable environment is damaged: the row '%s' is missing",
                         durable_manifest_name)
               : PS_OK;
}

struct pieces {
    uint64_t first, next; /* the run that counts */
    uint64_t counts;      /* from this one on */
    uint64_t bytes;
    bool gap;
    bool misshapen; /* the one before `next` is of no size that pieces have */
};

static bool
see_piece(void *arg, const struct store_key *key, struct span value)
{
    struct pieces *p = arg;
    uint64_t number = store_redo_number(key);

    if (number >= p->counts) {
        p->gap = p->gap || number != p->next || key->generation != STORE_GENERATION_REDO;
        p->next = number + 1;
        p->bytes += value.len;
        p->misshapen = !layout_is_value_size(value.len);
    }
    return !p->gap && !p->misshapen;
}

/* The log goes on where the save ends; without a save, from its first piece. */
static enum ps_err
find_redo(struct durable *d, uint64_t end, struct ps_error *e)
{
    uint64_t from = MAX(d->manifest.redo, 1);
    struct pieces p = {.first = from, .next = from, .counts = from};
    struct store_key key = store_redo_key(0);
    enum ps_err err = d->store->ops->each_block_from(d->store, &key, see_piece, &p);

    if (err != PS_OK)
        return ps_fail(e, err, "the redo log cannot be read: %s", ps_strerror(err));
    if (p.gap)
        return ps_fail(e, PS_ERR_IO, "the redo log has a gap: its pieces from %" PRIu64 " on do not follow each other",
                       from);
    if (p.misshapen)
        return ps_fail(e, PS_ERR_IO, "the redo log is damaged: piece %" PRIu64 " is of a size that cannot be",
                       p.next - 1);
    if (p.next < end)
        return ps_fail(e, PS_ERR_IO, "the redo log is damaged: its pieces from %" PRIu64 " to %" PRIu64 " are missing",
                       p.next, end - 1);
    d->redo_first = p.first;
    d->redo_next = p.next;
    d->redo_bytes = p.bytes;
    return PS_OK;
}

enum ps_err
durable_open(struct durable *d, struct store *store, const char *cluster, uint32_t shard, uint32_t shards, uint64_t id,
             struct ps_error *e)
{
    struct durable_manifest staged, log;
    enum ps_err err;

    *d = (struct durable){.store = store, .shard = shard, .shards = shards};
    ps_assert(strlen(cluster) < sizeof d->cluster);
    strcpy(d->cluster, cluster);
    if ((err = durable_open_identify(d, id, e)) != PS_OK ||
        (err = read_manifest(d, durable_manifest_name, &d->manifest, e)) != PS_OK ||
        (err = check_manifest(d, e)) != PS_OK || (err = read_manifest(d, durable_staged_name, &staged, e)) != PS_OK ||
        (err = read_manifest(d, durable_log_name, &log, e)) != PS_OK)
        return err;
    d->staged_boot = staged.boot;
    d->sweep.needed = d->manifest.save != 0 || d->staged_boot != 0; /* a process may have ended in the middle of one */
    return find_redo(d, log.redo, e);
}
