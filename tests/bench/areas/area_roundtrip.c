/* A push-and-pull of one block at a time, as a worker waits for it: the median of a sample's round trips, and what 99
 * of 100 do not exceed. Blocking: both ends sleep until something comes, on a core each, and wherever the kernel puts
 * them (it may put the two of a simple pair on one, where waking costs a tenth). Spinning: both poll, on a core each;
 * the pump then is the ping-pong that no answer comes before. */
#include <stdio.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/interleave.h"
#include "tests/bench/transports.h"

static const size_t sizes[] = {4032, 64, 64 * KIB}; /* short measures the first alone */

static void
roundtrip_row(struct bench_table *t, const char *what, const char *size, struct series *figures, size_t ways)
{
    char label[64];

    for (size_t w = 0; w < ways; w++)
        for (int i = 0; i < figures[w].n; i++)
            figures[w].value[i] *= 1e6;
    snprintf(label, sizeof label, "%s, %s", size, what);
    table_row(t, label, 0, figures);
}

static void
roundtrip_measure(const struct bench_options *s, struct bench_report *r, const char *title, unsigned flags)
{
    static struct transports links;
    static struct interleave turns;
    struct bench_variant ways[WAYS_MAX];
    struct bench_table *t;
    size_t n;

    transports_open(&links, s, r, MIB, flags);
    n = transports_trips(&links, ways);
    t = report_table(r, &(struct table_spec){.title = title, .unit = "us", .less = true}, ways, n);
    for (size_t i = 0; i < (size_t)bench_options_pick(s, 1, 1, ARRAY_LEN(sizes)); i++) {
        struct bench_load load = {LOAD_PUSH_PULL, sizes[i], 1, 1, 1};
        char text[LOAD_SIZE_TEXT];

        transports_load(&links, load_size(sizes[i], text), &load);
        interleave_run(s, ways, n, 2, &turns);
        roundtrip_row(t, "median", text, turns.series[0], n);
        roundtrip_row(t, "99th percentile", text, turns.series[1], n);
        transports_check(&links);
    }
    transports_close(&links);
}

void
area_roundtrip(const struct bench_options *s, struct bench_report *r)
{
    roundtrip_measure(s, r, "round trip of a push-and-pull, blocking, a core each", TRANSPORTS_APART);
    roundtrip_measure(s, r, "round trip of a push-and-pull, blocking", 0);
    roundtrip_measure(s, r, "round trip of a push-and-pull, spinning, a core each", TRANSPORTS_SPIN | TRANSPORTS_APART);
}
