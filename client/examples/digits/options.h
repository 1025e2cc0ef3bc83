/* The options of the digits example: the command line, with defaults that train well on the shipped digits. */
#ifndef CLIENT_EXAMPLES_DIGITS_OPTIONS_H
#define CLIENT_EXAMPLES_DIGITS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/cli/command.h"
#include "ps_strategy.h"
#include "psclient.h"

struct digits_options {
    const char *strategy; /* by its name in ps_strategy.h */
    uint64_t replicas;
    enum ps_mode mode;
    uint64_t bound, quorum, min_workers;
    enum ps_lapse lapse;
    enum ps_age age;
    double age_parameter;

    struct ps_optimizer optimizer; /* learning rate filled in */
    struct ps_local_sgd local;     /* zeroed but in local_sgd */
    struct ps_compress compress;   /* of gradients that travel */
    uint64_t epochs, batch, seed;
    const char *layers; /* of the network, all but the last: see model.h */

    const char *device;
    enum ps_precision precision;
    bool device_reduce;
    uint64_t threads, timeout_ms;
    uint32_t lease_ms; /* 0: the usual; no option */
    bool durable;
    const char *checkpoints, *restore; /* NULL: none */
    const char *data;                  /* NULL: the shipped digits */
    const char *may_differ;            /* NULL: nothing */
    const char *job;
    const char *svg; /* "": none */

    int strategy_choice;
    uint64_t local_steps;
    const char *age_text, *optimizer_text, *outer_text, *compress_text, *model; /* as written */
    struct command_line line;                                                   /* what is asked for besides training */
};

extern const struct command digits_command;

/* Borrows argv's strings. A mistake is PS_ERR_INVALID with a sentence that names the option. */
enum ps_err digits_options_parse(int argc, char **argv, struct digits_options *out, struct ps_error *error) PS_MUST_USE;

/* Whether the strategy is one of several workers. */
bool digits_options_need_cluster(const struct digits_options *o);

#endif
