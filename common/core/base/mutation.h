/* Bugs that a maintainer could make, put in on purpose: tests/sim/test_mutation.c shows that the simulator finds every
 * one of them. The tests build the cores once more with PSD_MUTATION and choose one bug at a time; in installed
 * programs MUTATION() is a constant false, and nothing of this is built.
 *
 *     if (session->pending_len == 0 && !MUTATION(SOME_BUG))
 *
 * A new one is a line here, a place in the code, and a row in test_mutation.c. */
#ifndef COMMON_CORE_BASE_MUTATION_H
#define COMMON_CORE_BASE_MUTATION_H

/* clang-format off */
#define MUTATION_LIST(X)                                                                                                \
    /* exactly once */                                                                                                 \
    X(RESENT_AS_NEW,        "after a reconnect the client sends what is not acknowledged under new numbers")           \
    X(NOT_RESENT,           "after a reconnect the client does not send again what it had sent")                       \
    X(APPLIED_FORGOTTEN,    "a push that was applied ahead of a waiting barrier is applied again after a crash")       \
    X(SEQUENCE_NOT_KEPT,    "the number of the last push does not commit with its update")                             \
    X(WAITING_IS_DONE,      "the stored number counts pushes that still wait for their step as done")                  \
    X(REFUSAL_NOT_KEPT,     "after a crash a push that was refused is answered as applied")                            \
    X(SENT_IS_CANCELLED,    "a push given up while the connection is lost is said not to count, though it was sent")   \
    /* turns */                                                                                                        \
    X(ACK_BEFORE_COMMIT,    "answers leave before the turn's transaction has committed")                               \
    X(NOT_RELOADED,         "after a failed commit memory stays as the turn had made it")                              \
    X(REFUSED_LEAVES_TRACE, "a push with NaN is refused, and what the kernel wrote stays in the block")                \
    X(UPDATED_IN_PLACE,     "the committed block itself is updated: who reads it sees two states")                     \
    /* pulls */                                                                                                        \
    X(VERSION_OF_TURN,      "an answer carries the version that the open turn has made, with the values before it")    \
    X(PLACED_BY_ORDER,      "the client puts a block where the shard's order says, not where the variable's does")     \
    X(ANOTHER_CLOCK,        "ssp lets a worker run one clock further than the bound")                                  \
    X(FIRST_BLOCK_ONLY,     "a pull in sync waits for its first block only")                                           \
    X(COUNTS_AS_WAITING,    "a pull that was answered, or given up, still counts in its identity's share")             \
    /* the steps of sync */                                                                                            \
    X(ONE_TOO_FEW,          "a step closes with one gradient missing")                                                 \
    X(WORKER_TWICE,         "a worker that comes back within a step adds a second gradient to it")                     \
    X(ORDER_OF_ARRIVAL,     "gradients are summed as they came, not in worker order")                                  \
    X(LATE_IS_COUNTED,      "after a crash every push whose step is over is said to be in it")                         \
    /* workers */                                                                                                      \
    X(LAPSED_HOLDS_UP,      "the others still wait for the clock of a worker whose lease lapsed")                      \
    X(EVICTED_HOLDS_UP,     "the others still wait for the clock of a worker that was evicted")                        \
    X(EVICTED_IS_HEARD,     "what comes on the connection of a worker that was evicted is taken")                      \
    X(EVICTION_NOT_KEPT,    "after the next start who was evicted is told to join again")                              \
    X(BARRIER_EARLY,        "a barrier opens when one worker has not come")                                            \
    X(AGE_IGNORED,          "a gradient older than the cutoff is applied")                                             \
    /* settings */                                                                                                     \
    X(RATE_NOT_KEPT,        "a learning rate that was set is gone with the next start")                                \
    X(BEGIN_NOT_KEPT,       "where a schedule that was set has begun is gone with the next start")                     \
    X(BOUND_NOT_KEPT,       "a bound or an age policy that was set is gone with the next start")                       \
    X(NUMBER_NOT_KEPT,      "a job has as many workers as it was opened with again with the next start")               \
    X(ROUND_NOT_SAID,       "a shard that lost a round's beginning does not hear of it from the hellos of its workers")        \
    /* drops */                                                                                                        \
    X(DROP_NOT_KEPT,        "a job that was dropped is there again with the next start")                               \
    X(DROPPED_NOT_SWEPT,    "blocks of dropped variables stay in the durable store")                                   \
    X(DROP_NOT_LOGGED,      "a job that was dropped is there again after power loss")                                  \
    X(DROPPED_STILL_WAITS,  "values of assigns that wait for blocks stay in the store when these are dropped")         \
    /* saves */                                                                                                        \
    X(PASSED_WHEN_HANDED,   "a save lets go of a block when the saver asks for it, not when it has read it")           \
    X(INSTANT_OVERWRITTEN,  "an update during a save writes over the value of the save's instant")                     \
    X(LEFT_BEHIND_WINS,     "after a crash in a save the older of a block's two values is taken")                      \
    X(CLOSED_EARLY,         "a save is closed before its last block was read")                                         \
    X(STAGED_BY_ANOTHER,    "what was staged before a power loss is taken for blocks of the next save")                \
    /* durable pushes */                                                                                               \
    X(DURABLE_BEFORE_SYNC,  "a durable push is answered before its record is on disk")                                 \
    X(REPEAT_NOT_HELD,      "a durable push that comes again is answered before its record is on disk")                \
    X(PIECE_ERASED_EARLY,   "a piece of the log is erased when it is committed, not when it is on disk")               \
    X(LOG_NOT_CUT,          "a replay goes over records that are in the save as well")                                 \
    X(LOG_CUT_AHEAD,        "a save cuts the log one piece further than its instant")                                  \
    /* checksums */                                                                                                    \
    X(SUM_NOT_VERIFIED,     "a value from the disk is taken whatever its checksum")                                    \
    /* rollbacks */                                                                                                    \
    X(OLD_BOOT_KEPT,        "a shard that was made anew from its disk goes by the boot of the save")                   \
    X(SURVIVORS_NOT_TOLD,   "a worker is not told which of its pushes survived")                                       \
    X(SURVIVORS_SENT_AGAIN, "a worker that was told so sends them again all the same")                                 \
    X(UNANSWERED_COUNTED,   "a client takes survivors that it had no answer to for ones that it had")                  \
    X(VERSIONS_REMEMBERED,  "after a rollback the client asks for what is newer than versions that are gone")          \
    /* cursors */                                                                                                      \
    X(COUNTED_AGAIN,        "a block counts an example that an earlier process of the worker has pushed")              \
    X(BITS_NOT_KEPT,        "which blocks have counted a step is gone with the next start")                            \
    X(PLACE_OF_LAST,        "a worker goes on where the last shard has it, not where the first one has")              \
    X(DEFINITION_NOT_KEPT,  "what the workers of a job train is gone with the next start")                             \
    X(BEGINS_ANEW,          "a process in a worker's place is told that its data begins where the others are by now") \
    /* metrics */                                                                                                      \
    X(SUMMED_AGAIN,         "a step that a worker does again is added to its metrics once more")                       \
    X(SUMS_NOT_KEPT,        "metrics are gone with the next start")                                                    \
    X(SUMS_NOT_LOGGED,      "durable pushes survive power loss, and the metrics of their steps do not")                \
    /* quotas */                                                                                                       \
    X(HOLDER_NOT_KEPT,      "which token a worker's session is of is gone with the next start")                        \
    /* assigns */                                                                                                      \
    X(ASSIGN_NOT_KEPT,      "what is known of assigns is gone with the next start")                                    \
    X(PREPARED_GIVEN_UP,    "a shard gives up an assign that it has prepared, because its worker is gone")             \
    X(ASSIGNS_MIXED,        "a pull takes blocks from before an assign and blocks from after it")                      \
    X(STAGED_NOT_LOGGED,    "the values of a durable assign are not in the redo log")

