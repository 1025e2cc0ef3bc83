/* Cells lie in one array, row after row, and their texts in one buffer, one behind the other: a table may have a
 * million rows. Widths are counted when it is printed. */
#include "client/tools/shared/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/tools/shared/lines.h"

struct table_cell {
    uint64_t at : 56; /* its text in the buffer, and 1; 0: empty */
    uint64_t paint : 8;
};

struct text_table {
    char *headings[TABLE_COLUMNS_MAX];
    bool right[TABLE_COLUMNS_MAX];
    size_t columns;
    struct table_cell *cells; /* [rows × columns] */
    char *texts;
    size_t texts_len, texts_size;
    size_t rows, rows_size;
    size_t next; /* column of the next cell */
};

static void *
table_alloc(void *old, size_t n, size_t size)
{
    void *p = reallocarray(old, n, size);

    if (p == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(EXIT_FAILURE);
    }
    return p;
}

static char *
table_text(const char *text)
{
    return strcpy(table_alloc(NULL, strlen(text) + 1, 1), text);
}

/* Where in the buffer the text is from now on. */
static size_t
table_keep(struct text_table *t, const char *text)
{
    size_t size = strlen(text) + 1, at = t->texts_len;

    if (t->texts_size - t->texts_len < size) {
        t->texts_size = t->texts_size * 2 + MAX(size, (size_t)4096);
        t->texts = table_alloc(t->texts, t->texts_size, 1);
    }
    memcpy(t->texts + at, text, size);
    t->texts_len += size;
    return at;
}

static const char *
table_cell_text(const struct text_table *t, const struct table_cell *cell)
{
    return cell->at > 0 ? t->texts + cell->at - 1 : "";
}

static void
table_add_column(struct text_table *t, const char *heading, size_t len, bool right)
{
    char *text = table_text(heading);

    ps_assert(t->columns < TABLE_COLUMNS_MAX && t->rows == 0);
    text[len] = '\0';
    t->right[t->columns] = right;
    t->headings[t->columns++] = text;
}

void
table_column(struct text_table *t, const char *heading)
{
    size_t len = strlen(heading);
    bool right = len > 0 && heading[len - 1] == '>';

    table_add_column(t, heading, len - right, right);
}

static struct text_table *
table_empty(void)
{
    struct text_table *t = table_alloc(NULL, 1, sizeof *t);

    *t = (struct text_table){0};
    return t;
}

struct text_table *
table_new(const char *heading, ...)
{
    struct text_table *t = table_empty();
    va_list headings;

    va_start(headings, heading);
    for (; heading != NULL; heading = va_arg(headings, const char *))
        table_column(t, heading);
    va_end(headings);
    return t;
}

struct text_table *
table_of(const struct command_entry *columns, const char *align)
{
    struct text_table *t = table_empty();

    for (; columns->term != NULL; columns++, align++) {
        ps_assert(*align == 'l' || *align == 'r');
        table_add_column(t, columns->term, strlen(columns->term), *align == 'r');
    }
    ps_assert(*align == '\0');
    return t;
}

void
table_free(struct text_table *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->columns; i++)
        free(t->headings[i]);
    free(t->texts);
    free(t->cells);
    free(t);
}

void
table_row(struct text_table *t)
{
    if (t->rows == t->rows_size) {
        t->rows_size = t->rows_size * 2 + 16;
        t->cells = table_alloc(t->cells, t->rows_size * t->columns, sizeof *t->cells);
    }
    memset(t->cells + t->rows * t->columns, 0, t->columns * sizeof *t->cells);
    t->rows++;
    t->next = 0;
}

void
table_cell(struct text_table *t, const char *format, ...)
{
    char text[1024];
    va_list args;

    ps_assert(t->rows > 0 && t->next < t->columns);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printer_clean(text);
    t->cells[(t->rows - 1) * t->columns + t->next++].at = table_keep(t, text) + 1;
}

void
table_paint(struct text_table *t, enum paint paint)
{
    ps_assert(t->rows > 0 && t->next > 0);
    t->cells[(t->rows - 1) * t->columns + t->next - 1].paint = paint;
}

void
table_dim(struct text_table *t)
{
    for (size_t c = 0; c < t->next; c++) {
        struct table_cell *cell = &t->cells[(t->rows - 1) * t->columns + c];

        if (cell->paint == PAINT_PLAIN)
            cell->paint = PAINT_DIM;
    }
}

/* Columns that UTF-8 text takes on a terminal, counted as one per code point. */
static size_t
table_width(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* A cell in what is left of the line. */
static void
table_print_cell(const char *text, enum paint paint, bool right, size_t width, size_t room, bool last,
                 const struct printer *page)
{
    size_t shown, len = lines_cut(text, strlen(text), room, &shown);
    int pad = (int)(width - MIN(width, shown));

    fprintf(page->out, "%*s%s%.*s%s%*s", right ? pad : 0, "", printer_begin(page, paint), (int)len, text,
            printer_end(page, paint), right || last ? 0 : pad, "");
}

/* Does the line need more columns than there are? */
static bool
table_is_cut(const struct text_table *t, const char *const texts[], const size_t width[], size_t used, size_t room)
{
    size_t need = 0;

    for (size_t c = 0; c + 1 < used; c++)
        need += width[c] + 2;
    return used > 0 && need + (t->right[used - 1] ? width[used - 1] : table_width(texts[used - 1])) > room;
}

/* One line of cells; nothing is printed after the last that is not empty. Part of a number would be another one: what
 * does not fit is left out, and a '>' in the last column says that there is more. */
static void
table_print_line(const struct text_table *t, const char *const texts[], const enum paint paints[], const size_t width[],
                 const struct printer *page)
{
    size_t room = page->columns > 0 ? page->columns : SIZE_MAX, used = t->columns;
    bool cut;

    while (used > 0 && texts[used - 1][0] == '\0')
        used--;
    cut = table_is_cut(t, texts, width, used, room);
    room -= cut;
    for (size_t c = 0; c < used; c++) {
        bool last = c + 1 == used || width[c] + 2 >= room;

        if (t->right[c] && width[c] > room)
            break;
        table_print_cell(texts[c], paints[c], t->right[c], width[c], room, last, page);
        if (last)
            break;
        fputs("  ", page->out);
        room -= width[c] + 2;
    }
    fputs(cut ? ">\n" : "\n", page->out);
}

static void
table_print_row(const struct text_table *t, size_t row, const size_t width[], const struct printer *page)
{
    const char *texts[TABLE_COLUMNS_MAX];
    enum paint paints[TABLE_COLUMNS_MAX];

    for (size_t c = 0; c < t->columns; c++) {
        const struct table_cell *cell = &t->cells[row * t->columns + c];

        texts[c] = table_cell_text(t, cell);
        paints[c] = (enum paint)cell->paint;
    }
    table_print_line(t, texts, paints, width, page);
}

void
table_print(const struct text_table *t, const struct printer *page)
{
    const char *headings[TABLE_COLUMNS_MAX];
    enum paint paints[TABLE_COLUMNS_MAX];
    size_t width[TABLE_COLUMNS_MAX];

    for (size_t c = 0; c < t->columns; c++) {
        headings[c] = t->headings[c];
        paints[c] = PAINT_HEADING;
        width[c] = table_width(t->headings[c]);
    }
    for (size_t i = 0; i < t->rows * t->columns; i++)
        width[i % t->columns] = MAX(width[i % t->columns], table_width(table_cell_text(t, &t->cells[i])));
    table_print_line(t, headings, paints, width, page);
    for (size_t r = 0; r < t->rows; r++)
        table_print_row(t, r, width, page);
}
