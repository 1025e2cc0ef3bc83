/* Sizes that nobody gave, under the memory limit of a control group. */
#include "server/process/options_limits.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"

#define MOST_ARGS 8

static struct options o;
static struct ps_error e;

/* Parses the words, which end with NULL, and applies a limit. */
static enum ps_err
options_limits_for(uint64_t bytes, const char *const *words)
{
    struct cgroup_limits limits = {.memory_bytes = bytes, .memory_file = "/sys/fs/cgroup/x/memory.max"};
    char *argv[MOST_ARGS + 1] = {(char *)(uintptr_t) "psd"};
    int argc = 1;

    for (; words[argc - 1] != NULL; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    options_finish(&o);
    ck_assert_msg(options_parse(&o, argc, argv, &e) == PS_OK, "%s", e.text);
    ck_assert_msg(options_apply_shards(&o, getenv("PSD_SHARDS"), &e) == PS_OK, "%s", e.text);
    return options_apply_limits(&o, &limits, &e);
}

#define LIMITED(bytes, ...) options_limits_for(bytes, (const char *const[]){__VA_ARGS__, NULL})

static void
options_limits_setup(void)
{
    unsetenv("PSD_SHARDS");
    unsetenv("STATE_DIRECTORY");
    o = (struct options){0};
}

static void
options_limits_teardown(void)
{
    options_finish(&o);
}

static uint64_t
options_limits_sum(void)
{
    return o.memory_most + o.in_flight + o.gather_memory + OPTIONS_LIMITS_REST;
}

START_TEST(no_limit_changes_nothing)
{
    ck_assert_int_eq(LIMITED(CGROUP_NO_LIMIT, NULL), PS_OK);
    ck_assert_uint_eq(o.memory_most, 0);
    ck_assert_uint_eq(o.in_flight, 256 * MIB);
    ck_assert_uint_eq(o.gather_memory, GIB);
    ck_assert_int_eq(LIMITED(64 * GIB, NULL), PS_OK);
    ck_assert_uint_eq(o.in_flight, 256 * MIB);
    ck_assert_uint_eq(o.gather_memory, GIB);
    ck_assert_uint_eq(options_limits_sum(), 64 * GIB);
}
END_TEST

START_TEST(all_together_stays_below_the_limit)
{
    ck_assert_int_eq(LIMITED(400 * MIB, NULL), PS_OK);
    ck_assert_uint_eq(o.in_flight, 50 * MIB);
    ck_assert_uint_eq(o.gather_memory, 50 * MIB);
    ck_assert_uint_eq(o.in_flight_connection, 32 * MIB);
    ck_assert_uint_eq(options_limits_sum(), 400 * MIB);
    for (uint64_t limit = 176 * MIB; limit < 12 * GIB; limit += limit / 7) {
        ck_assert_msg(LIMITED(limit, NULL) == PS_OK, "%s", e.text);
        ck_assert_uint_le(options_limits_sum(), limit);
        ck_assert_uint_le(o.in_flight_connection, o.in_flight);
        ck_assert_uint_ge(o.memory_most, OPTIONS_LIMITS_DATA_MIN);
    }
}
END_TEST

START_TEST(sizes_that_were_given_stay)
{
    ck_assert_int_eq(LIMITED(800 * MIB, "--in-flight=200MiB", "--gather-memory=1MiB"), PS_OK);
    ck_assert_uint_eq(o.in_flight, 200 * MIB);
    ck_assert_uint_eq(o.gather_memory, MIB);
    ck_assert_uint_eq(o.memory_most, (800 - 200 - 1 - 64) * MIB);
    ck_assert_int_eq(LIMITED(800 * MIB, "--memory=100MiB"), PS_OK);
    ck_assert_uint_eq(o.memory, 100 * MIB);
    ck_assert_uint_eq(o.memory_most, 0);
    ck_assert_int_eq(LIMITED(400 * MIB, "--in-flight-connection=60MiB"), PS_OK);
    ck_assert_uint_eq(o.in_flight, 60 * MIB);
}
END_TEST

START_TEST(a_durable_directory_has_its_part)
{
    ck_assert_int_eq(LIMITED(800 * MIB, "--durable-dir=/x"), PS_OK);
    ck_assert_uint_eq(o.memory_most, (800 - 200 - 160) * MIB);
    ck_assert_int_eq(LIMITED(800 * MIB, "--durable-dir=none"), PS_OK);
    ck_assert_uint_eq(o.memory_most, (800 - 200 - 64) * MIB);
}
END_TEST

START_TEST(a_limit_without_space_for_data_is_refused_with_its_file)
{
    ck_assert_int_eq(LIMITED(140 * MIB, NULL), PS_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "140 MiB (/sys/fs/cgroup/x/memory.max)"));
    ck_assert_int_eq(LIMITED(400 * MIB, "--shards=4"), PS_ERR_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "shards of this host share"));
}
END_TEST

