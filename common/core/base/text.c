#include "common/core/base/text.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/core/base/number.h"

struct text
text_start(char *out, size_t size)
{
    ps_assert(size >= 1);
    out[0] = '\0';
    return (struct text){out, size, 0};
}

void
text_put(struct text *t, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(t->out + t->len, t->size - t->len, format, args);
    va_end(args);
    ps_assert(n >= 0);
    t->len = MIN(t->len + (size_t)n, t->size - 1);
}

void
text_number(struct text *t, double value)
{
    char digits[NUMBER_TEXT_MAX];

    text_put(t, "%s", number_format(value, digits));
}
