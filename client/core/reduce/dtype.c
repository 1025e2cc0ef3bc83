/* What ps_group.h's list of element types says of each. */
#include "client/include/psclient/ps_group.h"

#include "common/core/base/base.h"

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
#define DTYPE_ROW(NAME, name, bytes, number) [number] = {name, bytes},
    PS_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

static_assert(ARRAY_LEN(dtypes) == PS_DTYPES, "numbers have no gaps");

const char *
ps_dtype_name(enum ps_dtype dtype)
{
    return (size_t)dtype < PS_DTYPES ? dtypes[dtype].name : NULL;
}

size_t
ps_dtype_size(enum ps_dtype dtype)
{
    return (size_t)dtype < PS_DTYPES ? dtypes[dtype].size : 0;
}
