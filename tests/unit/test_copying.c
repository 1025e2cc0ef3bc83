/* Which way large frames take into a ring. */
#include <string.h>

#include "client/group/links/copying.h"
#include "tests/unit/kits/check_main.h"

/* A cycle in which each way costs what it costs; what is chosen for the rest of it. */
static enum copying_way
cycle(struct copying *c, uint64_t *position, const uint64_t ns[COPYING_WAYS])
{
    enum copying_way way = COPYING_CACHED;
    size_t step = 64 * KIB;

    for (uint64_t end = *position + COPYING_CYCLE * COPYING_EPOCH; *position < end; *position += step) {
        way = copying_way(c, *position);
        copying_note(c, way, COPYING_IN, step, ns[way]);
        if (copying_tried(*position, step, &way))
            copying_note(c, way, COPYING_OUT, step, ns[way]);
        else
            way = copying_way(c, *position);
    }
    return way;
}

START_TEST(the_cheaper_way_is_taken_and_the_other_tried_again)
{
    static const uint64_t near[] = {1000, 3000}, far[] = {20000, 5000};
    struct copying c = {0};
    uint64_t position = 0;

    ck_assert_int_eq(cycle(&c, &position, near), COPYING_CACHED);
    for (int i = 0; i < 2; i++) { /* the cores move apart */
        (void)cycle(&c, &position, far);
        ck_assert_int_eq(cycle(&c, &position, far), COPYING_STREAMED);
        ck_assert_int_eq(copying_way(&c, position), COPYING_CACHED);
        ck_assert_int_eq(copying_way(&c, position + COPYING_EPOCH), COPYING_STREAMED);
        (void)cycle(&c, &position, near); /* and together */
        ck_assert_int_eq(cycle(&c, &position, near), COPYING_CACHED);
    }
}
END_TEST

START_TEST(nothing_is_streamed_before_both_ways_are_known)
{
    struct copying c = {0};
    enum copying_way way;

    copying_note(&c, COPYING_CACHED, COPYING_IN, 1000, 1000000);
    copying_note(&c, COPYING_CACHED, COPYING_OUT, 1000, 1000000);
    copying_note(&c, COPYING_STREAMED, COPYING_IN, 1000, 1);
    ck_assert_int_eq(copying_way(&c, 5 * COPYING_EPOCH), COPYING_CACHED);
    copying_note(&c, COPYING_STREAMED, COPYING_OUT, 1000, 1);
    ck_assert_int_eq(copying_way(&c, 5 * COPYING_EPOCH), COPYING_STREAMED);
    ck_assert(copying_tried(COPYING_EPOCH, COPYING_EPOCH, &way));
    ck_assert(!copying_tried(COPYING_EPOCH, COPYING_EPOCH + 1, &way)); /* the next may be written otherwise */
    ck_assert(!copying_tried(2 * COPYING_EPOCH, 1, &way));
}
END_TEST

START_TEST(streamed_bytes_are_the_same_wherever_they_begin)
{
    static uint8_t from[1000], to[1000], want[1000];

    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 7 + 1);
    for (size_t at = 0; at < 70; at++)
        for (size_t n = 0; n < 300; n += 1 + n / 7) {
            memset(to, 0, sizeof to);
            memset(want, 0, sizeof want);
            memcpy(want + at, from + at / 2, n);
            copying_streamed(to + at, from + at / 2, n);
            ck_assert_int_eq(memcmp(to, want, sizeof to), 0);
        }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("copying");
    TCase *t = tcase_create("copying");

    tcase_add_test(t, the_cheaper_way_is_taken_and_the_other_tried_again);
    tcase_add_test(t, nothing_is_streamed_before_both_ways_are_known);
    tcase_add_test(t, streamed_bytes_are_the_same_wherever_they_begin);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
