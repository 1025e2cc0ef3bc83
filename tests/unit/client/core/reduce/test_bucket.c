/* Buckets of gradients: their layout for chosen and for random lists of parameters, and that each goes once, in order,
 * as soon as it may, whatever the order of the parameters. */
#include <signal.h>
#include <string.h>

#include "client/core/reduce/bucket.h"
#include "tests/unit/kits/check_main.h"

static struct bucket_plan
plan_of(size_t params, const uint64_t *elements, size_t first_bytes, size_t bytes)
{
    struct bucket_plan p;

    ck_assert_int_eq(bucket_plan_init(&p, params, elements, first_bytes, bytes, NULL), PS_OK);
    return p;
}

static void
check_bucket(const struct bucket_plan *p, size_t k, size_t first, size_t end, size_t offset, size_t len)
{
    ck_assert_uint_lt(k, p->buckets);
    ck_assert_uint_eq(p->bucket[k].first, first);
    ck_assert_uint_eq(p->bucket[k].end, end);
    ck_assert_uint_eq(p->bucket[k].offset, offset);
    ck_assert_uint_eq(p->bucket[k].len, len);
}

/* ---- Layout ---- */

START_TEST(the_last_parameters_lie_first_and_the_first_bucket_is_small)
{
    /* Each weights, then bias: 100 x 10, 50 x 50, 10 x 5. */
    static const uint64_t elements[] = {1000, 10, 2500, 50, 50, 5};
    struct bucket_plan p = plan_of(6, elements, 256, 8192);

    ck_assert_uint_eq(p.buckets, 3);
    check_bucket(&p, 0, 4, 6, 0, 16 + 64);      /* 5 and 50: 320 bytes */
    check_bucket(&p, 1, 2, 4, 80, 64 + 2512);   /* 50 and 2500 */
    check_bucket(&p, 2, 0, 2, 2656, 16 + 1008); /* the rest */
    ck_assert_uint_eq(p.offset[5], 0);
    ck_assert_uint_eq(p.offset[4], 16);
    ck_assert_uint_eq(p.offset[3], 80);
    ck_assert_uint_eq(p.offset[0], 2672);
    ck_assert_uint_eq(p.floats, 3680);
    bucket_plan_finish(&p);
}
END_TEST

START_TEST(a_parameter_larger_than_a_bucket_ends_one)
{
    static const uint64_t elements[] = {16, 100000, 16, 16};
    struct bucket_plan p = plan_of(4, elements, 128, 128);

    ck_assert_uint_eq(p.buckets, 3);
    check_bucket(&p, 0, 2, 4, 0, 32);
    check_bucket(&p, 1, 1, 2, 32, 100000);
    check_bucket(&p, 2, 0, 1, 100032, 16);
    bucket_plan_finish(&p);
}
END_TEST

START_TEST(a_limit_of_a_byte_gives_every_parameter_its_own_bucket)
{
    static const uint64_t elements[] = {3, 70, 1};
    struct bucket_plan p = plan_of(3, elements, 1, 1);

    ck_assert_uint_eq(p.buckets, 3);
    check_bucket(&p, 0, 2, 3, 0, 16);
    check_bucket(&p, 1, 1, 2, 16, 80);
    check_bucket(&p, 2, 0, 1, 96, 16);
    bucket_plan_finish(&p);
}
END_TEST

START_TEST(a_limit_past_everything_gives_one_bucket)
{
    static const uint64_t elements[] = {3, 70, 1};
    struct bucket_plan p = plan_of(3, elements, SIZE_MAX, SIZE_MAX);

    ck_assert_uint_eq(p.buckets, 1);
    check_bucket(&p, 0, 0, 3, 0, 112);
    bucket_plan_finish(&p);
}
END_TEST

START_TEST(nothing_makes_no_bucket_and_empty_parameters_take_no_room)
{
    static const uint64_t elements[] = {0, 0, 5, 0};
    struct bucket_plan p = plan_of(0, NULL, 1, 1);
    size_t k;

    ck_assert(p.buckets == 0 && p.floats == 0 && bucket_all_taken(&p) && !bucket_next(&p, &k));
    bucket_plan_finish(&p);
    p = plan_of(4, elements, 1, 1);
    ck_assert_uint_eq(p.buckets, 2); /* one that is full of nothing does not exist: 3 and 2; then 1 and 0 */
    check_bucket(&p, 0, 2, 4, 0, 16);
    check_bucket(&p, 1, 0, 2, 16, 0);
    bucket_plan_finish(&p);
}
END_TEST

