/* Metrics and health of a real psd: their contents while it starts, works, stands still and stops; and the answers to
 * malformed requests. */
#include <arpa/inet.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/core/base/base.h"
#include "server/http/http.h"
#include "tests/exposition_page.h"
#include "tests/faults/fail_io.h"
#include "tests/now.h"
#include "tests/system/http_client.h"
#include "tests/system/probe.h"
#include "tests/system/shard_processes.h"
#include "tests/system/wait_for.h"
#include "tests/unit/kits/check_main.h"

static const char *const options[] = {"--cluster", "psd",    "--log-level", "info", "--save-interval",
                                      "0",         "--http", "127.0.0.1:0", NULL};

static struct shards shards;
static char address[64], control[192];
static struct http_reply reply;

#define WAIT_FOR(condition) WAIT_FOR_LOGGED(condition, shards_log(&shards, 0))

/* ---- The world ---- */

static bool
find_address(void)
{
    return http_client_find(shards_log(&shards, 0), address, sizeof address);
}

static void
http_psd_start(void)
{
    shards_start_with(&shards, 1, &(struct shards_options){.more = options, .durable = true, .log = true});
    ck_assert_msg(find_address(), "%s", shards_log(&shards, 0));
}

static void
http_setup(void)
{
    reply.head = NULL;
    snprintf(control, sizeof control, "/tmp/psd-http-control-%ld", (long)getpid());
    unlink(control);
    setenv("FAIL_IO", control, 1);
    shards_preload("FAIL_IO_LIB");
}

static void
http_teardown(void)
{
    char hits[256];

    http_reply_free(&reply);
    shards_stop(&shards);
    snprintf(hits, sizeof hits, "%s.hits", control);
    unlink(control);
    unlink(hits);
}

/* From now on these calls wait; and until they do. */
static void
http_stall(const char *line)
{
    ck_assert(fail_io_write(control, line));
}

static bool
http_stalled(void)
{
    char hits[256];

    snprintf(hits, sizeof hits, "%s.hits", control);
    return access(hits, F_OK) == 0;
}

static void
go_on(void)
{
    ck_assert(fail_io_write(control, ""));
}

/* ---- Asking ---- */

static int
http_ask(const char *request)
{
    http_reply_free(&reply);
    reply = http_client_ask(address, request);
    return reply.status;
}

/* A header's line is in the answer. */
static bool
http_has(const char *header)
{
    return strstr(reply.head, header) != NULL;
}

static double
http_figure(const char *series)
{
    const char *wrong;

    ck_assert_int_eq(http_ask("GET /metrics"), 200);
    wrong = page_wrong(reply.body);
    ck_assert_msg(wrong == NULL, "%s", wrong);
    return page_value(reply.body, series);
}

#define EXPECT(series, value)                                                                                          \
    do {                                                                                                               \
        double says = http_figure(series);                                                                             \
        ck_assert_msg(says == (value), "%s is %g", series, says);                                                      \
    } while (0)

/* All is well: workers are served, and so are watchers. */
static void
http_serves(void)
{
    float g[4] = {1, 1, 1, 1};
    struct probe p;

    ck_assert_int_eq(http_ask("GET /healthz"), 200);
    ck_assert_int_eq(http_ask("GET /readyz"), 200);
    ck_assert(probe_connect(&p, shards.address[0]));
    ck_assert(probe_hello(&p, 7, (uint64_t)random() + 1, false));
    ck_assert_uint_eq(probe_push(&p, probe_declare(&p, "serves", 4), 0, g, 4), PS_OK);
    probe_close(&p);
}

/* ---- Contents ---- */

