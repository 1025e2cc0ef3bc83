/* libpsclient against real psd processes: every public call, both transports, the progress thread, crashes of shards in
 * the midst of pushes, and the errors' sentences. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "tests/now.h"
#include "tests/system/fine.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

#define BIG 1500000 /* elements: 6 MB, blocks of all sizes */

static struct shards shards;
static struct ps_error error;

static void
client_setup(void)
{
    shards_start(&shards, 2);
}

static void
client_teardown(void)
{
    shards_stop(&shards);
}

static ps_cluster *
cluster_of(const char *addresses, uint32_t workers, uint32_t task)
{
    ps_cluster *c;

    FINE(ps_cluster_from_list(addresses, workers, task, &c, &error));
    FINE(ps_cluster_set_name(c, SHARDS_CLUSTER, &error));
    return c;
}

static enum ps_err
try_open(const char *addresses, uint32_t workers, uint32_t task, const struct ps_client_options *o, ps_client **out)
{
    ps_cluster *c = cluster_of(addresses, workers, task);
    enum ps_err err = ps_client_open(c, o, out, &error);

    ps_cluster_free(c);
    return err;
}

static ps_client *
open_task(uint32_t workers, uint32_t task, const struct ps_client_options *o)
{
    ps_client *c;

    FINE(try_open(shards.addresses, workers, task, o, &c));
    return c;
}

static ps_client *
open_one(void)
{
    return open_task(1, 0, NULL);
}

/* float32[n] of zeros; a push of g makes it g less. */
static ps_var *
client_declare(ps_client *c, const char *name, uint64_t n)
{
    struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {n}, .optimizer = {.learning_rate = 1}};
    ps_var *v;

    FINE(ps_client_declare(c, &spec, &v, &error));
    return v;
}

static float *
client_floats(size_t n, float value)
{
    float *f = malloc(n * sizeof *f);

    for (size_t i = 0; i < n; i++)
        f[i] = value;
    return f;
}

static void
client_push(ps_client *c, ps_var *v, const float *grad)
{
    FINE(ps_client_push(c, 1, &v, &grad, NULL, &error));
}

static void
client_pull(ps_client *c, ps_var *v, float *out)
{
    FINE(ps_client_pull(c, 1, &v, &out, NULL, &error));
}

static void
client_finish(ps_op *op)
{
    FINE(ps_op_wait(op, -1, &error));
    ps_op_free(op);
}

/* Every element is this. */
static void
check_all(const float *x, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != value)
            ck_abort_msg("element %zu is %g, not %g", i, (double)x[i], (double)value);
}

/* ---- Training ---- */

static void
train_a_little(ps_client *c)
{
    ps_var *big = client_declare(c, "big", BIG), *scalar, *vars[2];
    float *grad = client_floats(BIG, 0), *out = client_floats(BIG, 9), one = 1, got[1] = {9};
    struct ps_var_spec spec = {
        .name = "scalar", .rank = 0, .init = {PS_INIT_CONSTANT, 5, 0, 0}, .optimizer = {.learning_rate = 1}};
    struct ps_client_stats stats;
    uint64_t low, high;

    FINE(ps_client_declare(c, &spec, &scalar, &error));
    ck_assert_uint_eq(ps_var_elements(scalar), 1);
    ck_assert_str_eq(ps_var_name(scalar), "scalar");
    vars[0] = big;
    vars[1] = scalar;
    for (size_t i = 0; i < BIG; i++)
        grad[i] = (float)(i % 1001);
    FINE(ps_client_push(c, 2, vars, (const float *[]){grad, &one}, NULL, &error));
    FINE(ps_client_tick(c, &error));
    ck_assert_uint_eq(ps_client_clock(c), 1);
    FINE(ps_client_pull(c, 2, vars, (float *[]){out, got}, NULL, &error));
    ck_assert_uint_eq(ps_client_slowest_clock(c), 1); /* the only worker's own */
    for (size_t i = 0; i < BIG; i++)
        if (out[i] != -grad[i])
            ck_abort_msg("element %zu is %g, not %g", i, (double)out[i], (double)-grad[i]);
    ck_assert_float_eq(got[0], 4);
    ps_var_versions(big, &low, &high);
    ck_assert_uint_eq(low, 1);
    ck_assert_uint_eq(high, 1);
    ps_client_stats(c, &stats);
    ck_assert_uint_eq(stats.bytes_pushed, (BIG + 1) * 4);
    ck_assert_uint_eq(stats.bytes_pulled, (BIG + 1) * 4);
    ck_assert_uint_eq(stats.pushes, 1);
    ck_assert_uint_eq(stats.pulls, 1);
    free(grad);
    free(out);
}

START_TEST(push_and_pull_over_tcp_and_unix)
{
    ps_client *c;

    FINE(try_open(_i == 0 ? shards.addresses : shards.sockets, 1, 0, NULL, &c));
    ck_assert_uint_eq(ps_client_shards(c), 2);
    train_a_little(c);
    ps_client_close(c);
}
END_TEST

START_TEST(push_pull_gives_the_value_after_the_update)
{
    ps_client *c = open_one();
    ps_var *v = client_declare(c, "w", BIG);
    float *grad = client_floats(BIG, 2), *out = client_floats(BIG, 0);

    FINE(ps_client_push_pull(c, 1, &v, (const float *[]){grad}, (float *[]){out}, NULL, &error));
    check_all(out, BIG, -2);
    ck_assert_int_eq(ps_client_push_pull(c, 1, &v, (const float *[]){out}, (float *[]){out}, NULL, &error),
                     PS_ERR_INVALID);
    FINE(ps_client_push_pull(c, 1, &v, (const float *[]){out}, (float *[]){out},
                             &(struct ps_push_options){.flags = PS_PUSH_COPY}, &error));
    check_all(out, BIG, 0);
    ps_client_close(c);
    free(grad);
    free(out);
}
END_TEST

START_TEST(started_operations_take_effect_in_order)
{
    ps_client *c = open_one();
    ps_var *v = client_declare(c, "w", 1000);
    float *grad = client_floats(1000, 1), *out = client_floats(1000, 0), *last = client_floats(1000, 0);
    ps_op *ops[20];
    size_t first;

    for (int i = 0; i < 9; i++)
        FINE(ps_client_push_start(c, 1, &v, (const float *[]){grad}, NULL, &ops[i], &error));
    FINE(ps_client_pull_start(c, 1, &v, &out, NULL, &ops[9], &error));
    for (int i = 10; i < 19; i++)
        FINE(ps_client_push_start(c, 1, &v, (const float *[]){grad}, NULL, &ops[i], &error));
    FINE(ps_client_pull_start(c, 1, &v, &last, NULL, &ops[19], &error));
    FINE(ps_op_wait_any(20, ops, -1, &first, &error));
    ck_assert_uint_lt(first, 20);
    FINE(ps_op_wait_all(20, ops, -1, &error));
    ck_assert_int_eq(ps_op_test(ops[19]), 1);
    ck_assert_uint_eq(ps_op_blocks_transferred(ops[19]), ps_var_blocks(v));
    for (int i = 0; i < 1000; i++) /* it is answered from the newest commit, which may hold later pushes */
        if (!(out[i] <= -9 && out[i] >= -18))
            ck_abort_msg("element %d is %g", i, (double)out[i]);
    check_all(last, 1000, -18);
    for (int i = 0; i < 20; i++)
        ps_op_free(ops[i]);
    ps_client_close(c);
    free(grad);
    free(out);
    free(last);
}
END_TEST

