/* The table of a client's variables. See variable.h. */
#include "client/core/shards/variable.h"

#include <stdlib.h>
#include <string.h>

#include "client/core/shards/core.h"
#include "common/core/base/utf8.h"
#include "common/core/cluster/placement.h"
#include "common/core/model/initializer.h"
#include "common/core/optimizer/optimizer.h"
#include "common/core/wire/wire.h"

void
variables_init(struct variables *t, const char *job, uint32_t shards)
{
    *t = (struct variables){.job = job, .shards = shards};
}

static void
var_free(struct core_var *v)
{
    free(v->shard);
    free(v->seen);
    free(v->residual);
    free(v);
}

void
variables_finish(struct variables *t)
{
    struct core_var *v, *next;

    HASH_ITER (hh, t->first, v, next) {
        HASH_DEL(t->first, v);
        var_free(v);
    }
}

void
variables_remove(struct variables *t, struct core_var *v)
{
    HASH_DEL(t->first, v);
    var_free(v);
}

struct core_var *
variables_find(const struct variables *t, const char *name)
{
    struct core_var *v;

    HASH_FIND_STR(t->first, name, v);
    return v;
}

const ProtobufCMessage *
var_message(const struct core_var *v, struct var_message *room)
{
    const struct ps_var_spec *s = &v->spec;
    Psd__Initializer *i = &room->init;
    Psd__Declare *d = &room->declare;

    psd__initializer__init(i);
    i->kind = (Psd__InitKind)s->init.kind;
    i->a = s->init.a;
    i->b = s->init.b;
    i->seed = s->init.seed;
    psd__declare__init(d);
    d->name = (char *)v->name;
    d->n_dims = s->rank;
    d->dims = (uint64_t *)s->dims;
    d->init = i;
    d->optimizer = wire_optimizer_message(&s->optimizer, &room->optimizer);
    d->nonfinite = s->allow_nonfinite ? PSD__NON_FINITE__ALLOW : PSD__NON_FINITE__REFUSE;
    return &d->base;
}

/* What can be said of a declaration before any shard sees it. */
static enum ps_err
spec_check(const struct ps_var_spec *s, uint64_t *elements, struct ps_error *e)
{
    struct initializer init;
    enum ps_err err;

    if (s->name == NULL || s->name[0] == '\0')
        return ps_fail(e, PS_ERR_INVALID, "a variable needs a name");
    if (strlen(s->name) > PS_NAME_MAX)
        return ps_fail(e, PS_ERR_INVALID, "the variable name \"%.40s...\" is longer than %d bytes", s->name,
                       PS_NAME_MAX);
    if (!utf8_is_printable(s->name, strlen(s->name)))
        return ps_fail(e, PS_ERR_INVALID, "a variable name must be UTF-8 without control characters");
    if ((err = wire_check_variable_name(s->name, e)) != PS_OK)
        return err;
    if (s->rank > PS_RANK_MAX)
        return ps_fail(e, PS_ERR_INVALID, "variable '%s': rank %u is greater than %d", s->name, s->rank, PS_RANK_MAX);
    err = wire_elements(s->dims, s->rank, elements);
    if (err == PS_ERR_INVALID)
        return ps_fail(e, err, "variable '%s': every dimension must be at least 1", s->name);
    if (err != PS_OK)
        return ps_fail(e, err, "variable '%s' has more than %llu elements", s->name, WIRE_ELEMENTS_MAX);
    init = (struct initializer){(enum initializer_kind)s->init.kind, s->init.a, s->init.b, s->init.seed};
    if ((err = initializer_check(&init, e)) != PS_OK || (err = optimizer_check(&s->optimizer, e)) != PS_OK)
        return err;
    if (s->optimizer.learning_rate == 0)
        return ps_fail(
            e, PS_ERR_INVALID,
            "variable '%.64s': the optimizer's learning_rate is 0, so it would never change; a zeroed struct "
            "is no optimizer, ps_optimizer_by_name() fills one in",
            s->name);
    return PS_OK;
}

/* Give v this definition. On failure v is as it was. */
static enum ps_err
var_define(struct core_var *v, const struct variables *t, const struct ps_var_spec *spec, uint64_t elements)
{
    struct layout layout;
    struct var_shard *shard;
    uint64_t *seen;
    uint32_t i;

    var_dense.cut(spec, elements, &layout);
    shard = calloc(t->shards, sizeof(*shard));
    seen = calloc(layout.blocks, sizeof(*seen));
    if (shard == NULL || seen == NULL) {
        free(shard);
        free(seen);
        return PS_ERR_NOMEM;
    }
    free(v->shard);
    free(v->seen);
    free(v->residual);
    v->residual = NULL;
    if (spec->name != v->name)
        memcpy(v->name, spec->name, strlen(spec->name) + 1);
    v->spec = *spec;
    v->spec.name = v->name;
    v->elements = elements;
    v->kind = &var_dense; /* a definition has no word for another */
    v->layout = layout;
    v->start = placement_start(t->job, v->name, t->shards);
    v->shards = t->shards;
    v->shard = shard;
    v->seen = seen;
    v->declared = false;
    for (i = 0; i < t->shards; i++) {
        shard[i].blocks = placement_count(v->start, layout.blocks, i, t->shards);
        shard[i].first = placement_nth(v->start, i, t->shards, 0);
    }
    return PS_OK;
}

