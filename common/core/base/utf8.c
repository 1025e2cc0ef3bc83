/* The encoding: Unicode 15.0, table 3-7, "Well-Formed UTF-8 Byte Sequences". */
#include "common/core/base/utf8.h"

#include <stdint.h>
#include <stdio.h>
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

/* The number of a valid character of len bytes. */
static uint32_t
utf8_code(const uint8_t *s, size_t len)
{
    uint32_t code = len == 1 ? s[0] : s[0] & (0xffu >> (len + 1));

    for (size_t i = 1; i < len; i++)
        code = code << 6 | (s[i] & 0x3f);
    return code;
}

/* Format characters that reorder what is around them (Unicode 15.0, UAX 9), or end a line: a name with them could look
 * like another one in a terminal or a log. */
static bool
utf8_reorders(uint32_t code)
{
    return code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
           (code >= 0x2066 && code <= 0x2069);
}

/* As utf8_character_len(), and 0 of one that reorders. */
static size_t
utf8_printable_len(const uint8_t *s, size_t n)
{
    size_t len = utf8_character_len(s, n);

    return len > 1 && utf8_reorders(utf8_code(s, len)) ? 0 : len;
}

bool
utf8_is_printable(const char *text, size_t n)
{
    const uint8_t *s = (const uint8_t *)text;

    for (size_t len; n > 0; s += len, n -= len)
        if ((len = utf8_printable_len(s, n)) == 0)
            return false;
    return true;
}

void
utf8_clean(char *text)
{
    size_t n = strlen(text), len;

    for (; n > 0; text += len, n -= len) {
        len = utf8_printable_len((const uint8_t *)text, n);
        if (len == 0) {
            *text = '?';
            len = 1;
        }
    }
}

/* ---- Shown ---- */

/* Characters that a terminal shows as nothing, as a blank, or by turning the line around. */
static const struct {
    uint32_t first, last;
} utf8_unseen[] = {
    {0xa0, 0xa0},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e}, {0x2000, 0x200f},
    {0x2028, 0x202f}, {0x205f, 0x206f}, {0x3000, 0x3000}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff},
};

static bool
utf8_is_unseen(uint32_t code)
{
    for (size_t i = 0; i < sizeof utf8_unseen / sizeof utf8_unseen[0]; i++)
        if (code >= utf8_unseen[i].first && code <= utf8_unseen[i].last)
            return true;
    return false;
}

/* Whether the text is only a beginning of a character, cut off by its end. */
static bool
utf8_is_cut_off(const uint8_t *s, size_t n)
{
    size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2, i = 1;

    while (i < n && utf8_continues(s[i]))
        i++;
    return s[0] >= 0xc2 && s[0] <= 0xf4 && i == n && n < len;
}

#define SHOWN_MAX 8

/* One character, or a byte that is none, into shown, terminated. Returns its bytes in the text. */
static size_t
utf8_show_one(const uint8_t *s, size_t n, char shown[SHOWN_MAX])
{
    size_t len = utf8_character_len(s, n);
    uint32_t code = len > 0 ? utf8_code(s, len) : 0;

    if (len > 0 && !utf8_is_unseen(code)) {
        memcpy(shown, s, len);
        shown[len] = '\0';
        return len;
    }
    if (len > 0)
        snprintf(shown, SHOWN_MAX, "\\u%04x", (unsigned)code & 0xffff);
    else if (s[0] == '\n' || s[0] == '\r' || s[0] == '\t')
        snprintf(shown, SHOWN_MAX, "\\%c", s[0] == '\n' ? 'n' : s[0] == '\r' ? 'r' : 't');
    else
        snprintf(shown, SHOWN_MAX, "\\x%02x", s[0]);
    return len > 0 ? len : 1;
}

void
utf8_show(const char *text, char *out, size_t size)
{
    const uint8_t *s = (const uint8_t *)text;
    size_t n = strlen(text), used = 0, len, shown_len;
    char shown[SHOWN_MAX];

    for (; n > 0 && !utf8_is_cut_off(s, n); s += len, n -= len) {
        len = utf8_show_one(s, n, shown);
        shown_len = strlen(shown);
        if (shown_len >= size - used)
            break;
        memcpy(out + used, shown, shown_len);
        used += shown_len;
    }
    out[used] = '\0';
}
