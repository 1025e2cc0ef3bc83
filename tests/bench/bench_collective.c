/* All-reduce of float32 between processes of one machine, beside what no all-reduce can do better than and, where it is
 * installed, beside Open MPI and gloo.
 *
 *     bench_collective [--ranks 2,4] [--sizes BYTES,...] [--min BYTES] [--max BYTES] [--teams NAME,...]
 *                      [--rounds N] [--seconds S] [--algorithm NAME] [--segment BYTES] [--pin]
 *                      [--congestion NAME] [--psd PATH] [--mpi PATH] [--gloo PATH] [--json FILE]
 *
 * Teams of processes (team.h) take turns, round by round, each with its values in place: ps_group over TCP and shared
 * memory, sleeping and spinning while it waits; the limits (bare.h); others' (peers.h): MPI with one transport at a
 * time, gloo over TCP. For each number of ranks and each size it prints the median of the rounds, their spread, the
 * bytes that a rank sends in a ring, 2 (n - 1) / n of the values, per second, and the medians of the rounds' ratios to
 * the limit and to the fastest of the others. Nothing is asserted but the sums: it reports. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "bare.h"
#include "client/ps_group.h"
#include "common/base.h"
#include "peers.h"
#include "series.h"
#include "server.h"
#include "team.h"

enum kind {
    SOCKETS,
    SOCKETS_SPIN,
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

/* limit: what its times are divided by; KINDS: nothing. peers: the fastest of this class as well. */
enum peers { NO_PEERS, PEERS_TCP, PEERS_SHM };
static const struct {
    const char *name;
    enum kind limit;
    enum peers peers, is;
    bool spins;      /* otherwise it sleeps while it waits */
    const char *way; /* of gloo_team */
} kinds[KINDS] = {
    [SOCKETS] = {.name = "sockets", .limit = KINDS},
    [SOCKETS_SPIN] = {.name = "sockets-spin", .limit = KINDS, .spins = true},
    [MEMORY] = {.name = "memory", .limit = KINDS, .spins = true},
    [TCP] = {.name = "tcp", .limit = SOCKETS, .peers = PEERS_TCP},
    [TCP_SPIN] = {.name = "tcp-spin", .limit = SOCKETS_SPIN, .peers = PEERS_TCP, .spins = true},
    [SHM] = {.name = "shm", .limit = MEMORY, .peers = PEERS_SHM},
    [SHM_SPIN] = {.name = "shm-spin", .limit = MEMORY, .peers = PEERS_SHM, .spins = true},
    [MPI_TCP] = {.name = "mpi-tcp", .limit = KINDS, .is = PEERS_TCP, .spins = true},
    [MPI_SHM] = {.name = "mpi-shm", .limit = KINDS, .is = PEERS_SHM, .spins = true},
    [GLOO] = {.name = "gloo", .limit = KINDS, .is = PEERS_TCP, .way = "ring"},
    [GLOO_RING] = {.name = "gloo-ring", .limit = KINDS, .is = PEERS_TCP, .spins = true, .way = "ring-spin"},
    [GLOO_HALVING] = {.name = "gloo-halving", .limit = KINDS, .is = PEERS_TCP, .spins = true, .way = "halving-spin"},
};

static uint64_t sizes[] = {4, 64, 1000, 4000, 16000, 64000, 250000, 1000000, 4000000, 16000000, 100000000, 400000000};
static size_t sizes_n = ARRAY_LEN(sizes);

static struct {
    uint32_t ranks[8];
    size_t ranks_n;
    uint64_t min, max;
    bool wanted[KINDS];
    int rounds;
    double seconds;
    enum ps_algorithm algorithm;
    uint64_t segment; /* 0: as the library chooses */
    const char *congestion, *psd, *mpi, *gloo, *json;
} options = {.ranks = {2, 4}, .ranks_n = 2, .max = 400000000, .rounds = 7, .seconds = 0.1, .congestion = "reno"};

