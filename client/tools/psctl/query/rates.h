/* How fast the shards' counters rise, from their reports at two times. A figure that cannot be known is NAN: there was
 * one time only, a shard did not answer, or it was restarted in between and counts from 0. Pure. */
#ifndef CLIENT_TOOLS_PSCTL_QUERY_RATES_H
#define CLIENT_TOOLS_PSCTL_QUERY_RATES_H

#include "client/tools/psctl/query/query_all.h"
#include "client/tools/psctl/query/report_fields.h"
#include "common/core/base/units.h"
#include "common/include/psclient/ps_err.h"

struct rates {
    const struct answer_sample *before, *now; /* borrowed */
    double *seconds;                  /* [now->n] between a shard's two answers, by its own clock; 0: not known */
    struct variable_entry *variables; /* before's, sorted */
    size_t variables_len;
};

/* before may be NULL. PS_ERR_NOMEM. rates_finish() accepts one that failed. */
enum ps_err rates_init(struct rates *r, const struct answer_sample *before,
                       const struct answer_sample *now) PS_MUST_USE;
void rates_finish(struct rates *r);

/* Of a counter in shard i's stats, per second. */
double rates_stat(const struct rates *r, uint32_t i, const char *name);

/* Of a counter in a variable's report on one shard (variable_figure()). A variable that is new counts from 0. */
double rates_variable(const struct rates *r, const struct variable_entry *variable, size_t figure);

/* The sum of those that are known; NAN when none is. Starts from NAN. */
double rates_add(double sum, double rate);

/* How many pushes of each age bucket came in between, on all shards. */
#define RATES_BUCKETS 64
void rates_ages(const struct rates *r, uint64_t ages[RATES_BUCKETS]);

/* The bucket that holds the age which `share` of them do not exceed; RATES_BUCKETS when there are none. */
size_t rates_age_at(const uint64_t ages[RATES_BUCKETS], double share);

/* "1,204", "0.5", and "-" for NAN; the second "9.41 MiB/s". Return out->text. */
const char *rates_text(double per_second, struct units *out);
const char *rates_bytes_text(double bytes_per_second, struct units *out);

#endif
