/* The ledger's job among those that a shard has: another one beside it (scrap.h) has rows and blocks there too, which
 * the ledger passes over. A job may get another id when its shard has lost it and it is declared again. */
#include <endian.h>
#include <string.h>

#include "tests/sim/ledger_state.h"

struct job_visit {
    struct ledger *l;
    uint32_t shard;
};

static uint32_t
job_of_key(struct span key)
{
    uint32_t id;

    ps_assert(key.len >= sizeof id);
    memcpy(&id, key.data, sizeof id);
    return be32toh(id);
}

static bool
visit_name(void *arg, struct span key, struct span value)
{
    const struct job_visit *v = arg;
    Psd__JobRow *row = psd__job_row__unpack(NULL, value.len, value.data);

    ps_assert(row != NULL);
    if (strcmp(row->options->name, v->l->model->job) == 0)
        v->l->job_id[v->shard] = job_of_key(key);
    psd__job_row__free_unpacked(row, NULL);
    return true;
}

void
ledger_job_look(struct ledger *l, uint32_t shard, struct store *store)
{
    struct job_visit v = {l, shard};
    enum ps_err err;

    l->job_id[shard] = 0;
    err = store->ops->each_row(store, STORE_JOBS, visit_name, &v);
    ps_assert(err == PS_OK);
}

bool
ledger_of_job(const struct ledger *l, uint32_t shard, struct span key)
{
    return l->job_id[shard] != 0 && job_of_key(key) == l->job_id[shard];
}

bool
ledger_is_job(const struct ledger *l, uint32_t shard, uint32_t job)
{
    return l->job_id[shard] != 0 && job == l->job_id[shard];
}
