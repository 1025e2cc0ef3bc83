/* Whether the address sanitizer is built in. It keeps what was freed in a quarantine: the size of a process's memory
 * means nothing then. */
#ifndef TESTS_SANITIZED_H
#define TESTS_SANITIZED_H

#include <stdbool.h>

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED_ADDRESS true
#elif defined(__has_feature)
#define SANITIZED_ADDRESS __has_feature(address_sanitizer)
#else
#define SANITIZED_ADDRESS false
#endif

#endif
