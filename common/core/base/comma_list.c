#include "common/core/base/comma_list.h"

#include <string.h>

#define COMMA_LIST_BLANKS " \t\r\n"

bool
comma_list_next(const char **at, char *out, size_t size)
{
    const char *entry = *at;
    size_t n;

    if (entry == NULL)
        return false;
    n = strcspn(entry, ",");
    *at = entry[n] == ',' ? entry + n + 1 : NULL;
    for (; n > 0 && strchr(COMMA_LIST_BLANKS, *entry) != NULL; n--)
        entry++;
    while (n > 0 && strchr(COMMA_LIST_BLANKS, entry[n - 1]) != NULL)
        n--;
    n = MIN(n, size - 1);
    memcpy(out, entry, n);
    out[n] = '\0';
    return true;
}

uint32_t
comma_list_len(const char *list)
{
    uint32_t n = 1;

    for (; *list != '\0'; list++)
        n += *list == ',';
    return n;
}
