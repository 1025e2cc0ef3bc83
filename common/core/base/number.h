/* Numbers as text, both ways, with a point in every locale: files, options and messages mean the same wherever a
 * program runs, also one that called setlocale(). Pure. */
#ifndef COMMON_CORE_BASE_NUMBER_H
#define COMMON_CORE_BASE_NUMBER_H

#include "common/core/base/base.h"

/* All of a terminated text as a number: decimal digits, point, sign, exponent. False when it is anything else: empty,
 * "0x10", "nan", "infinity" and " 1", which strtod() would take. A number that is too large comes out as infinity. */
bool number_parse(const char *text, double *out);

#define NUMBER_TEXT_MAX 32

/* The shortest of the usual forms that reads back as the same number: "0.1", "1e-09". Returns text. */
const char *number_format(double value, char text[NUMBER_TEXT_MAX]);

#endif
