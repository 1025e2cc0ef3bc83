/* What the modules of the mesh share: the connections that are not links yet.
 *
 *     mesh.c          joining, from the table until all links are there; its life
 *     mesh_accept.c   higher ranks, through the acceptor
 *     mesh_connect.c  lower ranks, and probing higher ones
 *     mesh_conn.c     the frames on a connection, and how it becomes a link */
#ifndef CLIENT_GROUP_LINKS_MESH_INTERNAL_H
#define CLIENT_GROUP_LINKS_MESH_INTERNAL_H

#include "client/core/group/group_wire.h"
#include "client/group/group_state.h"
#include "common/net/shm_ring.h"

/*
 *     from the acceptor:  MESH_INCOMING ─► link
 *     to a lower rank:    MESH_CONNECTING ──► MESH_PROVING, where there is a token ──► MESH_GREETING ──► link
 *                               └─► MESH_RETRY ─┘ refused
 *     to a higher one:    MESH_PROBING: it only shows whether anybody listens there */
enum mesh_state { MESH_INCOMING, MESH_CONNECTING, MESH_PROVING, MESH_GREETING, MESH_RETRY, MESH_PROBING };

struct mesh_conn {
    struct mesh *mesh;
    enum mesh_state state;
    struct conn *conn; /* NULL in MESH_RETRY */
    uint32_t rank;     /* of the other side; an incoming rank's when it is known to be in the table */
    unsigned tries;
    bool loopback, gone;
    struct group_hello hello; /* an incoming rank's */
    struct shm_ring shm;      /* memory with the other side; zeroed: none */
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
    bool all_share;           /* this rank, and those that have greeted it: group_hello.shares */
    uint32_t up;              /* links */
    struct mesh_end own_end;  /* the last that failed here */
    struct mesh_end peer_end; /* the last that another rank reported, before the table was known here */
    struct mesh_conn *conns;
    uv_timer_t timer;                           /* for those that try again */
    uv_timer_t probe_timer;                     /* at those that have not come */
    uint8_t probes_refused[PS_GROUP_RANKS_MAX]; /* probes, one after the other */
};

/* ---- mesh.c ---- */

/* The core has failed: keep the reason, which is given to late ranks from now on. */
void mesh_note_end(struct mesh *mesh);

/* ---- mesh_accept.c ---- */

/* A hello came through the acceptor; arg: the mesh. */
void mesh_accept_hello(void *arg, struct conn *c, const struct frame_head *head, const void *meta);

/* Now that the table is known: is it one of the others? One of another epoch may be early, or late. */
void mesh_accept_check(struct mesh_conn *m);

/* ---- mesh_connect.c ---- */

/* To the rank m->rank, which is known by the table. The next try gets a socket of its own. */
void mesh_connect(struct mesh_conn *m);
void mesh_probe(uv_timer_t *timer); /* its data: the mesh */

/* ---- mesh_conn.c ---- */

void mesh_drop(struct mesh_conn *m); /* it is not wanted any more */
void mesh_fail(struct mesh *mesh, uint32_t guilty, const struct ps_error *e);
void mesh_refuse(struct mesh_conn *m, uint32_t guilty, enum ps_err code,
                 const char *text);                                  /* its last frame says why */
void mesh_link_up(struct mesh_conn *m, const struct group_hello *h); /* it is a link now, to a rank that said h */

/* Whether a rank that greets so carries operations out as this one does; else *e: VERSION. */
bool mesh_same_rules(const struct group_hello *h, struct ps_error *e);

struct group_hello mesh_hello(const ps_group *g, uint32_t to);
bool mesh_greet(struct conn *c, enum msg_type type, const struct group_hello *h); /* false: no memory */

/* Memory with the other side is offered in *h, where both are on one host; what was offered is taken, and said so in
 * *own. Where it cannot be had the connection carries all. */
void mesh_offer(struct mesh_conn *m, struct group_hello *h);
void mesh_take_offer(struct mesh_conn *m, struct group_hello *own);

#endif
