#include "client/data/foreign_number.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "common/core/base/number.h"

#define DIGITS "0123456789"

static const char *
foreign_number_after_sign(const char *text)
{
    return text + (*text == '+' || *text == '-');
}

static bool
foreign_number_in(const char *text, const char *const *words)
{
    for (; *words != NULL; words++)
        if (strcasecmp(text, *words) == 0)
            return true;
    return false;
}

static bool
foreign_number_is_infinite(const char *text)
{
    static const char *const words[] = {"nan", "inf", "infinity", NULL};
    const char *bare = foreign_number_after_sign(text);

    return foreign_number_in(bare, words) || strncmp(bare, "1.#", 3) == 0; /* "1.#INF": Microsoft's C library */
}

static bool
foreign_number_is_missing(const char *text)
{
    static const char *const words[] = {"",    "na", "n/a", "<na>", "null", "none", "nil",
                                        "nat", "?",  "-",   "--",   ".",    "..",   NULL};

    return foreign_number_in(text, words);
}

bool
foreign_number_is_sheet_error(const char *text, size_t len)
{
    static const char *const words[] = {"#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NUM!", "#NAME?", "#NULL!", NULL};

    for (const char *const *word = words; *word != NULL; word++)
        if (strlen(*word) == len && strncasecmp(text, *word, len) == 0)
            return true;
    return false;
}

static bool
foreign_number_is_hex(const char *text)
{
    const char *bare = foreign_number_after_sign(text);

    return bare[0] == '0' && (bare[1] == 'x' || bare[1] == 'X') && bare[2] != '\0' &&
           bare[2 + strspn(bare + 2, DIGITS "abcdefABCDEF.pP+-")] == '\0';
}

/* Puts '.' for a single comma; false when there is another number of them, or the text is long. */
static bool
foreign_number_with_point(const char *text, char out[64])
{
    const char *comma = strchr(text, ',');

    if (comma == NULL || strchr(comma + 1, ',') != NULL || strlen(text) >= 64)
        return false;
    strcpy(out, text);
    out[comma - text] = '.';
    return true;
}

static bool
foreign_number_is_comma(const char *text)
{
    char point[64];
    double value;

    return foreign_number_with_point(text, point) && number_parse(point, &value);
}

/* Digits in a group, and the separator after them, of one byte or the two of a no-break space; 0: neither. */
static size_t
foreign_number_separator(const char *text)
{
    if (*text != '\0' && strchr(",.'_ ", *text) != NULL)
        return 1;
    return strncmp(text, "\xc2\xa0", 2) == 0 ? 2 : 0;
}

/* One to three digits, then groups of three, then perhaps a fraction of any length behind the last separator. */
static bool
foreign_number_is_groups(const char *text)
{
    const char *at = foreign_number_after_sign(text);
    size_t digits = strspn(at, DIGITS), separator, groups = 0;

    if (digits < 1 || digits > 3)
        return false;
    for (at += digits; (separator = foreign_number_separator(at)) > 0; at += digits, groups++) {
        at += separator;
        digits = strspn(at, DIGITS);
        if (digits != 3)
            return groups > 0 && digits > 0 && at[digits] == '\0';
    }
    return groups > 0 && *at == '\0';
}

static bool
foreign_number_is_exponent(const char *text)
{
    const char *at = foreign_number_after_sign(text);
    size_t digits = strspn(at, DIGITS ".");

    if (digits == 0 || (at[digits] != 'd' && at[digits] != 'D'))
        return false;
    at = foreign_number_after_sign(at + digits + 1);
    return *at != '\0' && at[strspn(at, DIGITS)] == '\0';
}

static bool
foreign_number_has_unit(const char *text)
{
    static const char *const units[] = {"%", "$", "\xe2\x82\xac", "\xc2\xa3", "\xc2\xa5", NULL}; /* euro, pound, yen */
    size_t len = strlen(text);

    for (const char *const *unit = units; *unit != NULL; unit++) {
        size_t n = strlen(*unit);
        bool before = strncmp(text, *unit, n) == 0, behind = len > n && strcmp(text + len - n, *unit) == 0;
        const char *digits = before ? text + n : text;

        if ((before || behind) && digits[strspn(digits, "+-., ")] >= '0' && digits[strspn(digits, "+-., ")] <= '9' &&
            strspn(digits, DIGITS "+-., ") >= len - n)
            return true;
    }
    return false;
}

enum foreign_number
foreign_number_find(const char *text)
{
    double value;

    if (number_parse(text, &value))
        return FOREIGN_PLAIN;
    if (foreign_number_is_missing(text) || foreign_number_is_sheet_error(text, strlen(text)))
        return FOREIGN_MISSING;
    if (foreign_number_is_infinite(text))
        return FOREIGN_INFINITE;
    if (foreign_number_is_hex(text))
        return FOREIGN_HEX;
    if (foreign_number_is_comma(text))
        return FOREIGN_COMMA;
    if (foreign_number_is_groups(text))
        return FOREIGN_GROUPS;
    if (foreign_number_is_exponent(text))
        return FOREIGN_EXPONENT;
    return foreign_number_has_unit(text) ? FOREIGN_UNIT : FOREIGN_WORD;
}

bool
foreign_number_is_one(enum foreign_number kind)
{
    return kind >= FOREIGN_PLAIN && kind <= FOREIGN_UNIT;
}

const char *
foreign_number_why(enum foreign_number kind)
{
    static const char *const texts[] = {
        [FOREIGN_WORD] = "",
        [FOREIGN_PLAIN] = "",
        [FOREIGN_COMMA] = ": it has a comma where a point is expected",
        [FOREIGN_GROUPS] = ": thousands are not read apart",
        [FOREIGN_HEX] = ": hexadecimal numbers are not read",
        [FOREIGN_EXPONENT] = ": an exponent begins with e",
        [FOREIGN_UNIT] = ": it has a unit",
        [FOREIGN_INFINITE] = ": NaN and Inf are refused",
        [FOREIGN_MISSING] = ": a value is missing; fill it in, or leave the line out",
    };

    return texts[kind];
}
