#include "tests/bench/scale.h"

#include <math.h>

#include "common/core/base/base.h"

#define STEPS 5.0 /* about so many on a linear scale */

static double
round_step(double raw)
{
    double power = pow(10, floor(log10(raw)));

    return raw <= power ? power : raw <= 2 * power ? 2 * power : raw <= 5 * power ? 5 * power : 10 * power;
}

struct scale
scale_of(double low, double high, bool log, double from, double to)
{
    struct scale s = {low, high, log, from, to};

    if (log) {
        s.low = pow(10, floor(log10(low) + 1e-9));
        s.high = pow(10, ceil(log10(high) - 1e-9));
        if (!(s.high > s.low))
            s.high = s.low * 10;
        return s;
    }
    s.low = 0;
    if (!(high > 0))
        s.high = 1;
    else
        s.high = ceil(high / round_step(high / STEPS) - 1e-9) * round_step(high / STEPS);
    return s;
}

double
scale_at(const struct scale *s, double value)
{
    double part = s->log ? log(value / s->low) / log(s->high / s->low) : (value - s->low) / (s->high - s->low);

    return s->from + part * (s->to - s->from);
}

static size_t
scale_powers(const struct scale *s, double base, double ticks[TICKS_MAX])
{
    int first = (int)ceil(log(s->low) / log(base) - 1e-9), last = (int)floor(log(s->high) / log(base) + 1e-9);
    int step = MAX((last - first) / (TICKS_MAX - 4) + ((last - first) % (TICKS_MAX - 4) != 0), 1);
    size_t n = 0;

    for (int i = first; i <= last && n < TICKS_MAX; i += step)
        ticks[n++] = pow(base, i);
    return n;
}

size_t
scale_ticks(const struct scale *s, bool binary, double ticks[TICKS_MAX])
{
    double step;
    size_t n = 0;

    if (s->log)
        return scale_powers(s, binary ? 2 : 10, ticks);
    step = round_step((s->high - s->low) / STEPS);
    for (double at = ceil(s->low / step) * step; at <= s->high + step * 1e-6 && n < TICKS_MAX; at += step)
        ticks[n++] = at;
    return n;
}
