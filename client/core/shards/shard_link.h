/* A link: the connection to one shard, the session there, and what is under way. Pure. core.h draws its states. */
#ifndef CLIENT_CORE_SHARDS_SHARD_LINK_H
#define CLIENT_CORE_SHARDS_SHARD_LINK_H

#include "client/core/shards/copy_pool.h"
#include "client/core/shards/core.h"
#include "client/core/shards/op.h"
#include "client/core/shards/own_metrics.h"
#include "client/core/shards/request_pool.h"
#include "client/core/shards/scatter.h"
#include "client/core/shards/step_cursor.h"
#include "client/core/shards/variable.h"
#include "common/core/base/arena.h"
#include "common/core/base/mutation.h"
#include "common/core/wire/wire.h"

enum shard_link_state {
    SHARD_LINK_IDLE,
    SHARD_LINK_CONNECTING,
    SHARD_LINK_GREETING,
    SHARD_LINK_RESTORING,
    SHARD_LINK_READY,
    SHARD_LINK_BACKOFF,
    SHARD_LINK_FATAL,
    SHARD_LINK_STATES
};

struct shard_link {
    uint32_t shard;
    enum shard_link_state state;
    uint64_t due_ms;         /* connecting, greeting: give up then; backoff: connect then */
    uint64_t epoch;          /* counts connections */
    uint32_t failures;       /* in a row */
    struct ps_error trouble; /* why there is no connection, or no READY one; PS_OK: there is, or none was tried */
    uint64_t silent_ms;      /* nothing received while being driven */
    uint64_t sent_ms;        /* last time that something was handed out */
    bool probed;
    bool draining;     /* the shard has announced that it stops: this connection is its last */
    bool reset_wanted; /* request_give_up() found a payload half way into the socket: shard_link_lost() is due */

    /* the session on the shard */
    bool joined;       /* it has welcomed this incarnation */
    bool session_lost; /* it no longer knows it: next hello is a new one */
    bool boot_known;
    uint64_t boot;
    bool assigns;           /* it takes values that workers give */
    uint64_t restored_boot; /* of the data since the job was restored from a checkpoint there; 0: it was not */
    uint64_t clock;         /* this worker's, highest that the shard has acknowledged, or made the session at */
    uint64_t ticked;        /* the same, without sessions that were made again: no more than the worker's own clock */
    uint64_t pushed;        /* clock after that of the newest push that the shard has answered */
    uint64_t floor; /* the session's when it was made, or went back: ticks to no more than this are refused, which is
                       well, and pushes of before go at this one (not in sync) */
    uint64_t slowest;
    uint64_t round;            /* that this worker joined in there */
    struct ps_cursor cursor;   /* of this worker's data, as last welcomed */
    struct step_begins begins; /* the same */
    bool defines;              /* it takes definitions */
    uint64_t pushes;           /* of this session that the shard has answered, as it counts them */
    uint64_t rolled_back;
    bool gates; /* it came back older, in sync: pushes up to gated_through were made from weights that it has lost */
    uint64_t gated_through;
    struct request *gate; /* asked and not answered */
    uint32_t restoring;   /* REQUEST_RESTORE not answered */
    uint64_t attach_ms;   /* REQUEST_RESTOREs that are held wait until then; 0: none does */

    /* what is under way */
    struct send_window window;
    struct request_list parts;   /* sequenced ones and pulls, in the order of making */
    struct request *to_send;     /* the first of them that is REQUEST_WAITING; those after it are, too */
    struct request_list control; /* the others */
    struct request *to_ask;      /* of them none before this one is to be handed out; NULL: none at all */
    uint64_t asked_past; /* counts the control requests that pumps went by: a test holds it near what was handed out */
    struct request_ids requests;
    struct lane *first, *last; /* operations with requests to be made */
    struct lane *staging;      /* the same of an assign, which waits for none of those; NULL: there is none */
    uint64_t sending_bytes, pulling_bytes, pulling, staging_bytes;

    /* the frame that is being read */
    struct arena arena;
    struct wire_msg msg;
    bool decoded;            /* msg is that of the frame being read */
    struct request *reading; /* whose buffers its payload goes to */
    struct payload_parts payload_parts;

    /* actions not yet taken by the driver, in this order; see core_next_action() */
    bool open; /* the driver has a connection, or makes one */
    bool do_disconnect, do_connect, do_discard, do_finish;
    struct send *out_first, *out_last;
    bool pending; /* in the core's list of links with actions */
    struct shard_link *pending_next;
};

struct core_event {
    struct core_event *next;
    struct ps_error error;
};

struct core {
    struct core_config config; /* strings are copies, in `strings` */
    char *strings;
    const char **addresses;
    const char *metric_names[WIRE_METRICS_MAX];
    uint64_t now_ms;
    uint64_t timed_ms; /* of the last core_time() */
    uint64_t rng;
    uint64_t clock;
    uint64_t round; /* the highest among the shards': sent along with ticks */
    struct step_cursor step_cursor;
    struct own_metrics metrics;
    Psd__Define *definition; /* as agreed; NULL: none was given */
    struct assigns_known assigns;
    bool joined, closing;
    struct ps_error fatal;
    uint64_t changes;
    struct copy_pool copies; /* PS_PUSH_COPY */
    struct ps_client_stats stats;

