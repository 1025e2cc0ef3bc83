/* The redo log in the live store: records, answers that wait for the disk, pieces that are removed when they are on
 * disk. test_replay.c tests the contents of the records. */
#include "tests/unit/kits/shard_kit.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/journal/redo_record.h"

static struct kit k;
static Psd__Job *job;

/* All workers have joined; their variable. */
static uint32_t
begin_as(Psd__Mode mode, uint32_t workers, const struct shard_config *config)
{
    kit_init(&k, config);
    job = kit_job("j", mode, workers);
    return kit_start(&k, job);
}

static uint32_t
redo_test_begin(void)
{
    return begin_as(PSD__MODE__ASYNC, 1, &kit_durable_config);
}

static void
redo_test_finish(void)
{
    kit_finish(&k);
}

static void
push_durable(uint64_t conn, uint64_t seq, uint64_t clock, uint32_t var, float g, bool want_value)
{
    float gradient[4] = {g, g, g, g};

    kit_push(&k, conn,
             &(struct kit_push){.seq = seq,
                                .clock = clock,
                                .var = var,
                                .gradient = gradient,
                                .len = 4,
                                .durable = true,
                                .want_value = want_value});
}

struct redo_piece_count {
    uint64_t pieces, first, last, bytes;
};

static bool
count_piece(void *arg, const struct store_key *key, struct span value)
{
    struct redo_piece_count *count = arg;
    const struct redo_head *head = value.data;

    ck_assert_uint_eq(head->number, store_redo_number(key));
    ck_assert_uint_eq(head->format, REDO_FORMAT);
    ck_assert_uint_le(sizeof *head + head->len, value.len);
    if (count->pieces++ == 0)
        count->first = head->number;
    else
        ck_assert_uint_eq(head->number, count->last + 1);
    count->last = head->number;
    count->bytes += value.len;
    return true;
}

static struct redo_piece_count
redo_pieces(void)
{
    struct store_key from = store_redo_key(0);
    struct redo_piece_count count = {0};

    ck_assert_int_eq(k.store->ops->each_block_from(k.store, &from, count_piece, &count), PS_OK);
    return count;
}

START_TEST(a_durable_push_is_answered_when_it_is_on_disk)
{
    uint32_t var = redo_test_begin();

    push_durable(1, 1, 0, var, 1, false);
    kit_expect_nothing(&k, 1);
    ck_assert(kit_value_four(&k, 1, var, 1) == -1); /* it is applied */
    ck_assert_uint_eq(redo_pieces().last + 1, k.redo);
    kit_durable(&k, k.redo - 1);
    kit_expect_nothing(&k, 1);
    kit_durable_ack(&k, 1, 1);
    redo_test_finish();
}
END_TEST

START_TEST(other_pushes_do_not_wait_for_durable_ones)
{
    uint32_t var = redo_test_begin();

    push_durable(1, 1, 0, var, 1, false);
    kit_push_four(&k, 1, 2, 0, var, 1);
    kit_ack(&k, 1, 2, PS_OK);
    kit_ticked(&k, 1, 3, 1);
    kit_durable_ack(&k, 1, 1);
    redo_test_finish();
}
END_TEST

START_TEST(answers_go_out_in_their_order)
{
    struct kit_answer *a;
    uint32_t var;
    uint64_t two;

    var = redo_test_begin();
    push_durable(1, 1, 0, var, 1, false);
    push_durable(1, 2, 0, var, 1, false);
    two = k.redo;
    push_durable(1, 3, 0, var, 1, false);
    kit_durable(&k, two);
    a = kit_expect(&k, 1, MSG_ACK);
    ck_assert_uint_eq(a->msg.u.ack->n_seq, 2);
    ck_assert_uint_eq(a->msg.u.ack->seq[0], 1);
    ck_assert_uint_eq(a->msg.u.ack->seq[1], 2);
    kit_answer_free(a);
    kit_expect_nothing(&k, 1);
    kit_durable_ack(&k, 1, 3);
    redo_test_finish();
}
END_TEST

START_TEST(a_held_answer_with_values_has_those_of_when_it_goes_out)
{
    struct kit_answer *a;
    uint32_t var = redo_test_begin();

    push_durable(1, 1, 0, var, 1, true);
    kit_expect_nothing(&k, 1);
    kit_push_four(&k, 1, 2, 0, var, 1);
    kit_ack(&k, 1, 2, PS_OK);
    kit_durable(&k, k.redo);
    a = kit_expect(&k, 1, MSG_DATA);
    ck_assert_uint_eq(a->msg.u.data->seq, 1);
    ck_assert_uint_eq(a->msg.u.data->version[0], 2);
    ck_assert(a->payload[0] == -2);
    kit_answer_free(a);
    redo_test_finish();
}
END_TEST

