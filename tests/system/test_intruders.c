/* Intruders against a real psd with tokens, and against a group of workers: they get nothing but an error, while the
 * real members work on.
 *
 * A shard holds a variable, a job and a cluster with names of their own; whatever an intruder receives is searched for
 * them. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/include/psclient/ps_group.h"
#include "client/include/psclient/psclient.h"
#include "common/core/auth/token_handshake.h"
#include "common/core/wire/shm_offer.h"
#include "server/access/access_policy.h"
#include "tests/now.h"
#include "tests/system/probe.h"
#include "tests/system/shard_processes.h"
#include "tests/unit/kits/check_main.h"

#define JOB      "hidden-job"
#define VARIABLE "hidden-variable"
#define SECRET   "0123456789abcdef"
#define TOKENS   "w:train:" SECRET "w\nx:train:" SECRET "x\nr:read:" SECRET "r\nboss:admin:" SECRET "b\n"

static struct shards shards;
static char tokens[64];
static struct ps_error error;
static ps_client *member; /* a client with a valid token */

/* ---- Real members ---- */

static void
write_tokens(const char *text)
{
    FILE *out = fopen(tokens, "w");

    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    fclose(out);
    ck_assert_int_eq(chmod(tokens, 0600), 0);
}

static void
intruders_start(const char *const *more)
{
    shards_start_with(&shards, 1, &(struct shards_options){.more = more, .log = true});
}