/* A second one is held behind the first, which is not acknowledged yet, until the caller flushes it. */
START_TEST(small_push_is_held_behind_another_until_it_is_flushed)
{
    ps_client *c = open_task(2, 0, NULL), *other = open_task(2, 1, NULL);
    ps_var *v = client_declare(c, "v", 4), *seen = client_declare(other, "v", 4);
    const float grad[4] = {1, 1, 1, 1}, *grads = grad;
    float got[4];
    ps_op *op[2];

    for (int i = 0; i < 2; i++)
        FINE(ps_client_push_start(c, 1, &v, &grads, NULL, &op[i], &error));
    do
        client_pull(other, seen, got);
    while (got[0] == 0);
    check_all(got, 4, -1);
    ps_client_flush(c);
    do
        client_pull(other, seen, got);
    while (got[0] == -1);
    check_all(got, 4, -2);
    for (int i = 0; i < 2; i++)
        client_finish(op[i]);
    ps_client_flush(NULL);
    ps_client_close(other);
    ps_client_close(c);
}
END_TEST

/* The second one is written by the wait: it sees the earlier pushes of others. */
START_TEST(small_pull_is_held_behind_another_until_something_waits)
{
    ps_client *c = open_task(2, 0, NULL), *other = open_task(2, 1, NULL);
    ps_var *v = client_declare(c, "v", 4), *seen = client_declare(other, "v", 4);
    float grad[4] = {1, 1, 1, 1}, first[4], second[4], *outs[2] = {first, second};
    ps_op *op[2];

    for (int i = 0; i < 2; i++)
        FINE(ps_client_pull_start(c, 1, &v, &outs[i], NULL, &op[i], &error));
    client_push(other, seen, grad);
    for (int i = 0; i < 2; i++)
        client_finish(op[1 - i]);
    check_all(second, 4, -1);
    ps_client_close(other);
    ps_client_close(c);
}
END_TEST

/* It pulls for the next step while its caller computes: no push holds it back, but for those that are held. */
START_TEST(pull_is_not_held_behind_pushes)
{
    ps_client *c = open_task(2, 0, NULL), *other = open_task(2, 1, NULL);
    ps_var *v = client_declare(c, "v", 4), *seen = client_declare(other, "v", 4);
    const float grad[4] = {1, 1, 1, 1}, *grads = grad;
    float got[4], out[4], *outs = out;
    ps_op *op[3];

    for (int i = 0; i < 2; i++)
        FINE(ps_client_push_start(c, 1, &v, &grads, NULL, &op[i], &error));
    FINE(ps_client_pull_start(c, 1, &v, &outs, NULL, &op[2], &error));
    do /* it has sent the second push as well */
        client_pull(other, seen, got);
    while (got[0] != -2);
    for (int i = 0; i < 3; i++)
        client_finish(op[i]);
    check_all(out, 4, -2);
    ps_client_close(other);
    ps_client_close(c);
}
END_TEST

START_TEST(only_changed_blocks_travel)
{
    ps_client *c = open_one();
    ps_var *v = client_declare(c, "w", BIG);
    float *grad = client_floats(BIG, 1), *out = client_floats(BIG, 0);
    struct ps_pull_options o = {.only_changed = 1};
    ps_op *op;

    client_pull(c, v, out);
    FINE(ps_client_pull_start(c, 1, &v, &out, &o, &op, &error));
    FINE(ps_op_wait(op, -1, &error));
    ck_assert_uint_eq(ps_op_blocks_transferred(op), 0);
    ps_op_free(op);
    client_push(c, v, grad);
    FINE(ps_client_pull_start(c, 1, &v, &out, &o, &op, &error));
    FINE(ps_op_wait(op, -1, &error));
    ck_assert_uint_eq(ps_op_blocks_transferred(op), ps_var_blocks(v));
    ps_op_free(op);
    check_all(out, BIG, -1);
    ps_client_close(c);
    free(grad);
    free(out);
}
END_TEST

START_TEST(cancelled_pull_leaves_its_buffer_alone)
{
    ps_client *c = open_one();
    ps_var *v = client_declare(c, "w", BIG);
    float *grad = client_floats(BIG, 1), *out = client_floats(BIG, 0);
    ps_op *op;

    client_push(c, v, grad);
    for (int turns = 0; turns < 30; turns++) {
        FINE(ps_client_pull_start(c, 1, &v, &out, NULL, &op, &error));
        for (int i = 0; i < turns; i++)
            if (ps_op_test(op))
                break;
        ps_op_cancel(op);
        for (size_t i = 0; i < BIG; i++)
            out[i] = 7;
        ck_assert(ps_op_result(op, NULL) == PS_ERR_CANCELLED || ps_op_result(op, NULL) == PS_OK);
        ps_op_free(op);
        client_push(c, v, grad);
        check_all(out, BIG, 7);
    }
    client_pull(c, v, out);
    check_all(out, BIG, -31);
    ps_client_close(c);
    free(grad);
    free(out);
}
END_TEST

START_TEST(cancelled_push_counts_once_or_not_at_all)
{
    ps_client *c = open_one();
    ps_var *v = client_declare(c, "w", BIG);
    float *grad = client_floats(BIG, 1), *out = client_floats(BIG, 0);
    ps_op *op;

    for (int turns = 0; turns < 20; turns++) {
        FINE(ps_client_push_start(c, 1, &v, (const float *[]){grad}, NULL, &op, &error));
        for (int i = 0; i < turns; i++)
            if (ps_op_test(op))
                break;
        ps_op_free(op);
        for (size_t i = 0; i < BIG; i++)
            grad[i] = NAN; /* the caller's again: must not be read any more */
        for (size_t i = 0; i < BIG; i++)
            grad[i] = 1;
    }
    client_push(c, v, grad);
    client_pull(c, v, out);
    for (size_t i = 0; i < BIG; i++)
        if (!(out[i] <= -1 && out[i] >= -21 && out[i] == floorf(out[i])))
            ck_abort_msg("element %zu is %g", i, (double)out[i]);
    ps_client_close(c);
    free(grad);
    free(out);
}
END_TEST

/* ---- Crashes ---- */

struct told {
    char text[PS_ERROR_TEXT_MAX];
    enum ps_err code;
    int lost, regained;
};

static void
note_event(void *arg, const struct ps_error *e)
{
    struct told *t = arg;

    if (e->code == PS_ERR_CLOSED)
        t->lost++;
    if (e->code == PS_OK)
        t->regained++;
    if (e->code == PS_ERR_ROLLED_BACK) {
        t->code = e->code;
        memcpy(t->text, e->text, sizeof t->text);
    }
}

