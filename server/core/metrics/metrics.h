/* Figures for a monitoring system: taken on the loop's thread, written as text on another one. Pure.
 *
 *     the loop's thread                                    the HTTP thread
 *     shard_measure(shard, &event, m), the glue's own ───► m->process, metrics_write(m, &x)
 *
 * A struct metrics holds copies alone, so that nothing of the shard is looked at while the text is made. Its series are
 * bounded: of jobs, variables and workers so many are shown one by one, and how many were left out. Jobs with live
 * workers come before others, then the older ones: a job that is shown stays shown as long as it trains.
 *
 * The label of a job is job_name: "job" is what Prometheus calls the group of those that it scrapes. */
#ifndef SERVER_CORE_METRICS_METRICS_H
#define SERVER_CORE_METRICS_METRICS_H

#include "common/core/base/base.h"
#include "common/core/wire/wire.h"
#include "server/core/durability/save.h"
#include "server/core/metrics/exposition.h"
#include "server/core/shard/wait_report.h"
#include "server/core/store/store.h"
#include "server/core/turn/limit.h"
#include "server/core/turn/stats.h"
#include "server/core/turn/traffic.h"

#define METRICS_JOBS_MAX      64  /* shown one by one */
#define METRICS_VARIABLES_MAX 256 /* the same */
#define METRICS_WORKERS_MAX   256 /* the same */
#define METRICS_WAITS_MAX     64  /* the same; for the page, not for Prometheus */
#define METRICS_ON_MAX        8   /* workers that one of these names */
#define METRICS_SUMS_MAX      8   /* of a worker's metrics that are shown */
#define METRICS_AGE_BUCKETS   18  /* of push ages: to 65,535, and above */

#define METRICS_LOG_LEVELS 4

/* Series of each that is shown one by one: what a cluster costs Prometheus. */
#define METRICS_JOB_SERIES      (6 + METRICS_SUMS_MAX)
#define METRICS_VARIABLE_SERIES 14
#define METRICS_WORKER_SERIES   23

/* Whether work is taken, for readiness. */
/* clang-format off */
#define METRICS_STATE_LIST(X)                                                \
    X(STARTING,  "starting",  "the data is being opened or rebuilt")         \
    X(RESTORING, "restoring", "a checkpoint is being restored")              \
    X(SERVING,   "serving",   "serving")                                     \
    X(BROKEN,    "broken",    "the live store cannot be read")               \
    X(STOPPING,  "stopping",  "what is in flight is finished, and saved")
/* clang-format on */

enum metrics_state {
#define X(id, name, text) METRICS_##id,
    METRICS_STATE_LIST(X)
#undef X
        METRICS_STATES
};
extern const char *const metrics_state_names[METRICS_STATES], *const metrics_state_texts[METRICS_STATES];

/* Of the process; any thread may ask the kernel. */
struct metrics_process {
    double cpu_seconds, start_seconds; /* unix time */
    uint64_t resident_bytes, virtual_bytes;
    uint64_t descriptors, descriptors_max; /* 0: not known */
};

/* Why an HTTP request was denied: it had no token, or none that is known. */
enum http_denial { HTTP_DENIAL_MISSING, HTTP_DENIAL_WRONG, HTTP_DENIALS };

/* Sockets with a certificate. */
enum metrics_certificate { METRICS_CERTIFICATE_TCP, METRICS_CERTIFICATE_HTTP, METRICS_CERTIFICATES };

/* The HTTP side's own. */
struct metrics_http {
    uint64_t denied[HTTP_DENIALS];
    uint64_t answers[6]; /* by status / 100 */
    uint64_t overdue;    /* connections closed because their time was up */
    uint64_t unasked;    /* that ended before there was a request */
    double loop_seconds; /* that the loop took to give these figures */
    uint64_t durable_file_bytes;
};