START_TEST(counters_move_with_what_workers_do)
{
    float g[4] = {1, 1, 1, 1}, bad[4] = {1, 1, (float)NAN, 1};
    struct probe p;
    uint32_t var;

    http_psd_start();
    EXPECT("psd_connections", 0);
    ck_assert(probe_connect(&p, shards.address[0]));
    ck_assert(probe_hello(&p, 0, 1, false));
    var = probe_declare(&p, "w", 4);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(probe_push(&p, var, 0, g, 4), PS_OK);
    ck_assert_uint_eq(probe_push(&p, var, 0, bad, 4), PS_ERR_NONFINITE);
    probe_pull(&p, var, 0, g, 4);
    EXPECT("psd_connections", 1);
    EXPECT("psd_connections_accepted_total", 1);
    EXPECT("psd_pushes_applied_total", 3);
    EXPECT("psd_pushes_refused_total{reason=\"nonfinite\"}", 1);
    EXPECT("psd_pushed_bytes_total", 48);
    EXPECT("psd_pulled_bytes_total", 16);
    EXPECT("psd_push_age_updates_count", 3);
    EXPECT("psd_sessions{state=\"live\"}", 1);
    EXPECT("psd_variable_pushes_total{job_name=\"job\",variable=\"w\"}", 3);
    EXPECT("psd_worker_pushes_total{job_name=\"job\",worker=\"0\"}", 4);
    EXPECT("psd_worker_connected{job_name=\"job\",worker=\"0\"}", 1);
    EXPECT("psd_state{state=\"serving\"}", 1);
    ck_assert_double_gt(http_figure("psd_received_bytes_total"), 48);
    ck_assert_double_gt(http_figure("psd_sent_bytes_total"), 16);
    ck_assert_double_gt(http_figure("psd_live_file_bytes"), 0);
    ck_assert_double_gt(http_figure("psd_durable_file_bytes"), 0);
    ck_assert_double_gt(http_figure("process_resident_memory_bytes"), MIB);
    ck_assert_double_gt(http_figure("psd_limit_used{limit=\"open files\"}"), 5);
    ck_assert_double_gt(http_figure("psd_log_messages_total{level=\"info\"}"), 2);
    probe_close(&p);
    WAIT_FOR(http_figure("psd_connections") == 0);
    EXPECT("psd_worker_connected{job_name=\"job\",worker=\"0\"}", 0);
    WAIT_FOR(http_figure("psd_lease_lapses_total") == 1);
    EXPECT("psd_sessions{state=\"lapsed\"}", 1);
}
END_TEST

START_TEST(saves_are_told_also_of_the_process_before)
{
    double now = (double)time(NULL), log_bytes;
    float g[4] = {1, 1, 1, 1};
    Psd__Save save = PSD__SAVE__INIT;
    struct probe p;
    uint32_t var;

    http_psd_start();
    ck_assert(isnan(http_figure("psd_save_last_success_timestamp_seconds")));
    ck_assert(probe_connect(&p, shards.address[0]));
    ck_assert(probe_hello(&p, 0, 1, false));
    var = probe_declare(&p, "w", 4);
    ck_assert_uint_eq(probe_push(&p, var, 0, g, 4), PS_OK);
    EXPECT("psd_save_due", 1);
    ck_assert_double_gt(http_figure("psd_redo_log_pieces"), 0); /* the job, the session, the variable */
    probe_send(&p, MSG_SAVE, &save.base, NULL, 0);
    ck_assert(probe_receive(&p) && p.msg.type == MSG_SAVE_DONE);
    EXPECT("psd_saves_total", 1);
    EXPECT("psd_save_due", 0);
    EXPECT("psd_save_duration_seconds_count", 1);
    EXPECT("psd_wait_seconds_count{reason=\"save\"}", 1);
    EXPECT("psd_redo_log_pieces", 0);
    EXPECT("psd_redo_log_bytes", 0);
    ck_assert_double_ge(http_figure("psd_save_last_success_timestamp_seconds"), now - 1);
    var = probe_declare(&p, "v", 4);
    WAIT_FOR(http_figure("psd_redo_log_bytes") > 0 && http_figure("psd_redo_waiting_pieces") == 0);
    log_bytes = http_figure("psd_redo_log_bytes");
    probe_close(&p);
    shards_kill(&shards, 0);
    shards_restart(&shards, 0);
    ck_assert(find_address());
    EXPECT("psd_saves_total", 0);
    EXPECT("psd_save_number", 1);
    ck_assert_double_ge(http_figure("psd_redo_log_bytes"), log_bytes);
    ck_assert_double_ge(http_figure("psd_save_last_success_timestamp_seconds"), now - 1);
}
END_TEST

