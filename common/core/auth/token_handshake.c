#include "common/core/auth/token_handshake.h"

#include <stdio.h>
#include <string.h>

#include "common/core/auth/mac.h"
#include "common/core/base/little_endian.h"
#include "common/core/base/utf8.h"

#define NAME_BYTES  (KEYRING_NAME_MAX + 1)
#define LABEL_BYTES 24

/* Metadata: numbers and texts at fixed places, multiples of FRAME_ALIGN, so that there is no pad. */
enum {
    KNOCK_MIN = 0,
    KNOCK_MAX = 2,
    KNOCK_ROLE = 4,
    KNOCK_ANY = 8,
    KNOCK_ZERO = 12,
    KNOCK_NONCE = 16,
    KNOCK_NAME = KNOCK_NONCE + TOKEN_HANDSHAKE_NONCE,
    KNOCK_BYTES = KNOCK_NAME + NAME_BYTES,

    CHALLENGE_VERSION = 0,
    CHALLENGE_ZERO = 2,
    CHALLENGE_NONCE = 8,
    CHALLENGE_BYTES = CHALLENGE_NONCE + TOKEN_HANDSHAKE_NONCE,

    PROVE_BYTES = TOKEN_HANDSHAKE_MAC,

    PROVEN_ROLE = 0,
    PROVEN_ZERO = 4,
    PROVEN_MAC = 8,
    PROVEN_BYTES = PROVEN_MAC + TOKEN_HANDSHAKE_MAC
};
static_assert(KNOCK_BYTES % FRAME_ALIGN == 0 && CHALLENGE_BYTES % FRAME_ALIGN == 0 && PROVE_BYTES % FRAME_ALIGN == 0 &&
                  PROVEN_BYTES % FRAME_ALIGN == 0,
              "no pad behind them");
static_assert(FRAME_HEAD_SIZE + KNOCK_BYTES <= TOKEN_HANDSHAKE_FRAME_MAX && KNOCK_BYTES <= TOKEN_HANDSHAKE_META_MAX,
              "the longest fits");

/* Its head; the metadata behind it is zeroed. */
static uint8_t *
frame_begin(enum msg_type type, uint32_t meta_len, uint8_t *out)
{
    struct frame_head head = {.version = FRAME_VERSION, .type = (uint16_t)type, .meta_len = meta_len};

    frame_head_encode(&head, out);
    memset(out + FRAME_HEAD_SIZE, 0, meta_len);
    return out + FRAME_HEAD_SIZE;
}

/* ---- The proof ---- */

/* The bytes of the proof, all at fixed places but for the last two texts, whose lengths are before them. */
struct proof {
    uint8_t bytes[LABEL_BYTES + 8 + 16 + 2 * TOKEN_HANDSHAKE_NONCE + NAME_BYTES + WIRE_CLUSTER_MAX +
                  TOKEN_HANDSHAKE_BINDING_MAX];
    size_t len;
};

static void
proof_add(struct proof *proof, const void *data, size_t n)
{
    if (n > 0)
        memcpy(proof->bytes + proof->len, data, n);
    proof->len += n;
}

static void
proof_number(struct proof *proof, uint64_t value, int bytes)
{
    put_le(proof->bytes + proof->len, value, bytes);
    proof->len += (size_t)bytes;
}

/* The label names the side that proves, so that a proof that is sent back is not valid. */
static bool
token_handshake_prove(const struct token_handshake *p, const struct key *key, bool listener, enum role granted,
                      uint8_t out[TOKEN_HANDSHAKE_MAC])
{
    static const char labels[2][LABEL_BYTES] = {"psd prelude: connects", "psd prelude: listens"};
    size_t cluster_len = p->any_cluster ? 0 : strlen(p->cluster);
    struct proof proof = {.len = 0};

    proof_add(&proof, labels[listener], LABEL_BYTES);
    proof_number(&proof, p->version_min, 2);
    proof_number(&proof, p->version_max, 2);
    proof_number(&proof, p->version, 2);
    proof_number(&proof, p->any_cluster, 2);
    proof_number(&proof, (uint64_t)p->wanted, 4);
    proof_number(&proof, (uint64_t)granted, 4);
    proof_number(&proof, cluster_len, 4);
    proof_number(&proof, p->binding_len, 4);
    proof_add(&proof, p->nonces, sizeof p->nonces);
    proof_add(&proof, p->name, NAME_BYTES);
    proof_add(&proof, p->cluster, cluster_len);
    proof_add(&proof, p->binding, p->binding_len);
    return mac_make(key->secret, key->secret_len, proof.bytes, proof.len, out);
}

/* ---- Beginning ---- */

