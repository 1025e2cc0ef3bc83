/* Failures in groups: every rank learns of them in time, with the same reason and the guilty rank. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "client/core/group/group_wire.h"
#include "client/group/group_state.h"
#include "common/core/cluster/address.h"
#include "tests/now.h"
#include "tests/system/ranks.h"
#include "tests/unit/kits/check_main.h"

#define COUNT   50000
#define LARGE   4000000 /* floats: more than buffers hold */
#define AWAY_MS 3000
#define SLOW    7 /* a status */
#define TRIES   3
#define NOBODY  UINT32_MAX

/* ---- Bodies ---- */

/* What a rank expects: this code, of this rank. */
struct expected {
    enum ps_err code, or_code; /* or_code: what it may be as well; PS_OK: nothing else */
    uint32_t guilty;
    uint32_t odd; /* the rank that starts another operation */
    int kind;
};

static bool
failure_names(const struct ps_error *error, uint32_t rank)
{
    char name[32];

    if (rank == NOBODY)
        return error->peer[0] == '\0';
    snprintf(name, sizeof name, "rank %u at ", rank);
    return strncmp(error->peer, name, strlen(name)) == 0;
}

static void
need_failed(ps_group *g, const struct ps_error *error, const struct expected *x)
{
    static float in[4], out[4];
    struct ps_error again = {0};

    if ((error->code != x->code && (error->code != x->or_code || x->or_code == PS_OK)) ||
        !failure_names(error, x->guilty)) {
        fprintf(stderr, "rank %u: %s: %s (%s)\n", ps_group_rank(g), ps_err_name(error->code), error->text, error->peer);
        _exit(1);
    }
    /* and everything later is refused with the same */
    need(ps_group_state(g, &again) == error->code && failure_names(&again, x->guilty));
    need(ps_group_all_reduce(g, in, out, 4, PS_F32, PS_SUM, NULL, &again) == error->code &&
         failure_names(&again, x->guilty));
    need(ps_group_barrier(g, NULL, &again) == error->code && strcmp(again.text, error->text) == 0);
}

/* All are formed, and none is in an operation: failures from here on are the intended ones. The test releases them,
 * with start_together(). */
static void
failure_together(void)
{
    ranks_tell('s');
    need(ranks_listen() == 's');
}

static void
start_together(struct ranks *r, uint32_t n, const struct ps_group_options *options, rank_body body, void *arg)
{
    ranks_start(r, n, 0, options, body, arg);
    for (uint32_t k = 0; k < n; k++)
        ck_assert_int_eq(ranks_hear(r, k), 's');
    for (uint32_t k = 0; k < n; k++)
        ranks_say(r, k, 's');
}

/* All-reduces, several in flight, until one fails. The first few are reported to the test. */
static void
until_it_fails(ps_group *g, void *arg)
{
    struct sigaction pipe_broken;
    struct ps_error error = {0};
    float *x[3];
    ps_work *work[3];
    enum ps_err err = PS_OK;

    for (int k = 0; k < 3; k++)
        need((x[k] = calloc(COUNT, sizeof **x)) != NULL);
    for (int i = 0; err == PS_OK; i++) {
        int started = 0;

        for (; started < 3; started++)
            if ((err = ps_group_all_reduce(g, x[started], x[started], COUNT, PS_F32, PS_MEAN, &work[started],
                                           &error)) != PS_OK)
                break;
        for (int k = 0; k < started; k++) {
            struct ps_error e = {0};
            enum ps_err one = ps_work_wait(work[k], -1, &e);

            if (one != PS_OK) {
                err = one;
                error = e;
            }
            ps_work_free(work[k]);
        }
        if (i == 5)
            ranks_tell('r');
    }
    need_failed(g, &error, arg);
    need(sigaction(SIGPIPE, NULL, &pipe_broken) == 0 && pipe_broken.sa_handler == SIG_DFL);
    for (int k = 0; k < 3; k++)
        free(x[k]);
}

enum failure_kind { OTHER_COUNT, OTHER_OPERATION, OTHER_TYPE, OTHER_REDUCTION, OTHER_ROOT, KINDS };

