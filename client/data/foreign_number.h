/* What a text is that number_parse() does not take as a number: how other programs and people write numbers, and what
 * they write where there is none. Pure. */
#ifndef CLIENT_DATA_FOREIGN_NUMBER_H
#define CLIENT_DATA_FOREIGN_NUMBER_H

#include "common/core/base/base.h"

enum foreign_number {
    FOREIGN_WORD,     /* none of the following: it may be a name */
    FOREIGN_PLAIN,    /* number_parse() takes it */
    FOREIGN_COMMA,    /* "1,5": one comma, which may be decimal */
    FOREIGN_GROUPS,   /* "1,234.5", "1 234", "1'234": thousands apart */
    FOREIGN_HEX,      /* "0x1f" */
    FOREIGN_EXPONENT, /* "1.5D+3", of Fortran */
    FOREIGN_UNIT,     /* "12%", "$5" */
    FOREIGN_INFINITE, /* "nan", "-inf", "1.#QNAN" */
    FOREIGN_MISSING   /* "", "NA", "?", "null" */
};

enum foreign_number foreign_number_find(const char *text);

/* "#DIV/0!" and the like, which spreadsheets have in place of a value. len bytes. */
bool foreign_number_is_sheet_error(const char *text, size_t len);

/* Whether a person would call it a number. */
bool foreign_number_is_one(enum foreign_number kind);

/* What a sentence adds behind "... is not a number": ": hexadecimal numbers are not read", or "". */
const char *foreign_number_why(enum foreign_number kind);

#endif
