/* Shared memory between a worker and its shard: it is used where possible, and otherwise nothing else changes. And
 * intruders: a peer that writes there while psd reads gets nothing but the end of its own connection. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/include/psclient/psclient.h"
#include "common/core/base/base.h"
#include "common/core/wire/shm_offer.h"
#include "common/include/psclient/ps_compress.h"
#include "common/net/shm_ring.h"
#include "tests/system/far_loopback.h"
#include "tests/system/probe.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

enum { N = 70000 /* elements: a block of each size */, PUSHES = 50, RING = 256 * 1024, ROUNDS = 150 };

static const char *const usual[] = {"--cluster", "psd", NULL}; /* as probe.c has it */
static struct shards shards;
static struct ps_error error;

static void
shared_memory_start(uint32_t count, const char *const *more)
{
    shards_start_with(&shards, count, &(struct shards_options){.more = more});
}

static ps_client *
open_worker(const char *addresses, uint32_t task, const struct ps_client_options *o)
{
    ps_cluster *cluster;
    ps_client *c;

    ck_assert_int_eq(ps_cluster_from_list(addresses, 8, task, &cluster, &error), PS_OK);
    ck_assert_int_eq(ps_cluster_set_name(cluster, "psd", &error), PS_OK);
    ck_assert_msg(ps_client_open(cluster, o, &c, &error) == PS_OK, "%s", error.text);
    ps_cluster_free(cluster);
    return c;
}

static bool
all_are(int n, const float *value, float x)
{
    for (int i = 0; i < n; i++)
        if (value[i] != x)
            return false;
    return true;
}

/* Each push takes 1 of every element. */
static void
shared_memory_train(ps_client *c, const char *name)
{
    struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {N}};
    static float grad[N], value[N];
    const float *from = grad;
    float *to = value;
    ps_var *v;

    spec.optimizer = (struct ps_optimizer){.kind = PS_SGD, .learning_rate = 1};
    for (int i = 0; i < N; i++)
        grad[i] = 1;
    ck_assert_int_eq(ps_client_declare(c, &spec, &v, &error), PS_OK);
    for (int i = 1; i <= PUSHES; i++) {
        ck_assert_int_eq(ps_client_push(c, 1, &v, &from, NULL, &error), PS_OK);
        ck_assert_int_eq(ps_client_pull(c, 1, &v, &to, NULL, &error), PS_OK);
        ck_assert(all_are(N, value, (float)-i));
    }
}

START_TEST(memory_is_shared_over_tcp_and_unix_sockets)
{
    ps_client *c;

    shared_memory_start(2, usual);
    c = open_worker(_i == 0 ? shards.addresses : shards.sockets, 0, NULL);
    ck_assert_int_gt(shards_maps(), 0);
    shared_memory_train(c, "w");
    ps_client_close(c);
    ck_assert_int_eq(shards_maps(), 0);
}
END_TEST

START_TEST(who_does_not_want_it_has_none)
{
    struct ps_client_options o = {.transport = _i == 0 ? PS_TRANSPORT_TCP : PS_TRANSPORT_AUTO};
    ps_client *c;

    shared_memory_start(1, usual);
    if (_i == 1)
        setenv("PSD_TRANSPORT", "tcp", 1);
    c = open_worker(shards.addresses, 0, &o);
    ck_assert_int_eq(shards_maps(), 0);
    shared_memory_train(c, "w");
    ps_client_close(c);
    unsetenv("PSD_TRANSPORT");
}
END_TEST

START_TEST(an_unknown_word_in_the_environment_is_refused)
{
    ps_cluster *cluster;
    ps_client *c;

    shared_memory_start(1, usual);
    setenv("PSD_TRANSPORT", "pigeon", 1);
    ck_assert_int_eq(ps_cluster_from_list(shards.addresses, 1, 0, &cluster, &error), PS_OK);
    ck_assert_int_eq(ps_client_open(cluster, NULL, &c, &error), PS_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(error.text, "pigeon"));
    unsetenv("PSD_TRANSPORT");
    setenv("PSD_TIMELINE", "of", 1);
    ck_assert_int_eq(ps_client_open(cluster, NULL, &c, &error), PS_ERR_CONFIG);
    ck_assert_str_eq(error.text, "PSD_TIMELINE is 'of'; it may be on or off");
    unsetenv("PSD_TIMELINE");
    ps_cluster_free(cluster);
}
END_TEST

