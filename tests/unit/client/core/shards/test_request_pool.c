/* Requests' lists and pools, the window of sequence numbers, and request ids. */
#include "client/core/shards/request_pool.h"

#include "tests/unit/kits/check_main.h"

/* ---- The window ---- */

START_TEST(numbers_start_at_one_and_follow_each_other)
{
    struct request p[3] = {0};
    struct send_window w;
    int i;

    send_window_init(&w);
    ck_assert(send_window_empty(&w));
    for (i = 0; i < 3; i++) {
        ck_assert_int_eq(send_window_give(&w, &p[i]), PS_OK);
        ck_assert_uint_eq(p[i].seq, (uint64_t)i + 1);
    }
    ck_assert_ptr_eq(send_window_find(&w, 2), &p[1]);
    ck_assert_ptr_null(send_window_find(&w, 0));
    ck_assert_ptr_null(send_window_find(&w, 4));
    send_window_finish(&w);
}
END_TEST

START_TEST(acked_through_passes_what_was_acknowledged_out_of_order)
{
    struct request p[4] = {0};
    struct send_window w;
    int i;

    send_window_init(&w);
    for (i = 0; i < 4; i++)
        ck_assert_int_eq(send_window_give(&w, &p[i]), PS_OK);
    send_window_ack(&w, 2);
    send_window_ack(&w, 3);
    ck_assert_uint_eq(w.acked_through, 0);
    send_window_ack(&w, 1);
    ck_assert_uint_eq(w.acked_through, 3);
    send_window_ack(&w, 4);
    ck_assert(send_window_empty(&w));
    send_window_finish(&w);
}
END_TEST

START_TEST(numbers_that_are_cut_may_be_given_again)
{
    struct request p[6] = {0};
    struct send_window w;

    send_window_init(&w);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(send_window_give(&w, &p[i]), PS_OK);
    send_window_ack(&w, 1);
    send_window_ack(&w, 3);
    send_window_cut(&w, 4);
    ck_assert_uint_eq(w.acked_through, 1);
    ck_assert_uint_eq(w.next, 5);
    ck_assert_ptr_null(send_window_find(&w, 3));
    ck_assert_ptr_eq(send_window_find(&w, 4), &p[3]);
    ck_assert_ptr_null(send_window_find(&w, 5));
    ck_assert_int_eq(send_window_give(&w, &p[5]), PS_OK);
    ck_assert_ptr_eq(send_window_find(&w, 5), &p[5]);
    send_window_ack(&w, 2);
    send_window_ack(&w, 4);
    ck_assert_uint_eq(w.acked_through, 4);
    send_window_cut(&w, 2); /* behind what was acknowledged */
    ck_assert_uint_eq(w.acked_through, 2);
    ck_assert(send_window_empty(&w));
    send_window_finish(&w);
}
END_TEST

START_TEST(window_knows_pushes_acknowledged_ahead_of_others)
{
    struct request p[3] = {0}, skip = {0};
    struct send_window w;

    send_window_init(&w);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(send_window_give(&w, &p[i]), PS_OK);
    send_window_ack(&w, 2);
    send_window_ack_push(&w, 3);
    ck_assert(!send_window_push_acked(&w, 1) && !send_window_push_acked(&w, 2) && send_window_push_acked(&w, 3));
    ck_assert_ptr_null(send_window_find(&w, 3));
    send_window_fill(&w, 3, &skip);
    ck_assert_ptr_eq(send_window_find(&w, 3), &skip);
    send_window_ack_push(&w, 3);
    send_window_ack(&w, 1);
    ck_assert(send_window_empty(&w) && !send_window_push_acked(&w, 3));
    send_window_finish(&w);
}
END_TEST

START_TEST(hole_may_be_filled_again)
{
    struct request p[2] = {0}, skip = {0};
    struct send_window w;

    send_window_init(&w);
    ck_assert_int_eq(send_window_give(&w, &p[0]), PS_OK);
    ck_assert_int_eq(send_window_give(&w, &p[1]), PS_OK);
    send_window_ack(&w, 2);
    send_window_fill(&w, 2, &skip);
    ck_assert_uint_eq(skip.seq, 2);
    send_window_ack(&w, 1);
    ck_assert_uint_eq(w.acked_through, 1);
    send_window_finish(&w);
}
END_TEST

