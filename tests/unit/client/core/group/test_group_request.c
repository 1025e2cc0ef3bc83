/* Valid requests to a group: numbers in range, buffers that are there, aligned, and apart or in place. */
#include "client/core/group/group_request.h"

#include <string.h>

#include "client/core/plan/plan_schedule.h"
#include "tests/unit/kits/check_main.h"

#define RANKS 4
#define RANK  1
#define COUNT 10 /* parts of 3, 3, 2 and 2: that of rank 1 begins at element 3 */

static float memory[4 * COUNT];

static uint32_t
merge_none(void *arg, size_t at)
{
    (void)arg;
    (void)at;
    return PLAN_NONE;
}

/* Apart, and whole on both sides. */
static struct group_request
ask_for(uint8_t op)
{
    return (struct group_request){.op = op, .in = memory, .out = memory + 2 * COUNT, .count = COUNT, .dtype = PS_F32};
}

static void
group_request_accepted(const struct group_request *ask, bool in_place)
{
    struct ps_error e = {0};
    bool is;

    ck_assert_msg(group_request_check(ask, RANKS, RANK, &is, &e) == PS_OK, "%s", e.text);
    ck_assert_int_eq(is, in_place);
}

static void
group_request_refused(const struct group_request *ask, const char *why)
{
    struct ps_error e = {0};
    bool is;

    ck_assert_int_eq(group_request_check(ask, RANKS, RANK, &is, &e), PS_ERR_INVALID);
    ck_assert_msg(strstr(e.text, why) != NULL, "'%s' says nothing of '%s'", e.text, why);
}

START_TEST(numbers_are_in_range)
{
    struct group_request ask = ask_for(PLAN_ALL_REDUCE);

    group_request_accepted(&ask, false);
    ask.dtype = (enum ps_dtype)99;
    group_request_refused(&ask, "element type 99");
    ask = ask_for(PLAN_ALL_REDUCE);
    ask.reduce = (enum ps_reduce)99;
    group_request_refused(&ask, "reduction 99");
    ask = ask_for(PLAN_ALL_REDUCE);
    ask.count = SIZE_MAX / 4;
    group_request_refused(&ask, "more than memory has");
    ask = ask_for(PLAN_BROADCAST);
    ask.root = RANKS;
    group_request_refused(&ask, "rank 4 of a group of 4");
    ask = ask_for(PLAN_KEY_SEND);
    ask.root = RANK;
    group_request_refused(&ask, "is this rank");
}
END_TEST

START_TEST(slots_that_are_merged_are_equal)
{
    struct group_request ask = ask_for(PLAN_KEY_MERGE);

    ask.count = 2 * RANKS;
    ask.piece = 2;
    ask.merge = merge_none;
    group_request_accepted(&ask, false);
    ask.out = memory; /* the others' values come beside its own */
    group_request_refused(&ask, "overlap");
    ask = ask_for(PLAN_KEY_MERGE);
    ask.piece = 2;
    ask.merge = merge_none;
    group_request_refused(&ask, "cannot be merged by 4 ranks");
    ask.count = 2 * RANKS;
    ask.merge = NULL;
    group_request_refused(&ask, "cannot be merged");
    ask.merge = merge_none;
    ask.piece = 0;
    group_request_refused(&ask, "cannot be merged");
}
END_TEST

START_TEST(buffers_are_there_where_they_are_needed)
{
    struct group_request ask = ask_for(PLAN_ALL_REDUCE);

    ask.in = NULL;
    group_request_refused(&ask, "is NULL");
    ask.count = 0;
    group_request_accepted(&ask, false);
    ask = ask_for(PLAN_KEY_SEND);
    ask.out = NULL;
    group_request_accepted(&ask, false);
    ask = ask_for(PLAN_KEY_RECEIVE);
    ask.in = NULL;
    group_request_accepted(&ask, false);
    ask = ask_for(PLAN_REDUCE);
    ask.out = NULL; /* the root's alone */
    group_request_accepted(&ask, false);
    ask.root = RANK;
    group_request_refused(&ask, "is NULL");
    ask = ask_for(PLAN_ALL_REDUCE);
    ask.in = (const uint8_t *)memory + 2;
    group_request_refused(&ask, "not aligned to its elements of 4 bytes");
}
END_TEST

/* In place is where this rank's part of the one lies in the other. */
START_TEST(what_overlaps_is_in_place)
{
    struct group_request ask = ask_for(PLAN_ALL_REDUCE);

    ask.out = memory;
    group_request_accepted(&ask, true);
    ask.out = memory + 1;
    group_request_refused(&ask, "not in place");
    ask = ask_for(PLAN_REDUCE_SCATTER);
    ask.out = memory + 3;
    group_request_accepted(&ask, true);
    ask.out = memory;
    group_request_refused(&ask, "not in place");
    ask.out = memory + COUNT; /* right behind it */
    group_request_accepted(&ask, false);
    ask = ask_for(PLAN_ALL_GATHER);
    ask.in = memory + 3;
    ask.out = memory;
    group_request_accepted(&ask, true);
    ask.in = memory + 2;
    group_request_refused(&ask, "not in place");
    ask = ask_for(PLAN_BROADCAST); /* has but one */
    ask.out = memory;
    group_request_accepted(&ask, true);
}
END_TEST

/* Fields that do not matter to an operation are the same on all ranks, so that ranks do not differ in them. */
START_TEST(a_signature_holds_what_all_must_agree_in)
{
    struct plan_plan plan = {.segment_bytes = 64 * KIB, .algorithm = PS_ALGORITHM_RING};
    struct group_request send = ask_for(PLAN_KEY_SEND), receive = ask_for(PLAN_KEY_RECEIVE),
                         ask = ask_for(PLAN_ALL_REDUCE);
    struct group_signature s, other;

    ask.reduce = PS_MAX;
    ask.root = 2;
    s = group_request_signature(&ask, &plan);
    ck_assert_uint_eq(s.count, COUNT);
    ck_assert_uint_eq(s.segment_bytes, 64 * KIB);
    ck_assert_uint_eq(s.reduce, PS_MAX);
    ck_assert_uint_eq(s.root, 0);
    ck_assert_uint_eq(s.algorithm, PS_ALGORITHM_RING);
    ask.op = PLAN_BROADCAST;
    s = group_request_signature(&ask, &plan);
    ck_assert_uint_eq(s.root, 2);
    ck_assert_uint_eq(s.reduce, 0);
    ask.op = PLAN_KEY_MERGE;
    ask.encoding = PS_COMPRESS_BFLOAT16;
    ask.elements = 1001;
    ask.tag = 17;
    s = group_request_signature(&ask, &plan);
    ck_assert_uint_eq(s.encoding, PS_COMPRESS_BFLOAT16);
    ck_assert_uint_eq(s.elements, 1001);
    ck_assert_uint_eq(s.reduce, PS_MAX);
    ck_assert_uint_eq(s.tag, 17);
    send.root = 0; /* each names the other */
    receive.root = RANK;
    s = group_request_signature(&send, &plan);
    other = group_request_signature(&receive, &plan);
    ck_assert(group_signature_equal(&s, &other));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("group_ask");
    TCase *t = tcase_create("ask");

    tcase_add_test(t, numbers_are_in_range);
    tcase_add_test(t, slots_that_are_merged_are_equal);
    tcase_add_test(t, buffers_are_there_where_they_are_needed);
    tcase_add_test(t, what_overlaps_is_in_place);
    tcase_add_test(t, a_signature_holds_what_all_must_agree_in);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
