/* A link: the connection to one shard, the session there, and what is under way. Pure. core.h draws its states. */
#ifndef CLIENT_LINK_H
#define CLIENT_LINK_H

#include "client/core/shards/core.h"
#include "client/core/shards/gather.h"
#include "client/core/shards/op.h"
#include "client/core/shards/pending.h"
#include "client/core/shards/place.h"
#include "client/core/shards/tally.h"
#include "client/core/shards/variable.h"
#include "common/core/base/arena.h"
#include "common/core/base/mutation.h"
#include "common/core/wire/wire.h"

enum link_state {
    LINK_IDLE,
    LINK_CONNECTING,
    LINK_GREETING,
    LINK_RESTORING,
    LINK_READY,
    LINK_BACKOFF,
    LINK_FATAL,
    LINK_STATES
};

struct link {
    uint32_t shard;
    enum link_state state;
    uint64_t due_ms;         /* connecting, greeting: give up then; backoff: connect then */
    uint64_t epoch;          /* counts connections */
    uint32_t failures;       /* in a row */
    struct ps_error trouble; /* why there is no connection, or no READY one; PS_OK: there is, or none was tried */
    uint64_t silent_ms;      /* nothing heard while being driven */
    uint64_t sent_ms;        /* last time that something was handed out */
    bool probed;
    bool draining;     /* the shard has said that it stops: this connection is its last */
    bool reset_wanted; /* part_give_up() found a payload half way into the socket: link_lost() is due */

    /* the session on the shard */
    bool joined;       /* it has welcomed this incarnation */
    bool session_lost; /* it no longer knows it: next hello is a new one */
    bool boot_known;
    uint64_t boot;
    uint64_t restored_boot; /* of the data since the job was restored from a checkpoint there; 0: it was not */
    uint64_t clock;         /* this worker's, highest that the shard has acknowledged, or made the session at */
    uint64_t ticked;        /* the same, without sessions that were made anew: no more than the worker's own clock */
    uint64_t pushed;        /* clock after that of the newest push that the shard has answered */
    uint64_t floor; /* the session's when it was made, or went back: ticks to no more than this are refused, which is
                       well, and pushes of before go at this one (not in sync) */
    uint64_t slowest;
    uint64_t round;          /* that this worker joined in there */
    struct ps_cursor cursor; /* of this worker's data, as last welcomed */
    uint64_t pushes;         /* of this session that the shard has answered, as it counts them */
    uint64_t rolled_back;
    bool gates; /* it came back older, in sync: pushes up to gated_through were made from weights that it has lost */
    uint64_t gated_through;
    struct part *gate;  /* asked and not answered */
    uint32_t restoring; /* PART_RESTORE not answered */
    uint64_t attach_ms; /* PART_RESTOREs that are held wait until then; 0: none does */

    /* what is under way */
    struct window window;
    struct parts parts;   /* sequenced ones and pulls, in the order of making */
    struct part *to_send; /* the first of them that is PART_HELD; those after it are, too */
    struct parts control; /* the others */
    struct part *to_ask;  /* of them none before this one is to be handed out; NULL: none at all */
    uint64_t asked_past;  /* counts the control parts that pumps went by: a test holds it near what was handed out */
    struct requests requests;
    struct lane *first, *last; /* operations with parts to be made */
    uint64_t sending_bytes, pulling_bytes, pulling;

    /* the frame that is being read */
    struct arena arena;
    struct wire_msg msg;
    bool decoded;         /* msg is that of the frame being read */
    struct part *reading; /* whose buffers its payload goes to */
    struct places places;

    /* actions not yet taken by the driver, in this order; see core_next_action() */
    bool open; /* the driver has a connection, or makes one */
    bool do_disconnect, do_connect, do_discard, do_finish;
    struct send *out_first, *out_last;
    bool pending; /* in the core's list of links with actions */
    struct link *pending_next;
};

struct event {
    struct event *next;
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
    struct place place;
    struct tally tally;
    bool joined, closing;
    struct ps_error fatal;
    uint64_t changes;
    uint64_t copied_bytes;
    struct ps_client_stats stats;

    struct link *links;
    struct variables vars;
    struct core_op *ops, *free_ops;
    struct pools pools;