static enum ps_err
start_kind(ps_group *g, int kind, bool odd, int32_t *x, ps_work **work, struct ps_error *error)
{
    switch (kind) {
    case OTHER_COUNT:
        return ps_group_all_reduce(g, x, x, odd ? 1001 : 1000, PS_I32, PS_SUM, work, error);
    case OTHER_OPERATION:
        return odd ? ps_group_all_gather(g, x, x + 2000, 20, PS_I32, work, error)
                   : ps_group_all_reduce(g, x, x, 20, PS_I32, PS_SUM, work, error);
    case OTHER_TYPE:
        return ps_group_all_reduce(g, x, x, 50000, odd ? PS_F32 : PS_I32, PS_SUM, work, error);
    case OTHER_REDUCTION:
        return ps_group_reduce_scatter(g, x, x + 50000, 50000, PS_I32, odd ? PS_MAX : PS_SUM, work, error);
    default:
        return ps_group_broadcast(g, x, 1000, PS_I32, odd ? 1 : 0, work, error);
    }
}

/* One rank starts something else than the others; then a second one is started by all, which cannot end either. */
static void
one_is_odd(ps_group *g, void *arg)
{
    const struct expected *x = arg;
    int32_t *room = calloc(100001, sizeof *room), *more = calloc(1000, sizeof *more);
    ps_work *work[2] = {NULL, NULL};
    struct ps_error error = {0};
    enum ps_err err;

    need(room != NULL && more != NULL);
    need_ok(ps_group_all_reduce(g, room, room, 100, PS_I32, PS_SUM, NULL, &error));
    failure_together();
    err = start_kind(g, x->kind, ps_group_rank(g) == x->odd, room, &work[0], &error);
    if (err == PS_OK)
        err = ps_group_all_reduce(g, more, more, 1000, PS_I32, PS_SUM, &work[1], &error);
    if (err == PS_OK)
        err = ps_work_wait(work[0], -1, &error);
    need_failed(g, &error, x);
    ps_work_free(work[0]);
    ps_work_free(work[1]);
    free(room);
    free(more);
}

static void
pair_disagrees(ps_group *g, void *arg)
{
    const struct expected *x = arg;
    uint32_t rank = ps_group_rank(g);
    int32_t room[20] = {0};
    struct ps_error error = {0};
    enum ps_err err;

    failure_together();
    if (rank == 0)
        err = ps_group_send(g, room, 10, PS_I32, 1, NULL, &error);
    else if (rank == 1)
        err = ps_group_receive(g, room, 11, PS_I32, 0, NULL, &error);
    else
        err = ps_group_barrier(g, NULL, &error);
    need(err == x->code);
    need_failed(g, &error, x);
}

/* One leaves, the others go on. */
static void
one_leaves(ps_group *g, void *arg)
{
    const struct expected *x = arg;
    float room[100] = {0};
    struct ps_error error = {0};

    need_ok(ps_group_all_reduce(g, room, room, 100, PS_F32, PS_SUM, NULL, &error));
    failure_together();
    if (ps_group_rank(g) == x->guilty)
        return;
    while (ps_group_all_reduce(g, room, room, 100, PS_F32, PS_SUM, NULL, &error) == PS_OK)
        continue;
    need_failed(g, &error, x);
}

/* One rank writes bytes that are no frame to its links. */
static void
one_babbles(ps_group *g, void *arg)
{
    static const char babble[] = "GET / HTTP/1.1\r\nHost: nowhere\r\n\r\n";
    const struct expected *x = arg;
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    int sent = 0;

    failure_together();
    if (ps_group_rank(g) == x->guilty) {
        for (int fd = 3; fd < 256; fd++, len = sizeof at) /* its sockets to the others */
            if (getpeername(fd, (struct sockaddr *)&at, &len) == 0 && at.sin_family == AF_INET)
                sent += send(fd, babble, sizeof babble - 1, MSG_NOSIGNAL) > 0;
        need(sent == (int)ps_group_ranks(g) - 1);
    }
    until_it_fails(g, arg);
}

static void
some_work(ps_group *g, void *arg)
{
    float room[1000] = {0};
    struct ps_error error = {0};

    (void)arg;
    ranks_tell('r');
    for (int i = 0; i < 200; i++)
        need_ok(ps_group_all_reduce(g, room, room, 1000, PS_F32, PS_SUM, NULL, &error));
    need(ranks_listen() == 'g');
    for (int i = 0; i < 200; i++)
        need_ok(ps_group_all_reduce(g, room, room, 1000, PS_F32, PS_SUM, NULL, &error));
}

/* A work without a waiter while this rank computes longer than its time-out; its data has arrived by then. */
static void
away_longer_than_the_time_out(ps_group *g, void *arg)
{
    float room[1000] = {0};
    struct ps_error error = {0};
    ps_work *work;

    (void)arg;
    need_ok(ps_group_barrier(g, NULL, &error));
    if (ps_group_rank(g) == 1) {
        need_ok(ps_group_broadcast(g, room, 1000, PS_F32, 1, NULL, &error));
        ranks_tell('b');
        return;
    }
    need_ok(ps_group_broadcast(g, room, 1000, PS_F32, 1, &work, &error));
    need(ranks_listen() == 'b');
    usleep(AWAY_MS * 1000 + 300 * 1000);
    need_ok(ps_work_wait(work, -1, &error));
    ps_work_free(work);
}

