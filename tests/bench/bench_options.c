#include "tests/bench/bench_options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/core/base/nearest.h"
#include "tests/bench/area.h"
#include "tests/bench/series.h"

#define FIELD(field) .offset = offsetof(struct bench_options, field)

static const struct option_choice extents[] = {
    {"tiny", EXTENT_TINY}, {"short", EXTENT_SHORT}, {"full", EXTENT_FULL}, {NULL, 0}};
static const struct option_choice algorithms[] = {{"auto", 0},    {"direct", 1},       {"ring", 2},
                                                  {"halving", 3}, {"hierarchical", 4}, {NULL, 0}};

static const struct option table[] = {
    {.name = "list", .kind = OPTION_FLAG, FIELD(list), .help = "list the areas"},
    {.name = "extent",
     .kind = OPTION_CHOICE,
     .argument = "EXTENT",
     .choices = extents,
     .usual = "full for areas that are named, short for all",
     FIELD(extent),
     .help = "how much is measured: tiny, short or full"},
    {.name = "rounds",
     .kind = OPTION_INT,
     .argument = "N",
     .min = 1,
     .max = SERIES_MAX,
     .usual = "7 in full, 3 in short, 1 in tiny",
     FIELD(rounds),
     .help = "samples of each figure"},
    {.name = "seconds",
     .kind = OPTION_POSITIVE,
     .argument = "S",
     .high = 3600,
     .usual = "0.25 in full, 0.1 in short, 0.005 in tiny",
     FIELD(seconds),
     .help = "what a sample takes, about"},
    {.name = "ways", .kind = OPTION_NAME, .argument = "NAME,...", FIELD(ways), .help = "sample these ways alone"},
    {.name = "sizes",
     .kind = OPTION_NAME,
     .argument = "BYTES,...",
     FIELD(sizes),
     .help = "wire, collective, variables: these sizes, or counts, with k, M, G or Ki, Mi, Gi behind the number"},
    {.name = "congestion",
     .kind = OPTION_NAME,
     .argument = "NAME",
     .fallback = "reno",
     FIELD(congestion),
     .help = "the TCP congestion control of all connections over which we have a say"},
    {.name = "disk",
     .kind = OPTION_DIRECTORY,
     .argument = "DIR",
     .fallback = "/var/tmp",
     FIELD(disk),
     .help = "where durable directories are made"},
    {.name = "json", .kind = OPTION_FILE, .argument = "FILE", FIELD(json), .help = "write everything there"},
    {.name = "svg", .kind = OPTION_FILE, .argument = "FILE", FIELD(svg), .help = "draw the tables there"},
    {.name = "psd",
     .kind = OPTION_FILE,
     .argument = "PATH",
     .usual = "$PSD_BIN, else that of the build",
     FIELD(psd),
     .section = "What runs",
     .help = "the daemon that is measured"},
    {.name = "psctl",
     .kind = OPTION_FILE,
     .argument = "PATH",
     .usual = "$PSCTL_BIN, else that of the build",
     FIELD(psctl),
     .help = "variables: what asks it"},
    {.name = "redis",
     .kind = OPTION_NAME,
     .argument = "PROGRAM",
     .fallback = "redis-server",
     FIELD(redis),
     .help = "Redis, where the bench was built with hiredis"},
    {.name = "mpi",
     .kind = OPTION_FILE,
     .argument = "PATH",
     .usual = "$MPI_TEAM_BIN, else that of the build",
     FIELD(mpi),
     .help = "mpi_team, which is built where MPI is installed, and run by mpirun"},
    {.name = "gloo",
     .kind = OPTION_FILE,
     .argument = "PATH",
     .usual = "$GLOO_TEAM_BIN, else that of the build",
     FIELD(gloo),
     .help = "gloo_team, which is built where gloo is installed"},
    {.name = "ranks",
     .kind = OPTION_NAME,
     .argument = "N,...",
     .fallback = "2,4",
     FIELD(ranks),
     .section = "Of one area",
     .help = "collective, overlap: how many ranks"},
    {.name = "algorithm",
     .kind = OPTION_CHOICE,
     .argument = "NAME",
     .fallback = "auto",
     .choices = algorithms,
     FIELD(algorithm),
     .help = "collective: psd's schedule"},
    {.name = "segment",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .usual = "as the library chooses",
     .min = 4 * KIB,
     FIELD(segment),
     .help = "collective: of psd's rings"},
    {.name = "pin", .kind = OPTION_FLAG, FIELD(pin), .help = "collective: each rank stays on one core"},
    {.name = "bucket",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .usual = "as the library chooses",
     .min = 4 * KIB,
     FIELD(bucket),
     .help = "overlap: what gradients gather in"},
    {.name = "first",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .usual = "as the library chooses",
     .min = 4 * KIB,
     FIELD(first),
     .help = "overlap: the first bucket"},
    {.name = "sweep", .kind = OPTION_FLAG, FIELD(sweep), .help = "overlap: buckets of several sizes"},
    {.name = "tcp", .kind = OPTION_FLAG, FIELD(tcp), .help = "overlap: not through shared memory"},
    {.name = "compress",
     .kind = OPTION_NAME,
     .argument = "NAME,...",
     .fallback = "float16,int8,top_k:0.01",
     FIELD(compress),
     .help = "overlap: gradients travel as these as well, four at most; none: as they are alone"},
    {.name = "memory",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .usual = "400 MB",
     .min = MIB,
     FIELD(memory),
     .help = "optimizers: of the model that no cache holds"},
    {.name = "rates",
     .kind = OPTION_NAME,
     .argument = "MiB,...",
     FIELD(rates),
     .usual = "64,256,500,0",
     .help = "save: at which it writes; 0 is as fast as it can"},
};

