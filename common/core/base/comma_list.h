/* Lists as options and the environment have them: "a:1, b:2". Blanks and line ends around an entry are passed over, so
 * that a list reads the same whoever wrote it. Pure.
 *
 *     char entry[ADDRESS_MAX + 1];
 *     for (const char *at = list; comma_list_next(&at, entry, sizeof entry);)
 *         ... */
#ifndef COMMON_CORE_BASE_COMMA_LIST_H
#define COMMON_CORE_BASE_COMMA_LIST_H

#include "common/core/base/base.h"

/* The next entry into out, "" where none is between two commas, and cut off where it does not fit. False: *at, which is
 * NULL then, is behind the last one. An empty list has one empty entry. */
bool comma_list_next(const char **at, char *out, size_t size);

/* How many entries there are, at least 1. */
uint32_t comma_list_len(const char *list);

#endif