/* Names of the first of a job's metrics (metric_names.h). */
struct metrics_names {
    char name[METRICS_SUMS_MAX][WIRE_METRIC_NAME_MAX + 1]; /* [len] */
    uint32_t len;
};

struct metrics_job {
    char name[WIRE_NAME_MAX + 1];
    char options[160]; /* "ssp(bound 4), 3 workers, ..." */
    uint32_t id;
    uint32_t workers, live, lapsed, finished;
    uint64_t slowest, fastest;     /* clocks */
    double sums[METRICS_SUMS_MAX]; /* [sums_len]: of its workers' metrics (worker_metrics.h); shard 0 has them */
    uint32_t sums_len;
    struct metrics_names names; /* of the same */
};

struct metrics_variable {
    char job[WIRE_NAME_MAX + 1], name[WIRE_NAME_MAX + 1];
    uint64_t blocks, bytes;
    struct ps_optimizer optimizer; /* as it is now */
    double learning_rate;          /* of the next update of its first block here */
    struct traffic stats;
    uint64_t waited_ms[TRAFFIC_WAITS]; /* by traffic_waits */
};

struct metrics_worker {
    char job[WIRE_NAME_MAX + 1];
    uint32_t task;
    uint32_t job_id;
    bool finished;
    uint64_t connected, live; /* 1, or 0 */
    uint64_t clock, silent_ms, unanswered, pushes, lapses;
    struct traffic stats;
    uint64_t waited_ms[WAITS];
    double sums[METRICS_SUMS_MAX]; /* [sums_len]: its own */
    uint32_t sums_len;
};

/* struct waiting (wait_report.h), copied. */
struct metrics_wait {
    char job[WIRE_NAME_MAX + 1], who[WAIT_REPORT_WHO_MAX], what[WAIT_REPORT_WHAT_MAX], variable[WIRE_NAME_MAX + 1],
        on[128];
    uint32_t task;
    uint64_t clock, on_clock, waited_ms;
    uint32_t on_task[METRICS_ON_MAX], on_len; /* that it waits for, and how many more: on_len may be larger */
};

struct metrics {
    enum metrics_state state;
    struct metrics_process process;
    struct metrics_http http;
    uint64_t log_lines[METRICS_LOG_LEVELS]; /* error, warning, info, debug */
    bool measured;                          /* the rest is there: not before there is a shard */

    /* ---- The shard's ---- */
    char cluster[WIRE_CLUSTER_MAX + 1];
    uint32_t shard, shards;
    uint64_t boot;
    struct shard_stats stats;
    uint64_t waiting[WAITS]; /* now */
    uint64_t limit_now[LIMITS], limit_max[LIMITS], limit_refused[LIMITS];
    struct store_usage live;
    uint64_t data_bytes, gather_bytes, in_flight_bytes;
    uint64_t connections, jobs_len, variables_len, sessions[3], blocks; /* sessions: live, lapsed, finished */

    bool durable; /* there is a durable environment; else the next are nothing */
    struct save_stats save;
    bool save_running, unsaved, durable_failed;
    uint64_t save_number, save_blocks, save_blocks_done;
    uint64_t redo_committed, redo_waiting, redo_waiting_bytes; /* pieces: all that ever were, not on disk yet */
    uint64_t redo_log_bytes;                                   /* since the newest save */

    struct metrics_job jobs[METRICS_JOBS_MAX];
    struct metrics_variable variables[METRICS_VARIABLES_MAX];
    struct metrics_worker workers[METRICS_WORKERS_MAX];
    struct metrics_wait waits[METRICS_WAITS_MAX];
    size_t jobs_shown, variables_shown, workers_shown, waits_shown;
    uint64_t workers_len;
    bool waits_more; /* than are shown */

