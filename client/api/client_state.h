/* What libpsclient's glue shares: a client is a core, a libuv loop that carries its frames, and perhaps a thread that
 * runs the loop.
 *
 * Every public call goes  client_enter() ... core calls, client_perform() ... client_leave(). Without a progress thread
 * these cost nothing and the caller runs the loop while it waits; with one they hold the client's mutex, and the caller
 * waits on a condition that the thread signals (progress.c). */
#ifndef CLIENT_API_CLIENT_STATE_H
#define CLIENT_API_CLIENT_STATE_H

#include <stdatomic.h>
#include <uv.h>

#include "client/api/client_internal.h"
#include "client/api/credentials.h"
#include "client/api/interrupt.h"
#include "client/api/loop_timer.h"
#include "client/api/progress.h"
#include "client/core/shards/core.h"
#include "client/include/psclient/psclient.h"
#include "common/core/base/adaptive_spin.h"
#include "common/net/conn.h"
#include "common/net/loop_wakeup.h"

struct net_conn;
struct net_out;
struct resolve;

/* Where one shard is, and the connection to it, if there is one. */
struct net_link {
    ps_client *client;
    uint32_t shard;
    struct address address;
    char *text;              /* the address as given */
    uint32_t addresses;      /* that its name had when it was last looked up; 0: never */
    uint32_t attempts;       /* which of them comes next */
    struct resolve *resolve; /* its name is being looked up, */
    bool wants_address;      /* and a connection waits for that */
    struct net_conn *conn;   /* NULL: none */
    uint32_t outs;           /* frames handed to conn and not reported sent */
    bool flush;              /* frames were queued and are to be written */
    uint32_t held_pushes;    /* frames that were queued and may wait for the next ones, */
    uint32_t held_pulls;
    size_t held_bytes; /* and how long they are, with the answers to pulls; none: 0 */
};

#define NET_HOLD_BYTES (16 * KIB) /* small pushes and pulls that wait for each other before they are written */

struct ps_var {
    ps_client *client;
    struct core_var *core;
    struct ps_var *next;
};

struct ps_op {
    ps_client *client;
    struct core_op *core;
    uint64_t start;            /* which of client->starts it was; 0: none, it is never held */
    uint64_t waited_ms;        /* its waits up to now, all together */
    struct ps_op *prev, *next; /* the client's list; next alone when free */
};

struct ps_client {
    struct core *core;
    struct ps_client_options options; /* defaults filled in; strings are the client's own */
    uv_loop_t loop;
    struct conn_pool pool;
    struct credentials credentials;
    struct loop_timer timer; /* ends a wait */
    struct loop_wakeup news; /* keeps a wait from sleeping on what a timer did */
    struct interrupt_watch interrupt;
    struct net_link *links; /* [shards] */
    uint32_t shards;
    bool waits_for_shards; /* that are still starting, when it opens */
    bool notices;          /* what no call reports goes to stderr */
    long task;             /* of the worker; -1: none */
    bool recorded;         /* it is open in the trace recorder (trace_recorder.h) */
    struct net_out *free_outs;
    uint32_t conns;   /* that exist, closing ones included */
    uv_async_t woken; /* some name was looked up, or `interrupted`; there when `wakes` */
    bool wakes;
    atomic_bool interrupted; /* by ps_client_interrupt() */
    bool performing;
    bool holding;       /* what is performed is the start of a push or pull: it may wait for the next one */
    uint64_t starts;    /* of those, counted */
    uint64_t held_from; /* while messages are held: the first start that may be held */
    bool wake;          /* something was done that the progress thread's loop must know of */
    uint64_t activity;  /* counts the loop's callbacks */
    uint64_t known;     /* its value when the loop's turn began */
    uint64_t waited_us;
    struct adaptive_spin patience; /* without a progress thread */

    struct ps_var *vars;
    struct ps_op *ops, *free_ops;
    struct core_var **scratch; /* of one call's variables */
    size_t scratch_room;

    struct progress_progress progress;
};

/* ---- client.c ---- */

void client_enter(const ps_client *c);
void client_leave(const ps_client *c);

/* Carry out the core's actions. Within client_enter(). */
void client_perform(ps_client *c);

/* Small pushes and pulls that were held go out. Within client_enter(). */
void client_release(ps_client *c);
bool client_has_held(const ps_client *c); /* there are some */

/* ---- client_options.c ---- */

/* PS_ERR_INVALID, PS_ERR_CONFIG. */
enum ps_err client_options_check(const struct ps_client_options *o, const ps_cluster *cluster,
                                 struct ps_error *e) PS_MUST_USE;

