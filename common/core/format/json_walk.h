/* A large JSON text, one member of an object or element of a list at a time: a tree of all of it would take twenty
 * times its memory. jansson reads each value. Pure.
 *
 *     struct json_walk w = json_walk_start(text, len);
 *     ok = json_walk_open(&w, '{');
 *     while (ok && json_walk_more(&w, '}')) {
 *         json_t *name = json_walk_name(&w), *value = json_walk_value(&w);   NULL: w.error says why
 *         ...
 *     }
 *     ok = ok && w.error[0] == '\0' && json_walk_end(&w);
 *
 * An object's names are not compared with each other: the caller refuses those that are there twice. Those within a
 * value are. */
#ifndef COMMON_CORE_FORMAT_JSON_WALK_H
#define COMMON_CORE_FORMAT_JSON_WALK_H

#include <jansson.h>

#include "common/core/base/base.h"

struct json_walk {
    const char *begin, *at, *end;
    bool first;                         /* nothing was read since the bracket was opened */
    bool no_memory;                     /* why it failed */
    char error[JSON_ERROR_TEXT_LENGTH]; /* "": it has not failed */
};

/* Borrows text. */
struct json_walk json_walk_start(const char *text, size_t len);

/* Past the bracket, '{' or '['. False: there is another value. */
bool json_walk_open(struct json_walk *w, char bracket);

/* Whether there is another before the bracket that closes, '}' or ']'. False also when it fails. */
bool json_walk_more(struct json_walk *w, char bracket);

/* A member's name, and the colon behind it; a value. The caller's; NULL: it failed. */
json_t *json_walk_name(struct json_walk *w);
json_t *json_walk_value(struct json_walk *w);

/* Nothing but blanks is left. */
bool json_walk_end(struct json_walk *w);

/* Bytes before the place that was reached. */
size_t json_walk_place(const struct json_walk *w);

#endif
