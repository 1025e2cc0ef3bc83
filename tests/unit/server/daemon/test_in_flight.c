#include "server/daemon/in_flight.h"

#include "tests/unit/kits/check_main.h"

static struct in_flight f;
static struct in_flight_part a, b, c;

/* The next frame. */
static struct in_flight_part *
in_flight_test_next(void)
{
    enum in_flight_kind kind;
    struct in_flight_part *p = in_flight_next(&f, &kind);

    ck_assert(p == NULL || kind == IN_FLIGHT_FRAME);
    return p;
}

static struct in_flight_part *
in_flight_test_next_answer(void)
{
    enum in_flight_kind kind;
    struct in_flight_part *p = in_flight_next(&f, &kind);

    ck_assert(p == NULL || kind == IN_FLIGHT_ANSWER);
    return p;
}

static void
in_flight_setup(void)
{
    in_flight_init(&f, 100, 40);
    a = b = c = (struct in_flight_part){0};
}

START_TEST(payload_waits_until_another_left)
{
    ck_assert(in_flight_admit(&f, &a, 60));
    ck_assert(in_flight_admit(&f, &b, 40));
    ck_assert(!in_flight_admit(&f, &c, 10));
    ck_assert_ptr_null(in_flight_test_next());
    in_flight_leave(&f, &b, 40);
    ck_assert_ptr_eq(in_flight_test_next(), &c);
    ck_assert_uint_eq(c.incoming, 10);
    ck_assert(!in_flight_waits(&c, IN_FLIGHT_FRAME));
    ck_assert_uint_eq(in_flight_bytes(&f), 70);
    ck_assert_ptr_null(in_flight_test_next());
}
END_TEST

START_TEST(large_one_is_not_overtaken_by_small_ones)
{
    ck_assert(in_flight_admit(&f, &a, 80));
    ck_assert(!in_flight_admit(&f, &b, 40));
    ck_assert(!in_flight_admit(&f, &c, 1)); /* would fit, but b waits */
    in_flight_leave(&f, &a, 80);
    ck_assert_ptr_eq(in_flight_test_next(), &b);
    ck_assert_ptr_eq(in_flight_test_next(), &c);
}
END_TEST

START_TEST(one_is_let_in_however_large_it_is)
{
    ck_assert(in_flight_admit(&f, &a, 1000));
    in_flight_leave(&f, &a, 1000);
    in_flight_queue(&f, &b, 500); /* answers that are not fetched do not stop everything */
    ck_assert(in_flight_admit(&f, &a, 10));
    ck_assert(!in_flight_admit(&f, &c, 10));
    in_flight_leave(&f, &a, 10);
    ck_assert_ptr_eq(in_flight_test_next(), &c);
}
END_TEST

START_TEST(own_answers_count_against_the_own_cap)
{
    ck_assert(in_flight_admit(&f, &a, 10));
    in_flight_queue(&f, &b, 35);
    ck_assert(!in_flight_admit(&f, &b, 10));
    ck_assert(in_flight_admit(&f, &c, 10)); /* passes b, which waits for itself */
    ck_assert_ptr_null(in_flight_test_next());
    in_flight_sent(&f, &b, 35);
    ck_assert_ptr_eq(in_flight_test_next(), &b);
}
END_TEST

START_TEST(connection_that_does_not_fetch_is_stuffed)
{
    in_flight_queue(&f, &a, 40);
    ck_assert(!in_flight_stuffed(&f, &a));
    in_flight_queue(&f, &a, 1);
    ck_assert(in_flight_stuffed(&f, &a));
    in_flight_sent(&f, &a, 11);
    ck_assert(!in_flight_stuffed(&f, &a));
    in_flight_queue(&f, &b, 80); /* past the whole cap, a moderate one is stuffed too */
    ck_assert(in_flight_stuffed(&f, &a));
    ck_assert(!in_flight_stuffed(&f, &c));
}
END_TEST

