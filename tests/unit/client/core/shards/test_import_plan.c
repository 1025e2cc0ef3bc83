#include "client/core/shards/import_plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/wire/wire.h"
#include "tests/unit/kits/check_main.h"

static struct checkpoint is, out;
static struct safetensors tensors;
static struct ps_error e;
static uint64_t declared;

static struct ps_optimizer
import_optimizer(const char *text)
{
    struct ps_optimizer o;

    ck_assert_int_eq(ps_optimizer_parse(text, &o, &e), PS_OK);
    return o;
}

/* A job that the shards know, with the variable "w" of 2 x 3, whose rate was set to another. */
static void
import_plan_setup(void)
{
    Psd__Job job = PSD__JOB__INIT;
    Psd__Declare was = PSD__DECLARE__INIT, now;
    Psd__Initializer init = PSD__INITIALIZER__INIT;
    struct ps_optimizer first = import_optimizer("adam"), later = import_optimizer("adam:learning_rate=0.5");
    struct wire_optimizer a, b;
    uint64_t dims[] = {2, 3};

    job.name = (char *)"train";
    job.workers = 2;
    init.kind = PSD__INIT_KIND__ONES;
    was.name = (char *)"w";
    was.n_dims = 2;
    was.dims = dims;
    was.init = &init;
    now = was;
    was.optimizer = wire_optimizer_message(&first, &a);
    now.optimizer = wire_optimizer_message(&later, &b);
    ck_assert_int_eq(checkpoint_set_job(&is, &job, &job, &e), PS_OK);
    ck_assert_int_eq(checkpoint_add(&is, &was, &now, &e), PS_OK);
}

static void
import_plan_teardown(void)
{
    checkpoint_finish(&is);
    checkpoint_finish(&out);
    safetensors_finish(&tensors);
}

static void
import_plan_add(const char *name, enum safetensors_type type, uint32_t rank, const uint64_t *dims)
{
    ck_assert_int_eq(safetensors_add(&tensors, name, type, rank, dims, &e), PS_OK);
}

static enum ps_err
import_plan_make(const struct import_choice *choice)
{
    checkpoint_finish(&out);
    return import_plan("f", &tensors, &is, choice, &out, &declared, &e);
}

static const uint64_t dims[] = {2, 3}, zero[] = {0};

START_TEST(a_variable_that_is_there_keeps_its_definition)
{
    import_plan_add("w", SAFETENSORS_BF16, 2, dims);
    ck_assert_int_eq(import_plan_make(&(struct import_choice){0}), PS_OK);
    ck_assert_uint_eq(out.variables_len, 1);
    ck_assert_uint_eq(declared, 0);
    ck_assert(wire_declare_equal(out.variables[0].declared, is.variables[0].declared));
    ck_assert(wire_optimizer(out.variables[0].now->optimizer).learning_rate == 0.5);
    ck_assert_str_eq(out.declared->name, "train");
}
END_TEST

START_TEST(a_new_one_is_declared_as_it_was_asked_for)
{
    struct ps_optimizer sgd = import_optimizer("sgd:learning_rate=0.25");

    import_plan_add("new", SAFETENSORS_F32, 0, NULL);
    import_plan_add("w", SAFETENSORS_F32, 2, dims);
    ck_assert_int_eq(import_plan_make(&(struct import_choice){.declare = &sgd}), PS_OK);
    ck_assert_uint_eq(out.variables_len, 2);
    ck_assert_uint_eq(declared, 1);
    ck_assert_str_eq(out.variables[0].declared->name, "new");
    ck_assert_uint_eq(out.variables[0].layout.elements, 1);
    ck_assert(wire_optimizer(out.variables[0].declared->optimizer).learning_rate == 0.25);
    ck_assert_int_eq(out.variables[0].declared->init->kind, PSD__INIT_KIND__ZEROS);
}
END_TEST

