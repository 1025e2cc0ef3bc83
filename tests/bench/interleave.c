#include "tests/bench/interleave.h"

#include <signal.h>
#include <string.h>

#include "common/core/base/base.h"
#include "tests/bench/server.h"

static void
interleave_hold(const struct bench_variant *ways, size_t n, pid_t but)
{
    for (size_t i = 0; i < n; i++)
        if (ways[i].server != 0 && kill(ways[i].server, ways[i].server == but ? SIGCONT : SIGSTOP) < 0)
            bench_die(ways[i].name, NULL);
}

static void
let_go(const struct bench_variant *ways, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ways[i].server != 0)
            (void)kill(ways[i].server, SIGCONT);
}

static void
interleave_sample(const struct bench_options *s, const struct bench_variant *ways, size_t n, size_t i, double seconds,
                  double *figures)
{
    if (ways[i].sample == NULL || !bench_options_want(s, ways[i].name))
        return;
    interleave_hold(ways, n, ways[i].server);
    ways[i].sample(ways[i].arg, seconds, figures);
}

void
interleave_run(const struct bench_options *s, const struct bench_variant *ways, size_t n, size_t figures,
               struct interleave *out)
{
    ps_assert(n <= WAYS_MAX && figures <= FIGURES_MAX && s->rounds <= SERIES_MAX);
    memset(out, 0, sizeof *out);
    for (int64_t round = -1; round < s->rounds; round++)
        for (size_t k = 0; k < n; k++) {
            size_t i = round % 2 == 0 ? k : n - 1 - k;
            double got[FIGURES_MAX];

            interleave_sample(s, ways, n, i, round < 0 ? MIN(s->seconds, 0.1) : s->seconds, got);
            for (size_t f = 0;
                 f < figures && round >= 0 && ways[i].sample != NULL && bench_options_want(s, ways[i].name); f++)
                series_add(&out->series[f][i], got[f]);
        }
    let_go(ways, n);
}
