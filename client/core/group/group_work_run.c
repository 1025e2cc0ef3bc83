/* Carrying out the steps of one work.
 *
 * The usual way: group_work_begin() marks every side; work_advance() looks at what is marked, runs local steps that are
 * ready, hands out messages that may go, and says which can be taken; what comes in completes a step, which makes
 * others ready and marks their sides. Nothing here calls out of the core, so nothing comes back in the middle of it;
 * but any step may find that there is no memory, and then the group has failed and the work is done: loops look at
 * w->done. */
#include <stdlib.h>
#include <string.h>

#include "client/core/group/group_internal.h"
#include "client/core/reduce/reduce.h"
#include "common/core/base/mutation.h"

static void work_advance(struct group_core *c, struct group_work *w);

/* ---- Steps ---- */

static void
work_mark(struct group_work *w, uint32_t k)
{
    if (w->sides[k].marked)
        return;
    w->sides[k].marked = true;
    w->marks[w->marks_len++] = (uint16_t)k;
}

static void
step_done(struct group_work *w, uint32_t step)
{
    const struct plan_schedule *a = w->schedule;

    w->left--;
    for (uint32_t i = a->next_at[step]; i < a->next_at[step + 1]; i++) {
        uint32_t next = a->next[i];

        if (--w->needs[next] > 0)
            continue;
        if (a->step_peer[next] == PLAN_NO_PEER)
            w->stack[w->stack_len++] = next;
        else
            work_mark(w, a->step_peer[next]);
    }
}

/* The caller makes a piece of its slot. False: it could not, and the group has failed. */
static bool
work_merge(struct group_work *w, const struct plan_step *s)
{
    uint32_t ranks = w->core->config.ranks, guilty;

    guilty = w->merge(w->merge_arg, s->offset - w->core->config.rank * (w->schedule->key.count / ranks));
    if (guilty >= ranks)
        return true;
    group_fail_with(w->core, guilty, PS_ERR_PROTOCOL, "a part that no encoder makes");
    return false;
}

static void
work_reduce(const struct group_work *w, const struct plan_step *s, void *out, const void *a, const void *b)
{
    if (w->mean.parts != NULL)
        reduce(w->dtype, PS_SUM, s->len * w->lanes, out, a, b);
    else if (w->reduce == PS_MEAN)
        reduce_mean(w->dtype, s->len, out, a, b, s->counts);
    else
        reduce(w->dtype, w->reduce, s->len, out, a, b);
}

static void
run_local(struct group_work *w, uint32_t step)
{
    const struct plan_step *s = &w->schedule->plan.step[step];
    uint8_t *to = group_buffer_at(w, s->buffer, s->offset), *from;

    if (s->len > 0 && s->kind == PLAN_COPY) {
        from = group_buffer_at(w, s->source, s->source_offset);
        if (from != to)
            memmove(to, from, s->len * w->size);
    } else if (s->len > 0 && s->kind == PLAN_REDUCE_LOCAL) {
        work_reduce(w, s, to, to, group_buffer_at(w, s->source, s->source_offset));
    } else if (s->len > 0 && s->kind == PLAN_SCALE) {
        reduce_mean_end(w->dtype, s->len, to, w->core->config.ranks);
    } else if (s->kind == PLAN_MERGE && !work_merge(w, s)) {
        return;
    }
    step_done(w, step);
}

/* A message is here: into its place, or on top of what is there. False: no memory. */
static bool
take_message(struct group_work *w, uint32_t step, const void *payload)
{
    const struct plan_step *s = &w->schedule->plan.step[step];
    uint8_t *to = group_buffer_at(w, s->buffer, s->offset);
    void *aligned = NULL;

    if (s->len == 0 || payload == NULL)
        return true;
    if (s->kind == PLAN_RECEIVE) {
        memcpy(to, payload, s->len * w->size);
        return true;
    }
    if ((uintptr_t)payload % (w->size / w->lanes) != 0) { /* of 8 bytes, in a payload at a multiple of 4 */
        if ((aligned = malloc(s->len * w->size)) == NULL)
            return false;
        payload = memcpy(aligned, payload, s->len * w->size);
    }
    work_reduce(w, s, to, group_buffer_at(w, s->source, s->source_offset), payload);
    free(aligned);
    return true;
}

static void
no_memory(struct group_core *c)
{
    group_fail_with(c, c->config.rank, PS_ERR_NOMEM, "no memory for a message of an operation");
}

/* ---- In ---- */

static void
use_kept(struct group_core *c, struct group_work *w, uint32_t k, struct group_peer *p)
{
    const struct plan_peer *ap = &w->schedule->peers[k];
    struct group_side *side = &w->sides[k];

    while (side->kept.first != NULL && side->received < side->ready) {
        const struct group_message *m = side->kept.first;
        uint32_t step = ap->receive[side->received];

        if (!take_message(w, step, m->data)) {
            no_memory(c);
            return;
        }
        p->kept -= group_message_cost(m->bytes);
        group_kept_remove(&side->kept);
        side->received++;
        step_done(w, step);
    }
}

