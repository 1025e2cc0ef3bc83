/* What the modules of a group share: a group is a table of its members, links to all of them, a core that decides, and
 * a libuv loop that carries it all.
 *
 *     ps_group_open():   group_new ─► form_meet (opens the acceptor) ─► group_form
 *     ps_group_reform(): group_unform ─► form_meet ─► group_form
 *     ps_group_admit():  form_meet ─► all have met ─► group_unform ─► group_form
 *     ps_group_close():  group_unform ─► group_free
 *
 *     group.c       its life
 *     wait.c        its loop, waiting
 *     group_calls.c operations and works: the public calls
 *     open.c        opening and forming again: the public calls
 *     admit.c       forming again without giving up the formed group: the public call
 *     form.c        meeting the other ranks
 *     mesh.c        connecting to all of them
 *
 * Every public call goes  group_enter() ... group_leave(). Without a progress thread these cost nothing and the caller
 * runs the loop while it waits; with one they hold the group's mutex, and the caller waits on a condition that the
 * thread signals. */
#ifndef CLIENT_GROUP_GROUP_STATE_H
#define CLIENT_GROUP_GROUP_STATE_H

#include <uv.h>

#include "client/api/interrupt.h"
#include "client/api/loop_timer.h"
#include "client/api/progress.h"
#include "client/core/group/group_core.h"
#include "client/group/links/copy_policy.h"
#include "client/group/links/rank_link.h"
#include "client/group/rendezvous/acceptor.h"
#include "client/group/rendezvous/membership.h"
#include "client/include/psclient/ps_group.h"
#include "common/core/base/adaptive_spin.h"
#include "common/core/format/timeline.h"
#include "common/net/conn.h"
#include "common/net/loop_wakeup.h"

struct group_form;
struct mesh;
struct rendezvous_ask;

struct ps_group {
    /* what it was opened with */
    struct ps_group_options options; /* defaults filled in; strings are the group's own; incarnation is never 0 */
    ps_cluster *cluster;             /* the group's own copy; NULL in tests that bring a table */
    char *cluster_name;

    /* the loop */
    uv_loop_t loop;
    struct conn_pool pool;
    struct credentials credentials;
    struct loop_timer timer; /* ends a sleep of the loop */
    struct loop_wakeup news; /* keeps a wait from sleeping on what a timer did */
    struct interrupt_watch interrupt;
    bool (*ready)(void *); /* what is waited for outside of operations */
    void *ready_arg;
    uint32_t conns; /* connections and links that libuv still has, those that are ending included */
    bool looped;
    bool recorded;                 /* it is open in the trace recorder (trace_recorder.h) */
    bool crowded;                  /* more ranks are on this machine than it has processors */
    struct adaptive_spin patience; /* without a progress thread */

    /* its members */
    struct acceptor acceptor;
    struct group_form *form; /* form.c's own */
    struct mesh *mesh;
    struct group_membership table; /* of this epoch; ranks 0: of none yet */
    struct copy_policy copying;    /* of links through shared memory */
    struct rank_link **links;      /* [table.ranks], NULL for this rank and for those that have ended */
    struct group_core *core;       /* NULL: not formed */
    struct ps_error failed;        /* why there is no core */
    uint64_t epoch;                /* of the last table */
    uint64_t passed;               /* tables up to this epoch, other than `table`, form nothing any more */

    /* what goes out */
    uint32_t outs; /* frames that links have */
    bool performing;
    uint32_t flush_len;
    uint16_t flush[PS_GROUP_RANKS_MAX]; /* links that were given frames */
    bool flushing[PS_GROUP_RANKS_MAX];

    /* works */
    struct ps_work *live_works, *free_works; /* those that their owners have, and those that nobody has */

    struct progress_progress progress;
    uint64_t activity; /* counts the loop's callbacks */
    uint64_t known;    /* its value when the loop's turn began */
};

struct ps_work {
    ps_group *group;
    enum timeline_kind time; /* what a wait for it is a wait for */
    uint64_t waited_ms;      /* its waits up to now, all together */
    struct group_work *core; /* NULL: ended, with result */
    enum ps_err result;
    struct ps_error error; /* of one that outlived its epoch */
    struct ps_work *prev, *next;
};

/* ---- group.c ---- */

/* Without an acceptor, a membership or others. options may be NULL; cluster_name: of the cluster, for greetings. */
enum ps_err group_new(const char *cluster_name, const struct ps_group_options *options, ps_group **out,
                      struct ps_error *e) PS_MUST_USE;

/* Listen at "host:port" (acceptor.h); mesh.c waits for greetings there. Once; it stays open for all epochs. */
enum ps_err group_listen(ps_group *g, const char *listen, struct ps_error *e) PS_MUST_USE;

