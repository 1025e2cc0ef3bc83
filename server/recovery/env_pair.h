/* Records that a live and a durable environment belong together: a fact "pair" in each.
 *
 * id is the durable one's, a random number taken when it is made. life is the live one's, a new random number whenever
 * that is made or rebuilt, written to the durable one before anything is acknowledged. So a start sees
 *
 *     the same id and life      they belong together: the live one is the newer, or they are alike
 *     the same id, another life the live one is an older copy: the durable one went on with another
 *     another id                the live one belongs to another durable one
 *     no row in the live one    it has none yet */
#ifndef SERVER_RECOVERY_ENV_PAIR_H
#define SERVER_RECOVERY_ENV_PAIR_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "server/core/store/store.h"

struct env_pair {
    uint64_t id, life; /* 0: no row */
    bool behind;       /* the live one has changed without the durable one */
};

/* PS_ERR_IO, also when it is damaged; PS_ERR_NOMEM. */
enum ps_err env_pair_read(struct store *store, struct env_pair *out) PS_MUST_USE;

/* Begins and commits a transaction of its own. */
enum ps_err env_pair_write(struct store *store, const struct env_pair *pair) PS_MUST_USE;

/* A random number other than 0. */
enum ps_err env_pair_random(uint64_t *out) PS_MUST_USE;

#endif
