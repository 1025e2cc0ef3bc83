/* Encoded sums of ranks that lie in memory: slots are carried from one to the other by hand. */
#include "client/core/reduce/encoded_sum.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/core/codec/codec.h"
#include "tests/unit/kits/check_main.h"

enum { RANKS = 9, COUNT_MAX = 200000 };

static struct encoded_sum rank[RANKS];
static float gradient[RANKS][COUNT_MAX], sum[COUNT_MAX], first[COUNT_MAX];
static double given[COUNT_MAX], arrived[COUNT_MAX];
static uint32_t ranks;

/* ---- Carrying ---- */

static void
open_ranks(uint32_t n, size_t count, const struct ps_compress *how)
{
    ranks = n;
    for (uint32_t r = 0; r < n; r++) {
        ck_assert_int_eq(encoded_sum_init(&rank[r], count, how, NULL), PS_OK);
        ck_assert_int_eq(encoded_sum_slots(&rank[r], n, r, NULL), PS_OK);
        ck_assert(rank[r].slot == rank[0].slot && rank[r].piece == rank[0].piece);
    }
}

static void
close_ranks(void)
{
    for (uint32_t r = 0; r < ranks; r++)
        encoded_sum_finish(&rank[r]);
}

/* `what` of one rank lies in another's slot for it. */
static void
encoded_sum_carry(uint32_t from, uint32_t slot, uint32_t to)
{
    size_t n = rank[0].slot;

    memcpy(rank[to].in + from * n, rank[from].out + slot * n, n * sizeof(uint32_t));
}

/* Pieces in any order: the last one first. */
static void
merge_all(void)
{
    for (uint32_t r = 0; r < ranks; r++)
        for (size_t at = (rank[r].slot + rank[r].piece - 1) / rank[r].piece * rank[r].piece; at > 0;
             at -= rank[r].piece)
            ck_assert_uint_eq(encoded_sum_merge(&rank[r], at - rank[r].piece), UINT32_MAX);
}

static void
encoded_sum_exchange(enum ps_reduce reduce)
{
    for (uint32_t r = 0; r < ranks; r++)
        encoded_sum_begin(&rank[r], gradient[r], reduce);
    for (uint32_t from = 0; from < ranks; from++)
        for (uint32_t to = 0; to < ranks; to++)
            if (from != to)
                encoded_sum_carry(from, to, to);
    merge_all();
    for (uint32_t from = 0; from < ranks; from++)
        for (uint32_t to = 0; to < ranks; to++)
            if (from != to)
                encoded_sum_carry(from, from, to);
}

/* Every rank ends in the same way, with the same bits, which are in sum. */
static enum ps_err
end_all(size_t count)
{
    struct ps_error error = {0}, other = {0};
    enum ps_err err = encoded_sum_end(&rank[0], sum, &error);

    for (uint32_t r = 1; r < ranks; r++) {
        memcpy(first, sum, count * sizeof *sum);
        ck_assert_int_eq(encoded_sum_end(&rank[r], sum, &other), err);
        ck_assert_int_eq(memcmp(first, sum, count * sizeof *sum), 0);
        ck_assert(err == PS_OK || strcmp(error.text, other.text) == 0);
    }
    return err;
}

static void
settle_all(bool counted)
{
    for (uint32_t r = 0; r < ranks; r++)
        encoded_sum_settle(&rank[r], counted);
}

/* Numbers of few digits, so that sums are exact. */
static void
encoded_sum_draw(struct test_rng *rng, size_t count)
{
    for (uint32_t r = 0; r < ranks; r++)
        for (size_t i = 0; i < count; i++)
            gradient[r][i] = (float)((int)test_below(rng, 513) - 256) / 16;
}

static void
note_given(size_t count)
{
    for (uint32_t r = 0; r < ranks; r++)
        for (size_t i = 0; i < count; i++)
            given[i] += (double)gradient[r][i];
}

static void
note_arrived(size_t count, double times)
{
    for (size_t i = 0; i < count; i++)
        arrived[i] += times * (double)sum[i];
}

/* The residuals of all ranks. */
static double
encoded_sum_kept(size_t i)
{
    double all = 0;

    for (uint32_t r = 0; r < ranks; r++)
        all += (double)rank[r].kept[i];
    return all;
}

/* ---- Sums ---- */

static const struct ps_compress codecs[] = {{.kind = PS_COMPRESS_FLOAT16},
                                            {.kind = PS_COMPRESS_BFLOAT16},
                                            {.kind = PS_COMPRESS_INT8},
                                            {.kind = PS_COMPRESS_TOP_K, .fraction = 0.1},
                                            {.kind = PS_COMPRESS_TOP_K, .fraction = 1}};