#define START(...)                                                                                                     \
    intruders_start((const char *const[]){"--log-level", "info", "--tokens", tokens, ##__VA_ARGS__, NULL})

static enum ps_err
open_client(const char *addresses, const char *token, bool observer, ps_client **out)
{
    struct ps_client_options o = {.job = JOB, .token = token, .observer = observer, .timeout_ms = 60000};
    ps_cluster *cluster;
    enum ps_err err;

    ck_assert_int_eq(ps_cluster_from_list(addresses, 1, 0, &cluster, &error), PS_OK);
    ck_assert_int_eq(ps_cluster_set_name(cluster, SHARDS_CLUSTER, &error), PS_OK);
    err = ps_client_open(cluster, &o, out, &error);
    ps_cluster_free(cluster);
    return err;
}

static enum ps_err
intruders_declare(ps_client *c, const char *name)
{
    struct ps_var_spec spec = {.name = name, .rank = 1, .dims = {4}};
    ps_var *var;

    ck_assert_int_eq(ps_optimizer_parse("sgd:learning_rate=1", &spec.optimizer, &error), PS_OK);
    return ps_client_declare(c, &spec, &var, &error);
}

static void
intruders_join(void)
{
    ck_assert_msg(open_client(shards.addresses, "w:" SECRET "w", false, &member) == PS_OK, "%s", error.text);
    ck_assert_msg(intruders_declare(member, VARIABLE) == PS_OK, "%s", error.text);
}

static void
intruders_setup(void)
{
    unsetenv("PSD_TOKEN");
    unsetenv("PSD_TOKEN_FILE");
    setenv("PSD_CLUSTER", SHARDS_CLUSTER, 1);
    snprintf(tokens, sizeof tokens, "/tmp/psd-intruders-XXXXXX");
    close(mkstemp(tokens));
    write_tokens(TOKENS);
    member = NULL;
}

static void
intruders_teardown(void)
{
    if (member != NULL)
        ps_client_close(member);
    shards_stop(&shards);
    unlink(tokens);
}

/* ---- Intruders ---- */

static struct probe
intruders_intruder(const char *address)
{
    struct probe p;

    ck_assert(probe_connect(&p, address));
    return p;
}

static void
say_frame(struct probe *p, unsigned type, size_t meta_len, size_t payload_len)
{
    static const uint8_t zeros[4096];
    struct frame_head head = {.version = FRAME_VERSION,
                              .type = (uint16_t)type,
                              .meta_len = (uint32_t)meta_len,
                              .payload_len = payload_len,
                              .request = 1};
    uint8_t bytes[FRAME_HEAD_SIZE];

    frame_head_encode(&head, bytes);
    probe_send_bytes(p, bytes, sizeof bytes);
    probe_send_bytes(p, zeros, MIN(meta_len, sizeof zeros));
}

/* All that arrives up to the end: at most one frame, ERROR with this code, which reveals nothing; PS_OK: nothing. */
static void
intruders_hears(struct probe *p, enum ps_err code)
{
    static const char *const secrets[] = {JOB, VARIABLE, SHARDS_CLUSTER, SECRET, "worker", "live"};
    uint8_t bytes[4096];
    struct frame_head head;
    struct wire_msg msg;
    size_t n = 0;
    ssize_t got;

    shutdown(p->fd, SHUT_WR);
    while ((got = recv(p->fd, bytes + n, sizeof bytes - n, 0)) > 0)
        n += (size_t)got;
    if (code == PS_OK) {
        ck_assert_uint_eq(n, 0);
        probe_close(p);
        return;
    }
    ck_assert_uint_ge(n, FRAME_HEAD_SIZE);
    ck_assert_int_eq(frame_head_decode(bytes, &head, &error), PS_OK);
    ck_assert_uint_eq(n, FRAME_HEAD_SIZE + head.meta_len + frame_pad(head.meta_len));
    ck_assert_uint_eq(head.type, MSG_ERROR);
    ck_assert_int_eq(wire_decode(&head, bytes + FRAME_HEAD_SIZE, &p->arena, &msg, &error), PS_OK);
    ck_assert_msg(msg.u.error->code == (uint32_t)code, "%u: %s", msg.u.error->code, msg.u.error->text);
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++)
        ck_assert_msg(memmem(bytes, n, secrets[i], strlen(secrets[i])) == NULL, "it hears '%s'", msg.u.error->text);
    probe_close(p);
}

/* One side of the proof, frame by frame. */
struct intruders_hand {
    struct probe p;
    struct token_handshake prelude;
    uint8_t knock[TOKEN_HANDSHAKE_FRAME_MAX], prove[TOKEN_HANDSHAKE_FRAME_MAX], proven[TOKEN_HANDSHAKE_FRAME_MAX];
    size_t knock_len, prove_len;
};

static void
hand_knock(struct intruders_hand *h, const char *token, enum role wanted, const char *address)
{
    struct token_handshake_own own = {.cluster = SHARDS_CLUSTER, .nonce = {1, 2, 3}};
    struct key key;

    h->p = intruders_intruder(address);
    ck_assert_int_eq(key_parse(&key, "test", token, strlen(token), &error), PS_OK);
    token_handshake_connect(&h->prelude, &key, wanted, &own);
    h->knock_len = token_handshake_knock(&h->prelude, h->knock);
}

/* The next frame of the handshake. */
static void
hand_read(struct intruders_hand *h, uint8_t *frame, struct frame_head *head)
{
    ck_assert_int_eq(recv(h->p.fd, frame, FRAME_HEAD_SIZE, MSG_WAITALL), FRAME_HEAD_SIZE);
    ck_assert_int_eq(frame_head_decode(frame, head, &error), PS_OK);
    ck_assert_int_eq(recv(h->p.fd, frame + FRAME_HEAD_SIZE, head->meta_len, MSG_WAITALL), (ssize_t)head->meta_len);
}

static void
hand_challenged(struct intruders_hand *h)
{
    struct frame_head head;
    uint8_t frame[TOKEN_HANDSHAKE_FRAME_MAX];

    probe_send_bytes(&h->p, h->knock, h->knock_len);
    hand_read(h, frame, &head);
    ck_assert_int_eq(token_handshake_take(&h->prelude, &head, frame + FRAME_HEAD_SIZE, h->prove, &h->prove_len, &error),
                     PS_OK);
}

static void
hand_through(struct intruders_hand *h, const char *token, enum role wanted, const char *address)
{
    struct frame_head head;
    uint8_t none[TOKEN_HANDSHAKE_FRAME_MAX];
    size_t len;

    hand_knock(h, token, wanted, address);
    hand_challenged(h);
    probe_send_bytes(&h->p, h->prove, h->prove_len);
    hand_read(h, h->proven, &head);
    ck_assert_msg(token_handshake_take(&h->prelude, &head, h->proven + FRAME_HEAD_SIZE, none, &len, &error) == PS_OK,
                  "%s", error.text);
}

/* ---- Without a token ---- */

static const unsigned firsts[] = {MSG_HELLO, MSG_QUERY, MSG_PING,  MSG_MEET,   MSG_DRAIN, MSG_SET,         MSG_RESTORE,
                                  MSG_EVICT, MSG_ERROR, MSG_SHARE, MSG_SHARED, MSG_PROVE, MSG_GROUP_HELLO, MSG_PROVEN};

START_TEST(who_has_no_token_hears_nothing)
{
    ps_client *c = NULL;
    struct probe p;

    START();
    intruders_join();
    for (size_t i = 0; i < ARRAY_LEN(firsts); i++) {
        p = intruders_intruder(shards.addresses);
        say_frame(&p, firsts[i], 16, 0);
        intruders_hears(&p, PS_ERR_DENIED);
    }
    p = intruders_intruder(shards.addresses);
    probe_send_bytes(&p, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 35);
    intruders_hears(&p, PS_OK);
    p = intruders_intruder(shards.addresses);
    probe_send_bytes(&p, "\x16\x03\x01\x02\x00\x01", 6);
    intruders_hears(&p, PS_OK);
    ck_assert_int_eq(open_client(shards.addresses, "", false, &c), PS_ERR_DENIED);
    ck_assert_ptr_nonnull(strstr(error.text, "PSD_TOKEN_FILE"));
}
END_TEST

START_TEST(large_frames_are_not_waited_for)
{
    static const struct {
        unsigned type;
        size_t meta_len, payload_len;
    } large[] = {
        {MSG_KNOCK, TOKEN_HANDSHAKE_META_MAX + 1, 0}, {MSG_HELLO, FRAME_META_MAX, 0}, {MSG_PUSH, 8, FRAME_PAYLOAD_MAX}};
    struct probe p;

    START();
    for (size_t i = 0; i < ARRAY_LEN(large); i++) {
        p = intruders_intruder(shards.addresses);
        say_frame(&p, large[i].type, large[i].meta_len, large[i].payload_len);
        intruders_hears(&p, PS_ERR_PROTOCOL);
    }
}
END_TEST

START_TEST(who_says_nothing_is_sent_away)
{
    struct intruders_hand h;
    struct probe p;

    START("--hello-timeout", "100ms");
    p = intruders_intruder(shards.addresses);
    ck_assert_int_ge(recv(p.fd, (uint8_t[1]){0}, 1, MSG_PEEK), 1);
    intruders_hears(&p, PS_ERR_TIMEOUT);
    hand_knock(&h, "w:" SECRET "w", ROLE_TRAIN, shards.addresses);
    hand_challenged(&h); /* and does not continue */
    ck_assert_int_ge(recv(h.p.fd, (uint8_t[1]){0}, 1, MSG_PEEK), 1);
    intruders_hears(&h.p, PS_ERR_TIMEOUT);
}
END_TEST

START_TEST(a_crowd_of_strangers_keeps_nobody_out)
{
    struct probe p[ACCESS_UNPROVEN_MAX + 20];

    START("--connections-max", "300");
    for (size_t i = 0; i < ARRAY_LEN(p); i++)
        p[i] = intruders_intruder(shards.addresses);
    intruders_join();
    intruders_hears(&p[0], PS_OK); /* the oldest was closed */
    for (size_t i = 1; i < ARRAY_LEN(p); i++)
        probe_close(&p[i]);
}
END_TEST

/* ---- With the wrong one ---- */

START_TEST(a_wrong_token_is_as_good_as_none)
{
    static const char *const wrong[] = {"w:" SECRET "W", "x:" SECRET "w", "r:" SECRET "w", "w:" SECRET "ww"};
    ps_client *c;

    START();
    intruders_join();
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        ck_assert_int_eq(open_client(shards.addresses, wrong[i], false, &c), PS_ERR_DENIED);
        ck_assert_ptr_nonnull(strstr(error.text, "is not accepted"));
    }
}
END_TEST

