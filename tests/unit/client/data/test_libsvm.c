/* LIBSVM text: labels, indices, values; errors name file, line and character. */
#include "client/data/libsvm.h"

#include "common/core/base/base.h"
#include "tests/unit/client/data/data_files.h"

static struct ps_error error;

static enum ps_err
libsvm_parse_text(const char *text, struct ps_libsvm_options options, struct ps_sparse *out)
{
    memset(out, 0, sizeof *out);
    return ps_libsvm_read(write_plain("t.svm", text, strlen(text)), &options, out, &error);
}

static void
assert_refused(const char *text, struct ps_libsvm_options options, const char *want)
{
    struct ps_sparse m;

    ck_assert_msg(libsvm_parse_text(text, options, &m) == PS_ERR_DATA, "%s: taken", text);
    ck_assert_msg(strstr(error.text, want) != NULL, "%s: \"%s\" does not say \"%s\"", text, error.text, want);
    ck_assert_ptr_null(m.start);
}

static void
assert_entries(const struct ps_sparse *m, uint64_t n, const uint32_t *column, const float *value)
{
    ck_assert_uint_eq(m->entries, n);
    for (uint64_t i = 0; i < n; i++) {
        ck_assert_uint_eq(m->column[i], column[i]);
        ck_assert_msg(m->value[i] == value[i], "value %d is %g", (int)i, (double)m->value[i]);
    }
}

START_TEST(rows_hold_what_their_lines_say)
{
    static const char text[] = "+1 1:0.5 3:-2e1\n\n-1\r\n# all of a comment\n0.25 2:7 # and its end\n7 1:.5 2:-0 4:+3";
    struct ps_sparse m;

    ck_assert_msg(libsvm_parse_text(text, (struct ps_libsvm_options){0}, &m) == PS_OK, "%s", error.text);
    ck_assert_uint_eq(m.rows, 4);
    ck_assert_uint_eq(m.columns, 4);
    assert_entries(&m, 6, (uint32_t[]){0, 2, 1, 0, 1, 3}, (float[]){.5f, -20, 7, .5f, 0, 3});
    for (int r = 0; r <= 4; r++)
        ck_assert_uint_eq(m.start[r], ((uint64_t[]){0, 2, 2, 3, 6})[r]);
    for (int r = 0; r < 4; r++)
        ck_assert(m.label[r] == ((float[]){1, -1, .25f, 7})[r]);
    ps_sparse_free(&m);
    ps_sparse_free(&m); /* a freed one is accepted */
}
END_TEST

START_TEST(what_is_wrong_with_examples_names_their_file)
{
    struct ps_scaling scaling = {.columns = 9};
    struct ps_binary two = {.negative = 0, .positive = 1};
    struct ps_sparse m;
    float targets[2];
    char all[PS_ERROR_TEXT_MAX];

    ck_assert_int_eq(libsvm_parse_text("3 1:5\n3 2:6\n", (struct ps_libsvm_options){0}, &m), PS_OK);
    snprintf(all, sizeof all, "%s: all 2 labels are 3", data_path("t.svm"));
    ck_assert_int_eq(ps_binary_fit(&m, &two, &error), PS_ERR_DATA);
    assert_error(error, PS_ERR_DATA, all);
    ck_assert_int_eq(ps_binary_targets(&m, &two, targets, &error), PS_ERR_DATA);
    assert_error(error, PS_ERR_DATA, "t.svm: example 1 has the label 3");
    ck_assert_int_eq(ps_sparse_scale(&m, &scaling, &error), PS_ERR_INVALID);
    assert_error(error, PS_ERR_INVALID, "t.svm: scaling: made for 9 columns");
    ps_sparse_free(&m);
}
END_TEST

START_TEST(the_first_column_is_called_as_told_or_as_seen)
{
    struct ps_sparse m;

    ck_assert_int_eq(libsvm_parse_text("1 0:5 2:6\n", (struct ps_libsvm_options){.base = PS_LIBSVM_FROM_0}, &m), PS_OK);
    ck_assert_uint_eq(m.columns, 3);
    assert_entries(&m, 2, (uint32_t[]){0, 2}, (float[]){5, 6});
    ps_sparse_free(&m);
    ck_assert_int_eq(libsvm_parse_text("1 0:5 2:6\n", (struct ps_libsvm_options){.base = PS_LIBSVM_DETECT}, &m), PS_OK);
    ck_assert_uint_eq(m.columns, 3);
    ps_sparse_free(&m);
    ck_assert_int_eq(libsvm_parse_text("1 1:5 2:6\n", (struct ps_libsvm_options){.base = PS_LIBSVM_DETECT}, &m), PS_OK);
    ck_assert_uint_eq(m.columns, 2);
    assert_entries(&m, 2, (uint32_t[]){0, 1}, (float[]){5, 6});
    ps_sparse_free(&m);
}
END_TEST

