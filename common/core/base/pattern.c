/* One star is remembered: when what follows it does not fit, it takes one character more. An earlier star need not be
 * tried again, since the later one can take whatever the earlier one would have. */
#include "common/core/base/pattern.h"

#include <stddef.h>

/* The next character of valid UTF-8. */
static const char *
pattern_next_char(const char *at)
{
    do
        at++;
    while (((unsigned char)*at & 0xc0) == 0x80);
    return at;
}

bool
pattern_matches(const char *pattern, const char *name)
{
    const char *star = NULL, *taken = NULL;

    while (*name != '\0') {
        if (*pattern == '*') {
            star = ++pattern;
            taken = name;
        } else if (*pattern == '?') {
            pattern++;
            name = pattern_next_char(name);
        } else if (*pattern == *name) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star;
            name = taken = pattern_next_char(taken);
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}
