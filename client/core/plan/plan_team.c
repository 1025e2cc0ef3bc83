#include "client/core/plan/plan_team.h"

uint32_t
team_rank(const struct plan_team *t, uint32_t member)
{
    return t->rank != NULL ? t->rank[member % t->n] : member % t->n;
}

uint32_t
team_sum(const struct plan_team *t, uint32_t from, uint32_t to)
{
    uint32_t sum = 0;

    ps_assert(from <= to && to <= t->n);
    for (uint32_t member = from; member < to; member++)
        sum += t->sums != NULL ? t->sums[member] : 1;
    return sum;
}

void
hosts_find(const struct plan_request *a, struct plan_hosts *h)
{
    uint32_t name[PS_GROUP_RANKS_MAX];

    ps_assert(a->ranks <= PS_GROUP_RANKS_MAX);
    h->n = 0;
    for (uint32_t r = 0; r < a->ranks; r++) {
        uint32_t k = 0;

        while (a->host != NULL && k < h->n && name[k] != a->host[r])
            k++;
        if (a->host == NULL)
            k = h->n;
        if (k == h->n)
            name[h->n++] = a->host != NULL ? a->host[r] : r;
        h->of[r] = k;
    }
}
