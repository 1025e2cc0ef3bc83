#include "common/core/base/base.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void
ps_assert_failed(const char *condition, const char *file, int line, const char *function)
{
    fprintf(stderr, "psd: assertion failed: %s (%s:%d, %s)\n", condition, file, line, function);
    abort();
}
