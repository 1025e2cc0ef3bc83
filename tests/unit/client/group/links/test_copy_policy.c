/* The copy mode for large frames into a ring. */
#include <string.h>

#include "client/group/links/copy_policy.h"
#include "tests/unit/kits/check_main.h"

/* A cycle with a given cost of each way; returns the choice for the rest of it. */
static enum copy_mode
copy_policy_cycle(struct copy_policy *c, uint64_t *position, const uint64_t ns[COPY_MODES])
{
    enum copy_mode way = COPY_CACHED;
    size_t step = 64 * KIB;

    for (uint64_t end = *position + COPY_POLICY_CYCLE * COPY_POLICY_EPOCH; *position < end; *position += step) {
        way = copy_policy_mode(c, *position);
        copy_policy_note(c, way, COPY_IN, step, ns[way]);
        if (copy_policy_tried(*position, step, &way))
            copy_policy_note(c, way, COPY_OUT, step, ns[way]);
        else
            way = copy_policy_mode(c, *position);
    }
    return way;
}

START_TEST(the_cheaper_way_is_taken_and_the_other_tried_again)
{
    static const uint64_t near[] = {1000, 3000}, far[] = {20000, 5000};
    struct copy_policy c = {0};
    uint64_t position = 0;

    ck_assert_int_eq(copy_policy_cycle(&c, &position, near), COPY_CACHED);
    for (int i = 0; i < 2; i++) { /* the cores move apart */
        (void)copy_policy_cycle(&c, &position, far);
        ck_assert_int_eq(copy_policy_cycle(&c, &position, far), COPY_STREAMED);
        ck_assert_int_eq(copy_policy_mode(&c, position), COPY_CACHED);
        ck_assert_int_eq(copy_policy_mode(&c, position + COPY_POLICY_EPOCH), COPY_STREAMED);
        (void)copy_policy_cycle(&c, &position, near); /* and together */
        ck_assert_int_eq(copy_policy_cycle(&c, &position, near), COPY_CACHED);
    }
}
END_TEST

START_TEST(nothing_is_streamed_before_both_ways_are_known)
{
    struct copy_policy c = {0};
    enum copy_mode way;

    copy_policy_note(&c, COPY_CACHED, COPY_IN, 1000, 1000000);
    copy_policy_note(&c, COPY_CACHED, COPY_OUT, 1000, 1000000);
    copy_policy_note(&c, COPY_STREAMED, COPY_IN, 1000, 1);
    ck_assert_int_eq(copy_policy_mode(&c, 5 * COPY_POLICY_EPOCH), COPY_CACHED);
    copy_policy_note(&c, COPY_STREAMED, COPY_OUT, 1000, 1);
    ck_assert_int_eq(copy_policy_mode(&c, 5 * COPY_POLICY_EPOCH), COPY_STREAMED);
    ck_assert(copy_policy_tried(COPY_POLICY_EPOCH, COPY_POLICY_EPOCH, &way));
    ck_assert(
        !copy_policy_tried(COPY_POLICY_EPOCH, COPY_POLICY_EPOCH + 1, &way)); /* the next may be written the other way */
    ck_assert(!copy_policy_tried(2 * COPY_POLICY_EPOCH, 1, &way));
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
            copy_policy_streamed(to + at, from + at / 2, n);
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
