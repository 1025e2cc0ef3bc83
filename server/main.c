/* psd: options, the start (directories, shard), the daemon; then everything is released in reverse order.
 *
 * Every failure on the way is one line and an exit status that --help lists. */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "common/cli/streams.h"
#include "common/core/base/base.h"
#include "common/system/environment.h"
#include "server/access/access_policy.h"
#include "server/access/certificate.h"
#include "server/core/shard/shard.h"
#include "server/daemon/daemon.h"
#include "server/daemon/notify.h"
#include "server/daemon/socket_activation.h"
#include "server/http/http.h"
#include "server/process/bus_error.h"
#include "server/process/log.h"
#include "server/process/options.h"
#include "server/process/options_limits.h"
#include "server/recovery/open_stores.h"
#include "server/recovery/replay_tool.h"

#ifndef PSD_VERSION
#define PSD_VERSION "unknown"
#endif

/* What reload() needs: the command line stays as it was. */
static int main_argc;
static char **main_argv;

struct psd_process {
    struct options options;
    struct activated_sockets activated;
    struct access_policy policy;
    struct open_stores stores;
    struct daemon daemon;
    struct http *http; /* NULL: --http was not given */
};

/* What the environment says of the cluster: TF_CONFIG, else PSD_SHARDS; and PSD_CLUSTER. */
static enum ps_err
apply_environment(struct options *o, struct ps_error *e)
{
    char *tf_config = NULL, *shards = NULL, *cluster = NULL;
    enum ps_err err;

    if ((err = environment_read("TF_CONFIG", &tf_config, e)) == PS_OK &&
        (err = environment_read("PSD_SHARDS", &shards, e)) == PS_OK &&
        (err = environment_read("PSD_CLUSTER", &cluster, e)) == PS_OK)
        err = tf_config != NULL ? options_apply_tf_config(o, tf_config, e) : options_apply_shards(o, shards, e);
    if (err == PS_OK)
        err = options_apply_cluster(o, cluster, e);
    free(tf_config);
    free(shards);
    free(cluster);
    return err;
}

static enum ps_err
load_options(struct options *o, struct ps_error *e)
{
    struct cgroup_limits limits;
    enum ps_err err = options_parse(o, main_argc, main_argv, e);

    if (err != PS_OK || o->line.asked != COMMAND_RUN || o->sample_config)
        return err;
    if ((err = apply_environment(o, e)) != PS_OK)
        return err;
    cgroup_limits_read("", &limits);
    return options_apply_limits(o, &limits, e);
}

static enum ps_err
check_ready_fd(const struct psd_process *s, struct ps_error *e)
{
    uint64_t fd = s->options.ready_fd;

    if (fd != 0 && fcntl((int)fd, F_GETFD) < 0)
        return ps_fail(e, PS_ERR_CONFIG, "--ready-fd: descriptor %" PRIu64 " is not open", fd);
    if (fd >= SOCKET_ACTIVATION_FIRST && fd < SOCKET_ACTIVATION_FIRST + s->activated.len)
        return ps_fail(e, PS_ERR_CONFIG, "--ready-fd: descriptor %" PRIu64 " is one of LISTEN_FDS", fd);
    return PS_OK;
}

/* ---- Starting ---- */

#define DESCRIPTORS_OTHER (64 + DAEMON_LINGERING_MAX) /* files, listeners, HTTP, and connections that are closed */

/* A connection is a descriptor; the usual limit of 1024 is for programs that use select(). */
static void
raise_descriptors(struct options *o)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= o->connections_max + DESCRIPTORS_OTHER)
        return;
    log_line(LOG_LEVEL_WARNING, "the limit of open files is below --connections-max limit=%" PRIu64 " max=%" PRIu64,
             (uint64_t)limit.rlim_cur, o->connections_max);
    if (limit.rlim_cur > 2 * DESCRIPTORS_OTHER) /* the places that are kept for administrators are to be there */
        o->connections_max = limit.rlim_cur - DESCRIPTORS_OTHER;
}

static void
warn_of_limit(const struct options *o)
{
    struct cgroup_limits limits;
    char text[1024];

    cgroup_limits_read("", &limits);
    if (options_limits_exceeded(o, &limits, text, sizeof text))
        log_line(LOG_LEVEL_WARNING, "%s", text);
}

static const char *
data_name(const struct open_stores *s)
{
    static const char *const names[] = {[DATA_NEW] = "new", [DATA_KEPT] = "kept", [DATA_REBUILT] = "rebuilt"};

    return names[s->data];
}

static void
log_start(const struct psd_process *s)
{
    const struct options *o = &s->options;
    const struct open_stores *st = &s->stores;
    struct store_usage usage;

    st->store->ops->usage(st->store, &usage);
    log_line(LOG_LEVEL_INFO,
             "psd " PSD_VERSION " serves cluster=%s shard=%" PRIu64 "/%" PRIu64 " live_dir=%s data=%s used_mib=%" PRIu64
             " max_mib=%" PRIu64 " max_is=\"%s\" durable_dir=%s%s%s",
             o->cluster, o->shard, o->shards, st->live_dir, data_name(st), (uint64_t)(usage.used_bytes / MIB),
             (uint64_t)(usage.max_bytes / MIB), st->report.limit_why,
             s->daemon.save_schedule.durable ? st->durable.path : "none", o->advertise != NULL ? " advertise=" : "",
             o->advertise != NULL ? o->advertise : "");
}

