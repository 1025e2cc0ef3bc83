/* Two ranks have started different operations under one number. All decide which of them is wrong: each reports what it
 * started, and a rank that differs from what more than half of all started is guilty. So all ranks find the same one,
 * from the same votes. Without such a majority no rank is guilty.
 *
 * Ranks that have not started the operation vote when they do; GROUP_VOTE_MS after the first sign of the dispute the
 * votes so far are all that there are. With several numbers in dispute the lowest counts: what follows it is its
 * consequence. */
#include <stdlib.h>
#include <string.h>

#include "client/core/group/group_internal.h"

const struct group_signature *
group_own_signature(const struct group_core *c, uint64_t id)
{
    uint64_t number = id & GROUP_NUMBER_MAX;

    if (group_id_lane(id) != GROUP_LANE_ALL || number >= c->started || number + GROUP_HISTORY < c->started)
        return NULL;
    return &c->history[number % GROUP_HISTORY];
}

static uint32_t
votes_like(const struct group_core *c, uint32_t rank)
{
    const struct group_vote *v = c->dispute.votes;
    uint32_t n = 0;

    for (uint32_t r = 0; r < c->config.ranks; r++)
        n += v[r].known && group_signature_equal(&v[r].signature, &v[rank].signature);
    return n;
}

/* The lowest rank of those with the most common vote; UINT32_MAX: there is no vote. */
static uint32_t
group_vote_most_common(const struct group_core *c)
{
    uint32_t best = UINT32_MAX, best_votes = 0;

    for (uint32_t r = 0; r < c->config.ranks; r++) {
        uint32_t n = c->dispute.votes[r].known ? votes_like(c, r) : 0;

        if (n > best_votes) {
            best = r;
            best_votes = n;
        }
    }
    return best;
}

static uint32_t
first_other(const struct group_core *c, uint32_t right)
{
    const struct group_vote *v = c->dispute.votes;

    for (uint32_t r = 0; r < c->config.ranks; r++)
        if (v[r].known && !group_signature_equal(&v[r].signature, &v[right].signature))
            return r;
    return UINT32_MAX;
}

/* Half of the ranks or fewer accuse none: then the sentence alone says which rank started what. */
static void
group_vote_decide(struct group_core *c, bool now)
{
    struct group_dispute *d = &c->dispute;
    uint32_t known = 0, right, other;
    char text[GROUP_ABORT_TEXT_MAX + 1];

    for (uint32_t r = 0; r < c->config.ranks; r++)
        known += d->votes[r].known || c->peers[r].bye;
    if ((!now && known < c->config.ranks) || (right = group_vote_most_common(c)) == UINT32_MAX ||
        (other = first_other(c, right)) == UINT32_MAX)
        return;
    group_vote_text(d->votes, c->config.ranks, d->id, text, sizeof text);
    if (2 * votes_like(c, right) <= c->config.ranks)
        other = GROUP_ABORT_SEVERAL;
    group_fail_with(c, other, PS_ERR_MISMATCH, "%s", text);
}

/* Tell all others what this rank has started, if it has. */
static void
group_vote_send(struct group_core *c)
{
    struct group_dispute *d = &c->dispute;
    const struct group_signature *own = group_own_signature(c, d->id);

    if (own == NULL || d->voted)
        return;
    d->voted = true;
    d->votes[c->config.rank] = (struct group_vote){true, *own};
    for (uint32_t r = 0; r < c->config.ranks && !c->failed; r++) {
        struct group_send *s;

        if (r == c->config.rank || c->peers[r].bye || (s = group_send_new(c, r)) == NULL)
            continue;
        group_vote_encode(d->id, own, s->room);
        s->head_len = FRAME_HEAD_SIZE + GROUP_WORK_SIZE;
        group_send_queue(c, s);
    }
}

/* The dispute is about this number now. False: an earlier one is under way, or the group has failed. */
static bool
open_dispute(struct group_core *c, uint64_t id)
{
    struct group_dispute *d = &c->dispute;

    if (d->active && d->id <= id)
        return d->id == id;
    if (d->votes == NULL && (d->votes = calloc(c->config.ranks, sizeof *d->votes)) == NULL) {
        group_fail_with(c, c->config.rank, PS_ERR_NOMEM, "no memory to find who started another operation");
        return false;
    }
    memset(d->votes, 0, c->config.ranks * sizeof *d->votes);
    d->due_ms = d->active ? d->due_ms : c->now_ms + GROUP_VOTE_MS;
    d->active = true;
    d->voted = false;
    d->id = id;
    return true;
}

void
group_vote_received(struct group_core *c, struct group_peer *p, uint64_t id, const struct group_signature *theirs)
{
    if (!open_dispute(c, id))
        return;
    c->dispute.votes[p->rank] = (struct group_vote){true, *theirs};
    group_vote_send(c);
    if (!c->failed)
        group_vote_decide(c, false);
}

void
group_vote_mismatch(struct group_core *c, struct group_peer *p, uint64_t id, const struct group_signature *theirs)
{
    const struct group_signature *ours;
    uint32_t own = c->config.rank;
    char text[GROUP_ABORT_TEXT_MAX + 1];

    if (group_id_lane(id) == GROUP_LANE_ALL) {
        group_vote_received(c, p, id, theirs);
        return;
    }
    ours = &group_find(c, id, p->rank)->signature;
    if (group_id_lane(id) == GROUP_LANE_SEND)
        group_vote_pair_text(own, ours, p->rank, theirs, id, text, sizeof text);
    else
        group_vote_pair_text(p->rank, theirs, own, ours, id, text, sizeof text);
    group_fail_with(c, GROUP_ABORT_SEVERAL, PS_ERR_MISMATCH, "%s", text);
}

void
group_vote_started(struct group_core *c, uint64_t id)
{
    if (c->dispute.id != id)
        return;
    group_vote_send(c);
    if (!c->failed)
        group_vote_decide(c, false);
}

void
group_vote_time(struct group_core *c)
{
    group_vote_decide(c, true);
    if (!c->failed)
        c->dispute.due_ms = UINT64_MAX; /* nobody differs, as far as is known: the operation's deadline ends it */
}
