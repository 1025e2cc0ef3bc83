/* Two connections on one loop, joined by TCP over loopback (_i == 0), by a Unix socket (_i == 1), or by shared memory
 * whose doorbells go over a Unix socket (_i == 2). */
#include "common/net/conn.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/kits/check_main.h"

enum { TCP, UNIX, SHARED, TRANSPORTS };
#define RING        (1 * MIB)
#define PATIENCE_MS 600000 /* longer than any test may take */
#define IDLE_BYTES  1024   /* a little room for metadata is kept */

/* ---- One side ---- */

enum callback { AT_NONE, AT_META, AT_FRAME, AT_ENDED, AT_PREPARE, AT_RELEASE, AT_DONE, AT_COUNT };

struct conn_side {
    struct conn conn;
    uint64_t frames, heads, metas, payload_bytes;
    uint64_t next_request; /* of the frame that must come next */
    bool ended, closed;
    struct ps_error why;
    /* what it does */
    enum callback close_at;
    bool direct, discard, pause_at_frame, pause_at_head, close_at_head, refuse;
    struct frame_part parts[2];
    uint8_t *into;
};

static uv_loop_t loop;
static struct conn_pool pool;
static struct conn_side a, b;

static void
conn_closed(struct conn *c)
{
    struct conn_side *s = c->arg;

    ck_assert(!s->closed);
    s->closed = true;
}

static void
maybe_close(struct conn_side *s, enum callback at)
{
    if (s->close_at == at)
        conn_close(&s->conn, conn_closed);
}

static uint8_t
conn_pattern(uint64_t request, size_t i)
{
    return (uint8_t)(request * 37 + i * 5 + (i >> 8) * 3);
}

static void
check_pattern(const uint8_t *payload, uint64_t request, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (payload[i] != conn_pattern(request, i))
            ck_abort_msg("payload of frame %zu differs at %zu of %zu", (size_t)request, i, len);
}

static void
on_meta(struct conn *c, const struct frame_head *head, const void *meta)
{
    struct conn_side *s = c->arg;

    ck_assert(!c->closing && !c->ended);
    ck_assert_uint_gt(head->payload_len, 0);
    ck_assert_mem_eq(meta, "meta", head->meta_len);
    s->metas++;
    if (s->direct) {
        s->into = realloc(s->into, head->payload_len);
        s->parts[0] = (struct frame_part){s->into, head->payload_len / 3};
        s->parts[1] = (struct frame_part){s->into + head->payload_len / 3, head->payload_len - head->payload_len / 3};
        frame_direct(conn_reader(c), s->parts, 2);
    }
    if (s->discard)
        frame_discard(conn_reader(c));
    maybe_close(s, AT_META);
}

static void
on_frame(struct conn *c, const struct frame_head *head, const void *meta, const void *payload)
{
    struct conn_side *s = c->arg;

    ck_assert(!c->closing && !c->ended);
    ck_assert_mem_eq(meta, "meta", head->meta_len);
    ck_assert_uint_eq(head->request, s->next_request);
    s->next_request++;
    s->frames++;
    s->payload_bytes += head->payload_len;
    if (s->direct || s->discard || head->payload_len == 0)
        ck_assert_ptr_null(payload);
    else
        check_pattern(payload, head->request, head->payload_len);
    if (s->direct)
        check_pattern(s->into, head->request, head->payload_len);
    if (s->pause_at_frame)
        conn_read_pause(c);
    maybe_close(s, AT_FRAME);
}

static void
on_ended(struct conn *c, const struct ps_error *why)
{
    struct conn_side *s = c->arg;

    ck_assert(!s->ended && !s->closed);
    s->ended = true;
    s->why = *why;
    maybe_close(s, AT_ENDED);
}

static const struct conn_events events = {.meta = on_meta, .frame = on_frame, .ended = on_ended};

static enum ps_err
on_head(struct conn *c, const struct frame_head *head, struct ps_error *why)
{
    struct conn_side *s = c->arg;

    ck_assert(!c->closing && !c->ended);
    ck_assert_uint_eq(head->request, s->next_request);
    ck_assert_uint_le(frame_reader_bytes(conn_reader(c)), IDLE_BYTES);
    s->heads++;
    if (s->pause_at_head)
        conn_read_pause(c);
    if (s->close_at_head)
        conn_close(c, conn_closed);
    return s->refuse ? ps_fail(why, PS_ERR_DENIED, "not this one") : PS_OK;
}

static const struct conn_events events_with_heads = {
    .head = on_head, .meta = on_meta, .frame = on_frame, .ended = on_ended};
static const struct conn_events *joined_events; /* of the next sides that are joined */

/* ---- How often a socket is read: libuv finds this read() before libc's ---- */

static unsigned reads;

ssize_t
read(int fd, void *to, size_t len)
{
    reads++;
    return syscall(SYS_read, fd, to, len);
}

/* ---- Joining two sides ---- */

static void
tcp_pair(int fd[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, len), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(fd[0], (struct sockaddr *)&address, len), 0);
    fd[1] = accept(listener, NULL, NULL);
    ck_assert_int_ge(fd[1], 0);
    close(listener);
}

static void
join_fd(struct conn_side *s, bool is_pipe, int fd, const char *congestion)
{
    ck_assert_int_eq(conn_init(&s->conn, &pool, is_pipe, joined_events, s), PS_OK);
    if (is_pipe)
        ck_assert_int_eq(uv_pipe_open(&s->conn.u.pipe, fd), 0);
    else
        ck_assert_int_eq(uv_tcp_open(&s->conn.u.tcp, fd), 0);
    ck_assert_int_eq(conn_start(&s->conn, congestion), PS_OK);
}

