/* A shard in memory: a core over a store in memory, hand-made frames in, decoded answers out, time set by the test.
 *
 *     struct kit k;
 *     kit_init(&k, NULL);
 *     kit_join(&k, 1, &job, 0);                       // connection 1 is worker 0
 *     var = kit_declare(&k, 1, "w", 10, PS_SGD);
 *     kit_push(&k, 1, &(struct kit_push){.seq = 1, .var = var, .gradient = g, .len = 10});
 *     kit_ack(&k, 1, 1, PS_OK);
 *     kit_finish(&k);
 *
 * Every frame goes through wire_encode() and frame_head_decode(), and every answer through wire_decode(), so all that
 * the shard sends is checked to be valid. Turns end after each event unless kit.hold is set; when a turn is full, it
 * ends in any case. A connection that the shard closes is gone at the end of the turn. Answers are kept in order per
 * connection until they are taken. */
#ifndef TESTS_UNIT_KITS_SHARD_KIT_H
#define TESTS_UNIT_KITS_SHARD_KIT_H

#include "tests/unit/kits/check_main.h"

#include "common/core/base/arena.h"
#include "common/core/model/layout.h"
#include "common/core/optimizer/optimizer.h"
#include "common/core/wire/wire.h"
#include "proto/store.pb-c.h"
#include "server/core/shard/shard.h"
#include "server/core/store/store_mem.h"

#define KIT_CONNS 64

struct kit_answer {
    struct kit_answer *next;
    struct arena arena;
    struct wire_msg msg;
    float *payload;
    size_t payload_len; /* floats */
};

struct kit {
    struct store *store;
    struct shard *shard;
    struct shard_config config;
    uint64_t now_ms;
    uint64_t next_request;
    enum role role;                        /* of all connections */
    const char *token;                     /* name of the token that they prove from now on; NULL: none */
    struct shard_share *share;             /* of those that say hello from now on; NULL at first */
    bool unstable;                         /* their peers may write to payloads while these are looked at */
    bool hold;                             /* turns end only in kit_turn() */
    bool failed;                           /* the last turn's commit did */
    bool may_fail;                         /* memory may run out, and the store fail: the kit then acts as psd does */
    bool draining;                         /* SHARD_DRAIN_BEGUN came */
    bool stopped;                          /* SHARD_STOPPED came */
    unsigned logs;                         /* SHARD_LOG actions seen */
    char audit[256];                       /* the newest of them that begins so */
    struct shard_save *save;               /* that runs: SHARD_SAVE_BEGUN came */
    bool save_closing;                     /* SHARD_SAVE_CLOSE came */
    const struct shard_verified *verified; /* what the next save's end says */
    void (*save_instant)(struct kit *k);   /* or NULL: called at its instant */
    void (*save_begun)(struct kit *k);     /* or NULL: called when it is handed out */
    unsigned abandoned;                    /* SHARD_SAVE_ABANDONED actions seen */
    uint64_t redo;                         /* the newest SHARD_REDO's number */
    struct shard_action wanted;            /* the newest SHARD_RESTORE_WANTED; its texts are the kit's */
    bool open[KIT_CONNS];
    bool closed[KIT_CONNS]; /* the shard closed it */
    bool lost[KIT_CONNS];   /* an answer could not be made: closed at the end of the turn */
    struct kit_answer *answers[KIT_CONNS];
};

/* Shard 0 of 1 of cluster "test", with a durable environment. */
extern const struct shard_config kit_durable_config;

/* config NULL: shard 0 of 1 of cluster "test"; a store of 256 MiB. */
void kit_init(struct kit *k, const struct shard_config *config);
void kit_init_size(struct kit *k, const struct shard_config *config, uint64_t store_bytes);
void kit_init_over(struct kit *k, const struct shard_config *config, struct store *store); /* the kit's from now on */
void kit_finish(struct kit *k);