START_TEST(pages_say_what_they_are)
{
    http_psd_start();
    ck_assert_int_eq(http_ask("GET /healthz"), 200);
    ck_assert(strcmp(reply.body, "alive\n") == 0 && http_has("Content-Type: text/plain"));
    ck_assert_int_eq(http_ask("GET /readyz?verbose=1"), 200);
    ck_assert_str_eq(reply.body, "serving\n");
    ck_assert_int_eq(http_ask("GET /"), 200);
    ck_assert_ptr_nonnull(strstr(reply.body, "/metrics"));
    ck_assert_int_eq(http_ask("GET /metrics"), 200);
    ck_assert(http_has("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n") && http_has("Connection: close"));
    ck_assert_int_eq(http_ask("HEAD /metrics"), 200);
    ck_assert(reply.body_len == 0 && http_has("Content-Length: ") && !http_has("Content-Length: 0"));
    ck_assert_int_eq(http_ask("HEAD /readyz"), 200);
    ck_assert_uint_eq(reply.body_len, 0);
}
END_TEST

START_TEST(what_is_not_offered_is_refused)
{
    static const struct {
        const char *request;
        int status;
        const char *says;
    } refused[] = {{"GET /nothing", 404, "there is no /nothing; there are /, /metrics, /readyz, /healthz, /api/live,"},
                   {"GET /metrics/", 404, "there is no /metrics/; there are"},
                   {"GET /metric", 404, "; did you mean /metrics?"},
                   {"GET /api/lvie", 404, "; did you mean /api/live?"},
                   {"GET //metrics", 404, "there is no //metrics"},
                   {"GET /../metrics", 404, "there is no /../metrics"},
                   {"POST /metrics", 405, "POST is not answered; only GET and HEAD are"},
                   {"DELETE /healthz", 405, "DELETE is not answered"},
                   {"PUT /", 405, "PUT is not answered"},
                   {"OPTIONS /", 405, "OPTIONS is not answered"},
                   {"FOO /", 405, "FOO is not answered"},
                   {"CONNECT psd:1", 405, "CONNECT is not answered"},
                   {"GET /healthz HTTP/1.1\r\nContent-Length: 3", 400, NULL}};
    static const char body[] = "GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
                      chunked[] =
                          "GET /metrics HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    int fd;

    http_psd_start();
    for (size_t i = 0; i + 1 < ARRAY_LEN(refused); i++) {
        ck_assert_msg(http_ask(refused[i].request) == refused[i].status, "%s: %d", refused[i].request, reply.status);
        ck_assert_msg(strstr(reply.body, refused[i].says) != NULL, "%s: %s", refused[i].request, reply.body);
    }
    ck_assert_int_eq(http_ask("POST /"), 405);
    ck_assert(http_has("Allow: GET, HEAD"));
    for (int i = 0; i < 2; i++) {
        fd = http_client_connect(address);
        http_client_send(fd, i == 0 ? body : chunked, strlen(i == 0 ? body : chunked));
        http_reply_free(&reply);
        reply = http_client_read(fd);
        ck_assert_int_eq(reply.status, 413);
        ck_assert_str_eq(reply.body, "a request with a body is not answered: GET and HEAD have none\n");
    }
    ck_assert_double_ge(http_figure("psd_http_responses_total{code=\"4xx\"}"), 12);
    http_serves();
}
END_TEST

/* ---- When it is not serving ---- */

static struct {
    int health, ready, metrics;
    char why[256];
    double state, others;
} seen;

/* While psd's start stands still: ask, then let it go on. */
static void *
watch_start(void *arg)
{
    WAIT_FOR(http_stalled() && find_address());
    seen.health = http_ask("GET /healthz");
    seen.ready = http_ask("GET /readyz");
    snprintf(seen.why, sizeof seen.why, "%s", reply.body);
    seen.metrics = http_ask("GET /metrics");
    seen.state = page_value(reply.body, "psd_state{state=\"starting\"}");
    seen.others = page_value(reply.body, "psd_pushes_applied_total");
    go_on();
    return arg;
}

START_TEST(while_it_starts_it_is_alive_and_not_ready)
{
    pthread_t thread;

    http_stall("fallocate STALL 1 0 0/data.mdb");
    shards = (struct shards){.options = {.log = true}};
    /* the log's place is known only when it starts: the watcher looks for it until then */
    ck_assert_int_eq(pthread_create(&thread, NULL, watch_start, NULL), 0);
    http_psd_start();
    pthread_join(thread, NULL);
    ck_assert_int_eq(seen.health, 200);
    ck_assert_int_eq(seen.ready, 503);
    ck_assert_msg(strncmp(seen.why, "starting: ", 10) == 0, "%s", seen.why);
    ck_assert_int_eq(seen.metrics, 200);
    ck_assert_double_eq(seen.state, 1);
    ck_assert(isnan(seen.others));
    ck_assert_int_eq(http_ask("GET /readyz"), 200);
    http_serves();
}
END_TEST

