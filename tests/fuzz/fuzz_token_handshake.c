/* The proof of a token, with an attacker without one between the two sides: the input says what the attacker changes in
 * each frame, or what it sends in its place.
 *
 * What must hold: a side that succeeds has received all that the other side sent, unchanged but for bytes without
 * meaning; a failure says why, and an answer is a frame that can be sent; a peer without the secret is never let in. */
#include "tests/fuzz/bytes.h"

#include "common/core/auth/token_handshake.h"

#define SECRET "0123456789abcdef"

struct handshake_relay {
    struct fuzz_bytes in;
    struct token_handshake client, shard;
    uint8_t sent[TOKEN_HANDSHAKE_FRAME_MAX]; /* as the last side sent it */
    uint8_t frame[FRAME_HEAD_SIZE + TOKEN_HANDSHAKE_META_MAX];
    size_t sent_len, len;
    bool changed;     /* something that has a meaning */
    bool says_secret; /* the attacker has sent it, as the name of a token for example, and may be answered with it */
};

/* Bytes of a frame that neither side looks at. */
static bool
says_nothing(unsigned type, size_t at)
{
    at -= FRAME_HEAD_SIZE;
    return (type == MSG_CHALLENGE && at >= 2 && at < 8) || (type == MSG_PROVEN && at >= 4 && at < 8);
}

static bool
says_the_same(const struct handshake_relay *r)
{
    if (r->len != r->sent_len)
        return false;
    for (size_t i = 0; i < r->len; i++)
        if (r->frame[i] != r->sent[i] && (i < FRAME_HEAD_SIZE || !says_nothing(r->sent[6], i)))
            return false;
    return true;
}

/* One of its own: of any type, with the input's bytes. */
static void
fuzz_token_handshake_replace(struct handshake_relay *r)
{
    struct frame_head head = {.version = FRAME_VERSION, .request = bytes_below(&r->in, 2)};
    size_t n = bytes_one(&r->in) % 128;

    do
        head.type = (uint16_t)(bytes_below(&r->in, 4) != 0 ? MSG_KNOCK + bytes_below(&r->in, 4)
                                                           : 1 + bytes_below(&r->in, MSG_TYPE_MAX - 1));
    while (head.type == MSG_NONE);
    head.meta_len = (uint32_t)n;
    frame_head_encode(&head, r->frame);
    memset(r->frame + FRAME_HEAD_SIZE, 0, n + frame_pad(n));
    for (size_t i = 0; i < n; i++)
        r->frame[FRAME_HEAD_SIZE + i] = bytes_one(&r->in);
    r->len = FRAME_HEAD_SIZE + n + frame_pad(n);
}

static void
fuzz_token_handshake_change(struct handshake_relay *r)
{
    memcpy(r->frame, r->sent, r->sent_len);
    r->len = r->sent_len;
    switch (bytes_below(&r->in, 4)) {
    case 1:
        for (uint32_t n = 1 + bytes_below(&r->in, 4); n > 0; n--)
            r->frame[FRAME_HEAD_SIZE + bytes_one(&r->in) % (r->len - FRAME_HEAD_SIZE)] = bytes_one(&r->in);
        break;
    case 2:
        fuzz_token_handshake_replace(r);
        break;
    default:
        break;
    }
    r->changed |= !says_the_same(r);
    r->says_secret |= memmem(r->frame, r->len, SECRET, strlen(SECRET)) != NULL;
}

/* False: it is over. */
static bool
fuzz_token_handshake_give(struct handshake_relay *r, struct token_handshake *to)
{
    uint8_t *meta;
    struct frame_head head;
    struct ps_error e = {0};
    enum ps_err err;

    fuzz_token_handshake_change(r);
    if (frame_head_decode(r->frame, &head, &e) != PS_OK)
        return false;
    meta = malloc(head.meta_len + 1); /* of exactly its length */
    ps_assert(meta != NULL);
    memcpy(meta, r->frame + FRAME_HEAD_SIZE, head.meta_len);
    err = token_handshake_take(to, &head, meta, r->sent, &r->sent_len, &e);
    free(meta);
    ps_assert(r->sent_len <= TOKEN_HANDSHAKE_FRAME_MAX);
    if (r->sent_len > 0)
        ps_assert(frame_head_decode(r->sent, &head, &e) == PS_OK && head.meta_len <= TOKEN_HANDSHAKE_META_MAX);
    ps_assert(token_handshake_through(to) ? err == PS_OK : true);
    if (err == PS_OK)
        return r->sent_len > 0;
    ps_assert(err == e.code && e.text[0] != '\0' && (r->says_secret || strstr(e.text, SECRET) == NULL) &&
              to->state == TOKEN_HANDSHAKE_FAILED);
    return false;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "a:train:" SECRET "\nb:read:fedcba9876543210\n";
    struct handshake_relay r = {.in = {data, size}};
    struct token_handshake_own ours = {.cluster = "psd"}, theirs = {.cluster = "psd"};
    struct keyring ring;
    struct key key;
    bool knows;

    ps_assert(keyring_parse(&ring, "tokens", text, sizeof text - 1, NULL) == PS_OK);
    key = ring.keys[bytes_below(&r.in, 2)];
    knows = bytes_below(&r.in, 4) != 0;
    key.secret[0] ^= !knows;
    ours.nonce[0] = bytes_one(&r.in);
    theirs.nonce[0] = bytes_one(&r.in);
    if (bytes_below(&r.in, 4) == 0)
        ours.cluster = NULL;
    token_handshake_connect(&r.client, &key, (enum role)bytes_below(&r.in, ROLES), &ours);
    token_handshake_listen(&r.shard, &ring, &theirs);
    r.sent_len = token_handshake_knock(&r.client, r.sent);
    while (fuzz_token_handshake_give(&r, &r.shard) && fuzz_token_handshake_give(&r, &r.client))
        continue;
    ps_assert(!token_handshake_through(&r.client) || (knows && !r.changed));
    ps_assert(!token_handshake_through(&r.shard) || knows);
    token_handshake_finish(&r.client);
    token_handshake_finish(&r.shard);
    keyring_finish(&ring);
    return 0;
}
