/* Attempts at tokens: how long a proof waits before it is looked at, by how many were wrong. Pure; time is an argument.
 *
 *     at = access_attempts_at(&address, name);           // a name that no token has: ""
 *     err = access_attempts_begin(&all, &at, now_ms, &hold_ms, &e);     // a proof has come
 *     ...                                                // hold_ms later it is looked at
 *     access_attempts_end(&all, &at, wrong, now_ms);     // it was; or its connection is gone, which is not wrong
 *
 * Counted is by address and by the token's name: who has another token, or is elsewhere, waits for nobody. Each wrong
 * proof past ACCESS_ATTEMPTS_FREE doubles what the next ones wait, up to ACCESS_ATTEMPTS_HOLD_MAX_MS; one is forgotten
 * every ACCESS_ATTEMPTS_FORGET_MS. A right proof waits as long as a wrong one does, or not to be answered at once would
 * say that it is wrong. At most ACCESS_ATTEMPTS_HELD wait of a name at an address; one more is refused unseen. */
#ifndef SERVER_ACCESS_ACCESS_ATTEMPTS_H
#define SERVER_ACCESS_ACCESS_ATTEMPTS_H

#include "common/core/auth/keyring.h"
#include "common/core/base/hash.h"
#include "common/net/sockname.h"

#define ACCESS_ATTEMPTS_FREE        8    /* wrong proofs after which the next ones do not wait yet */
#define ACCESS_ATTEMPTS_HOLD_MS     100  /* what the first one waits that does */
#define ACCESS_ATTEMPTS_HOLD_MAX_MS 2000 /* less than a client waits for an answer */
#define ACCESS_ATTEMPTS_HELD        32
#define ACCESS_ATTEMPTS_FORGET_MS   10000
#define ACCESS_ATTEMPTS_MAX         4096 /* names at addresses that are counted; the oldest that none waits at goes */

/* Compared as bytes. */
struct access_attempts_at {
    struct sockname_host host;
    char name[KEYRING_NAME_MAX + 1];
};

/* A name at an address at which some proof was wrong lately, or waits. */
struct access_attempt {
    struct access_attempts_at at;
    uint32_t wrong, held;
    uint64_t since_ms; /* when the next wrong one begins to be forgotten */
    UT_hash_handle hh;
};

struct access_attempts {
    uint32_t free;              /* wrong ones after which the next do not wait yet; 0: ACCESS_ATTEMPTS_FREE */
    struct access_attempt *all; /* a hash, in order of the last wrong one */
};

struct access_attempts_at access_attempts_at(const struct sockname_host *host, const char *name);

/* *hold_ms: 0: it may be looked at. PS_ERR_LIMIT: too many wait. access_attempts_end() is owed unless it fails. */
enum ps_err access_attempts_begin(struct access_attempts *a, const struct access_attempts_at *at, uint64_t now_ms,
                                  uint32_t *hold_ms, struct ps_error *e) PS_MUST_USE;

void access_attempts_end(struct access_attempts *a, const struct access_attempts_at *at, bool wrong, uint64_t now_ms);

void access_attempts_finish(struct access_attempts *a); /* accepts zeroed ones */

#endif