static void
share_pair(struct conn_side *x, struct conn_side *y)
{
    struct shm_ring s, t;
    struct ps_error e;

    ck_assert_int_eq(shm_ring_make(&s, RING, &e), PS_OK);
    ck_assert_int_eq(shm_ring_find(&t, getpid(), s.fd, s.token, &e), PS_OK);
    ck_assert_int_eq(conn_shm(&x->conn, &s), PS_OK);
    ck_assert_int_eq(conn_shm(&y->conn, &t), PS_OK);
}

static void
join_pair(struct conn_side *x, struct conn_side *y, int transport)
{
    int fd[2];

    if (transport == TCP)
        tcp_pair(fd);
    else
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    join_fd(x, transport != TCP, fd[0], "reno");
    join_fd(y, transport != TCP, fd[1], "reno");
    if (transport == SHARED)
        share_pair(x, y);
}

static void
conn_join(int transport)
{
    join_pair(&a, &b, transport);
}

static void
conn_setup(void)
{
    signal(SIGPIPE, SIG_DFL);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(conn_pool_init(&pool, &loop), PS_OK);
    joined_events = &events;
    a = (struct conn_side){0};
    b = (struct conn_side){0};
}

static bool
is_at_default(int sig)
{
    struct sigaction now;

    return sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_DFL;
}

/* Everything must come to an end: a handle that is left over would keep the loop from closing. And SIGPIPE belongs to
 * the program: it was at its default, and still is. */
