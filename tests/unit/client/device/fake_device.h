/* Modules that the tests build, beside the tests' programs, and how ps_device_open("cuda") is made to load one. */
#ifndef TESTS_UNIT_CLIENT_DEVICE_FAKE_DEVICE_H
#define TESTS_UNIT_CLIENT_DEVICE_FAKE_DEVICE_H

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/include/psclient/ps_device.h"
#include "tests/unit/kits/check_main.h"

/* "<directory of this program>/<name>". */
static inline const char *
beside_program(const char *name)
{
    static char path[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    char *slash;

    ck_assert_msg(n > 0, "this program has no path");
    path[n] = '\0';
    slash = strrchr(path, '/');
    snprintf(slash + 1, sizeof path - (size_t)(slash + 1 - path), "%s", name);
    return path;
}

/* Tells programs that do not lie beside it where it is. */
static inline const char *
fake_module_path(void)
{
    const char *told = getenv("FAKE_MODULE_LIB");

    return told != NULL ? told : beside_program("libfake_module.so");
}

static inline void
use_module(const char *path)
{
    ck_assert_int_eq(setenv("PSD_CUDA_MODULE", path, 1), 0);
}

/* Opens "cuda" or another name of a device of the fake module. */
static inline ps_device *
open_fake(const char *name)
{
    struct ps_error error;
    ps_device *d;

    use_module(fake_module_path());
    if (ps_device_open(name, NULL, &d, &error) != PS_OK)
        ck_abort_msg("%s", error.text);
    return d;
}

/* A device that multiplies in a precision. */
static inline ps_device *
open_fake_number(const char *name, enum ps_precision precision)
{
    struct ps_device_options options = {.precision = precision};
    struct ps_error error;
    ps_device *d;

    use_module(fake_module_path());
    if (ps_device_open(name, &options, &d, &error) != PS_OK)
        ck_abort_msg("%s", error.text);
    return d;
}

static inline ps_device *
open_fake_in(enum ps_precision precision)
{
    return open_fake_number("cuda", precision);
}

/* Something that the fake module exports besides its table. */
static inline void *
fake_symbol(const char *name)
{
    void *library = dlopen(fake_module_path(), RTLD_NOW | RTLD_NOLOAD), *symbol;

    ck_assert_msg(library != NULL, "the fake module is not loaded");
    symbol = dlsym(library, name);
    ck_assert_msg(symbol != NULL, "the fake module has no %s", name);
    dlclose(library); /* it stays */
    return symbol;
}

/* From now on its results fail, or no longer: 1: those of all devices; 2 + n: those of device n; after so many good
 * ones. */
static inline void
fake_fails_later(int fails, long results)
{
    void *symbol = fake_symbol("fake_module_fail_later");
    void (*tell)(int, long);

    memcpy(&tell, &symbol, sizeof tell);
    tell(fails, results);
}

/* Bytes between host and devices, so far. */
static inline unsigned long
fake_copied(void)
{
    void *symbol = fake_symbol("fake_module_copied");
    unsigned long (*ask)(void);

    memcpy(&ask, &symbol, sizeof ask);
    return ask();
}

/* How often the host has waited for a device, so far. */
static inline unsigned long
fake_waits(void)
{
    void *symbol = fake_symbol("fake_module_waits");
    unsigned long (*ask)(void);

    memcpy(&ask, &symbol, sizeof ask);
    return ask();
}

static inline void
fake_fails(int fails)
{
    fake_fails_later(fails, 0);
}

#endif