/* A proof of this token is on its way. */
static void
intruders_prove(struct intruders_hand *h, const char *token)
{
    hand_knock(h, token, ROLE_NONE, shards.addresses);
    hand_challenged(h);
    probe_send_bytes(&h->p, h->prove, h->prove_len);
}

/* What comes back; a proof that is right is answered by PROVEN. */
static enum ps_err
intruders_verdict(struct intruders_hand *h)
{
    enum ps_err code;

    ck_assert(probe_receive(&h->p));
    ck_assert_uint_eq(h->p.msg.type, MSG_ERROR);
    code = (enum ps_err)h->p.msg.u.error->code;
    probe_close(&h->p);
    return code;
}

enum { SLOW = 4, CROWD = ACCESS_ATTEMPTS_HELD + 16 };

static void
intruders_guess(int n)
{
    struct intruders_hand h;

    for (int i = 0; i < n; i++) {
        intruders_prove(&h, "w:" SECRET "W");
        ck_assert_int_eq(intruders_verdict(&h), PS_ERR_DENIED);
    }
}

/* Those who have the token that is guessed at, at the same address, wait a little; others do not wait. */
START_TEST(who_guesses_waits_longer_each_time)
{
    double began;
    ps_client *c;

    START();
    intruders_join();
    intruders_guess(ACCESS_ATTEMPTS_FREE + 1);
    began = now_s();
    intruders_guess(SLOW);
    ck_assert_double_ge(now_s() - began, (1 + 2 + 4 + 8) * ACCESS_ATTEMPTS_HOLD_MS / 1000.0);
    ck_assert_int_eq(intruders_declare(member, "more"), PS_OK);
    ck_assert_msg(open_client(shards.addresses, "r:" SECRET "r", true, &c) == PS_OK, "%s", error.text);
    ps_client_close(c);
    ck_assert_msg(open_client(shards.addresses, "w:" SECRET "w", true, &c) == PS_OK, "%s", error.text);
    ps_client_close(c);
}
END_TEST

