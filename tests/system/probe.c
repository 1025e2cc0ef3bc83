#include "tests/system/probe.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/core/cluster/address.h"

static int
connect_unix(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

static int
connect_tcp(const struct address *a)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(a->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    ck_assert_int_eq(inet_pton(AF_INET, a->host, &to.sin_addr), 1);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

bool
probe_connect(struct probe *p, const char *address)
{
    struct address a;

    *p = (struct probe){.fd = -1};
    ck_assert_int_eq(address_parse(address, &a, NULL), PS_OK);
    p->fd = a.is_unix ? connect_unix(a.path) : connect_tcp(&a);
    return p->fd >= 0;
}

void
probe_close(struct probe *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    free(p->body);
    p->body = NULL;
    arena_finish(&p->arena);
}

void
probe_send_bytes(struct probe *p, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0 && p->fd >= 0) {
        ssize_t n = send(p->fd, at, len, MSG_NOSIGNAL);

        if (n < 0)
            return; /* the peer closed: receiving will show it */
        at += n;
        len -= (size_t)n;
    }
}

uint64_t
probe_send(struct probe *p, enum msg_type type, const ProtobufCMessage *message, const void *payload,
           size_t payload_len)
{
    static const uint8_t zeros[FRAME_ALIGN];
    size_t len;
    uint8_t *head = wire_encode_new(type, ++p->request, message, payload_len, &len);

    probe_send_bytes(p, head, len);
    free(head);
    probe_send_bytes(p, payload, payload_len);
    probe_send_bytes(p, zeros, frame_pad(payload_len));
    return p->request;
}

/* Whether something can be read within ms. */
static bool
probe_readable(struct probe *p, int ms)
{
    struct pollfd wait = {.fd = p->fd, .events = POLLIN};

    return poll(&wait, 1, ms) == 1;
}

static bool
read_all(struct probe *p, void *to, size_t len)
{
    char *at = to;

    while (len > 0) {
        ssize_t n;

        ck_assert_msg(probe_readable(p, PROBE_WAIT_MS), "no answer within %d ms", PROBE_WAIT_MS);
        n = recv(p->fd, at, len, 0);
        if (n <= 0)
            return false;
        at += n;
        len -= (size_t)n;
    }
    return true;
}

bool
probe_receive(struct probe *p)
{
    uint8_t head[FRAME_HEAD_SIZE];
    struct ps_error e = {0};
    size_t meta, payload;

    if (!read_all(p, head, sizeof head))
        return false;
    ck_assert_msg(frame_head_decode(head, &p->head, &e) == PS_OK, "%s", e.text);
    meta = p->head.meta_len + frame_pad(p->head.meta_len);
    payload = p->head.payload_len + frame_pad(p->head.payload_len);
    free(p->body);
    p->body = malloc(meta + payload + 1);
    if (!read_all(p, p->body, meta + payload))
        return false;
    arena_reset(&p->arena);
    ck_assert_msg(wire_decode(&p->head, p->body, &p->arena, &p->msg, &e) == PS_OK, "%s", e.text);
    p->payload = p->body + meta;
    return true;
}

static bool
probe_ask(struct probe *p, enum msg_type type, const ProtobufCMessage *message)
{
    probe_send(p, type, message, NULL, 0);
    return probe_receive(p);
}

void
probe_hello_fill(Psd__Hello *hello, Psd__Job *job, int task, uint64_t incarnation)
{
    static Psd__AgePolicy age = PSD__AGE_POLICY__INIT;

    psd__hello__init(hello);
    psd__job__init(job);
    job->name = (char *)(uintptr_t) "job";
    job->workers = 8;
    job->quorum = 8;
    job->age = &age;
    hello->cluster = (char *)(uintptr_t) "psd";
    hello->shards = 1;
    hello->agent = (char *)(uintptr_t) "probe";
    hello->role = task < 0 ? PSD__ROLE__OBSERVER : PSD__ROLE__WORKER;
    if (task < 0)
        return;
    hello->job = job;
    hello->task = (uint32_t)task;
    hello->incarnation = incarnation;
}

bool
probe_hello(struct probe *p, int task, uint64_t incarnation, bool resume)
{
    Psd__Hello hello;
    Psd__Job job;

    probe_hello_fill(&hello, &job, task, incarnation);
    hello.resume = resume;
    if (!probe_ask(p, MSG_HELLO, &hello.base))
        return false;
    if (p->msg.type == MSG_WELCOME)
        p->seq = p->msg.u.welcome->last_seq;
    return p->msg.type == MSG_WELCOME;
}

uint32_t
probe_declare(struct probe *p, const char *name, uint64_t n)
{
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    Psd__Optimizer optimizer = PSD__OPTIMIZER__INIT;
    Psd__Declare declare = PSD__DECLARE__INIT;

    declare.name = (char *)(uintptr_t)name;
    declare.dims = &n;
    declare.n_dims = 1;
    declare.init = &init;
    declare.optimizer = &optimizer;
    optimizer.learning_rate = 1;
    ck_assert(probe_ask(p, MSG_DECLARE, &declare.base));
    ck_assert_msg(p->msg.type == MSG_DECLARED, "%s", p->msg.type == MSG_ERROR ? p->msg.u.error->text : "?");
    return p->msg.u.declared->var;
}

uint32_t
probe_push(struct probe *p, uint32_t var, uint32_t block, const float *grad, size_t n)
{
    Psd__Push push = PSD__PUSH__INIT;

    push.seq = ++p->seq;
    push.n_var = push.n_block = 1;
    push.var = &var;
    push.block = &block;
    probe_send(p, MSG_PUSH, &push.base, grad, n * sizeof *grad);
    ck_assert(probe_receive(p));
    ck_assert_int_eq(p->msg.type, MSG_ACK);
    ck_assert_uint_eq(p->msg.u.ack->seq[0], push.seq);
    return p->msg.u.ack->n_code > 0 ? p->msg.u.ack->code[0] : PS_OK;
}

uint64_t
probe_pull(struct probe *p, uint32_t var, uint32_t block, float *out, size_t n)
{
    Psd__Pull pull = PSD__PULL__INIT;

    pull.n_var = pull.n_block = 1;
    pull.var = &var;
    pull.block = &block;
    ck_assert(probe_ask(p, MSG_PULL, &pull.base));
    ck_assert_msg(p->msg.type == MSG_DATA, "%s", p->msg.type == MSG_ERROR ? p->msg.u.error->text : "?");
    ck_assert_uint_eq(p->head.payload_len, n * sizeof *out);
    memcpy(out, p->payload, n * sizeof *out);
    return p->msg.u.data->version[0];
}