static void
own_set(struct token_handshake *p, const struct token_handshake_own *own, int side)
{
    snprintf(p->cluster, sizeof p->cluster, "%s", own->cluster != NULL ? own->cluster : "");
    memcpy(p->nonces[side], own->nonce, TOKEN_HANDSHAKE_NONCE);
}

void
token_handshake_connect(struct token_handshake *p, const struct key *key, enum role wanted,
                        const struct token_handshake_own *own)
{
    *p = (struct token_handshake){.key = *key, .wanted = wanted, .any_cluster = own->cluster == NULL};
    p->version_min = TOKEN_HANDSHAKE_VERSION_MIN;
    p->version_max = TOKEN_HANDSHAKE_VERSION_MAX;
    memcpy(p->name, key->name, sizeof p->name);
    own_set(p, own, 0);
}

void
token_handshake_listen(struct token_handshake *p, const struct keyring *ring, const struct token_handshake_own *own)
{
    *p = (struct token_handshake){.state = TOKEN_HANDSHAKE_AWAITING, .ring = ring};
    own_set(p, own, 1);
}

void
token_handshake_bind(struct token_handshake *p, const uint8_t *binding, size_t len)
{
    ps_assert(len <= TOKEN_HANDSHAKE_BINDING_MAX);
    memcpy(p->binding, binding, len);
    p->binding_len = len;
}

size_t
token_handshake_knock(struct token_handshake *p, uint8_t *out)
{
    uint8_t *meta = frame_begin(MSG_KNOCK, KNOCK_BYTES, out);

    ps_assert(p->state == TOKEN_HANDSHAKE_NONE);
    put_le(meta + KNOCK_MIN, p->version_min, 2);
    put_le(meta + KNOCK_MAX, p->version_max, 2);
    put_le(meta + KNOCK_ROLE, (uint64_t)p->wanted, 4);
    put_le(meta + KNOCK_ANY, p->any_cluster, 4);
    memcpy(meta + KNOCK_NONCE, p->nonces[0], TOKEN_HANDSHAKE_NONCE);
    memcpy(meta + KNOCK_NAME, p->name, NAME_BYTES);
    p->state = TOKEN_HANDSHAKE_KNOCKED;
    return FRAME_HEAD_SIZE + KNOCK_BYTES;
}

void
token_handshake_finish(struct token_handshake *p)
{
    explicit_bzero(p, sizeof *p);
}

/* ---- The listening side ---- */

static enum ps_err
check_length(const struct frame_head *head, uint32_t meta_len, struct ps_error *e)
{
    if (head->meta_len == meta_len && head->payload_len == 0 && head->request == 0)
        return PS_OK;
    return ps_fail(e, PS_ERR_PROTOCOL, "a frame of type %u that is not as long as it must be", head->type);
}

/* The error for a peer that presents no token says what to do. */
static enum ps_err
out_of_place(const struct token_handshake *p, const struct frame_head *head, struct ps_error *e)
{
    if (p->state == TOKEN_HANDSHAKE_AWAITING)
        return ps_fail(
            e, PS_ERR_DENIED,
            "only peers that prove to have a token are let in here: name one by PSD_TOKEN_FILE or PSD_TOKEN (psctl: "
            "--token-file)");
    return ps_fail(e, PS_ERR_PROTOCOL, "a frame of type %u in the midst of a proof", head->type);
}

static bool
name_take(struct token_handshake *p, const uint8_t *in)
{
    size_t n = strnlen((const char *)in, NAME_BYTES);

    for (size_t i = n; i < NAME_BYTES; i++)
        if (in[i] != 0)
            return false;
    memcpy(p->name, in, NAME_BYTES);
    return n > 0 && n < NAME_BYTES && utf8_is_printable(p->name, n);
}

static enum ps_err
choose_version(struct token_handshake *p, struct ps_error *e)
{
    p->version = MIN(p->version_max, TOKEN_HANDSHAKE_VERSION_MAX);
    if (p->version >= MAX(p->version_min, TOKEN_HANDSHAKE_VERSION_MIN))
        return PS_OK;
    return ps_fail(e, PS_ERR_VERSION, "the peer speaks protocol versions %u to %u, this program speaks version %u",
                   p->version_min, p->version_max, TOKEN_HANDSHAKE_VERSION_MAX);
}

static enum ps_err
take_knock(struct token_handshake *p, const struct frame_head *head, const uint8_t *in, uint8_t *out, size_t *len,
           struct ps_error *e)
{
    uint64_t wanted = get_le(in + KNOCK_ROLE, 4), any = get_le(in + KNOCK_ANY, 4);
    enum ps_err err;
    uint8_t *meta;

