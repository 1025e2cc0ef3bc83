/* The token handshake: before anything else on a connection, the connecting side proves that it has one of the
 * listening side's tokens, and the listening side that it has the same one; the token itself is not sent. PROTOCOL.md,
 * section 14. Pure: nonces are arguments.
 *
 *     connecting side                                listening side
 *     KNOCK   versions, role, name, nonce  ────────►  AWAITING
 *     KNOCKED                              ◄────────  CHALLENGE   version, nonce
 *     PROVE   HMAC                         ────────►  CHALLENGED
 *     PROVED                               ◄────────  PROVEN      role, HMAC
 *     THROUGH                                         THROUGH
 *
 *     anything else ──► FAILED (final); the listening side sends ERROR(DENIED), and nothing of its data
 *
 *     token_handshake_connect(&p, ...) or token_handshake_listen(&p, ...);
 *     len = token_handshake_knock(&p, out);                      // connecting side
 *     err = token_handshake_take(&p, head, meta, out, &len, &e); // each frame received; out is sent, also on failure
 *     token_handshake_through(&p), p.granted, p.name
 *     token_handshake_finish(&p);
 *
 * The HMAC (RFC 2104, with SHA-256) covers all that both have sent, the cluster's name, which is not sent, and the
 * bytes that bind the handshake to its encrypted channel: so an earlier proof, one of another shard, cluster or
 * channel, or one's own proof sent back is not valid, and nobody between can change what was sent. */
#ifndef COMMON_CORE_AUTH_TOKEN_HANDSHAKE_H
#define COMMON_CORE_AUTH_TOKEN_HANDSHAKE_H

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

/* A side's own inputs. */
struct token_handshake_own {
    const char *cluster; /* connecting side: NULL for any */
    uint8_t nonce[TOKEN_HANDSHAKE_NONCE];
};

struct token_handshake {
    enum token_handshake_state state;
    char name[KEYRING_NAME_MAX + 1]; /* of the token, as the connecting side gives it */
    enum role wanted, granted;       /* granted: THROUGH; never more than wanted, where that is some */

    /* private */
    bool any_cluster;
    uint16_t version_min, version_max, version;
    char cluster[WIRE_CLUSTER_MAX + 1];
    uint8_t nonces[2][TOKEN_HANDSHAKE_NONCE]; /* of the connecting and the listening side */
    uint8_t binding[TOKEN_HANDSHAKE_BINDING_MAX];
    size_t binding_len;
    struct key key;             /* connecting side */
    const struct keyring *ring; /* listening side: borrowed; read when a proof comes */
};

/* wanted: ROLE_NONE for the token's role. key is copied. */
void token_handshake_connect(struct token_handshake *p, const struct key *key, enum role wanted,
                             const struct token_handshake_own *own);

/* ring may be empty: then every peer is refused. */
void token_handshake_listen(struct token_handshake *p, const struct keyring *ring,
                            const struct token_handshake_own *own);

/* The channel below is encrypted, and these bytes are the same at both of its ends and nowhere else. Called before the
 * first frame is taken. */
void token_handshake_bind(struct token_handshake *p, const uint8_t *binding, size_t len);

/* The first frame, of the connecting side. out: [TOKEN_HANDSHAKE_FRAME_MAX]. Returns its length. */
size_t token_handshake_knock(struct token_handshake *p, uint8_t *out);

/* A frame came. out, [TOKEN_HANDSHAKE_FRAME_MAX], and *len: what is to be sent, 0 for nothing. Errors are final:
 * DENIED, VERSION, PROTOCOL, NOMEM, and that of an ERROR frame from the listening side. */
enum ps_err token_handshake_take(struct token_handshake *p, const struct frame_head *head, const void *meta,
                                 uint8_t *out, size_t *len, struct ps_error *e) PS_MUST_USE;

/* The ERROR frame with the reason, cut to the length that fits. out: [TOKEN_HANDSHAKE_FRAME_MAX]. */
size_t token_handshake_refusal(const struct ps_error *why, uint8_t *out);

static inline bool
token_handshake_through(const struct token_handshake *p)
{
    return p->state == TOKEN_HANDSHAKE_THROUGH;
}

/* Overwrites the key. Accepts zeroed ones. */
void token_handshake_finish(struct token_handshake *p);

#endif
