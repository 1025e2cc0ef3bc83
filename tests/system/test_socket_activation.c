/* Sockets that psd does not open itself: handed over as systemd does, by number and name. The sockets that this test
 * holds stay open while psd is ended and started again, so no client is refused meanwhile. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <netinet/in.h>

#include "common/core/base/base.h"
#include "common/net/sockname.h"
#include "tests/system/http_client.h"
#include "tests/system/probe.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

#define CALLERS  4
#define RESTARTS 12

static const char *const options[] = {"--cluster", "psd", "--log-level", "info", NULL};

static struct shards shards;
static char directory[] = "/tmp/psd-handed-XXXXXX", path[64], unix_address[80], tcp_address[64], http_address[64];
static int tcp, local, http;

/* ---- The world ---- */

static int
listen_tcp(char address[64])
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_storage bound = {0};
    socklen_t len = sizeof bound;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    ck_assert_int_eq(listen(fd, 1024), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&bound, &len), 0);
    sockname_text(&bound, address, 64);
    return fd;
}

static int
listen_unix(const char *at)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%s", at);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 1024), 0);
    return fd;
}

static void
activation_setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/socket", directory);
    snprintf(unix_address, sizeof unix_address, "unix:%s", path);
    tcp = listen_tcp(tcp_address);
    local = listen_unix(path);
    http = listen_tcp(http_address);
}

static void
activation_teardown(void)
{
    shards_stop(&shards);
    close(tcp);
    close(local);
    close(http);
    unlink(path);
    rmdir(directory);
}

static const struct shards_options *
activation_handing(const int *fds, int len, const char *names)
{
    static struct shards_options o;

    o = (struct shards_options){.more = options, .log = true, .handed = fds, .handed_len = len, .handed_names = names};
    return &o;
}

static bool
activation_served(struct probe *p)
{
    bool welcome = probe_hello(p, -1, 1, false) && p->head.type == MSG_WELCOME;

    probe_close(p);
    return welcome;
}

static bool
activation_answers(const char *address)
{
    struct probe p;

    return probe_connect(&p, address) && activation_served(&p);
}

static int
activation_health(void)
{
    struct http_reply reply = http_client_ask(http_address, "GET /readyz");
    int status = reply.status;

    http_reply_free(&reply);
    return status;
}

static void
activation_end(int signal)
{
    kill(shards.pids[0], signal);
    if (signal == SIGKILL)
        shards_kill(&shards, 0);
    else
        shards_wait(&shards, 0);
}

/* ---- Serving ---- */

START_TEST(what_is_handed_over_is_served)
{
    shards_start_with(&shards, 1, activation_handing((int[]){http, local, tcp}, 3, "http:workers:psd@0.socket"));
    ck_assert_str_eq(shards.address[0], unix_address); /* it reports them to the launcher, in their order */
    ck_assert(activation_answers(tcp_address));
    ck_assert(activation_answers(unix_address));
    ck_assert_int_eq(activation_health(), 200);
    ck_assert_ptr_nonnull(strstr(shards_log(&shards, 0), "socket=handed"));
}
END_TEST

START_TEST(each_takes_the_place_of_its_kind_alone)
{
    char own[192];

    shards_start_with(&shards, 1, activation_handing((int[]){tcp}, 1, NULL));
    ck_assert_str_eq(shards.address[0], tcp_address);
    snprintf(own, sizeof own, "unix:%s/0.sock", shards.directory);
    ck_assert(activation_answers(tcp_address)); /* in the place of --listen's */
    ck_assert(activation_answers(own));         /* beside --unix, which psd opens */
}
END_TEST

START_TEST(what_is_meant_for_another_process_is_left_alone)
{
    setenv("LISTEN_PID", "1", 1);
    shards_start_with(&shards, 1, activation_handing((int[]){tcp}, 1, NULL));
    unsetenv("LISTEN_PID");
    ck_assert_str_ne(shards.address[0], tcp_address);
    ck_assert(activation_answers(shards.address[0]));
    ck_assert_ptr_null(strstr(shards_log(&shards, 0), "socket=handed"));
}
END_TEST

/* ---- Restarts ---- */

static void
nobody_is_refused_while_psd_is_away(int signal)
{
    struct probe by_tcp, by_unix;
    struct stat st;

    shards_start_with(&shards, 1, activation_handing((int[]){tcp, local, http}, 3, "psd:psd:http"));
    ck_assert(activation_answers(tcp_address));
    activation_end(signal);
    ck_assert_int_eq(stat(path, &st), 0); /* the file is not psd's to remove */
    ck_assert(probe_connect(&by_tcp, tcp_address));
    ck_assert(probe_connect(&by_unix, unix_address));
    shards_restart(&shards, 0);
    ck_assert(activation_served(&by_tcp));
    ck_assert(activation_served(&by_unix));
    ck_assert_int_eq(activation_health(), 200);
}

