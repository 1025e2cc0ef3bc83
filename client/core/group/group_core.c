/* A group's core: its life, starting an operation, what comes in and what goes out. group_internal.h lists the modules.
 */
#include "client/core/group/group_core.h"

#include <stdlib.h>
#include <string.h>

#include "client/core/group/group_internal.h"
#include "common/core/base/mutation.h"

/* ---- Starting ---- */

static void
work_number(struct group_core *c, struct group_work *w, const struct group_request *ask)
{
    struct group_peer *p = &c->peers[ask->root];

    switch (ask->op) {
    case PLAN_KEY_SEND:
        w->id = group_id(GROUP_LANE_SEND, p->sends++);
        return;
    case PLAN_KEY_RECEIVE:
        w->id = group_id(GROUP_LANE_RECEIVE, p->receives++);
        return;
    default:
        w->id = group_id(GROUP_LANE_ALL, c->started);
        c->history[c->started++ % GROUP_HISTORY] = w->signature;
    }
}

/* By which key a schedule is found for it, and whether its buffers are one. */
static struct plan_key
work_key(const struct group_core *c, const struct group_request *ask, bool in_place)
{
    bool parts = group_mean_has_parts(c, ask);
    struct plan_key key = {.count = ask->count,
                           .segment_bytes = c->config.segment_bytes,
                           .root = ask->root,
                           .op = ask->op,
                           .size = (uint8_t)(ps_dtype_size(ask->dtype) * (parts ? 2 : 1)),
                           .algorithm = (uint8_t)c->config.algorithm};

    if (in_place || parts)
        key.flags |= PLAN_KEY_IN_PLACE;
    if (ask->reduce == PS_MEAN && !parts && !reduce_mean_is_kept(ask->dtype, c->config.ranks))
        key.flags |= PLAN_KEY_MEAN;
    if (ask->op == PLAN_KEY_MERGE)
        key.segment_bytes = ask->piece * key.size;
    return key;
}

/* A work by this schedule, which it has a reference to, with the caller's buffers. NULL: no memory. */
static struct group_work *
work_make(struct group_core *c, const struct group_request *ask, struct plan_schedule *a)
{
    struct group_work *w = group_work_new(c, a);

    if (w == NULL) {
        plan_schedule_put(&c->schedules, a);
        return NULL;
    }
    w->signature = group_request_signature(ask, &a->plan);
    w->buffer[PLAN_IN] = (uint8_t *)ask->in;
    w->buffer[PLAN_OUT] = ask->out;
    w->dtype = ask->dtype;
    w->reduce = ask->reduce;
    w->merge = ask->merge;
    w->merge_arg = ask->merge_arg;
    w->size = a->key.size;
    w->lanes = w->size / (uint32_t)ps_dtype_size(ask->dtype);
    w->start_ms = c->now_ms;
    w->deadline_ms = c->now_ms + c->config.timeout_ms;
    if (!group_mean_has_parts(c, ask) || group_mean_begin(w, ask))
        return w;
    group_work_drop(c, w);
    return NULL;
}

enum ps_err
group_core_start(struct group_core *c, const struct group_request *ask, uint64_t now_ms, struct group_work **out,
                 struct ps_error *e)
{
    struct plan_schedule *a;
    struct group_work *w;
    struct plan_key key;
    bool in_place;
    enum ps_err err;

