/* Numbers in text files. Pure. */
#ifndef CLIENT_NUMBER_H
#define CLIENT_NUMBER_H

#include <locale.h>

#include "common/base.h"

/* All of a terminated text as a number: decimal digits, point, sign, exponent, with a point in every locale. False when
 * it is anything else, "0x10", "nan" and "infinity" among them, which strtod() alone would take. A number that is too
 * large comes out as infinity. */
bool number_parse(const char *text, locale_t c_locale, double *out);

#endif
