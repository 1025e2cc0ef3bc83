#include "client/examples/logistic/options.h"

#include <string.h>

#define FIELD(field) .offset = offsetof(struct logistic_options, field)

static const struct option_choice bases[] = {
    {"1", PS_LIBSVM_FROM_1}, {"0", PS_LIBSVM_FROM_0}, {"auto", PS_LIBSVM_DETECT}, {NULL, 0}};

static const struct option table[] = {
    {.name = "train",
     .kind = OPTION_FILE,
     .argument = "FILE",
     .usual = "the shipped breast cancer data",
     FIELD(train),
     .help = "examples in LIBSVM's text format, plain or .gz, with two labels"},
    {.name = "held-out",
     .kind = OPTION_FILE,
     .argument = "FILE",
     .usual = "the shipped ones",
     FIELD(held_out),
     .help = "examples to measure with"},
    {.name = "base",
     .kind = OPTION_CHOICE,
     .argument = "BASE",
     .fallback = "1",
     .choices = bases,
     FIELD(base),
     .help = "what the files call the first column: 1, 0, or auto: 0 when one of them has a column 0"},
    {.name = "columns",
     .kind = OPTION_INT,
     .argument = "N",
     .usual = "as the largest index of both files needs, at most 67108864",
     .min = 1,
     .max = PS_SPARSE_COLUMNS_MAX,
     FIELD(columns),
     .help = "columns of the examples, of which files may have fewer"},
    {.name = "optimizer",
     .kind = OPTION_NAME,
     .argument = "TEXT",
     .fallback = "ftrl:learning_rate=1,l1=0.5",
     FIELD(optimizer_text),
     .help = "name:parameter=value,..."},
    {.name = "strategy",
     .kind = OPTION_NAME,
     .argument = "NAME",
     .fallback = "async",
     FIELD(strategy),
     .help = "async, ssp:BOUND or sync"},
    {.name = "epochs",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "100",
     .min = 1,
     .max = 1000000,
     FIELD(epochs),
     .help = "times that every example is seen"},
    {.name = "batch",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "64",
     .min = 1,
     .max = 1000000,
     FIELD(batch),
     .help = "examples in a step, over all workers together"},
    {.name = "seed",
     .kind = OPTION_INT,
     .argument = "N",
     .fallback = "1",
     FIELD(seed),
     .help = "of the order of examples"},
    {.name = "may-differ",
     .kind = OPTION_FLAG,
     FIELD(may_differ),
     .help = "workers may have other data, batches, epochs and seeds than this one; else those that were not started "
             "with the same end with MISMATCH"},
    {.name = "durable",
     .kind = OPTION_FLAG,
     FIELD(durable),
     .help = "a step is done when it is on the shards' disks, where it survives a power loss (psd --durable-dir)"},
};

const struct command logistic_command = {
    .name = "logistic",
    .manual = 1,
    .title = "logistic regression on sparse examples through psd",
    .about = "Train a logistic regression on sparse examples through psd. It is a worker: it finds its cluster in the "
             "environment (TF_CONFIG, or PSD_SHARDS). To start a cluster for it:\n"
             "\n"
             "    psrun --shards 2 --workers 3 -- logistic [options]",
    .options = table,
    .options_len = ARRAY_LEN(table),
};

static enum ps_err
take_strategy(struct logistic_options *o, struct ps_error *e)
{
    static const struct option bound = {.kind = OPTION_INT, .max = UINT32_MAX};
    int64_t n = 0;
    enum ps_err err = PS_OK;

    if (strncmp(o->strategy, "ssp:", 4) == 0) {
        err = option_store(&bound, "--strategy ssp", o->strategy + 4, &n, e);
        o->mode = PS_SSP;
        o->bound = (uint32_t)n;
    } else if (strcmp(o->strategy, "async") == 0) {
        o->mode = PS_ASYNC;
    } else if (strcmp(o->strategy, "sync") == 0) {
        o->mode = PS_SYNC;
    } else {
        err =
            ps_fail(e, PS_ERR_INVALID, "--strategy: expected one of async, ssp:BOUND, sync, got '%.128s'", o->strategy);
    }
    return err;
}

enum ps_err
logistic_options_parse(int argc, char **argv, struct logistic_options *out, struct ps_error *error)
{
    enum ps_err err;

    *out = (struct logistic_options){0};
    err = command_parse(&logistic_command, argc, argv, out, &out->line, error);
    if (err != PS_OK || out->line.asked != COMMAND_RUN)
        return err;
    if ((err = ps_optimizer_parse(out->optimizer_text, &out->optimizer, error)) != PS_OK)
        return err;
    if ((out->train == NULL) != (out->held_out == NULL))
        return ps_fail(error, PS_ERR_INVALID, "--train and --held-out are given together, or neither");
    return take_strategy(out, error);
}
