/* LIBSVM files: line by line, each line is a label and then pairs "index:value", cut in place. Indices are kept as they
 * are written until the end, when the number of the first column is known. Memory is allocated once, for as many rows
 * and entries as the text has line ends and colons. */
#include "client/data/libsvm.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/read_file.h"
#include "common/core/base/base.h"
#include "common/core/base/number.h"

struct libsvm_scan {
    const char *name;
    const struct ps_libsvm_options *options;
    char *line, *at, *end; /* of the line; *end is '\0' */
    uint64_t number;       /* of the line, from 1 */
    uint64_t lowest, highest;
    uint64_t highest_line; /* where that stands: line and character, from 1 */
    ptrdiff_t highest_at;
    struct ps_sparse *out;
};

PS_PRINTF(4, 5)
static enum ps_err
fail_at(const struct libsvm_scan *s, const char *place, struct ps_error *e, const char *format, ...)
{
    char what[160];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return ps_fail(e, PS_ERR_DATA, "%s:%llu:%td: %s", s->name, (unsigned long long)s->number, place - s->line + 1,
                   what);
}

/* The next word of the line, terminated; NULL at its end. */
static char *
next_word(struct libsvm_scan *s)
{
    char *word = s->at + strspn(s->at, " \t\r");

    if (*word == '\0')
        return NULL;
    s->at = word + strcspn(word, " \t\r");
    if (s->at < s->end)
        *s->at++ = '\0';
    return word;
}

static enum ps_err
take_number(const struct libsvm_scan *s, const char *text, const char *what, float *out, struct ps_error *e)
{
    double value;

    if (!number_parse(text, &value))
        return fail_at(s, text, e, "the %s \"%.40s\" is not a number", what, text);
    *out = (float)value;
    if (!isfinite(*out))
        return fail_at(s, text, e, "the %s %.40s is too large", what, text);
    return PS_OK;
}

static enum ps_err
take_index(struct libsvm_scan *s, const char *text, uint32_t *out, struct ps_error *e)
{
    char *end;
    unsigned long long index = strtoull(text, &end, 10);
    uint64_t last = s->options->columns - (s->options->base == PS_LIBSVM_FROM_0);

    if (strncmp(text, "qid", 3) == 0)
        return fail_at(s, text, e, "query ids (qid:) are for ranking, which is not supported");
    if (text[0] < '0' || text[0] > '9' || *end != '\0')
        return fail_at(s, text, e, "the index \"%.40s\" is not a whole number", text);
    if (index > PS_SPARSE_COLUMNS_MAX)
        return fail_at(s, text, e, "the index %.40s is larger than %d", text, PS_SPARSE_COLUMNS_MAX);
    if (index == 0 && s->options->base == PS_LIBSVM_FROM_1)
        return fail_at(s, text, e, "the index is 0, but the first column is called 1");
    if (s->options->columns != 0 && index > last)
        return fail_at(s, text, e, "the index %llu is past the last column, %llu", index, (unsigned long long)last);
    s->lowest = MIN(s->lowest, index);
    if (index > s->highest) {
        s->highest = index;
        s->highest_line = s->number;
        s->highest_at = text - s->line + 1;
    }
    *out = (uint32_t)index;
    return PS_OK;
}

static enum ps_err
take_entry(struct libsvm_scan *s, char *word, struct ps_error *e)
{
    struct ps_sparse *m = s->out;
    char *colon = strchr(word, ':');
    enum ps_err err;

    if (colon == NULL)
        return fail_at(s, word, e, "expected index:value, got \"%.40s\"", word);
    *colon = '\0';
    if ((err = take_index(s, word, &m->column[m->entries], e)) != PS_OK)
        return err;
    if (m->entries > m->start[m->rows] && m->column[m->entries - 1] >= m->column[m->entries])
        return fail_at(s, word, e, "the index %s does not come after %u", word, m->column[m->entries - 1]);
    if ((err = take_number(s, colon + 1, "value", &m->value[m->entries], e)) != PS_OK)
        return err;
    m->entries++;
    return PS_OK;
}

