/* A shard's report of its time: how long answers waited for other workers, in the answers and in its timeline. */
#include <stdio.h>

#include "common/core/format/timeline.h"
#include "tests/unit/kits/shard_fixture.h"

enum { SLOW = 1, FAST = 2, OBSERVER = 3, SPANS = 8192 };

static void
shard_trace_begin(Psd__Mode mode)
{
    struct shard_config config = {.cluster = "test", .shards = 1, .boot = 1, .timeline = SPANS, .machine = "here"};

    kit_init(&k, &config);
    kit_join(&k, SLOW, kit_job("train", mode, 2), 0);
    kit_join(&k, FAST, kit_job("train", mode, 2), 1);
    kit_observe(&k, OBSERVER);
    kit_declare(&k, SLOW, "w", 4, PS_SGD);
    kit_drop_answers(&k, SLOW);
}

/* The caller frees it. */
static struct kit_answer *
shard_trace_ask(const char *after)
{
    Psd__Query m = PSD__QUERY__INIT;

    m.kind = PSD__QUERY_KIND__TIMELINE;
    m.after = (char *)(uintptr_t)after;
    kit_frame(&k, OBSERVER, MSG_QUERY, 77, &m.base, NULL, 0);
    return kit_expect(&k, OBSERVER, MSG_REPORT);
}

/* The only span of this kind. */
static void
expect_held(enum timeline_kind kind, uint32_t task, uint64_t step, uint64_t ms)
{
    struct kit_answer *a = shard_trace_ask("");
    const Psd__TimelineReport *t = a->msg.u.report->timeline;
    size_t found = 0;

    ck_assert_str_eq(t->machine, "here");
    ck_assert_uint_eq(t->now_ns, k.now_ms * 1000000);
    for (size_t i = 0; i < t->n_start_ns; i++) {
        if (t->what[i] != kind)
            continue;
        found++;
        ck_assert_uint_eq(t->task[i], task + 1);
        ck_assert_uint_eq(t->step[i], step);
        ck_assert_uint_eq(t->took_ns[i], ms * 1000000);
        ck_assert_uint_eq(t->start_ns[i] + t->took_ns[i], t->now_ns);
    }
    ck_assert_uint_eq(found, 1);
    ck_assert(!a->msg.u.report->more);
    kit_answer_free(a);
}

START_TEST(a_pull_says_how_long_the_bound_held_it)
{
    struct kit_answer *a;

    shard_trace_begin(PSD__MODE__SSP);
    kit_ticked(&k, FAST, 1, 1);
    kit_pull(&k, FAST, 1, 0, 1);
    kit_expect_nothing(&k, FAST);
    kit_pass(&k, 250);
    kit_ticked(&k, SLOW, 1, 1);
    a = kit_expect(&k, FAST, MSG_DATA);
    ck_assert_uint_eq(a->msg.u.data->held_us, 250000);
    kit_answer_free(a);
    expect_held(TIMELINE_HELD_BOUND, 1, 1, 250);
    kit_pull(&k, SLOW, 1, 0, 1); /* nothing delays that */
    a = kit_expect(&k, SLOW, MSG_DATA);
    ck_assert_uint_eq(a->msg.u.data->held_us, 0);
    kit_answer_free(a);
}
END_TEST

static uint64_t
shard_trace_acked(uint64_t conn)
{
    struct kit_answer *a = kit_expect(&k, conn, MSG_ACK);
    uint64_t held_us = a->msg.u.ack->held_us;

    kit_answer_free(a);
    return held_us;
}