START_TEST(few_guesses_wait_at_once)
{
    struct intruders_hand h[CROWD];
    ps_client *c;
    int unseen = 0;

    START();
    intruders_guess(ACCESS_ATTEMPTS_FREE + SLOW);
    for (int i = 0; i < CROWD; i++)
        intruders_prove(&h[i], "w:" SECRET "W");
    ck_assert_msg(open_client(shards.addresses, "x:" SECRET "x", true, &c) == PS_OK, "%s", error.text);
    ps_client_close(c);
    for (int i = CROWD - 1; i >= 0; i--)
        unseen += intruders_verdict(&h[i]) == PS_ERR_LIMIT;
    ck_assert_int_eq(unseen, CROWD - ACCESS_ATTEMPTS_HELD);
    intruders_join();
}
END_TEST

START_TEST(what_was_heard_before_is_of_no_use)
{
    struct intruders_hand honest, replay;
    uint8_t frame[TOKEN_HANDSHAKE_FRAME_MAX];
    struct frame_head head;

    START();
    hand_through(&honest, "w:" SECRET "w", ROLE_TRAIN, shards.addresses);
    replay.p = intruders_intruder(shards.addresses);
    probe_send_bytes(&replay.p, honest.knock, honest.knock_len);
    hand_read(&replay, frame, &head);
    ck_assert_uint_eq(head.type, MSG_CHALLENGE);
    if (_i == 0)
        probe_send_bytes(&replay.p, honest.prove, honest.prove_len);
    else { /* the shard's own proof, sent back by the intruder */
        frame_head_encode(
            &(struct frame_head){.version = FRAME_VERSION, .type = MSG_PROVE, .meta_len = TOKEN_HANDSHAKE_MAC}, frame);
        memcpy(frame + FRAME_HEAD_SIZE, honest.proven + FRAME_HEAD_SIZE + 8, TOKEN_HANDSHAKE_MAC);
        probe_send_bytes(&replay.p, frame, FRAME_HEAD_SIZE + TOKEN_HANDSHAKE_MAC);
    }
    intruders_hears(&replay.p, PS_ERR_DENIED);
    probe_close(&honest.p);
}
END_TEST

START_TEST(a_lower_version_is_not_spoken)
{
    struct intruders_hand h;

    START();
    hand_knock(&h, "w:" SECRET "w", ROLE_TRAIN, shards.addresses);
    if (_i == 0) {
        h.knock[FRAME_HEAD_SIZE] = h.knock[FRAME_HEAD_SIZE + 2] = FRAME_VERSION - 1;
        probe_send_bytes(&h.p, h.knock, h.knock_len);
        intruders_hears(&h.p, PS_ERR_VERSION);
    } else if (_i == 1) { /* the frame's own */
        h.knock[4] = FRAME_VERSION - 1;
        probe_send_bytes(&h.p, h.knock, h.knock_len);
        intruders_hears(&h.p, PS_ERR_VERSION);
    } else { /* changed on the way: the proof covers the frames */
        h.knock[FRAME_HEAD_SIZE] = FRAME_VERSION - 1;
        hand_challenged(&h);
        probe_send_bytes(&h.p, h.prove, h.prove_len);
        intruders_hears(&h.p, PS_ERR_DENIED);
    }
}
END_TEST

START_TEST(a_listener_without_the_token_gets_nothing_of_a_client)
{
    struct shards other;
    ps_client *c;

    shards_start_with(&other, 1, &(struct shards_options){.more = NULL});
    START();
    ck_assert_int_eq(open_client(other.addresses, "w:" SECRET "w", false, &c), PS_ERR_DENIED);
    ck_assert_ptr_nonnull(strstr(error.text, "no tokens are known here"));
    shards_stop(&other);
}
END_TEST