    struct shard_link *links;
    struct variables vars;
    struct core_op *ops, *free_ops;
    struct request_pools pools;

    struct shard_link *pending_first, *pending_last;
    struct core_event *event_first, *event_last, *event_reported;

    /* for one message that is being made */
    uint32_t var_ids[REQUEST_BLOCKS_MAX], block_numbers[REQUEST_BLOCKS_MAX];
    uint64_t block_versions[REQUEST_BLOCKS_MAX];
};

/* ---- core.c ---- */

/* Fill *e with code and sentence, and the link as the peer. */
void core_error_set(const struct core *c, const struct shard_link *l, struct ps_error *e, enum ps_err code,
                    const char *format, ...) PS_PRINTF(5, 6);

void core_emit_event(struct core *c, const struct ps_error *e);
void core_emit(struct core *c, struct shard_link *l); /* l has actions */

/* A final error: every operation ends with it, every connection is closed. */
void core_fail(struct core *c, const struct ps_error *e);

/* ---- shard_link.c: the life of the connection ---- */

void shard_link_init(struct shard_link *l, uint32_t shard);
void shard_link_finish(struct core *c, struct shard_link *l);
void shard_link_connect(struct core *c, struct shard_link *l);
void shard_link_connected(struct core *c, struct shard_link *l);

/* The connection is lost, or must be: try again later (at once when why is NULL). Not for final errors. */
void shard_link_lost(struct core *c, struct shard_link *l, const struct ps_error *why);

void shard_link_welcomed(struct core *c, struct shard_link *l, const Psd__Welcome *w);
void shard_link_refused(struct core *c, struct shard_link *l, const struct ps_error *why);
void shard_link_restored(struct core *c, struct shard_link *l); /* one REQUEST_RESTORE was answered */
/* It was answered with an error that may pass: ask again. */
void shard_link_restore_later(struct core *c, struct shard_link *l, struct request *p, const struct ps_error *why);
void shard_link_time(struct core *c, struct shard_link *l, uint64_t passed_ms);
uint64_t shard_link_next_time(const struct core *c, const struct shard_link *l);

/* Drop the connection and all that is under way, without regard to operations. */
void shard_link_drop(struct core *c, struct shard_link *l);

/* Errors that trying again does not heal. */
bool shard_link_error_final(enum ps_err code);

static inline bool
shard_link_up(const struct shard_link *l)
{
    return l->state == SHARD_LINK_READY || l->state == SHARD_LINK_RESTORING;
}

/* One that may not be sent yet: its variables are not known there again. */
static inline bool
request_waits(const struct shard_link *l, const struct request *p)
{
    if (p->kind == REQUEST_STAGE)
        return l->state != SHARD_LINK_READY;
    return p->kind == REQUEST_RESTORE && l->attach_ms != 0;
}

/* ---- outbox.c: what goes out ---- */

/* Hand out what may be sent now. */
void shard_link_pump(struct core *c, struct shard_link *l);

/* A frame that belongs to no request. */
void shard_link_post(struct core *c, struct shard_link *l, enum msg_type type, uint64_t request,
                     const ProtobufCMessage *message);

/* Append to l->control what is to go out with the next shard_link_pump(). */
void shard_link_queue_control(struct shard_link *l, struct request *p);

void shard_link_queue_lane(struct shard_link *l, struct lane *lane);
void shard_link_unqueue_lane(struct shard_link *l, struct lane *lane);

/* ---- outbox_encode.c: messages ---- */

/* Head of a frame into s. PS_ERR_NOMEM. */
enum ps_err shard_link_encode(struct send *s, enum msg_type type, uint64_t request, const ProtobufCMessage *message,
                              uint64_t payload_len) PS_MUST_USE;

/* A request's message: head and spans into s. PS_ERR_NOMEM. */
enum ps_err request_encode(struct core *c, struct shard_link *l, struct request *p, struct send *s) PS_MUST_USE;

/* ---- inbox.c: what comes in ---- */

void shard_link_meta(struct core *c, struct shard_link *l, const struct frame_head *head, const void *meta,
                     struct core_payload_dest *place);
void shard_link_frame(struct core *c, struct shard_link *l, const struct frame_head *head, const void *meta,
                      const void *payload);

/* A push has an outcome: its bytes and what its blocks came to are counted; *error: the first that was not applied.
 * codes: [blocks], or NULL: `all` for every block. */
void shard_link_note_codes(struct core *c, struct shard_link *l, struct request *p, const uint32_t *codes, uint32_t all,
                           struct ps_error *error);

/* ---- request.c: the ends of requests ---- */

/* A request of the core's own, in no list yet; NULL: out of memory. */
struct request *request_new_own(struct core *c, enum request_kind kind);

/* Out of every list, and recycled. */
void request_end(struct core *c, struct shard_link *l, struct request *p);

/* Its operation gave up. True when the shard may have it. The request may be gone after this. The caller looks at
 * l->reset_wanted when it has walked the lists. */
bool request_give_up(struct core *c, struct shard_link *l, struct request *p);

#endif
