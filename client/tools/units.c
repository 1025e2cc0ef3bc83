#include "units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *
units_bytes(uint64_t bytes, struct units *out)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    int digits;

    /* 1023.5 would be printed as 1024 of the unit below. */
    while (value >= 1023.5 && unit + 1 < ARRAY_LEN(names)) {
        value /= 1024;
        unit++;
    }
    digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(out->text, sizeof out->text, "%.*f %s", digits, value, names[unit]);
    return out->text;
}

const char *
units_count(uint64_t count, struct units *out)
{
    char plain[24];
    size_t len = (size_t)snprintf(plain, sizeof plain, "%" PRIu64, count), at = 0;

    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            out->text[at++] = ',';
        out->text[at++] = plain[i];
    }
    out->text[at] = '\0';
    return out->text;
}

const char *
units_duration(uint64_t ms, struct units *out)
{
    uint64_t s = ms / 1000, m = s / 60, h = m / 60, d = h / 24;

    if (s < 60)
        snprintf(out->text, sizeof out->text, "%.1f s", (double)(ms / 100) / 10);
    else if (m < 60)
        snprintf(out->text, sizeof out->text, "%" PRIu64 "m %02" PRIu64 "s", m, s % 60);
    else if (h < 24)
        snprintf(out->text, sizeof out->text, "%" PRIu64 "h %02" PRIu64 "m", h, m % 60);
    else
        snprintf(out->text, sizeof out->text, "%" PRIu64 "d %02" PRIu64 "h", d, h % 24);
    return out->text;
}

const char *
units_microseconds(double us, struct units *out)
{
    if (us < 999.95)
        snprintf(out->text, sizeof out->text, "%.1f us", us);
    else if (us < 999995)
        snprintf(out->text, sizeof out->text, "%.2f ms", us / 1e3);
    else
        snprintf(out->text, sizeof out->text, "%.2f s", us / 1e6);
    return out->text;
}