START_TEST(without_a_durable_directory_nothing_is_applied)
{
    static const struct shard_config none = {.cluster = "test", .shards = 1, .boot = 77};
    uint32_t var;

    var = begin_as(PSD__MODE__ASYNC, 1, &none);
    push_durable(1, 1, 0, var, 1, false);
    kit_ack(&k, 1, 1, PS_ERR_UNSUPPORTED);
    ck_assert(kit_value_four(&k, 1, var, 0) == 0);
    ck_assert_uint_eq(redo_pieces().pieces, 0);
    redo_test_finish();
}
END_TEST

START_TEST(a_disk_that_fails_answers_what_is_held_and_refuses_the_rest)
{
    struct ps_error full = {.code = PS_ERR_FULL, .text = "no space left on device"};
    uint32_t var = redo_test_begin();

    push_durable(1, 1, 0, var, 1, true);
    kit_event(&k, &(struct shard_event){.kind = SHARD_NOT_DURABLE, .error = &full});
    kit_ack(&k, 1, 1, PS_ERR_NOT_DURABLE);
    push_durable(1, 2, 0, var, 1, false);
    kit_ack(&k, 1, 2, PS_ERR_FULL);
    push_durable(1, 1, 0, var, 1, false); /* again: still not there */
    kit_ack(&k, 1, 1, PS_ERR_NOT_DURABLE);
    ck_assert(kit_value_four(&k, 1, var, 1) == -1);
    kit_push_four(&k, 1, 3, 0, var, 1);
    kit_ack(&k, 1, 3, PS_OK);
    kit_durable(&k, k.redo);
    push_durable(1, 1, 0, var, 1, false);
    kit_ack(&k, 1, 1, PS_OK);
    push_durable(1, 4, 0, var, 1, false);
    kit_expect_nothing(&k, 1);
    kit_durable_ack(&k, 1, 4);
    redo_test_finish();
}
END_TEST

START_TEST(who_is_gone_is_not_answered_and_asks_again)
{
    uint32_t var = redo_test_begin();

    push_durable(1, 1, 0, var, 1, false);
    kit_close(&k, 1);
    ck_assert_uint_eq(kit_resume(&k, 2, job, 0, 0), 1);
    push_durable(2, 1, 0, var, 1, false);
    kit_expect_nothing(&k, 2);
    kit_durable_ack(&k, 2, 1);
    kit_expect_nothing(&k, 1);
    ck_assert(kit_value_four(&k, 2, var, 1) == -1);
    redo_test_finish();
}
END_TEST

START_TEST(after_a_kill_a_repeat_waits_for_the_disk_as_well)
{
    uint32_t var;
    uint64_t before;

    var = redo_test_begin();
    push_durable(1, 1, 0, var, 1, false);
    before = k.redo;
    kit_crash(&k);
    kit_turn(&k);
    ck_assert_uint_eq(k.redo, before); /* handed to the disk once more */
    kit_resume(&k, 1, job, 0, 0);
    push_durable(1, 1, 0, var, 1, false);
    kit_expect_nothing(&k, 1);
    kit_durable(&k, before);
    kit_ack(&k, 1, 1, PS_OK);
    push_durable(1, 1, 0, var, 1, false);
    kit_ack(&k, 1, 1, PS_OK);
    redo_test_finish();
}
END_TEST

/* A repeated push waits behind one that was not written yet: both go out when the disk has it. */
START_TEST(a_repeat_behind_what_is_not_recorded_yet_does_not_hold_it_for_ever)
{
    const uint64_t cursor[] = {0, 8};
    float gradient[4] = {1, 1, 1, 1};
    struct kit_push counted = {.seq = 1, .gradient = gradient, .len = 4, .durable = true, .cursor = cursor};
    uint32_t var;

    counted.var = var = begin_as(PSD__MODE__ASYNC, 2, &kit_durable_config);
    kit_push(&k, 1, &counted);
    kit_durable_ack(&k, 1, 1);
    push_durable(2, 1, 0, var, 1, false);
    kit_close(&k, 1);
    kit_close(&k, 2);
    kit_hello(&k, 3, &(struct kit_hello){.job = job, .task = 0, .incarnation = 77});
    kit_expected(&k, 3, MSG_WELCOME);
    kit_resume(&k, 4, job, 1, 0);
    k.hold = true;
    kit_push(&k, 3, &counted); /* its data is there: a record without an update */
    push_durable(4, 1, 0, var, 1, false);
    k.hold = false;
    kit_turn(&k);
    kit_expect_nothing(&k, 3);
    kit_expect_nothing(&k, 4);
    kit_durable_ack(&k, 3, 1);
    kit_ack(&k, 4, 1, PS_OK);
    redo_test_finish();
}
END_TEST