static const size_t counts[] = {1, 2, 7, 64, 65, 1000, ENCODED_SUM_PIECE + 1, 2 * ENCODED_SUM_PIECE + 3, COUNT_MAX};

START_TEST(all_that_was_given_has_arrived_or_is_kept)
{
    const struct ps_compress *how = &codecs[_i];

    for (size_t c = 0; c < ARRAY_LEN(counts); c++)
        for (uint32_t n = 2; n <= RANKS; n += counts[c] > 1000 ? 3 : 1) {
            struct test_rng rng = {test_seed()};
            size_t count = counts[c];

            memset(given, 0, sizeof given);
            memset(arrived, 0, sizeof arrived);
            open_ranks(n, count, how);
            for (int step = 0; step < 3; step++) {
                encoded_sum_draw(&rng, count);
                note_given(count);
                encoded_sum_exchange(step == 1 ? PS_MEAN : PS_SUM);
                ck_assert_int_eq(end_all(count), PS_OK);
                note_arrived(count, step == 1 ? n : 1);
                settle_all(true);
            }
            for (size_t i = 0; i < count; i++)
                if (fabs(given[i] - arrived[i] - encoded_sum_kept(i)) > 1e-4 * (1 + fabs(given[i])))
                    ck_abort_msg("%s, %u ranks, element %zu of %zu: %g given, %g arrived, %g kept",
                                 ps_compress_name(how->kind), n, i, count, given[i], arrived[i], encoded_sum_kept(i));
            close_ranks();
        }
}
END_TEST

/* Every release must give these results for these numbers. */
START_TEST(sums_are_in_the_order_of_the_ranks_beside_this_ranks_own_gradient)
{
    static const float x[3] = {0x1p-30f, 1, -1};
    struct ps_compress how = {.kind = PS_COMPRESS_TOP_K, .fraction = 1}; /* nothing is rounded */

    open_ranks(3, 3, &how);
    for (uint32_t r = 0; r < 3; r++)
        for (size_t i = 0; i < 3; i++)
            gradient[r][i] = x[r];
    encoded_sum_exchange(PS_SUM);
    ck_assert_int_eq(end_all(3), PS_OK);
    for (size_t i = 0; i < 3; i++)
        ck_assert_float_eq(sum[i], (x[0] + x[1]) + x[2]);
    close_ranks();
}
END_TEST

START_TEST(the_mean_is_divided_once)
{
    struct ps_compress how = {.kind = PS_COMPRESS_TOP_K, .fraction = 1};
    struct test_rng rng = {1};

    open_ranks(3, 100, &how);
    encoded_sum_draw(&rng, 100);
    encoded_sum_exchange(PS_MEAN);
    ck_assert_int_eq(end_all(100), PS_OK);
    for (size_t i = 0; i < 100; i++)
        ck_assert_float_eq(sum[i], (gradient[0][i] + gradient[1][i] + gradient[2][i]) / 3.0f);
    close_ranks();
}
END_TEST

/* The largest that an encoding holds, from all ranks: nothing is cut off, and nothing is kept. */
START_TEST(a_mean_is_not_cut_off_where_the_sum_would_be)
{
    static const float large[] = {60000, 0x1p126f, 0x1p126f, 0x1p126f, 0x1p126f};

    for (size_t c = 0; c < ARRAY_LEN(codecs); c++)
        for (uint32_t n = 2; n <= RANKS; n++) {
            bool whole = codecs[c].kind != PS_COMPRESS_TOP_K || codecs[c].fraction == 1;

            open_ranks(n, 40, &codecs[c]);
            for (uint32_t r = 0; r < n; r++)
                for (size_t i = 0; i < 40; i++)
                    gradient[r][i] = i % 2 == 0 ? large[c] : -large[c];
            encoded_sum_exchange(PS_MEAN);
            ck_assert_int_eq(end_all(40), PS_OK);
            settle_all(true);
            for (size_t i = 0; whole && i < 40; i++) {
                ck_assert_msg(fabsf(sum[i] / gradient[0][i] - 1) < 1e-6f, "%s, %u ranks: %g, not %g",
                              ps_compress_name(codecs[c].kind), n, (double)sum[i], (double)gradient[0][i]);
                for (uint32_t r = 0; r < n; r++)
                    ck_assert(fabsf(rank[r].kept[i]) < 1e-5f * large[c]);
            }
            close_ranks();
        }
}
END_TEST

START_TEST(the_same_gradients_give_the_same_bits_in_every_run)
{
    static float before[COUNT_MAX];

    for (size_t c = 0; c < ARRAY_LEN(codecs); c++)
        for (int run = 0; run < 2; run++) {
            struct test_rng rng = {42};

            open_ranks(4, 5000, &codecs[c]);
            for (int step = 0; step < 4; step++) {
                encoded_sum_draw(&rng, 5000);
                encoded_sum_exchange(PS_SUM);
                ck_assert_int_eq(end_all(5000), PS_OK);
                settle_all(true);
            }
            if (run == 0)
                memcpy(before, sum, sizeof before);
            ck_assert_int_eq(memcmp(before, sum, 5000 * sizeof *sum), 0);
            close_ranks();
        }
}
END_TEST

