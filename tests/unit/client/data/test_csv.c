/* CSV tables: numbers, headers, fields; errors name file, line and column. */
#include "client/data/csv.h"

#include "common/core/base/base.h"
#include "tests/unit/client/data/data_files.h"
#include "tests/unit/kits/comma_locale.h"

static struct ps_error error;

static enum ps_err
csv_parse_text(const char *text, char delimiter, enum ps_csv_header header, struct ps_csv *out)
{
    struct ps_csv_options options = {.delimiter = delimiter, .header = header};

    memset(out, 0, sizeof *out);
    return ps_csv_read(write_plain("t.csv", text, strlen(text)), &options, out, &error);
}

static void
assert_table(const char *text, char delimiter, uint64_t rows, uint64_t columns, const double *want)
{
    struct ps_csv csv;

    if (csv_parse_text(text, delimiter, PS_CSV_HEADER_DETECT, &csv) != PS_OK)
        ck_abort_msg("%s: %s", text, error.text);
    ck_assert_uint_eq(csv.rows, rows);
    ck_assert_uint_eq(csv.columns, columns);
    for (uint64_t i = 0; i < rows * columns; i++)
        ck_assert_msg(csv.values[i] == want[i], "%s: value %d is %g", text, (int)i, csv.values[i]);
    ps_csv_free(&csv);
}

START_TEST(numbers_are_read_row_by_row)
{
    static const double want[] = {1, -2.5, 3e4, .25, +7, -0.0};

    assert_table("1,-2.5,3e4\n.25,+7,-0.0\n", 0, 2, 3, want);
    assert_table("1,-2.5,3e4\n.25,+7,-0.0", 0, 2, 3, want);                     /* no end of line at the end */
    assert_table("1,-2.5,3e4\r\n.25,+7,-0.0\r\n", 0, 2, 3, want);               /* CRLF */
    assert_table("\n\n1 , -2.5,\t3e4  \n   \n .25,+7,-0.0\n\n", 0, 2, 3, want); /* blanks and empty lines */
    assert_table("\"1\", \"-2.5\",\"3e4\" \n.25, \"+7\" ,-0.0\n", 0, 2, 3, (double[]){1, -2.5, 3e4, .25, 7, 0});
    assert_table("\357\273\2771,-2.5,3e4\n.25,+7,-0.0\n", 0, 2, 3, want); /* byte order mark */
    assert_table("5", 0, 1, 1, (double[]){5});
}
END_TEST

START_TEST(the_delimiter_is_found_or_told)
{
    static const double want[] = {1, 2, 3, 4};

    assert_table("1,2\n3,4\n", 0, 2, 2, want);
    assert_table("1;2\n3;4\n", 0, 2, 2, want);
    assert_table("1\t2\n3\t4\n", 0, 2, 2, want);
    assert_table("1|2\n3| 4\n", '|', 2, 2, want);
    assert_table("1\n2\n3\n4\n", 0, 4, 1, want);
    assert_table("1 2\n3 4\n", ' ', 2, 2, want);
}
END_TEST

START_TEST(a_header_is_detected_or_told)
{
    struct ps_csv csv;

    ck_assert_int_eq(csv_parse_text("width,\"a, \"\"b\"\"\"\n1,2\n", 0, PS_CSV_HEADER_DETECT, &csv), PS_OK);
    ck_assert_uint_eq(csv.rows, 1);
    ck_assert_str_eq(csv.names[0], "width");
    ck_assert_str_eq(csv.names[1], "a, \"b\"");
    ps_csv_free(&csv);
    ck_assert_int_eq(csv_parse_text("1,2\n3,4\n", 0, PS_CSV_HEADER_YES, &csv), PS_OK);
    ck_assert_uint_eq(csv.rows, 1);
    ck_assert_str_eq(csv.names[1], "2");
    ps_csv_free(&csv);
    ck_assert_int_eq(csv_parse_text("1,2\n3,4\n", 0, PS_CSV_HEADER_DETECT, &csv), PS_OK);
    ck_assert_uint_eq(csv.rows, 2);
    ck_assert_ptr_null(csv.names);
    ps_csv_free(&csv);
    ck_assert_int_ne(csv_parse_text("a,b\n3,4\n", 0, PS_CSV_HEADER_NO, &csv), PS_OK);
    assert_error(error, PS_ERR_DATA, "t.csv:1:1: \"a\" is not a number");
}
END_TEST

/* ---- What other programs write ---- */

