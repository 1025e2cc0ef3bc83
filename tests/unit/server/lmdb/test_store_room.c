/* The page counting over a file in memory and an environment that reports what the test sets. */
#include "server/lmdb/store_room.h"

#include <sys/mman.h>
#include <unistd.h>

#include "common/core/model/layout.h"
#include "tests/unit/kits/check_main.h"

static struct {
    uint64_t last_page, used_pages, free_runs;
    int asked; /* times that free_runs was */
} env;

static struct store_room room;

static uint64_t
last_page(struct store_room *r)
{
    (void)r;
    return env.last_page;
}

static uint64_t
used_pages(struct store_room *r)
{
    (void)r;
    return env.used_pages;
}

static uint64_t
free_runs(struct store_room *r, uint64_t run_pages)
{
    (void)r;
    ck_assert_uint_gt(run_pages, 0);
    env.asked++;
    return env.free_runs;
}

static const struct store_room_ops ops = {last_page, used_pages, free_runs};

/* An environment of `used` pages in a file that may have `limit`. */
static void
store_room_make(uint64_t used, uint64_t limit)
{
    int fd = memfd_create("room", MFD_CLOEXEC);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, (off_t)(limit * 2 * LAYOUT_PAGE)), 0);
    env.last_page = used - 1;
    env.used_pages = used;
    env.free_runs = 0;
    env.asked = 0;
    store_room_init(&room, &ops);
    room.limit_pages = limit;
    ck_assert(store_room_open(&room, fd));
}

static void
store_room_finish(void)
{
    close(room.fd);
}

START_TEST(what_a_transaction_may_reach_is_backed_before_it_begins)
{
    store_room_make(10, 100000);
    ck_assert(store_room_begin(&room, 3000));
    ck_assert(!room.recycling);
    ck_assert(!room.new_refused);
    ck_assert_uint_ge(store_room_file_bytes(&room), 3010 * (uint64_t)LAYOUT_PAGE);
    store_room_end(&room);
    ck_assert_int_eq(env.asked, 0);
    store_room_finish();
}
END_TEST

START_TEST(spending_more_than_promised_backs_more_or_is_refused)
{
    store_room_make(10, 20000);
    ck_assert(store_room_begin(&room, 100));
    ck_assert(store_room_spend(&room, 100));
    ck_assert(store_room_spend(&room, 9000));
    ck_assert_uint_ge(store_room_file_bytes(&room), 9110 * (uint64_t)LAYOUT_PAGE);
    ck_assert_uint_eq(room.spent_pages, 9100);
    ck_assert(!store_room_spend(&room, 20000)); /* past the limit */
    ck_assert_uint_eq(room.spent_pages, 9100);  /* and nothing was counted */
    ck_assert(store_room_spend(&room, 1000));
    store_room_end(&room);
    store_room_finish();
}
END_TEST

START_TEST(at_the_limit_updates_go_on_in_free_runs_and_new_blocks_do_not)
{
    store_room_make(20000, 20000);
    env.free_runs = 200;
    ck_assert(store_room_begin(&room, 500));
    ck_assert(room.recycling);
    ck_assert(room.new_refused);
    ck_assert(store_room_spend(&room, 500));
    store_room_end(&room);
    ck_assert_uint_le(store_room_file_bytes(&room), 20000 * (uint64_t)LAYOUT_PAGE);
    store_room_finish();
}
END_TEST

START_TEST(without_free_runs_nothing_begins_until_there_are_some)
{
    store_room_make(20000, 20000);
    ck_assert(!store_room_begin(&room, 500));
    env.free_runs = 200;
    ck_assert(store_room_begin(&room, 500));
    store_room_end(&room);
    store_room_finish();
}
END_TEST

START_TEST(runs_are_counted_down_and_asked_for_again)
{
    int asked;

    store_room_make(20000, 20000);
    env.free_runs = 150;
    ck_assert(store_room_begin(&room, 17));
    asked = env.asked;
    ck_assert(store_room_spend(&room, 17));
    store_room_end(&room);
    ck_assert(store_room_begin(&room, 17)); /* what is left of the count will do */
    ck_assert_int_eq(env.asked, asked);
    store_room_end(&room);
    for (int i = 0; i < 10; i++) {
        ck_assert(store_room_begin(&room, 17));
        store_room_end(&room);
    }
    ck_assert_int_gt(env.asked, asked); /* used up, at worst: look again */
    env.free_runs = 0;
    for (int i = 0; i < 10 && store_room_begin(&room, 17); i++)
        store_room_end(&room);
    ck_assert(!store_room_begin(&room, 17));
    store_room_finish();
}
END_TEST

START_TEST(a_longer_value_makes_the_old_count_worthless)
{
    int asked;

    store_room_make(20000, 20000);
    env.free_runs = 1000;
    ck_assert(store_room_begin(&room, 17));
    store_room_end(&room);
    asked = env.asked;
    store_room_saw(&room, 257);
    ck_assert(store_room_begin(&room, 17));
    ck_assert_int_eq(env.asked, asked + 1);
    ck_assert_uint_eq(room.run_pages, 257);
    store_room_end(&room);
    store_room_saw(&room, 17); /* a shorter one changes nothing */
    ck_assert_uint_eq(room.run_pages, 257);
    store_room_finish();
}
END_TEST

START_TEST(new_blocks_stop_while_an_eighth_is_free)
{
    store_room_make(10, 40000);
    env.last_page = 39000; /* the file has grown, but most of it is free inside */
    env.used_pages = 20000;
    ck_assert(store_room_begin(&room, 100));
    ck_assert(!room.new_refused);
    store_room_end(&room);
    env.used_pages = 36000;
    ck_assert(store_room_begin(&room, 100));
    ck_assert(room.new_refused);
    store_room_end(&room);
    store_room_finish();
}
END_TEST

START_TEST(a_limit_below_what_is_in_use_is_raised_to_it)
{
    store_room_make(5000, 1000);
    ck_assert_uint_eq(room.limit_pages, 5000);
    ck_assert_uint_ge(store_room_file_bytes(&room), 5000 * (uint64_t)LAYOUT_PAGE);
    ck_assert_uint_eq(store_room_max_bytes(&room), 5000 * (uint64_t)LAYOUT_PAGE);
    store_room_finish();
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("store_room");
    TCase *t = tcase_create("room");

    tcase_add_test(t, what_a_transaction_may_reach_is_backed_before_it_begins);
    tcase_add_test(t, spending_more_than_promised_backs_more_or_is_refused);
    tcase_add_test(t, at_the_limit_updates_go_on_in_free_runs_and_new_blocks_do_not);
    tcase_add_test(t, without_free_runs_nothing_begins_until_there_are_some);
    tcase_add_test(t, runs_are_counted_down_and_asked_for_again);
    tcase_add_test(t, a_longer_value_makes_the_old_count_worthless);
    tcase_add_test(t, new_blocks_stop_while_an_eighth_is_free);
    tcase_add_test(t, a_limit_below_what_is_in_use_is_raised_to_it);
    suite_add_tcase(suite, t);
    return suite;
}

CHECK_MAIN(make_suite)