START_TEST(shards_of_one_host_share)
{
    ck_assert_int_eq(LIMITED(800 * MIB, "--shards=2"), PS_OK);
    ck_assert_uint_eq(o.shards_here, 2);
    ck_assert_uint_eq(options_limits_sum(), 400 * MIB);
    ck_assert_int_eq(LIMITED(800 * MIB, "--shards=2", "--listen=0.0.0.0:7420"), PS_OK);
    ck_assert_uint_eq(o.shards_here, 1);
    ck_assert_int_eq(LIMITED(800 * MIB, "--shards=3", "--listen=none", "--unix=/run/x"), PS_OK);
    ck_assert_uint_eq(o.shards_here, 3);
    setenv("PSD_SHARDS", "ps0:7420,ps1:7420,ps0:7421", 1);
    ck_assert_int_eq(LIMITED(800 * MIB, "--shard=2"), PS_OK);
    ck_assert_uint_eq(o.shards_here, 2);
    ck_assert_int_eq(LIMITED(800 * MIB, "--shard=1"), PS_OK);
    ck_assert_uint_eq(o.shards_here, 1);
    setenv("PSD_SHARDS", "127.0.0.1:7420,localhost:7421", 1);
    ck_assert_int_eq(LIMITED(800 * MIB, "--shard=1"), PS_OK);
    ck_assert_uint_eq(o.shards_here, 2);
}
END_TEST

START_TEST(sizes_above_the_limit_are_warned_of)
{
    struct cgroup_limits limits = {.memory_bytes = 400 * MIB, .memory_file = "/sys/fs/cgroup/x/memory.max"};
    char text[1024];

    ck_assert_int_eq(LIMITED(400 * MIB, "--memory=300MiB"), PS_OK);
    ck_assert(options_limits_exceeded(&o, &limits, text, sizeof text));
    ck_assert_ptr_nonnull(strstr(text, "make 464 MiB"));
    ck_assert_ptr_nonnull(strstr(text, "limit_mib=400 limit_file=/sys/fs/cgroup/x/memory.max"));
    ck_assert_int_eq(LIMITED(400 * MIB, "--memory=200MiB"), PS_OK);
    ck_assert(!options_limits_exceeded(&o, &limits, text, sizeof text));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("options_limits");
    TCase *t = tcase_create("limits");

    tcase_add_checked_fixture(t, options_limits_setup, options_limits_teardown);
    tcase_add_test(t, no_limit_changes_nothing);
    tcase_add_test(t, all_together_stays_below_the_limit);
    tcase_add_test(t, sizes_that_were_given_stay);
    tcase_add_test(t, a_durable_directory_has_its_part);
    tcase_add_test(t, a_limit_without_space_for_data_is_refused_with_its_file);
    tcase_add_test(t, shards_of_one_host_share);
    tcase_add_test(t, sizes_above_the_limit_are_warned_of);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
