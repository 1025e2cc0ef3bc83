/* What peers may hold of a psd: memory and time of others. Each test has a member that trains on while the peers do
 * their worst. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/include/psclient/psclient.h"
#include "common/core/wire/shm_offer.h"
#include "common/net/shm_ring.h"
#include "tests/now.h"
#include "tests/sanitized.h"
#include "tests/system/fine.h"
#include "tests/system/proven_probe.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

#define SECRET "0123456789abcdef"
#define TOKENS "member:train:" SECRET "m\nother:train:" SECRET "o\nreader:read:" SECRET "r\nboss:admin:" SECRET "b\n"
#define MEMBER "member:" SECRET "m"
#define OTHER  "other:" SECRET "o"
#define READER "reader:" SECRET "r"

enum { ELEMENTS = 1 << 20, CROWD = 70, MANY = 600, DEADLINE_MS = 8000 };

static struct shards shards;
static char tokens[64];
static struct ps_error error;
static ps_client *member;
static ps_var *var;
static float *values;
static struct probe crowd[CROWD], many[MANY];
static int many_len;

static void
bounds_setup(void)
{
    FILE *out;

    unsetenv("PSD_TOKEN");
    unsetenv("PSD_TOKEN_FILE");
    snprintf(tokens, sizeof tokens, "/tmp/psd-bounds-XXXXXX");
    close(mkstemp(tokens));
    ck_assert_ptr_nonnull((out = fopen(tokens, "w")));
    fputs(TOKENS, out);
    fclose(out);
    ck_assert_int_eq(chmod(tokens, 0600), 0);
    member = NULL;
    memset(crowd, 0, sizeof crowd);
    for (int i = 0; i < CROWD; i++)
        crowd[i].fd = -1;
    ck_assert_ptr_nonnull((values = calloc(ELEMENTS, sizeof *values)));
}

static void
bounds_teardown(void)
{
    for (int i = 0; i < CROWD; i++)
        probe_close(&crowd[i]);
    for (int i = 0; i < many_len; i++)
        probe_close(&many[i]);
    many_len = 0;
    if (member != NULL)
        ps_client_close(member);
    shards_stop(&shards);
    unlink(tokens);
    free(values);
}

static void
bounds_start(const char *const *more)
{
    shards_start_with(&shards, 1, &(struct shards_options){.more = more, .log = true});
}

#define START(...)                                                                                                     \
    bounds_start((const char *const[]){"--log-level", "warning", "--tokens", tokens, ##__VA_ARGS__, NULL})

/* A variable of 4 MiB, through the socket. */
static void
bounds_join(void)
{
    struct ps_client_options o = {.token = MEMBER, .timeout_ms = DEADLINE_MS, .transport = PS_TRANSPORT_TCP};
    struct ps_var_spec spec = {.name = "w", .rank = 1, .dims = {ELEMENTS}, .optimizer = {.learning_rate = 1}};
    ps_cluster *cluster;

    FINE(ps_cluster_from_list(shards.addresses, 1, 0, &cluster, &error));
    FINE(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error));
    FINE(ps_client_open(cluster, &o, &member, &error));
    ps_cluster_free(cluster);
    FINE(ps_client_declare(member, &spec, &var, &error));
}

/* A step of the member, within its deadline. */
static void
bounds_train(void)
{
    FINE(ps_client_push(member, 1, &var, (const float *[]){values}, NULL, &error));
    FINE(ps_client_tick(member, &error));
    FINE(ps_client_pull(member, 1, &var, (float *[]){values}, NULL, &error));
}

/* The head of a message, of which nothing else comes. */
static void
bounds_begin(struct probe *p, enum msg_type type, uint32_t meta_len, uint64_t payload_len)
{
    struct frame_head head = {.version = FRAME_VERSION,
                              .type = (uint16_t)type,
                              .meta_len = meta_len,
                              .payload_len = payload_len,
                              .request = 9};
    uint8_t bytes[FRAME_HEAD_SIZE + 8] = {0};

    frame_head_encode(&head, bytes);
    probe_send_bytes(p, bytes, sizeof bytes);
}

/* It is sent this error, and its connection ends. */
static void
bounds_refused(struct probe *p, enum ps_err code, const char *text)
{
    while (probe_receive(p))
        if (p->msg.type == MSG_ERROR) {
            ck_assert_msg(p->msg.u.error->code == (uint32_t)code, "%s", p->msg.u.error->text);
            ck_assert_msg(strstr(p->msg.u.error->text, text) != NULL, "%s", p->msg.u.error->text);
            ck_assert(!probe_receive(p));
            return;
        }
    ck_abort_msg("it was closed without a reason");
}

