/* How requests end: answered, given up, or put back because their connection was lost; and how the core's own begin. */
#include "client/core/shards/residual.h"
#include "client/core/shards/shard_link.h"

struct request *
request_new_own(struct core *c, enum request_kind kind)
{
    struct request *p = request_pool_get(&c->pools);

    if (p != NULL)
        p->kind = kind;
    return p;
}

static void
part_detach_send(struct request *p)
{
    if (p->send == NULL)
        return;
    p->send->part = NULL;
    p->send->encoding =
        p->encoding; /* a shard that acknowledges before all has come ends the request while its bytes are read */
    p->encoding = (struct encoding){0};
    p->send = NULL;
}

void
request_end(struct core *c, struct shard_link *l, struct request *p)
{
    part_detach_send(p);
    request_ids_remove(&l->requests, p);
    if (l->reading == p)
        l->reading = NULL;
    if (l->gate == p)
        l->gate = NULL;
    if (request_sequenced(p) && send_window_find(&l->window, p->seq) == p)
        p->counts || p->was_counted ? send_window_ack_push(&l->window, p->seq) : send_window_ack(&l->window, p->seq);
    if (p->kind == REQUEST_PULL) {
        l->pulling--;
        l->pulling_bytes -= p->bytes;
    }
    if (p->kind == REQUEST_STAGE)
        l->staging_bytes -= p->bytes;
    if (request_is_part(p)) {
        if (l->to_send == p)
            l->to_send = p->next;
        request_list_remove(&l->parts, p);
    } else {
        if (l->to_ask == p)
            l->to_ask = p->next;
        request_list_remove(&l->control, p);
    }
    request_pool_put(&c->pools, p);
}

/* Take a request back that the shard holds. */
static void
part_post_cancel(struct core *c, struct shard_link *l, const struct request *p)
{
    Psd__Cancel cancel = PSD__CANCEL__INIT;

    cancel.request = p->request;
    shard_link_post(c, l, MSG_CANCEL, REQUEST_ID_UNANSWERED, &cancel.base);
}

/* The payload that is being read is this request's: from now on it goes nowhere. */
static void
part_stop_reading(struct core *c, struct shard_link *l, const struct request *p)
{
    if (l->reading != p)
        return;
    l->reading = NULL;
    l->do_discard = true;
    core_emit(c, l);
}

static bool
part_give_up_sequenced(struct core *c, struct shard_link *l, struct request *p)
{
    bool known = p->was_sent && !(MUTATION(SENT_IS_CANCELLED) && p->state == REQUEST_WAITING);
    enum request_kind kind = p->kind;

    if (!p->was_sent)
        residual_undo(l, p);
    p->kind = REQUEST_SKIP;
    p->gated = false;
    p->op = NULL;
    p->lane = NULL;
    p->given_up = true;
    part_stop_reading(c, l, p);
    if (kind == REQUEST_BARRIER && p->state != REQUEST_WAITING)
        part_post_cancel(c, l, p);
    /* Its bytes may be half way into the socket and cannot be taken back: only a new connection frees the buffer. */
    if (kind == REQUEST_PUSH && p->state == REQUEST_HANDED_OUT)
        l->reset_wanted = true;
    return known;
}

bool
request_give_up(struct core *c, struct shard_link *l, struct request *p)
{
    enum request_kind kind = p->kind;
    bool known;

    if (request_sequenced(p))
        return part_give_up_sequenced(c, l, p);
    if (p->state == REQUEST_WAITING) {
        known = p->was_sent && kind == REQUEST_ASSIGN;
        request_end(c, l, p);
        return known;
    }
    if (p->kind == REQUEST_STAGE && p->state == REQUEST_HANDED_OUT) /* as of a push */
        l->reset_wanted = true;
    p->op = NULL;
    p->lane = NULL;
    p->given_up = true;
    if (p->kind == REQUEST_PULL)
        part_stop_reading(c, l, p);
    if (kind == REQUEST_PULL || kind == REQUEST_OTHER || kind == REQUEST_ASSIGN)
        part_post_cancel(c, l, p);
    return kind == REQUEST_ASSIGN;
}
