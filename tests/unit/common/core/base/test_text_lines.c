/* Lines of texts from all systems, and what files are by their first bytes. */
#include "common/core/base/text_lines.h"

#include <string.h>

#include "common/core/base/file_kind.h"
#include "tests/unit/kits/check_main.h"

/* The lines, each behind its number: "1:a|2:b|". */
static const char *
lines_of(const char *text, size_t len)
{
    static char out[256];
    struct text_lines lines = text_lines_start(text, len);
    struct span line;
    size_t at = 0;

    out[0] = '\0';
    while (text_lines_next(&lines, &line))
        at += (size_t)snprintf(out + at, sizeof out - at, "%d:%.*s|", (int)lines.number, (int)line.len,
                               (const char *)line.data);
    return out;
}

START_TEST(lines_end_as_each_system_ends_them)
{
    static const struct {
        const char *text, *lines;
    } texts[] = {
        {"", ""},
        {"a", "1:a|"},
        {"a\nb\n", "1:a|2:b|"},
        {"a\nb", "1:a|2:b|"},
        {"a\r\nb\r\n", "1:a|2:b|"},
        {"a\rb\r", "1:a|2:b|"},
        {"a\rb\r\nc\nd", "1:a|2:b|3:c|4:d|"},
        {"\n\na", "1:|2:|3:a|"},
        {"\r\r\n\r", "1:|2:|3:|"},
        {"\xef\xbb\xbf", ""},
        {"\357\273\277a\n", "1:a|"},
        {"a\n\xef\xbb\xbf", "1:a|2:\xef\xbb\xbf|"}, /* elsewhere it is part of a line */
        {"\xef\xbb", "1:\xef\xbb|"},
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        ck_assert_str_eq(lines_of(texts[i].text, strlen(texts[i].text)), texts[i].lines);
}
END_TEST

START_TEST(a_text_of_carriage_returns_alone_is_walked_once)
{
    enum { LINES = 1 << 20 };
    char *text = malloc(2 * LINES);
    struct text_lines lines;
    struct span line;
    size_t bytes = 0;

    for (size_t i = 0; i < LINES; i++)
        memcpy(text + 2 * i, "1\r", 2);
    lines = text_lines_start(text, 2 * LINES); /* squared it would be hours */
    while (text_lines_next(&lines, &line))
        bytes += line.len;
    ck_assert(lines.number == LINES && bytes == LINES);
    free(text);
}
END_TEST

static const struct {
    const char *bytes;
    size_t len;
    const char *says;
} kinds[] = {
    {"\x1f\x8b\x08\0", 4, "f is compressed with gzip: unpack it (gunzip)"},
    {"BZh91AY&SY", 10, "f is compressed with bzip2: unpack it (bunzip2)"},
    {"\xfd"
     "7zXZ\0\0",
     7, "f is compressed with xz"},
    {"\x28\xb5\x2f\xfd ", 5, "f is compressed with zstd"},
    {"PK\3\4x", 5, "f is a zip archive"},
    {"\x93NUMPY\1\0", 8, "f is an array of NumPy"},
    {"\x89HDF\r\n\x1a\n", 8, "f is an HDF5 file"},
    {"MATLAB 5.0 MAT-file", 19, "f is a MATLAB file"},
    {"\xff\xfe"
     "1\0,\0",
     6, "f is text in UTF-16: save it as UTF-8"},
    {"\xfe\xff\0001", 4, "f is text in UTF-16"},
    {"\xff\xfe\0\0", 4, "f is text in UTF-32"},
    {"\0\0\xfe\xff", 4, "f is text in UTF-32"},
    {"\x80\x04\x95", 3, "f is a pickle of Python"},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8, "f is a document of an old Excel"},
};

START_TEST(what_is_no_text_is_said_with_what_to_do)
{
    struct ps_error e;

    ck_assert_int_eq(file_kind_check_text("f", kinds[_i].bytes, kinds[_i].len, PS_ERR_CONFIG, &e), PS_ERR_CONFIG);
    ck_assert_msg(strncmp(e.text, kinds[_i].says, strlen(kinds[_i].says)) == 0, "%s", e.text);
    for (size_t n = 0; n < 2; n++) /* a beginning decides nothing */
        ck_assert_int_eq(file_kind_check_text("f", kinds[_i].bytes, n, PS_ERR_CONFIG, &e), PS_OK);
}
END_TEST

START_TEST(text_is_of_no_other_kind)
{
    static const char *const texts[] = {
        "", "1,2\n", "\357\273\2771,2\n", "+1 1:0.5\n", "memory = 1GiB\n", "{\"cluster\": {}}", "# BZh\n", "PS", "B"};
    struct ps_error e;

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        ck_assert_int_eq(file_kind_check_text("f", texts[i], strlen(texts[i]), PS_ERR_DATA, &e), PS_OK);
    ck_assert(file_kind_find("\x1f\x8b", 2)->is_gzip && !file_kind_find("BZh9", 4)->is_gzip);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("text_lines");
    TCase *t = tcase_create("text_lines");

    tcase_add_test(t, lines_end_as_each_system_ends_them);
    tcase_add_test(t, a_text_of_carriage_returns_alone_is_walked_once);
    tcase_add_loop_test(t, what_is_no_text_is_said_with_what_to_do, 0, ARRAY_LEN(kinds));
    tcase_add_test(t, text_is_of_no_other_kind);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
