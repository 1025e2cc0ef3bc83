/* strtod() and printf() in the C locale. */
#include "common/core/base/number.h"

#include <locale.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Made once and kept: it is built into the C library, so that it costs no memory. */
static locale_t
c_locale(void)
{
    static _Atomic(locale_t) kept;
    locale_t made = atomic_load(&kept), before = (locale_t)0;

    if (made != (locale_t)0)
        return made;
    made = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    ps_assert(made != (locale_t)0);
    if (atomic_compare_exchange_strong(&kept, &before, made) || before == made)
        return made;
    freelocale(made); /* another thread was faster */
    return before;
}

bool
number_parse(const char *text, double *out)
{
    char *end;

    if (text[0] == '\0' || text[strspn(text, "+-.0123456789eE")] != '\0')
        return false;
    *out = strtod_l(text, &end, c_locale());
    return *end == '\0';
}

const char *
number_format(double value, char text[NUMBER_TEXT_MAX])
{
    locale_t before = uselocale(c_locale()); /* this thread's */

    for (int precision = 6; precision <= 17; precision++) {
        snprintf(text, NUMBER_TEXT_MAX, "%.*g", precision, value);
        if (strtod(text, NULL) == value)
            break;
    }
    uselocale(before);
    return text;
}
