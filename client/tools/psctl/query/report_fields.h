/* Reading the shards' reports, whose members are named as in psd.proto. One that is missing counts as 0 or "", as in
 * protobuf. Pure. */
#ifndef CLIENT_TOOLS_PSCTL_QUERY_REPORT_FIELDS_H
#define CLIENT_TOOLS_PSCTL_QUERY_REPORT_FIELDS_H

#include "client/tools/psctl/query/query_all.h"

uint64_t field_number(const json_t *object, const char *name);
double field_real(const json_t *object, const char *name);
const char *field_text(const json_t *object, const char *name);
bool field_flag(const json_t *object, const char *name);

/* One of a report's lists; NULL, which reads as an empty one, when the shard was not reached. */
json_t *answer_list(const struct shard_answer *a, const char *name);

/* An entry of one of the reports' lists, and whose it is. */
struct report_entry {
    const json_t *report;
    uint32_t shard;
};

/* The list called `member` of all reports, jobs or workers, sorted by job, name, task and shard; the caller frees it.
 * NULL when out of memory, which reads as an empty one. */
struct report_entry *report_entries_gather(const struct shard_answer *answers, uint32_t n, const char *member,
                                           size_t *len);

/* The same job or worker, on another shard perhaps. */
bool report_entry_same(const struct report_entry *a, const struct report_entry *b);

#endif
