/* All-reduce of float32 between processes of one machine, in place, beside the bounds of any all-reduce and, where they
 * are installed, beside Open MPI and gloo.
 *
 * Teams of processes (team.h) take turns, each with its values in place: ps_group over TCP and shared memory, sleeping
 * and spinning while it waits; the limits (bare.h); those of others (peer_teams.h): MPI with one transport at a time,
 * gloo over TCP. For each number of ranks (--ranks) there is a table by size (--sizes); --ways chooses teams,
 * --algorithm, --segment and --pin are psd's. A figure is what one all-reduce takes. Sums are looked at once for each
 * size. MPI and gloo take the system's congestion control. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/include/psclient/ps_group.h"
#include "common/core/base/base.h"
#include "tests/bench/area.h"
#include "tests/bench/bare.h"
#include "tests/bench/interleave.h"
#include "tests/bench/load.h"
#include "tests/bench/peer_teams.h"
#include "tests/bench/server.h"
#include "tests/bench/team.h"

enum collective_kind {
    SOCKETS,
    SOCKETS_SPIN,
    SOCKETS_ADD,
    MEMORY,
    TCP,
    TCP_SPIN,
    SHM,
    SHM_SPIN,
    MPI_TCP,
    MPI_SHM,
    GLOO,
    GLOO_RING,
    GLOO_HALVING,
    KINDS
};

/* against: what its times are divided by. */
static const struct {
    const char *name, *against[AGAINST_MAX];
    bool group, mpi, adds;
    bool spins;       /* a team that does not spin sleeps while it waits */
    const char *gloo; /* the way of gloo_team */
    uint64_t most;    /* bytes; 0: no limit. Both ends of gloo's older algorithms write before they read, and wait
                         for each other for ever where sockets do not take all of it */
} kinds[KINDS] = {
    [SOCKETS] = {.name = "sockets"},
    [SOCKETS_SPIN] = {.name = "sockets-spin", .spins = true},
    [SOCKETS_ADD] = {.name = "sockets-add", .spins = true, .adds = true},
    [MEMORY] = {.name = "memory", .spins = true},
    [TCP] = {.name = "tcp", .against = {"sockets", "mpi-tcp", "gloo"}, .group = true},
    [TCP_SPIN] = {.name = "tcp-spin",
                  .against = {"sockets-add", "mpi-tcp", "gloo", "gloo-ring", "gloo-halving"},
                  .group = true,
                  .spins = true},
    [SHM] = {.name = "shm", .against = {"memory", "mpi-shm"}, .group = true},
    [SHM_SPIN] = {.name = "shm-spin", .against = {"memory", "mpi-shm"}, .group = true, .spins = true},
    [MPI_TCP] = {.name = "mpi-tcp", .mpi = true, .spins = true},
    [MPI_SHM] = {.name = "mpi-shm", .mpi = true, .spins = true},
    [GLOO] = {.name = "gloo", .gloo = "ring"},
    [GLOO_RING] = {.name = "gloo-ring", .spins = true, .gloo = "ring-spin", .most = 16000000},
    [GLOO_HALVING] = {.name = "gloo-halving", .spins = true, .gloo = "halving-spin", .most = 4000000},
};

static const uint64_t all_sizes[] = {4,      64,      1000,    4000,     16000,     64000,
                                     250000, 1000000, 4000000, 16000000, 100000000, 400000000};
static const uint64_t few_sizes[] = {4, 4000, 1000000, 16000000};
static const uint64_t tiny_sizes[] = {4, 4000};

/* ---- ps_group ---- */

struct group_team {
    const struct bench_options *settings;
    const char *name, *address;
    bool shm, spin;
};

static void *
group_start(uint32_t rank, uint32_t ranks, const void *arg)
{
    const struct group_team *g = arg;
    struct ps_group_options o = {.name = g->name,
                                 .transport = g->shm ? PS_TRANSPORT_AUTO : PS_TRANSPORT_TCP,
                                 .spin_us = g->spin ? 1000000 : 0,
                                 .congestion = g->settings->congestion,
                                 .algorithm = (enum ps_algorithm)g->settings->algorithm,
                                 .segment_bytes = (size_t)g->settings->segment};
    struct ps_error e;
    ps_cluster *cluster;
    ps_group *group;
    const char *transport;

    if (g->shm)
        unsetenv("PSD_TRANSPORT"); /* bench.c; this is a process of the team's */
    if (ps_cluster_from_list(g->address, ranks, rank, &cluster, &e) != PS_OK ||
        ps_cluster_set_name(cluster, BENCH_CLUSTER, &e) != PS_OK || ps_group_open(cluster, &o, &group, &e) != PS_OK)
        bench_die(g->name, &e);
    ps_cluster_free(cluster);
    transport = ps_group_transport(group, (rank + 1) % ranks);
    if (strcmp(transport, g->shm ? "shm" : "tcp") != 0) {
        fprintf(stderr, "bench: %s: these ranks have %s\n", g->name, transport);
        exit(1);
    }
    return group;
}

