/* Schedules without memory: whatever allocation fails, the caller is told so, and nothing is kept. */
#include "tests/unit/kits/check_main.h"
#include "tests/unit/kits/counted_memory.h"

#include "client/core/plan/plan.h"

#ifndef SANITIZED
/* One attempt at making and reading a plan whose k-th allocation fails; false when there was no k-th. */
static bool
plan_memory_attempt(const struct plan_request *ask, size_t k)
{
    size_t kept = taken - given;
    struct ps_error e = {0};
    enum ps_err err;
    struct plan_plan p;
    bool failed;

    fail_in = k;
    err = plan_make(ask, &p, &e);
    failed = fail_in == 0;
    fail_in = 0;
    ck_assert_int_eq(err, failed ? PS_ERR_NOMEM : PS_OK);
    ck_assert_int_eq(e.code, err);
    if (failed) {
        ck_assert_ptr_null(p.step);
        ck_assert_uint_eq(taken - given, kept);
        return true;
    }
    for (size_t i = 1;; i++) {
        char *text;

        fail_in = i;
        text = plan_text(ask, &p);
        failed = fail_in == 0;
        fail_in = 0;
        ck_assert((text == NULL) == failed);
        free(text);
        if (!failed)
            break;
    }
    plan_finish(&p);
    ck_assert_uint_eq(taken - given, kept);
    return false;
}
#endif

START_TEST(each_allocation_may_fail)
{
#ifndef SANITIZED
    static const uint32_t host[] = {0, 0, 1, 1, 2};

    for (int op = 0; op <= PLAN_BARRIER; op++)
        for (int algorithm = 0; algorithm <= PS_ALGORITHM_HIERARCHICAL; algorithm++) {
            struct plan_request ask = {.op = (enum plan_op)op,
                                       .ranks = 5,
                                       .rank = 2,
                                       .host = host,
                                       .count = 1000,
                                       .size = 4,
                                       .in_place = true,
                                       .mean = true,
                                       .algorithm = (enum ps_algorithm)algorithm,
                                       .segment_bytes = 256};
            size_t k = 1;

            while (plan_memory_attempt(&ask, k))
                k++;
            ck_assert(k > 1);
        }
#endif
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("plan_memory");
    TCase *tc = tcase_create("plan_memory");

    tcase_add_test(tc, each_allocation_may_fail);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
