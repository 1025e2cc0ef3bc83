/* The authentication's frames are taken off the stream before the owner sees any (conn_read.c asks conn_auth_takes());
 * the answers are sent from here. It ends by admitted(), or by ended() as every connection does. */
#include "common/net/conn_auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/core/auth/token_handshake.h"
#include "common/net/conn_internal.h"

struct conn_auth {
    struct token_handshake handshake;
    uint32_t timeout_ms;
    bool listens;
    bool optional; /* and no KNOCK has come */
    enum ps_err (*hold)(struct conn *c, const char *name, uint32_t *ms, struct ps_error *why);
    struct frame_head held_head; /* of a proof that waits, until c->auth_hold_ms */
    uint8_t held[TOKEN_HANDSHAKE_MAC];
};

/* A frame of the authentication that waits to be written. */
struct guard_out {
    struct conn_out out;
    uint8_t bytes[];
};

void
conn_auth_free(struct conn *c)
{
    if (c->auth == NULL)
        return;
    token_handshake_finish(&c->auth->handshake);
    free(c->auth);
    c->auth = NULL;
    c->auth_ms = c->auth_hold_ms = 0;
}

/* ---- Frames out ---- */

static void
out_done(struct conn_out *out, enum ps_err result)
{
    (void)result; /* when it failed the connection ends, and reports that */
    free(CONTAINER_OF(out, struct guard_out, out));
}

static bool
send_frame(struct conn *c, const uint8_t *bytes, size_t len)
{
    struct guard_out *o;

    if (len == 0)
        return true;
    if ((o = malloc(sizeof *o + len)) == NULL)
        return false;
    memcpy(o->bytes, bytes, len);
    o->out = (struct conn_out){.done = out_done, .head = o->bytes, .head_len = len};
    conn_send(c, &o->out, false);
    return true;
}

/* ---- The end ---- */

/* frame: the error for the other side. */
static void
conn_auth_fail(struct conn *c, const struct ps_error *why, const uint8_t *frame, size_t len)
{
    c->refused = true;
    conn_auth_free(c);
    (void)send_frame(c, frame, len); /* without memory the connection ends as well */
    conn_end(c, why);
    if (!c->closing)
        conn_timeouts_update(c);
}

static void
conn_auth_refuse(struct conn *c, const struct ps_error *why)
{
    uint8_t frame[TOKEN_HANDSHAKE_FRAME_MAX];

    conn_auth_fail(c, why, frame, c->auth->listens ? token_handshake_refusal(why, frame) : 0);
}

static void
no_memory(struct conn *c)
{
    struct ps_error e;

    ps_error_set(&e, PS_ERR_NOMEM, "no memory for a proof");
    conn_auth_fail(c, &e, NULL, 0);
}

void
conn_auth_late(struct conn *c)
{
    struct ps_error e;

    c->auth_ms = 0;
    if (c->auth->listens)
        ps_error_set(&e, PS_ERR_TIMEOUT, "no proof of a token came within %u ms", c->auth->timeout_ms);
    else
        ps_error_set(&e, PS_ERR_TIMEOUT, "the other side proved nothing within %u ms", c->auth->timeout_ms);
    conn_auth_refuse(c, &e);
}

/* Bytes that are no frame get no answer; another version's do. */
void
conn_auth_broken(struct conn *c, const struct ps_error *why)
{
    if (c->auth->optional) { /* the owner reports why */
        conn_auth_free(c);
        conn_end(c, why);
        return;
    }
    if (why->code == PS_ERR_VERSION || conn_reader(c)->head.meta_len > TOKEN_HANDSHAKE_META_MAX ||
        conn_reader(c)->head.payload_len > 0)
        conn_auth_refuse(c, why);
    else
        conn_auth_fail(c, why, NULL, 0);
}

/* ---- Frames in ---- */

static void
let_in(struct conn *c)
{
    char name[KEYRING_NAME_MAX + 1];
    enum role role = c->auth->handshake.granted;

    memcpy(name, c->auth->handshake.name, sizeof name);
    conn_auth_free(c);
    c->reader.meta_max = 0;
    conn_timeouts_update(c);
    c->events->admitted(c, role, name);
}

/* A KNOCK has come, though none is demanded. */
static void
conn_auth_begin(struct conn *c)
{
    c->auth->optional = false;
    c->reader.meta_max = TOKEN_HANDSHAKE_META_MAX;
    c->auth_ms = uv_now(c->pool->loop) + c->auth->timeout_ms;
    conn_timeouts_update(c);
}

bool
conn_auth_expects(const struct conn *c, const struct frame_head *head)
{
    return !c->auth->optional || head->type == MSG_KNOCK;
}

