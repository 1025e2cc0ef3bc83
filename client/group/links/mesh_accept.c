/* Higher ranks, which come through the acceptor: checked once the table is known, and answered. */
#include <stdlib.h>
#include <string.h>

#include "client/group/links/mesh_internal.h"
#include "common/net/sockname.h"

static void
mesh_accept_refuse(struct mesh_conn *m, enum ps_err code, const char *text)
{
    mesh_refuse(m, GROUP_ABORT_NOBODY, code, text);
}

/* A rank of this table that cannot be joined: all ranks are told, that one as well. */
static void
mesh_accept_fail(struct mesh_conn *m, const struct ps_error *e)
{
    struct mesh *mesh = m->mesh;
    uint32_t rank = m->hello.rank;

    mesh_refuse(m, rank, e->code, e->text);
    mesh_fail(mesh, rank, e);
}

/* Whether the forming that it comes for has failed here. */
static bool
mesh_accept_is_late(struct mesh *mesh, const struct group_hello *h)
{
    const ps_group *g = mesh->group;

    if (g->core != NULL && group_core_state(g->core, NULL) != PS_OK && h->group == g->table.id)
        mesh_note_end(mesh);
    return mesh->own_end.code != PS_OK && h->group == mesh->own_end.group && h->epoch == mesh->own_end.epoch;
}

/* The acceptor started the connection before its rank was known, so its congestion control is set now. */
static void
mesh_accept_congestion(struct mesh_conn *m)
{
    struct sockaddr_storage from;
    int len = sizeof from;
    const char *congestion;

    if (uv_tcp_getpeername(&m->conn->u.tcp, (struct sockaddr *)&from, &len) != 0)
        return;
    if ((congestion = group_congestion(m->mesh->group, sockname_is_loopback((struct sockaddr *)&from))) != NULL)
        conn_congestion(m->conn, congestion);
}

void
mesh_accept_check(struct mesh_conn *m)
{
    ps_group *g = m->mesh->group;
    const struct group_hello *h = &m->hello;
    const struct group_membership *t = &g->table;
    struct group_hello own;
    struct ps_error e;

    if (mesh_accept_is_late(m->mesh, h)) {
        mesh_refuse(m, m->mesh->own_end.guilty, m->mesh->own_end.code, m->mesh->own_end.text);
        return;
    }
    if (g->links == NULL || h->epoch > MAX(t->epoch, g->passed))
        return;
    if (h->group != t->id || h->epoch != t->epoch || h->ranks != t->ranks) {
        mesh_accept_refuse(m, PS_ERR_CLUSTER, "this is another forming of the group");
    } else if (h->to != t->rank || h->rank <= t->rank || h->rank >= t->ranks ||
               h->incarnation != t->members[h->rank].incarnation) {
        mesh_accept_refuse(m, PS_ERR_CLUSTER, "the group has no such rank");
    } else if (g->links[h->rank] != NULL) {
        mesh_accept_refuse(m, PS_ERR_TASK_TAKEN, "this rank is connected already");
    } else if (!m->mesh->joining) {
        mesh_accept_refuse(m, PS_ERR_CLUSTER, "this epoch of the group has begun without it");
    } else if (!mesh_same_rules(h, &e)) {
        mesh_accept_fail(m, &e);
    } else {
        m->rank = h->rank;
        own = mesh_hello(g, h->rank);
        mesh_accept_congestion(m);
        mesh_take_offer(m, &own);
        if (mesh_greet(m->conn, MSG_GROUP_WELCOME, &own))
            mesh_link_up(m, h);
        else
            mesh_drop(m); /* the higher rank sees the end of the connection, and fails */
    }
}

static void
mesh_accept_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct mesh_conn *m = c->arg;
    struct mesh_end end = {.group = m->hello.group, .epoch = m->hello.epoch};

    (void)payload;
    if (m->gone)
        return;
    if (head->type == MSG_GROUP_ABORT &&
        group_abort_decode(head, meta, &end.code, &end.guilty, end.text, NULL) == PS_OK) {
        m->mesh->peer_end = end;
        mesh_drop(m);
        return;
    }
    mesh_accept_refuse(m, PS_ERR_PROTOCOL, "it did not wait for its welcome");
}

static void
mesh_accept_ended(struct conn *c, const struct ps_error *why)
{
    struct mesh_conn *m = c->arg;

    (void)why;
    if (!m->gone)
        mesh_drop(m);
}

static const struct conn_events mesh_accept_events = {.frame = mesh_accept_frame, .ended = mesh_accept_ended};

/* How many wait for a table is bounded: more of them than there can be ranks are not of one. */
static void
mesh_accept_trim(struct mesh *mesh)
{
    struct mesh_conn *oldest = NULL;
    uint32_t n = 0;

    for (struct mesh_conn *m = mesh->conns; m != NULL; m = m->next)
        if (m->state == MESH_INCOMING) {
            oldest = m; /* newest first */
            n++;
        }
    if (n > PS_GROUP_RANKS_MAX)
        mesh_drop(oldest);
}

void
mesh_accept_hello(void *arg, struct conn *c, const struct frame_head *head, const void *meta)
{
    struct mesh *mesh = arg;
    ps_group *g = mesh->group;
    struct mesh_conn *m = calloc(1, sizeof *m);
    struct ps_error e;

    if (m == NULL) {
        conn_close(c, acceptor_conn_closed);
        return;
    }
    m->mesh = mesh;
    m->state = MESH_INCOMING;
    m->conn = c;
    m->next = mesh->conns;
    mesh->conns = m;
    c->events = &mesh_accept_events;
    c->arg = m;
    group_conn_made(g);
    if (group_hello_decode(head, meta, &m->hello, &e) != PS_OK)
        mesh_accept_refuse(m, e.code, e.text);
    else if (strcmp(m->hello.cluster, g->cluster_name) != 0 || strcmp(m->hello.name, g->options.name) != 0)
        mesh_accept_refuse(m, PS_ERR_CLUSTER, "this is a rank of another cluster or group");
    else
        mesh_accept_check(m);
    if (mesh->conns != NULL)
        mesh_accept_trim(mesh);
}
