#include "server/core/metrics/exposition.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/number.h"
#include "common/core/base/utf8.h"
#include "common/core/wire/wire.h"

#define SIZE_MIN (16 * KIB)

/* ---- Bytes ---- */

static bool
exposition_reserve(struct exposition *x, size_t more)
{
    size_t size = MAX(x->size, (size_t)SIZE_MIN);
    char *bigger;

    if (x->failed || x->len + more >= EXPOSITION_MAX) {
        x->failed = true;
        return false;
    }
    while (size <= x->len + more)
        size *= 2;
    if (size == x->size)
        return true;
    if ((bigger = realloc(x->text, size)) == NULL) {
        x->failed = true;
        return false;
    }
    x->text = bigger;
    x->size = size;
    return true;
}

static void
put_bytes(struct exposition *x, const char *bytes, size_t len)
{
    if (!exposition_reserve(x, len))
        return;
    memcpy(x->text + x->len, bytes, len);
    x->len += len;
    x->text[x->len] = '\0';
}

static void
exposition_put(struct exposition *x, const char *text)
{
    put_bytes(x, text, strlen(text));
}

/* Backslash and line end, in a label's value the quote too. */
static void
put_escaped(struct exposition *x, const char *text, bool quote)
{
    for (size_t n; *text != '\0'; text += n) {
        n = strcspn(text, "\\\n\"");
        put_bytes(x, text, n);
        if (text[n] == '\0')
            return;
        exposition_put(x, text[n] == '\n' ? "\\n" : text[n] == '\\' ? "\\\\" : quote ? "\\\"" : "\"");
        n++;
    }
}

/* ---- Lines ---- */

void
exposition_family(struct exposition *x, const char *name, enum exposition_kind kind, const char *help)
{
    static const char *const kinds[] = {
        [EXPOSITION_COUNTER] = "counter", [EXPOSITION_GAUGE] = "gauge", [EXPOSITION_HISTOGRAM] = "histogram"};

    x->name = name;
    exposition_put(x, "# HELP ");
    exposition_put(x, name);
    exposition_put(x, " ");
    put_escaped(x, help, false);
    exposition_put(x, "\n# TYPE ");
    exposition_put(x, name);
    exposition_put(x, " ");
    exposition_put(x, kinds[kind]);
    exposition_put(x, "\n");
}

/* A page with one bad byte in it would be refused as a whole. */
static void
put_label(struct exposition *x, const char *name, const char *value, bool *first)
{
    char clean[EXPOSITION_VALUE_MAX + 1];

    snprintf(clean, sizeof clean, "%s", value);
    utf8_clean(clean);
    exposition_put(x, *first ? "{" : ",");
    *first = false;
    exposition_put(x, name);
    exposition_put(x, "=\"");
    put_escaped(x, clean, true);
    exposition_put(x, "\"");
}

static void
put_labels(struct exposition *x, va_list labels, const char *le)
{
    bool first = true;
    const char *name;

    while ((name = va_arg(labels, const char *)) != NULL)
        put_label(x, name, va_arg(labels, const char *), &first);
    if (le != NULL)
        put_label(x, "le", le, &first);
    if (!first)
        exposition_put(x, "}");
}

static void
put_sample(struct exposition *x, const char *suffix, const char *le, const char *value, va_list labels)
{
    va_list copy;

    va_copy(copy, labels);
    exposition_put(x, x->name);
    exposition_put(x, suffix);
    put_labels(x, copy, le);
    exposition_put(x, " ");
    exposition_put(x, value);
    exposition_put(x, "\n");
    va_end(copy);
}

static const char *
count_text(uint64_t value, char text[NUMBER_TEXT_MAX])
{
    snprintf(text, NUMBER_TEXT_MAX, "%" PRIu64, value);
    return text;
}

void
exposition_count(struct exposition *x, uint64_t value, ...)
{
    char text[NUMBER_TEXT_MAX];
    va_list labels;

    va_start(labels, value);
    put_sample(x, "", NULL, count_text(value, text), labels);
    va_end(labels);
}

void
exposition_real(struct exposition *x, double value, ...)
{
    char text[NUMBER_TEXT_MAX];
    va_list labels;

    va_start(labels, value);
    put_sample(x, "", NULL, number_format(value, text), labels);
    va_end(labels);
}

void
exposition_histogram(struct exposition *x, const struct exposition_histogram *h, ...)
{
    char le[NUMBER_TEXT_MAX], text[NUMBER_TEXT_MAX];
    uint64_t sum = 0;
    va_list labels;

    va_start(labels, h);
    for (size_t i = 0; i < h->buckets; i++) {
        bool last = i + 1 == h->buckets;

        sum += h->counts[i];
        put_sample(x, "_bucket", last ? "+Inf" : number_format(h->bounds[i], le), count_text(sum, text), labels);
    }
    put_sample(x, "_sum", NULL, number_format(h->sum, text), labels);
    put_sample(x, "_count", NULL, count_text(sum, text), labels);
    va_end(labels);
}

void
exposition_finish(struct exposition *x)
{
    free(x->text);
    *x = (struct exposition){0};
}
