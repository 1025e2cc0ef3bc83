/* psd's options: one table drives the command line, the configuration file, --help and validation.
 *
 * A value comes from the first of: command line, configuration file, TF_CONFIG or PSD_SHARDS (--listen, --advertise,
 * --shard, --shards only), default. Both --name VALUE and --name=VALUE are understood; in the file a line is
 * "name = value", '#' starts a comment.
 *
 * Files: options_table (the table), options (where values come from), options_place (the environment), options_limits
 * (defaults under a memory limit). */
#ifndef SERVER_PROCESS_OPTIONS_H
#define SERVER_PROCESS_OPTIONS_H

#include <stdio.h>

#include "common/cli/command.h"
#include "common/include/psclient/ps_err.h"
#include "server/process/log.h"

enum option_source { FROM_DEFAULT, FROM_ENVIRONMENT, FROM_FILE, FROM_ARGS };

#define OPTIONS_MAX 64

#define HTTP_TOKEN_VALUE "PSD_HTTP_TOKEN" /* in the environment: the one token of HTTP */

struct options {
    const char *listen; /* addresses, separated by commas */
    const char *advertise;
    const char *unix_path;
    const char *http;                         /* "none": nothing is served */
    const char *http_shards;                  /* NULL: where other shards serve HTTP is not known */
    const char *http_tokens;                  /* NULL: the environment's one, or none */
    const char *http_tls_cert, *http_tls_key; /* NULL: with --http-tls tls_cert and tls_key */
    const char *cluster;
    const char *live_dir;           /* NULL: see live_dir_default() */
    const char *durable_dir;        /* NULL: see durable_dir_default(); "none" */
    const char *checkpoint_root;    /* NULL: checkpoints may be anywhere */
    const char *restore;            /* NULL: nothing is restored at the start */
    const char *replay;             /* a durable directory to look into, instead of serving */
    const char *tls_cert, *tls_key; /* NULL: TCP is plain */
    const char *tls_client_ca;      /* NULL: clients need no certificate */
    const char *tokens;             /* NULL: the environment's one token, or none */
    const char *quota;              /* of tokens, separated by commas; NULL: the usual ones */
    const char *unix_users;         /* NULL: the socket's permissions decide */
    const char *tcp_congestion;
    const char *ready_file;
    const char *config;
    uint64_t unix_mode;
    uint64_t shard, shards;
    uint64_t memory;      /* bytes; 0: this shard's part of 80 % of what is free, and no more than memory_most */
    uint64_t memory_most; /* what a memory limit leaves for the data (options_limits.h); 0: there is none */
    uint64_t shards_here; /* shards of the cluster that are known to be on this host, with this one */
    uint64_t in_flight, in_flight_connection, gather_memory;
    uint64_t connections_max, jobs_max, variables_max, sessions_max, barriers_max, parked_max, parked_bytes_max;
    uint64_t hello_ms, observer_ms, frame_ms;
    uint64_t save_interval_ms; /* 0: only when asked */
    uint64_t save_pause_ms, save_on_stop_ms;
    uint64_t save_rate; /* bytes per second; 0: no limit */
    uint64_t redo_backlog;
    uint64_t grace_ms;
    uint64_t shared_max;
    uint64_t spin_us, adaptive_spin_us;
    uint64_t timeline; /* spans */
    uint64_t ready_fd; /* 0: none */
    uint64_t until;    /* record to replay to; 0: list them */
    enum log_level log_level;
    int http_tls; /* 0: HTTP is plain; 1: it is TLS alone */
    bool discard_stale, insecure, sample_config, check;
    struct command_line line; /* --help and the like, instead of serving */

    /* private */
    char *text[OPTIONS_MAX]; /* values as they were written; the strings above point to them */
    enum option_source source[OPTIONS_MAX];
};

/* Parse the command line and the configuration file that it names; then one of the two options_apply_ below, which may
 * give the number of shards, checks --shard. PS_ERR_INVALID, PS_ERR_CONFIG: the sentence names the option, or
 * file:line. Ended by options_finish(), also after a failure. */
enum ps_err options_parse(struct options *o, int argc, char **argv, struct ps_error *e) PS_MUST_USE;
void options_finish(struct options *o); /* accepts a zeroed one */

/* When TF_CONFIG's text is given and none of --listen, --unix, --shard and --shards was: this process is the ps of its
 * task. PS_ERR_CONFIG. */
enum ps_err options_apply_tf_config(struct options *o, const char *text, struct ps_error *e) PS_MUST_USE;

/* When PSD_SHARDS's text is given and neither --listen nor --shards was: the cluster's shards are that list, and this
 * process is its entry --shard. So every shard of a cluster, and every worker, may have the same environment.
 * PS_ERR_CONFIG. */
enum ps_err options_apply_shards(struct options *o, const char *list, struct ps_error *e) PS_MUST_USE;

/* When PSD_CLUSTER's text is given and --cluster was not: the cluster is called so, as its workers have it.
 * PS_ERR_CONFIG.
 */
enum ps_err options_apply_cluster(struct options *o, const char *name, struct ps_error *e) PS_MUST_USE;

/* A configuration file with every option in it, commented out and explained. */
void options_sample(FILE *out);

/* Visit the options that differ between two. reloadable: SIGHUP may take it from the new one. Texts are for people. */
typedef void (*options_visit)(void *arg, const char *name, bool reloadable, const char *was, const char *is);
void options_compare(const struct options *was, const struct options *is, options_visit visit, void *arg);

/* Take over the reloadable options, also those that are not given any more. */
void options_reload(struct options *o, const struct options *from);

/* ---- For the files of this module ---- */

extern const struct command psd_command;

/* Give an option its text. Nothing happens when it already has one from a better source; one that repeats and has one
 * from the same source gets both. called: as in option_store(). */
enum ps_err options_set(struct options *o, const struct option *row, const char *called, enum option_source source,
                        const char *text, struct ps_error *e) PS_MUST_USE;

/* On the command line or in the file. */
bool options_given(const struct options *o, const char *name);

enum ps_err options_check_place(const struct options *o, struct ps_error *e) PS_MUST_USE;

#endif