static void
group_all_reduce(void *state, float *values, uint64_t count)
{
    struct ps_error e;

    if (ps_group_all_reduce(state, values, values, count, PS_F32, PS_SUM, NULL, &e) != PS_OK)
        bench_die("all-reduce", &e);
}

static const struct team_kind group_kind = {.start = group_start, .all_reduce = group_all_reduce};

/* ---- All teams ---- */

/* A team at a size. */
struct collective_turn {
    struct bench_team *team;
    uint64_t count, iterations; /* 0: not known yet */
};

static struct {
    const struct bench_options *settings;
    uint32_t ranks;
    uint64_t most;           /* bytes of a value list */
    struct bench_server psd; /* where groups meet */
    char dir[BENCH_PATH_MAX];
    bool there[KINDS];
    struct bench_team team[KINDS];
    struct group_team group[KINDS];
    struct limit_sockets sockets[KINDS];
    struct limit_memory memory;
    struct collective_turn turns[KINDS];
} t;

/* Leaves out unavailable ways, with a note in the report. */
static bool
can_be_had(const struct bench_options *s, struct bench_report *r, enum collective_kind k)
{
    if (!bench_options_want(s, kinds[k].name))
        return false;
    if (kinds[k].mpi && (s->mpi == NULL || system("command -v mpirun >/dev/null 2>&1") != 0)) {
        report_left_out(r, "MPI: mpirun and mpi_team (--mpi or MPI_TEAM_BIN) are needed");
        return false;
    }
    if (kinds[k].gloo != NULL && s->gloo == NULL) {
        report_left_out(r, "gloo: gloo_team (--gloo or GLOO_TEAM_BIN) is needed");
        return false;
    }
    return true;
}

static void
start_limit(enum collective_kind k)
{
    const struct team_kind *how = &limit_sockets_kind;
    void *arg = &t.sockets[k];

    if (k == MEMORY) {
        limit_memory_open(&t.memory, t.ranks, t.most / sizeof(float));
        how = &limit_memory_kind;
        arg = &t.memory;
    } else {
        t.sockets[k].spin = kinds[k].spins;
        t.sockets[k].add = kinds[k].adds;
        limit_sockets_open(&t.sockets[k], t.ranks, t.settings->congestion);
    }
    team_start(&t.team[k], kinds[k].name, t.ranks, how, arg);
    if (k != MEMORY)
        limit_sockets_close(&t.sockets[k], t.ranks); /* they are the ranks' alone */
}

static void
start_one(enum collective_kind k)
{
    const struct bench_options *s = t.settings;
    bool shm = k == SHM || k == SHM_SPIN;

    t.there[k] = true;
    if (kinds[k].gloo != NULL) {
        peer_team_start_gloo(&t.team[k], kinds[k].name, t.ranks, t.dir, s->gloo, kinds[k].gloo);
    } else if (kinds[k].mpi) {
        peer_team_start_mpi(&t.team[k], kinds[k].name, t.ranks, t.dir, s->mpi, k == MPI_SHM);
    } else if (kinds[k].group) {
        t.group[k] = (struct group_team){s, kinds[k].name, t.psd.address, shm, kinds[k].spins};
        team_start(&t.team[k], kinds[k].name, t.ranks, &group_kind, &t.group[k]);
    } else {
        start_limit(k);
    }
}

static void
teams_start(const struct bench_options *s, struct bench_report *r, uint32_t ranks, uint64_t most)
{
    static const char *const more[] = {"--memory", "64MiB", NULL};

    memset(&t, 0, sizeof t);
    t.settings = s;
    t.ranks = ranks;
    t.most = most;
    bench_path(t.dir, true, "teams");
    if (mkdir(t.dir, 0700) < 0)
        bench_die(t.dir, NULL);
    bench_server_start(&t.psd, s, more);
    for (enum collective_kind k = 0; k < KINDS; k++)
        if (can_be_had(s, r, k))
            start_one(k);
}

static void
teams_stop(void)
{
    for (enum collective_kind k = 0; k < KINDS; k++)
        if (t.there[k])
            team_stop(&t.team[k]);
    if (t.there[MEMORY])
        limit_memory_close(&t.memory);
    bench_server_stop(&t.psd);
    bench_remove(t.dir);
}

/* ---- Measuring ---- */

/* About so many as fill the time. */
static uint64_t
iterations_of(const struct collective_turn *turn, double seconds)
{
    double once = team_run(turn->team, turn->count, 1);
    uint64_t few = (uint64_t)(seconds / 10 / once);

    once = team_run(turn->team, turn->count, MIN(MAX(few, 1), 1000));
    return MIN(MAX((uint64_t)(seconds / once), 1), 1000000);
}

