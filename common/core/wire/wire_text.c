#include "common/core/wire/wire_text.h"

#include <stdint.h>
#include <string.h>

#include "common/core/wire/wire.h"

static bool
continues(uint8_t byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Bytes of the character at s (n >= 1 bytes are there), 0 when it is not valid UTF-8 or a control character. */
static size_t
character_len(const uint8_t *s, size_t n)
{
    if (s[0] < 0x80)
        return s[0] >= 0x20 && s[0] != 0x7f ? 1 : 0;
    if (s[0] < 0xc2) /* continuation, or an overlong form of two bytes */
        return 0;
    if (s[0] < 0xe0) /* U+0080 to U+009F are control characters */
        return n >= 2 && continues(s[1]) && !(s[0] == 0xc2 && s[1] < 0xa0) ? 2 : 0;
    if (s[0] < 0xf0) {
        if (n < 3 || !continues(s[1]) || !continues(s[2]) || (s[0] == 0xe0 && s[1] < 0xa0))
            return 0;
        return s[0] == 0xed && s[1] >= 0xa0 ? 0 : 3; /* surrogates */
    }
    if (s[0] > 0xf4 || n < 4 || !continues(s[1]) || !continues(s[2]) || !continues(s[3]))
        return 0;
    if ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90)) /* overlong, past U+10FFFF */
        return 0;
    return 4;
}

bool
wire_text_ok(const char *text, size_t n)
{
    const uint8_t *s = (const uint8_t *)text;

    for (size_t len; n > 0; s += len, n -= len)
        if ((len = character_len(s, n)) == 0)
            return false;
    return true;
}

static enum ps_err
name_check(const char *what, const char *name, size_t most, struct ps_error *e)
{
    size_t len = name != NULL ? strnlen(name, most + 1) : 0;

    if (len == 0 || len > most || !wire_text_ok(name, len))
        return ps_fail(e, PS_ERR_INVALID, "a %s's name is 1 to %zu bytes of UTF-8 without control characters", what,
                       most);
    return PS_OK;
}

enum ps_err
wire_name_check(const char *what, const char *name, struct ps_error *e)
{
    return name_check(what, name, WIRE_NAME_MAX, e);
}

enum ps_err
wire_metric_names_check(size_t n, const char *const *names, struct ps_error *e)
{
    enum ps_err err;

    if (n > WIRE_METRICS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "%zu metrics are named; there are at most %d", n, WIRE_METRICS_MAX);
    if (n > 0 && names == NULL)
        return ps_fail(e, PS_ERR_INVALID, "%zu metrics are named, and there are no names", n);
    for (size_t i = 0; i < n; i++) {
        if ((err = name_check("metric", names[i], WIRE_METRIC_NAME_MAX, e)) != PS_OK)
            return err;
        for (size_t j = 0; j < i; j++)
            if (strcmp(names[i], names[j]) == 0)
                return ps_fail(e, PS_ERR_INVALID, "metrics %zu and %zu are both called '%s'", j, i, names[i]);
    }
    return PS_OK;
}

void
wire_text_clean(char *text)
{
    size_t n = strlen(text), len;

    for (; n > 0; text += len, n -= len) {
        len = character_len((const uint8_t *)text, n);
        if (len == 0) {
            *text = '?';
            len = 1;
        }
    }
}
