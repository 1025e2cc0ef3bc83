/* The end of an epoch: which rank is guilty, and how all are notified. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/group/group_internal.h"
#include "common/core/base/mutation.h"

#define PING_ROUNDS 2 /* within one operation's time-out: at 1/2 and 3/4 of it */

/* ---- Failing ---- */

/* The last frame to every rank: there for each of them in any case. */
static void
queue_final_frames(struct group_core *c)
{
    for (uint32_t r = 0; r < c->config.ranks; r++) {
        struct group_send *s = c->peers[r].final_frame;

        if (r == c->config.rank || c->peers[r].bye)
            continue;
        s->head = c->final_frame;
        s->head_len = c->final_frame_len;
        group_send_queue(c, s);
    }
}

static void
end_all(struct group_core *c, enum ps_err result)
{
    struct group_work *w, *next;

    while (c->running != NULL)
        group_work_end(c, c->running, result);
    for (w = c->ended; w != NULL; w = next) { /* works that were only kept for the peers' sake */
        next = w->next;
        group_work_settle(c, w);
    }
}

void
group_fail(struct group_core *c, uint32_t guilty, const struct ps_error *e)
{
    if (c->failed || c->leaving)
        return;
    c->failed = true;
    c->guilty = guilty;
    c->error = *e;
    snprintf(c->error.peer, sizeof c->error.peer, "%s", guilty < c->config.ranks ? c->config.names[guilty] : "");
    c->final_frame_len = group_abort_encode(e->code, guilty, e->text, c->final_frame);
    c->dispute.active = false;
    group_sends_drop(c);
    for (uint32_t r = 0; r < c->config.ranks; r++)
        group_early_clear(&c->peers[r].early);
    c->cut = !MUTATION(GROUP_NOT_CUT);
    c->changes++;
    end_all(c, MUTATION(GROUP_ENDS_WELL) ? PS_OK : e->code);
    queue_final_frames(c);
}

void
group_core_blame(struct group_core *c, uint32_t guilty, const struct ps_error *e)
{
    group_fail(c, guilty, e);
}

void
group_core_goodbye(struct group_core *c)
{
    if (c->leaving)
        return;
    c->leaving = true;
    if (c->failed)
        return; /* they know */
    if (c->running != NULL) {
        group_sends_drop(c);
        c->cut = true;
        end_all(c, PS_ERR_CANCELLED);
    }
    group_bye_encode(c->final_frame);
    c->final_frame_len = FRAME_HEAD_SIZE;
    queue_final_frames(c);
}

/* ---- Others' reports of the end ---- */

void
group_abort_received(struct group_core *c, struct group_peer *p, const struct frame_head *head, const void *meta)
{
    char text[GROUP_ABORT_TEXT_MAX + 1];
    struct ps_error e;
    enum ps_err code;
    uint32_t guilty;

    if (group_abort_decode(head, meta, &code, &guilty, text, &e) != PS_OK) {
        group_fail(c, p->rank, &e);
    } else if (guilty >= c->config.ranks && guilty != GROUP_ABORT_SEVERAL) {
        group_fail_with(c, p->rank, PS_ERR_PROTOCOL, "it blames rank %u of %u", guilty, c->config.ranks);
    } else {
        guilty = MUTATION(GROUP_TELLER_GUILTY) ? p->rank : guilty;
        group_fail_with(c, guilty, code, "%s", text);
    }
}

/* Does this work lack anything of p, or has p yet to take something? */
static bool
waits_for(const struct group_work *w, const struct group_peer *p)
{
    uint32_t k = w->schedule->peer_of[p->rank];
    const struct plan_peer *ap;

    if (k == PLAN_NO_PEER)
        return false;
    ap = &w->schedule->peers[k];
    return !w->sides[k].peer_announced || w->sides[k].received + w->sides[k].kept.len < ap->receives ||
           w->sides[k].sent < ap->sends;
}

static const char *
work_text(const struct group_work *w, char *out, size_t size)
{
    char what[160], cut[64];

    group_signature_text(&w->signature, what, sizeof what);
    group_signature_cut_text(&w->signature, cut, sizeof cut);
    snprintf(out, size, "%s %llu (%s%s%s)", w->signature.op == GROUP_OP_PAIR ? "message" : "operation",
             (unsigned long long)(w->id & GROUP_NUMBER_MAX), what, cut[0] != '\0' ? ", " : "", cut);
    return out;
}

/* A rank that has closed sends nothing more, and all that it sent before is here. */
static void
check_bye(struct group_core *c, const struct group_work *w, const struct group_peer *p)
{
    char what[280];

    if (!w->done && waits_for(w, p))
        group_fail_with(c, p->rank, PS_ERR_CLOSED, "it closed its group, and %s waits for it",
                        work_text(w, what, sizeof what));
}

void
group_check_byes(struct group_core *c, const struct group_work *w)
{
    for (uint32_t r = 0; r < c->config.ranks && !c->failed; r++)
        if (c->peers[r].bye)
            check_bye(c, w, &c->peers[r]);
}

void
group_bye_received(struct group_core *c, struct group_peer *p)
{
    p->bye = true;
    c->byes++;
    for (struct group_work *w = c->running; w != NULL && !c->failed; w = w->next)
        check_bye(c, w, p);
}