    *out = NULL;
    c->now_ms = now_ms;
    if ((err = group_core_state(c, e)) != PS_OK ||
        (err = group_request_check(ask, c->config.ranks, c->config.rank, &in_place, e)) != PS_OK)
        return err;
    if (c->leaving)
        return ps_fail(e, PS_ERR_CANCELLED, "the group is being closed");
    if (c->works >= PS_GROUP_WORKS_MAX)
        return ps_fail(e, PS_ERR_LIMIT, "%u operations of the group are in flight; that is the most", c->works);
    key = work_key(c, ask, in_place);
    if ((err = plan_schedule_get(&c->schedules, &key, &a, e)) != PS_OK)
        return err;
    if ((w = work_make(c, ask, a)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for an operation");
    work_number(c, w, ask);
    group_work_link(c, w);
    if (c->dispute.active && group_id_lane(w->id) == GROUP_LANE_ALL)
        group_vote_started(c, w->id);
    if (!w->done)
        group_work_begin(c, w);
    if (c->byes > 0)
        group_check_byes(c, w);
    *out = w;
    return PS_OK;
}

/* ---- Frames in ---- */

void
group_core_payload_dest(struct group_core *c, uint32_t from, const struct frame_head *head,
                        const struct frame_part **parts, size_t *n)
{
    struct group_peer *p = &c->peers[from];
    const struct plan_step *s;
    struct group_side *side;
    struct group_work *w;
    uint64_t bytes;
    uint32_t k;

    *n = 0;
    if (head->payload_len <= GROUP_EAGER_MAX || head->type != MSG_GROUP_DATA || c->failed)
        return;
    w = group_find(c, group_id_mirror(head->request), from);
    if (w == NULL || w->done || w->disputed || (k = w->schedule->peer_of[from]) == PLAN_NO_PEER)
        return;
    side = &w->sides[k];
    if (side->kept.first != NULL || side->received >= side->ready)
        return;
    s = &w->schedule->plan.step[w->schedule->peers[k].receive[side->received]];
    bytes = (uint64_t)s->len * w->size;
    if (s->kind != PLAN_RECEIVE || round_up(bytes, 4) != head->payload_len)
        return;
    p->place[0] = (struct frame_part){w->buffer[s->buffer] + s->offset * w->size, bytes};
    p->place[1] = (struct frame_part){p->sink, (size_t)(head->payload_len - bytes)};
    *parts = p->place;
    *n = p->place[1].len > 0 ? 2 : 1;
}

static void
early_new(struct group_core *c, struct group_peer *p, uint64_t id, const struct group_signature *s, uint32_t ready,
          const struct frame_head *head, const void *payload)
{
    struct group_early *early;

    if (p->early.len >= GROUP_AHEAD_WORKS) {
        group_fail_with(c, p->rank, PS_ERR_PROTOCOL, "it is more than %d operations ahead", GROUP_AHEAD_WORKS);
        return;
    }
    if ((early = group_early_add(&p->early, id, s, ready)) == NULL) {
        group_fail_with(c, c->config.rank, PS_ERR_NOMEM, "no memory for an operation that another rank has started");
        return;
    }
    if (head->payload_len > 0 && !MUTATION(GROUP_EARLY_LOST))
        group_keep_message(c, p, &early->kept, head->payload_len, payload);
}

/* Was this started here before? Then it is over, and no rank takes part in it that has not announced it. */
static bool
was_started(const struct group_core *c, const struct group_peer *p, uint64_t id)
{
    uint64_t number = id & GROUP_NUMBER_MAX;

    switch (group_id_lane(id)) {
    case GROUP_LANE_ALL:
        return number < c->started;
    case GROUP_LANE_SEND:
        return number < p->sends;
    default:
        return number < p->receives;
    }
}

static void
work_received(struct group_core *c, struct group_peer *p, const struct frame_head *head, const void *meta,
              const void *payload)
{
    uint64_t id = group_id_mirror(head->request);
    struct group_work *w = group_find(c, id, p->rank);
    const struct group_signature *own;
    struct group_signature s;
    struct ps_error e;
    uint32_t ready;

    if (group_work_decode(head, meta, &s, &ready, &e) != PS_OK) {
        group_fail(c, p->rank, &e);
        return;
    }
    if (w == NULL && was_started(c, p, id)) {
        own = group_own_signature(c, id);
        if (own != NULL && !group_signature_equal(own, &s))
            group_vote_mismatch(c, p, id, &s);
        else
            group_fail_with(c, p->rank, PS_ERR_PROTOCOL, "it announced an operation that is over");
        return;
    }
    if (w == NULL && group_early_find(&p->early, id) != NULL) {
        group_fail_with(c, p->rank, PS_ERR_PROTOCOL, "it announced an operation twice");
        return;
    }
    if (w == NULL) {
        early_new(c, p, id, &s, ready, head, payload);
        return;
    }
    group_work_announced(c, w, p, &s, ready);
    if (head->payload_len > 0 && !c->failed && !w->disputed)
        group_work_message(c, w, p, head->payload_len, payload);
    if (!c->failed)
        group_work_wake(c, w, p);
    if (!c->failed && p->stalled)
        group_peer_unstall(c, p);
    if (!c->failed) /* else it may be gone */
        group_work_settle(c, w);
}

static void
data_received(struct group_core *c, struct group_peer *p, const struct frame_head *head, const void *payload)
{
    uint64_t id = group_id_mirror(head->request);
    struct group_work *w = group_find(c, id, p->rank);
    struct group_early *early;

    if (head->meta_len > 0)
        group_fail_with(c, p->rank, PS_ERR_PROTOCOL, "a GROUP_DATA with metadata");
    else if (w != NULL)
        group_work_message(c, w, p, head->payload_len, payload);
    else if ((early = group_early_find(&p->early, id)) != NULL)
        group_keep_message(c, p, &early->kept, head->payload_len, payload);
    else
        group_fail_with(c, p->rank, PS_ERR_PROTOCOL, "a message of an operation that is not there");
}

static void
ready_received(struct group_core *c, struct group_peer *p, const struct frame_head *head, const void *meta)
{
    uint64_t id = group_id_mirror(head->request);
    struct group_work *w = group_find(c, id, p->rank);
    struct group_early *early;
    struct ps_error e;
    uint32_t ready;

    if (group_ready_decode(head, meta, &ready, &e) != PS_OK) {
        group_fail(c, p->rank, &e);
    } else if (w != NULL) {
        group_work_ready_received(c, w, p, ready);
        if (!c->failed && p->stalled)
            group_peer_unstall(c, p);
        if (!c->failed) /* else it may be gone */
            group_work_settle(c, w);
    } else if ((early = group_early_find(&p->early, id)) != NULL) {
        early->ready = MAX(early->ready, ready);
    } else {
        group_fail_with(c, p->rank, PS_ERR_PROTOCOL, "it asked for messages of an operation that is not there");
    }
}

static void
vote_received(struct group_core *c, struct group_peer *p, const struct frame_head *head, const void *meta)
{
    struct group_signature s;
    struct ps_error e;
    uint32_t ready;

    if (head->payload_len > 0 || group_id_lane(head->request) != GROUP_LANE_ALL)
        group_fail_with(c, p->rank, PS_ERR_PROTOCOL, "a GROUP_VOTE that makes no sense");
    else if (group_work_decode(head, meta, &s, &ready, &e) != PS_OK)
        group_fail(c, p->rank, &e);
    else
        group_vote_received(c, p, head->request, &s);
}

static void
ping_received(struct group_core *c, struct group_peer *p, const struct frame_head *head)
{
    struct group_send *s = group_send_new(c, p->rank);

    if (s == NULL)
        return;
    group_pong_encode(head->request, c->started, s->room);
    s->head_len = FRAME_HEAD_SIZE + GROUP_PONG_SIZE;
    group_send_queue(c, s);
}

void
group_core_frame(struct group_core *c, uint32_t from, const struct frame_head *head, const void *meta,
                 const void *payload, uint64_t now_ms)
{
    struct group_peer *p = &c->peers[from];

    c->now_ms = now_ms;
    if (c->failed || c->leaving)
        return;
    if (p->bye) {
        group_fail_with(c, from, PS_ERR_PROTOCOL, "it went on after its goodbye");
        return;
    }
    switch (head->type) {
    case MSG_GROUP_WORK:
        work_received(c, p, head, meta, payload);
        return;
    case MSG_GROUP_DATA:
        data_received(c, p, head, payload);
        return;
    case MSG_GROUP_READY:
        ready_received(c, p, head, meta);
        return;
    case MSG_GROUP_VOTE:
        vote_received(c, p, head, meta);
        return;
    case MSG_GROUP_PING:
        ping_received(c, p, head);
        return;
    case MSG_GROUP_PONG:
        group_pong_received(c, p, head, meta);
        return;
    case MSG_GROUP_ABORT:
        group_abort_received(c, p, head, meta);
        return;
    case MSG_GROUP_BYE:
        group_bye_received(c, p);
        return;
    default:
        group_fail_with(c, from, PS_ERR_PROTOCOL, "a frame of type %u within a group", head->type);
    }
}

/* ---- Life ---- */

static bool
copy_config(struct group_core *c, const struct group_core_config *config)
{
    uint32_t *host = calloc(config->ranks, sizeof *host);
    char **names = calloc(config->ranks, sizeof *names);

    c->config = *config;
    c->config.host = host;
    c->config.names = (const char *const *)names;
    if (host == NULL || names == NULL)
        return false;
    for (uint32_t r = 0; r < config->ranks; r++) {
        host[r] = config->host != NULL ? config->host[r] : r;
        if ((names[r] = strdup(config->names[r])) == NULL)
            return false;
    }
    return true;
}

static bool
make_peers(struct group_core *c)
{
    size_t room = round_up(sizeof(struct group_send), 16) + c->config.send_room;

    if ((c->peers = calloc(c->config.ranks, sizeof *c->peers)) == NULL)
        return false;
    for (uint32_t r = 0; r < c->config.ranks; r++) {
        struct group_peer *p = &c->peers[r];

        p->rank = r;
        if ((p->final_frame = calloc(1, room)) == NULL)
            return false;
        p->final_frame->own = true;
        p->final_frame->to = r;
    }
    return true;
}

enum ps_err
group_core_new(const struct group_core_config *config, struct group_core **out, struct ps_error *e)
{
    struct group_core *c;

    *out = NULL;
    if (config->ranks == 0 || config->ranks > PS_GROUP_RANKS_MAX || config->rank >= config->ranks)
        return ps_fail(e, PS_ERR_INVALID, "rank %u of a group of %u", config->rank, config->ranks);
    c = calloc(1, sizeof *c);
    if (c == NULL || !copy_config(c, config) || !make_peers(c)) {
        group_core_free(c);
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a group of %u ranks", config->ranks);
    }
    c->queue_end = &c->queue;
    plan_cache_init(&c->schedules, &(struct plan_group){.ranks = config->ranks,
                                                        .rank = config->rank,
                                                        .host = c->config.host,
                                                        .shared_memory = config->shared_memory});
    *out = c;
    return PS_OK;
}

void
group_core_without_memory(struct group_core *c)
{
    ps_assert(c->schedules.len == 0);
    c->config.shared_memory = c->schedules.group.shared_memory = false;
}

void
group_core_free(struct group_core *c)
{
    if (c == NULL)
        return;
    group_works_free(c);
    plan_cache_finish(&c->schedules);
    group_sends_free(c);
    for (uint32_t r = 0; c->peers != NULL && r < c->config.ranks; r++) {
        group_early_clear(&c->peers[r].early);
        free(c->peers[r].final_frame);
    }
    for (uint32_t r = 0; c->config.names != NULL && r < c->config.ranks; r++)
        free((char *)c->config.names[r]);
    free((void *)c->config.names);
    free((void *)c->config.host);
    free(c->dispute.votes);
    free(c->peers);
    free(c);
}

enum ps_err
group_core_state(const struct group_core *c, struct ps_error *e)
{
    if (!c->failed)
        return PS_OK;
    if (e != NULL)
        *e = c->error;
    return c->error.code;
}

uint32_t
group_core_guilty(const struct group_core *c)
{
    ps_assert(c->failed);
    return c->guilty;
}

uint64_t
group_core_changes(const struct group_core *c)
{
    return c->changes;
}

char *
group_core_explain(struct group_core *c, size_t count, enum ps_dtype dtype)
{
    struct plan_request ask = {.op = PLAN_ALL_REDUCE,
                               .ranks = c->config.ranks,
                               .rank = c->config.rank,
                               .host = c->config.host,
                               .count = count,
                               .size = ps_dtype_size(dtype),
                               .in_place = true,
                               .algorithm = c->config.algorithm,
                               .segment_bytes = c->config.segment_bytes,
                               .shared_memory = c->config.shared_memory};
    struct plan_plan p;
    char *text;

    if (ask.size == 0 || plan_make(&ask, &p, NULL) != PS_OK)
        return NULL;
    text = plan_text(&ask, &p);
    plan_finish(&p);
    return text;
}
