/* What the digits example is told: the command line, with defaults that train well on the shipped digits. */
#ifndef DIGITS_OPTIONS_H
#define DIGITS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "client/psclient.h"
#include "common/cli/command.h"

struct digits_options {
    enum ps_mode mode;
    uint64_t bound, quorum;
    enum ps_lapse lapse;
    enum ps_age age;
    double age_parameter;

    struct ps_optimizer optimizer; /* learning rate filled in */
    uint64_t epochs, batch, seed;
    const char *layers; /* of the network, all but the last: see model.h */

    const char *device;
    uint64_t threads, timeout_ms;
    bool durable;
    const char *data; /* NULL: the shipped digits */
    const char *job;
    const char *svg; /* "": none */

    const char *age_text, *optimizer_text, *model; /* as written */
    struct command_line line;                      /* what is asked for besides training */
};

extern const struct command digits_command;

/* Borrows argv's strings. A mistake is PS_ERR_INVALID with a sentence that names the option. */
enum ps_err digits_options_parse(int argc, char **argv, struct digits_options *out, struct ps_error *error) PS_MUST_USE;

/* "async", "ssp(4)", "sync(2 of 3)". Into text. */
const char *digits_options_strategy(const struct digits_options *o, uint32_t workers, char text[64]);

#endif