/* ---- ps_group ---- */

struct group_team {
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
                                 .congestion = options.congestion,
                                 .algorithm = options.algorithm,
                                 .segment_bytes = options.segment};
    struct ps_error e;
    ps_cluster *cluster;
    ps_group *group;
    const char *transport;

    if (ps_cluster_from_list(g->address, ranks, rank, &cluster, &e) != PS_OK ||
        ps_cluster_set_name(cluster, "bench", &e) != PS_OK || ps_group_open(cluster, &o, &group, &e) != PS_OK)
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

struct teams {
    uint32_t ranks;
    struct bench_server psd; /* where groups meet */
    char dir[64], live[96];
    bool there[KINDS];
    struct team team[KINDS];
    struct group_team group[KINDS];
    struct limit_sockets sockets[KINDS];
    struct limit_memory memory;
};

static bool
any_group(void)
{
    return options.wanted[TCP] || options.wanted[TCP_SPIN] || options.wanted[SHM] || options.wanted[SHM_SPIN];
}

static void
start_psd(struct teams *t)
{
    const char *argv[] = {options.psd, "--cluster",   "bench",    "--live-dir", t->live,
                          "--listen",  "127.0.0.1:0", "--memory", "64MiB",      "--durable-dir",
                          "none",      "--log-level", "warning",  NULL};

    snprintf(t->live, sizeof t->live, "%s/live", t->dir);
    bench_server_start(&t->psd, argv, false);
}

static void
start_one(struct teams *t, enum kind kind)
{
    const struct team_kind *how = &group_kind;
    const void *arg = &t->group[kind];

    t->there[kind] = true;
    if (kinds[kind].way != NULL) {
        peer_start_gloo(&t->team[kind], kinds[kind].name, t->ranks, t->dir, options.gloo, kinds[kind].way);
        return;
    }
    if (kinds[kind].is != NO_PEERS) {
        peer_start_mpi(&t->team[kind], kinds[kind].name, t->ranks, t->dir, options.mpi, kind == MPI_SHM);
        return;
    }
    if (kind == SOCKETS || kind == SOCKETS_SPIN) {
        limit_sockets_open(&t->sockets[kind], t->ranks, options.congestion, kinds[kind].spins);
        how = &limit_sockets_kind;
        arg = &t->sockets[kind];
    } else if (kind == MEMORY) {
        limit_memory_open(&t->memory, t->ranks, options.max / sizeof(float));
        how = &limit_memory_kind;
        arg = &t->memory;
    } else {
        t->group[kind] = (struct group_team){.name = kinds[kind].name,
                                             .address = t->psd.address,
                                             .shm = kind == SHM || kind == SHM_SPIN,
                                             .spin = kinds[kind].spins};
    }
    team_start(&t->team[kind], kinds[kind].name, t->ranks, how, arg);
    if (how == &limit_sockets_kind)
        limit_sockets_close(&t->sockets[kind], t->ranks); /* they are the ranks' alone */
}

static void
teams_start(struct teams *t, uint32_t ranks)
{
    *t = (struct teams){.ranks = ranks, .dir = "/dev/shm/psd-bench-XXXXXX"};
    if (mkdtemp(t->dir) == NULL)
        bench_die(t->dir, NULL);
    if (any_group())
        start_psd(t);
    for (enum kind k = 0; k < KINDS; k++)
        if (options.wanted[k])
            start_one(t, k);
}

static void
teams_stop(struct teams *t)
{
    char command[128];

    for (enum kind k = 0; k < KINDS; k++)
        if (t->there[k])
            team_stop(&t->team[k]);
    if (t->there[MEMORY])
        limit_memory_close(&t->memory);
    if (any_group())
        bench_server_end(&t->psd, SIGTERM);
    snprintf(command, sizeof command, "rm -r '%s'", t->dir);
    if (system(command) != 0)
        fprintf(stderr, "bench: could not remove %s\n", t->dir);
}

