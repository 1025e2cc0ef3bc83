/* ps_interrupt() from a handler of signals and from other threads: whatever waits ends, stays so until it is cleared,
 * and works again then. And what a program without on_event is shown. */
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/include/psclient/ps_group.h"
#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/now.h"
#include "tests/system/fine.h"
#include "tests/system/ranks.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

enum {
    LONG_MS = 600000, /* no wait of this length is waited for: a test that fails is ended by its time-out */
    LESS_MS = 60000,
};

static struct shards shards;
static struct ps_error error;

static void
on_signal(int sig)
{
    (void)sig;
    ps_interrupt();
}

static void
interrupt_setup(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    ps_interrupt_clear();
}

static void
interrupt_teardown(void)
{
    ps_interrupt_clear();
    shards_stop(&shards);
}

#define CANCELLED(call)                                                                                                \
    do {                                                                                                               \
        ck_assert_int_eq(call, PS_ERR_CANCELLED);                                                                      \
        ck_assert_msg(strstr(error.text, "interrupted") != NULL, "%s", error.text);                                    \
    } while (0)

/* ---- A shard that accepts and never answers ---- */

struct silent {
    int fd;
    char address[32];
    pthread_t thread, main;
};

static void
silent_listen(struct silent *s)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;

    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(s->fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(s->fd, 8), 0);
    ck_assert_int_eq(getsockname(s->fd, (struct sockaddr *)&at, &len), 0);
    snprintf(s->address, sizeof s->address, "127.0.0.1:%u", ntohs(at.sin_port));
}

/* A client has connected, so it waits: its thread gets a signal. */
static void *
signal_when_connected(void *arg)
{
    struct silent *s = arg;
    int fd = accept(s->fd, NULL, NULL);

    pthread_kill(s->main, SIGUSR1);
    return (void *)(intptr_t)fd;
}

