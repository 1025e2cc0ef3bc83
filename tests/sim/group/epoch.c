/* A member in one group: the core, and the links to the others, as client/group does it with sockets: it dials the
 * ranks below this one and sends hello; the ranks above connect to its listener; frames go to the core, and the core's
 * actions are performed after each event.
 *
 * It ends in three steps: left (the core receives no more events; links send their queues), all links gone and all
 * frames returned, and then it is freed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/group/world.h"

#define JOIN_US (20 * SIM_SECOND) /* until all links are there */

enum epoch_link_state { LINK_INCOMING, LINK_DIALS, LINK_GREETS, LINK_UP, LINK_OVER };

struct link_end {
    struct world_member *member;
    struct epoch *epoch;   /* NULL: an incoming connection */
    struct link_end *next; /* incoming connections */
    uint32_t rank;
    enum epoch_link_state state;
    struct net_end *end;
    struct frame_reader reader;
    struct group_hello hello; /* of an incoming connection */
    bool greeted;
};

/* A core's frame in a link; lies in the space that the core provides. */
struct link_frame {
    struct sim_net_out out;
    struct epoch *epoch;
    struct group_send *send;
};

static const struct net_user link_user;

static uint64_t
now_ms(const struct epoch *e)
{
    return e->member->world->sim.now_us / SIM_MS;
}

/* ---- What the core wants ---- */

static void
frame_done(struct sim_net_out *out, enum ps_err result)
{
    struct link_frame *f = CONTAINER_OF(out, struct link_frame, out);
    struct epoch *e = f->epoch;

    e->outs--;
    group_core_sent(e->core, f->send, result);
    epoch_perform(e);
}

/* An end that has sent hello can send farewell: the other side may already consider the link complete. */
static bool
epoch_carries(const struct link_end *l)
{
    return l->state == LINK_UP || l->state == LINK_GREETS;
}

static void
perform_send(struct epoch *e, struct group_send *s)
{
    struct link_frame *f = group_send_user_data(s);
    struct link_end *l = e->links[s->to];

    *f = (struct link_frame){.epoch = e, .send = s};
    f->out =
        (struct sim_net_out){.head = s->head, .head_len = s->head_len, .parts = s->parts, .parts_len = s->parts_len};
    f->out.done = frame_done;
    e->outs++;
    if (l == NULL || !epoch_carries(l))
        frame_done(&f->out, PS_ERR_CLOSED);
    else
        net_send(l->end, &f->out);
}

static void
perform_cut(struct epoch *e)
{
    enum group_lie lie = e->member->world->options->lie;

    for (uint32_t r = 0; r < e->ranks; r++)
        if (e->links[r] != NULL && epoch_carries(e->links[r])) {
            frame_discard(&e->links[r]->reader);
            net_drop(e->links[r]->end, lie == GROUP_LIE_ZEROS);
        }
}

static void
plan_time(struct epoch *e)
{
    uint64_t next = group_core_next_time(e->core);

    if (next == UINT64_MAX)
        sim_cancel(&e->member->world->sim, &e->time);
    else
        sim_at(&e->member->world->sim, &e->time, MAX(next * SIM_MS, e->member->held_us));
}

void
epoch_perform(struct epoch *e)
{
    struct group_action a;

    e->again = true;
    if (e->performing || e->core == NULL)
        return;
    e->performing = true;
    while (e->again) {
        e->again = false;
        while (group_core_next_action(e->core, &a))
            if (a.kind == GROUP_CUT)
                perform_cut(e);
            else
                perform_send(e, a.send);
    }
    e->performing = false;
    if (e->left)
        return;
    plan_time(e);
    if (e->changes != group_core_changes(e->core)) {
        e->changes = group_core_changes(e->core);
        member_look(e->member);
    }
}

static void
time_comes(struct sim_timer *t)
{
    struct epoch *e = CONTAINER_OF(t, struct epoch, time);

    if (e->member->held_us > e->member->world->sim.now_us) {
        sim_at(&e->member->world->sim, t, e->member->held_us);
        return;
    }
    group_core_time(e->core, now_ms(e));
    epoch_perform(e);
}

