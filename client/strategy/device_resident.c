/* How a step's gradient becomes new values without leaving the devices. */
#include "client/strategy/device_resident.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/device/device.h"
#include "client/device/device_gang.h"
#include "client/device/device_optimizer.h"
#include "client/device/device_staging.h"
#include "client/network/network.h"
#include "client/strategy/replica_threads.h"

#define TENSOR_ALIGN ((uint64_t)64) /* floats: what devices allocate by */

/* Memory of a replica's device: [elements] each. */
struct device_resident_replica {
    ps_device *device;
    float *values, *gradients, *slots; /* fused, padding 0; values may be those of replica 0, slots NULL */
    float **value, **gradient;         /* [vars] into them */
};

struct device_resident {
    struct device_gang *gang;
    struct device_resident_replica replica[PS_STRATEGY_REPLICAS_MAX];
    uint32_t replicas, updated; /* all; those that have slots, from the first one on */
    uint64_t elements;
    uint64_t *at;   /* [vars]: where each begins in values, gradients and each of the slots */
    uint32_t slots; /* arrays of [elements] behind one another: as many as the optimizer with the most has */
    float *base;    /* of replica 0's device, as its values; NULL: there is none */
    bool fetched, slots_fetched;
    struct ps_error torn; /* code PS_OK: not */
};

/* ---- Whether variables can stay on devices ---- */

static bool
all_elsewhere(const ps_strategy *s)
{
    for (uint32_t k = 0; k < s->replicas; k++) {
        const struct device_ops *ops = s->replica[k].device->ops;

        if (ops->is_host || ops->optimizer == NULL || ops->gang == NULL || ops->gang != s->replica[0].device->ops->gang)
            return false;
    }
    if (s->ops->traits & STRATEGY_SHARDS)
        return true;
    return (s->ops->traits & STRATEGY_SLOTS) && (!(s->ops->traits & STRATEGY_WORKERS) || s->options.device_reduce);
}

