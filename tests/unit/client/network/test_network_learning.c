/* Networks that learn, which requires that every part works. */
#include "tests/unit/client/network/network_kit.h"

/* ---- By heart: random points with random labels ---- */

enum { HEART_ROWS = 24, HEART_INPUTS = 24, HEART_CLASSES = 5 };

static const struct kit_spec heart[] = {
    {.layers = "dense 48, relu, dense 5", .dims = {24}, .seed = 1},
    {.layers = "dense 48, tanh, dense 5", .dims = {24}, .seed = 1},
    {.layers = "conv 12 3x2 same, relu, maxpool 2, dense 24, tanh, dense 5", .dims = {4, 6, 1}, .seed = 1},
};

START_TEST(they_learn_a_tiny_set_by_heart)
{
    ps_network *network = network_make(_i % 2 == 0 ? cpu : &apart, &heart[_i / 2]);
    float x[HEART_ROWS * HEART_INPUTS], outputs[HEART_ROWS * HEART_CLASSES];
    uint32_t labels[HEART_ROWS], classes[HEART_ROWS];
    struct ps_batch batch = {.rows = HEART_ROWS, .x = x, .labels = labels};
    struct test_rng rng = {test_seed()};
    struct ps_network_result result;

    for (size_t i = 0; i < ARRAY_LEN(x); i++)
        x[i] = test_float(&rng);
    for (size_t i = 0; i < HEART_ROWS; i++)
        labels[i] = (uint32_t)test_below(&rng, HEART_CLASSES);
    ps_network_initialize(network);
    for (int step = 0; step < 2000; step++) {
        ck_assert_int_eq(ps_network_gradient(network, &batch, 1.0f / HEART_ROWS, 0, &result, NULL), PS_OK);
        network_descend(network, 0.3f);
    }
    ck_assert_int_eq(ps_network_evaluate(network, &batch, &result, NULL), PS_OK);
    ck_assert_uint_eq(result.correct, HEART_ROWS);
    ck_assert_double_lt(result.loss / HEART_ROWS, 0.1);
    ck_assert_int_eq(ps_network_classify(network, &batch, classes, NULL), PS_OK);
    ck_assert_mem_eq(classes, labels, sizeof labels);
    ck_assert_int_eq(ps_network_predict(network, &batch, outputs, NULL), PS_OK);
    for (size_t i = 0; i < ARRAY_LEN(outputs); i++)
        ck_assert(outputs[i] <= outputs[i / HEART_CLASSES * HEART_CLASSES + labels[i / HEART_CLASSES]]);
    ps_network_free(network);
}
END_TEST

/* ---- The shipped digits ---- */

static const struct {
    struct kit_spec spec;
    uint64_t epochs;
    size_t correct; /* of 300 at least */
} readers[] = {
    {{.layers = "dense 64, relu, dense 10", .dims = {64}, .rows_max = 50, .seed = 1}, 30, 285},
    {{.layers = "conv 16 3x3 same, relu, maxpool 2, conv 32 3x3 same, relu, maxpool 2, dense 10",
      .dims = {8, 8, 1},
      .rows_max = 50,
      .seed = 1},
     15,
     291},
};

START_TEST(they_read_the_shipped_digits)
{
    ps_network *network = network_make(cpu, &readers[_i].spec);
    struct ps_dataset train, held_out;
    struct ps_network_result result;
    static float x[50 * 64];
    uint32_t labels[50];
    ps_sampler *sampler;

    digits_load(&train, &held_out);
    ck_assert_int_eq(ps_sampler_new(train.rows, 50, 1, 0, 1, &sampler, NULL), PS_OK);
    ps_network_initialize(network);
    for (uint64_t epoch = 0; epoch < readers[_i].epochs; epoch++)
        for (uint64_t step = 0; step < ps_sampler_steps(sampler); step++) {
            struct ps_slice slice = ps_sampler_slice(sampler, epoch, step);
            struct ps_batch batch = {.rows = slice.count, .x = x, .labels = labels};

            ps_dataset_gather(&train, slice.count, slice.index, x, labels);
            ck_assert_int_eq(ps_network_gradient(network, &batch, ps_slice_scale_sum(&slice), 0, &result, NULL), PS_OK);
            network_descend(network, 0.2f);
        }
    /* rows_max is 50: 300 rows are evaluated in parts */
    ck_assert_int_eq(
        ps_network_evaluate(network, &(struct ps_batch){.rows = 300, .x = held_out.features, .labels = held_out.labels},
                            &result, NULL),
        PS_OK);
    ck_assert_uint_eq(result.rows, 300);
    ck_assert_msg(result.correct >= readers[_i].correct, "%zu of 300 held-out digits", result.correct);
    ps_network_free(network);
    ps_sampler_free(sampler);
    ps_dataset_free(&train);
    ps_dataset_free(&held_out);
}
END_TEST