START_TEST(a_job_that_is_not_there_is_made_when_it_may_be)
{
    struct ps_optimizer sgd = import_optimizer("sgd");
    Psd__Job job = PSD__JOB__INIT;

    job.name = (char *)"made";
    job.mode = PSD__MODE__SSP;
    job.bound = 3;
    job.workers = 2;
    checkpoint_finish(&is);
    import_plan_add("w", SAFETENSORS_F32, 2, dims);
    ck_assert_int_eq(import_plan_make(&(struct import_choice){.declare = &sgd}), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(import_plan_make(&(struct import_choice){.declare = &sgd, .job = &job}), PS_OK);
    ck_assert_str_eq(out.declared->name, "made");
    ck_assert_uint_eq(out.now->bound, 3);
    ck_assert_uint_eq(declared, 1);
}
END_TEST

START_TEST(what_does_not_fit_is_refused_with_its_name)
{
    struct ps_optimizer sgd = import_optimizer("sgd");
    const uint64_t other[] = {3, 2};

    import_plan_add("w", SAFETENSORS_F32, 2, other);
    ck_assert_int_eq(import_plan_make(&(struct import_choice){0}), PS_ERR_SHAPE);
    ck_assert_str_eq(e.text, "f: tensor 'w' has the shape [3, 2], the variable [2, 3]");
    safetensors_finish(&tensors);

    import_plan_add("x", SAFETENSORS_F32, 2, dims);
    ck_assert_int_eq(import_plan_make(&(struct import_choice){0}), PS_ERR_NOT_FOUND);
    ck_assert_int_eq(import_plan_make(&(struct import_choice){.pattern = "y*"}), PS_ERR_NOT_FOUND);
    ck_assert_str_eq(e.text, "f: it has no tensor that \"y*\" names");
    safetensors_finish(&tensors);

    import_plan_add("w", SAFETENSORS_I64, 2, dims);
    ck_assert_int_eq(import_plan_make(&(struct import_choice){0}), PS_ERR_UNSUPPORTED);
    safetensors_finish(&tensors);

    import_plan_add("", SAFETENSORS_F32, 2, dims);
    ck_assert_int_eq(import_plan_make(&(struct import_choice){.declare = &sgd}), PS_ERR_INVALID);
    safetensors_finish(&tensors);

    import_plan_add("empty", SAFETENSORS_F32, 1, zero);
    ck_assert_int_ne(import_plan_make(&(struct import_choice){.declare = &sgd}), PS_OK);
    ck_assert_ptr_nonnull(strstr(e.text, "f: tensor 'empty' cannot be declared: "));
}
END_TEST

START_TEST(what_is_left_out_need_not_fit)
{
    static const char json[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
                               "\"q\":{\"dtype\":\"F8_E8M0\",\"shape\":[4],\"data_offsets\":[24,28]},"
                               "\"bn.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[28,36]}}";
    const char *const except[] = {"*.num_batches_tracked", "q"};
    struct import_choice choice = {.except = except, .except_len = 2};
    uint8_t head[8 + sizeof json] = {(sizeof json - 1) & 0xff, (sizeof json - 1) >> 8};

    memcpy(head + 8, json, sizeof json - 1);
    ck_assert_msg(safetensors_parse("f", (struct span){head, 8 + sizeof json - 1}, 8 + sizeof json - 1 + 36, &tensors,
                                    &e) == PS_OK,
                  "%s", e.text);
    ck_assert_msg(import_plan_make(&choice) == PS_OK, "%s", e.text);
    ck_assert_uint_eq(out.variables_len, 1);
    choice.except_len = 1;
    ck_assert_int_eq(import_plan_make(&choice), PS_ERR_UNSUPPORTED);
    ck_assert_str_eq(e.text,
                     "f: tensor 'q' is of F8_E8M0: F32, F16 and BF16 become variables (except leaves others out)");
    choice = (struct import_choice){.pattern = "bn.num_batchs_tracked"};
    ck_assert_int_eq(import_plan_make(&choice), PS_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(e.text, "names; did you mean bn.num_batches_tracked?"));
    choice = (struct import_choice){.pattern = "w", .except = except + 1, .except_len = 1};
    ck_assert_int_eq(import_plan_make(&choice), PS_OK);
    choice.pattern = "q";
    ck_assert_int_eq(import_plan_make(&choice), PS_ERR_NOT_FOUND);
    ck_assert_str_eq(e.text, "f: it has no tensor that \"q\" names and that is not left out");
}
END_TEST

START_TEST(what_the_pattern_leaves_out_need_not_fit)
{
    import_plan_add("steps", SAFETENSORS_I64, 1, dims);
    import_plan_add("w", SAFETENSORS_F16, 2, dims);
    ck_assert_int_eq(import_plan_make(&(struct import_choice){.pattern = "w"}), PS_OK);
    ck_assert_uint_eq(out.variables_len, 1);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("import_plan");
    TCase *t = tcase_create("import_plan");

    tcase_add_checked_fixture(t, import_plan_setup, import_plan_teardown);
    tcase_add_test(t, a_variable_that_is_there_keeps_its_definition);
    tcase_add_test(t, a_new_one_is_declared_as_it_was_asked_for);
    tcase_add_test(t, a_job_that_is_not_there_is_made_when_it_may_be);
    tcase_add_test(t, what_does_not_fit_is_refused_with_its_name);
    tcase_add_test(t, what_is_left_out_need_not_fit);
    tcase_add_test(t, what_the_pattern_leaves_out_need_not_fit);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
