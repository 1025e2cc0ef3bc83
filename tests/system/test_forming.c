/* Forming a group that fails: every rank learns why, and which rank caused it, however far it had come. The group here
 * is one rank's, in the test itself; the others are sockets that send the frames of a rank. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/core/group/group_wire.h"
#include "client/group/group_state.h"
#include "client/group/links/link_shm.h"
#include "common/core/cluster/address.h"
#include "common/net/shm_ring.h"
#include "tests/unit/kits/check_main.h"

#define RANKS       3
#define PATIENCE_MS 60000
#define SHORT_MS    200
#define ID          4711
#define EPOCH       7
#define SAID        "it has been eaten"

static ps_group *g;
static struct group_membership table;
static struct ps_error error;
static int door[RANKS]; /* where the other ranks listen */

static uint16_t
port_of(int fd)
{
    struct sockaddr_in at;
    socklen_t len = sizeof at;

    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    return ntohs(at.sin_port);
}

static void
listen_as(uint32_t rank)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    door[rank] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(door[rank], (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(door[rank], 8), 0);
}

/* The test is this rank, and knows its table, but is not in it yet. */
static void
begin_as(uint32_t rank)
{
    ck_assert_int_eq(group_new("test", NULL, &g, &error), PS_OK);
    ck_assert_int_eq(group_listen(g, "127.0.0.1:0", &error), PS_OK);
    ck_assert_int_eq(group_membership_init(&table, RANKS, &error), PS_OK);
    table.id = ID;
    table.epoch = EPOCH;
    table.rank = rank;
    for (uint32_t r = 0; r < RANKS; r++) {
        struct group_member *m = &table.members[r];

        if (r != rank)
            listen_as(r);
        m->task = r;
        m->incarnation = 1 + r;
        snprintf(m->host, sizeof m->host, "here");
        snprintf(m->address, sizeof m->address, "127.0.0.1:%u", r == rank ? g->acceptor.port : port_of(door[r]));
    }
}

static void
forming_end(void)
{
    ps_group_close(g);
    for (uint32_t r = 0; r < RANKS; r++)
        if (door[r] > 0)
            close(door[r]);
    memset(door, 0, sizeof door);
}

/* The only message is that this rank was guilty. */
static void
forming_fails(uint64_t timeout_ms, enum ps_err code, uint32_t guilty, const char *says)
{
    char name[32];

    snprintf(name, sizeof name, "rank %u at ", guilty);
    uv_update_time(&g->loop);
    ck_assert_int_eq(group_form(g, &table, uv_now(&g->loop) + timeout_ms, &error), code);
    ck_assert_msg(strncmp(error.peer, name, strlen(name)) == 0, "%s (%s)", error.text, error.peer);
    ck_assert_msg(strstr(error.text, says) != NULL, "%s", error.text);
}

/* ---- Messages of other ranks ---- */

static struct group_hello
hello_of(uint32_t from, uint32_t to)
{
    return (struct group_hello){.group = ID,
                                .epoch = EPOCH,
                                .incarnation = 1 + from,
                                .rank = from,
                                .ranks = RANKS,
                                .to = to,
                                .rules = GROUP_RULES,
                                .cluster = "test",
                                .name = "group"};
}

