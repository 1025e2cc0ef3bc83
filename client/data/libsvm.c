/* LIBSVM files: line by line, each line is a label and then pairs "index:value", cut in place. Indices are kept as they
 * are written until all files of the data are read, when the number of the first column is known. Memory is allocated
 * once for a file, for as many rows and entries as its text has line ends and colons. */
#include "client/data/libsvm.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/data/foreign_number.h"
#include "client/data/read_file.h"
#include "common/core/base/base.h"
#include "common/core/base/file_kind.h"
#include "common/core/base/number.h"
#include "common/core/base/text_lines.h"

/* Where the highest index of a file is. */
struct libsvm_highest {
    uint64_t index, line;
    ptrdiff_t at; /* character of the line, from 1 */
};

struct libsvm_scan {
    const char *name;
    const struct ps_libsvm_options *options;
    char *line, *at, *end; /* of the line; *end is '\0' */
    uint64_t number;       /* of the line, from 1 */
    uint64_t lowest;
    struct libsvm_highest highest;
    struct ps_sparse *out;
};

PS_PRINTF(4, 5)
static enum ps_err
fail_at(const struct libsvm_scan *s, const char *place, struct ps_error *e, const char *format, ...)
{
    char what[320];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return ps_fail(e, PS_ERR_DATA, "%s:%llu:%td: %s", s->name, (unsigned long long)s->number, place - s->line + 1,
                   what);
}

static void
skip_blanks(struct libsvm_scan *s)
{
    s->at += strspn(s->at, " \t");
}

/* The next word of the line, up to a blank or one of `stops`, terminated; *stop is what stood behind it and the blanks
 * after it. NULL at the line's end. */
static char *
next_word(struct libsvm_scan *s, const char *stops, char *stop)
{
    char *word, *word_end;

    skip_blanks(s);
    *stop = '\0';
    if (*s->at == '\0')
        return NULL;
    word = s->at;
    word_end = s->at += strcspn(s->at, stops);
    skip_blanks(s); /* "63: .50" is an entry, too, and so is "63 :.50" */
    *stop = *s->at;
    *word_end = '\0';
    return word;
}

static enum ps_err
take_number(const struct libsvm_scan *s, const char *text, const char *what, float *out, struct ps_error *e)
{
    double value;

    if (!number_parse(text, &value))
        return fail_at(s, text, e, "the %s \"%.40s\" is not a number%s", what, text,
                       foreign_number_why(foreign_number_find(text)));
    *out = (float)value;
    if (!isfinite(*out))
        return fail_at(s, text, e, "the %s %.40s is too large", what, text);
    return PS_OK;
}

/* The largest index that the options allow. */
static uint64_t
last_index(const struct ps_libsvm_options *o)
{
    uint64_t columns = o->columns != 0 ? o->columns : o->columns_max;

    return columns == 0 ? PS_SPARSE_COLUMNS_MAX : columns - (o->base == PS_LIBSVM_FROM_0);
}

static enum ps_err
past_last(const struct libsvm_scan *s, const struct libsvm_highest *at, uint64_t last, struct ps_error *e)
{
    if (s->options->columns == 0)
        return ps_fail(
            e, PS_ERR_DATA,
            "%s:%llu:%td: the index %llu is past %llu: so many columns are taken only where columns says how "
            "many there are",
            s->name, (unsigned long long)at->line, at->at, (unsigned long long)at->index, (unsigned long long)last);
    return ps_fail(e, PS_ERR_DATA, "%s:%llu:%td: the index %llu is past the last column, %llu", s->name,
                   (unsigned long long)at->line, at->at, (unsigned long long)at->index, (unsigned long long)last);
}

static enum ps_err
take_index(struct libsvm_scan *s, const char *text, uint32_t *out, struct ps_error *e)
{
    char *end;
    unsigned long long index = strtoull(text, &end, 10);
    struct libsvm_highest here = {index, s->number, text - s->line + 1};

    if (strcmp(text, "qid") == 0)
        return fail_at(s, text, e, "query ids (qid:) are for ranking, which is not supported");
    if (text[0] < '0' || text[0] > '9' || *end != '\0')
        return fail_at(s, text, e, "the index \"%.40s\" is not a whole number", text);
    if (index > PS_SPARSE_COLUMNS_MAX)
        return fail_at(s, text, e, "the index %.40s is larger than %d", text, PS_SPARSE_COLUMNS_MAX);
    if (index == 0 && s->options->base == PS_LIBSVM_FROM_1)
        return fail_at(s, text, e, "the index is 0, but the first column is called 1");
    if (index > last_index(s->options))
        return past_last(s, &here, last_index(s->options), e);
    s->lowest = MIN(s->lowest, index);
    if (index > s->highest.index)
        s->highest = here;
    *out = (uint32_t)index;
    return PS_OK;
}

