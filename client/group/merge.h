/* An operation of a group that has no public call: every rank's parts go to the ranks that own them, each of which
 * merges those that it gets into one, and that goes to all (plan_merge() in client/core/plan/plan.h). It is one of the
 * group's operations like all others, in their order, waited for through its work. */
#ifndef CLIENT_GROUP_MERGE_H
#define CLIENT_GROUP_MERGE_H

#include "client/include/psclient/ps_group.h"
#include "common/include/psclient/ps_compress.h"

struct group_merge {
    const uint32_t *in; /* [ranks * slot] words, borrowed as an operation's buffers are; merge() writes there */
    uint32_t *out;      /* the same */
    size_t slot, piece; /* words; a slot's last piece may be shorter */
    size_t elements;    /* of the gradient, and */
    enum ps_reduce reduce;
    enum ps_compress_kind encoding;
    uint64_t tag; /* these are the same on all ranks, or it is a MISMATCH (group_signature) */
    uint32_t (*merge)(void *arg, size_t at); /* group_request in group_core.h; in the thread that drives the network */
    void *arg;
};

/* The group has more than one rank. Errors as of starting any operation. */
enum ps_err group_merge_start(ps_group *g, const struct group_merge *m, ps_work **work, struct ps_error *e) PS_MUST_USE;

#endif
