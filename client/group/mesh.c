/* Connecting to all other ranks of a table: to those below this one, and from those above.
 *
 * The usual way: connect() to a lower rank, GROUP_HELLO, GROUP_WELCOME: the connection becomes a link. A higher rank's
 * hello comes through the door, is looked at, is answered, and the connection becomes a link, too. A hello may come
 * before this rank knows its table: it waits.
 *
 * A higher rank that does not come may have died since it met the others: then nobody listens at its address, and it
 * need not be waited for until the deadline.
 *
 * When it fails, those that greet each other are told why, as those that are linked are: a lower rank that was greeted
 * and has not answered yet, perhaps because it does not know the table; and a higher one that comes late.
 *
 * Links are the core's from their first frame on, so whatever the others start before this rank has all of its links is
 * kept by the core as for an operation that it has not started. And the end of one, while others are still missing,
 * fails the core, which tells all that are there who was guilty. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "client/collective/group_wire.h"
#include "client/group/group_state.h"
#include "client/group/link_shm.h"
#include "client/group/link_tcp.h"
#include "common/conn_pass.h"

#define MESH_TRIES    8   /* of a connection that is refused */
#define MESH_RETRY_MS 125 /* between them */
#define MESH_KNOCKS   4   /* that are refused, by a rank that is to connect by itself, until it is given up */
#define MESH_KNOCK_MS 500 /* between them */

/*
 *     through the door:   MESH_GUEST ──► link
 *     to a lower rank:    MESH_CONNECTING ──► MESH_PROVING, where there is a token ──► MESH_GREETING ──► link
 *                               └─► MESH_RETRY ─┘ refused
 *     to a higher one:    MESH_KNOCKING: it only shows whether anybody listens there */
enum mesh_state { MESH_GUEST, MESH_CONNECTING, MESH_PROVING, MESH_GREETING, MESH_RETRY, MESH_KNOCKING };

struct mesh_conn {
    struct mesh *mesh;
    enum mesh_state state;
    struct conn *conn; /* NULL in MESH_RETRY */
    uint32_t rank;     /* of the other side; a guest's when it is known to be in the table */
    unsigned tries;
    bool loopback, gone;
    struct group_hello hello; /* a guest's */
    struct share share;       /* memory with the other side; zeroed: none */
    uv_connect_t connect;
    struct mesh_conn *next;
};

/* Why a forming failed. */
struct mesh_end {
    uint64_t group, epoch; /* which */
    uint32_t guilty;
    enum ps_err code; /* PS_OK: none has */
    char text[GROUP_ABORT_TEXT_MAX + 1];
};

struct mesh {
    ps_group *group;
    bool joining;
    uint32_t up;          /* links */
    struct mesh_end mine; /* the last that failed here */
    struct mesh_end told; /* of which another rank said so, before the table was known here */
    struct mesh_conn *conns;
    uv_timer_t timer;                    /* for those that try again */
    uv_timer_t knocking;                 /* at those that have not come */
    uint8_t refused[PS_GROUP_RANKS_MAX]; /* knocks, one after the other */
};

/* ---- Connections that are not links yet ---- */

