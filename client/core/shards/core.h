/* The client core: all of libpsclient but sockets, timers and threads, as functions over values. Pure: no I/O, no
 * clock, no randomness, no threads; time, seed and incarnation come in as arguments, what is to be sent goes out as
 * actions. libpsclient's glue (client.c, net.c), unit tests and the simulator run this same code.
 *
 * How it is driven:
 *
 *     core_new(&config, now_ms, &core, &error);         // asks for connections to all shards
 *     perform(core);                                    // after every call below that says "actions"
 *     for each thing that happens:
 *         CORE_CONNECT succeeded          core_connected(core, shard, now_ms);           // actions
 *         it failed, or a connection      core_disconnected(core, shard, &why, now_ms);  // actions
 *           ended by itself
 *         a frame's metadata is whole     core_meta(core, shard, &head, meta, &place);   // actions; optional
 *           place says where the payload goes: into user buffers, nowhere, or (n == 0, !discard) "as you like"
 *         a frame is whole                core_frame(core, shard, &head, meta, payload, now_ms);  // actions
 *           payload: NULL when there is none, or when it went where core_meta() said
 *         a CORE_SEND was written         core_sent(core, send, PS_OK);                  // actions
 *           or never will be              core_sent(core, send, PS_ERR_CLOSED);
 *         core_next_time() has come       core_time(core, now_ms);                       // actions
 *
 *     perform():  while (core_next_action(core, &action)) ...
 *
 * perform() may call back into the core (core_sent() from within a CORE_SEND, say): actions made by that come out of
 * the same loop.
 *
 * A link, one per shard (its states are SHARD_LINK_IDLE and so on):
 *
 *           CONNECT                connected: HELLO            WELCOME
 *     IDLE ──────────► CONNECTING ─────────────────► GREETING ──────────► READY
 *      ▲                   │ failed, 5 s                 │ refused for now │  │ the shard lost data: DECLARE again
 *      │  backoff          ▼                             ▼      lost       │  ▼
 *      └────────────── BACKOFF ◄─────────────────────────┴─────────────────┤ RESTORING ──► READY
 *                                                                          │
 *     any state: an error that shard_link_error_final() lists ─────────────┴──► FATAL (until core_rejoin())
 *
 * An operation (pull, push, tick, barrier, declare, attach, assign, query, ping, set, drain) is cut into requests, each
 * one frame to one shard. Requests of pulls and of sequenced messages are made when there is room to send them, so an
 * operation on a terabyte holds a few kilobytes. On each shard requests of other operations than assigns go out
 * in the order of the operations' starts.
 * Windows, per shard: bytes handed out by CORE_SEND and not given back (SHARD_LINK_SEND_BYTES), pulls asked and not
 * answered (SHARD_LINK_PULL_BYTES, SHARD_LINK_PULLS_MAX), values of assigns sent and not answered
 * (SHARD_LINK_STAGE_BYTES), sequence numbers given and not acknowledged
 * (SHARD_LINK_UNACKED_MAX, a count and not bytes: in sync an acknowledgement comes when the others have pushed, so
 * workers that push in different orders would wait for each other in a window of bytes). Declares, queries, pings,
 * sets, drains and cancellations pass all windows. Values of assigns wait for none of the others' windows, nor for
 * pushes that do not go yet: other workers may wait for the assign.
 *
 * After a lost connection: connect again, HELLO resume, send again in order all that is not acknowledged, from the user
 * buffers that are still borrowed; ask again what was not answered. No operation fails because of it, nor because a
 * shard came back with older data: what that lost is counted and reported (resync.c). The core has no deadlines: its
 * caller gives up waiting (core_op_cancel()) or lets the operation go on.
 *
 * Modules: variable (the table of variables, their ids and versions), scatter (which bytes of which buffer belong to
 * which block), request_pool (requests, sequence window, ids), request (how requests end), op (operations), shard_link
 * (one shard's connection), resync (what its welcome means), step_cursor (cursors of its data), residual (compressed
 * pushes), op_assign (phases of an assign), outbox and inbox (what goes out and comes in there), setting (changes of a
 * running cluster). core.c dispatches. */
