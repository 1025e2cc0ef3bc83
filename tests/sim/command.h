/* Shared by the command lines of both simulators: options that both have, words and numbers read strictly, how many
 * seeds are run, bugs that are planted, and the command that repeats a run, printed also when something ends the
 * process in the middle of one.
 *
 *     command_begin(&runs, argv[0], usage, bugs);
 *     while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
 *         if (!command_option(&runs, c)) ... command_number(), command_index() ...
 *     command_watch(&runs);
 *     for (i = 0, seed = runs.seed; command_goes_on(&runs, i); i++, seed++) {
 *         command_again_begin(seed); ... command_again_end();
 *         ...
 *         if (failed)
 *             printf("seed %" PRIu64 " failed\n%s", seed, command_again());
 *     }
 *
 * It is compiled into each program, since those with bugs in their cores need another one. */
#ifndef TESTS_SIM_COMMAND_H
#define TESTS_SIM_COMMAND_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* How many runs there are: as many, or, when seconds is not 0, as there is time for. */
struct command_runs {
    uint64_t seed; /* the first */
    uint64_t runs, seconds;
    bool fresh; /* of new seeds, with other faults each time */
    bool trace; /* all lines of a run */
    time_t begin;
};

/* Rows of a struct option that both have. Their letters: F R h p r s t. */
#define COMMAND_OPTIONS                                                                                                \
    {"for", 1, NULL, 'F'}, {"fresh", 1, NULL, 'R'}, {"help", 0, NULL, 'h'}, {"plant", 1, NULL, 'p'},                   \
        {"runs", 1, NULL, 'r'}, {"seed", 1, NULL, 's'},                                                                \
    {                                                                                                                  \
        "trace", 0, NULL, 't'                                                                                          \
    }

/* One run of seed 1, without a trace unless PS_TRACE is set. bugs: that --plant may name, in the order of enum
 * mutation, up to a NULL. The texts stay the caller's and must live as long as the process. */
void command_begin(struct command_runs *runs, const char *program, const char *usage, const char *const *bugs);

/* Takes one of COMMAND_OPTIONS, with its word in optarg. False: c is none of these. */
bool command_option(struct command_runs *runs, int c);

/* Where name stands in names, which end with NULL. Ends the process with status 2 when it is not among them. */
int command_index(const char *const *names, const char *name);

/* A whole number up to max. Ends the process with status 2 when text is none. */
uint64_t command_number(const char *text, uint64_t max);

/* Prints the usage and ends the process: well when it was asked for. */
_Noreturn void command_usage(bool asked);

/* The runs begin: a fresh seed is printed, and whatever ends the process prints the command that repeats the run. */
void command_watch(struct command_runs *runs);
bool command_goes_on(const struct command_runs *runs, uint64_t done);

/* The command that repeats the run under way: begun, options added to it (a number that is not 0, a word that is not
 * NULL, a flag that is set), ended. It borrows nothing. */
void command_again_begin(uint64_t seed);
void command_again_number(const char *option, uint64_t number);
void command_again_word(const char *option, const char *word);
void command_again_flag(const char *option, bool set);
void command_again_end(void);
const char *command_again(void);

#endif