START_TEST(what_the_disk_has_is_not_handed_out_again)
{
    uint32_t var;
    uint64_t before;

    var = redo_test_begin();
    push_durable(1, 1, 0, var, 1, false);
    before = k.redo;
    k.config.redo_next = before;
    kit_crash(&k);
    kit_turn(&k);
    ck_assert_uint_eq(k.redo, 0);
    kit_resume(&k, 1, job, 0, 0);
    push_durable(1, 1, 0, var, 1, false);
    kit_ack(&k, 1, 1, PS_OK);
    kit_work(&k);
    ck_assert_uint_eq(redo_pieces().pieces, 0);
    push_durable(1, 2, 0, var, 1, false);
    ck_assert_uint_ge(redo_pieces().first, before);
    redo_test_finish();
}
END_TEST

START_TEST(pieces_on_disk_are_erased_in_the_background)
{
    uint32_t var = redo_test_begin();

    for (uint64_t seq = 1; seq <= 300; seq++)
        push_durable(1, seq, 0, var, 1, false);
    ck_assert_uint_ge(redo_pieces().pieces, 300);
    ck_assert(!shard_busy(k.shard));
    kit_durable(&k, k.redo - 100);
    ck_assert(shard_busy(k.shard));
    kit_work(&k);
    ck_assert_uint_eq(redo_pieces().pieces, 100);
    ck_assert_uint_eq(redo_pieces().first, k.redo - 100);
    kit_durable(&k, k.redo);
    kit_work(&k);
    ck_assert_uint_eq(redo_pieces().pieces, 0);
    redo_test_finish();
}
END_TEST

START_TEST(more_than_may_wait_for_the_disk_is_refused)
{
    static const struct shard_config little = {
        .cluster = "test", .shards = 1, .boot = 77, .durable = true, .redo_bytes_max = 64 * KIB};
    uint64_t seq = 1, taken = 0;
    uint32_t var;

    var = begin_as(PSD__MODE__ASYNC, 1, &little);
    for (; seq <= 40; seq++)
        push_durable(1, seq, 0, var, 1, false);
    taken = redo_pieces().pieces;
    ck_assert_uint_le(redo_pieces().bytes, 64 * KIB);
    for (struct kit_answer *a; (a = kit_take(&k, 1)) != NULL; kit_answer_free(a))
        ck_assert_uint_eq(a->msg.u.ack->code[0], PS_ERR_LIMIT);
    ck_assert_uint_ge(taken, 10);
    kit_durable(&k, k.redo);
    kit_drop_answers(&k, 1);
    push_durable(1, seq, 0, var, 1, false);
    kit_expect_nothing(&k, 1);
    kit_durable_ack(&k, 1, seq);
    redo_test_finish();
}
END_TEST

static struct kit_answer *
redo_status(uint64_t conn)
{
    return kit_ask(&k, conn, PSD__QUERY_KIND__STATUS, NULL);
}

/* Workers come and go, and each time a row is logged. */
static void
come_and_go(uint64_t conn, uint32_t times)
{
    static uint64_t incarnation = 5000;

    for (uint32_t i = 0; i < times; i++) {
        kit_hello(&k, conn, &(struct kit_hello){.job = job, .task = 1, .incarnation = ++incarnation});
        kit_drop_answers(&k, conn);
        kit_drop_answers(&k, 1); /* it is notified of workers that are back */
        kit_close(&k, conn);
        kit_work(&k);
        ck_assert_uint_le(redo_pieces().bytes, k.config.redo_bytes_max + 4 * KIB);
    }
}

