/* Quotas: how much of what a shard takes one token may hold, by the token's name. A job, with its variables and what
 * these take, is held by the token that opened it, a session by the one that its worker proved. A holder is there while
 * it holds something; rows say whose a job or session is, so that it is counted again when they are loaded. Pure.
 *
 *     if (quota_exceeds(s, job->holder, QUOTA_VARIABLES, 1))
 *         return quota_refuse(s, job->holder, QUOTA_VARIABLES, e, "no room for variable '%.64s'", name);
 *
 * says "no room for variable 'w': token 'alice' holds 4 variables on shard 0, and its quota is 4 (psd's --quota)".
 * Quotas bound what is asked for; nothing that is there goes because one has become smaller. What is held without a
 * token has none. */
#ifndef SERVER_CORE_TURN_QUOTA_H
#define SERVER_CORE_TURN_QUOTA_H

#include "common/core/auth/keyring.h"
#include "common/core/base/base.h"
#include "common/core/base/hash.h"
#include "common/include/psclient/ps_err.h"

struct shard;

/* id, key in psd's --quota, what it counts, whether in bytes */
#define QUOTA_LIST(X)                                                                                                  \
    X(JOBS, "jobs", "jobs", false)                                                                                     \
    X(SESSIONS, "sessions", "sessions", false)                                                                         \
    X(VARIABLES, "variables", "variables", false)                                                                      \
    X(BYTES, "bytes", "of variables", true)                                                                            \
    X(GATHER, "gather", "for gradients that wait", true)                                                               \
    X(CONNECTIONS, "connections", "connections", false) /* the glue's */

enum quota {
#define X(id, ...) QUOTA_##id,
    QUOTA_LIST(X)
#undef X
        QUOTAS
};

#define QUOTA_NONE UINT64_MAX

struct quota_text {
    const char *key, *what;
    bool bytes;
};
extern const struct quota_text quota_texts[QUOTAS];

/* What the token of this name may hold; "*": every token that has no other. */
struct quota_row {
    char name[KEYRING_NAME_MAX + 1];
    uint64_t most[QUOTAS]; /* or QUOTA_NONE */
};

/* The row of a token; NULL: it has none. */
const struct quota_row *quota_find(const struct quota_row *rows, size_t len, const char *name);

struct quota_holder {
    struct quota_holder **all; /* the shard's hash by name */
    uint32_t uses;             /* jobs and sessions that point to it */
    uint64_t has[QUOTAS];
    UT_hash_handle hh;
    char name[];
};

/* The holder of this name gets one more use. False: there is no memory. *out: NULL for "", nobody. */
bool quota_hold(struct shard *s, const char *name, struct quota_holder **out) PS_MUST_USE;
void quota_release(struct quota_holder *h); /* accepts NULL */

static inline void
quota_add(struct quota_holder *h, enum quota what, uint64_t n)
{
    if (h != NULL)
        h->has[what] += n;
}

static inline void
quota_subtract(struct quota_holder *h, enum quota what, uint64_t n)
{
    if (h == NULL)
        return;
    ps_assert(h->has[what] >= n);
    h->has[what] -= n;
}

static inline const char *
quota_name(const struct quota_holder *h)
{
    return h != NULL ? h->name : "";
}

/* How much the token of this name holds. */
uint64_t quota_held(const struct shard *s, const char *name, enum quota what);

/* So many more would be too many for it; h may be NULL. */
bool quota_exceeds(const struct shard *s, const struct quota_holder *h, enum quota what, uint64_t more);

/* PS_ERR_LIMIT with a sentence that begins as given and names token, quota and how much it holds; counted. */
enum ps_err quota_refuse(struct shard *s, const struct quota_holder *h, enum quota what, struct ps_error *e,
                         const char *format, ...) PS_PRINTF(5, 6);

#endif
