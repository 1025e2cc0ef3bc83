/* Where the data that comes with the examples lies. */
#ifndef CLIENT_EXAMPLES_SHARED_SHIPPED_H
#define CLIENT_EXAMPLES_SHARED_SHIPPED_H

#include <limits.h>

#define SHIPPED_PATH_MAX PATH_MAX

/* "digits", "wdbc/train.svm": found from the working directory, when that is the source tree, or from where this
 * program lies: in a build directory below the source tree, or installed. Into path, which is returned; when it is not
 * found, the path in the source tree, so that the error on opening it names that. */
const char *shipped_find(const char *name, char path[SHIPPED_PATH_MAX]);

#endif