START_TEST(sizes_that_do_not_fit_are_refused)
{
    const uint64_t large[] = {SIZE_MAX / 64 + 1}, many[] = {SIZE_MAX / 128, SIZE_MAX / 128, SIZE_MAX / 128};
    struct bucket_plan p;
    struct ps_error error;

    ck_assert_int_eq(bucket_plan_init(&p, 1, large, 1, 1, &error), PS_ERR_LIMIT);
    ck_assert_int_eq(bucket_plan_init(&p, 1, (const uint64_t[]){UINT64_MAX}, 1, 1, &error), PS_ERR_LIMIT);
    ck_assert_int_eq(bucket_plan_init(&p, 3, many, 1, 1, &error), PS_ERR_LIMIT);
    bucket_plan_finish(&p);
    bucket_plan_finish(NULL);
}
END_TEST

/* ---- A step ---- */

START_TEST(a_bucket_goes_when_its_last_parameter_is_ready_and_not_before_those_before_it)
{
    static const uint64_t elements[] = {16, 16, 16, 16};
    struct bucket_plan p = plan_of(4, elements, 128, 128); /* 3 2 | 1 0 */
    size_t k = 99;

    bucket_ready(&p, 0);
    bucket_ready(&p, 1);
    ck_assert(!bucket_next(&p, &k)); /* the second is whole, the first is not */
    bucket_ready(&p, 3);
    ck_assert(!bucket_next(&p, &k));
    bucket_ready(&p, 2);
    ck_assert(bucket_next(&p, &k) && k == 0 && !bucket_all_taken(&p));
    ck_assert(bucket_next(&p, &k) && k == 1 && bucket_all_taken(&p));
    ck_assert(!bucket_next(&p, &k));
    bucket_plan_finish(&p);
}
END_TEST

START_TEST(a_step_may_be_left_and_the_next_begins_with_nothing_ready)
{
    static const uint64_t elements[] = {16, 16};
    struct bucket_plan p = plan_of(2, elements, 1, 1);
    size_t k;

    bucket_ready(&p, 1);
    ck_assert(bucket_next(&p, &k));
    bucket_begin(&p);
    ck_assert(!bucket_is_ready(&p, 1) && !bucket_next(&p, &k));
    bucket_ready(&p, 1);
    ck_assert(bucket_is_ready(&p, 1) && !bucket_is_ready(&p, 0));
    ck_assert(bucket_next(&p, &k) && k == 0);
    bucket_plan_finish(&p);
}
END_TEST

START_TEST(a_parameter_that_is_ready_twice_stops_the_program)
{
    static const uint64_t elements[] = {16, 16};
    struct bucket_plan p = plan_of(2, elements, 1, 1);

    bucket_ready(&p, 1);
    bucket_ready(&p, 1);
}
END_TEST

START_TEST(a_parameter_that_is_not_there_stops_the_program)
{
    static const uint64_t elements[] = {16, 16};
    struct bucket_plan p = plan_of(2, elements, 1, 1);

    bucket_ready(&p, 2);
}
END_TEST

/* ---- Properties ---- */

enum { PARAMS_MAX = 40 };

/* All parameters in one piece of memory, in order, at boundaries, without overlap; each bucket holds its limit unless
 * it is the last, and would not without its last parameter. */