    if ((err = check_length(head, KNOCK_BYTES, e)) != PS_OK)
        return err;
    if (p->ring->len == 0)
        return ps_fail(e, PS_ERR_DENIED,
                       "no tokens are known here, so none can be proven: give psd its --tokens, or leave PSD_TOKEN and "
                       "PSD_TOKEN_FILE out");
    p->version_min = (uint16_t)get_le(in + KNOCK_MIN, 2);
    p->version_max = (uint16_t)get_le(in + KNOCK_MAX, 2);
    if ((err = choose_version(p, e)) != PS_OK)
        return err;
    if (wanted >= ROLES || any > 1 || get_le(in + KNOCK_ZERO, 4) != 0 || !name_take(p, in + KNOCK_NAME))
        return ps_fail(e, PS_ERR_PROTOCOL, "a knock with a role or a name that cannot be");
    p->wanted = (enum role)wanted;
    p->any_cluster = any == 1;
    memcpy(p->nonces[0], in + KNOCK_NONCE, TOKEN_HANDSHAKE_NONCE);
    meta = frame_begin(MSG_CHALLENGE, CHALLENGE_BYTES, out);
    put_le(meta + CHALLENGE_VERSION, p->version, 2);
    memcpy(meta + CHALLENGE_NONCE, p->nonces[1], TOKEN_HANDSHAKE_NONCE);
    *len = FRAME_HEAD_SIZE + CHALLENGE_BYTES;
    p->state = TOKEN_HANDSHAKE_CHALLENGED;
    return PS_OK;
}

/* For an unknown name the same work is done, and the same error is returned. */
static enum ps_err
check_proof(const struct token_handshake *p, const uint8_t *in, const struct key **key, struct ps_error *e)
{
    static const struct key nobody = {.secret_len = KEYRING_SECRET_MIN};
    const struct key *known = keyring_find(p->ring, p->name);
    uint8_t mac[TOKEN_HANDSHAKE_MAC];
    bool equal;

    *key = known != NULL ? known : &nobody;
    if (!token_handshake_prove(p, *key, false, ROLE_NONE, mac))
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a proof");
    equal = mac_equal(mac, in);
    if (known == NULL || !equal)
        return ps_fail(e, PS_ERR_DENIED,
                       "token '%s' is not accepted: its name, its secret or the cluster's name is not the one that is "
                       "known here",
                       p->name);
    if (known->role < p->wanted)
        return ps_fail(e, PS_ERR_DENIED,
                       "token '%s' has role %s, and this takes %s: use another token, or give it that "
                       "role in psd's file of tokens",
                       p->name, role_name(known->role), role_name(p->wanted));
    return PS_OK;
}

static enum ps_err
take_prove(struct token_handshake *p, const struct frame_head *head, const uint8_t *in, uint8_t *out, size_t *len,
           struct ps_error *e)
{
    const struct key *key;
    enum ps_err err;
    uint8_t *meta;

    if ((err = check_length(head, PROVE_BYTES, e)) != PS_OK || (err = check_proof(p, in, &key, e)) != PS_OK)
        return err;
    p->granted = p->wanted != ROLE_NONE ? p->wanted : key->role;
    meta = frame_begin(MSG_PROVEN, PROVEN_BYTES, out);
    put_le(meta + PROVEN_ROLE, (uint64_t)p->granted, 4);
    if (!token_handshake_prove(p, key, true, p->granted, meta + PROVEN_MAC))
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a proof");
    *len = FRAME_HEAD_SIZE + PROVEN_BYTES;
    p->state = TOKEN_HANDSHAKE_THROUGH;
    return PS_OK;
}

/* ---- The connecting side ---- */

static enum ps_err
take_challenge(struct token_handshake *p, const struct frame_head *head, const uint8_t *in, uint8_t *out, size_t *len,
               struct ps_error *e)
{
    enum ps_err err;
    uint8_t *meta;

    if ((err = check_length(head, CHALLENGE_BYTES, e)) != PS_OK)
        return err;
    p->version = (uint16_t)get_le(in + CHALLENGE_VERSION, 2);
    if (p->version < p->version_min || p->version > p->version_max)
        return ps_fail(e, PS_ERR_VERSION, "the peer chose protocol version %u, this program speaks version %u",
                       p->version, TOKEN_HANDSHAKE_VERSION_MAX);
    memcpy(p->nonces[1], in + CHALLENGE_NONCE, TOKEN_HANDSHAKE_NONCE);
    meta = frame_begin(MSG_PROVE, PROVE_BYTES, out);
    if (!token_handshake_prove(p, &p->key, false, ROLE_NONE, meta))
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a proof");
    *len = FRAME_HEAD_SIZE + PROVE_BYTES;
    p->state = TOKEN_HANDSHAKE_PROVED;
    return PS_OK;
}

