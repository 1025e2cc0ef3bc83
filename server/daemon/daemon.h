/* The daemon: the glue between the shard and the world. One libuv loop, one thread.
 *
 *     loop iteration:  timers → idle (background work) → poll: all read callbacks → check: end of the turn
 *
 *     read callback    frame → shard_step()                          peer.c
 *     end of the turn  shard_commit(), perform actions, flush        daemon.c
 *
 *                      listening          TERM, INT, DRAIN            shard has stopped        all connections closed
 *     DAEMON_STARTING ──────────► DAEMON_SERVING ────────► DAEMON_DRAINING ───────────► DAEMON_CLOSING ────────► gone
 *                                      │ HUP: options again           (save_schedule.h: changes are saved first)
 *                                      └──┘
 *
 * Modules: open_stores (from directories to a shard), daemon (loop, turns, timers, signals), listener (sockets that
 * accept), socket_activation (those that systemd has opened), access_policy (what connections have to prove;
 * keyring_file), peer (one connection), client_identity (whose it is), tls_listener (TLS), in_flight (the memory cap),
 * save_schedule (when to save), saver (how: a thread of its own), restore_requests (restores from checkpoints),
 * daemon_stats (for reports and metrics), http (metrics and health, on a thread of its own), notify (reports to
 * launchers and systemd), options, log; live_dir, durable_dir, env_pair (which data lies where, and whether it is
 * valid). */
#ifndef SERVER_DAEMON_DAEMON_H
#define SERVER_DAEMON_DAEMON_H

#include <uv.h>

#include "common/core/base/adaptive_spin.h"
#include "common/net/conn.h"
#include "server/core/shard/shard.h"
#include "server/core/store/store.h"
#include "server/daemon/client_identity.h"
#include "server/daemon/in_flight.h"
#include "server/daemon/restore_requests.h"
#include "server/daemon/save_schedule.h"
#include "server/daemon/tls_listener.h"
#include "server/process/options.h"

/* Connections past --connections-max that were closed and may still read why; one more ends the oldest at once. */
#define DAEMON_LINGERING_MAX 64

struct access_policy;
struct activated_sockets;
struct http;
struct peer;
struct listener;
struct open_stores;

enum daemon_state { DAEMON_STARTING, DAEMON_SERVING, DAEMON_DRAINING, DAEMON_CLOSING };

struct daemon {
    struct options *options;
    struct open_stores *stores; /* directories */
    struct store *store;
    struct shard *shard;
    const char *live_dir;
    struct http *http;                         /* borrowed, or NULL */
    struct access_policy *policy;              /* borrowed: which connections are admitted */
    const struct activated_sockets *activated; /* borrowed: sockets that were opened for this process */

    uv_loop_t loop;
    struct conn_pool pool;
    uv_check_t check;
    uv_idle_t idle;  /* keeps the loop from sleeping: background work, an open turn, polling */
    uv_timer_t wake; /* the shard's next time */
    uv_timer_t housekeeping;
    uv_timer_t watchdog; /* keep-alives to systemd, while it wants them */
    uv_signal_t term, interrupt, hangup;

    enum daemon_state state;
    bool turn_open, performing;
    bool signalled; /* TERM or INT came: the next one ends the process at once */
    bool time_due;  /* SHARD_TIME is due in this iteration of the loop, after what has arrived */
    uint64_t wake_at_ms;
    struct adaptive_spin spin;
    uint64_t quiet_ns, poll_until_ns; /* when the last turn ended, 0: one is open; until when the loop polls */
    uint64_t turn_ns;                 /* when the open turn began */

    struct listener *listeners;
    struct peer *peers;       /* hash by id */
    struct peer *flush_first; /* with something queued: in this turn, or values that gather */
    struct peer *turn_first;  /* those that had their share of this turn */
    uint64_t turn;
    /* To find out whether connections share the turns: the last turn with a message, and the connection that its first
     * message came on. A second connection in the same turn makes the next PEER_SHARED_TURNS turns shared. */
    uint64_t message_turn, message_peer;
    uint64_t shared_until; /* turns before this one are shared */
    uint64_t next_id;
    uint32_t opened_len;    /* that the shard knows of */
    struct peer *lingering; /* that are closed, oldest first: */
    uint32_t lingering_len; /* so many */
    struct in_flight in_flight;
    struct in_flight_share roles[ROLES]; /* of in_flight */
    struct client_identity *identities;  /* hash by name */
    uint64_t rings_bytes;                /* of memory that connections share */
    uint64_t leaving_bytes;              /* answers of connections that are being closed */
    uint64_t watched_ms, looked_ms;      /* peers_check_stalls(): time that counts; when it was last called */
    bool admitting;                      /* peers_admit() is below us on the stack */
    struct save_schedule save_schedule;
    struct tls_listener tls;
    struct restore_requests restore_requests;
    uint64_t denied_log_ms, refused_log_ms, accept_log_ms, full_log_ms,
        commit_log_ms;          /* when such a line was last written */
    uint64_t erased;            /* shard_erased() when memory was last given back to the system */
    uint64_t refused[REFUSALS]; /* that could not stay */
    bool crowded;               /* the live directory is nearly full, and that was logged */
    bool unlinked;              /* the live directory is gone, and that was logged */
    char status[128];           /* the status last sent to systemd */

    /* Read the options again, for SIGHUP. */
    enum ps_err (*reload)(struct options *fresh, struct ps_error *e);
};

/* Set up the loop, start the saver and listen. start, store, shard and options stay the caller's. On failure one
 * sentence, and daemon_finish() is owed also then. */
enum ps_err daemon_start(struct daemon *d, struct ps_error *e) PS_MUST_USE;

/* Serve until stopped. */
void daemon_run(struct daemon *d);

void daemon_finish(struct daemon *d);

/* ---- For the modules ---- */

/* Give an event to the shard, ending turns as it asks for; now_ms is filled in here. */
void daemon_step(struct daemon *d, struct shard_event *event);

/* The shard has stopped: close everything; daemon_run() returns. */
void daemon_close(struct daemon *d);

/* True at most once in ten seconds for each `last`, so that a flood is one line. */
bool daemon_may_log(struct daemon *d, uint64_t *last);

#endif
