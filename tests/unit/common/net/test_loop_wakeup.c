/* A loop does not fall asleep on what a timer's callback did. */
#include "common/net/loop_wakeup.h"

#include "tests/unit/kits/check_main.h"

static uv_loop_t loop;
static struct loop_wakeup news;
static bool rang, woken;
static int asked;

static bool
loop_wakeup_comes(void *arg)
{
    ck_assert_ptr_eq(arg, &loop);
    asked++;
    return rang;
}

static void
loop_wakeup_ring(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static void
timer_begin(uv_timer_t *timer, uint64_t ms, bool *to)
{
    uv_timer_init(&loop, timer);
    timer->data = to;
    uv_timer_start(timer, loop_wakeup_ring, ms, 0);
}

static void
loop_wakeup_setup(void)
{
    rang = woken = false;
    asked = 0;
    uv_loop_init(&loop);
    loop_wakeup_init(&news, &loop, loop_wakeup_comes, &loop);
}

static void
loop_wakeup_teardown(void)
{
    loop_wakeup_close(&news);
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* The timer has fired before the loop polls; without loop_wakeup it would sleep until the second one. */
START_TEST(a_timer_that_rings_before_the_poll_ends_the_turn)
{
    static uv_timer_t soon, late; /* until the loop has closed them */

    timer_begin(&soon, 0, &rang);
    timer_begin(&late, 1000 * 1000, &woken);
    uv_run(&loop, UV_RUN_ONCE);
    ck_assert(rang && !woken);
    uv_close((uv_handle_t *)&soon, NULL);
    uv_close((uv_handle_t *)&late, NULL);
}
END_TEST

START_TEST(without_news_it_sleeps)
{
    static uv_timer_t late;

    timer_begin(&late, 20, &woken);
    uv_run(&loop, UV_RUN_ONCE);
    ck_assert(woken);
    ck_assert_int_eq(asked, 1);
    uv_close((uv_handle_t *)&late, NULL);
}
END_TEST

START_TEST(it_does_not_keep_a_loop_alive)
{
    ck_assert_int_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("loop_news");
    TCase *t = tcase_create("loop_news");

    tcase_add_checked_fixture(t, loop_wakeup_setup, loop_wakeup_teardown);
    tcase_add_test(t, a_timer_that_rings_before_the_poll_ends_the_turn);
    tcase_add_test(t, without_news_it_sleeps);
    tcase_add_test(t, it_does_not_keep_a_loop_alive);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
