/* Connecting to all other ranks of a table: to those below this one, and from those above.
 *
 * The usual way: connect() to a lower rank, GROUP_HELLO, GROUP_WELCOME: the connection becomes a link. A higher rank's
 * hello comes through the acceptor, is looked at, is answered, and the connection becomes a link, too. A hello may come
 * before this rank knows its table: it waits.
 *
 * A higher rank that does not come may have died since it met the others: then nobody listens at its address, and it
 * need not be waited for until the deadline.
 *
 * When joining fails, ranks that greet each other are told why, as those that are linked are: a lower rank that was
 * greeted and has not answered yet, perhaps because it does not know the table; and a higher one that comes late.
 *
 * Links are the core's from their first frame on, so whatever the others start before this rank has all of its links is
 * kept by the core as for an operation that it has not started. And the end of one, while others are still missing,
 * fails the core, which tells all that are there which rank was guilty. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/group/links/mesh_internal.h"

#define MESH_PROBE_MS 500 /* between probes of one rank */

/* ---- Joining ---- */

void
mesh_note_end(struct mesh *mesh)
{
    const ps_group *g = mesh->group;
    struct ps_error why;

    mesh->own_end = (struct mesh_end){.group = g->table.id,
                                      .epoch = g->table.epoch,
                                      .guilty = group_core_guilty(g->core),
                                      .code = group_core_state(g->core, &why)};
    snprintf(mesh->own_end.text, sizeof mesh->own_end.text, "%.*s", GROUP_ABORT_TEXT_MAX, why.text);
}

static bool
mesh_is_joined(const struct mesh *mesh)
{
    return mesh->up + 1 == mesh->group->table.ranks;
}

static bool
joined_or_over(void *arg)
{
    struct mesh *mesh = arg;
    ps_group *g = mesh->group;

    return mesh_is_joined(mesh) || group_core_state(g->core, NULL) != PS_OK || group_is_interrupted(g);
}

bool
mesh_all_share(const ps_group *g)
{
    return g->table.ranks == 1 || g->mesh->all_share;
}

uint32_t
mesh_waiting(const ps_group *g)
{
    uint32_t n = g->mesh != NULL ? 2 : 0;

    for (const struct mesh_conn *m = n > 0 ? g->mesh->conns : NULL; m != NULL; m = m->next)
        n += m->state == MESH_INCOMING;
    return n;
}

void
mesh_pass(ps_group *g)
{
    for (struct mesh_conn *m = g->mesh->conns, *next; m != NULL; m = next) {
        next = m->next;
        if (m->state == MESH_INCOMING)
            mesh_accept_check(m);
    }
}

/* Whether another rank has reported already why this forming fails. */
static bool
mesh_peer_failed(struct mesh *mesh)
{
    const struct mesh_end *end = &mesh->peer_end;
    const struct group_membership *t = &mesh->group->table;
    struct ps_error e;

    if (end->code == PS_OK || end->group != t->id || end->epoch != t->epoch ||
        (end->guilty >= t->ranks && end->guilty != GROUP_ABORT_SEVERAL))
        return false;
    ps_error_set(&e, end->code, "%s", end->text);
    mesh_fail(mesh, end->guilty, &e);
    return true;
}

static void
mesh_begin(struct mesh *mesh)
{
    ps_group *g = mesh->group;

    if (mesh_peer_failed(mesh)) {
        mesh_pass(g); /* so that others are notified */
        return;
    }
    for (uint32_t r = 0; r < g->table.rank && group_core_state(g->core, NULL) == PS_OK; r++) {
        struct mesh_conn *m = calloc(1, sizeof *m);
        struct ps_error e;

        if (m == NULL) {
            ps_error_set(&e, PS_ERR_NOMEM, "no memory for a connection");
            mesh_fail(mesh, g->table.rank, &e);
            return;
        }
        m->mesh = mesh;
        m->rank = r;
        m->next = mesh->conns;
        mesh->conns = m;
        mesh_connect(m);
    }
    mesh_pass(g);
}

/* The deadline passed: blame a rank that is not there. */
static void
blame_missing(struct mesh *mesh, uint64_t start_ms)
{
    ps_group *g = mesh->group;
    struct ps_error e;
    uint32_t r = 0;

    while (r == g->table.rank || g->links[r] != NULL)
        r++;
    ps_error_set(&e, PS_ERR_TIMEOUT, "waited %llu ms for rank %u to connect, %u of %u are there",
                 (unsigned long long)(uv_now(&g->loop) - start_ms), r, mesh->up + 1, g->table.ranks);
    mesh_fail(mesh, r, &e);
}

enum ps_err
mesh_join(ps_group *g, uint64_t deadline_ms, struct ps_error *e)
{
    struct mesh *mesh = g->mesh;
    uint64_t start_ms = uv_now(&g->loop);

    mesh->up = 0;
    mesh->all_share = g->options.transport == PS_TRANSPORT_AUTO;
    mesh->joining = true;
    memset(mesh->probes_refused, 0, sizeof mesh->probes_refused);
    uv_timer_start(&mesh->probe_timer, mesh_probe, MESH_PROBE_MS, MESH_PROBE_MS);
    mesh_begin(mesh);
    if (!group_run_until(g, joined_or_over, mesh, deadline_ms))
        blame_missing(mesh, start_ms);
    else if (!mesh_is_joined(mesh) && group_is_interrupted(g))
        group_interrupt(g);
    mesh->joining = false;
    uv_timer_stop(&mesh->timer);
    uv_timer_stop(&mesh->probe_timer);
    if (group_core_state(g->core, NULL) != PS_OK)
        mesh_note_end(mesh);
    for (struct mesh_conn *m = mesh->conns, *next; m != NULL; m = next) {
        next = m->next;
        if (m->state == MESH_GREETING)
            mesh_refuse(m, mesh->own_end.guilty, mesh->own_end.code, mesh->own_end.text);
        else if (m->state != MESH_INCOMING)
            mesh_drop(m);
    }
    return group_core_state(g->core, e);
}

/* ---- Life ---- */

static void
timer_closed(uv_handle_t *handle)
{
    struct mesh *mesh = handle->data;

    group_conn_gone(mesh->group);
}

enum ps_err
mesh_new(ps_group *g, struct ps_error *e)
{
    struct mesh *mesh = calloc(1, sizeof *mesh);

    if (mesh == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a group");
    mesh->group = g;
    uv_timer_init(&g->loop, &mesh->timer);
    uv_timer_init(&g->loop, &mesh->probe_timer);
    mesh->timer.data = mesh->probe_timer.data = mesh;
    group_conn_made(g);
    group_conn_made(g);
    g->mesh = mesh;
    acceptor_route(&g->acceptor, MSG_GROUP_HELLO, mesh_accept_hello, mesh);
    return PS_OK;
}

void
mesh_close(ps_group *g)
{
    struct mesh *mesh = g->mesh;

    if (mesh == NULL)
        return;
    acceptor_route(&g->acceptor, MSG_GROUP_HELLO, NULL, NULL);
    while (mesh->conns != NULL)
        mesh_drop(mesh->conns);
    uv_close((uv_handle_t *)&mesh->timer, timer_closed);
    uv_close((uv_handle_t *)&mesh->probe_timer, timer_closed);
}

void
mesh_free(ps_group *g)
{
    free(g->mesh);
    g->mesh = NULL;
}
