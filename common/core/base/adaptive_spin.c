#include "common/core/base/adaptive_spin.h"

uint64_t
adaptive_spin_ns(uint32_t option_us, unsigned processors)
{
    if (option_us == ADAPTIVE_SPIN_NEVER || (option_us == 0 && processors < 2))
        return 0;
    return (option_us != 0 ? option_us : ADAPTIVE_SPIN_US) * UINT64_C(1000);
}

void
adaptive_spin_init(struct adaptive_spin *p, uint64_t most_ns)
{
    *p = (struct adaptive_spin){.most_ns = most_ns, .paid = ADAPTIVE_SPIN_FULL / 2};
}

uint64_t
adaptive_spin_now(const struct adaptive_spin *p)
{
    return p->paid >= ADAPTIVE_SPIN_FULL / 2 ? p->most_ns : 0;
}

void
adaptive_spin_learn(struct adaptive_spin *p, uint64_t waited_ns, bool slept)
{
    if (waited_ns <= p->most_ns + (slept ? ADAPTIVE_SPIN_US * UINT64_C(1000) : 0))
        p->paid += p->paid < ADAPTIVE_SPIN_FULL;
    else
        p->paid -= MIN(p->paid, 2u);
}
