/* What the command lines of both simulators share: words and numbers read strictly, how many seeds are run, bugs that
 * are planted, and the command that repeats a run, printed also when something ends the process in the middle of one.
 *
 *     command_begin(argv[0], usage);
 *     ... getopt_long, command_number(), command_index() ...
 *     command_watch(&runs, seed);
 *     for (i = 0; command_goes_on(&runs, i); i++, seed++) {
 *         command_again_begin(seed); ... command_again_end();
 *         ...
 *         if (failed)
 *             printf("seed %" PRIu64 " failed\n%s", seed, command_again());
 *     }
 *
 * It is compiled into each program, since those with bugs in their cores need another one. */
#ifndef TESTS_SIM_COMMAND_H
#define TESTS_SIM_COMMAND_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* How many runs there are: as many, or, when seconds is not 0, as there is time for. */
struct command_runs {
    uint64_t runs, seconds;
    bool fresh; /* of seeds that nobody has seen, with other faults each time */
    time_t begin;
};

/* Both texts stay the caller's and must live as long as the process. */
void command_begin(const char *program, const char *usage);

/* Where name stands in names, which end with NULL. Ends the process with status 2 when it is not among them. */
int command_index(const char *const *names, const char *name);

/* A whole number up to max. Ends the process with status 2 when text is none. */
uint64_t command_number(const char *text, uint64_t max);

/* A seed by the clock, or PSD_TEST_SEED. Two that follow each other share no seeds. */
uint64_t command_fresh_seed(void);

/* Has the cores make the mistake of this name. Ends the process with status 2 where they have none. */
void command_plant(const char *const *names, const char *name);

/* Prints the usage and ends the process: well when it was asked for. */
_Noreturn void command_usage(bool asked);

/* The runs begin: a fresh seed is told, and what ends the process prints the command that repeats the run. */
void command_watch(struct command_runs *runs, uint64_t seed);
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