#ifndef CLIENT_CORE_SHARDS_CORE_H
#define CLIENT_CORE_SHARDS_CORE_H

#include <protobuf-c/protobuf-c.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "common/core/format/timeline.h"
#include "common/core/wire/frame.h"

#define SHARD_LINK_SEND_BYTES  (4 * MIB)  /* handed out to be sent, not given back yet */
#define SHARD_LINK_PULL_BYTES  (32 * MIB) /* asked, not answered */
#define SHARD_LINK_PULLS_MAX   1024       /* asked, not answered: frames */
#define SHARD_LINK_STAGE_BYTES (32 * MIB) /* of assigns: sent, not answered */
#define SHARD_LINK_UNACKED_MAX 65536 /* sequence numbers given, not acknowledged (the shard's SHARD_UNRESOLVED_MAX) */
#define SHARD_LINK_GREET_MS    5000  /* a connection that is not made, or a HELLO not answered, by then is given up */
#define SHARD_LINK_BACKOFF_MIN 10    /* ms, doubled by each failure */
#define SHARD_LINK_BACKOFF_MAX 1000
#define SHARD_LINK_ATTACH_MS   1000  /* between two questions after a variable that a shard lost and cannot give */
#define SHARD_LINK_PROBE_MS    10000 /* with something outstanding and nothing received for so long: PING */
#define SHARD_LINK_DEAD_MS     30000 /* and nothing received for so long: connect again */
#define REQUEST_BATCH_BYTES    (256 * KIB) /* small blocks share a frame up to this; a larger block has its own */
#define REQUEST_BLOCKS_MAX     4096        /* blocks in one frame: metadata stays far below FRAME_META_MAX */

struct core;

/* Nothing went wrong. (All of a ps_error is much to clear.) */
static inline void
error_none(struct ps_error *e)
{
    e->code = PS_OK;
    e->text[0] = e->peer[0] = '\0';
}
struct core_var;
struct core_op;

struct core_config {
    const char *cluster;          /* name */
    uint32_t shards;              /* 1 to WIRE_SHARDS_MAX */
    const char *const *addresses; /* [shards]: for sentences only */
    const char *agent;            /* host and pid, for people */
    const char *job;
    const char *const *metric_names; /* [metrics_named] */
    uint32_t metrics_named;          /* at most WIRE_METRICS_MAX */
    uint32_t task, workers;          /* task < workers */
    enum ps_mode mode;
    uint32_t bound;  /* ssp */
    uint32_t quorum; /* sync; 0: all */
    enum ps_lapse lapse;
    enum ps_age age;
    double age_parameter;
    uint32_t lease_ms;
    bool observer;               /* asks and reads only */
    bool any_cluster;            /* observers: accept any cluster name, index and count */
    bool durable;                /* every push is */
    struct ps_compress compress; /* of pushes that do not say */
    uint64_t copy_max;
    uint64_t incarnation; /* random, not 0 */
    uint64_t seed;        /* for the jitter of backoffs */
};

/* Copies the config. Actions: a CORE_CONNECT for every shard. */
enum ps_err core_new(const struct core_config *config, uint64_t now_ms, struct core **out,
                     struct ps_error *e) PS_MUST_USE;

/* Frees all: operations, variables, and sends that were not given back (which must not be used after). Accepts NULL. */
void core_free(struct core *c);

/* ---- Events ---------------------------------------------------------------------------------------------------- */

void core_connected(struct core *c, uint32_t shard, uint64_t now_ms);

/* why: PS_ERR_PROTOCOL and PS_ERR_VERSION are final, others are tried again. */
void core_disconnected(struct core *c, uint32_t shard, const struct ps_error *why, uint64_t now_ms);

/* Where the payload of the frame that is being read goes. parts are valid until the frame's core_frame(), the link's
 * CORE_DISCARD, CORE_DISCONNECT or core_disconnected(). */
struct core_payload_dest {
    const struct frame_part *parts;
    size_t n;
    bool discard;
};
void core_meta(struct core *c, uint32_t shard, const struct frame_head *head, const void *meta,
               struct core_payload_dest *place);