/* The process's status gives the time from the test's order to close until it has closed. */
static void
close_quickly(ps_group *g, void *arg)
{
    float *x = calloc(COUNT, sizeof *x);
    struct ps_error error = {0};
    uint64_t from, took;

    (void)arg;
    need(x != NULL);
    for (int i = 0; i < 3; i++)
        need_ok(ps_group_all_reduce(g, x, x, COUNT, PS_F32, PS_MEAN, NULL, &error));
    failure_together();
    from = now_ms();
    ps_group_close(g);
    took = now_ms() - from;
    free(x);
    _exit(took < RANK_LINK_LINGER_MS / 2 ? 0 : SLOW);
}

/* The same, when the group has failed because the last rank has stopped, with all that it could take in its buffers. */
static void
fail_and_close_quickly(ps_group *g, void *arg)
{
    float *x = calloc(LARGE, sizeof *x);
    struct ps_error error = {0};
    uint64_t from, took;
    enum ps_err err;

    (void)arg;
    need(x != NULL);
    need_ok(ps_group_all_reduce(g, x, x, LARGE, PS_F32, PS_MEAN, NULL, &error));
    failure_together();
    err = ps_group_all_reduce(g, x, x, LARGE, PS_F32, PS_MEAN, NULL, &error);
    need(err == PS_ERR_TIMEOUT && failure_names(&error, ps_group_ranks(g) - 1));
    from = now_ms();
    ps_group_close(g);
    took = now_ms() - from;
    free(x);
    _exit(took < RANK_LINK_LINGER_MS / 2 ? 0 : SLOW);
}

/* ---- Tests ---- */

START_TEST(who_is_killed_is_named_by_all)
{
    struct expected x = {.code = PS_ERR_CLOSED, .guilty = 2};
    struct ps_group_options options = {.progress_thread = _i % 2,
                                       .spin_us = _i % 3 == 2 ? 200 : 0,
                                       .transport = _i < 3 ? PS_TRANSPORT_AUTO : PS_TRANSPORT_TCP};
    struct ranks r;
    int status;

    signal(SIGPIPE, SIG_DFL); /* with which a rank would die of a write to one that is gone */
    ranks_start(&r, 4, 0, &options, until_it_fails, &x);
    for (uint32_t k = 0; k < 4; k++)
        ck_assert_int_eq(ranks_hear(&r, k), 'r');
    kill(r.pid[2], SIGKILL);
    status = ranks_wait(&r, 2);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ranks_end(&r);
}
END_TEST

START_TEST(who_stops_is_named_by_all_and_learns_it)
{
    struct expected x = {.code = PS_ERR_TIMEOUT, .guilty = 1};
    struct ps_group_options options = {.timeout_ms = 8000};
    struct ranks r;

    signal(SIGPIPE, SIG_DFL); /* with which a rank would die of a write to one that is gone */
    ranks_start(&r, 4, 0, &options, until_it_fails, &x);
    for (uint32_t k = 0; k < 4; k++)
        ck_assert_int_eq(ranks_hear(&r, k), 'r');
    kill(r.pid[1], SIGSTOP);
    for (uint32_t k = 0; k < 4; k++)
        if (k != 1) {
            int status = ranks_wait(&r, k);

            ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank %u: status %#x", k, status);
        }
    kill(r.pid[1], SIGCONT);
    ranks_end(&r);
}
END_TEST

START_TEST(who_starts_something_else_is_named_by_all)
{
    for (uint32_t odd = 0; odd < 4; odd++) {
        struct expected x = {.code = PS_ERR_MISMATCH, .guilty = odd, .odd = odd, .kind = _i};
        struct ranks r;

        start_together(&r, 4, NULL, one_is_odd, &x);
        ranks_end(&r);
    }
}
END_TEST

START_TEST(of_two_none_is_accused)
{
    struct expected x = {.code = PS_ERR_MISMATCH, .guilty = NOBODY, .odd = (uint32_t)_i, .kind = OTHER_COUNT};
    struct ranks r;

    start_together(&r, 2, NULL, one_is_odd, &x);
    ranks_end(&r);
}
END_TEST

START_TEST(a_pair_that_disagrees_fails_the_group)
{
    struct expected x = {.code = PS_ERR_MISMATCH, .guilty = NOBODY};
    struct ranks r;

    start_together(&r, 3, NULL, pair_disagrees, &x);
    ranks_end(&r);
}
END_TEST

