/* The end of every unit test: a main that runs one suite, and a seeded generator for random tests.
 *
 * PSD_TEST_SEED chooses the seed of random tests (printed by each that uses it); CK_TAP_LOG_FILE_NAME=- prints TAP. */
#ifndef TESTS_UNIT_KITS_CHECK_MAIN_H
#define TESTS_UNIT_KITS_CHECK_MAIN_H

#include <check.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TEST_SEED_DEFAULT 20260101

/* The seed for random tests; prints it on stderr, so that a failure can be run again. */
static inline uint64_t
test_seed(void)
{
    const char *text = getenv("PSD_TEST_SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : TEST_SEED_DEFAULT;

    fprintf(stderr, "# PSD_TEST_SEED=%" PRIu64 "\n", seed);
    return seed;
}

/* splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
struct test_rng {
    uint64_t state;
};

static inline uint64_t
test_rand(struct test_rng *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* 0 <= result < n, n >= 1. */
static inline uint64_t
test_below(struct test_rng *r, uint64_t n)
{
    return test_rand(r) % n;
}

/* Uniform in [-1, 1). */
static inline float
test_float(struct test_rng *r)
{
    return (float)((double)(test_rand(r) >> 11) * 0x1p-52 - 1.0);
}

/* Run the suite that make() builds; forks per test unless CK_FORK=no. */
static inline int
check_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    int failed;

    srunner_run_all(runner, getenv("CK_TAP_LOG_FILE_NAME") != NULL ? CK_SILENT : CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#define CHECK_MAIN(make)                                                                                               \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        return check_run(make());                                                                                      \
    }

#endif
