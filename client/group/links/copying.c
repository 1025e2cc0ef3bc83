#include "client/group/links/copying.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define OUTLIER   4   /* times what is usual: who measured was not running all the time */
#define WEIGHT    4   /* of what is known, against a new figure */
#define ADVANTAGE 0.9 /* of streaming, which takes from others' memory bandwidth: its cost beside the caches' */

bool
copying_tried(uint64_t position, size_t bytes, enum copying_way *way)
{
    uint64_t epoch = position / COPYING_EPOCH, in_cycle = epoch % COPYING_CYCLE;

    *way = in_cycle == 1 ? COPYING_STREAMED : COPYING_CACHED;
    return in_cycle <= 1 && (position + bytes - 1) / COPYING_EPOCH == epoch;
}

static bool
known(const struct copying *c, enum copying_way way)
{
    return c->ns_per_byte[way][COPYING_IN] > 0 && c->ns_per_byte[way][COPYING_OUT] > 0;
}

static double
cost(const struct copying *c, enum copying_way way)
{
    return c->ns_per_byte[way][COPYING_IN] + c->ns_per_byte[way][COPYING_OUT];
}

enum copying_way
copying_way(const struct copying *c, uint64_t position)
{
    enum copying_way way;

    if (copying_tried(position, 1, &way))
        return way;
    if (!known(c, COPYING_CACHED) || !known(c, COPYING_STREAMED))
        return COPYING_CACHED;
    return cost(c, COPYING_STREAMED) < ADVANTAGE * cost(c, COPYING_CACHED) ? COPYING_STREAMED : COPYING_CACHED;
}

void
copying_note(struct copying *c, enum copying_way way, enum copying_side side, size_t bytes, uint64_t ns)
{
    double *usual = &c->ns_per_byte[way][side], now = (double)MAX(ns, 1) / (double)bytes;

    *usual += *usual == 0 ? now : (MIN(now, OUTLIER * *usual) - *usual) / WEIGHT;
}

void
copying_streamed(void *restrict to, const void *restrict from, size_t n)
{
#ifdef __SSE2__
    uint8_t *out = to;
    const uint8_t *in = from;
    size_t head = MIN(n, (0 - (uintptr_t)out) % 64);

    memcpy(out, in, head);
    for (out += head, in += head, n -= head; n >= 64; n -= 64, out += 64, in += 64)
        for (int i = 0; i < 4; i++)
            _mm_stream_si128((__m128i *)(void *)out + i, _mm_loadu_si128((const __m128i *)(const void *)in + i));
    _mm_sfence(); /* nothing else orders them before the position that tells of them */
    memcpy(out, in, n);
#else
    memcpy(to, from, n);
#endif
}
