/* Restores. The admin takes a checkpoint of all blocks at a moment, and later has the shards go back to it. While a
 * shard writes it, its blocks are of neither state and no worker is let in; the commit that gives it its new boot must
 * show the checkpoint's values in all of them. Pushes that were counted since are lost, as after a power loss, durable
 * or not. */
#include <inttypes.h>
#include <string.h>

#include "proto/store.pb-c.h"
#include "server/core/store/metadata_rows.h"
#include "tests/sim/ledger_state.h"

/* ---- Taking it ---- */

bool
ledger_checkpoint(struct ledger *l)
{
    for (uint32_t v = 0; v < l->model->vars_len; v++)
        for (uint32_t n = 0; n < l->vars[v].blocks_len; n++) {
            struct block_state *b = &l->vars[v].blocks[n];

            if (!b->seen)
                return false;
            ledger_take_instant(l, b, &b->kept);
        }
    l->taken_us = l->sim->now_us;
    l->taken_losses = l->losses;
    return true;
}

bool
ledger_checkpoint_usable(const struct ledger *l)
{
    if (l->losses != l->taken_losses)
        return false;
    for (size_t i = 0; i < l->pushes_len; i++)
        if (l->pushes[i].outcome == PUSH_OPEN && l->pushes[i].started_us <= l->taken_us)
            return false;
    return true;
}

/* ---- Going back ---- */

void
ledger_restore_begins(struct ledger *l, uint32_t shard, uint64_t boot)
{
    l->expected[shard] = boot;
    ledger_evict_forgotten(l, shard);
}

bool
ledger_boot_restored(const struct ledger *l, uint64_t boot)
{
    for (size_t i = 0; i < l->restored_len; i++)
        if (l->restored[i] == boot)
            return true;
    return false;
}

struct restored_visit {
    struct ledger *l;
    uint32_t shard;
};

static bool
visit_restored(void *arg, const struct store_key *key, struct span value)
{
    struct restored_visit *v = arg;
    struct ledger *l = v->l;
    struct block_state *b = ledger_block_of(l, v->shard, key);
    const struct block_head *head = value.data;
    const float *arrays = (const float *)(head + 1);

    if (b == NULL)
        return true;
    if (b->look == l->looks)
        sim_fail(l->sim, "%s is there twice after a restore", ledger_block_name(l, b));
    b->look = l->looks;
    if (head->version != b->kept.version || head->clock != b->kept.clock || ledger_hash(arrays, b->len) != b->kept.hash)
        sim_fail(l->sim,
                 "%s was restored as version %" PRIu64 " clock %" PRIu64 ", and the checkpoint has %s %" PRIu64
                 " clock %" PRIu64,
                 ledger_block_name(l, b), head->version, head->clock,
                 head->version == b->kept.version ? "other bits of" : "version", b->kept.version, b->kept.clock);
    for (uint32_t i = 0; i <= b->slots && !model_counts(l->model); i++)
        if (memcmp(arrays + (size_t)i * b->stride, b->kept.arrays + (size_t)i * b->stride, b->len * sizeof *arrays))
            sim_fail(l->sim, "%s was restored with another array %u", ledger_block_name(l, b), i);
    ledger_rewind(l, b, &b->kept);
    if (!model_counts(l->model))
        ledger_replay_steps(l, b, b->version, 0, b->kept.arrays);
    ledger_block_remember(l, b, arrays, head);
    return !l->sim->failed;
}

static void
ledger_restore_seen(struct ledger *l, uint32_t shard, struct store *store)
{
    struct restored_visit v = {l, shard};
    enum ps_err err;

    l->losses++;
    l->restored = sim_grow(l->restored, &l->restored_room, l->restored_len, sizeof *l->restored);
    l->restored[l->restored_len++] = l->expected[shard];
    l->epoch[shard]++;
    l->looks++;
    l->boot[shard] = l->expected[shard];
    l->expected[shard] = 0;
    ledger_evict_forgotten(l, shard);
    ledger_job_look(l, shard, store);
    ledger_settings_before(l, shard, store);
    err = store->ops->each_block(store, visit_restored, &v);
    ps_assert(err == PS_OK);
    ledger_settings_after(l, shard);
    l->counts.restores++;
    sim_trace(l->sim, "s%u is as in the checkpoint", shard);
}

/* ---- A shard's rows ---- */

bool
ledger_restoring(struct ledger *l, uint32_t shard, struct store *store)
{
    ProtobufCMessage *restoring;
    bool begun, filled;
    enum ps_err err;

    if (l->expected[shard] == 0)
        return false;
    err = metadata_rows_get(store, "restoring", &psd__restoring_row__descriptor, &restoring);
    ps_assert(err == PS_OK);
    begun = restoring != NULL;
    filled = begun && ((Psd__RestoringRow *)restoring)->filled;
    if (begun)
        protobuf_c_message_free_unpacked(restoring, NULL);
    if (filled && ledger_boot_of(store) == l->expected[shard])
        ledger_restore_seen(l, shard, store);
    return begun && !filled;
}
