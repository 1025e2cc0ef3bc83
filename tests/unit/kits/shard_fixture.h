/* The shard of each test of a file, k, and the fixtures that make it and end it:
 *
 *     tcase_add_checked_fixture(tc, shard_setup, shard_teardown);
 *
 * A file whose tests need more at their start has a setup of its own. */
#ifndef TESTS_UNIT_KITS_SHARD_FIXTURE_H
#define TESTS_UNIT_KITS_SHARD_FIXTURE_H

#include "tests/unit/kits/shard_kit.h"

static struct kit k;

static inline void
shard_setup(void)
{
    kit_init(&k, NULL);
}

static inline void
shard_setup_durable(void)
{
    kit_init(&k, &kit_durable_config);
}

static inline void
shard_teardown(void)
{
    kit_finish(&k);
}

#endif
