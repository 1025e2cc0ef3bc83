/* Patterns of names: * stands for any characters, ? for one, everything else for itself. Pure.
 *
 * Not fnmatch(3): there [ and \ mean something as well, and names like "layer[0]" are common. */
#ifndef COMMON_CORE_BASE_PATTERN_H
#define COMMON_CORE_BASE_PATTERN_H

#include <stdbool.h>

/* Both are valid UTF-8; a character is a code point. Takes at most strlen(pattern) * strlen(name) steps. */
bool pattern_matches(const char *pattern, const char *name);

#endif
