/* Two connections on one loop, with authentication on both sides, or on one side with a bare socket on the other. */
#include "common/net/conn_auth.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/core/auth/token_handshake.h"
#include "common/core/wire/wire.h"
#include "tests/unit/kits/check_main.h"

#define SECRET      "0123456789abcdef"
#define PATIENCE_MS 600000 /* longer than any test may take */

struct auth_side {
    struct conn conn;
    unsigned admitted, frames, ended, closed;
    uint64_t requests; /* sum of those of the frames that came */
    enum role role;
    char token[KEYRING_NAME_MAX + 1];
    struct ps_error why;
    struct conn_out out;
    uint8_t bytes[64];
    bool sent;
};

static uv_loop_t loop;
static struct conn_pool pool;
static struct auth_side client, server;
static struct keyring ring;
static struct key key;
static struct ps_error error;
static int hand = -1; /* a bare socket in the place of one side */

static void
on_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct auth_side *s = c->arg;

    (void)meta;
    (void)payload;
    s->frames++;
    s->requests += head->request;
}

static void
on_ended(struct conn *c, const struct ps_error *why)
{
    struct auth_side *s = c->arg;

    s->ended++;
    s->why = *why;
}

static void
on_admitted(struct conn *c, enum role role, const char *token)
{
    struct auth_side *s = c->arg;

    s->admitted++;
    s->role = role;
    snprintf(s->token, sizeof s->token, "%s", token);
}

static const struct conn_events events = {.frame = on_frame, .ended = on_ended, .admitted = on_admitted};

static void
on_closed(struct conn *c)
{
    ((struct auth_side *)c->arg)->closed++;
}

static void
conn_auth_setup(void)
{
    static const char text[] = "a:train:" SECRET "\n";

    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(conn_pool_init(&pool, &loop), PS_OK);
    ck_assert_int_eq(keyring_parse(&ring, "tokens", text, sizeof text - 1, &error), PS_OK);
    key = ring.keys[0];
}