    /* ---- The glue's ---- */
    uint64_t denied[DENIALS]; /* but for DENIAL_ROLE, which is the shard's */
    uint64_t handshakes_failed[HANDSHAKES], refused[REFUSALS];
    uint64_t certificate_ends[METRICS_CERTIFICATES]; /* as tls_ends(); 0: there is none, or not known */
    uint64_t accepted, received_bytes, sent_bytes;
    double saved_seconds; /* unix time of the newest save's end; 0: none is known */
    uint64_t redo_saved;  /* pieces before this one are in the newest save */
};

/* All figures of the shard; m->state: RESTORING, SERVING or BROKEN. event: its time, and the glue's figures as with a
 * query. */
struct shard;
struct shard_event;
void shard_measure(const struct shard *s, const struct shard_event *event, struct metrics *m);

/* All families. version: of psd. x->failed: there was no memory. */
void metrics_write(const struct metrics *m, const char *version, struct exposition *x);

/* ---- Families: one row each. Counters end in _total, and names in their unit ---- */

/* A family of counters from stats_list.h, as METRICS_LIST has it: so that list is always given one that is called X. */
#define METRICS_OF_STAT(member, page, kind, name, about, family, reason) METRICS_##family
#define METRICS_FIRST(id, name, help)                                    X(id, name, COUNTER, help)
#define METRICS_ALSO(id)

/* The same for the counters of traffic.h, of variables and of workers. */
#define METRICS_OF_VARIABLE(member, shown, kind, name, help, ...)              X(VAR_##member, name, kind, help)
#define METRICS_OF_WORKER(member, shown, kind, var_name, var_help, name, help) X(WORKER_##member, name, kind, help)