/* word: the index; the colon behind it and blanks around that are passed over. */
static enum ps_err
take_entry(struct libsvm_scan *s, char *word, struct ps_error *e)
{
    struct ps_sparse *m = s->out;
    char stop, *value;
    enum ps_err err;

    if ((err = take_index(s, word, &m->column[m->entries], e)) != PS_OK)
        return err;
    if (m->entries > m->start[m->rows] && m->column[m->entries - 1] >= m->column[m->entries])
        return fail_at(s, word, e, "the index %s does not come after %u", word, m->column[m->entries - 1]);
    s->at++;
    if ((value = next_word(s, " \t", &stop)) == NULL)
        value = s->at;
    if ((err = take_number(s, value, "value", &m->value[m->entries], e)) != PS_OK)
        return err;
    m->entries++;
    return PS_OK;
}

static enum ps_err
take_label(struct libsvm_scan *s, struct ps_error *e)
{
    char stop, *word = next_word(s, " \t", &stop);

    if (strchr(word, ':') != NULL)
        return fail_at(s, word, e,
                       "the label \"%.40s\" is not a number: it is an index and a value, without a label before it",
                       word);
    if (strchr(word, ',') != NULL && foreign_number_find(word) != FOREIGN_WORD)
        return fail_at(s, word, e, "the label \"%.40s\" is not a number: several labels (1,3) are not supported", word);
    return take_number(s, word, "label", &s->out->label[s->out->rows], e);
}

static enum ps_err
take_line(struct libsvm_scan *s, struct ps_error *e)
{
    struct ps_sparse *m = s->out;
    char *word, stop;
    enum ps_err err;

    if (memchr(s->line, '\0', (size_t)(s->end - s->line)) != NULL)
        return fail_at(s, s->line, e, "the line holds a zero byte");
    s->end = s->line + strcspn(s->line, "#");
    *s->end = '\0';
    skip_blanks(s);
    if (*s->at == '\0')
        return PS_OK;
    if ((err = take_label(s, e)) != PS_OK)
        return err;
    m->start[m->rows] = m->entries;
    while ((word = next_word(s, " \t:", &stop)) != NULL) {
        if (stop != ':')
            return fail_at(s, word, e, "expected index:value, got \"%.40s\"", word);
        if ((err = take_entry(s, word, e)) != PS_OK)
            return err;
    }
    m->rows++;
    m->start[m->rows] = m->entries;
    return PS_OK;
}

static enum ps_err
take_lines(struct libsvm_scan *s, char *text, size_t len, struct ps_error *e)
{
    struct text_lines lines = text_lines_start(text, len);
    enum ps_err err = PS_OK;
    struct span line;

    while (err == PS_OK && text_lines_next(&lines, &line)) {
        s->line = s->at = text + ((const char *)line.data - text);
        s->end = s->line + line.len;
        *s->end = '\0'; /* what ended it has been passed over */
        s->number = lines.number;
        err = take_line(s, e);
    }
    s->number = lines.number + 1;
    return err;
}

static size_t
count_bytes(const char *text, size_t len, char byte)
{
    size_t n = 0;

    for (size_t i = 0; i < len; i++)
        n += text[i] == byte;
    return n;
}

static enum ps_err
check_options(const char *name, const struct ps_libsvm_options *o, struct ps_error *e)
{
    uint64_t columns = MAX(o->columns, o->columns_max);

    if (columns <= PS_SPARSE_COLUMNS_MAX)
        return PS_OK;
    return ps_fail(e, PS_ERR_INVALID, "%s: %llu columns are more than %d", name, (unsigned long long)columns,
                   PS_SPARSE_COLUMNS_MAX);
}

/* Lines end in LF, CR or both, so no more lines than these two together. */
static bool
libsvm_alloc(struct ps_sparse *m, const char *text, size_t len)
{
    size_t rows = count_bytes(text, len, '\n') + count_bytes(text, len, '\r') + 1;
    size_t entries = count_bytes(text, len, ':') + 1;

    m->start = calloc(rows + 1, sizeof *m->start);
    m->label = malloc(rows * sizeof *m->label);
    m->column = malloc(entries * sizeof *m->column);
    m->value = malloc(entries * sizeof *m->value);
    return m->start != NULL && m->label != NULL && m->column != NULL && m->value != NULL;
}

/* Indices as they are written. */
static enum ps_err
libsvm_take(struct libsvm_scan *s, char *text, size_t len, struct ps_error *e)
{
    enum ps_err err;

    if ((err = check_options(s->name, s->options, e)) != PS_OK ||
        (err = file_kind_check_text(s->name, text, len, PS_ERR_DATA, e)) != PS_OK)
        return err;
    if (!libsvm_alloc(s->out, text, len))
        return ps_fail(e, PS_ERR_NOMEM, "%s: out of memory", s->name);
    if ((err = take_lines(s, text, len, e)) != PS_OK)
        return err;
    if (s->out->rows == 0)
        return ps_fail(e, PS_ERR_DATA, "%s:%llu:1: there are no examples", s->name, (unsigned long long)s->number);
    return PS_OK;
}

