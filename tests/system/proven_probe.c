#include "tests/system/proven_probe.h"

#include <check.h>
#include <string.h>
#include <sys/socket.h>

#include "common/core/auth/token_handshake.h"

/* The next frame of the proof. False: the connection was closed. */
static bool
proven_probe_read(struct probe *p, uint8_t *frame, struct frame_head *head)
{
    struct ps_error e;

    if (recv(p->fd, frame, FRAME_HEAD_SIZE, MSG_WAITALL) != FRAME_HEAD_SIZE)
        return false;
    ck_assert_int_eq(frame_head_decode(frame, head, &e), PS_OK);
    return recv(p->fd, frame + FRAME_HEAD_SIZE, head->meta_len + frame_pad(head->meta_len), MSG_WAITALL) ==
           (ssize_t)(head->meta_len + frame_pad(head->meta_len));
}

static enum ps_err
proven_probe_prove(struct probe *p, struct token_handshake *proof)
{
    uint8_t in[FRAME_HEAD_SIZE + FRAME_META_MAX / 16], out[TOKEN_HANDSHAKE_FRAME_MAX];
    size_t len = token_handshake_knock(proof, out);
    struct frame_head head;
    struct ps_error e;
    enum ps_err err;

    while (len > 0) {
        probe_send_bytes(p, out, len);
        if (!proven_probe_read(p, in, &head))
            return PS_ERR_CLOSED;
        if ((err = token_handshake_take(proof, &head, in + FRAME_HEAD_SIZE, out, &len, &e)) != PS_OK)
            return err;
    }
    return PS_OK;
}

bool
proven_probe_connect(struct probe *p, const char *address, const char *cluster, const char *token, enum ps_err *why)
{
    struct token_handshake_own own = {.cluster = cluster, .nonce = {1, 2, 3}};
    struct token_handshake proof;
    struct ps_error e;
    struct key key;

    ck_assert(probe_connect(p, address));
    ck_assert_msg(key_parse(&key, "test", token, strlen(token), &e) == PS_OK, "%s", e.text);
    token_handshake_connect(&proof, &key, ROLE_NONE, &own);
    *why = proven_probe_prove(p, &proof);
    token_handshake_finish(&proof);
    return *why == PS_OK;
}

void
proven_probe_enter(struct probe *p, const char *address, const char *cluster, const char *token, int task,
                   uint32_t workers)
{
    enum ps_err why = PS_OK;
    Psd__Hello hello;
    Psd__Job job;

    ck_assert(token != NULL ? proven_probe_connect(p, address, cluster, token, &why) : probe_connect(p, address));
    probe_hello_fill(&hello, &job, task, (uint64_t)task + 1000);
    job.workers = job.quorum = workers;
    hello.cluster = (char *)(uintptr_t)cluster;
    probe_send(p, MSG_HELLO, &hello.base, NULL, 0);
    ck_assert(probe_receive(p));
    ck_assert_msg(p->msg.type == MSG_WELCOME, "%s", p->msg.type == MSG_ERROR ? p->msg.u.error->text : "?");
}