/* A first line with one value that is no number was taken for names, and an example was gone in silence. */
static const struct {
    const char *text, *want;
} mixed[] = {
    {"30,2,85,18.5,?,1\n50,1,135,42,3.5,1\n", "t.csv:1:5: \"?\" is not a number: a value is missing"},
    {"5.1,3.5,setosa\n4.9,3.0,1\n", "t.csv:1:3: \"setosa\" is not a number (other fields of this first line are"},
    {"NA,1\n2,3\n", "t.csv:1:1: \"NA\" is not a number: a value is missing"},
    {"1,#DIV/0!\n2,3\n", "t.csv:1:2: \"#DIV/0!\" is not a number"},
    {"#DIV/0!,1\n2,3\n", "t.csv:1:1: \"#DIV/0!\" is not a number"},
    {"nan\n1\n2\n", "t.csv:1:1: \"nan\" is not a number: NaN and Inf are refused"},
    {"NA,?\n2,3\n", "t.csv:1:1: \"NA\" is not a number"},
    {"0x1f,0x20\n1,2\n", "t.csv:1:1: \"0x1f\" is not a number: hexadecimal"},
    {"1.5D+3,2\n1,2\n", "t.csv:1:1: \"1.5D+3\" is not a number: an exponent begins with e"},
    {"12%;3\n1;2\n", "t.csv:1:1: \"12%\" is not a number: it has a unit"},
    {"1.234.567;2\n1;2\n", "t.csv:1:1: \"1.234.567\" is not a number: thousands"},
    {"\"1,234\",2\n1,2\n", "t.csv:1:1: \"1,234\" is not a number"},
    {"id,2019,2020\n1,2,3\n",
     "t.csv:1:1: \"id\" is not a number (other fields of this first line are; set header to PS_CSV_HEADER_YES"},
    {"0,1,2,3\n5,6,7,8\n", "t.csv:1:1: the first line counts the columns: set header"},
};

START_TEST(a_first_line_of_names_and_numbers_is_refused)
{
    struct ps_csv csv;

    ck_assert_msg(csv_parse_text(mixed[_i].text, 0, PS_CSV_HEADER_DETECT, &csv) == PS_ERR_DATA, "%s", mixed[_i].text);
    ck_assert_msg(strstr(error.text, mixed[_i].want) != NULL, "\"%s\" is not \"%s\"", error.text, mixed[_i].want);
    ck_assert_int_eq(csv_parse_text(mixed[_i].text, 0, PS_CSV_HEADER_YES, &csv), PS_OK); /* an option decides */
    ck_assert_ptr_nonnull(csv.names);
    ps_csv_free(&csv);
}
END_TEST

START_TEST(names_may_look_like_much_but_not_like_numbers)
{
    static const char *const names[] = {"1x1,1x2\n1,2\n", "a,\n1,2\n",   ",a\n1,2\n",  "2024-01-05,2024-01-06\n1,2\n",
                                        "x\n1\n",         "NA,b\n1,2\n", "_,-\n1,2\n", "\"Price\n(net)\",b\n1,2\n"};
    struct ps_csv csv;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        ck_assert_msg(csv_parse_text(names[i], 0, PS_CSV_HEADER_DETECT, &csv) == PS_OK, "%s: %s", names[i], error.text);
        ck_assert(csv.rows == 1 && csv.names != NULL && csv.values[0] == 1);
        ps_csv_free(&csv);
    }
}
END_TEST

