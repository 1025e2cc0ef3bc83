#include "client/tools/shared/lines.h"

#include <string.h>

#include "tests/unit/kits/check_main.h"

/* The callbacks, as text: "L" a line, "V" a live text, each ended by '|'. */
struct lines_heard {
    char text[4096];
    size_t longest;
};

static void
lines_hear(void *arg, enum lines_kind kind, const char *text, size_t len)
{
    struct lines_heard *h = arg;
    size_t at = strlen(h->text);

    h->longest = MAX(h->longest, len);
    if (len < 256)
        snprintf(h->text + at, sizeof h->text - at, "%c%.*s|", kind == LINES_WHOLE ? 'L' : 'V', (int)len, text);
}

/* All the bytes at once, then the end. */
static void
heard_of(const char *bytes, struct lines_heard *h)
{
    struct line_reader l;

    *h = (struct lines_heard){0};
    lines_init(&l, lines_hear, h);
    ck_assert_int_eq(lines_take(&l, bytes, strlen(bytes)), PS_OK);
    lines_end(&l);
    lines_finish(&l);
}

static const char *const whole[][2] = {
    {"", ""},
    {"a\n", "La|"},
    {"a\nb\n\nc\n", "La|Lb|L|Lc|"},
    {"no end", "Lno end|"},
    {"dos\r\nfile\r\n", "Ldos|Lfile|"},
    {"1%\r2%\r3%\n", "L3%|"},
    {"1%\r2%\r", "V2%|L2%|"},
    {"\r1%", "V1%|L1%|"},
    {"\r1%\r2%\ndone\n", "L2%|Ldone|"},
    {"50%\r\r\n", "L50%|"},
    {"50%\r\x1b[K\n", "L\x1b[K|"},
    {"\r\n", "L|"},
    {"\r", ""},
};

START_TEST(bytes_become_lines_and_live_texts)
{
    struct lines_heard h;

    heard_of(whole[_i][0], &h);
    ck_assert_str_eq(h.text, whole[_i][1]);
}
END_TEST

START_TEST(each_piece_of_a_progress_line_is_shown)
{
    static const char *const pieces[] = {"step", " 1", "\rstep 2", "\rstep 3", " of 9", "\r\x1b[K", "bye\n"};
    static const char *const want[] = {"", "", "Vstep 2|", "Vstep 3|", "Vstep 3 of 9|", "V|", "L\x1b[Kbye|"};
    struct lines_heard h;
    struct line_reader l;

    lines_init(&l, lines_hear, &h);
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        h.text[0] = '\0';
        ck_assert_int_eq(lines_take(&l, pieces[i], strlen(pieces[i])), PS_OK);
        ck_assert_str_eq(h.text, want[i]);
    }
    lines_finish(&l);
}
END_TEST

/* However the bytes are cut, the lines are the same. */
START_TEST(lines_do_not_depend_on_where_reads_end)
{
    static const char text[] = "alpha\nbeta\r\ngamma\r1\r2\n\n\rx\ny\r\r\nlast";
    static const char want[] = "Lalpha|Lbeta|L2|L|Lx|Ly|Llast|";
    struct test_rng rng = {test_seed()};

    for (int round = 0; round < 500; round++) {
        struct lines_heard h = {0};
        char lines_only[256] = "";
        struct line_reader l;

        lines_init(&l, lines_hear, &h);
        for (size_t at = 0, n; at < sizeof text - 1; at += n) {
            n = 1 + test_below(&rng, 9);
            n = MIN(n, sizeof text - 1 - at);
            ck_assert_int_eq(lines_take(&l, text + at, n), PS_OK);
        }
        lines_end(&l);
        lines_finish(&l);
        for (char *word = strtok(h.text, "|"); word != NULL; word = strtok(NULL, "|"))
            if (word[0] == 'L')
                strcat(strcat(lines_only, word), "|");
        ck_assert_str_eq(lines_only, want);
    }
}
END_TEST

START_TEST(an_endless_line_comes_in_pieces)
{
    size_t n = 3 * LINES_MAX + 10;
    char *text = malloc(n);
    struct lines_heard h = {0};
    struct line_reader l;

    memset(text, 'x', n);
    lines_init(&l, lines_hear, &h);
    ck_assert_int_eq(lines_take(&l, text, n), PS_OK);
    ck_assert_uint_eq(h.longest, LINES_MAX);
    lines_end(&l);
    ck_assert_str_eq(h.text, "Lxxxxxxxxxx|");
    lines_finish(&l);
    free(text);
}
END_TEST

START_TEST(escape_sequences_take_no_columns)
{
    static const char coloured[] = "\x1b[1;32mgr\xc3\xbc\xc3\x9f\x1b[0m dich";
    size_t width;

    ck_assert_uint_eq(lines_cut(coloured, strlen(coloured), 100, &width), strlen(coloured));
    ck_assert_uint_eq(width, 9);
    /* Four characters, six bytes, and the colours on both sides of them. */
    ck_assert_uint_eq(lines_cut(coloured, strlen(coloured), 4, &width), 7 + 6 + 4);
    ck_assert_uint_eq(width, 4);
    ck_assert_uint_eq(lines_cut("\x1b[", 2, 10, &width), 2);
    ck_assert_uint_eq(width, 0);
    ck_assert_uint_eq(lines_cut("\x1b", 1, 10, &width), 1);
    ck_assert_uint_eq(lines_cut("abc", 3, 0, &width), 0);
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("lines");
    TCase *t = tcase_create("lines");

    tcase_add_loop_test(t, bytes_become_lines_and_live_texts, 0, ARRAY_LEN(whole));
    tcase_add_test(t, each_piece_of_a_progress_line_is_shown);
    tcase_add_test(t, lines_do_not_depend_on_where_reads_end);
    tcase_add_test(t, an_endless_line_comes_in_pieces);
    tcase_add_test(t, escape_sequences_take_no_columns);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