static enum ps_err
take_proven(struct token_handshake *p, const struct frame_head *head, const uint8_t *in, uint8_t *out, size_t *len,
            struct ps_error *e)
{
    uint64_t granted = get_le(in + PROVEN_ROLE, 4);
    uint8_t mac[TOKEN_HANDSHAKE_MAC];
    enum ps_err err;

    (void)out;
    (void)len;
    if ((err = check_length(head, PROVEN_BYTES, e)) != PS_OK)
        return err;
    if (granted == ROLE_NONE || granted >= ROLES)
        return ps_fail(e, PS_ERR_PROTOCOL, "the peer granted a role that there is not");
    if (!token_handshake_prove(p, &p->key, true, (enum role)granted, mac))
        return ps_fail(e, PS_ERR_NOMEM, "no memory for a proof");
    if (!mac_equal(mac, in + PROVEN_MAC))
        return ps_fail(e, PS_ERR_DENIED,
                       "the other side does not have token '%s': it is not the server that this process meant to reach",
                       p->name);
    p->granted = (enum role)granted;
    p->state = TOKEN_HANDSHAKE_THROUGH;
    return PS_OK;
}

/* The reason of a refusal. */
static enum ps_err
take_error(const struct frame_head *head, const void *meta, struct ps_error *e)
{
    struct arena arena = {0};
    struct wire_msg msg;
    enum ps_err err = wire_decode(head, meta, &arena, &msg, e);

    if (err == PS_OK && msg.u.error->code == PS_OK)
        err = ps_fail(e, PS_ERR_PROTOCOL, "an error that is none");
    else if (err == PS_OK)
        err = ps_fail(e, (enum ps_err)msg.u.error->code, "%s",
                      msg.u.error->text[0] != '\0' ? msg.u.error->text : ps_strerror((enum ps_err)msg.u.error->code));
    arena_finish(&arena);
    return err;
}

/* ---- Frames ---- */

typedef enum ps_err (*take)(struct token_handshake *p, const struct frame_head *head, const uint8_t *in, uint8_t *out,
                            size_t *len, struct ps_error *e);

static const struct {
    enum msg_type type;
    uint32_t meta_len;
    take take;
} moves[TOKEN_HANDSHAKE_FAILED + 1] = {
    [TOKEN_HANDSHAKE_KNOCKED] = {MSG_CHALLENGE, CHALLENGE_BYTES, take_challenge},
    [TOKEN_HANDSHAKE_PROVED] = {MSG_PROVEN, PROVEN_BYTES, take_proven},
    [TOKEN_HANDSHAKE_AWAITING] = {MSG_KNOCK, KNOCK_BYTES, take_knock},
    [TOKEN_HANDSHAKE_CHALLENGED] = {MSG_PROVE, PROVE_BYTES, take_prove},
};

size_t
token_handshake_refusal(const struct ps_error *why, uint8_t *out)
{
    Psd__Error message = PSD__ERROR__INIT;
    char text[PS_ERROR_TEXT_MAX];
    size_t len;

    snprintf(text, sizeof text, "%s", why->text);
    utf8_clean(text);
    message.code = (uint32_t)why->code;
    message.text = text;
    len = wire_size(&message.base);
    ps_assert(len <= TOKEN_HANDSHAKE_FRAME_MAX);
    wire_encode(MSG_ERROR, 0, &message.base, 0, out);
    return len;
}

enum ps_err
token_handshake_take(struct token_handshake *p, const struct frame_head *head, const void *meta, uint8_t *out,
                     size_t *len, struct ps_error *e)
{
    bool listens = p->state == TOKEN_HANDSHAKE_AWAITING || p->state == TOKEN_HANDSHAKE_CHALLENGED;
    struct ps_error why;
    enum ps_err err;

    ps_assert(moves[p->state].take != NULL);
    *len = 0;
    if (head->type == moves[p->state].type && head->meta_len == moves[p->state].meta_len)
        err = moves[p->state].take(p, head, meta, out, len, &why);
    else if (head->type == moves[p->state].type)
        err = check_length(head, moves[p->state].meta_len, &why);
    else if (!listens && head->type == MSG_ERROR)
        err = take_error(head, meta, &why);
    else
        err = out_of_place(p, head, &why);
    if (err == PS_OK)
        return PS_OK;
    p->state = TOKEN_HANDSHAKE_FAILED;
    *len = listens ? token_handshake_refusal(&why, out) : 0;
    if (e != NULL)
        *e = why;
    return err;
}
