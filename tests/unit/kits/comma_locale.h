/* A locale that writes 1,5 where C writes 1.5: one that is installed, or else one that is made for the test. */
#ifndef TESTS_UNIT_KITS_COMMA_LOCALE_H
#define TESTS_UNIT_KITS_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"

/* From a source of its own, so that it takes no time. localedef's complaints about missing parts do not matter. */
static inline bool
comma_locale_make(void)
{
    static const char source[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n";
    char dir[] = "/tmp/psd-test-locale-XXXXXX", command[512];
    bool made;

    if (mkdtemp(dir) == NULL)
        return false;
    snprintf(
        command, sizeof command,
        "cd %s && printf '%s' >source && localedef -c -i ./source -f ANSI_X3.4-1968 --no-archive ./comma >log 2>&1",
        dir, source);
    (void)!system(command);
    made = setenv("LOCPATH", dir, 1) == 0 && setlocale(LC_NUMERIC, "comma") != NULL;
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
    return made;
}

/* The program uses it from here on. False, and a line that says so, where there is none: the test then shows nothing.
 */
static inline bool
comma_locale(void)
{
    static const char *const installed[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "es_ES.UTF-8"};
    bool found = false;

    for (size_t i = 0; !found && i < sizeof installed / sizeof installed[0]; i++)
        found = setlocale(LC_NUMERIC, installed[i]) != NULL;
    if (!found)
        found = comma_locale_make();
    found = found && strcmp(localeconv()->decimal_point, ",") == 0;
    if (!found)
        fprintf(stderr, "# skipped: no locale with a decimal comma, and no localedef to make one\n");
    return found;
}

#endif
