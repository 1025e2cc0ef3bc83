/* getopt does the work; what an option's value means is said beside it. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

const char logistic_help[] =
    "usage: logistic [options]\n"
    "\n"
    "Train a logistic regression on sparse examples through psd. It is a worker: it finds its cluster in the\n"
    "environment (TF_CONFIG, or PSD_SHARDS). To start a cluster for it:\n"
    "    psrun --shards 2 --workers 3 -- logistic [options]\n"
    "\n"
    "  --train FILE        examples in LIBSVM's text format, plain or .gz, with two labels (default: the shipped\n"
    "                      breast cancer data)\n"
    "  --held-out FILE     examples to measure with (default: the shipped ones)\n"
    "  --base BASE         what the files call the first column: 1, 0, or auto (default 1)\n"
    "  --optimizer TEXT    name:parameter=value,... (default ftrl:learning_rate=1,l1=0.5)\n"
    "  --strategy NAME     async, ssp:BOUND or sync (default async)\n"
    "  --epochs N          times that every example is seen (default 100)\n"
    "  --batch N           examples in a step, over all workers together (default 64)\n"
    "  --seed N            of the order of examples (default 1)\n"
    "  --help              this text\n";

static enum ps_err
whole_number(const char *option, const char *text, uint64_t low, uint64_t high, uint64_t *out, struct ps_error *e)
{
    char *end;
    unsigned long long n;

    errno = 0;
    n = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || n < low || n > high)
        return ps_fail(e, PS_ERR_INVALID, "--%s: \"%s\" is not a whole number from %llu to %llu", option, text,
                       (unsigned long long)low, (unsigned long long)high);
    *out = n;
    return PS_OK;
}

static enum ps_err
take_strategy(struct logistic_options *o, const char *text, struct ps_error *e)
{
    uint64_t bound = 0;
    enum ps_err err;

    if (strncmp(text, "ssp:", 4) == 0) {
        if ((err = whole_number("strategy ssp", text + 4, 0, UINT32_MAX, &bound, e)) != PS_OK)
            return err;
        o->mode = PS_SSP;
        o->bound = (uint32_t)bound;
    } else if (strcmp(text, "async") == 0) {
        o->mode = PS_ASYNC;
    } else if (strcmp(text, "sync") == 0) {
        o->mode = PS_SYNC;
    } else {
        return ps_fail(e, PS_ERR_INVALID, "--strategy: \"%s\" is not one of async, ssp:BOUND, sync", text);
    }
    return PS_OK;
}

static enum ps_err
take_base(struct logistic_options *o, const char *text, struct ps_error *e)
{
    static const struct {
        const char *name;
        enum ps_libsvm_base base;
    } bases[] = {{"1", PS_LIBSVM_FROM_1}, {"0", PS_LIBSVM_FROM_0}, {"auto", PS_LIBSVM_DETECT}};

    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++)
        if (strcmp(bases[i].name, text) == 0) {
            o->base = bases[i].base;
            return PS_OK;
        }
    return ps_fail(e, PS_ERR_INVALID, "--base: \"%s\" is not one of 1, 0, auto", text);
}

static enum ps_err
take(struct logistic_options *o, int option, const char *value, struct ps_error *e)
{
    switch (option) {
    case 't':
        o->train = value;
        return PS_OK;
    case 'd':
        o->held_out = value;
        return PS_OK;
    case 'i':
        return take_base(o, value, e);
    case 'o':
        return ps_optimizer_parse(value, &o->optimizer, e);
    case 's':
        return take_strategy(o, value, e);
    case 'e':
        return whole_number("epochs", value, 1, 1000000, &o->epochs, e);
    case 'b':
        return whole_number("batch", value, 1, 1000000, &o->batch, e);
    case 'r':
        return whole_number("seed", value, 0, UINT64_MAX, &o->seed, e);
    default:
        o->help = true;
        return PS_OK;
    }
}

enum ps_err
logistic_options_parse(int argc, char **argv, struct logistic_options *out, struct ps_error *error)
{
    static const struct option names[] = {
        {"train", 1, NULL, 't'},    {"held-out", 1, NULL, 'd'}, {"base", 1, NULL, 'i'},  {"optimizer", 1, NULL, 'o'},
        {"strategy", 1, NULL, 's'}, {"epochs", 1, NULL, 'e'},   {"batch", 1, NULL, 'b'}, {"seed", 1, NULL, 'r'},
        {"help", 0, NULL, 'h'},     {NULL, 0, NULL, 0}};
    struct logistic_options o = {.epochs = 100, .batch = 64, .seed = 1};
    enum ps_err err = ps_optimizer_parse("ftrl:learning_rate=1,l1=0.5", &o.optimizer, error);
    int option;

    opterr = 0;
    while (err == PS_OK && (option = getopt_long(argc, argv, "+:h", names, NULL)) != -1) {
        if (option == ':')
            return ps_fail(error, PS_ERR_INVALID, "%s needs a value", argv[optind - 1]);
        if (option == '?')
            return ps_fail(error, PS_ERR_INVALID, "unknown option %s; --help lists them", argv[optind - 1]);
        err = take(&o, option, optarg, error);
    }
    if (err == PS_OK && optind < argc)
        err = ps_fail(error, PS_ERR_INVALID, "unexpected \"%s\"", argv[optind]);
    if (err == PS_OK && (o.train == NULL) != (o.held_out == NULL))
        err = ps_fail(error, PS_ERR_INVALID, "--train and --held-out are given together, or neither");
    *out = o;
    return err;
}
