/* Quotas of tokens as psd's --quota gives them. Pure.
 *
 *     alice:jobs=4:variables=1000:bytes=8GiB,*:sessions=64       a token's, and that of all others
 *
 * Where two tokens or more may train, and "*" is not given, each of them has seven eighths of the shard's own limits:
 * so that one of them leaves room to the others. */
#ifndef SERVER_ACCESS_TOKEN_QUOTAS_H
#define SERVER_ACCESS_TOKEN_QUOTAS_H

#include "server/core/turn/quota.h"
#include "server/process/options.h"

#define TOKEN_QUOTAS_MAX 256

struct token_quotas {
    struct quota_row rows[TOKEN_QUOTAS_MAX + 1];
    size_t len;
};

/* PS_ERR_CONFIG with one sentence. ring: the tokens; a name that none has is allowed, since it may be added later. */
enum ps_err token_quotas_read(struct token_quotas *q, const struct options *o, const struct keyring *ring,
                              struct ps_error *e) PS_MUST_USE;

#endif