void core_frame(struct core *c, uint32_t shard, const struct frame_head *head, const void *meta, const void *payload,
                uint64_t now_ms);

void core_time(struct core *c, uint64_t now_ms);

/* Attempts to connect to a shard that have failed since it last answered. */
uint32_t core_failures(const struct core *c, uint32_t shard);

/* When core_time() is wanted next; UINT64_MAX: never. */
uint64_t core_next_time(const struct core *c);

/* ---- Actions --------------------------------------------------------------------------------------------------- */

/* One frame to be sent: head (header, metadata, pad), then parts, then frame_pad(payload_len) zero bytes. All stay
 * valid until core_sent() or until the link's connection was closed on CORE_DISCONNECT, whichever is first; the token
 * itself stays until core_sent(), which is owed exactly once, also after a disconnect. */
struct core_send {
    const uint8_t *head;
    size_t head_len;
    const struct span *parts; /* in user buffers */
    size_t parts_len;
    size_t payload_len;
    size_t asked_len; /* of a pull: payload that it may be answered with; else 0 */
};
void core_sent(struct core *c, struct core_send *send, enum ps_err result);

enum core_action_kind {
    CORE_CONNECT,    /* shard: connect; answer with core_connected() or core_disconnected() */
    CORE_DISCONNECT, /* shard: close its connection or give up connecting, at once: user buffers are no longer touched
                        when this was performed, and nothing more of that connection is reported to the core but
                        core_sent()s */
    CORE_FINISH,     /* shard: as CORE_DISCONNECT, but after what was handed out is sent (goodbye) */
    CORE_SEND,       /* shard, send */
    CORE_DISCARD,    /* shard: drop the payload that is being read; its parts are free when this was performed */
    CORE_EVENT       /* error: for options.on_event */
};
struct core_action {
    enum core_action_kind kind;
    uint32_t shard;
    struct core_send *send;
    const struct ps_error *error; /* valid until the next core_next_action() */
};
bool core_next_action(struct core *c, struct core_action *out);

/* ---- The session ------------------------------------------------------------------------------------------------- */

/* True when every shard has welcomed this incarnation (and every clock has been raised to the highest among them). */
bool core_joined(const struct core *c);

/* Why nothing goes on: PS_OK, or the final error that every operation has ended with. */
enum ps_err core_fatal(const struct core *c, struct ps_error *e);

/* Not joined by the deadline: which shard is missing and why. Returns its code: UNREACHABLE, TIMEOUT, TASK_TAKEN ... */
enum ps_err core_join_error(const struct core *c, uint64_t waited_ms, struct ps_error *e);

/* Join again as a new incarnation. What was not done has ended with the fatal error, or ends with CANCELLED now.
 * Actions. */
void core_rejoin(struct core *c, uint64_t incarnation, uint64_t now_ms);

/* True when no sequence number is unacknowledged. */
bool core_quiet(const struct core *c);
bool core_reaches_all(const struct core *c); /* every shard has welcomed it in the connection of now */

/* Pushes, ticks and barriers that a shard has been given a number for and has not answered. */
uint64_t core_unanswered(const struct core *c, uint32_t shard);

/* Frames of pulls that were made for a shard, handed out or not, and not answered. */
uint32_t core_pulls_unanswered(const struct core *c, uint32_t shard);

/* Cancel every operation. Actions. */
void core_cancel_all(struct core *c);

/* GOODBYE(finished) on every ready link and CORE_FINISH; operations end with CANCELLED. Actions. */
void core_goodbye(struct core *c);

uint64_t core_clock(const struct core *c);
uint64_t core_slowest_clock(const struct core *c);
uint64_t core_round(const struct core *c); /* of the job's rounds: the highest that a shard has welcomed it in */
struct ps_cursor core_cursor(const struct core *c); /* where the data of the step under way begins */

/* The clock at which the first process of this worker index joined the round; and where this one's data begins, when
 * the first one's began at `first` unless others were there (ps_client_start_cursor()). */
uint64_t core_start_clock(const struct core *c);
struct ps_cursor core_start_cursor(struct core *c, const struct ps_cursor *first);
struct ps_cursor core_start_place(const struct core *c, const struct ps_cursor *first); /* the same, and leave it so */

