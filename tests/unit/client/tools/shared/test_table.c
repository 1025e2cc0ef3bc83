#include "client/tools/shared/table.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/kits/check_main.h"

/* A page to print to; table_printed() returns the output, in a buffer that lasts until the next test. */
static char *printed_text;
static size_t printed_size;

static struct printer
page_of(bool colour, size_t columns)
{
    return (struct printer){.out = open_memstream(&printed_text, &printed_size), .colour = colour, .columns = columns};
}

static const char *
table_printed(struct printer *page)
{
    fclose(page->out);
    return printed_text;
}

START_TEST(columns_are_as_wide_as_their_widest_cell)
{
    struct text_table *t = table_new("N>", "NAME", "X>", NULL);
    struct printer page = page_of(false, 0);

    table_row(t);
    table_cell(t, "%d", 7);
    table_cell(t, "gr\xc3\xbc\xc3\x9f\x65");
    table_cell(t, "1.5");
    table_row(t);
    table_cell(t, "%d", 123);
    table_cell(t, "a\x1b[2Jb");
    table_print(t, &page);
    ck_assert_str_eq(table_printed(&page), "  N  NAME      X\n"
                                           "  7  gr\xc3\xbc\xc3\x9f\x65   1.5\n"
                                           "123  a?[2Jb\n");
    table_free(t);
    free(printed_text);
}
END_TEST

static struct text_table *
small_table(void)
{
    struct text_table *t = table_new("N>", "STATE", "REFUSED>", NULL);

    table_row(t);
    table_cell(t, "1");
    table_cell(t, "lapsed");
    table_paint(t, PAINT_WARNING);
    table_cell(t, "12345");
    table_paint(t, PAINT_FAULT);
    return t;
}

START_TEST(colours_surround_text_and_change_no_width)
{
    struct text_table *t = small_table();
    struct printer page = page_of(true, 0);

    table_print(t, &page);
    ck_assert_str_eq(table_printed(&page), "\x1b[1mN\x1b[0m  \x1b[1mSTATE\x1b[0m   \x1b[1mREFUSED\x1b[0m\n"
                                           "1  \x1b[33mlapsed\x1b[0m    \x1b[31m12345\x1b[0m\n");
    table_free(t);
    free(printed_text);
}
END_TEST

START_TEST(a_page_without_colours_shows_the_same_words)
{
    struct text_table *t = small_table();
    struct printer page = page_of(false, 0);

    table_print(t, &page);
    printer_line(&page, PAINT_FAULT, "not reached: shard %d", 1);
    ck_assert_str_eq(table_printed(&page), "N  STATE   REFUSED\n"
                                           "1  lapsed    12345\n"
                                           "not reached: shard 1\n");
    table_free(t);
    free(printed_text);
}
END_TEST

START_TEST(a_line_cannot_draw_on_the_terminal)
{
    struct printer page = page_of(false, 0);

    printer_line(&page, PAINT_FAULT, "cluster \"%s\"", "a\x1b[2J\nb\x7f");
    ck_assert_str_eq(table_printed(&page), "cluster \"a?[2J?b?\"\n");
    free(printed_text);
}
END_TEST

START_TEST(what_does_not_fit_is_cut_or_left_out_and_marked)
{
    static const char *const wanted[] = {[18] = "N  STATE   REFUSED\n1  lapsed    12345\n",
                                         [17] = "N  STATE   >\n1  lapsed  >\n",
                                         [9] = "N  STATE>\n1  lapse>\n",
                                         [8] = "N  STAT>\n1  laps>\n",
                                         [4] = "N>\n1>\n",
                                         [1] = ">\n>\n"};
    struct text_table *t = small_table();

    for (size_t columns = 0; columns < ARRAY_LEN(wanted); columns++) {
        struct printer page;
        const char *text;
        char trimmed[128], *to = trimmed;

        if (wanted[columns] == NULL)
            continue;
        page = page_of(false, columns);
        table_print(t, &page);
        text = table_printed(&page);
        for (size_t i = 0; text[i] != '\0'; i++) { /* blanks at a line's end do not count */
            while (text[i] == '\n' && to > trimmed && to[-1] == ' ')
                to--;
            *to++ = text[i];
        }
        *to = '\0';
        ck_assert_str_eq(trimmed, wanted[columns]);
        free(printed_text);
    }
    table_free(t);
}
END_TEST

START_TEST(colours_are_for_a_terminal_whose_user_has_not_said_no)
{
    ck_assert(printer_coloured(COLOUR_AUTO, true, NULL, "xterm"));
    ck_assert(printer_coloured(COLOUR_AUTO, true, "", "xterm"));
    ck_assert(!printer_coloured(COLOUR_AUTO, true, "1", "xterm"));
    ck_assert(!printer_coloured(COLOUR_AUTO, true, NULL, "dumb"));
    ck_assert(!printer_coloured(COLOUR_AUTO, false, NULL, "xterm"));
    ck_assert(printer_coloured(COLOUR_ALWAYS, false, "1", "dumb"));
    ck_assert(!printer_coloured(COLOUR_NEVER, true, NULL, "xterm"));
}
END_TEST

static Suite *
make_suite(void)
{
    Suite *s = suite_create("table");
    TCase *t = tcase_create("table");

    tcase_add_test(t, columns_are_as_wide_as_their_widest_cell);
    tcase_add_test(t, colours_surround_text_and_change_no_width);
    tcase_add_test(t, a_page_without_colours_shows_the_same_words);
    tcase_add_test(t, a_line_cannot_draw_on_the_terminal);
    tcase_add_test(t, what_does_not_fit_is_cut_or_left_out_and_marked);
    tcase_add_test(t, colours_are_for_a_terminal_whose_user_has_not_said_no);
    suite_add_tcase(s, t);
    return s;
}

CHECK_MAIN(make_suite)
