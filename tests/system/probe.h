/* A client that does one thing at a time: blocking, over plain sockets, one frame out and one frame in. It shares the
 * wire with libpsclient and nothing else, so that tests can break the protocol in every way. */
#ifndef TESTS_SYSTEM_PROBE_H
#define TESTS_SYSTEM_PROBE_H

#include "common/core/base/arena.h"
#include "common/core/wire/frame.h"
#include "common/core/wire/wire.h"

#define PROBE_WAIT_MS 60000 /* the longest that any answer may take */

struct probe {
    int fd; /* -1: the peer closed */
    uint64_t request, seq;
    struct arena arena;
    struct frame_head head;
    uint8_t *body; /* metadata, pad, payload, pad of the last frame */
    const uint8_t *payload;
    struct wire_msg msg;
};

/* Connect to "host:port" (numbers) or "unix:/path". False: refused. */
bool probe_connect(struct probe *p, const char *address);
void probe_close(struct probe *p);

/* Send a message; returns its request id. */
uint64_t probe_send(struct probe *p, enum msg_type type, const ProtobufCMessage *message, const void *payload,
                    size_t payload_len);
void probe_send_bytes(struct probe *p, const void *bytes, size_t len);

/* The next frame is in p->msg and p->payload. False: the peer closed the connection. */
bool probe_receive(struct probe *p);

/* The HELLO that probe_hello() sends; job is part of it. */
void probe_hello_fill(Psd__Hello *hello, Psd__Job *job, int task, uint64_t incarnation);

/* HELLO as a worker of job "job" (async, 8 workers) in cluster "psd", shard 0 of 1; as an observer when task < 0.
 * What answers is in p->msg. */
bool probe_hello(struct probe *p, int task, uint64_t incarnation, bool resume);

/* Declare float32[n] of zeros with sgd at rate 1 and wait for the id. */
uint32_t probe_declare(struct probe *p, const char *name, uint64_t n);

/* Push one block's gradient and wait for its code; pull one block and return its version. */
uint32_t probe_push(struct probe *p, uint32_t var, uint32_t block, const float *grad, size_t n);
uint64_t probe_pull(struct probe *p, uint32_t var, uint32_t block, float *out, size_t n);

#endif
