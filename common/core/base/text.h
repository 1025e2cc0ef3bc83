/* Text assembled piece by piece in a borrowed buffer. Pure. Always terminated; text that does not fit is cut off. */
#ifndef COMMON_CORE_BASE_TEXT_H
#define COMMON_CORE_BASE_TEXT_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct text {
    char *out;
    size_t size, len; /* len < size */
};

/* out: [size >= 1] bytes. */
struct text text_start(char *out, size_t size);

void text_put(struct text *t, const char *format, ...) PS_PRINTF(2, 3);

/* As number_format() writes it. */
void text_number(struct text *t, double value);

#endif
