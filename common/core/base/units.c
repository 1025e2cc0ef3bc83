#include "common/core/base/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

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

/* ---- exactly ---- */

const struct unit units_of_bytes[] = {{"B", 1},     {"KiB", KIB}, {"K", KIB},          {"MiB", MIB},      {"M", MIB},
                                      {"GiB", GIB}, {"G", GIB},   {"TiB", 1024 * GIB}, {"T", 1024 * GIB}, {NULL, 0}};
const struct unit units_of_ms[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {NULL, 0}};
const struct unit units_of_us[] = {{"us", 1}, {"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {NULL, 0}};

static const struct unit *
unit_find(const struct unit *units, const char *name)
{
    for (; units->name != NULL; units++)
        if (strcasecmp(units->name, name) == 0)
            return units;
    return NULL;
}

/* Digits, and digits after a point: whole and the fraction's value below 1. Returns what follows, NULL when there is no
 * number or it is too large. */
static const char *
number_read(const char *text, uint64_t *whole, double *fraction)
{
    double place = 0.1;

    if (!isdigit((unsigned char)*text))
        return NULL;
    for (*whole = 0; isdigit((unsigned char)*text); text++)
        if (__builtin_mul_overflow(*whole, (uint64_t)10, whole) ||
            __builtin_add_overflow(*whole, (uint64_t)(*text - '0'), whole))
            return NULL;
    *fraction = 0;
    if (*text == '.' && isdigit((unsigned char)text[1]))
        for (text++; isdigit((unsigned char)*text); text++, place /= 10)
            *fraction += place * (*text - '0');
    return text;
}

bool
units_parse(const char *text, const struct unit *units, const char *bare, uint64_t *out)
{
    const struct unit *unit;
    uint64_t whole, value;
    double fraction;

    text = number_read(text, &whole, &fraction);
    if (text == NULL)
        return false;
    text += strspn(text, " ");
    unit = unit_find(units, *text != '\0' ? text : bare);
    if (unit == NULL || __builtin_mul_overflow(whole, unit->factor, &value) ||
        __builtin_add_overflow(value, (uint64_t)(fraction * (double)unit->factor + 0.5), &value) || value > INT64_MAX)
        return false;
    *out = value;
    return true;
}

const char *
units_exact(uint64_t value, const struct unit *units, struct units *out)
{
    const struct unit *best = units;

    for (; value != 0 && units->name != NULL; units++)
        if (value % units->factor == 0 && units->factor > best->factor)
            best = units;
    snprintf(out->text, sizeof out->text, "%" PRIu64 "%s", value / best->factor, best->name);
    return out->text;
}