/* ---- Measuring ---- */

/* About so many that a round takes options.seconds. */
static uint64_t
iterations_of(struct team *t, uint64_t count)
{
    double once = team_run(t, count, 1);
    uint64_t few = (uint64_t)(options.seconds / 10 / once);

    once = team_run(t, count, MIN(MAX(few, 1), 1000));
    return MIN(MAX((uint64_t)(options.seconds / once), 1), 1000000);
}

static void
size_text(uint64_t bytes, char text[24])
{
    if (bytes < 1000)
        snprintf(text, 24, "%u B", (unsigned)bytes);
    else if (bytes < 1000000)
        snprintf(text, 24, "%u kB", (unsigned)(bytes / 1000));
    else
        snprintf(text, 24, "%u MB", (unsigned)(bytes / 1000000));
}

static json_t *results;

/* How many times as fast as another kind; nothing where that is not there. */
static double
print_ratio(const struct teams *t, const struct series *times, enum kind kind, enum kind other)
{
    double ratio;

    if (other == KINDS || !t->there[other])
        return 0;
    ratio = series_ratio(&times[other], &times[kind]);
    printf("   %6.2f x %s", ratio, kinds[other].name);
    return ratio;
}

static enum kind
fastest_peer(const struct teams *t, const struct series *times, enum peers class)
{
    enum kind best = KINDS;

    for (enum kind k = 0; k < KINDS; k++)
        if (class != NO_PEERS && kinds[k].is == class && t->there[k] &&
            (best == KINDS || series_quantile(&times[k], 0.5) < series_quantile(&times[best], 0.5)))
            best = k;
    return best;
}

static void
report(const struct teams *t, uint64_t bytes, const struct series *times)
{
    char size[24];

    size_text(bytes, size);
    printf("%u ranks, %s\n", t->ranks, size);
    for (enum kind k = 0; k < KINDS; k++) {
        double median, limit, peer;

        if (!t->there[k])
            continue;
        median = series_quantile(&times[k], 0.5);
        printf("  %-12s %12.1f us (%4.1f %%) %8.3f GB/s", kinds[k].name, median * 1e6, 100 * series_spread(&times[k]),
               2.0 * (t->ranks - 1) / t->ranks * (double)bytes / median * 1e-9);
        limit = print_ratio(t, times, k, kinds[k].limit);
        peer = print_ratio(t, times, k, fastest_peer(t, times, kinds[k].peers));
        printf("\n");
        json_array_append_new(results, json_pack("{s:i,s:I,s:s,s:f,s:f,s:f,s:f}", "ranks", (int)t->ranks, "bytes",
                                                 (json_int_t)bytes, "team", kinds[k].name, "seconds", median, "spread",
                                                 series_spread(&times[k]), "of_limit", limit, "of_peer", peer));
    }
    fflush(stdout);
}

static void
measure(struct teams *t, uint64_t bytes)
{
    static struct series times[KINDS];
    uint64_t count = bytes / sizeof(float), iterations[KINDS] = {0};

    memset(times, 0, sizeof times);
    for (enum kind k = 0; k < KINDS; k++)
        if (t->there[k])
            iterations[k] = iterations_of(&t->team[k], count);
    for (int round = 0; round < options.rounds; round++)
        for (enum kind k = 0; k < KINDS; k++)
            if (t->there[k])
                times[k].value[times[k].n++] = team_run(&t->team[k], count, iterations[k]);
    report(t, bytes, times);
    for (enum kind k = 0; k < KINDS; k++) /* gives back what the values took */
        if (t->there[k] && bytes > 1000000)
            team_run(&t->team[k], 1, 1);
}

/* What all teams take at once, with some room for what they keep of it on the way. */
static bool
memory_suffices(uint32_t ranks, uint64_t bytes)
{
    uint64_t have = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE), teams = 0;

    for (enum kind k = 0; k < KINDS; k++)
        teams += options.wanted[k];
    return teams * ranks * bytes * 5 / 4 < have;
}