START_TEST(a_shard_shares_with_as_many_as_it_is_told)
{
    static const char *const more[] = {"--cluster", "psd", "--shared-max", "1", NULL};
    ps_client *first, *second;
    int maps;

    shared_memory_start(1, more);
    first = open_worker(shards.addresses, 0, NULL);
    ck_assert_int_gt(maps = shards_maps(), 0);
    second = open_worker(shards.addresses, 1, NULL);
    ck_assert_int_eq(shards_maps(), maps);
    shared_memory_train(second, "w");
    ps_client_close(first);
    ps_client_close(second);
}
END_TEST

START_TEST(a_worker_shares_again_with_a_shard_that_was_killed)
{
    ps_client *c;

    shared_memory_start(1, usual);
    c = open_worker(shards.addresses, 0, NULL);
    shared_memory_train(c, "v");
    shards_kill(&shards, 0);
    shards_restart(&shards, 0);
    shared_memory_train(c, "w");
    ck_assert_int_gt(shards_maps(), 0);
    ps_client_close(c);
}
END_TEST

/* ---- Intruders ---- */

struct intruder {
    struct probe probe;
    struct shm_ring share;
};

static bool
shared_memory_offer(struct probe *p, const struct shm_offer *o)
{
    uint8_t frame[SHM_OFFER_FRAME_MAX], in[FRAME_HEAD_SIZE + 8];
    size_t got = 0;

    probe_send_bytes(p, frame, shm_offer_encode(o, frame));
    while (got < sizeof in) {
        ssize_t n = read(p->fd, in + got, sizeof in - got);

        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    ck_assert_int_eq(in[6], MSG_SHARED);
    return in[FRAME_HEAD_SIZE] == 1;
}

static void
shared_memory_intrude(struct intruder *x)
{
    struct shm_offer o = {.pid = (uint32_t)getpid()};

    ck_assert(probe_connect(&x->probe, shards.address[0]));
    ck_assert_int_eq(shm_ring_make(&x->share, RING, &error), PS_OK);
    o.fd = (uint32_t)x->share.fd;
    o.token = x->share.token;
    ck_assert(shared_memory_offer(&x->probe, &o));
}

static void
shared_memory_leave(struct intruder *x)
{
    probe_close(&x->probe);
    shm_ring_finish(&x->share);
}

static void
still_serves(void)
{
    ps_client *c = open_worker(shards.addresses, 7, NULL);

    shared_memory_train(c, "still");
    ps_client_close(c);
}

START_TEST(memory_that_is_not_there_is_done_without)
{
    struct shm_ring s;
    struct probe p;

    shared_memory_start(1, usual);
    ck_assert_int_eq(shm_ring_make(&s, RING, &error), PS_OK);
    ck_assert(probe_connect(&p, shards.address[0]));
    ck_assert(!shared_memory_offer(&p, &(struct shm_offer){(uint32_t)getpid(), (uint32_t)s.fd, s.token ^ 2}));
    ck_assert(probe_hello(&p, -1, 5, false)); /* by the socket */
    probe_close(&p);
    ck_assert(probe_connect(&p, shards.address[0]));
    ck_assert(!shared_memory_offer(&p, &(struct shm_offer){(uint32_t)getpid(), 0, s.token})); /* another file */
    ck_assert(!shared_memory_offer(
        &p, &(struct shm_offer){(uint32_t)getpid(), (uint32_t)s.fd, s.token})); /* once is enough */
    ck_assert(!probe_receive(&p));
    probe_close(&p);
    shm_ring_finish(&s);
    still_serves();
}
END_TEST

/* A shard takes no memory from a peer on another machine, and looks at none. */
START_TEST(an_offer_from_elsewhere_is_refused)
{
    ps_client *c;

    if (!far_loopback_enter()) {
        fprintf(stderr, "# skipped: no network namespace here\n");
        return;
    }
    shared_memory_start(1, usual);
    c = open_worker(shards.addresses, 0, NULL);
    ck_assert_int_eq(shards_maps(), 0);
    shared_memory_train(c, "w");
    ps_client_close(c);
    c = open_worker(shards.sockets, 1, NULL);
    ck_assert_int_gt(shards_maps(), 0);
    ps_client_close(c);
}
END_TEST

/* psd as a session leader without a terminal, as a container's is. */
static void
lead_a_session(void)
{
    const char *psd = getenv("PSD_BIN");
    static char script[] = "/tmp/psd-test-leader.XXXXXX";
    int fd = mkstemp(script);
    FILE *out;

    ck_assert(fd >= 0 && fchmod(fd, 0700) == 0 && (out = fdopen(fd, "w")) != NULL);
    fprintf(out, "#!/bin/sh\nexec setsid '%s' \"$@\"\n", psd != NULL ? psd : "build/server/psd");
    fclose(out);
    setenv("PSD_BIN", script, 1);
}

/* Fields of /proc/PID/stat behind the name: state, parent, group, session, controlling terminal. */
static void
look_at_session(pid_t pid, int *session, int *terminal)
{
    char path[64], text[1024];
    FILE *in;

    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    ck_assert_ptr_nonnull(in = fopen(path, "r"));
    ck_assert_ptr_nonnull(fgets(text, sizeof text, in));
    fclose(in);
    ck_assert_int_eq(sscanf(strrchr(text, ')') + 1, " %*c %*d %*d %d %d", session, terminal), 2);
}

START_TEST(a_terminal_that_is_offered_controls_nobody)
{
    struct shm_offer o = {.pid = (uint32_t)getpid(), .token = 1};
    int session, terminal, master, slave;
    struct probe p;

    lead_a_session();
    shared_memory_start(1, usual);
    unlink(getenv("PSD_BIN"));
    look_at_session(shards.pids[0], &session, &terminal);
    ck_assert(session == shards.pids[0] && terminal == 0);
    master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(slave, 0);
    o.fd = (uint32_t)slave;
    ck_assert(probe_connect(&p, shards.address[0]));
    ck_assert(!shared_memory_offer(&p, &o));
    look_at_session(shards.pids[0], &session, &terminal);
    ck_assert_int_eq(terminal, 0);
    ck_assert_int_eq(write(master, "\003", 1), 1); /* ^C */
    probe_close(&p);
    close(slave);
    close(master);
    still_serves();
}
END_TEST

START_TEST(positions_that_cannot_be_end_the_connection)
{
    struct intruder x;

    shared_memory_start(1, usual);
    shared_memory_intrude(&x);
    shm_ring_put(&x.share, 3 * RING);
    (void)!write(x.probe.fd, "", 1);
    ck_assert_int_eq(read(x.probe.fd, &(char){0}, 1), 0);
    shared_memory_leave(&x);
    still_serves();
}
END_TEST

/* Frames into the ring, without waiting for answers. Returns the payload's place. */
static uint8_t *
put_frame(struct intruder *x, enum msg_type type, const ProtobufCMessage *m, const void *payload, size_t len)
{
    size_t head_len, pad = frame_pad(len);
    uint8_t *head = wire_encode_new(type, ++x->probe.request, m, len, &head_len), *at = shm_ring_in(&x->share);

    ck_assert_ptr_nonnull(head);
    ck_assert_uint_ge(shm_ring_space(&x->share), head_len + len + pad);
    memcpy(at, head, head_len);
    if (len > 0)
        memcpy(at + head_len, payload, len);
    memset(at + head_len + len, 0, pad);
    shm_ring_put(&x->share, head_len + len + pad);
    free(head);
    return at + head_len;
}

static void
put_hello(struct intruder *x, uint64_t incarnation)
{
    Psd__Hello hello;
    Psd__Job job;

    probe_hello_fill(&hello, &job, 0, incarnation);
    put_frame(x, MSG_HELLO, &hello.base, NULL, 0);
}

enum { SMALL = 1008, BATCH = 40 };

static struct {
    uint32_t good[SMALL], bad[SMALL];
    uint8_t *at[BATCH];
    atomic_bool over;
} scribbled;

/* Makes payloads that were valid when checked invalid, and valid again. */
static void *
shared_memory_scribble(void *arg)
{
    (void)arg;
    for (unsigned i = 0; !atomic_load(&scribbled.over); i++)
        for (int k = 0; k < BATCH; k++)
            memcpy(scribbled.at[k], i % 2 == 0 ? scribbled.bad : scribbled.good, sizeof scribbled.good);
    return NULL;
}

/* Gradients of 0, and NaN; as top-k, elements that are there, and some beyond the block's end. */
static void
shared_memory_draw(bool top_k)
{
    for (uint32_t i = 0; i < SMALL; i++) {
        scribbled.good[i] = 0;
        scribbled.bad[i] = 0x7fc00000;
    }
    for (uint32_t i = 0; i < SMALL / 2 && top_k; i++) {
        scribbled.good[i] = i > 0 ? i - 1 : (SMALL - 2) / 2;
        scribbled.bad[i] = i > 0 ? 0x7fffffff : (SMALL - 2) / 2;
    }
}

/* Many pushes to one block in one turn, raw or as top-k, while a thread writes over their payloads. */
static void
push_and_scribble(uint32_t var, uint64_t incarnation, bool top_k, bool durable)
{
    size_t len = top_k ? (size_t)4 * (1 + 2 * ((SMALL - 2) / 2)) : sizeof scribbled.good;
    uint32_t block = 0;
    struct intruder x;
    pthread_t thread;

    shared_memory_draw(top_k);
    shared_memory_intrude(&x);
    put_hello(&x, incarnation);
    for (uint32_t i = 0; i < BATCH; i++) {
        Psd__Push push = PSD__PUSH__INIT;

        push.seq = i + 1;
        push.n_var = push.n_block = 1;
        push.var = &var;
        push.block = &block;
        push.durable = durable;
        push.encoding = top_k ? PS_COMPRESS_TOP_K : PS_COMPRESS_NONE;
        scribbled.at[i] = put_frame(&x, MSG_PUSH, &push.base, scribbled.good, len);
    }
    atomic_store(&scribbled.over, false);
    ck_assert_int_eq(pthread_create(&thread, NULL, shared_memory_scribble, NULL), 0);
    (void)!write(x.probe.fd, "", 1);
    while (shm_ring_space(&x.share) < RING * 3 / 4 && recv(x.probe.fd, &(char){0}, 1, MSG_DONTWAIT) != 0)
        usleep(10);
    atomic_store(&scribbled.over, true);
    pthread_join(thread, NULL);
    shared_memory_leave(&x);
}

START_TEST(who_writes_while_psd_reads_harms_nobody)
{
    float value[SMALL];
    struct probe p;
    uint32_t var;

    shards_start_with(&shards, 1, &(struct shards_options){.more = usual, .durable = true});
    ck_assert(probe_connect(&p, shards.address[0]));
    ck_assert(probe_hello(&p, 1, 5, false));
    var = probe_declare(&p, "w", SMALL);
    for (uint64_t round = 0; round < ROUNDS; round++)
        push_and_scribble(var, 100 + round, round % 3 == 1, round % 3 == 2);
    probe_close(&p); /* it was notified of all workers that came and went */
    ck_assert(probe_connect(&p, shards.address[0]));
    ck_assert(probe_hello(&p, 2, 6, false));
    ck_assert_uint_gt(probe_pull(&p, var, 0, value, SMALL), ROUNDS);
    ck_assert(all_are(SMALL, value, 0));
    probe_close(&p);
    still_serves();
}
END_TEST

static void
shared_memory_teardown(void)
{
    shards_stop(&shards);
}

static Suite *
make_suite(void)
{
    Suite *s = suite_create("shared_memory");
    TCase *t = tcase_create("shared_memory");

    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, NULL, shared_memory_teardown);
    tcase_add_loop_test(t, memory_is_shared_over_tcp_and_unix_sockets, 0, 2);
    tcase_add_loop_test(t, who_does_not_want_it_has_none, 0, 2);
    tcase_add_test(t, an_unknown_word_in_the_environment_is_refused);
    tcase_add_test(t, a_shard_shares_with_as_many_as_it_is_told);
    tcase_add_test(t, a_worker_shares_again_with_a_shard_that_was_killed);
    tcase_add_test(t, memory_that_is_not_there_is_done_without);
    tcase_add_test(t, an_offer_from_elsewhere_is_refused);
    tcase_add_test(t, a_terminal_that_is_offered_controls_nobody);
    tcase_add_test(t, positions_that_cannot_be_end_the_connection);
    tcase_add_test(t, who_writes_while_psd_reads_harms_nobody);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
