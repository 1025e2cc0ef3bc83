/* Numbers as people read and write them: "1.5 MiB", "12,345", "3m 07s". Writers fill the caller's buffer and return it,
 * so that a call can be an argument. Pure. */
#ifndef COMMON_CORE_BASE_UNITS_H
#define COMMON_CORE_BASE_UNITS_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

#define UNITS_MAX 32
struct units {
    char text[UNITS_MAX];
};

/* Binary units, three digits: "0 B", "999 B", "1.00 KiB", "12.5 MiB", "1023 GiB". */
const char *units_bytes(uint64_t bytes, struct units *out);

/* Whole, with thousands separated by commas. */
const char *units_count(uint64_t count, struct units *out);

/* "0.4 s", "12.0 s", "3m 07s", "2h 05m", "4d 03h". */
const char *units_duration(uint64_t ms, struct units *out);

/* "87.3 us", "1.24 ms", "2.10 s". */
const char *units_microseconds(double us, struct units *out);

/* ---- exactly ---- */

/* Units that a text may carry, from the least to the greatest of them; the first that has a factor is the way to write
 * it. Ended by a NULL name. */
struct unit {
    const char *name;
    uint64_t factor;
};
extern const struct unit units_of_bytes[]; /* B, KiB, MiB, GiB, TiB, or K, M, G, T */
extern const struct unit units_of_ms[];    /* ms, s, m, h, d */
extern const struct unit units_of_us[];    /* us, ms, s, m */

/* "64MiB", "1.5 s", in any case; a bare number is in the unit of that name. False: it is no such text, negative, or
 * does not fit 63 bits. */
bool units_parse(const char *text, const struct unit *units, const char *bare, uint64_t *out) PS_MUST_USE;

/* The shortest text that units_parse() reads back as exactly this: "64MiB", "1500ms". */
const char *units_exact(uint64_t value, const struct unit *units, struct units *out);

#endif