/* ---- What has not counted ---- */

/* Two runs of the same steps; in the second, gradients that do not count come in between. */
START_TEST(a_gradient_that_did_not_count_leaves_nothing_behind)
{
    static float wanted[COUNT_MAX];
    const size_t count = 3000;

    for (size_t c = 0; c < ARRAY_LEN(codecs); c++)
        for (int run = 0; run < 2; run++) {
            struct test_rng rng = {7}, other = {8};

            open_ranks(3, count, &codecs[c]);
            for (int step = 0; step < 4; step++) {
                if (run == 1) {
                    encoded_sum_draw(&other, count);
                    encoded_sum_exchange(PS_SUM);
                    ck_assert_int_eq(end_all(count), PS_OK);
                    if (step % 2 == 0) /* otherwise the next one settles it */
                        settle_all(false);
                }
                encoded_sum_draw(&rng, count);
                encoded_sum_exchange(PS_SUM);
                ck_assert_int_eq(end_all(count), PS_OK);
                settle_all(true);
                settle_all(false); /* once */
            }
            if (run == 0)
                memcpy(wanted, sum, sizeof wanted);
            ck_assert_int_eq(memcmp(wanted, sum, count * sizeof *sum), 0);
            close_ranks();
        }
}
END_TEST

/* After a change of ranks residuals are still kept, and a single remaining rank gets all of its own. */
START_TEST(what_is_kept_stays_when_the_ranks_are_others)
{
    struct ps_compress how = {.kind = PS_COMPRESS_TOP_K, .fraction = 0.1};
    struct test_rng rng = {3};
    const size_t count = 500;

    memset(given, 0, sizeof given);
    memset(arrived, 0, sizeof arrived);
    open_ranks(4, count, &how);
    encoded_sum_draw(&rng, count);
    note_given(count);
    encoded_sum_exchange(PS_SUM);
    ck_assert_int_eq(end_all(count), PS_OK);
    note_arrived(count, 1);
    settle_all(true);
    for (size_t i = 0; i < count; i++)
        given[i] -= (double)rank[3].kept[i]; /* it is lost with its residuals */
    encoded_sum_finish(&rank[3]);
    for (ranks = 3; ranks > 1; ranks--) {
        for (uint32_t r = 0; r < ranks; r++)
            ck_assert_int_eq(encoded_sum_slots(&rank[r], ranks, r, NULL), PS_OK);
        encoded_sum_draw(&rng, count);
        note_given(count);
        encoded_sum_exchange(PS_SUM);
        ck_assert_int_eq(end_all(count), PS_OK);
        note_arrived(count, 1);
        settle_all(true);
        for (size_t i = 0; i < count; i++)
            given[i] -= (double)rank[ranks - 1].kept[i];
        encoded_sum_finish(&rank[ranks - 1]);
    }
    ck_assert_int_eq(encoded_sum_alone(&rank[0], gradient[0], sum, NULL), PS_OK);
    for (size_t i = 0; i < count; i++) {
        given[i] += (double)gradient[0][i];
        arrived[i] += (double)sum[i];
        ck_assert_msg(fabs(given[i] - arrived[i]) < 1e-3, "element %zu: %g given, %g arrived", i, given[i], arrived[i]);
    }
    encoded_sum_settle(&rank[0], true);
    for (size_t i = 0; i < count; i++)
        ck_assert_float_eq(rank[0].kept[i], 0);
    close_ranks();
}
END_TEST

/* ---- What is none ---- */

START_TEST(a_gradient_that_is_not_finite_is_refused_by_all_and_leaves_nothing_behind)
{
    for (uint32_t bad = 0; bad < 3; bad++) {
        struct ps_error error;

        open_ranks(3, 5, &codecs[2]);
        for (uint32_t r = 0; r < 3; r++)
            for (size_t i = 0; i < 5; i++)
                gradient[r][i] = r >= bad && i == bad ? (r == 1 ? NAN : -INFINITY) : 0.1f;
        encoded_sum_exchange(PS_SUM);
        ck_assert_int_eq(end_all(0), PS_ERR_NONFINITE);
        ck_assert_int_eq(encoded_sum_end(&rank[0], sum, &error), PS_ERR_NONFINITE);
        ck_assert_uint_eq((unsigned)(error.text[5] - '0'), bad); /* the lowest of them */
        settle_all(false);
        for (uint32_t r = 0; r < 3; r++)
            for (size_t i = 0; i < 5; i++)
                ck_assert_float_eq(rank[r].kept[i], 0);
        close_ranks();
    }
}
END_TEST

