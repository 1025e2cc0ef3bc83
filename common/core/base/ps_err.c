/* Texts of the error list. */
#include "common/include/psclient/ps_err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/core/base/base.h"
#include "common/core/base/utf8.h"

const char *
ps_strerror(enum ps_err err)
{
    switch ((int)err) {
    case PS_OK:
        return "success";
#define CASE(name, number, text)                                                                                       \
    case number:                                                                                                       \
        return text;
        PS_ERR_LIST(CASE)
#undef CASE
    default:
        return "unknown error code";
    }
}

const char *
ps_err_name(enum ps_err err)
{
    switch ((int)err) {
    case PS_OK:
        return "OK";
#define CASE(name, number, text)                                                                                       \
    case number:                                                                                                       \
        return #name;
        PS_ERR_LIST(CASE)
#undef CASE
    default:
        return "UNKNOWN";
    }
}

/* Sentences quote what people, files and peers wrote: a line end or a mark in it must not be lost from view. */
void
ps_error_set(struct ps_error *e, enum ps_err code, const char *format, ...)
{
    char text[sizeof e->text];
    va_list args;

    ps_assert(code != PS_OK);
    if (e == NULL)
        return;
    e->code = code;
    e->peer[0] = '\0';
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    utf8_show(text, e->text, sizeof e->text);
}

void
ps_error_format(const struct ps_error *e, char *out, size_t size)
{
    bool failed = e->code != PS_OK, peer = e->peer[0] != '\0' && strstr(e->text, e->peer) == NULL;

    if (size > 0)
        snprintf(out, size, "%s%s%s%s%s%s", failed ? ps_err_name(e->code) : "", failed ? ": " : "", e->text,
                 peer ? " (" : "", peer ? e->peer : "", peer ? ")" : "");
}