static void
check_layout(const struct bucket_plan *p, const uint64_t *elements, size_t first_bytes, size_t bytes)
{
    size_t at = 0, param = p->params;

    for (size_t k = 0; k < p->buckets; k++) {
        const struct bucket *b = &p->bucket[k];
        size_t limit = k == 0 ? first_bytes : bytes, held = 0;

        ck_assert_uint_eq(b->offset, at);
        ck_assert(b->end == param && b->first < b->end);
        for (; param > b->first; param--) {
            ck_assert_uint_lt(held, limit);
            ck_assert_uint_eq(p->where[param - 1], k);
            ck_assert_uint_eq(p->offset[param - 1], at);
            ck_assert_uint_eq(at % 16, 0);
            ck_assert_uint_eq(bucket_floats(p, param - 1), round_up(elements[param - 1], 16));
            at += round_up(elements[param - 1], 16);
            held = (at - b->offset) * sizeof(float);
        }
        ck_assert_uint_eq(b->offset + b->len, at);
        ck_assert(held >= limit || k + 1 == p->buckets);
    }
    ck_assert_uint_eq(param, 0);
    ck_assert_uint_eq(at, p->floats);
}

/* Parameters in random order, some never: exactly the buckets go that may, at once. */
static void
check_step(struct bucket_plan *p, struct test_rng *rng)
{
    size_t order[PARAMS_MAX], gone = 0, k, ready = test_below(rng, p->params + 1);
    bool is_ready[PARAMS_MAX] = {false};

    for (size_t i = 0; i < p->params; i++)
        order[i] = i;
    for (size_t i = p->params; i > 1; i--) {
        size_t other = test_below(rng, i), kept = order[i - 1];

        order[i - 1] = order[other];
        order[other] = kept;
    }
    bucket_begin(p);
    for (size_t n = 0; n < ready; n++) {
        bucket_ready(p, order[n]);
        is_ready[order[n]] = true;
        for (;; gone++) {
            bool whole = gone < p->buckets;

            for (size_t i = whole ? p->bucket[gone].first : 0; whole && i < p->bucket[gone].end; i++)
                whole = is_ready[i];
            ck_assert_int_eq(bucket_next(p, &k), whole);
            if (!whole)
                break;
            ck_assert_uint_eq(k, gone);
        }
    }
    ck_assert_int_eq(bucket_all_taken(p), ready == p->params);
}

START_TEST(any_list_of_parameters_is_cut_and_goes_as_it_should)
{
    struct test_rng rng = {test_seed()};

    for (int trial = 0; trial < 2000; trial++) {
        size_t params = 1 + test_below(&rng, PARAMS_MAX), first = 1 + test_below(&rng, 5000);
        size_t bytes = 1 + test_below(&rng, 20000);
        uint64_t elements[PARAMS_MAX];
        struct bucket_plan p, again;

        for (size_t i = 0; i < params; i++)
            elements[i] = 1 + test_below(&rng, test_below(&rng, 2) == 0 ? 20 : 4000);
        p = plan_of(params, elements, first, bytes);
        check_layout(&p, elements, first, bytes);
        again = plan_of(params, elements, first, bytes);
        ck_assert_mem_eq(p.bucket, again.bucket, p.buckets * sizeof *p.bucket); /* on every rank */
        bucket_plan_finish(&again);
        check_step(&p, &rng);
        check_step(&p, &rng);
        bucket_plan_finish(&p);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("bucket");
    TCase *tc = tcase_create("bucket");

    tcase_add_test(tc, the_last_parameters_lie_first_and_the_first_bucket_is_small);
    tcase_add_test(tc, a_parameter_larger_than_a_bucket_ends_one);
    tcase_add_test(tc, a_limit_of_a_byte_gives_every_parameter_its_own_bucket);
    tcase_add_test(tc, a_limit_past_everything_gives_one_bucket);
    tcase_add_test(tc, nothing_makes_no_bucket_and_empty_parameters_take_no_room);
    tcase_add_test(tc, sizes_that_do_not_fit_are_refused);
    tcase_add_test(tc, a_bucket_goes_when_its_last_parameter_is_ready_and_not_before_those_before_it);
    tcase_add_test(tc, a_step_may_be_left_and_the_next_begins_with_nothing_ready);
    if (getenv("CK_FORK") == NULL || strcmp(getenv("CK_FORK"), "no") != 0) {
        tcase_add_test_raise_signal(tc, a_parameter_that_is_ready_twice_stops_the_program, SIGABRT);
        tcase_add_test_raise_signal(tc, a_parameter_that_is_not_there_stops_the_program, SIGABRT);
    }
    tcase_add_test(tc, any_list_of_parameters_is_cut_and_goes_as_it_should);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