START_TEST(the_largest_floats_stay_finite)
{
    for (size_t c = 0; c < ARRAY_LEN(codecs); c++) {
        open_ranks(4, 20, &codecs[c]);
        for (int step = 0; step < 3; step++) {
            for (uint32_t r = 0; r < 4; r++)
                for (size_t i = 0; i < 20; i++)
                    gradient[r][i] = (i + r) % 2 == 0 || i < 5 ? FLT_MAX : -FLT_MAX;
            encoded_sum_exchange(step == 1 ? PS_MEAN : PS_SUM);
            ck_assert_int_eq(end_all(20), PS_OK);
            settle_all(true);
            for (size_t i = 0; i < 20; i++) {
                ck_assert(isfinite(sum[i]));
                for (uint32_t r = 0; r < 4; r++)
                    ck_assert(isfinite(rank[r].kept[i]));
            }
        }
        close_ranks();
    }
}
END_TEST

/* Words that are changed on the way: the sender is named, and nothing is read past the end. */
START_TEST(what_no_encoder_makes_is_found_out)
{
    for (size_t c = 0; c < 4; c++) {
        struct test_rng rng = {5};

        open_ranks(3, 300, &codecs[c]);
        encoded_sum_draw(&rng, 300);
        encoded_sum_exchange(PS_SUM);
        for (uint32_t word = 0; word < 2; word++) {
            uint32_t *at = rank[1].in + 2 * rank[1].slot + word, was = *at;

            *at = 0xfffffff0u;
            ck_assert_uint_eq(encoded_sum_merge(&rank[1], 0), 2);
            ck_assert_int_eq(encoded_sum_end(&rank[1], sum, NULL), PS_ERR_PROTOCOL);
            *at = was;
        }
        rank[1].in[0] = (uint32_t)codecs[c].kind | 0x100u | 77u << 16; /* not finite: rank 77 */
        ck_assert_uint_eq(encoded_sum_merge(&rank[1], 0), 0);
        close_ranks();
    }
}
END_TEST

START_TEST(options_that_make_no_sense_are_refused)
{
    static const struct ps_compress bad[] = {{.kind = PS_COMPRESS_NONE},
                                             {.kind = PS_COMPRESS_KINDS},
                                             {.kind = PS_COMPRESS_TOP_K, .fraction = -1},
                                             {.kind = PS_COMPRESS_TOP_K, .fraction = 1.5}};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct encoded_sum s;
        struct ps_error error;

        ck_assert_int_eq(encoded_sum_init(&s, 10, &bad[i], &error), PS_ERR_INVALID);
        encoded_sum_finish(&s);
    }
}
END_TEST

START_TEST(bytes_are_those_of_a_ring_in_the_encodings_size)
{
    static const double times[] = {1.99, 1.99, 3.9, 4.9};

    for (size_t c = 0; c < ARRAY_LEN(times); c++)
        for (uint32_t n = 2; n <= RANKS; n++) {
            open_ranks(n, COUNT_MAX, &codecs[c]);
            ck_assert_uint_eq(encoded_sum_plain_bytes(&rank[0]), 2 * (n - 1) * (uint64_t)COUNT_MAX * 4 / n);
            ck_assert_msg((double)encoded_sum_bytes(&rank[0]) * times[c] <= (double)encoded_sum_plain_bytes(&rank[0]),
                          "%s: %" PRIu64 " bytes", ps_compress_name(codecs[c].kind), encoded_sum_bytes(&rank[0]));
            close_ranks();
        }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("encoded_sum");
    TCase *tc = tcase_create("encoded_sum");

    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, all_that_was_given_has_arrived_or_is_kept, 0, ARRAY_LEN(codecs));
    tcase_add_test(tc, sums_are_in_the_order_of_the_ranks_beside_this_ranks_own_gradient);
    tcase_add_test(tc, the_mean_is_divided_once);
    tcase_add_test(tc, a_mean_is_not_cut_off_where_the_sum_would_be);
    tcase_add_test(tc, the_same_gradients_give_the_same_bits_in_every_run);
    tcase_add_test(tc, a_gradient_that_did_not_count_leaves_nothing_behind);
    tcase_add_test(tc, what_is_kept_stays_when_the_ranks_are_others);
    tcase_add_test(tc, a_gradient_that_is_not_finite_is_refused_by_all_and_leaves_nothing_behind);
    tcase_add_test(tc, the_largest_floats_stay_finite);
    tcase_add_test(tc, what_no_encoder_makes_is_found_out);
    tcase_add_test(tc, options_that_make_no_sense_are_refused);
    tcase_add_test(tc, bytes_are_those_of_a_ring_in_the_encodings_size);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