START_TEST(reset_starts_over_after_a_number)
{
    struct request p[2] = {0};
    struct send_window w;

    send_window_init(&w);
    ck_assert_int_eq(send_window_give(&w, &p[0]), PS_OK);
    send_window_reset(&w, 41);
    ck_assert(send_window_empty(&w));
    ck_assert_int_eq(send_window_give(&w, &p[1]), PS_OK);
    ck_assert_uint_eq(p[1].seq, 42);
    ck_assert_ptr_eq(send_window_find(&w, 42), &p[1]);
    ck_assert_ptr_null(send_window_find(&w, 1));
    send_window_finish(&w);
}
END_TEST

/* Against a plain list of flags. */
START_TEST(window_agrees_with_a_plain_model_at_random)
{
    enum { NUMBERS = 20000 };
    struct test_rng rng = {test_seed()};
    struct request *parts = calloc(NUMBERS + 1, sizeof(*parts));
    uint8_t *acked = calloc(NUMBERS + 2, 1);
    uint64_t given = 0, through = 0, seq;
    struct send_window w;

    send_window_init(&w);
    while (given < NUMBERS) {
        if (test_below(&rng, 100) < 55) {
            given++;
            if (send_window_give(&w, &parts[given]) != PS_OK || parts[given].seq != given)
                ck_abort_msg("number %llu", (unsigned long long)given);
        } else if (given > through) {
            seq = through + 1 + test_below(&rng, given - through);
            if ((send_window_find(&w, seq) == NULL) != (acked[seq] != 0))
                ck_abort_msg("number %llu is %s", (unsigned long long)seq, acked[seq] ? "acknowledged" : "not");
            if (acked[seq])
                continue;
            acked[seq] = 1;
            send_window_ack(&w, seq);
            while (acked[through + 1])
                through++;
            if (w.acked_through != through)
                ck_abort_msg("through %llu, not %llu", (unsigned long long)w.acked_through,
                             (unsigned long long)through);
        }
    }
    send_window_finish(&w);
    free(parts);
    free(acked);
}
END_TEST

/* ---- Requests ---- */

START_TEST(request_finds_its_part_until_removed_and_ids_differ_by_use)
{
    struct request a = {0}, b = {0};
    struct request_ids r;
    uint64_t first;

    request_ids_init(&r);
    ck_assert_int_eq(request_ids_add(&r, &a), PS_OK);
    first = a.request;
    ck_assert_uint_ge(first, REQUEST_ID_FIRST);
    ck_assert_ptr_eq(request_ids_find(&r, first), &a);
    request_ids_remove(&r, &a);
    ck_assert_uint_eq(a.request, 0);
    ck_assert_ptr_null(request_ids_find(&r, first));
    ck_assert_int_eq(request_ids_add(&r, &b), PS_OK);
    ck_assert_uint_ne(b.request, first);
    ck_assert_ptr_null(request_ids_find(&r, first));
    ck_assert_ptr_null(request_ids_find(&r, 0));
    ck_assert_ptr_null(request_ids_find(&r, REQUEST_ID_HELLO));
    ck_assert_ptr_null(request_ids_find(&r, UINT64_MAX));
    request_ids_remove(&r, &b);
    request_ids_finish(&r);
}
END_TEST

START_TEST(many_requests_keep_apart_and_clear_forgets_all)
{
    static struct request p[1000];
    struct request_ids r;
    size_t i;

    request_ids_init(&r);
    for (i = 0; i < ARRAY_LEN(p); i++)
        ck_assert_int_eq(request_ids_add(&r, &p[i]), PS_OK);
    for (i = 0; i < ARRAY_LEN(p); i += 2)
        request_ids_remove(&r, &p[i]);
    for (i = 1; i < ARRAY_LEN(p); i += 2)
        if (request_ids_find(&r, p[i].request) != &p[i])
            ck_abort_msg("request %zu", i);
    request_ids_clear(&r);
    for (i = 0; i < ARRAY_LEN(p); i++)
        if (p[i].request != 0)
            ck_abort_msg("request %zu is not cleared", i);
    request_ids_finish(&r);
}
END_TEST

/* ---- Lists and pools ---- */

