/* UTF-8 that may be shown anywhere: no control characters, and none that turn the order of a line around. Pure. */
#ifndef COMMON_CORE_BASE_UTF8_H
#define COMMON_CORE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* True when the n bytes are valid UTF-8 without control characters, without U+2028, U+2029, and without the format
 * characters of bidirectional text: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069. */
bool utf8_is_printable(const char *text, size_t n);

/* Copy a terminated text so that all of it is seen, for sentences that quote it: "\r" for a carriage return, "\ufeff"
 * for a byte order mark, "\xff" for a byte that is no UTF-8, and the like for other control characters and for blanks
 * of no width or of another code than the usual one. Cut off at a whole character where out, [size >= 1], is full. text
 * may not be out. */
void utf8_show(const char *text, char *out, size_t size);

/* Put '?' for every byte of a terminated text that utf8_is_printable() would refuse. */
void utf8_clean(char *text);

#endif
