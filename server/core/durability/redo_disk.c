/* Pieces that are on disk: answers go out, and they are erased from the live store, a few at a time. */
#include "server/core/durability/redo.h"

#include "server/core/shard_state.h"

/* Erased in one event. */
#define ERASE_BYTES (4 * MIB)
#define ERASE_MAX   64

/* ---- Erasing ---- */

/* Pieces before this one are of no use any more. */
static uint64_t
redo_disk_first_needed(const struct redo *r)
{
    return MIN(MAX(r->durable, r->given_up), r->committed);
}

enum ps_err
redo_erase(struct shard *s, uint32_t max)
{
    struct redo *r = &s->redo;
    uint64_t until = MUTATION(PIECE_ERASED_EARLY) ? r->committed : redo_disk_first_needed(r);
    uint64_t bytes = 0;

    for (; max > 0 && r->erased < until && bytes < ERASE_BYTES; max--) {
        struct store_key key = store_redo_key(r->erased);
        struct span value;
        enum ps_err err;

        if (r->erased == r->gap && r->gap < r->gap_end) {
            r->erased = r->gap_end;
            continue;
        }
        if ((err = s->store->ops->get(s->store, &key, &value)) == PS_OK)
            err = s->store->ops->erase(s->store, &key);
        if (err == PS_ERR_FULL) { /* later, along with other turns */
            r->no_room = true;
            return PS_OK;
        }
        if (err != PS_OK)
            return err == PS_ERR_NOT_FOUND ? PS_ERR_IO : err;
        bytes += value.len;
        r->erased++;
    }
    return PS_OK;
}

bool
redo_busy(const struct shard *s)
{
    return s->redo.erased < redo_disk_first_needed(&s->redo) && !s->redo.no_room;
}

bool
redo_work(struct shard *s)
{
    enum ps_err err;

    switch (turn_room(s, STORE_ROW_ROOM, &err)) {
    case TURN_WAIT:
        return false;
    case TURN_REFUSED: /* along with other turns, as far as there are any */
        s->redo.no_room = true;
        return true;
    case TURN_READY:
        break;
    }
    turn_take_rows(s, 1);
    if ((err = redo_erase(s, ERASE_MAX)) != PS_OK)
        turn_fail(s, err);
    return true;
}

/* ---- The disk ---- */

void
redo_saved(struct shard *s, uint64_t number)
{
    struct redo *r = &s->redo;

    ps_assert(number <= r->committed);
    if (number <= r->durable)
        return;
    r->durable = number;
    r->no_room = false;
    for (; r->marks_first < r->marks_len && r->marks[r->marks_first].next <= number; r->marks_first++)
        r->bytes -= r->marks[r->marks_first].bytes;
    assign_on_disk(s, number);
    durable_acks_release(s, number);
}

void
redo_cut(struct shard *s, uint64_t bytes)
{
    ps_assert(bytes <= s->redo.log_bytes);
    s->redo.log_bytes -= bytes;
}

void
redo_durable(struct shard *s, uint64_t number)
{
    if (redo_failed(s))
        actions_log(s, SHARD_LOG_INFO, "durable pushes are taken again");
    s->redo.failure = (struct ps_error){0};
    redo_saved(s, number);
}

void
redo_not_durable(struct shard *s, const struct ps_error *why)
{
    ps_assert(why->code != PS_OK);
    if (!redo_failed(s))
        actions_log(s, SHARD_LOG_ERROR, "durable pushes cannot be written code=%s reason=\"%s\"",
                    ps_err_name(why->code), why->text);
    s->redo.failure = *why;
    assign_recorded(s, s->redo.next);
    assign_on_disk(s, UINT64_MAX);
    durable_acks_fail(s, why);
    redo_give_up(s);
}

void
redo_give_up(struct shard *s)
{
    struct redo *r = &s->redo;

    while (redo_failed(s) && r->bytes > s->config.redo_bytes_max && r->marks_len - r->marks_first > 1) {
        const struct redo_mark *oldest = &r->marks[r->marks_first++];

        r->given_up = oldest->next;
        r->bytes -= oldest->bytes;
        r->no_room = false;
    }
}
