/* The prelude's frames are taken off the stream before the owner sees any (conn_read.c asks conn_guard_takes()); what
 * it answers is sent from here. It ends by admitted(), or by ended() as every connection does. */
#include "common/net/conn_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/core/auth/prelude.h"
#include "common/net/conn_inside.h"

struct conn_guard {
    struct prelude prelude;
    uint32_t patience_ms;
    bool listens;
    bool optional; /* and nobody has knocked */
};

/* A frame of the prelude that waits to be written. */
struct guard_out {
    struct conn_out out;
    uint8_t bytes[];
};

void
conn_guard_free(struct conn *c)
{
    if (c->guard == NULL)
        return;
    prelude_finish(&c->guard->prelude);
    free(c->guard);
    c->guard = NULL;
    c->guard_ms = 0;
}

/* ---- Frames out ---- */

static void
out_done(struct conn_out *out, enum ps_err result)
{
    (void)result; /* where it failed the connection ends, and says so */
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

/* frame: what tells the other side why. */
static void
fail(struct conn *c, const struct ps_error *why, const uint8_t *frame, size_t len)
{
    c->refused = true;
    conn_guard_free(c);
    (void)send_frame(c, frame, len); /* without memory it ends all the same */
    conn_end(c, why);
    if (!c->closing)
        conn_due_update(c);
}

static void
refuse(struct conn *c, const struct ps_error *why)
{
    uint8_t frame[PRELUDE_FRAME_MAX];

    fail(c, why, frame, c->guard->listens ? prelude_refusal(why, frame) : 0);
}

static void
no_memory(struct conn *c)
{
    struct ps_error e;

    ps_error_set(&e, PS_ERR_NOMEM, "no memory for a proof");
    fail(c, &e, NULL, 0);
}

void
conn_guard_late(struct conn *c)
{
    struct ps_error e;

    c->guard_ms = 0;
    if (c->guard->listens)
        ps_error_set(&e, PS_ERR_TIMEOUT, "no proof of a token came within %u ms", c->guard->patience_ms);
    else
        ps_error_set(&e, PS_ERR_TIMEOUT, "who listens there proved nothing within %u ms", c->guard->patience_ms);
    refuse(c, &e);
}

/* Bytes that are no frame are not worth an answer, and get none; another version's are. */
void
conn_guard_broken(struct conn *c, const struct ps_error *why)
{
    if (c->guard->optional) { /* it is the owner's to say why */
        conn_guard_free(c);
        conn_end(c, why);
        return;
    }
    if (why->code == PS_ERR_VERSION || conn_reader(c)->head.meta_len > PRELUDE_META_MAX ||
        conn_reader(c)->head.payload_len > 0)
        refuse(c, why);
    else
        fail(c, why, NULL, 0);
}

/* ---- Frames in ---- */

static void
let_in(struct conn *c)
{
    char name[KEYRING_NAME_MAX + 1];
    enum role role = c->guard->prelude.granted;

    memcpy(name, c->guard->prelude.name, sizeof name);
    conn_guard_free(c);
    c->reader.meta_max = 0;
    conn_due_update(c);
    c->events->admitted(c, role, name);
}

/* Somebody knocks, though nobody has to. */
static void
begin(struct conn *c)
{
    c->guard->optional = false;
    c->reader.meta_max = PRELUDE_META_MAX;
    c->guard_ms = uv_now(c->pool->loop) + c->guard->patience_ms;
    conn_due_update(c);
}

bool
conn_guard_takes(struct conn *c, const struct frame_head *head, const void *meta)
{
    uint8_t frame[PRELUDE_FRAME_MAX];
    struct ps_error e = {0};
    enum ps_err err;
    size_t len;

    if (c->guard->optional && head->type != MSG_KNOCK) {
        conn_guard_free(c);
        return false;
    }
    if (c->guard->optional)
        begin(c);
    prelude_bind(&c->guard->prelude, c->binding, c->binding_len);
    err = prelude_take(&c->guard->prelude, head, meta, frame, &len, &e);
    if (err != PS_OK)
        fail(c, &e, frame, len);
    else if (!send_frame(c, frame, len))
        no_memory(c);
    else if (prelude_through(&c->guard->prelude))
        let_in(c);
    return true;
}

/* ---- Beginning ---- */

/* A guard, and its part of what is proven. */
static enum ps_err
stand(struct conn *c, const struct conn_guard_terms *terms, struct prelude_own *own)
{
    ps_assert(c->started && c->guard == NULL && c->events->admitted != NULL);
    *own = (struct prelude_own){.cluster = terms->cluster};
    if (getrandom(own->nonce, sizeof own->nonce, 0) != sizeof own->nonce)
        return PS_ERR_IO;
    if ((c->guard = calloc(1, sizeof *c->guard)) == NULL)
        return PS_ERR_NOMEM;
    c->guard->patience_ms = terms->patience_ms;
    if (!terms->optional) {
        uv_update_time(c->pool->loop); /* who drives the loop himself may have been away */
        begin(c);
    }
    return PS_OK;
}

enum ps_err
conn_guard_listen(struct conn *c, const struct conn_guard_terms *terms)
{
    struct prelude_own own;
    enum ps_err err = stand(c, terms, &own);

    if (err != PS_OK)
        return err;
    c->guard->listens = true;
    c->guard->optional = terms->optional;
    prelude_listen(&c->guard->prelude, terms->ring, &own);
    return PS_OK;
}

enum ps_err
conn_guard_connect(struct conn *c, const struct conn_guard_terms *terms)
{
    uint8_t frame[PRELUDE_FRAME_MAX];
    struct prelude_own own;
    enum ps_err err = stand(c, terms, &own);
    size_t len;

    if (err != PS_OK)
        return err;
    prelude_connect(&c->guard->prelude, terms->key, terms->wanted, &own);
    len = prelude_knock(&c->guard->prelude, frame);
    if (send_frame(c, frame, len))
        return PS_OK;
    conn_guard_free(c);
    return PS_ERR_NOMEM;
}
