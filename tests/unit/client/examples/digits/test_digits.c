/* The digits example's modules: its command line, its progress line, and the counts that it reads out of reports. */
#include <string.h>
#include <unistd.h>

#include "client/examples/digits/counts.h"
#include "client/examples/digits/model.h"
#include "client/examples/digits/options.h"
#include "client/examples/digits/progress.h"
#include "client/include/psclient/ps_strategy.h"
#include "common/core/base/base.h"
#include "tests/unit/kits/check_main.h"

/* ---- Command line ---- */

static struct digits_options options;
static struct ps_error error;

#define PARSE(...) digits_parse((char *[]){"digits", __VA_ARGS__, NULL})

static enum ps_err
digits_parse(char **argv)
{
    int argc = 0;

    while (argv[argc] != NULL)
        argc++;
    return digits_options_parse(argc, argv, &options, &error);
}

START_TEST(defaults_are_what_help_says)
{
    ck_assert_int_eq(digits_parse((char *[]){"digits", NULL}), PS_OK);
    ck_assert(options.mode == PS_ASYNC && options.bound == 4 && options.quorum == 0 && options.age == PS_AGE_NONE);
    ck_assert(options.epochs == 100 && options.batch == 96 && options.seed == 1);
    ck_assert_str_eq(options.layers, "dense 128, relu");
    ck_assert(options.optimizer.kind == PS_ADAM && options.optimizer.learning_rate == 0.001);
    ck_assert_str_eq(options.device, "cpu");
    ck_assert_ptr_null(options.data);
    ck_assert_str_eq(options.strategy, "parameter_server");
    ck_assert(options.replicas == 0 && digits_options_need_cluster(&options));
    ck_assert_int_eq(PARSE("--help"), PS_OK);
    ck_assert(options.line.asked == COMMAND_HELP);
}
END_TEST

START_TEST(every_option_is_taken)
{
    ck_assert_int_eq(PARSE("--strategy", "sync", "--quorum=2", "--optimizer",
                           "sgd:learning_rate=0.5,clip=value,limit=1", "--epochs", "7", "--batch", "10", "--seed",
                           "9223372036854775807", "--layers", "dense 3, tanh", "--device", "cuda", "--threads", "3",
                           "--timeout", "2.5", "--data", "D", "--svg=", "--job", "J", "--lapse", "fail", "--bound",
                           "9"),
                     PS_OK);
    ck_assert(options.mode == PS_SYNC && options.quorum == 2 && options.lapse == PS_LAPSE_FAIL && options.bound == 9);
    ck_assert(options.optimizer.kind == PS_SGD && options.optimizer.learning_rate == 0.5);
    ck_assert(options.optimizer.clip.kind == PS_CLIP_VALUE && options.optimizer.clip.limit == 1);
    ck_assert(options.epochs == 7 && options.batch == 10 && options.seed == INT64_MAX);
    ck_assert_str_eq(options.layers, "dense 3, tanh");
    ck_assert(options.threads == 3 && options.timeout_ms == 2500);
    ck_assert_str_eq(options.device, "cuda");
    ck_assert_str_eq(options.data, "D");
    ck_assert_str_eq(options.svg, "");
    ck_assert_str_eq(options.job, "J");
    ck_assert_str_eq(options.strategy, "parameter_server");
    ck_assert_int_eq(PARSE("--strategy=ssp", "--bound=0", "--layers="), PS_OK);
    ck_assert(options.mode == PS_SSP && options.bound == 0);
    ck_assert_str_eq(options.layers, "");
}
END_TEST

