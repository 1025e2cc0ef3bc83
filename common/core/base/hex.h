/* Bytes as hexadecimal digits, two for each, the greater half first. Pure. */
#ifndef COMMON_CORE_BASE_HEX_H
#define COMMON_CORE_BASE_HEX_H

#include "common/core/base/base.h"

/* In lower case. out: [2 n + 1], terminated. */
static inline void
hex_write(const void *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *b = bytes;

    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[b[i] >> 4];
        out[2 * i + 1] = digits[b[i] & 15];
    }
    out[2 * n] = '\0';
}

/* Lower-case digits alone, as hex_write() makes them; 16: it is none. */
static inline unsigned
hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 16;
}

/* text: [2 n] digits. out: [n]. False: some are none. */
static inline bool
hex_read(const char *text, size_t n, void *out)
{
    uint8_t *b = out;

    for (size_t i = 0; i < n; i++) {
        unsigned high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

        if (high > 15 || low > 15)
            return false;
        b[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

#endif
