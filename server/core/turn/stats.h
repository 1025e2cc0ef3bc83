/* Counters of a shard since its process began, for reports and metrics. They are those of stats_list.h; pushes and
 * pulls are counted by block. */
#ifndef SERVER_CORE_TURN_STATS_H
#define SERVER_CORE_TURN_STATS_H

#include "common/core/base/base.h"
#include "common/core/model/age.h"
#include "common/core/wire/stats_list.h"
#include "server/core/turn/durations.h"
#include "server/core/turn/limit.h"

/* Why a peer was denied something. */
enum denial {
    DENIAL_TOKEN,    /* came without a token, or not with one that is known */
    DENIAL_ATTEMPTS, /* too many wrong proofs of its token came from its address */
    DENIAL_SILENCE,  /* proved nothing in time */
    DENIAL_GARBAGE,  /* broke the rules of the proof, or spoke another version */
    DENIAL_USER,     /* is no user that may use the Unix socket */
    DENIAL_ROLE,     /* has a role that takes less than was asked for */
    DENIALS
};

/* Why a TLS handshake failed. */
enum handshake {
    HANDSHAKE_GONE,        /* the peer closed without sending anything: a probe */
    HANDSHAKE_SILENCE,     /* it was not done in time */
    HANDSHAKE_PLAIN,       /* the peer speaks no TLS */
    HANDSHAKE_CERTIFICATE, /* it has no certificate, or one that is not trusted */
    HANDSHAKE_ROOM,        /* there were too many at once */
    HANDSHAKE_OTHER,       /* no version or cipher in common, a message that breaks the rules, or it refused ours */
    HANDSHAKES
};

/* Why a connection could not stay, of any peer: a new one, where nothing else is said. */
enum connection_refusal {
    REFUSAL_QUOTA,       /* connections of its token */
    REFUSAL_CONNECTIONS, /* --connections-max: the shard counts them */
    REFUSAL_DESCRIPTORS,
    REFUSAL_MEMORY,
    REFUSAL_IN_FLIGHT, /* --in-flight, --frame-timeout: at any time */
    REFUSALS
};

struct shard_stats {
#define X(member, ...) uint64_t member;
    STATS_LIST(X)
#undef X
    uint64_t limited[LIMITS]; /* refused */
    struct age_histogram age;
    struct durations waits[WAITS];
};

#endif