static const struct command bench_command = {
    .name = "bench",
    .manual = 1,
    .title = "measure psd beside the bare limits and its peers",
    .about =
        "Measures the areas that are named, or all of them in short. Figures are medians of rounds in which all that "
        "is compared takes turns; behind each stands what lies between the quartiles, as a part of it. Nothing is "
        "asserted but that the results are right.\n"
        "It starts what it needs, on loopback, and leaves nothing behind.",
    .operands = "[area...]",
    .options = table,
    .options_len = ARRAY_LEN(table),
};

static void
list_areas(void)
{
    for (size_t i = 0; i < areas_len; i++)
        printf("%-12s %s\n", areas[i].name, areas[i].about);
}

/* In the build that this program is of; NULL: it is not there. */
static const char *
options_built(const char *variable, const char *path)
{
    char self[512], *slash, *found = NULL;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (getenv(variable) != NULL)
        return getenv(variable);
    self[MAX(n, 0)] = '\0';
    if ((slash = strrchr(self, '/')) == NULL)
        return NULL;
    *slash = '\0';
    if (asprintf(&found, "%s/%s", self, path) < 0)
        return NULL;
    if (access(found, X_OK) == 0)
        return found; /* as long as the program runs */
    free(found);
    return NULL;
}

/* The settings that depend on the extent and on the machine. */
static void
options_fill(struct bench_options *s)
{
    static const double seconds[] = {0.005, 0.1, 0.25};

    if (!command_given(&bench_command, &s->line, "extent"))
        s->extent = s->line.len > 0 ? EXTENT_FULL : EXTENT_SHORT;
    if (s->rounds == 0)
        s->rounds = bench_options_pick(s, 1, 3, 7);
    if (!command_given(&bench_command, &s->line, "seconds"))
        s->seconds = seconds[s->extent];
    s->psd = s->psd != NULL ? s->psd : options_built("PSD_BIN", "../../server/psd");
    s->psctl = s->psctl != NULL ? s->psctl : options_built("PSCTL_BIN", "../../client/tools/psctl");
    s->mpi = s->mpi != NULL ? s->mpi : options_built("MPI_TEAM_BIN", "mpi_team");
    s->gloo = s->gloo != NULL ? s->gloo : options_built("GLOO_TEAM_BIN", "gloo_team");
}

static void
refuse_area(const char *name)
{
    struct nearest nearest = nearest_to(name);
    char meant[NEAREST_TEXT_MAX];

    for (size_t i = 0; i < areas_len; i++)
        nearest_offer(&nearest, areas[i].name);
    fprintf(stderr, "bench: there is no area '%.64s'; --list lists them%s\n", name, nearest_text(&nearest, "", meant));
}

bool
bench_options_parse(struct bench_options *s, int argc, char **argv, int *status)
{
    struct ps_error e;

    *s = (struct bench_options){0};
    *status = EXIT_USAGE;
    if (command_parse(&bench_command, argc, argv, s, &s->line, &e) != PS_OK) {
        fprintf(stderr, "bench: %s\n", e.text);
        return false;
    }
    if (s->line.asked != COMMAND_RUN) {
        *status = command_answer(&bench_command, &s->line, stdout);
        return false;
    }
    options_fill(s);
    for (int i = 0; i < s->line.len; i++)
        if (area_find(s->line.words[i]) == NULL) {
            refuse_area(s->line.words[i]);
            return false;
        }
    if (!s->list && s->psd != NULL && access(s->psd, X_OK) != 0) {
        fprintf(stderr, "bench: psd cannot be run: %s: %s\n", s->psd, strerror(errno));
        return false;
    }
    if (s->list)
        list_areas();
    else if (s->psd == NULL)
        fprintf(stderr, "bench: say where psd is: --psd PATH or PSD_BIN\n");
    *status = s->list ? EXIT_SUCCESS : EXIT_USAGE;
    return !s->list && s->psd != NULL;
}

bool
bench_options_want(const struct bench_options *s, const char *way)
{
    size_t len = strlen(way);

    for (const char *at = s->ways; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, way, len) == 0 && (at[len] == ',' || at[len] == '\0'))
            return true;
    return s->ways == NULL;
}

int64_t
bench_options_pick(const struct bench_options *s, int64_t tiny, int64_t brief, int64_t full)
{
    return s->extent == EXTENT_TINY ? tiny : s->extent == EXTENT_SHORT ? brief : full;
}

/* NULL: it is no number. */
static const char *
take_number(const char *text, uint64_t *out)
{
    static const char letters[] = "kMG";
    double base, n;
    char *end;
    const char *letter;

    n = strtod(text, &end);
    if (end == text || !(n >= 0 && n < 1e12))
        return NULL;
    letter = *end != '\0' ? strchr(letters, *end == 'K' ? 'k' : *end) : NULL;
    if (letter != NULL) {
        base = end[1] == 'i' ? 1024 : 1000;
        end += end[1] == 'i' ? 2 : 1;
        for (const char *l = letters; l <= letter; l++)
            n *= base;
    }
    *out = (uint64_t)n;
    return end;
}

size_t
bench_options_numbers(const char *list, const uint64_t *fallback, size_t fallbacks, uint64_t *out, size_t most)
{
    const char *at = list;
    size_t n = 0;

    if (list == NULL) {
        memcpy(out, fallback, MIN(fallbacks, most) * sizeof *out);
        return MIN(fallbacks, most);
    }
    for (; n < most && (at = take_number(at, &out[n])) != NULL && (*at == ',' || *at == '\0'); at++) {
        n++;
        if (*at == '\0')
            return n;
    }
    fprintf(stderr, "bench: expected at most %zu numbers with commas between them, got '%.128s'\n", most, list);
    exit(EXIT_USAGE);
}
