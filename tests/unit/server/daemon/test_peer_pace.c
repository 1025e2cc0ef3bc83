#include "server/daemon/peer_pace.h"

#include "tests/unit/kits/check_main.h"

enum { TIMEOUT = 30000 };

static struct peer_pace pace;
static struct peer_pace_now now;

static void
peer_pace_setup(void)
{
    pace = (struct peer_pace){0};
    now = (struct peer_pace_now){.awaited = true, .item = 1, .bytes = 12345, .ms = 77000};
    ck_assert_int_eq(peer_pace_look(&pace, &now, TIMEOUT), PEER_PACE_FAIR);
}

/* A second in which so many bytes move. */
static enum peer_pace_verdict
peer_pace_second(uint64_t bytes)
{
    now.ms += 1000;
    now.bytes += bytes;
    return peer_pace_look(&pace, &now, TIMEOUT);
}

/* How many seconds until the first verdict that is not fair, at this rate; 0: at most `most` were fair. */
static int
peer_pace_until(uint64_t rate, int most, enum peer_pace_verdict verdict)
{
    for (int i = 1; i <= most; i++) {
        enum peer_pace_verdict v = peer_pace_second(rate);

        if (v == PEER_PACE_FAIR)
            continue;
        ck_assert_int_eq(v, verdict);
        return i;
    }
    return 0;
}

START_TEST(what_does_not_move_stalls)
{
    ck_assert_int_eq(peer_pace_until(0, 100, PEER_PACE_STALLED), PEER_PACE_STALL_MS / 1000);
}
END_TEST

START_TEST(what_hardly_moves_stalls)
{
    ck_assert_int_eq(peer_pace_until(6000, 100, PEER_PACE_STALLED), PEER_PACE_STALL_MS / 1000);
}
END_TEST

/* 4 MiB at 64 KiB/s take 64 s. */
START_TEST(a_large_frame_over_a_slow_network_has_its_time)
{
    ck_assert_int_eq(peer_pace_until(PEER_PACE_RATE, 1000, PEER_PACE_LATE), 0);
}
END_TEST

/* 30 s, and one for each 64 KiB: at half of that rate the end comes after twice the time. */
START_TEST(a_trickle_is_late)
{
    ck_assert_int_eq(peer_pace_until(PEER_PACE_RATE / 2, 1000, PEER_PACE_LATE), 2 * TIMEOUT / 1000);
}
END_TEST

/* What came fast at first gives no right to stop. */
START_TEST(time_is_not_saved_up)
{
    ck_assert_int_eq(peer_pace_second(100 * MIB), PEER_PACE_FAIR);
    ck_assert_int_eq(peer_pace_until(7 * KIB, 1000, PEER_PACE_LATE), 34);
}
END_TEST

START_TEST(each_frame_has_its_own_time)
{
    for (int i = 0; i < 20; i++) {
        now.item++;
        for (int k = 0; k < 25; k++)
            ck_assert_int_eq(peer_pace_second(7 * KIB), PEER_PACE_FAIR);
    }
}
END_TEST

/* But a new one each time is no way to hold memory and move nothing. */
START_TEST(small_frames_stall_as_well)
{
    enum peer_pace_verdict v = PEER_PACE_FAIR;
    int seconds = 0;

    for (; v == PEER_PACE_FAIR && seconds < 100; seconds++) {
        now.item++;
        v = peer_pace_second(50);
    }
    ck_assert_int_eq(v, PEER_PACE_STALLED);
    ck_assert_int_eq(seconds, PEER_PACE_STALL_MS / 1000);
}
END_TEST

START_TEST(time_does_not_run_while_psd_awaits_nothing)
{
    for (int i = 0; i < 10; i++) {
        now.awaited = true;
        for (int k = 0; k < 9; k++)
            ck_assert_int_eq(peer_pace_second(0), PEER_PACE_FAIR);
        now.awaited = false;
        ck_assert_int_eq(peer_pace_second(0), PEER_PACE_FAIR);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("peer_pace");
    TCase *tc = tcase_create("pace");

    tcase_add_checked_fixture(tc, peer_pace_setup, NULL);
    tcase_add_test(tc, what_does_not_move_stalls);
    tcase_add_test(tc, what_hardly_moves_stalls);
    tcase_add_test(tc, a_large_frame_over_a_slow_network_has_its_time);
    tcase_add_test(tc, a_trickle_is_late);
    tcase_add_test(tc, time_is_not_saved_up);
    tcase_add_test(tc, each_frame_has_its_own_time);
    tcase_add_test(tc, small_frames_stall_as_well);
    tcase_add_test(tc, time_does_not_run_while_psd_awaits_nothing);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
