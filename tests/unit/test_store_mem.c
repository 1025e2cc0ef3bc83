#include "server/store_mem.h"

#include "check_main.h"
#include "common/layout.h"
#include "store_suite.h"

#define OK(call) ck_assert_int_eq((call), PS_OK)

static const struct store_key key1 = {.var = 1};

static struct store *
make(void)
{
    return store_mem_new(STORE_SUITE_BYTES);
}

static struct store *
crash(struct store *s, bool writing)
{
    (void)writing;
    store_mem_crash(s);
    return s;
}

static void
unmake(struct store *s)
{
    s->ops->close(s);
}

START_TEST(places_are_not_zeroed)
{
    struct store *s = make();
    void *place;

    OK(s->ops->begin(s, layout_value_size(0)));
    OK(s->ops->reserve(s, &key1, layout_value_size(0), &place));
    ck_assert_int_ne(*(const char *)place, 0);
    s->ops->abort(s);
    unmake(s);
}
END_TEST

START_TEST(failures_come_when_asked_for_and_once)
{
    size_t size = layout_value_size(0);
    struct store *s = make();
    void *place;

    store_mem_fail_at(s, STORE_MEM_FAIL_BEGIN, 1);
    ck_assert_int_eq(s->ops->begin(s, 0), PS_ERR_IO);
    OK(s->ops->begin(s, size));
    store_mem_fail_at(s, STORE_MEM_FAIL_RESERVE, 2);
    OK(s->ops->reserve(s, &key1, size, &place));
    ck_assert_int_eq(s->ops->reserve(s, &key1, size, &place), PS_ERR_IO);
    OK(s->ops->reserve(s, &key1, size, &place));
    store_mem_fail_at(s, STORE_MEM_FAIL_COMMIT, 1);
    ck_assert_int_eq(s->ops->commit(s), PS_ERR_IO);
    OK(s->ops->begin(s, 0));
    ck_assert_int_eq(s->ops->get(s, &key1, &(struct span){0}), PS_ERR_NOT_FOUND);
    OK(s->ops->commit(s));
    unmake(s);
}
END_TEST

static Suite *
make_suite(void)
{
    static const struct store_maker maker = {make, crash, unmake, false};
    Suite *suite = suite_create("store_mem");
    TCase *tc = tcase_create("store_mem");

    suite_add_tcase(suite, store_suite_case(&maker));
    tcase_add_test(tc, places_are_not_zeroed);
    tcase_add_test(tc, failures_come_when_asked_for_and_once);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
