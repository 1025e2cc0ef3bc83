/* Every counter of a shard, one row each: a count of events since its process began. The list generates the fields of
 * struct shard_stats (server/core/turn/stats.h), the StatsReport message, Prometheus' families
 * (server/core/metrics/metrics.h), "totals" in the page's JSON, and the lines of psctl stats with their texts in
 * psctl's manual. deploy/README.md has the families in a table, which a test holds against this.
 *
 *     X(member, page, kind, name, about, family, reason)
 *
 *     member  of struct shard_stats, of psd.proto's StatsReport (stats_report_has_every_counter holds that it has no
 *             other), and of the JSON of both
 *     page    PAGE: it is in the page's totals; OFF
 *     kind    COUNT, BYTES, or TROUBLE: psctl shows more than 0 as a warning
 *     name    that psctl shows
 *     about   what psctl's manual says
 *     family  Prometheus': FIRST(id, name, help) where it begins, ALSO(id) for what it counts besides
 *     reason  its label in the family; NULL: the family has this counter alone
 *
 * A new counter is a row here, a field with a new number in StatsReport, and a line in deploy/README.md's table. The
 * groups are there because Prometheus' families, the page and psctl have other figures between them, each elsewhere. */
#ifndef COMMON_CORE_WIRE_STATS_LIST_H
#define COMMON_CORE_WIRE_STATS_LIST_H

/* clang-format off */

/* Turns, and the pushes that they took. */
#define STATS_PUSHES(X)                                                                                               \
    X(turns, OFF, COUNT, "loop turns",                                                                                \
      "batches of events that the shard handled together",                                                            \
      FIRST(TURNS, "psd_turns_total", "Turns of the loop that changed something or answered."), NULL)                 \
    X(commits, OFF, COUNT, "transactions committed",                                                                  \
      "turns that changed something, and wrote it to the live directory",                                             \
      FIRST(COMMITS, "psd_commits_total", "Transactions committed."), NULL)                                           \
    X(pushes_applied, PAGE, COUNT, "pushes applied",                                                                  \
      "pushed blocks that went into the weights; a push of many blocks counts each of them, and where the "           \
      "gradients of several workers are averaged, each worker's",                                                     \
      FIRST(APPLIED, "psd_pushes_applied_total", "Gradients of blocks that were applied."), NULL)                     \
    X(pushes_repeated, PAGE, COUNT, "pushes answered as repeats",                                                     \
      "pushes that had been applied before, and were sent again since their answer was lost: they change nothing",    \
      FIRST(REPEATED, "psd_pushes_repeated_total",                                                                    \
            "Gradients that came again, and were answered, not applied again."), NULL)

/* Not in the report: SaveReport has it. */
#define STATS_DURABLE(X)                                                                                              \
    X(pushes_durable, PAGE, COUNT, NULL, NULL,                                                                        \
      FIRST(DURABLE, "psd_pushes_durable_total", "Pushes that asked to be on disk."), NULL)

/* Pushes that changed nothing. */
#define STATS_LOST(X)                                                                                                 \
    X(refused_nonfinite, PAGE, TROUBLE, "pushes refused: NaN or Inf",                                                 \
      "blocks of pushes with a value that is no finite number",                                                       \
      FIRST(REFUSED, "psd_pushes_refused_total", "Gradients of blocks that were refused, by reason."), "nonfinite")   \
    X(refused_shape, PAGE, TROUBLE, "pushes refused: shape",                                                          \
      "blocks of pushes whose length is not the block's",                                                             \
      ALSO(REFUSED), "shape")                                                                                         \
    X(refused_other, PAGE, TROUBLE, "pushes refused: other",                                                          \
      "blocks of pushes that were refused for another reason",                                                        \
      ALSO(REFUSED), "other")                                                                                         \
    X(dropped_stale, PAGE, COUNT, "blocks dropped: too old",                                                          \
      "pushed blocks that had missed more updates than the job's age policy allows",                                  \
      FIRST(DROPPED, "psd_pushes_dropped_total",                                                                      \
            "Gradients of blocks that were too old or too late to count."), "stale")                                  \
    X(dropped_late, PAGE, COUNT, "blocks dropped: too late",                                                          \
      "pushed blocks of a clock whose update was made without them",                                                  \
      ALSO(DROPPED), "late")

