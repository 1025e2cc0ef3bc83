/* The redo log: durable pushes between saves, so that they survive power loss.
 *
 *     push ──applied──► record written to the live store in the same transaction ──SHARD_REDO──► saver copies it to the
 *     durable environment, many to one sync ──SHARD_DURABLE──► answers go out; the live copy is erased
 *
 * A record (RedoRecord of store.proto, then gradients) describes one push, or one step's update in sync, or rows that
 * changed by other means than pushes (jobs, variables, sessions that begin, lapse or finish). Records are in the order
 * of events. Replayed over the save before them they give the same blocks, bit by bit, as far as all pushes were
 * durable; pushes that were not are missing, and their workers are notified (ROLLED_BACK).
 *
 * A record is cut into pieces of the store's few sizes, so that it takes the fewest pages. Pieces are numbered from 1
 * without gaps and lie behind the blocks (store_redo_key()). Each begins with a redo_head; a record's pieces are in one
 * transaction, live and durable.
 *
 * Within an event modules report changes (journal/redo_append.h). What has gradients is written as one record when the
 * event ends, into room that was asked for before (redo_room()); rows and pushes alone wait for the next such record,
 * or for the end of the turn. In a record rows come before updates, and pushes last.
 *
 * Sessions' rows are logged only where their contents hold without the pushes that are not in the log: when one begins
 * (in a boot, or at all) and when one ends. The effects of a worker's durable pushes on its row are found again by
 * replaying them: they lie past its last_seq, with gaps between (resolved_set.h).
 *
 * The log is cut by saves: pieces before the manifest's `redo` are in the save. */
#ifndef SERVER_CORE_DURABILITY_REDO_H
#define SERVER_CORE_DURABILITY_REDO_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/journal/redo_append.h"

struct shard;
struct redo_record;

/* How far the log has grown by the end of a turn; kept until that is on disk. */
struct redo_mark {
    uint64_t next;  /* piece after the turn's last */
    uint64_t bytes; /* of the turn's pieces */
};

struct redo {
    bool on;                    /* there is a durable environment */
    uint64_t next;              /* piece that comes next */
    uint64_t committed;         /* all before this are in the live store or were */
    uint64_t first;             /* all before this were erased there */
    uint64_t durable;           /* all before this are on disk */
    uint64_t given_up;          /* all before this will not be, but in a save: see redo_give_up() */
    uint64_t erased;            /* all before this are erased by the turn that runs */
    uint64_t bytes, turn_bytes; /* of pieces that wait for the disk; of this turn's */
    uint64_t log_bytes;         /* of committed pieces that are in no save, on disk or not */
    struct ps_error failure;    /* why nothing can be written to disk; PS_OK: it can */
    struct redo_mark *marks;    /* [marks_first, marks_len) of turns that are not on disk yet */
    size_t marks_first, marks_len, marks_size;
    struct redo_record *record; /* that is being made */
    uint64_t gap, gap_end;      /* these numbers are in no live store: the disk's log was further */
    bool no_room;               /* to erase by itself: that is done along with other turns */
};

/* After the sessions are loaded: what the live store holds. The glue is notified of pieces that are not on disk. */
enum ps_err redo_load(struct shard *s, struct ps_error *e) PS_MUST_USE;
void redo_finish(struct shard *s);

/* ---- Turns ---- */

/* The event has ended: write the record, if it has gradients. */
void redo_event_end(struct shard *s);

/* Write it now, into room that was asked for. */
void redo_flush(struct shard *s);

/* The turn ends, within its transaction: write what waits, erase some of what is on disk. */
enum ps_err redo_turn_end(struct shard *s) PS_MUST_USE;

/* It is committed (true), or nothing of it happened. */
void redo_turn_over(struct shard *s, bool committed);

/* ---- The disk ---- */

/* All pieces before this one are on disk, by themselves or within a save: answers go out. */
void redo_saved(struct shard *s, uint64_t number);

/* A save is complete that has so many bytes of the log: those that log_bytes had at its instant. */
void redo_cut(struct shard *s, uint64_t bytes);

/* SHARD_DURABLE and SHARD_NOT_DURABLE. */
void redo_durable(struct shard *s, uint64_t number);
void redo_not_durable(struct shard *s, const struct ps_error *why);

/* While nothing can be written rows are still logged, since workers come and go. Past the limit of what may wait the
 * oldest pieces are given up, the newest turn's never: so the durable side finds that some are missing, also after a
 * restart, and waits for a full save, which has their contents. */
void redo_give_up(struct shard *s);

/* While the log is replayed nothing is recorded; after it, all before this piece is on disk. */
void redo_pause(struct shard *s);
void redo_resume(struct shard *s, uint64_t next);

/* Pieces that are on disk are still in the live store: background work. False: no room for it in this turn. */
bool redo_busy(const struct shard *s);
bool redo_work(struct shard *s);

/* Erase up to so many within the turn's transaction. */
enum ps_err redo_erase(struct shard *s, uint32_t max) PS_MUST_USE;

#endif
