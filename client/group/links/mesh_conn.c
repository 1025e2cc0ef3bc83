/* Connections of a mesh that are not links yet: the frames on them, and how they become links. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/group/links/link_shm.h"
#include "client/group/links/link_tcp.h"
#include "client/group/links/mesh_internal.h"

static void
mesh_conn_closed(struct conn *c)
{
    struct mesh_conn *m = c->arg;

    group_conn_gone(m->mesh->group);
    free(c);
    shm_ring_finish(&m->shm);
    free(m);
}

static void
mesh_unlink(struct mesh_conn *m)
{
    struct mesh_conn **at = &m->mesh->conns;

    while (*at != m)
        at = &(*at)->next;
    *at = m->next;
}

void
mesh_drop(struct mesh_conn *m)
{
    mesh_unlink(m);
    m->gone = true;
    if (m->conn != NULL)
        conn_close(m->conn, mesh_conn_closed);
    else {
        shm_ring_finish(&m->shm);
        free(m);
    }
}

void
mesh_fail(struct mesh *mesh, uint32_t guilty, const struct ps_error *e)
{
    if (!mesh->joining)
        return;
    group_core_blame(mesh->group->core, guilty, e);
    group_perform(mesh->group);
}

/* ---- Greetings out ---- */

struct mesh_greeting {
    struct conn_out out;
    uint8_t bytes[FRAME_HEAD_SIZE + GROUP_HELLO_MAX + FRAME_ALIGN];
};

static void
greeting_done(struct conn_out *o, enum ps_err result)
{
    (void)result;
    free(CONTAINER_OF(o, struct mesh_greeting, out));
}

bool
mesh_greet(struct conn *c, enum msg_type type, const struct group_hello *h)
{
    struct mesh_greeting *g = calloc(1, sizeof *g);

    if (g == NULL)
        return false;
    g->out.done = greeting_done;
    g->out.head = g->bytes;
    g->out.head_len = group_hello_encode(type, h, g->bytes);
    conn_send(c, &g->out, false);
    return true;
}

void
mesh_refuse(struct mesh_conn *m, uint32_t guilty, enum ps_err code, const char *text)
{
    struct mesh_greeting *g = calloc(1, sizeof *g);

    static_assert(GROUP_ABORT_MAX <= GROUP_HELLO_MAX, "both fit");
    mesh_unlink(m);
    m->gone = true;
    if (g == NULL) {
        conn_close(m->conn, mesh_conn_closed);
        return;
    }
    g->out.done = greeting_done;
    g->out.head = g->bytes;
    g->out.head_len = group_abort_encode(code, guilty, text, g->bytes);
    conn_send(m->conn, &g->out, false);
    conn_leave(m->conn, RANK_LINK_LINGER_MS, mesh_conn_closed);
}

bool
mesh_same_rules(const struct group_hello *h, struct ps_error *e)
{
    if (h->rules == GROUP_RULES)
        return true;
    ps_error_set(e, PS_ERR_VERSION,
                 "rank %u has another version of libpsclient, whose operations have other messages (rules %u, here "
                 "%u): start all ranks with the same one",
                 h->rank, h->rules, GROUP_RULES);
    return false;
}

struct group_hello
mesh_hello(const ps_group *g, uint32_t to)
{
    struct group_hello h = {
        .group = g->table.id,
        .epoch = g->table.epoch,
        .incarnation = g->table.members[g->table.rank].incarnation,
        .rank = g->table.rank,
        .ranks = g->table.ranks,
        .to = to,
        .rules = GROUP_RULES,
        .shares = g->options.transport == PS_TRANSPORT_AUTO,
    };

    snprintf(h.cluster, sizeof h.cluster, "%s", g->cluster_name);
    snprintf(h.name, sizeof h.name, "%s", g->options.name);
    return h;
}

/* ---- Memory instead of the connection ---- */

/* The table says which host each member is on, and the connection must bear it out: a peer of another machine has no
 * memory here. */
static bool
may_share(const struct mesh_conn *m)
{
    const ps_group *g = m->mesh->group;
    const struct group_member *own = &g->table.members[g->table.rank], *other = &g->table.members[m->rank];

    return m->conn->local && g->options.transport == PS_TRANSPORT_AUTO && own->host[0] != '\0' &&
           strcmp(own->host, other->host) == 0;
}

static size_t
ring_bytes(const ps_group *g)
{
    uint32_t beside = 0;

    for (uint32_t r = 0; r < g->table.ranks; r++)
        beside += strcmp(g->table.members[r].host, g->table.members[g->table.rank].host) == 0;
    return link_shm_ring_bytes(beside);
}

void
mesh_offer(struct mesh_conn *m, struct group_hello *h)
{
    ps_group *g = m->mesh->group;

    if (!may_share(m) || (m->shm.page == NULL && shm_ring_make(&m->shm, ring_bytes(g), NULL) != PS_OK))
        return;
    h->share_token = m->shm.token;
    h->share_pid = (uint32_t)getpid();
    h->share_fd = (uint32_t)m->shm.fd;
}

void
mesh_take_offer(struct mesh_conn *m, struct group_hello *own)
{
    const struct group_hello *h = &m->hello;

    if (h->share_token != 0 && may_share(m) && h->share_pid <= INT32_MAX && h->share_fd <= INT32_MAX &&
        shm_ring_find(&m->shm, (pid_t)h->share_pid, (int)h->share_fd, h->share_token, NULL) == PS_OK)
        own->share_token = h->share_token;
}

/* ---- A connection becomes a link ---- */

void
mesh_link_up(struct mesh_conn *m, const struct group_hello *h)
{
    struct mesh *mesh = m->mesh;
    ps_group *g = mesh->group;
    struct rank_link *l = m->shm.page != NULL ? link_shm_new(m->conn, &m->shm, m->rank, &g->copying)
                                              : link_tcp_new(m->conn, m->rank, (uint32_t)g->options.timeout_ms);
    struct ps_error e;

    if (l == NULL) {
        ps_error_set(&e, PS_ERR_NOMEM, "no memory for a connection");
        mesh_drop(m);
        mesh_fail(mesh, g->table.rank, &e);
        return;
    }
    l->events = &group_link_events;
    l->arg = g;
    g->links[m->rank] = l;
    mesh->all_share &= h->shares;
    mesh->up++;
    mesh_unlink(m);
    free(m);
}
