/* The variables of a strategy: what each copy and each replica keeps of them, and their update. */
#include <stdlib.h>
#include <string.h>

#include "client/device/device_staging.h"
#include "client/strategy/device_resident.h"
#include "client/strategy/replica_threads.h"
#include "client/strategy/strategy.h"
#include "common/core/model/initializer.h"

/* ---- Memory ---- */

/* Space for one more at the end of a list of n pointers. */
static bool
model_grow_list(void *list, size_t n)
{
    void **grown = realloc(*(void **)list, (n + 1) * sizeof *grown);

    if (grown == NULL)
        return false;
    grown[n] = NULL;
    *(void **)list = grown;
    return true;
}

/* Zeroed, and such that the first replica's device can read and write it directly. NULL: no memory. */
static float *
new_floats(const ps_strategy *s, uint64_t elements)
{
    void *memory;

    return ps_device_alloc_host(s->devices[0], elements * sizeof(float), &memory, NULL) == PS_OK ? memory : NULL;
}

static enum ps_err
no_memory(const struct core_var *v, struct ps_error *e)
{
    return ps_fail(e, PS_ERR_NOMEM, "no memory for variable '%s' of %llu elements", v->name,
                   (unsigned long long)v->elements);
}

static enum ps_err
add_to_copy(const ps_strategy *s, struct strategy_copy *c, const struct core_var *v, struct ps_error *e)
{
    size_t i = s->vars_len;
    enum ps_err err;

    if ((c->values[i] = new_floats(s, v->elements)) == NULL)
        return no_memory(v, e);
    if (!(s->ops->traits & STRATEGY_SLOTS))
        return PS_OK;
    if ((c->optimizer[i] = calloc(1, sizeof *c->optimizer[i])) == NULL)
        return no_memory(v, e);
    err = local_optimizer_init(c->optimizer[i], &v->spec.optimizer, v->elements, e);
    c->optimizer[i]->allow_nonfinite = v->spec.allow_nonfinite != 0;
    return err;
}

static enum ps_err
add_to_replica(const ps_strategy *s, struct strategy_replica *r, const struct core_var *v, struct ps_error *e)
{
    size_t i = s->vars_len;

    if (s->resident != NULL)
        return PS_OK;
    return (r->gradients[i] = new_floats(s, v->elements)) != NULL ? PS_OK : no_memory(v, e);
}

/* What was set aside for variable i, whole or in part. */
static void
free_variable(ps_strategy *s, size_t i)
{
    for (uint32_t k = 0; k < s->copies; k++) {
        struct strategy_copy *c = &s->copy[k];

        if (c->values != NULL)
            ps_device_free_host(s->devices[0], c->values[i]);
        if (c->optimizer != NULL && c->optimizer[i] != NULL) {
            local_optimizer_finish(c->optimizer[i]);
            free(c->optimizer[i]);
        }
    }
    for (uint32_t k = 0; k < s->replicas; k++)
        if (s->replica[k].gradients != NULL && !s->replica[k].placed)
            ps_device_free_host(s->devices[0], s->replica[k].gradients[i]);
}

/* ---- Creating ---- */

/* The lists have moved. */
static void
show_lists(ps_strategy *s)
{
    for (uint32_t k = 0; k < s->replicas; k++) {
        struct strategy_replica *r = &s->replica[k];

        r->copy = &s->copy[s->copies > 1 ? k : 0];
        r->seen.values = r->copy->values;
        r->seen.gradients = r->gradients;
    }
}

/* Space for the next variable at the end of all lists: none is shorter than another when some allocations fail. */
static bool
grow_lists(ps_strategy *s)
{
    size_t n = s->vars_len;
    bool grown = model_grow_list(&s->vars, n);

    for (uint32_t k = 0; k < s->copies && grown; k++)
        grown = model_grow_list(&s->copy[k].values, n) && model_grow_list(&s->copy[k].optimizer, n);
    for (uint32_t k = 0; k < s->replicas && grown; k++)
        grown = model_grow_list(&s->replica[k].gradients, n);
    show_lists(s); /* also when only some of them have moved */
    return grown;
}

static enum ps_err
set_aside(ps_strategy *s, const struct core_var *v, struct ps_error *e)
{
    enum ps_err err = PS_OK;

    for (uint32_t k = 0; k < s->copies && err == PS_OK; k++)
        err = add_to_copy(s, &s->copy[k], v, e);
    for (uint32_t k = 0; k < s->replicas && err == PS_OK; k++)
        err = add_to_replica(s, &s->replica[k], v, e);
    return err;
}

