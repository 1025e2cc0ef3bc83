#include "client/device/device_staging.h"

#include <stdlib.h>
#include <string.h>

#include "client/device/device.h"
#include "common/core/base/base.h"

#define STAGING_ALIGN 64

enum ps_err
ps_device_alloc_host(ps_device *device, size_t size, void **out, struct ps_error *error)
{
    ps_device *d = device;
    void *memory = NULL;

    if (d->ops->alloc_host != NULL)
        memory = d->ops->alloc_host(d, size);
    else if (size <= PTRDIFF_MAX - STAGING_ALIGN) {
        size_t rounded = size == 0 ? STAGING_ALIGN : round_up(size, STAGING_ALIGN);

        if ((memory = aligned_alloc(STAGING_ALIGN, rounded)) != NULL)
            memset(memory, 0, rounded);
    }
    *out = memory;
    return memory != NULL ? PS_OK : device_no_memory(d, size, "host memory", error);
}

void
ps_device_free_host(ps_device *device, void *memory)
{
    if (memory != NULL && device->ops->free_host != NULL)
        device->ops->free_host(device, memory);
    else
        free(memory);
}

static bool
is_staging(ps_device *d, const void *host, size_t size)
{
    return d->ops->is_staging != NULL && d->ops->is_staging(d, host, size);
}

bool
device_staging_serves(ps_device *d, const void *host, size_t size)
{
    return d->ops->is_host || is_staging(d, host, size);
}

void
device_send(ps_device *d, void *to, const void *from_host, size_t size)
{
    if (size > 0 && is_staging(d, from_host, size))
        d->ops->copy_in(d, to, from_host, size);
    else
        ps_device_upload(d, to, from_host, size);
}

enum ps_err
device_fetch(ps_device *d, void *to_host, const void *from, size_t size, struct ps_error *e)
{
    if (size == 0 || !is_staging(d, to_host, size))
        return ps_device_download(d, to_host, from, size, e);
    d->ops->copy_out(d, to_host, from, size);
    return PS_OK;
}

enum ps_err
device_fetched(ps_device *d, struct ps_error *e)
{
    return d->ops->copied != NULL ? d->ops->copied(d, e) : PS_OK;
}