/* ---- With a role that is too low ---- */

START_TEST(who_may_read_reads_and_no_more)
{
    Psd__Hello hello = PSD__HELLO__INIT;
    Psd__Drain drain = PSD__DRAIN__INIT;
    struct intruders_hand h;
    ps_client *c;

    START();
    intruders_join();
    ck_assert_int_eq(open_client(shards.addresses, "r:" SECRET "r", false, &c), PS_ERR_DENIED);
    ck_assert_ptr_nonnull(strstr(error.text, "has role read, and this takes train"));
    ck_assert_msg(open_client(shards.addresses, "r:" SECRET "r", true, &c) == PS_OK, "%s", error.text);
    ps_client_close(c);
    hand_through(&h, "r:" SECRET "r", ROLE_NONE, shards.addresses);
    hello.role = PSD__ROLE__OBSERVER;
    probe_send(&h.p, MSG_HELLO, &hello.base, NULL, 0);
    ck_assert(probe_receive(&h.p) && h.p.msg.type == MSG_WELCOME);
    probe_send(&h.p, MSG_DRAIN, &drain.base, NULL, 0);
    ck_assert(probe_receive(&h.p) && h.p.msg.type == MSG_ERROR);
    ck_assert_uint_eq(h.p.msg.u.error->code, PS_ERR_DENIED);
    ck_assert(!probe_receive(&h.p));
    probe_close(&h.p);
    ck_assert_msg(open_client(shards.addresses, "r:" SECRET "r", true, &c) == PS_OK, "%s", error.text);
    ps_client_close(c); /* it still works */
}
END_TEST

/* ---- With a role that is high enough, after another's session ---- */

#define INCARNATION UINT64_C(0x0123456789abcdef) /* as bytes in no other figure of a report */

static enum ps_err
intruders_work_on(struct intruders_hand *h, const char *token, const char *name, uint64_t incarnation, bool resume)
{
    Psd__Hello hello;
    Psd__Job job;

    hand_through(h, token, ROLE_NONE, shards.addresses);
    probe_hello_fill(&hello, &job, 3, incarnation);
    hello.cluster = (char *)(uintptr_t)SHARDS_CLUSTER;
    hello.resume = resume;
    job.name = (char *)(uintptr_t)name;
    probe_send(&h->p, MSG_HELLO, &hello.base, NULL, 0);
    ck_assert(probe_receive(&h->p));
    return h->p.msg.type == MSG_WELCOME ? PS_OK : (enum ps_err)h->p.msg.u.error->code;
}

static enum ps_err
intruders_work(struct intruders_hand *h, const char *token, uint64_t incarnation, bool resume)
{
    return intruders_work_on(h, token, "job", incarnation, resume);
}

START_TEST(a_workers_session_is_nobody_elses)
{
    struct intruders_hand victim, thief;
    float grad[2] = {1, 1};
    uint32_t var;

    START();
    ck_assert_int_eq(intruders_work(&victim, "w:" SECRET "w", INCARNATION, false), PS_OK);
    victim.p.seq = 0;
    var = probe_declare(&victim.p, "v", 2);
    ck_assert_int_eq(intruders_work(&thief, "x:" SECRET "x", INCARNATION, true), PS_ERR_DENIED);
    ck_assert_ptr_nonnull(strstr(thief.p.msg.u.error->text, "is of token 'w'"));
    probe_close(&thief.p);
    ck_assert_int_eq(intruders_work(&thief, "x:" SECRET "x", INCARNATION, false), PS_ERR_DENIED);
    probe_close(&thief.p);
    ck_assert_uint_eq(probe_push(&victim.p, var, 0, grad, 2), PS_OK);
    probe_close(&victim.p);
    ck_assert_int_eq(intruders_work(&victim, "w:" SECRET "w", INCARNATION, true), PS_OK);
    ck_assert_uint_eq(victim.p.msg.u.welcome->last_seq, 1);
    probe_close(&victim.p);
}
END_TEST