/* clang-format off */
#define METRICS_LIST(X)                                                                                                 \
    X(BUILD, "psd_build_info", GAUGE, "1, with the version of this psd.")                                                \
    X(STATE, "psd_state", GAUGE, "1 for the state that this shard is in, 0 for the others.")                             \
    X(LOOP, "psd_loop_answer_seconds", GAUGE, "How long the loop that does the work took to give these figures.")        \
    X(LOG, "psd_log_messages_total", COUNTER, "Lines logged, by level.")                                                 \
    X(HTTP, "psd_http_responses_total", COUNTER, "Answers of this HTTP server, by class of status.")                     \
    X(HTTP_OVERDUE, "psd_http_overdue_total", COUNTER, "HTTP connections closed because their time was up.")             \
    X(HTTP_UNASKED, "psd_http_unasked_total", COUNTER, "HTTP connections that ended without a request: probes, silence, TLS that failed.") \
    X(HTTP_DENIED, "psd_http_denied_total", COUNTER, "HTTP requests without a token that is known, by reason.")          \
    X(CPU, "process_cpu_seconds_total", COUNTER, "User and system CPU time of the process.")                             \
    X(START, "process_start_time_seconds", GAUGE, "When the process began, in unix time.")                               \
    X(RESIDENT, "process_resident_memory_bytes", GAUGE, "Resident memory, with what is touched of the live map.")        \
    X(VIRTUAL, "process_virtual_memory_bytes", GAUGE, "Virtual memory.")                                                 \
    X(FDS, "process_open_fds", GAUGE, "Open file descriptors.")                                                          \
    X(FDS_MAX, "process_max_fds", GAUGE, "The most file descriptors that may be open.")                                  \
    X(INFO, "psd_shard_info", GAUGE, "1, with the cluster, this shard's place in it and the life of its data.")          \
    STATS_PUSHES(METRICS_OF_STAT)                                                                                        \
    STATS_LOST(METRICS_OF_STAT)                                                                                          \
    STATS_DURABLE(METRICS_OF_STAT)                                                                                       \
    X(AGE, "psd_push_age_updates", HISTOGRAM, "Updates that a block took between the pull and the push of a gradient.")  \
    STATS_PULLS(METRICS_OF_STAT)                                                                                         \
    X(RECEIVED, "psd_received_bytes_total", COUNTER, "Bytes read from workers and tools.")                               \
    X(SENT, "psd_sent_bytes_total", COUNTER, "Bytes written to workers and tools.")                                      \
    X(CONNECTIONS, "psd_connections", GAUGE, "Connections of workers and tools.")                                        \
    X(ACCEPTED, "psd_connections_accepted_total", COUNTER, "Connections accepted.")                                      \
    X(TURNED_AWAY, "psd_connections_refused_total", COUNTER, "Connections that could not stay, whoever it was, by reason.") \
    STATS_PEERS(METRICS_OF_STAT)                                                                                         \
    X(HANDSHAKES, "psd_tls_handshake_failures_total", COUNTER, "TLS handshakes that came to nothing, by reason.")        \
    X(CERTIFICATE, "psd_certificate_expiry_timestamp_seconds", GAUGE, "When the certificate of these sockets ends, in unix time.") \
    X(DENIED, "psd_denied_total", COUNTER, "Connections that were not let in, and messages that take a higher role.")    \
    X(SESSIONS, "psd_sessions", GAUGE, "Workers that are remembered, by state.")                                         \
    STATS_WORKERS(METRICS_OF_STAT)                                                                                       \
    X(WAITING, "psd_waiting", GAUGE, "What waits now, by what it waits for.")                                            \
    X(WAIT, "psd_wait_seconds", HISTOGRAM, "How long that waited which waits no more, by what it waited for.")           \
    X(JOBS, "psd_jobs", GAUGE, "Jobs.")                                                                                  \
    X(VARIABLES, "psd_variables", GAUGE, "Variables of all jobs.")                                                       \
    X(BLOCKS, "psd_blocks", GAUGE, "Blocks of all variables that are made.")                                             \
    X(DATA, "psd_data_bytes", GAUGE, "Weights, slots and heads of all blocks.")                                          \
    X(GATHER, "psd_gather_bytes", GAUGE, "Memory set aside for gradients that wait for their step.")                     \
    X(IN_FLIGHT, "psd_in_flight_bytes", GAUGE, "Messages in memory.")                                                    \
    X(LIVE_USED, "psd_live_used_bytes", GAUGE, "Pages in use in the live environment.")                                  \
    X(LIVE_FILE, "psd_live_file_bytes", GAUGE, "What the file of the live environment takes of memory.")                 \
    X(LIVE_MAX, "psd_live_max_bytes", GAUGE, "The most that it may take, as things are now.")                            \
    X(LIMIT_NOW, "psd_limit_used", GAUGE, "What is there of each thing that is limited by number.")                      \
    X(LIMIT_MAX, "psd_limit_max", GAUGE, "The most of it that is taken.")                                                \
    X(LIMIT_NOW_BYTES, "psd_limit_used_bytes", GAUGE, "What is there of each thing that is limited by size.")            \
    X(LIMIT_MAX_BYTES, "psd_limit_max_bytes", GAUGE, "The most of it that is taken.")                                    \
    X(LIMIT_REFUSED, "psd_limit_refused_total", COUNTER, "How often more was refused, or had to wait.")                  \
    X(CHECKPOINTS, "psd_checkpoints_total", COUNTER, "Checkpoints that were completed.")                                 \
    X(CHECKPOINT_FAILURES, "psd_checkpoint_failures_total", COUNTER, "Checkpoints that failed.")                         \
    X(SAVES, "psd_saves_total", COUNTER, "Saves that were completed.")                                                   \
    X(SAVE_FAILURES, "psd_save_failures_total", COUNTER, "Saves that failed or were given up.")                          \
    X(SAVE_SECONDS, "psd_save_duration_seconds", HISTOGRAM, "How long complete saves took.")                             \
    X(SAVE_TIME, "psd_save_last_success_timestamp_seconds", GAUGE, "When the newest save was complete, in unix time.")   \
    X(SAVE_LAST, "psd_save_last_duration_seconds", GAUGE, "How long the newest save took.")                              \
    X(SAVE_BYTES, "psd_save_last_bytes", GAUGE, "What the newest save wrote.")                                           \
    X(SAVE_NUMBER, "psd_save_number", GAUGE, "Number of the newest save, over all processes.")                           \
    X(SAVE_RUNNING, "psd_save_running", GAUGE, "1 while a save runs.")                                                   \
    X(SAVE_PROGRESS, "psd_save_progress_ratio", GAUGE, "How much of the save that runs is read.")                        \
    X(UNSAVED, "psd_save_due", GAUGE, "1 when something has changed since the newest save.")                             \
    X(NOT_DURABLE, "psd_durable_failed", GAUGE, "1 while pushes cannot be made durable.")                                \
    X(DURABLE_FILE, "psd_durable_file_bytes", GAUGE, "Size of the file of the durable environment.")                     \
    X(REDO, "psd_redo_log_pieces", GAUGE, "Pieces of the redo log since the newest save.")                               \
    X(REDO_LOG_BYTES, "psd_redo_log_bytes", GAUGE, "Their bytes: what a start after a power loss replays.")               \
    X(REDO_WAITING, "psd_redo_waiting_pieces", GAUGE, "Pieces of the redo log that are not on disk yet.")                \
    X(REDO_BYTES, "psd_redo_waiting_bytes", GAUGE, "Their bytes.")                                                       \
    X(JOB_WORKERS, "psd_job_workers", GAUGE, "Workers of a job, by state; missing: not there in this round.")            \
    X(JOB_SLOWEST, "psd_job_slowest_clock", GAUGE, "Clock of a job's slowest live worker.")                              \
    X(JOB_FASTEST, "psd_job_fastest_clock", GAUGE, "Clock of a job's fastest worker.")                                   \
    X(JOB_METRIC, "psd_job_metric", GAUGE, "What a job's workers have added up in this round, by index and name; shard 0 has it.") \
    X(JOBS_LEFT, "psd_jobs_left_out", GAUGE, "Jobs that are not shown one by one.")                                      \
    X(VAR_BLOCKS, "psd_variable_blocks", GAUGE, "Blocks of a variable on this shard.")                                   \
    X(VAR_BYTES, "psd_variable_bytes", GAUGE, "Weights and slots of a variable on this shard.")                          \
    TRAFFIC_LIST(METRICS_OF_VARIABLE)                                                                                    \
    X(VAR_WAITED, "psd_variable_wait_seconds_total", COUNTER, "How long requests waited that it was part of, by what for.") \
    X(VARS_LEFT, "psd_variables_left_out", GAUGE, "Variables that are not shown one by one.")                            \
    X(WORKER_LIVE, "psd_worker_live", GAUGE, "1 while the others count on this worker.")                                 \
    X(WORKER_CONNECTED, "psd_worker_connected", GAUGE, "1 while this worker has a connection.")                          \
    X(WORKER_CLOCK, "psd_worker_clock", GAUGE, "Steps that this worker has taken.")                                      \
    X(WORKER_SILENT, "psd_worker_silent_seconds", GAUGE, "Since the last message of this worker.")                            \
    X(WORKER_WAITS, "psd_worker_unanswered", GAUGE, "Messages of this worker that have no answer yet.")                  \
    X(WORKER_PUSHES, "psd_worker_pushes_total", COUNTER, "Pushes of this life of the worker that are answered.")         \
    TRAFFIC_LIST(METRICS_OF_WORKER)                                                                                      \
    X(WORKER_LAPSES, "psd_worker_lease_lapses_total", COUNTER, "How often the lease or grace of this worker ended.")     \
    X(WORKER_WAITED, "psd_worker_wait_seconds_total", COUNTER, "How long requests of this worker waited, by what for.")  \
    X(WORKERS_LEFT, "psd_workers_left_out", GAUGE, "Workers that are not shown one by one.")
/* clang-format on */

#endif
