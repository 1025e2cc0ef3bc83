/* The prelude: before anything else on a connection, who connects proves that it has one of the listener's tokens, and
 * the listener that it has the same one; the token itself does not travel. PROTOCOL.md, section 14. Pure: nonces are
 * arguments.
 *
 *     who connects                                   who listens
 *     KNOCK   versions, role, name, nonce  ────────►  AWAITING
 *     KNOCKED                              ◄────────  CHALLENGE   version, nonce
 *     PROVE   HMAC                         ────────►  CHALLENGED
 *     PROVED                               ◄────────  PROVEN      role, HMAC
 *     THROUGH                                         THROUGH
 *
 *     whatever else comes ──► FAILED (final); who listens says ERROR(DENIED), and nothing of what it holds
 *
 *     token_handshake_connect(&p, ...) or token_handshake_listen(&p, ...);
 *     len = token_handshake_knock(&p, out);            // who connects
 *     err = token_handshake_take(&p, head, meta, out, &len, &e); // each frame received; out is sent, also after a
 * failure token_handshake_through(&p), p.granted, p.name token_handshake_finish(&p);
 *
 * The HMAC (RFC 2104, with SHA-256) is of all that both have said, of the cluster's name, which is not said, and of
 * what binds the prelude to the encrypted channel that it goes through: so neither a proof of before, nor one of
 * another shard, cluster or channel, nor one's own sent back is one, and nobody between can change what was said. */
#ifndef COMMON_TOKEN_HANDSHAKE_H
#define COMMON_TOKEN_HANDSHAKE_H

#include "common/core/auth/keyring.h"
#include "common/core/auth/mac.h"
#include "common/core/wire/frame.h"
#include "common/core/wire/wire.h"

#define TOKEN_HANDSHAKE_NONCE       32
#define TOKEN_HANDSHAKE_MAC         MAC_BYTES
#define TOKEN_HANDSHAKE_BINDING_MAX 64
#define TOKEN_HANDSHAKE_META_MAX    2048 /* bytes of metadata in any frame before the proof; no payload */
#define TOKEN_HANDSHAKE_FRAME_MAX   1024 /* bytes of a frame that token_handshake_take() makes */
#define TOKEN_HANDSHAKE_VERSION_MIN FRAME_VERSION
#define TOKEN_HANDSHAKE_VERSION_MAX FRAME_VERSION

enum token_handshake_state {
    TOKEN_HANDSHAKE_NONE,
    TOKEN_HANDSHAKE_KNOCKED,
    TOKEN_HANDSHAKE_PROVED,
    TOKEN_HANDSHAKE_AWAITING,
    TOKEN_HANDSHAKE_CHALLENGED,
    TOKEN_HANDSHAKE_THROUGH,
    TOKEN_HANDSHAKE_FAILED
};

/* What a side brings along. */
struct token_handshake_own {
    const char *cluster; /* who connects: NULL for any */
    uint8_t nonce[TOKEN_HANDSHAKE_NONCE];
};

struct token_handshake {
    enum token_handshake_state state;
    char name[KEYRING_NAME_MAX + 1]; /* of the token, as who connects says */
    enum role wanted, granted;       /* granted: THROUGH; never more than wanted, where that is some */

    /* private */
    bool any_cluster;
    uint16_t version_min, version_max, version;
    char cluster[WIRE_CLUSTER_MAX + 1];
    uint8_t nonces[2][TOKEN_HANDSHAKE_NONCE]; /* who connects, who listens */
    uint8_t binding[TOKEN_HANDSHAKE_BINDING_MAX];
    size_t binding_len;
    struct key key;             /* who connects */
    const struct keyring *ring; /* who listens: borrowed; looked into when a proof comes */
};

/* wanted: ROLE_NONE for whatever the token has. key is copied. */
void token_handshake_connect(struct token_handshake *p, const struct key *key, enum role wanted,
                             const struct token_handshake_own *own);

/* ring may be empty: then nobody comes through. */
void token_handshake_listen(struct token_handshake *p, const struct keyring *ring,
                            const struct token_handshake_own *own);

/* The channel beneath is encrypted, and these bytes are alike at both of its ends and nowhere else. Before the first
 * frame is taken. */
void token_handshake_bind(struct token_handshake *p, const uint8_t *binding, size_t len);

/* The first frame, of who connects. out: [TOKEN_HANDSHAKE_FRAME_MAX]. Returns its length. */
size_t token_handshake_knock(struct token_handshake *p, uint8_t *out);

/* A frame came. out, [TOKEN_HANDSHAKE_FRAME_MAX], and *len: what is to be sent, 0 for nothing. Errors are final:
 * DENIED, VERSION, PROTOCOL, NOMEM, and, where who listens has said ERROR, what that says. */
enum ps_err token_handshake_take(struct token_handshake *p, const struct frame_head *head, const void *meta,
                                 uint8_t *out, size_t *len, struct ps_error *e) PS_MUST_USE;

/* The frame that says why not, in the length that fits. out: [TOKEN_HANDSHAKE_FRAME_MAX]. */
size_t token_handshake_refusal(const struct ps_error *why, uint8_t *out);

static inline bool
token_handshake_through(const struct token_handshake *p)
{
    return p->state == TOKEN_HANDSHAKE_THROUGH;
}

/* Overwrites the key. Accepts zeroed ones. */
void token_handshake_finish(struct token_handshake *p);

#endif