/* Connect to all others of a table, which is taken over in any case, until deadline_ms (loop time), and start the
 * progress thread if one is wanted. Errors as mesh_join(); then the group is without an epoch, as before. */
enum ps_err group_form(ps_group *g, struct group_membership *t, uint64_t deadline_ms, struct ps_error *e) PS_MUST_USE;

/* End this epoch: say goodbye (unless it has failed), wait until the links have ended (RANK_LINK_LINGER_MS), stop the
 * thread. Works that were not freed keep their result. */
void group_unform(ps_group *g);

/* Without an epoch. Closes the acceptor and all that is left, and frees. */
void group_free(ps_group *g);

void group_enter(const ps_group *g);
void group_leave(const ps_group *g);

/* Carry out the core's actions. Not from within a link's done() or dest(). */
void group_perform(ps_group *g);

/* The events of every link of the group. */
extern const struct rank_link_events group_link_events;

/* "reno" to loopback, unless options.congestion says otherwise; NULL: the system's own. */
const char *group_congestion(const ps_group *g, bool loopback);

/* ---- wait.c ---- */

/* Run the loop until ready(arg) or the time (loop time, uv_now(); the timer wakes it); false: the time came. For
 * forming and ending, when no progress thread runs. Callbacks of the loop may change what ready() looks at. */
bool group_run_until(ps_group *g, bool (*ready)(void *arg), void *arg, uint64_t until_ms);

/* Whether waits of a group that has not failed end by ps_interrupt(). */
bool group_is_interrupted(const ps_group *g);

/* This rank does not go on: the group fails with CANCELLED, everywhere. It is formed, or is being formed. */
void group_interrupt(ps_group *g);

/* Let everything move once without waiting. Within group_enter(), without a thread. */
void group_turn(ps_group *g);

/* Before and after the loop sleeps (rank_link.h). False: something is there already. */
bool group_sleep(ps_group *g);
void group_wake(ps_group *g);

/* With a progress thread, which drives the group from now on. */
struct progress_status group_progress_status(const ps_group *g);
enum ps_err group_progress(ps_group *g, struct ps_error *e) PS_MUST_USE;

/* Until the work is done or timeout_ms have passed; false: they have, or ps_interrupt() came and the group has not
 * failed yet. Within group_enter(). */
bool group_wait_work(ps_group *g, const struct ps_work *work, uint64_t timeout_ms);

/* Another connection or link of this group exists, or has closed. */
static inline void
group_conn_made(ps_group *g)
{
    g->conns++;
}

static inline void
group_conn_gone(ps_group *g)
{
    ps_assert(g->conns > 0);
    g->conns--;
}

/* ---- form.c ---- */

/* Meet the others at the cluster's rendezvous, until the deadline. Opens the acceptor if it is not open: at
 * options.listen or where that says. On PS_OK *out is a table that group_membership_check() takes, with this process at
 * its rank, which the caller finishes or hands on; after an error nothing is left under way, and it may be called
 * again. ask->epoch: of the group that this rank was last in, 0: none; the new one is greater. No progress thread runs.
 * While the group is formed it goes on being driven, and its failure ends the meeting. Errors as ps_group_open(). */
enum ps_err form_meet(ps_group *g, const struct rendezvous_ask *ask, struct group_membership *out,
                      struct ps_error *e) PS_MUST_USE;

/* The group ends: free what is kept between meetings. The loop runs afterwards until g->conns is 0, so connections that
 * are still closing must be counted there (group_conn_made()). Accepts a group that never met. */
void form_finish(ps_group *g);

/* What group_member.host is on this machine, in this process. */
void form_host(char out[GROUP_HOST_MAX]);

/* ---- mesh.c ---- */

enum ps_err mesh_new(ps_group *g, struct ps_error *e) PS_MUST_USE;
void mesh_close(ps_group *g); /* what it has open; the loop runs afterwards until g->conns is 0 */
void mesh_free(ps_group *g);

/* Connect to all others of g->table, until deadline_ms (loop time); g->core is there, the acceptor is open. On PS_OK
 * g->links are all there. Errors, each with the rank's name as peer: TIMEOUT (a rank did not come, or did not answer),
 * UNREACHABLE, CLOSED, CLUSTER, VERSION, PROTOCOL, NOMEM; the core has failed then, and has notified those that are
 * there.
 */
enum ps_err mesh_join(ps_group *g, uint64_t deadline_ms, struct ps_error *e) PS_MUST_USE;

/* Joined: whether all ranks would share memory with those of their host, as their options say. */
bool mesh_all_share(const ps_group *g);

/* How many of g->conns are the mesh's and no link's: its timers, and incoming ranks that wait for a table. 0 without
 * one.
 */
uint32_t mesh_waiting(const ps_group *g);

/* g->passed has risen: incoming ranks that wait for a table that is passed are refused. */
void mesh_pass(ps_group *g);

#endif