    struct link *pending_first, *pending_last;
    struct event *event_first, *event_last, *event_told;

    /* for one message that is being made */
    uint32_t var_ids[PART_BLOCKS_MAX], block_numbers[PART_BLOCKS_MAX];
    uint64_t block_versions[PART_BLOCKS_MAX];
};

/* ---- core.c ---- */

/* Fill *e with code and sentence, and the link as the peer. */
void core_say(const struct core *c, const struct link *l, struct ps_error *e, enum ps_err code, const char *format, ...)
    PS_PRINTF(5, 6);

void core_emit_event(struct core *c, const struct ps_error *e);
void core_emit(struct core *c, struct link *l); /* l has actions */

/* A final error: every operation ends with it, every connection is closed. */
void core_fail(struct core *c, const struct ps_error *e);

/* ---- link.c: the life of the connection ---- */

void link_init(struct link *l, uint32_t shard);
void link_finish(struct core *c, struct link *l);
void link_connect(struct core *c, struct link *l);
void link_connected(struct core *c, struct link *l);

/* The connection is lost, or must be: try again later (at once when why is NULL). Not for final errors. */
void link_lost(struct core *c, struct link *l, const struct ps_error *why);

void link_welcomed(struct core *c, struct link *l, const Psd__Welcome *w);
void link_refused(struct core *c, struct link *l, const struct ps_error *why);
void link_restored(struct core *c, struct link *l); /* one PART_RESTORE was answered */
/* It was answered with an error that may pass: ask again. */
void link_restore_later(struct core *c, struct link *l, struct part *p, const struct ps_error *why);
void link_time(struct core *c, struct link *l, uint64_t passed_ms);
uint64_t link_next_time(const struct core *c, const struct link *l);

/* Drop the connection and all that is under way, without regard to operations. */
void link_drop(struct core *c, struct link *l);

/* Errors that trying again does not heal. */
bool link_error_final(enum ps_err code);

static inline bool
link_up(const struct link *l)
{
    return l->state == LINK_READY || l->state == LINK_RESTORING;
}

/* One that may not be sent yet. */
static inline bool
part_waits(const struct link *l, const struct part *p)
{
    return p->kind == PART_RESTORE && l->attach_ms != 0;
}

/* ---- outbox.c: what goes out ---- */

/* Hand out what may be sent now. */
void link_pump(struct core *c, struct link *l);

/* A frame that belongs to no part. */
void link_post(struct core *c, struct link *l, enum msg_type type, uint64_t request, const ProtobufCMessage *message);

/* Append to l->control what is to go out with the next link_pump(). */
void link_ask(struct link *l, struct part *p);

void link_queue_lane(struct link *l, struct lane *lane);
void link_unqueue_lane(struct link *l, struct lane *lane);

/* ---- outbox_encode.c: messages ---- */

/* Head of a frame into s. PS_ERR_NOMEM. */
enum ps_err link_encode(struct send *s, enum msg_type type, uint64_t request, const ProtobufCMessage *message,
                        uint64_t payload_len) PS_MUST_USE;

/* A part's message: head and spans into s. PS_ERR_NOMEM. */
enum ps_err part_encode(struct core *c, struct link *l, struct part *p, struct send *s) PS_MUST_USE;

/* ---- inbox.c: what comes in ---- */

void link_meta(struct core *c, struct link *l, const struct frame_head *head, const void *meta,
               struct core_place *place);
void link_frame(struct core *c, struct link *l, const struct frame_head *head, const void *meta, const void *payload);

/* A push has an outcome: its bytes and what its blocks came to are counted; *error: the first that was not applied.
 * codes: [blocks], or NULL: `all` for every block. */
void link_note_codes(struct core *c, struct link *l, struct part *p, const uint32_t *codes, uint32_t all,
                     struct ps_error *error);

/* ---- part.c: the ends of parts ---- */

/* A part of the core's own, in no list yet; NULL: out of memory. */
struct part *part_own(struct core *c, enum part_kind kind);

/* Out of every book, and recycled. */
void part_end(struct core *c, struct link *l, struct part *p);

/* Its operation gave up. True when the shard may have it. The part may be gone after this. The caller looks at
 * l->reset_wanted when it has walked the lists. */
bool part_give_up(struct core *c, struct link *l, struct part *p);

#endif