/* ---- What is refused at its head ---- */

START_TEST(what_a_peer_may_not_send_is_refused_at_its_head)
{
    static const struct {
        const char *token;
        int task;
        enum msg_type type;
        uint32_t meta_len;
        uint64_t payload_len;
        enum ps_err code;
        const char *text;
    } heads[] = {
        {READER, -1, MSG_PUSH, 8, FRAME_PAYLOAD_MAX, PS_ERR_PROTOCOL, "a push is not allowed from an observer"},
        {READER, -1, MSG_DECLARE, 64 * KIB, 0, PS_ERR_PROTOCOL, "a declare is not allowed from an observer"},
        {READER, -1, MSG_SET, 64 * KIB, 0, PS_ERR_DENIED, "a set takes role admin"},
        {READER, -1, MSG_SET, 64 * KIB, FRAME_PAYLOAD_MAX, PS_ERR_DENIED, "a set takes role admin"},
        {READER, -1, MSG_PULL, 64 * KIB, FRAME_PAYLOAD_MAX, PS_ERR_PROTOCOL, "a pull has no payload"},
        {OTHER, 1, MSG_TICK, 16, FRAME_PAYLOAD_MAX, PS_ERR_PROTOCOL, "a tick has no payload"},
        {OTHER, 1, MSG_WELCOME, 64 * KIB, 0, PS_ERR_PROTOCOL, "a welcome is not allowed from a worker"},
        {OTHER, 1, MSG_GROUP_DATA, 64 * KIB, FRAME_PAYLOAD_MAX, PS_ERR_PROTOCOL, "is not taken here"},
    };

    START();
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        proven_probe_enter(&crowd[0], shards.addresses, SHARDS_CLUSTER, heads[i].token, heads[i].task, CROWD);
        bounds_begin(&crowd[0], heads[i].type, heads[i].meta_len, heads[i].payload_len);
        bounds_refused(&crowd[0], heads[i].code, heads[i].text);
        probe_close(&crowd[0]);
    }
}
END_TEST

START_TEST(a_hello_is_small)
{
    enum ps_err why;

    START();
    ck_assert(proven_probe_connect(&crowd[0], shards.addresses, SHARDS_CLUSTER, OTHER, &why));
    bounds_begin(&crowd[0], MSG_HELLO, FRAME_META_MAX, 0);
    bounds_refused(&crowd[0], PS_ERR_PROTOCOL, "the limit is 16384");
}
END_TEST

/* ---- Half messages ---- */

static void
bounds_crowd(const char *token, bool workers, enum msg_type type, uint32_t meta_len, uint64_t payload_len)
{
    for (int i = 0; i < CROWD; i++) {
        proven_probe_enter(&crowd[i], shards.addresses, SHARDS_CLUSTER, token, workers ? i : -1, CROWD);
        bounds_begin(&crowd[i], type, meta_len, payload_len);
    }
}

START_TEST(half_pushes_of_readers_keep_nobody_waiting)
{
    START("--in-flight", "16MiB", "--in-flight-connection", "8MiB");
    bounds_join();
    bounds_crowd(READER, false, MSG_PUSH, 8, FRAME_PAYLOAD_MAX);
    bounds_train();
}
END_TEST

/* They wait for one another, and long enough for this test. */
START_TEST(half_messages_of_one_identity_keep_no_other_waiting)
{
    static const struct {
        const char *token;
        bool workers;
        enum msg_type type;
        uint32_t meta_len;
        uint64_t payload_len;
    } halves[] = {{OTHER, true, MSG_PUSH, 8, FRAME_PAYLOAD_MAX},
                  {OTHER, true, MSG_PUSH, FRAME_META_MAX, 0},
                  {OTHER, false, MSG_PULL, FRAME_META_MAX, 0},
                  {READER, false, MSG_PULL, FRAME_META_MAX, 0}};

    START("--in-flight", "16MiB", "--in-flight-connection", "8MiB", "--frame-timeout", "1h");
    bounds_join();
    bounds_crowd(halves[_i].token, halves[_i].workers, halves[_i].type, halves[_i].meta_len, halves[_i].payload_len);
    bounds_train();
}
END_TEST