START_TEST(who_connects_while_psd_is_stopped_is_served_by_the_next)
{
    nobody_is_refused_while_psd_is_away(SIGTERM);
}
END_TEST

START_TEST(who_connects_after_a_crash_is_served_by_the_next)
{
    nobody_is_refused_while_psd_is_away(SIGKILL);
}
END_TEST

static atomic_bool over;
static atomic_int connected, refused;

/* Connects again and again; reads to the end of the connection, which shows that psd accepted it. */
static void *
activation_call(void *arg)
{
    const char hello[] = "this is no frame, and long enough to be seen as none, whatever the length of a head is";
    char byte;

    (void)arg;
    while (!over) {
        int fd = http_client_connect(tcp_address);

        if (fd < 0) {
            refused++;
            continue;
        }
        http_client_send(fd, hello, sizeof hello);
        while (recv(fd, &byte, 1, 0) > 0)
            ;
        close(fd);
        connected++;
    }
    return NULL;
}

static void
wait_for_callers(void)
{
    int before = connected;

    while (connected < before + 2 * CALLERS)
        usleep(1000);
}

START_TEST(restart_after_restart_refuses_no_connection)
{
    pthread_t callers[CALLERS];

    shards_start_with(&shards, 1, activation_handing((int[]){tcp}, 1, "psd"));
    for (int i = 0; i < CALLERS; i++)
        ck_assert_int_eq(pthread_create(&callers[i], NULL, activation_call, NULL), 0);
    for (int i = 0; i < RESTARTS; i++) {
        wait_for_callers();
        activation_end(i % 2 == 0 ? SIGKILL : SIGTERM);
        shards_restart(&shards, 0);
    }
    wait_for_callers();
    over = true;
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    ck_assert_int_eq(refused, 0);
    ck_assert(activation_answers(tcp_address));
}
END_TEST

/* ---- What is none ---- */

/* psd reports it, and ends with the status for invalid options. */
static void
activation_refuses(const int *fds, int len, const char *names, const char *sentence)
{
    shards.options = *activation_handing(fds, len, names);
    ck_assert_int_eq(shards_refused(&shards, 0), 2);
    ck_assert_msg(strstr(shards_log(&shards, 0), sentence) != NULL, "%s", shards_log(&shards, 0));
}

START_TEST(what_does_not_listen_is_refused)
{
    int ends[2], plain = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int datagrams = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), other = listen_tcp((char[64]){0});

    shards_start_with(&shards, 1, activation_handing((int[]){tcp}, 1, "psd"));
    activation_end(SIGTERM);
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    activation_refuses((int[]){tcp, ends[0]}, 2, "psd:pipe", "descriptor 4 (pipe) is not a listening stream socket");
    activation_refuses((int[]){plain}, 1, "plain", "descriptor 3 (plain) is not a listening stream socket");
    activation_refuses((int[]){datagrams}, 1, NULL, "descriptor 3 (unknown) is not a listening stream socket");
    activation_refuses((int[]){http, other}, 2, "http:http",
                       "descriptor 4 (http): metrics and health take one TCP socket");
    activation_refuses((int[]){local}, 1, "http", "descriptor 3 (http): metrics and health take one TCP socket");
    shards.options = *activation_handing((int[]){tcp}, 1, "psd");
    shards.options.more = (const char *const[]){"--ready-fd", "3", NULL};
    ck_assert_int_eq(shards_refused(&shards, 0), 2);
    ck_assert_ptr_nonnull(strstr(shards_log(&shards, 0), "--ready-fd: descriptor 3 is one of LISTEN_FDS"));
}
END_TEST

static Suite *
handed_suite(void)
{
    Suite *suite = suite_create("handed");
    TCase *tcase = tcase_create("handed");

    tcase_add_checked_fixture(tcase, activation_setup, activation_teardown);
    tcase_add_test(tcase, what_is_handed_over_is_served);
    tcase_add_test(tcase, each_takes_the_place_of_its_kind_alone);
    tcase_add_test(tcase, what_is_meant_for_another_process_is_left_alone);
    tcase_add_test(tcase, who_connects_while_psd_is_stopped_is_served_by_the_next);
    tcase_add_test(tcase, who_connects_after_a_crash_is_served_by_the_next);
    tcase_add_test(tcase, restart_after_restart_refuses_no_connection);
    tcase_add_test(tcase, what_does_not_listen_is_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}

CHECK_MAIN(handed_suite)
