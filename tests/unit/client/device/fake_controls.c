#include "tests/unit/client/device/fake_controls.h"

#include <stdatomic.h>

static atomic_ulong copied, waits;
static atomic_int failing;
static atomic_long good; /* results before it fails */

static bool
fake_controls_chosen(unsigned number)
{
    int which = atomic_load(&failing);

    return which == 1 || (which > 1 && (unsigned)which - 2 == number);
}

bool
fake_controls_due(unsigned number)
{
    return fake_controls_chosen(number) && atomic_load(&good) <= 0;
}

bool
fake_controls_fail(unsigned number)
{
    return fake_controls_chosen(number) && atomic_fetch_sub(&good, 1) <= 0;
}

void
fake_controls_count(size_t bytes)
{
    atomic_fetch_add(&copied, bytes);
}

void
fake_controls_wait(void)
{
    atomic_fetch_add(&waits, 1);
}

/* ---- For tests ---- */

void
fake_module_fail(int fails)
{
    fake_module_fail_later(fails, 0);
}

void
fake_module_fail_later(int fails, long results)
{
    atomic_store(&good, results);
    atomic_store(&failing, fails);
}

unsigned long
fake_module_copied(void)
{
    return atomic_load(&copied);
}

unsigned long
fake_module_waits(void)
{
    return atomic_load(&waits);
}