START_TEST(while_it_saves_before_its_end_it_is_stopping)
{
    http_psd_start();
    http_serves();
    http_stall("fdatasync,fsync STALL 1 0 0.disk/data.mdb");
    kill(shards.pids[0], SIGTERM);
    WAIT_FOR(http_ask("GET /readyz") == 503);
    ck_assert_msg(strncmp(reply.body, "stopping: ", 10) == 0, "%s", reply.body);
    ck_assert_int_eq(http_ask("GET /healthz"), 200);
    EXPECT("psd_state{state=\"stopping\"}", 1);
    go_on();
    shards_wait(&shards, 0);
    ck_assert_int_eq(http_ask("GET /readyz"), 0);
}
END_TEST

/* The loop hangs in the kernel: a watcher is told so in time, without waiting for the loop. */
START_TEST(a_loop_that_stands_still_is_late)
{
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    Psd__Optimizer optimizer = PSD__OPTIMIZER__INIT;
    Psd__Declare declare = PSD__DECLARE__INIT;
    uint64_t n = 4 * MIB, began;
    struct probe p;

    http_psd_start();
    ck_assert(probe_connect(&p, shards.address[0]));
    ck_assert(probe_hello(&p, 0, 1, false));
    http_stall("fallocate STALL 1 0 0/data.mdb");
    declare.name = (char *)(uintptr_t) "large";
    declare.dims = &n;
    declare.n_dims = 1;
    declare.init = &init;
    declare.optimizer = &optimizer;
    probe_send(&p, MSG_DECLARE, &declare.base, NULL, 0);
    WAIT_FOR(http_stalled());
    began = now_ms();
    ck_assert_int_eq(http_ask("GET /readyz"), 503);
    ck_assert_msg(strncmp(reply.body, "late: ", 6) == 0, "%s", reply.body);
    ck_assert_uint_ge(now_ms() - began, HTTP_LOOP_MS - 1);
    ck_assert_int_eq(http_ask("GET /metrics"), 503);
    ck_assert_int_eq(http_ask("GET /healthz"), 200);
    go_on();
    ck_assert(probe_receive(&p) && p.msg.type == MSG_DECLARED);
    probe_close(&p);
    http_serves();
    EXPECT("psd_variables", 2);
}
END_TEST

/* ---- Requests that are none ---- */

/* Send it on a connection of its own, and hang up or not; the status, or 0. */
static int
http_send_garbage(const void *bytes, size_t len, bool hang_up)
{
    int fd = http_client_connect(address);

    ck_assert_int_ge(fd, 0);
    http_client_send(fd, bytes, len);
    if (hang_up)
        shutdown(fd, SHUT_WR);
    http_reply_free(&reply);
    reply = http_client_read(fd);
    return reply.status;
}

/* With an answer; or without, when more was sent than was read. */
static bool
http_refuses(int status)
{
    return status == 0 || (status >= 400 && status < 500);
}

START_TEST(a_request_has_a_largest_size)
{
    enum { LARGE = 1 << 20 };
    char *large = malloc(LARGE);

    http_psd_start();
    ck_assert_ptr_nonnull(large);
    memset(large, 'a', LARGE);
    memcpy(large, "GET /", 5); /* a path without an end */
    ck_assert(http_refuses(http_send_garbage(large, HTTP_REQUEST_MAX + 100, false)));
    ck_assert(http_refuses(http_send_garbage(large, LARGE, false)));
    memcpy(large, "GET / HTTP/1.1\r\nHost: a\r\nX: ", 28); /* a header without one */
    ck_assert(http_refuses(http_send_garbage(large, HTTP_REQUEST_MAX + 100, false)));
    ck_assert(http_refuses(http_send_garbage(large, LARGE, false)));
    for (size_t i = 25; i + 6 < LARGE; i += 6) /* many headers */
        memcpy(large + i, "a: b\r\n", 6);
    ck_assert(http_refuses(http_send_garbage(large, LARGE, false)));
    free(large);
    http_serves();
}
END_TEST

