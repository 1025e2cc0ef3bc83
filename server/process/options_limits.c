/* Defaults that follow from what this host lets the process take: the limit of a control group (a container's or a
 * service's) holds the data, the messages and the gradients together, and shards of one host share it. */
#include "server/process/options_limits.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/base.h"

static bool
options_limits_durable(const struct options *o)
{
    if (o->durable_dir != NULL)
        return strcmp(o->durable_dir, "none") != 0;
    return getenv("STATE_DIRECTORY") != NULL;
}

static uint64_t
options_limits_rest(const struct options *o)
{
    return options_limits_durable(o) ? OPTIONS_LIMITS_REST_DURABLE : OPTIONS_LIMITS_REST;
}

/* All that the process takes besides its data; deploy/README.md, "Memory". */
static uint64_t
options_limits_besides(const struct options *o)
{
    return o->in_flight + o->gather_memory + options_limits_rest(o);
}

static enum ps_err
options_limits_set(struct options *o, const char *name, uint64_t bytes, struct ps_error *e)
{
    char text[32];

    if (options_given(o, name))
        return PS_OK;
    snprintf(text, sizeof text, "%" PRIu64, bytes / MIB * MIB);
    return options_set(o, command_find(&psd_command, name, strlen(name)), "the memory limit", FROM_DEFAULT, text, e);
}

/* Messages and gradients take an eighth of a small limit each, in place of what they may take elsewhere. */
static enum ps_err
options_limits_buffers(struct options *o, uint64_t share, struct ps_error *e)
{
    uint64_t eighth = MAX(share / 8, OPTIONS_LIMITS_BUFFER_MIN);
    uint64_t in_flight = options_given(o, "in-flight-connection") ? MAX(eighth, o->in_flight_connection) : eighth;
    enum ps_err err;

    if ((err = options_limits_set(o, "in-flight", MIN(o->in_flight, in_flight), e)) != PS_OK ||
        (err = options_limits_set(o, "gather-memory", MIN(o->gather_memory, eighth), e)) != PS_OK)
        return err;
    return options_limits_set(o, "in-flight-connection", MIN(o->in_flight_connection, o->in_flight), e);
}

enum ps_err
options_apply_limits(struct options *o, const struct cgroup_limits *limits, struct ps_error *e)
{
    uint64_t share = limits->memory_bytes / MAX(o->shards_here, (uint64_t)1);
    enum ps_err err;

    o->memory_most = 0;
    if (limits->memory_bytes == CGROUP_NO_LIMIT)
        return PS_OK;
    if ((err = options_limits_buffers(o, share, e)) != PS_OK)
        return err;
    if (o->memory != 0)
        return PS_OK;
    if (share < options_limits_besides(o) + OPTIONS_LIMITS_DATA_MIN)
        return ps_fail(e, PS_ERR_CONFIG,
                       "the memory limit of %" PRIu64 " MiB (%s)%s is too low: besides the data, which takes at least "
                       "%" PRIu64 " MiB, psd needs %" PRIu64 " MiB (--in-flight, --gather-memory and the process)",
                       (uint64_t)(limits->memory_bytes / MIB), limits->memory_file,
                       o->shards_here > 1 ? ", which shards of this host share," : "",
                       (uint64_t)(OPTIONS_LIMITS_DATA_MIN / MIB), (uint64_t)(options_limits_besides(o) / MIB));
    o->memory_most = share - options_limits_besides(o);
    return PS_OK;
}

bool
options_limits_exceeded(const struct options *o, const struct cgroup_limits *limits, char *text, size_t size)
{
    uint64_t sum = o->memory + options_limits_besides(o);

    if (o->memory == 0 || limits->memory_bytes == CGROUP_NO_LIMIT || sum <= limits->memory_bytes)
        return false;
    snprintf(text, size,
             "--memory, --in-flight, --gather-memory and %" PRIu64 " MiB for the rest make %" PRIu64
             " MiB, above this process's memory limit: the kernel ends psd when it takes them limit_mib=%" PRIu64
             " limit_file=%s",
             (uint64_t)(options_limits_rest(o) / MIB), (uint64_t)(sum / MIB), (uint64_t)(limits->memory_bytes / MIB),
             limits->memory_file);
    return true;
}