START_TEST(who_leaves_is_named_by_who_waits_for_it)
{
    struct expected x = {.code = PS_ERR_CLOSED, .guilty = (uint32_t)_i};
    struct ranks r;

    start_together(&r, 3, NULL, one_leaves, &x);
    ranks_end(&r);
}
END_TEST

START_TEST(who_babbles_is_named_by_all)
{
    struct expected x = {.code = PS_ERR_PROTOCOL, .guilty = 1};
    struct ranks r;

    start_together(&r, 3, NULL, one_babbles, &x);
    for (uint32_t k = 0; k < 3; k++) /* they may fail before they report */
        ck_assert_int_eq(ranks_wait(&r, k), 0);
}
END_TEST

static int
failure_dial(const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    struct address a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(address_parse(address, &a, NULL), PS_OK);
    at.sin_port = htons(a.port);
    ck_assert_int_eq(inet_pton(AF_INET, a.host, &at.sin_addr), 1);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* The code of the GROUP_ABORT that answers a hello. */
static enum ps_err
failure_greeted(const char *address, const struct group_hello *h)
{
    uint8_t out[FRAME_HEAD_SIZE + GROUP_HELLO_MAX + 8], in[FRAME_HEAD_SIZE + GROUP_ABORT_MAX + 8];
    size_t len = group_hello_encode(MSG_GROUP_HELLO, h, out), got = 0;
    char text[GROUP_ABORT_TEXT_MAX + 1];
    struct frame_head head;
    enum ps_err code;
    uint32_t rank;
    struct ps_error e;
    int fd = failure_dial(address);
    ssize_t n;

    ck_assert_int_eq(send(fd, out, len, MSG_NOSIGNAL), (ssize_t)len);
    while (got < sizeof in && (n = read(fd, in + got, sizeof in - got)) > 0)
        got += (size_t)n;
    close(fd);
    ck_assert_uint_ge(got, FRAME_HEAD_SIZE);
    ck_assert_int_eq(frame_head_decode(in, &head, &e), PS_OK);
    ck_assert_int_eq(head.type, MSG_GROUP_ABORT);
    ck_assert_int_eq(group_abort_decode(&head, in + FRAME_HEAD_SIZE, &code, &rank, text, &e), PS_OK);
    return code;
}

START_TEST(strangers_at_the_door_do_no_harm)
{
    struct group_hello h = {.group = 4711,
                            .epoch = 1,
                            .incarnation = 1001,
                            .rank = 1,
                            .ranks = 3,
                            .to = 0,
                            .cluster = "test",
                            .name = "group"};
    struct group_hello other = h;
    struct ps_group_options options = {.progress_thread = 1}; /* a connection is pending at the acceptor all the time */
    struct ranks r;
    int silent;

    ranks_start(&r, 3, 0, &options, some_work, NULL);
    for (uint32_t k = 0; k < 3; k++)
        ck_assert_int_eq(ranks_hear(&r, k), 'r');
    silent = failure_dial(r.address[0]);
    for (uint32_t k = 0; k < 3; k++) {
        int fd = failure_dial(r.address[k]);

        ck_assert_int_eq(send(fd, "\x16\x03\x01 no frame of ours at all, and never will be", 40, MSG_NOSIGNAL), 40);
        close(fd);
    }
    ck_assert_int_eq(failure_greeted(r.address[0], &h), PS_ERR_TASK_TAKEN);
    snprintf(other.cluster, sizeof other.cluster, "another");
    ck_assert_int_eq(failure_greeted(r.address[0], &other), PS_ERR_CLUSTER);
    other = h;
    other.group++;
    ck_assert_int_eq(failure_greeted(r.address[0], &other), PS_ERR_CLUSTER);
    other = h;
    other.incarnation++;
    ck_assert_int_eq(failure_greeted(r.address[0], &other), PS_ERR_CLUSTER);
    for (uint32_t k = 0; k < 3; k++)
        ranks_say(&r, k, 'g');
    ranks_end(&r);
    close(silent);
}
END_TEST

START_TEST(who_was_away_past_its_time_out_still_gets_what_has_come)
{
    struct ps_group_options options = {.timeout_ms = AWAY_MS};
    struct ranks r;

    ranks_start(&r, 2, 0, &options, away_longer_than_the_time_out, NULL);
    ck_assert_int_eq(ranks_hear(&r, 1), 'b');
    ranks_say(&r, 0, 'b');
    ranks_end(&r);
}
END_TEST

/* The last rank stops; true: the others have closed their group at once. */
static bool
close_beside_a_stopped_one(const struct ps_group_options *options, rank_body body)
{
    struct ranks r;
    bool quick = true;

    ranks_start(&r, 3, 0, options, body, NULL);
    for (uint32_t k = 0; k < 3; k++)
        ck_assert_int_eq(ranks_hear(&r, k), 's');
    kill(r.pid[2], SIGSTOP);
    for (uint32_t k = 0; k < 2; k++)
        ranks_say(&r, k, 's');
    for (uint32_t k = 0; k < 2; k++) {
        int status = ranks_wait(&r, k);

        ck_assert_msg(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == SLOW), "rank %u: %#x", k,
                      status);
        quick = quick && WEXITSTATUS(status) == 0;
    }
    kill(r.pid[2], SIGKILL);
    (void)ranks_wait(&r, 2);
    return quick;
}

