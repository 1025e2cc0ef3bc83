/* What a work sends to one of its peers: that it was started, which messages can be taken, and the messages. */
#include "client/core/group/group_internal.h"

/* The message of this step, in s, whose head is written. */
static void
fill_message(struct group_work *w, struct group_peer *p, struct group_send *s, uint32_t step)
{
    static const uint8_t zeros[4];
    const struct plan_step *ps = &w->schedule->plan.step[step];
    uint64_t bytes = group_step_bytes(w, step);

    s->work = w;
    s->step = step;
    s->bytes = bytes;
    if (bytes > 0)
        s->parts[s->parts_len++] = (struct span){group_buffer_at(w, ps->buffer, ps->offset), bytes};
    if (bytes % 4 != 0)
        s->parts[s->parts_len++] = (struct span){zeros, 4 - bytes % 4};
    w->outs++;
    p->queued += bytes;
}

/* May the next message to this peer go? */
static bool
may_send(const struct group_work *w, uint32_t k, struct group_peer *p)
{
    const struct plan_peer *ap = &w->schedule->peers[k];
    const struct group_side *side = &w->sides[k];
    uint64_t bytes;

    if (side->sent == ap->sends || w->needs[ap->send[side->sent]] > 0)
        return false;
    bytes = group_step_bytes(w, ap->send[side->sent]);
    if (side->sent >= side->asked && bytes > GROUP_EAGER_MAX)
        return false;
    if (p->queued >= GROUP_QUEUED_MAX ||
        (side->sent >= side->asked && p->ahead + group_message_cost(bytes) > GROUP_AHEAD_BYTES)) {
        p->stalled = true;
        return false;
    }
    return true;
}

static uint32_t
next_message(struct group_work *w, uint32_t k, struct group_peer *p)
{
    struct group_side *side = &w->sides[k];
    uint32_t step = w->schedule->peers[k].send[side->sent];

    if (side->sent >= side->asked)
        p->ahead += group_message_cost(group_step_bytes(w, step));
    side->sent++;
    return step;
}

/* A small first message that cannot go yet brings the announcement with it: two frames for one would cost the most
 * where little is sent. Not where the peer has something that can be taken now: it may wait for that. Then it waits for
 * nothing of this rank's but that message. */
static bool
has_first_message(const struct group_work *w, uint32_t k)
{
    const struct plan_peer *ap = &w->schedule->peers[k];
    uint64_t bytes;

    if (w->sides[k].ready > 0 || ap->sends == 0 || w->needs[ap->send[0]] == 0)
        return false;
    bytes = group_step_bytes(w, ap->send[0]);
    return bytes > 0 && bytes <= GROUP_EAGER_MAX;
}

/* GROUP_WORK, with the first message in it if that is a small one that may go. False: not now. */
static bool
group_out_announce(struct group_core *c, struct group_work *w, uint32_t k, struct group_peer *p)
{
    struct group_side *side = &w->sides[k];
    uint64_t bytes = 0;
    struct group_send *s;
    bool with;

    if (!side->peer_announced && p->unmatched >= GROUP_AHEAD_WORKS) {
        p->stalled = true;
        return false;
    }
    if ((s = group_send_new(c, p->rank)) == NULL)
        return false;
    with = may_send(w, k, p) && (bytes = group_step_bytes(w, w->schedule->peers[k].send[0])) > 0 &&
           bytes <= GROUP_EAGER_MAX;
    group_work_encode(w->id, &w->signature, side->ready, with ? round_up(bytes, 4) : 0, s->room);
    s->head_len = FRAME_HEAD_SIZE + GROUP_WORK_SIZE;
    if (with)
        fill_message(w, p, s, next_message(w, k, p));
    group_send_queue(c, s);
    side->announced = true;
    side->ready_sent = side->ready;
    p->unmatched += !side->peer_announced;
    return true;
}

static void
send_messages(struct group_core *c, struct group_work *w, uint32_t k, struct group_peer *p)
{
    struct group_send *s;

    while (may_send(w, k, p)) {
        uint32_t step;

        if ((s = group_send_new(c, p->rank)) == NULL)
            return;
        step = next_message(w, k, p);
        group_data_encode(w->id, round_up(group_step_bytes(w, step), 4), s->room);
        s->head_len = FRAME_HEAD_SIZE;
        fill_message(w, p, s, step);
        group_send_queue(c, s);
    }
}

/* Say which messages can be taken, early enough that the peer need not wait for it, and not for each of them. */
static void
send_ready(struct group_core *c, struct group_work *w, uint32_t k, struct group_peer *p)
{
    struct group_side *side = &w->sides[k];
    struct group_send *s;

    if (side->ready == side->ready_sent ||
        (side->ready < w->schedule->peers[k].receives && side->ready_sent > side->received + GROUP_READY_LOW))
        return;
    if ((s = group_send_new(c, p->rank)) == NULL)
        return;
    group_ready_encode(w->id, side->ready, s->room);
    s->head_len = FRAME_HEAD_SIZE + GROUP_READY_SIZE;
    side->ready_sent = side->ready;
    group_send_queue(c, s);
}

void
group_work_flush_peer(struct group_core *c, struct group_work *w, uint32_t k, struct group_peer *p)
{
    if (!w->sides[k].announced && (has_first_message(w, k) || !group_out_announce(c, w, k, p)))
        return;
    if (w->done)
        return;
    send_ready(c, w, k, p);
    if (!w->done)
        send_messages(c, w, k, p);
}