/* Pushes in flight while shards are killed again and again: each counts once. */
START_TEST(every_push_counts_once_through_crashes)
{
    struct told told = {.code = PS_OK};
    struct ps_client_options o = {.progress_thread = _i, .on_event = note_event, .on_event_arg = &told};
    ps_client *c = open_task(1, 0, &o);
    ps_var *v = client_declare(c, "w", 300000);
    float *grad = client_floats(300000, 1), *out = client_floats(300000, 0);
    struct ps_client_stats stats;
    ps_op *ops[8];

    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < ARRAY_LEN(ops); i++)
            FINE(ps_client_push_start(c, 1, &v, (const float *[]){grad}, NULL, &ops[i], &error));
        for (int i = 0; i < round; i++)
            (void)ps_op_test(ops[7]);
        shards_kill(&shards, (uint32_t)round % 2);
        if (round % 3 == 0) /* let the client notice that the shard is gone */
            ck_assert_int_ne(ps_op_wait(ops[7], 50, NULL), PS_ERR_CLOSED);
        shards_restart(&shards, (uint32_t)round % 2);
        FINE(ps_op_wait_all(ARRAY_LEN(ops), ops, 20000, &error));
        for (size_t i = 0; i < ARRAY_LEN(ops); i++)
            ps_op_free(ops[i]);
        FINE(ps_client_tick(c, &error));
    }
    client_pull(c, v, out);
    check_all(out, 300000, -48);
    ps_client_stats(c, &stats);
    ck_assert_uint_ge(stats.reconnects, 6);
    ck_assert_int_ge(told.lost, 6);
    ck_assert_int_ge(told.regained, 6);
    ck_assert_int_eq(told.code, PS_OK);
    ps_client_close(c);
    free(grad);
    free(out);
}
END_TEST

START_TEST(shard_that_lost_its_data_is_told_and_filled_anew)
{
    struct told told = {.code = PS_OK};
    struct ps_client_options o = {.on_event = note_event, .on_event_arg = &told};
    ps_client *c = open_task(1, 0, &o);
    ps_var *v = client_declare(c, "w", 5000);
    float *grad = client_floats(5000, 1), *out = client_floats(5000, 0);
    char command[sizeof shards.directory + 32];

    client_push(c, v, grad);
    FINE(ps_client_tick(c, &error));
    client_pull(c, v, out);
    for (uint32_t i = 0; i < 2; i++) {
        shards_kill(&shards, i);
        snprintf(command, sizeof command, "rm -r %s/%u", shards.directory, i);
        ck_assert_int_eq(system(command), 0);
        shards_restart(&shards, i);
    }
    client_push(c, v, grad);
    client_pull(c, v, out);
    check_all(out, 5000, -1);
    ck_assert_int_eq(told.code, PS_ERR_ROLLED_BACK);
    ck_assert_ptr_nonnull(strstr(told.text, ": 1 acknowledged push of this worker is gone"));
    ck_assert_uint_eq(ps_client_rolled_back(c, 0), 1);
    ck_assert_uint_eq(ps_client_rolled_back(c, 1), 1);
    ck_assert_uint_eq(ps_client_rolled_back(c, 2), 0);
    FINE(ps_client_tick(c, &error));
    ps_client_close(c);
    free(grad);
    free(out);
}
END_TEST

/* Waits that are too short for a call to be done in: the last for a machine that is very busy. */
static const int patience_ms[] = {300, 2000, 20000};

struct signals {
    struct sigaction handlers[NSIG];
    sigset_t blocked;
};

static struct signals
signals_now(void)
{
    struct signals s = {0};

    for (int i = 1; i < NSIG; i++)
        (void)sigaction(i, NULL, &s.handlers[i]);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &s.blocked), 0);
    return s;
}

static bool
signals_are(const struct signals *s)
{
    struct signals now = signals_now();

    for (int i = 1; i < NSIG; i++)
        if (now.handlers[i].sa_handler != s->handlers[i].sa_handler ||
            now.handlers[i].sa_flags != s->handlers[i].sa_flags ||
            sigismember(&now.blocked, i) != sigismember(&s->blocked, i))
            return false;
    return true;
}

/* With the signal of broken pipes at its default, the process would end of a write to the shard that is gone. */
START_TEST(a_client_leaves_signals_alone_and_lives_on_when_a_shard_dies)
{
    struct ps_client_options o = {.transport = _i % 2 == 0 ? PS_TRANSPORT_AUTO : PS_TRANSPORT_TCP,
                                  .progress_thread = _i / 2};
    float *grad = client_floats(BIG, 1), *out = client_floats(BIG, 0);
    struct signals before;
    ps_client *c;
    ps_var *v;
    ps_op *op;

    signal(SIGPIPE, SIG_DFL);
    before = signals_now();
    c = open_task(1, 0, &o);
    v = client_declare(c, "w", BIG);
    client_push(c, v, grad);
    ck_assert(signals_are(&before));
    kill(shards.pids[0], SIGSTOP); /* so that the push does not end before the shard does */
    FINE(ps_client_push_start(c, 1, &v, (const float *[]){grad}, NULL, &op, &error));
    ck_assert_int_eq(ps_op_wait(op, 100, &error), PS_ERR_TIMEOUT);
    shards_kill(&shards, 0);
    ck_assert_int_eq(ps_op_wait(op, 300, &error), PS_ERR_TIMEOUT);
    ck_assert_int_eq(ps_client_pull(c, 1, &v, &out, &(struct ps_pull_options){.timeout_ms = 300}, &error),
                     PS_ERR_TIMEOUT);
    shards_restart(&shards, 0);
    client_finish(op);
    client_pull(c, v, out);
    check_all(out, BIG, -2);
    ps_client_close(c);
    ck_assert(signals_are(&before));
    free(grad);
    free(out);
}
END_TEST

START_TEST(unreachable_shard_is_named_when_the_wait_ends)
{
    ps_client *c = open_one();
    ps_var *v = client_declare(c, "w", 300000);
    float *out = client_floats(300000, 0);
    uint64_t start = now_ms();
    const char *why = NULL;
    char waited[64];

    shards_kill(&shards, 1);
    for (size_t i = 0; why == NULL && i < ARRAY_LEN(patience_ms); i++) { /* until it has tried to connect */
        struct ps_pull_options o = {.timeout_ms = patience_ms[i]};

        ck_assert_int_eq(ps_client_pull(c, 1, &v, &out, &o, &error), PS_ERR_TIMEOUT);
        snprintf(waited, sizeof waited, "waited %d ms for shard 1 at 127.0.0.1:", patience_ms[i]);
        ck_assert_msg(strstr(error.text, waited) != NULL, "%s", error.text);
        why = strstr(error.text, "pull of 'w' at clock 0; not connected: cannot connect: connection refused");
    }
    ck_assert_msg(why != NULL, "%s", error.text);
    ck_assert_uint_le(now_ms() - start, 60000);
    shards_restart(&shards, 1);
    client_pull(c, v, out);
    ps_client_close(c);
    free(out);
}
END_TEST

/* The number in the sentence of a wait. */
static unsigned long
waited_ms_of(const struct ps_error *e)
{
    ck_assert_msg(strncmp(e->text, "waited ", 7) == 0, "%s", e->text);
    return strtoul(e->text + 7, NULL, 10);
}