/* kill -9 and a new process over what is committed. All connections are gone. */
void kit_crash(struct kit *k);

/* ---- Events ---- */

void kit_open(struct kit *k, uint64_t conn);
void kit_close(struct kit *k, uint64_t conn); /* the connection is lost */
void kit_frame(struct kit *k, uint64_t conn, enum msg_type type, uint64_t request, const ProtobufCMessage *m,
               const void *payload, size_t payload_bytes);
/* Raw metadata. */
void kit_bytes(struct kit *k, uint64_t conn, unsigned type, uint64_t request, const void *meta, size_t meta_len,
               const void *payload, size_t payload_bytes);
void kit_event(struct kit *k, struct shard_event *event); /* sets the time */
void kit_turn(struct kit *k);
void kit_work(struct kit *k);              /* SHARD_WORK until there is none */
void kit_pass(struct kit *k, uint64_t ms); /* time passes, SHARD_TIME when it is due */

/* The saver ends: it reports, and the current save is freed. error NULL: success. */
void kit_save_ended(struct kit *k, uint64_t bytes, uint64_t count, const struct ps_error *error);

/* ---- Answers ---- */

/* The oldest answer on this connection, or NULL; the caller frees it. */
struct kit_answer *kit_take(struct kit *k, uint64_t conn);
void kit_answer_free(struct kit_answer *a);

/* Take the next answer, which must be of this type. */
struct kit_answer *kit_expect(struct kit *k, uint64_t conn, enum msg_type type);
void kit_expected(struct kit *k, uint64_t conn, enum msg_type type); /* whatever its content */
void kit_expect_error(struct kit *k, uint64_t conn, uint64_t request, enum ps_err code);
void kit_expect_nothing(struct kit *k, uint64_t conn);
void kit_expect_closed(struct kit *k, uint64_t conn, enum ps_err code); /* ERROR with request 0, then the end */
void kit_drop_answers(struct kit *k, uint64_t conn);

/* Take the answer to a request; job NULL: all. The second: for an observer that connects for it and leaves. */
struct kit_answer *kit_ask(struct kit *k, uint64_t conn, Psd__QueryKind kind, const char *job);
struct kit_answer *kit_look(struct kit *k, Psd__QueryKind kind, const char *job);

/* Take the next answer: an ACK of this one message with this code. */
void kit_ack(struct kit *k, uint64_t conn, uint64_t seq, enum ps_err code);

/* Puts this row of job 1 into the store; no shard starts with it. */
void kit_job_row_is_damaged(struct kit *k, const Psd__JobRow *row);

/* ---- What workers do ---- */

Psd__Job *kit_job(const char *name, Psd__Mode mode, uint32_t workers); /* static; quorum = workers */

struct kit_hello {
    const Psd__Job *job;
    uint32_t task;
    uint64_t incarnation; /* 0: task + 1000 */
    bool resume;
    uint64_t acked_through;
    uint32_t lease_ms;
    const char *agent;
    uint64_t boot;                                  /* resume: that of the last welcome */
    bool older;                                     /* a client of before the code DROPPED */
    const char *metric_names[WIRE_METRICS_MAX + 2]; /* up to a NULL */
};
void kit_hello(struct kit *k, uint64_t conn, const struct kit_hello *h); /* opens the connection */

/* An observer, welcomed. */
void kit_observe(struct kit *k, uint64_t conn);

/* Hello, and the welcome is taken. Returns last_seq. */
uint64_t kit_join(struct kit *k, uint64_t conn, const Psd__Job *job, uint32_t task);
uint64_t kit_resume(struct kit *k, uint64_t conn, const Psd__Job *job, uint32_t task, uint64_t acked_through);

/* The optimizer that variables are declared with: this kind, learning rate 1, other parameters that show after a few
 * updates. */
struct ps_optimizer kit_optimizer(enum ps_optimizer_kind kind);

