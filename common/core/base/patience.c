#include "common/core/base/patience.h"

uint64_t
patience_ns(uint32_t option_us, unsigned processors)
{
    if (option_us == PATIENCE_NONE || (option_us == 0 && processors < 2))
        return 0;
    return (option_us != 0 ? option_us : PATIENCE_US) * UINT64_C(1000);
}

void
patience_init(struct patience *p, uint64_t most_ns)
{
    *p = (struct patience){.most_ns = most_ns, .paid = PATIENCE_FULL / 2};
}

uint64_t
patience_now(const struct patience *p)
{
    return p->paid >= PATIENCE_FULL / 2 ? p->most_ns : 0;
}

void
patience_learn(struct patience *p, uint64_t waited_ns, bool slept)
{
    if (waited_ns <= p->most_ns + (slept ? PATIENCE_US * UINT64_C(1000) : 0))
        p->paid += p->paid < PATIENCE_FULL;
    else
        p->paid -= MIN(p->paid, 2u);
}
