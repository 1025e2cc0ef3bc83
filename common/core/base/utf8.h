/* UTF-8 that may be shown anywhere: no control characters. Pure. */
#ifndef COMMON_CORE_BASE_UTF8_H
#define COMMON_CORE_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* True when the n bytes are valid UTF-8 without control characters. */
bool utf8_is_printable(const char *text, size_t n);

/* Put '?' for every byte of a terminated text that utf8_is_printable() would refuse. */
void utf8_clean(char *text);

#endif