static void
measure_all(uint32_t ranks)
{
    static struct teams t;

    teams_start(&t, ranks);
    for (size_t i = 0; i < sizes_n; i++) {
        if (sizes[i] < options.min || sizes[i] > options.max)
            continue;
        if (memory_suffices(ranks, sizes[i]))
            measure(&t, sizes[i]);
        else
            printf("%u ranks, %llu bytes: left out, since all teams at once have no room for it (--teams, --max)\n",
                   ranks, (unsigned long long)sizes[i]);
    }
    teams_stop(&t);
}

/* ---- Options ---- */

static _Noreturn void
usage(int status)
{
    fprintf(
        status == 0 ? stdout : stderr,
        "usage: bench_collective [--ranks N,... (2,4)] [--sizes BYTES,...] [--min BYTES] [--max BYTES (400M)]\n"
        "                        [--teams NAME,... (all)] [--rounds N (7)] [--seconds S (0.1)]\n"
        "                        [--algorithm NAME (auto)] [--segment BYTES] [--pin] [--congestion NAME (reno)]\n"
        "                        [--psd PATH] [--mpi PATH] [--gloo PATH] [--json FILE]\n"
        "teams: sockets sockets-spin memory tcp tcp-spin shm shm-spin mpi-tcp mpi-shm gloo gloo-ring gloo-halving\n"
        "MPI's run mpirun and need mpi_team, gloo's need gloo_team; these are built where MPI and gloo are installed\n"
        "(--mpi or MPI_TEAM_BIN, --gloo or GLOO_TEAM_BIN). They take the system's congestion control.\n");
    exit(status);
}

static uint64_t
bytes_of(const char *text)
{
    char *end;
    double n = strtod(text, &end);

    n *= *end == 'k' ? 1e3 : *end == 'M' ? 1e6 : *end == 'G' ? 1e9 : 1;
    if (n < 0 || n > 1e12 || (*end != '\0' && (strchr("kMG", *end) == NULL || end[1] != '\0')))
        usage(2);
    return (uint64_t)n;
}

static void
take_ranks(char *list)
{
    options.ranks_n = 0;
    for (char *at = strtok(list, ","); at != NULL && options.ranks_n < ARRAY_LEN(options.ranks);
         at = strtok(NULL, ",")) {
        int n = atoi(at);

        if (n < 2 || n > TEAM_RANKS_MAX)
            usage(2);
        options.ranks[options.ranks_n++] = (uint32_t)n;
    }
}

static void
take_teams(char *list)
{
    memset(options.wanted, 0, sizeof options.wanted);
    for (char *at = strtok(list, ","); at != NULL; at = strtok(NULL, ",")) {
        enum kind k = 0;

        while (k < KINDS && strcmp(kinds[k].name, at) != 0)
            k++;
        if (k == KINDS)
            usage(2);
        options.wanted[k] = true;
    }
}

static void
take_algorithm(const char *name)
{
    static const char *const names[] = {"auto", "direct", "ring", "halving", "hierarchical"};
    size_t i = 0;

    while (i < ARRAY_LEN(names) && strcmp(names[i], name) != 0)
        i++;
    if (i == ARRAY_LEN(names))
        usage(2);
    options.algorithm = (enum ps_algorithm)i;
}

/* Instead of those of the list. */
static void
take_sizes(char *list)
{
    sizes_n = 0;
    for (char *at = strtok(list, ","); at != NULL && sizes_n < ARRAY_LEN(sizes); at = strtok(NULL, ","))
        sizes[sizes_n++] = bytes_of(at);
}

