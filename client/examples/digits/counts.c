/* No parser: the reports come from psd and are known to be JSON; their members are found by name. A member's name in
 * quotes and then a colon cannot stand in a string, where quotes are escaped. */
#include "client/examples/digits/counts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/base/base.h"

static const char *
skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* After the colon of the next member of this name, or NULL. */
static const char *
member_find(const char *json, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = json; (at = strstr(at, name)) != NULL; at += len) {
        const char *after = at + len;

        if (at == json || at[-1] != '"' || *after != '"')
            continue;
        after = skip_blanks(after + 1);
        if (*after == ':')
            return skip_blanks(after + 1);
    }
    return NULL;
}

/* 64-bit numbers may be in quotes, as protobuf's own JSON has them. */
static uint64_t
number_at(const char *at)
{
    return strtoull(at + (*at == '"'), NULL, 10);
}

static uint64_t
members_sum(const char *json, const char *name)
{
    uint64_t sum = 0;

    for (const char *at = json; (at = member_find(at, name)) != NULL;)
        sum += number_at(at);
    return sum;
}

void
counts_add_variables(struct digits_counts *c, const char *json)
{
    c->pushed_bytes += members_sum(json, "pushed_bytes");
    c->pulled_bytes += members_sum(json, "pulled_bytes");
    c->pushes += members_sum(json, "pushes");
    c->dropped += members_sum(json, "dropped");
    c->refused += members_sum(json, "refused");
}

/* "age": [3, 1, 0] or "age": {"count": [3, 1, 0]} */
void
counts_add_stats(struct digits_counts *c, const char *json)
{
    const char *at = member_find(json, "age");

    if (at != NULL && *at == '{')
        at = member_find(at, "count");
    if (at == NULL || *at != '[')
        return;
    at = skip_blanks(at + 1);
    for (size_t i = 0; i < COUNTS_AGES && *at != ']' && *at != '\0'; i++) {
        c->ages[i] += number_at(at);
        at += strcspn(at, ",]");
        at = skip_blanks(at + (*at == ','));
    }
}

const char *
counts_age_range(size_t bucket, char text[48])
{
    uint64_t first = bucket == 0 ? 0 : (uint64_t)1 << (bucket - 1);

    if (bucket < 2)
        snprintf(text, 48, "%zu", bucket);
    else
        snprintf(text, 48, "%llu-%llu", (unsigned long long)first, (unsigned long long)(2 * first - 1));
    return text;
}
