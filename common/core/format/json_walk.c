#include "common/core/format/json_walk.h"

#include <stdio.h>
#include <string.h>

struct json_walk
json_walk_start(const char *text, size_t len)
{
    return (struct json_walk){.begin = text, .at = text, .end = text + len};
}

static bool
json_walk_fail(struct json_walk *w, const char *what)
{
    if (w->error[0] == '\0')
        snprintf(w->error, sizeof w->error, "%s", what);
    return false;
}

/* The next character that is no blank, '\0' at the end. */
static char
json_walk_peek(struct json_walk *w)
{
    while (w->at < w->end && strchr(" \t\n\r", *w->at) != NULL && *w->at != '\0')
        w->at++;
    return w->at < w->end ? *w->at : '\0';
}

bool
json_walk_open(struct json_walk *w, char bracket)
{
    if (json_walk_peek(w) != bracket)
        return json_walk_fail(w, bracket == '{' ? "'{' expected" : "'[' expected");
    w->at++;
    w->first = true;
    return true;
}

bool
json_walk_more(struct json_walk *w, char bracket)
{
    bool first = w->first;

    if (w->error[0] != '\0')
        return false;
    w->first = false;
    if (json_walk_peek(w) == bracket) {
        w->at++;
        return false;
    }
    if (first)
        return true;
    if (json_walk_peek(w) != ',')
        return json_walk_fail(w, bracket == '}' ? "',' or '}' expected" : "',' or ']' expected");
    w->at++;
    return true;
}

json_t *
json_walk_value(struct json_walk *w)
{
    json_error_t where;
    json_t *value;

    if (w->error[0] != '\0')
        return NULL;
    value = json_loadb(w->at, (size_t)(w->end - w->at),
                       JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &where);
    w->at += MIN((size_t)MAX(where.position, 0), (size_t)(w->end - w->at));
    if (value != NULL)
        return value;
    w->no_memory = json_error_code(&where) == json_error_out_of_memory;
    (void)json_walk_fail(w, where.text);
    return NULL;
}

json_t *
json_walk_name(struct json_walk *w)
{
    json_t *name = json_walk_peek(w) == '"' ? json_walk_value(w) : NULL;

    if (name == NULL) {
        (void)json_walk_fail(w, "a name in quotes expected");
        return NULL;
    }
    if (json_walk_peek(w) == ':') {
        w->at++;
        return name;
    }
    (void)json_walk_fail(w, "':' expected");
    json_decref(name);
    return NULL;
}

bool
json_walk_end(struct json_walk *w)
{
    if (w->error[0] != '\0')
        return false;
    return json_walk_peek(w) == '\0' && w->at == w->end ? true : json_walk_fail(w, "end of file expected");
}

size_t
json_walk_place(const struct json_walk *w)
{
    return (size_t)(w->at - w->begin);
}