/* ---- Greetings ---- */

struct epoch_greeting {
    struct sim_net_out out;
    uint8_t bytes[FRAME_HEAD_SIZE + GROUP_HELLO_MAX + FRAME_ALIGN];
};

static void
greeting_done(struct sim_net_out *o, enum ps_err result)
{
    (void)result;
    free(CONTAINER_OF(o, struct epoch_greeting, out));
}

static void
epoch_greet(struct link_end *l, enum msg_type type)
{
    const struct epoch *e = l->epoch;
    struct epoch_greeting *g = sim_alloc(sizeof *g);
    struct group_hello h = {.group = e->group,
                            .epoch = e->number,
                            .incarnation = e->member->incarnation,
                            .rank = e->rank,
                            .ranks = e->ranks,
                            .to = l->rank,
                            .rules = GROUP_RULES,
                            .cluster = "cluster",
                            .name = "group"};

    g->out.done = greeting_done;
    g->out.head = g->bytes;
    g->out.head_len = group_hello_encode(type, &h, g->bytes);
    net_send(l->end, &g->out);
}

static void
link_blame(struct link_end *l, enum ps_err code, const char *text)
{
    struct ps_error why;

    if (l->epoch == NULL || l->epoch->left)
        return;
    ps_error_set(&why, code, "%s", text);
    if (l->state == LINK_UP)
        group_core_ended(l->epoch->core, l->rank, &why, now_ms(l->epoch));
    else
        group_core_blame(l->epoch->core, l->rank, &why);
}

static void
link_up(struct link_end *l)
{
    struct epoch *e = l->epoch;

    l->state = LINK_UP;
    for (uint32_t r = 0; r < e->ranks; r++)
        if (r != e->rank && (e->links[r] == NULL || e->links[r]->state != LINK_UP))
            return;
    e->whole = true;
    member_look(e->member);
}

/* Ends the link in any state; later frames are ignored. */
static void
link_close(struct link_end *l, bool finish)
{
    l->state = LINK_OVER;
    frame_discard(&l->reader);
    if (finish)
        net_finish_end(l->end);
    else
        net_close(l->end);
}

static void
guest_forget(struct link_end *l)
{
    struct link_end **at = &l->member->incoming;

    while (*at != NULL && *at != l)
        at = &(*at)->next;
    if (*at != NULL)
        *at = l->next;
}

/* Whether the incoming connection is of this member's current group. It may be of one that this member does not know
 * yet. */
static void
guest_look(struct link_end *l)
{
    struct epoch *e = l->member->now;

    if (!l->greeted)
        return;
    if (e == NULL || e->left || l->hello.epoch > e->number) {
        if (l->hello.epoch <= l->member->epoch_seen && e == NULL) {
            guest_forget(l);
            link_close(l, false);
        }
        return;
    }
    guest_forget(l);
    if (l->hello.group != e->group || l->hello.rank >= e->ranks || l->hello.rank <= e->rank || l->hello.to != e->rank ||
        e->links[l->hello.rank] != NULL || l->hello.incarnation != e->incarnations[l->hello.rank]) {
        link_close(l, false);
        return;
    }
    l->epoch = e;
    l->rank = l->hello.rank;
    e->links[l->rank] = l;
    e->ends++;
    epoch_greet(l, MSG_GROUP_WELCOME);
    link_up(l);
}

void
incoming_look_all(struct world_member *m)
{
    for (struct link_end *l = m->incoming, *next; l != NULL; l = next) {
        next = l->next;
        guest_look(l);
    }
}

void
incoming_drop_all(struct world_member *m, bool power)
{
    for (struct link_end *l = m->incoming, *next; l != NULL; l = next) {
        next = l->next;
        if (power)
            net_silence(l->end->conn, 3);
        link_close(l, false);
    }
    m->incoming = NULL;
}

