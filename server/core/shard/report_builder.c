/* Entries lie in the event's arena. */
#include "server/core/shard/report_builder.h"

#include <string.h>

#include "server/core/shard/report.h"
#include "server/core/shard_state.h"

bool
report_wants_job(const struct report_builder *b, const struct job *job)
{
    return job != NULL && !job->dropped && (b->job[0] == '\0' || strcmp(b->job, job->name) == 0);
}

bool
report_fits(struct report_builder *b, const ProtobufCMessage *m)
{
    size_t size = protobuf_c_message_get_packed_size(m) + 8;

    if (b->bytes + size > REPORT_BYTES_MAX)
        return false;
    b->bytes += size;
    return true;
}

bool
report_is_long(const struct report_builder *b, size_t entries)
{
    return entries == REPORT_ENTRIES_MAX || (entries > 0 && b->s->looks - b->looks > REPORT_LOOKS_MAX);
}

void
report_goes_on(struct report_builder *b, uint64_t next)
{
    b->report->more = true;
    b->report->next = next;
}

void *
report_zeroed(struct shard *s, size_t size)
{
    void *place = arena_alloc(&s->arena, size);

    if (place == NULL)
        turn_fail(s, PS_ERR_NOMEM);
    else
        memset(place, 0, size);
    return place;
}

char *
report_text(struct shard *s, const char *text)
{
    char *copy = report_zeroed(s, strlen(text) + 1);

    return copy != NULL ? strcpy(copy, text) : (char *)protobuf_c_empty_string;
}
