/* The counts of the shards, taken from their reports (ps_client_query(), JSON). Pure. */
#ifndef CLIENT_EXAMPLES_DIGITS_COUNTS_H
#define CLIENT_EXAMPLES_DIGITS_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#define COUNTS_AGES 33 /* bucket 0: age 0, bucket i: ages 2^(i-1) to 2^i - 1 */

struct digits_counts {
    uint64_t pushed_bytes, pulled_bytes, pushes, dropped, refused; /* of this job's variables */
    uint64_t ages[COUNTS_AGES];                                    /* of all pushes of the shards */
};

/* Add the counts of a report on variables, or on stats. */
void counts_add_variables(struct digits_counts *c, const char *json);
void counts_add_stats(struct digits_counts *c, const char *json);

/* "0", "1", "2-3", "4-7". Into text. */
const char *counts_age_range(size_t bucket, char text[48]);

#endif