/* _i: over TCP. The machine may be busy; one time of some must be quick. */
START_TEST(who_has_stopped_holds_up_no_close)
{
    struct ps_group_options options = {.transport = _i == 1 ? PS_TRANSPORT_TCP : PS_TRANSPORT_AUTO};
    int tries = 1;

    while (!close_beside_a_stopped_one(&options, close_quickly))
        ck_assert_int_lt(tries++, TRIES);
}
END_TEST

START_TEST(who_has_stopped_and_failed_the_group_holds_up_no_close)
{
    struct ps_group_options options = {.transport = _i == 1 ? PS_TRANSPORT_TCP : PS_TRANSPORT_AUTO, .timeout_ms = 1000};
    int tries = 1;

    while (!close_beside_a_stopped_one(&options, fail_and_close_quickly))
        ck_assert_int_lt(tries++, TRIES);
}
END_TEST

/* A table in which the other rank is not there. */
static void
form_alone(uint32_t rank, const char *other, uint64_t timeout_ms, enum ps_err code)
{
    struct ps_error error = {0};
    struct group_membership t;
    ps_group *g;

    ck_assert_int_eq(group_new("test", NULL, &g, &error), PS_OK);
    ck_assert_int_eq(group_listen(g, "127.0.0.1:0", &error), PS_OK);
    ck_assert_int_eq(group_membership_init(&t, 2, &error), PS_OK);
    t.id = 1;
    t.epoch = 1;
    t.rank = rank;
    for (uint32_t r = 0; r < 2; r++) {
        t.members[r].task = r;
        t.members[r].incarnation = 1 + r;
        snprintf(t.members[r].address, sizeof t.members[r].address, "%s", r == rank ? g->acceptor.address : other);
    }
    ck_assert_int_eq(group_form(g, &t, uv_now(&g->loop) + timeout_ms, &error), code);
    ck_assert_msg(failure_names(&error, 1 - rank), "%s", error.peer);
    ck_assert_int_eq(ps_group_state(g, &error), code);
    ck_assert_int_eq(ps_group_barrier(g, NULL, &error), code);
    ps_group_close(g);
}

START_TEST(who_does_not_come_is_named)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    char address[64];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, len), 0); /* bound, but not listening */
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    form_alone(0, address, 200, PS_ERR_TIMEOUT);
    form_alone(1, address, 60000, PS_ERR_UNREACHABLE);
    ck_assert_int_eq(listen(fd, 1), 0); /* a listener that sends nothing */
    form_alone(1, address, 300, PS_ERR_TIMEOUT);
    close(fd);
}
END_TEST

static Suite *
failure_make(void)
{
    Suite *s = suite_create("group_failure");
    TCase *t = tcase_create("failure");

    tcase_set_timeout(t, 280);
    tcase_add_loop_test(t, who_is_killed_is_named_by_all, 0, 6);
    tcase_add_test(t, who_stops_is_named_by_all_and_learns_it);
    tcase_add_loop_test(t, who_starts_something_else_is_named_by_all, 0, KINDS);
    tcase_add_loop_test(t, of_two_none_is_accused, 0, 2);
    tcase_add_test(t, a_pair_that_disagrees_fails_the_group);
    tcase_add_loop_test(t, who_leaves_is_named_by_who_waits_for_it, 0, 3);
    tcase_add_test(t, who_babbles_is_named_by_all);
    tcase_add_test(t, strangers_at_the_door_do_no_harm);
    tcase_add_test(t, who_was_away_past_its_time_out_still_gets_what_has_come);
    tcase_add_loop_test(t, who_has_stopped_holds_up_no_close, 0, 2);
    tcase_add_loop_test(t, who_has_stopped_and_failed_the_group_holds_up_no_close, 0, 2);
    tcase_add_test(t, who_does_not_come_is_named);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(failure_make)