void
group_core_ended(struct group_core *c, uint32_t from, const struct ps_error *why, uint64_t now_ms)
{
    struct group_peer *p = &c->peers[from];
    enum ps_err code = why->code == PS_ERR_TIMEOUT || why->code == PS_ERR_PROTOCOL || why->code == PS_ERR_VERSION
                           ? why->code
                           : PS_ERR_CLOSED;

    c->now_ms = now_ms;
    if (p->bye || c->failed)
        return;
    if (why->code == PS_ERR_NOMEM)
        group_fail_with(c, c->config.rank, PS_ERR_NOMEM, "no memory for what rank %u sent", from);
    else
        group_fail_with(c, from, code, "%s", why->text[0] != '\0' ? why->text : "its connection ended");
}

/* ---- Deadlines ---- */

static void
ping_all(struct group_core *c)
{
    c->ping_round++;
    for (uint32_t r = 0; r < c->config.ranks && !c->failed; r++) {
        struct group_send *s;

        if (r == c->config.rank || c->peers[r].bye || (s = group_send_new(c, r)) == NULL)
            continue;
        group_ping_encode(c->ping_round, s->room);
        s->head_len = FRAME_HEAD_SIZE;
        group_send_queue(c, s);
    }
}

void
group_pong_received(struct group_core *c, struct group_peer *p, const struct frame_head *head, const void *meta)
{
    struct ps_error e;
    uint64_t started;

    if (group_pong_decode(head, meta, &started, &e) != PS_OK) {
        group_fail(c, p->rank, &e);
        return;
    }
    if (head->request > c->ping_round || head->request < p->ponged || MUTATION(GROUP_PONG_DEAF))
        return;
    p->ponged = (uint32_t)head->request;
    p->started = started;
}

/* The rank that keeps this work from ending; see group_core.h. */
static uint32_t
guilty_of(const struct group_core *c, const struct group_work *w)
{
    bool pair = group_id_lane(w->id) != GROUP_LANE_ALL;
    uint32_t silent = c->config.rank, behind = c->config.rank, waited = c->config.rank;

    for (uint32_t r = 0; r < c->config.ranks; r++) {
        const struct group_peer *p = &c->peers[r];

        if (r == c->config.rank || p->bye)
            continue;
        if (p->ponged < c->ping_round && (silent == c->config.rank || p->ponged < c->peers[silent].ponged) &&
            (!pair || waits_for(w, p)))
            silent = r;
        if (behind == c->config.rank && !pair && p->ponged == c->ping_round && p->started <= w->id)
            behind = r;
        if (waited == c->config.rank && waits_for(w, p))
            waited = r;
    }
    if (silent != c->config.rank)
        return silent;
    if (behind != c->config.rank)
        return behind;
    if (waited == c->config.rank) /* only the links still have something of it */
        for (uint32_t k = 0; k < w->schedule->peers_len; k++)
            if (c->peers[w->schedule->peers[k].rank].queued > 0)
                return w->schedule->peers[k].rank;
    return waited;
}

static void
time_out(struct group_core *c, struct group_work *w)
{
    char what[280];
    uint32_t guilty = guilty_of(c, w);

    group_fail_with(c, guilty, PS_ERR_TIMEOUT, "waited %llu ms for rank %u in %s",
                    (unsigned long long)(c->now_ms - w->start_ms), guilty, work_text(w, what, sizeof what));
}

/* When the next ping of this work is due; round: 0 or 1. */
static uint64_t
ping_ms(const struct group_core *c, const struct group_work *w, uint32_t round)
{
    uint64_t timeout = c->config.timeout_ms;

    return w->deadline_ms - (round == 0 ? timeout / 2 : timeout / 4);
}

/* The time-out is the same for all, so the one that was started first is due first. A rank that did not drive its
 * network may find it overdue: that was its own doing, and the others get a quarter of a time-out to answer. */
void
group_core_time(struct group_core *c, uint64_t now_ms)
{
    struct group_work *w = c->running;

    c->now_ms = now_ms;
    if (c->failed || c->leaving)
        return;
    if (c->dispute.active && now_ms >= c->dispute.due_ms)
        group_vote_time(c);
    if (c->failed || w == NULL)
        return;
    if (w->pings < PING_ROUNDS && now_ms >= ping_ms(c, w, w->pings)) {
        w->deadline_ms = MAX(w->deadline_ms, now_ms + c->config.timeout_ms / 4);
        while (w->pings < PING_ROUNDS && now_ms >= ping_ms(c, w, w->pings))
            w->pings++;
        ping_all(c);
    } else if (now_ms >= w->deadline_ms && !MUTATION(GROUP_NEVER_LATE)) {
        time_out(c, w);
    }
}

uint64_t
group_core_next_time(const struct group_core *c)
{
    const struct group_work *w = c->running;
    uint64_t next = UINT64_MAX;

    if (c->failed || c->leaving)
        return UINT64_MAX;
    if (w != NULL)
        next = w->pings < PING_ROUNDS ? ping_ms(c, w, w->pings) : w->deadline_ms;
    return c->dispute.active ? MIN(next, c->dispute.due_ms) : next;
}
