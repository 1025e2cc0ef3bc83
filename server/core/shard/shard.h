/* The shard: the whole server as a function over values. Pure: no sockets, disk, clock, randomness or threads; time and
 * seeds come in with events, blocks through store.h, answers go out as actions. psd, unit tests and the simulator run
 * this same code.
 *
 * One turn of the loop:
 *
 *     for each event:  while (shard_step(shard, &event) == SHARD_TURN_FULL) end_turn();
 *     end_turn():      err = shard_commit(shard);      // one write transaction; PS_OK when there was nothing to write
 *                      while (shard_next_action(shard, &action)) perform(&action);
 *
 * Actions of a turn are handed out only after its commit. When the commit fails, nothing of the turn happened: its
 * actions are gone, the core has reloaded what it keeps from the store, and a CLOSE comes out for every connection that
 * took part (the workers resend when they are back).
 *
 * A connection:
 *                    HELLO worker            goodbye, bad message, closed, replaced
 *     CONN_NEW ─────────────────────► CONN_WORKER ──────────────────────────────► gone
 *        │           HELLO observer
 *        └──────────────────────────► CONN_OBSERVER ────────────────────────────► gone
 *
 * A session (one worker index of one job; kept in the store; hello.h describes admission):
 *
 *     (none) ─new hello─► SESSION_LIVE ─┬─connection lost: grace passes; silent: lease passes─► SESSION_LAPSED ──┐
 *                          ▲  ▲  │      └─goodbye(finished)───────────────────────────────────► SESSION_FINISHED ┤
 *                          │  └──┘ resume, same incarnation                                                      │
 *                          └──────new hello, another incarnation: clock = slowest live───────────────────────────┘
 *
 * Folders of the core call down only; this is the order, from the top, and what they do:
 *
 *     metrics      figures for Prometheus and the page
 *     shard        shard (events), message (frames), hello and worker_exit (workers come and go), commit (the turn's
 *                  end), replay, drain, setting, report, wait_report, permissions, upcall_handlers
 *     durability   save, redo (pieces of the log, the disk), restore, catalog (all that is loaded), durable
 *     training     push, sync_step (gradients of a step), pull, barrier, pending (messages that wait), durable_acks
 *     model        variable, declare, block (found and made), kind, update (of one block)
 *     sessions     job, session (lease), sequence (exactly once), clock (which worker is slowest), data_steps
 *     journal      what modules say must be in the redo log
 *     turn         turn (the transaction), actions (what goes out), connection, limit, traffic, pool (memory)
 *     workers      values: data_cursor, roster, worker_metrics ...
 *     store        where blocks and rows are kept
 */
#ifndef SERVER_CORE_SHARD_SHARD_H
#define SERVER_CORE_SHARD_SHARD_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/store/store.h"
#include "server/core/turn/shard_types.h"

/* Create over a store and load what it holds. Borrows the store until shard_free(). Copies strings. PS_ERR_CLUSTER when
 * the store belongs to another cluster or shard, PS_ERR_VERSION when its format is not known, PS_ERR_NOMEM, PS_ERR_IO.
 */
enum ps_err shard_new(const struct shard_config *config, struct store *store, uint64_t now_ms, struct shard **out,
                      struct ps_error *e) PS_MUST_USE;
void shard_free(struct shard *s); /* accepts NULL; aborts an open turn */

enum shard_result shard_step(struct shard *s, const struct shard_event *event);

/* The head of a frame has come, and the rest has not: whether this connection, with this role, may send such a message
 * now, before memory is taken for it. Changes nothing. What is refused is given as SHARD_BROKEN: PS_ERR_PROTOCOL (a
 * message that has no place here, a payload where there is none, metadata past the limit), PS_ERR_DENIED (its role is
 * too low), with a sentence. */
enum ps_err shard_head(const struct shard *s, uint64_t conn, const struct frame_head *head, enum role role,
                       struct ps_error *e) PS_MUST_USE;

/* End the turn. See above for what a failure means. */
enum ps_err shard_commit(struct shard *s);

/* Another grace from now on (--grace is reloadable); 0: the default. SHARD_TIME is due at once. */
void shard_set_grace(struct shard *s, uint32_t grace_ms);

/* These are the quotas of tokens from now on (--quota is reloadable); copied. False: no memory, they are as before. */
struct quota_row;
bool shard_set_quotas(struct shard *s, const struct quota_row *rows, size_t len) PS_MUST_USE;

/* Another limit of messages in memory from now on (--in-flight is reloadable), and of requests that wait: its
 * SHARD_PARKED_PART. */
void shard_set_in_flight(struct shard *s, uint64_t bytes);

/* True when the turn wrote something that shard_commit() must commit. */
bool shard_dirty(const struct shard *s);

