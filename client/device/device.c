/* Devices by name, their memory, and their descriptions. device_ops.c has the operations. */
#include "client/device/device.h"

#include <stdio.h>
#include <string.h>

#include "common/core/base/base.h"
#include "common/core/base/nearest.h"

struct device_kind {
    const char *name;
    enum ps_err (*open)(const struct ps_device_options *options, ps_device **out, struct ps_error *e);
    /* "cuda:1"; without one: 0 */
    enum ps_err (*open_number)(unsigned number, const struct ps_device_options *options, ps_device **out,
                               struct ps_error *e);
};

const char *
ps_precision_name(enum ps_precision precision)
{
    static const char *const names[] = {
        [PS_PRECISION_FLOAT32] = "float32", [PS_PRECISION_TF32] = "tf32", [PS_PRECISION_BFLOAT16] = "bfloat16"};

    return (size_t)precision < ARRAY_LEN(names) ? names[precision] : NULL;
}

static const struct device_kind kinds[] = {
    {"cpu", device_cpu_open, NULL},
    {"cuda", NULL, device_cuda_open},
};

static enum ps_err
unknown_device(const char *name, struct ps_error *e)
{
    struct nearest nearest = nearest_to(name);
    char names[128] = "", meant[NEAREST_TEXT_MAX];

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", kinds[i].name);
        nearest_offer(&nearest, kinds[i].name);
    }
    return ps_fail(e, PS_ERR_INVALID, "there is no device \"%.64s\"; devices are: %s%s", name, names,
                   nearest_text(&nearest, "", meant));
}

/* "cuda:1": 1. Without a number: 0. False: something else follows. */
static bool
read_number(const char *text, unsigned *number)
{
    *number = 0;
    if (*text == '\0')
        return true;
    if (*text++ != ':' || *text == '\0' || strlen(text) > 4)
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        *number = 10 * *number + (unsigned)(*text - '0');
    }
    return true;
}

static enum ps_err
check_options(const char *name, const struct ps_device_options *o, struct ps_error *e)
{
    if (o->threads < 0 || o->workers < 0)
        return ps_fail(e, PS_ERR_INVALID, "device %s: threads (%d) and workers (%d) may not be negative", name,
                       o->threads, o->workers);
    if (ps_precision_name(o->precision) == NULL)
        return ps_fail(e, PS_ERR_INVALID, "device %s: there is no precision %d", name, (int)o->precision);
    return PS_OK;
}

static enum ps_err
open_kind_named(const struct device_kind *kind, const char *name, const struct ps_device_options *options,
                ps_device **out, struct ps_error *e)
{
    unsigned number;
    enum ps_err err;

    if (kind->open_number == NULL) {
        if ((err = kind->open(options, out, e)) == PS_OK)
            (*out)->name = kind->name;
        return err;
    }
    if (!read_number(name + strlen(kind->name), &number))
        return ps_fail(e, PS_ERR_INVALID, "device \"%.64s\": write %s, or %s:1 for the second one", name, kind->name,
                       kind->name);
    return kind->open_number(number, options, out, e);
}

static enum ps_err
open_kind(const struct device_kind *kind, const char *name, const struct ps_device_options *options, ps_device **out,
          struct ps_error *e)
{
    enum ps_err err = open_kind_named(kind, name, options, out, e);

    if (err == PS_OK)
        (*out)->precision = options->precision;
    return err;
}

static bool
is_of_kind(const struct device_kind *kind, const char *name)
{
    size_t len = strlen(kind->name);

    return strncmp(name, kind->name, len) == 0 &&
           (name[len] == '\0' || (name[len] == ':' && kind->open_number != NULL));
}

enum ps_err
ps_device_open(const char *name, const struct ps_device_options *options, ps_device **out, struct ps_error *error)
{
    struct ps_device_options filled = {0};
    enum ps_err err;

    if (name == NULL)
        return unknown_device("", error);
    if (options != NULL)
        filled = *options;
    if ((err = check_options(name, &filled, error)) != PS_OK)
        return err;
    if (filled.workers == 0)
        filled.workers = 1;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (is_of_kind(&kinds[i], name))
            return open_kind(&kinds[i], name, &filled, out, error);
    return unknown_device(name, error);
}

void
ps_device_close(ps_device *device)
{
    if (device != NULL)
        device->ops->close(device);
}

const char *
ps_device_name(const ps_device *device)
{
    return device->name;
}

const char *
ps_device_describe(const ps_device *device)
{
    return device->description;
}

int
ps_device_threads(const ps_device *device)
{
    return device->threads;
}

enum ps_precision
ps_device_precision(const ps_device *device)
{
    return device->precision;
}

int
ps_device_is_host(const ps_device *device)
{
    return device->ops->is_host;
}

enum ps_err
device_no_memory(ps_device *d, size_t size, const char *of, struct ps_error *e)
{
    enum ps_err err = d->ops->copied != NULL ? d->ops->copied(d, e) : PS_OK;

    return err != PS_OK ? err : ps_fail(e, PS_ERR_NOMEM, "device %s: no %zu bytes of %s", d->name, size, of);
}

enum ps_err
ps_device_alloc(ps_device *device, size_t size, void **out, struct ps_error *error)
{
    *out = device->ops->alloc(device, size);
    return *out != NULL ? PS_OK : device_no_memory(device, size, "memory", error);
}

void
ps_device_free(ps_device *device, void *memory)
{
    if (memory != NULL)
        device->ops->free(device, memory);
}

void
ps_device_upload(ps_device *device, void *to, const void *from_host, size_t size)
{
    if (size > 0)
        device->ops->upload(device, to, from_host, size);
}

void
ps_device_copy(ps_device *device, void *to, const void *from, size_t size)
{
    if (size > 0)
        device->ops->copy(device, to, from, size);
}

enum ps_err
ps_device_download(ps_device *device, void *to_host, const void *from, size_t size, struct ps_error *error)
{
    if (size == 0)
        return device->ops->finish(device, error);
    return device->ops->download(device, to_host, from, size, error);
}

enum ps_err
ps_device_finish(ps_device *device, struct ps_error *error)
{
    return device->ops->finish(device, error);
}
