#include "client/tools/psctl/views/health.h"

#include <stdio.h>

#include "client/tools/psctl/query/report_fields.h"

unsigned
health_store_percent(const json_t *status)
{
    uint64_t used = field_number(status, "store_bytes"), max = field_number(status, "store_bytes_max");

    return max > 0 ? (unsigned)(100.0 * (double)used / (double)max) : 0;
}

bool
health_check(const struct shard_answer *a, char *why, size_t size)
{
    const json_t *status = json_object_get(a->report, "status");
    unsigned percent = health_store_percent(status);

    if (!a->reached)
        snprintf(why, size, "not reached: %s", a->error.text);
    else if (field_flag(status, "draining"))
        snprintf(why, size, "draining");
    else if (percent >= HEALTH_STORE_FULL)
        snprintf(why, size, "its memory is %u %% full", percent);
    else
        return true;
    return false;
}