static const struct {
    const char *text;
    uint64_t rows, columns;
    const char *name; /* of the first column; NULL: none */
} dialects[] = {
    {"\"Price, net\";\"Weight\"\n1.5;2\n3;4\n", 2, 2, "Price, net"},
    {"Price, net;Weight\n1.5;2\n3;4\n", 2, 2, "Price, net"},
    {"\"a;b\",c\n1.5,2\n3,4\n", 2, 2, "a;b"},
    {"\n1;2;3\n4;5;6\n", 2, 3, NULL},
    {"\r\n\r\n1\t2\r\n3\t4\r\n", 2, 2, NULL},
    {"1,\t2\n3,\t4\n", 2, 2, NULL},
    {"1|2|3\n4|5|6\n", 2, 3, NULL},
    {"sep=;\n1;2\n3;4\n", 2, 2, NULL},
    {"\357\273\277SEP=|\r\na|b\r\n3|4\r\n", 1, 2, "a"},
    {"1.0e+00 2.0e+00\n3.0e+00 4.0e+00\n", 2, 2, NULL}, /* numpy.savetxt() */
    {"  1   2\t3 \n 4 5  6\n", 2, 3, NULL},             /* MATLAB's save -ascii */
    {"# x y\n1 2\n3 4\n", 2, 2, "x"},
    {"# made by hand, with care, today\n1,2\n3,4\n", 2, 2, NULL},
    {"#x,y\n1,2\n# a remark\n3,4\n", 2, 2, "x"},
    {"# 1,2\n3,4\n", 1, 2, NULL},                     /* a row that somebody left out */
    {"\"\",\"a\"\n\"1\",5.1\n\"2\",4.9\n", 2, 2, ""}, /* R's write.csv() */
    {"a,b\r1,2\r3,4\r", 2, 2, "a"},                   /* of an old Mac */
    {"a,b\n1,2\r\n3,4\r5,6", 3, 2, "a"},
    {"a,b,\n1,2,\n3,4,\n", 2, 2, "a"},
    {"a,b\n1,2,\n3,4,\n", 2, 2, "a"},
    {"1,2,\n3,4,\n", 2, 2, NULL},
    {"1;2\n3;4\n;\n;\n", 2, 2, NULL}, /* empty rows of a spreadsheet */
    {"House price\n1\n2\n", 2, 1, "House price"},
    {"a\n\"1\"\n", 1, 1, "a"},
    {"+1,.5,5.,1e3,-0\n", 1, 5, NULL},
};

START_TEST(tables_of_other_programs_are_read)
{
    struct ps_csv csv;

    ck_assert_msg(csv_parse_text(dialects[_i].text, 0, PS_CSV_HEADER_DETECT, &csv) == PS_OK, "%s: %s",
                  dialects[_i].text, error.text);
    ck_assert_uint_eq(csv.rows, dialects[_i].rows);
    ck_assert_uint_eq(csv.columns, dialects[_i].columns);
    ck_assert((csv.names != NULL) == (dialects[_i].name != NULL));
    if (csv.names != NULL)
        ck_assert_str_eq(csv.names[0], dialects[_i].name);
    ps_csv_free(&csv);
}
END_TEST

START_TEST(a_line_ends_within_quotes_and_is_counted)
{
    struct ps_csv csv;

    ck_assert_int_eq(csv_parse_text("\"a\nb\",\"c\r\n\"\n1,x\n", 0, PS_CSV_HEADER_DETECT, &csv), PS_ERR_DATA);
    assert_error(error, PS_ERR_DATA, "t.csv:4:2: \"x\" is not a number");
}
END_TEST

START_TEST(a_comma_is_decimal_where_it_can_be_nothing_else)
{
    static const struct {
        const char *text, *want;
    } bad[] = {
        {"1,234;5\n", "t.csv:1:1: \"1,234\" is not a number: the comma may be decimal or between thousands"},
        {"1.5;2\n1,5;2\n", "t.csv:2:1: \"1,5\" has a decimal comma, and line 1 a decimal point"},
        {"1,5;2\n1.234;2\n", "t.csv:2:1: \"1.234\" has a point, and decimals of this table a comma"},
        {"1,5;2\n1.234,5;2\n", "t.csv:2:1: \"1.234,5\" is not a number: thousands"},
    };
    struct ps_csv_options options = {.decimal = ','};
    struct ps_csv csv;

    assert_table("1,5;2\n3;4,25\n", 0, 2, 2, (double[]){1.5, 2, 3, 4.25});
    assert_table("1,5\t2\n3\t1,234\n", 0, 2, 2, (double[]){1.5, 2, 3, 1.234}); /* 1,5 has said what a comma is */
    assert_table("0,125;2\n", 0, 1, 2, (double[]){.125, 2});
    assert_table("1,2345;-,5\n", 0, 1, 2, (double[]){1.2345, -.5});
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_msg(csv_parse_text(bad[i].text, 0, PS_CSV_HEADER_DETECT, &csv) == PS_ERR_DATA, "%s", bad[i].text);
        assert_error(error, PS_ERR_DATA, bad[i].want);
    }
    ck_assert_int_eq(ps_csv_read(write_plain("d.csv", "1,234;5\n", 8), &options, &csv, &error), PS_OK);
    ck_assert(csv.columns == 2 && csv.values[0] == 1.234);
    ps_csv_free(&csv);
    ck_assert_int_eq(ps_csv_read(write_plain("d.csv", "1.5;5\n", 6), &options, &csv, &error), PS_ERR_DATA);
    options.decimal = '.';
    ck_assert_int_eq(ps_csv_read(write_plain("d.csv", "1,5;5\n", 6), &options, &csv, &error), PS_ERR_DATA);
    options.decimal = ';';
    ck_assert_int_eq(ps_csv_read(write_plain("d.csv", "1,5;5\n", 6), &options, &csv, &error), PS_ERR_INVALID);
}
END_TEST