void
epoch_accept(struct net_listener *listener, struct net_end *end)
{
    struct world_member *m = CONTAINER_OF(listener, struct world_member, listener);
    struct link_end *l = sim_alloc(sizeof *l);

    *l = (struct link_end){.member = m, .next = m->incoming, .state = LINK_INCOMING, .end = end};
    m->incoming = l;
    frame_reader_init(&l->reader);
    end->arg = l;
    end->user = &link_user;
    net_hold(end, m->held_us);
}

/* ---- Frames ---- */

/* The lower rank's group has failed before it answered the hello: its reason is believed, as by the mesh. */
static bool
greeting_is_end(struct link_end *l)
{
    char text[GROUP_ABORT_TEXT_MAX + 1];
    struct ps_error why;
    enum ps_err code;
    uint32_t guilty;

    if (l->state != LINK_GREETS || l->reader.head.type != MSG_GROUP_ABORT ||
        group_abort_decode(&l->reader.head, l->reader.meta, &code, &guilty, text, &why) != PS_OK ||
        guilty >= l->epoch->ranks)
        return false;
    ps_error_set(&why, code, "%s", text);
    group_core_blame(l->epoch->core, guilty, &why);
    link_close(l, false);
    return true;
}

static bool
greeting_came(struct link_end *l)
{
    struct ps_error why;

    if (greeting_is_end(l))
        return true;

    if (l->reader.head.type != (l->state == LINK_INCOMING ? MSG_GROUP_HELLO : MSG_GROUP_WELCOME) ||
        group_hello_decode(&l->reader.head, l->reader.meta, &l->hello, &why) != PS_OK)
        return false;
    l->greeted = true;
    if (l->state == LINK_INCOMING) {
        guest_look(l);
        return true;
    }
    if (l->hello.group != l->epoch->group || l->hello.rank != l->rank)
        return false;
    link_up(l);
    return true;
}

static void
frame_came(struct link_end *l)
{
    if (l->state == LINK_UP)
        group_core_frame(l->epoch->core, l->rank, &l->reader.head, l->reader.meta, l->reader.payload, now_ms(l->epoch));
    else if (!greeting_came(l)) {
        link_blame(l, PS_ERR_PROTOCOL, "it greets with something else");
        if (l->epoch == NULL)
            guest_forget(l);
        link_close(l, false);
    }
    if (l->epoch != NULL)
        epoch_perform(l->epoch);
}

static void
payload_begins(struct link_end *l)
{
    const struct frame_part *parts;
    size_t n = 0;

    if (l->state == LINK_UP)
        group_core_payload_dest(l->epoch->core, l->rank, &l->reader.head, &parts, &n);
    if (n > 0)
        frame_direct(&l->reader, parts, n);
}

static void
bytes_came(struct net_end *end, const uint8_t *data, size_t n)
{
    struct link_end *l = end->arg;
    size_t used;

    while (n > 0 && l->state != LINK_OVER && (l->epoch == NULL || !l->epoch->left)) {
        switch (frame_feed(&l->reader, data, n, &used)) {
        case FRAME_META:
            payload_begins(l);
            break;
        case FRAME_WHOLE:
            frame_came(l);
            break;
        case FRAME_HEADED: /* not asked for */
        case FRAME_MORE:
            break;
        case FRAME_BAD:
            link_blame(l, PS_ERR_PROTOCOL, l->reader.error.text);
            if (l->epoch == NULL)
                guest_forget(l);
            link_close(l, false);
            if (l->epoch != NULL)
                epoch_perform(l->epoch);
            return;
        }
        data += used;
        n -= used;
    }
}

static void
link_opened(struct net_end *end)
{
    struct link_end *l = end->arg;

    if (l->state != LINK_DIALS)
        return;
    l->state = LINK_GREETS;
    epoch_greet(l, MSG_GROUP_HELLO);
}

