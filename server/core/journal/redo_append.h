/* The modules' side of the redo log: they report here what must be in the log, and it goes into the record that is
 * being made (redo_record.h). The log itself decides when that is written, and what follows (durability/redo.h):
 *
 *     model, sessions, training ──► redo_append: room, updates, pushes, rows ──► the record ──► durability/redo:
 * pieces, the disk, answers
 *
 * All of it is for nothing when the turn fails, and out of memory fails the turn. */
#ifndef SERVER_CORE_JOURNAL_REDO_APPEND_H
#define SERVER_CORE_JOURNAL_REDO_APPEND_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/store/store.h"

struct shard;
struct block_ref;
struct job;
struct session;
struct data_cursor_span;

/* ---- Whether there is room ---- */

/* Why a durable push cannot be taken now: UNSUPPORTED, LIMIT, or the disk's error. room: it would take. */
enum ps_err redo_check(struct shard *s, uint64_t room, struct ps_error *e) PS_MUST_USE;

/* Whether what waits for the disk may be so much more. */
bool redo_has_room(const struct shard *s, uint64_t room);

/* Nothing can be written to the disk for now; s->redo.failure says why. */
bool redo_failed(const struct shard *s);

/* Room that a record may take, of so many blocks and pushes and gradients of so many bytes; what waits to be recorded
 * is counted in. */
uint64_t redo_room(const struct shard *s, uint64_t blocks, uint64_t pushes, uint64_t gradient_bytes);

/* Room that so many rows may take, a job's among them: that has names of metrics. */
#define REDO_ROW_MAX (1 * KIB)
#define REDO_JOB_MAX (8 * KIB)
static inline uint64_t
redo_rows_room(uint64_t rows)
{
    return round_up(rows * REDO_ROW_MAX, 4 * KIB) + REDO_JOB_MAX;
}

/* Something waits to be recorded: the turn has something to write. */
bool redo_waits(const struct shard *s);

/* ---- Changes ---- */

/* A block was updated; when: the clock that its schedule went by, of no interest in sync. gradient: [ref->values] f32,
 * readable until the event ends; owned: it is a piece of the pool, and the record's from now on. */
void redo_update(struct shard *s, const struct block_ref *ref, float scale, uint64_t when, const float *gradient,
                 bool owned);

/* A block has this value of an assign waiting, and that learning rate with it (staged.h): [ref->values] f32, readable
 * until the event ends. */
void redo_staged(struct shard *s, const struct block_ref *ref, uint64_t number, float rate, const float *values);

/* In the last update this worker's data counts. What it has summed up goes along where the log does not have it yet:
 * wherever its data ends in the log, the metrics of all data before are there, too. */
void redo_count(struct shard *s, struct session *session, const struct data_cursor_span *span);

/* A job was dropped, or these of its variables: [len]. Rows that changed before go first, later ones into the next
 * record: redo_flush() follows. */
void redo_drop(struct shard *s, const struct job *job, const uint32_t *vars, size_t len);

struct redo_pushed {
    uint64_t seq, clock;
    enum ps_err code;
};

/* A push was resolved. */
void redo_push(struct shard *s, const struct session *session, const struct redo_pushed *push);

/* The session's newest attempt at an assign is done. */
void redo_assigned(struct shard *s, const struct session *session);

/* A row changed by other means than pushes: a sink (row.h) that job_to_redo(), variable_to_redo() and
 * session_row_to_redo() write to. */
enum ps_err redo_row(struct shard *s, enum store_table table, struct span key, struct span value);

#endif
