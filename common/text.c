#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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
    char digits[40];

    for (int precision = 6; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    text_put(t, "%s", digits);
}
