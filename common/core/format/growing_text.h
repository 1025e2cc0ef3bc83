/* Text put together piece by piece in memory that grows. Pure.
 *
 *     struct growing_text t = {0};
 *     growing_text_put(&t, "%d,", 7);
 *     growing_text_json(&t, value, JSON_COMPACT);
 *     char *text = growing_text_take(&t);   NULL: no memory at some point */
#ifndef COMMON_CORE_FORMAT_GROWING_TEXT_H
#define COMMON_CORE_FORMAT_GROWING_TEXT_H

#include <jansson.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

struct growing_text {
    char *data;
    size_t len, size;
    bool failed; /* what is put from then on is dropped */
};

void growing_text_add(struct growing_text *t, const char *bytes, size_t n);
void growing_text_put(struct growing_text *t, const char *format, ...) PS_PRINTF(2, 3);

/* A value as json_dumps() writes it; takes the reference, NULL fails. */
void growing_text_json(struct growing_text *t, json_t *value, size_t flags);

/* The text, terminated, freed by the caller; NULL: no memory. *t is zeroed. */
char *growing_text_take(struct growing_text *t);

#endif