START_TEST(strategies_go_by_their_names_or_modes)
{
    for (size_t i = 0; ps_strategy_name(i) != NULL; i++) {
        ck_assert_int_eq(PARSE("--strategy", (char *)ps_strategy_name(i), "--mode", "ssp"), PS_OK);
        ck_assert_str_eq(options.strategy, ps_strategy_name(i));
        ck_assert_int_eq(options.mode, PS_SSP);
    }
    ck_assert_int_eq(PARSE("--strategy", "mirrored"), PS_OK);
    ck_assert(options.replicas == 2 && !digits_options_need_cluster(&options));
    ck_assert_int_eq(PARSE("--strategy", "central_storage", "--replicas", "5"), PS_OK);
    ck_assert_uint_eq(options.replicas, 5);
    ck_assert_int_eq(PARSE("--strategy", "mirrored", "--device", "cuda:0,cuda:1"), PS_OK);
    ck_assert_uint_eq(options.replicas, 0);
    ck_assert_uint_eq(options.local.steps, 0);
    ck_assert_int_eq(PARSE("--strategy", "local_sgd"), PS_OK);
    ck_assert(options.local.steps == 8 && options.local.outer.kind == PS_NESTEROV &&
              digits_options_need_cluster(&options));
    ck_assert_int_eq(PARSE("--strategy", "local_sgd", "--local-steps", "3", "--outer", "sgd:learning_rate=1"), PS_OK);
    ck_assert(options.local.steps == 3 && options.local.outer.kind == PS_SGD);
    ck_assert_int_eq(PARSE("--strategy", "local_sgd", "--outer", "nesterov:momentum=2"), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "--outer: "));
}
END_TEST

START_TEST(compressions_are_taken_with_their_fractions)
{
    ck_assert_int_eq(digits_parse((char *[]){"digits", NULL}), PS_OK);
    ck_assert_int_eq(options.compress.kind, PS_COMPRESS_NONE);
    ck_assert_int_eq(PARSE("--compress", "int8"), PS_OK);
    ck_assert_int_eq(options.compress.kind, PS_COMPRESS_INT8);
    ck_assert_int_eq(PARSE("--compress=top_k:0.05"), PS_OK);
    ck_assert(options.compress.kind == PS_COMPRESS_TOP_K && options.compress.fraction == 0.05);
    ck_assert_int_eq(PARSE("--compress", "top_k:2"), PS_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.text, "--compress: "));
    ck_assert_int_eq(PARSE("--compress", "gzip"), PS_ERR_INVALID);
}
END_TEST

START_TEST(models_bring_their_layers_and_epochs)
{
    ck_assert_int_eq(PARSE("--model", "conv"), PS_OK);
    ck_assert_str_eq(options.layers, model_by_name("conv")->layers);
    ck_assert_uint_eq(options.epochs, model_by_name("conv")->epochs);
    ck_assert_int_eq(PARSE("--epochs", "7", "--model", "conv"), PS_OK);
    ck_assert_uint_eq(options.epochs, 7);
    for (const struct digits_model *m = models; m->name != NULL; m++)
        ck_assert_int_eq(model_check(m->layers, &error), PS_OK);
}
END_TEST

START_TEST(networks_end_with_the_classes)
{
    struct ps_dataset images = {.columns = 64, .rank = 2, .dims = {8, 8}},
                      rows = {.columns = 6, .rank = 1, .dims = {6}};
    ps_network *network;
    ps_device *device;
    char text[128];

    ck_assert_int_eq(ps_device_open("cpu", NULL, &device, NULL), PS_OK);
    ck_assert_int_eq(model_new(device, "conv 2 3x3, relu", &images, 10, 4, 1, &network, &error), PS_OK);
    ck_assert_str_eq(ps_network_describe(network, text, sizeof text), "8x8x1: conv 2 3x3, relu, dense 10");
    ps_network_free(network);
    ck_assert_int_eq(model_new(device, "", &rows, 3, 4, 1, &network, &error), PS_OK);
    ck_assert_str_eq(ps_network_describe(network, text, sizeof text), "6: dense 3");
    ps_network_free(network);
    ck_assert_int_eq(model_new(device, "conv 2 3x3, relu", &rows, 3, 4, 1, &network, &error), PS_ERR_INVALID);
    ps_device_close(device);
}
END_TEST

START_TEST(age_policies_are_taken_with_their_numbers)
{
    ck_assert_int_eq(PARSE("--age", "none"), PS_OK);
    ck_assert_int_eq(PARSE("--age", "inverse"), PS_OK);
    ck_assert_int_eq(options.age, PS_AGE_INVERSE);
    ck_assert_int_eq(PARSE("--age", "exponential:0.9"), PS_OK);
    ck_assert(options.age == PS_AGE_EXPONENTIAL && options.age_parameter == 0.9);
    ck_assert_int_eq(PARSE("--age", "cutoff:8"), PS_OK);
    ck_assert(options.age == PS_AGE_CUTOFF && options.age_parameter == 8);
    ck_assert_int_eq(PARSE("--age", "cutoff:0"), PS_OK);
    ck_assert(options.age == PS_AGE_CUTOFF && options.age_parameter == 0);
}
END_TEST