uint64_t core_rolled_back(const struct core *c, uint32_t shard); /* 0 for one that is not there */
const struct ps_client_stats *core_stats(const struct core *c);

/* Counts up whenever an operation becomes done, or joined or fatal change: a waiter looks again. */
uint64_t core_changes(const struct core *c);

/* Fields of what this worker trains, for shard 0 to compare with the other workers'. Whether it does: one of an older
 * version does not. */
bool core_defines(const struct core *c);
enum ps_err core_define(struct core *c, size_t n, const struct ps_definition *fields, struct core_op **op,
                        struct ps_error *e) PS_MUST_USE;

/* ---- Variables --------------------------------------------------------------------------------------------------- */

void **core_var_handle(struct core_var *v); /* what the driver keeps with it; NULL at first */
const char *core_var_name(const struct core_var *v);
uint64_t core_var_elements(const struct core_var *v);
uint32_t core_var_rank(const struct core_var *v);
uint64_t core_var_dim(const struct core_var *v, uint32_t i); /* 0 past the rank */
uint64_t core_var_blocks(const struct core_var *v);
void core_var_versions(const struct core_var *v, uint64_t *lowest, uint64_t *highest);

/* ---- Operations -------------------------------------------------------------------------------------------------- */

/* Each start makes actions. *op is the caller's until core_op_free(). Buffers are borrowed as psclient.h says. A
 * variable may be used when its declaration is done. PS_ERR_INVALID, PS_ERR_LIMIT, PS_ERR_NOMEM, or the fatal error. */
enum ps_err core_declare(struct core *c, const struct ps_var_spec *spec, struct core_var **var, struct core_op **op,
                         struct ps_error *e) PS_MUST_USE;
/* Of a variable that some worker has declared. core_op_variable() is it when this is done well. */
enum ps_err core_attach(struct core *c, const char *name, struct core_op **op, struct ps_error *e) PS_MUST_USE;
/* An observer's does not wait for the mode's condition. */
enum ps_err core_pull(struct core *c, size_t n, struct core_var *const vars[], float *const out[],
                      const struct ps_pull_options *options, struct core_op **op, struct ps_error *e) PS_MUST_USE;
/* out: NULL, or [n] for push and pull. options: NULL, or flags, norm, cursor and compress. */
enum ps_err core_push(struct core *c, size_t n, struct core_var *const vars[], const float *const grads[],
                      float *const out[], const struct ps_push_options *options, struct core_op **op,
                      struct ps_error *e) PS_MUST_USE;

/* Gradients that were encoded before, with residuals of the caller's: [n] each, as codec_encode() makes it of each
 * block of the variable, of a kind whose encodings are as long as codec_size_max() says. Borrowed as gradients are. */
struct core_encoded {
    const uint8_t *const *data;  /* the encodings of the variable's blocks, in their order */
    const size_t *const *offset; /* where that of each block begins */
    /* That of a block is on its way, and counts unless the contrary is said later: with `counts` false, the residual is
     * to be as if it had never been made. Not called of blocks that were given up before, nor after core_op_free(). */
    void (*note)(void *arg, size_t var, uint64_t block, bool counts);
    void *arg;
};

/* A push of such. options: as above, with a norm where a variable is clipped by it. */
enum ps_err core_push_encoded(struct core *c, size_t n, struct core_var *const vars[],
                              const struct core_encoded *encoded, const struct ps_push_options *options,
                              struct core_op **op, struct ps_error *e) PS_MUST_USE;
enum ps_err core_tick(struct core *c, struct core_op **op, struct ps_error *e) PS_MUST_USE;
/* Of the step under way; they count with its tick. */
enum ps_err core_set_metrics(struct core *c, size_t n, const double *values, struct ps_error *e) PS_MUST_USE;
enum ps_err core_barrier(struct core *c, const char *name, struct core_op **op, struct ps_error *e) PS_MUST_USE;
/* A barrier with a place in the data (PROTOCOL.md); again: how many there were at that place before. */
enum ps_err core_barrier_at(struct core *c, const char *name, const struct ps_cursor *at, uint32_t again,
                            struct core_op **op, struct ps_error *e) PS_MUST_USE;