static void
log_http(const struct psd_process *s)
{
    const struct certificate *certificate = http_certificate(s->http);
    const char *address = http_address(s->http);
    bool plain = certificate->shows[0] == '\0';

    if (!plain)
        log_line(LOG_LEVEL_INFO, "metrics and health, encrypted, certificate=\"%s\" http=%s", certificate->shows,
                 address);
    else
        log_line(LOG_LEVEL_INFO, "metrics and health at http=%s", address);
    certificate_watch(certificate, "HTTP");
    if (plain && s->policy.http.len > 0 && !http_is_local(s->http))
        log_line(LOG_LEVEL_WARNING, "tokens of HTTP travel as they are, to be read on the way: give --http-tls http=%s",
                 address);
}

/* Called first: opening the data may take long, and HTTP clients see that psd is starting. */
static enum ps_err
start_http(struct psd_process *s, struct ps_error *e)
{
    const struct activated_socket *activated = socket_activation_http(&s->activated);
    struct http_endpoint at = {.address = s->options.http, .fd = -1};
    struct tls_files files;
    enum ps_err err;

    if (activated == NULL && strcmp(s->options.http, "none") == 0)
        return PS_OK;
    if (activated != NULL)
        at = (struct http_endpoint){.address = activated->address, .fd = activated->fd};
    if (http_tls_files(&s->options, &files))
        at.tls = &files;
    at.pages = s->options.http_shards;
    at.shard = (uint32_t)s->options.shard;
    if ((err = http_start(&at, PSD_VERSION, &s->policy, &s->http, e)) == PS_OK)
        log_http(s);
    return err;
}

static enum ps_err
main_start(struct psd_process *s, struct ps_error *e)
{
    enum ps_err err;

    s->stores.options = &s->options;
    if ((err = start_http(s, e)) != PS_OK)
        return err;
    err = s->options.until != 0 ? replay_tool_open(&s->stores, e) : open_stores_begin(&s->stores, e);
    if (err != PS_OK)
        return err;
    s->daemon.options = &s->options;
    s->daemon.stores = &s->stores;
    s->daemon.store = s->stores.store;
    s->daemon.shard = s->stores.shard;
    s->daemon.live_dir = s->stores.live_dir;
    s->daemon.reload = load_options;
    s->daemon.http = s->http;
    s->daemon.policy = &s->policy;
    s->daemon.activated = &s->activated;
    if ((err = daemon_start(&s->daemon, e)) != PS_OK)
        return err;
    log_start(s);
    return notify_ready(&s->daemon, e);
}

static int
main_serve(struct psd_process *s)
{
    struct ps_error e = {0};
    enum ps_err err = main_start(s, &e);

    if (err == PS_OK)
        daemon_run(&s->daemon);
    else
        log_line(err == PS_ERR_CANCELLED ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR, "%s", e.text);
    daemon_finish(&s->daemon);
    if (err != PS_OK)
        open_stores_undo(&s->stores);
    open_stores_close(&s->stores);
    http_stop(s->http);
    if (err == PS_OK || err == PS_ERR_CANCELLED)
        log_line(LOG_LEVEL_INFO, "stopped");
    return err == PS_OK || err == PS_ERR_CANCELLED ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int
main_list(const struct options *o)
{
    struct ps_error e = {0};
    enum ps_err err = replay_tool_list(o->replay, stdout, &e);

    if (err != PS_OK)
        log_line(LOG_LEVEL_ERROR, "%s", e.text);
    return fflush(stdout) == 0 && err == PS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int
main_run(struct psd_process *s)
{
    struct ps_error e = {0};

    if (load_options(&s->options, &e) != PS_OK || socket_activation_take(&s->activated, &e) != PS_OK ||
        check_ready_fd(s, &e) != PS_OK) {
        fprintf(stderr, "psd: %s\n", e.text);
        return EXIT_USAGE;
    }
    if (s->options.line.asked != COMMAND_RUN)
        return command_answer(&psd_command, &s->options.line, stdout);
    if (!s->options.sample_config && access_policy_open(&s->policy, &s->options, &e) != PS_OK) {
        fprintf(stderr, "psd: %s\n", e.text);
        return EXIT_USAGE;
    }
    if (s->options.sample_config || s->options.check) {
        if (s->options.sample_config)
            options_sample(stdout);
        else
            puts("psd: the options are valid");
        return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    log_open(s->options.log_level);
    bus_error_listen();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ,
           SIG_IGN); /* a file that may not grow is an error, as on a full disk, and does not end the process */
    if (s->options.replay != NULL && s->options.until == 0)
        return main_list(&s->options);
    raise_descriptors(&s->options);
    warn_of_limit(&s->options);
    return main_serve(s);
}

/* ThreadSanitizer creates its record of a thread's signals at the first blocking call, and loses a signal that comes
 * just then: create it before any process can know this pid. */
static void
known_to_sanitizer(void)
{
#ifdef __SANITIZE_THREAD__
    poll(NULL, 0, 0);
#endif
}

int
main(int argc, char **argv)
{
    struct psd_process *s;
    int status;

    known_to_sanitizer();
    streams_open();
    if ((s = calloc(1, sizeof *s)) == NULL) {
        fprintf(stderr, "psd: out of memory\n");
        return EXIT_FAILURE;
    }
    main_argc = argc;
    main_argv = argv;
    status = main_run(s);
    access_policy_finish(&s->policy);
    options_finish(&s->options);
    free(s);
    return status;
}
