/* The encoding: Unicode 15.0, table 3-7, "Well-Formed UTF-8 Byte Sequences". */
#include "common/core/base/utf8.h"

#include <stdint.h>
#include <string.h>

static bool
utf8_continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Bytes of the character at s (n >= 1 bytes are there), 0 when it is not valid UTF-8 or a control character. */
static size_t
utf8_character_len(const uint8_t *s, size_t n)
{
    if (s[0] < 0x80)
        return s[0] >= 0x20 && s[0] != 0x7f ? 1 : 0;
    if (s[0] < 0xc2) /* continuation, or an overlong form of two bytes */
        return 0;
    if (s[0] < 0xe0) /* U+0080 to U+009F are control characters */
        return n >= 2 && utf8_continues(s[1]) && !(s[0] == 0xc2 && s[1] < 0xa0) ? 2 : 0;
    if (s[0] < 0xf0) {
        if (n < 3 || !utf8_continues(s[1]) || !utf8_continues(s[2]) || (s[0] == 0xe0 && s[1] < 0xa0))
            return 0;
        return s[0] == 0xed && s[1] >= 0xa0 ? 0 : 3; /* surrogates */
    }
    if (s[0] > 0xf4 || n < 4 || !utf8_continues(s[1]) || !utf8_continues(s[2]) || !utf8_continues(s[3]))
        return 0;
    if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90)) /* overlong, past U+10FFFF */
        return 0;
    return 4;
}

bool
utf8_is_printable(const char *text, size_t n)
{
    const uint8_t *s = (const uint8_t *)text;

    for (size_t len; n > 0; s += len, n -= len)
        if ((len = utf8_character_len(s, n)) == 0)
            return false;
    return true;
}

void
utf8_clean(char *text)
{
    size_t n = strlen(text), len;

    for (; n > 0; text += len, n -= len) {
        len = utf8_character_len((const uint8_t *)text, n);
        if (len == 0) {
            *text = '?';
            len = 1;
        }
    }
}
