/* The one bench: psd beside the bare limits and its peers, area by area (area.h).
 *
 *     bench                                  all areas in short
 *     bench wire roundtrip --rounds 15       these in full
 *     bench --list                           what there is
 *     bench --json FILE --svg FILE           everything kept, and drawn
 *
 * Modules: bench_options (the command line), areas (one file each: what is measured against what), variant and
 * interleave (the ways that are compared take turns), series (medians, spreads, ratios), report (tables, JSON) and
 * picture (SVG). For the areas: server (psd processes), worker (a client that applies a load), worker_pool (many of
 * them), transports (psd and its peers over each transport), pump (the bare socket), redis (a peer), bare, team and
 * peer_teams (all-reduces). NOTES.md beside this file is the log of the effect of changes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/bench/area.h"
#include "tests/bench/picture.h"
#include "tests/bench/server.h"

/* Descriptors for a thousand connections. */
static void
raise_limits(void)
{
    struct rlimit l;

    if (getrlimit(RLIMIT_NOFILE, &l) == 0) {
        l.rlim_cur = l.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &l);
    }
}

static void
run_area(struct bench_report *r, const struct area *a)
{
    report_area(r, a->name, a->about);
    a->run(r->settings, r);
}

int
main(int argc, char **argv)
{
    static struct bench_options s;
    static struct bench_report report;
    int status;

    if (!bench_options_parse(&s, argc, argv, &status))
        return status;
    signal(SIGPIPE, SIG_IGN);
    raise_limits();
    setenv("PSD_TRANSPORT", "tcp", 1); /* areas that do not ask for shared memory measure sockets */
    bench_keep_clean(s.disk);
    report_init(&report, &s);
    printf("%ld cores; TCP over loopback, congestion control %s; %lld rounds of %.3g s in turns: medians (between the "
           "quartiles)\n",
           sysconf(_SC_NPROCESSORS_ONLN), s.congestion, (long long)s.rounds, s.seconds);
    for (size_t i = 0; s.line.len == 0 && i < areas_len; i++)
        run_area(&report, &areas[i]);
    for (int i = 0; i < s.line.len; i++)
        run_area(&report, area_find(s.line.words[i]));
    if (s.json != NULL)
        report_json(&report, s.json);
    if (s.svg != NULL)
        picture_save(&report, s.svg);
    report_finish(&report);
    return EXIT_SUCCESS;
}