static void
conn_auth_teardown(void)
{
    struct auth_side *sides[] = {&client, &server};

    for (size_t i = 0; i < ARRAY_LEN(sides); i++)
        if (sides[i]->conn.arg != NULL)
            conn_close(&sides[i]->conn, on_closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    conn_pool_finish(&pool);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    keyring_finish(&ring);
    if (hand >= 0)
        close(hand);
}

static void
conn_auth_start(struct auth_side *s, int fd)
{
    ck_assert_int_eq(conn_init(&s->conn, &pool, true, &events, s), PS_OK);
    ck_assert_int_eq(uv_pipe_open(&s->conn.u.pipe, fd), 0);
    ck_assert_int_eq(conn_start(&s->conn, NULL), PS_OK);
}

static void
listen_with(bool optional, uint32_t patience_ms)
{
    struct conn_auth_terms terms = {.cluster = "c", .timeout_ms = patience_ms, .ring = &ring, .optional = optional};

    ck_assert_int_eq(conn_auth_listen(&server.conn, &terms), PS_OK);
}

static void
connect_with(enum role wanted)
{
    struct conn_auth_terms terms = {.cluster = "c", .timeout_ms = PATIENCE_MS, .key = &key, .wanted = wanted};

    ck_assert_int_eq(conn_auth_connect(&client.conn, &terms), PS_OK);
}

static void
conn_auth_join(void)
{
    int fd[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    conn_auth_start(&client, fd[0]);
    conn_auth_start(&server, fd[1]);
}

/* The server's other side is the test's own. */
static void
join_hand(void)
{
    int fd[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    conn_auth_start(&server, fd[0]);
    hand = fd[1];
}

static void
run_until(const unsigned *happened)
{
    while (*happened == 0)
        uv_run(&loop, UV_RUN_ONCE);
}

static void
out_done(struct conn_out *out, enum ps_err result)
{
    struct auth_side *s = CONTAINER_OF(out, struct auth_side, out);

    s->sent = result == PS_OK;
}

static size_t
conn_auth_ping(uint8_t *bytes, uint64_t request)
{
    struct frame_head head = {.version = FRAME_VERSION, .type = MSG_PING, .request = request};

    frame_head_encode(&head, bytes);
    return FRAME_HEAD_SIZE;
}

static void
send_ping(struct auth_side *s, uint64_t request)
{
    s->out = (struct conn_out){.done = out_done, .head = s->bytes};
    s->out.head_len = conn_auth_ping(s->bytes, request);
    conn_send(&s->conn, &s->out, false);
}

static void
conn_auth_send(const void *bytes, size_t n)
{
    ck_assert_int_eq(write(hand, bytes, n), (ssize_t)n);
}

/* What the server sent before its end: ERROR's code; PS_OK: nothing at all. */
static enum ps_err
conn_auth_received(char *text, size_t size)
{
    uint8_t bytes[4096];
    struct arena arena = {0};
    struct frame_head head;
    struct wire_msg msg;
    size_t n = 0;
    ssize_t got;
    enum ps_err code = PS_OK;

    conn_finish(&server.conn, on_closed);
    shutdown(hand, SHUT_WR);
    run_until(&server.closed);
    server.conn.arg = NULL;
    while ((got = read(hand, bytes + n, sizeof bytes - n)) > 0)
        n += (size_t)got;
    if (n > 0) {
        ck_assert_int_eq(frame_head_decode(bytes, &head, &error), PS_OK);
        ck_assert_uint_eq(head.type, MSG_ERROR);
        ck_assert_int_eq(wire_decode(&head, bytes + FRAME_HEAD_SIZE, &arena, &msg, &error), PS_OK);
        code = (enum ps_err)msg.u.error->code;
        snprintf(text, size, "%s", msg.u.error->text);
        ck_assert_uint_eq(n, FRAME_HEAD_SIZE + head.meta_len + frame_pad(head.meta_len)); /* and nothing else */
    }
    arena_finish(&arena);
    return code;
}

START_TEST(both_come_through_and_then_frames_do)
{
    conn_auth_join();
    listen_with(_i == 1, PATIENCE_MS);
    connect_with(ROLE_READ);
    run_until(&client.admitted);
    ck_assert(server.admitted == 1 && server.role == ROLE_READ && client.role == ROLE_READ);
    ck_assert_str_eq(server.token, "a");
    ck_assert(client.frames == 0 && server.frames == 0);
    send_ping(&client, 7);
    run_until(&server.frames);
    ck_assert_uint_eq(server.requests, 7);
    send_ping(&server, 8);
    run_until(&client.frames);
    ck_assert_uint_eq(client.requests, 8);
    ck_assert(client.ended == 0 && server.ended == 0 && !client.conn.refused);
}
END_TEST

START_TEST(large_frames_come_after_the_proof)
{
    uint8_t meta[2 * TOKEN_HANDSHAKE_META_MAX] = {0};
    struct frame_head head = {.version = FRAME_VERSION, .type = MSG_PING, .meta_len = sizeof meta, .request = 3};

    conn_auth_join();
    listen_with(false, PATIENCE_MS);
    connect_with(ROLE_NONE);
    run_until(&client.admitted);
    frame_head_encode(&head, client.bytes);
    client.out = (struct conn_out){.done = out_done, .head = client.bytes, .head_len = FRAME_HEAD_SIZE};
    conn_send(&client.conn, &client.out, false);
    ck_assert_int_eq(write(client.conn.fd, meta, sizeof meta), (ssize_t)sizeof meta);
    run_until(&server.frames);
    ck_assert_uint_eq(server.requests, 3);
}
END_TEST

START_TEST(a_wrong_token_is_told_to_both)
{
    key.secret[0] ^= 1;
    conn_auth_join();
    listen_with(_i == 1, PATIENCE_MS);
    connect_with(ROLE_READ);
    run_until(&server.ended);
    ck_assert_int_eq(server.why.code, PS_ERR_DENIED);
    ck_assert(server.conn.refused && server.admitted == 0);
    run_until(&client.ended);
    ck_assert_int_eq(client.why.code, PS_ERR_DENIED);
    ck_assert_ptr_nonnull(strstr(client.why.text, "not accepted"));
    ck_assert(client.conn.refused && client.admitted == 0);
}
END_TEST

START_TEST(another_channel_is_noticed)
{
    conn_auth_join();
    client.conn.binding_len = server.conn.binding_len = 32;
    client.conn.binding[5] = (uint8_t)_i;
    listen_with(false, PATIENCE_MS);
    connect_with(ROLE_READ);
    if (_i == 0) {
        run_until(&client.admitted);
        return;
    }
    run_until(&client.ended);
    ck_assert_int_eq(client.why.code, PS_ERR_DENIED);
}
END_TEST

START_TEST(who_does_not_knock_is_told_why_it_is_not_let_in)
{
    uint8_t frame[64];
    char text[600] = "";

    join_hand();
    listen_with(false, PATIENCE_MS);
    conn_auth_send(frame, conn_auth_ping(frame, 1));
    run_until(&server.ended);
    ck_assert_int_eq(server.why.code, PS_ERR_DENIED);
    ck_assert_int_eq(conn_auth_received(text, sizeof text), PS_ERR_DENIED);
    ck_assert_ptr_nonnull(strstr(text, "PSD_TOKEN_FILE"));
    ck_assert_uint_eq(server.frames, 0);
}
END_TEST

START_TEST(where_nobody_has_to_knock_frames_pass)
{
    uint8_t frame[64];

    join_hand();
    listen_with(true, PATIENCE_MS);
    conn_auth_send(frame, conn_auth_ping(frame, 4));
    run_until(&server.frames);
    conn_auth_send(frame, conn_auth_ping(frame, 5));
    server.frames = 0;
    run_until(&server.frames);
    ck_assert_uint_eq(server.requests, 9);
    ck_assert_uint_eq(server.admitted, 0);
}
END_TEST

START_TEST(who_is_silent_is_told_so)
{
    char text[600] = "";

    join_hand();
    listen_with(false, 1);
    run_until(&server.ended);
    ck_assert_int_eq(server.why.code, PS_ERR_TIMEOUT);
    ck_assert_int_eq(conn_auth_received(text, sizeof text), PS_ERR_TIMEOUT);
}
END_TEST

START_TEST(who_stops_in_the_midst_is_no_better)
{
    struct token_handshake p;
    struct token_handshake_own own = {.cluster = "c"};
    uint8_t frame[TOKEN_HANDSHAKE_FRAME_MAX];

    join_hand();
    listen_with(_i == 1, 1);
    token_handshake_connect(&p, &key, ROLE_READ, &own);
    conn_auth_send(frame, token_handshake_knock(&p, frame));
    run_until(&server.ended);
    ck_assert_int_eq(server.why.code, PS_ERR_TIMEOUT);
    ck_assert_uint_eq(server.admitted, 0);
}
END_TEST

START_TEST(large_frames_are_refused_by_their_head)
{
    static const struct frame_head heads[] = {
        {.version = FRAME_VERSION, .type = MSG_KNOCK, .meta_len = TOKEN_HANDSHAKE_META_MAX + 1},
        {.version = FRAME_VERSION, .type = MSG_HELLO, .meta_len = FRAME_META_MAX},
        {.version = FRAME_VERSION, .type = MSG_PUSH, .payload_len = 4},
        {.version = FRAME_VERSION, .type = MSG_PUSH, .payload_len = FRAME_PAYLOAD_MAX}};
    uint8_t head[FRAME_HEAD_SIZE];
    char text[600] = "";

    join_hand();
    listen_with(false, PATIENCE_MS);
    frame_head_encode(&heads[_i], head);
    conn_auth_send(head, sizeof head);
    run_until(&server.ended);
    ck_assert_uint_eq(conn_bytes(&server.conn) - server.conn.queue.held_bytes, 0);
    ck_assert_int_eq(conn_auth_received(text, sizeof text), PS_ERR_PROTOCOL);
}
END_TEST

START_TEST(what_is_no_frame_gets_no_answer)
{
    static const char *const strangers[] = {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH\r\n", "\x16\x03\x01\x02",
                                            "0123456789"};

    join_hand();
    listen_with(false, PATIENCE_MS);
    conn_auth_send(strangers[_i], strlen(strangers[_i]));
    run_until(&server.ended);
    ck_assert(server.conn.refused);
    ck_assert_int_eq(conn_auth_received(NULL, 0), PS_OK);
}
END_TEST

START_TEST(another_version_is_told_of_ours)
{
    uint8_t frame[64];
    char text[600] = "";

    join_hand();
    listen_with(false, PATIENCE_MS);
    (void)conn_auth_ping(frame, 1);
    frame[4]--;
    conn_auth_send(frame, FRAME_HEAD_SIZE);
    run_until(&server.ended);
    ck_assert_int_eq(conn_auth_received(text, sizeof text), PS_ERR_VERSION);
}
END_TEST

START_TEST(who_leaves_leaves_nothing)
{
    join_hand();
    listen_with(false, PATIENCE_MS);
    close(hand);
    hand = -1;
    run_until(&server.ended);
    ck_assert_int_eq(server.why.code, PS_ERR_CLOSED);
    ck_assert(!server.conn.refused);
}
END_TEST

START_TEST(an_owner_may_close_at_any_time)
{
    conn_auth_join();
    listen_with(false, PATIENCE_MS);
    connect_with(ROLE_READ);
    for (int i = 0; i < _i; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    conn_close(&client.conn, on_closed);
    run_until(&client.closed);
    client.conn.arg = NULL;
    run_until(&server.ended);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("conn_guard");
    TCase *t = tcase_create("conn_guard");

    tcase_add_checked_fixture(t, conn_auth_setup, conn_auth_teardown);
    tcase_add_loop_test(t, both_come_through_and_then_frames_do, 0, 2);
    tcase_add_test(t, large_frames_come_after_the_proof);
    tcase_add_loop_test(t, a_wrong_token_is_told_to_both, 0, 2);
    tcase_add_loop_test(t, another_channel_is_noticed, 0, 2);
    tcase_add_test(t, who_does_not_knock_is_told_why_it_is_not_let_in);
    tcase_add_test(t, where_nobody_has_to_knock_frames_pass);
    tcase_add_test(t, who_is_silent_is_told_so);
    tcase_add_loop_test(t, who_stops_in_the_midst_is_no_better, 0, 2);
    tcase_add_loop_test(t, large_frames_are_refused_by_their_head, 0, 4);
    tcase_add_loop_test(t, what_is_no_frame_gets_no_answer, 0, 4);
    tcase_add_test(t, another_version_is_told_of_ours);
    tcase_add_test(t, who_leaves_leaves_nothing);
    tcase_add_loop_test(t, an_owner_may_close_at_any_time, 0, 4);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
