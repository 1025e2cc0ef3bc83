/* Definitions: variables that are alike have one, and a variable takes little beside it. */
#include "server/core/model/variable_definition.h"

#include <malloc.h>

#include "server/core/shard_state.h"
#include "tests/sanitized.h"
#include "tests/unit/kits/shard_fixture.h"

#define MANY 5000

static uint64_t
variable_definition_count(void)
{
    return HASH_COUNT(k.shard->definitions);
}

static void
variable_definition_declare_many(unsigned first)
{
    k.hold = true;
    for (unsigned i = first; i < first + MANY; i++) {
        char name[32];

        snprintf(name, sizeof name, "layer/weights/%05u", i);
        kit_declare_as(&k, 1, i + 1, name, NULL, 0, PS_SGD, PSD__INIT_KIND__ZEROS);
    }
    k.hold = false;
    kit_work(&k);
    kit_drop_answers(&k, 1);
}

START_TEST(variables_that_are_alike_have_one_definition)
{
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    kit_declare(&k, 1, "a", 10, PS_SGD);
    kit_declare(&k, 1, "b", 10, PS_SGD);
    ck_assert_uint_eq(variable_definition_count(), 1);
    ck_assert_ptr_eq(variable_find(k.shard, 1)->def, variable_find(k.shard, 2)->def);
    kit_declare(&k, 1, "c", 11, PS_SGD);
    kit_declare(&k, 1, "d", 10, PS_ADAM);
    ck_assert_uint_eq(variable_definition_count(), 3);
    kit_join(&k, 2, kit_job("other", PSD__MODE__SYNC, 1), 0); /* of whatever job */
    kit_declare(&k, 2, "a", 10, PS_SGD);
    ck_assert_uint_eq(variable_definition_count(), 3);
    ck_assert_uint_eq(variable_find(k.shard, 1)->def->uses, 3);
}
END_TEST

START_TEST(set_gives_a_variable_another_definition)
{
    Psd__Parameter rate = PSD__PARAMETER__INIT, *parameters[] = {&rate};
    Psd__Set set = PSD__SET__INIT;
    struct kit_answer *a;

    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    kit_declare(&k, 1, "a", 10, PS_SGD);
    kit_declare(&k, 1, "b", 10, PS_SGD);
    rate.name = (char *)"learning_rate";
    rate.value = 0.5;
    set.job = (char *)"train";
    set.variables = (char *)"b";
    set.n_parameter = 1;
    set.parameter = parameters;
    kit_frame(&k, 1, MSG_SET, 5, &set.base, NULL, 0);
    a = kit_expect(&k, 1, MSG_SET_DONE);
    kit_answer_free(a);
    ck_assert_uint_eq(variable_definition_count(), 2);
    ck_assert_double_ne(variable_find(k.shard, 1)->def->optimizer.learning_rate, 0.5);
    ck_assert_double_eq(variable_find(k.shard, 2)->def->optimizer.learning_rate, 0.5);
    ck_assert(wire_declare_equal(variable_find(k.shard, 1)->def->declare, variable_find(k.shard, 2)->def->declare));
    set.variables = (char *)"*"; /* the first one's is no variable's any more */
    kit_frame(&k, 1, MSG_SET, 6, &set.base, NULL, 0);
    ck_assert_uint_eq(variable_definition_count(), 1);
    kit_crash(&k);
    ck_assert_uint_eq(variable_definition_count(), 1);
    ck_assert_double_eq(variable_find(k.shard, 1)->def->optimizer.learning_rate, 0.5);
}
END_TEST

/* What a shard takes of the heap that is loaded from the store as it is. */
static size_t
variable_definition_loaded_bytes(void)
{
    struct shard *shard;
    struct ps_error e;
    size_t before = mallinfo2().uordblks, bytes;

    ck_assert_int_eq(shard_new(&k.config, k.store, k.now_ms, &shard, &e), PS_OK);
    ck_assert_uint_eq(shard->variables_len, k.shard->variables_len);
    ck_assert_uint_eq(shard->blocks, k.shard->blocks);
    ck_assert_uint_eq(HASH_COUNT(shard->definitions), 1);
    bytes = mallinfo2().uordblks - before;
    shard_free(shard);
    return bytes;
}

/* Of 64 bytes each. When each had a declaration of its own there were 1,100 bytes. */
START_TEST(variable_takes_less_than_half_a_kilobyte_of_heap)
{
    size_t bytes;

    if (SANITIZED_ADDRESS)
        return;
    kit_join(&k, 1, kit_job("train", PSD__MODE__ASYNC, 1), 0);
    variable_definition_declare_many(0);
    bytes = variable_definition_loaded_bytes();
    variable_definition_declare_many(MANY);
    ck_assert_uint_lt((variable_definition_loaded_bytes() - bytes) / MANY, 450);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("variable_definition");
    TCase *t = tcase_create("variable_definition");

    tcase_add_checked_fixture(t, shard_setup, shard_teardown);
    tcase_add_test(t, variables_that_are_alike_have_one_definition);
    tcase_add_test(t, set_gives_a_variable_another_definition);
    tcase_add_test(t, variable_takes_less_than_half_a_kilobyte_of_heap);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