/* For the simulator of groups (tests/sim/group). */
#define MUTATION_GROUP_LIST(X)                                                                                          \
    X(GROUP_ANY_OPERATION,  "ranks that start different operations under one number are believed")                     \
    X(GROUP_EARLY_LOST,     "a message that came before its operation was started is forgotten")                       \
    X(GROUP_TELLER_GUILTY,  "who tells of a failure is taken for who is guilty of it")                                 \
    X(GROUP_ENDS_WELL,      "operations that a failure ends are said to have ended well")                              \
    X(GROUP_NEVER_LATE,     "an operation's deadline is not looked at")                                                \
    X(GROUP_PONG_DEAF,      "answers to pings are not counted")                                                        \
    X(GROUP_NOT_CUT,        "links keep what a group that has failed had given them")                                  \
    X(GROUP_TAKEN_IS_SENT,  "a message is done when it is handed to its link, which still reads it")                   \
    X(GROUP_ENDS_UNHEARD,   "an operation ends well before all peers have announced it")                               \
    X(GROUP_ENDS_EARLY,     "ranks with which an operation exchanges no data are not waited for")
/* clang-format on */

enum mutation {
    MUTATION_NONE,
#define X(name, text) MUTATION_##name,
    MUTATION_LIST(X)
#undef X
        MUTATION_BUGS,
    MUTATION_GROUP_BASE = MUTATION_BUGS - 1, /* so that the first of these is MUTATION_BUGS */
#define X(name, text) MUTATION_##name,
    MUTATION_GROUP_LIST(X)
#undef X
        MUTATION_GROUP_BUGS
};

#ifdef PSD_MUTATION
extern enum mutation mutation; /* the test's */
#define MUTATION(name) (mutation == MUTATION_##name)
#else
#define MUTATION(name) (MUTATION_##name == MUTATION_NONE)
#endif

#endif