/* It moves, but does not come. */
START_TEST(a_trickle_ends_when_others_wait_for_memory)
{
    uint64_t until = now_ms() + DEADLINE_MS;
    int moved = 0;

    START("--in-flight", "8MiB", "--in-flight-connection", "8MiB", "--frame-timeout", "200ms");
    bounds_crowd(MEMBER, true, MSG_PUSH, 8, FRAME_PAYLOAD_MAX);
    while (!shards_said(&shards, 0, "within --frame-timeout while others waited") && now_ms() < until) {
        for (int i = 0; i < CROWD; i++)
            moved += send(crowd[i].fd, "12345678", 8, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
        usleep(10000);
    }
    ck_assert_int_gt(moved, CROWD);
    bounds_refused(&crowd[0], PS_ERR_LIMIT, "--frame-timeout");
}
END_TEST

/* 512 KiB at 200 KiB/s, which take longer than --frame-timeout, and while others wait for what they hold. */
START_TEST(a_message_over_a_slow_network_comes_whole_while_others_wait)
{
    enum { BLOCKS = 2, PIECE = 16 * KIB, PIECES = 32 };
    static const uint8_t piece[PIECE];
    Psd__Push push = PSD__PUSH__INIT;
    uint8_t *head;
    uint32_t id;
    size_t len;

    START("--in-flight", "8MiB", "--in-flight-connection", "8MiB", "--frame-timeout", "1s");
    proven_probe_enter(&crowd[0], shards.addresses, SHARDS_CLUSTER, MEMBER, 0, CROWD);
    id = probe_declare(&crowd[0], "slow", PIECES * PIECE / sizeof(float));
    push.seq = 1;
    push.n_var = push.n_block = BLOCKS;
    push.var = (uint32_t[]){id, id};
    push.block = (uint32_t[]){0, 1};
    ck_assert_ptr_nonnull(head = wire_encode_new(MSG_PUSH, 1, &push.base, PIECES * PIECE, &len));
    probe_send_bytes(&crowd[0], head, len);
    free(head);
    for (int i = 1; i < 4; i++) {
        proven_probe_enter(&crowd[i], shards.addresses, SHARDS_CLUSTER, MEMBER, i, CROWD);
        bounds_begin(&crowd[i], MSG_PUSH, 8, FRAME_PAYLOAD_MAX);
    }
    for (int i = 0; i < PIECES; i++) {
        usleep(80000);
        probe_send_bytes(&crowd[0], piece, PIECE);
    }
    ck_assert(probe_receive(&crowd[0]));
    ck_assert_int_eq(crowd[0].msg.type, MSG_ACK);
    bounds_refused(&crowd[1], PS_ERR_LIMIT, "--frame-timeout"); /* it got what the slow one left */
}
END_TEST

START_TEST(a_slow_message_may_take_its_time_while_nobody_waits)
{
    static const uint8_t byte[1024];
    Psd__Push push = PSD__PUSH__INIT;
    uint32_t id;
    uint8_t *head;
    size_t len;

    START("--frame-timeout", "1ms");
    proven_probe_enter(&crowd[0], shards.addresses, SHARDS_CLUSTER, OTHER, 0, 1);
    id = probe_declare(&crowd[0], "slow", 1000);
    push.seq = 1;
    push.n_var = push.n_block = 1;
    push.var = &id;
    push.block = (uint32_t[]){0};
    ck_assert_ptr_nonnull(head = wire_encode_new(MSG_PUSH, 1, &push.base, 4000, &len));
    probe_send_bytes(&crowd[0], head, len);
    free(head);
    for (int i = 0; i < 4; i++) {
        usleep(400000); /* housekeeping looks once a second */
        probe_send_bytes(&crowd[0], byte, 1000);
    }
    ck_assert(probe_receive(&crowd[0]));
    ck_assert_int_eq(crowd[0].msg.type, MSG_ACK);
}
END_TEST

/* ---- Memory ---- */

/* With these sizes, and 64 MiB for the rest, the guide's sum. Of --memory, which is 64 MiB, only what a few variables
 * take is in use. */
#define SMALL "--in-flight", "16MiB", "--in-flight-connection", "8MiB", "--gather-memory", "1MiB", "--memory", "64MiB"
enum { SUM_KIB = (16 + 1 + 64 + 16) * 1024 };

/* The most memory that psd had at any time, in KiB. */
static long
bounds_peak_kib(void)
{
    char path[64], line[256];
    long kib = -1;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/status", shards.pids[0]);
    ck_assert_ptr_nonnull((f = fopen(path, "r")));
    while (fgets(line, sizeof line, f) != NULL)
        (void)sscanf(line, "VmHWM: %ld kB", &kib);
    fclose(f);
    ck_assert_int_gt(kib, 0);
    return kib;
}

/* Through a Unix socket, where the kernel keeps little of what is not fetched. */
static struct probe *
bounds_another(const char *token, int task)
{
    struct probe *p = &many[many_len++];

    proven_probe_enter(p, shards.sockets, SHARDS_CLUSTER, token, task, MANY);
    return p;
}

/* As much of it as psd takes without waiting. False: not all. */
static bool
bounds_push_bytes(struct probe *p, const void *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = send(p->fd, (const char *)bytes + at, len - at, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* Readers ask for 4 MiB each, four times, and fetch nothing. */
static void
bounds_do_not_read(int n)
{
    uint32_t vars[16], blocks[16];
    Psd__Pull pull = PSD__PULL__INIT;

    pull.var = vars;
    pull.block = blocks;
    pull.n_var = pull.n_block = 16;
    for (uint32_t i = 0; i < 16; i++) {
        vars[i] = 1;
        blocks[i] = i;
    }
    for (int i = 0; i < n; i++) {
        struct probe *p = bounds_another(i % 2 == 0 ? READER : OTHER, -1);

        for (int k = 0; k < 4; k++)
            probe_send(p, MSG_PULL, &pull.base, NULL, 0);
    }
}

/* Pings without end, of which no answer is fetched. */
static void
bounds_flood(int n)
{
    Psd__Ping ping = PSD__PING__INIT;
    uint8_t *flood, *one;
    size_t len, times = 40000;

    ping.token = 5;
    ck_assert_ptr_nonnull(one = wire_encode_new(MSG_PING, 1, &ping.base, 0, &len));
    ck_assert_ptr_nonnull(flood = malloc(len * times));
    for (size_t i = 0; i < times; i++)
        memcpy(flood + i * len, one, len);
    for (int i = 0; i < n; i++) {
        struct probe *p = bounds_another(READER, -1);

        (void)bounds_push_bytes(p, flood, len * times);
    }
    free(flood);
    free(one);
}

/* Metadata that does not end. */
static void
bounds_half_metadata(int n)
{
    static const uint8_t half[200 * KIB];

    for (int i = 0; i < n; i++) {
        struct probe *p = bounds_another(i % 2 == 0 ? READER : OTHER, -1);

        bounds_begin(p, MSG_PULL, FRAME_META_MAX, 0);
        (void)bounds_push_bytes(p, half, sizeof half);
    }
}

/* A worker of a job in ssp, at a clock that the slowest one never comes to. */
static struct probe *
bounds_ahead(int task, uint64_t clock)
{
    struct probe *p = &many[many_len++];
    Psd__Tick tick = PSD__TICK__INIT;
    enum ps_err why;
    Psd__Hello hello;
    Psd__Job job;

    ck_assert(proven_probe_connect(p, shards.sockets, SHARDS_CLUSTER, OTHER, &why));
    probe_hello_fill(&hello, &job, task, (uint64_t)task + 1);
    hello.cluster = (char *)(uintptr_t)SHARDS_CLUSTER;
    job.name = (char *)(uintptr_t) "ahead";
    job.mode = PSD__MODE__SSP;
    job.workers = job.quorum = MANY;
    probe_send(p, MSG_HELLO, &hello.base, NULL, 0);
    ck_assert(probe_receive(p) && p->msg.type == MSG_WELCOME);
    if (clock == 0)
        return p;
    tick.seq = ++p->seq;
    tick.clock = clock;
    probe_send(p, MSG_TICK, &tick.base, NULL, 0);
    ck_assert(probe_receive(p) && p->msg.type == MSG_ACK);
    return p;
}

/* Pulls that wait, with as many blocks as one may name: 128 KiB each. Some are refused. */
static void
bounds_park(int n)
{
    static uint32_t vars[WIRE_BLOCKS_MAX], blocks[WIRE_BLOCKS_MAX];
    struct probe *slowest = bounds_ahead(0, 0);
    Psd__Pull pull = PSD__PULL__INIT;
    Psd__Ping ping = PSD__PING__INIT;
    uint32_t var_id = probe_declare(slowest, "tiny", 4);
    int refused = 0;

    for (size_t i = 0; i < WIRE_BLOCKS_MAX; i++)
        vars[i] = var_id;
    pull.var = vars;
    pull.block = blocks;
    pull.n_var = pull.n_block = WIRE_BLOCKS_MAX;
    pull.clock = 5;
    for (int i = 1; i <= n; i++) {
        struct probe *p = bounds_ahead(i, 5);

        for (int k = 0; k < 100; k++)
            probe_send(p, MSG_PULL, &pull.base, NULL, 0);
        probe_send(p, MSG_PING, &ping.base, NULL, 0);
        while (probe_receive(p) && p->msg.type == MSG_ERROR) {
            ck_assert_uint_eq(p->msg.u.error->code, PS_ERR_LIMIT);
            refused++;
        }
        ck_assert_int_eq(p->msg.type, MSG_PONG);
    }
    ck_assert_int_gt(refused, 0);
}

/* Offers memory with rings of this size. False: psd does not take it. */
static bool
bounds_offer(size_t ring_bytes, struct shm_ring *ring)
{
    struct probe *p = &many[many_len++];
    uint8_t frame[SHM_OFFER_FRAME_MAX];
    struct frame_head head;
    enum ps_err why;
    bool yes;

    ck_assert(proven_probe_connect(p, shards.sockets, SHARDS_CLUSTER, READER, &why));
    ck_assert_msg(shm_ring_make(ring, ring_bytes, &error) == PS_OK, "%s", error.text);
    probe_send_bytes(
        p, frame,
        shm_offer_encode(&(struct shm_offer){.pid = (uint32_t)getpid(), .fd = (uint32_t)ring->fd, .token = ring->token},
                         frame));
    ck_assert_int_eq(recv(p->fd, frame, FRAME_HEAD_SIZE, MSG_WAITALL), FRAME_HEAD_SIZE);
    ck_assert_int_eq(frame_head_decode(frame, &head, &error), PS_OK);
    ck_assert_int_eq(recv(p->fd, frame, head.meta_len + frame_pad(head.meta_len), MSG_WAITALL),
                     (ssize_t)(head.meta_len + frame_pad(head.meta_len)));
    ck_assert_int_eq(shm_answer_decode(&head, frame, &yes, &error), PS_OK);
    return yes;
}

/* Large ones never are; of those that clients use, so many as fit half of --in-flight. */
static int
bounds_offer_rings(void)
{
    static struct shm_ring rings[16];
    int taken = 0;

    ck_assert(!bounds_offer(SHM_RING_MAX, &rings[0]));
    shm_ring_finish(&rings[0]);
    ck_assert(!bounds_offer(2 * MIB, &rings[0]));
    shm_ring_finish(&rings[0]);
    for (size_t i = 0; i < ARRAY_LEN(rings); i++) {
        taken += bounds_offer(1 * MIB, &rings[i]);
        shm_ring_finish(&rings[i]);
    }
    return taken;
}

START_TEST(memory_that_is_shared_counts)
{
    START(SMALL);
    bounds_join();
    ck_assert_int_eq(bounds_offer_rings(), 4);
    bounds_train();
    for (int i = 0; i < many_len; i++)
        probe_close(&many[i]);
    many_len = 0;
    bounds_train();
    while (bounds_offer_rings() == 0) /* until psd has seen that they are gone */
        continue;
}
END_TEST

START_TEST(memory_stays_below_the_sum)
{
    START(SMALL);
    bounds_join();
    if (_i == 3 || _i == 4) /* first: it fetches its answers, and waits for its identity's memory */
        bounds_park(12);
    if (_i == 4)
        (void)bounds_offer_rings();
    if (_i == 0 || _i == 4)
        bounds_do_not_read(_i == 0 ? 100 : 60);
    if (_i == 1 || _i == 4)
        bounds_flood(_i == 1 ? 200 : 60);
    if (_i == 2 || _i == 4)
        bounds_half_metadata(_i == 2 ? MANY : 100);
    bounds_train();
    usleep(50000); /* after CONN_PIN_MS what was not fetched is copied */
    bounds_train();
    fprintf(stderr, "# %ld of %d KiB\n", bounds_peak_kib(), SUM_KIB);
    if (!SANITIZED_ADDRESS)
        ck_assert_msg(bounds_peak_kib() <= SUM_KIB, "%ld of %d KiB", bounds_peak_kib(), SUM_KIB);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("bounds");
    TCase *t = tcase_create("bounds");

    tcase_add_checked_fixture(t, bounds_setup, bounds_teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, what_a_peer_may_not_send_is_refused_at_its_head);
    tcase_add_test(t, a_hello_is_small);
    tcase_add_test(t, half_pushes_of_readers_keep_nobody_waiting);
    tcase_add_loop_test(t, half_messages_of_one_identity_keep_no_other_waiting, 0, 4);
    tcase_add_test(t, a_trickle_ends_when_others_wait_for_memory);
    tcase_add_test(t, a_message_over_a_slow_network_comes_whole_while_others_wait);
    tcase_add_test(t, a_slow_message_may_take_its_time_while_nobody_waits);
    tcase_add_test(t, memory_that_is_shared_counts);
    tcase_add_loop_test(t, memory_stays_below_the_sum, 0, 5);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
