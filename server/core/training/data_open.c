/* An answer with blocks when it is first in line: head and parts are made, at the last moment. */
#include <stdlib.h>

#include "server/core/shard_state.h"

/* The block in the newest commit. If the open turn has moved it, that is under its other key (save.h). */
static enum ps_err
data_open_get_committed(struct shard *s, struct store_snapshot *snap, const struct block_ref *ref, struct span *value)
{
    struct store_key key = block_key(ref);
    enum ps_err err = s->store->ops->snapshot_get(s->store, snap, &key, value);

    if (err != PS_ERR_NOT_FOUND || ref->block->turn != s->turn.number)
        return err;
    key.generation ^= 1;
    return s->store->ops->snapshot_get(s->store, snap, &key, value);
}

/* Which assigns are in the value that goes out, and up to which none is missing there. */
static void
data_open_note_assigns(const struct shard *s, struct shard_data *d, const struct block_ref *ref,
                       const struct block_head *head)
{
    const struct job *job = ref->variable->job;

    d->newest_assign = MAX(d->newest_assign, head->assign);
    d->assigned = MIN(d->assigned, assign_in_value(s, job, ref, head->assign));
}

/* Version and, when it is wanted, the weights of block i. */
static enum ps_err
data_open_read_block(struct shard *s, struct store_snapshot *snap, struct shard_data *d, uint32_t i,
                     struct shard_reply *out)
{
    const struct block_head *head;
    struct span value, part;
    struct block_ref ref;
    enum ps_err err;

    if (variable_table_get(&s->variables, d->var[i]) == NULL)
        return s->broken ? PS_ERR_IO : PS_ERR_DROPPED; /* the store could not be read again since, or it is erased */
    block_locate(s, d->var[i], d->block[i], &ref);
    if ((err = data_open_get_committed(s, snap, &ref, &value)) != PS_OK)
        return err == PS_ERR_NOT_FOUND ? PS_ERR_IO : err;
    head = value.data;
    ps_assert(head->var == d->var[i] && head->block == d->block[i]);
    d->version[i] = head->version;
    if (MUTATION(VERSION_OF_TURN))
        d->version[i] = ref.block->version;
    data_open_note_assigns(s, d, &ref, head);
    if (d->with_newer && head->version <= d->newer_than[i])
        return PS_OK;
    part = ref.variable->kind->pulled(value);
    d->parts[out->parts_len++] = part;
    out->payload_len += part.len;
    traffic_pulled(&ref.variable->stats, 1, part.len);
    return PS_OK;
}

static void
data_open_count(struct shard *s, const struct shard_data *d, const struct shard_reply *reply)
{
    struct session *x = d->job_id != 0 ? session_find(s, d->job_id, d->task) : NULL;

    s->stats.pulls += reply->parts_len;
    s->stats.pulled_bytes += reply->payload_len;
    if (x != NULL)
        traffic_pulled(&x->stats, reply->parts_len, reply->payload_len);
}

/* A restore has begun to write since: the values there now are of another life of the data, of which the requester has
 * not been notified. */
static bool
data_open_outlived(const struct shard *s, const struct shard_data *d)
{
    return d->boot != s->boot || s->restore.half;
}

enum ps_err
shard_data_open(struct shard *s, struct shard_data *d, struct store_snapshot *snap, struct shard_reply *out)
{
    Psd__Data m = PSD__DATA__INIT;
    enum ps_err err;

    ps_assert(d->head == NULL && d->parts == NULL);
    *out = (struct shard_reply){0};
    if (data_open_outlived(s, d))
        return PS_ERR_ROLLED_BACK;
    d->parts = d->len == 1 ? &d->one : malloc(d->len * sizeof *d->parts);
    if (d->parts == NULL)
        return PS_ERR_NOMEM;
    d->assigned = UINT64_MAX;
    for (uint32_t i = 0; i < d->len; i++)
        if ((err = data_open_read_block(s, snap, d, i, out)) != PS_OK)
            return err;
    m.n_version = d->len;
    m.version = d->version;
    m.clock = d->clock;
    m.seq = d->seq;
    m.held_us = d->held_us;
    m.assigned = d->assigned;
    m.newest_assign = d->newest_assign;
    m.n_code = d->with_codes ? d->len : 0;
    m.code = d->code;
    d->head = wire_encode_new(MSG_DATA, d->request, &m.base, out->payload_len, &out->head_len);
    if (d->head == NULL)
        return PS_ERR_NOMEM;
    out->head = d->head;
    out->parts = d->parts;
    data_open_count(s, d, out);
    return PS_OK;
}