START_TEST(no_report_has_an_incarnation)
{
    uint64_t incarnation = INCARNATION;
    Psd__Query query = PSD__QUERY__INIT;
    Psd__Hello hello = PSD__HELLO__INIT;
    struct intruders_hand victim, reader;
    int kinds = 0;

    START();
    ck_assert_int_eq(intruders_work(&victim, "w:" SECRET "w", INCARNATION, false), PS_OK);
    hand_through(&reader, "r:" SECRET "r", ROLE_NONE, shards.addresses);
    hello.role = PSD__ROLE__OBSERVER;
    probe_send(&reader.p, MSG_HELLO, &hello.base, NULL, 0);
    ck_assert(probe_receive(&reader.p) && reader.p.msg.type == MSG_WELCOME);
    for (unsigned i = 0; i < psd__query_kind__descriptor.n_values; i++) {
        uint8_t packed[1 << 16];
        size_t len;

        query.kind = (Psd__QueryKind)psd__query_kind__descriptor.values[i].value;
        probe_send(&reader.p, MSG_QUERY, &query.base, NULL, 0);
        ck_assert(probe_receive(&reader.p));
        if (reader.p.msg.type != MSG_REPORT)
            continue;
        kinds += query.kind == PSD__QUERY_KIND__WORKERS && reader.p.msg.u.report->n_worker == 1;
        len = psd__report__get_packed_size(reader.p.msg.u.report);
        ck_assert_uint_le(len, sizeof packed);
        psd__report__pack(reader.p.msg.u.report, packed);
        ck_assert_ptr_null(memmem(packed, len, &incarnation, sizeof incarnation));
    }
    ck_assert_int_eq(kinds, 1);
    probe_close(&reader.p);
    probe_close(&victim.p);
}
END_TEST

/* One token takes what it may, and no more: jobs, that stay when their workers are gone; connections. */
START_TEST(one_token_leaves_room_to_the_others)
{
    struct intruders_hand greedy[3], late;

    START("--quota", "x:connections=3:jobs=1,r:connections=0");
    ck_assert_int_eq(intruders_work(&greedy[0], "x:" SECRET "x", INCARNATION, false), PS_OK);
    (void)probe_declare(&greedy[0].p, "v", 2);
    ck_assert_int_eq(intruders_work_on(&greedy[1], "x:" SECRET "x", "another", INCARNATION, false), PS_ERR_LIMIT);
    ck_assert_ptr_nonnull(
        strstr(greedy[1].p.msg.u.error->text, "token 'x' holds 1 jobs on shard 0, and its quota is 1 (psd's --quota)"));
    ck_assert(!probe_receive(&greedy[1].p));
    probe_close(&greedy[1].p);
    for (int i = 1; i < 3; i++)
        hand_through(&greedy[i], "x:" SECRET "x", ROLE_NONE, shards.addresses);
    hand_through(&late, "x:" SECRET "x", ROLE_NONE, shards.addresses);
    ck_assert_int_eq(intruders_verdict(&late), PS_ERR_LIMIT);
    hand_through(&late, "r:" SECRET "r", ROLE_NONE, shards.addresses);
    ck_assert_int_eq(intruders_verdict(&late), PS_ERR_LIMIT);
    intruders_join();
    for (int i = 0; i < 3; i++)
        probe_close(&greedy[i].p);
}
END_TEST

START_TEST(denials_are_counted)
{
    Psd__Hello hello = PSD__HELLO__INIT;
    Psd__Query query = PSD__QUERY__INIT;
    struct probe p;
    struct intruders_hand h;

    START();
    for (int i = 0; i < 3; i++) {
        p = intruders_intruder(shards.addresses);
        say_frame(&p, MSG_HELLO, 16, 0);
        intruders_hears(&p, PS_ERR_DENIED);
    }
    hand_through(&h, "boss:" SECRET "b", ROLE_NONE, shards.addresses);
    hello.role = PSD__ROLE__OBSERVER;
    probe_send(&h.p, MSG_HELLO, &hello.base, NULL, 0);
    ck_assert(probe_receive(&h.p));
    query.kind = PSD__QUERY_KIND__STATS;
    probe_send(&h.p, MSG_QUERY, &query.base, NULL, 0);
    ck_assert(probe_receive(&h.p) && h.p.msg.type == MSG_REPORT);
    ck_assert_uint_eq(h.p.msg.u.report->stats->denied, 3);
    probe_close(&h.p);
}
END_TEST

/* ---- Unix sockets ---- */