enum ps_err
strategy_add_variable(ps_strategy *s, const struct ps_var_spec *spec, struct ps_error *e)
{
    struct core_var *v;
    enum ps_err err;

    if (s->started)
        return ps_fail(e, PS_ERR_INVALID, "variables are created before the strategy is started");
    if (spec == NULL)
        return ps_fail(e, PS_ERR_INVALID, "the variable's description is NULL");
    if (spec->name != NULL && variables_find(&s->table, spec->name) != NULL)
        return ps_fail(e, PS_ERR_INVALID, "there is a variable '%s' already", spec->name);
    if (!grow_lists(s))
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a list of %zu variables", s->vars_len + 1);
    if ((err = variables_declare(&s->table, spec, &v, e)) != PS_OK)
        return err;
    if ((err = set_aside(s, v, e)) != PS_OK) {
        free_variable(s, s->vars_len);
        variables_remove(&s->table, v);
        return err;
    }
    v->declared = true; /* it stays */
    s->vars[s->vars_len++] = v;
    return PS_OK;
}

void
strategy_free_variables(ps_strategy *s)
{
    for (size_t i = 0; i < s->vars_len; i++)
        free_variable(s, i);
    for (uint32_t k = 0; k < PS_STRATEGY_REPLICAS_MAX; k++) {
        free(s->copy[k].values);
        free(s->copy[k].optimizer);
        free(s->replica[k].gradients);
    }
    device_resident_free(s->resident);
    free(s->vars);
    variables_finish(&s->table);
}

void
strategy_place_gradients(ps_strategy *s, float *const *gradients)
{
    struct strategy_replica *r = &s->replica[0];

    for (size_t i = 0; i < s->vars_len; i++) {
        if (!r->placed)
            ps_device_free_host(s->devices[0], r->gradients[i]);
        r->gradients[i] = gradients[i];
    }
    r->placed = true;
    if (r->network != NULL)
        ps_network_place(r->network, r->copy->values, r->gradients);
}

/* ---- First values ---- */

enum ps_err
strategy_initialize(ps_strategy *s, struct ps_error *e)
{
    struct strategy_copy *first = &s->copy[0];

    for (size_t i = 0; i < s->vars_len; i++) {
        const struct ps_var_spec *spec = &s->vars[i]->spec;
        struct initializer init = {(enum initializer_kind)spec->init.kind, spec->init.a, spec->init.b, spec->init.seed};

        initializer_fill(&init, spec->dims, spec->rank, 0, (size_t)s->vars[i]->elements, first->values[i]);
        if (first->optimizer[i] != NULL)
            local_optimizer_reset(first->optimizer[i]);
    }
    return strategy_spread(s, e);
}

static void
spread_optimizer(const struct local_optimizer *from, struct local_optimizer *to)
{
    to->version = from->version;
    to->calm = from->calm;
    for (uint32_t k = 0; k < from->slots; k++)
        memcpy(to->slot[k], from->slot[k], from->layout.elements * sizeof(float));
}

enum ps_err
strategy_spread(ps_strategy *s, struct ps_error *e)
{
    const struct strategy_copy *first = &s->copy[0];

    if (s->resident != NULL)
        return device_resident_send(s, e);
    for (uint32_t k = 1; k < s->copies; k++)
        for (size_t i = 0; i < s->vars_len; i++) {
            memcpy(s->copy[k].values[i], first->values[i], s->vars[i]->elements * sizeof(float));
            if (first->optimizer[i] != NULL)
                spread_optimizer(first->optimizer[i], s->copy[k].optimizer[i]);
        }
    return PS_OK;
}

enum ps_err
strategy_gather(ps_strategy *s, bool slots, struct ps_error *e)
{
    return s->resident != NULL ? device_resident_fetch(s, slots, e) : PS_OK;
}

/* ---- Updates ---- */

struct model_update {
    ps_strategy *s;
    struct local_step step;
    enum ps_err err[PS_STRATEGY_REPLICAS_MAX];
    struct ps_error error;
};

static void
update_copy(void *arg, uint32_t member)
{
    struct model_update *u = arg;
    ps_strategy *s = u->s;

    if (member < s->copies)
        u->err[member] =
            local_optimizer_step(s->vars_len, s->copy[member].optimizer, &u->step, s->copy[member].values,
                                 (const float *const *)s->replica[0].gradients, member == 0 ? &u->error : NULL);
}

enum ps_err
strategy_update(ps_strategy *s, float scale, struct ps_error *e)
{
    struct model_update u = {.s = s, .step = {.clock = s->next, .scale = scale}};

    if (s->resident != NULL)
        return device_resident_update(s, scale, e);
    if (s->copies > 1)
        replica_threads_run(s->threads, update_copy, &u);
    else
        update_copy(&u, 0);
    /* The same gradient, on the same values: they differ only where one had no memory. */
    for (uint32_t k = 1; k < s->copies; k++)
        if (u.err[k] != u.err[0])
            return ps_fail(e, PS_ERR_NOMEM, "no memory for the update of replica %u: the replicas differ now",
                           u.err[k] == PS_ERR_NOMEM ? k : 0);
    if (u.err[0] != PS_OK && e != NULL)
        *e = u.error;
    return u.err[0];
}
