#include "server/core/workers/roster.h"

#include <string.h>

#include "common/core/wire/wire.h"
#include "tests/unit/kits/check_main.h"

static struct roster r;
static bool in[WIRE_WORKERS_MAX];

static void
roster_teardown(void)
{
    roster_finish(&r);
}

static void
roster_add_ok(uint32_t task)
{
    roster_add(&r, task);
    in[task] = true;
}

/* A walk visits the members that were added, in order; returns how many steps it took. */
static uint64_t
roster_walk(uint32_t room)
{
    uint32_t from = 0, task, wrong = ROSTER_END;
    uint64_t looks = 0;

    for (task = roster_seek(&r, 0, &looks); task != ROSTER_END; task = roster_seek(&r, task + 1, &looks)) {
        if (task >= room || !in[task] || memchr(in + from, true, task - from) != NULL)
            wrong = MIN(wrong, task);
        from = task + 1;
    }
    ck_assert_msg(wrong == ROSTER_END, "%u came, or something before it did not", wrong);
    ck_assert_ptr_null(memchr(in + from, true, room - from));
    return looks;
}

START_TEST(of_none_it_is_at_its_end)
{
    ck_assert(roster_init(&r, 1));
    ck_assert_uint_eq(roster_next(&r, 0), ROSTER_END);
    ck_assert_uint_eq(roster_next(&r, 1), ROSTER_END);
}
END_TEST

START_TEST(whoever_was_added_comes_by_in_order)
{
    static const uint32_t rooms[] = {1, 2, 63, 64, 65, 127, 128, 4095, 4096, 4097, WIRE_WORKERS_MAX};
    struct test_rng rng = {test_seed()};

    for (size_t i = 0; i < ARRAY_LEN(rooms); i++) {
        memset(in, 0, sizeof in);
        ck_assert(roster_init(&r, rooms[i]));
        for (unsigned n = 0; n < 40; n++) {
            roster_add_ok((uint32_t)test_below(&rng, rooms[i]));
            roster_walk(rooms[i]);
        }
        roster_add_ok(0);
        roster_add_ok(rooms[i] - 1);
        roster_walk(rooms[i]);
        roster_finish(&r);
    }
}
END_TEST

/* However many workers the job may have. */
START_TEST(a_walk_costs_what_is_there)
{
    ck_assert(roster_init(&r, WIRE_WORKERS_MAX));
    ck_assert_uint_le(roster_walk(WIRE_WORKERS_MAX), 20);
    roster_add_ok(3);
    roster_add_ok(30000);
    roster_add_ok(WIRE_WORKERS_MAX - 1);
    ck_assert_uint_le(roster_walk(WIRE_WORKERS_MAX), 30);
    for (uint32_t task = 0; task < WIRE_WORKERS_MAX; task++)
        roster_add_ok(task);
    ck_assert_uint_le(roster_walk(WIRE_WORKERS_MAX), 3 * WIRE_WORKERS_MAX);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("roster");
    TCase *t = tcase_create("roster");

    tcase_add_checked_fixture(t, NULL, roster_teardown);
    tcase_add_test(t, of_none_it_is_at_its_end);
    tcase_add_test(t, whoever_was_added_comes_by_in_order);
    tcase_add_test(t, a_walk_costs_what_is_there);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