START_TEST(a_user_who_is_not_listed_is_refused)
{
    char list[64];
    struct probe p;
    ps_client *c;

    snprintf(list, sizeof list, "%u", (unsigned)geteuid() + 1);
    intruders_start((const char *const[]){"--unix-users", list, NULL});
    p = intruders_intruder(shards.sockets);
    intruders_hears(&p, PS_ERR_DENIED);
    ck_assert_int_eq(open_client(shards.sockets, "", true, &c), PS_ERR_DENIED);
    ck_assert_ptr_nonnull(strstr(error.text, "--unix-users"));
    ck_assert_msg(open_client(shards.addresses, "", true, &c) == PS_OK, "%s", error.text);
    ps_client_close(c);
}
END_TEST

START_TEST(a_user_has_the_role_that_the_list_says)
{
    char list[64];
    ps_client *c;

    snprintf(list, sizeof list, "%u:read", (unsigned)geteuid());
    START("--unix-users", list);
    ck_assert_int_eq(open_client(shards.sockets, "", false, &c), PS_ERR_DENIED);
    ck_assert_ptr_nonnull(strstr(error.text, "takes role train"));
    ck_assert_msg(open_client(shards.sockets, "", true, &c) == PS_OK, "%s", error.text);
    ps_client_close(c);
    /* a client with a token as well has its role */
    ck_assert_msg(open_client(shards.sockets, "w:" SECRET "w", false, &member) == PS_OK, "%s", error.text);
}
END_TEST

START_TEST(psds_own_user_needs_no_token_there)
{
    START();
    ck_assert_msg(open_client(shards.sockets, "", false, &member) == PS_OK, "%s", error.text);
}
END_TEST

/* One byte, and a descriptor. False: it is refused. */
static bool
intruders_pass(int to, int fd)
{
    union {
        struct cmsghdr head;
        uint8_t space[CMSG_SPACE(sizeof(int))];
    } control = {.head = {.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec byte = {.iov_base = "P", .iov_len = 1};
    struct msghdr message = {
        .msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.space};

    memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    return sendmsg(to, &message, MSG_NOSIGNAL) == 1;
}

/* Else psd's thread would close it, and wait for as long as the other end lingers. */
START_TEST(descriptors_are_not_taken)
{
    struct probe p;
    int off = 0;

    START();
    ck_assert(probe_connect(&p, shards.sockets));
    if (setsockopt(p.fd, SOL_SOCKET, 83, &off, sizeof off) != 0) { /* SO_PASSRIGHTS */
        fprintf(stderr, "# skipped: this kernel refuses no descriptors\n");
    } else {
        ck_assert(!intruders_pass(p.fd, p.fd));
        ck_assert_int_eq(errno, EPERM);
    }
    probe_close(&p);
    intruders_join();
}
END_TEST

/* ---- HUP ---- */

START_TEST(a_token_that_is_gone_ends_what_came_with_it)
{
    ps_client *c;

    START();
    intruders_join();
    write_tokens("new:train:" SECRET "n\nr:read:" SECRET "r\n");
    shards_hang_up(&shards, 0, "tokens read again");
    ck_assert_int_eq(intruders_declare(member, "more"), PS_ERR_DENIED);
    ck_assert_int_eq(open_client(shards.addresses, "w:" SECRET "w", true, &c), PS_ERR_DENIED);
    ck_assert_msg(open_client(shards.addresses, "new:" SECRET "n", true, &c) == PS_OK, "%s", error.text);
    ps_client_close(c);
}
END_TEST

START_TEST(bad_tokens_change_nothing)
{
    ps_client *c;

    START();
    intruders_join();
    write_tokens("new:train:short\n");
    shards_hang_up(&shards, 0, "tokens and users stay as they are");
    ck_assert_int_eq(open_client(shards.addresses, "new:" SECRET "n", true, &c), PS_ERR_DENIED);
    ck_assert_msg(open_client(shards.addresses, "r:" SECRET "r", true, &c) == PS_OK, "%s", error.text);
    ps_client_close(c);
}
END_TEST

/* ---- Where it listens ---- */

START_TEST(beyond_this_machine_it_wants_tokens)
{
    static const char *const places[] = {"0.0.0.0:0", "[::]:0"};

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        intruders_start((const char *const[]){"--listen", "127.0.0.1:0", NULL});
        shards_kill(&shards, 0);
        shards.options.more = (const char *const[]){"--listen", places[i], NULL};
        ck_assert_int_eq(shards_refused(&shards, 0), 1);
        ck_assert_ptr_nonnull(strstr(shards_log(&shards, 0), "give --tokens FILE"));
        shards.options.more = (const char *const[]){"--listen", places[i], "--insecure", NULL};
        ck_assert_int_eq(shards_try(&shards, 0), 0);
        shards_kill(&shards, 0);
        shards.options.more = (const char *const[]){"--listen", places[i], "--tokens", tokens, NULL};
        ck_assert_int_eq(shards_try(&shards, 0), 0);
        shards_stop(&shards);
    }
    START();
}
END_TEST

START_TEST(tokens_that_others_may_read_are_refused)
{
    START();
    shards_kill(&shards, 0);
    ck_assert_int_eq(chmod(tokens, 0644), 0);
    ck_assert_int_eq(shards_refused(&shards, 0), 2);
}
END_TEST

/* ---- Groups ---- */

static char worker[2][64];

static pid_t
start_rank(int task, const char *token)
{
    char config[512];
    struct ps_group_options o = {.token = token, .timeout_ms = 60000};
    ps_cluster *cluster;
    ps_group *g;
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    snprintf(config, sizeof config,
             "{\"cluster\": {\"worker\": [\"%s\", \"%s\"]}, \"task\": {\"type\": \"worker\", \"index\": %d}}",
             worker[0], worker[1], task);
    setenv("TF_CONFIG", config, 1);
    if (ps_cluster_from_env(&cluster, &error) != PS_OK)
        _exit(100);
    if (ps_group_open(cluster, &o, &g, &error) == PS_OK)
        ps_group_close(g);
    _exit((int)error.code);
}

static int
status_of(pid_t pid)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
choose_ports(void)
{
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof at;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        ck_assert_int_eq(bind(fd, (struct sockaddr *)&at, len), 0);
        ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
        snprintf(worker[i], sizeof worker[i], "127.0.0.1:%u", ntohs(at.sin_port)); /* bound until the test ends */
    }
}