/* Zeros. Makes its blocks, takes DECLARED and returns the id. */
uint32_t kit_declare(struct kit *k, uint64_t conn, const char *name, uint64_t elements,
                     enum ps_optimizer_kind optimizer);
void kit_declare_as(struct kit *k, uint64_t conn, uint64_t request, const char *name, const uint64_t *dims, size_t rank,
                    enum ps_optimizer_kind optimizer, Psd__InitKind init);

/* The same with this optimizer. */
uint32_t kit_declare_with(struct kit *k, uint64_t conn, const char *name, uint64_t elements,
                          const struct ps_optimizer *optimizer);

struct kit_push {
    uint64_t seq, clock, acked_through;
    uint32_t var, block;
    const float *gradient;
    size_t len;
    const uint64_t *from_version; /* one, or NULL */
    const double *norm;           /* one, or NULL */
    bool want_value, durable;
    const uint64_t *cursor, *cursor_from; /* {epoch, position}, or NULL */
    uint64_t request;                     /* 0: the next */
};
void kit_push(struct kit *k, uint64_t conn, const struct kit_push *p);

/* The same as a message: metadata that points into *m alone. */
struct kit_push_message {
    Psd__Push push;
    Psd__Norm norm;
    Psd__Cursor cursor, cursor_from;
    uint32_t var, block;
    uint64_t from_version;
};
void kit_push_message(const struct kit_push *p, struct kit_push_message *m);
void kit_push_many(struct kit *k, uint64_t conn, Psd__Push *m, const float *payload, size_t len);
void kit_tick(struct kit *k, uint64_t conn, uint64_t seq, uint64_t clock);
void kit_tick_at(struct kit *k, uint64_t conn, uint64_t seq, uint64_t clock, uint64_t position); /* of its cursor */
uint64_t kit_barrier(struct kit *k, uint64_t conn, uint64_t seq, const char *name); /* returns the request id */
void kit_skip(struct kit *k, uint64_t conn, uint64_t seq);
void kit_skip_push(struct kit *k, uint64_t conn, uint64_t seq); /* it stands for a push */
void kit_cancel(struct kit *k, uint64_t conn, uint64_t request);
void kit_goodbye(struct kit *k, uint64_t conn, bool finished);
uint64_t kit_pull(struct kit *k, uint64_t conn, uint32_t var, uint32_t block, uint64_t clock);

/* Read a block as it is: n floats and its version, through a pull with now = true. */
uint64_t kit_read(struct kit *k, uint64_t conn, uint32_t var, uint32_t block, float *out, size_t n);

/* SHARD_DURABLE: the disk has all pieces before this one. */
void kit_durable(struct kit *k, uint64_t number);

/* Hash of all that is committed: blocks with their heads, and rows. */
uint64_t kit_state(struct kit *k);

/* Variables of four equal elements: push four times g; read one of them, and assert the block's version. */
void kit_push_four(struct kit *k, uint64_t conn, uint64_t seq, uint64_t clock, uint32_t var, float g);
float kit_value_four(struct kit *k, uint64_t conn, uint32_t var, uint64_t version);

/* Tick and assert that it was answered OK. */
void kit_ticked(struct kit *k, uint64_t conn, uint64_t seq, uint64_t clock);

/* The disk has everything, and the durable push that waited for it is answered OK. */
void kit_durable_ack(struct kit *k, uint64_t conn, uint64_t seq);

/* ---- All workers of a job: worker t is on connection t + 1 ---- */

/* All join, and the first declares "w", of four elements, for plain SGD. Returns it. */
uint32_t kit_start(struct kit *k, const Psd__Job *job);

/* All reconnect after kit_crash(), with the incarnations that they had. */
void kit_resume_all(struct kit *k, const Psd__Job *job, uint64_t acked_through);

/* All push g to a variable of four elements and tick, as seq + 1. What was answered before is dropped. */
void kit_step(struct kit *k, uint32_t workers, uint64_t seq, uint64_t clock, uint32_t var, float g);

#endif