START_TEST(mistakes_are_named)
{
    static const struct {
        char *argv[4];
        const char *want;
    } bad[] = {
        {{"digits", "--strategy", "fast", NULL}, "async, ssp, sync, got 'fast'"},
        {{"digits", "--strategy", NULL}, "--strategy: expected a value (NAME) after it"},
        {{"digits", "--frobnicate", NULL}, "unknown option '--frobnicate'; digits --help lists them"},
        {{"digits", "train", NULL}, "unexpected 'train': digits takes options alone"},
        {{"digits", "--strat", "ssp", NULL}, "unknown option '--strat'"},
        {{"digits", "--epochs", "0", NULL}, "--epochs: expected a number from 1 to 1000000, got '0'"},
        {{"digits", "--epochs=-1", NULL}, "--epochs: expected a number from 1 to 1000000, got '-1'"},
        {{"digits", "--epochs=2x", NULL}, "--epochs: expected a whole number, got '2x'"},
        {{"digits", "--batch=99999999999999999999", NULL}, "--batch"},
        {{"digits", "--timeout=0", NULL}, "--timeout: expected a time from 1ms to 1d, got '0'"},
        {{"digits", "--timeout=nan", NULL}, "--timeout"},
        {{"digits", "--model=tree", NULL}, "--model: expected one of mlp, conv, got 'tree'"},
        {{"digits", "--layers=dense 3, maxpol", NULL}, "--layers: layer 1: there is no layer \"maxpol\""},
        {{"digits", "--age=cutoff", NULL},
         "--age: expected none, inverse, exponential:BASE or cutoff:AGE, got 'cutoff'"},
        {{"digits", "--age=exponential:1", NULL},
         "--age: age policy exponential: the base must be between 0 and 1, not 1"},
        {{"digits", "--optimizer=lion", NULL}, "--optimizer: "},
        {{"digits", "--optimizer=adam:rho=1", NULL}, "rho"},
        {{"digits", "--quorum=4294967296", NULL}, "--quorum"},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_int_eq(digits_parse((char **)bad[i].argv), PS_ERR_INVALID);
        ck_assert_msg(strstr(error.text, bad[i].want) != NULL, "\"%s\" lacks \"%s\"", error.text, bad[i].want);
    }
}
END_TEST

/* ---- Progress ---- */

static const struct progress_state half = {
    .epoch = 15, .epochs = 30, .done = 0.5, .examples_per_s = 12345.6, .loss = 0.25, .accuracy = 0.975, .age = 1.5};

START_TEST(the_line_has_a_bar_and_the_numbers)
{
    char text[512];

    progress_format(&half, 120, false, text, sizeof text);
    ck_assert_str_eq(text, "epoch 15/30  ###############...............  50%  12,346 examples/s  loss 0.2500  accuracy "
                           "97.5%  age 1.5");
    progress_format(&half, 120, true, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "█░"));
}
END_TEST

START_TEST(the_line_never_exceeds_the_columns)
{
    struct progress_state s = half;
    char text[512];

    s.examples_per_s = 1e300;
    for (unsigned columns = 1; columns < 200; columns++)
        for (int done = -1; done < 13; done++) {
            s.done = done / 11.0;
            progress_format(&s, columns, false, text, sizeof text);
            ck_assert_uint_le(strlen(text), columns);
        }
}
END_TEST

/* What progress_show() writes for n states one tenth of a second and one hundredth of the way apart. */
static char *
digits_shown(const char *columns, double interval_s)
{
    struct digits_progress p;
    struct progress_state s = half;
    char *text = NULL;
    size_t size;
    FILE *file = tmpfile();

    if (columns != NULL)
        setenv("PSRUN_COLUMNS", columns, 1);
    else
        unsetenv("PSRUN_COLUMNS");
    progress_init(&p, file);
    for (int i = 1; i <= 100; i++) {
        s.done = i / 100.0;
        progress_show(&p, i * interval_s, &s);
    }
    progress_end(&p);
    progress_end(&p);
    size = (size_t)ftell(file);
    rewind(file);
    text = calloc(1, size + 1);
    ck_assert_uint_eq(fread(text, 1, size, file), size);
    fclose(file);
    return text;
}

