/* Metrics: each step of a worker adds 1 to that of its epoch, so the sums that shard 0 has settled tell how many steps
 * are in them, which must be the position in the worker's data that is stored beside them: no step is summed up twice
 * or left out, whatever process of the worker did it, and however often. The same holds after power loss: a shard loses
 * metrics and position together, with durable pushes and without. And all metrics that are there have their names
 * beside them. */
#include <endian.h>
#include <inttypes.h>
#include <string.h>

#include "tests/sim/ledger_state.h"

Psd__SessionRow *
ledger_session_row(struct span key, struct span value, uint32_t *task)
{
    Psd__SessionRow *row = psd__session_row__unpack(NULL, value.len, value.data);

    ps_assert(row != NULL && key.len == 2 * sizeof *task);
    memcpy(task, (const uint8_t *)key.data + sizeof *task, sizeof *task);
    *task = be32toh(*task);
    ps_assert(*task < MODEL_WORKERS_MAX);
    return row;
}

static bool
check_row(void *arg, struct span key, struct span value)
{
    struct ledger *l = arg;
    uint32_t task;
    Psd__SessionRow *row;

    if (!ledger_of_job(l, 0, key))
        return true;
    row = ledger_session_row(key, value, &task);
    l->any_defined |= row->defined;
    l->counted[task] = (struct ps_cursor){0};
    if (row->metrics != NULL && row->metrics->at != NULL) {
        uint64_t epoch = row->metrics->at->epoch, at = row->metrics->at->position,
                 steps = epoch < row->metrics->n_value ? (uint64_t)row->metrics->value[epoch] : 0;

        if (steps != at)
            sim_fail(l->sim, "w%u's metrics have %" PRIu64 " steps in them, and go up to example %" PRIu64, task, steps,
                     at);
        l->counted[task] = (struct ps_cursor){epoch, at};
        l->any_counted = true;
    }
    psd__session_row__free_unpacked(row, NULL);
    return !l->sim->failed;
}

/* A session that has agreed with the job's definition lies beside it. */
static bool
check_definition(void *arg, struct span key, struct span value)
{
    struct ledger *l = arg;
    Psd__JobRow *row;
    bool same = false;

    if (!ledger_of_job(l, 0, key))
        return true;
    row = psd__job_row__unpack(NULL, value.len, value.data);
    ps_assert(row != NULL);
    for (size_t i = 0; i < row->n_definition; i++)
        same |=
            strcmp(row->definition[i]->name, "model") == 0 && strcmp(row->definition[i]->value, SIM_MODEL_VALUE) == 0;
    if (!same)
        sim_fail(l->sim, "a worker's definition was agreed to, and the job has %zu fields of it", row->n_definition);
    psd__job_row__free_unpacked(row, NULL);
    return same;
}

static bool
check_names(void *arg, struct span key, struct span value)
{
    struct ledger *l = arg;
    Psd__JobRow *row;
    bool same;

    if (!ledger_of_job(l, 0, key))
        return true;
    row = psd__job_row__unpack(NULL, value.len, value.data);
    ps_assert(row != NULL);
    same = row->n_metric_names == MODEL_METRICS;
    for (size_t i = 0; same && i < MODEL_METRICS; i++)
        same = strcmp(row->metric_names[i], model_metric_names[i]) == 0;
    if (!same)
        sim_fail(l->sim, "there are metrics, and %zu names of them", row->n_metric_names);
    psd__job_row__free_unpacked(row, NULL);
    return same;
}

void
ledger_tally_look(struct ledger *l, uint32_t shard, struct store *store)
{
    enum ps_err err;

    if (shard != 0)
        return;
    l->any_counted = l->any_defined = false;
    err = store->ops->each_row(store, STORE_SESSIONS, check_row, l);
    ps_assert(err == PS_OK);
    if (l->any_defined && !l->sim->failed) {
        err = store->ops->each_row(store, STORE_JOBS, check_definition, l);
        ps_assert(err == PS_OK);
    }
    if (!l->any_counted || l->sim->failed)
        return;
    err = store->ops->each_row(store, STORE_JOBS, check_names, l);
    ps_assert(err == PS_OK);
}

void
ledger_defined(struct ledger *l, uint32_t task)
{
    l->defined[task] = true;
}

bool
ledger_another_defined(const struct ledger *l, uint32_t task)
{
    for (uint32_t i = 0; i < l->model->workers; i++)
        if (i != task && l->defined[i])
            return true;
    return false;
}

void
ledger_settled(struct ledger *l, uint32_t task, const struct ps_cursor *cursor)
{
    const struct ps_cursor *there = &l->counted[task];

    if (cursor->position == 0 || l->losses > 0)
        return;
    if (there->epoch < cursor->epoch || (there->epoch == cursor->epoch && there->position < cursor->position))
        sim_fail(l->sim, "w%u leaves behind example %" PRIu64 ", and its metrics go up to %" PRIu64, task,
                 cursor->position, there->position);
}