static void
mesh_conn_closed(struct conn *c)
{
    struct mesh_conn *m = c->arg;

    group_conn_gone(m->mesh->group);
    free(c);
    share_finish(&m->share);
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

/* It is not wanted any more. */
static void
mesh_drop(struct mesh_conn *m)
{
    mesh_unlink(m);
    m->gone = true;
    if (m->conn != NULL)
        conn_close(m->conn, mesh_conn_closed);
    else {
        share_finish(&m->share);
        free(m);
    }
}

static void
mesh_fail(struct mesh *mesh, uint32_t guilty, const struct ps_error *e)
{
    if (!mesh->joining)
        return;
    group_core_blame(mesh->group->core, guilty, e);
    group_perform(mesh->group);
}

/* ---- Greetings out ---- */

struct greeting {
    struct conn_out out;
    uint8_t bytes[FRAME_HEAD_SIZE + GROUP_HELLO_MAX + FRAME_ALIGN];
};

static void
greeting_done(struct conn_out *o, enum ps_err result)
{
    (void)result;
    free(CONTAINER_OF(o, struct greeting, out));
}

static bool
greet(struct conn *c, enum msg_type type, const struct group_hello *h)
{
    struct greeting *g = calloc(1, sizeof *g);

    if (g == NULL)
        return false;
    g->out.done = greeting_done;
    g->out.head = g->bytes;
    g->out.head_len = group_hello_encode(type, h, g->bytes);
    conn_send(c, &g->out, false);
    return true;
}

/* Its last frame says why. */
static void
part(struct mesh_conn *m, uint32_t guilty, enum ps_err code, const char *text)
{
    struct greeting *g = calloc(1, sizeof *g);

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
    conn_leave(m->conn, LINK_LINGER_MS, mesh_conn_closed);
}

static struct group_hello
hello_to(const ps_group *g, uint32_t to)
{
    struct group_hello h = {
        .group = g->table.id,
        .epoch = g->table.epoch,
        .incarnation = g->table.members[g->table.rank].incarnation,
        .rank = g->table.rank,
        .ranks = g->table.ranks,
        .to = to,
    };

    snprintf(h.cluster, sizeof h.cluster, "%s", g->cluster_name);
    snprintf(h.name, sizeof h.name, "%s", g->options.name);
    return h;
}

/* ---- Memory instead of the connection ---- */

static bool
may_share(const ps_group *g, uint32_t rank)
{
    const struct group_member *own = &g->table.members[g->table.rank], *other = &g->table.members[rank];

    return g->options.transport == PS_TRANSPORT_AUTO && own->host[0] != '\0' && strcmp(own->host, other->host) == 0;
}

static size_t
ring_bytes(const ps_group *g)
{
    uint32_t beside = 0;

    for (uint32_t r = 0; r < g->table.ranks; r++)
        beside += strcmp(g->table.members[r].host, g->table.members[g->table.rank].host) == 0;
    return link_shm_ring_bytes(beside);
}

/* Where it cannot be had the connection carries all. */
static void
offer(struct mesh_conn *m, struct group_hello *h)
{
    ps_group *g = m->mesh->group;

    if (!may_share(g, m->rank) || (m->share.page == NULL && share_make(&m->share, ring_bytes(g), NULL) != PS_OK))
        return;
    h->share_token = m->share.token;
    h->share_pid = (uint32_t)getpid();
    h->share_fd = (uint32_t)m->share.fd;
}

static void
take_offer(struct mesh_conn *m, struct group_hello *own)
{
    const struct group_hello *h = &m->hello;

    if (h->share_token != 0 && may_share(m->mesh->group, m->rank) && h->share_pid <= INT32_MAX &&
        h->share_fd <= INT32_MAX &&
        share_find(&m->share, (pid_t)h->share_pid, (int)h->share_fd, h->share_token, NULL) == PS_OK)
        own->share_token = h->share_token;
}

/* ---- A connection becomes a link ---- */

static void
mesh_up(struct mesh_conn *m)
{
    struct mesh *mesh = m->mesh;
    ps_group *g = mesh->group;
    struct link *l = m->share.page != NULL ? link_shm_new(m->conn, &m->share, m->rank, &g->copying)
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
    mesh->up++;
    mesh_unlink(m);
    free(m);
}

/* ---- Guests ---- */

static void
guest_refuse(struct mesh_conn *m, enum ps_err code, const char *text)
{
    part(m, GROUP_ABORT_NOBODY, code, text);
}

/* The core has failed: what is said of it from now on. */
static void
note_end(struct mesh *mesh)
{
    const ps_group *g = mesh->group;
    struct ps_error why;

    mesh->mine = (struct mesh_end){.group = g->table.id,
                                   .epoch = g->table.epoch,
                                   .guilty = group_core_guilty(g->core),
                                   .code = group_core_state(g->core, &why)};
    snprintf(mesh->mine.text, sizeof mesh->mine.text, "%.*s", GROUP_ABORT_TEXT_MAX, why.text);
}

/* Whether the forming that it comes for has failed here. */
static bool
comes_too_late(struct mesh *mesh, const struct group_hello *h)
{
    const ps_group *g = mesh->group;

    if (g->core != NULL && group_core_state(g->core, NULL) != PS_OK && h->group == g->table.id)
        note_end(mesh);
    return mesh->mine.code != PS_OK && h->group == mesh->mine.group && h->epoch == mesh->mine.epoch;
}

static bool
is_loopback(const struct sockaddr *to)
{
    const struct sockaddr_in *v4 = (const void *)to;
    const struct sockaddr_in6 *v6 = (const void *)to;

    if (to->sa_family == AF_INET)
        return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return to->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

/* The door started it without knowing who it was. */
static void
guest_congestion(struct mesh_conn *m)
{
    struct sockaddr_storage from;
    int len = sizeof from;
    const char *congestion;

    if (uv_tcp_getpeername(&m->conn->u.tcp, (struct sockaddr *)&from, &len) != 0)
        return;
    if ((congestion = group_congestion(m->mesh->group, is_loopback((struct sockaddr *)&from))) != NULL)
        conn_congestion(m->conn, congestion);
}

/* Now that the table is known: is it one of the others? One of another epoch may be early, or late. */
static void
guest_look(struct mesh_conn *m)
{
    ps_group *g = m->mesh->group;
    const struct group_hello *h = &m->hello;
    const struct group_table *t = &g->table;
    struct group_hello own;

    if (comes_too_late(m->mesh, h)) {
        part(m, m->mesh->mine.guilty, m->mesh->mine.code, m->mesh->mine.text);
        return;
    }
    if (g->links == NULL || h->epoch > MAX(t->epoch, g->passed))
        return;
    if (h->group != t->id || h->epoch != t->epoch || h->ranks != t->ranks) {
        guest_refuse(m, PS_ERR_CLUSTER, "this is another forming of the group");
    } else if (h->to != t->rank || h->rank <= t->rank || h->rank >= t->ranks ||
               h->incarnation != t->members[h->rank].incarnation) {
        guest_refuse(m, PS_ERR_CLUSTER, "the group has no such rank");
    } else if (g->links[h->rank] != NULL) {
        guest_refuse(m, PS_ERR_TASK_TAKEN, "this rank is connected already");
    } else if (!m->mesh->joining) {
        guest_refuse(m, PS_ERR_CLUSTER, "this epoch of the group has begun without it");
    } else {
        m->rank = h->rank;
        own = hello_to(g, h->rank);
        guest_congestion(m);
        take_offer(m, &own);
        if (greet(m->conn, MSG_GROUP_WELCOME, &own))
            mesh_up(m);
        else
            mesh_drop(m); /* it says so to its side, which fails */
    }
}

static void
guest_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct mesh_conn *m = c->arg;
    struct mesh_end end = {.group = m->hello.group, .epoch = m->hello.epoch};

    (void)payload;
    if (m->gone)
        return;
    if (head->type == MSG_GROUP_ABORT &&
        group_abort_decode(head, meta, &end.code, &end.guilty, end.text, NULL) == PS_OK) {
        m->mesh->told = end;
        mesh_drop(m);
        return;
    }
    guest_refuse(m, PS_ERR_PROTOCOL, "it did not wait for its welcome");
}

static void
guest_ended(struct conn *c, const struct ps_error *why)
{
    struct mesh_conn *m = c->arg;

    (void)why;
    if (!m->gone)
        mesh_drop(m);
}

static const struct conn_events guest_events = {.frame = guest_frame, .ended = guest_ended};

/* How many wait for a table is bounded: more of them than there can be ranks are not of one. */
static void
guests_trim(struct mesh *mesh)
{
    struct mesh_conn *oldest = NULL;
    uint32_t n = 0;

    for (struct mesh_conn *m = mesh->conns; m != NULL; m = m->next)
        if (m->state == MESH_GUEST) {
            oldest = m; /* newest first */
            n++;
        }
    if (n > PS_GROUP_RANKS_MAX)
        mesh_drop(oldest);
}

/* A hello came through the door. */
static void
guest_come(void *arg, struct conn *c, const struct frame_head *head, const void *meta)
{
    struct mesh *mesh = arg;
    ps_group *g = mesh->group;
    struct mesh_conn *m = calloc(1, sizeof *m);
    struct ps_error e;

    if (m == NULL) {
        conn_close(c, door_conn_closed);
        return;
    }
    m->mesh = mesh;
    m->state = MESH_GUEST;
    m->conn = c;
    m->next = mesh->conns;
    mesh->conns = m;
    c->events = &guest_events;
    c->arg = m;
    group_conn_made(g);
    if (group_hello_decode(head, meta, &m->hello, &e) != PS_OK)
        guest_refuse(m, e.code, e.text);
    else if (strcmp(m->hello.cluster, g->cluster_name) != 0 || strcmp(m->hello.name, g->options.name) != 0)
        guest_refuse(m, PS_ERR_CLUSTER, "this is a rank of another cluster or group");
    else
        guest_look(m);
    if (mesh->conns != NULL)
        guests_trim(mesh);
}

/* ---- To lower ranks ---- */

static void connect_to(struct mesh_conn *m);

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

/* It does not want this rank, or the group has failed for it already. */
static void
lower_abort(struct mesh_conn *m, enum ps_err code, uint32_t guilty, const char *text)
{
    struct mesh *mesh = m->mesh;
    struct ps_error e;

    if (guilty >= mesh->group->table.ranks) {
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
    const struct group_table *t = &m->mesh->group->table;
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
    else {
        if (h.share_token == 0 || h.share_token != m->share.token)
            share_finish(&m->share); /* it could not find it */
        mesh_up(m);
    }
}

static void
lower_ended(struct conn *c, const struct ps_error *why)
{
    struct mesh_conn *m = c->arg;

    if (!m->gone)
        lower_fail(m, why->code, why->text, NULL);
}

/* What had to be proven is. */
static void
lower_admitted(struct conn *c, enum role role, const char *token)
{
    struct mesh_conn *m = c->arg;
    struct group_hello h;

    (void)role;
    (void)token;
    if (m->gone)
        return;
    h = hello_to(m->mesh->group, m->rank);
    offer(m, &h);
    m->state = MESH_GREETING;
    if (!greet(m->conn, MSG_GROUP_HELLO, &h))
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
            connect_to(m);
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

/* What came of a connection to a higher rank, which is not wanted any more. */
static void
knocked(struct mesh_conn *m, int status)
{
    struct mesh *mesh = m->mesh;
    uint32_t rank = m->rank;
    struct ps_error e;

    mesh_drop(m);
    mesh->refused[rank] = status == UV_ECONNREFUSED ? mesh->refused[rank] + 1 : 0;
    if (mesh->refused[rank] < MESH_KNOCKS || mesh->group->links[rank] != NULL)
        return;
    ps_error_set(&e, PS_ERR_UNREACHABLE, "it met the others, and has gone since: nobody listens there");
    mesh_fail(mesh, rank, &e);
}

static void
connected(uv_connect_t *req, int status)
{
    struct mesh_conn *m = CONTAINER_OF(req, struct mesh_conn, connect);
    ps_group *g = m->mesh->group;

    if (m->gone)
        return;
    if (m->state == MESH_KNOCKING) {
        knocked(m, status);
        return;
    }
    if (status != 0) {
        lower_refused(m, status);
        return;
    }
    m->state = MESH_PROVING;
    if (conn_start(m->conn, group_congestion(g, m->loopback)) != PS_OK ||
        conn_pass_connect(m->conn, ROLE_TRAIN) != PS_OK)
        lower_fail(m, PS_ERR_NOMEM, "no memory for a greeting", NULL);
}

/* The next try gets a socket of its own. */
static void
connect_to(struct mesh_conn *m)
{
    ps_group *g = m->mesh->group;
    struct sockaddr_storage to = {0};
    struct address address;
    struct conn *c = malloc(sizeof *c);
    struct ps_error e;
    int status;

    if (c == NULL || conn_init(c, &g->pool, false, &lower_events, m) != PS_OK) {
        free(c);
        if (m->state == MESH_KNOCKING)
            knocked(m, UV_ENOMEM);
        else
            lower_fail(m, PS_ERR_NOMEM, "no memory or no descriptor for a connection", NULL);
        return;
    }
    m->conn = c;
    if (m->state != MESH_KNOCKING)
        m->state = MESH_CONNECTING;
    group_conn_made(g);
    if (address_parse(g->table.members[m->rank].address, &address, NULL) != PS_OK ||
        (uv_ip4_addr(address.host, address.port, (struct sockaddr_in *)&to) != 0 &&
         uv_ip6_addr(address.host, address.port, (struct sockaddr_in6 *)&to) != 0)) {
        lower_fail(m, PS_ERR_PROTOCOL, "its address is no number", NULL);
        return;
    }
    m->loopback = is_loopback((struct sockaddr *)&to);
    if (m->state != MESH_KNOCKING && credentials_connect(&g->credentials, c, address.host, &e) != PS_OK) {
        lower_fail(m, e.code, e.text, NULL);
        return;
    }
    if ((status = uv_tcp_connect(&m->connect, &c->u.tcp, (struct sockaddr *)&to, connected)) == 0)
        return;
    if (m->state == MESH_KNOCKING)
        knocked(m, status);
    else
        lower_refused(m, status);
}

static bool
is_knocked_at(const struct mesh *mesh, uint32_t rank)
{
    for (const struct mesh_conn *m = mesh->conns; m != NULL; m = m->next)
        if (m->state == MESH_KNOCKING && m->rank == rank)
            return true;
    return false;
}

static void
knock(uv_timer_t *timer)
{
    struct mesh *mesh = timer->data;
    const ps_group *g = mesh->group;

    for (uint32_t r = g->table.rank + 1; mesh->joining && r < g->table.ranks; r++) {
        struct mesh_conn *m;

        if (g->links[r] != NULL || is_knocked_at(mesh, r) || (m = calloc(1, sizeof *m)) == NULL)
            continue;
        *m = (struct mesh_conn){.mesh = mesh, .state = MESH_KNOCKING, .rank = r, .next = mesh->conns};
        mesh->conns = m;
        connect_to(m);
    }
}

/* ---- Joining ---- */

static bool
joined_or_failed(void *arg)
{
    struct mesh *mesh = arg;
    ps_group *g = mesh->group;

    return mesh->up + 1 == g->table.ranks || group_core_state(g->core, NULL) != PS_OK;
}

uint32_t
mesh_waiting(const ps_group *g)
{
    uint32_t n = g->mesh != NULL ? 2 : 0;

    for (const struct mesh_conn *m = n > 0 ? g->mesh->conns : NULL; m != NULL; m = m->next)
        n += m->state == MESH_GUEST;
    return n;
}

void
mesh_pass(ps_group *g)
{
    for (struct mesh_conn *m = g->mesh->conns, *next; m != NULL; m = next) {
        next = m->next;
        if (m->state == MESH_GUEST)
            guest_look(m);
    }
}

/* Somebody has said already why this forming fails. */
static bool
was_told(struct mesh *mesh)
{
    const struct mesh_end *end = &mesh->told;
    const struct group_table *t = &mesh->group->table;
    struct ps_error e;

    if (end->code == PS_OK || end->group != t->id || end->epoch != t->epoch || end->guilty >= t->ranks)
        return false;
    ps_error_set(&e, end->code, "%s", end->text);
    mesh_fail(mesh, end->guilty, &e);
    return true;
}

static void
begin(struct mesh *mesh)
{
    ps_group *g = mesh->group;

    if (was_told(mesh)) {
        mesh_pass(g); /* so that others hear it */
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
        connect_to(m);
    }
    mesh_pass(g);
}

/* The deadline passed: who is not there? */
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
    mesh->joining = true;
    memset(mesh->refused, 0, sizeof mesh->refused);
    uv_timer_start(&mesh->knocking, knock, MESH_KNOCK_MS, MESH_KNOCK_MS);
    begin(mesh);
    if (!group_run_until(g, joined_or_failed, mesh, deadline_ms))
        blame_missing(mesh, start_ms);
    mesh->joining = false;
    uv_timer_stop(&mesh->timer);
    uv_timer_stop(&mesh->knocking);
    if (group_core_state(g->core, NULL) != PS_OK)
        note_end(mesh);
    for (struct mesh_conn *m = mesh->conns, *next; m != NULL; m = next) {
        next = m->next;
        if (m->state == MESH_GREETING)
            part(m, mesh->mine.guilty, mesh->mine.code, mesh->mine.text);
        else if (m->state != MESH_GUEST)
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
    uv_timer_init(&g->loop, &mesh->knocking);
    mesh->timer.data = mesh->knocking.data = mesh;
    group_conn_made(g);
    group_conn_made(g);
    g->mesh = mesh;
    door_for(&g->door, MSG_GROUP_HELLO, guest_come, mesh);
    return PS_OK;
}

void
mesh_close(ps_group *g)
{
    struct mesh *mesh = g->mesh;

    if (mesh == NULL)
        return;
    door_for(&g->door, MSG_GROUP_HELLO, NULL, NULL);
    while (mesh->conns != NULL)
        mesh_drop(mesh->conns);
    uv_close((uv_handle_t *)&mesh->timer, timer_closed);
    uv_close((uv_handle_t *)&mesh->knocking, timer_closed);
}

void
mesh_free(ps_group *g)
{
    free(g->mesh);
    g->mesh = NULL;
}
