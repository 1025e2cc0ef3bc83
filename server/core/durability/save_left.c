/* Values that are left behind for the saver: which blocks need that, and how they are erased when it has passed. */
#include "server/core/durability/save.h"

#include "server/core/shard_state.h"

#define LOOK_MAX 2048 /* blocks that one go of erasing looks at */

void
save_unload(struct shard *s)
{
    s->save.left = s->save.left_bytes = 0;
    s->save.erase = SAVE_PLACE_FIRST;
    s->save.no_room = false;
}

bool
save_busy(const struct shard *s)
{
    return s->save.left > 0 && save_place_before(s->save.erase, s->save.passed) && !s->save.no_room;
}

static bool
save_left_erase(struct shard *s, const struct block_ref *ref)
{
    struct store_key key = block_key(ref);
    enum ps_err err;

    key.generation ^= 1;
    if ((err = s->store->ops->erase(s->store, &key)) == PS_OK) {
        save_left(s, ref, -1);
        return true;
    }
    if (err == PS_ERR_FULL)
        s->save.no_room = true;
    else
        turn_fail(s, err == PS_ERR_NOT_FOUND ? PS_ERR_IO : err);
    return false;
}

/* Up to n of those that were passed. */
static void
erase_some(struct shard *s, uint32_t n)
{
    struct save *save = &s->save;

    for (uint32_t looked = 0; n > 0 && looked < LOOK_MAX && save_busy(s); looked++) {
        struct variable *v = variable_table_from(&s->variables, save->erase.var);

        ps_assert(v != NULL);
        if (v->id != save->erase.var) { /* which may not be passed */
            save->erase = (struct save_place){.var = v->id};
            continue;
        }
        if (save->erase.index >= v->ready) {
            save->erase = (struct save_place){.var = save->erase.var + 1};
            continue;
        }
        if (v->blocks[save->erase.index].left) {
            struct block_ref ref = v->kind->nth(s, v, save->erase.index);

            if (!save_left_erase(s, &ref))
                return;
            n--;
        }
        save->erase.index++;
    }
}

bool
save_work(struct shard *s)
{
    enum ps_err err;

    switch (turn_room(s, SAVE_ERASE_MAX * STORE_ROW_ROOM, &err)) {
    case TURN_WAIT:
        return false;
    case TURN_REFUSED: /* what can be erased was, in save_make_room() */
        s->save.no_room = true;
        return true;
    case TURN_READY:
        break;
    }
    turn_take_rows(s, SAVE_ERASE_MAX);
    erase_some(s, SAVE_ERASE_MAX);
    return true;
}

/* In a transaction of its own. False: none could be erased. */
static bool
erase_now(struct shard *s)
{
    const struct store_ops *ops = s->store->ops;
    uint64_t before = s->save.left;
    enum ps_err err;

    if (ops->begin(s->store, SAVE_ERASE_MAX * STORE_ROW_ROOM) != PS_OK && ops->begin(s->store, STORE_ROW_ROOM) != PS_OK)
        return false;
    erase_some(s, SAVE_ERASE_MAX);
    if (s->turn.failed != PS_OK) {
        ops->abort(s->store);
        return false;
    }
    if ((err = ops->commit(s->store)) != PS_OK)
        turn_fail(s, err);
    return err == PS_OK && s->save.left < before;
}

bool
save_make_room(struct shard *s, bool yield)
{
    if (s->save.left == 0 || s->turn.failed != PS_OK)
        return false;
    s->save.no_room = false;
    if (save_busy(s) && erase_now(s))
        return true;
    if (!yield || s->save.state != SAVE_RUNNING || s->turn.failed != PS_OK)
        return false;
    save_abandon(s, PS_ERR_FULL);
    s->save.no_room = false;
    return erase_now(s);
}
