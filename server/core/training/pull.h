/* Pulls: those that must wait for slower workers are parked, and go out at the end of the turn that lets them.
 *
 *     asked ──condition holds──► SHARD_DATA
 *       └──► parked ──clock rose, step done──► SHARD_DATA
 *              ├── CANCEL ──► CANCELLED      (deadlines are the client's)
 *              ├── lapse, job says FAIL ──► STEP_FAILED
 *              └── connection gone: forgotten; the client asks again
 */
#ifndef SERVER_CORE_TRAINING_PULL_H
#define SERVER_CORE_TRAINING_PULL_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"
#include "server/core/sessions/sequence.h"

struct shard;
struct shard_data;

struct pull {
    struct connection *connection;
    struct job *job; /* whose blocks they are */
    uint64_t request, clock, since_ms, since_ns;
    uint64_t with_assign;                   /* no block without the assigns up to this one */
    bool now;                               /* whatever the mode's condition */
    bool settles;                           /* only blocks that take values of an assign are waited for */
    uint32_t at;                            /* sync: blocks before this one are ready */
    struct shard_data *data;                /* what it asks for */
    struct pull *prev, *next;               /* in its job */
    struct pull *parked_prev, *parked_next; /* in its connection */
};

/* Answer now, park, or refuse. */
void pull_ask(struct shard *s, struct connection *c, uint64_t request, const Psd__Pull *m);

/* Send the blocks of a push that wants values: one that waited (held_us: for other workers), or one that is answered at
 * once; until: as in durable_acks.h. codes: [n], or NULL when all were applied. */
void pull_answer_push(struct shard *s, struct connection *c, uint64_t until, const struct pending *p, uint64_t held_us);
void pull_answer_now(struct shard *s, struct connection *c, uint64_t until, uint64_t request, const Psd__Push *m,
                     const uint32_t *codes);

/* Send what became ready. */
void pull_sweep(struct shard *s);

/* End parked pulls with an error, or (PS_OK) without an answer: of one connection (request 0: all); true when there was
 * one. Of a job: all; those that wait for workers; those of variables that were dropped. */
bool pull_end(struct shard *s, struct connection *c, uint64_t request, enum ps_err code, const char *text);
void pull_end_job(struct shard *s, struct job *job, enum ps_err code, const char *text);
void pull_end_waiting(struct shard *s, struct job *job, enum ps_err code, const char *text);
void pull_end_dropped(struct shard *s, struct job *job, const char *text);

/* Drop them without an answer. */
void pull_forget(struct shard *s, struct connection *c);

#endif
