/* Shared by the modules of reports: a report that fills up. Entries are made in the event's arena and counted in bytes
 * as they would travel, so that a report always fits one frame. It ends early, with the place of the next page, when it
 * has looked at as much as one event may: other events wait meanwhile, such as pushes. */
#ifndef SERVER_CORE_SHARD_REPORT_BUILDER_H
#define SERVER_CORE_SHARD_REPORT_BUILDER_H

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"
#include "proto/psd.pb-c.h"

#define REPORT_ENTRIES_MAX 64 /* of one report */
#define REPORT_LOOKS_MAX                                                                                               \
    1024                      /* jobs, variables, sessions and blocks that it looks at; more only for its first entry  \
                               */
#define REPORT_WAITS_MAX 1024 /* entries of BLOCKED, which has no next page */

struct shard;
struct shard_event;
struct job;

struct report_builder {
    struct shard *s;
    Psd__Report *report;
    const char *job;   /* only this one, or "" for all */
    const char *after; /* go on past this */
    uint64_t from;     /* instead, when it is not 0: `next` of the report before */
    uint64_t looks;    /* s->looks at its begin */
    size_t bytes;
    enum ps_err err; /* the answer is this error */
    struct ps_error error;
};

bool report_wants_job(const struct report_builder *b, const struct job *job);

/* Whether one more entry fits into the frame. */
bool report_fits(struct report_builder *b, const ProtobufCMessage *m);

/* Whether the report has entries, and is long enough or has looked at enough. */
bool report_is_long(const struct report_builder *b, size_t entries);

/* There is more, and the next page begins there. */
void report_goes_on(struct report_builder *b, uint64_t next);

/* In the event's arena. NULL, or "": out of memory, and the turn fails. */
void *report_zeroed(struct shard *s, size_t size);
char *report_text(struct shard *s, const char *text);

/* ---- Modules ---- */

/* report_status.c. save, age: what m is given, kept by the caller until the report has gone. */
void report_status(struct shard *s, Psd__StatusReport *m, Psd__SaveReport *save, uint64_t in_flight_bytes);
void report_stats(struct shard *s, Psd__StatsReport *m, Psd__Histogram *age, const struct shard_event *event);

/* report_variables.c */
void report_variables(struct report_builder *b);
void report_definitions(struct report_builder *b);

/* report_jobs.c */
void report_jobs(struct report_builder *b);
void report_workers(struct report_builder *b);
Psd__JobDefinition *report_job_definition(struct shard *s, const struct job *job); /* NULL: no memory */

/* report_timeline.c. m: kept by the caller until the report has gone. */
void report_timeline(struct report_builder *b, Psd__TimelineReport *m);

/* report_blocked.c */
void report_blocked(struct report_builder *b);

#endif
