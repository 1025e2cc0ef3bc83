/* Blocks over shards: each variable even within one largest block, all variables together even in expectation, and the
 * questions (which shard, how many, which one, at which index) answer each other. */
#include "common/core/cluster/placement.h"

#include <math.h>
#include <string.h>

#include "common/core/model/layout.h"
#include "tests/unit/kits/check_main.h"

START_TEST(hash_is_the_same_on_every_machine)
{
    /* Reference values from an implementation with unbounded integers; FNV-1a of "a" before the finisher is its
     * authors' published af63dc4c8601ec8c, and the finisher maps 0 to 0. */
    ck_assert_uint_eq(placement_hash("", 0, 0xcbf29ce484222325u), 0);
    ck_assert_uint_eq(placement_hash("", 0, 0), 0xf52a15e9a9b5e89bu);
    ck_assert_uint_eq(placement_hash("a", 1, 0), 0x02c0bdbf481420f8u);
    ck_assert_uint_eq(placement_hash("weights", 7, 42), 0xb525a5350740f4c4u);
}
END_TEST

START_TEST(job_and_name_are_not_run_together)
{
    ck_assert_uint_ne(placement_start("ab", "c", 1), placement_start("a", "bc", 1));
    ck_assert_uint_ne(placement_start("job", "w", 1), placement_start("other", "w", 1));
    ck_assert_uint_ne(placement_start("job", "w", 1), placement_start("job", "v", 1));
}
END_TEST

START_TEST(blocks_go_round_the_shards)
{
    uint32_t start = placement_start("job", "layer1/weights", 7);

    for (uint64_t block = 0; block < 200000; block++) /* past all slots; Check's assertions are too slow for each */
        if (placement_shard(start, block + 1, 7) != (placement_shard(start, block, 7) + 1) % 7)
            ck_abort_msg("block %" PRIu64, block);
}
END_TEST

START_TEST(one_shard_holds_all)
{
    uint32_t start = placement_start("job", "w", 1);

    ck_assert_uint_eq(placement_shard(start, 123456789, 1), 0);
    ck_assert_uint_eq(placement_count(start, 10, 0, 1), 10);
    ck_assert_uint_eq(placement_nth(start, 0, 1, 9), 9);
    ck_assert_uint_eq(placement_index(start, 9, 1), 9);
}
END_TEST

static void
random_name(struct test_rng *r, char name[16])
{
    snprintf(name, 16, "v%llx", (unsigned long long)(test_rand(r) >> 16));
}

START_TEST(count_nth_and_index_undo_each_other)
{
    struct test_rng r = {test_seed()};

    for (int round = 0; round < 300; round++) {
        uint32_t shards = (uint32_t)(1 + test_below(&r, round % 2 == 0 ? 9 : 4096));
        uint64_t blocks = 1 + test_below(&r, 5000), total = 0;
        char name[16];
        uint32_t start;

        random_name(&r, name);
        start = placement_start("job", name, shards);
        for (uint32_t shard = 0; shard < shards; shard++) {
            uint64_t count = placement_count(start, blocks, shard, shards);

            total += count;
            for (uint64_t i = 0; i < count; i++) {
                uint64_t block = placement_nth(start, shard, shards, i);

                if (block >= blocks || placement_shard(start, block, shards) != shard ||
                    placement_index(start, block, shards) != i)
                    ck_abort_msg("the %" PRIu64 "th block of shard %u of %u, start %u", i, shard, shards, start);
            }
            if (placement_nth(start, shard, shards, count) < blocks)
                ck_abort_msg("shard %u of %u, start %u: one block is not counted", shard, shards, start);
        }
        ck_assert_uint_eq(total, blocks);
    }
}
END_TEST

START_TEST(far_blocks_are_found_without_overflow)
{
    struct test_rng r = {test_seed()};

    for (int i = 0; i < 10000; i++) {
        uint32_t shards = (uint32_t)(1 + test_below(&r, 4096));
        uint32_t start = (uint32_t)test_below(&r, PLACEMENT_SLOTS - PLACEMENT_SLOTS % shards);
        uint64_t block = test_rand(&r) >> test_below(&r, 30);
        uint32_t shard = placement_shard(start, block, shards);

        ck_assert_uint_lt(shard, shards);
        ck_assert_uint_eq(placement_nth(start, shard, shards, placement_index(start, block, shards)), block);
    }
}
END_TEST

