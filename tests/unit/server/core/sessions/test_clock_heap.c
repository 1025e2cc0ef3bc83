#include "server/core/sessions/clock_heap.h"

#include <stdlib.h>

#include "server/core/sessions/session.h"
#include "tests/unit/kits/check_main.h"

#define N 200

static struct session sessions[N];
static bool in[N];
static struct clock_heap slowest;

static uint64_t
clock_heap_expect_least(void)
{
    uint64_t held = UINT64_MAX;

    for (int i = 0; i < N; i++)
        if (in[i])
            held = MIN(held, sessions[i].held_clock);
    return held;
}

START_TEST(of_none_it_is_the_end_of_time)
{
    ck_assert(clock_heap_grow(&slowest, 1));
    ck_assert_uint_eq(clock_heap_least(&slowest), UINT64_MAX);
    clock_heap_remove(&slowest, &sessions[0]); /* removing an absent one is allowed */
    ck_assert_uint_eq(clock_heap_least(&slowest), UINT64_MAX);
    clock_heap_finish(&slowest);
}
END_TEST

START_TEST(the_least_is_found_while_all_come_move_and_go)
{
    srand((unsigned)test_seed());
    ck_assert(clock_heap_grow(&slowest, N));
    for (int step = 0; step < 20000; step++) {
        int i = rand() % N;

        in[i] = rand() % 4 != 0;
        if (in[i]) {
            sessions[i].held_clock = (uint64_t)(rand() % 50);
            clock_heap_put(&slowest, &sessions[i]);
        } else {
            clock_heap_remove(&slowest, &sessions[i]);
        }
        ck_assert_uint_eq(clock_heap_least(&slowest), clock_heap_expect_least());
    }
    for (int i = 0; i < N; i++)
        clock_heap_remove(&slowest, &sessions[i]);
    ck_assert_uint_eq(slowest.len, 0);
    clock_heap_finish(&slowest);
}
END_TEST

/* Those before a clock, all of them where there is room, and none twice. */
START_TEST(who_is_before_a_clock_is_found)
{
    uint32_t tasks[N], n, all;
    struct test_rng rng = {test_seed()};

    ck_assert(clock_heap_grow(&slowest, N));
    for (uint32_t i = 0; i < N; i++) {
        sessions[i] = (struct session){.task = i, .held_clock = test_below(&rng, 20)};
        clock_heap_put(&slowest, &sessions[i]);
    }
    for (uint64_t clock = 0; clock <= 20; clock++) {
        bool seen[N] = {false};

        all = 0;
        for (int i = 0; i < N; i++)
            all += sessions[i].held_clock < clock;
        ck_assert_uint_eq(clock_heap_before(&slowest, clock, tasks, N), all);
        for (uint32_t i = 0; i < all; i++) {
            ck_assert(sessions[tasks[i]].held_clock < clock && !seen[tasks[i]]);
            seen[tasks[i]] = true;
        }
        n = clock_heap_before(&slowest, clock, tasks, 7);
        ck_assert_uint_eq(n, MIN(all, 7));
        ck_assert(n == 0 || sessions[tasks[0]].held_clock == clock_heap_least(&slowest));
    }
    for (int i = 0; i < N; i++)
        clock_heap_remove(&slowest, &sessions[i]);
    ck_assert_uint_eq(clock_heap_before(&slowest, 20, tasks, N), 0);
    clock_heap_finish(&slowest);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("slowest");
    TCase *tc = tcase_create("slowest");

    tcase_add_test(tc, of_none_it_is_the_end_of_time);
    tcase_add_test(tc, the_least_is_found_while_all_come_move_and_go);
    tcase_add_test(tc, who_is_before_a_clock_is_found);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