static enum ps_err
take_line(struct libsvm_scan *s, struct ps_error *e)
{
    struct ps_sparse *m = s->out;
    char *word;
    enum ps_err err;

    if (memchr(s->line, '\0', (size_t)(s->end - s->line)) != NULL)
        return fail_at(s, s->line, e, "the line holds a zero byte");
    s->end = s->line + strcspn(s->line, "#");
    *s->end = '\0';
    if ((word = next_word(s)) == NULL)
        return PS_OK;
    if ((err = take_number(s, word, "label", &m->label[m->rows], e)) != PS_OK)
        return err;
    m->start[m->rows] = m->entries;
    while ((word = next_word(s)) != NULL)
        if ((err = take_entry(s, word, e)) != PS_OK)
            return err;
    m->rows++;
    m->start[m->rows] = m->entries;
    return PS_OK;
}

static enum ps_err
take_lines(struct libsvm_scan *s, char *text, size_t len, struct ps_error *e)
{
    char *end = text + len;
    enum ps_err err = PS_OK;

    for (char *line = text; line < end && err == PS_OK; line = s->end + 1, s->number++) {
        char *stop = memchr(line, '\n', (size_t)(end - line));

        stop = stop != NULL ? stop : end;
        *stop = '\0';
        s->line = s->at = line;
        s->end = stop;
        err = take_line(s, e);
        s->end = stop; /* a comment had made it shorter */
    }
    return err;
}

/* Columns count from 0, whatever number the file gives the first one. */
static enum ps_err
number_columns(const struct libsvm_scan *s, struct ps_error *e)
{
    struct ps_sparse *m = s->out;
    uint64_t base = s->options->base == PS_LIBSVM_FROM_1 || (s->options->base == PS_LIBSVM_DETECT && s->lowest > 0);

    if (m->rows == 0)
        return ps_fail(e, PS_ERR_DATA, "%s:%llu:1: there are no examples", s->name, (unsigned long long)s->number);
    if (m->entries == 0 && s->options->columns == 0)
        return ps_fail(e, PS_ERR_DATA, "%s:%llu:1: no example has a feature", s->name, (unsigned long long)s->number);
    for (uint64_t i = 0; i < m->entries; i++)
        m->column[i] -= (uint32_t)base;
    m->columns = s->options->columns != 0 ? s->options->columns : s->highest + 1 - base;
    if (s->highest + 1 - base > m->columns && m->entries > 0)
        return ps_fail(e, PS_ERR_DATA, "%s:%llu:%td: the index %llu is past the last column, %llu", s->name,
                       (unsigned long long)s->highest_line, s->highest_at, (unsigned long long)s->highest,
                       (unsigned long long)(m->columns - 1 + base));
    return PS_OK;
}

static size_t
count_bytes(const char *text, size_t len, char byte)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += text[i] == byte;
    return n;
}

enum ps_err
libsvm_parse(const char *name, char *text, size_t len, const struct ps_libsvm_options *options, struct ps_sparse *out,
             struct ps_error *e)
{
    struct ps_sparse m = {0};
    struct libsvm_scan s = {.name = name, .options = options, .number = 1, .lowest = UINT64_MAX, .out = &m};
    size_t rows = count_bytes(text, len, '\n') + 1, entries = count_bytes(text, len, ':') + 1;
    enum ps_err err;

    if (options->columns > PS_SPARSE_COLUMNS_MAX)
        return ps_fail(e, PS_ERR_INVALID, "%s: %llu columns are more than %d", name,
                       (unsigned long long)options->columns, PS_SPARSE_COLUMNS_MAX);
    m.start = calloc(rows + 1, sizeof *m.start);
    m.label = malloc(rows * sizeof *m.label);
    m.column = malloc(entries * sizeof *m.column);
    m.value = malloc(entries * sizeof *m.value);
    if (m.start == NULL || m.label == NULL || m.column == NULL || m.value == NULL)
        err = ps_fail(e, PS_ERR_NOMEM, "%s: out of memory", name);
    else if ((err = take_lines(&s, text, len, e)) == PS_OK)
        err = number_columns(&s, e);
    if (err != PS_OK)
        ps_sparse_free(&m);
    else
        *out = m;
    return err;
}

enum ps_err
ps_libsvm_read(const char *path, const struct ps_libsvm_options *options, struct ps_sparse *out, struct ps_error *error)
{
    static const struct ps_libsvm_options defaults = {0};
    enum ps_err err;
    char *text;
    size_t len;

    if ((err = read_file(path, &text, &len, error)) != PS_OK)
        return err;
    err = libsvm_parse(path, text, len, options != NULL ? options : &defaults, out, error);
    free(text);
    return err;
}
