/* Gangs of any kind: the common checks and state. */
#include "client/device/device_gang.h"

#include <stdlib.h>
#include <string.h>

#include "client/device/device.h"
#include "common/core/base/base.h"

struct device_gang {
    const struct device_gang_kind *kind;
    void *state; /* the kind's */
    size_t n;
};

static enum ps_err
check_devices(ps_device *const devices[], size_t n, struct ps_error *e)
{
    if (n < 1 || n > DEVICE_GANG_MAX)
        return ps_fail(e, PS_ERR_INVALID, "a gang has 1 to %d replicas, not %zu", DEVICE_GANG_MAX, n);
    for (size_t i = 1; i < n; i++)
        if (devices[i]->ops->gang != devices[0]->ops->gang)
            return ps_fail(e, PS_ERR_INVALID, "a gang is of devices of one kind: %s is not as %s", devices[i]->name,
                           devices[0]->name);
    if (devices[0]->ops->gang == NULL)
        return ps_fail(e, PS_ERR_UNSUPPORTED, "device %s cannot reduce among replicas", devices[0]->name);
    return PS_OK;
}

enum ps_err
device_gang_open(ps_device *const devices[], size_t n, struct device_gang **out, struct ps_error *e)
{
    struct device_gang *g;
    enum ps_err err;

    if ((err = check_devices(devices, n, e)) != PS_OK)
        return err;
    if ((g = calloc(1, sizeof *g)) == NULL)
        return ps_fail(e, PS_ERR_NOMEM, "a gang of %zu replicas: out of memory", n);
    g->kind = devices[0]->ops->gang;
    g->n = n;
    if (g->kind->open != NULL && (err = g->kind->open(devices, n, &g->state, e)) != PS_OK) {
        free(g);
        return err;
    }
    *out = g;
    return PS_OK;
}

void
device_gang_close(struct device_gang *gang)
{
    if (gang == NULL)
        return;
    if (gang->kind->close != NULL)
        gang->kind->close(gang->state);
    free(gang);
}

size_t
device_gang_size(const struct device_gang *gang)
{
    return gang->n;
}

enum ps_err
device_gang_all_reduce(struct device_gang *gang, float *const tensors[], size_t elements, enum device_gang_op op,
                       struct ps_error *e)
{
    if (gang->n == 1 || elements == 0)
        return PS_OK;
    return gang->kind->all_reduce(gang->state, gang->n, tensors, elements, op, e);
}

enum ps_err
device_gang_broadcast(struct device_gang *gang, float *const tensors[], size_t elements, size_t root,
                      struct ps_error *e)
{
    ps_assert(root < gang->n);
    if (gang->n == 1 || elements == 0)
        return PS_OK;
    return gang->kind->broadcast(gang->state, gang->n, tensors, elements, root, e);
}