START_TEST(who_has_used_up_a_share_waits_for_it_and_holds_up_nobody_else)
{
    struct in_flight_share half = {.eighths = 4};

    in_flight_assign(&a, IN_FLIGHT_ROLE, &half);
    in_flight_assign(&b, IN_FLIGHT_ROLE, &half);
    ck_assert(in_flight_admit(&f, &a, 30));
    ck_assert(!in_flight_admit(&f, &b, 30));
    ck_assert(in_flight_admit(&f, &c, 30));
    ck_assert_ptr_null(in_flight_test_next());
    ck_assert_uint_eq(f.part_waits, 1);
    in_flight_leave(&f, &a, 30);
    ck_assert_ptr_eq(in_flight_test_next(), &b);
    ck_assert_uint_eq(half.bytes, 30);
}
END_TEST

START_TEST(an_identity_that_holds_nothing_gets_on)
{
    struct in_flight_share poor = {.eighths = 4};

    in_flight_init(&f, 16 * MIB, 16 * MIB);
    in_flight_assign(&c, IN_FLIGHT_IDENTITY, &poor);
    ck_assert(in_flight_admit(&f, &a, 16 * MIB));
    ck_assert(!in_flight_admit(&f, &b, MIB));
    ck_assert(in_flight_admit(&f, &c, 4 * MIB)); /* past the cap, and past b */
    in_flight_leave(&f, &c, 4 * MIB);
    ck_assert(!in_flight_admit(&f, &c, 9 * MIB)); /* not for long */
    ck_assert_ptr_null(in_flight_test_next());
    in_flight_leave(&f, &a, 2 * MIB);
    ck_assert_ptr_eq(in_flight_test_next(), &b);
    ck_assert_ptr_eq(in_flight_test_next(), &c);
}
END_TEST

START_TEST(a_connection_leaves_half_to_the_others_of_its_identity)
{
    struct in_flight_share half = {.eighths = 4};

    in_flight_init(&f, 16 * MIB, 16 * MIB);
    in_flight_assign(&a, IN_FLIGHT_IDENTITY, &half);
    in_flight_queue(&f, &a, 4 * MIB);
    ck_assert(!in_flight_stuffed(&f, &a));
    in_flight_queue(&f, &a, 1);
    ck_assert(in_flight_stuffed(&f, &a));
}
END_TEST

START_TEST(an_answer_waits_for_room)
{
    in_flight_init(&f, 16 * MIB, 16 * MIB);
    ck_assert(in_flight_answer(&f, &a, 4 * MIB));
    in_flight_values(&f, &a, 4 * MIB);
    ck_assert(in_flight_admit(&f, &b, 9 * MIB));
    ck_assert(!in_flight_answer(&f, &c, 4 * MIB));
    ck_assert(!in_flight_answer(&f, &c, 4 * MIB)); /* it is in the queue once */
    ck_assert_ptr_null(in_flight_test_next_answer());
    in_flight_leave(&f, &b, 9 * MIB);
    ck_assert_ptr_eq(in_flight_test_next_answer(), &c);
    ck_assert_ptr_null(f.first);
    f.other = 16 * MIB;
    ck_assert(!in_flight_answer(&f, &b, 1));
    in_flight_values_sent(&f, &a, 4 * MIB);
    ck_assert_ptr_eq(in_flight_test_next_answer(), &b); /* one is made, since no other is there */
    in_flight_forget(&f, &c);
    ck_assert(!in_flight_over(&f, 0));
    in_flight_queue(&f, &a, 17 * MIB);
    ck_assert(in_flight_over(&f, 0));
    ck_assert(!in_flight_over(&f, MIB));
}
END_TEST