START_TEST(a_header_that_is_said_never_takes_a_row_behind_a_comment)
{
    struct ps_csv csv;

    ck_assert_int_eq(csv_parse_text("#id,x\n1,2\n3,4\n", 0, PS_CSV_HEADER_YES, &csv), PS_OK);
    ck_assert(csv.rows == 2);
    ck_assert_str_eq(csv.names[0], "id");
    ps_csv_free(&csv);
    ck_assert_int_eq(csv_parse_text("# of 2020\nid,x\n3,4\n", 0, PS_CSV_HEADER_YES, &csv), PS_OK);
    ck_assert(csv.rows == 1);
    ck_assert_str_eq(csv.names[1], "x");
    ps_csv_free(&csv);
    ck_assert_int_eq(csv_parse_text("# of 2020\n1,2\n3,4\n", 0, PS_CSV_HEADER_YES, &csv), PS_ERR_DATA);
    assert_error(error, PS_ERR_DATA, "t.csv:1:1: the comment above the first numbers does not name all their columns");
    ck_assert_int_eq(csv_parse_text("#id,x\n1,2\n3,4\n", 0, PS_CSV_HEADER_NO, &csv), PS_OK);
    ck_assert(csv.rows == 2 && csv.names == NULL);
    ps_csv_free(&csv);
}
END_TEST

START_TEST(what_is_no_table_is_said)
{
    struct ps_csv csv;

    ck_assert_int_eq(ps_csv_read(write_plain("u.csv",
                                             "\xff\xfe"
                                             "1\0,\0",
                                             6),
                                 NULL, &csv, &error),
                     PS_ERR_DATA);
    assert_error(error, PS_ERR_DATA, "u.csv is text in UTF-16: save it as UTF-8");
    ck_assert_int_eq(ps_csv_read(write_plain("u.csv", "BZh91AY", 7), NULL, &csv, &error), PS_ERR_DATA);
    assert_error(error, PS_ERR_DATA, "u.csv is compressed with bzip2: unpack it (bunzip2)");
    ck_assert_int_eq(ps_csv_read(write_plain("u.csv",
                                             "1,2\n1\xc2\xa0"
                                             "000,2\n",
                                             13),
                                 NULL, &csv, &error),
                     PS_ERR_DATA);
    assert_error(error, PS_ERR_DATA, "u.csv:2:1: \"1\\u00a0000\" is not a number: thousands");
}
END_TEST

START_TEST(errors_name_file_line_and_column)
{
    static const struct {
        const char *text, *want;
    } bad[] = {
        {"1,2\n3,x\n", "t.csv:2:2: \"x\" is not a number"},
        {"1,2\n3,\n", "t.csv:2:2: \"\" is not a number"},
        {"1,,2\n", "t.csv:1:2: \"\" is not a number"},
        {"1,2\n\n3,4,5\n", "t.csv:3:3: 3 fields where the first line has 2"},
        {"1,2\n3\n", "t.csv:2:2: 1 fields where the first line has 2"},
        {"1,2\n3,nan\n", "t.csv:2:2: \"nan\" is not a number"},
        {"1,2\ninf,4\n", "t.csv:2:1: \"inf\" is not a number"},
        {"1,2\n0x10,4\n", "t.csv:2:1: \"0x10\" is not a number"},
        {"1,2\n1e999,4\n", "t.csv:2:1: 1e999 is too large"},
        {"1,2\n1 2,4\n", "t.csv:2:1: \"1 2\" is not a number"},
        {"1,2\n1.2.3,4\n", "t.csv:2:1: \"1.2.3\" is not a number"},
        {"1,2\n3,\"4\n", "t.csv:2:2: the line ends within a quoted field"},
        {"1,2\n3,\"4\"x\n", "t.csv:2:2: text after the closing quote"},
        {"", "t.csv:1:1: there are no numbers"},
        {"a,b\n", "there are no numbers"},
        {" \n\n", "there are no numbers"},
    };
    struct ps_csv csv;

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ck_assert_msg(csv_parse_text(bad[i].text, 0, PS_CSV_HEADER_DETECT, &csv) != PS_OK, "accepted: %s", bad[i].text);
        assert_error(error, PS_ERR_DATA, bad[i].want);
    }
}
END_TEST