static void
conn_teardown(void)
{
    ck_assert(is_at_default(SIGPIPE));
    if (a.conn.arg != NULL)
        conn_close(&a.conn, conn_closed);
    if (b.conn.arg != NULL)
        conn_close(&b.conn, conn_closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    conn_pool_finish(&pool);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    free(a.into);
    free(b.into);
}

/* ---- Sleeping ---- */

/* A descriptor that can be read, and is to be watched for something else in each turn. */
struct changing {
    uv_prepare_t prepare;
    uv_poll_t poll;
    unsigned turns;
    bool dozed; /* as the loop's poll came to an end */
};

static void
conn_watched(uv_poll_t *poll, int status, int events)
{
    struct changing *ch = poll->data;

    ck_assert_int_eq(status, 0);
    ck_assert_int_ne(events & UV_READABLE, 0);
    ch->dozed = pool.dozes;
}

static void
conn_change(uv_prepare_t *prepare)
{
    struct changing *ch = prepare->data;

    ck_assert_int_eq(uv_poll_start(&ch->poll, UV_READABLE | (ch->turns++ % 2 == 0 ? UV_DISCONNECT : 0), conn_watched),
                     0);
}

/* libuv does not register a watch before it polls, and reports until then that it will not sleep. */
START_TEST(a_loop_that_has_yet_to_watch_something_says_that_it_sleeps)
{
    struct changing ch = {.turns = 0};
    int fd[2];

    conn_join(SHARED);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    ck_assert_int_eq(write(fd[1], "x", 1), 1);
    uv_poll_init(&loop, &ch.poll, fd[0]);
    uv_prepare_init(&loop, &ch.prepare);
    ch.poll.data = ch.prepare.data = &ch;
    uv_prepare_start(&ch.prepare, conn_change); /* before those that were started before it */
    for (int i = 0; i < 4; i++) {
        ch.dozed = false;
        uv_run(&loop, UV_RUN_ONCE);
        ck_assert_msg(ch.dozed, "it slept in turn %d, and the other side does not know", i);
        ck_assert(!pool.dozes);
    }
    uv_close((uv_handle_t *)&ch.prepare, NULL);
    uv_close((uv_handle_t *)&ch.poll, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    close(fd[0]);
    close(fd[1]);
}
END_TEST

/* ---- Outgoing frames ---- */

struct conn_test_out {
    struct conn_out out;
    struct conn_side *from;
    uint8_t head[40];
    uint8_t *payload; /* heap */
    size_t payload_len;
    struct span parts[3];
    enum ps_err prepare_fails;
    bool must_wait; /* before it may be prepared */
    int prepared, released, done;
    enum ps_err result;
    uint64_t prepared_ms; /* the loop's time */
};

static int out_of_order; /* frames that were done before an earlier one */
static struct conn_test_out *last_done;

static void
on_done(struct conn_out *o, enum ps_err result)
{
    struct conn_test_out *out = CONTAINER_OF(o, struct conn_test_out, out);

    ck_assert_int_eq(out->done, 0);
    ck_assert_int_eq(out->released, o->pinned && out->prepared ? 1 : 0);
    out->done = 1;
    out->result = result;
    out_of_order += last_done != NULL && out < last_done;
    last_done = out;
    /* It is the sender's again. */
    if (out->payload != NULL)
        memset(out->payload, 0xdd, out->payload_len);
    maybe_close(out->from, AT_DONE);
}

static void
on_release(struct conn_out *o)
{
    struct conn_test_out *out = CONTAINER_OF(o, struct conn_test_out, out);

    out->released++;
    memset(out->payload, 0xee, out->payload_len);
    maybe_close(out->from, AT_RELEASE);
}

static bool
on_may_prepare(struct conn_out *o)
{
    return !CONTAINER_OF(o, struct conn_test_out, out)->must_wait;
}

static enum ps_err
on_prepare(struct conn_out *o)
{
    struct conn_test_out *out = CONTAINER_OF(o, struct conn_test_out, out);

    ck_assert(out->prepared == 0 && !out->must_wait);
    if (out->prepare_fails != PS_OK)
        return out->prepare_fails;
    out->prepared = 1;
    out->prepared_ms = uv_now(&loop);
    o->head = out->head;
    o->head_len = FRAME_HEAD_SIZE + 8;
    o->parts = out->parts;
    o->parts_len = ARRAY_LEN(out->parts);
    o->pinned = true;
    maybe_close(out->from, AT_PREPARE);
    return PS_OK;
}

/* A frame of payload_len bytes in two parts and an empty one. Pinned frames are prepared when they are first in line.
 */
static void
out_init(struct conn_test_out *out, struct conn_side *from, uint64_t request, size_t payload_len, bool pinned)
{
    struct frame_head head = {FRAME_VERSION, MSG_PUSH, 4, payload_len, request};

    *out = (struct conn_test_out){.from = from, .payload = malloc(MAX(payload_len, 1)), .payload_len = payload_len};
    frame_head_encode(&head, out->head);
    memcpy(out->head + FRAME_HEAD_SIZE, "meta\0\0\0", 8);
    for (size_t i = 0; i < payload_len; i++)
        out->payload[i] = conn_pattern(request, i);
    out->parts[0] = (struct span){out->payload, payload_len / 2};
    out->parts[2] = (struct span){out->payload + payload_len / 2, payload_len - payload_len / 2};
    out->out = (struct conn_out){.done = on_done};
    if (pinned) {
        out->out.prepare = on_prepare;
        out->out.release = on_release;
        return;
    }
    out->out.head = out->head;
    out->out.head_len = FRAME_HEAD_SIZE + 8;
    out->out.parts = out->parts;
    out->out.parts_len = ARRAY_LEN(out->parts);
}

static void
out_send(struct conn_test_out *out, struct conn_side *from, uint64_t request, size_t payload_len, bool pinned,
         bool later)
{
    out_init(out, from, request, payload_len, pinned);
    conn_send(&from->conn, &out->out, later);
}

static void
outs_free(struct conn_test_out *outs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(outs[i].payload);
}

#define RUN_UNTIL(condition)                                                                                           \
    do {                                                                                                               \
        while (!(condition))                                                                                           \
            uv_run(&loop, UV_RUN_ONCE);                                                                                \
    } while (0)

static void
conn_wake(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

/* Let the loop run for a while. */
static void
run_for(uint64_t ms)
{
    uv_timer_t timer;
    bool over = false;

    uv_timer_init(&loop, &timer);
    uv_update_time(&loop);
    timer.data = &over;
    uv_timer_start(&timer, conn_wake, ms, 1); /* it repeats: it may fire before the loop sleeps (loop_wakeup.h) */
    RUN_UNTIL(over);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
}

/* ---- Sending ---- */

START_TEST(frames_of_all_sizes_arrive_in_order_both_ways)
{
    static const size_t sizes[] = {0, 4, 64, 4092, 20000, 65536, 300000, MIB, 4 * MIB};
    struct test_rng rng = {test_seed()};
    static struct conn_test_out outs[2][120];
    uint64_t sent[2] = {0, 0};

    conn_join(_i);
    for (size_t i = 0; i < ARRAY_LEN(outs[0]); i++) {
        for (int way = 0; way < 2; way++) {
            size_t len = sizes[test_below(&rng, i % 8 == 0 ? ARRAY_LEN(sizes) : 6)];

            sent[way] += len;
            out_send(&outs[way][i], way == 0 ? &a : &b, i, len, test_below(&rng, 2) == 0, test_below(&rng, 3) == 0);
        }
        if (test_below(&rng, 10) == 0)
            uv_run(&loop, UV_RUN_NOWAIT);
    }
    conn_flush(&a.conn);
    conn_flush(&b.conn);
    RUN_UNTIL(a.frames == 120 && b.frames == 120);
    ck_assert_uint_eq(b.payload_bytes, sent[0]);
    ck_assert_uint_eq(a.payload_bytes, sent[1]);
    for (int way = 0; way < 2; way++)
        for (size_t i = 0; i < 120; i++)
            ck_assert(outs[way][i].done && outs[way][i].result == PS_OK);
    ck_assert_uint_le(conn_bytes(&a.conn), IDLE_BYTES);
    ck_assert_uint_le(conn_bytes(&b.conn), IDLE_BYTES);
    outs_free(outs[0], 120);
    outs_free(outs[1], 120);
}
END_TEST

START_TEST(small_frames_go_out_together_at_the_flush)
{
    static struct conn_test_out outs[50];

    conn_join(_i);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, 16, i % 2 == 0, true);
    ck_assert_int_eq(outs[0].done, 0);
    conn_flush(&a.conn);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        ck_assert_int_eq(outs[i].done, 1);
    ck_assert_int_eq(out_of_order, 0);
    ck_assert(!a.conn.blocked); /* they fit the socket */
    RUN_UNTIL(b.frames == 50);
    outs_free(outs, 50);
}
END_TEST

START_TEST(payloads_are_read_where_the_owner_wants_them)
{
    static const size_t sizes[] = {4, 1000, 40000, MIB, 3 * MIB + 4};
    static struct conn_test_out outs[10];

    conn_join(_i);
    for (int way = 0; way < 2; way++) {
        b.direct = way == 0;
        b.discard = way == 1;
        for (size_t i = 0; i < 5; i++)
            out_send(&outs[5 * way + i], &a, 5 * way + i, sizes[i], false, false);
        RUN_UNTIL(b.frames == 5 * (uint64_t)way + 5);
        ck_assert_uint_eq(b.metas, b.frames);
    }
    outs_free(outs, 10);
}
END_TEST

static struct conn_test_out pinned[8];

/* By the loop's time: the machine may let it wait for longer. */
static void
none_is_pinned_too_long(void)
{
    for (size_t i = 0; i < ARRAY_LEN(pinned); i++)
        if (pinned[i].prepared && !pinned[i].released)
            ck_assert_uint_le(uv_now(&loop) - pinned[i].prepared_ms, CONN_PIN_MS);
}

/* A peer that does not read: the read transaction behind a pinned frame ends in time, and the bytes still arrive. */
START_TEST(a_pinned_frame_is_released_in_time_when_the_peer_is_slow)
{
    struct conn_test_out *outs = pinned;

    conn_join(_i);
    conn_read_pause(&b.conn);
    for (size_t i = 0; i < ARRAY_LEN(pinned); i++)
        out_init(&outs[i], &a, i, 4 * MIB, true);
    uv_update_time(&loop);
    for (size_t i = 0; i < ARRAY_LEN(pinned); i++)
        conn_send(&a.conn, &outs[i].out, false);
    for (int ms = 0; ms < CONN_PIN_MS + 100; ms++) {
        run_for(1);
        none_is_pinned_too_long();
    }
    ck_assert_int_eq(outs[0].prepared, 1);
    ck_assert_int_eq(outs[7].prepared, 0); /* it waits in line and pins nothing */
    for (size_t i = 0; i < ARRAY_LEN(pinned); i++)
        if (outs[i].prepared)
            RUN_UNTIL(outs[i].released);
    ck_assert_uint_gt(conn_bytes(&a.conn), 0); /* the copy */
    ck_assert_uint_lt(conn_bytes(&a.conn), 9 * MIB);
    conn_read_resume(&b.conn);
    RUN_UNTIL(b.frames == 8 && outs[7].done);
    for (size_t i = 0; i < ARRAY_LEN(pinned); i++)
        ck_assert_int_eq(outs[i].released, 1);
    ck_assert_int_eq(out_of_order, 0);
    ck_assert_uint_le(conn_bytes(&a.conn), IDLE_BYTES);
    outs_free(outs, 8);
}
END_TEST

START_TEST(a_borrowed_frame_is_not_copied)
{
    static struct conn_test_out outs[4];

    conn_join(_i);
    conn_read_pause(&b.conn);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, 4 * MIB, false, false);
    run_for(2 * CONN_PIN_MS);
    ck_assert_int_eq(outs[3].done, 0);
    ck_assert_uint_le(conn_bytes(&a.conn), IDLE_BYTES);
    conn_read_resume(&b.conn);
    RUN_UNTIL(b.frames == 4 && outs[3].done);
    outs_free(outs, 4);
}
END_TEST

START_TEST(a_frame_that_cannot_be_prepared_is_left_out)
{
    static struct conn_test_out outs[4];

    conn_join(_i);
    for (size_t i = 0; i < 4; i++) {
        out_init(&outs[i], &a, i == 3 ? 1 : 0, 100, true);
        outs[i].prepare_fails = i == 0 || i == 2 ? PS_ERR_IO : PS_OK;
        conn_send(&a.conn, &outs[i].out, true);
    }
    conn_flush(&a.conn);
    RUN_UNTIL(b.frames == 2);
    ck_assert_int_eq(outs[0].result, PS_ERR_IO);
    ck_assert_int_eq(outs[1].result, PS_OK);
    ck_assert_int_eq(outs[2].result, PS_ERR_IO);
    ck_assert_int_eq(outs[3].result, PS_OK);
    ck_assert_int_eq(outs[0].released, 0);
    outs_free(outs, 4);
}
END_TEST

/* It, and what is behind it, goes out once it may be prepared. */
START_TEST(a_frame_that_may_not_be_prepared_yet_waits)
{
    static struct conn_test_out outs[3];

    conn_join(_i);
    for (size_t i = 0; i < 3; i++) {
        out_init(&outs[i], &a, i, 1000, true);
        outs[i].out.may_prepare = on_may_prepare;
        outs[i].must_wait = i == 1;
        conn_send(&a.conn, &outs[i].out, true);
    }
    conn_flush(&a.conn);
    RUN_UNTIL(b.frames == 1);
    run_for(20);
    conn_flush(&a.conn);
    run_for(20);
    ck_assert_uint_eq(b.frames, 1);
    ck_assert(!conn_writes(&a.conn) && conn_queued(&a.conn));
    outs[1].must_wait = false;
    conn_flush(&a.conn);
    RUN_UNTIL(b.frames == 3 && outs[2].done);
    ck_assert_uint_ge(conn_written(&a.conn), 3000);
    outs_free(outs, 3);
}
END_TEST

START_TEST(a_paused_side_reads_nothing)
{
    struct conn_test_out out;

    conn_join(_i);
    conn_read_pause(&b.conn);
    out_send(&out, &a, 0, 100, false, false);
    run_for(20);
    ck_assert_uint_eq(b.frames, 0);
    conn_read_resume(&b.conn);
    RUN_UNTIL(b.frames == 1);
    outs_free(&out, 1);
}
END_TEST

/* Fairness of the whole server hangs on this: one read may bring thousands of frames. */
START_TEST(a_pause_keeps_back_the_frames_that_were_read_behind)
{
    static const size_t sizes[] = {0, 4, 100, 1000, 64};
    static struct conn_test_out outs[40];

    conn_join(_i);
    b.pause_at_frame = true;
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, sizes[i % ARRAY_LEN(sizes)], false, true);
    conn_flush(&a.conn);
    RUN_UNTIL(b.frames == 1);
    for (size_t i = 1; i < ARRAY_LEN(outs) - 10; i++) {
        run_for(1);
        ck_assert_uint_eq(b.frames, i);
        conn_read_resume(&b.conn);
        ck_assert_uint_eq(b.frames, i); /* not from within any call */
        if (i % 7 == 0) {
            conn_read_pause(&b.conn);
            run_for(1);
            ck_assert_uint_eq(b.frames, i);
            conn_read_resume(&b.conn);
        }
        RUN_UNTIL(b.frames == i + 1);
    }
    if (_i != SHARED) /* there they stay in the ring */
        ck_assert_uint_gt(conn_bytes(&b.conn), IDLE_BYTES);
    b.pause_at_frame = false;
    conn_close(&a.conn, conn_closed);
    conn_read_resume(&b.conn);
    RUN_UNTIL(b.ended); /* the end comes after them */
    ck_assert_uint_eq(b.frames, ARRAY_LEN(outs));
    ck_assert_uint_le(conn_bytes(&b.conn), IDLE_BYTES);
    outs_free(outs, ARRAY_LEN(outs));
}
END_TEST

