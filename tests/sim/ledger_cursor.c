/* Examples: the places that a worker's data cursor passes, one a step. Whichever process of the worker takes a step's
 * place in the data, each block counts that step once.
 *
 *     positions   1    2    3    4    5
 *     process 1   ├────┼────┼──► killed: some blocks count step 3
 *     process 2             ├────┼────┤    step 3 again: those blocks skip it
 */
#include <inttypes.h>

#include "tests/sim/ledger_state.h"

bool
ledger_same_example(const struct ledger_push *x, const struct ledger_push *y)
{
    return x->has_cursor && y->has_cursor && x->task == y->task && x->var == y->var &&
           x->cursor.epoch == y->cursor.epoch && x->cursor.position == y->cursor.position;
}

/* A round of the job begins without a cursor. Mostly that is a run of the worker's, an epoch here; but a shard that has
 * lost its disk, and with it the job's round, learns the round from workers that joined before the loss, and a worker
 * that joined after it is in an earlier one until it joins again. */
void
ledger_check_example(struct ledger *l, const struct block_state *b, uint64_t number)
{
    const struct var_state *v = &l->vars[b->var];
    const struct ledger_push *p = &l->pushes[v->pushes[number]];
    char name[128];

    for (size_t i = 0; i < v->pushes_len && p->has_cursor; i++) {
        const struct ledger_push *other = &l->pushes[v->pushes[i]];

        if (other != p && ledger_same_example(other, p) && other->round == p->round &&
            ledger_block_version_of(b, other->number) != 0)
            sim_fail(l->sim, "%s counts example %" PRIu64 " of w%u once more with %s", ledger_block_name(l, b),
                     p->cursor.position, p->task, ledger_push_name(l, v->pushes[number], name, sizeof name));
    }
}

bool
ledger_excused(const struct ledger *l, const struct ledger_push *p)
{
    bool ended = p->outcome != PUSH_OPEN && p->result != PS_OK;
    bool with_its_process =
        p->result == PS_ERR_CLOSED || p->result == PS_ERR_LEASE_LAPSED || p->result == PS_ERR_FENCED;

    return p->broken || p->refused || p->turned_away || l->model->age == PS_AGE_CUTOFF || l->model->mode == PS_SYNC ||
           (ended && !with_its_process);
}

void
ledger_turned_away(struct ledger *l, uint32_t task, const struct ps_cursor *example)
{
    for (size_t i = 0; i < l->pushes_len; i++) {
        struct ledger_push *p = &l->pushes[i];

        p->turned_away |= p->task == task && p->durable && p->has_cursor && p->cursor.epoch == example->epoch &&
                          p->cursor.position == example->position;
    }
}

/* One example in one block: some push of it is counted, or excused. */
static bool
counted_once(const struct ledger *l, const struct block_state *b, uint32_t task, const struct ps_cursor *at)
{
    const struct var_state *v = &l->vars[b->var];

    for (size_t i = 0; i < v->pushes_len; i++) {
        const struct ledger_push *p = &l->pushes[v->pushes[i]];

        if (p->task == task && p->has_cursor && p->cursor.epoch == at->epoch && p->cursor.position == at->position &&
            (ledger_excused(l, p) || !ledger_block_tells(l, b, p->number) ||
             ledger_block_version_of(b, p->number) != 0))
            return true;
    }
    return false;
}

static void
check_example(struct ledger *l, uint32_t task, const struct ps_cursor *at)
{
    for (uint32_t var = 0; var < l->model->vars_len; var++)
        for (uint32_t n = 0; n < l->vars[var].blocks_len && !l->sim->failed; n++) {
            const struct block_state *b = &l->vars[var].blocks[n];

            if (b->seen && !counted_once(l, b, task, at))
                sim_fail(l->sim, "w%u goes on behind example %" PRIu64 ", which is not in %s", task, at->position,
                         ledger_block_name(l, b));
        }
}

/* Every step before its place is in every block, as long as no shard came back older. */
void
ledger_resumes(struct ledger *l, uint32_t task, const struct ps_cursor *cursor)
{
    struct ps_cursor at = {.epoch = cursor->epoch, .position = 1};

    for (; at.position <= cursor->position && l->losses == 0 && !l->sim->failed; at.position++)
        check_example(l, task, &at);
}