START_TEST(a_zero_byte_is_refused)
{
    struct ps_csv csv;

    ck_assert_int_ne(ps_csv_read(write_plain("z.csv", "1,2\n3,4\0005\n", 10), NULL, &csv, &error), PS_OK);
    assert_error(error, PS_ERR_DATA, "z.csv:2:2: the field holds a zero byte");
}
END_TEST

START_TEST(gzip_gives_what_plain_gives)
{
    struct ps_csv csv;

    ck_assert_int_eq(ps_csv_read(write_gzip("t.csv.gz", "1,2\n3,4\n", 8), NULL, &csv, &error), PS_OK);
    ck_assert_uint_eq(csv.rows, 2);
    ck_assert(csv.values[3] == 4);
    ps_csv_free(&csv);
}
END_TEST

START_TEST(the_locale_does_not_change_numbers)
{
    if (comma_locale())
        assert_table("1.5;2\n", 0, 1, 2, (double[]){1.5, 2});
}
END_TEST

/* Random tables: written by printf, read back to the same doubles. */
START_TEST(random_tables_come_back)
{
    struct test_rng rng = {test_seed()};
    struct ps_csv csv;
    double want[64];
    char text[4096];

    for (int round = 0; round < 200; round++) {
        size_t rows = 1 + test_below(&rng, 8), columns = 1 + test_below(&rng, 8), used = 0;

        for (size_t i = 0; i < rows * columns; i++) {
            want[i] = (double)test_float(&rng) * (double)(1 << test_below(&rng, 20));
            used += (size_t)snprintf(text + used, sizeof text - used, "%.17g%c", want[i],
                                     (i + 1) % columns == 0 ? '\n' : ',');
        }
        ck_assert_int_eq(csv_parse_text(text, 0, PS_CSV_HEADER_DETECT, &csv), PS_OK);
        ck_assert_uint_eq(csv.rows, rows);
        ck_assert_int_eq(memcmp(csv.values, want, rows * columns * sizeof *want), 0);
        ps_csv_free(&csv);
    }
}
END_TEST

START_TEST(random_text_never_breaks_the_reader)
{
    static const char letters[] = "0123,,,;\n\n\"\" .e-x\t\r";
    struct test_rng rng = {test_seed()};
    struct ps_csv_options options = {0};
    struct ps_csv csv;
    size_t accepted = 0;

    for (int i = 0; i < 50000; i++) {
        size_t len = test_below(&rng, 24);
        char *text = calloc(1, len + 1); /* exactly sized, so that a sanitizer sees one byte too many */

        for (size_t k = 0; k < len; k++)
            text[k] = letters[test_below(&rng, sizeof letters - 1)];
        options.header = (enum ps_csv_header)test_below(&rng, 3);
        if (csv_parse("random", text, len, &options, &csv, &error) == PS_OK) {
            accepted++;
            ck_assert_uint_le(csv.rows * csv.columns, len / 2 + 1);
            ps_csv_free(&csv);
        }
        free(text);
    }
    ck_assert_uint_gt(accepted, 100);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *suite = suite_create("csv");
    TCase *tc = tcase_create("csv");

    tcase_add_checked_fixture(tc, data_dir_make, data_dir_remove);
    tcase_add_test(tc, numbers_are_read_row_by_row);
    tcase_add_test(tc, the_delimiter_is_found_or_told);
    tcase_add_test(tc, a_header_is_detected_or_told);
    tcase_add_loop_test(tc, a_first_line_of_names_and_numbers_is_refused, 0, ARRAY_LEN(mixed));
    tcase_add_test(tc, names_may_look_like_much_but_not_like_numbers);
    tcase_add_loop_test(tc, tables_of_other_programs_are_read, 0, ARRAY_LEN(dialects));
    tcase_add_test(tc, a_line_ends_within_quotes_and_is_counted);
    tcase_add_test(tc, a_comma_is_decimal_where_it_can_be_nothing_else);
    tcase_add_test(tc, a_header_that_is_said_never_takes_a_row_behind_a_comment);
    tcase_add_test(tc, what_is_no_table_is_said);
    tcase_add_test(tc, errors_name_file_line_and_column);
    tcase_add_test(tc, a_zero_byte_is_refused);
    tcase_add_test(tc, gzip_gives_what_plain_gives);
    tcase_add_test(tc, the_locale_does_not_change_numbers);
    tcase_add_test(tc, random_tables_come_back);
    tcase_add_test(tc, random_text_never_breaks_the_reader);
    suite_add_tcase(suite, tc);
    return suite;
}

CHECK_MAIN(make_suite)
