/* The ranks that take part in a stage of a collective: all, those of one host, one of each. Internal to plan*.c. */
#ifndef CLIENT_CORE_PLAN_PLAN_TEAM_H
#define CLIENT_CORE_PLAN_PLAN_TEAM_H

#include "client/core/plan/plan.h"

/* The ranks of a team, in an order, and this rank's place among them. */
struct plan_team {
    uint32_t n, me;
    const uint32_t *rank; /* NULL: all ranks in their order */
    const uint32_t *sums; /* [n] how many ranks' elements a member has added up when it begins; NULL: its own */
};

uint32_t team_rank(const struct plan_team *t, uint32_t member); /* modulo n */

/* How many ranks' elements the members [from, to) have when they begin. */
uint32_t team_sum(const struct plan_team *t, uint32_t from, uint32_t to);

/* The hosts of a group, numbered in the order of their lowest ranks. */
struct plan_hosts {
    uint32_t n;
    uint32_t of[PS_GROUP_RANKS_MAX]; /* by rank */
};

void hosts_find(const struct plan_request *ask, struct plan_hosts *h);

#endif