struct placement_load {
    uint64_t blocks, data, stored; /* bytes of arrays, bytes of values in the store */
};

/* Each shard's part of one variable. */
static void
add_variable(struct placement_load *loads, uint32_t shards, const char *name, uint64_t elements, uint32_t slots)
{
    uint32_t start = placement_start("job", name, shards);
    struct layout l;

    layout_init(&l, elements, slots);
    for (uint64_t block = 0; block < l.blocks; block++) {
        struct layout_block b = layout_block(&l, block);
        struct placement_load *load = &loads[placement_shard(start, block, shards)];

        load->blocks++;
        load->data += (uint64_t)b.len * (1 + slots) * sizeof(float);
        load->stored += layout_value_size(b.size_class);
    }
}

/* Every shard's share is within `most` of the mean. */
static void
check_even(const struct placement_load *loads, uint32_t shards, size_t offset, double most)
{
    double mean = 0;

    for (uint32_t s = 0; s < shards; s++)
        mean += (double)*(const uint64_t *)(const void *)((const char *)&loads[s] + offset) / shards;
    for (uint32_t s = 0; s < shards; s++) {
        double x = (double)*(const uint64_t *)(const void *)((const char *)&loads[s] + offset);

        if (!(fabs(x - mean) <= most))
            ck_abort_msg("shard %u of %u has %.0f, the mean is %.1f", s, shards, x, mean);
    }
}

START_TEST(every_variable_is_within_one_largest_block_of_even)
{
    struct test_rng r = {test_seed()};

    for (int round = 0; round < 3000; round++) {
        static struct placement_load loads[128];
        uint32_t shards = (uint32_t)(1 + test_below(&r, ARRAY_LEN(loads)));
        uint64_t elements = 1 + test_below(&r, 1ull << (1 + test_below(&r, 27)));
        uint32_t slots = (uint32_t)test_below(&r, LAYOUT_SLOTS_MAX + 1);
        char name[16];

        memset(loads, 0, sizeof loads);
        random_name(&r, name);
        add_variable(loads, shards, name, elements, slots);
        check_even(loads, shards, offsetof(struct placement_load, blocks), 1);
        check_even(loads, shards, offsetof(struct placement_load, data),
                   (double)layout_capacity(LAYOUT_CLASSES - 1, slots) * (1 + slots) * sizeof(float));
        check_even(loads, shards, offsetof(struct placement_load, stored),
                   (double)layout_value_size(LAYOUT_CLASSES - 1));
    }
}
END_TEST

START_TEST(totals_are_even_in_expectation)
{
    static const uint32_t counts[] = {2, 3, 7, 16, 100};

    /* One block each: a shard's count is binomial. Five deviations leave one run in a million to chance, and the names
     * are fixed, so there is none. */
    for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
        static struct placement_load loads[128];
        uint32_t shards = counts[i];
        double n = 100000, p = 1.0 / shards;

        memset(loads, 0, sizeof loads);
        for (int v = 0; v < (int)n; v++) {
            char name[32];

            snprintf(name, sizeof name, "layer%d/%s", v / 2, v % 2 == 0 ? "weights" : "bias");
            add_variable(loads, shards, name, 64, 0);
        }
        check_even(loads, shards, offsetof(struct placement_load, blocks), 5 * sqrt(n * p * (1 - p)));
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("placement");
    TCase *t = tcase_create("placement");

    tcase_add_test(t, hash_is_the_same_on_every_machine);
    tcase_add_test(t, job_and_name_are_not_run_together);
    tcase_add_test(t, blocks_go_round_the_shards);
    tcase_add_test(t, one_shard_holds_all);
    tcase_add_test(t, count_nth_and_index_undo_each_other);
    tcase_add_test(t, far_blocks_are_found_without_overflow);
    tcase_add_test(t, every_variable_is_within_one_largest_block_of_even);
    tcase_add_test(t, totals_are_even_in_expectation);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
