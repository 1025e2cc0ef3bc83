/* Lower ranks, which this one connects to; and probing higher ones that do not connect: the same way out, but no frame
 * is sent. */
#include <stdlib.h>
#include <string.h>

#include "client/group/links/mesh_internal.h"
#include "common/core/cluster/address.h"
#include "common/net/conn_credentials.h"
#include "common/net/sockname.h"

#define MESH_TRIES    8   /* of a connection that is refused */
#define MESH_RETRY_MS 125 /* between them */
#define MESH_PROBES   4   /* that are refused, by a rank that is to connect by itself, until it is given up */

static void
lower_fail(struct mesh_conn *m, enum ps_err code, const char *text, const char *why)
{
    struct mesh *mesh = m->mesh;
    uint32_t rank = m->rank;
    struct ps_error e;

    ps_error_set(&e, code, why != NULL ? "%s: %s" : "%s", text, why);
    mesh_drop(m);
    mesh_fail(mesh, rank, &e);
}

/* The lower rank refuses this one, or the group has failed for it already. */
static void
lower_abort(struct mesh_conn *m, enum ps_err code, uint32_t guilty, const char *text)
{
    struct mesh *mesh = m->mesh;
    struct ps_error e;

    if (guilty >= mesh->group->table.ranks && guilty != GROUP_ABORT_SEVERAL) {
        lower_fail(m, code, "it refused this rank", text);
        return;
    }
    ps_error_set(&e, code, "%s", text);
    mesh_drop(m);
    mesh_fail(mesh, guilty, &e);
}

static void
lower_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct mesh_conn *m = c->arg;
    const struct group_membership *t = &m->mesh->group->table;
    char text[GROUP_ABORT_TEXT_MAX + 1];
    struct group_hello h;
    enum ps_err code;
    uint32_t guilty;
    struct ps_error e;

    (void)payload;
    if (m->gone)
        return;
    if (head->type == MSG_GROUP_ABORT && group_abort_decode(head, meta, &code, &guilty, text, &e) == PS_OK)
        lower_abort(m, code, guilty, text);
    else if (head->type != MSG_GROUP_WELCOME)
        lower_fail(m, PS_ERR_PROTOCOL, "its first frame is no welcome", NULL);
    else if (group_hello_decode(head, meta, &h, &e) != PS_OK)
        lower_fail(m, e.code, e.text, NULL);
    else if (h.group != t->id || h.epoch != t->epoch || h.rank != m->rank || h.to != t->rank ||
             h.incarnation != t->members[m->rank].incarnation)
        lower_fail(m, PS_ERR_CLUSTER, "somebody else listens at its address", NULL);
    else if (!mesh_same_rules(&h, &e))
        lower_fail(m, e.code, e.text, NULL);
    else {
        if (h.share_token == 0 || h.share_token != m->shm.token)
            shm_ring_finish(&m->shm); /* it could not find it */
        mesh_link_up(m, &h);
    }
}

static void
lower_ended(struct conn *c, const struct ps_error *why)
{
    struct mesh_conn *m = c->arg;

    if (!m->gone)
        lower_fail(m, why->code, why->text, NULL);
}

/* Both sides have proven what they had to. */
static void
lower_admitted(struct conn *c, enum role role, const char *token)
{
    struct mesh_conn *m = c->arg;
    struct group_hello h;

    (void)role;
    (void)token;
    if (m->gone)
        return;
    h = mesh_hello(m->mesh->group, m->rank);
    mesh_offer(m, &h);
    m->state = MESH_GREETING;
    if (!mesh_greet(m->conn, MSG_GROUP_HELLO, &h))
        lower_fail(m, PS_ERR_NOMEM, "no memory for a greeting", NULL);
}

static const struct conn_events lower_events = {.frame = lower_frame, .ended = lower_ended, .admitted = lower_admitted};

static void
try_again(uv_timer_t *timer)
{
    struct mesh *mesh = timer->data;

    for (struct mesh_conn *m = mesh->conns, *next; m != NULL; m = next) {
        next = m->next;
        if (m->state == MESH_RETRY)
            mesh_connect(m);
    }
}

static void
refused_closed(struct conn *c)
{
    group_conn_gone(c->arg);
    free(c);
}