static ps_cluster *
cluster_of(const char *addresses, uint32_t workers, uint32_t task)
{
    ps_cluster *cluster;

    FINE(ps_cluster_from_list(addresses, workers, task, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    return cluster;
}

START_TEST(opening_ends_when_a_handler_interrupts)
{
    struct ps_client_options o = {.timeout_ms = LONG_MS, .quiet = 1};
    struct silent s = {.main = pthread_self()};
    uint64_t begun = now_ms();
    ps_cluster *cluster;
    ps_client *c;
    void *fd;

    silent_listen(&s);
    cluster = cluster_of(s.address, 1, 0);
    ck_assert_int_eq(pthread_create(&s.thread, NULL, signal_when_connected, &s), 0);
    CANCELLED(ps_client_open(cluster, &o, &c, &error));
    ck_assert_ptr_null(c);
    ck_assert_int_ne(ps_interrupted(), 0);
    ck_assert_int_lt(now_ms() - begun, LESS_MS);
    /* It stays: nothing waits any more. */
    CANCELLED(ps_client_open(cluster, &o, &c, &error));
    ck_assert_int_eq(pthread_join(s.thread, &fd), 0);
    close((int)(intptr_t)fd);
    close(s.fd);
    ps_cluster_free(cluster);
}
END_TEST

/* ---- A client ---- */

static ps_client *
open_worker(uint32_t workers, int progress_thread)
{
    struct ps_client_options o = {.timeout_ms = LONG_MS, .progress_thread = progress_thread, .mode = PS_ASYNC};
    ps_cluster *cluster = cluster_of(shards.addresses, workers, 0);
    ps_client *c;

    FINE(ps_client_open(cluster, &o, &c, &error));
    ps_cluster_free(cluster);
    return c;
}

static void *
interrupt_process(void *arg)
{
    (void)arg;
    ps_interrupt();
    return NULL;
}

static void *
interrupt_client(void *arg)
{
    ps_client_interrupt(arg);
    return NULL;
}

/* The other worker never comes. */
START_TEST(a_wait_of_a_client_ends_and_works_again)
{
    uint64_t begun = now_ms();
    pthread_t thread;
    ps_client *c;

    shards_start(&shards, 2);
    c = open_worker(2, _i);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(pthread_create(&thread, NULL, interrupt_process, NULL), 0);
        CANCELLED(ps_client_barrier(c, "b", LONG_MS, &error));
        pthread_join(thread, NULL);
        CANCELLED(ps_client_barrier(c, "b", LONG_MS, &error));
        ps_interrupt_clear();
        ck_assert_int_eq(ps_client_barrier(c, "b", 10, &error), PS_ERR_TIMEOUT);
    }
    ps_interrupt();
    ps_client_close(c); /* waits for nothing */
    ck_assert_int_lt(now_ms() - begun, LESS_MS);
}
END_TEST

START_TEST(one_client_is_interrupted_for_good_and_others_are_not)
{
    ps_cluster *cluster;
    pthread_t thread;
    ps_client *c, *other;

    shards_start(&shards, 1);
    c = open_worker(2, _i);
    ck_assert_int_eq(pthread_create(&thread, NULL, interrupt_client, c), 0);
    CANCELLED(ps_client_barrier(c, "b", LONG_MS, &error));
    pthread_join(thread, NULL);
    CANCELLED(ps_client_barrier(c, "b", LONG_MS, &error));
    cluster = cluster_of(shards.addresses, 2, 1);
    FINE(ps_client_open(cluster, NULL, &other, &error));
    ps_cluster_free(cluster);
    ps_client_close(other);
    ps_client_close(c);
}
END_TEST

START_TEST(what_is_done_already_is_returned_although_interrupted)
{
    ps_client *c;
    ps_op *op;

    shards_start(&shards, 1);
    c = open_worker(1, _i);
    FINE(ps_client_barrier_start(c, "b", &op, &error));
    while (!ps_op_test(op))
        sched_yield();
    ps_interrupt();
    FINE(ps_op_wait(op, LONG_MS, &error));
    ps_op_free(op);
    ps_interrupt_clear();
    FINE(ps_client_tick(c, &error));
    ps_client_close(c);
}
END_TEST

/* ---- Groups ---- */

static void
wait_and_interrupt(ps_group *g, void *arg)
{
    float sum = 1;

    (void)arg;
    if (ps_group_rank(g) == 0) {
        pthread_t thread;

        need(ranks_listen() == 'g');
        need(pthread_create(&thread, NULL, interrupt_process, NULL) == 0);
        need(ps_group_all_reduce(g, &sum, &sum, 1, PS_F32, PS_SUM, NULL, &error) == PS_ERR_CANCELLED);
        need(strstr(error.text, "rank 0 was interrupted") != NULL);
        pthread_join(thread, NULL);
        ranks_tell('i');
        return;
    }
    ranks_tell('f');
    need(ranks_listen() == 'g');
    need(ps_group_all_reduce(g, &sum, &sum, 1, PS_F32, PS_SUM, NULL, &error) == PS_ERR_CANCELLED);
    need(strstr(error.text, "rank 0 was interrupted") != NULL);
}

START_TEST(a_groups_operation_ends_everywhere_and_names_the_rank)
{
    struct ps_group_options o = {.timeout_ms = LONG_MS, .progress_thread = _i};
    struct ranks r;

    ranks_start(&r, 3, 0, &o, wait_and_interrupt, NULL);
    for (uint32_t rank = 1; rank < 3; rank++)
        ck_assert_int_eq(ranks_hear(&r, rank), 'f');
    ranks_say(&r, 0, 'g');
    ck_assert_int_eq(ranks_hear(&r, 0), 'i');
    for (uint32_t rank = 1; rank < 3; rank++)
        ranks_say(&r, rank, 'g');
    ranks_end(&r);
}
END_TEST

static void
interrupt_a_handle(ps_group *g, void *arg)
{
    float sum = 1;
    ps_work *w;

    (void)arg;
    if (ps_group_rank(g) == 1)
        need(ranks_listen() == 'g');
    need_ok(ps_group_all_reduce(g, &sum, &sum, 1, PS_F32, PS_SUM, &w, &error));
    if (ps_group_rank(g) == 0) {
        ps_interrupt();
        need(ps_work_wait(w, LONG_MS, &error) == PS_ERR_CANCELLED);
        ps_interrupt_clear();
        ranks_tell('i');
    }
    need_ok(ps_work_wait(w, LONG_MS, &error));
    need(sum == 2);
    ps_work_free(w);
}

START_TEST(an_operation_with_a_handle_goes_on)
{
    struct ps_group_options o = {.timeout_ms = LONG_MS, .progress_thread = _i};
    struct ranks r;

    ranks_start(&r, 2, 0, &o, interrupt_a_handle, NULL);
    ck_assert_int_eq(ranks_hear(&r, 0), 'i');
    ranks_say(&r, 1, 'g');
    ranks_end(&r);
}
END_TEST

START_TEST(forming_a_group_ends)
{
    struct ps_group_options o = {.timeout_ms = LONG_MS, .quiet = 1};
    uint64_t begun = now_ms();
    ps_cluster *cluster;
    pthread_t thread;
    ps_group *g;

    shards_start(&shards, 1);
    cluster = cluster_of(shards.addresses, 2, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, interrupt_process, NULL), 0);
    CANCELLED(ps_group_open(cluster, &o, &g, &error));
    ck_assert_int_lt(now_ms() - begun, LESS_MS);
    pthread_join(thread, NULL);
    ps_cluster_free(cluster);
}
END_TEST