/* Where a report goes on that fills several pages: from a number that the page before gave, or after the name that it
 * ended with. Zeroed: its first page. */
struct core_report_place {
    uint64_t from;
    char after[2 * PS_NAME_MAX + 2]; /* "job/name" */
};

/* job: NULL or a name; place: NULL for the first page. */
enum ps_err core_query(struct core *c, uint32_t shard, enum ps_query query, const char *job,
                       const struct core_report_place *place, struct core_op **op, struct ps_error *e) PS_MUST_USE;
enum ps_err core_ping(struct core *c, uint32_t shard, struct core_op **op, struct ps_error *e) PS_MUST_USE;

/* To all shards; one that did not change is named by the result. */
enum ps_err core_set(struct core *c, const struct ps_setting *setting, struct core_op **op,
                     struct ps_error *e) PS_MUST_USE;

/* Done when the shard has announced that it stops and the connection has ended. */
enum ps_err core_drain(struct core *c, uint32_t shard, struct core_op **op, struct ps_error *e) PS_MUST_USE;

/* values: [n], borrowed until the operation is done. One begins when those that were started before are done. */
enum ps_err core_assign(struct core *c, size_t n, struct core_var *const vars[], const float *const values[],
                        const struct ps_assign_options *options, struct core_op **op, struct ps_error *e) PS_MUST_USE;
/* vars: [n], filled; each may be used when this is done. values[i]: NULL where this worker has none. given: [n],
 * borrowed until this is done and filled when it is done well, or NULL: 1 where these values are the first. */
enum ps_err core_declare_values(struct core *c, size_t n, const struct ps_var_spec specs[], const float *const values[],
                                const struct ps_assign_options *options, struct core_var *vars[], int given[],
                                struct core_op **op, struct ps_error *e) PS_MUST_USE;

/* Any other message that one shard answers (QUERY, SAVE, CHECKPOINT; and from observers only RESTORE, EVICT, DROP), as
 * wire_check.c wants it; copied. core_op_answer() is the answer's metadata. */
enum ps_err core_ask(struct core *c, uint32_t shard, enum msg_type type, const ProtobufCMessage *message,
                     struct core_op **op, struct ps_error *e) PS_MUST_USE;

bool core_op_done(const struct core_op *op);

/* The result of one that is done; PS_ERR_INVALID for one that is not. */
enum ps_err core_op_result(const struct core_op *op, struct ps_error *e);

/* What a wait for it is a wait for, and for how long shards have kept it for other workers, us. */
enum timeline_kind core_op_time(const struct core_op *op);
uint64_t core_op_held_us(const struct core_op *op);

struct core_var *core_op_variable(const struct core_op *op); /* of an attach; NULL before a shard has answered it */
uint64_t core_op_blocks(const struct core_op *op);           /* blocks that a pull transferred */
uint64_t core_op_assign_clock(const struct core_op *op);     /* of an assign: its values are of this clock */
uint64_t core_op_variables(const struct core_op *op);        /* that a set changed */
struct span core_op_answer(const struct core_op *op);        /* metadata of a query's Report, or of the answer to
                                                                core_ask(); lives as long as op */

/* Done at once, with CANCELLED or UNKNOWN_OUTCOME (pushes that may have reached the shard; ticks, which go on). Its
 * buffers are free when the actions that this makes have been performed. Nothing happens to one that is done. */
void core_op_cancel(struct core *c, struct core_op *op);

/* Frees the caller's handle; cancels one that is not done (actions). Accepts NULL. */
void core_op_free(struct core *c, struct core_op *op);

/* Fill *e with PS_ERR_TIMEOUT and a sentence: how long was waited, for which shard and what, and what is known of why.
 */
enum ps_err core_op_waiting(const struct core *c, const struct core_op *op, uint64_t waited_ms, struct ps_error *e);

/* Ask the shards that hold this operation back which workers they wait for; the answers appear in core_op_waiting(). To
 * be called a little before a deadline. Actions. */
void core_op_query_delay(struct core *c, struct core_op *op);

#endif
