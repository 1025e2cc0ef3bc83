/* Clients that insist, over a kit whose shard may fail: what they post is sent again, verbatim and in order, on a new
 * connection whenever theirs is lost, until it is answered; and again when the answer is that the shard was short of
 * memory or its store failed. It is the client's part of exactly once, without the rest of a client.
 *
 *     struct insist x = {.k = &kit};
 *     struct insist_client *w = insist_worker(&x, kit_job("train", PSD__MODE__SYNC, 2), 0);
 *     insist_push(w, var, 0, gradient, len);
 *     insist_all(&x);                          // fails when a request is left without an answer
 *     insist_finish(&x);
 *
 * The kit's calls that expect a certain answer are not for a shard that may fail. */
#ifndef TESTS_UNIT_KITS_INSIST_H
#define TESTS_UNIT_KITS_INSIST_H

#include "tests/unit/kits/shard_kit.h"

#define INSIST_CLIENTS 8
#define INSIST_POSTS   64 /* of one client that are not forgotten yet */

/* A post, and its outcome. */
struct insist_post {
    enum msg_type type;
    uint8_t *meta;
    size_t meta_len;
    float *payload;
    size_t payload_bytes;
    uint64_t seq; /* 0: answered by request */
    uint64_t request;
    bool sent, done;
    enum ps_err code;          /* of its answer */
    enum ps_err expected;      /* the code that it must be */
    struct kit_answer *answer; /* that is no ACK; freed with the post */
};

struct insist_client {
    struct insist *x;
    uint64_t conn;
    Psd__Job *job; /* a copy; NULL: an observer */
    uint32_t task;
    uint64_t incarnation;
    bool met;     /* it was welcomed once: it resumes from then on */
    bool welcome; /* on this connection */
    bool gone;    /* it sends nothing more */
    uint64_t seq, clock;
    uint64_t acked_through;
    struct insist_post posts[INSIST_POSTS];
    size_t len;
};

struct insist {
    struct kit *k;
    bool together; /* all posts go out within one turn */
    bool disk;     /* the redo log is on disk at once */
    bool saver;    /* saves and checkpoints that began are carried to their end */
    struct insist_client clients[INSIST_CLIENTS];
    size_t len;
    unsigned again;   /* connections made again */
    uint64_t durable; /* what was reported to the shard of the disk */
};

struct insist_client *insist_worker(struct insist *x, const Psd__Job *job, uint32_t task);
struct insist_client *insist_observer(struct insist *x);

/* A new process in the place of a worker's. */
void insist_replace(struct insist_client *c);

/* Posted, not yet sent. The message is copied; sequenced ones have theirs from insist_seq(). */
struct insist_post *insist_post(struct insist_client *c, enum msg_type type, uint64_t seq, const ProtobufCMessage *m,
                                const float *payload, size_t len);
uint64_t insist_seq(struct insist_client *c);

/* The usual ones. */
struct insist_post *insist_declare(struct insist_client *c, const char *name, uint64_t elements,
                                   enum ps_optimizer_kind kind);
struct insist_post *insist_push(struct insist_client *c, uint32_t var, uint32_t block, const float *gradient,
                                size_t len);
struct insist_post *insist_push_as(struct insist_client *c,
                                   const struct kit_push *p); /* seq 0: the next; clock is the client's */
struct insist_post *insist_tick(struct insist_client *c, uint64_t position); /* 0: without a cursor */
struct insist_post *insist_pull(struct insist_client *c, uint32_t var, uint32_t block, uint64_t clock, bool now);

/* Send, connect, work and listen until all is answered, as it is expected; then what was posted is forgotten. */
void insist_all(struct insist *x);

/* The same without an expected end: until no client can do anything more. */
void insist_some(struct insist *x);

/* One request of an observer, until it is answered with this type. The answer is the caller's. */
struct kit_answer *insist_ask(struct insist_client *c, enum msg_type type, const ProtobufCMessage *m,
                              enum msg_type answer);

/* The shard's process ended: all connections are lost. */
void insist_crashed(struct insist *x);

void insist_finish(struct insist *x);

#endif
