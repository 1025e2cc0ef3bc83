/* What a rendezvous agreed on: the ranks of one epoch of a group, and where each of them listens. Every rank has the
 * same table but for `rank`.
 *
 *     acceptor_open(&g->acceptor, ...)       // this rank listens; its address is known  (acceptor.h)
 *     form_meet(g, &ask, &t, e)              // meets the others: form.c fills the table (group_state.h)
 *     mesh_join(g, deadline, e)              // connects to all of them                  (group_state.h)
 *     group_membership_finish(&t)
 *
 * Plain data; the owner of a filled table finishes it. */
#ifndef CLIENT_GROUP_RENDEZVOUS_MEMBERSHIP_H
#define CLIENT_GROUP_RENDEZVOUS_MEMBERSHIP_H

#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"

#define GROUP_HOST_MAX    128 /* bytes, with the end */
#define GROUP_ADDRESS_MAX 64  /* bytes, with the end: a numeric one always fits */

struct group_member {
    uint32_t task;                   /* worker index; rises with the rank */
    uint64_t incarnation;            /* which life of that worker; never 0 */
    char host[GROUP_HOST_MAX];       /* the same text: one machine, and namespaces that can share memory. "": not known,
                                        then it is like no other */
    char address[GROUP_ADDRESS_MAX]; /* "127.0.0.1:4000", "[::1]:4000": numbers, no names */
};

struct group_membership {
    uint64_t id;    /* random, chosen by the rendezvous for this forming: a rank with another one is refused */
    uint64_t epoch; /* greater after each forming */
    uint32_t ranks, rank;
    struct group_member *members; /* [ranks], heap */
};

/* Zeroed members for `ranks` of them. PS_ERR_NOMEM, PS_ERR_LIMIT (0, or past PS_GROUP_RANKS_MAX). */
enum ps_err group_membership_init(struct group_membership *t, uint32_t ranks, struct ps_error *e) PS_MUST_USE;
void group_membership_finish(struct group_membership *t); /* accepts zeroed and finished ones */

/* PS_ERR_PROTOCOL when the ranks, tasks, incarnations or addresses make no sense: it came from elsewhere. */
enum ps_err group_membership_check(const struct group_membership *t, struct ps_error *e) PS_MUST_USE;

/* "rank 2 at 127.0.0.1:4000", or "rank 2 at 127.0.0.1:4000, this process" for the table's own rank. */
void group_membership_name(const struct group_membership *t, uint32_t rank, char *out, size_t size);

#endif
