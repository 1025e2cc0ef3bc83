#include "tests/bench/area.h"

#include <string.h>

#include "common/core/base/base.h"

#define X(name, about) {#name, about, area_##name},
const struct area areas[] = {AREA_LIST(X)};
#undef X
const size_t areas_len = ARRAY_LEN(areas);

const struct area *
area_find(const char *name)
{
    for (size_t i = 0; i < areas_len; i++)
        if (strcmp(areas[i].name, name) == 0)
            return &areas[i];
    return NULL;
}