static void
forming_say(int fd, const void *bytes, size_t len)
{
    ck_assert_int_eq(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static void
say_hello(int fd, const struct group_hello *h)
{
    uint8_t out[FRAME_HEAD_SIZE + GROUP_HELLO_MAX + FRAME_ALIGN];

    forming_say(fd, out, group_hello_encode(MSG_GROUP_HELLO, h, out));
}

static void
say_abort(int fd, enum ps_err code, uint32_t guilty)
{
    uint8_t out[FRAME_HEAD_SIZE + GROUP_ABORT_MAX + FRAME_ALIGN];

    forming_say(fd, out, group_abort_encode(code, guilty, SAID, out));
}

/* A connection to the test's own rank. */
static int
forming_dial(void)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(g->acceptor.port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void
forming_get(int fd, void *to, size_t n)
{
    for (size_t at = 0; at < n;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t got;

        ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
        ck_assert_int_gt(got = read(fd, (char *)to + at, n - at), 0);
        at += (size_t)got;
    }
}

/* The next frame, which must be of this type. */
static void
forming_hear(int fd, enum msg_type type, struct frame_head *head, uint8_t *meta)
{
    uint8_t bytes[FRAME_HEAD_SIZE];

    forming_get(fd, bytes, sizeof bytes);
    ck_assert_int_eq(frame_head_decode(bytes, head, NULL), PS_OK);
    ck_assert_int_eq(head->type, type);
    ck_assert_uint_le(head->meta_len, GROUP_HELLO_MAX);
    forming_get(fd, meta, head->meta_len + frame_pad(head->meta_len));
}

static void
hear_hello(int fd)
{
    uint8_t meta[GROUP_HELLO_MAX + FRAME_ALIGN];
    struct frame_head head;

    forming_hear(fd, MSG_GROUP_HELLO, &head, meta);
}

static void
hear_abort(int fd, enum ps_err code, uint32_t guilty)
{
    uint8_t meta[GROUP_HELLO_MAX + FRAME_ALIGN];
    char text[GROUP_ABORT_TEXT_MAX + 1];
    struct frame_head head;
    enum ps_err said;
    uint32_t rank;

    forming_hear(fd, MSG_GROUP_ABORT, &head, meta);
    ck_assert_int_eq(group_abort_decode(&head, meta, &said, &rank, text, &error), PS_OK);
    ck_assert_msg(said == code && rank == guilty, "%s of rank %u: %s", ps_err_name(said), rank, text);
}

/* Let the group's network move until something has come here. */
static void
drive_until_heard(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    while (poll(&p, 1, 1) == 0)
        group_turn(g);
}

/* ---- Tests ---- */

struct refusal {
    int acceptor, greeting;
    enum ps_err code;
    uint32_t guilty;
};

static void *
refuse_main(void *arg)
{
    struct refusal *r = arg;

    r->greeting = accept(r->acceptor, NULL, NULL);
    hear_hello(r->greeting);
    say_abort(r->greeting, r->code, r->guilty);
    return NULL;
}

/* Rank 1 knows that rank 0 is gone; a rank that has sent it a hello learns that from it, and names rank 0. With no rank
 * guilty it is rank 1 that refuses. */
START_TEST(who_answers_a_greeting_with_the_end_is_believed)
{
    struct refusal refusal = {.code = PS_ERR_TIMEOUT, .guilty = _i == 0 ? 0 : GROUP_ABORT_NOBODY};
    pthread_t thread;

    begin_as(2);
    refusal.acceptor = door[1];
    ck_assert_int_eq(pthread_create(&thread, NULL, refuse_main, &refusal), 0);
    forming_fails(PATIENCE_MS, PS_ERR_TIMEOUT, _i == 0 ? 0 : 1, _i == 0 ? SAID : "it refused this rank: " SAID);
    pthread_join(thread, NULL);
    close(refusal.greeting);
    forming_end();
}
END_TEST

/* Rank 0 has received the hello, and has not answered, when rank 1 reports the end. */
START_TEST(who_is_being_greeted_is_told_the_end)
{
    struct refusal refusal = {.code = PS_ERR_TASK_TAKEN, .guilty = GROUP_ABORT_NOBODY};
    pthread_t thread;
    int fd;

    begin_as(2);
    refusal.acceptor = door[1];
    ck_assert_int_eq(pthread_create(&thread, NULL, refuse_main, &refusal), 0);
    forming_fails(PATIENCE_MS, PS_ERR_TASK_TAKEN, 1, SAID);
    pthread_join(thread, NULL);
    fd = accept(door[0], NULL, NULL);
    hear_hello(fd);
    hear_abort(fd, PS_ERR_TASK_TAKEN, 1);
    close(fd);
    close(refusal.greeting);
    forming_end();
}
END_TEST

/* Rank 2 has failed, and reports it before this rank knows its table. */
START_TEST(an_end_that_comes_before_the_table_is_kept)
{
    struct group_hello h = hello_of(2, 0);
    int fd;

    begin_as(0);
    fd = forming_dial();
    say_hello(fd, &h);
    say_abort(fd, PS_ERR_UNREACHABLE, 1);
    drive_until_heard(fd); /* that it is closed */
    forming_fails(PATIENCE_MS, PS_ERR_UNREACHABLE, 1, SAID);
    close(fd);
    forming_end();
}
END_TEST

/* ... and one of another forming is not of this one. */
START_TEST(an_end_of_another_forming_is_not_believed)
{
    struct group_hello h = hello_of(2, 0);
    int fd;

    h.group++;
    begin_as(0);
    fd = forming_dial();
    say_hello(fd, &h);
    say_abort(fd, PS_ERR_UNREACHABLE, 2);
    drive_until_heard(fd);
    forming_fails(SHORT_MS, PS_ERR_TIMEOUT, 1, "waited");
    close(fd);
    forming_end();
}
END_TEST

/* Rank 2 failed before the answer to its hello. _i: it has offered shared memory, too. */
START_TEST(an_end_behind_a_greeting_is_heard)
{
    struct group_hello h = hello_of(2, 0);
    struct shm_ring share = {0};
    int fd;

    if (_i == 1) {
        ck_assert_int_eq(shm_ring_make(&share, link_shm_ring_bytes(RANKS), &error), PS_OK);
        h.share_token = share.token;
        h.share_pid = (uint32_t)getpid();
        h.share_fd = (uint32_t)share.fd;
    }
    begin_as(0);
    fd = forming_dial();
    say_hello(fd, &h);
    say_abort(fd, PS_ERR_UNREACHABLE, 1);
    forming_fails(PATIENCE_MS, PS_ERR_UNREACHABLE, 1, SAID);
    close(fd);
    shm_ring_finish(&share);
    forming_end();
}
END_TEST

/* Rank 2 has a library whose operations have other messages: it is told so, and so is rank 0's caller. */
START_TEST(a_higher_rank_of_another_library_is_refused)
{
    struct group_hello h = hello_of(2, 0);
    int fd;

    h.rules = GROUP_RULES - 1;
    begin_as(0);
    fd = forming_dial();
    say_hello(fd, &h);
    forming_fails(PATIENCE_MS, PS_ERR_VERSION, 2, "another version of libpsclient");
    hear_abort(fd, PS_ERR_VERSION, 2);
    close(fd);
    forming_end();
}
END_TEST

static void *
welcome_main(void *arg)
{
    struct refusal *r = arg;
    uint8_t out[FRAME_HEAD_SIZE + GROUP_HELLO_MAX + FRAME_ALIGN];
    struct group_hello h = hello_of(1, 2);

    h.rules = GROUP_RULES - 1;
    r->greeting = accept(r->acceptor, NULL, NULL);
    hear_hello(r->greeting);
    forming_say(r->greeting, out, group_hello_encode(MSG_GROUP_WELCOME, &h, out));
    return NULL;
}

START_TEST(so_is_a_lower_one)
{
    struct refusal old = {0};
    pthread_t thread;

    begin_as(2);
    old.acceptor = door[1];
    ck_assert_int_eq(pthread_create(&thread, NULL, welcome_main, &old), 0);
    forming_fails(PATIENCE_MS, PS_ERR_VERSION, 1, "another version of libpsclient");
    pthread_join(thread, NULL);
    close(old.greeting);
    forming_end();
}
END_TEST

/* Rank 1 did not come; rank 2, which comes when all is over, learns that it was not rank 0's fault. */
START_TEST(who_comes_late_is_told_the_end)
{
    struct group_hello h = hello_of(2, 0);
    int fd;

    begin_as(0);
    forming_fails(SHORT_MS, PS_ERR_TIMEOUT, 1, "waited");
    fd = forming_dial();
    say_hello(fd, &h);
    drive_until_heard(fd);
    hear_abort(fd, PS_ERR_TIMEOUT, 1);
    close(fd);
    forming_end();
}
END_TEST

/* Rank 1 has met the others and is gone; rank 2 is there, and has not connected either. */
START_TEST(who_has_gone_is_not_waited_for)
{
    begin_as(0);
    close(door[1]);
    door[1] = 0;
    forming_fails(PATIENCE_MS, PS_ERR_UNREACHABLE, 1, "nothing listens");
    forming_end();
}
END_TEST

static Suite *
forming_make(void)
{
    Suite *s = suite_create("forming");
    TCase *t = tcase_create("forming");

    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, who_answers_a_greeting_with_the_end_is_believed, 0, 2);
    tcase_add_test(t, who_is_being_greeted_is_told_the_end);
    tcase_add_test(t, an_end_that_comes_before_the_table_is_kept);
    tcase_add_test(t, an_end_of_another_forming_is_not_believed);
    tcase_add_loop_test(t, an_end_behind_a_greeting_is_heard, 0, 2);
    tcase_add_test(t, a_higher_rank_of_another_library_is_refused);
    tcase_add_test(t, so_is_a_lower_one);
    tcase_add_test(t, who_comes_late_is_told_the_end);
    tcase_add_test(t, who_has_gone_is_not_waited_for);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(forming_make)