/* ---- Columns, over all files of the data ---- */

/* What the first column is called: the lowest index of all files decides where the options do not. */
static uint64_t
find_base(const struct libsvm_scan *s, size_t n)
{
    uint64_t lowest = UINT64_MAX;

    for (size_t i = 0; i < n; i++)
        lowest = MIN(lowest, s[i].lowest);
    return s->options->base == PS_LIBSVM_FROM_1 || (s->options->base == PS_LIBSVM_DETECT && lowest > 0);
}

static uint64_t
find_columns(const struct libsvm_scan *s, size_t n, uint64_t base)
{
    uint64_t columns = 0;

    for (size_t i = 0; i < n; i++)
        if (s[i].out->entries > 0)
            columns = MAX(columns, s[i].highest.index + 1 - base);
    return s->options->columns != 0 ? s->options->columns : columns;
}

/* Only where the base was found: before that the last index was not known exactly. */
static enum ps_err
check_columns(const struct libsvm_scan *s, uint64_t base, uint64_t columns, struct ps_error *e)
{
    uint64_t most = s->options->columns != 0 ? columns : s->options->columns_max;

    if (s->out->entries == 0 || most == 0 || s->highest.index + 1 - base <= most)
        return PS_OK;
    return past_last(s, &s->highest, most - 1 + base, e);
}

/* Columns count from 0, whatever number the files give the first one. */
static enum ps_err
number_columns(const struct libsvm_scan *s, size_t n, struct ps_error *e)
{
    uint64_t base = find_base(s, n), columns = find_columns(s, n, base);
    enum ps_err err;

    if (columns == 0)
        return ps_fail(e, PS_ERR_DATA, "%s:%llu:1: no example has a feature", s->name, (unsigned long long)s->number);
    for (size_t i = 0; i < n; i++) {
        if ((err = check_columns(&s[i], base, columns, e)) != PS_OK)
            return err;
        for (uint64_t k = 0; k < s[i].out->entries; k++)
            s[i].out->column[k] -= (uint32_t)base;
        s[i].out->columns = columns;
    }
    return PS_OK;
}

static struct libsvm_scan
libsvm_scan_of(const char *name, const struct ps_libsvm_options *options, struct ps_sparse *out)
{
    *out = (struct ps_sparse){0};
    return (struct libsvm_scan){.name = name, .options = options, .number = 1, .lowest = UINT64_MAX, .out = out};
}

enum ps_err
libsvm_parse(const char *name, char *text, size_t len, const struct ps_libsvm_options *options, struct ps_sparse *out,
             struct ps_error *e)
{
    struct ps_sparse m;
    struct libsvm_scan s = libsvm_scan_of(name, options, &m);
    enum ps_err err;

    if ((err = libsvm_take(&s, text, len, e)) == PS_OK)
        err = number_columns(&s, 1, e);
    if (err != PS_OK)
        ps_sparse_free(&m);
    else
        *out = m;
    return err;
}

static enum ps_err
read_one(struct libsvm_scan *s, struct ps_error *e)
{
    enum ps_err err;
    char *text;
    size_t len;

    if ((err = read_file(s->name, &text, &len, e)) != PS_OK)
        return err;
    err = libsvm_take(s, text, len, e);
    free(text);
    if (err == PS_OK && (s->out->source = strdup(s->name)) == NULL)
        err = ps_fail(e, PS_ERR_NOMEM, "%s: out of memory", s->name);
    return err;
}

enum ps_err
ps_libsvm_read_parts(size_t n, const char *const *paths, const struct ps_libsvm_options *options, struct ps_sparse *out,
                     struct ps_error *error)
{
    static const struct ps_libsvm_options defaults = {0};
    struct libsvm_scan *s = calloc(n, sizeof *s);
    enum ps_err err = PS_OK;

    if (n == 0 || s == NULL) {
        free(s);
        return n == 0 ? ps_fail(error, PS_ERR_INVALID, "there is no file to read")
                      : ps_fail(error, PS_ERR_NOMEM, "%s: out of memory", paths[0]);
    }
    for (size_t i = 0; i < n; i++)
        s[i] = libsvm_scan_of(paths[i], options != NULL ? options : &defaults, &out[i]);
    for (size_t i = 0; i < n && err == PS_OK; i++)
        err = read_one(&s[i], error);
    if (err == PS_OK)
        err = number_columns(s, n, error);
    for (size_t i = 0; i < n && err != PS_OK; i++)
        ps_sparse_free(&out[i]);
    free(s);
    return err;
}

enum ps_err
ps_libsvm_read(const char *path, const struct ps_libsvm_options *options, struct ps_sparse *out, struct ps_error *error)
{
    struct ps_sparse m;
    enum ps_err err = ps_libsvm_read_parts(1, &path, options, &m, error);

    if (err == PS_OK)
        *out = m;
    return err;
}
