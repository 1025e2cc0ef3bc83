/* How parts end: answered, given up, or put back because their connection was lost; and how the core's own begin. */
#include "client/core/shards/link.h"
#include "client/core/shards/residual.h"

struct part *
part_own(struct core *c, enum part_kind kind)
{
    struct part *p = pool_part(&c->pools);

    if (p != NULL)
        p->kind = kind;
    return p;
}

static void
part_detach_send(struct part *p)
{
    if (p->send == NULL)
        return;
    p->send->part = NULL;
    p->send->encoding = p->encoding; /* who acknowledges before all has come ends the part while its bytes are read */
    p->encoding = (struct encoding){0};
    p->send = NULL;
}

void
part_end(struct core *c, struct link *l, struct part *p)
{
    part_detach_send(p);
    requests_remove(&l->requests, p);
    if (l->reading == p)
        l->reading = NULL;
    if (l->gate == p)
        l->gate = NULL;
    if (part_sequenced(p) && window_find(&l->window, p->seq) == p)
        p->counts || p->was_counted ? window_ack_push(&l->window, p->seq) : window_ack(&l->window, p->seq);
    if (p->kind == PART_PULL) {
        l->pulling--;
        l->pulling_bytes -= p->bytes;
    }
    if (p->kind == PART_PULL || part_sequenced(p)) {
        if (l->to_send == p)
            l->to_send = p->next;
        parts_remove(&l->parts, p);
    } else {
        if (l->to_ask == p)
            l->to_ask = p->next;
        parts_remove(&l->control, p);
    }
    pool_part_put(&c->pools, p);
}

/* Take a request back that the shard holds. */
static void
part_post_cancel(struct core *c, struct link *l, const struct part *p)
{
    Psd__Cancel cancel = PSD__CANCEL__INIT;

    cancel.request = p->request;
    link_post(c, l, MSG_CANCEL, REQUEST_UNANSWERED, &cancel.base);
}

/* The payload that is being read is this part's: from now on it goes nowhere. */
static void
part_stop_reading(struct core *c, struct link *l, const struct part *p)
{
    if (l->reading != p)
        return;
    l->reading = NULL;
    l->do_discard = true;
    core_emit(c, l);
}

static bool
part_give_up_sequenced(struct core *c, struct link *l, struct part *p)
{
    bool known = p->was_sent && !(MUTATION(SENT_IS_CANCELLED) && p->state == PART_HELD);
    enum part_kind kind = p->kind;

    if (!p->was_sent)
        residual_undo(l, p);
    p->kind = PART_SKIP;
    p->gated = false;
    p->op = NULL;
    p->lane = NULL;
    p->given_up = true;
    part_stop_reading(c, l, p);
    if (kind == PART_BARRIER && p->state != PART_HELD)
        part_post_cancel(c, l, p);
    /* Its bytes may be half way into the socket and cannot be taken back: only a new connection frees the buffer. */
    if (kind == PART_PUSH && p->state == PART_HANDED)
        l->reset_wanted = true;
    return known;
}

bool
part_give_up(struct core *c, struct link *l, struct part *p)
{
    if (part_sequenced(p))
        return part_give_up_sequenced(c, l, p);
    if (p->state == PART_HELD) {
        part_end(c, l, p);
        return false;
    }
    p->op = NULL;
    p->lane = NULL;
    p->given_up = true;
    if (p->kind == PART_PULL)
        part_stop_reading(c, l, p);
    if (p->kind == PART_PULL || p->kind == PART_ASK)
        part_post_cancel(c, l, p);
    return false;
}