static void
parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"ranks", required_argument, NULL, 'n'},
        {"sizes", required_argument, NULL, 'b'},
        {"min", required_argument, NULL, 'i'},
        {"max", required_argument, NULL, 'a'},
        {"teams", required_argument, NULL, 'c'},
        {"rounds", required_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 's'},
        {"algorithm", required_argument, NULL, 'l'},
        {"segment", required_argument, NULL, 'e'},
        {"congestion", required_argument, NULL, 'g'},
        {"psd", required_argument, NULL, 'p'},
        {"mpi", required_argument, NULL, 'm'},
        {"gloo", required_argument, NULL, 'o'},
        {"json", required_argument, NULL, 'j'},
        {"pin", no_argument, NULL, 'x'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int c;

    options.psd = getenv("PSD_BIN");
    options.mpi = getenv("MPI_TEAM_BIN");
    options.gloo = getenv("GLOO_TEAM_BIN");
    memset(options.wanted, 1, sizeof options.wanted);
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1)
        switch (c) {
        case 'n':
            take_ranks(optarg);
            break;
        case 'b':
            take_sizes(optarg);
            break;
        case 'i':
            options.min = bytes_of(optarg);
            break;
        case 'a':
            options.max = bytes_of(optarg);
            break;
        case 'c':
            take_teams(optarg);
            break;
        case 'r':
            options.rounds = MIN(MAX(atoi(optarg), 1), SERIES_MAX);
            break;
        case 's':
            options.seconds = atof(optarg);
            break;
        case 'l':
            take_algorithm(optarg);
            break;
        case 'e':
            options.segment = bytes_of(optarg);
            break;
        case 'x':
            setenv(TEAM_PIN, "1", 1);
            break;
        case 'g':
            options.congestion = optarg;
            break;
        case 'p':
            options.psd = optarg;
            break;
        case 'm':
            options.mpi = optarg;
            break;
        case 'o':
            options.gloo = optarg;
            break;
        case 'j':
            options.json = optarg;
            break;
        default:
            usage(c == 'h' ? 0 : 2);
        }
}

/* What cannot be had is left out, and said. */
static void
leave_out(void)
{
    if (options.psd == NULL && any_group()) {
        fprintf(stderr, "bench_collective: say where psd is, at which groups meet: --psd PATH or PSD_BIN\n");
        exit(2);
    }
    if (options.mpi == NULL || system("command -v mpirun >/dev/null 2>&1") != 0) {
        if (options.wanted[MPI_TCP] || options.wanted[MPI_SHM])
            printf("without MPI: mpirun and mpi_team (--mpi or MPI_TEAM_BIN) are needed\n");
        options.wanted[MPI_TCP] = options.wanted[MPI_SHM] = false;
    }
    for (enum kind k = 0; k < KINDS; k++)
        if (options.gloo == NULL && options.wanted[k] && kinds[k].way != NULL) {
            printf("without %s: gloo_team (--gloo or GLOO_TEAM_BIN) is needed\n", kinds[k].name);
            options.wanted[k] = false;
        }
}

static const char *
system_congestion(void)
{
    static char name[32];
    FILE *f = fopen("/proc/sys/net/ipv4/tcp_congestion_control", "r");

    if (f == NULL || fscanf(f, "%31s", name) != 1)
        strcpy(name, "unknown");
    if (f != NULL)
        fclose(f);
    return name;
}

int
main(int argc, char **argv)
{
    parse(argc, argv);
    leave_out();
    signal(SIGPIPE, SIG_IGN);
    results = json_array();
    printf("all-reduce of float32, in place; %ld cores; TCP over loopback, congestion control %s (MPI's and "
           "gloo's: the system's, %s)\n"
           "%d rounds of %.2f s in turns, medians (spread: middle half); GB/s: 2 (n - 1) / n of the values; ratios: "
           "how many"
           " times as fast\n",
           sysconf(_SC_NPROCESSORS_ONLN), options.congestion, system_congestion(), options.rounds, options.seconds);
    for (size_t i = 0; i < options.ranks_n; i++)
        measure_all(options.ranks[i]);
    if (options.json != NULL && json_dump_file(results, options.json, JSON_INDENT(2)) < 0)
        bench_die(options.json, NULL);
    return 0;
}
