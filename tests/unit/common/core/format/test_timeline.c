/* A timeline: the newest spans are kept, oldest first, and what a reader gets beside a writer is whole. */
#include "common/core/format/timeline.h"

#include <pthread.h>
#include <stdlib.h>

#include "tests/unit/kits/check_main.h"

enum { LEN = 8 };

static void *
timeline_ring(struct timeline *t, size_t len)
{
    void *slots = calloc(MAX(len, 1), sizeof(struct timeline_span));

    ck_assert_ptr_nonnull(slots);
    timeline_init(t, slots, len);
    return slots;
}

/* Every word says which one it is. */
static struct timeline_span
timeline_span(uint64_t n)
{
    return (struct timeline_span){.start_ns = n,
                                  .end_ns = n + 1,
                                  .step = ~n,
                                  .bytes = n * 3,
                                  .kind = (uint32_t)n,
                                  .task = (uint32_t)(n >> 32),
                                  .commit_ns = (uint32_t)~n,
                                  .answer_ns = (uint32_t)(n * 5)};
}

static void
is_whole(const struct timeline_span *s)
{
    struct timeline_span want = timeline_span(s->start_ns);

    ck_assert_mem_eq(s, &want, sizeof want);
}

static void
timeline_add_span(struct timeline *t, uint64_t n)
{
    struct timeline_span s = timeline_span(n);

    timeline_add(t, &s);
}

START_TEST(what_was_added_is_read_in_its_order_and_once)
{
    struct timeline_span out[LEN];
    struct timeline t;
    void *slots = timeline_ring(&t, LEN);
    uint64_t from = 0;

    ck_assert_uint_eq(timeline_read(&t, &from, out, LEN), 0);
    for (uint64_t n = 0; n < 5; n++)
        timeline_add_span(&t, n);
    ck_assert_uint_eq(timeline_read(&t, &from, out, 2), 2);
    ck_assert_uint_eq(out[0].start_ns, 0);
    ck_assert_uint_eq(from, 2);
    ck_assert_uint_eq(timeline_read(&t, &from, out, LEN), 3);
    for (uint64_t n = 0; n < 3; n++) {
        is_whole(&out[n]);
        ck_assert_uint_eq(out[n].start_ns, n + 2);
    }
    ck_assert_uint_eq(timeline_read(&t, &from, out, LEN), 0);
    ck_assert_uint_eq(timeline_added(&t), 5);
    free(slots);
}
END_TEST

/* _i: how many past the first round. */
START_TEST(of_more_than_fit_the_newest_are_kept)
{
    struct timeline_span out[LEN];
    struct timeline t;
    void *slots = timeline_ring(&t, LEN);
    uint64_t from = 0, added = LEN + (uint64_t)_i;

    for (uint64_t n = 0; n < added; n++)
        timeline_add_span(&t, n);
    ck_assert_uint_eq(timeline_read(&t, &from, out, LEN), LEN);
    for (uint64_t n = 0; n < LEN; n++) {
        is_whole(&out[n]);
        ck_assert_uint_eq(out[n].start_ns, added - LEN + n);
    }
    ck_assert_uint_eq(from, added);
    free(slots);
}
END_TEST

START_TEST(one_without_room_keeps_nothing)
{
    struct timeline_span out[LEN];
    struct timeline t;
    void *slots = timeline_ring(&t, 0);
    uint64_t from = 0;

    timeline_add_span(&t, 1);
    ck_assert_uint_eq(timeline_read(&t, &from, out, LEN), 0);
    ck_assert_uint_eq(timeline_added(&t), 0);
    free(slots);
}
END_TEST

START_TEST(a_length_is_the_next_power_of_two)
{
    ck_assert_uint_eq(timeline_len(0), 0);
    ck_assert_uint_eq(timeline_len(1), 1);
    ck_assert_uint_eq(timeline_len(5), 8);
    ck_assert_uint_eq(timeline_len(65536), 65536);
    ck_assert_uint_eq(timeline_len(65537), 131072);
}
END_TEST

/* ---- One writes, one reads ---- */

enum { SPANS = 200000 };

static void *
write_many(void *arg)
{
    for (uint64_t n = 0; n < SPANS; n++)
        timeline_add_span(arg, n);
    return NULL;
}

START_TEST(what_is_read_beside_a_writer_is_whole_and_in_order)
{
    struct timeline_span out[64];
    struct timeline t;
    void *slots = timeline_ring(&t, 64);
    uint64_t from = 0, next = 0, seen = 0;
    pthread_t writer;
    bool over = false;

    ck_assert_int_eq(pthread_create(&writer, NULL, write_many, &t), 0);
    while (!over) {
        size_t n;

        over = timeline_added(&t) == SPANS; /* then once more */
        n = timeline_read(&t, &from, out, ARRAY_LEN(out));
        for (size_t i = 0; i < n; i++) {
            is_whole(&out[i]);
            ck_assert_uint_ge(out[i].start_ns, next);
            next = out[i].start_ns + 1;
        }
        seen += n;
    }
    ck_assert_int_eq(pthread_join(writer, NULL), 0);
    ck_assert_uint_eq(next, SPANS);
    ck_assert_uint_ge(seen, 64);
    free(slots);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("timeline");
    TCase *tc = tcase_create("timeline");

    tcase_add_test(tc, what_was_added_is_read_in_its_order_and_once);
    tcase_add_loop_test(tc, of_more_than_fit_the_newest_are_kept, 0, 2 * LEN + 1);
    tcase_add_test(tc, one_without_room_keeps_nothing);
    tcase_add_test(tc, a_length_is_the_next_power_of_two);
    tcase_add_test(tc, what_is_read_beside_a_writer_is_whole_and_in_order);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