/* Requests with some of their bytes changed, and bytes that are no request at all. */
START_TEST(garbage_costs_its_own_connection)
{
    static const char good[] =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nConnection: keep-alive\r\n\r\n";
    struct test_rng rng = {test_seed()};
    unsigned answered = 0;

    http_psd_start();
    for (int i = 0; i < 600; i++) {
        char bytes[2 * sizeof good];
        size_t len = sizeof good - 1;

        memcpy(bytes, good, len);
        for (uint64_t n = test_below(&rng, 6); n > 0; n--)
            bytes[test_below(&rng, len)] = (char)test_rand(&rng);
        if (i % 3 == 0)
            bytes[6] = 'x'; /* a page that is not there: these need no figures, which come ten times a second */
        if (i % 4 == 0)
            for (size_t j = 0; j < len; j++)
                bytes[j] = (char)test_rand(&rng);
        if (i % 5 == 0)
            len = test_below(&rng, len);
        if (i % 7 == 0 && len < sizeof good - 4)
            memcpy(bytes + len, bytes, len), len *= 2;
        if (i % 3 == 0 || i % 4 == 0 || i < 60)
            answered += http_send_garbage(bytes, len, true) != 0;
    }
    ck_assert_uint_gt(answered, 0);
    http_serves();
}
END_TEST

/* A connection that neither sends nor closes; and one that does not read its answer. */
START_TEST(who_is_slow_is_cut_off)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int silent, trickle, deaf, small = 1024;
    struct http_reply r;
    uint64_t began;
    char byte;

    http_psd_start();
    began = now_ms();
    silent = http_client_connect(address);
    trickle = http_client_connect(address);
    deaf = http_client_connect(address);
    setsockopt(deaf, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    http_client_send(deaf, request, strlen(request));
    for (size_t i = 0; recv(trickle, &byte, 1, MSG_DONTWAIT | MSG_PEEK) != 0; i++) { /* a header without an end */
        ck_assert_uint_lt(now_ms() - began, WAIT_MS);
        http_client_send(trickle, i < 14 ? &request[i] : "x", 1);
        usleep(50000);
    }
    ck_assert_uint_ge(now_ms() - began, HTTP_LIFE_MS - 1000);
    close(trickle);
    r = http_client_read(silent);
    ck_assert_int_eq(r.status, 0);
    http_reply_free(&r);
    r = http_client_read(deaf);
    http_reply_free(&r);
    ck_assert_double_ge(http_figure("psd_http_overdue_total"), 2);
    http_serves();
}
END_TEST

/* One address gets half of the places: its oldest connections make way for its newest. */
START_TEST(one_host_cannot_take_all_places)
{
    int fds[HTTP_CONNECTIONS_MAX];
    unsigned open = 0;
    char byte;

    http_psd_start();
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        fds[i] = http_client_connect(address);
        ck_assert_int_ge(fds[i], 0);
    }
    for (int i = 0; i < HTTP_HOST_MAX; i++) /* they had made way for these */
        ck_assert_int_le(recv(fds[i], &byte, 1, 0), 0);
    for (int i = HTTP_HOST_MAX; i < HTTP_CONNECTIONS_MAX; i++)
        open += recv(fds[i], &byte, 1, MSG_DONTWAIT) < 0;
    ck_assert_uint_eq(open, HTTP_HOST_MAX);
    ck_assert_int_eq(http_ask("GET /healthz"), 200);
    http_serves();
    for (int i = 0; i < HTTP_CONNECTIONS_MAX; i++)
        close(fds[i]);
}
END_TEST