static void
link_closed(struct net_end *end, enum ps_err why, const char *text)
{
    struct link_end *l = end->arg;

    if (l->state == LINK_INCOMING)
        guest_forget(l);
    link_blame(l, why, text);
    l->state = LINK_OVER;
    if (l->epoch != NULL && !l->epoch->left)
        epoch_perform(l->epoch);
}

static void
link_gone(struct net_end *end)
{
    struct link_end *l = end->arg;
    struct epoch *e = l->epoch;

    if (e != NULL) {
        e->ends--;
        if (e->links[l->rank] == l)
            e->links[l->rank] = NULL;
        member_look(e->member);
    }
    frame_reader_finish(&l->reader);
    free(l);
}

static const struct net_user link_user = {
    .opened = link_opened, .bytes = bytes_came, .closed = link_closed, .gone = link_gone};

/* ---- Life ---- */

uint32_t
epoch_rank_of(const struct epoch *e, uint32_t task)
{
    for (uint32_t r = 0; r < e->ranks; r++)
        if (e->tasks[r] == task)
            return r;
    return WORLD_NOBODY;
}

static void
join_late(struct sim_timer *t)
{
    struct epoch *e = CONTAINER_OF(t, struct epoch, deadline);
    struct ps_error why;

    for (uint32_t r = 0; r < e->ranks && !e->whole; r++)
        if (r != e->rank && (e->links[r] == NULL || e->links[r]->state != LINK_UP)) {
            ps_error_set(&why, PS_ERR_TIMEOUT, "it did not come");
            group_core_blame(e->core, r, &why);
            epoch_perform(e);
            return;
        }
}

static void
dial_lower(struct epoch *e)
{
    struct group_world *w = e->member->world;

    for (uint32_t r = 0; r < e->rank; r++) {
        struct link_end *l = sim_alloc(sizeof *l);

        *l = (struct link_end){.member = e->member, .epoch = e, .rank = r, .state = LINK_DIALS};
        frame_reader_init(&l->reader);
        l->end = net_dial(&w->net, &w->member[e->tasks[r]].listener, &link_user, l);
        net_hold(l->end, e->member->held_us);
        e->links[r] = l;
        e->ends++;
    }
}

static void
core_make(struct epoch *e)
{
    struct group_world *w = e->member->world;
    char names[WORLD_MEMBERS_MAX][16];
    const char *name[WORLD_MEMBERS_MAX];
    uint32_t host[WORLD_MEMBERS_MAX];
    struct ps_error why;

    for (uint32_t r = 0; r < e->ranks; r++) {
        snprintf(names[r], sizeof names[r], "task %u", e->tasks[r]);
        name[r] = names[r];
        host[r] = e->tasks[r] % w->hosts;
    }
    if (group_core_new(&(struct group_core_config){.ranks = e->ranks,
                                                   .rank = e->rank,
                                                   .host = host,
                                                   .names = name,
                                                   .timeout_ms = w->timeout_ms,
                                                   .algorithm = w->algorithm,
                                                   .segment_bytes = w->segment_bytes,
                                                   .send_room = sizeof(struct link_frame)},
                       &e->core, &why) != PS_OK)
        sim_fail(&w->sim, "no core: %s", why.text);
}

struct epoch *
epoch_new(struct world_member *m, const struct rendezvous_table *t)
{
    struct epoch *e = sim_alloc(sizeof *e);
    struct sim *s = &m->world->sim;

    *e = (struct epoch){.member = m, .next = m->epochs, .group = t->group, .number = t->epoch, .ranks = t->ranks};
    m->epochs = e;
    e->came_us = UINT64_MAX;
    e->formed_us = s->now_us;
    for (uint32_t r = 0; r < t->ranks; r++) {
        e->tasks[r] = t->members[r].task;
        e->incarnations[r] = t->members[r].incarnation;
        e->came_us = MIN(e->came_us, m->world->member[e->tasks[r]].came_us);
        if (e->tasks[r] == m->task)
            e->rank = r;
    }
    e->ledger = ledger_group(m->world, e->group, e->ranks);
    e->time.run = time_comes;
    e->deadline.run = join_late;
    core_make(e);
    sim_in(s, &e->deadline, JOIN_US);
    dial_lower(e);
    e->whole = e->ranks == 1;
    return e;
}

