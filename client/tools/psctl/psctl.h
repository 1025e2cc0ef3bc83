/* What psctl's commands share: the options, the cluster, and what its exit status means. */
#ifndef CLIENT_TOOLS_PSCTL_PSCTL_H
#define CLIENT_TOOLS_PSCTL_PSCTL_H

#include "client/tools/psctl/query/lost_shard.h"
#include "client/tools/psctl/query/query_all.h"
#include "client/tools/psctl/views/render.h"
#include "client/tools/shared/printer.h"
#include "common/cli/option_row.h"

enum {
    STATUS_NOT_REACHED = 1, /* a shard did not answer, or --check found an unhealthy one */
    STATUS_DIFFERENT = 1,   /* of snapshot diff */
    STATUS_USAGE = 2,
    STATUS_REFUSED = 3 /* a shard refused */
};

/* Asked where neither an option nor the environment names the shards: psd's own default. */
#define PSCTL_USUAL_SHARD "127.0.0.1:7420"

/* The job of psctl bench. It stays when that is over (psctl drop), and is ignored where no job is named. */
#define PSCTL_BENCH_JOB "psctl-bench"

struct psctl_settings {
    const char *tls_ca, *tls_cert, *tls_key, *tls_name;
    const char *shards, *token_file, *job, *variables, *name, *from_checkpoint, *through, *declare, *live_dir, *listen,
        *output;
    struct option_list except;
    int64_t timeout_ms, count, watch_ms, interval_ms, shard, at_clock, keep, until, top, seconds_ms, workers, bound;
    int colour, sort, by, mode;
    int64_t block_bytes, in_flight;
    bool json, check, all, slots, yes, force, live;
};

struct psctl {
    struct psctl_settings settings;
    const char *command; /* its name */
    int64_t work_ms;     /* of what takes long: saves, checkpoints, restores, imports, waits, each pull of an export */
    bool one_shard, at_one_clock; /* --shard, --at-clock were given */
    bool restores;                /* the command ends the shards' connections */
    bool ranked;                  /* variables: --top, --by or --variables was */
    char **words;                 /* the command's own */
    int words_len;
    const ps_cluster *cluster;
    struct printer printer; /* standard output */
    bool in_place;          /* and it is a terminal that can be drawn on again and again */
};

/* The commands. Each returns an exit status. */
int psctl_query(struct psctl *p, enum view_kind kind);
int psctl_top(struct psctl *p);
int psctl_set(struct psctl *p);
int psctl_drain(struct psctl *p);
int psctl_evict(struct psctl *p);
int psctl_drop(struct psctl *p);
int psctl_save(struct psctl *p);
int psctl_verify(struct psctl *p);
int psctl_checkpoint(struct psctl *p);
int psctl_restore(struct psctl *p);
int psctl_export(struct psctl *p);
int psctl_import(struct psctl *p);
int psctl_bench(struct psctl *p);
int psctl_snapshot(struct psctl *p);
int psctl_trace(struct psctl *p);
int psctl_wait(struct psctl *p);
int psctl_replay(const struct psctl *p); /* returns only when there is no psd */

/* The only job of the cluster, into job: 0, or the exit status after an error that was printed. */
int psctl_only_job(const struct psctl *p, char job[PS_NAME_MAX + 1]);

/* Whether a shard knows the job of --job, if that was given: 0, or, when all report that they do not, the exit status
 * after an error that was printed. */
int psctl_know_job(const struct psctl *p);

/* The one of --job, which a shard knows, or the only one: 0 or an exit status. */
int psctl_choose_job(const struct psctl *p, char job[PS_NAME_MAX + 1]);

/* 0, or the exit status for the first shard that was not reached, which was then printed. */
int psctl_need_all(const struct shard_answer *answers, uint32_t n);

/* The shards that psctl asks. must_be: where nothing names any, psd's own address is asked whether one is there, and
 * PS_ERR_INVALID says that none is. */
enum ps_err psctl_cluster(const struct psctl_settings *settings, bool must_be, ps_cluster **out,
                          struct ps_error *e) PS_MUST_USE;

/* The cluster under its own name, which clients that find blocks need; and an observer of a job there. 0, or an exit
 * status. The caller frees, and closes. */
int psctl_cluster_named(const struct psctl *p, ps_cluster **out);
int psctl_open_job(const struct psctl *p, const char *job, struct lost_shard *lost, ps_client **client);

/* An observer of all shards, for what they do together. lost: of the long call that follows, begun here. */
enum ps_err psctl_open_all(const struct psctl *p, struct lost_shard *lost, ps_client **client,
                           struct ps_error *e) PS_MUST_USE;

/* Print it on standard error; returns the exit status that it means. psctl_usage(): the command line makes no sense. */
int psctl_failed(const struct ps_error *e);
int psctl_usage(const struct ps_error *e);

/* Asks on a terminal; false elsewhere. */
bool psctl_agrees(const char *question);

/* The worst among the answers; 0 when there is no error. */
int psctl_status_of(const struct shard_answer *answers, uint32_t n);

/* A worker's number, as a word of the command. */
bool psctl_worker_number(const char *word, uint32_t *out);

/* A line for each shard: what say() puts into out, or why the shard did not do what was asked. */
typedef void (*psctl_print_done)(const struct psctl *p, const struct shard_answer *a, char *out, size_t size);
void psctl_print_answers(const struct psctl *p, const struct shard_answer *answers, uint32_t n, psctl_print_done say);

/* Have the shard of --shard, or without it all of them, do something, and print the result. Returns the exit status. */
int psctl_print_error(struct psctl *p, enum query_kind kind, psctl_print_done say);

#endif