START_TEST(who_keeps_frames_back_may_close_at_any_time)
{
    static struct conn_test_out outs[12];

    conn_join(_i % TRANSPORTS);
    b.pause_at_frame = true;
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, 100, false, true);
    conn_flush(&a.conn);
    RUN_UNTIL(b.frames == 1);
    if (_i >= TRANSPORTS)
        conn_read_resume(&b.conn);
    conn_close(&b.conn, conn_closed);
    RUN_UNTIL(b.closed);
    ck_assert_uint_eq(b.frames, 1);
    conn_close(&a.conn, conn_closed);
    RUN_UNTIL(a.closed);
    outs_free(outs, ARRAY_LEN(outs));
}
END_TEST

/* ---- Heads ---- */

static void
conn_join_with_heads(int transport)
{
    joined_events = &events_with_heads;
    conn_join(transport);
}

START_TEST(the_head_of_a_large_frame_is_shown_once)
{
    static struct conn_test_out outs[6];

    conn_join_with_heads(_i);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, 4 * MIB - 4 * i, false, false);
    RUN_UNTIL(b.frames == ARRAY_LEN(outs) && outs[5].done);
    ck_assert_uint_eq(b.heads, ARRAY_LEN(outs));
    ck_assert_uint_eq(b.metas, ARRAY_LEN(outs));
    outs_free(outs, ARRAY_LEN(outs));
}
END_TEST

