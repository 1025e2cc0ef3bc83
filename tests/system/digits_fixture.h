/* The shipped digits and some shards for each test of a file, and the memory in which its worker processes leave their
 * results:
 *
 *     static void setup(void) { digits_setup(2); left = digits_share(sizeof *left); }
 *     static void teardown(void) { munmap(left, sizeof *left); digits_teardown(); }
 *
 * A failure fails the running Check test. */
#ifndef TESTS_SYSTEM_DIGITS_FIXTURE_H
#define TESTS_SYSTEM_DIGITS_FIXTURE_H

#include <check.h>
#include <sys/mman.h>

#include "tests/system/digits_kit.h"
#include "tests/system/shard_processes.h"

static struct shards shards;
static struct ps_dataset data, held_out;

static inline void
digits_setup(uint32_t count)
{
    digits_load(&data, &held_out);
    shards_start(&shards, count);
}

static inline void
digits_setup_two(void)
{
    digits_setup(2);
}

static inline void
digits_teardown(void)
{
    shards_stop(&shards);
    ps_dataset_free(&data);
    ps_dataset_free(&held_out);
}

/* Zeroed memory that is shared with processes forked from now on. */
static inline void *
digits_share(size_t size)
{
    void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    ck_assert(shared != MAP_FAILED);
    return shared;
}

/* The options that digits would read from these arguments, the first ones of the file's; borrowed until the next call.
 */
static inline struct digits_options
digits_options_for(const char *first, const char *arguments, int timeout_ms)
{
    static struct digits_words words;
    struct digits_options o;
    struct ps_error error;

    if (digits_read(&words, &o, &error, "%s %s", first, arguments) != PS_OK)
        ck_abort_msg("%s", error.text);
    o.timeout_ms = timeout_ms;
    return o;
}

/* The cluster of these shards, seen by one of its workers. */
static inline enum ps_err
digits_cluster(uint32_t workers, uint32_t task, ps_cluster **out, struct ps_error *e)
{
    enum ps_err err = ps_cluster_from_list(shards.addresses, workers, task, out, e);

    return err == PS_OK ? ps_cluster_set_name(*out, SHARDS_CLUSTER, e) : err;
}

#endif
