#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/core/base/mutation.h"
#include "tests/sim/command.h"

#ifdef PSD_MUTATION
enum mutation mutation;
#endif

static const char *program = "sim", *usage = "";
static const char *const *bugs;
static const char *bug; /* that is planted, or NULL */
static char again[512];
static size_t again_len;

void
command_begin(struct command_runs *runs, const char *program_, const char *usage_, const char *const *bugs_)
{
    program = program_;
    usage = usage_;
    bugs = bugs_;
    *runs = (struct command_runs){.seed = 1, .runs = 1, .trace = getenv("PS_TRACE") != NULL};
}

_Noreturn void
command_usage(bool asked)
{
    fputs(usage, asked ? stdout : stderr);
    exit(asked ? 0 : 2);
}

int
command_index(const char *const *names, const char *name)
{
    for (int i = 0; names[i] != NULL; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    fprintf(stderr, "%s: '%s' is not known\n", program, name);
    command_usage(false);
}

uint64_t
command_number(const char *text, uint64_t max)
{
    char *end;
    uint64_t n = strtoull(text, &end, 0);

    if (end != text && *end == 0 && n <= max)
        return n;
    fprintf(stderr, "%s: '%s' is no number up to %" PRIu64 "\n", program, text, max);
    exit(2);
}

/* By the clock, or PSD_TEST_SEED. Two that follow each other share no seeds. */
static uint64_t
command_fresh_seed(void)
{
    const char *text = getenv("PSD_TEST_SEED");

    return text != NULL ? command_number(text, UINT64_MAX) : (uint64_t)time(NULL) * 1000;
}

/* The cores then have the bug of this name. */
static void
command_plant(const char *name)
{
    int index = command_index(bugs, name);

    bug = bugs[index];
#ifdef PSD_MUTATION
    mutation = (enum mutation)index;
#else
    fprintf(stderr, "%s: there are no bugs in these cores; that of the same name with _mutated has them\n", program);
    exit(2);
#endif
}

bool
command_option(struct command_runs *runs, int c)
{
    switch (c) {
    case 's':
        runs->seed = command_number(optarg, UINT64_MAX);
        return true;
    case 'r':
        runs->runs = command_number(optarg, UINT64_MAX);
        return true;
    case 'F':
        runs->seconds = command_number(optarg, UINT32_MAX);
        return true;
    case 'R':
        runs->seconds = command_number(optarg, UINT32_MAX);
        runs->fresh = true;
        runs->seed = command_fresh_seed();
        return true;
    case 't':
        runs->trace = true;
        return true;
    case 'p':
        command_plant(optarg);
        return true;
    case 'h':
        command_usage(true);
    }
    return false;
}

static void
command_ended(int signal_number)
{
    ssize_t n = write(STDERR_FILENO, again, strlen(again));

    (void)n;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void
command_watch(struct command_runs *runs)
{
    signal(SIGABRT, command_ended);
    signal(SIGSEGV, command_ended);
    signal(SIGTERM, command_ended); /* by a user or script that waited too long */
    if (runs->fresh)
        printf("PSD_TEST_SEED=%" PRIu64 "\n", runs->seed);
    fflush(stdout);
    runs->begin = time(NULL);
}

bool
command_goes_on(const struct command_runs *runs, uint64_t done)
{
    return runs->seconds > 0 ? (uint64_t)(time(NULL) - runs->begin) < runs->seconds : done < runs->runs;
}

const char *
command_again(void)
{
    return again;
}

static void
command_add(const char *option, const char *between, const char *value)
{
    again_len += (size_t)snprintf(again + again_len, sizeof again - again_len, " --%s%s%s", option, between, value);
    if (again_len >= sizeof again)
        again_len = sizeof again - 1;
}

void
command_again_begin(uint64_t seed)
{
    again_len = (size_t)snprintf(again, sizeof again, "  %.256s --seed %" PRIu64, program, seed);
}

void
command_again_number(const char *option, uint64_t n)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, n);
    if (n != 0)
        command_add(option, " ", text);
}

void
command_again_word(const char *option, const char *word)
{
    if (word != NULL)
        command_add(option, " ", word);
}

void
command_again_flag(const char *option, bool set)
{
    if (set)
        command_add(option, "", "");
}

void
command_again_end(void)
{
    command_again_word("plant", bug);
    command_add("trace", "", "\n");
}
