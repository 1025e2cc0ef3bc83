/* The largest or busiest variables over all shards, from the shards' reports at one time or at two. With two, traffic
 * is ranked by its rise between them: variables that are busy now, not those that once were. Pure, but for the stream
 * that is printed to. */
#ifndef CLIENT_TOOLS_PSCTL_VIEWS_RANKING_H
#define CLIENT_TOOLS_PSCTL_VIEWS_RANKING_H

#include "client/tools/psctl/query/query_all.h"
#include "client/tools/shared/printer.h"

enum ranking_by {
    RANKING_BYTES,
    RANKING_PUSHES,
    RANKING_PUSHED,
    RANKING_PULLS,
    RANKING_PULLED,
    RANKING_AGE, /* mean of the pushes */
    RANKING_VERSION,
    RANKING_REFUSED,
    RANKING_DROPPED
};

struct ranking_choice {
    enum ranking_by by;
    size_t top;          /* how many, at least 1 */
    const char *pattern; /* of their names, see pattern.h; NULL: all */
};

/* The queries it needs: VARIABLES, and STATUS for rates. */
extern const unsigned ranking_queries;

/* before: NULL when there was none, then there are no rates. */
void ranking_print(const struct answer_sample *before, const struct answer_sample *now,
                   const struct ranking_choice *choice, const struct printer *page);

/* [{"job", "name", "dims", "bytes", "version", "pushes", "pushed_bytes", "pulls", "pulled_bytes", "age", "refused",
 * "dropped", "pushes_per_second", "pushed_bytes_per_second", "pulls_per_second", "pulled_bytes_per_second",
 * "optimizer"}], the first in rank first; null: not known. The caller's. */
json_t *ranking_json(const struct answer_sample *before, const struct answer_sample *now,
                     const struct ranking_choice *choice);

#endif
