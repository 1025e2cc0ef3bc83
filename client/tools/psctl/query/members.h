/* Reading the shards' reports, whose members are named as in psd.proto. One that is missing counts as 0 or "", as in
 * protobuf. Pure. */
#ifndef CLIENT_TOOLS_VIEWS_MEMBERS_H
#define CLIENT_TOOLS_VIEWS_MEMBERS_H

#include "client/tools/psctl/query/ask.h"

uint64_t member_number(const json_t *object, const char *name);
double member_real(const json_t *object, const char *name);
const char *member_text(const json_t *object, const char *name);
bool member_flag(const json_t *object, const char *name);

/* One of a report's lists; NULL, which reads as an empty one, when the shard was not reached. */
json_t *answer_list(const struct answer *a, const char *name);

/* An entry of one of the reports' lists, and whose it is. */
struct place {
    const json_t *report;
    uint32_t shard;
};

/* The list called `member` of all reports, sorted by job, name, task and shard; the caller frees it. NULL when out of
 * memory, which reads as an empty one. */
struct place *places_gather(const struct answer *answers, uint32_t n, const char *member, size_t *len);

/* The entry of the same variable or worker on the same shard; NULL when there is none. */
const struct place *places_find(const struct place *places, size_t len, const struct place *like);

/* The same variable or worker, on another shard perhaps. */
bool place_same(const struct place *a, const struct place *b);

#endif