void
epoch_end(struct epoch *e)
{
    e->left = true;
    sim_cancel(&e->member->world->sim, &e->time);
    sim_cancel(&e->member->world->sim, &e->deadline);
}

void
epoch_leave(struct epoch *e)
{
    group_core_goodbye(e->core);
    epoch_perform(e);
    epoch_end(e);
    for (uint32_t r = 0; r < e->ranks; r++)
        if (e->links[r] != NULL && e->links[r]->state != LINK_OVER)
            link_close(e->links[r], epoch_carries(e->links[r]));
}

void
epoch_kill(struct epoch *e, bool power)
{
    epoch_end(e);
    for (uint32_t r = 0; r < e->ranks; r++) {
        struct link_end *l = e->links[r];

        if (l == NULL)
            continue;
        if (power)
            net_silence(l->end->conn, 3);
        link_close(l, false);
    }
}

void
epochs_hold(struct world_member *m)
{
    for (struct epoch *e = m->epochs; e != NULL; e = e->next)
        for (uint32_t r = 0; r < e->ranks; r++)
            if (e->links[r] != NULL)
                net_hold(e->links[r]->end, m->held_us);
    for (struct link_end *l = m->incoming; l != NULL; l = l->next)
        net_hold(l->end, m->held_us);
}

void
epochs_sweep(struct world_member *m)
{
    for (struct epoch **at = &m->epochs, *e; (e = *at) != NULL;) {
        if (!e->left || e->outs > 0 || e->performing) {
            at = &e->next;
            continue;
        }
        group_core_free(e->core);
        e->core = NULL;
        if (e->ends > 0) {
            at = &e->next;
            continue;
        }
        *at = e->next;
        free(e);
    }
}

/* ---- Nonsense ---- */

/* Whole frames and pieces of them that no member of this group sends; none of them can be taken for data. */
static size_t
draw_nonsense(struct sim *s, uint8_t *out)
{
    struct frame_head head = {.version = FRAME_VERSION, .type = MSG_PUSH, .request = sim_rand(s)};
    uint64_t kind = sim_below(s, 5);

    switch (kind) {
    case 0:
        for (size_t i = 0; i < 64; i++)
            out[i] = (uint8_t)sim_rand(s);
        return 64;
    case 1:
        frame_head_encode(&head, out);
        return FRAME_HEAD_SIZE;
    case 2:
        group_data_encode(group_id(GROUP_LANE_ALL, 1000000 + sim_below(s, 100)), 0, out);
        return FRAME_HEAD_SIZE;
    case 3:
        group_ready_encode(group_id(GROUP_LANE_ALL, 1000000), 77, out);
        return FRAME_HEAD_SIZE + GROUP_READY_SIZE;
    default:
        head.type = MSG_GROUP_WORK;
        head.meta_len = 8;
        frame_head_encode(&head, out);
        memset(out + FRAME_HEAD_SIZE, 0xff, 8);
        return FRAME_HEAD_SIZE + 8;
    }
}

struct net_end *
epoch_end_of(struct epoch *e, uint32_t rank)
{
    struct link_end *l = e->links[rank];

    return l != NULL && l->state != LINK_OVER ? l->end : NULL;
}

bool
epoch_garbage(struct epoch *e, uint32_t rank)
{
    struct link_end *l = e->links[rank];
    struct epoch_greeting *g;

    if (l == NULL || l->state != LINK_UP)
        return false;
    g = sim_alloc(sizeof *g);
    g->out.done = greeting_done;
    g->out.head = g->bytes;
    g->out.head_len = draw_nonsense(&e->member->world->sim, g->bytes);
    net_send(l->end, &g->out);
    return true;
}
