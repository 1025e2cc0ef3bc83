/* A push-and-pull of one block at a time, as a worker waits for it: the median of a sample's round trips, and what 99
 * of 100 do not exceed. Blocking: both ends sleep until something comes, on a core each, and wherever the kernel puts
 * them (it may put the two of a simple pair on one, where waking costs a tenth). Spinning: both poll, on a core each;
 * the pump then is the ping-pong that no answer comes before. */
#include <stdio.h>

#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/link.h"
#include "tests/bench/turns.h"

static const size_t sizes[] = {4032, 64, 64 * KIB}; /* short measures the first alone */

static void
row(struct table *t, const char *what, const char *size, struct series *figures, size_t ways)
{
    char label[64];

    for (size_t w = 0; w < ways; w++)
        for (int i = 0; i < figures[w].n; i++)
            figures[w].value[i] *= 1e6;
    snprintf(label, sizeof label, "%s, %s", size, what);
    table_row(t, label, 0, figures);
}

static void
measure(const struct settings *s, struct report *r, const char *title, unsigned flags)
{
    static struct links links;
    static struct turns turns;
    struct way ways[WAYS_MAX];
    struct table *t;
    size_t n;

    links_open(&links, s, r, MIB, flags);
    n = links_trips(&links, ways);
    t = report_table(r, &(struct table_spec){.title = title, .unit = "us", .less = true}, ways, n);
    for (size_t i = 0; i < (size_t)settings_pick(s, 1, 1, ARRAY_LEN(sizes)); i++) {
        struct load load = {LOAD_PUSH_PULL, sizes[i], 1, 1, 1};
        char text[LOAD_SIZE_TEXT];

        links_load(&links, load_size(sizes[i], text), &load);
        turns_take(s, ways, n, 2, &turns);
        row(t, "median", text, turns.series[0], n);
        row(t, "99th percentile", text, turns.series[1], n);
        links_check(&links);
    }
    links_close(&links);
}

void
area_roundtrip(const struct settings *s, struct report *r)
{
    measure(s, r, "round trip of a push-and-pull, blocking, a core each", LINKS_APART);
    measure(s, r, "round trip of a push-and-pull, blocking", 0);
    measure(s, r, "round trip of a push-and-pull, spinning, a core each", LINKS_SPIN | LINKS_APART);
}