START_TEST(ranks_let_in_only_who_has_their_token)
{
    static const unsigned types[] = {MSG_MEET, MSG_GROUP_HELLO, MSG_HELLO};
    pid_t first, second;
    struct probe p;

    choose_ports();
    START();
    first = start_rank(0, "w:" SECRET "w");
    while (!probe_connect(&p, worker[0]))
        usleep(1000);
    probe_close(&p);
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        p = intruders_intruder(worker[0]);
        say_frame(&p, types[i], 16, 0);
        intruders_hears(&p, PS_ERR_DENIED);
    }
    ck_assert_int_eq(status_of(start_rank(1, "")), PS_ERR_DENIED);
    ck_assert_int_eq(status_of(start_rank(1, "w:" SECRET "W")), PS_ERR_DENIED);
    second = start_rank(1, "w:" SECRET "w");
    ck_assert_int_eq(status_of(second), PS_OK);
    ck_assert_int_eq(status_of(first), PS_OK);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("intruders");
    TCase *t = tcase_create("intruders");

    tcase_add_checked_fixture(t, intruders_setup, intruders_teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, who_has_no_token_hears_nothing);
    tcase_add_test(t, large_frames_are_not_waited_for);
    tcase_add_test(t, who_says_nothing_is_sent_away);
    tcase_add_test(t, a_crowd_of_strangers_keeps_nobody_out);
    tcase_add_test(t, a_wrong_token_is_as_good_as_none);
    tcase_add_test(t, who_guesses_waits_longer_each_time);
    tcase_add_test(t, few_guesses_wait_at_once);
    tcase_add_loop_test(t, what_was_heard_before_is_of_no_use, 0, 2);
    tcase_add_loop_test(t, a_lower_version_is_not_spoken, 0, 3);
    tcase_add_test(t, a_listener_without_the_token_gets_nothing_of_a_client);
    tcase_add_test(t, who_may_read_reads_and_no_more);
    tcase_add_test(t, a_workers_session_is_nobody_elses);
    tcase_add_test(t, no_report_has_an_incarnation);
    tcase_add_test(t, one_token_leaves_room_to_the_others);
    tcase_add_test(t, denials_are_counted);
    tcase_add_test(t, a_user_who_is_not_listed_is_refused);
    tcase_add_test(t, a_user_has_the_role_that_the_list_says);
    tcase_add_test(t, psds_own_user_needs_no_token_there);
    tcase_add_test(t, descriptors_are_not_taken);
    tcase_add_test(t, a_token_that_is_gone_ends_what_came_with_it);
    tcase_add_test(t, bad_tokens_change_nothing);
    tcase_add_test(t, beyond_this_machine_it_wants_tokens);
    tcase_add_test(t, tokens_that_others_may_read_are_refused);
    tcase_add_test(t, ranks_let_in_only_who_has_their_token);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
