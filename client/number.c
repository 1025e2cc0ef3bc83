/* strtod() in the C locale, kept to plain decimal numbers. */
#include "client/number.h"

#include <stdlib.h>
#include <string.h>

bool
number_parse(const char *text, locale_t c_locale, double *out)
{
    char *end;

    if (text[0] == '\0' || text[strspn(text, "+-.0123456789eE")] != '\0')
        return false;
    *out = strtod_l(text, &end, c_locale);
    return *end == '\0';
}
