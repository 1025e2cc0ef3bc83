/* In the place of redis.c where the bench is built without hiredis. */
#include "tests/bench/redis.h"

#include "common/core/base/base.h"

bool
redis_start(struct redis *r, const struct bench_options *s, struct bench_report *report)
{
    (void)s;
    *r = (struct redis){0};
    report_left_out(report, "redis: built without hiredis");
    return false;
}

void
redis_stop(struct redis *r)
{
    (void)r;
}

void
redis_open(struct redis_link *link, const struct redis *r, const struct bench_options *s, bool is_unix)
{
    (void)r, (void)s, (void)is_unix;
    *link = (struct redis_link){0};
}

void
redis_close(struct redis_link *link)
{
    (void)link;
}

/* There was none to open. */
double
redis_run(struct redis_link *link, const struct bench_load *l, double seconds)
{
    (void)link, (void)l, (void)seconds;
    ps_assert(false);
    return 0;
}

size_t
redis_round_trips(struct redis_link *link, const struct bench_load *l, double seconds, double *times, size_t most)
{
    (void)link, (void)l, (void)seconds, (void)times, (void)most;
    ps_assert(false);
    return 0;
}

void
redis_fill(struct redis_link *link, const struct bench_load *l)
{
    (void)link, (void)l;
    ps_assert(false);
}
