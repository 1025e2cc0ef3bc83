/* Barriers: a name in a job where workers meet. It opens when every task that is neither lapsed nor finished has
 * arrived; one that never joined is waited for.
 *
 * A barrier may have a place in the data (barrier_opened.h). Then a worker that comes to it after it has opened, in the
 * place of one that was lost, passes at once, and so does one that comes to an earlier barrier; a worker that has gone
 * beyond it, since it waits at a later one or its metrics include later data, is not waited for. So workers that are
 * started again do not get out of step with the others, whatever they were killed in. The sums of the metrics when it
 * opens are kept. */
#ifndef SERVER_CORE_TRAINING_BARRIER_H
#define SERVER_CORE_TRAINING_BARRIER_H

#include "common/core/base/base.h"
#include "common/core/base/hash.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"
#include "server/core/sessions/sequence.h"
#include "server/core/workers/barrier_opened.h"

struct shard;
struct job;

struct barrier {
    char *name;
    struct job *job;
    bool placed;
    struct barrier_position place; /* where in the data, of one that is placed */
    struct pending *arrived;
    uint32_t arrived_len;
    UT_hash_handle hh; /* in its job, by name */
};

/* A worker arrives with the next sequence. */
void barrier_arrive(struct shard *s, struct session *session, uint64_t request, const Psd__Barrier *m);

/* Fewer workers are active, or one has come further: open the barriers that waited for these. */
void barrier_review(struct shard *s, struct job *job);

/* Take an arrival back; it is not resolved. */
void barrier_leave(struct shard *s, struct pending *p);

/* Active workers that have not arrived: up to max into tasks; returns how many there are. */
uint32_t barrier_missing(const struct barrier *b, uint32_t *tasks, uint32_t max);

void barrier_free_all(struct shard *s, struct job *job);

#endif