START_TEST(rows_that_wait_for_a_disk_that_fails_are_bounded)
{
    static const struct shard_config small = {
        .cluster = "test", .shards = 1, .boot = 77, .durable = true, .redo_bytes_max = 64 * KIB};
    struct ps_error full = {.code = PS_ERR_FULL, .text = "the disk is full"};
    struct redo_piece_count left;
    uint32_t var;

    kit_init(&k, &small);
    job = kit_job("j", PSD__MODE__ASYNC, 2);
    kit_join(&k, 1, job, 0);
    var = kit_declare(&k, 1, "w", 4, PS_SGD);
    push_durable(1, 1, 0, var, 1, false);
    kit_event(&k, &(struct shard_event){.kind = SHARD_NOT_DURABLE, .error = &full});
    kit_ack(&k, 1, 1, PS_ERR_NOT_DURABLE);
    come_and_go(2, 40);
    left = redo_pieces();
    ck_assert_uint_gt(left.first, 1); /* the disk notices that pieces are missing, */
    ck_assert_uint_gt(left.bytes, 32 * KIB);
    ck_assert_uint_eq(left.last + 1, k.redo);
    for (int process = 0; process < 2; process++) {
        kit_crash(&k); /* also when another process looks, */
        ck_assert_uint_eq(redo_pieces().first, left.first);
        kit_resume(&k, 1, job, 0, 0);
        push_durable(1, 1, 0, var, 1, false); /* and requests that wait for missing pieces keep waiting */
        kit_expect_nothing(&k, 1);
    }
    kit_event(&k, &(struct shard_event){.kind = SHARD_NOT_DURABLE, .error = &full});
    kit_ack(&k, 1, 1, PS_ERR_NOT_DURABLE);
    come_and_go(2, 40);
    kit_durable(&k, k.redo); /* a save has it all */
    push_durable(1, 1, 0, var, 1, false);
    kit_ack(&k, 1, 1, PS_OK);
    kit_work(&k);
    ck_assert_uint_eq(redo_pieces().pieces, 0);
    push_durable(1, 2, 0, var, 1, false);
    ck_assert_uint_eq(redo_pieces().last + 1, k.redo);
    kit_durable_ack(&k, 1, 2);
    redo_test_finish();
}
END_TEST

START_TEST(the_report_says_what_waits_and_why)
{
    struct ps_error full = {.code = PS_ERR_FULL, .text = "no space left on device"};
    const Psd__SaveReport *r;
    struct kit_answer *a;
    uint32_t var = redo_test_begin();

    kit_observe(&k, 2);
    push_durable(1, 1, 0, var, 1, false);
    kit_push_four(&k, 1, 2, 0, var, 1);
    kit_event(&k, &(struct shard_event){.kind = SHARD_NOT_DURABLE, .error = &full});
    a = redo_status(2);
    r = a->msg.u.report->status->save;
    ck_assert_uint_eq(r->durable_pushes, 1);
    ck_assert_uint_eq(r->redo_bytes, redo_pieces().bytes);
    ck_assert_str_eq(r->redo_failure, full.text);
    kit_answer_free(a);
    kit_durable(&k, k.redo);
    a = redo_status(2);
    r = a->msg.u.report->status->save;
    ck_assert_uint_eq(r->redo_bytes, 0);
    ck_assert_str_eq(r->redo_failure, "");
    kit_answer_free(a);
    redo_test_finish();
}
END_TEST

START_TEST(repeats_without_end_end_the_connection)
{
    uint32_t var = redo_test_begin();

    k.hold = true; /* turns cost more than pushes */
    for (int i = 0; i < SHARD_UNRESOLVED_MAX; i++)
        push_durable(1, 1, 0, var, 1, false);
    kit_turn(&k);
    ck_assert(k.open[1]);
    push_durable(1, 1, 0, var, 1, false);
    kit_turn(&k);
    kit_expect_closed(&k, 1, PS_ERR_LIMIT);
    redo_test_finish();
}
END_TEST

START_TEST(a_large_push_takes_few_pieces)
{
    uint64_t elements = 1 << 16;
    float *gradient = malloc(elements * sizeof *gradient);
    struct redo_piece_count after;
    uint64_t before;
    uint32_t var;

    redo_test_begin();
    var = kit_declare(&k, 1, "large", elements, PS_SGD);
    push_durable(1, 1, 0, var, 1, false); /* is refused, and writes the waiting records */
    kit_drop_answers(&k, 1);
    before = redo_pieces().pieces;
    for (uint64_t i = 0; i < elements; i++)
        gradient[i] = (float)i;
    kit_push(&k, 1, &(struct kit_push){.seq = 2, .var = var, .gradient = gradient, .len = elements, .durable = true});
    after = redo_pieces();
    ck_assert_uint_eq(after.pieces, before + 1);
    kit_durable_ack(&k, 1, 2);
    free(gradient);
    redo_test_finish();
}
END_TEST

