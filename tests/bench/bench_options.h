/* What the bench measures, and how much of it: its command line. */
#ifndef TESTS_BENCH_BENCH_OPTIONS_H
#define TESTS_BENCH_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cli/command.h"

/* tiny: does every area work? short: a picture in minutes. full: figures to decide by. */
enum bench_extent { EXTENT_TINY, EXTENT_SHORT, EXTENT_FULL };

struct bench_options {
    int extent; /* of enum bench_extent */
    int64_t rounds;
    double seconds;                   /* of one sample */
    const char *ways, *sizes, *ranks; /* lists; NULL: all */
    const char *congestion, *psd, *psctl, *disk, *json, *svg;
    bool list;

    const char *rates; /* save */
    const char *redis; /* wire, small, roundtrip: the server's program */
    int algorithm;     /* collective, of enum ps_algorithm */
    int64_t segment;
    bool pin;
    const char *mpi, *gloo; /* their teams' programs; NULL: not built */
    int64_t bucket, first;  /* overlap */
    bool sweep, tcp;
    const char *compress;
    int64_t memory; /* optimizers: bytes */

    struct command_line line;
};

/* Status 2 and a sentence when the words are wrong; --help and the like are answered here. False: nothing is to be run,
 * *status is the program's. */
bool bench_options_parse(struct bench_options *s, int argc, char **argv, int *status);

/* May the way of this name be sampled? */
bool bench_options_want(const struct bench_options *s, const char *way);

/* One of the three, by the extent. */
int64_t bench_options_pick(const struct bench_options *s, int64_t tiny, int64_t brief, int64_t full);

/* The numbers of a list, with k, M, G or the binary ones of units.h behind them; at most `most`. Returns how many:
 * those of fallback when the list is NULL. Ends the program with a sentence when it is no such list. */
size_t bench_options_numbers(const char *list, const uint64_t *fallback, size_t fallbacks, uint64_t *out, size_t most);

#endif
