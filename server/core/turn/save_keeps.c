/* A block's two keys differ by their generation: one holds its newest value, the other may hold that of an instant. */
#include "server/core/turn/save_keeps.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/shard_state.h"

/* ---- Variables ---- */

bool
save_has(const struct shard *s, const struct variable *v)
{
    const struct save *save = &s->save;

    return save->state == SAVE_RUNNING && v->id <= save->vars && (save->job_id == 0 || v->job->id == save->job_id);
}

struct save_changed *
save_changed_find(const struct shard *s, uint32_t var)
{
    struct save_changed *x;

    HASH_FIND(hh, s->save.variables_changed, &var, sizeof var, x);
    return x;
}

/* NULL: no memory. */
static struct save_changed *
save_changed_need(struct shard *s, uint32_t var)
{
    struct save_changed *x = save_changed_find(s, var);

    if (x != NULL || (x = calloc(1, sizeof *x)) == NULL)
        return x;
    x->var = var;
    HASH_ADD(hh, s->save.variables_changed, var, sizeof x->var, x);
    if (HASH_TOOK(x))
        return x;
    free(x);
    return NULL;
}

void
save_changed_forget(struct shard *s)
{
    struct save_changed *x, *next;

    HASH_ITER (hh, s->save.variables_changed, x, next) {
        HASH_DEL(s->save.variables_changed, x);
        free((void *)(uintptr_t)x->row.data);
        free(x);
    }
}

uint64_t
save_count(const struct shard *s, const struct variable *v)
{
    const struct save_changed *x = save_changed_find(s, v->id);

    return x != NULL && x->counted ? x->count : v->ready;
}

void
save_keeps_count(struct shard *s, const struct variable *v)
{
    struct save_changed *x;

    if (!save_has(s, v))
        return;
    if ((x = save_changed_need(s, v->id)) == NULL) {
        turn_fail(s, PS_ERR_NOMEM);
    } else if (!x->counted) {
        x->counted = true;
        x->count = v->ready;
    }
}

bool
save_keeps_row(const struct shard *s, const struct variable *v)
{
    const struct save_changed *x;

    if (!save_has(s, v) || v->id <= s->save.looked)
        return false;
    x = save_changed_find(s, v->id);
    return x == NULL || x->row.data == NULL;
}

enum ps_err
save_keeps_put(struct shard *s, enum store_table table, struct span key, struct span value)
{
    struct save_changed *x = save_changed_need(s, row_id(key));
    void *row = x != NULL ? malloc(value.len + 1) : NULL;

    ps_assert(table == STORE_VARS);
    if (row == NULL)
        return PS_ERR_NOMEM;
    x->row = (struct span){memcpy(row, value.data, value.len), value.len};
    return PS_OK;
}

/* ---- Blocks ---- */

bool
save_keeps(const struct shard *s, const struct block_ref *ref)
{
    const struct save *save = &s->save;
    const struct variable *v = ref->variable;
    struct save_place place = {.var = v->id, .index = v->kind->index(ref)};

    return !ref->block->left && save_has(s, v) && place.index < save_count(s, v) && !MUTATION(INSTANT_OVERWRITTEN) &&
           !save_place_before(place, MUTATION(PASSED_WHEN_HANDED) ? save->handed : save->passed);
}

void
save_left(struct shard *s, const struct block_ref *ref, int by)
{
    struct save *save = &s->save;
    uint64_t size = ref->size;

    ps_assert(ref->block->left == (by < 0) && save->left >= ref->block->left);
    ref->block->left = by > 0;
    save->left += by > 0 ? 1 : (uint64_t)-1;
    save->left_bytes += by > 0 ? size : -size;
}