static void
collective_sample(void *arg, double seconds, double *figures)
{
    struct collective_turn *turn = arg;

    if (turn->iterations == 0)
        turn->iterations = iterations_of(turn, t.settings->seconds);
    (void)seconds;
    figures[0] = team_run(turn->team, turn->count, turn->iterations) * 1e6;
}

static size_t
make_ways(struct bench_variant *ways)
{
    for (enum collective_kind k = 0; k < KINDS; k++) {
        ways[k] = (struct bench_variant){
            .name = kinds[k].name, .sample = t.there[k] ? collective_sample : NULL, .arg = &t.turns[k]};
        memcpy(ways[k].against, kinds[k].against, sizeof kinds[k].against);
    }
    return KINDS;
}

/* What all teams take at once, with some room for what they keep of it on the way. */
static bool
memory_suffices(uint64_t bytes)
{
    uint64_t have = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), teams = 0;

    for (enum collective_kind k = 0; k < KINDS; k++)
        teams += t.there[k];
    return teams * t.ranks * bytes * 5 / 4 < have;
}

static const char *
size_text(uint64_t bytes, char text[LOAD_SIZE_TEXT])
{
    if (bytes < 1000)
        snprintf(text, LOAD_SIZE_TEXT, "%u B", (unsigned)bytes);
    else if (bytes < 1000000)
        snprintf(text, LOAD_SIZE_TEXT, "%u kB", (unsigned)(bytes / 1000));
    else
        snprintf(text, LOAD_SIZE_TEXT, "%u MB", (unsigned)(bytes / 1000000));
    return text;
}

static void
collective_measure(struct bench_table *table, const struct bench_variant *ways, size_t n, uint64_t bytes)
{
    static struct interleave turns;
    struct bench_variant some[WAYS_MAX];
    char text[LOAD_SIZE_TEXT];

    memcpy(some, ways, n * sizeof *some);
    for (enum collective_kind k = 0; k < KINDS; k++) {
        t.turns[k] = (struct collective_turn){&t.team[k], bytes / sizeof(float), 0};
        if (kinds[k].most != 0 && bytes > kinds[k].most)
            some[k].sample = NULL;
    }
    interleave_run(t.settings, some, n, 1, &turns);
    table_row(table, size_text(bytes, text), (double)bytes, turns.series[0]);
    for (enum collective_kind k = 0; k < KINDS; k++) /* gives back what the values took */
        if (t.there[k] && bytes > 1000000)
            team_run(&t.team[k], 1, 1);
}

static void
measure_all(const struct bench_options *s, struct bench_report *r, uint32_t ranks, const uint64_t *sizes,
            size_t sizes_n)
{
    struct bench_variant ways[WAYS_MAX];
    struct bench_table *table;
    char title[64];
    struct table_spec spec = {.title = title, .unit = "us", .less = true, .axis = "bytes of the values"};
    uint64_t most = 0;
    size_t n;

    for (size_t i = 0; i < sizes_n; i++)
        most = MAX(most, sizes[i]);
    teams_start(s, r, ranks, most);
    n = make_ways(ways);
    snprintf(title, sizeof title, "all-reduce between %u ranks", ranks);
    table = report_table(r, &spec, ways, n);
    for (size_t i = 0; i < sizes_n; i++) {
        char text[LOAD_SIZE_TEXT];

        if (sizes[i] < sizeof(float))
            report_left_out(r, "collective: less than a float");
        else if (memory_suffices(sizes[i]))
            collective_measure(table, ways, n, sizes[i]);
        else
            report_left_out(r, "collective: %u ranks, %s: all teams at once have no room for it (--ways, --sizes)",
                            ranks, size_text(sizes[i], text));
    }
    teams_stop();
}

void
area_collective(const struct bench_options *s, struct bench_report *r)
{
    uint64_t sizes[16], ranks[8];
    bool full = s->extent == EXTENT_FULL, tiny = s->extent == EXTENT_TINY;
    const uint64_t *usual = full ? all_sizes : tiny ? tiny_sizes : few_sizes;
    size_t usual_n = full ? ARRAY_LEN(all_sizes) : tiny ? ARRAY_LEN(tiny_sizes) : ARRAY_LEN(few_sizes);
    size_t sizes_n = bench_options_numbers(s->sizes, usual, usual_n, sizes, ARRAY_LEN(sizes)),
           ranks_n = bench_options_numbers(s->ranks, NULL, 0, ranks, ARRAY_LEN(ranks));

    if (s->pin)
        setenv(TEAM_PIN, "1", 1);
    for (size_t i = 0; i < ranks_n; i++) {
        if (ranks[i] >= 2 && ranks[i] <= TEAM_RANKS_MAX)
            measure_all(s, r, (uint32_t)ranks[i], sizes, sizes_n);
        else
            report_left_out(r, "collective: %llu ranks, which are not 2 to %d", (unsigned long long)ranks[i],
                            TEAM_RANKS_MAX);
    }
}