/* The other way round, too: what came first is first, whichever it is. */
START_TEST(frames_do_not_keep_an_answer_waiting_for_ever)
{
    in_flight_init(&f, 100, 100);
    ck_assert(in_flight_answer(&f, &a, 10));
    in_flight_values(&f, &a, 10);
    ck_assert(in_flight_admit(&f, &b, 80));
    ck_assert(!in_flight_answer(&f, &c, 30));
    ck_assert(!in_flight_admit(&f, &a, 10)); /* would fit, but c waits */
    in_flight_leave(&f, &b, 60);
    ck_assert_ptr_eq(in_flight_test_next_answer(), &c);
    ck_assert(in_flight_answer(&f, &c, 30));
    in_flight_values(&f, &c, 30);
    ck_assert_ptr_eq(in_flight_test_next(), &a);
    ck_assert(!in_flight_admit(&f, &b, 60));
    ck_assert(!in_flight_answer(&f, &a, 10)); /* would fit, but b waits */
    in_flight_leave(&f, &b, 20);
    ck_assert_ptr_null(in_flight_test_next());
    in_flight_leave(&f, &a, 10);
    ck_assert_ptr_eq(in_flight_test_next(), &b); /* since none is being read */
    in_flight_leave(&f, &b, 60);
    ck_assert_ptr_eq(in_flight_test_next_answer(), &a);
}
END_TEST

/* It has left the queue, and others wait by now. */
START_TEST(an_answer_does_not_lose_its_place_to_those_behind_it)
{
    ck_assert(in_flight_answer(&f, &a, 10));
    in_flight_values(&f, &a, 10);
    ck_assert(in_flight_admit(&f, &a, 80));
    ck_assert(!in_flight_answer(&f, &b, 30));
    ck_assert(!in_flight_admit(&f, &c, 90));
    in_flight_leave(&f, &a, 60);
    ck_assert_ptr_eq(in_flight_test_next_answer(), &b);
    ck_assert(in_flight_answer(&f, &b, 30));
    in_flight_values(&f, &b, 30);
    ck_assert(!in_flight_answer(&f, &b, 30)); /* the one after it does */
}
END_TEST

/* A connection is no reason to wait for those that wait for themselves, or for a share that is not its own. */
START_TEST(what_is_awaited_from_a_connection_is_what_it_holds)
{
    struct in_flight_share half = {.eighths = 4}, other = {.eighths = 4};

    in_flight_assign(&a, IN_FLIGHT_IDENTITY, &half);
    in_flight_assign(&b, IN_FLIGHT_IDENTITY, &half);
    in_flight_assign(&c, IN_FLIGHT_IDENTITY, &other);
    in_flight_init(&f, 8 * MIB, 8 * MIB);
    ck_assert(in_flight_admit(&f, &a, 3 * MIB));
    ck_assert(in_flight_admit(&f, &c, 1 * MIB));
    ck_assert(!in_flight_is_awaited_from(&f, &a));
    ck_assert(!in_flight_admit(&f, &b, 3 * MIB)); /* for its share */
    ck_assert(in_flight_is_awaited_from(&f, &a));
    ck_assert(!in_flight_is_awaited_from(&f, &b));
    ck_assert(!in_flight_is_awaited_from(&f, &c));
    in_flight_forget(&f, &b);
    in_flight_queue(&f, &b, 1 * MIB);
    in_flight_leave(&f, &a, 3 * MIB);
    ck_assert(!in_flight_admit(&f, &b, 2 * MIB)); /* for itself */
    ck_assert(!in_flight_is_awaited_from(&f, &a));
    f.other = 8 * MIB;
    in_flight_forget(&f, &b);
    in_flight_sent(&f, &b, 512 * KIB);
    ck_assert(!in_flight_admit(&f, &b, 1 * MIB)); /* for all */
    ck_assert(in_flight_is_awaited_from(&f, &a));
    ck_assert(in_flight_is_awaited_from(&f, &c));
    ck_assert(!in_flight_is_awaited_from(&f, &b));
}
END_TEST

START_TEST(a_share_counts_what_its_connections_hold)
{
    struct in_flight_share role = {.eighths = 4}, identity = {0};

    ck_assert(in_flight_admit(&f, &a, 5));
    in_flight_queue(&f, &a, 10);
    in_flight_assign(&a, IN_FLIGHT_ROLE, &role);
    in_flight_assign(&a, IN_FLIGHT_IDENTITY, &identity);
    ck_assert_uint_eq(role.bytes, 15);
    ck_assert_uint_eq(role.outgoing, 10);
    in_flight_queue(&f, &a, 40);
    ck_assert(in_flight_stuffed(&f, &a)); /* the share is used up */
    in_flight_sent(&f, &a, 50);
    in_flight_assign(&a, IN_FLIGHT_ROLE, NULL);
    ck_assert_uint_eq(role.bytes, 0);
    ck_assert_uint_eq(identity.bytes, 5);
    ck_assert_uint_eq(identity.outgoing, 0);
    in_flight_forget(&f, &a);
    ck_assert_uint_eq(identity.bytes, 0);
}
END_TEST