START_TEST(a_held_out_part_has_the_columns_it_is_told)
{
    struct ps_sparse m;

    ck_assert_int_eq(libsvm_parse_text("1 2:5\n", (struct ps_libsvm_options){.columns = 9}, &m), PS_OK);
    ck_assert_uint_eq(m.columns, 9);
    ps_sparse_free(&m);
    ck_assert_int_eq(libsvm_parse_text("1\n-1\n", (struct ps_libsvm_options){.columns = 9}, &m), PS_OK);
    ck_assert_uint_eq(m.entries, 0);
    ps_sparse_free(&m);
    ck_assert_int_eq(libsvm_parse_text("1 9:5\n", (struct ps_libsvm_options){.columns = 9}, &m), PS_OK);
    ps_sparse_free(&m);
    assert_refused("1 10:5\n", (struct ps_libsvm_options){.columns = 9},
                   "t.svm:1:3: the index 10 is past the last column, 9");
    assert_refused("1 9:5\n", (struct ps_libsvm_options){.columns = 9, .base = PS_LIBSVM_FROM_0},
                   "past the last column, 8");
    assert_refused("1 0:1\n1 9:5\n", (struct ps_libsvm_options){.columns = 9, .base = PS_LIBSVM_DETECT},
                   "t.svm:2:3: the index 9 is past the last column, 8");
    ck_assert_int_eq(libsvm_parse_text("1 9:5\n", (struct ps_libsvm_options){.columns = 1ull << 40}, &m),
                     PS_ERR_INVALID);
}
END_TEST

/* ---- Files of one data set ---- */

static enum ps_err
read_parts(const char *train, const char *held_out, struct ps_libsvm_options options, struct ps_sparse out[2])
{
    const char *paths[] = {write_plain("train.svm", train, strlen(train)),
                           write_plain("held.svm", held_out, strlen(held_out))};

    memset(out, 0, 2 * sizeof *out);
    return ps_libsvm_read_parts(2, paths, &options, out, &error);
}

/* Read apart, the held-out part, which names a column 0, was shifted by one against what was trained: 0 % were right.
 */
START_TEST(the_first_column_is_one_for_all_parts)
{
    struct ps_libsvm_options detect = {.base = PS_LIBSVM_DETECT};
    struct ps_sparse m[2];

    ck_assert_msg(read_parts("1 1:5 3:6\n", "1 0:7 3:8\n", detect, m) == PS_OK, "%s", error.text);
    ck_assert(m[0].columns == 4 && m[1].columns == 4);
    assert_entries(&m[0], 2, (uint32_t[]){1, 3}, (float[]){5, 6});
    assert_entries(&m[1], 2, (uint32_t[]){0, 3}, (float[]){7, 8});
    ps_sparse_free(&m[0]);
    ps_sparse_free(&m[1]);
    ck_assert_int_eq(read_parts("1 0:5 3:6\n", "1 1:7\n", detect, m), PS_OK);
    assert_entries(&m[1], 1, (uint32_t[]){1}, (float[]){7});
    ps_sparse_free(&m[0]);
    ps_sparse_free(&m[1]);
    ck_assert_int_eq(read_parts("1 2:5\n", "1 1:7\n", detect, m), PS_OK);
    assert_entries(&m[0], 1, (uint32_t[]){1}, (float[]){5});
    assert_entries(&m[1], 1, (uint32_t[]){0}, (float[]){7});
    ps_sparse_free(&m[0]);
    ps_sparse_free(&m[1]);
}
END_TEST

START_TEST(all_parts_have_the_columns_of_the_widest_or_as_told)
{
    struct ps_sparse m[2];

    ck_assert_int_eq(read_parts("1 3:1\n", "1 5:1\n-1\n", (struct ps_libsvm_options){0}, m), PS_OK);
    ck_assert(m[0].columns == 5 && m[1].columns == 5 && m[1].rows == 2);
    ps_sparse_free(&m[0]);
    ps_sparse_free(&m[1]);
    ck_assert_int_eq(read_parts("1 3:1\n", "1\n-1\n", (struct ps_libsvm_options){.columns = 9}, m), PS_OK);
    ck_assert(m[0].columns == 9 && m[1].columns == 9 && m[1].entries == 0);
    ps_sparse_free(&m[0]);
    ps_sparse_free(&m[1]);
    ck_assert_int_eq(read_parts("1 3:1\n", "1 1:1\n1 1:1 5:1\n", (struct ps_libsvm_options){.columns = 4}, m),
                     PS_ERR_DATA);
    assert_error(error, PS_ERR_DATA, "held.svm:2:7: the index 5 is past the last column, 4");
    ck_assert(m[0].start == NULL && m[1].start == NULL);
    ck_assert_int_eq(
        read_parts("1 0:1\n", "1 4:1\n", (struct ps_libsvm_options){.columns = 4, .base = PS_LIBSVM_DETECT}, m),
        PS_ERR_DATA);
    assert_error(error, PS_ERR_DATA, "held.svm:1:3: the index 4 is past the last column, 3");
    ck_assert_int_eq(ps_libsvm_read_parts(0, NULL, NULL, m, &error), PS_ERR_INVALID);
}
END_TEST

