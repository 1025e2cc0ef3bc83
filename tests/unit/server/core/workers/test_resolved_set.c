/* Which pushes past last_seq are resolved: whatever a whole window holds is remembered, wherever the bits begin. */
#include "tests/unit/kits/check_main.h"

#include "common/core/wire/wire.h"
#include "server/core/shard/shard.h"
#include "server/core/workers/resolved_set.h"

START_TEST(a_whole_window_is_remembered_wherever_its_bits_begin)
{
    uint64_t last_seq = 1000 + (uint64_t)_i; /* waits; the bits began at another one */
    struct resolved_set x = {0};

    ck_assert(resolved_set_add(&x, 1003, 1001));
    for (uint64_t seq = last_seq + 2; seq <= last_seq + SHARD_UNRESOLVED_MAX; seq++)
        ck_assert(resolved_set_add(&x, seq, last_seq + 1));
    for (uint64_t seq = last_seq + 2; seq <= last_seq + SHARD_UNRESOLVED_MAX; seq++)
        ck_assert_msg(resolved_set_has(&x, seq), "%" PRIu64 " past last_seq", seq - last_seq);
    ck_assert_uint_le(x.len, WIRE_SURVIVED_MAX);
    resolved_set_forget(&x);
}
END_TEST

START_TEST(what_is_older_than_a_window_is_forgotten)
{
    struct resolved_set x = {0};

    ck_assert(resolved_set_add(&x, 5, 1));
    ck_assert(!resolved_set_has(&x, 4));
    ck_assert(resolved_set_has(&x, 5));
    ck_assert(resolved_set_add(&x, UINT64_C(1) << 40, 1));
    ck_assert(!resolved_set_has(&x, 5));
    ck_assert(resolved_set_has(&x, UINT64_C(1) << 40));
    ck_assert_uint_le(x.len, WIRE_SURVIVED_MAX);
    resolved_set_forget(&x);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("ahead");
    TCase *tc = tcase_create("ahead");

    tcase_add_loop_test(tc, a_whole_window_is_remembered_wherever_its_bits_begin, 0, 17);
    tcase_add_test(tc, what_is_older_than_a_window_is_forgotten);
    suite_add_tcase(s, tc);
    return s;
}

CHECK_MAIN(make_suite)