/* A connection to the pages from this address of the machine's own. */
static int
http_from(const char *own)
{
    struct sockaddr_in from = {.sin_family = AF_INET}, to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(inet_pton(AF_INET, own, &from.sin_addr), 1);
    ck_assert_int_eq(inet_pton(AF_INET, "127.0.0.1", &to.sin_addr), 1);
    to.sin_port = htons((uint16_t)strtoul(strchr(address, ':') + 1, NULL, 10));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* What they have sent: half a request; a whole one, whose answer they do not fetch. */
START_TEST(health_is_told_while_others_hold_all_places)
{
    static const char *const owns[] = {"127.0.0.2", "127.0.0.3"}, *const sent[] = {"GET /", "GET /page.js HTTP/1.1\r\n"
                                                                                            "Host: x\r\n\r\n"};
    int fds[2 * HTTP_CONNECTIONS_MAX], small = 1;

    http_psd_start();
    for (int i = 0; i < 2 * HTTP_CONNECTIONS_MAX; i++) {
        fds[i] = http_from(owns[i % 2]);
        setsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        http_client_send(fds[i], sent[_i], strlen(sent[_i]));
        if (i >= HTTP_CONNECTIONS_MAX)
            ck_assert_int_eq(http_ask("GET /healthz"), 200);
    }
    ck_assert_int_eq(http_ask("GET /readyz"), 200);
    EXPECT("psd_http_overdue_total", 0);
    http_serves();
    for (int i = 0; i < 2 * HTTP_CONNECTIONS_MAX; i++)
        close(fds[i]);
}
END_TEST

/* psd's CPU time in ms. */
static double
cpu_ms(void)
{
    return 1000 * http_figure("process_cpu_seconds_total");
}

START_TEST(without_descriptors_it_waits_and_does_not_spin)
{
    enum { DESCRIPTORS = 48 };
    struct probe probes[DESCRIPTORS];
    struct rlimit before, few;
    double cpu;
    int fds[HTTP_HOST_MAX], n = 0;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){DESCRIPTORS, before.rlim_max};
    few.rlim_max = DESCRIPTORS;
    http_psd_start();
    ck_assert_int_eq(prlimit(shards.pids[0], RLIMIT_NOFILE, &few, NULL), 0);
    cpu = cpu_ms();
    while (n < DESCRIPTORS && probe_connect(&probes[n], shards.address[0]) && probe_hello(&probes[n], -1, 0, false))
        n++;
    ck_assert_int_gt(n, 4);
    ck_assert_int_lt(n, DESCRIPTORS);
    for (int i = 0; i < HTTP_HOST_MAX; i++) /* the few that psd keeps for refusals */
        fds[i] = http_client_connect(address);
    usleep(1000000);
    for (int i = 0; i < HTTP_HOST_MAX; i++)
        close(fds[i]);
    for (int i = 0; i <= n && i < DESCRIPTORS; i++)
        probe_close(&probes[i]);
    WAIT_FOR(http_ask("GET /healthz") == 200);
    WAIT_FOR(http_figure("psd_connections") == 0);
    ck_assert_double_lt(cpu_ms() - cpu, 700);
    http_serves();
}
END_TEST

/* ---- All at once ---- */

static void *
http_scrape(void *failures)
{
    for (int i = 0; i < 20; i++) {
        struct http_reply r = http_client_ask(address, i % 3 == 0 ? "GET /readyz" : "GET /metrics");

        *(unsigned *)failures += r.status != 200 || (i % 3 != 0 && page_value(r.body, "psd_pushes_applied_total") < 0);
        http_reply_free(&r);
    }
    return NULL;
}

START_TEST(scrapes_and_pushes_do_not_get_in_each_others_way)
{
    float g[4] = {1, 1, 1, 1};
    unsigned failures[4] = {0}, pushes = 0;
    pthread_t threads[4];
    struct probe p;
    uint64_t began;
    uint32_t var;

    http_psd_start();
    ck_assert(probe_connect(&p, shards.address[0]));
    ck_assert(probe_hello(&p, 0, 1, false));
    var = probe_declare(&p, "w", 4);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, http_scrape, &failures[i]), 0);
    for (began = now_ms(); now_ms() - began < 1500; pushes++)
        ck_assert_uint_eq(probe_push(&p, var, 0, g, 4), PS_OK);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_uint_eq(failures[i], 0);
    }
    probe_close(&p);
    EXPECT("psd_pushes_applied_total", pushes);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("http");
    TCase *t = tcase_create("http");

    tcase_add_checked_fixture(t, http_setup, http_teardown);
    tcase_add_test(t, counters_move_with_what_workers_do);
    tcase_add_test(t, saves_are_told_also_of_the_process_before);
    tcase_add_test(t, pages_say_what_they_are);
    tcase_add_test(t, what_is_not_offered_is_refused);
    tcase_add_test(t, while_it_starts_it_is_alive_and_not_ready);
    tcase_add_test(t, while_it_saves_before_its_end_it_is_stopping);
    tcase_add_test(t, a_loop_that_stands_still_is_late);
    tcase_add_test(t, a_request_has_a_largest_size);
    tcase_add_test(t, garbage_costs_its_own_connection);
    tcase_add_test(t, who_is_slow_is_cut_off);
    tcase_add_test(t, one_host_cannot_take_all_places);
    tcase_add_loop_test(t, health_is_told_while_others_hold_all_places, 0, 2);
    tcase_add_test(t, without_descriptors_it_waits_and_does_not_spin);
    tcase_add_test(t, scrapes_and_pushes_do_not_get_in_each_others_way);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
