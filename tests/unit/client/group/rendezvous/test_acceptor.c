/* Connections to a rank's acceptor: those that it is for, those that send something else, and many that send nothing.
 */
#include "client/group/rendezvous/acceptor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/core/wire/wire.h"
#include "tests/unit/kits/check_main.h"

#define LOOK_MS 5 /* how often the loop turns while nothing comes */

static uv_loop_t loop;
static struct conn_pool pool;
static uv_timer_t tick;
static struct acceptor door;
static struct conn *taken; /* by acceptor_take_conn() */
static uint64_t request;

static const struct conn_events no_events;

static void
acceptor_ignore(uv_timer_t *timer)
{
    (void)timer;
}

static void
acceptor_take_conn(void *arg, struct conn *c, const struct frame_head *head, const void *meta)
{
    ck_assert_ptr_eq(arg, &request);
    ck_assert_ptr_nonnull(meta);
    ck_assert_ptr_null(taken);
    request = head->request;
    taken = c;
    c->events = &no_events;
}

static void
acceptor_setup(void)
{
    struct ps_error e = {0};

    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(conn_pool_init(&pool, &loop), PS_OK);
    uv_timer_init(&loop, &tick);
    uv_timer_start(&tick, acceptor_ignore, LOOK_MS, LOOK_MS);
    ck_assert_msg(acceptor_open(&door, &pool, "127.0.0.1:0", &e) == PS_OK, "%s", e.text);
    acceptor_route(&door, MSG_MEET, acceptor_take_conn, &request);
}

static void
acceptor_teardown(void)
{
    if (taken != NULL)
        conn_close(taken, acceptor_conn_closed);
    taken = NULL;
    acceptor_close(&door);
    while (!acceptor_closed(&door))
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&tick, NULL);
    conn_pool_finish(&pool);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static int
acceptor_knock(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    at.sin_port = htons(door.port);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void
say_meet(int fd)
{
    Psd__Meet m = PSD__MEET__INIT;
    uint8_t *bytes;
    size_t len;

    m.cluster = m.group = (char *)"c";
    m.workers = 1;
    bytes = wire_encode_new(MSG_MEET, 7, &m.base, 0, &len);
    ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
    free(bytes);
}

/* All that the acceptor sends until it closes. */
static size_t
acceptor_heard(int fd, uint8_t *out, size_t size)
{
    size_t n = 0;
    ssize_t got;

    for (;;) {
        ck_assert_uint_lt(n, size);
        got = read(fd, out + n, size - n);
        if (got == 0)
            break;
        if (got > 0)
            n += (size_t)got;
        else
            uv_run(&loop, UV_RUN_ONCE);
    }
    close(fd);
    return n;
}

/* It sends ERROR with this code, and closes. */
static void
acceptor_refused(int fd, enum ps_err code)
{
    uint8_t bytes[4096];
    size_t n = acceptor_heard(fd, bytes, sizeof bytes);
    struct frame_head head;
    struct arena arena = {0};
    struct wire_msg m;

    ck_assert_uint_gt(n, FRAME_HEAD_SIZE);
    ck_assert_int_eq(frame_head_decode(bytes, &head, NULL), PS_OK);
    ck_assert_int_eq(wire_decode(&head, bytes + FRAME_HEAD_SIZE, &arena, &m, NULL), PS_OK);
    ck_assert_int_eq(m.type, MSG_ERROR);
    ck_assert_uint_eq(m.u.error->code, code);
    arena_finish(&arena);
}

START_TEST(the_first_frame_says_to_whom_a_connection_goes)
{
    int fd = acceptor_knock();

    say_meet(fd);
    while (taken == NULL)
        uv_run(&loop, UV_RUN_ONCE);
    ck_assert_uint_eq(request, 7);
    close(fd);
}
END_TEST

START_TEST(who_speaks_something_else_is_told)
{
    Psd__Ping ping = PSD__PING__INIT;
    static const char http[] = "GET / HTTP/1.1\r\nHost: here\r\nAccept: all there is\r\n\r\n";
    uint8_t *bytes;
    size_t len;
    int fd = acceptor_knock();

    ck_assert_int_eq(write(fd, http, sizeof http), (ssize_t)sizeof http);
    acceptor_refused(fd, PS_ERR_PROTOCOL);
    bytes = wire_encode_new(MSG_PING, 1, &ping.base, 0, &len);
    fd = acceptor_knock();
    ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
    acceptor_refused(fd, PS_ERR_PROTOCOL);
    bytes[4]++; /* the version */
    fd = acceptor_knock();
    ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
    acceptor_refused(fd, PS_ERR_VERSION);
    free(bytes);
    ck_assert_ptr_null(taken);
}
END_TEST

START_TEST(a_crowd_that_says_nothing_keeps_nobody_out)
{
    static int fds[ACCEPTOR_PENDING_MAX + 8];
    uint8_t byte;
    int fd;

    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        fds[i] = acceptor_knock();
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    fd = acceptor_knock();
    say_meet(fd);
    while (taken == NULL)
        uv_run(&loop, UV_RUN_ONCE);
    ck_assert_uint_le(door.pending_count, ACCEPTOR_PENDING_MAX);
    ck_assert_uint_eq(acceptor_heard(fds[0], &byte, 1), 0); /* the oldest went */
    for (size_t i = 1; i < ARRAY_LEN(fds); i++)
        close(fds[i]);
    close(fd);
}
END_TEST

START_TEST(a_port_that_is_taken_is_busy)
{
    struct acceptor second = {0};
    struct ps_error e;

    ck_assert_int_eq(acceptor_open(&second, &pool, door.address, &e), PS_ERR_BUSY);
    while (!acceptor_closed(&second))
        uv_run(&loop, UV_RUN_ONCE);
    ck_assert_int_eq(acceptor_open(&second, &pool, "unix:/x", &e), PS_ERR_INVALID);
    ck_assert_int_eq(acceptor_open(&second, &pool, "nowhere", &e), PS_ERR_INVALID);
    ck_assert(acceptor_closed(&second));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("door");
    TCase *tc = tcase_create("door");

    tcase_add_checked_fixture(tc, acceptor_setup, acceptor_teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, the_first_frame_says_to_whom_a_connection_goes);
    tcase_add_test(tc, who_speaks_something_else_is_told);
    tcase_add_test(tc, a_crowd_that_says_nothing_keeps_nobody_out);
    tcase_add_test(tc, a_port_that_is_taken_is_busy);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
