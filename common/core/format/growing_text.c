#include "common/core/format/growing_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROWING_TEXT_START 256

/* For n bytes more and the terminator. */
static bool
growing_text_reserve(struct growing_text *t, size_t n)
{
    size_t size = MAX(t->size, (size_t)GROWING_TEXT_START);
    char *data;

    while (size - t->len <= n)
        size *= 2;
    if (!t->failed && size > t->size) {
        data = realloc(t->data, size);
        t->failed = data == NULL;
        t->data = data != NULL ? data : t->data;
        t->size = data != NULL ? size : t->size;
    }
    return !t->failed;
}

void
growing_text_add(struct growing_text *t, const char *bytes, size_t n)
{
    if (!growing_text_reserve(t, n))
        return;
    memcpy(t->data + t->len, bytes, n);
    t->len += n;
    t->data[t->len] = '\0';
}

void
growing_text_put(struct growing_text *t, const char *format, ...)
{
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    ps_assert(n >= 0);
    if (!growing_text_reserve(t, (size_t)n))
        return;
    va_start(args, format);
    vsnprintf(t->data + t->len, (size_t)n + 1, format, args);
    va_end(args);
    t->len += (size_t)n;
}

static int
growing_text_piece(const char *bytes, size_t n, void *text)
{
    struct growing_text *t = text;

    growing_text_add(t, bytes, n);
    return t->failed ? -1 : 0;
}

void
growing_text_json(struct growing_text *t, json_t *value, size_t flags)
{
    if (value == NULL || json_dump_callback(value, growing_text_piece, t, flags) != 0)
        t->failed = true;
    json_decref(value);
}

char *
growing_text_take(struct growing_text *t)
{
    char *text = NULL;

    if (growing_text_reserve(t, 0)) {
        t->data[t->len] = '\0';
        text = t->data;
    } else {
        free(t->data);
    }
    *t = (struct growing_text){0};
    return text;
}