static size_t
count_of(const char *text, char c)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += *text == c;
    return n;
}

START_TEST(a_file_gets_a_plain_line_at_each_tenth)
{
    char *text = digits_shown(NULL, 0.001);

    ck_assert_uint_eq(count_of(text, '\n'), 10);
    ck_assert_uint_eq(count_of(text, '\r'), 0);
    ck_assert_ptr_nonnull(strstr(text, " 10%"));
    ck_assert_ptr_nonnull(strstr(text, "100%"));
    free(text);
}
END_TEST

START_TEST(a_live_line_is_redrawn_at_most_ten_times_a_second)
{
    char *text = digits_shown("80", 0.01); /* one second in all */

    ck_assert_uint_ge(count_of(text, '\r'), 9);
    ck_assert_uint_le(count_of(text, '\r'), 12);
    ck_assert_uint_eq(count_of(text, '\n'), 1);
    ck_assert_uint_eq(count_of(text, '\x1b'), 0); /* psrun does the clearing */
    ck_assert_ptr_nonnull(strstr(text, "100%"));
    free(text);
}
END_TEST

/* ---- Counts ---- */

START_TEST(reports_are_added_up)
{
    struct digits_counts c = {0};
    char text[48];

    counts_add_variables(&c,
                         "{\"kind\":\"variables\", \"variable\": [{\"name\": \"pushed_bytes\", \"pushed_bytes\": 100,"
                         "\"pulled_bytes\":\"20\",\"pushes\" : 3, \"refused\":1},\n{\"pushed_bytes\":5,"
                         "\"pulled_bytes\":1,\"pushes\":4,\"dropped\":2}]}");
    counts_add_variables(&c, "{}");
    ck_assert(c.pushed_bytes == 105 && c.pulled_bytes == 21 && c.pushes == 7 && c.dropped == 2 && c.refused == 1);
    counts_add_stats(&c, "{\"stats\":{\"pushes_applied\":9,\"age\":{\"count\":[3, 0,\"2\"]}}}");
    counts_add_stats(&c, "{\"age\": [1,1,1,1]}");
    counts_add_stats(&c, "{\"stats\":{}}");
    counts_add_stats(&c, "{\"age\":[]}");
    ck_assert(c.ages[0] == 4 && c.ages[1] == 1 && c.ages[2] == 3 && c.ages[3] == 1 && c.ages[4] == 0);
    ck_assert_str_eq(counts_age_range(0, text), "0");
    ck_assert_str_eq(counts_age_range(1, text), "1");
    ck_assert_str_eq(counts_age_range(3, text), "4-7");
    ck_assert_str_eq(counts_age_range(32, text), "2147483648-4294967295");
}
END_TEST

START_TEST(more_ages_than_expected_are_cut_off)
{
    struct digits_counts c = {0};
    char json[512] = "{\"age\":[1";

    for (int i = 0; i < 60; i++)
        strcat(json, ",1");
    strcat(json, "]}");
    counts_add_stats(&c, json);
    for (size_t i = 0; i < COUNTS_AGES; i++)
        ck_assert_uint_eq(c.ages[i], 1);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("digits");
    TCase *tc = tcase_create("digits");

    tcase_add_test(tc, defaults_are_what_help_says);
    tcase_add_test(tc, every_option_is_taken);
    tcase_add_test(tc, strategies_go_by_their_names_or_modes);
    tcase_add_test(tc, compressions_are_taken_with_their_fractions);
    tcase_add_test(tc, models_bring_their_layers_and_epochs);
    tcase_add_test(tc, networks_end_with_the_classes);
    tcase_add_test(tc, age_policies_are_taken_with_their_numbers);
    tcase_add_test(tc, mistakes_are_named);
    tcase_add_test(tc, the_line_has_a_bar_and_the_numbers);
    tcase_add_test(tc, the_line_never_exceeds_the_columns);
    tcase_add_test(tc, a_file_gets_a_plain_line_at_each_tenth);
    tcase_add_test(tc, a_live_line_is_redrawn_at_most_ten_times_a_second);
    tcase_add_test(tc, reports_are_added_up);
    tcase_add_test(tc, more_ages_than_expected_are_cut_off);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