static void
work_check_peer(struct group_core *c, struct group_work *w, uint32_t k)
{
    const struct plan_peer *ap = &w->schedule->peers[k];
    struct group_side *side = &w->sides[k];
    struct group_peer *p = &c->peers[ap->rank];

    while (side->ready < ap->receives && w->needs[ap->receive[side->ready]] == 0)
        side->ready++;
    if (side->kept.first != NULL)
        use_kept(c, w, k, p);
    if (!w->done)
        group_work_flush_peer(c, w, k, p);
}

static void
work_advance(struct group_core *c, struct group_work *w)
{
    while (!w->done && !w->disputed && (w->stack_len > 0 || w->marks_len > 0)) {
        if (w->stack_len > 0) {
            run_local(w, w->stack[--w->stack_len]);
        } else {
            uint32_t k = w->marks[--w->marks_len];

            w->sides[k].marked = false;
            work_check_peer(c, w, k);
        }
    }
    if (w->done || w->disputed || w->left > 0 || (w->unheard > 0 && !MUTATION(GROUP_ENDS_UNHEARD)))
        return;
    group_mean_end(w);
    group_work_end(c, w, PS_OK);
}

/* Take what the peer sent of it before it was started here. False: it has started something else. */
static bool
take_early(struct group_core *c, struct group_work *w, struct group_peer *p)
{
    uint32_t k = w->schedule->peer_of[p->rank];
    struct group_early *early = group_early_take(&p->early, w->id);

    if (early == NULL)
        return true;
    if (k != PLAN_NO_PEER)
        w->sides[k].kept = early->kept;
    else
        group_kept_clear(&early->kept);
    group_work_announced(c, w, p, &early->signature, early->ready);
    free(early);
    return !c->failed && !w->disputed;
}

/* Too many, or of another length than the plan's: what a rank of the same signature never sends. */
static bool
check_kept(struct group_core *c, struct group_work *w, uint32_t k)
{
    const struct plan_peer *ap = &w->schedule->peers[k];
    uint32_t i = 0;

    for (const struct group_message *m = w->sides[k].kept.first; m != NULL; m = m->next, i++)
        if (i >= ap->receives || m->bytes != round_up(group_step_bytes(w, ap->receive[i]), 4)) {
            group_fail_with(c, ap->rank, PS_ERR_PROTOCOL, "a message of %u bytes that the operation does not have",
                            m->bytes);
            return false;
        }
    return true;
}

static bool
take_earlies(struct group_core *c, struct group_work *w)
{
    bool pair = group_id_lane(w->id) != GROUP_LANE_ALL;

    for (uint32_t r = 0; r < c->config.ranks; r++)
        if (c->peers[r].early.first != NULL && (!pair || r == w->schedule->key.root) && !take_early(c, w, &c->peers[r]))
            return false;
    for (uint32_t k = 0; k < w->schedule->peers_len; k++)
        if (w->sides[k].kept.first != NULL && !check_kept(c, w, k))
            return false;
    return true;
}

void
group_work_begin(struct group_core *c, struct group_work *w)
{
    const struct plan_schedule *a = w->schedule;

    for (uint32_t k = 0; k < a->peers_len; k++)
        w->sides[k].ready = a->peers[k].ready;
    w->lacking = w->unheard = a->peers_len;
    for (uint32_t i = a->local_len; i-- > 0;)
        w->stack[w->stack_len++] = a->local[i];
    if (!take_earlies(c, w))
        return;
    /* What can go goes before anything is computed; but a little is copied sooner than a second frame is made for what
     * could not go without it. */
    while (w->stack_len > 0 && !w->done && group_step_bytes(w, w->stack[w->stack_len - 1]) <= GROUP_EAGER_MAX)
        run_local(w, w->stack[--w->stack_len]);
    for (uint32_t k = 0; k < a->peers_len && !w->done; k++)
        work_check_peer(c, w, k);
    work_advance(c, w);
}

void
group_keep_message(struct group_core *c, struct group_peer *p, struct group_kept *held, uint64_t bytes,
                   const void *payload)
{
    if (bytes > GROUP_EAGER_MAX || p->kept + group_message_cost(bytes) > GROUP_AHEAD_BYTES) {
        group_fail_with(c, p->rank, PS_ERR_PROTOCOL, "a message of %llu bytes that was not asked for",
                        (unsigned long long)bytes);
        return;
    }
    if (!group_kept_add(held, payload, bytes)) {
        no_memory(c);
        return;
    }
    p->kept += group_message_cost(bytes);
}

/* What is wrong with a message of these bytes at this place; NULL: nothing. */
static const char *
message_wrong(const struct group_work *w, uint32_t k, uint64_t payload_len)
{
    uint32_t index;

    if (k == PLAN_NO_PEER)
        return "of a rank that has no part in it";
    if (!w->sides[k].peer_announced)
        return "before it was announced";
    index = w->sides[k].received + w->sides[k].kept.len;
    if (index >= w->schedule->peers[k].receives)
        return "that is one too many";
    if (round_up(group_step_bytes(w, w->schedule->peers[k].receive[index]), 4) != payload_len)
        return "of another length than its buffer";
    return NULL;
}

