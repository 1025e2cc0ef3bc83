#include "client/data/data_source.h"

#include <stdio.h>

const char *
data_source(const char *file, char out[DATA_SOURCE_MAX])
{
    out[0] = '\0';
    if (file != NULL)
        snprintf(out, DATA_SOURCE_MAX, "%.*s: ", DATA_SOURCE_MAX - 3, file);
    return out;
}