#define STATS_PULLS(X)                                                                                                \
    X(pulls, PAGE, COUNT, "pulls answered",                                                                           \
      "blocks that were sent to workers",                                                                             \
      FIRST(PULLS, "psd_pulls_total", "Blocks that were sent."), NULL)                                                \
    X(pulls_parked, PAGE, COUNT, "pulls that had to wait",                                                            \
      "requests for blocks that waited for slower workers; one pull of a worker is a request to each shard that "     \
      "has blocks of it",                                                                                             \
      FIRST(PARKED, "psd_pulls_parked_total", "Pulls that had to wait."), NULL)                                       \
    X(pushed_bytes, PAGE, BYTES, "bytes pushed",                                                                      \
      "gradients of the pushes that were applied, 4 bytes a value",                                                   \
      FIRST(PUSHED, "psd_pushed_bytes_total", "Bytes of gradients that were applied."), NULL)                         \
    X(pulled_bytes, PAGE, BYTES, "bytes pulled",                                                                      \
      "weights that were sent, 4 bytes a value",                                                                      \
      FIRST(PULLED, "psd_pulled_bytes_total", "Bytes of weights that were sent."), NULL)                              \
    X(assigns, PAGE, COUNT, "assigns done",                                                                           \
      "values that workers gave for variables with ps_client_assign(), or as their first ones: each counts once "     \
      "on every shard",                                                                                               \
      FIRST(ASSIGNS, "psd_assigns_total", "Assigns that are done."), NULL)

#define STATS_WORKERS(X)                                                                                              \
    X(lease_lapses, PAGE, TROUBLE, "leases lapsed",                                                                   \
      "workers that were not heard of for as long as their lease",                                                    \
      FIRST(LAPSES, "psd_lease_lapses_total", "Workers whose lease or grace ended."), NULL)                           \
    X(evictions, PAGE, COUNT, "workers evicted",                                                                      \
      "workers whose sessions psctl evict has ended",                                                                 \
      FIRST(EVICTIONS, "psd_evictions_total", "Workers that were ended with psctl evict."), NULL)

#define STATS_PEERS(X)                                                                                                \
    X(bad_peers, PAGE, TROUBLE, "connections closed for bad input",                                                   \
      "connections that broke the protocol",                                                                          \
      FIRST(BAD_PEERS, "psd_bad_peers_total", "Connections closed for breaking the protocol."), NULL)                 \
    X(hello_timeouts, OFF, TROUBLE, "connections closed without hello",                                               \
      "connections that sent no hello within --hello-timeout",                                             \
      FIRST(HELLO, "psd_hello_timeouts_total", "Connections closed because no hello came in time."), NULL)             \
    X(observer_timeouts, OFF, COUNT, "silent observers closed",                                                       \
      "observers that said nothing for --observer-timeout",                                                           \
      FIRST(OBSERVER, "psd_observer_timeouts_total", "Observers closed because they said nothing."), NULL)             \
    X(made_way, OFF, TROUBLE, "silent connections that made way",                                                     \
      "connections that said nothing and were closed for a new one, since there were as many as --connections-max allows", \
      FIRST(MADE_WAY, "psd_made_way_total", "Silent connections closed for new ones."), NULL)                         \
    X(over_quota, OFF, TROUBLE, "refused: over a token's quota",                                                      \
      "jobs, workers and variables that were refused since their token held as much as --quota allows it",            \
      FIRST(OVER_QUOTA, "psd_over_quota_total", "Jobs, workers and variables refused by a token's quota."), NULL)

/* Of a shard: requests that need a higher role. In the report with what its sockets denied; in the exposition it is one
 * of several reasons. */
#define STATS_DENIED(X)                                                                                               \
    X(denied, OFF, TROUBLE, "denied",                                                                                 \
      "connections that did not prove to have a token, and requests that take a higher role than their token's",      \
      ALSO(DENIED), "role")

/* clang-format on */

/* The counters of a StatsReport, in psctl's order. */
#define STATS_REPORTED(X) STATS_PUSHES(X) STATS_LOST(X) STATS_PULLS(X) STATS_WORKERS(X) STATS_PEERS(X) STATS_DENIED(X)

#define STATS_LIST(X) STATS_REPORTED(X) STATS_DURABLE(X)

#define STATS_ONE(...) +1
enum { STATS_LEN = 0 STATS_LIST(STATS_ONE) };

enum stats_page { STATS_OFF, STATS_PAGE };

#endif