void
group_work_message(struct group_core *c, struct group_work *w, struct group_peer *p, uint64_t payload_len,
                   const void *payload)
{
    uint32_t k = w->schedule->peer_of[p->rank], step;
    const char *wrong = message_wrong(w, k, payload_len);
    struct group_side *side;

    if (w->disputed)
        return;
    if (wrong != NULL) {
        group_fail_with(c, p->rank, PS_ERR_PROTOCOL, "a message of %llu bytes %s", (unsigned long long)payload_len,
                        wrong);
        return;
    }
    side = &w->sides[k];
    if (side->kept.first == NULL && side->received < side->ready) {
        step = w->schedule->peers[k].receive[side->received];
        if (!take_message(w, step, payload)) {
            no_memory(c);
            return;
        }
        side->received++;
        step_done(w, step);
        work_mark(w, k);
        work_advance(c, w);
        return;
    }
    group_keep_message(c, p, &side->kept, payload_len, payload);
}

/* ---- What a peer says of a work ---- */

static bool
work_lacks(const struct group_work *w, uint32_t k)
{
    return !w->sides[k].peer_announced || w->sides[k].asked < w->schedule->peers[k].sends;
}

void
group_work_ready_received(struct group_core *c, struct group_work *w, struct group_peer *p, uint32_t ready)
{
    uint32_t k = w->schedule->peer_of[p->rank];
    struct group_side *side;
    bool lacked;

    if (w->disputed)
        return;
    if (k == PLAN_NO_PEER || !w->sides[k].peer_announced || ready > w->schedule->peers[k].sends) {
        group_fail_with(c, p->rank, PS_ERR_PROTOCOL, "it asked for %u messages that there are not", ready);
        return;
    }
    side = &w->sides[k];
    lacked = work_lacks(w, k);
    for (uint32_t i = side->asked; i < MIN(ready, side->sent); i++)
        p->ahead -= group_message_cost(group_step_bytes(w, w->schedule->peers[k].send[i]));
    side->asked = MAX(side->asked, ready);
    w->lacking -= lacked && !work_lacks(w, k);
    group_work_wake(c, w, p);
}

void
group_work_announced(struct group_core *c, struct group_work *w, struct group_peer *p, const struct group_signature *s,
                     uint32_t ready)
{
    uint32_t k = w->schedule->peer_of[p->rank];

    if (!group_signature_equal(s, &w->signature) && !MUTATION(GROUP_ANY_OPERATION)) {
        w->disputed = true;
        group_vote_mismatch(c, p, w->id, s);
        return;
    }
    if (k == PLAN_NO_PEER || w->sides[k].peer_announced || ready > w->schedule->peers[k].sends) {
        group_fail_with(c, p->rank, PS_ERR_PROTOCOL, "it announced an operation %s",
                        k == PLAN_NO_PEER            ? "in which it has no part with this rank"
                        : w->sides[k].peer_announced ? "twice"
                                                     : "with more messages than it has");
        return;
    }
    w->sides[k].peer_announced = true;
    w->unheard--;
    p->unmatched -= w->sides[k].announced;
    for (uint32_t i = 0; i < MIN(ready, w->sides[k].sent); i++)
        p->ahead -= group_message_cost(group_step_bytes(w, w->schedule->peers[k].send[i]));
    w->sides[k].asked = ready;
    w->lacking -= !work_lacks(w, k);
}

void
group_work_wake(struct group_core *c, struct group_work *w, struct group_peer *p)
{
    uint32_t k = w->schedule->peer_of[p->rank];

    if (w->done || w->disputed)
        return;
    work_mark(w, k);
    work_advance(c, w);
}

void
group_work_sent(struct group_core *c, struct group_work *w, const struct group_send *s)
{
    if (w->done || w->disputed)
        return;
    step_done(w, s->step);
    work_advance(c, w);
}

void
group_peer_unstall(struct group_core *c, struct group_peer *p)
{
    struct group_work *next;

    p->stalled = false;
    for (struct group_work *w = c->running; w != NULL && !c->failed; w = next) {
        uint32_t k = w->schedule->peer_of[p->rank];

        next = w->next;
        if (k == PLAN_NO_PEER)
            continue;
        work_mark(w, k);
        work_advance(c, w);
    }
}

static bool
work_awaits(const struct group_work *w, uint32_t k)
{
    const struct plan_peer *ap = &w->schedule->peers[k];
    const struct group_side *side = &w->sides[k];

    return (w->left == 0 && !side->peer_announced) || side->received < side->ready ||
           (side->sent < ap->sends && w->needs[ap->send[side->sent]] == 0);
}

bool
group_core_awaits(const struct group_core *c, uint32_t rank)
{
    for (const struct group_work *w = c->running; w != NULL; w = w->next) {
        uint32_t k = w->schedule->peer_of[rank];

        if (k != PLAN_NO_PEER && work_awaits(w, k))
            return true;
    }
    return false;
}