START_TEST(a_pause_at_the_head_takes_no_memory_for_the_frame)
{
    static struct conn_test_out outs[5];

    conn_join_with_heads(_i);
    b.pause_at_head = true;
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, i % 2 == 0 ? 4 * MIB : 100, false, false);
    for (uint64_t i = 1; i <= 3; i++) { /* frames 0, 2, 4 are large; some small ones are shown as well */
        uint64_t before = b.heads;

        RUN_UNTIL(b.heads > before);
        run_for(20);
        ck_assert(b.conn.paused);
        ck_assert_uint_eq(b.heads, before + 1);
        ck_assert_uint_eq(b.frames, b.next_request);
        ck_assert_uint_le(conn_bytes(&b.conn), (_i == SHARED ? 0 : CONN_SCRATCH) + IDLE_BYTES);
        conn_read_resume(&b.conn);
    }
    while (b.frames < ARRAY_LEN(outs)) {
        conn_read_resume(&b.conn);
        uv_run(&loop, UV_RUN_ONCE);
    }
    ck_assert_uint_eq(pool.kept_bytes, 0);
    outs_free(outs, ARRAY_LEN(outs));
}
END_TEST

START_TEST(a_frame_may_be_refused_at_its_head)
{
    struct conn_test_out out;

    conn_join_with_heads(_i);
    b.refuse = true;
    out_send(&out, &a, 0, 4 * MIB, false, false);
    RUN_UNTIL(b.ended);
    ck_assert_int_eq(b.why.code, PS_ERR_DENIED);
    ck_assert_str_eq(b.why.text, "not this one");
    ck_assert(b.frames == 0 && b.metas == 0);
    conn_close(&a.conn, conn_closed);
    RUN_UNTIL(a.closed);
    outs_free(&out, 1);
}
END_TEST

START_TEST(who_sees_a_head_may_close)
{
    struct conn_test_out out;

    conn_join_with_heads(_i % TRANSPORTS);
    b.close_at_head = true;
    b.refuse = _i >= TRANSPORTS;
    out_send(&out, &a, 0, 4 * MIB, false, false);
    RUN_UNTIL(b.closed);
    ck_assert(b.frames == 0 && b.metas == 0 && !b.ended);
    conn_close(&a.conn, conn_closed);
    RUN_UNTIL(a.closed);
    outs_free(&out, 1);
}
END_TEST

/* ---- Ending ---- */

/* A peer that sends many small frames is read in small pieces, but not its larger frames in between. */
START_TEST(a_frame_is_read_on_however_small_the_pieces_are)
{
    static struct conn_test_out outs[8];
    unsigned before;

    conn_join(_i);
    conn_read_at_most(&b.conn, 2 * FRAME_HEAD_SIZE);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, 8000, false, false);
    before = reads;
    RUN_UNTIL(b.frames == ARRAY_LEN(outs));
    ck_assert_uint_lt(reads - before, 4 * ARRAY_LEN(outs));
    outs_free(outs, ARRAY_LEN(outs));
}
END_TEST

START_TEST(the_queue_ends_with_closed)
{
    static struct conn_test_out outs[20];

    conn_join(_i);
    conn_read_pause(&b.conn);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, 4 * MIB, i % 2 == 0, false);
    run_for(CONN_PIN_MS + 10);
    conn_close(&a.conn, conn_closed);
    ck_assert(!a.closed);
    RUN_UNTIL(a.closed);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        ck_assert_int_eq(outs[i].done, 1);
    ck_assert_int_eq(outs[19].result, PS_ERR_CLOSED);
    ck_assert_int_eq(outs[19].prepared, 0);
    ck_assert_int_eq(out_of_order, 0);
    ck_assert(!a.ended); /* the side that closes knows */
    outs_free(outs, 20);
}
END_TEST

START_TEST(any_callback_may_close_the_connection)
{
    enum callback at = (enum callback)(1 + _i % (AT_COUNT - 1));
    static struct conn_test_out outs[12];

    conn_join(_i / (AT_COUNT - 1));
    a.close_at = b.close_at = at;
    for (size_t i = 0; i < ARRAY_LEN(outs) && !a.conn.closing; i++)
        out_send(&outs[i], &a, i, i % 3 == 0 ? 2 * MIB : 100, true, i < 3);
    if (at == AT_ENDED)
        conn_close(&b.conn, conn_closed);
    RUN_UNTIL(at == AT_META || at == AT_FRAME ? b.closed : a.closed);
    if (at == AT_META || at == AT_FRAME)
        conn_close(&a.conn, conn_closed);
    RUN_UNTIL(a.closed);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        ck_assert_int_eq(outs[i].done, outs[i].from != NULL);
    if (at == AT_META)
        ck_assert(b.metas == 1 && b.frames == 0);
    if (at == AT_FRAME)
        ck_assert_uint_eq(b.frames, 1);
    outs_free(outs, 12);
}
END_TEST