enum ps_err
device_resident_new(ps_strategy *s, struct ps_error *e)
{
    ps_device *devices[PS_STRATEGY_REPLICAS_MAX];
    struct ps_error why = {0};
    struct device_resident *m;
    enum ps_err err;

    if (!all_elsewhere(s))
        return PS_OK;
    if ((m = calloc(1, sizeof *m)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for variables on devices");
    for (uint32_t k = 0; k < s->replicas; k++)
        m->replica[k].device = devices[k] = s->replica[k].device;
    if ((err = device_gang_open(devices, s->replicas, &m->gang, &why)) != PS_OK) {
        free(m);
        if (err == PS_ERR_UNSUPPORTED) /* as without NCCL: the host adds up */
            return PS_OK;
        if (e != NULL)
            *e = why;
        return err;
    }
    m->replicas = s->replicas;
    m->updated = s->ops->traits & STRATEGY_COPIES ? s->replicas : 1;
    s->resident = m;
    s->copies = 1;
    return PS_OK;
}

/* ---- Places ---- */

static bool
shares_values(const struct device_resident *m, uint32_t k)
{
    return k > 0 && k >= m->updated && m->replica[k].device == m->replica[0].device;
}

void
device_resident_free(struct device_resident *m)
{
    if (m == NULL)
        return;
    device_gang_close(m->gang);
    ps_device_free(m->replica[0].device, m->base);
    for (uint32_t k = 0; k < m->replicas; k++) {
        struct device_resident_replica *r = &m->replica[k];

        if (!shares_values(m, k))
            ps_device_free(r->device, r->values);
        ps_device_free(r->device, r->gradients);
        ps_device_free(r->device, r->slots);
        free(r->value);
        free(r->gradient);
    }
    free(m->at);
    free(m);
}

static enum ps_err
lay_out(ps_strategy *s, struct device_resident *m, struct ps_error *e)
{
    m->at = calloc(s->vars_len, sizeof *m->at);
    if (m->at == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a list of %zu variables", s->vars_len);
    for (size_t i = 0; i < s->vars_len; i++) {
        uint64_t elements = round_up(s->vars[i]->elements, TENSOR_ALIGN);

        m->at[i] = m->elements;
        m->elements += elements;
        if (s->ops->traits & STRATEGY_SLOTS)
            m->slots = MAX(m->slots, s->copy[0].optimizer[i]->slots);
    }
    return PS_OK;
}

static enum ps_err
alloc_floats(ps_device *d, uint64_t elements, float **out, struct ps_error *e)
{
    void *memory;
    enum ps_err err = ps_device_alloc(d, elements * sizeof(float), &memory, e);

    if (err == PS_OK)
        *out = memory;
    return err;
}

static enum ps_err
replica_alloc(const ps_strategy *s, struct device_resident *m, uint32_t k, struct ps_error *e)
{
    struct device_resident_replica *r = &m->replica[k];
    enum ps_err err = PS_OK;

    r->value = calloc(s->vars_len, sizeof *r->value);
    r->gradient = calloc(s->vars_len, sizeof *r->gradient);
    if (r->value == NULL || r->gradient == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a list of %zu variables", s->vars_len);
    if (shares_values(m, k))
        r->values = m->replica[0].values;
    else
        err = alloc_floats(r->device, m->elements, &r->values, e);
    if (err == PS_OK)
        err = alloc_floats(r->device, m->elements, &r->gradients, e);
    if (err == PS_OK && k < m->updated && m->slots > 0)
        err = alloc_floats(r->device, m->slots * m->elements, &r->slots, e);
    for (size_t i = 0; err == PS_OK && i < s->vars_len; i++) {
        r->value[i] = r->values + m->at[i];
        r->gradient[i] = r->gradients + m->at[i];
    }
    return err;
}

enum ps_err
device_resident_alloc(ps_strategy *s, ps_network *const networks[], struct ps_error *e)
{
    struct device_resident *m = s->resident;
    enum ps_err err = lay_out(s, m, e);

    for (uint32_t k = 0; err == PS_OK && k < m->replicas; k++) {
        struct device_resident_replica *r = &m->replica[k];

        if ((err = replica_alloc(s, m, k, e)) != PS_OK)
            break;
        s->replica[k].seen.values = r->value;
        s->replica[k].seen.gradients = r->gradient;
        network_reside(networks[k], r->value, r->gradient);
    }
    if (err == PS_OK && m->replicas == 1 && (s->ops->traits & STRATEGY_SLOTS))
        network_expect_norm(networks[0], (size_t)m->elements, m->replica[0].gradients);
    return err;
}

/* ---- Host and devices ---- */

static float *
slot_of(const ps_strategy *s, const struct device_resident_replica *r, size_t i, uint32_t slot)
{
    return r->slots + slot * s->resident->elements + s->resident->at[i];
}

static void
send_variable(const ps_strategy *s, uint32_t k, size_t i)
{
    const struct device_resident_replica *r = &s->resident->replica[k];
    const struct local_optimizer *l = s->copy[0].optimizer[i];
    size_t size = s->vars[i]->elements * sizeof(float);

    if (!shares_values(s->resident, k))
        ps_device_upload(r->device, r->value[i], s->copy[0].values[i], size);
    for (uint32_t j = 0; k < s->resident->updated && j < l->slots; j++)
        ps_device_upload(r->device, slot_of(s, r, i, j), l->slot[j], size);
}

enum ps_err
device_resident_send(ps_strategy *s, struct ps_error *e)
{
    struct device_resident *m = s->resident;
    enum ps_err err = PS_OK;

    for (uint32_t k = 0; k < m->replicas; k++)
        for (size_t i = 0; i < s->vars_len; i++)
            send_variable(s, k, i);
    for (uint32_t k = 0; err == PS_OK && k < m->replicas; k++)
        err = ps_device_finish(m->replica[k].device, e);
    m->fetched = m->slots_fetched = err == PS_OK;
    if (err == PS_OK)
        m->torn.code = PS_OK;
    return err;
}

static enum ps_err
refuse_torn(const struct device_resident *m, struct ps_error *e)
{
    if (m->torn.code != PS_OK && e != NULL)
        *e = m->torn;
    return m->torn.code;
}

static enum ps_err
fetch_slots(ps_strategy *s, struct ps_error *e)
{
    struct device_resident *m = s->resident;
    const struct device_resident_replica *r = &m->replica[0];
    enum ps_err err = PS_OK;

    for (size_t i = 0; i < s->vars_len; i++) {
        struct local_optimizer *l = s->copy[0].optimizer[i];

        l->calm = false;
        for (uint32_t j = 0; err == PS_OK && j < l->slots; j++)
            err =
                ps_device_download(r->device, l->slot[j], slot_of(s, r, i, j), s->vars[i]->elements * sizeof(float), e);
    }
    m->slots_fetched = err == PS_OK;
    return err;
}

enum ps_err
device_resident_fetch(ps_strategy *s, bool slots, struct ps_error *e)
{
    struct device_resident *m = s->resident;
    const struct device_resident_replica *r = &m->replica[0];
    enum ps_err err = refuse_torn(m, e), fetched;

    if (err == PS_OK && !m->fetched) {
        for (size_t i = 0; err == PS_OK && i < s->vars_len; i++)
            err = device_fetch(r->device, s->copy[0].values[i], r->value[i], s->vars[i]->elements * sizeof(float), e);
        fetched = device_fetched(r->device, err == PS_OK ? e : NULL);
        if (err == PS_OK)
            err = fetched;
        m->fetched = err == PS_OK;
    }
    return err == PS_OK && slots && !m->slots_fetched ? fetch_slots(s, e) : err;
}

/* ---- A step ---- */

enum ps_err
device_resident_reduce(ps_strategy *s, struct ps_error *e)
{
    struct device_resident *m = s->resident;
    float *tensors[PS_STRATEGY_REPLICAS_MAX];

    if (m->replicas == 1)
        return PS_OK;
    for (uint32_t k = 0; k < m->replicas; k++)
        tensors[k] = m->replica[k].gradients;
    return device_gang_all_reduce(m->gang, tensors, m->elements, DEVICE_GANG_SUM, e);
}

/* Which gradient is not finite, of those that refuse that; and whether one needs the norm of all. */
static enum ps_err
check_each(const ps_strategy *s, bool *wants_norm, struct ps_error *e)
{
    const struct device_resident_replica *r = &s->resident->replica[0];
    enum ps_err err = PS_OK;
    double norm;

    *wants_norm = false;
    for (size_t i = 0; err == PS_OK && i < s->vars_len; i++) {
        const struct local_optimizer *l = s->copy[0].optimizer[i];

        *wants_norm |= l->optimizer.clip.kind == PS_CLIP_GIVEN_NORM;
        if (l->allow_nonfinite)
            continue;
        err = device_norm(r->device, (size_t)l->layout.elements, r->gradient[i], &norm, e);
        if (err == PS_OK && !isfinite(norm))
            return ps_fail(e, PS_ERR_NONFINITE, "device %s: the gradient of variable '%s' holds NaN or Inf",
                           r->device->name, s->vars[i]->name);
    }
    return err;
}

/* One pass over the whole gradient: whether it is finite, and its norm. Only where it is not finite, one over each
 * variable. All devices hold the same bits, so one of them is asked. */
static enum ps_err
check_gradient(const ps_strategy *s, float scale, double *norm, struct ps_error *e)
{
    const struct device_resident_replica *r = &s->resident->replica[0];
    bool wants_norm = true;
    enum ps_err err = device_norm(r->device, (size_t)s->resident->elements, r->gradients, norm, e);

    *norm *= fabs((double)scale);
    if (err != PS_OK || isfinite(*norm))
        return err;
    if (isfinite(scale) && (err = check_each(s, &wants_norm, e)) != PS_OK)
        return err;
    if (!wants_norm)
        return PS_OK;
    return ps_fail(e, PS_ERR_NONFINITE, "device %s: the norm of the gradients is %g, their scale %g", r->device->name,
                   *norm, (double)scale);
}

struct device_resident_update {
    ps_strategy *s;
    float scale;
    double norm;
    enum ps_err err[PS_STRATEGY_REPLICAS_MAX];
    struct ps_error error[PS_STRATEGY_REPLICAS_MAX];
};

static enum ps_err
apply_part(const struct device_resident_update *u, uint32_t k, size_t i, uint64_t first, uint64_t len,
           struct ps_error *e)
{
    const struct device_resident_replica *r = &u->s->resident->replica[k];
    const struct local_optimizer *l = u->s->copy[0].optimizer[i];
    struct device_update update = {.when = {.version = l->version + 1, .clock = u->s->next},
                                   .scale = local_optimizer_scale(l, u->scale, u->norm)};
    struct optimizer_arrays arrays = {.weights = r->value[i] + first};

    for (uint32_t j = 0; j < l->slots; j++)
        arrays.slot[j] = slot_of(u->s, r, i, j) + first;
    return device_optimizer_apply(r->device, &l->optimizer, &update, (size_t)len, r->gradient[i] + first, &arrays, e);
}

/* In one piece: a rule works element by element. But a block's norm is that of a block, as shards cut them. */
static enum ps_err
device_resident_apply(const struct device_resident_update *u, uint32_t k, size_t i, struct ps_error *e)
{
    const struct local_optimizer *l = u->s->copy[0].optimizer[i];
    enum ps_err err = PS_OK;

    if (l->optimizer.clip.kind != PS_CLIP_BLOCK_NORM)
        return apply_part(u, k, i, 0, l->layout.elements, e);
    for (uint64_t n = 0; err == PS_OK && n < l->layout.blocks; n++) {
        struct layout_block b = layout_block(&l->layout, n);

        err = apply_part(u, k, i, b.first, b.len, e);
    }
    return err;
}

/* Whether one update serves both, with what lies between them: the same rule, numbers and count of updates. */
static bool
is_updated_alike(const struct device_resident_update *u, size_t i, size_t j)
{
    const struct local_optimizer *a = u->s->copy[0].optimizer[i], *b = u->s->copy[0].optimizer[j];

    return memcmp(&a->optimizer, &b->optimizer, sizeof a->optimizer) == 0 && a->version == b->version &&
           a->optimizer.clip.kind != PS_CLIP_BLOCK_NORM;
}

/* Variables lie one behind the other, and so do their slots: all that are updated alike are one update. */
static void
update_replica(void *arg, uint32_t k)
{
    struct device_resident_update *u = arg;
    const struct device_resident *m = u->s->resident;
    size_t next;

    for (size_t i = 0; k < m->updated && u->err[k] == PS_OK && i < u->s->vars_len; i = next) {
        size_t last = i;

        while (last + 1 < u->s->vars_len && is_updated_alike(u, i, last + 1))
            last++;
        next = last + 1;
        if (last > i)
            u->err[k] = apply_part(u, k, i, 0, m->at[last] + u->s->vars[last]->elements - m->at[i], &u->error[k]);
        else
            u->err[k] = device_resident_apply(u, k, i, &u->error[k]);
    }
}

/* From the replica that made the update to those that only read. */
static enum ps_err
spread_values(ps_strategy *s, struct ps_error *e)
{
    struct device_resident *m = s->resident;
    float *tensors[PS_STRATEGY_REPLICAS_MAX];

    for (uint32_t k = 0; k < m->replicas; k++)
        tensors[k] = m->replica[k].values;
    if (m->updated == m->replicas || shares_values(m, m->replicas - 1))
        return PS_OK;
    return device_gang_broadcast(m->gang, tensors, m->elements, 0, e);
}

static enum ps_err
update_all(struct device_resident_update *u, struct ps_error *e)
{
    ps_strategy *s = u->s;

    if (s->resident->updated > 1)
        replica_threads_run(s->threads, update_replica, u);
    else
        update_replica(u, 0);
    for (uint32_t k = 0; k < s->resident->updated; k++)
        if (u->err[k] != PS_OK) {
            *e = u->error[k];
            return u->err[k];
        }
    return spread_values(s, e);
}

enum ps_err
device_resident_update(ps_strategy *s, float scale, struct ps_error *e)
{
    struct device_resident *m = s->resident;
    struct device_resident_update u = {.s = s, .scale = scale};
    struct ps_error why = {0};
    enum ps_err err;

    if ((err = refuse_torn(m, e)) != PS_OK || (err = check_gradient(s, scale, &u.norm, e)) != PS_OK)
        return err;
    if (update_all(&u, &why) != PS_OK) {
        m->torn = why;
        return refuse_torn(m, e);
    }
    m->fetched = m->slots_fetched = false;
    for (size_t i = 0; i < s->vars_len; i++)
        s->copy[0].optimizer[i]->version++;
    return PS_OK;
}

/* ---- With other workers ---- */

enum ps_err
device_resident_reduce_all(ps_strategy *s, ps_device_group *group, struct ps_error *e)
{
    struct device_resident *m = s->resident;
    float *tensors[PS_STRATEGY_REPLICAS_MAX];
    enum ps_err err = ps_device_group_all_reduce(group, m->replica[0].gradients, m->elements, PS_SUM, e);

    for (uint32_t k = 0; k < m->replicas; k++)
        tensors[k] = m->replica[k].gradients;
    return err == PS_OK ? device_gang_broadcast(m->gang, tensors, m->elements, 0, e) : err;
}

/* ---- With shards ---- */

float *const *
device_resident_values(const ps_strategy *s)
{
    return s->resident->replica[0].value;
}

const float *const *
device_resident_gradients(const ps_strategy *s)
{
    return (const float *const *)s->resident->replica[0].gradient;
}

enum ps_err
device_resident_pulled(ps_strategy *s, struct ps_error *e)
{
    s->resident->fetched = true;
    return spread_values(s, e);
}

enum ps_err
device_resident_add_base(ps_strategy *s, struct ps_error *e)
{
    return alloc_floats(s->resident->replica[0].device, s->resident->elements, &s->resident->base, e);
}

void
device_resident_set_base(ps_strategy *s)
{
    const struct device_resident_replica *r = &s->resident->replica[0];

    ps_device_copy(r->device, s->resident->base, r->values, s->resident->elements * sizeof(float));
}

/* base - values is a step of plain SGD from the base, at a rate of 1, where the values are the gradient. */
enum ps_err
device_resident_difference(ps_strategy *s, struct ps_error *e)
{
    const struct ps_optimizer minus = {.kind = PS_SGD, .learning_rate = 1};
    const struct device_update all = {.when = {.version = 1}, .scale = 1};
    const struct device_resident_replica *r = &s->resident->replica[0];
    struct optimizer_arrays to = {.weights = r->gradients};

    ps_device_copy(r->device, r->gradients, s->resident->base, s->resident->elements * sizeof(float));
    return device_optimizer_apply(r->device, &minus, &all, (size_t)s->resident->elements, r->values, &to, e);
}