START_TEST(in_sync_a_durable_push_makes_its_step_durable)
{
    uint32_t var;

    var = begin_as(PSD__MODE__SYNC, 2, &kit_durable_config);
    push_durable(1, 1, 0, var, 1, false);
    kit_push_four(&k, 2, 1, 0, var, 3);
    kit_ack(&k, 2, 1, PS_OK); /* this one did not ask for it */
    kit_expect_nothing(&k, 1);
    kit_durable_ack(&k, 1, 1);
    ck_assert(kit_value_four(&k, 1, var, 1) == -2);
    redo_test_finish();
}
END_TEST

START_TEST(a_failed_commit_leaves_no_piece_and_no_answer)
{
    struct redo_piece_count before;
    uint32_t var = redo_test_begin();

    push_durable(1, 1, 0, var, 1, false);
    before = redo_pieces();
    store_mem_fail_at(k.store, STORE_MEM_FAIL_COMMIT, 1);
    push_durable(1, 2, 0, var, 1, false);
    ck_assert(k.closed[1]);
    ck_assert_uint_eq(redo_pieces().pieces, before.pieces);
    kit_resume(&k, 2, job, 0, 0);
    push_durable(2, 2, 0, var, 1, false);
    ck_assert_uint_eq(redo_pieces().pieces, before.pieces + 1);
    kit_durable_ack(&k, 2, 2);
    kit_expect_nothing(&k, 1);
    redo_test_finish();
}
END_TEST

/* Every store operation of a run fails once: nothing that was acknowledged is lost, and nothing counts twice. */
START_TEST(the_nth_failure_of_the_store_loses_nothing)
{
    for (int what = 0; what < STORE_MEM_FAILS; what++)
        for (uint64_t nth = 1; nth < 20; nth++) {
            uint64_t conn = 1, acked = 0, last;
            uint32_t var;

            var = redo_test_begin();
            store_mem_fail_at(k.store, (enum store_mem_fail)what, nth);
            while (acked < 12) {
                struct kit_answer *a;

                if (k.closed[conn]) {
                    conn++;
                    last = kit_resume(&k, conn, job, 0, 0);
                    acked = MAX(acked, last);
                    continue;
                }
                push_durable(conn, acked + 1, 0, var, 1, false);
                if (k.redo > 0 && !k.closed[conn])
                    kit_durable(&k, k.redo);
                if (!k.closed[conn])
                    kit_work(&k);
                if ((a = kit_take(&k, conn)) != NULL && a->msg.type == MSG_ACK && a->msg.u.ack->n_code == 0)
                    acked = a->msg.u.ack->seq[0];
                kit_answer_free(a);
            }
            ck_assert(!k.closed[conn]);
            ck_assert(kit_value_four(&k, conn, var, 12) == -12);
            redo_test_finish();
        }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("redo");
    TCase *tc = tcase_create("redo");

    tcase_add_test(tc, a_durable_push_is_answered_when_it_is_on_disk);
    tcase_add_test(tc, other_pushes_do_not_wait_for_durable_ones);
    tcase_add_test(tc, answers_go_out_in_their_order);
    tcase_add_test(tc, a_held_answer_with_values_has_those_of_when_it_goes_out);
    tcase_add_test(tc, without_a_durable_directory_nothing_is_applied);
    tcase_add_test(tc, a_disk_that_fails_answers_what_is_held_and_refuses_the_rest);
    tcase_add_test(tc, who_is_gone_is_not_answered_and_asks_again);
    tcase_add_test(tc, after_a_kill_a_repeat_waits_for_the_disk_as_well);
    tcase_add_test(tc, a_repeat_behind_what_is_not_recorded_yet_does_not_hold_it_for_ever);
    tcase_add_test(tc, what_the_disk_has_is_not_handed_out_again);
    tcase_add_test(tc, pieces_on_disk_are_erased_in_the_background);
    tcase_add_test(tc, more_than_may_wait_for_the_disk_is_refused);
    tcase_add_test(tc, rows_that_wait_for_a_disk_that_fails_are_bounded);
    tcase_add_test(tc, the_report_says_what_waits_and_why);
    tcase_add_test(tc, repeats_without_end_end_the_connection);
    tcase_add_test(tc, a_large_push_takes_few_pieces);
    tcase_add_test(tc, in_sync_a_durable_push_makes_its_step_durable);
    tcase_add_test(tc, a_failed_commit_leaves_no_piece_and_no_answer);
    tcase_add_test(tc, the_nth_failure_of_the_store_loses_nothing);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