/* More of them have room again than one epoll_wait() reports, and each second one closes its neighbour, which may be
 * among those that are still to be notified. */
START_TEST(blocked_connections_go_on_together_and_may_close_each_other)
{
    static struct conn_side crowd[150][2];
    static struct conn_test_out outs[ARRAY_LEN(crowd)];
    unsigned cut_off = 0;

    for (size_t i = 0; i < ARRAY_LEN(crowd); i++) {
        join_pair(&crowd[i][0], &crowd[i][1], _i);
        conn_read_pause(&crowd[i][1].conn);
        setsockopt(crowd[i][0].conn.fd, SOL_SOCKET, SO_SNDBUF, &(int){64 * KIB}, sizeof(int)); /* it takes no MiB */
        out_init(&outs[i], &crowd[(i + 1) % ARRAY_LEN(crowd)][0], 0, MIB, false);
        crowd[i][0].close_at = i % 2 == 1 ? AT_DONE : AT_NONE;
        conn_send(&crowd[i][0].conn, &outs[i].out, false);
        ck_assert(crowd[i][0].conn.blocked);
    }
    run_for(1);
    ck_assert_uint_eq(pool.blocked_len, ARRAY_LEN(crowd));
    for (size_t i = 0; i < ARRAY_LEN(crowd); i++)
        conn_read_resume(&crowd[i][1].conn);
    for (size_t i = 0; i < ARRAY_LEN(crowd); i++) {
        RUN_UNTIL(outs[i].done && (outs[i].result != PS_OK || crowd[i][1].frames == 1));
        ck_assert(outs[i].result == PS_OK || (i % 2 == 1 && outs[i].result == PS_ERR_CLOSED));
        cut_off += outs[i].result != PS_OK;
    }
    ck_assert_uint_gt(cut_off, 0);
    ck_assert_uint_eq(pool.blocked_len, 0);
    for (size_t i = 0; i < ARRAY_LEN(crowd); i++)
        for (int side = 0; side < 2; side++)
            conn_close(&crowd[i][side].conn, conn_closed);
    RUN_UNTIL(crowd[ARRAY_LEN(crowd) - 1][1].closed);
    outs_free(outs, ARRAY_LEN(crowd));
}
END_TEST

START_TEST(a_peer_that_goes_away_is_told_once)
{
    static struct conn_test_out outs[6];

    conn_join(_i);
    conn_read_pause(&b.conn);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, 4 * MIB, false, false);
    run_for(5);
    conn_close(&b.conn, conn_closed);
    RUN_UNTIL(a.ended);
    ck_assert_int_eq(a.why.code, PS_ERR_CLOSED);
    ck_assert_str_eq(a.why.peer, a.conn.peer);
    run_for(CONN_PIN_MS);
    ck_assert_int_eq(outs[5].done, 0); /* they end with the close, not before */
    conn_close(&a.conn, conn_closed);
    RUN_UNTIL(a.closed);
    ck_assert_int_eq(outs[5].result, PS_ERR_CLOSED);
    outs_free(outs, 6);
}
END_TEST

/* This side does not read, so only the failing write can show it. */
START_TEST(a_failed_write_is_told_to_a_paused_side)
{
    static struct conn_test_out outs[6];

    conn_join(_i);
    conn_read_pause(&a.conn);
    conn_read_pause(&b.conn);
    conn_close(&b.conn, conn_closed);
    RUN_UNTIL(b.closed);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, 4 * MIB, false, false);
    RUN_UNTIL(a.ended);
    ck_assert_int_eq(a.why.code, PS_ERR_CLOSED);
    conn_close(&a.conn, conn_closed);
    RUN_UNTIL(a.closed);
    ck_assert_int_eq(outs[5].result, PS_ERR_CLOSED);
    outs_free(outs, 6);
}
END_TEST

START_TEST(an_end_within_a_frame_is_named)
{
    uint8_t half[FRAME_HEAD_SIZE];
    struct frame_head head = {FRAME_VERSION, MSG_PUSH, 4, 0, 0};
    int fd[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    join_fd(&a, true, fd[0], NULL);
    frame_head_encode(&head, half);
    ck_assert_int_eq(write(fd[1], half, sizeof half), sizeof half);
    close(fd[1]);
    RUN_UNTIL(a.ended);
    ck_assert_int_eq(a.why.code, PS_ERR_CLOSED);
    ck_assert_ptr_nonnull(strstr(a.why.text, "in the middle of a frame"));
}
END_TEST

START_TEST(an_end_between_frames_is_named)
{
    conn_join(_i);
    conn_close(&b.conn, conn_closed);
    RUN_UNTIL(a.ended);
    ck_assert_str_eq(a.why.text, "the peer closed the connection");
}
END_TEST

/* Read what is there until the end of the stream; returns bytes. */
static size_t
read_all(int fd, uint8_t *out, size_t room)
{
    size_t len = 0;
    ssize_t n;

    while ((n = read(fd, out + len, room - len)) > 0)
        len += (size_t)n;
    ck_assert_int_eq(n, 0); /* an orderly end, no reset */
    return len;
}

/* A stranger sends many bytes that are no frame; it still gets the error, though most of its bytes were never looked
 * at. */
START_TEST(a_stranger_is_told_before_the_end)
{
    static uint8_t answer[4096], request[8192] = "GET / HTTP/1.1\r\nHost: psd\r\n\r\n";
    struct conn_test_out out;
    int fd[2];

    tcp_pair(fd);
    join_fd(&a, false, fd[0], NULL);
    ck_assert_int_eq(write(fd[1], request, sizeof request), sizeof request);
    RUN_UNTIL(a.ended);
    ck_assert_int_eq(a.why.code, PS_ERR_PROTOCOL);
    ck_assert_ptr_nonnull(strstr(a.why.text, "HTTP"));
    out_send(&out, &a, 0, 100, false, false);
    conn_finish(&a.conn, conn_closed);
    ck_assert_int_eq(write(fd[1], request, sizeof request), sizeof request);
    run_for(10);
    ck_assert(out.done && !a.closed);
    ck_assert_uint_eq(read_all(fd[1], answer, sizeof answer), FRAME_HEAD_SIZE + 8 + 104);
    close(fd[1]);
    RUN_UNTIL(a.closed);
    outs_free(&out, 1);
}
END_TEST

START_TEST(finish_sends_all_and_then_closes)
{
    static struct conn_test_out outs[6];

    conn_join(_i);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, MIB, i % 2 == 0, false);
    conn_finish(&a.conn, conn_closed);
    conn_finish(&a.conn, NULL); /* the first one's conn_closed() counts */
    b.close_at = AT_ENDED;
    RUN_UNTIL(a.closed && b.closed);
    ck_assert_uint_eq(b.frames, 6);
    ck_assert_int_eq(b.why.code, PS_ERR_CLOSED);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        ck_assert_int_eq(outs[i].result, PS_OK);
    ck_assert(!a.ended);
    outs_free(outs, 6);
}
END_TEST