/* One index of 2^31 - 1 made a model of gigabytes before anybody was asked. */
START_TEST(an_index_far_away_is_refused_where_it_stands)
{
    struct ps_libsvm_options most = {.columns_max = 1000};
    struct ps_sparse m;

    assert_refused("1 1:1\n1 2:1 2147483647:0.5\n", most,
                   "t.svm:2:7: the index 2147483647 is past 1000: so many columns are taken only where columns says");
    assert_refused("1 1001:1\n", most, "t.svm:1:3: the index 1001 is past 1000");
    ck_assert_int_eq(libsvm_parse_text("1 1000:1\n", most, &m), PS_OK);
    ck_assert_uint_eq(m.columns, 1000);
    ps_sparse_free(&m);
    most.base = PS_LIBSVM_FROM_0;
    assert_refused("1 1000:1\n", most, "is past 999");
    most.base = PS_LIBSVM_DETECT;
    assert_refused("1 0:1 1000:1\n", most, "is past 999");
    ck_assert_int_eq(libsvm_parse_text("1 1000:1\n", most, &m), PS_OK);
    ps_sparse_free(&m);
    most.columns = 2000; /* who says how many there are has all of them */
    ck_assert_int_eq(libsvm_parse_text("1 2000:1\n", most, &m), PS_OK);
    ps_sparse_free(&m);
    ck_assert_int_eq(libsvm_parse_text("1 1:1\n", (struct ps_libsvm_options){.columns_max = 1ull << 40}, &m),
                     PS_ERR_INVALID);
}
END_TEST

/* ---- What other programs write ---- */

START_TEST(files_of_other_programs_are_the_same)
{
    static const char *const texts[] = {
        "0 21:1.00 63:.50\n1 63:.25\n",
        "0  21:1.00   63: .50\n1   63: .25\n", /* dataset "protein"; svm-train takes it */
        "0\t21 : 1.00\t63 :.50\t\n1\t63:\t.25 \n",
        "\357\273\2770 21:1.00 63:.50\n1 63:.25",
        "\xef\xbb\xbf# by hand\r\n0 21:1.00 63:.50\r\n1 63:.25\r\n",
        "# Generated by dump_svmlight_file\r0 21:1e0 63:5e-1\r1 63:+.25\r",
        "+0 21:1. 63:0.5 # a comment with 1:2\n\n   \n+1 63:0.250\n",
    };
    struct ps_sparse m;

    ck_assert_msg(libsvm_parse_text(texts[_i], (struct ps_libsvm_options){0}, &m) == PS_OK, "%s: %s", texts[_i],
                  error.text);
    ck_assert(m.rows == 2 && m.columns == 63 && m.label[0] == 0 && m.label[1] == 1);
    assert_entries(&m, 3, (uint32_t[]){20, 62, 62}, (float[]){1, .5f, .25f});
    ps_sparse_free(&m);
}
END_TEST