static void
lower_refused(struct mesh_conn *m, int status)
{
    if (++m->tries >= MESH_TRIES) {
        lower_fail(m, PS_ERR_UNREACHABLE, "cannot connect", uv_strerror(status));
        return;
    }
    m->conn->arg = m->mesh->group;
    conn_close(m->conn, refused_closed);
    m->conn = NULL;
    m->state = MESH_RETRY;
    uv_timer_start(&m->mesh->timer, try_again, MESH_RETRY_MS, 0);
}

/* The outcome of a probe: a connection to a higher rank, which is not wanted any more. */
static void
mesh_probed(struct mesh_conn *m, int status)
{
    struct mesh *mesh = m->mesh;
    uint32_t rank = m->rank;
    struct ps_error e;

    mesh_drop(m);
    mesh->probes_refused[rank] = status == UV_ECONNREFUSED ? mesh->probes_refused[rank] + 1 : 0;
    if (mesh->probes_refused[rank] < MESH_PROBES || mesh->group->links[rank] != NULL)
        return;
    ps_error_set(&e, PS_ERR_UNREACHABLE, "it joined the others, and has ended since: nothing listens there");
    mesh_fail(mesh, rank, &e);
}

static void
mesh_connect_done(uv_connect_t *req, int status)
{
    struct mesh_conn *m = CONTAINER_OF(req, struct mesh_conn, connect);
    ps_group *g = m->mesh->group;

    if (m->gone)
        return;
    if (m->state == MESH_PROBING) {
        mesh_probed(m, status);
        return;
    }
    if (status != 0) {
        lower_refused(m, status);
        return;
    }
    m->state = MESH_PROVING;
    if (conn_start(m->conn, group_congestion(g, m->loopback)) != PS_OK ||
        conn_credentials_connect(m->conn, ROLE_TRAIN) != PS_OK)
        lower_fail(m, PS_ERR_NOMEM, "no memory for a greeting", NULL);
}

void
mesh_connect(struct mesh_conn *m)
{
    ps_group *g = m->mesh->group;
    struct sockaddr_storage to = {0};
    struct address address;
    struct conn *c = malloc(sizeof *c);
    struct ps_error e;
    int status;

    if (c == NULL || conn_init(c, &g->pool, false, &lower_events, m) != PS_OK) {
        free(c);
        if (m->state == MESH_PROBING)
            mesh_probed(m, UV_ENOMEM);
        else
            lower_fail(m, PS_ERR_NOMEM, "no memory or no descriptor for a connection", NULL);
        return;
    }
    m->conn = c;
    if (m->state != MESH_PROBING)
        m->state = MESH_CONNECTING;
    group_conn_made(g);
    if (address_parse(g->table.members[m->rank].address, &address, NULL) != PS_OK ||
        (uv_ip4_addr(address.host, address.port, (struct sockaddr_in *)&to) != 0 &&
         uv_ip6_addr(address.host, address.port, (struct sockaddr_in6 *)&to) != 0)) {
        lower_fail(m, PS_ERR_PROTOCOL, "its address is no number", NULL);
        return;
    }
    m->loopback = sockname_is_loopback((struct sockaddr *)&to);
    if (m->state != MESH_PROBING && credentials_connect(&g->credentials, c, address.host, &e) != PS_OK) {
        lower_fail(m, e.code, e.text, NULL);
        return;
    }
    if ((status = uv_tcp_connect(&m->connect, &c->u.tcp, (struct sockaddr *)&to, mesh_connect_done)) == 0)
        return;
    if (m->state == MESH_PROBING)
        mesh_probed(m, status);
    else
        lower_refused(m, status);
}

static bool
mesh_is_probed(const struct mesh *mesh, uint32_t rank)
{
    for (const struct mesh_conn *m = mesh->conns; m != NULL; m = m->next)
        if (m->state == MESH_PROBING && m->rank == rank)
            return true;
    return false;
}

void
mesh_probe(uv_timer_t *timer)
{
    struct mesh *mesh = timer->data;
    const ps_group *g = mesh->group;

    for (uint32_t r = g->table.rank + 1; mesh->joining && r < g->table.ranks; r++) {
        struct mesh_conn *m;

        if (g->links[r] != NULL || mesh_is_probed(mesh, r) || (m = calloc(1, sizeof *m)) == NULL)
            continue;
        *m = (struct mesh_conn){.mesh = mesh, .state = MESH_PROBING, .rank = r, .next = mesh->conns};
        mesh->conns = m;
        mesh_connect(m);
    }
}