/* True when the turn had better end now: it has updated SHARD_TURN_LONG bytes of weights and slots. So what it answers
 * with is still in the cache, and so are the pages that it leaves behind, which LMDB hands out again in the turn after
 * the next: each further turn's worth that lies between a page's old use and its new one is cache that it falls out of.
 * Or its answers take SHARD_TURN_ANSWERS bytes, which the glue counts, and can hold back, only when the turn ends. */
bool shard_long_turn(const struct shard *s);

/* Heap bytes of requests that wait, of all connections. */
uint64_t shard_waiting_bytes(const struct shard *s);

/* The same, of this connection alone; 0 when it is not open. */
uint64_t shard_connection_waiting_bytes(const struct shard *s, uint64_t conn);

/* How many it has updated by now; 0 again once it is committed. */
uint64_t shard_turn_updated(const struct shard *s);

/* A turn of the glue's, for the timeline: when it began, its commit began, its answers began to go out, and it ended.
 */
void shard_turn_took(struct shard *s, uint64_t start_ns, uint64_t commit_ns, uint64_t answer_ns, uint64_t end_ns);

/* The spans that the shard has kept, for readers (timeline.h). */
struct timeline;
const struct timeline *shard_timeline(const struct shard *s);

/* When SHARD_TIME is wanted next (ms, monotonic); UINT64_MAX: never. */
uint64_t shard_next_time(const struct shard *s);

/* True while SHARD_WORK is wanted. */
bool shard_busy(const struct shard *s);

/* ---- Actions ---- */

/* False when there is none. */
bool shard_next_action(struct shard *s, struct shard_action *out);

/* Build the reply from a snapshot of the newest commit, which must be held until the parts were sent or copied. Counts
 * the pull in the statistics. PS_ERR_NOMEM, PS_ERR_IO, PS_ERR_ROLLED_BACK (a restore has begun to write since): close
 * the connection. */
enum ps_err shard_data_open(struct shard *s, struct shard_data *data, struct store_snapshot *snap,
                            struct shard_reply *out) PS_MUST_USE;

/* ---- Saves (save.h): what the glue carries from the live store to the durable one ----
 *
 *     SHARD_SAVE_BEGUN ──► shard_save_next() ──► read and written ──► SHARD_SAVE_PASSED ──► SHARD_SAVE_CLOSE
 *                              ▲                                          │                        │
 *                              └──────────────── not all yet ─────────────┘    SHARD_SAVE_ENDED ◄──┘ the end is written
 *
 * At any moment: SHARD_SAVE_ENDED with an error from the glue, or (until SHARD_SAVE_CLOSE) SHARD_SAVE_ABANDONED. */

/* The next blocks of the save that runs: as many as there is room for in out and as fit into bytes (one at least).
 * Returns how many; 0: all were handed out, or there is no save. Handed out in order, to be passed in order. */
size_t shard_save_next(struct shard *s, size_t bytes, struct shard_save_block *out, size_t room);

/* Whether something has changed since the instant of the newest complete save, or there is none: for a caller that
 * saves at intervals. SHARD_SAVE saves in any case. */
bool shard_save_due(const struct shard *s);

/* No worker may train before a save is complete: what was restored must be on disk. Not kept over a process: ask. */
bool shard_save_awaited(const struct shard *s);

/* ---- Restores (restore.h) ---- */

/* A restore that an earlier process began and did not finish: its directory and job, until the next event; open it and
 * give it to the shard. False: there is none. */
bool shard_restore_unfinished(const struct shard *s, const char **dir, const char **job);

/* One is under way, or stopped in the middle. False: *why the last one was refused; may be NULL. */
bool shard_is_restoring(const struct shard *s, struct ps_error *why);

/* What psd's --restore says, as a number that is kept with the data: so that a restart with the same command line goes
 * on with them, whatever `latest` has become by then. Never 0. */
uint64_t shard_restore_by(const char *option);

/* Data here began with that option's checkpoint, and all of it was read. name: of the checkpoint, for data of a psd
 * that did not keep the option. */
bool shard_was_restored_by(const struct shard *s, uint64_t by, const char *name);

/* What lies here is part of a checkpoint, and is not saved. */
bool shard_is_half_restored(const struct shard *s);

/* No variable was ever declared here, and no job is known. */
bool shard_is_empty(const struct shard *s);

/* How often all that was dropped has been erased: much memory may have been freed at once since the last time. */
uint64_t shard_erased(const struct shard *s);

/* ---- Replaying (redo.h): after shard_new() over a rebuilt store, before the first event ---- */

/* Give the shard all pieces of a redo log, in order; it commits by itself now and then. After the last, or to stop
 * there, shard_replay_end(): `records` is how many were replayed. PS_ERR_IO, with a sentence: the log is damaged. */
enum ps_err shard_replay_piece(struct shard *s, struct span piece, struct ps_error *e) PS_MUST_USE;
enum ps_err shard_replay_end(struct shard *s, uint64_t *records, struct ps_error *e) PS_MUST_USE;

#endif
