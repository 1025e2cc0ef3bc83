/* Cells lie in one array, row after row; widths are counted when the table is printed. */
#include "table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct table {
    char *headings[TABLE_COLUMNS_MAX];
    bool right[TABLE_COLUMNS_MAX];
    size_t columns;
    char **cells; /* [rows × columns]; NULL: empty */
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

void
table_column(struct table *t, const char *heading)
{
    size_t len = strlen(heading);
    char *text = table_text(heading);

    ps_assert(t->columns < TABLE_COLUMNS_MAX && t->rows == 0);
    if ((t->right[t->columns] = len > 0 && heading[len - 1] == '>'))
        text[len - 1] = '\0';
    t->headings[t->columns++] = text;
}

struct table *
table_new(const char *heading, ...)
{
    struct table *t = table_alloc(NULL, 1, sizeof *t);
    va_list headings;

    *t = (struct table){0};
    va_start(headings, heading);
    for (; heading != NULL; heading = va_arg(headings, const char *))
        table_column(t, heading);
    va_end(headings);
    return t;
}

void
table_free(struct table *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->columns; i++)
        free(t->headings[i]);
    for (size_t i = 0; i < t->rows * t->columns; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t);
}

void
table_row(struct table *t)
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
table_cell(struct table *t, const char *format, ...)
{
    char text[1024];
    va_list args;

    ps_assert(t->rows > 0 && t->next < t->columns);
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    t->cells[(t->rows - 1) * t->columns + t->next++] = table_text(text);
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

static const char *
table_at(const struct table *t, size_t row, size_t column)
{
    const char *cell = t->cells[row * t->columns + column];

    return cell != NULL ? cell : "";
}

/* One line of cells; nothing is printed after the last that is not empty. */
static void
table_print_row(const struct table *t, const char *const cells[], const size_t width[], FILE *out)
{
    size_t used = t->columns;

    while (used > 0 && cells[used - 1][0] == '\0')
        used--;
    for (size_t c = 0; c < used; c++) {
        int pad = (int)(width[c] - table_width(cells[c]));
        bool last = c + 1 == used;

        if (t->right[c])
            fprintf(out, "%*s%s%s", pad, "", cells[c], last ? "" : "  ");
        else
            fprintf(out, "%s%*s", cells[c], last ? 0 : pad + 2, "");
    }
    fputc('\n', out);
}

void
table_print(const struct table *t, FILE *out)
{
    const char *cells[TABLE_COLUMNS_MAX];
    size_t width[TABLE_COLUMNS_MAX];

    for (size_t c = 0; c < t->columns; c++) {
        width[c] = table_width(t->headings[c]);
        for (size_t r = 0; r < t->rows; r++)
            width[c] = MAX(width[c], table_width(table_at(t, r, c)));
        cells[c] = t->headings[c];
    }
    table_print_row(t, cells, width, out);
    for (size_t r = 0; r < t->rows; r++) {
        for (size_t c = 0; c < t->columns; c++)
            cells[c] = table_at(t, r, c);
        table_print_row(t, cells, width, out);
    }
}
