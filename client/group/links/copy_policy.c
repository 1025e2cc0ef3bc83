#include "client/group/links/copy_policy.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define OUTLIER   4   /* times what is usual: the measuring process was not running all the time */
#define WEIGHT    4   /* of what is known, against a new figure */
#define ADVANTAGE 0.9 /* of streaming, which takes from others' memory bandwidth: its cost beside the caches' */

bool
copy_policy_tried(uint64_t position, size_t bytes, enum copy_mode *way)
{
    uint64_t epoch = position / COPY_POLICY_EPOCH, in_cycle = epoch % COPY_POLICY_CYCLE;

    *way = in_cycle == 1 ? COPY_STREAMED : COPY_CACHED;
    return in_cycle <= 1 && (position + bytes - 1) / COPY_POLICY_EPOCH == epoch;
}

static bool
copy_policy_known(const struct copy_policy *c, enum copy_mode way)
{
    return c->ns_per_byte[way][COPY_IN] > 0 && c->ns_per_byte[way][COPY_OUT] > 0;
}

static double
copy_policy_cost(const struct copy_policy *c, enum copy_mode way)
{
    return c->ns_per_byte[way][COPY_IN] + c->ns_per_byte[way][COPY_OUT];
}

enum copy_mode
copy_policy_mode(const struct copy_policy *c, uint64_t position)
{
    enum copy_mode way;

    if (copy_policy_tried(position, 1, &way))
        return way;
    if (!copy_policy_known(c, COPY_CACHED) || !copy_policy_known(c, COPY_STREAMED))
        return COPY_CACHED;
    return copy_policy_cost(c, COPY_STREAMED) < ADVANTAGE * copy_policy_cost(c, COPY_CACHED) ? COPY_STREAMED
                                                                                             : COPY_CACHED;
}

void
copy_policy_note(struct copy_policy *c, enum copy_mode way, enum copy_side side, size_t bytes, uint64_t ns)
{
    double *usual = &c->ns_per_byte[way][side], now = (double)MAX(ns, 1) / (double)bytes;

    *usual += *usual == 0 ? now : (MIN(now, OUTLIER * *usual) - *usual) / WEIGHT;
}

void
copy_policy_streamed(void *restrict to, const void *restrict from, size_t n)
{
#ifdef __SSE2__
    uint8_t *out = to;
    const uint8_t *in = from;
    size_t head = MIN(n, (0 - (uintptr_t)out) % 64);

    memcpy(out, in, head);
    for (out += head, in += head, n -= head; n >= 64; n -= 64, out += 64, in += 64)
        for (int i = 0; i < 4; i++)
            _mm_stream_si128((__m128i *)(void *)out + i, _mm_loadu_si128((const __m128i *)(const void *)in + i));
    _mm_sfence(); /* nothing else orders them before the position that announces them */
    memcpy(out, in, n);
#else
    memcpy(to, from, n);
#endif
}
