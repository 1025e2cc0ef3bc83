/* The options of the logistic example. */
#ifndef CLIENT_EXAMPLES_LOGISTIC_OPTIONS_H
#define CLIENT_EXAMPLES_LOGISTIC_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cli/command.h"
#include "psclient.h"

#include "ps_data.h"

struct logistic_options {
    const char *train, *held_out; /* LIBSVM files; NULL: the shipped ones */
    enum ps_libsvm_base base;
    uint64_t columns;                      /* 0: as many as the files have */
    const char *optimizer_text, *strategy; /* as written */
    struct ps_optimizer optimizer;
    enum ps_mode mode;
    uint32_t bound; /* ssp */
    uint64_t epochs, batch, seed;
    bool durable, may_differ;
    struct command_line line; /* what is asked for besides training */
};

extern const struct command logistic_command;

/* Borrows argv's strings. A mistake is PS_ERR_INVALID with a sentence that names the option. */
enum ps_err logistic_options_parse(int argc, char **argv, struct logistic_options *out,
                                   struct ps_error *error) PS_MUST_USE;

#endif
