/* The page as JSON: the shards' reports at the second time, and how fast their counters rose. */
#include <math.h>

#include "client/tools/psctl/query/rates.h"
#include "client/tools/psctl/top/top.h"
#include "client/tools/psctl/views/render.h"

static json_t *
shard_rates(const struct rates *r, uint32_t shard)
{
    static const char *const counters[] = {"pushes_applied", "pushed_bytes", "pulls",         "pulled_bytes",
                                           "turns",          "dropped_late", "dropped_stale", "refused_nonfinite",
                                           "refused_shape",  "refused_other"};
    json_t *rates = json_object();

    for (size_t i = 0; i < ARRAY_LEN(counters); i++) {
        double rate = rates_stat(r, shard, counters[i]);

        json_object_set_new(rates, counters[i], isnan(rate) ? json_null() : json_real(rate));
    }
    return rates;
}

json_t *
top_json(const struct answer_sample *before, const struct answer_sample *now)
{
    json_t *document = render_document("top", now->answers, now->n, true), *shard;
    struct rates rates;
    size_t i;

    if (rates_init(&rates, before, now) == PS_OK) {
        json_array_foreach(json_object_get(document, "shards"), i, shard)
            json_object_set_new(shard, "per_second", shard_rates(&rates, (uint32_t)i));
    }
    rates_finish(&rates);
    return document;
}
