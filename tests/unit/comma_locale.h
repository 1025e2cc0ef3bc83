/* A locale that writes 1,5 where C writes 1.5: one that is installed, or else one that is made for the test. */
#ifndef TESTS_UNIT_COMMA_LOCALE_H
#define TESTS_UNIT_COMMA_LOCALE_H

#include <locale.h>
#include <stdbool.h>
#include <string.h>

#include "tests/unit/check_main.h"

/* The program speaks it from here on. False, and a line that says so, where none can be had: nothing is shown then. */
static inline bool
comma_locale(void)
{
    static const char *const installed[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "es_ES.UTF-8"};
    char dir[] = "/tmp/psd-test-locale-XXXXXX", command[256];
    bool found = false;

    for (size_t i = 0; !found && i < sizeof installed / sizeof installed[0]; i++)
        found = setlocale(LC_ALL, installed[i]) != NULL;
    if (!found && mkdtemp(dir) != NULL) {
        snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 --no-archive %s/comma >%s/log 2>&1", dir, dir);
        if (system(command) == 0 && setenv("LOCPATH", dir, 1) == 0)
            found = setlocale(LC_ALL, "comma") != NULL;
        snprintf(command, sizeof command, "rm -r %s", dir);
        ck_assert_int_eq(system(command), 0);
    }
    found = found && strcmp(localeconv()->decimal_point, ",") == 0;
    if (!found)
        fprintf(stderr, "# skipped: no locale with a decimal comma, and no localedef to make one\n");
    return found;
}

#endif
