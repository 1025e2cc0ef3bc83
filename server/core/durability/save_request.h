/* Requests for saves and checkpoints: MSG_SAVE, MSG_CHECKPOINT, SHARD_SAVE.
 *
 *     asked ──► waiting ──a save may begin, the clock is there──► answering ──► SAVE_DONE, CHECKPOINT_DONE or ERROR
 *                  └── CANCEL, the connection is gone: dropped        └── the connection is gone: no answer
 *
 * All requests for a save that arrive before its instant are answered by it. A checkpoint that waits for its clock
 * delays no other: later requests go first. When its clock is there, it goes before all others.
 *
 * A checkpoint at a clock, in sync: its instant is the end of the first turn in which all steps before the clock are
 * done in every block of the job here. In sync(n of n) it then is the same clock for all of them: a push of the next
 * step finds the turn full until the instant has been (save_gate_holds()). When another save has held it up and blocks
 * are past the clock already, the next clock that they all stand at is taken instead; the answer says which. In ssp:
 * the slowest worker has come to the clock. In async there is none to wait for. */
#ifndef SERVER_CORE_DURABILITY_SAVE_REQUEST_H
#define SERVER_CORE_DURABILITY_SAVE_REQUEST_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"
#include "server/core/durability/save.h"

#define SAVE_REQUESTS_MAX 64 /* that wait on one shard */

struct shard;
struct connection;
struct job;

struct save_request {
    struct connection *connection; /* NULL: no answer */
    uint64_t request;
    uint32_t job_id; /* of a checkpoint; 0: a save */
    bool verify;     /* a save */
    bool at_clock;
    uint64_t clock, since_ms;
    struct save_place at; /* sync: blocks before this one have come to the clock */
    struct save_request *prev, *next;
    char dir[]; /* of a checkpoint */
};

/* Take one, or answer why not. c NULL: of the glue. */
void save_request_save(struct shard *s, struct connection *c, uint64_t request, bool verify);
void save_request_checkpoint(struct shard *s, struct connection *c, uint64_t request, const Psd__Checkpoint *m);

/* The request that is due, with all others that its save answers, taken out of the queue. NULL: none. */
struct save_request *save_request_next(struct shard *s);

/* Their save ended: answer them, and free them. */
void save_request_done(struct shard *s, struct save_request *list, enum msg_type type, const ProtobufCMessage *m);
void save_request_failed(struct shard *s, struct save_request *list, enum ps_err code, const char *text);
void save_request_free(struct save_request *list);

/* Give up those of a connection (request 0: all), with an answer, or without (PS_OK). True when there was one. */
bool save_request_end(struct shard *s, struct connection *c, uint64_t request, enum ps_err code);

/* Checkpoints of a job that wait end with this error; one that runs goes on. */
void save_request_end_job(struct shard *s, uint32_t job_id, enum ps_err code, const char *text);

/* Blocks are loaded again: look at all of them. */
void save_request_reload(struct shard *s);

#endif
