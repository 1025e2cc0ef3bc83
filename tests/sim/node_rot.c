/* One bit at a time, of a value or row that is picked among all, so that facts and rows get their share beside blocks.
 */
#include "tests/sim/node_rot.h"

#include <stdlib.h>

#include "common/core/cluster/placement.h"
#include "tests/sim/node_shard.h"

#define ROT_SALT      0x726f74u
#define ROT_PER_MILLE 700 /* runs in which bits flip */
#define ROT_FLIPS     8   /* after each loss of power */

void
node_rot_init(struct node_rot *r, uint64_t seed, uint32_t shard)
{
    *r = (struct node_rot){.on = sim_has(seed, ROT_SALT, ROT_PER_MILLE), .random = seed ^ ROT_SALT ^ shard};
}

/* ---- A bit ---- */

/* Visits count down to the one that is meant. */
struct rot_pick {
    uint64_t left, seen;
    struct span found;
};

static bool
rot_see(struct rot_pick *p, struct span value)
{
    p->seen++;
    if (p->left-- == 0)
        p->found = value;
    return true;
}

static bool
rot_see_block(void *arg, const struct store_key *key, struct span value)
{
    (void)key;
    return rot_see(arg, value);
}

static bool
rot_see_row(void *arg, struct span key, struct span value)
{
    (void)key;
    return rot_see(arg, value);
}

static void
rot_walk(struct store *disk, int table, struct rot_pick *p)
{
    enum ps_err err = table < STORE_TABLES ? disk->ops->each_row(disk, (enum store_table)table, rot_see_row, p)
                                           : disk->ops->each_block(disk, rot_see_block, p);

    ps_assert(err == PS_OK);
}

/* A value of a table, blocks and pieces being one more; NULL when that is empty. Every other bit is of a head. */
static uint8_t *
rot_pick(struct node_rot *r, struct store *disk, uint8_t *mask)
{
    int table = (int)sim_mix_below(&r->random, 2 * STORE_TABLES);
    struct rot_pick p = {.left = UINT64_MAX};
    uint64_t bit;

    rot_walk(disk, table, &p);
    if (p.seen == 0)
        return NULL;
    p.left = sim_mix_below(&r->random, p.seen);
    rot_walk(disk, table, &p);
    bit = sim_mix_below(&r->random, 8 * (r->random % 2 == 0 ? MIN(p.found.len, (size_t)STORE_HEAD) : p.found.len));
    *mask = (uint8_t)(1u << bit % 8);
    return (uint8_t *)(uintptr_t)p.found.data + bit / 8;
}

/* ---- A start aside ---- */

struct rot_start {
    const struct node_shard *n;
    struct durable durable;
    struct store *live;
    struct shard *core;
    uint64_t boot, hash;
    enum store_table table;
    struct ps_error e;
    enum ps_err err;
};

static bool
rot_replay_piece(void *arg, const struct store_key *key, struct span piece)
{
    struct rot_start *s = arg;

    (void)key;
    s->err = shard_replay_piece(s->core, piece, &s->e);
    return s->err == PS_OK;
}

static enum ps_err
rot_replay(struct rot_start *s)
{
    const struct durable *d = &s->durable;
    struct store_key first = store_redo_key(d->redo_first);
    uint64_t records;

    if (d->redo_first >= d->redo_next)
        return PS_OK;
    (void)d->store->ops->each_block_from(d->store, &first, rot_replay_piece, s);
    return s->err == PS_OK ? shard_replay_end(s->core, &records, &s->e) : s->err;
}

static enum ps_err
rot_open(struct rot_start *s)
{
    const struct node_shard *n = s->n;
    const struct sim_model *m = n->model;
    struct shard_config config = {.cluster = m->cluster,
                                  .shard = n->index,
                                  .shards = m->shards,
                                  .boot = s->boot,
                                  .gather_bytes_max = GIB,
                                  .version = "sim",
                                  .live_dir = "memory"};
    enum ps_err err;

    if ((err = durable_open(&s->durable, n->saver.store, m->cluster, n->index, m->shards, 1, &s->e)) != PS_OK)
        return err;
    if (s->durable.manifest.save > 0 &&
        (err = durable_rebuild(&s->durable, s->live, s->boot, NULL, NULL, &s->e)) != PS_OK)
        return err;
    if ((err = shard_new(&config, s->live, node_shard_ms(n), &s->core, &s->e)) != PS_OK)
        return err;
    return rot_replay(s);
}

static bool
rot_hash_block(void *arg, const struct store_key *key, struct span value)
{
    struct rot_start *s = arg;
    uint64_t name[2] = {key->var, key->block};

    s->hash += placement_hash(value.data, value.len, placement_hash(name, sizeof name, 1));
    return true;
}

static bool
rot_hash_row(void *arg, struct span key, struct span value)
{
    struct rot_start *s = arg;

    s->hash += placement_hash(value.data, value.len, placement_hash(key.data, key.len, 2 + (uint64_t)s->table));
    return true;
}

static void
rot_hash(struct rot_start *s)
{
    enum ps_err err = s->live->ops->each_block(s->live, rot_hash_block, s);

    for (s->table = STORE_JOBS; s->table < STORE_TABLES && err == PS_OK; s->table++)
        err = s->live->ops->each_row(s->live, s->table, rot_hash_row, s);
    ps_assert(err == PS_OK);
}

/* What lies in the live store after a start; *s: why there is none. */
static void
rot_begin(struct rot_start *s, const struct node_shard *n, uint64_t boot)
{
    struct shard_action a;

    *s = (struct rot_start){.n = n, .boot = boot, .live = store_mem_new(n->profile.store_bytes_max)};
    ps_assert(s->live != NULL);
    if ((s->err = rot_open(s)) == PS_OK)
        rot_hash(s);
    while (s->core != NULL && shard_next_action(s->core, &a)) {
        free(a.bytes);
        free(a.text);
        shard_data_free(a.data);
        shard_save_free(a.save);
    }
    shard_free(s->core);
    durable_close(&s->durable);
    store_mem_crash(s->live);
    s->live->ops->close(s->live);
}

/* ---- All of it ---- */

static void
rot_flip(struct node_shard *n, const struct rot_start *whole)
{
    struct node_rot *r = &n->rot;
    struct rot_start s;
    uint8_t mask = 0, *byte = rot_pick(r, n->saver.store, &mask);

    if (byte == NULL)
        return;
    r->flips++;
    *byte ^= mask;
    rot_begin(&s, n, whole->boot);
    *byte ^= mask;
    r->refused += s.err != PS_OK;
    r->mended += s.durable.mended > 0;
    if (s.err == PS_OK && s.hash != whole->hash)
        sim_fail(n->sim, "s%u serves other data after a bit of its disk has flipped", n->index);
    else if (s.err != PS_OK && s.e.text[0] == '\0')
        sim_fail(n->sim, "s%u refuses a disk on which a bit has flipped, and does not say why", n->index);
}

void
node_rot_try(struct node_shard *n)
{
    struct rot_start whole;

    if (!n->rot.on)
        return;
    rot_begin(&whole, n, 1 + sim_mix_below(&n->rot.random, UINT32_MAX));
    if (whole.err != PS_OK) {
        sim_fail(n->sim, "s%u cannot start from its disk: %s", n->index, whole.e.text);
        return;
    }
    for (int i = 0; i < ROT_FLIPS && !n->sim->failed; i++)
        rot_flip(n, &whole);
}
