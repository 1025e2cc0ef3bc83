/* Frames out: made, queued, handed out as actions, and given back by the link that had them. */
#include <stdlib.h>

#include "client/core/group/group_internal.h"
#include "common/core/base/mutation.h"

struct group_send *
group_send_new(struct group_core *c, uint32_t to)
{
    struct group_send *s = c->free_sends;

    if (s != NULL)
        c->free_sends = s->next;
    else
        s = malloc(round_up(sizeof *s, 16) + c->config.send_room);
    if (s == NULL) {
        group_fail_with(c, c->config.rank, PS_ERR_NOMEM, "no memory to send");
        return NULL;
    }
    s->to = to;
    s->head = s->room;
    s->head_len = 0;
    s->parts_len = 0;
    s->work = NULL;
    s->step = PLAN_NONE;
    s->bytes = 0;
    s->next = NULL;
    s->own = false;
    return s;
}

void
group_send_queue(struct group_core *c, struct group_send *s)
{
    s->next = NULL;
    *c->queue_end = s;
    c->queue_end = &s->next;
}

static void
send_free(struct group_core *c, struct group_send *s)
{
    if (s->own)
        return;
    s->next = c->free_sends;
    c->free_sends = s;
}

void
group_sends_drop(struct group_core *c)
{
    struct group_send *s;

    while ((s = c->queue) != NULL) {
        c->queue = s->next;
        if (s->work != NULL) {
            s->work->outs--;
            c->peers[s->to].queued -= s->bytes;
        }
        send_free(c, s);
    }
    c->queue_end = &c->queue;
}

bool
group_core_next_action(struct group_core *c, struct group_action *out)
{
    struct group_send *s = c->queue;

    if (c->cut) {
        c->cut = false;
        *out = (struct group_action){.kind = GROUP_CUT};
        return true;
    }
    if (s == NULL)
        return false;
    c->queue = s->next;
    if (c->queue == NULL)
        c->queue_end = &c->queue;
    *out = (struct group_action){.kind = GROUP_SEND, .send = s};
    if (MUTATION(GROUP_TAKEN_IS_SENT) && s->work != NULL)
        group_work_sent(c, s->work, s);
    return true;
}

void
group_core_sent(struct group_core *c, struct group_send *s, enum ps_err result)
{
    struct group_peer *p = &c->peers[s->to];
    struct group_work *w = s->work;

    if (s->own)
        return;
    if (w != NULL) {
        p->queued -= s->bytes;
        w->outs--;
        if (result == PS_OK && !MUTATION(GROUP_TAKEN_IS_SENT))
            group_work_sent(c, w, s);
        else if (!w->done && p->bye) /* else its link says why it ended */
            group_fail_with(c, p->rank, PS_ERR_CLOSED, "it closed its group before it had taken all of an operation");
        group_work_settle(c, w);
    }
    send_free(c, s);
    if (p->stalled && !c->failed && p->queued < GROUP_QUEUED_MAX)
        group_peer_unstall(c, p);
}

void
group_sends_free(struct group_core *c)
{
    struct group_send *s;

    while ((s = c->queue) != NULL) {
        c->queue = s->next;
        send_free(c, s);
    }
    while ((s = c->free_sends) != NULL) {
        c->free_sends = s->next;
        free(s);
    }
}
