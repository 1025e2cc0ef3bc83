/* For tests of training, from the digits example: its images, its options from a text, the weights of its networks.
 *
 *     digits_load(&data, &held_out);
 *     err = digits_read(&words, &options, &error, "--strategy sync --seed %d", 7);
 *     len = digits_weights(network, FLOATS_MAX, weights);
 *
 * Functions that return nothing fail the running Check test. */
#ifndef TESTS_SYSTEM_DIGITS_KIT_H
#define TESTS_SYSTEM_DIGITS_KIT_H

#include "client/examples/digits/options.h"
#include "tests/training_kit.h"

enum { DIGITS_WORDS_MAX = 48 };

/* The memory that options read from a text borrow. */
struct digits_words {
    char text[512];
    char *argv[DIGITS_WORDS_MAX];
};

/* The options that digits would read from this command line: printf's text, its words apart by one blank. out borrows
 * from words. Options that digits would refuse are an error. */
__attribute__((format(printf, 4, 5))) enum ps_err digits_read(struct digits_words *words, struct digits_options *out,
                                                              struct ps_error *error, const char *format,
                                                              ...) PS_MUST_USE;

/* All values, one parameter after the other: out is [max]. Returns how many there are. */
size_t digits_weights(const ps_network *network, size_t max, float *out);

#endif