START_TEST(finish_does_not_wait_for_ever)
{
    static struct conn_test_out outs[6];
    uint64_t start = uv_hrtime();

    conn_join(_i);
    conn_read_pause(&b.conn);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, 4 * MIB, true, false);
    conn_finish(&a.conn, conn_closed);
    RUN_UNTIL(a.closed);
    ck_assert_uint_ge((uv_hrtime() - start) / 1000000, CONN_LINGER_MS - 50);
    ck_assert_int_eq(outs[5].result, PS_ERR_CLOSED);
    outs_free(outs, 6);
}
END_TEST

/* The peer is stopped, and sends something when it is back: it still gets the frames that were sent to it. */
START_TEST(who_leaves_waits_for_no_peer)
{
    static struct conn_test_out outs[4], late;

    conn_join(_i);
    conn_read_pause(&b.conn);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, 4 * KIB, i % 2 == 0, false);
    conn_leave(&a.conn, PATIENCE_MS, conn_closed);
    RUN_UNTIL(a.closed);
    ck_assert_uint_eq(b.frames, 0);
    out_send(&late, &b, 0, 4 * KIB, false, false);
    conn_read_resume(&b.conn);
    RUN_UNTIL(b.ended);
    ck_assert_uint_eq(b.frames, ARRAY_LEN(outs));
    ck_assert_int_eq(b.why.code, PS_ERR_CLOSED);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        ck_assert_int_eq(outs[i].result, PS_OK);
    conn_close(&b.conn, conn_closed);
    RUN_UNTIL(b.closed);
    outs_free(outs, ARRAY_LEN(outs));
    outs_free(&late, 1);
}
END_TEST

START_TEST(who_leaves_has_only_so_much_patience)
{
    static struct conn_test_out outs[6];
    uint64_t start = uv_hrtime();

    conn_join(_i);
    conn_read_pause(&b.conn);
    for (size_t i = 0; i < ARRAY_LEN(outs); i++)
        out_send(&outs[i], &a, i, 4 * MIB, true, false);
    conn_leave(&a.conn, 20, conn_closed);
    RUN_UNTIL(a.closed);
    ck_assert_uint_ge((uv_hrtime() - start) / 1000000, 15);
    ck_assert_int_eq(outs[5].result, PS_ERR_CLOSED);
    outs_free(outs, 6);
}
END_TEST

START_TEST(close_may_follow_finish_and_close)
{
    conn_join(_i);
    conn_finish(&a.conn, conn_closed);
    conn_close(&a.conn, NULL);
    conn_close(&a.conn, NULL);
    RUN_UNTIL(a.closed);
    conn_close(&b.conn, NULL);
    run_for(5);
    ck_assert(!b.closed);
    b.conn.arg = NULL; /* it is gone */
}
END_TEST

/* ---- Cost, names, options ---- */

#define IDLE 200

START_TEST(idle_connections_hold_nothing)
{
    static struct conn_side sides[2 * IDLE];
    static struct conn_test_out outs[IDLE];

    ck_assert_uint_le(sizeof(struct conn), 2048);
    for (size_t i = 0; i < IDLE; i++)
        join_pair(&sides[2 * i], &sides[2 * i + 1], 1);
    for (size_t i = 0; i < IDLE; i++)
        out_send(&outs[i], &sides[2 * i], 0, MIB, true, false);
    for (size_t i = 0; i < IDLE; i++)
        RUN_UNTIL(sides[2 * i + 1].frames == 1);
    for (size_t i = 0; i < 2 * IDLE; i++)
        ck_assert_uint_le(conn_bytes(&sides[i].conn), IDLE_BYTES);
    ck_assert_uint_le(pool.buffers.kept, BUFFER_KEEP_MAX);
    for (size_t i = 0; i < 2 * IDLE; i++)
        conn_close(&sides[i].conn, conn_closed);
    run_for(1);
    outs_free(outs, IDLE);
}
END_TEST

START_TEST(peers_have_names)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    char expected[64];
    uv_os_fd_t fd;

    conn_join(_i);
    ck_assert_int_eq(uv_fileno(&b.conn.u.handle, &fd), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    if (_i == 0)
        snprintf(expected, sizeof expected, "127.0.0.1:%u", ntohs(address.sin_port));
    else
        snprintf(expected, sizeof expected, "unix:pid %d", (int)getpid());
    ck_assert_str_eq(a.conn.peer, expected);
}
END_TEST