/* ---- A bag of words: order does not matter, which words does ---- */

enum { BAG_ROWS = 512, BAG_WORDS = 6, VOCABULARY = 40, TOPICS = 4, HELD_OUT = 128 };

/* Word w speaks for topic w % TOPICS: an example's label is the topic of most of its words, its targets are whether
 * each topic has any. */
static void
draw_bags(struct test_rng *rng, uint32_t *ids, uint32_t *labels, float *targets)
{
    for (size_t r = 0; r < BAG_ROWS; r++) {
        size_t count[TOPICS] = {0}, topic = test_below(rng, TOPICS);

        for (size_t i = 0; i < BAG_WORDS; i++) {
            uint32_t word = (uint32_t)test_below(rng, VOCABULARY);

            if (i < BAG_WORDS / 2 + 1) /* most of them */
                word = word - word % TOPICS + (uint32_t)topic;
            ids[r * BAG_WORDS + i] = word;
            count[word % TOPICS]++;
        }
        labels[r] = (uint32_t)topic;
        for (size_t t = 0; t < TOPICS; t++)
            targets[r * TOPICS + t] = count[t] > 0;
    }
}

START_TEST(embeddings_learn_what_words_mean)
{
    const struct kit_spec spec = {.layers = "embedding 40 8, avgpool, dense 4",
                                  .dims = {BAG_WORDS},
                                  .loss = _i < 2 ? PS_LOSS_SOFTMAX : PS_LOSS_SIGMOID,
                                  .rows_max = BAG_ROWS};
    ps_network *network = network_make(_i % 2 == 0 ? cpu : &apart, &spec);
    static uint32_t ids[BAG_ROWS * BAG_WORDS], labels[BAG_ROWS], classes[HELD_OUT * TOPICS];
    static float targets[BAG_ROWS * TOPICS];
    enum { ROWS = BAG_ROWS - HELD_OUT };
    struct ps_batch train = {.rows = ROWS, .ids = ids, .labels = labels, .targets = targets},
                    held_out = {.rows = HELD_OUT,
                                .ids = ids + ROWS * BAG_WORDS,
                                .labels = labels + ROWS,
                                .targets = targets + ROWS * TOPICS};
    struct test_rng rng = {test_seed()};
    struct ps_network_result result;

    draw_bags(&rng, ids, labels, targets);
    ps_network_initialize(network);
    for (int step = 0; step < 600; step++) {
        ck_assert_int_eq(ps_network_gradient(network, &train, 1.0f / ROWS, 0, NULL, NULL), PS_OK);
        network_descend(network, 10);
    }
    ck_assert_int_eq(ps_network_evaluate(network, &held_out, &result, NULL), PS_OK);
    ck_assert_uint_eq(result.rows, HELD_OUT);
    ck_assert_msg(result.correct >= HELD_OUT * 9 / 10, "%zu of %d", result.correct, HELD_OUT);
    ck_assert_int_eq(ps_network_classify(network, &held_out, classes, NULL), PS_OK);
    for (size_t r = 0; r < HELD_OUT; r++) {
        bool right = true;

        if (_i < 2)
            right = classes[r] == held_out.labels[r];
        for (size_t t = 0; t < TOPICS && _i >= 2; t++)
            right = right && (float)classes[r * TOPICS + t] == held_out.targets[r * TOPICS + t];
        result.correct -= right;
    }
    ck_assert_uint_eq(result.correct, 0);
    ps_network_free(network);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("network_learning");
    TCase *tc = tcase_create("network_learning");

    tcase_add_checked_fixture(tc, network_setup, network_teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, they_learn_a_tiny_set_by_heart, 0, 2 * ARRAY_LEN(heart));
    tcase_add_loop_test(tc, they_read_the_shipped_digits, 0, ARRAY_LEN(readers));
    tcase_add_loop_test(tc, embeddings_learn_what_words_mean, 0, 4);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