START_TEST(parts_keep_their_order)
{
    struct request p[4] = {0};
    struct request_list l = {0};

    request_list_append(&l, &p[0]);
    request_list_append(&l, &p[2]);
    request_list_insert_before(&l, &p[2], &p[1]);
    request_list_insert_before(&l, &p[0], &p[3]);
    ck_assert_ptr_eq(l.first, &p[3]);
    ck_assert_ptr_eq(p[3].next, &p[0]);
    ck_assert_ptr_eq(p[0].next, &p[1]);
    ck_assert_ptr_eq(p[1].next, &p[2]);
    ck_assert_ptr_eq(l.last, &p[2]);
    request_list_remove(&l, &p[2]);
    ck_assert_ptr_eq(l.last, &p[1]);
    request_list_remove(&l, &p[3]);
    ck_assert_ptr_eq(l.first, &p[0]);
    request_list_remove(&l, &p[0]);
    request_list_remove(&l, &p[1]);
    ck_assert_ptr_null(l.first);
    ck_assert_ptr_null(l.last);
}
END_TEST

START_TEST(pooled_part_comes_back_blank_with_small_room_kept)
{
    struct request_pools pools = {0};
    struct request *p = request_pool_get(&pools), *again;

    ck_assert_int_eq(request_versions_reserve(&p->versions, 10), PS_OK);
    p->seq = 9;
    p->versions.any = true;
    request_pool_put(&pools, p);
    again = request_pool_get(&pools);
    ck_assert_ptr_eq(p, again);
    ck_assert_uint_eq(again->seq, 0);
    ck_assert(!again->versions.any);
    ck_assert_uint_eq(again->versions.room, 10);
    ck_assert_int_eq(request_versions_reserve(&again->versions, 5000), PS_OK);
    request_pool_put(&pools, again);
    ck_assert_uint_eq(again->versions.room, 0);
    request_pools_finish(&pools);
}
END_TEST

/* One number as long as all are alike, and a list of all from the first that is not. */
START_TEST(versions_are_listed_from_the_first_that_differs)
{
    struct request_pools pools = {0};
    struct request *p = request_pool_get(&pools);

    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(part_versions_put(&p->versions, 5, i, 7), PS_OK);
    ck_assert(!p->versions.use_each);
    ck_assert_ptr_null(p->versions.each);
    ck_assert_uint_eq(request_version(p, 2), 7);
    ck_assert_int_eq(part_versions_put(&p->versions, 5, 3, 9), PS_OK);
    ck_assert_int_eq(part_versions_put(&p->versions, 5, 4, 7), PS_OK);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(request_version(p, i), i == 3 ? 9 : 7);
    request_pool_put(&pools, p);
    request_pools_finish(&pools);
}
END_TEST

START_TEST(pooled_send_keeps_its_buffers)
{
    struct request_pools pools = {0};
    struct send *s = request_pool_send(&pools);

    ck_assert_int_eq(request_pool_send_reserve(s, 300), PS_OK);
    ck_assert_uint_ge(s->head_room, 300);
    ck_assert_int_eq(spans_add(&s->spans, "x", 1), PS_OK);
    request_pool_send_put(&pools, s);
    ck_assert_ptr_eq(request_pool_send(&pools), s);
    ck_assert_uint_ge(s->head_room, 300);
    ck_assert_uint_eq(s->spans.n, 0);
    request_pools_finish(&pools); /* frees those in use, too */
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("pending");
    TCase *t = tcase_create("pending");

    tcase_add_test(t, numbers_start_at_one_and_follow_each_other);
    tcase_add_test(t, acked_through_passes_what_was_acknowledged_out_of_order);
    tcase_add_test(t, numbers_that_are_cut_may_be_given_again);
    tcase_add_test(t, window_knows_pushes_acknowledged_ahead_of_others);
    tcase_add_test(t, hole_may_be_filled_again);
    tcase_add_test(t, reset_starts_over_after_a_number);
    tcase_add_test(t, window_agrees_with_a_plain_model_at_random);
    tcase_add_test(t, request_finds_its_part_until_removed_and_ids_differ_by_use);
    tcase_add_test(t, many_requests_keep_apart_and_clear_forgets_all);
    tcase_add_test(t, parts_keep_their_order);
    tcase_add_test(t, pooled_part_comes_back_blank_with_small_room_kept);
    tcase_add_test(t, versions_are_listed_from_the_first_that_differs);
    tcase_add_test(t, pooled_send_keeps_its_buffers);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