static void
conn_auth_look(struct conn *c, const struct frame_head *head, const void *meta)
{
    uint8_t frame[TOKEN_HANDSHAKE_FRAME_MAX];
    struct ps_error e = {0};
    enum ps_err err;
    size_t len;

    token_handshake_bind(&c->auth->handshake, c->binding, c->binding_len);
    err = token_handshake_take(&c->auth->handshake, head, meta, frame, &len, &e);
    if (err != PS_OK)
        conn_auth_fail(c, &e, frame, len);
    else if (!send_frame(c, frame, len))
        no_memory(c);
    else if (token_handshake_through(&c->auth->handshake))
        let_in(c);
}

/* ---- Proofs that wait ---- */

static void
conn_auth_keep(struct conn *c, const struct frame_head *head, const void *meta, uint32_t ms)
{
    c->auth->held_head = *head;
    memcpy(c->auth->held, meta, sizeof c->auth->held);
    c->auth_hold_ms = uv_now(c->pool->loop) + ms;
    c->auth_ms += ms;
    conn_read_pause(c);
    conn_timeouts_update(c);
}

/* True: it waits, or was refused. */
static bool
conn_auth_holds(struct conn *c, const struct frame_head *head, const void *meta)
{
    struct ps_error why = {0};
    uint32_t ms = 0;

    if (c->auth->hold == NULL || head->type != MSG_PROVE || head->meta_len != TOKEN_HANDSHAKE_MAC ||
        c->auth->handshake.state != TOKEN_HANDSHAKE_CHALLENGED)
        return false;
    if (c->auth->hold(c, c->auth->handshake.name, &ms, &why) != PS_OK) {
        conn_auth_refuse(c, &why);
        return true;
    }
    if (ms == 0)
        return false;
    conn_auth_keep(c, head, meta, ms);
    return true;
}

void
conn_auth_held_over(struct conn *c)
{
    struct frame_head head = c->auth->held_head;
    uint8_t meta[TOKEN_HANDSHAKE_MAC];

    c->auth_hold_ms = 0;
    memcpy(meta, c->auth->held, sizeof meta);
    conn_auth_look(c, &head, meta);
    if (!c->closing && !c->ended)
        conn_read_resume(c);
}

bool
conn_auth_takes(struct conn *c, const struct frame_head *head, const void *meta)
{
    if (c->auth->optional && head->type != MSG_KNOCK) {
        conn_auth_free(c);
        return false;
    }
    if (c->auth->optional)
        conn_auth_begin(c);
    if (!conn_auth_holds(c, head, meta))
        conn_auth_look(c, head, meta);
    return true;
}

/* ---- Beginning ---- */

/* Creates c->auth, and this side's part of the proof. */
static enum ps_err
conn_auth_new(struct conn *c, const struct conn_auth_terms *terms, struct token_handshake_own *own)
{
    ps_assert(c->started && c->auth == NULL && c->events->admitted != NULL);
    *own = (struct token_handshake_own){.cluster = terms->cluster};
    if (getrandom(own->nonce, sizeof own->nonce, 0) != sizeof own->nonce)
        return PS_ERR_IO;
    if ((c->auth = calloc(1, sizeof *c->auth)) == NULL)
        return PS_ERR_NOMEM;
    c->auth->timeout_ms = terms->timeout_ms;
    if (!terms->optional) {
        uv_update_time(c->pool->loop); /* a loop that its owner runs may be behind */
        conn_auth_begin(c);
    }
    return PS_OK;
}

enum ps_err
conn_auth_listen(struct conn *c, const struct conn_auth_terms *terms)
{
    struct token_handshake_own own;
    enum ps_err err = conn_auth_new(c, terms, &own);

    if (err != PS_OK)
        return err;
    c->auth->listens = true;
    c->auth->optional = terms->optional;
    c->auth->hold = terms->hold;
    token_handshake_listen(&c->auth->handshake, terms->ring, &own);
    return PS_OK;
}

enum ps_err
conn_auth_connect(struct conn *c, const struct conn_auth_terms *terms)
{
    uint8_t frame[TOKEN_HANDSHAKE_FRAME_MAX];
    struct token_handshake_own own;
    enum ps_err err = conn_auth_new(c, terms, &own);
    size_t len;

    if (err != PS_OK)
        return err;
    token_handshake_connect(&c->auth->handshake, terms->key, terms->wanted, &own);
    len = token_handshake_knock(&c->auth->handshake, frame);
    if (send_frame(c, frame, len))
        return PS_OK;
    conn_auth_free(c);
    return PS_ERR_NOMEM;
}