/* ---- Lines on stderr ---- */

/* All that a child writes to stderr. */
static const char *
lines_of(void (*body)(const char *addresses), const char *addresses)
{
    static char text[8192];
    size_t len = 0;
    int ends[2], status;
    ssize_t n;
    pid_t pid;

    ck_assert_int_eq(pipe(ends), 0);
    if ((pid = fork()) == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        body(addresses);
        _exit(0);
    }
    close(ends[1]);
    while (len < sizeof text - 1 && (n = read(ends[0], text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", text);
    return text;
}

static void
pass_over(void *arg, const struct ps_error *event)
{
    (void)arg;
    (void)event;
}

/* A program with on_event is shown the wait as others are: it has no call that would say it before its end. */
static void
wait_for_shards(const char *addresses)
{
    struct ps_client_options o = {.timeout_ms = 2200, .job = "digits", .on_event = pass_over};
    ps_cluster *cluster;
    ps_client *c;

    need(ps_cluster_from_list(addresses, 2, 1, &cluster, NULL) == PS_OK);
    need(ps_client_open(cluster, &o, &c, NULL) == PS_ERR_UNREACHABLE);
    o.quiet = 1;
    need(ps_client_open(cluster, &o, &c, NULL) == PS_ERR_UNREACHABLE);
    ps_cluster_free(cluster);
}

START_TEST(a_wait_for_shards_is_one_line_unless_quiet)
{
    const char *text = lines_of(wait_for_shards, "127.0.0.1:1"), *line = "psclient: digits worker 1: ";

    ck_assert_msg(strncmp(text, line, strlen(line)) == 0, "%s", text);
    ck_assert_msg(strstr(text, "shard 0 at 127.0.0.1:1") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "; still waiting") != NULL, "%s", text);
    ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
}
END_TEST

/* The shard ends while the worker waits. */
static void
lose_a_shard(const char *addresses)
{
    struct ps_client_options o = {.timeout_ms = 500};
    ps_cluster *cluster;
    ps_client *c;

    need(ps_cluster_from_list(addresses, 2, 0, &cluster, NULL) == PS_OK);
    need(ps_cluster_set_name(cluster, SHARDS_CLUSTER, NULL) == PS_OK);
    need(ps_client_open(cluster, &o, &c, NULL) == PS_OK);
    ps_cluster_free(cluster);
    need(kill(shards.pids[0], SIGKILL) == 0);
    need(ps_client_barrier(c, "b", 500, NULL) != PS_OK);
    ps_client_abandon(c);
}

START_TEST(a_lost_shard_is_a_line)
{
    const char *text;

    shards_start(&shards, 1);
    text = lines_of(lose_a_shard, shards.addresses);
    ck_assert_msg(strstr(text, "psclient: train worker 0: ") == text, "%s", text);
    ck_assert_msg(strstr(text, "CLOSED") != NULL, "%s", text);
    shards_kill(&shards, 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("interrupt");
    TCase *t = tcase_create("interrupt");

    tcase_add_checked_fixture(t, interrupt_setup, interrupt_teardown);
    tcase_add_test(t, opening_ends_when_a_handler_interrupts);
    tcase_add_loop_test(t, a_wait_of_a_client_ends_and_works_again, 0, 2);
    tcase_add_loop_test(t, one_client_is_interrupted_for_good_and_others_are_not, 0, 2);
    tcase_add_loop_test(t, what_is_done_already_is_returned_although_interrupted, 0, 2);
    tcase_add_loop_test(t, a_groups_operation_ends_everywhere_and_names_the_rank, 0, 2);
    tcase_add_loop_test(t, an_operation_with_a_handle_goes_on, 0, 2);
    tcase_add_test(t, forming_a_group_ends);
    tcase_add_test(t, a_wait_for_shards_is_one_line_unless_quiet);
    tcase_add_test(t, a_lost_shard_is_a_line);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