START_TEST(who_goes_leaves_the_queue_and_the_count)
{
    ck_assert(in_flight_admit(&f, &a, 100));
    ck_assert(!in_flight_admit(&f, &b, 10));
    ck_assert(!in_flight_admit(&f, &c, 10));
    in_flight_forget(&f, &c);
    in_flight_forget(&f, &a);
    ck_assert_ptr_eq(in_flight_test_next(), &b);
    ck_assert_ptr_null(in_flight_test_next());
    in_flight_forget(&f, &b);
    ck_assert_uint_eq(in_flight_bytes(&f), 0);
    ck_assert(in_flight_admit(&f, &c, 10)); /* the queue's end is where it should be */
    ck_assert(!in_flight_admit(&f, &a, 200));
    in_flight_forget(&f, &c);
    ck_assert_ptr_eq(in_flight_test_next(), &a);
}
END_TEST

/* Anything in any order: counts agree with the parts, and a waiting connection is admitted when all others have gone.
 */
START_TEST(random_traffic_never_loses_a_byte_or_a_waiter)
{
    enum { PARTS = 8 };
    struct test_rng r = {test_seed()};
    struct in_flight_part part[PARTS] = {{0}}, *next;

    for (int step = 0; step < 20000; step++) {
        struct in_flight_part *p = &part[test_below(&r, PARTS)];
        uint64_t incoming = 0, outgoing = 0, len = 1 + test_below(&r, 60);

        switch (test_below(&r, 4)) {
        case 0:
            if (p->incoming == 0 && !in_flight_waits(p, IN_FLIGHT_FRAME))
                (void)in_flight_admit(&f, p, len);
            break;
        case 1:
            in_flight_leave(&f, p, p->incoming);
            break;
        case 2:
            in_flight_queue(&f, p, len);
            break;
        default:
            in_flight_sent(&f, p, p->outgoing);
        }
        while ((next = in_flight_test_next()) != NULL)
            ck_assert_uint_gt(next->incoming, 0);
        for (int i = 0; i < PARTS; i++) {
            incoming += part[i].incoming;
            outgoing += part[i].outgoing;
        }
        ck_assert_uint_eq(f.incoming, incoming);
        ck_assert_uint_eq(f.outgoing, outgoing);
        ck_assert(f.first == NULL || f.incoming > 0);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("in_flight");
    TCase *tc = tcase_create("in_flight");

    tcase_add_checked_fixture(tc, in_flight_setup, NULL);
    tcase_add_test(tc, payload_waits_until_another_left);
    tcase_add_test(tc, large_one_is_not_overtaken_by_small_ones);
    tcase_add_test(tc, one_is_let_in_however_large_it_is);
    tcase_add_test(tc, own_answers_count_against_the_own_cap);
    tcase_add_test(tc, connection_that_does_not_fetch_is_stuffed);
    tcase_add_test(tc, who_has_used_up_a_share_waits_for_it_and_holds_up_nobody_else);
    tcase_add_test(tc, an_identity_that_holds_nothing_gets_on);
    tcase_add_test(tc, a_connection_leaves_half_to_the_others_of_its_identity);
    tcase_add_test(tc, an_answer_waits_for_room);
    tcase_add_test(tc, frames_do_not_keep_an_answer_waiting_for_ever);
    tcase_add_test(tc, an_answer_does_not_lose_its_place_to_those_behind_it);
    tcase_add_test(tc, what_is_awaited_from_a_connection_is_what_it_holds);
    tcase_add_test(tc, a_share_counts_what_its_connections_hold);
    tcase_add_test(tc, who_goes_leaves_the_queue_and_the_count);
    tcase_add_test(tc, random_traffic_never_loses_a_byte_or_a_waiter);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