START_TEST(a_push_says_how_long_its_step_lacked_others)
{
    float g[4] = {1};

    shard_trace_begin(PSD__MODE__SYNC);
    kit_push(&k, FAST, &(struct kit_push){.seq = 1, .var = 1, .gradient = g, .len = 4});
    kit_expect_nothing(&k, FAST);
    kit_pass(&k, 30);
    kit_push(&k, SLOW, &(struct kit_push){.seq = 1, .var = 1, .gradient = g, .len = 4});
    ck_assert_uint_eq(shard_trace_acked(FAST), 30000);
    ck_assert_uint_eq(shard_trace_acked(SLOW), 0);
    expect_held(TIMELINE_HELD_GRADIENTS, 1, 0, 30);
    kit_tick(&k, FAST, 2, 1); /* a reported time is not reported again */
    ck_assert_uint_eq(shard_trace_acked(FAST), 0);
}
END_TEST

START_TEST(a_barrier_is_held_as_well)
{
    shard_trace_begin(PSD__MODE__ASYNC);
    kit_barrier(&k, FAST, 1, "here");
    kit_pass(&k, 7);
    kit_barrier(&k, SLOW, 1, "here");
    ck_assert_uint_eq(shard_trace_acked(FAST), 7000);
    expect_held(TIMELINE_HELD_BARRIER, 1, 0, 7);
}
END_TEST

/* More than fit a frame, and more are added meanwhile, which belong to another report. */
START_TEST(a_long_timeline_comes_in_pages)
{
    uint64_t next_ns = 0, pages = 0, spans = 0;
    char after[64] = "";
    bool more = true;

    shard_trace_begin(PSD__MODE__ASYNC);
    for (uint64_t i = 0; i < SPANS; i++)
        shard_turn_took(k.shard, 10 * i, 10 * i + 3, 10 * i + 5, 10 * i + 6);
    while (more) {
        struct kit_answer *a = shard_trace_ask(after);
        const Psd__TimelineReport *t = a->msg.u.report->timeline;

        for (size_t i = 0; i < t->n_start_ns; i++, next_ns += 10) {
            ck_assert_uint_eq(t->start_ns[i], next_ns);
            ck_assert_uint_eq(t->took_ns[i], 6);
            ck_assert_uint_eq(t->what[i], TIMELINE_TURN);
            ck_assert_uint_eq(t->task[i], 0);
            ck_assert_uint_eq(t->commit_ns[i], 3);
            ck_assert_uint_eq(t->answer_ns[i], 5);
        }
        spans += t->n_start_ns;
        pages++;
        snprintf(after, sizeof after, "%llu/%llu", (unsigned long long)t->next, (unsigned long long)t->end);
        more = a->msg.u.report->more;
        kit_answer_free(a);
        shard_turn_took(k.shard, 0, 0, 0, 1); /* in the place of one that was reported already */
    }
    ck_assert_uint_gt(pages, 1);
    ck_assert_uint_eq(spans, SPANS);
}
END_TEST

START_TEST(a_page_that_nobody_was_told_of_begins_anew)
{
    struct kit_answer *a;

    shard_trace_begin(PSD__MODE__ASYNC);
    shard_turn_took(k.shard, 1, 2, 3, 4);
    a = shard_trace_ask("train/7");
    ck_assert_uint_eq(a->msg.u.report->timeline->n_start_ns, 1);
    kit_answer_free(a);
    a = shard_trace_ask("0/0"); /* nothing but the clock */
    ck_assert_uint_eq(a->msg.u.report->timeline->n_start_ns, 0);
    ck_assert(!a->msg.u.report->more);
    kit_answer_free(a);
    a = shard_trace_ask("99/1000"); /* of another life of the shard */
    ck_assert_uint_eq(a->msg.u.report->timeline->n_start_ns, 0);
    ck_assert(!a->msg.u.report->more);
    kit_answer_free(a);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("spans");
    TCase *tc = tcase_create("spans");

    tcase_add_checked_fixture(tc, NULL, shard_teardown);
    tcase_add_test(tc, a_pull_says_how_long_the_bound_held_it);
    tcase_add_test(tc, a_push_says_how_long_its_step_lacked_others);
    tcase_add_test(tc, a_barrier_is_held_as_well);
    tcase_add_test(tc, a_long_timeline_comes_in_pages);
    tcase_add_test(tc, a_page_that_nobody_was_told_of_begins_anew);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