START_TEST(tcp_options_are_set)
{
    static const char *const names[] = {"reno", "no such name", NULL};
    char system_own[16] = "", now[16];
    socklen_t len = sizeof system_own;
    int on = 0, fd[2];

    tcp_pair(fd);
    ck_assert_int_eq(getsockopt(fd[1], IPPROTO_TCP, TCP_CONGESTION, system_own, &len), 0);
    join_fd(&a, false, fd[0], names[_i]);
    len = sizeof on;
    ck_assert_int_eq(getsockopt(fd[0], IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    ck_assert_int_ne(on, 0);
    len = sizeof now;
    ck_assert_int_eq(getsockopt(fd[0], IPPROTO_TCP, TCP_CONGESTION, now, &len), 0);
    ck_assert_str_eq(now, _i == 0 ? "reno" : system_own);
    close(fd[1]);
}
END_TEST

START_TEST(libuv_errors_have_our_codes)
{
    ck_assert_int_eq(conn_uv_error(0), PS_OK);
    ck_assert_int_eq(conn_uv_error(UV_EOF), PS_ERR_CLOSED);
    ck_assert_int_eq(conn_uv_error(UV_ECONNREFUSED), PS_ERR_UNREACHABLE);
    ck_assert_int_eq(conn_uv_error(UV_EAI_NONAME), PS_ERR_UNREACHABLE);
    ck_assert_int_eq(conn_uv_error(UV_ETIMEDOUT), PS_ERR_TIMEOUT);
    ck_assert_int_eq(conn_uv_error(UV_ENOMEM), PS_ERR_NOMEM);
    ck_assert_int_eq(conn_uv_error(UV_EADDRINUSE), PS_ERR_BUSY);
    ck_assert_int_eq(conn_uv_error(UV_EIO), PS_ERR_IO);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("conn");
    TCase *sending = tcase_create("sending"), *ending = tcase_create("ending"), *cost = tcase_create("cost");

    tcase_add_loop_test(sending, frames_of_all_sizes_arrive_in_order_both_ways, 0, TRANSPORTS);
    tcase_add_loop_test(sending, small_frames_go_out_together_at_the_flush, 0, TRANSPORTS);
    tcase_add_loop_test(sending, payloads_are_read_where_the_owner_wants_them, 0, TRANSPORTS);
    tcase_add_loop_test(sending, a_pinned_frame_is_released_in_time_when_the_peer_is_slow, 0, TRANSPORTS);
    tcase_add_loop_test(sending, a_borrowed_frame_is_not_copied, 0, TRANSPORTS);
    tcase_add_loop_test(sending, a_frame_that_cannot_be_prepared_is_left_out, 0, TRANSPORTS);
    tcase_add_loop_test(sending, a_frame_that_may_not_be_prepared_yet_waits, 0, TRANSPORTS);
    tcase_add_loop_test(sending, the_head_of_a_large_frame_is_shown_once, 0, TRANSPORTS);
    tcase_add_loop_test(sending, a_pause_at_the_head_takes_no_memory_for_the_frame, 0, TRANSPORTS);
    tcase_add_loop_test(sending, a_frame_may_be_refused_at_its_head, 0, TRANSPORTS);
    tcase_add_loop_test(sending, who_sees_a_head_may_close, 0, 2 * TRANSPORTS);
    tcase_add_loop_test(sending, a_paused_side_reads_nothing, 0, TRANSPORTS);
    tcase_add_loop_test(sending, a_pause_keeps_back_the_frames_that_were_read_behind, 0, TRANSPORTS);
    tcase_add_loop_test(sending, who_keeps_frames_back_may_close_at_any_time, 0, 2 * TRANSPORTS);
    tcase_add_loop_test(sending, a_frame_is_read_on_however_small_the_pieces_are, 0, TRANSPORTS);
    tcase_add_test(sending, a_loop_that_has_yet_to_watch_something_says_that_it_sleeps);
    tcase_add_loop_test(ending, the_queue_ends_with_closed, 0, TRANSPORTS);
    tcase_add_loop_test(ending, any_callback_may_close_the_connection, 0, TRANSPORTS * (AT_COUNT - 1));
    tcase_add_loop_test(ending, blocked_connections_go_on_together_and_may_close_each_other, 0, SHARED);
    tcase_add_loop_test(ending, a_peer_that_goes_away_is_told_once, 0, TRANSPORTS);
    tcase_add_loop_test(ending, a_failed_write_is_told_to_a_paused_side, 0, TRANSPORTS);
    tcase_add_test(ending, an_end_within_a_frame_is_named);
    tcase_add_loop_test(ending, an_end_between_frames_is_named, 0, TRANSPORTS);
    tcase_add_test(ending, a_stranger_is_told_before_the_end);
    tcase_add_loop_test(ending, finish_sends_all_and_then_closes, 0, TRANSPORTS);
    tcase_add_loop_test(ending, finish_does_not_wait_for_ever, 0, TRANSPORTS);
    tcase_add_loop_test(ending, who_leaves_waits_for_no_peer, 0, TRANSPORTS);
    tcase_add_loop_test(ending, who_leaves_has_only_so_much_patience, 0, TRANSPORTS);
    tcase_add_loop_test(ending, close_may_follow_finish_and_close, 0, TRANSPORTS);
    tcase_add_test(cost, idle_connections_hold_nothing);
    tcase_add_loop_test(cost, peers_have_names, 0, TRANSPORTS);
    tcase_add_loop_test(cost, tcp_options_are_set, 0, 3);
    tcase_add_test(cost, libuv_errors_have_our_codes);
    for (TCase *const *t = (TCase *[]){sending, ending, cost, NULL}; *t != NULL; t++) {
        tcase_add_checked_fixture(*t, conn_setup, conn_teardown);
        tcase_set_timeout(*t, 30);
        suite_add_tcase(s, *t);
    }
    return s;
}

CHECK_MAIN(make_suite)