/* Into c->options, strings as copies, with what the environment and the cluster say; credentials are opened. NULL: all
 * by default. */
enum ps_err client_options_take(ps_client *c, const ps_cluster *cluster, const struct ps_client_options *options,
                                struct ps_error *e) PS_MUST_USE;

/* ---- client_wait.c ---- */

/* Let the network move once, waiting up to until_ms (loop time). Not with a progress thread. */
void client_turn(ps_client *c, bool wait, uint64_t until_ms);

/* With a progress thread, which drives the client from now on. */
enum ps_err client_progress(ps_client *c, struct ps_error *e) PS_MUST_USE;
struct progress_status client_progress_status(const ps_client *c);

/* Wait until ready(arg) or the deadline (loop time); false: the deadline came, or an interrupt. near(arg), if not NULL,
 * is called once a little before. Within client_enter(). */
struct client_wait {
    bool (*ready)(void *arg);
    void (*near)(void *arg);
    void *arg;
    const struct core_op *op; /* that is waited for, or the first of them, for the timeline; NULL: none */
    bool at_once;             /* it is, or may be, held itself: what is held goes out first of all */
    uint64_t waited_ms;       /* filled in: how long it was, at least the whole time-out when that ended it */
};
bool client_wait(ps_client *c, struct client_wait *w, uint64_t timeout_ms);

/* Whether waits of this client end, by ps_client_interrupt() or ps_interrupt(). What is there already is still taken.
 */
bool client_is_interrupted(const ps_client *c);

/* After a wait that did not come to its end, the error that it has: CANCELLED in its place if it was interrupted. */
enum ps_err client_unfinished(const ps_client *c, enum ps_err err, struct ps_error *e);

/* ---- calls_ops.c; within client_enter() ---- */

/* A handle of the client's, to be given a core operation; NULL: out of memory. */
struct ps_op *call_new(ps_client *c);
void call_free(struct ps_op *op);

/* The end of every start: what it made goes out; a failed one leaves no handle. */
enum ps_err call_started(struct ps_op *op, enum ps_err err, ps_op **out) PS_MUST_USE;

/* The same of a push or pull that may be held for a while (psclient.h, "Small pushes and pulls"). */
enum ps_err call_held_started(struct ps_op *op, enum ps_err err, ps_op **out) PS_MUST_USE;

/* Until it is done or the time is over. */
enum ps_err call_wait(ps_op *op, uint64_t timeout_ms, struct ps_error *e) PS_MUST_USE;

/* The blocking form of a call, not within client_enter(): wait for what was started, and free it. timeout_ms: as in
 * ps_op_wait(). */
enum ps_err call_finish(ps_op *op, int timeout_ms, struct ps_error *e) PS_MUST_USE;

/* PS_ERR_INVALID when one of these is NULL. */
enum ps_err call_need(const ps_client *c, const void *out, struct ps_error *e) PS_MUST_USE;

/* ---- calls.c ---- */

/* A handle for what is to be started, and the client entered; NULL with *err set, and not entered. */
struct ps_op *call_begin(ps_client *c, const char *what, const void *out, enum ps_err *err, struct ps_error *e);

/* The core's variables of a call; NULL with *err set. Within client_enter(). */
struct core_var **call_vars(ps_client *c, size_t n, ps_var *const vars[], enum ps_err *err, struct ps_error *e);

/* Options of blocking forms: 0 stands for the client's default, which a wait calls -1. */
int call_timeout(int timeout_ms);

/* ---- calls_variables.c; within client_enter() ---- */

/* The client's handle of a variable; NULL: out of memory. */
struct ps_var *client_var(ps_client *c, struct core_var *core);

/* ---- admin.c; within client_enter() ---- */

/* The start and end of every query. NULL: out of memory. */
struct ps_op *admin_query_new(ps_client *c, struct ps_error *e);
void admin_query_free(struct ps_op *op);

/* ---- net.c ---- */

enum ps_err net_init(ps_client *c, const ps_cluster *cluster, struct ps_error *e) PS_MUST_USE;
void net_close(ps_client *c);  /* all connections, and what else is in the loop */
void net_finish(ps_client *c); /* when it is closed */
void net_connect(struct net_link *n);
void net_disconnect(struct net_link *n);
void net_finish_link(struct net_link *n); /* after what was queued is sent */
void net_send(struct net_link *n, struct core_send *send);
void net_discard(struct net_link *n);
void net_flush(struct net_link *n);

#endif