static bool
spec_equal(const struct core_var *v, const struct ps_var_spec *spec, struct ps_error *e)
{
    struct core_var other = {.spec = *spec};
    struct var_message a, b;
    char text[PS_ERROR_TEXT_MAX];
    bool equal;

    memcpy(other.name, v->name, sizeof(other.name));
    var_message(v, &a);
    var_message(&other, &b);
    equal = wire_declare_equal(&a.declare, &b.declare);
    if (!equal) {
        wire_declare_differences(&a.declare, &b.declare, text, sizeof(text));
        ps_fail(e, PS_ERR_MISMATCH, "variable '%.64s' was declared with %.400s", v->name, text);
    }
    return equal;
}

/* NULL: out of memory. */
static struct core_var *
var_make(struct variables *t, const struct ps_var_spec *spec, uint64_t elements)
{
    struct core_var *v = calloc(1, sizeof(*v));

    if (v == NULL || var_define(v, t, spec, elements) != PS_OK) {
        free(v);
        return NULL;
    }
    HASH_ADD_STR(t->first, name, v);
    if (HASH_TOOK(v))
        return v;
    var_free(v);
    return NULL;
}

/* Find or make the variable of a definition that is valid. */
static enum ps_err
find_or_make(struct variables *t, const struct ps_var_spec *spec, uint64_t elements, struct core_var **out,
             struct ps_error *e)
{
    struct core_var *v = variables_find(t, spec->name);
    bool starved;

    if (v != NULL && spec_equal(v, spec, e)) {
        *out = v;
        return PS_OK;
    }
    if (v != NULL && (v->declared || v->declaring > 0))
        return PS_ERR_MISMATCH;
    if (v != NULL)
        starved = var_define(v, t, spec, elements) != PS_OK;
    else
        starved = (v = var_make(t, spec, elements)) == NULL;
    if (starved)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for variable '%s'", spec->name);
    *out = v;
    return PS_OK;
}

enum ps_err
variables_declare(struct variables *t, const struct ps_var_spec *spec, struct core_var **out, struct ps_error *e)
{
    uint64_t elements;
    enum ps_err err;

    if ((err = spec_check(spec, &elements, e)) != PS_OK)
        return err;
    return find_or_make(t, spec, elements, out, e);
}

enum ps_err
variables_attach(struct variables *t, const Psd__Declare *declare, struct core_var **out, struct ps_error *e)
{
    const Psd__Initializer *i = declare->init;
    struct ps_var_spec spec = {.name = declare->name,
                               .rank = (uint32_t)declare->n_dims,
                               .init = {(enum ps_init_kind)i->kind, i->a, i->b, i->seed},
                               .optimizer = wire_optimizer(declare->optimizer),
                               .allow_nonfinite = declare->nonfinite == PSD__NON_FINITE__ALLOW};
    uint64_t elements;
    enum ps_err err;

    err = wire_elements(declare->dims, declare->n_dims, &elements);
    ps_assert(err == PS_OK); /* wire_decode() has looked */
    if (declare->n_dims > 0)
        memcpy(spec.dims, declare->dims, declare->n_dims * sizeof(*spec.dims));
    return find_or_make(t, &spec, elements, out, e);
}

uint32_t
variables_first_shard(const struct variables *t, const char *name)
{
    return placement_shard(placement_start(t->job, name, t->shards), 0, t->shards);
}

static void
var_forget_versions(struct core_var *v, uint32_t shard)
{
    for (uint64_t i = 0; i < v->shard[shard].blocks; i++)
        v->seen[var_nth_block(v, shard, i)] = 0;
}

void
var_learn_id(struct core_var *v, uint32_t shard, uint32_t id)
{
    struct var_shard *s = &v->shard[shard];

    if (s->known && s->id != id)
        var_forget_versions(v, shard);
    s->id = id;
    s->known = true;
}

void
variables_forget(struct variables *t, uint32_t shard)
{
    struct core_var *v;

    for (v = t->first; v != NULL; v = v->hh.next) {
        v->shard[shard].known = false;
        var_forget_versions(v, shard);
    }
}

void **
core_var_handle(struct core_var *v)
{
    return &v->handle;
}

const char *
core_var_name(const struct core_var *v)
{
    return v->name;
}

uint64_t
core_var_elements(const struct core_var *v)
{
    return v->elements;
}

uint32_t
core_var_rank(const struct core_var *v)
{
    return v->spec.rank;
}

uint64_t
core_var_dim(const struct core_var *v, uint32_t i)
{
    return i < v->spec.rank ? v->spec.dims[i] : 0;
}

uint64_t
core_var_blocks(const struct core_var *v)
{
    return v->layout.blocks;
}

void
core_var_versions(const struct core_var *v, uint64_t *lowest, uint64_t *highest)
{
    uint64_t low = UINT64_MAX, high = 0, i, version;

    for (i = 0; i < v->layout.blocks; i++) {
        if (!var_seen(v, i, &version))
            version = 0;
        low = MIN(low, version);
        high = MAX(high, version);
    }
    if (lowest != NULL)
        *lowest = low;
    if (highest != NULL)
        *highest = high;
}
