/* Text as it travels: UTF-8 without control characters, so that it may be shown anywhere. */
#ifndef COMMON_WIRE_TEXT_H
#define COMMON_WIRE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* True when the n bytes are valid UTF-8 without control characters. */
bool wire_text_ok(const char *text, size_t n);

/* Put '?' for every byte of a terminated text that wire_text_ok() would refuse. */
void wire_text_clean(char *text);

#endif