START_TEST(a_wait_in_parts_says_how_long_all_of_them_were)
{
    ps_client *c = open_one();
    ps_var *v = client_declare(c, "w", 300000);
    float *out = client_floats(300000, 0);
    uint64_t start = now_ms();
    ps_op *op;

    shards_kill(&shards, 1);
    FINE(ps_client_pull_start(c, 1, &v, &out, NULL, &op, &error));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(ps_op_wait(op, 20, &error), PS_ERR_TIMEOUT);
    ck_assert_uint_ge(waited_ms_of(&error), 60);
    ck_assert_int_eq(ps_op_wait_all(1, &op, 20, &error), PS_ERR_TIMEOUT);
    ck_assert_uint_ge(waited_ms_of(&error), 80);
    ck_assert_uint_le(waited_ms_of(&error), now_ms() - start + 4); /* a part may end a millisecond early */
    ps_op_free(op);
    shards_restart(&shards, 1);
    ps_client_close(c);
    free(out);
}
END_TEST

/* ---- Opening ---- */

static int
client_listener(uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(fd, 8), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void *
speak_http(void *arg)
{
    int fd = accept(*(int *)arg, NULL, NULL);
    char request[512];

    if (read(fd, request, sizeof request) > 0)
        (void)!write(fd, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", 47);
    shutdown(fd, SHUT_WR);
    while (read(fd, request, sizeof request) > 0) /* until the client has seen it and gone */
        ;
    close(fd);
    return NULL;
}

START_TEST(port_that_speaks_http_is_said_so)
{
    struct ps_client_options o = {.timeout_ms = 20000};
    ps_client *c = NULL;
    pthread_t thread;
    char address[64];
    uint16_t port;
    int fd = client_listener(&port);

    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    pthread_create(&thread, NULL, speak_http, &fd);
    ck_assert_int_eq(try_open(address, 1, 0, &o, &c), PS_ERR_PROTOCOL);
    ck_assert_ptr_null(c);
    ck_assert_ptr_nonnull(strstr(error.text, "HTTP"));
    pthread_join(thread, NULL);
    close(fd);
}
END_TEST

START_TEST(nobody_there_is_unreachable_and_silence_a_timeout)
{
    struct ps_client_options o = {.timeout_ms = 200};
    uint64_t start = now_ms();
    char address[64];
    ps_client *c;
    uint16_t port;
    int fd = client_listener(&port);

    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    ck_assert_int_eq(try_open(address, 1, 0, &o, &c), PS_ERR_TIMEOUT);
    close(fd);
    ck_assert_int_eq(try_open(address, 1, 0, &o, &c), PS_ERR_UNREACHABLE);
    ck_assert_ptr_nonnull(strstr(error.text, "connection refused"));
    ck_assert_int_eq(try_open("unix:/nowhere/at.all", 1, 0, &o, &c), PS_ERR_UNREACHABLE);
    ck_assert_uint_le(now_ms() - start, 20000);
}
END_TEST

START_TEST(an_observer_does_not_wait_for_a_shard_that_is_not_there)
{
    struct ps_client_options o = {.observer = 1, .any_cluster = 1, .timeout_ms = 60000};
    uint64_t start = now_ms();
    char address[64];
    ps_client *c;
    uint16_t port;

    close(client_listener(&port));
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    ck_assert_int_eq(try_open(address, 1, 0, &o, &c), PS_ERR_UNREACHABLE);
    ck_assert_int_eq(try_open("unix:/nowhere/at.all", 1, 0, &o, &c), PS_ERR_UNREACHABLE);
    snprintf(address, sizeof address, "localhost:%u", port); /* each of its addresses is tried */
    ck_assert_int_eq(try_open(address, 1, 0, &o, &c), PS_ERR_UNREACHABLE);
    ck_assert_uint_le(now_ms() - start, 30000);
}
END_TEST

START_TEST(address_may_be_a_name)
{
    char address[64];
    struct ps_client_options o = {.observer = 1, .any_cluster = 1, .timeout_ms = 20000};
    ps_client *c;
    struct addrinfo *found;
    double us;

    if (getaddrinfo("localhost", NULL, NULL, &found) != 0) {
        fprintf(stderr, "# skipped: this machine does not know localhost\n");
        return;
    }
    freeaddrinfo(found);
    snprintf(address, sizeof address, "localhost:%s", strrchr(shards.address[0], ':') + 1);
    FINE(try_open(address, 1, 0, &o, &c));
    FINE(ps_client_ping(c, 0, -1, &us, &error));
    ps_client_close(c);
}
END_TEST

START_TEST(shard_that_comes_late_is_waited_for)
{
    struct ps_client_options o = {.timeout_ms = 20000};
    ps_cluster *cluster;
    ps_client *c;

    shards_kill(&shards, 0);
    cluster = cluster_of(shards.addresses, 1, 0);
    ck_assert_int_eq(ps_client_open(cluster, &(struct ps_client_options){.timeout_ms = 100}, &c, &error),
                     PS_ERR_UNREACHABLE);
    shards_restart(&shards, 0);
    FINE(ps_client_open(cluster, &o, &c, &error));
    ps_client_close(c);
    ps_cluster_free(cluster);
}
END_TEST

START_TEST(taken_index_is_refused_by_name_until_it_is_free)
{
    ps_client *a = open_one(), *b = NULL;
    struct ps_client_options o = {.timeout_ms = 0};
    enum ps_err err = PS_ERR_TIMEOUT;
    char pid[32];

    for (size_t i = 0; err == PS_ERR_TIMEOUT && i < ARRAY_LEN(patience_ms); i++) { /* until it has been answered */
        o.timeout_ms = patience_ms[i];
        err = try_open(shards.addresses, 1, 0, &o, &b);
    }
    ck_assert_int_eq(err, PS_ERR_TASK_TAKEN);
    snprintf(pid, sizeof pid, ":%ld", (long)getpid());
    ck_assert_ptr_nonnull(strstr(error.text, pid));
    ps_client_abandon(a);
    o.timeout_ms = 20000;
    FINE(try_open(shards.addresses, 1, 0, &o, &b));
    ps_client_close(b);
}
END_TEST

START_TEST(other_options_for_the_same_job_are_a_mismatch)
{
    ps_client *a = open_task(2, 0, NULL), *b = NULL;
    struct ps_client_options o = {.mode = PS_SSP, .bound = 3};

    ck_assert_int_eq(try_open(shards.addresses, 2, 1, &o, &b), PS_ERR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(error.text, "ssp"));
    ck_assert_ptr_nonnull(strstr(error.text, "async"));
    o.job = "other";
    FINE(try_open(shards.addresses, 2, 1, &o, &b));
    ps_client_close(a);
    ps_client_close(b);
}
END_TEST

START_TEST(shards_of_another_cluster_or_in_another_order_are_refused)
{
    ps_cluster *cluster;
    ps_client *c = NULL;
    char swapped[160];

    FINE(ps_cluster_from_list(shards.addresses, 1, 0, &cluster, &error));
    ck_assert_int_eq(ps_client_open(cluster, NULL, &c, &error), PS_ERR_CLUSTER);
    ps_cluster_free(cluster);
    snprintf(swapped, sizeof swapped, "%s,%s", shards.address[1], shards.address[0]);
    ck_assert_int_eq(try_open(swapped, 1, 0, NULL, &c), PS_ERR_CLUSTER);
}
END_TEST

/* ---- Refusals ---- */

START_TEST(bad_gradient_is_refused_with_a_sentence)
{
    ps_client *c = open_one();
    ps_var *v = client_declare(c, "w", 10);
    float grad[10] = {0}, out[10];
    struct ps_client_stats stats;

    grad[3] = NAN;
    ck_assert_int_eq(ps_client_push(c, 1, &v, (const float *[]){grad}, NULL, &error), PS_ERR_NONFINITE);
    ck_assert_ptr_nonnull(strstr(error.peer, "shard"));
    ps_client_stats(c, &stats);
    ck_assert_uint_eq(stats.refused, 1);
    grad[3] = 1;
    client_push(c, v, grad);
    client_pull(c, v, out);
    ck_assert_float_eq(out[3], -1);
    ps_client_close(c);
}
END_TEST

START_TEST(other_declaration_is_a_mismatch_that_prints_both)
{
    ps_client *a = open_task(2, 0, NULL), *b = open_task(2, 1, NULL);
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {20}, .optimizer = {.learning_rate = 1}};
    ps_var *v;

    client_declare(a, "w", 10);
    ck_assert_int_eq(ps_client_declare(b, &spec, &v, &error), PS_ERR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(error.text, "[10]"));
    ck_assert_ptr_nonnull(strstr(error.text, "[20]"));
    spec.dims[0] = 10;
    FINE(ps_client_declare(b, &spec, &v, &error));
    ps_client_close(a);
    ps_client_close(b);
}
END_TEST

START_TEST(wrong_arguments_are_invalid)
{
    ps_client *c = open_one(), *other;
    struct ps_client_options o = {.job = "other"};
    ps_var *v = client_declare(c, "w", 10), *foreign;
    float buf[11];
    float *odd = (float *)(void *)((char *)buf + 2);
    struct ps_var_spec spec = {.name = "x", .rank = 1, .dims = {0}, .optimizer = {.learning_rate = 1}};
    ps_op *op = NULL;
    size_t index;
    double us;
    char *json;

    other = open_task(1, 0, &o);
    foreign = client_declare(other, "w", 10);
    ck_assert_int_eq(ps_client_pull(c, 0, &v, (float *[]){buf}, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_pull(c, 1, NULL, (float *[]){buf}, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_pull(c, 1, &v, NULL, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_pull(c, 1, &v, (float *[]){NULL}, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_pull(c, 1, &v, (float *[]){odd}, NULL, &error), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "aligned"));
    ck_assert_int_eq(ps_client_pull(c, 1, &foreign, (float *[]){buf}, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_pull(NULL, 1, &v, (float *[]){buf}, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_push(c, 1, &v, (const float *[]){buf}, &(struct ps_push_options){.flags = 8}, &error),
                     PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_push_pull(c, 1, &v, (const float *[]){buf}, NULL, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_barrier(c, "", 0, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_barrier(c, "\xff", 0, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_declare(c, &spec, &v, &error), PS_ERR_INVALID);
    spec.rank = 9;
    ck_assert_int_eq(ps_client_declare(c, &spec, &v, &error), PS_ERR_INVALID);
    spec.rank = 0;
    spec.optimizer.kind = 77;
    ck_assert_int_eq(ps_client_declare(c, &spec, &v, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_op_wait(NULL, 0, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_op_wait_any(1, &op, 0, &index, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_op_result(NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_ping(c, 2, 0, &us, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_query(c, 0, 99, NULL, 0, &json, &error), PS_ERR_INVALID);
    ps_op_free(NULL);
    ps_op_cancel(NULL);
    ps_client_close(NULL);
    ps_client_close(other);
    ps_client_close(c);
}
END_TEST

/* ---- Waiting for others ---- */

START_TEST(sync_pull_waits_and_the_timeout_names_the_worker)
{
    struct ps_client_options o = {.mode = PS_SYNC};
    ps_client *a = open_task(2, 0, &o), *b = open_task(2, 1, &o);
    ps_var *va = client_declare(a, "w", 10), *vb = client_declare(b, "w", 10);
    float ga[10], gb[10], out[10], *outs[1] = {out};
    const float *grads[1] = {ga}, *others[1] = {gb};
    const char *why = NULL;
    ps_op *pa, *pb, *pull_a;

    for (int i = 0; i < 10; i++) {
        ga[i] = 1;
        gb[i] = 3;
    }
    FINE(ps_client_push_start(a, 1, &va, grads, NULL, &pa, &error));
    FINE(ps_client_tick(a, &error));
    for (size_t i = 0; why == NULL && i < ARRAY_LEN(patience_ms); i++) { /* until the shard's answer came in time */
        struct ps_pull_options soon = {.timeout_ms = patience_ms[i]};

        ck_assert_int_eq(ps_client_pull(a, 1, &va, outs, &soon, &error), PS_ERR_TIMEOUT);
        why = strstr(error.text, "pull of 'w' at clock 1; it waits for worker 1");
    }
    ck_assert_msg(why != NULL, "%s", error.text);
    ck_assert_int_eq(ps_op_wait(pa, 0, &error), PS_ERR_TIMEOUT);
    FINE(ps_client_pull_start(a, 1, &va, outs, NULL, &pull_a, &error));
    ck_assert_int_eq(ps_op_test(pull_a), 0);
    FINE(ps_client_push_start(b, 1, &vb, others, NULL, &pb, &error));
    FINE(ps_client_tick(b, &error));
    FINE(ps_op_wait(pb, -1, &error));
    FINE(ps_op_wait(pa, -1, &error));
    FINE(ps_op_wait(pull_a, -1, &error));
    check_all(out, 10, -2);
    ps_op_free(pa);
    ps_op_free(pb);
    ps_op_free(pull_a);
    ps_client_close(a);
    ps_client_close(b);
}
END_TEST

START_TEST(barrier_waits_for_all_and_names_who_is_missing)
{
    ps_client *a = open_task(2, 0, NULL), *b = open_task(2, 1, NULL);
    const char *why = NULL;
    ps_op *op;

    for (size_t i = 0; why == NULL && i < ARRAY_LEN(patience_ms); i++) { /* as above */
        ck_assert_int_eq(ps_client_barrier(a, "epoch", patience_ms[i], &error), PS_ERR_TIMEOUT);
        why = strstr(error.text, "barrier 'epoch'; it waits for worker 1");
    }
    ck_assert_msg(why != NULL, "%s", error.text);
    FINE(ps_client_barrier_start(a, "epoch 2", &op, &error));
    ck_assert_int_eq(ps_op_test(op), 0);
    FINE(ps_client_barrier(b, "epoch 2", -1, &error));
    FINE(ps_op_wait(op, -1, &error));
    ps_op_free(op);
    ps_client_close(a);
    ps_client_close(b);
}
END_TEST

START_TEST(lapsed_worker_is_told_and_rejoins_at_the_slowest_clock)
{
    struct ps_client_options o = {.mode = PS_SSP, .bound = 1, .lease_ms = 60000, .timeout_ms = 20000};
    ps_client *a, *b = open_task(2, 1, &o);
    ps_var *va, *vb = client_declare(b, "w", 10);
    float grad[10] = {1}, out[10];

    o.lease_ms = 1500; /* within which it must declare, and later push */
    a = open_task(2, 0, &o);
    va = client_declare(a, "w", 10);
    for (int i = 0; i < 5; i++) { /* a is silent: its lease ends and b goes on */
        client_push(b, vb, grad);
        FINE(ps_client_tick(b, &error));
        client_pull(b, vb, out);
    }
    ck_assert_int_eq(ps_client_push(a, 1, &va, (const float *[]){grad}, NULL, &error), PS_ERR_LEASE_LAPSED);
    ck_assert_int_eq(ps_client_tick(a, &error), PS_ERR_LEASE_LAPSED);
    FINE(ps_client_rejoin(a, -1, &error));
    ck_assert_uint_eq(ps_client_clock(a), 5);
    client_push(a, va, grad);
    FINE(ps_client_tick(a, &error));
    client_pull(b, vb, out);
    ck_assert_float_eq(out[0], -6);
    ps_client_close(a);
    ps_client_close(b);
}
END_TEST

START_TEST(goodbye_frees_the_others_at_once)
{
    struct ps_client_options o = {.mode = PS_SSP, .bound = 0, .timeout_ms = 20000}; /* less than the grace */
    ps_client *a, *b;
    float out[10];
    ps_var *v;

    shards_stop(&shards);
    shards_start_with(&shards, 2, &(struct shards_options){.more = (const char *const[]){"--grace", "60s", NULL}});
    a = open_task(2, 0, &o);
    b = open_task(2, 1, &o);
    v = client_declare(a, "w", 10);
    FINE(ps_client_tick(a, &error));
    ps_client_close(b);
    client_pull(a, v, out);
    ps_client_close(a);
}
END_TEST

/* Whether the worker has noticed that its connection is gone or not: the shard, which would wait for it, receives the
 * goodbye. */
START_TEST(goodbye_waits_for_a_shard_that_starts_again)
{
    struct ps_client_options o = {.mode = PS_SSP, .bound = 0, .timeout_ms = 20000}; /* less than the grace */
    struct ps_pull_options soon = {.timeout_ms = 10};
    float out[10], *outs[1] = {out};
    ps_client *a, *b;
    ps_var *va, *vb;

    shards_stop(&shards);
    shards_start_with(&shards, 2, &(struct shards_options){.more = (const char *const[]){"--grace", "60s", NULL}});
    a = open_task(2, 0, &o);
    b = open_task(2, 1, &o);
    va = client_declare(a, "w", 10);
    vb = client_declare(b, "w", 10);
    FINE(ps_client_tick(a, &error));
    shards_kill(&shards, 0);
    if (_i == 0)
        ck_assert_int_eq(ps_client_pull(b, 1, &vb, outs, &soon, &error), PS_ERR_TIMEOUT);
    shards_restart(&shards, 0);
    ps_client_close(b);
    client_pull(a, va, out);
    ps_client_close(a);
}
END_TEST

/* ---- Questions ---- */

START_TEST(queries_are_json_by_the_protocols_names)
{
    ps_client *c = open_one();
    ps_var *v = client_declare(c, "w", 300000);
    struct ps_client_options o = {.observer = 1};
    ps_client *observer = open_task(1, 0, &o);
    float *grad = client_floats(300000, 1);
    json_t *root, *row;
    char *json;
    double us;

    client_push(c, v, grad);
    FINE(ps_client_query(observer, 1, PS_QUERY_STATUS, NULL, -1, &json, &error));
    root = json_loads(json, 0, NULL);
    row = json_object_get(root, "status");
    ck_assert_str_eq(json_string_value(json_object_get(row, "cluster")), SHARDS_CLUSTER);
    ck_assert_int_eq(json_integer_value(json_object_get(row, "shard")), 1);
    ck_assert_uint_eq(strlen(json_string_value(json_object_get(row, "boot"))), 16);
    json_decref(root);
    ps_free(json);
    FINE(ps_client_query(observer, 0, PS_QUERY_VARIABLES, "train", -1, &json, &error));
    root = json_loads(json, 0, NULL);
    row = json_array_get(json_object_get(root, "variable"), 0);
    ck_assert_str_eq(json_string_value(json_object_get(row, "name")), "w");
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(row, "dims"), 0)), 300000);
    json_decref(root);
    ps_free(json);
    for (int q = PS_QUERY_STATS; q <= PS_QUERY_BLOCKED; q++) {
        FINE(ps_client_query(observer, 0, (enum ps_query)q, NULL, -1, &json, &error));
        ck_assert_ptr_nonnull((root = json_loads(json, 0, NULL)));
        json_decref(root);
        ps_free(json);
    }
    FINE(ps_client_ping(observer, 1, -1, &us, &error));
    ck_assert_double_gt(us, 0);
    ck_assert_int_eq(ps_client_tick(observer, &error), PS_ERR_INVALID);
    ps_client_close(observer);
    ps_client_close(c);
    free(grad);
}
END_TEST

/* A job name of full length makes rows of 300 bytes, of which one report holds some 400. */
/* What client_page() was given. */
enum { CLIENT_LISTED = 300 };
struct client_pages {
    unsigned pages, rows, stop, ended; /* stop: at which page it gives up; 0: at none */
    unsigned names[CLIENT_LISTED];
};

static enum ps_err
client_page(void *arg, const char *json, struct ps_error *e)
{
    struct client_pages *p = arg;
    json_t *root = json_loads(json, 0, NULL), *rows = json_object_get(root, "variable"),
           *more = json_object_get(root, "more");

    ck_assert_int_eq(p->ended, 0);
    p->pages++;
    p->ended = !json_is_true(more);
    for (size_t i = 0; i < json_array_size(rows); i++)
        p->names[p->rows++] = (unsigned)atoi(json_string_value(json_object_get(json_array_get(rows, i), "name")) + 1);
    json_decref(root);
    if (p->pages != p->stop)
        return PS_OK;
    snprintf(e->text, sizeof(e->text), "enough");
    return e->code = PS_ERR_IO;
}

START_TEST(pages_of_a_report_are_handed_over_as_they_come)
{
    ps_client *c = open_one(), *observer;
    struct ps_client_options o = {.observer = 1};
    struct client_pages p = {.stop = 0}, first = {.stop = 1};
    char name[16];
    unsigned sum = 0;

    for (unsigned i = 0; i < CLIENT_LISTED; i++) {
        snprintf(name, sizeof(name), "v%u", i);
        client_declare(c, name, 4);
    }
    observer = open_task(1, 0, &o);
    for (uint32_t shard = 0; shard < 2; shard++) {
        size_t from = p.rows;

        p.pages = p.ended = 0;
        FINE(ps_client_query_pages(observer, shard, PS_QUERY_VARIABLES, NULL, -1, client_page, &p, &error));
        ck_assert_uint_gt(p.pages, 1);
        ck_assert_uint_eq(p.ended, 1);
        for (size_t i = from; i < p.rows; i++) {
            ck_assert_uint_gt(p.names[i] + 1, i > from ? p.names[i - 1] + 1 : 0);
            sum += p.names[i];
        }
    }
    ck_assert_uint_eq(p.rows, CLIENT_LISTED);
    ck_assert_uint_eq(sum, CLIENT_LISTED * (CLIENT_LISTED - 1) / 2);
    ck_assert_int_eq(ps_client_query_pages(observer, 0, PS_QUERY_VARIABLES, NULL, -1, client_page, &first, &error),
                     PS_ERR_IO);
    ck_assert_str_eq(error.text, "enough");
    ck_assert_uint_eq(first.pages, 1);
    ck_assert_int_eq(ps_client_query_pages(observer, 0, PS_QUERY_VARIABLES, NULL, -1, NULL, NULL, &error),
                     PS_ERR_INVALID);
    ps_client_close(observer);
    ps_client_close(c);
}
END_TEST

START_TEST(a_list_of_workers_longer_than_a_report_is_whole)
{
    enum { N = 1000 };
    char job[PS_NAME_MAX + 1] = "", *json;
    struct ps_client_options o = {.job = memset(job, 'j', PS_NAME_MAX)}, look = {.observer = 1};
    ps_client *observer;
    json_t *root, *rows;

    for (uint32_t i = 0; i < N; i++)
        ps_client_close(open_task(N, i, &o));
    observer = open_task(1, 0, &look);
    FINE(ps_client_query(observer, 0, PS_QUERY_WORKERS, NULL, -1, &json, &error));
    root = json_loads(json, 0, NULL);
    rows = json_object_get(root, "worker");
    ck_assert_uint_eq(json_array_size(rows), N);
    for (size_t i = 0; i < N; i++)
        ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(rows, i), "task")), (json_int_t)i);
    json_decref(root);
    ps_free(json);
    ps_client_close(observer);
}
END_TEST

/* ---- Reading what others declared ---- */

/* More than are asked for at once. */
START_TEST(many_variables_are_attached_to_in_the_order_of_their_names)
{
    enum { N = 600 };
    static char text[N][16];
    static const char *names[N];
    static ps_var *vars[N];
    struct ps_var_spec spec = {.rank = 1, .dims = {1}, .optimizer = {.learning_rate = 1}};
    ps_client *worker = open_one(), *observer = open_task(1, 0, &(struct ps_client_options){.observer = 1});
    ps_var *v;

    for (unsigned i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "w%u", i);
        names[i] = spec.name = text[i];
        FINE(ps_client_declare(worker, &spec, &v, &error));
    }
    FINE(ps_client_attach_many(observer, N, names, vars, &error));
    for (unsigned i = 0; i < N; i++)
        ck_assert_str_eq(ps_var_name(vars[i]), names[i]);
    FINE(ps_client_attach_many(observer, 0, names, vars, &error));
    names[300] = "nobody's";
    memset(vars, 0, sizeof vars);
    ck_assert_int_eq(ps_client_attach_many(observer, N, names, vars, &error), PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "nobody's"));
    ck_assert_ptr_nonnull(vars[299]);
    FINE(ps_client_attach(observer, "w599", &v, &error)); /* what was asked for and not waited for is gone */
    ck_assert_str_eq(ps_var_name(v), "w599");
    ck_assert_int_eq(ps_client_attach_many(observer, 1, NULL, vars, &error), PS_ERR_INVALID);
    ps_client_close(observer);
    ps_client_close(worker);
}
END_TEST

START_TEST(an_observer_attaches_and_pulls)
{
    ps_client *worker = open_one(),
              *observer = open_task(1, 0, &(struct ps_client_options){.observer = 1, .timeout_ms = 20000});
    struct ps_client_options any = {.observer = 1, .any_cluster = 1}, other = {.observer = 1, .job = "other"};
    ps_client *stranger = open_task(1, 0, &any), *elsewhere = open_task(1, 0, &other);
    float *grad = client_floats(600000, 1), *out = client_floats(600000, 7);
    struct ps_var_spec spec = {.name = "w", .rank = 2, .dims = {300000, 2}, .optimizer = {.learning_rate = 1}};
    uint64_t lowest, highest;
    ps_var *w, *v, *again;

    ck_assert_int_eq(ps_client_attach(observer, "w", &v, &error), PS_ERR_NOT_FOUND);
    FINE(ps_client_declare(worker, &spec, &w, &error));
    FINE(ps_client_attach(observer, "w", &v, &error));
    ck_assert_uint_eq(ps_var_elements(v), 600000);
    ck_assert_uint_eq(ps_var_rank(v), 2);
    ck_assert_uint_eq(ps_var_dim(v, 0), 300000);
    ck_assert_uint_eq(ps_var_dim(v, 1), 2);
    ck_assert_uint_eq(ps_var_dim(v, 2), 0);
    ck_assert_str_eq(ps_var_name(v), "w");
    client_push(worker, w, grad);
    FINE(ps_client_pull(observer, 1, &v, (float *const[]){out}, NULL, &error));
    for (size_t i = 0; i < 600000; i++)
        if (out[i] != -1)
            ck_abort_msg("element %zu is %g", i, (double)out[i]);
    ps_var_versions(v, &lowest, &highest);
    ck_assert(lowest == 1 && highest == 1);
    FINE(ps_client_attach(observer, "w", &again, &error));
    ck_assert_ptr_eq(again, v);
    FINE(ps_client_attach(worker, "w", &again, &error));
    ck_assert_ptr_eq(again, w);
    ck_assert_int_eq(ps_client_push(observer, 1, &v, (const float *const[]){grad}, NULL, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_declare(observer, &spec, &again, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_barrier(observer, "b", -1, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_attach(stranger, "w", &again, &error), PS_ERR_INVALID);
    ck_assert_int_eq(ps_client_attach(elsewhere, "w", &again, &error), PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(error.text, "no job 'other'"));
    ps_client_close(worker);
    FINE(ps_client_pull(observer, 1, &v, (float *const[]){out}, NULL, &error)); /* the model stays */
    ps_client_close(observer);
    ps_client_close(stranger);
    ps_client_close(elsewhere);
    free(grad);
    free(out);
}
END_TEST

/* A cluster's evaluator observes by itself, and unlike psctl waits for a shard that is still starting. */
START_TEST(an_evaluator_waits_for_shards_that_start)
{
    struct ps_client_options o = {.timeout_ms = 20000};
    ps_client *worker = open_one(), *evaluator;
    ps_cluster *cluster;
    char config[256];
    ps_var *v;

    client_declare(worker, "w", 300000);
    ps_client_abandon(worker);
    snprintf(config, sizeof config,
             "{\"cluster\": {\"worker\": [\"w:1\"], \"ps\": [\"%s\", \"%s\"]},"
             " \"task\": {\"type\": \"evaluator\", \"index\": 0}}",
             shards.address[0], shards.address[1]);
    FINE(ps_cluster_from_json(config, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    shards_kill(&shards, 1);
    o.timeout_ms = 100;
    ck_assert_int_ne(ps_client_open(cluster, &o, &evaluator, &error), PS_OK);
    ck_assert_ptr_nonnull(strstr(error.text, "waited ")); /* all of its time, not the first refusal */
    ck_assert_int_ge(atoi(strstr(error.text, "waited ") + strlen("waited ")), o.timeout_ms - 1); /* whole ms */
    o.timeout_ms = 20000;
    shards_restart(&shards, 1);
    FINE(ps_client_open(cluster, &o, &evaluator, &error));
    FINE(ps_client_attach(evaluator, "w", &v, &error));
    ck_assert_uint_eq(ps_var_elements(v), 300000);
    ps_client_close(evaluator);
    ps_cluster_free(cluster);
}
END_TEST

/* ---- The progress thread ---- */

START_TEST(progress_thread_moves_things_while_the_caller_computes)
{
    struct ps_client_options o = {.progress_thread = 1};
    ps_client *c = open_task(1, 0, &o);
    ps_var *v = client_declare(c, "w", BIG);
    float *grad = client_floats(BIG, 1), *out = client_floats(BIG, 0);
    struct ps_client_stats before, stats = {0};
    ps_op *push_op, *pull_op;
    uint64_t start;

    train_a_little(c);
    ps_client_stats(c, &before);
    start = now_ms();
    FINE(ps_client_push_start(c, 1, &v, (const float *[]){grad}, NULL, &push_op, &error));
    FINE(ps_client_pull_start(c, 1, &v, &out, NULL, &pull_op, &error));
    do /* only tests; a shard's values may arrive before the acknowledgements of the pushes that they hold */
        ps_client_stats(c, &stats);
    while ((stats.pulls == before.pulls || stats.pushes == before.pushes) && now_ms() - start < 60000);
    ck_assert_uint_eq(stats.pulls, before.pulls + 1);
    ck_assert_uint_eq(stats.pushes, before.pushes + 1);
    ck_assert_int_eq(ps_op_test(pull_op), 1);
    ck_assert_int_eq(ps_op_result(push_op, NULL), PS_OK);
    check_all(out, BIG, -1);
    ps_op_free(push_op);
    ps_op_free(pull_op);
    ps_client_close(c);
    free(grad);
    free(out);
}
END_TEST

struct user {
    ps_client *client;
    ps_var *var;
    int number;
};

static void *
use_client(void *arg)
{
    struct user *u = arg;
    float *grad = client_floats(3000, 1), *out = client_floats(3000, 0);
    struct ps_error e;
    ps_op *ops[2];

    for (int i = 0; i < 100; i++) {
        if (ps_client_push_start(u->client, 1, &u->var, (const float *[]){grad}, NULL, &ops[0], &e) != PS_OK ||
            ps_client_pull_start(u->client, 1, &u->var, &out, NULL, &ops[1], &e) != PS_OK)
            abort();
        if (i % 7 == u->number)
            ps_op_cancel(ops[1]);
        else if (ps_op_wait_all(2, ops, -1, &e) != PS_OK)
            abort();
        if (ps_op_wait(ops[0], -1, &e) != PS_OK)
            abort();
        ps_op_free(ops[0]);
        ps_op_free(ops[1]);
    }
    free(grad);
    free(out);
    return NULL;
}

START_TEST(many_threads_share_a_client_with_a_progress_thread)
{
    struct ps_client_options o = {.progress_thread = 1, .spin_us = 10};
    ps_client *c = open_task(1, 0, &o);
    struct user users[3];
    pthread_t threads[3];
    float *out = client_floats(3000, 0);
    ps_var *v = client_declare(c, "w", 3000);

    for (int i = 0; i < 3; i++) {
        users[i] = (struct user){c, v, i};
        pthread_create(&threads[i], NULL, use_client, &users[i]);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    client_pull(c, v, out);
    check_all(out, 3000, -300);
    ps_client_close(c);
    free(out);
}
END_TEST

START_TEST(spinning_gives_the_same)
{
    struct ps_client_options o = {.spin_us = 2000};
    ps_client *c = open_task(1, 0, &o);

    train_a_little(c);
    ps_client_close(c);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("client");
    TCase *t = tcase_create("client");

    tcase_add_checked_fixture(t, client_setup, client_teardown);
    tcase_add_loop_test(t, push_and_pull_over_tcp_and_unix, 0, 2);
    tcase_add_test(t, push_pull_gives_the_value_after_the_update);
    tcase_add_test(t, started_operations_take_effect_in_order);
    tcase_add_test(t, small_push_is_held_behind_another_until_it_is_flushed);
    tcase_add_test(t, small_pull_is_held_behind_another_until_something_waits);
    tcase_add_test(t, pull_is_not_held_behind_pushes);
    tcase_add_test(t, only_changed_blocks_travel);
    tcase_add_test(t, cancelled_pull_leaves_its_buffer_alone);
    tcase_add_test(t, cancelled_push_counts_once_or_not_at_all);
    TCase *crash = tcase_create("crash");
    tcase_add_checked_fixture(crash, client_setup, client_teardown);
    tcase_add_loop_test(crash, every_push_counts_once_through_crashes, 0, 2);
    suite_add_tcase(s, crash);
    tcase_add_test(t, shard_that_lost_its_data_is_told_and_filled_anew);
    tcase_add_loop_test(t, a_client_leaves_signals_alone_and_lives_on_when_a_shard_dies, 0, 4);
    tcase_add_test(t, unreachable_shard_is_named_when_the_wait_ends);
    tcase_add_test(t, a_wait_in_parts_says_how_long_all_of_them_were);
    tcase_add_test(t, port_that_speaks_http_is_said_so);
    tcase_add_test(t, nobody_there_is_unreachable_and_silence_a_timeout);
    tcase_add_test(t, an_observer_does_not_wait_for_a_shard_that_is_not_there);
    tcase_add_test(t, many_variables_are_attached_to_in_the_order_of_their_names);
    tcase_add_test(t, an_observer_attaches_and_pulls);
    tcase_add_test(t, an_evaluator_waits_for_shards_that_start);
    tcase_add_test(t, address_may_be_a_name);
    tcase_add_test(t, shard_that_comes_late_is_waited_for);
    tcase_add_test(t, taken_index_is_refused_by_name_until_it_is_free);
    tcase_add_test(t, other_options_for_the_same_job_are_a_mismatch);
    tcase_add_test(t, shards_of_another_cluster_or_in_another_order_are_refused);
    tcase_add_test(t, bad_gradient_is_refused_with_a_sentence);
    tcase_add_test(t, other_declaration_is_a_mismatch_that_prints_both);
    tcase_add_test(t, wrong_arguments_are_invalid);
    tcase_add_test(t, sync_pull_waits_and_the_timeout_names_the_worker);
    tcase_add_test(t, barrier_waits_for_all_and_names_who_is_missing);
    tcase_add_test(t, lapsed_worker_is_told_and_rejoins_at_the_slowest_clock);
    tcase_add_test(t, goodbye_frees_the_others_at_once);
    tcase_add_loop_test(t, goodbye_waits_for_a_shard_that_starts_again, 0, 2);
    tcase_add_test(t, queries_are_json_by_the_protocols_names);
    tcase_add_test(t, a_list_of_workers_longer_than_a_report_is_whole);
    tcase_add_test(t, pages_of_a_report_are_handed_over_as_they_come);
    tcase_add_test(t, progress_thread_moves_things_while_the_caller_computes);
    tcase_add_test(t, many_threads_share_a_client_with_a_progress_thread);
    tcase_add_test(t, spinning_gives_the_same);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
