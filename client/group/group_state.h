/* What the rooms of a group share: a group is a table of who is in it, links to all of them, a core that decides, and a
 * libuv loop that carries it all.
 *
 *     ps_group_open():   group_new ─► door_open ─► formation_meet ─► mesh_join ─► group_core_new
 *     ps_group_reform(): the old epoch's links end ─────► formation_meet ─► mesh_join ─► group_core_new
 *
 * Every public call goes  group_enter() ... group_leave(). Without a progress thread these cost nothing and the caller
 * runs the loop while it waits; with one they hold the group's mutex, and the caller waits on a condition that the
 * thread signals. */
#ifndef CLIENT_GROUP_GROUP_STATE_H
#define CLIENT_GROUP_GROUP_STATE_H

#include <pthread.h>
#include <uv.h>

#include "client/group/door.h"
#include "client/group/link.h"
#include "client/group/table.h"
#include "client/ps_group.h"
#include "common/conn.h"

struct group_core;
struct formation;
struct mesh;

struct ps_group {
    /* what it was opened with */
    struct ps_group_options options; /* defaults filled in; strings are the group's own; incarnation is never 0 */
    const ps_cluster *cluster;       /* the group's own copy; NULL in tests that bring a table */
    char *cluster_name;

    /* the loop */
    uv_loop_t loop;
    struct conn_pool pool;
    uv_timer_t timer;      /* ends a sleep of the loop */
    uint64_t timer_due_ms; /* 0: not set, or it rang */
    uint32_t conns;        /* libuv still has these connections: links that are ending included */
    bool looped;

    /* who is there */
    struct door door;
    struct formation *formation; /* formation.c's own; it frees it in formation_finish() */
    struct mesh *mesh;
    struct group_table table; /* of this epoch; ranks 0: of none yet */
    struct link **links;      /* [table.ranks], NULL for this rank */
    struct group_core *core;  /* NULL: not formed */
    struct ps_error failed;   /* why there is no core, when forming failed */

    /* the progress thread */
    bool threaded, stop, wake;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uv_async_t async;
};

/* ---- group.c ---- */

void group_enter(const ps_group *g);
void group_leave(const ps_group *g);

/* Run the loop until ready(arg) or the time (loop time, uv_now(); the timer wakes it); false: the time came. For
 * forming and ending, when no progress thread runs. Callbacks of the loop may change what ready() looks at. */
bool group_run_until(ps_group *g, bool (*ready)(void *arg), void *arg, uint64_t until_ms);

/* ---- formation.c ---- */

/* Meet the others at the cluster's meeting, until deadline_ms (loop time); g->door is open. On PS_OK *out is a table
 * that group_table_check() takes, with this process at its rank, which the caller finishes; after an error nothing is
 * left under way, and it may be called again. epoch: of the group that this rank was last in, 0: none; the new one is
 * greater. Errors as ps_group_open() says. */
enum ps_err formation_meet(ps_group *g, uint32_t ranks_min, uint64_t epoch, uint64_t deadline_ms,
                           struct group_table *out, struct ps_error *e) PS_MUST_USE;

/* The group ends: free what is kept between meetings. The loop runs afterwards until all handles are closed. */
void formation_finish(ps_group *g);

/* What group_member.host is on this machine, in this process. */
void formation_host(char out[GROUP_HOST_MAX]);

/* ---- mesh.c ---- */

/* Connect to all others of the table, until deadline_ms (loop time); g->door is open. On PS_OK g->links are there.
 * Errors, each with the rank's name as peer: TIMEOUT (a rank did not come, or did not answer), UNREACHABLE, CLUSTER,
 * VERSION, PROTOCOL, NOMEM. After an error no link is left. */
enum ps_err mesh_join(ps_group *g, const struct group_table *t, uint64_t deadline_ms, struct ps_error *e) PS_MUST_USE;

/* ---- For tests: a group of a table that is brought along ---- */

/* door: where this rank listens already ("127.0.0.1:0" was opened by group_new_listening()). */
enum ps_err group_new(const char *cluster, const struct ps_group_options *options, ps_group **out,
                      struct ps_error *e) PS_MUST_USE;
enum ps_err group_listen(ps_group *g, const char *listen, struct ps_error *e) PS_MUST_USE;
enum ps_err group_form_table(ps_group *g, const struct group_table *t, struct ps_error *e) PS_MUST_USE;

#endif
