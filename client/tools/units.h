/* Numbers as people read them: "1.5 MiB", "12,345", "3m 07s". Each writes into the caller's buffer, which it returns,
 * so that a call can stand where the text is wanted. Pure. */
#ifndef CLIENT_TOOLS_UNITS_H
#define CLIENT_TOOLS_UNITS_H

#include "common/base.h"

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

#endif