static const struct {
    const char *text, *want;
} refused[] = {
    {"1,3 1:2\n", "several labels (1,3) are not supported"},
    {"1:0.5 2:1\n", "t.svm:1:1: the label \"1:0.5\" is not a number: it is an index"},
    {"1 1 2:3\n", "t.svm:1:3: expected index:value, got \"1\""},
    {"1 1: 2:3\n", "t.svm:1:6: the value \"2:3\" is not a number"},
    {"1 1:nan\n", "the value \"nan\" is not a number: NaN and Inf are refused"},
    {"1 1:0x1p3\n", "the value \"0x1p3\" is not a number: hexadecimal"},
    {"1 1:0,5\n", "the value \"0,5\" is not a number: it has a comma where a point is expected"},
    {"1 1:1 1:1\n", "t.svm:1:7: the index 1 does not come after 1"},
    {"1 +1:1\n", "the index \"+1\" is not a whole number"},
    {"\xef\xbb\xbf\n\357\273\2771 1:1\n", "t.svm:2:1: the label \"\\ufeff1\" is not a number"},
    {"\xff\xfe"
     "1",
     "t.svm is text in UTF-16: save it as UTF-8"},
    {"BZh91AY", "t.svm is compressed with bzip2: unpack it (bunzip2)"},
    {"", "t.svm:1:1: there are no examples"},
    {"\n# only this\n", "t.svm:3:1: there are no examples"},
    {"1\n-1\n", "no example has a feature"},
    {"1 1:2\nx 1:2\n", "t.svm:2:1: the label \"x\" is not a number"},
    {"nan 1:2\n", "the label \"nan\" is not a number"},
    {"1,3 1:2\n", "the label \"1,3\" is not a number"},
    {"1e99 1:2\n", "the label 1e99 is too large"},
    {"1 2\n", "t.svm:1:3: expected index:value, got \"2\""},
    {"1 qid:3 1:2\n", "t.svm:1:3: query ids"},
    {"1 -1:2\n", "the index \"-1\" is not a whole number"},
    {"1 1.5:2\n", "the index \"1.5\" is not a whole number"},
    {"1 :2\n", "the index \"\" is not a whole number"},
    {"1 0:2\n", "the index is 0"},
    {"1 99999999999:2\n", "the index 99999999999 is larger than 2147483647"},
    {"1 99999999999999999999999:2\n", "is larger than"},
    {"1 1:2 1:3\n", "t.svm:1:7: the index 1 does not come after 1"},
    {"1 3:2   2:3\n", "t.svm:1:9: the index 2 does not come after 3"},
    {"1 1:\n", "t.svm:1:5: the value \"\" is not a number"},
    {"1 1:2:3\n", "the value \"2:3\" is not a number"},
    {"1 1:inf\n", "the value \"inf\" is not a number"},
    {"1 1:0x10\n", "the value \"0x10\" is not a number"},
    {"1 1:1e40\n", "the value 1e40 is too large"},
};

START_TEST(what_is_wrong_is_named_with_its_place)
{
    assert_refused(refused[_i].text, (struct ps_libsvm_options){0}, refused[_i].want);
}
END_TEST

START_TEST(a_zero_byte_is_refused)
{
    static const char text[] = "1 1:2\n1 1:2\0 3:4\n";
    struct ps_sparse m;

    ck_assert_int_eq(ps_libsvm_read(write_plain("t.svm", text, sizeof text - 1), NULL, &m, &error), PS_ERR_DATA);
    ck_assert_ptr_nonnull(strstr(error.text, "t.svm:2:1: the line holds a zero byte"));
}
END_TEST

/* Whatever the bytes are: an error or a matrix that keeps its own promises. */
START_TEST(any_bytes_are_taken_or_refused)
{
    static const char letters[] = "0123456789:: \n\n\t#+-.eq\r";
    struct test_rng rng = {test_seed()};
    char text[200];

    for (int round = 0; round < 20000; round++) {
        size_t len = test_rand(&rng) % sizeof text;
        char *copy = malloc(len + 1);
        struct ps_sparse m;

        for (size_t i = 0; i < len; i++)
            text[i] = letters[test_rand(&rng) % (sizeof letters - 1)];
        memcpy(copy, text, len);
        copy[len] = '\0';
        if (libsvm_parse("t", copy, len, &(struct ps_libsvm_options){.base = PS_LIBSVM_DETECT}, &m, &error) == PS_OK) {
            ck_assert_uint_eq(m.start[0], 0);
            ck_assert_uint_eq(m.start[m.rows], m.entries);
            for (uint64_t r = 0; r < m.rows; r++)
                for (uint64_t i = m.start[r]; i < m.start[r + 1]; i++)
                    ck_assert(m.column[i] < m.columns && (i == m.start[r] || m.column[i - 1] < m.column[i]));
            ps_sparse_free(&m);
        }
        free(copy);
    }
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("libsvm");
    TCase *tc = tcase_create("libsvm");

    tcase_add_checked_fixture(tc, data_dir_make, data_dir_remove);
    tcase_add_test(tc, rows_hold_what_their_lines_say);
    tcase_add_test(tc, what_is_wrong_with_examples_names_their_file);
    tcase_add_test(tc, the_first_column_is_called_as_told_or_as_seen);
    tcase_add_test(tc, a_held_out_part_has_the_columns_it_is_told);
    tcase_add_test(tc, the_first_column_is_one_for_all_parts);
    tcase_add_test(tc, all_parts_have_the_columns_of_the_widest_or_as_told);
    tcase_add_test(tc, an_index_far_away_is_refused_where_it_stands);
    tcase_add_loop_test(tc, files_of_other_programs_are_the_same, 0, 7);
    tcase_add_loop_test(tc, what_is_wrong_is_named_with_its_place, 0, ARRAY_LEN(refused));
    tcase_add_test(tc, a_zero_byte_is_refused);
    tcase_add_test(tc, any_bytes_are_taken_or_refused);
    suite_add_tcase(s, tc);
    return s;
}

CHECK_MAIN(make_suite)
